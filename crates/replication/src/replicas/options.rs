// SPDX-License-Identifier: BSD-3-Clause
//! Options that a replica sends before its full sync or stream.

use braid_group::MemberId;

/// Capability of Braid servers (`repl-sibling-sync`): the replica serves full syncs to others.
pub const SIBLING: &str = "sibling";

/// Capability of Braid servers: the replica accepts a full sync from another replica if the reply
/// to PSYNC is `+SIBLING <host> <port>`. It requests it there by `REPLCONF rdb-only 1`, and
/// returns for the stream after the full sync.
pub const SIBLING_SYNC: &str = "sibling-sync";

/// Capability of Braid servers: empty lines between the units of a stream keep the link alive and
/// do not count in its offset. Other servers count them, so they must never be sent any.
pub const KEEPALIVE: &str = "keepalive";

/// Which forms of values a replica reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reads {
    /// All of Braid's: it is Braid, or stores the full sync as a file.
    Own,
    /// Those of Valkey 9: also expiring hash fields.
    Valkey9,
    /// Those of Redis 7.0. It may be newer, but has not said so.
    Unstated,
}

/// The parts of the dataset in a full sync.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filter {
    pub keys: bool,
    pub functions: bool,
}

/// The options a replica sends (REPLCONF) before it requests changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplicaOptions {
    /// The port that it listens on; 0 if unknown.
    pub port: u16,
    /// Its address, if different from that of the connection.
    pub ip: String,
    /// It detects the end of a full sync by a mark.
    pub eof: bool,
    /// It accepts a new replication ID with `+CONTINUE`.
    pub psync2: bool,
    /// It accepts compression ([`crate::blocks`]).
    pub compressed: bool,
    /// It does not count empty lines of the stream ([`KEEPALIVE`]): it is Braid.
    pub keepalive: bool,
    /// The major version of Valkey whose files it says it reads; 0 if unknown.
    pub valkey: u16,
    /// It serves full syncs to other replicas ([`SIBLING`]).
    pub sibling: bool,
    /// It accepts a full sync from another replica ([`SIBLING_SYNC`]).
    pub takes_sibling: bool,
    /// It wants a full sync and no changes.
    pub rdb_only: bool,
    /// It accepts a full sync on a second connection.
    pub dual_channel: bool,
    /// This is the second connection.
    pub rdb_channel: bool,
    /// The client ID of the second connection, if there is one.
    pub rdb_client: Option<u64>,
    pub filter: Filter,
    /// The group member, and the epoch under which it follows this server.
    pub member: Option<(MemberId, u64)>,
}

impl ReplicaOptions {
    /// Whether it is a server other than Braid that wants changes.
    pub fn is_other(&self) -> bool {
        !self.keepalive && !self.rdb_only
    }

    /// The forms of values that it reads.
    pub fn reads(&self) -> Reads {
        if self.keepalive || self.rdb_only && !self.rdb_channel {
            Reads::Own
        } else if self.valkey >= 9 {
            Reads::Valkey9
        } else {
            Reads::Unstated
        }
    }

    /// Whether it continues from the full sync's offset, on this connection or another.
    pub fn needs_offset(&self) -> bool {
        !self.rdb_only || self.sibling || self.rdb_channel
    }
}

impl Filter {
    /// The whole dataset.
    pub const ALL: Filter = Filter { keys: true, functions: true };
}

impl Default for ReplicaOptions {
    fn default() -> ReplicaOptions {
        ReplicaOptions {
            port: 0,
            ip: String::new(),
            eof: false,
            psync2: false,
            compressed: false,
            keepalive: false,
            valkey: 0,
            sibling: false,
            takes_sibling: false,
            rdb_only: false,
            dual_channel: false,
            rdb_channel: false,
            rdb_client: None,
            filter: Filter::ALL,
            member: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_that_replicas_read() {
        let of = |keepalive, rdb_only, rdb_channel, valkey| {
            ReplicaOptions { keepalive, rdb_only, rdb_channel, valkey, ..ReplicaOptions::default() }.reads()
        };
        assert_eq!(of(true, false, false, 9), Reads::Own, "Braid");
        assert_eq!(of(true, true, true, 9), Reads::Own, "Braid's second connection");
        assert_eq!(of(false, true, false, 0), Reads::Own, "redis-cli --rdb");
        assert_eq!(of(false, false, false, 9), Reads::Valkey9);
        assert_eq!(of(false, true, true, 9), Reads::Valkey9, "Valkey's second connection");
        assert_eq!(of(false, false, false, 8), Reads::Unstated, "Valkey 8");
        assert_eq!(of(false, false, false, 0), Reads::Unstated, "Redis");
    }
}
