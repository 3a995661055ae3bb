// SPDX-License-Identifier: BSD-3-Clause
//! Directives about the cluster.

use super::checks;
use crate::directive::Unit;
use crate::enums::{ClusterEndpointType, ConfigEnum};
use crate::rows::{IN_CLUSTER, INT_MAX, LONG_MAX, ULONG_MAX};

super::directives! {
    "Cluster", after active;

    /// Serve the protocol of Redis Cluster. Without cluster-name the server is a cluster by itself and
    /// owns all 16384 slots.
    cluster_enabled: bool => switch("cluster-enabled", false).immutable();

    /// Be a node of the cluster with this name: etcd (etcd-endpoints) holds its nodes and whose the
    /// slots are.
    cluster_name: text => optional_text("cluster-name").immutable().beyond_redis();

    /// File in which the node keeps its identity; the server writes it. In `dir`.
    cluster_config_file: text => text("cluster-config-file", "nodes.conf").immutable().only_with(IN_CLUSTER);

    /// Number of databases in cluster mode, where `databases` does not count.
    cluster_databases: u32 =>
        integer("cluster-databases", || 1, 1, INT_MAX, Unit::Plain).immutable().beyond_redis()
            .only_with(IN_CLUSTER);

    /// Milliseconds of silence after which a node counts as failing.
    cluster_node_timeout_milliseconds: u64 =>
        integer("cluster-node-timeout", || 15_000, 0, LONG_MAX, Unit::Milliseconds).no_effect_yet();

    /// Milliseconds between pings to random nodes; 0 keeps the usual rate. For tests.
    cluster_ping_interval_milliseconds: u64 =>
        integer("cluster-ping-interval", || 0, 0, LONG_MAX, Unit::Milliseconds).hidden().no_effect_yet();

    /// Port of the cluster's own connections that clients are told; 0 means the client port plus 10000.
    /// This server does not listen there.
    cluster_port: u16 =>
        integer("cluster-port", || 0, 0, 65535, Unit::Plain).immutable().only_with(IN_CLUSTER);

    /// How old a replica's data may be, in node timeouts, for it to become master; 0 means any age.
    cluster_replica_validity_factor: u32 =>
        integer("cluster-replica-validity-factor", || 10, 0, INT_MAX, Unit::Plain)
            .aliases(&["cluster-slave-validity-factor"]).no_effect_yet();

    /// Replicas that a master keeps before one of them may move to another master.
    cluster_migration_barrier: u32 =>
        integer("cluster-migration-barrier", || 1, 0, INT_MAX, Unit::Plain).no_effect_yet();

    /// Let replicas move to masters that have none.
    cluster_allow_replica_migration: bool => switch("cluster-allow-replica-migration", true).no_effect_yet();

    /// Never let this replica become master by itself.
    cluster_replica_no_failover: bool =>
        switch("cluster-replica-no-failover", false).aliases(&["cluster-slave-no-failover"]).no_effect_yet();

    /// Stop serving when a part of the slots is served by nobody.
    cluster_require_full_coverage: bool =>
        switch("cluster-require-full-coverage", true).only_with(IN_CLUSTER);

    /// Answer reads while the cluster is down.
    cluster_allow_reads_when_down: bool =>
        switch("cluster-allow-reads-when-down", false).only_with(IN_CLUSTER);

    /// Deliver sharded publications while the cluster is down.
    cluster_allow_pubsubshard_when_down: bool =>
        switch("cluster-allow-pubsubshard-when-down", true).only_with(IN_CLUSTER);

    /// Most unsent bytes to another node before that connection is dropped; 0 means no limit.
    cluster_link_sendbuf_limit: u64 =>
        integer("cluster-link-sendbuf-limit", || 0, 0, ULONG_MAX, Unit::Bytes).no_effect_yet();

    /// Seconds for which a node that was told to be forgotten is not taken up again.
    cluster_blacklist_ttl_seconds: u64 =>
        integer("cluster-blacklist-ttl", || 60, 0, LONG_MAX, Unit::Seconds).no_effect_yet();

    /// Milliseconds after which a failover that someone asked for is given up.
    cluster_manual_failover_timeout_milliseconds: u32 =>
        integer("cluster-manual-failover-timeout", || 5000, 1, INT_MAX, Unit::Milliseconds).no_effect_yet();

    /// Count keys, commands and traffic for each slot.
    cluster_slot_stats_enabled: bool => switch("cluster-slot-stats-enabled", false).no_effect_yet();

    /// Bytes of changes that may be left when a slot that moves to another node is held back, so that the
    /// rest can go there.
    cluster_slot_migration_handoff_max_lag_bytes: u64 => integer(
        "cluster-slot-migration-handoff-max-lag-bytes", || 1 << 20, 1, LONG_MAX, Unit::Bytes)
            .only_with(IN_CLUSTER);

    /// Most milliseconds for which commands wait for a slot that moves to another node. If it has not
    /// gone by then, it stays.
    cluster_slot_migration_write_pause_timeout_milliseconds: u32 => integer(
        "cluster-slot-migration-write-pause-timeout", || 10_000, 1, INT_MAX, Unit::Milliseconds)
            .only_with(IN_CLUSTER);

    /// How many ended moves of slots CLUSTER GETSLOTMIGRATIONS and CLUSTER MIGRATION STATUS tell of.
    cluster_slot_migration_log_max_len: u32 =>
        integer("cluster-slot-migration-log-max-len", || 1000, 0, INT_MAX, Unit::Plain).only_with(IN_CLUSTER);

    /// Address that this node says it has.
    cluster_announce_ip: text =>
        optional_text("cluster-announce-ip").of_one_node().only_with(&["cluster-enabled", "group-name"]);

    /// IPv4 address that clients are told.
    cluster_announce_client_ipv4: text =>
        optional_text("cluster-announce-client-ipv4").text_check(checks::ipv4).of_one_node()
            .only_with(IN_CLUSTER);

    /// IPv6 address that clients are told.
    cluster_announce_client_ipv6: text =>
        optional_text("cluster-announce-client-ipv6").text_check(checks::ipv6).of_one_node()
            .only_with(IN_CLUSTER);

    /// Port that clients are told; 0 means the one that nodes are told.
    cluster_announce_client_port: u16 =>
        integer("cluster-announce-client-port", || 0, 0, 65535, Unit::Plain).of_one_node()
            .only_with(IN_CLUSTER);

    /// TLS port that clients are told; 0 means the one that nodes are told.
    cluster_announce_client_tls_port: u16 =>
        integer("cluster-announce-client-tls-port", || 0, 0, 65535, Unit::Plain).of_one_node()
            .only_with(IN_CLUSTER);

    /// Host name that this node says it has.
    cluster_announce_hostname: text =>
        optional_text("cluster-announce-hostname").text_check(checks::hostname).of_one_node()
            .only_with(&["cluster-enabled", "group-name"]);

    /// Name of this node for people, shown in logs.
    cluster_announce_human_nodename: text =>
        optional_text("cluster-announce-human-nodename").text_check(checks::nodename).of_one_node()
            .only_with(IN_CLUSTER);

    /// Port that this node says it has; 0 means its real one.
    cluster_announce_port: u16 =>
        integer("cluster-announce-port", || 0, 0, 65535, Unit::Plain).of_one_node().only_with(IN_CLUSTER);

    /// TLS port that this node says it has; 0 means its real one.
    cluster_announce_tls_port: u16 =>
        integer("cluster-announce-tls-port", || 0, 0, 65535, Unit::Plain).of_one_node().only_with(IN_CLUSTER);

    /// Port of the cluster's own connections that this node says it has; 0 means its real one.
    cluster_announce_bus_port: u16 =>
        integer("cluster-announce-bus-port", || 0, 0, 65535, Unit::Plain).of_one_node().only_with(IN_CLUSTER);

    /// What clients are told of a node: ip, hostname, or unknown-endpoint (use the address you know).
    cluster_preferred_endpoint_type: ClusterEndpointType => choice(
        "cluster-preferred-endpoint-type",
        ClusterEndpointType::Ip.raw(),
        ClusterEndpointType::WORDS,
    ).only_with(IN_CLUSTER);
}
