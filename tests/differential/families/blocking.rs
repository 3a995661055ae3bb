// SPDX-License-Identifier: BSD-3-Clause
//! Commands that may block, with timeouts too short to matter.

use crate::family::Family;

pub const FAMILY: Family =
    Family { name: "blocking", weight: 6, key_prefix: "l", peer: "", templates: TEMPLATES };

const TEMPLATES: &str = r"
(BLPOP | BRPOP) {keys} {blocktime}
BLMOVE {key} {key} (LEFT | RIGHT) (LEFT | RIGHT) {blocktime}
BRPOPLPUSH {key} {key} {blocktime}
BLMPOP {blocktime} {countedkeys} (LEFT | RIGHT) [COUNT {positive}]
(BZPOPMIN | BZPOPMAX) {keys} {blocktime}
BZMPOP {blocktime} {countedkeys} (MIN | MAX) [COUNT {positive}]
XREAD [COUNT {positive}] [BLOCK {blockms}] STREAMS {key} {key} {id} ({id} | $)
2x (LPUSH | RPUSH) {key} {value}+
2x ZADD {key} {score} {member}
";
