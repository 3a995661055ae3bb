// SPDX-License-Identifier: BSD-3-Clause
//! Directives about primaries and replicas.

use super::checks;
use crate::directive::{Special, Unit};
use crate::enums::{ConfigEnum, PropagationErrorBehavior, ReplCompression, ReplDisklessLoad, SyncLevel};
use crate::rows::{IN_GROUP, INT_MAX, LONG_MAX};

super::directives! {
    "Replication", after persistence;

    /// Host and port of the primary; unset on a primary.
    replicaof: special =>
        special("replicaof", Special::ReplicaOf).aliases(&["slaveof"]).immutable();

    /// User name for authenticating to the primary.
    masteruser: text => optional_text("masteruser").aliases(&["primaryuser"]).secret();

    /// Password for authenticating to the primary.
    masterauth: text => optional_text("masterauth").aliases(&["primaryauth"]).secret();

    /// Serve reads, possibly of stale data, while the connection to the primary is down.
    replica_serve_stale_data: bool =>
        switch("replica-serve-stale-data", true).aliases(&["slave-serve-stale-data"]);

    /// Refuse writes on a replica.
    replica_read_only: bool =>
        switch("replica-read-only", true).aliases(&["slave-read-only"]);

    /// Stream full syncs over the socket without a temporary file.
    repl_diskless_sync: bool => switch("repl-diskless-sync", true);

    /// Seconds to wait for more replicas before a full sync is streamed.
    repl_diskless_sync_delay_seconds: u32 =>
        integer("repl-diskless-sync-delay", || 5, 0, INT_MAX, Unit::Seconds);

    /// Stream a full sync without further delay once this many replicas wait; 0 disables it.
    repl_diskless_sync_max_replicas: u32 =>
        integer("repl-diskless-sync-max-replicas", || 0, 0, INT_MAX, Unit::Plain);

    /// How a replica loads a full sync from the socket: disabled (through a file), on-empty-db,
    /// flush-before-load, or swapdb (keep the old data until the new is complete).
    repl_diskless_load: ReplDisklessLoad =>
        choice("repl-diskless-load", ReplDisklessLoad::Disabled.raw(), ReplDisklessLoad::WORDS)
            .deny_loading();

    /// Send full syncs on a second connection, in parallel with the replication stream. Primary
    /// and replica must both enable it.
    dual_channel_replication_enabled: bool =>
        switch("dual-channel-replication-enabled", false).unlisted_aliases(&["repl-rdb-channel"]);

    /// Seconds between a primary's pings to its replicas.
    repl_ping_replica_period_seconds: u32 =>
        integer("repl-ping-replica-period", || 10, 1, INT_MAX, Unit::Seconds)
        .aliases(&["repl-ping-slave-period"]);

    /// Seconds of silence after which the primary or a replica is considered lost.
    repl_timeout_seconds: u32 => integer("repl-timeout", || 60, 1, INT_MAX, Unit::Seconds);

    /// Let the kernel coalesce small packets to the primary: fewer packets, more delay.
    repl_disable_tcp_nodelay: bool => switch("repl-disable-tcp-nodelay", false);

    /// Use multipath TCP for the connection to the primary. Needs a kernel with MPTCP.
    repl_mptcp: bool => switch("repl-mptcp", false).immutable().beyond_redis();

    /// Bytes of changes kept so that a briefly disconnected replica needs no full sync; at least
    /// 16kb.
    repl_backlog_size: u64 =>
        integer("repl-backlog-size", || 1 << 20, 1, LONG_MAX, Unit::Bytes)
            .integer_check(checks::backlog_size);

    /// A change feed: its name, a pattern of keys, and `keys` or `values`. Each line adds one.
    /// Clients read the changes of these keys as a stream of that name, as far back as
    /// repl-backlog-size reaches.
    change_feeds: special =>
        special("change-feed", Special::ChangeFeed).immutable().beyond_redis();

    /// Seconds without replicas after which a primary frees the backlog; 0 keeps it.
    repl_backlog_ttl_seconds: u64 =>
        integer("repl-backlog-ttl", || 3600, 0, LONG_MAX, Unit::Seconds);

    /// Maximum bytes of changes that a replica buffers while it loads a full sync; 0 means the
    /// limit of its class.
    replica_full_sync_buffer_limit: u64 =>
        integer("replica-full-sync-buffer-limit", || 0, 0, LONG_MAX, Unit::Bytes).no_effect_yet();

    /// Promotion priority of a replica: lower is preferred; 0 disables automatic promotion.
    replica_priority: u32 => integer("replica-priority", || 100, 0, INT_MAX, Unit::Plain)
        .aliases(&["slave-priority"]);

    /// Let Sentinel list this replica.
    replica_announced: bool => switch("replica-announced", true);

    /// Address that a replica announces, for networks with address translation.
    replica_announce_ip: text =>
        optional_text("replica-announce-ip").aliases(&["slave-announce-ip"]).of_one_node();

    /// Port that a replica announces; 0 means its own port.
    replica_announce_port: u16 => integer("replica-announce-port", || 0, 0, 65535, Unit::Plain)
        .aliases(&["slave-announce-port"]).of_one_node();

    /// Do not evict on a replica; its primary does.
    replica_ignore_maxmemory: bool =>
        switch("replica-ignore-maxmemory", true).aliases(&["slave-ignore-maxmemory"]);

    /// Take a full sync from another replica of the primary, and serve one to others. Both
    /// replicas need this setting; Braid servers only.
    repl_sibling_sync: bool => switch("repl-sibling-sync", false);

    /// Request compressed full syncs and a compressed stream from the primary; no effect unless
    /// it is a Braid server.
    repl_compression: ReplCompression =>
        choice("repl-compression", ReplCompression::No.raw(), ReplCompression::WORDS);

    /// Free the old data in the background when a full sync is loaded.
    replica_lazy_flush: bool =>
        switch("replica-lazy-flush", false).aliases(&["slave-lazy-flush"]);

    /// Keep a replica running when it cannot write to disk.
    replica_ignore_disk_write_errors: bool =>
        switch("replica-ignore-disk-write-errors", false).no_effect_yet();

    /// Delay writes while a replica is above half of its output limit, so that it is not
    /// disconnected.
    replica_throttle_writers: bool => switch("replica-throttle-writers", false);

    /// Refuse writes while fewer replicas than this are up to date; 0 disables it.
    min_replicas_to_write: u32 => integer("min-replicas-to-write", || 0, 0, INT_MAX, Unit::Plain)
        .aliases(&["min-slaves-to-write"]);

    /// Maximum lag in seconds of an up-to-date replica; 0 disables min-replicas-to-write.
    min_replicas_max_lag_seconds: u32 => integer("min-replicas-max-lag", || 10, 0, INT_MAX, Unit::Seconds)
        .aliases(&["min-slaves-max-lag"]);

    /// Hold replies until every in-sync replica of the group has the data that they reveal;
    /// CLIENT DURABLE overrides it per connection.
    sync_writes: bool => switch("sync-writes", false);

    /// Refuse synchronous writes while the in-sync set has fewer replicas than this.
    min_sync_replicas: u32 => integer("min-sync-replicas", || 0, 0, INT_MAX, Unit::Plain).only_with(IN_GROUP);

    /// What an in-sync replica acknowledges: memory (received), or disk (fsynced in the
    /// append-only files of the replica and of this server).
    sync_level: SyncLevel => choice("sync-level", SyncLevel::Memory.raw(), SyncLevel::WORDS);

    /// Milliseconds that a reply waits for an in-sync replica before the replica counts as slow
    /// and is removed from the set.
    sync_timeout_ms: u32 =>
        integer("sync-timeout", || 1000, 1, INT_MAX, Unit::Milliseconds).only_with(IN_GROUP);

    /// What a failed command from the primary of a read-only replica, or from the append-only file,
    /// does besides a line in the log: ignore, panic (the server ends), or panic-on-replicas (the
    /// server ends if it came from the primary).
    propagation_error_behavior: PropagationErrorBehavior => choice(
        "propagation-error-behavior",
        PropagationErrorBehavior::Ignore.raw(),
        PropagationErrorBehavior::WORDS,
    );
}

/// Position of `replicaof`.
pub(crate) const REPLICAOF: usize = index_of!(replicaof);
/// Position of `change-feed`.
pub(crate) const CHANGE_FEED: usize = index_of!(change_feeds);
