// SPDX-License-Identifier: BSD-3-Clause
//! Commands about the server, and their errors.

use crate::family::Family;

pub const FAMILY: Family =
    Family { name: "introspection", weight: 5, key_prefix: "", peer: "", templates: TEMPLATES };

const TEMPLATES: &str = r"
COMMAND COUNT
COMMAND INFO (get | set | mget | bitop | nosuch)
COMMAND LIST FILTERBY (MODULE nosuch | PATTERN xyz* | nosuch x)
COMMAND DOCS nosuch
COMMAND HELP
COMMAND nosuch
CONFIG GET (maxmemory-policy | hash-max-listpack-entries | appendonly | timeout | proto-max-bulk-len | \
    nosuch)
CONFIG GET
CONFIG SET (nosuch 1 | maxmemory-policy nosuch | appendfsync maybe | databases 4)
CONFIG SET (timeout | maxmemory | maxclients | hash-max-listpack-entries) {badnumber}
CONFIG SET
CONFIG nosuch
CONFIG
CONFIG RESETSTAT x
CONFIG REWRITE x
OBJECT
OBJECT ENCODING
MEMORY USAGE {key} [SAMPLES {int}]
MEMORY nosuch
MEMORY HELP
SLOWLOG (LEN | GET {int} | RESET | HELP | nosuch)
LATENCY (LATEST | RESET | HISTORY | HELP | nosuch)
INFO nosuch
TIME
NOSUCH {value}
{value} {value}
XINFO nosuch
XGROUP nosuch
";
