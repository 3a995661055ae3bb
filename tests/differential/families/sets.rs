// SPDX-License-Identifier: BSD-3-Clause
//! Commands on sets.

use crate::family::Family;

pub const FAMILY: Family =
    Family { name: "sets", weight: 14, key_prefix: "e", peer: "", templates: TEMPLATES };

const TEMPLATES: &str = r"
4x SADD {key} {member}+
SREM {key} {member}+
SISMEMBER {key} {member}
SMISMEMBER {key} {member}+
SCARD {key}
2x SMEMBERS {key}
SMOVE {key} {key} {member}
2x (SINTER | SUNION | SDIFF) {keys}
2x (SINTERSTORE | SUNIONSTORE | SDIFFSTORE) {key} {keys}
SINTERCARD {countedkeys} [LIMIT {index}]
SRANDMEMBER {key} [{count}]
SPOP {key} [{positive}]
SSCAN {key} 0 %([MATCH {pattern}] [COUNT 1000])
OBJECT ENCODING {key}
SORT {key} [ALPHA]
DEL {key}
";
