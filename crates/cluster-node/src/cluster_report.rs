// SPDX-License-Identifier: BSD-3-Clause
//! The cluster's state as this server sees it, for CLUSTER INFO and the metrics.

use braid_base::crc::HASH_SLOTS;
use braid_executor::engine::Engine;
use braid_group::cluster::Health;

use crate::identity;
use crate::slot_moves::orders;

/// State of the cluster. A node in no cluster of several has all slots; a node unknown to its
/// cluster has none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterReport {
    /// This node's id.
    pub node: String,
    /// Requests are served, as far as slots are concerned (`cluster_state`).
    pub is_ok: bool,
    /// Slots assigned to a shard.
    pub assigned: usize,
    /// Assigned slots of shards without a live node.
    pub lost: usize,
    /// Slots of this node's shard.
    pub own_slots: usize,
    pub nodes: usize,
    /// Nodes whose lease in etcd has ended.
    pub failed_nodes: usize,
    /// Number of shards with slots.
    pub size: usize,
    pub epoch: u64,
    /// The epoch of this node's shard.
    pub own_epoch: u64,
    /// Current moves of slots from here and to here.
    pub moves_out: usize,
    pub moves_in: usize,
}

/// The report; `None` without cluster mode.
pub fn cluster_report(engine: &Engine) -> Option<ClusterReport> {
    let own = identity::of(engine)?;
    let (all, epochs) = (usize::from(HASH_SLOTS), own.epochs());
    let mut report = ClusterReport {
        node: own.id().to_string(),
        is_ok: false,
        assigned: all,
        lost: 0,
        own_slots: all,
        nodes: 1,
        failed_nodes: 0,
        size: 1,
        epoch: epochs.current,
        own_epoch: epochs.own,
        moves_out: 0,
        moves_in: 0,
    };
    if let Some(view) = engine.cluster_view() {
        let map = &view.map;
        (report.assigned, report.own_slots, report.size) = (0, 0, 0);
        if view.own().is_some() {
            report.assigned = map.covered().len();
            report.lost = map.lost_slots();
            report.size = map.size();
            report.nodes = map.nodes.len();
            report.failed_nodes = map.nodes.values().filter(|node| node.health() == Health::Failed).count();
            report.epoch = map.epoch;
            let own_slots = view.own_slots();
            report.own_slots = own_slots.map_or(0, |own| own.slots.len());
            report.own_epoch = own_slots.map_or(0, |own| own.config_epoch);
        }
    }
    let is_complete = report.assigned == all && report.lost == 0;
    report.is_ok = is_complete || report.assigned > 0 && !engine.config.cluster_require_full_coverage();
    for one in orders::all_moves(engine).iter().filter(|one| !one.progress().state.is_over()) {
        *(if one.is_export { &mut report.moves_out } else { &mut report.moves_in }) += 1;
    }
    Some(report)
}
