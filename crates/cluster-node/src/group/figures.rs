// SPDX-License-Identifier: BSD-3-Clause
//! Figures of the group that INFO and the metrics show, one row each.

use std::sync::atomic::Ordering::Relaxed;

use braid_executor::state::sync_writes::Counts;
use braid_telemetry::Figure;
use braid_telemetry::Reading::{Count, Flag, Link, Milliseconds};

use super::report::GroupReport;

#[rustfmt::skip]
mod rows {
    use super::*;

    pub static EPOCH: Figure<GroupReport> = Figure::gauge("group_epoch", "braid_group_epoch", "Epoch of the group; it grows with each change of the primary.", |report| Count(report.view.epoch));
    pub static SERVING: Figure<GroupReport> = Figure::gauge("group_serving", "braid_group_serving", "1 if this server is the primary of its group and may serve.", |report| Flag(report.is_serving));
    pub static LEASE: Figure<GroupReport> = Figure::gauge("group_lease_ms", "braid_group_lease_seconds", "Time for which the lease of this server is certain to be alive; 0 without one.", |report| Milliseconds(Some(report.lease_ms)));
    pub static ETCD_UP: Figure<GroupReport> = Figure::gauge("group_etcd_status", "braid_group_etcd_up", "0 while etcd is unavailable.", |report| Link(report.view.etcd_error.is_empty()));
    pub static ETCD_LAST_ANSWER: Figure<GroupReport> = Figure::gauge("group_etcd_last_answer_ms", "braid_group_etcd_last_answer_seconds", "Time since the last reply from etcd; absent before the first.", |report| Milliseconds(report.etcd_silent_ms));
    pub static PRIMARY_CHANGES: Figure<GroupReport> = Figure::counter("group_primary_changes", "braid_group_primary_changes_total", "Changes of the primary seen by this server.", |report| Count(report.view.changes));
    pub static FENCED_REFUSALS: Figure<Counts> = Figure::counter("group_fenced_refusals", "braid_group_fenced_refusals_total", "Commands refused because this server could not prove that it was the primary (MASTERDOWN).", |counts| Count(counts.fenced.load(Relaxed)));

    // Synchronous writes.
    pub static WAITING: Figure<Counts> = Figure::gauge("sync_writes_waiting", "braid_sync_writes_waiting", "Clients whose replies wait for the in-sync set.", |counts| Count(counts.waiting.load(Relaxed)));
    pub static ACKNOWLEDGED: Figure<Counts> = Figure::counter("sync_writes_acknowledged", "braid_sync_writes_acknowledged_total", "Waits for the in-sync set that ended with its acknowledgement; replies sent together count as one wait.", |counts| Count(counts.acknowledged.load(Relaxed)));
    pub static UNCERTAIN: Figure<Counts> = Figure::counter("sync_writes_uncertain", "braid_sync_writes_uncertain_total", "Replies replaced by UNCERTAIN, or cut off.", |counts| Count(counts.uncertain.load(Relaxed)));
    pub static REFUSED: Figure<Counts> = Figure::counter("sync_writes_refused", "braid_sync_writes_refused_total", "Writes refused because too few replicas were in sync (NOREPLICAS).", |counts| Count(counts.refused.load(Relaxed)));
}

pub use rows::*;
