// SPDX-License-Identifier: BSD-3-Clause
//! Commands on lists.

use crate::family::Family;

pub const FAMILY: Family =
    Family { name: "lists", weight: 14, key_prefix: "l", peer: "", templates: TEMPLATES };

const TEMPLATES: &str = r"
3x (LPUSH | RPUSH) {key} {value}+
(LPUSHX | RPUSHX) {key} {value}+
2x (LPOP | RPOP) {key} [{positive}]
LLEN {key}
2x LRANGE {key} {index} {index}
LRANGE {key} {int} {int}
LINDEX {key} {index}
LSET {key} {index} {value}
LINSERT {key} (BEFORE | AFTER) {value} {value}
LREM {key} {index} {value}
LTRIM {key} {index} {index}
2x LPOS {key} {value} %([RANK {index}] [COUNT {positive}] [MAXLEN {positive}])
2x LMOVE {key} {key} (LEFT | RIGHT) (LEFT | RIGHT)
RPOPLPUSH {key} {key}
2x LMPOP {countedkeys} (LEFT | RIGHT) [COUNT {positive}]
SORT {key} %([ALPHA] [ASC | DESC] [LIMIT {index} {index}])
OBJECT ENCODING {key}
DEL {key}
";
