// SPDX-License-Identifier: BSD-3-Clause
//! Handing out what a loop's clients are sent without having asked: published messages, and the like (`engine/pubsub`).
//!
//! A loop looks into its queue before it executes a batch, so that whoever was told that something is done finds its effects before the
//! reply to a later request; and after it, for what the batch itself has sent to the loop's own clients.

use std::sync::Arc;

use braid_notify::queue::{Listeners, Payload, Push};

use crate::event_loop::EventLoop;
use crate::models::Model;
use crate::steps::Pushed;

/// Room for pushes that is kept.
const KEPT_PUSHES: usize = 1024;

/// What a loop takes from its queue; empty in between.
#[derive(Default)]
pub struct Pushes {
    taken: Vec<Push>,
    held: Vec<Push>,
}

impl<M: Model> EventLoop<M> {
    /// Hands out what waits for the loop's clients, between two batches.
    #[inline]
    pub(crate) fn deliver(&mut self) {
        if self.engine.hub.has_pushes(self.slot) {
            self.deliver_now();
        }
    }

    fn deliver_now(&mut self) {
        let Pushes { mut taken, mut held } = std::mem::take(&mut self.pushes);
        if M::CLIENTS_TRAVEL {
            let (by_id, clients) = (&self.by_id, &self.station.clients);
            self.engine.hub.take_pushes_here(self.slot, &mut taken, |client| {
                by_id.get(&client).is_some_and(|&place| !clients.is_here(place))
            });
        } else {
            self.engine.hub.take_pushes(self.slot, &mut taken);
        }
        let now = braid_base::clock::unix_ms();
        // Mostly several pushes are for the same client.
        let mut last: (u64, Option<u32>) = (u64::MAX, None);
        for push in taken.drain(..) {
            for &client in push.to.ids() {
                if client != last.0 {
                    last = (client, self.by_id.get(&client).copied());
                }
                let pushed = match last.1 {
                    Some(place) => self.station.push(&self.engine, self.slot, place, &push, now),
                    None => self.send_after(client, &push.payload),
                };
                match (pushed, &*push.payload) {
                    // It waits in the queue, where the client's own commands find it.
                    (Pushed::Later, _) => held.push(Push { to: Listeners::one(client), ..push.clone() }),
                    (Pushed::Gone, Payload::Invalidation(lost)) => {
                        lost.undeliverable(&self.engine, self.slot)
                    }
                    (Pushed::Done | Pushed::Gone, _) => {}
                }
            }
        }
        if !held.is_empty() {
            self.engine.hub.put_back(self.slot, &mut held);
        }
        taken.shrink_to(KEPT_PUSHES);
        self.pushes = Pushes { taken, held };
    }

    /// Sends what is meant for a client that is not here after it, if another loop has it.
    #[cold]
    fn send_after(&self, client: u64, payload: &Arc<Payload>) -> Pushed {
        let engine = &self.engine;
        let Some(record) = engine.clients.get(client) else { return Pushed::Gone };
        record.with_owner(|owner| {
            if owner == self.slot {
                // It is on its way here.
                return Pushed::Later;
            }
            engine.hub.push(self.slot, owner, Listeners::one(client), Arc::clone(payload));
            Pushed::Done
        })
    }
}
