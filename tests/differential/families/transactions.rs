// SPDX-License-Identifier: BSD-3-Clause
//! MULTI and related commands. The generator mixes in all other commands.

use crate::family::Family;

pub const FAMILY: Family =
    Family { name: "transactions", weight: 12, key_prefix: "s", peer: "", templates: TEMPLATES };

const TEMPLATES: &str = r"
5x MULTI
5x EXEC
DISCARD
3x WATCH {keys}
UNWATCH
2x SET {key} {value}
2x INCR {key}
GET {key}
NOSUCHCOMMAND {value}
";
