// SPDX-License-Identifier: BSD-3-Clause
//! The end of a client's subscriptions to shard channels of other nodes' slots.

use braid_base::crc::key_hash_slot;
use braid_executor::Session;
use braid_executor::cluster_map::ClusterView;
use braid_notify::{Hub, SubscriptionKind};
use braid_resp::reply::ReplyBuffer;

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
