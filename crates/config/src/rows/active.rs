// SPDX-License-Identifier: BSD-3-Clause
//! Directives about active-active replication: servers that all accept writes.

use crate::directive::Unit;
use crate::rows::LONG_MAX;

super::directives! {
    "Active-active replication", after group;

    /// Accept writes concurrently with other servers and merge theirs; `replicaof` then names a
    /// peer.
    active_replica: bool => switch("active-replica", false).immutable().beyond_redis();

    /// Make REPLICAOF, and each `replicaof` line, add a peer instead of replacing the previous
    /// one.
    multi_master: bool => switch("multi-master", false).only_with(&["active-replica"]);

    /// Comma-separated host:port list of the peers from which this server pulls changes.
    active_peers: text => optional_text("active-peers");

    /// Number of this server, 0 to 63, unique among the servers that accept writes. -1 chooses a
    /// free one at the first contact with a peer; it never changes afterwards.
    active_region: i64 => integer("active-region", || -1, -1, 63, Unit::Plain).immutable().beyond_redis();

    /// Maximum milliseconds that a peer's effects may be ahead of this server's clock; effects
    /// further ahead are refused.
    active_clock_ahead_max_ms: u64 =>
        integer("active-clock-ahead-max", || 60_000, 1, LONG_MAX, Unit::Milliseconds)
            .only_with(&["active-replica"]);

    /// Maximum lag of a connected peer in milliseconds, excluding network delay, before writes
    /// wait for it; 0 disables the wait. Disconnected peers, and peers that are catching up, are
    /// not waited for. With any value writes wait before this server is a quarter of a second late
    /// in logging them.
    active_lag_max_ms: u64 =>
        integer("active-lag-max", || 20, 0, LONG_MAX, Unit::Milliseconds)
            .only_with(&["active-replica"]);

    /// Bytes of effects kept in memory for peers; peers that lack older effects get them from
    /// disk. Up to eight times as much is kept for a connected peer.
    active_backlog_size: u64 =>
        integer("active-backlog-size", || 16 << 20, 1 << 16, LONG_MAX, Unit::Bytes)
            .only_with(&["active-replica"]);

    /// Bytes of effects kept on disk for disconnected peers; peers that lack older effects get a
    /// full copy. 0 keeps effects in memory only.
    active_backlog_disk_size: u64 =>
        integer("active-backlog-disk-size", || 1 << 30, 0, LONG_MAX, Unit::Bytes)
            .only_with(&["active-replica"]);
}
