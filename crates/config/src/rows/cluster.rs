// SPDX-License-Identifier: BSD-3-Clause
//! Directives about the cluster.

use super::checks;
use crate::directive::Unit;
use crate::enums::{ClusterConfigSaveBehavior, ClusterEndpointType, ConfigEnum};
use crate::rows::{IN_CLUSTER, INT_MAX, LONG_MAX, ULONG_MAX};

super::directives! {
    "Cluster", after active;

    /// Serve the Redis Cluster protocol. Without cluster-name, the server is a one-node cluster
    /// that owns all 16384 slots.
    cluster_enabled: bool => switch("cluster-enabled", false).immutable();

    /// Join the cluster of this name; etcd (etcd-endpoints) stores its nodes and slot owners.
    cluster_name: text => optional_text("cluster-name").immutable().beyond_redis();

    /// File in `dir` that stores the node's identity; written by the server.
    cluster_config_file: text => text("cluster-config-file", "nodes.conf").immutable().only_with(IN_CLUSTER);

    /// Number of databases in cluster mode, instead of `databases`.
    cluster_databases: u32 =>
        integer("cluster-databases", || 1, 1, INT_MAX, Unit::Plain).immutable().beyond_redis()
            .only_with(IN_CLUSTER);

    /// Milliseconds of silence after which a node is considered failing.
    cluster_node_timeout_milliseconds: u64 =>
        integer("cluster-node-timeout", || 15_000, 0, LONG_MAX, Unit::Milliseconds).no_effect_yet();

    /// Milliseconds between pings to random nodes; 0 means the default rate. For tests.
    cluster_ping_interval_milliseconds: u64 =>
        integer("cluster-ping-interval", || 0, 0, LONG_MAX, Unit::Milliseconds).hidden().no_effect_yet();

    /// Cluster bus port announced to clients; 0 means the client port plus 10000. The server does
    /// not listen on it.
    cluster_port: u16 =>
        integer("cluster-port", || 0, 0, 65535, Unit::Plain).immutable().only_with(IN_CLUSTER);

    /// Maximum age of a replica's data, in node timeouts, for its promotion; 0 means no limit.
    cluster_replica_validity_factor: u32 =>
        integer("cluster-replica-validity-factor", || 10, 0, INT_MAX, Unit::Plain)
            .aliases(&["cluster-slave-validity-factor"]).no_effect_yet();

    /// Minimum number of replicas that a primary keeps when one of its replicas migrates.
    cluster_migration_barrier: u32 =>
        integer("cluster-migration-barrier", || 1, 0, INT_MAX, Unit::Plain).only_with(&["cluster-name"]);

    /// Let replicas migrate to primaries that lost theirs, and let a primary that lost its last
    /// slot become a replica of the primary that took it.
    cluster_allow_replica_migration: bool =>
        switch("cluster-allow-replica-migration", true).only_with(&["cluster-name"]);

    /// Never promote this replica automatically, only by CLUSTER FAILOVER. Without another
    /// replica, its slots are down while its primary is.
    cluster_replica_no_failover: bool =>
        switch("cluster-replica-no-failover", false).aliases(&["cluster-slave-no-failover"])
            .only_with(&["cluster-name"]);

    /// Stop serving if any slot has no owner.
    cluster_require_full_coverage: bool =>
        switch("cluster-require-full-coverage", true).only_with(IN_CLUSTER);

    /// Serve reads while the cluster is down.
    cluster_allow_reads_when_down: bool =>
        switch("cluster-allow-reads-when-down", false).only_with(IN_CLUSTER);

    /// Serve sharded pub/sub while the cluster is down.
    cluster_allow_pubsubshard_when_down: bool =>
        switch("cluster-allow-pubsubshard-when-down", true).only_with(IN_CLUSTER);

    /// Maximum unsent bytes to another node before the connection is dropped; 0 means no limit.
    cluster_link_sendbuf_limit: u64 =>
        integer("cluster-link-sendbuf-limit", || 0, 0, ULONG_MAX, Unit::Bytes).no_effect_yet();

    /// Seconds before a forgotten node (CLUSTER FORGET) can be added again.
    cluster_blacklist_ttl_seconds: u64 =>
        integer("cluster-blacklist-ttl", || 60, 0, LONG_MAX, Unit::Seconds).no_effect_yet();

    /// Timeout of CLUSTER FAILOVER in milliseconds: the longest time for which the primary holds
    /// commands back while the replica catches up.
    cluster_manual_failover_timeout_milliseconds: u32 =>
        integer("cluster-manual-failover-timeout", || 5000, 1, INT_MAX, Unit::Milliseconds)
            .only_with(&["cluster-name"]);

    /// Count CPU time and network traffic per slot (CLUSTER SLOT-STATS).
    cluster_slot_stats_enabled: bool => switch("cluster-slot-stats-enabled", false);

    /// Share of commands checked for what a cluster would refuse. Of Redis 8; accepted so that its
    /// configuration files can be read.
    cluster_compatibility_sample_ratio: u32 =>
        integer("cluster-compatibility-sample-ratio", || 0, 0, 100, Unit::Percent).no_effect_yet();

    /// What a failure to write cluster-config-file does: sync (stop) or best-effort.
    cluster_config_save_behavior: ClusterConfigSaveBehavior => choice(
        "cluster-config-save-behavior",
        ClusterConfigSaveBehavior::Sync.raw(),
        ClusterConfigSaveBehavior::WORDS,
    ).no_effect_yet();

    /// Maximum unsent bytes to the replicas of a slot's target when the slot is handed over; -1
    /// means no limit.
    slot_migration_max_failover_repl_bytes: i64 =>
        integer("slot-migration-max-failover-repl-bytes", || 0, -1, LONG_MAX, Unit::Plain).no_effect_yet();

    /// Pause a migrating slot for the handover once at most this many bytes of changes are
    /// unsent.
    cluster_slot_migration_handoff_max_lag_bytes: u64 => integer(
        "cluster-slot-migration-handoff-max-lag-bytes", || 1 << 20, 1, LONG_MAX, Unit::Bytes)
            .only_with(IN_CLUSTER);

    /// Maximum pause of a migrating slot in milliseconds. If the handover takes longer, the slot
    /// stays.
    cluster_slot_migration_write_pause_timeout_milliseconds: u32 => integer(
        "cluster-slot-migration-write-pause-timeout", || 10_000, 1, INT_MAX, Unit::Milliseconds)
            .only_with(IN_CLUSTER);

    /// Maximum number of finished slot migrations listed by CLUSTER GETSLOTMIGRATIONS and CLUSTER
    /// MIGRATION STATUS.
    cluster_slot_migration_log_max_len: u32 =>
        integer("cluster-slot-migration-log-max-len", || 1000, 0, INT_MAX, Unit::Plain).only_with(IN_CLUSTER);

    /// Address announced to other nodes and clients.
    cluster_announce_ip: text =>
        optional_text("cluster-announce-ip").of_one_node().only_with(&["cluster-enabled", "group-name"]);

    /// IPv4 address announced to clients.
    cluster_announce_client_ipv4: text =>
        optional_text("cluster-announce-client-ipv4").text_check(checks::ipv4).of_one_node()
            .only_with(IN_CLUSTER);

    /// IPv6 address announced to clients.
    cluster_announce_client_ipv6: text =>
        optional_text("cluster-announce-client-ipv6").text_check(checks::ipv6).of_one_node()
            .only_with(IN_CLUSTER);

    /// Port announced to clients; 0 means the port announced to nodes.
    cluster_announce_client_port: u16 =>
        integer("cluster-announce-client-port", || 0, 0, 65535, Unit::Plain).of_one_node()
            .only_with(IN_CLUSTER);

    /// TLS port announced to clients; 0 means the TLS port announced to nodes.
    cluster_announce_client_tls_port: u16 =>
        integer("cluster-announce-client-tls-port", || 0, 0, 65535, Unit::Plain).of_one_node()
            .only_with(IN_CLUSTER);

    /// Host name announced to other nodes and clients.
    cluster_announce_hostname: text =>
        optional_text("cluster-announce-hostname").text_check(checks::hostname).of_one_node()
            .only_with(&["cluster-enabled", "group-name"]);

    /// Human-readable node name, shown in the log.
    cluster_announce_human_nodename: text =>
        optional_text("cluster-announce-human-nodename").text_check(checks::nodename).of_one_node()
            .only_with(IN_CLUSTER);

    /// Port announced to other nodes and clients; 0 means `port`.
    cluster_announce_port: u16 =>
        integer("cluster-announce-port", || 0, 0, 65535, Unit::Plain).of_one_node().only_with(IN_CLUSTER);

    /// TLS port announced to other nodes and clients; 0 means `tls-port`.
    cluster_announce_tls_port: u16 =>
        integer("cluster-announce-tls-port", || 0, 0, 65535, Unit::Plain).of_one_node().only_with(IN_CLUSTER);

    /// Cluster bus port announced to nodes and clients; 0 means `cluster-port`.
    cluster_announce_bus_port: u16 =>
        integer("cluster-announce-bus-port", || 0, 0, 65535, Unit::Plain).of_one_node().only_with(IN_CLUSTER);

    /// How redirections name a node: ip, hostname, or unknown-endpoint (no host: the client is to
    /// keep its address, which few clients do; docs/cluster.md).
    cluster_preferred_endpoint_type: ClusterEndpointType => choice(
        "cluster-preferred-endpoint-type",
        ClusterEndpointType::Ip.raw(),
        ClusterEndpointType::WORDS,
    ).only_with(IN_CLUSTER);
}
