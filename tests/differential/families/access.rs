// SPDX-License-Identifier: BSD-3-Clause
//! Users and their rules. No client logs in: ACL DRYRUN reports the users' rights.

use crate::family::Family;

pub const FAMILY: Family =
    Family { name: "access", weight: 20, key_prefix: "a", peer: "redis 8", templates: TEMPLATES };

const TEMPLATES: &str = r"
20x ACL SETUSER (u1 | u2) {rule}+
ACL SETUSER (u1 | u2) reset
ACL SETUSER {value}
8x ACL GETUSER (u1 | u2)
ACL GETUSER (default | nosuch | {value})
2x ACL (LIST | USERS | WHOAMI | CAT)
ACL DELUSER (u1 | u2 | nosuch | u1 u2 | default u1)
6x ACL DRYRUN (u1 | u2) (GET | STRLEN | DEL | HGETALL | TYPE | LPOP | OBJECT ENCODING) {key}
3x ACL DRYRUN (u1 | u2) (SET | GETSET | APPEND | RENAME | COPY | LPUSH) {key} {key}
2x ACL DRYRUN (u1 | u2) SET {key} {value} GET
2x ACL DRYRUN (u1 | u2) BITFIELD {key} (GET u4 0 | SET u4 0 1 | GET u4 0 INCRBY u4 0 1)
2x ACL DRYRUN (u1 | u2) (MGET | EXISTS | SINTER | PFCOUNT) {key} {key}
2x ACL DRYRUN (u1 | u2) (EVAL | EVAL_RO) x {int} {key} {key}
ACL DRYRUN (u1 | u2) SORT {key} [BY a*] [GET b*] [STORE {key}]
ACL DRYRUN (u1 | u2) (GEORADIUS {key} 1 2 3 m [STORE {key}] | ZUNIONSTORE {key} 2 {key} {key} | \
    XREAD STREAMS {key} {key} 0 0 | XREADGROUP GROUP g c STREAMS {key} {key} > >)
2x ACL DRYRUN (u1 | u2) (SINTERSTORE | SUNIONSTORE | SDIFFSTORE | PFMERGE | BITOP AND | RPOPLPUSH) {key} {key}
ACL DRYRUN (u1 | u2) (ZRANGESTORE {key} {key} 0 1 | LMOVE {key} {key} LEFT LEFT | SMOVE {key} {key} m | \
    COPY {key} {key} DB 1 REPLACE | GEOSEARCHSTORE {key} {key} FROMLONLAT 1 1 BYRADIUS 1 m | LCS {key} {key})
2x ACL DRYRUN (u1 | u2) (SELECT {int} | CONFIG GET x | CONFIG SET x y | CLIENT ID | CLIENT KILL x | AUTH x | HELLO | \
    PING | MULTI)
ACL DRYRUN (u1 | u2 | nosuch) (GET | GET a b | NOSUCH x | CONFIG | CONFIG NOSUCH | CONFIG GET)
ACL CAT (nosuch | string extra)
ACL GENPASS (0 | -1 | 4097 | {badnumber} | 1 2)
ACL LOG (RESET | {badnumber} | 1 2)
ACL (LOAD | SAVE)
ACL (nosuch | SETUSER | DELUSER | GETUSER | DRYRUN u1 | LIST x | WHOAMI x | HELP x)
CLIENT KILL USER nosuch
";

/// Values of the slot `{rule}`.
pub const RULES: &[&str] = &[
    "on",
    "off",
    "nopass",
    "resetpass",
    ">one",
    "<one",
    ">two",
    "reset",
    "RESET",
    "clearselectors",
    "sanitize-payload",
    "skip-sanitize-payload",
    "allkeys",
    "resetkeys",
    "resetkeys",
    "allchannels",
    "resetchannels",
    "allcommands",
    "nocommands",
    "~a1",
    "~a*",
    "~b*",
    "%R~a*",
    "%W~a*",
    "%RW~b?",
    "%w~a[1-4]",
    "~*",
    "%R~*",
    "&a*",
    "&b",
    "&*",
    "+get",
    "-get",
    "+GeT",
    "+set",
    "-set",
    "+config",
    "-config",
    "+config|get",
    "-config|get",
    "+CONFIG|set",
    "+select|0",
    "+select|1",
    "+client|id",
    "-client|kill",
    "+@read",
    "-@read",
    "+@write",
    "-@write",
    "+@all",
    "-@all",
    "+@hash",
    "-@HASH",
    "+@fast",
    "-@slow",
    "+@admin",
    "-@dangerous",
    "+@string",
    "-@string",
    "+@scripting",
    "-@keyspace",
    "(+get ~a*)",
    "(-@all +@read %R~a*)",
    "(+@all ~* &*)",
    "()",
    "(~a1",
    "( +get",
    "~a2 )",
    "(",
    ")",
    "(+nosuch)",
    "(~* ~a)",
    "(&* &a)",
    "+nosuch",
    "-nosuch",
    "+@nosuch",
    "nosuch",
    "%X~a",
    "%RR~a",
    "+",
    "-",
    "#12",
    "!12",
    "!7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed",
    "#7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed",
    "+get|x|y",
    "+config|get|x",
    "-select|0",
    "+config|nosuch",
    "+select|",
    "~a b",
    "",
];
