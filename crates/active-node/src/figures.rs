// SPDX-License-Identifier: BSD-3-Clause
//! Figures of active-active replication that INFO and the metrics show, one row each.

use braid_telemetry::Figure;
use braid_telemetry::Reading::{self, Count, Known, Link, Milliseconds, Percent};

use crate::report::{ActiveReport, PeerReport};

fn milliseconds(ms: u64) -> Reading {
    Milliseconds(i64::try_from(ms).ok())
}

#[rustfmt::skip]
mod rows {
    use super::*;

    pub static OWN: Figure<ActiveReport> = Figure::counter("active_own_units", "braid_active_own_units_total", "Units created by this server's own clients.", |report| Count(report.own));
    pub static MERGED: Figure<ActiveReport> = Figure::counter("active_merged_units", "braid_active_merged_units_total", "Units of other regions merged by this server.", |report| Count(report.merged));
    pub static KNOWN: Figure<ActiveReport> = Figure::counter("active_known_units", "braid_active_known_units_total", "Received units that were already known.", |report| Count(report.known));
    pub static SENT: Figure<ActiveReport> = Figure::counter("active_sent_units", "braid_active_sent_units_total", "Units sent to peers.", |report| Count(report.sent));
    pub static SENT_BYTES: Figure<ActiveReport> = Figure::counter("active_sent_bytes", "braid_active_sent_bytes_total", "Bytes of the units sent to peers.", |report| Count(report.sent_bytes));
    pub static COPIES_SENT: Figure<ActiveReport> = Figure::counter("active_full_copies_sent", "braid_active_copies_sent_total", "Full copies made for peers.", |report| Count(report.copies_sent));
    pub static COPIES_MERGED: Figure<ActiveReport> = Figure::counter("active_full_copies_merged", "braid_active_copies_merged_total", "Full copies of peers that were merged.", |report| Count(report.copies_merged));
    pub static COPY_LEFT: Figure<ActiveReport> = Figure::gauge("active_copy_left_percent", "braid_active_copy_left_ratio", "How much of the full copy that is being merged is left; 0 if none is.", |report| Percent(report.copy_left_percent));
    pub static TYPE_CONFLICTS: Figure<ActiveReport> = Figure::counter("active_type_conflicts", "braid_active_type_conflicts_total", "Keys that got different types on different servers; one value is hidden.", |report| Count(report.type_conflicts));
    pub static THROTTLED: Figure<ActiveReport> = Figure::counter("active_throttled", "braid_active_throttled_total", "Times that writes had to wait for lagging peers.", |report| Count(report.throttled));
    pub static EVICTED: Figure<ActiveReport> = Figure::gauge("active_evicted_keys", "braid_active_evicted_keys", "Keys with parts that were evicted here and not written since.", |report| Count(report.evicted));
    pub static SHARED: Figure<ActiveReport> = Figure::gauge("active_shared_strings", "braid_active_shared_strings", "Short strings that are in memory once, although active-active replication keeps them too.", |report| Count(report.shared));
    pub static TOMBSTONES: Figure<ActiveReport> = Figure::gauge("active_tombstone_keys", "braid_active_tombstone_keys", "Keys with tombstones that can be removed once all regions have acknowledged them.", |report| Count(report.tombstones));
    pub static BACKLOG: Figure<ActiveReport> = Figure::gauge("active_backlog_bytes", "braid_active_backlog_bytes", "Units in memory kept for peers that lack them.", |report| Reading::count(report.backlog_bytes));
    pub static BACKLOG_ON_DISK: Figure<ActiveReport> = Figure::gauge("active_backlog_disk_bytes", "braid_active_backlog_disk_bytes", "Units in logs on disk kept for peers that lack them.", |report| Count(report.backlog_disk_bytes));
    pub static LOG: Figure<ActiveReport> = Figure::gauge("active_log_bytes", "braid_active_log_bytes", "Size of the log of units.", |report| Count(report.log_bytes));
    pub static LOG_UNWRITTEN: Figure<ActiveReport> = Figure::gauge("active_log_unwritten_bytes", "braid_active_log_unwritten_bytes", "Units that wait to be written to the log.", |report| Count(report.log_unwritten_bytes));
    pub static REFUSED_BY: Figure<ActiveReport> = Figure::gauge("active_refused_by", "braid_active_refused_by_servers", "Other servers that refuse this server's changes or its number; active_trouble of INFO says why.", |report| Reading::count(report.refused_by));
    pub static CLOCK_AHEAD: Figure<ActiveReport> = Figure::gauge("active_clock_ahead_ms", "braid_active_clock_ahead_seconds", "How far this server's changes are stamped ahead of its own clock; more than active-clock-ahead-max, and peers refuse them.", |report| milliseconds(report.clock_ahead_ms));

    // A peer: INFO shows them in a line.
    pub static PEER_UP: Figure<PeerReport> = Figure::gauge("link", "braid_active_peer_up", "1 while the link that receives from a peer is up.", |peer| Link(peer.is_up));
    pub static PEER_LAG: Figure<PeerReport> = Figure::gauge("lag_ms", "braid_active_peer_lag_seconds", "Time that the last unit from a peer took from its region to this server.", |peer| milliseconds(peer.lag_ms));
    pub static PEER_UNITS: Figure<PeerReport> = Figure::counter("units", "braid_active_peer_received_units_total", "Units received from a peer.", |peer| Count(peer.units));
    pub static PEER_BYTES: Figure<PeerReport> = Figure::counter("bytes", "braid_active_peer_received_bytes_total", "Bytes of units and copies received from a peer.", |peer| Count(peer.bytes));
    pub static PEER_BEHIND: Figure<PeerReport> = Figure::gauge("behind_ms", "braid_active_peer_behind_seconds", "Age of the oldest unit that a peer has not yet received from this server.", |peer| Milliseconds(peer.behind.and_then(|(ms, _)| i64::try_from(ms).ok())));
    pub static PEER_BEHIND_BYTES: Figure<PeerReport> = Figure::gauge("behind_bytes", "braid_active_peer_behind_bytes", "Bytes of units that a peer has not yet received from this server.", |peer| Known(peer.behind.map(|(_, bytes)| bytes)));
}

pub use rows::*;
