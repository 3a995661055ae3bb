//! Commands about the server, and their errors.

use crate::families::Family;

pub const FAMILY: Family =
    Family { name: "introspection", weight: 5, key_prefix: "", peer: "", templates: TEMPLATES };

const TEMPLATES: &str = r"
COMMAND COUNT
COMMAND INFO (get | set | mget | bitop | client | nosuch)
COMMAND GETKEYS (SET {key} {value} | MSET {key} {value} {key} {value} | GET {key} | PING | nosuch a | \
    GET | COPY {key} {key})
COMMAND GETKEYS {value} {value}
COMMAND GETKEYSANDFLAGS (SET {key} {value} | COPY {key} {key} | MGET {keys} | PING)
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
CONFIG HELP
CONFIG nosuch
CONFIG
CONFIG RESETSTAT x
CONFIG REWRITE x
OBJECT
OBJECT ENCODING
DEBUG nosuch
DEBUG
MEMORY USAGE {key} [SAMPLES {int}]
MEMORY nosuch
MEMORY HELP
SLOWLOG (LEN | GET {int} | RESET | HELP | nosuch)
LATENCY (LATEST | RESET | HISTORY | HELP | nosuch)
ACL (WHOAMI | USERS | nosuch | CAT nosuch | GETUSER nosuch | GENPASS {int} | HELP)
INFO nosuch
TIME
LASTSAVE
LOLWUT {value}
NOSUCH {value}
{value} {value}
FUNCTION nosuch
SCRIPT nosuch
XINFO nosuch
XGROUP nosuch
REPLICAOF
FAILOVER nosuch
CLUSTER nosuch
";
