// SPDX-License-Identifier: BSD-3-Clause
//! Directives about active-active replication: servers that all take writes.

use crate::directive::Unit;
use crate::rows::LONG_MAX;

super::directives! {
    "Active-active replication", after group;

    /// Take writes beside other servers that do, and merge theirs. `replicaof` names a peer then.
    active_replica: bool => switch("active-replica", false).immutable();

    /// Let REPLICAOF, and each line `replicaof`, add a peer instead of replacing the one before.
    multi_master: bool => switch("multi-master", false).only_with(&["active-replica"]);

    /// Peers of this server, host:port with commas between: it takes from each what it lacks.
    active_peers: text => optional_text("active-peers");

    /// This server's number among those that write, 0 to 63, another one for each. -1 has it chosen
    /// at the first contact; it stays the same from then on.
    active_region: i64 => integer("active-region", || -1, -1, 63, Unit::Plain).immutable();

    /// Milliseconds that a peer's effects may be ahead of this server's clock; they are refused
    /// beyond.
    active_clock_ahead_max_ms: u64 =>
        integer("active-clock-ahead-max", || 60_000, 1, LONG_MAX, Unit::Milliseconds).immutable()
            .only_with(&["active-replica"]);

    /// Milliseconds that a connected peer may be behind, beyond what the line to it takes, before
    /// writes wait for it; 0: they never wait. A peer that is away, or comes back, is not waited
    /// for.
    active_lag_max_ms: u64 =>
        integer("active-lag-max", || 20, 0, LONG_MAX, Unit::Milliseconds)
            .only_with(&["active-replica"]);

    /// Bytes of effects kept in memory for peers; those that lack more are sent them from disk. For
    /// a peer that is there up to eight times as much.
    active_backlog_size: u64 =>
        integer("active-backlog-size", || 16 << 20, 1 << 16, LONG_MAX, Unit::Bytes)
            .only_with(&["active-replica"]);

    /// Bytes of effects kept on disk for peers that were away; those that lack more get a full
    /// copy. 0: all that lack more than is in memory do.
    active_backlog_disk_size: u64 =>
        integer("active-backlog-disk-size", || 1 << 30, 0, LONG_MAX, Unit::Bytes)
            .only_with(&["active-replica"]);
}
