// SPDX-License-Identifier: BSD-3-Clause
//! INFO group, Braid's own: the group that this server is in, as it knows it, and its servers.

use braid_base::clock;
use braid_engine::group::view::names;

use super::{Fields, safe_address};

/// Writes the section.
pub(super) fn write(fields: &mut Fields<'_>) {
    let Some(group) = &fields.engine.group else { return };
    let view = group.view.lock().clone();
    let now = clock::boot_nanos();
    fields.field("group_name", &view.group);
    fields.field("node_name", &view.id.node);
    fields.field("group_epoch", view.epoch);
    fields.field("group_role", view.role_name());
    fields.field("group_primary", view.primary.as_ref().map_or("", |primary| &primary.node));
    fields.field("group_in_sync", names(&view.in_sync));
    fields.field("group_serve_ms", view.serve_ms(now));
    fields.field("group_lease_ms", view.lease_ms(now));
    fields.field("group_primary_changes", view.changes);
    fields.field("group_etcd_status", if view.etcd_error.is_empty() { "up" } else { "down" });
    fields.field("group_etcd_error", &view.etcd_error);
    fields.field("group_members", view.records.nodes.len());
    for (number, (name, node)) in view.records.nodes.iter().enumerate() {
        let line = format!(
            "name={name},host={},port={},tls_port={},priority={},run={},version={}",
            safe_address(&node.host),
            node.port,
            node.tls_port,
            node.priority,
            node.run,
            safe_address(&node.version)
        );
        fields.field(format_args!("group_member{number}"), line);
    }
}
