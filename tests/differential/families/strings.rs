// SPDX-License-Identifier: BSD-3-Clause
//! Commands on strings.

use crate::family::Family;

pub const FAMILY: Family =
    Family { name: "strings", weight: 30, key_prefix: "s", peer: "", templates: TEMPLATES };

const TEMPLATES: &str = r"
4x SET {key} {value}
5x SET {key} {value} %([NX | XX] [GET] [EX {seconds} | PX {ms} | EXAT {atseconds} | PXAT {atms} | \
    KEEPTTL])
SET {key} {value} (EX | PX | EXAT | PXAT) {past}
SET {key} {int}
3x GET {key}
2x GETEX {key} [EX {seconds} | PX {ms} | EXAT {atseconds} | PXAT {atms} | PERSIST]
GETEX {key} (EXAT | PXAT) {past}
GETDEL {key}
2x GETSET {key} {value}
2x SETRANGE {key} {offset} {value}
SETRANGE {key} (536870912 | 9223372036854775807) xxxx
2x (GETRANGE | SUBSTR) {key} {index} {index}
GETRANGE {key} {int} {int}
2x APPEND {key} {value}
APPEND {key} {int}
STRLEN {key}
2x (INCR | DECR) {key}
2x (INCRBY | DECRBY) {key} {int}
3x INCRBYFLOAT {key} {float}
MGET {keys}
2x MSET ({key} {value})+
2x MSETNX ({key} {value})+
SETNX {key} {value}
SETEX {key} {seconds} {value}
PSETEX {key} {ms} {value}
(SETEX | PSETEX) {key} {past} {value}
SET {key} {text}
2x LCS {key} {key} %([LEN] [IDX] [MINMATCHLEN {positive}] [WITHMATCHLEN])
DEL {key}
TTL {key}
OBJECT ENCODING {key}
";
