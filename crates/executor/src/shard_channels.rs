// SPDX-License-Identifier: BSD-3-Clause
//! The end of subscriptions to shard channels whose slot leaves this node.

use braid_base::crc::key_hash_slot;
use braid_clients::{Message, Registry};
use braid_group::cluster::SlotSet;
use braid_notify::{Hub, SubscriptionKind};
use braid_resp::reply::ReplyBuffer;

use crate::cluster_map::ClusterView;
use crate::session::Session;

/// Ends subscriptions to shard channels of slots that have moved away, by messages to the
/// clients.
pub fn leave_shard_channels(hub: &Hub, clients: &Registry, slots: &SlotSet) {
    let is_gone = |name: &[u8]| slots.contains(key_hash_slot(name));
    for id in hub.shard_subscribers(is_gone) {
        if let Some(record) = clients.get(id) {
            record.send(Message::LeaveSlots(id));
        }
    }
}

/// Ends a client's subscriptions to shard channels of other nodes' slots, and notifies the client
/// as SUNSUBSCRIBE does.
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
        // Nothing more is published to it; earlier messages come first.
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
