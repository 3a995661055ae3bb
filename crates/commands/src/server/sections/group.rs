// SPDX-License-Identifier: BSD-3-Clause
//! INFO group, Braid's own: this server's view of its group and the group's servers.

use std::fmt::Display;

use braid_cluster_node::group::figures;
use braid_cluster_node::group::report::{self, MemberReport};
use braid_cluster_node::group::view::names;
use braid_group::Why;

use super::{Fields, safe_address};

/// Writes the section.
pub(super) fn write(fields: &mut Fields<'_>) {
    let Some(report) = report::group_report(fields.engine) else { return };
    let view = &report.view;
    fields.field("group_name", &view.group);
    fields.field("node_name", &view.id.node);
    fields.show(&figures::EPOCH, &report);
    fields.field("group_role", view.role().name());
    fields.field("group_primary", view.primary.as_ref().map_or("", |primary| &primary.node));
    fields.field("group_in_sync", names(&view.in_sync));
    fields.show(&figures::SERVING, &report);
    fields.field("group_not_serving_reason", &report.not_serving);
    fields.field("group_serve_ms", report.serve_ms);
    fields.show(&figures::LEASE, &report);
    fields.show(&figures::PRIMARY_CHANGES, &report);
    fields.show(&figures::ETCD_UP, &report);
    fields.field("group_etcd_error", &view.etcd_error);
    fields.show(&figures::ETCD_LAST_ANSWER, &report);
    let sync_writes = &fields.engine.sync_writes;
    fields.show(&figures::FENCED_REFUSALS, &sync_writes.counts);
    if sync_writes.waits_for_members() {
        fields.show(&figures::WAITING, &sync_writes.counts);
        fields.show(&figures::ACKNOWLEDGED, &sync_writes.counts);
        fields.show(&figures::UNCERTAIN, &sync_writes.counts);
        fields.show(&figures::REFUSED, &sync_writes.counts);
    }
    if let Some(count) = report.nodes_elsewhere {
        fields.field("group_nodes_elsewhere", count);
    }
    fields.field("group_members", report.members.len());
    for (number, member) in report.members.iter().enumerate() {
        fields.field(format_args!("group_member{number}"), line(member));
    }
}

/// Formats a member's line.
fn line(member: &MemberReport) -> String {
    let nothing = Default::default();
    let node = member.node.as_ref().unwrap_or(&nothing);
    let held_out = member.held_out.map(|(why, for_ms)| {
        let why = match why {
            Why::Removed => "removed",
            Why::Unacknowledged => "unacknowledged",
            Why::Disk => "disk",
        };
        format!(",held_out={why},held_out_ms={for_ms}")
    });
    format!(
        "name={},host={},port={},tls_port={},priority={},run={},version={},\
         state={},role={},in_sync={},link={},offset={},lag_bytes={},lag_ms={}{}",
        member.name,
        safe_address(&node.host),
        node.port,
        node.tls_port,
        node.priority,
        node.run,
        safe_address(&node.version),
        if member.is_up() { "up" } else { "down" },
        member.role.name(),
        u8::from(member.is_in_sync),
        member.link.map_or("unknown", |link| link.name()),
        or_unknown(member.offset),
        or_unknown(member.lag_bytes),
        or_unknown(member.lag_ms),
        held_out.unwrap_or_default(),
    )
}

/// A number, or -1 if unknown.
fn or_unknown(number: Option<impl Display>) -> String {
    number.map_or_else(|| "-1".into(), |number| number.to_string())
}
