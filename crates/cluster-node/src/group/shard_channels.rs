// SPDX-License-Identifier: BSD-3-Clause
//! The end of subscriptions to shard channels whose slot leaves this node.

use braid_base::crc::key_hash_slot;
use braid_clients::{Message, Registry};
use braid_group::cluster::SlotSet;
use braid_notify::Hub;

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
