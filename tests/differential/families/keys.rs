// SPDX-License-Identifier: BSD-3-Clause
//! Commands on keys of every type.

use crate::family::Family;

pub const FAMILY: Family =
    Family { name: "keys", weight: 22, key_prefix: "", peer: "", templates: TEMPLATES };

const TEMPLATES: &str = r"
2x (DEL | UNLINK) {keys}
2x EXISTS {keys}
2x TYPE {key}
2x (RENAME | RENAMENX) {key} {key}
3x COPY {key} {key} %([DB {db}] [REPLACE])
2x MOVE {key} {db}
SWAPDB {db} {db}
2x SELECT {db}
SELECT 0
2x DBSIZE
KEYS {pattern}
TOUCH {keys}
4x EXPIRE {key} {seconds} [NX | XX | GT | LT]
2x PEXPIRE {key} {ms} [NX | XX | GT | LT]
2x EXPIREAT {key} {atseconds} [NX | XX | GT | LT]
2x PEXPIREAT {key} {atms} [NX | XX | GT | LT]
EXPIRE {key} {seconds} (NX | XX | GT | LT)+
(EXPIRE | PEXPIRE | EXPIREAT | PEXPIREAT) {key} {past} [NX | XX | GT | LT]
2x PERSIST {key}
4x (TTL | PTTL | EXPIRETIME | PEXPIRETIME) {key}
2x OBJECT ENCODING {key}
OBJECT (REFCOUNT | IDLETIME | FREQ | nosuch) {key}
OBJECT HELP
RANDOMKEY
2x SCAN 0 %([MATCH {pattern}] COUNT 1000 [TYPE {typename}])
SCAN {int} [COUNT {positive}]
2x SET {key} {value}
SET {key} {value} EX {seconds}
RPUSH {key} {value}
HSET {key} {field} {value}
SADD {key} {member}
ZADD {key} {score} {member}
4x RESTORE {key} (0 | {ms}) {payload} %([REPLACE] [FREQ {int}])
RESTORE {key} {atms} {payload} ABSTTL [REPLACE]
RESTORE {key} {past} {payload} %([REPLACE] [ABSTTL] [IDLETIME {badnumber}] [FREQ {int}])
RESTORE {key} 0 {value} [REPLACE]
SORT {key} %([BY (w_* | nosort)] [LIMIT 0 100] [GET (# | w_*)] [ASC | DESC] [ALPHA])
SORT {key} %([LIMIT {index} {index}] [ASC | DESC] ALPHA [STORE {key}])
SORT_RO {key} ALPHA
(FLUSHDB | FLUSHALL) [SYNC | ASYNC | {value}]
";
