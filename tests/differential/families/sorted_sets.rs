// SPDX-License-Identifier: BSD-3-Clause
//! Commands on sorted sets.

use crate::family::Family;

pub const FAMILY: Family =
    Family { name: "sorted_sets", weight: 18, key_prefix: "z", peer: "", templates: TEMPLATES };

const TEMPLATES: &str = r"
5x ZADD {key} %([NX | XX] [GT | LT] [CH]) ({score} {member})+
ZADD {key} %([NX | XX] [GT | LT] [CH] INCR) {score} {member}
2x ZINCRBY {key} {score} {member}
ZREM {key} {member}+
ZSCORE {key} {member}
ZMSCORE {key} {member}+
ZCARD {key}
ZCOUNT {key} {scoremin} {scoremax}
ZLEXCOUNT {key} {lexmin} {lexmax}
2x (ZRANK | ZREVRANK) {key} {member}
2x (ZRANGE | ZREVRANGE) {key} {index} {index} [WITHSCORES]
3x ZRANGE {key} ({index} {index} | {scoremin} {scoremax} BYSCORE | {lexmin} {lexmax} BYLEX) %([REV] \
    [LIMIT {index} {index}] [WITHSCORES])
ZRANGESTORE {key} {key} ({index} {index} | {scoremin} {scoremax} BYSCORE | {lexmin} {lexmax} BYLEX) \
    %([REV] [LIMIT {index} {index}])
ZRANGEBYSCORE {key} {scoremin} {scoremax} %([WITHSCORES] [LIMIT {index} {index}])
ZREVRANGEBYSCORE {key} {scoremax} {scoremin} %([WITHSCORES] [LIMIT {index} {index}])
ZRANGEBYLEX {key} {lexmin} {lexmax} [LIMIT {index} {index}]
ZREVRANGEBYLEX {key} {lexmax} {lexmin} [LIMIT {index} {index}]
ZREMRANGEBYRANK {key} {index} {index}
ZREMRANGEBYSCORE {key} {scoremin} {scoremax}
ZREMRANGEBYLEX {key} {lexmin} {lexmax}
2x (ZPOPMIN | ZPOPMAX) {key} [{positive}]
ZMPOP {countedkeys} (MIN | MAX) [COUNT {positive}]
2x (ZUNION | ZINTER) {countedkeys} %([WEIGHTS {score} {score}] [AGGREGATE (SUM | MIN | MAX)] [WITHSCORES])
2x (ZUNIONSTORE | ZINTERSTORE) {key} {countedkeys} %([WEIGHTS {score} {score}] [AGGREGATE (SUM | MIN | \
    MAX)])
ZDIFF {countedkeys} [WITHSCORES]
ZDIFFSTORE {key} {countedkeys}
ZINTERCARD {countedkeys} [LIMIT {index}]
ZRANDMEMBER {key} [{count} [WITHSCORES]]
ZSCAN {key} 0 %([MATCH {pattern}] [COUNT 1000])
OBJECT ENCODING {key}
DEL {key}
";
