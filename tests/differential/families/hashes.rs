// SPDX-License-Identifier: BSD-3-Clause
//! Commands on hashes.

use crate::family::Family;

pub const FAMILY: Family =
    Family { name: "hashes", weight: 14, key_prefix: "h", peer: "", templates: TEMPLATES };

const TEMPLATES: &str = r"
4x HSET {key} ({field} {value})+
HMSET {key} ({field} {value})+
HSETNX {key} {field} {value}
2x HGET {key} {field}
HMGET {key} {field}+
2x HDEL {key} {field}+
HLEN {key}
HSTRLEN {key} {field}
HEXISTS {key} {field}
2x HGETALL {key}
(HKEYS | HVALS) {key}
2x HINCRBY {key} {field} {int}
2x HINCRBYFLOAT {key} {field} {float}
HRANDFIELD {key} [{count} [WITHVALUES]]
HSCAN {key} 0 %([MATCH {pattern}] [COUNT 1000])
OBJECT ENCODING {key}
DEL {key}
";
