// SPDX-License-Identifier: BSD-3-Clause
//! Commands on HyperLogLogs, which are strings with an internal format: every byte is compared.

use crate::family::Family;

pub const FAMILY: Family =
    Family { name: "hyperloglog", weight: 4, key_prefix: "s", peer: "", templates: TEMPLATES };

const TEMPLATES: &str = r"
4x PFADD {key} {member}+
PFADD {key}
2x PFCOUNT {keys}
PFMERGE {key} {keys}
GET {key}
DEL {key}
";
