// SPDX-License-Identifier: BSD-3-Clause
//! Commands and options that a distribution's stock server does not have yet, each with the peer
//! that does.

use crate::family::Family;

/// Options and commands introduced by Valkey 8.1 to 9.1.
pub const VALKEY: Family = Family {
    name: "newer-valkey",
    weight: 20,
    key_prefix: "s",
    peer: "valkey 9",
    templates: VALKEY_TEMPLATES,
};

/// No polygon has its centre within five degrees of a pole: there Valkey's replies depend on
/// uninitialized memory.
const VALKEY_TEMPLATES: &str = r"
4x SET {key} {value}
4x SET {key} {text} %([IFEQ {text}] [GET] [EX {seconds} | PX {ms} | KEEPTTL])
SET {key} {text} %([IFEQ {text}] [NX | XX] [GET])
3x DELIFEQ {key} {text}
2x MSETEX 1 {key} {value} %([NX | XX] [EX {seconds} | PX {ms} | EXAT {atseconds} | PXAT {atms} | KEEPTTL])
2x MSETEX 2 {key} {value} {key} {value} %([NX | XX] [EX {seconds} | PX {ms} | KEEPTTL])
MSETEX {int} {key} {value}
TTL {key}
SET {key} {text}
GET {key}
CLIENT CAPA (redirect | {field})+
WAITAOF (0 | 1 | 2 | -1 | {value}) (0 | -1 | {field}) (0 | 1 | -1 | {field})
3x GEOADD (z1 | z2) ({longitude} {latitude} {place})+
4x GEOSEARCH (z1 | z2) %((BYPOLYGON 4 12 37 12 39 16 39 16 37 | BYPOLYGON 5 -130 -60 -130 80 0 10 150 80 \
    150 -60 | BYPOLYGON 5 80 0 70 -20 {longitude} {latitude} {longitude} {latitude} {longitude} {latitude}) \
    [ASC | DESC] [COUNT {positive} [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH])
2x GEOSEARCHSTORE z3 (z1 | z2) %((BYPOLYGON 4 12 37 12 39 16 39 16 37 | BYPOLYGON 3 -130 -60 0 80 150 \
    -60) [ASC | DESC] [COUNT {positive} [ANY]] [STOREDIST])
GEOSEARCH (z1 | z2) BYPOLYGON {int} ({longitude} {latitude})+ (FROMLONLAT {longitude} {latitude} | \
    BYRADIUS {radius} {unit})
ZRANGE (z1 | z2 | z3) 0 -1 WITHSCORES
DEL (z1 | z2 | z3)
";

/// Options and commands introduced by Redis 8.
pub const REDIS: Family =
    Family { name: "newer-redis", weight: 20, key_prefix: "z", peer: "redis 8", templates: REDIS_TEMPLATES };

const REDIS_TEMPLATES: &str = r"
CLIENT SETINFO (LIB-NAME | LIB-VER | nosuch) ({field} | {value})
(ZRANK | ZREVRANK) {key} {member} WITHSCORE
4x ZADD {key} {score} {member}
CLIENT NO-TOUCH (on | off | maybe)
COMMAND INFO (WAIT | WAITAOF)
WAITAOF (0 | 1 | 2 | -1 | {value}) (0 | -1 | {field}) (0 | 1 | -1 | {field})
SCAN 0 TYPE nosuch
";

/// Reads of a stream's last entry only, as in Redis 8.
pub const STREAMS: Family = Family {
    name: "newer-streams",
    weight: 20,
    key_prefix: "x",
    peer: "redis 8",
    templates: STREAM_TEMPLATES,
};

const STREAM_TEMPLATES: &str = r"
4x XADD {key} {id} {field} {value}
XDEL {key} {id}+
XTRIM {key} MAXLEN {positive}
XREAD [COUNT {positive}] STREAMS {key} +
XREAD [COUNT {positive}] STREAMS {key} {key} ({id} | +) (+ | $)
XREAD BLOCK {blockms} STREAMS {key} {key} + ({id} | +)
XGROUP CREATE {key} {group} (0 | $)
XREADGROUP GROUP {group} {consumer} STREAMS {key} (+ | >)
DEL {key}
";

/// Hash fields with an expiry of their own.
pub const HASH_EXPIRY: Family = Family {
    name: "hash-expiry",
    weight: 20,
    key_prefix: "h",
    peer: "redis 8",
    templates: HASH_EXPIRY_TEMPLATES,
};

/// The same commands against Valkey, some of whose replies differ.
pub const HASH_EXPIRY_VALKEY: Family = Family {
    name: "hash-expiry-valkey",
    weight: 20,
    key_prefix: "h",
    peer: "valkey 9",
    templates: HASH_EXPIRY_TEMPLATES,
};

const HASH_EXPIRY_TEMPLATES: &str = r"
4x HSET {key} ({field} {value})+
2x HEXPIRE {key} {seconds} [NX | XX | GT | LT] FIELDS 1 {field}
2x HPEXPIRE {key} {ms} [NX | XX | GT | LT] FIELDS 2 {field} {field}
HEXPIREAT {key} {atseconds} FIELDS 1 {field}
HPEXPIREAT {key} {atms} FIELDS 1 {field}
(HEXPIRE | HPEXPIRE) {key} {past} FIELDS 1 {field}
2x (HTTL | HPTTL | HEXPIRETIME | HPEXPIRETIME) {key} FIELDS (1 {field} | 2 {field} {field})
2x HPERSIST {key} FIELDS 1 {field}
2x HGETEX {key} [EX {seconds} | PX {ms} | EXAT {atseconds} | PERSIST] FIELDS 1 {field}
2x HSETEX {key} [FNX | FXX] [EX {seconds} | PX {ms} | KEEPTTL] FIELDS 1 {field} {value}
HGETDEL {key} FIELDS (1 {field} | 2 {field} {field})
HGETALL {key}
HLEN {key}
DEL {key}
";
