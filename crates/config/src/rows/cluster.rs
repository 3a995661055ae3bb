// SPDX-License-Identifier: BSD-3-Clause
//! Directives about the cluster.

use super::checks;
use crate::directive::Unit;
use crate::enums::{ClusterEndpointType, ConfigEnum};
use crate::rows::{IN_CLUSTER, INT_MAX, LONG_MAX, ULONG_MAX};

super::directives! {
    "Cluster", after active;

    /// Serve the protocol of Redis Cluster. Without cluster-name the server is a cluster by itself
    /// and owns all 16384 slots.
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

    /// Cluster bus port announced to clients; 0 means the client port plus 10000. This server does
    /// not listen there.
    cluster_port: u16 =>
        integer("cluster-port", || 0, 0, 65535, Unit::Plain).immutable().only_with(IN_CLUSTER);

    /// How old a replica's data may be, in node timeouts, for it to become master; 0 means any age.
    cluster_replica_validity_factor: u32 =>
        integer("cluster-replica-validity-factor", || 10, 0, INT_MAX, Unit::Plain)
            .aliases(&["cluster-slave-validity-factor"]).no_effect_yet();

    /// Replicas that a master keeps before one of them may move to another master.
    cluster_migration_barrier: u32 =>
        integer("cluster-migration-barrier", || 1, 0, INT_MAX, Unit::Plain).only_with(&["cluster-name"]);

    /// Let replicas move to masters that have lost theirs, and a master become a replica of the one
    /// that has taken its last slot.
    cluster_allow_replica_migration: bool =>
        switch("cluster-allow-replica-migration", true).only_with(&["cluster-name"]);

    /// Never let this replica become master by itself, only by CLUSTER FAILOVER. Without another
    /// replica its slots are down as long as its master is.
    cluster_replica_no_failover: bool =>
        switch("cluster-replica-no-failover", false).aliases(&["cluster-slave-no-failover"])
            .only_with(&["cluster-name"]);

    /// Stop serving when some slots have no owner.
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

    /// Milliseconds after which a manual failover (CLUSTER FAILOVER) is given up: so long the
    /// primary holds commands back at most until the replica that was asked has everything.
    cluster_manual_failover_timeout_milliseconds: u32 =>
        integer("cluster-manual-failover-timeout", || 5000, 1, INT_MAX, Unit::Milliseconds)
            .only_with(&["cluster-name"]);

    /// Count the processor time and traffic of each slot (CLUSTER SLOT-STATS).
    cluster_slot_stats_enabled: bool => switch("cluster-slot-stats-enabled", false);

    /// A slot that moves to another node is paused once at most this many bytes of changes are left
    /// to send.
    cluster_slot_migration_handoff_max_lag_bytes: u64 => integer(
        "cluster-slot-migration-handoff-max-lag-bytes", || 1 << 20, 1, LONG_MAX, Unit::Bytes)
            .only_with(IN_CLUSTER);

    /// Longest pause of a slot that moves to another node, in milliseconds. If it has not moved by
    /// then, it stays.
    cluster_slot_migration_write_pause_timeout_milliseconds: u32 => integer(
        "cluster-slot-migration-write-pause-timeout", || 10_000, 1, INT_MAX, Unit::Milliseconds)
            .only_with(IN_CLUSTER);

    /// How many finished slot migrations CLUSTER GETSLOTMIGRATIONS and CLUSTER MIGRATION STATUS
    /// list.
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

    /// Port announced to clients; 0 means the one announced to nodes.
    cluster_announce_client_port: u16 =>
        integer("cluster-announce-client-port", || 0, 0, 65535, Unit::Plain).of_one_node()
            .only_with(IN_CLUSTER);

    /// TLS port announced to clients; 0 means the one announced to nodes.
    cluster_announce_client_tls_port: u16 =>
        integer("cluster-announce-client-tls-port", || 0, 0, 65535, Unit::Plain).of_one_node()
            .only_with(IN_CLUSTER);

    /// Host name announced to other nodes and clients.
    cluster_announce_hostname: text =>
        optional_text("cluster-announce-hostname").text_check(checks::hostname).of_one_node()
            .only_with(&["cluster-enabled", "group-name"]);

    /// Name of this node for people, shown in logs.
    cluster_announce_human_nodename: text =>
        optional_text("cluster-announce-human-nodename").text_check(checks::nodename).of_one_node()
            .only_with(IN_CLUSTER);

    /// Port announced to other nodes and clients; 0 means the real one.
    cluster_announce_port: u16 =>
        integer("cluster-announce-port", || 0, 0, 65535, Unit::Plain).of_one_node().only_with(IN_CLUSTER);

    /// TLS port announced to other nodes and clients; 0 means the real one.
    cluster_announce_tls_port: u16 =>
        integer("cluster-announce-tls-port", || 0, 0, 65535, Unit::Plain).of_one_node().only_with(IN_CLUSTER);

    /// Cluster bus port announced to other nodes; 0 means the real one.
    cluster_announce_bus_port: u16 =>
        integer("cluster-announce-bus-port", || 0, 0, 65535, Unit::Plain).of_one_node().only_with(IN_CLUSTER);

    /// How redirections name a node: ip, hostname, or unknown-endpoint (use the address you know).
    cluster_preferred_endpoint_type: ClusterEndpointType => choice(
        "cluster-preferred-endpoint-type",
        ClusterEndpointType::Ip.raw(),
        ClusterEndpointType::WORDS,
    ).only_with(IN_CLUSTER);
}
