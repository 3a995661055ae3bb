// SPDX-License-Identifier: BSD-3-Clause
//! Replicas whose connections a loop owns: each turn sends their due output
//! ([`crate::replica_output`]).
//!
//! A loop that has sent everything sleeps until its notifier is rung. Appenders to the journal
//! check one word for that, and only the first one after a loop fell asleep does more.

use std::sync::Arc;

use super::{EventLoop, Model};

use crate::client::Client;
use crate::replica_output::{ReplicaOutput, SendContext, SendOutcome};

/// The replicas of one loop.
#[derive(Default)]
pub(super) struct Replicas {
    places: Vec<u32>,
    /// How far the journal could be sent in the last round.
    sent_up_to: u64,
    /// The end of the journal then: the part beyond `sent_up_to` may have to reach the disk first.
    known_up_to: u64,
    /// A replica took all that a turn allows, and there is more.
    has_more: bool,
    /// The kernel keeps bytes back for some replica; in this turn they were given to it.
    holds: bool,
    held_now: bool,
}

/// With replies to as many clients in a turn another turn follows at once, as a rule.
const BUSY_CLIENTS: usize = 4;

impl Replicas {
    pub(super) fn add(&mut self, place: u32) {
        self.places.push(place);
    }

    pub(super) fn remove(&mut self, place: u32) {
        self.places.retain(|&other| other != place);
    }
}

impl<M: Model> EventLoop<M> {
    /// A client has become a replica, or has new output.
    pub(super) fn begin_replica_output(&mut self, id: u64) {
        let Some(&place) = self.by_id.get(&id) else { return };
        let now = self.worker.now_ms();
        let Some(client) = self.clients.slab.get(place) else { return };
        if let Some(replica) = client.session.replica.clone()
            && client.replica_output.is_none()
        {
            client.replica_output = Some(Box::new(ReplicaOutput::new(replica, now)));
            self.replicas.add(place);
        }
    }

    /// Sends this loop's replicas the data that is due.
    #[inline]
    pub(super) fn feed_replicas(&mut self, now_ms: i64) {
        if !self.replicas.places.is_empty() {
            let pushes = !std::mem::take(&mut self.replicas.held_now);
            self.feed_all(now_ms, false, pushes);
        }
    }

    /// Sends changes to this loop's replicas before the replies to the clients: if the server dies
    /// in between, these replicas have the acknowledged changes, or the kernel has them to send: on
    /// a busy loop it sends at once what several turns have given it.
    #[inline]
    pub(crate) fn feed_replicas_before_replies(&mut self) {
        if !self.replicas.places.is_empty() && self.engine.sendable().0 > self.replicas.sent_up_to {
            let may_hold = self.clients.to_write.len() >= BUSY_CLIENTS && !self.reply_hold.holds_any();
            self.feed_all(self.worker.now_ms(), may_hold, false);
            self.replicas.held_now = self.replicas.holds;
        }
    }

    #[cold]
    fn feed_all(&mut self, now_ms: i64, may_hold: bool, pushes: bool) {
        let engine = Arc::clone(&self.engine);
        let (end, awaited) = engine.sendable();
        if let Some(offset) = awaited {
            engine.ask_for_disk(self.slot, offset);
        }
        let limit = engine.replica_output_limit();
        let link = &engine.replication.link;
        let is_cut_off = link.is_replica() && !link.is_up();
        let context =
            SendContext { engine: &engine, slot: self.slot, now_ms, end, may_hold, pushes, is_cut_off };
        (self.replicas.sent_up_to, self.replicas.known_up_to) = (end, awaited.unwrap_or(end));
        (self.replicas.has_more, self.replicas.holds) = (false, false);
        for place in self.replicas.places.clone() {
            // The client may be away, with another thread.
            let Some(client) = self.clients.slab.get(place).filter(|client| !client.broken) else {
                continue;
            };
            let Client { socket, replica_output: Some(output), .. } = client else { continue };
            let outcome =
                if output.blocked { SendOutcome::Blocked } else { output.advance(&context, socket) };
            self.replicas.holds |= output.is_holding();
            output.measure(end);
            let is_beyond = output.is_beyond(limit, now_ms);
            if is_beyond {
                log::warn!(
                    "Client id={} addr={} scheduled to be closed ASAP for overcoming of output buffer limits.",
                    client.session.record.id,
                    client.session.record.address
                );
                self.engine.telemetry.threads[self.slot].output_limit_disconnections.add(1);
            }
            self.replicas.has_more |= outcome == SendOutcome::More;
            if is_beyond || outcome == SendOutcome::Close {
                client.broken = true;
                self.clients.to_drop.push(place);
            } else {
                self.update_interest(place, now_ms);
            }
        }
        engine.throttle_writers(limit, now_ms);
    }

    /// True if the loop must not sleep because a replica can be sent more. Otherwise the loop's
    /// notifier will be rung.
    pub(super) fn has_replica_output(&mut self) -> bool {
        if self.replicas.places.is_empty() {
            return false;
        }
        let is_any_caught_up = self.is_any_replica_caught_up();
        let Replicas { sent_up_to, known_up_to, has_more, holds, .. } = self.replicas;
        // Bytes that wait for the disk do not count, but bytes that reached it meanwhile do: the
        // notifier does not report events from before the request for it.
        has_more
            || holds
            || (is_any_caught_up
                && (self.engine.sendable().0 > sent_up_to || self.engine.wants_news(self.slot, known_up_to)))
    }

    fn is_any_replica_caught_up(&mut self) -> bool {
        let EventLoop { replicas, clients, .. } = self;
        replicas.places.iter().any(|&place| {
            let output = clients.slab.get(place).and_then(|client| client.replica_output.as_ref());
            output.is_some_and(|output| output.is_caught_up())
        })
    }
}
