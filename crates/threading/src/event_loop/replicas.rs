// SPDX-License-Identifier: BSD-3-Clause
//! Replicas whose connections a loop owns: each turn sends the output that is due
//! ([`crate::replica_output`]).
//!
//! A loop that has sent everything sleeps until its notifier is rung. Appenders to the journal
//! check one word for that, and only the first appender after a loop fell asleep does more.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use braid_base::clock::Ticks;
use braid_clients::client_flags;
use braid_durable::append_only;
use braid_replica::{replicas, throttle};

use super::EventLoop;
use super::pacing::{Circumstances, Pacing};
use crate::client::Client;
use crate::replica_output::{ReplicaOutput, SendContext, SendOutcome};

/// The replicas of one loop.
pub(super) struct Replicas {
    places: Vec<u32>,
    /// The offset up to which the journal could be sent in the last round.
    sent_up_to: u64,
    /// The end of the journal at that time: the part beyond `sent_up_to` may have to reach the
    /// disk first.
    known_up_to: u64,
    /// A replica took the maximum of a turn and more is pending.
    has_more: bool,
    /// Every replica has been sent everything, as of this millisecond.
    caught_up_ms: Option<i64>,
    /// The loop's bell will be rung when something is journalled.
    awaits_bell: bool,
    pacing: Pacing,
    /// The start of the clock of `pacing`.
    began: Ticks,
}

impl Default for Replicas {
    fn default() -> Replicas {
        Replicas {
            places: Vec::new(),
            sent_up_to: 0,
            known_up_to: 0,
            has_more: false,
            caught_up_ms: None,
            awaits_bell: false,
            pacing: Pacing::default(),
            began: Ticks::now(),
        }
    }
}

impl Replicas {
    pub(super) fn add(&mut self, place: u32) {
        self.places.push(place);
        self.caught_up_ms = None;
    }

    pub(super) fn remove(&mut self, place: u32) {
        self.places.retain(|&other| other != place);
    }

    fn now(&self) -> u64 {
        Ticks::now().nanos_since(self.began)
    }
}

impl EventLoop {
    /// Called when a client has become a replica or has new output.
    pub(super) fn begin_replica_output(&mut self, id: u64) {
        let Some(&place) = self.by_id.get(&id) else { return };
        let now = self.worker.now_ms();
        let Some(client) = self.clients.slab.get(place) else { return };
        if let Some(replica) = client.session.replication.replica.clone()
            && client.replica_output.is_none()
        {
            client.replica_output = Some(Box::new(ReplicaOutput::new(replica, now)));
            self.replicas.add(place);
        }
    }

    /// Sends this loop's replicas the data that is due.
    #[inline]
    pub(super) fn feed_replicas(&mut self, now_ms: i64) {
        if !self.replicas.places.is_empty() && !self.are_replicas_caught_up(now_ms) {
            self.feed_all(now_ms);
        }
    }

    /// Whether replicas need nothing in this millisecond.
    fn are_replicas_caught_up(&self, now_ms: i64) -> bool {
        let Replicas { caught_up_ms, sent_up_to, known_up_to, pacing, .. } = &self.replicas;
        let (end, awaited) = replicas::sendable(&self.engine);
        *caught_up_ms == Some(now_ms)
            && (end, awaited.unwrap_or(end)) == (*sent_up_to, *known_up_to)
            && !(pacing.is_holding() && pacing.must_push(self.replicas.now(), self.asked_at()))
    }

    /// Sends changes to this loop's replicas before the replies to the clients. If the server
    /// dies in between, these replicas have the acknowledged changes, or the kernel has them to
    /// send; it may coalesce those of several turns ([`super::pacing`]).
    #[inline]
    pub(crate) fn feed_replicas_before_replies(&mut self) {
        if !self.replicas.places.is_empty() && replicas::sendable(&self.engine).0 > self.replicas.sent_up_to {
            self.feed_all(self.worker.now_ms());
        }
    }

    fn asked_at(&self) -> u64 {
        self.engine.replication.asked_at.load(SeqCst)
    }

    #[cold]
    fn feed_all(&mut self, now_ms: i64) {
        let engine = Arc::clone(&self.engine);
        let (end, awaited) = replicas::sendable(&engine);
        if let Some(offset) = awaited {
            append_only::ask_for_disk(&engine, self.slot, offset);
        }
        let limit = throttle::replica_output_limit(&engine);
        let link = &engine.replication.link;
        let is_cut_off = link.is_replica() && !link.is_up();
        let circumstances = Circumstances { now: self.replicas.now(), end, asked_at: self.asked_at() };
        let may_hold = self.replicas.pacing.may_hold(circumstances) && !self.reply_hold.holds_any();
        let context = SendContext { engine: &engine, slot: self.slot, now_ms, end, may_hold, is_cut_off };
        (self.replicas.sent_up_to, self.replicas.known_up_to) = (end, awaited.unwrap_or(end));
        self.replicas.has_more = false;
        let (mut are_caught_up, mut holds) = (!is_cut_off, false);
        for place in self.replicas.places.clone() {
            // A connection that was closed when the server changed its history gets nothing of the
            // new one.
            let may_send = |client: &&mut Client| {
                !client.is_broken() && !client.session.record.has(client_flags::CLOSE_NOW)
            };
            let client = self.clients.slab.get(place).filter(may_send);
            let Some(Client { socket, replica_output: Some(output), session, .. }) = client else {
                // The client may be away, with another thread.
                are_caught_up = false;
                continue;
            };
            let outcome =
                if output.blocked { SendOutcome::Blocked } else { output.advance(&context, socket) };
            are_caught_up &= outcome == SendOutcome::CaughtUp && output.is_caught_up();
            holds |= output.is_holding();
            output.measure(end);
            let is_beyond = output.is_beyond(limit, now_ms);
            if is_beyond {
                log::warn!(
                    "Client id={} addr={} scheduled to be closed ASAP for overcoming of output buffer limits.",
                    session.record.id,
                    session.record.address
                );
                self.engine.telemetry.threads[self.slot].output_limit_disconnections.add(1);
            }
            self.replicas.has_more |= outcome == SendOutcome::More;
            if is_beyond || outcome == SendOutcome::Close {
                if let Some(client) = self.clients.slab.get(place) {
                    client.break_off();
                }
                self.clients.to_drop.push(place);
            } else {
                self.update_interest(place, now_ms);
            }
        }
        self.replicas.caught_up_ms = are_caught_up.then_some(now_ms);
        self.replicas.pacing.note(holds, circumstances);
        throttle::throttle_writers(&engine, limit, now_ms);
    }

    /// The longest time to sleep, in milliseconds, if the kernel holds bytes back.
    pub(super) fn replica_patience_ms(&self) -> Option<i64> {
        self.replicas.pacing.patience_ms().filter(|_| !self.replicas.places.is_empty())
    }

    /// True if the loop must not sleep because a replica can be sent more. Otherwise the loop's
    /// notifier will be rung.
    pub(super) fn has_replica_output(&mut self) -> bool {
        if self.replicas.places.is_empty() {
            return false;
        }
        let is_any_caught_up = self.is_any_replica_caught_up();
        // Bytes that wait for the disk do not count, but bytes that have reached it meanwhile do:
        // the notifier does not report events from before it was armed.
        self.replicas.has_more
            || (is_any_caught_up
                && (replicas::sendable(&self.engine).0 > self.replicas.sent_up_to
                    || self.has_missed_wake_up()))
    }

    /// Arms the loop's bell. True if that is too late.
    fn has_missed_wake_up(&mut self) -> bool {
        self.replicas.awaits_bell = true;
        let Replicas { known_up_to, pacing, .. } = &self.replicas;
        // The last acknowledgement request may have been given to the kernel before it was known
        // as one.
        replicas::arm_bell(&self.engine, self.slot, *known_up_to) || pacing.is_asked(self.asked_at())
    }

    /// Disarms the bell: the loop is awake and checks the journal itself.
    #[inline]
    pub(super) fn forgo_bell(&mut self) {
        if std::mem::take(&mut self.replicas.awaits_bell) {
            replicas::disarm_bell(&self.engine, self.slot);
        }
    }

    fn is_any_replica_caught_up(&mut self) -> bool {
        let EventLoop { replicas, clients, .. } = self;
        replicas.places.iter().any(|&place| {
            let output = clients.slab.get(place).and_then(|client| client.replica_output.as_ref());
            output.is_some_and(|output| output.is_caught_up())
        })
    }
}
