// SPDX-License-Identifier: BSD-3-Clause
//! Commands on streams. IDs are always explicit, because generated ones would differ.

use crate::family::Family;

pub const FAMILY: Family =
    Family { name: "streams", weight: 16, key_prefix: "x", peer: "", templates: TEMPLATES };

const TEMPLATES: &str = r"
6x XADD {key} [NOMKSTREAM] [MAXLEN [= | ~] {positive} | MINID [= | ~] {id}] {id} ({field} {value})+
XADD {key} MAXLEN ~ {positive} LIMIT {positive} {id} {field} {value}
XLEN {key}
2x XRANGE {key} {rangeid} {rangeid} [COUNT {positive}]
XREVRANGE {key} {rangeid} {rangeid} [COUNT {positive}]
XDEL {key} {id}+
XTRIM {key} (MAXLEN | MINID) [= | ~] {positive} [LIMIT {positive}]
XREAD [COUNT {positive}] STREAMS {key} {id}
XREAD [COUNT {positive}] STREAMS {key} {key} {id} ({id} | $)
2x XGROUP CREATE {key} {group} ({id} | $ | 0) %([MKSTREAM] [ENTRIESREAD {int}])
XGROUP SETID {key} {group} ({id} | $) [ENTRIESREAD {int}]
XGROUP DESTROY {key} {group}
XGROUP CREATECONSUMER {key} {group} {consumer}
XGROUP DELCONSUMER {key} {group} {consumer}
3x XREADGROUP GROUP {group} {consumer} [COUNT {positive}] [NOACK] STREAMS {key} (> | {id} | 0)
XREADGROUP GROUP {group} {consumer} [COUNT {positive}] BLOCK {blockms} [NOACK] STREAMS {key} {key} (> | {id}) >
2x XACK {key} {group} {id}+
2x XPENDING {key} {group} [[IDLE {past}] {rangeid} {rangeid} {positive} [{consumer}]]
2x XCLAIM {key} {group} {consumer} {past} {id}+ %([IDLE {positive}] [RETRYCOUNT {positive}] [FORCE] \
    [JUSTID] [LASTID {id}])
XAUTOCLAIM {key} {group} {consumer} {past} {id} %([COUNT {positive}] [JUSTID])
XINFO STREAM {key} [FULL [COUNT {positive}]]
XINFO GROUPS {key}
XINFO CONSUMERS {key} {group}
XSETID {key} {id} [ENTRIESADDED {int}] [MAXDELETEDID {id}]
OBJECT ENCODING {key}
DEL {key}
";
