// SPDX-License-Identifier: BSD-3-Clause
//! Queue of pushes to the clients of one event loop.
//!
//! Pushes are numbered. A session remembers the number up to which it was served out of turn
//! ([`Hub::claim`](crate::Hub::claim)), so each push is delivered once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use parking_lot::Mutex;

use crate::payload::Payload;

/// Clients of one loop: IDs in ascending order.
#[derive(Clone, Default, Debug)]
pub struct Listeners(Arc<Vec<u64>>);

impl Listeners {
    /// One client.
    pub fn one(client: u64) -> Listeners {
        Listeners(Arc::new(vec![client]))
    }

    /// Adds a client. Messages in flight do not reach it.
    pub fn add(&mut self, client: u64) {
        if let Err(at) = self.0.binary_search(&client) {
            Arc::make_mut(&mut self.0).insert(at, client);
        }
    }

    /// Removes a client.
    pub fn remove(&mut self, client: u64) {
        if let Ok(at) = self.0.binary_search(&client) {
            Arc::make_mut(&mut self.0).remove(at);
        }
    }

    /// Number of clients.
    #[expect(clippy::len_without_is_empty, reason = "no empty list is kept")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if the list contains a client.
    pub fn contains(&self, client: u64) -> bool {
        self.0.binary_search(&client).is_ok()
    }

    /// The client IDs.
    pub fn ids(&self) -> &[u64] {
        &self.0
    }
}

/// A push to clients of one loop.
#[derive(Clone, Debug)]
pub struct Push {
    /// Number in the loop's queue.
    pub number: u64,
    pub to: Listeners,
    pub payload: Arc<Payload>,
}

/// Memory of a push besides its text: allocations of the payload, of the list of clients and of the
/// queue.
const PUSH_OVERHEAD: usize = 200;

impl Push {
    /// Approximate memory; a payload shared by several loops counts for each.
    pub fn memory_bytes(&self) -> usize {
        self.payload.copied_len() + PUSH_OVERHEAD
    }
}

#[derive(Default)]
struct Waiting {
    /// Number of the next push.
    next: u64,
    pushes: Vec<Push>,
}

/// A loop's queue.
#[derive(Default)]
pub struct Queue {
    has_some: AtomicBool,
    waiting: Mutex<Waiting>,
    /// Memory of the pushes that are queued or being delivered.
    bytes: AtomicI64,
}

impl Queue {
    /// True if the queue is not empty. Sees pushes that were queued before the loop was woken.
    #[inline]
    pub fn has_some(&self) -> bool {
        self.has_some.load(Ordering::Acquire)
    }

    pub(crate) fn push(&self, to: Listeners, payload: Arc<Payload>) {
        let mut waiting = self.waiting.lock();
        let number = waiting.next;
        waiting.next += 1;
        let push = Push { number, to, payload };
        self.add_bytes(push.memory_bytes());
        waiting.pushes.push(push);
        self.has_some.store(true, Ordering::Release);
    }

    fn add_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as i64, Ordering::Relaxed);
    }

    /// Memory of the pushes that are queued or being delivered.
    pub(crate) fn memory_bytes(&self) -> usize {
        usize::try_from(self.bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Pushes of this memory that were taken are delivered and freed.
    pub(crate) fn delivered(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes as i64, Ordering::Relaxed);
    }

    /// Takes all pushes and appends them to `out`. [`Queue::delivered`] follows.
    pub(crate) fn take(&self, out: &mut Vec<Push>) {
        let mut waiting = self.waiting.lock();
        self.has_some.store(false, Ordering::Relaxed);
        if out.is_empty() {
            std::mem::swap(out, &mut waiting.pushes);
        } else {
            out.append(&mut waiting.pushes);
        }
    }

    /// As [`Queue::take`], but leaves pushes for clients for which `is_away` is true: they are
    /// with another thread, which finds the pushes here. Taking these pushes and putting them
    /// back would be wrong, because that thread could meanwhile find newer ones.
    pub(crate) fn take_for_local_clients(&self, out: &mut Vec<Push>, is_away: impl Fn(u64) -> bool) {
        let mut waiting = self.waiting.lock();
        for push in std::mem::take(&mut waiting.pushes) {
            let (away, here): (Vec<u64>, Vec<u64>) =
                push.to.ids().iter().copied().partition(|&client| is_away(client));
            if away.is_empty() {
                out.push(push);
                continue;
            }
            if !here.is_empty() {
                let here = Push { to: Listeners(Arc::new(here)), ..push.clone() };
                self.add_bytes(here.memory_bytes());
                out.push(here);
            }
            waiting.pushes.push(Push { to: Listeners(Arc::new(away)), ..push });
        }
        self.has_some.store(!waiting.pushes.is_empty(), Ordering::Relaxed);
    }

    /// Puts undelivered pushes back at the front.
    pub(crate) fn put_back(&self, pushes: &mut Vec<Push>) {
        let mut waiting = self.waiting.lock();
        self.add_bytes(pushes.iter().map(Push::memory_bytes).sum());
        waiting.pushes.splice(..0, pushes.drain(..));
        self.has_some.store(true, Ordering::Release);
    }

    /// A client's pushes from number `from` on, and the number after the last one.
    pub(crate) fn find(&self, client: u64, from: u64) -> (Vec<Arc<Payload>>, u64) {
        let waiting = self.waiting.lock();
        let start = waiting.pushes.partition_point(|push| push.number < from);
        let own = waiting.pushes[start..].iter().filter(|push| push.to.contains(client));
        let end = own.clone().next_back().map_or(from, |push| push.number + 1);
        (own.map(|push| Arc::clone(&push.payload)).collect(), end)
    }

    /// Number of the next push.
    pub(crate) fn end(&self) -> u64 {
        self.waiting.lock().next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Arc<Payload> {
        Arc::new(Payload::Line(text.as_bytes().into()))
    }

    #[test]
    fn pushes_for_absent_clients_stay_in_order() {
        let queue = Queue::default();
        let mut both = Listeners::one(1);
        both.add(2);
        queue.push(both, line("a"));
        queue.push(Listeners::one(1), line("b"));
        queue.push(Listeners::one(2), line("c"));
        let mut taken = Vec::new();
        queue.take_for_local_clients(&mut taken, |client| client == 2);
        let numbers = |pushes: &[Push]| -> Vec<(u64, Vec<u64>)> {
            pushes.iter().map(|push| (push.number, push.to.ids().to_vec())).collect()
        };
        assert_eq!(numbers(&taken), [(0, vec![1]), (1, vec![1])]);
        assert!(queue.has_some());
        let (found, end) = queue.find(2, 0);
        assert_eq!((found.len(), end), (2, 3));
        queue.push(Listeners::one(2), line("d"));
        assert_eq!(queue.find(2, end).0.len(), 1);
        // The client is back: pushes that it has not found elsewhere are delivered.
        taken.clear();
        queue.take_for_local_clients(&mut taken, |_| false);
        assert_eq!(numbers(&taken), [(0, vec![2]), (2, vec![2]), (3, vec![2])]);
        assert!(!queue.has_some());
    }
}
