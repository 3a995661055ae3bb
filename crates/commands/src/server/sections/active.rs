// SPDX-License-Identifier: BSD-3-Clause
//! INFO active, Braid's own: active-active replication and its peers.

use braid_active_node::figures;
use braid_active_node::report::{self, PeerReport};

use super::{Fields, safe_address};

/// Writes the section.
pub(super) fn write(fields: &mut Fields<'_>) {
    let Some(report) = report::active_report(fields.engine) else { return };
    let members = report.members.iter().map(u8::to_string).collect::<Vec<_>>().join(",");
    fields.field("active_region", report.region);
    fields.field("active_identity", &report.identity);
    fields.field("active_members", members);
    fields.show(&figures::OWN, &report);
    fields.show(&figures::MERGED, &report);
    fields.show(&figures::KNOWN, &report);
    fields.show(&figures::SENT, &report);
    fields.show(&figures::SENT_BYTES, &report);
    fields.field("active_sent_from_disk", report.sent_from_disk);
    fields.show(&figures::COPIES_SENT, &report);
    fields.show(&figures::COPIES_MERGED, &report);
    fields.show(&figures::COPY_LEFT, &report);
    fields.field("active_sent_as_values", report.results);
    fields.show(&figures::TYPE_CONFLICTS, &report);
    for (kind, count) in &report.conflicts {
        fields.field(format_args!("active_conflicts_{kind}"), count);
    }
    fields.show(&figures::THROTTLED, &report);
    fields.show(&figures::TOMBSTONES, &report);
    fields.show(&figures::EVICTED, &report);
    fields.show(&figures::SHARED, &report);
    fields.show(&figures::BACKLOG, &report);
    fields.show(&figures::BACKLOG_ON_DISK, &report);
    fields.field("active_applied", &report.applied);
    fields.show(&figures::LOG, &report);
    fields.show(&figures::LOG_UNWRITTEN, &report);
    fields.show(&figures::CLOCK_AHEAD, &report);
    fields.show(&figures::REFUSED_BY, &report);
    fields.field("active_trouble", &report.last_error);
    fields.field("active_peers", report.peers.len());
    for (number, peer) in report.peers.iter().enumerate() {
        fields.field(format_args!("active_peer{number}"), line(peer));
    }
}

/// Formats a peer's line.
fn line(peer: &PeerReport) -> String {
    format!(
        "host={},port={},{},region={},{},{},{},{},{}",
        safe_address(&peer.host),
        peer.port,
        figures::PEER_UP.pair(peer),
        peer.region.map_or(-1, i64::from),
        figures::PEER_LAG.pair(peer),
        figures::PEER_UNITS.pair(peer),
        figures::PEER_BYTES.pair(peer),
        figures::PEER_BEHIND.pair(peer),
        figures::PEER_BEHIND_BYTES.pair(peer)
    )
}
