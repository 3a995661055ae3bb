// SPDX-License-Identifier: BSD-3-Clause
//! INFO active, Braid's own: active-active replication and its peers.

use braid_active_node::report::{self, PeerReport};

use super::{Fields, safe_address};

/// Writes the section.
pub(super) fn write(fields: &mut Fields<'_>) {
    let Some(report) = report::active_report(fields.engine) else { return };
    let members = report.members.iter().map(u8::to_string).collect::<Vec<_>>().join(",");
    fields.field("active_region", report.region);
    fields.field("active_identity", &report.identity);
    fields.field("active_members", members);
    fields.field("active_own_units", report.own);
    fields.field("active_merged_units", report.merged);
    fields.field("active_known_units", report.known);
    fields.field("active_sent_units", report.sent);
    fields.field("active_sent_bytes", report.sent_bytes);
    fields.field("active_sent_from_disk", report.sent_from_disk);
    fields.field("active_full_copies_sent", report.copies_sent);
    fields.field("active_full_copies_merged", report.copies_merged);
    fields.field("active_sent_as_values", report.results);
    fields.field("active_type_conflicts", report.type_conflicts);
    for (kind, count) in &report.conflicts {
        fields.field(format_args!("active_conflicts_{kind}"), count);
    }
    fields.field("active_throttled", report.throttled);
    fields.field("active_tombstone_keys", report.tombstones);
    fields.field("active_evicted_keys", report.evicted);
    fields.field("active_shared_strings", report.shared);
    fields.field("active_backlog_bytes", report.backlog_bytes);
    fields.field("active_backlog_disk_bytes", report.backlog_disk_bytes);
    fields.field("active_applied", &report.applied);
    fields.field("active_log_bytes", report.log_bytes);
    fields.field("active_log_unwritten_bytes", report.log_unwritten_bytes);
    fields.field("active_clock_ahead_ms", report.clock_ahead_ms);
    fields.field("active_refused_by", report.refused_by);
    fields.field("active_trouble", &report.trouble);
    fields.field("active_peers", report.peers.len());
    for (number, peer) in report.peers.iter().enumerate() {
        fields.field(format_args!("active_peer{number}"), line(peer));
    }
}

/// Formats a peer's line.
fn line(peer: &PeerReport) -> String {
    let behind = |of: fn((u64, u64)) -> u64| peer.behind.map_or(-1, |behind| of(behind) as i64);
    format!(
        "host={},port={},link={},region={},lag_ms={},units={},bytes={},behind_ms={},behind_bytes={}",
        safe_address(&peer.host),
        peer.port,
        if peer.is_up { "up" } else { "down" },
        peer.region.map_or(-1, i64::from),
        peer.lag_ms,
        peer.units,
        peer.bytes,
        behind(|(ms, _)| ms),
        behind(|(_, bytes)| bytes)
    )
}
