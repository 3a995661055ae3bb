// SPDX-License-Identifier: BSD-3-Clause
//! Clients that wait for keys to be filled: who waits for which key, in the order in which they came.
//!
//! A shard's waiters live beside its tables and are touched only under its exclusive lock. A waiter
//! stands in the queue of each of its keys, which may lie in several shards; whoever wants to end
//! its wait, by an answer or otherwise, first has to [`Waiter::claim`] it, and exactly one
//! succeeds. A claimed waiter may still be found in queues for a moment: it is passed over.
//! `tests/model.rs` has pushes, timeouts and CLIENT UNBLOCK race for it under a model checker.
//!
//! Changes of a key that somebody waits for are collected in the changing thread's context, and the
//! dispatcher serves them.

use std::any::Any;
use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use braid_base::sync::atomic::AtomicBool;
use braid_base::sync::{Fault, planted};
use hashbrown::{Equivalent, HashMap};

use crate::value_type::Type;

/// The next place in the queues: drawn under the locks of all of a waiter's keys, so that in each
/// queue the order of tickets is the order of arrival.
static NEXT_TICKET: AtomicU64 = AtomicU64::new(1);

/// A client's wait for one of some keys.
pub struct Waiter {
    over: AtomicBool,
    ticket: u64,
    pub db: u32,
    /// Without repetitions.
    pub keys: Box<[Box<[u8]>]>,
    /// The type of value that is waited for.
    pub kind: Type,
    /// It also wants to know that a key is gone or holds another type.
    pub heeds_loss: bool,
    /// What is to be done when a key is filled; the keyspace does not look inside.
    pub request: Box<dyn Any + Send + Sync>,
}

impl Waiter {
    /// A waiter for the first of `keys` (of database `db`) that holds a `kind`. The locks of all
    /// keys must be held, so that it gets its place behind those who wait already.
    pub fn new(
        db: u32,
        keys: &[&[u8]],
        kind: Type,
        heeds_loss: bool,
        request: Box<dyn Any + Send + Sync>,
    ) -> Waiter {
        let mut names: Vec<Box<[u8]>> = keys.iter().map(|&key| key.into()).collect();
        names.sort_unstable();
        names.dedup();
        let ticket = NEXT_TICKET.fetch_add(1, Ordering::Relaxed);
        Waiter { over: AtomicBool::new(false), ticket, db, keys: names.into(), kind, heeds_loss, request }
    }

    /// Ends the wait. True for the one caller who has thereby become responsible for the client's reply.
    pub fn claim(&self) -> bool {
        if planted(Fault::ClaimInTwoSteps) {
            let first = self.is_waiting();
            self.over.store(true, Ordering::Release);
            return first;
        }
        !self.over.swap(true, Ordering::AcqRel)
    }

    /// True until somebody has claimed it.
    pub fn is_waiting(&self) -> bool {
        !self.over.load(Ordering::Acquire)
    }

    /// Its place among all waiters; lower ones came earlier.
    pub fn ticket(&self) -> u64 {
        self.ticket
    }
}

#[derive(Default)]
struct Queue {
    waiters: BTreeMap<u64, Arc<Waiter>>,
    /// How many of them heed the loss of the key.
    heeding_loss: usize,
}

/// A key of a database, to look a queue up with.
#[derive(Hash)]
struct Name<'a>(u32, &'a [u8]);

impl Equivalent<(u32, Box<[u8]>)> for Name<'_> {
    fn equivalent(&self, other: &(u32, Box<[u8]>)) -> bool {
        self.0 == other.0 && *self.1 == *other.1
    }
}

type Queues = HashMap<(u32, Box<[u8]>), Queue, foldhash::fast::RandomState>;

/// The waiters for the keys of one shard.
#[derive(Default)]
pub struct Waiters {
    queues: UnsafeCell<Queues>,
    keys: AtomicUsize,
    keys_heeding_loss: AtomicUsize,
}

// SAFETY: `queues` is only touched by whoever holds the shard exclusively (the methods that do are
// unsafe and say so).
unsafe impl Sync for Waiters {}

impl Waiters {
    /// Keys that somebody waits for, and those of them whose loss somebody heeds; may be a moment old.
    pub fn key_counts(&self) -> (usize, usize) {
        (self.keys.load(Ordering::Relaxed), self.keys_heeding_loss.load(Ordering::Relaxed))
    }

    /// Puts a waiter into the queue of one of its keys.
    ///
    /// # Safety
    /// The caller holds the shard exclusively.
    pub(crate) unsafe fn add(&self, key: &[u8], waiter: &Arc<Waiter>) {
        // SAFETY: the caller's.
        let queues = unsafe { &mut *self.queues.get() };
        let queue = queues.entry((waiter.db, key.into())).or_default();
        queue.waiters.insert(waiter.ticket, Arc::clone(waiter));
        self.keys.fetch_add(usize::from(queue.waiters.len() == 1), Ordering::Relaxed);
        if waiter.heeds_loss {
            queue.heeding_loss += 1;
            self.keys_heeding_loss.fetch_add(usize::from(queue.heeding_loss == 1), Ordering::Relaxed);
        }
    }

    /// Takes a waiter out of the queue of one of its keys. False if it is not there (any more).
    ///
    /// # Safety
    /// The caller holds the shard exclusively.
    pub(crate) unsafe fn remove(&self, key: &[u8], waiter: &Waiter) -> bool {
        // SAFETY: the caller's.
        let queues = unsafe { &mut *self.queues.get() };
        let name = Name(waiter.db, key);
        let Some(queue) = queues.get_mut(&name) else { return false };
        if queue.waiters.remove(&waiter.ticket).is_none() {
            return false;
        }
        if waiter.heeds_loss {
            queue.heeding_loss -= 1;
            self.keys_heeding_loss.fetch_sub(usize::from(queue.heeding_loss == 0), Ordering::Relaxed);
        }
        if queue.waiters.is_empty() {
            queues.remove(&name);
            self.keys.fetch_sub(1, Ordering::Relaxed);
        }
        true
    }

    /// True if somebody waits for a key.
    ///
    /// # Safety
    /// The caller holds the shard exclusively.
    pub(crate) unsafe fn contains(&self, db: u32, key: &[u8]) -> bool {
        // SAFETY: the caller's.
        let queues = unsafe { &*self.queues.get() };
        queues.contains_key(&Name(db, key))
    }

    /// True if somebody waits for a key who heeds its loss.
    ///
    /// # Safety
    /// The caller holds the shard exclusively.
    pub(crate) unsafe fn heeds_loss(&self, db: u32, key: &[u8]) -> bool {
        // SAFETY: the caller's.
        let queues = unsafe { &*self.queues.get() };
        queues.get(&Name(db, key)).is_some_and(|queue| queue.heeding_loss > 0)
    }

    /// The first of those who still wait for a key behind ticket `behind`.
    ///
    /// # Safety
    /// The caller holds the shard exclusively.
    pub(crate) unsafe fn next(&self, db: u32, key: &[u8], behind: u64) -> Option<Arc<Waiter>> {
        // SAFETY: the caller's.
        let queues = unsafe { &*self.queues.get() };
        let queue = queues.get(&Name(db, key))?;
        let mut later = queue.waiters.range((Bound::Excluded(behind), Bound::Unbounded));
        if planted(Fault::ClaimedHideOthers) {
            return later
                .next()
                .filter(|(_, waiter)| waiter.is_waiting())
                .map(|(_, waiter)| Arc::clone(waiter));
        }
        later.find(|(_, waiter)| waiter.is_waiting()).map(|(_, waiter)| Arc::clone(waiter))
    }

    /// Calls `visit` with each key that somebody waits for.
    ///
    /// # Safety
    /// The caller holds the shard exclusively.
    pub(crate) unsafe fn for_each_key(&self, mut visit: impl FnMut(u32, &[u8])) {
        // SAFETY: the caller's.
        let queues = unsafe { &*self.queues.get() };
        queues.keys().for_each(|(db, key)| visit(*db, key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(keys: &[&[u8]], heeds_loss: bool) -> Arc<Waiter> {
        Arc::new(Waiter::new(0, keys, Type::new(1), heeds_loss, Box::new(())))
    }

    #[test]
    fn a_queue_is_in_order_of_arrival_and_passes_over_who_was_claimed() {
        let waiters = Waiters::default();
        let [first, second, third] = [(); 3].map(|()| waiter(&[b"k", b"k"], false));
        assert_eq!(first.keys.len(), 1);
        // SAFETY: nobody else is there.
        unsafe {
            for waiter in [&second, &first, &third] {
                waiters.add(b"k", waiter);
            }
            let next = |behind| waiters.next(0, b"k", behind).map(|waiter| waiter.ticket());
            assert_eq!(next(0), Some(first.ticket()));
            assert_eq!(next(first.ticket()), Some(second.ticket()));
            assert!(first.claim() && !first.claim());
            assert_eq!(next(0), Some(second.ticket()));
            assert_eq!(waiters.next(1, b"k", 0).map(|waiter| waiter.ticket()), None);
            for waiter in [&first, &second, &third] {
                assert!(waiters.contains(0, b"k"));
                assert!(waiters.remove(b"k", waiter));
                assert!(!waiters.remove(b"k", waiter));
            }
            assert!(!waiters.contains(0, b"k"));
        }
        assert_eq!(waiters.key_counts(), (0, 0));
    }

    #[test]
    fn keys_are_counted_once_however_many_wait() {
        let waiters = Waiters::default();
        let (plain, heeding, other) = (waiter(&[b"k"], false), waiter(&[b"k"], true), waiter(&[b"l"], true));
        // SAFETY: nobody else is there.
        unsafe {
            waiters.add(b"k", &plain);
            assert!(!waiters.heeds_loss(0, b"k"));
            waiters.add(b"k", &heeding);
            waiters.add(b"l", &other);
            assert!(waiters.heeds_loss(0, b"k"));
            assert_eq!(waiters.key_counts(), (2, 2));
            waiters.remove(b"k", &heeding);
            assert_eq!(waiters.key_counts(), (2, 1));
            let mut keys = Vec::new();
            waiters.for_each_key(|db, key| keys.push((db, key.to_vec())));
            keys.sort();
            assert_eq!(keys, [(0, b"k".to_vec()), (0, b"l".to_vec())]);
        }
    }
}
