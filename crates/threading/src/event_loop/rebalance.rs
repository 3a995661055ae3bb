// SPDX-License-Identifier: BSD-3-Clause
//! Rebalancing: a loop that is busier than another hands clients over to it.
//!
//! New connections go to the loop with the fewest clients, which does not predict their load.
//! Therefore each loop checks ten times a second how busy all loops were (time spent in turns,
//! excluding waits). A loop that has been much busier than the idlest one for a while hands over
//! clients that account for about half of the difference, measured by the commands that they have
//! sent meanwhile.
//!
//! Clients move between two turns, in their boxes, and only when nothing but their own requests
//! concerns them: a client that waits for a key, subscribes to channels, or is with another
//! thread stays. The move is invisible to the client, since its unread input and unsent replies
//! move with it. Mail sent to the old loop is forwarded ([`EventLoop::forward`]).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::Ticks;
use braid_clients::{Message, client_flags};
use hashbrown::HashMap;

use super::EventLoop;
use crate::client::Client;
use crate::loop_loads::LoopLoads;

/// Milliseconds between two checks.
const PERIOD_MS: i64 = 100;
/// Consecutive checks that must agree before clients move.
const LOOKS: u32 = 2;
/// Checks that a loop skips after handing clients over, to see the effect.
const REST: i64 = 3;
/// Milliseconds for which a loop tries to hand over a client that is busy or away.
const PATIENCE_MS: i64 = 500;
/// Percentages of a loop's time: the threshold from which it counts as busy, and the minimum
/// difference to another loop.
const BUSY: u64 = 15;
const DIFFERENCE: u64 = 10;

/// A loop's state between two checks.
pub struct Balance {
    /// The loops between which clients are moved.
    serving: Range<usize>,
    next_ms: i64,
    seen_at: Ticks,
    /// Nanoseconds spent in turns by each loop, at the last check.
    seen: Vec<u64>,
    /// Consecutive checks that found this loop too busy.
    looks: u32,
    /// Commands of each client, by ID, at the first of these checks.
    commands: HashMap<u64, u64, foldhash::fast::RandomState>,
    /// Clients still to be handed over.
    pending: Option<PendingHandover>,
}

/// Chosen clients, by ID, and the loop to move them to.
struct PendingHandover {
    ids: Vec<u64>,
    to: usize,
    until_ms: i64,
}

impl Balance {
    /// The state of loop `slot`.
    pub fn new(slot: usize, loads: &LoopLoads) -> Balance {
        // Read once, since the range may change at any moment.
        let serving = loads.serving();
        let shares = serving.len() > 1 && serving.contains(&slot);
        Balance {
            next_ms: if shares { 0 } else { i64::MAX },
            seen: vec![0; serving.end],
            serving,
            seen_at: Ticks::now(),
            looks: 0,
            commands: HashMap::default(),
            pending: None,
        }
    }

    /// True when a check is due or clients are still to be handed over.
    #[inline]
    pub fn is_due(&self, now_ms: i64) -> bool {
        now_ms >= self.next_ms
    }
}

/// How busy this loop and the idlest one are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Imbalance {
    to: usize,
    /// Percent of the time.
    own: u64,
    other: u64,
}

/// The imbalance between loop `slot` and the idlest other loop, if it is worth acting on. `busy`
/// has each loop's share of time in percent; only the loops in `serving` count.
fn imbalance(slot: usize, busy: &[u64], serving: Range<usize>) -> Option<Imbalance> {
    let to = serving.filter(|&other| other != slot).min_by_key(|&other| busy[other])?;
    let (own, other) = (busy[slot], busy[to]);
    (own >= BUSY && own >= other + DIFFERENCE).then_some(Imbalance { to, own, other })
}

/// Chooses clients that make up about half of the difference, busiest first, as far as they fit.
/// `clients` are pairs of an ID and a number of commands.
fn choose(mut clients: Vec<(u64, u64)>, imbalance: Imbalance) -> Vec<u64> {
    let total: u64 = clients.iter().map(|&(_, commands)| commands).sum();
    let mut left = total.saturating_mul(imbalance.own - imbalance.other) / (2 * imbalance.own);
    // A client a little above half still improves the balance.
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

impl EventLoop {
    /// Checks how busy the loops are, and hands clients over if this loop is much busier than
    /// another. Called between two turns.
    #[cold]
    pub(crate) fn rebalance(&mut self, now_ms: i64) {
        if let Some(pending) = self.balance.pending.take() {
            return self.rebalance_clients(pending, now_ms);
        }
        let balance = &mut self.balance;
        balance.next_ms = now_ms + PERIOD_MS;
        let now = Ticks::now();
        let elapsed = now.nanos_since(balance.seen_at).max(1);
        balance.seen_at = now;
        let busy: Vec<u64> = balance
            .seen
            .iter_mut()
            .zip(self.engine.telemetry.threads.iter())
            .map(|(seen, stats)| {
                let nanos = stats.cycle_nanos.get();
                // A check right after a reset of the statistics sees no load.
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
        self.rebalance_clients(
            PendingHandover { ids, to: imbalance.to, until_ms: now_ms + PATIENCE_MS },
            now_ms,
        );
    }

    /// All clients by ID, with their numbers of commands.
    fn commands_of_clients(&self) -> impl Iterator<Item = (u64, u64)> {
        let clients = &self.engine.clients.registry;
        self.by_id.keys().filter_map(|&id| clients.get(id).map(|record| (id, record.commands.load(Relaxed))))
    }

    /// Hands over the clients that can move now; retries the others for a while in the next
    /// turns.
    fn rebalance_clients(&mut self, mut pending: PendingHandover, now_ms: i64) {
        pending.ids.retain(|id| {
            let place = self.by_id.get(id).copied();
            place.is_some_and(|place| !self.try_rebalance_client(place, pending.to))
        });
        if pending.ids.is_empty() || now_ms >= pending.until_ms {
            self.balance.next_ms = now_ms + REST * PERIOD_MS;
        } else {
            self.balance.next_ms = now_ms;
            self.balance.pending = Some(pending);
        }
    }

    /// Hands a client over to another loop if that loop serves. False if the client must stay for
    /// now.
    fn try_rebalance_client(&mut self, place: u32, to: usize) -> bool {
        if !self.clients.slab.get(place).is_some_and(|client| is_movable(client)) {
            return false;
        }
        let loads = Arc::clone(&self.loads);
        let assigning = loads.assign();
        if !loads.serving().contains(&to) {
            return false;
        }
        let is_gone = self.hand_over_to(&assigning, place, to);
        self.stats().handed_over.add(u64::from(is_gone));
        is_gone
    }

    /// Forwards a message to the loop that now owns its client. Returns the message if the client
    /// has arrived here in the meantime.
    #[cold]
    pub(crate) fn forward(&mut self, id: u64, message: Message) -> Option<Message> {
        self.take_handed_over();
        if self.by_id.contains_key(&id) {
            return Some(message);
        }
        // A closed client needs no message.
        let record = self.engine.clients.registry.get(id)?;
        if record.io_thread.load(Relaxed) as usize != self.slot {
            record.send(message);
        }
        None
    }
}

/// True if nothing but its own requests concerns a client now.
fn is_movable(client: &Client) -> bool {
    let busy =
        client.listed.in_batch || client.listed.to_write || client.listed.to_resume || client.is_held();
    let leaves = client.is_broken()
        || client.session.reply.close_after
        || client.session.record.has(client_flags::CLOSE_NOW);
    let hears = client.session.hears();
    !busy && !leaves && !hears && client.input.parsed.is_none() && client.replica_output.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_busy_and_much_busier_loop_hands_clients_over() {
        assert_eq!(imbalance(0, &[90, 10], 0..2), Some(Imbalance { to: 1, own: 90, other: 10 }));
        assert_eq!(imbalance(1, &[90, 10], 0..2), None, "the idle loop hands nothing over");
        assert_eq!(imbalance(0, &[90, 85], 0..2), None, "both loops are busy");
        assert_eq!(imbalance(0, &[12, 0], 0..2), None, "the loop has time left");
        assert_eq!(
            imbalance(2, &[0, 50, 90, 20], 1..4),
            Some(Imbalance { to: 3, own: 90, other: 20 }),
            "loop 0 does not serve"
        );
        assert_eq!(imbalance(0, &[90], 0..1), None, "there is no other loop");
    }

    #[test]
    fn half_of_the_difference_goes() {
        let all = Imbalance { to: 1, own: 100, other: 0 };
        assert_eq!(choose(vec![(1, 100), (2, 100), (3, 100), (4, 100)], all).len(), 2);
        assert_eq!(choose(vec![(1, 100), (2, 98)], all).len(), 1);
        assert!(choose(vec![(1, 100)], all).is_empty(), "moving a single busy client only moves the load");
        assert_eq!(choose(vec![(1, 1000), (2, 10), (3, 10)], all), [2, 3], "only clients that fit");
        assert!(choose(vec![(1, 0), (2, 0)], all).is_empty(), "nothing is gained by moving idle clients");
        let some = Imbalance { to: 1, own: 100, other: 50 };
        assert_eq!(choose(vec![(1, 100), (2, 100), (3, 100), (4, 100)], some).len(), 1);
    }
}
