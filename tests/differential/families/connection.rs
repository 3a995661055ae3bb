// SPDX-License-Identifier: BSD-3-Clause
//! Commands about the connection itself.

use crate::family::Family;

pub const FAMILY: Family =
    Family { name: "connection", weight: 5, key_prefix: "s", peer: "", templates: TEMPLATES };

const TEMPLATES: &str = r"
2x PING [{value}]
2x ECHO {value}
2x SELECT {db}
HELLO [{int}]
HELLO (2 | 3) [SETNAME {field}]
HELLO 3 AUTH default {value}
AUTH {value} [{value}]
CLIENT SETNAME ({field} | {value})
2x CLIENT GETNAME
CLIENT ID
CLIENT INFO
CLIENT NO-EVICT (on | off | maybe)
CLIENT UNPAUSE
CLIENT UNBLOCK {int} [TIMEOUT | ERROR | nosuch]
CLIENT KILL (ID 999999999 | 1.2.3.4:5 | TYPE nosuch | ADDR | USER nosuch | SKIPME maybe)
CLIENT REPLY nosuch
CLIENT HELP
CLIENT nosuch
CLIENT
RESET
";
