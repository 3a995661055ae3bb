// SPDX-License-Identifier: BSD-3-Clause
//! What CLUSTER INFO and the metrics tell of the cluster, as this server sees it.

use braid_base::crc::HASH_SLOTS;
use braid_group::cluster::Health;

use crate::engine::Engine;

/// The cluster. A server that is one by itself has all slots; one that the cluster does not know
/// has none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterReport {
    /// This node's id.
    pub node: String,
    /// Requests are served, as far as slots go (`cluster_state`).
    pub is_ok: bool,
    /// Slots that belong to a shard.
    pub assigned: usize,
    /// Of these, slots of shards of which no node is alive.
    pub lost: usize,
    /// Slots of this node's shard.
    pub own_slots: usize,
    pub nodes: usize,
    /// Of these, nodes whose lease in etcd has ended.
    pub failed_nodes: usize,
    /// Shards that have slots.
    pub size: usize,
    pub epoch: u64,
    /// The epoch of this node's shard.
    pub own_epoch: u64,
    /// Moves of slots under way: from here, and to here.
    pub moves_out: usize,
    pub moves_in: usize,
}

impl Engine {
    /// The report; nothing without cluster mode.
    pub fn cluster_report(&self) -> Option<ClusterReport> {
        let own = self.cluster.as_ref()?;
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
        if let Some(view) = own.map.as_ref().map(|map| map.view()) {
            let map = &view.map;
            (report.assigned, report.own_slots, report.size) = (0, 0, 0);
            if view.own().is_some() {
                report.assigned = map.covered().len();
                report.lost = map.lost_slots();
                report.size = map.size();
                report.nodes = map.nodes.len();
                report.failed_nodes =
                    map.nodes.values().filter(|node| node.health() == Health::Failed).count();
                report.epoch = map.epoch;
                let own_slots = view.own_slots();
                report.own_slots = own_slots.map_or(0, |own| own.slots.len());
                report.own_epoch = own_slots.map_or(0, |own| own.config_epoch);
            }
        }
        let is_complete = report.assigned == all && report.lost == 0;
        report.is_ok = is_complete || report.assigned > 0 && !self.config.cluster_require_full_coverage();
        for one in self.all_moves().iter().filter(|one| !one.progress().state.is_over()) {
            *(if one.is_export { &mut report.moves_out } else { &mut report.moves_in }) += 1;
        }
        Some(report)
    }
}
