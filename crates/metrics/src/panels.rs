// SPDX-License-Identifier: BSD-3-Clause
//! JSON data of the page beyond metrics: replication links, the group and active-active peers,
//! the cluster, the slow log, the largest keys and the hottest slots. Key names and arguments
//! must not become metric labels.

use std::cmp::Reverse;

use braid_base::clock::unix_ms;
use braid_base::crc::HASH_SLOTS;
use braid_cluster_node::commands::cluster::slot_stats::figures;
use braid_cluster_node::slot_moves::orders;
use braid_cluster_node::{cluster_report, group};
use braid_executor::cluster_map::ClusterView;
use braid_executor::{Engine, settings};
use braid_telemetry::command_log::LogKind;
use serde_json::{Value, json};

/// Number of slow log entries shown.
const SLOW_SHOWN: usize = 20;

/// Bytes as text, with the backslash and everything but printable ASCII escaped.
fn escaped(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// The newest entries of the slow log.
pub fn slow_log(engine: &Engine) -> Value {
    let log = engine.telemetry.logs.of(LogKind::Slow);
    let entries: Vec<Value> = log
        .latest(SLOW_SHOWN)
        .iter()
        .map(|entry| {
            json!({
                "id": entry.id,
                "time": entry.time,
                "seconds": entry.amount as f64 / 1e6,
                "args": entry.args.iter().map(|arg| escaped(arg)).collect::<Vec<_>>(),
                "address": entry.address,
                "client_name": escaped(&entry.client_name),
            })
        })
        .collect();
    json!({ "entries": entries, "length": log.len() })
}

/// The largest keys found so far by the walk; keeps the walk alive.
pub fn big_keys(engine: &Engine) -> Value {
    let now_ms = unix_ms();
    let report = engine.telemetry.big_keys.report(now_ms);
    let total: usize = (0..engine.keyspace.databases()).map(|db| engine.keyspace.visible_len(db).0).sum();
    let keys: Vec<Value> = report
        .keys
        .iter()
        .map(|key| {
            json!({
                "db": key.db,
                "key": escaped(&key.name),
                "key_bytes_cut": key.name_cut,
                "type": key.kind,
                "bytes": key.bytes,
                "age_seconds": (now_ms - key.seen_ms).max(0) as f64 / 1e3,
            })
        })
        .collect();
    json!({ "keys": keys, "walked": report.walked, "total": total, "passes": report.passes })
}

/// Number of hot slots shown.
const SLOTS_SHOWN: usize = 10;

/// The cluster's slots with the most processor time; null for a server outside a cluster.
pub fn hot_slots(engine: &Engine) -> Value {
    if engine.cluster.is_none() {
        return Value::Null;
    }
    let mut figures = if settings::counts_slots(engine) { figures(engine) } else { Vec::new() };
    figures.retain(|one| one.cost.nanos > 0);
    figures.sort_by_key(|one| Reverse(one.cost.nanos));
    let slots = figures.iter().take(SLOTS_SHOWN).map(|one| {
        json!({
            "slot": one.slot,
            "keys": one.keys,
            "cpu_seconds": one.cost.nanos as f64 / 1e9,
            "received_bytes": one.cost.bytes_in,
            "sent_bytes": one.cost.bytes_out,
        })
    });
    json!({ "is_counted": settings::counts_slots(engine), "slots": slots.collect::<Vec<_>>() })
}

/// Number of finished slot migrations shown.
const ENDED_MOVES_SHOWN: usize = 3;

/// The cluster as seen by this node: shards with their slots and nodes, and slot migrations; null
/// for a server outside a cluster.
pub fn cluster(engine: &Engine) -> Value {
    let Some(report) = cluster_report::cluster_report(engine) else { return Value::Null };
    let view = engine.cluster_view();
    let shards: Vec<Value> = match &view {
        Some(view) => view.map.shards.keys().map(|id| shard(view, id)).collect(),
        None => {
            let own = json!({ "name": "this server", "address": "", "is_own": true, "is_primary": true, "is_up": true });
            vec![json!({ "slots": [[0, HASH_SLOTS - 1]], "nodes": [own] })]
        }
    };
    let name = |id: &str| {
        let node = view.as_ref().and_then(|view| view.map.node(id));
        node.map_or_else(|| id.to_owned(), |node| node.name.to_string())
    };
    let mut ended = 0;
    let mut moves = orders::all_moves(engine);
    moves.retain(|one| {
        let is_over = one.progress().state.is_over();
        ended += usize::from(is_over);
        !is_over || ended <= ENDED_MOVES_SHOWN
    });
    let moves = moves.iter().map(|one| {
        let progress = one.progress();
        json!({
            "slots": one.slots.ranges(),
            "source": name(&one.source),
            "target": name(&one.target),
            "state": progress.state.name(),
            "is_over": progress.state.is_over(),
            "message": progress.message,
            "keys": progress.keys,
            "keys_total": progress.keys_total,
            "behind_bytes": progress.behind,
            "pause_ms": progress.pause_ms,
        })
    });
    json!({
        "is_ok": report.is_ok,
        "epoch": report.epoch,
        "assigned_slots": report.assigned,
        "lost_slots": report.lost,
        "nodes": report.nodes,
        "failed_nodes": report.failed_nodes,
        "shards": shards,
        "moves": moves.collect::<Vec<_>>(),
    })
}

fn shard(view: &ClusterView, id: &str) -> Value {
    let map = &view.map;
    let nodes = map.members(id).map(|node| {
        let port = if node.port() == 0 { node.tls_port() } else { node.port() };
        let host = node.host();
        json!({
            "name": &*node.name,
            "address": if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") },
            "is_own": node.known.id == view.id,
            "is_primary": map.is_primary(node),
            "is_up": node.server.is_some(),
        })
    });
    let slots = map.slots_of(id).map(|own| own.slots.ranges());
    json!({ "slots": slots.unwrap_or_default(), "nodes": nodes.collect::<Vec<_>>() })
}

/// The group and its members; null for a server outside a group.
fn group(engine: &Engine) -> Value {
    let Some(report) = group::report::group_report(engine) else { return Value::Null };
    let view = &report.view;
    let members = report.members.iter().map(|member| {
        json!({
            "name": &*member.name,
            "address": member.address(),
            "is_up": member.is_up(),
            "role": member.role.name(),
            "is_in_sync": member.is_in_sync,
            "link": member.link.map(|link| link.name()),
            "offset": member.offset,
            "lag_bytes": member.lag_bytes,
            "lag_ms": member.lag_ms,
        })
    });
    json!({
        "name": view.group,
        "node": &*view.id.node,
        "epoch": view.epoch,
        "role": view.role().name(),
        "is_serving": report.is_serving,
        "not_serving": report.not_serving,
        "lease_ms": report.lease_ms,
        "etcd_error": view.etcd_error,
        "nodes_elsewhere": report.nodes_elsewhere,
        "members": members.collect::<Vec<_>>(),
    })
}

/// Active-active replication and its peers; null if it is off.
fn active(engine: &Engine) -> Value {
    let Some(report) = braid_active_node::report::active_report(engine) else { return Value::Null };
    let peers = report.peers.iter().map(|peer| {
        json!({
            "address": peer.address(),
            "region": peer.region,
            "is_up": peer.is_up,
            "lag_ms": peer.lag_ms,
            "behind_ms": peer.behind.map(|(ms, _)| ms),
            "behind_bytes": peer.behind.map(|(_, bytes)| bytes),
            "units": peer.units,
            "bytes": peer.bytes,
            "error": peer.error,
        })
    });
    json!({
        "region": report.region,
        "members": report.members,
        "own": report.own,
        "merged": report.merged,
        "sent": report.sent,
        "sent_bytes": report.sent_bytes,
        "copies_sent": report.copies_sent,
        "copies_merged": report.copies_merged,
        "type_conflicts": report.type_conflicts,
        "conflicts": report.conflicts.iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>(),
        "throttled": report.throttled,
        "tombstones": report.tombstones,
        "backlog_bytes": report.backlog_bytes,
        "clock_ahead_ms": report.clock_ahead_ms,
        "refused_by": report.refused_by,
        "trouble": report.last_error,
        "peers": peers.collect::<Vec<_>>(),
    })
}

/// The role, the link to the primary, and the replicas.
pub fn replication(engine: &Engine) -> Value {
    let link = braid_replica::report::link_report(engine).map(|report| {
        json!({
            "address": report.primary.to_string(),
            "state": report.phase.name(),
            "unapplied_bytes": report.unapplied_bytes,
            "last_io_ms": report.last_io_ms,
            "down_ms": report.down_ms,
            "sync": report.full_sync.map(|sync| json!({
                "read_bytes": sync.read_bytes,
                "total_bytes": sync.total_bytes,
                "loaded": sync.loaded,
            })),
        })
    });
    let replicas = braid_replica::report::replica_reports(engine);
    let replicas = replicas.iter().map(|report| {
        json!({
            "address": report.replica.name(),
            "state": report.replica.stage_name(),
            "lag_bytes": report.lag_bytes,
            "lag_ms": report.lag_ms,
            "sync": report.full_sync.map(|sync| json!({
                "sent_bytes": sync.sent_bytes,
                "total_bytes": sync.total_bytes,
                "done": sync.done,
            })),
        })
    });
    json!({
        "role": if link.is_some() { "replica" } else { "primary" },
        "failover": engine.replication.failover.phase().name(),
        "primary": link,
        "replicas": replicas.collect::<Vec<_>>(),
        "group": group(engine),
        "active": active(engine),
    })
}
