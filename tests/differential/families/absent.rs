// SPDX-License-Identifier: BSD-3-Clause
//! Commands that Braid does not have yet; not enabled. A line moves to its own family once its
//! command exists.

use crate::family::Family;

pub const FAMILY: Family =
    Family { name: "absent", weight: 5, key_prefix: "s", peer: "", templates: TEMPLATES };

const TEMPLATES: &str = r"
CLIENT TRACKINGINFO
CLIENT GETREDIR
CLIENT CACHING (yes | no | maybe)
READONLY
READWRITE
ASKING
PUBLISH {channel} {value}
PUBSUB CHANNELS [{pattern}]
PUBSUB NUMSUB {channel}
PUBSUB NUMPAT
ACL (WHOAMI | USERS | nosuch | CAT nosuch | GETUSER nosuch | GENPASS {int} | HELP)
LASTSAVE
FUNCTION nosuch
SCRIPT nosuch
REPLICAOF
FAILOVER nosuch
CLUSTER nosuch
";
