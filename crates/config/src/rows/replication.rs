// SPDX-License-Identifier: BSD-3-Clause
//! Directives about masters and replicas.

use super::checks;
use crate::directive::{Special, Unit};
use crate::enums::{ConfigEnum, PropagationErrorBehavior, ReplCompression, ReplDisklessLoad, SyncLevel};
use crate::rows::{IN_GROUP, INT_MAX, LONG_MAX};

super::directives! {
    "Replication", after persistence;

    /// Master of this server: host and port. Not set on a master.
    replicaof: special =>
        special("replicaof", Special::ReplicaOf).aliases(&["slaveof"]).immutable();

    /// User with which to log in at the master.
    masteruser: text => optional_text("masteruser").aliases(&["primaryuser"]).secret();

    /// Password with which to log in at the master.
    masterauth: text => optional_text("masterauth").aliases(&["primaryauth"]).secret();

    /// Answer reads while the connection to the master is lost, with data that may be old.
    replica_serve_stale_data: bool =>
        switch("replica-serve-stale-data", true).aliases(&["slave-serve-stale-data"]);

    /// Refuse writes on a replica.
    replica_read_only: bool =>
        switch("replica-read-only", true).aliases(&["slave-read-only"]);

    /// Send full syncs over the socket without a file.
    repl_diskless_sync: bool => switch("repl-diskless-sync", true);

    /// Seconds to wait for more replicas before a full sync is sent over the socket.
    repl_diskless_sync_delay_seconds: u32 =>
        integer("repl-diskless-sync-delay", || 5, 0, INT_MAX, Unit::Seconds);

    /// Do not wait longer once this many replicas are there; 0 means no such number.
    repl_diskless_sync_max_replicas: u32 =>
        integer("repl-diskless-sync-max-replicas", || 0, 0, INT_MAX, Unit::Plain);

    /// How a replica loads a copy that comes over the socket: disabled (through a file),
    /// on-empty-db, flush-before-load, or
    /// swapdb (keep the old data until the new is complete).
    repl_diskless_load: ReplDisklessLoad =>
        choice("repl-diskless-load", ReplDisklessLoad::Disabled.raw(), ReplDisklessLoad::WORDS)
            .deny_loading();

    /// Send a full sync on a second connection while the stream of changes goes on.
    dual_channel_replication_enabled: bool =>
        switch("dual-channel-replication-enabled", false);

    /// Seconds between a master's pings to its replicas.
    repl_ping_replica_period_seconds: u32 =>
        integer("repl-ping-replica-period", || 10, 1, INT_MAX, Unit::Seconds)
        .aliases(&["repl-ping-slave-period"]);

    /// Seconds of silence after which master or replica counts as lost.
    repl_timeout_seconds: u32 => integer("repl-timeout", || 60, 1, INT_MAX, Unit::Seconds);

    /// Let the kernel collect small packets to replicas: fewer packets, more delay.
    repl_disable_tcp_nodelay: bool => switch("repl-disable-tcp-nodelay", false);

    /// Reach the master over several network paths (multipath TCP).
    repl_mptcp: bool => switch("repl-mptcp", false).immutable().beyond_redis().no_effect_yet();

    /// Bytes of changes kept so that a replica that was away briefly needs no full sync.
    repl_backlog_size: u64 =>
        integer("repl-backlog-size", || 1 << 20, 1, LONG_MAX, Unit::Bytes)
            .integer_check(checks::backlog_size);

    /// Seconds without any replica after which those changes are dropped; 0 keeps them.
    repl_backlog_ttl_seconds: u64 =>
        integer("repl-backlog-ttl", || 3600, 0, LONG_MAX, Unit::Seconds);

    /// Most changes that a replica stores up while it loads a full sync; 0 takes the limit of its
    /// class.
    replica_full_sync_buffer_limit: u64 =>
        integer("replica-full-sync-buffer-limit", || 0, 0, LONG_MAX, Unit::Bytes).no_effect_yet();

    /// Preference when a new master is chosen: lower goes first, 0 never.
    replica_priority: u32 => integer("replica-priority", || 100, 0, INT_MAX, Unit::Plain)
        .aliases(&["slave-priority"]);

    /// Let monitors see this replica.
    replica_announced: bool => switch("replica-announced", true);

    /// Address that a replica says it has, where the network translates addresses.
    replica_announce_ip: text =>
        optional_text("replica-announce-ip").aliases(&["slave-announce-ip"]).of_one_node();

    /// Port that a replica says it has; 0 means its real one.
    replica_announce_port: u16 => integer("replica-announce-port", || 0, 0, 65535, Unit::Plain)
        .aliases(&["slave-announce-port"]).of_one_node();

    /// Leave eviction on a replica to its master.
    replica_ignore_maxmemory: bool =>
        switch("replica-ignore-maxmemory", true).aliases(&["slave-ignore-maxmemory"]);

    /// Take a full sync from another replica of the primary, and serve one to others (Braid
    /// servers).
    repl_sibling_sync: bool => switch("repl-sibling-sync", false);

    /// Ask a primary that is a Braid server to compress full sync and stream.
    repl_compression: ReplCompression =>
        choice("repl-compression", ReplCompression::No.raw(), ReplCompression::WORDS);

    /// Free the old data in the background before a full sync is loaded.
    replica_lazy_flush: bool =>
        switch("replica-lazy-flush", false).aliases(&["slave-lazy-flush"]);

    /// Let a replica go on when it cannot write to disk.
    replica_ignore_disk_write_errors: bool =>
        switch("replica-ignore-disk-write-errors", false).no_effect_yet();

    /// Have writes wait for a replica that is at half of its output limit, so that it is not
    /// disconnected.
    replica_throttle_writers: bool => switch("replica-throttle-writers", false);

    /// Refuse writes when fewer replicas than this are up to date; 0 never refuses.
    min_replicas_to_write: u32 => integer("min-replicas-to-write", || 0, 0, INT_MAX, Unit::Plain)
        .aliases(&["min-slaves-to-write"]);

    /// Seconds of delay up to which a replica counts as up to date.
    min_replicas_max_lag_seconds: u32 => integer("min-replicas-max-lag", || 10, 0, INT_MAX, Unit::Seconds)
        .aliases(&["min-slaves-max-lag"]);

    /// Hold replies until every in-sync replica of the group has what they reveal; CLIENT DURABLE
    /// decides for a connection.
    sync_writes: bool => switch("sync-writes", false);

    /// Refuse writes whose replies would wait when the in-sync set has fewer replicas than this.
    min_sync_replicas: u32 => integer("min-sync-replicas", || 0, 0, INT_MAX, Unit::Plain).only_with(IN_GROUP);

    /// What an in-sync replica acknowledges: memory (it has it), or disk (its append-only file and
    /// this server's have it).
    sync_level: SyncLevel => choice("sync-level", SyncLevel::Memory.raw(), SyncLevel::WORDS);

    /// Milliseconds that a reply waits for an in-sync replica before that counts as slow, and is
    /// removed from the set.
    sync_timeout_ms: u32 =>
        integer("sync-timeout", || 1000, 1, INT_MAX, Unit::Milliseconds).only_with(IN_GROUP);

    /// What to do when a command from the master or the append-only file fails: ignore, panic, or
    /// panic-on-replicas.
    propagation_error_behavior: PropagationErrorBehavior => choice(
        "propagation-error-behavior",
        PropagationErrorBehavior::Ignore.raw(),
        PropagationErrorBehavior::WORDS,
    ).no_effect_yet();
}

/// Position of `replicaof`.
pub(crate) const REPLICAOF: usize = index_of!(replicaof);
