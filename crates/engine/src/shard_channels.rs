// SPDX-License-Identifier: BSD-3-Clause
//! The engine's copy of the cluster's map. When a slot leaves this node, subscriptions to its shard
//! channels end.

use std::sync::Arc;

use braid_base::crc::key_hash_slot;
use braid_clients::{Message, Registry};
use braid_group::cluster::SlotSet;
use braid_notify::{Hub, SubscriptionKind};
use braid_resp::reply::ReplyBuffer;

use crate::cluster_map::ClusterView;
use crate::engine::Engine;
use crate::forwarding::peers::Forwarding;
use crate::session::Session;

impl Engine {
    /// The cluster as this server knows it; none unless it has several nodes.
    pub fn cluster_view(&self) -> Option<Arc<ClusterView>> {
        Some(self.cluster.as_ref()?.map.as_ref()?.view())
    }

    /// What sends messages of PUBLISH to the cluster's other nodes; none unless it has several.
    #[inline]
    pub fn forwarding(&self) -> Option<&Forwarding> {
        let cluster = self.cluster.as_ref()?;
        cluster.map.as_ref().map(|_| &cluster.forwarding)
    }
}

/// Has the subscriptions end to shard channels of slots that have gone elsewhere.
pub(crate) fn leave_shard_channels(hub: &Hub, clients: &Registry, slots: &SlotSet) {
    let is_gone = |name: &[u8]| slots.contains(key_hash_slot(name));
    for id in hub.shard_subscribers(is_gone) {
        if let Some(record) = clients.get(id) {
            record.send(Message::LeaveSlots(id));
        }
    }
}

/// Ends a client's subscriptions to shard channels of slots that are other nodes', and tells it, as
/// SUNSUBSCRIBE does.
pub fn end_foreign_subscriptions(
    view: &ClusterView,
    hub: &Hub,
    session: &mut Session,
    reply: &mut ReplyBuffer,
) {
    let kind = SubscriptionKind::ShardChannel;
    for name in hub.names_of(&mut session.listener, kind) {
        if view.owns(key_hash_slot(&name)) {
            continue;
        }
        let count = session.unsubscribe(hub, kind, &name);
        // Nothing is published to it any more: what was, comes first.
        hub.claim(&mut session.listener, reply);
        if session.listener.subscriptions.is_none() {
            hub.skip(&mut session.listener);
        }
        reply.push(3);
        reply.bulk(b"sunsubscribe");
        reply.bulk(&name);
        reply.integer(count as i64);
    }
}
