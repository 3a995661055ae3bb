// SPDX-License-Identifier: BSD-3-Clause
//! Delivery of pushes to a loop's clients: published messages, invalidations and the like
//! (`notify/hub.rs`).
//!
//! A loop checks its queue before it executes a batch, so that a client notified of a change sees
//! the notification before the reply to any later request, and after it, for pushes from the
//! batch to the loop's own clients.

use std::sync::Arc;

use braid_executor::state::sync_writes::WAITS_FOR_MEMBERS;
use braid_notify::payload::Payload;
use braid_notify::queue::{Listeners, Push};

use super::EventLoop;
use crate::client_set::Pushed;

/// Capacity for pushes that is kept between deliveries.
const KEPT_PUSHES: usize = 1024;

/// Pushes being delivered; empty in between, kept for their memory.
#[derive(Default)]
pub struct Pushes {
    taken: Vec<Push>,
    held: Vec<Push>,
}

impl EventLoop {
    /// Delivers the pushes pending for the loop's clients.
    #[inline]
    pub(crate) fn deliver(&mut self) {
        if self.engine.hub.has_pushes(self.slot) {
            self.deliver_now();
        }
    }

    fn deliver_now(&mut self) {
        let Pushes { mut taken, mut held } = std::mem::take(&mut self.pushes);
        if self.properties.clients_migrate {
            let (by_id, clients) = (&self.by_id, &self.clients.slab);
            self.engine.hub.take_pushes_here(self.slot, &mut taken, |client| {
                by_id.get(&client).is_some_and(|&place| !clients.is_present(place))
            });
        } else {
            self.engine.hub.take_pushes(self.slot, &mut taken);
        }
        if self.engine.sync_writes.reasons() & WAITS_FOR_MEMBERS != 0
            && taken.iter().any(|push| matches!(*push.payload, Payload::Message(_)))
        {
            // A message may reveal a change.
            self.reply_hold.note_unacknowledged(self.engine.replication.in_sync.losses());
        }
        let now = braid_base::clock::unix_ms();
        // Successive pushes are often for the same client.
        let mut last: (u64, Option<u32>) = (u64::MAX, None);
        let mut delivered = 0;
        for push in taken.drain(..) {
            delivered += push.memory_bytes();
            for &client in push.to.ids() {
                if client != last.0 {
                    last = (client, self.by_id.get(&client).copied());
                }
                let pushed = match last.1 {
                    Some(place) => self.clients.push(&self.engine, self.slot, place, &push, now),
                    None => self.send_after(client, &push.payload),
                };
                match (pushed, &*push.payload) {
                    // Put back into the queue, where the client's own commands find it.
                    (Pushed::Later, _) => held.push(Push { to: Listeners::one(client), ..push.clone() }),
                    (Pushed::Gone, Payload::Invalidation(lost)) => {
                        self.engine.trackers.undeliverable(lost, self.slot)
                    }
                    (Pushed::Done | Pushed::Gone, _) => {}
                }
            }
        }
        if !held.is_empty() {
            self.engine.hub.put_back(self.slot, &mut held);
        }
        self.engine.hub.delivered(self.slot, delivered);
        taken.shrink_to(KEPT_PUSHES);
        self.pushes = Pushes { taken, held };
    }

    /// Forwards a push for a client that is not here, if another loop owns the client.
    #[cold]
    fn send_after(&self, client: u64, payload: &Arc<Payload>) -> Pushed {
        let engine = &self.engine;
        let Some(record) = engine.clients.registry.get(client) else { return Pushed::Gone };
        record.with_owner(|owner| {
            if owner == self.slot {
                // The client is on its way to this loop.
                return Pushed::Later;
            }
            engine.hub.push(self.slot, owner, Listeners::one(client), Arc::clone(payload));
            Pushed::Done
        })
    }
}
