// SPDX-License-Identifier: BSD-3-Clause
//! Rebalancing: a loop that is busier than another one hands connections over to it.
//!
//! New connections go to the loop with the fewest, which says nothing about how much they will send. So each loop looks ten times a second
//! how busy all of them were (the time in their turns, waiting excluded). One that has been much busier than the idlest one for a
//! while hands over clients that together make up about half of the difference, by the commands that they have sent meanwhile. Clients
//! move between two turns, in their boxes, and only when nothing but their own requests concerns them: one that waits for a key, listens to channels,
//! or is with another thread stays. So the client notices nothing: what it has sent is in its socket or its box, and so are its replies.
//!
//! Mail that was sent to the old loop goes after the client ([`EventLoop::forward`]).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::Ticks;
use braid_clients::{Message, client_flags};
use hashbrown::HashMap;

use crate::accept::LoopLoads;
use crate::client::Client;
use crate::event_loop::EventLoop;
use crate::models::Model;

/// Milliseconds between two looks.
const PERIOD_MS: i64 = 100;
/// Looks that have to agree before anything is done.
const LOOKS: u32 = 2;
/// Looks for which a loop that has handed clients over waits for the effect.
const REST: i64 = 3;
/// Milliseconds for which a loop tries to hand over a client that is not at hand, or has something to be done first.
const PATIENCE_MS: i64 = 500;
/// Shares of its time, in per cent, from which a loop counts as busy, and by which it has to be busier than another.
const BUSY: u64 = 15;
const DIFFERENCE: u64 = 10;

/// What a loop remembers from one look to the next.
pub struct Balance {
    /// The loops between which clients are moved.
    serving: Range<usize>,
    next_ms: i64,
    seen_at: Ticks,
    /// Nanoseconds in turns of each loop, at the last look.
    seen: Vec<u64>,
    /// Looks in a row by which this loop was too busy.
    looks: u32,
    /// Commands of each client, by id, when that began.
    commands: HashMap<u64, u64, foldhash::fast::RandomState>,
    /// Clients that are to be handed over as soon as that is possible.
    leaving: Option<Leaving>,
}

/// Clients, by id, and where they are to go.
struct Leaving {
    ids: Vec<u64>,
    to: usize,
    until_ms: i64,
}

impl Balance {
    /// Of loop `slot`.
    pub fn new(slot: usize, loads: &LoopLoads) -> Balance {
        // Once: their number may change at any moment.
        let serving = loads.serving();
        let shares = serving.len() > 1 && serving.contains(&slot);
        Balance {
            next_ms: if shares { 0 } else { i64::MAX },
            seen: vec![0; serving.end],
            serving,
            seen_at: Ticks::now(),
            looks: 0,
            commands: HashMap::default(),
            leaving: None,
        }
    }

    /// True when it is time for a look, and while clients are to be handed over.
    #[inline]
    pub fn is_due(&self, now_ms: i64) -> bool {
        now_ms >= self.next_ms
    }
}

/// A loop that is busy, and the idlest one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Imbalance {
    to: usize,
    /// In per cent of the time.
    own: u64,
    other: u64,
}

/// How the time of loops is distributed, if that is unfair to loop `slot`. `busy` are shares of their time in per cent, for the loops of
/// `serving`; the others count for nothing.
fn imbalance(slot: usize, busy: &[u64], serving: Range<usize>) -> Option<Imbalance> {
    let to = serving.filter(|&other| other != slot).min_by_key(|&other| busy[other])?;
    let (own, other) = (busy[slot], busy[to]);
    (own >= BUSY && own >= other + DIFFERENCE).then_some(Imbalance { to, own, other })
}

/// Which clients to hand over so that about half of the difference goes with them: the busiest ones first, as far as they fit. `clients` are
/// ids with numbers of commands.
fn choose(mut clients: Vec<(u64, u64)>, imbalance: Imbalance) -> Vec<u64> {
    let total: u64 = clients.iter().map(|&(_, commands)| commands).sum();
    let mut left = total.saturating_mul(imbalance.own - imbalance.other) / (2 * imbalance.own);
    // One that takes a little more than half is still better off elsewhere.
    left += left / 8;
    clients.sort_unstable_by_key(|&(_, commands)| std::cmp::Reverse(commands));
    clients.retain(|&(_, commands)| {
        let fits = commands > 0 && commands <= left;
        if fits {
            left -= commands;
        }
        fits
    });
    clients.into_iter().map(|(id, _)| id).collect()
}

impl<M: Model> EventLoop<M> {
    /// Looks how busy the loops are, and hands clients over if this one has more to do than another. Called between two turns.
    #[cold]
    pub(crate) fn rebalance(&mut self, now_ms: i64) {
        if let Some(leaving) = self.balance.leaving.take() {
            return self.hand_over_clients(leaving, now_ms);
        }
        let balance = &mut self.balance;
        balance.next_ms = now_ms + PERIOD_MS;
        let now = Ticks::now();
        let elapsed = now.nanos_since(balance.seen_at).max(1);
        balance.seen_at = now;
        let busy: Vec<u64> = balance
            .seen
            .iter_mut()
            .zip(self.engine.threads.iter())
            .map(|(seen, stats)| {
                let nanos = stats.cycle_nanos.get();
                // Statistics can be reset: then this look tells nothing.
                nanos.saturating_sub(std::mem::replace(seen, nanos)).saturating_mul(100) / elapsed
            })
            .collect();
        let Some(imbalance) = imbalance(self.slot, &busy, balance.serving.clone()) else {
            balance.looks = 0;
            return;
        };
        if balance.looks == 0 {
            self.balance.commands = self.commands_of_clients().collect();
        }
        self.balance.looks += 1;
        if self.balance.looks <= LOOKS {
            return;
        }
        self.balance.looks = 0;
        let before = std::mem::take(&mut self.balance.commands);
        let since = self
            .commands_of_clients()
            .map(|(id, commands)| (id, commands - before.get(&id).unwrap_or(&commands).min(&commands)))
            .collect();
        let ids = choose(since, imbalance);
        self.hand_over_clients(Leaving { ids, to: imbalance.to, until_ms: now_ms + PATIENCE_MS }, now_ms);
    }

    /// All clients by id, with the commands that they have sent.
    fn commands_of_clients(&self) -> impl Iterator<Item = (u64, u64)> {
        let clients = &self.engine.clients;
        self.by_id.keys().filter_map(|&id| clients.get(id).map(|record| (id, record.commands.load(Relaxed))))
    }

    /// Hands over those who are at hand; the others, for a while, in the next turns.
    fn hand_over_clients(&mut self, mut leaving: Leaving, now_ms: i64) {
        leaving.ids.retain(|id| {
            let place = self.by_id.get(id).copied();
            place.is_some_and(|place| !self.hand_over_client(place, leaving.to))
        });
        if leaving.ids.is_empty() || now_ms >= leaving.until_ms {
            self.balance.next_ms = now_ms + REST * PERIOD_MS;
        } else {
            self.balance.next_ms = now_ms;
            self.balance.leaving = Some(leaving);
        }
    }

    /// Hands a client over to another loop, if that serves. False if something keeps it here for now.
    fn hand_over_client(&mut self, place: u32, to: usize) -> bool {
        if !self.station.clients.get(place).is_some_and(|client| is_movable(client)) {
            return false;
        }
        let loads = Arc::clone(&self.loads);
        let assigning = loads.assign();
        if !loads.serving().contains(&to) {
            return false;
        }
        let is_gone = self.send_over(&assigning, place, to);
        self.stats().handed_over.add(u64::from(is_gone));
        is_gone
    }

    /// Sends a message about a client that is not here after it. Returns the message if the client has come in the meantime.
    #[cold]
    pub(crate) fn forward(&mut self, id: u64, message: Message) -> Option<Message> {
        self.take_handed_over();
        if self.by_id.contains_key(&id) {
            return Some(message);
        }
        // If it has left for good nobody needs to know.
        let record = self.engine.clients.get(id)?;
        if record.io_thread.load(Relaxed) as usize != self.slot {
            record.send(message);
        }
        None
    }
}

/// True if nothing but a client's own requests concerns it now.
fn is_movable(client: &Client) -> bool {
    let busy = client.in_batch || client.in_write_list || client.in_resume_list || client.is_held();
    let leaves = client.broken
        || client.session.close_after_reply
        || client.session.record.has(client_flags::CLOSE_NOW);
    let hears = client.session.hears();
    !busy && !leaves && !hears && client.trip.is_none() && client.feed.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_is_busy_and_much_busier_than_another_hands_over() {
        assert_eq!(imbalance(0, &[90, 10], 0..2), Some(Imbalance { to: 1, own: 90, other: 10 }));
        assert_eq!(imbalance(1, &[90, 10], 0..2), None, "not the idle one");
        assert_eq!(imbalance(0, &[90, 85], 0..2), None, "both are busy");
        assert_eq!(imbalance(0, &[12, 0], 0..2), None, "it has time left");
        assert_eq!(
            imbalance(2, &[0, 50, 90, 20], 1..4),
            Some(Imbalance { to: 3, own: 90, other: 20 }),
            "not to 0"
        );
        assert_eq!(imbalance(0, &[90], 0..1), None, "there is no other");
    }

    #[test]
    fn half_of_the_difference_goes() {
        let all = Imbalance { to: 1, own: 100, other: 0 };
        assert_eq!(choose(vec![(1, 100), (2, 100), (3, 100), (4, 100)], all).len(), 2);
        assert_eq!(choose(vec![(1, 100), (2, 98)], all).len(), 1);
        assert_eq!(choose(vec![(1, 100)], all), [], "it would only be the other one's trouble");
        assert_eq!(choose(vec![(1, 1000), (2, 10), (3, 10)], all), [2, 3], "what fits");
        assert_eq!(choose(vec![(1, 0), (2, 0)], all), [], "nothing is gained by moving idle clients");
        let some = Imbalance { to: 1, own: 100, other: 50 };
        assert_eq!(choose(vec![(1, 100), (2, 100), (3, 100), (4, 100)], some).len(), 1);
    }
}
