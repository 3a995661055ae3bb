// SPDX-License-Identifier: BSD-3-Clause
//! Clients waiting for keys to be filled: one queue per key, in order of arrival.
//!
//! A waiter is in the queue of each of its keys, which may be in several shards. To end its wait,
//! by a reply or otherwise, a thread must first [`Waiter::claim`] it; exactly one thread succeeds.
//! A claimed waiter may remain in queues for a moment, where it is skipped. `tests/model.rs` races
//! pushes, timeouts and CLIENT UNBLOCK for a waiter under a model checker.
//!
//! Only the crate above knows the type of a waiter's request. That crate therefore holds the
//! [`WaitQueues`] of its keyspace and passes them when it adds, removes and takes waiters. The
//! keyspace sees the same queues as [`AwaitedKeys`]: the keys with waiters, but not the waiters.
//!
//! A shard's queues are used only under its exclusive lock, so their own lock is always free.
//! Changed keys with waiters are collected in the changing thread's context and served by the
//! dispatcher.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use braid_base::sharing::{Line, note};
use braid_base::sync::atomic::AtomicBool;
use braid_base::sync::{Fault, planted};
use hashbrown::{Equivalent, HashMap};
use parking_lot::{Mutex, MutexGuard};

use crate::value_type::Type;

/// The next ticket. Drawn under the locks of all of a waiter's keys, so that tickets in each queue
/// are in order of arrival.
static NEXT_TICKET: AtomicU64 = AtomicU64::new(1);

/// A client's wait for any of several keys.
pub struct Waiter<R: ?Sized> {
    over: AtomicBool,
    ticket: u64,
    pub db: u32,
    /// Without duplicates.
    pub keys: Box<[Box<[u8]>]>,
    /// The type of the awaited value.
    pub kind: Type,
    /// The client must also be informed when a key is removed or changes its type.
    pub wakes_on_delete: bool,
    /// The request to execute once a key is filled.
    pub request: R,
}

impl<R> Waiter<R> {
    /// A waiter for the first of `keys` (of database `db`) that holds a value of type `kind`. The
    /// caller holds the locks of all keys, so that the waiter comes after the existing ones.
    pub fn new(db: u32, keys: &[&[u8]], kind: Type, wakes_on_delete: bool, request: R) -> Waiter<R> {
        let mut names: Vec<Box<[u8]>> = keys.iter().map(|&key| key.into()).collect();
        names.sort_unstable();
        names.dedup();
        note(Line::Waiters, 1, 1);
        let ticket = NEXT_TICKET.fetch_add(1, Ordering::Relaxed);
        Waiter {
            over: AtomicBool::new(false),
            ticket,
            db,
            keys: names.into(),
            kind,
            wakes_on_delete,
            request,
        }
    }
}

impl<R: ?Sized> Waiter<R> {
    /// Ends the wait. True for exactly one caller, which must then send the client's reply.
    pub fn claim(&self) -> bool {
        if planted(Fault::ClaimInTwoSteps) {
            let first = self.is_waiting();
            self.over.store(true, Ordering::Release);
            return first;
        }
        note(Line::Waiters, 1, 1);
        !self.over.swap(true, Ordering::AcqRel)
    }

    /// True until the waiter is claimed.
    pub fn is_waiting(&self) -> bool {
        !self.over.load(Ordering::Acquire)
    }

    /// The waiter's number among all waiters, in order of arrival.
    pub fn ticket(&self) -> u64 {
        self.ticket
    }
}

struct Queue<R> {
    waiters: BTreeMap<u64, Arc<Waiter<R>>>,
    /// Number of waiters with `wakes_on_delete`.
    waking_on_delete: usize,
}

impl<R> Default for Queue<R> {
    fn default() -> Queue<R> {
        Queue { waiters: BTreeMap::new(), waking_on_delete: 0 }
    }
}

/// A database and a key, to look up a queue without allocation.
#[derive(Hash)]
struct Name<'a>(u32, &'a [u8]);

impl Equivalent<(u32, Box<[u8]>)> for Name<'_> {
    fn equivalent(&self, other: &(u32, Box<[u8]>)) -> bool {
        self.0 == other.0 && *self.1 == *other.1
    }
}

/// Queues by database and key.
type Queues<R> = HashMap<(u32, Box<[u8]>), Queue<R>, foldhash::fast::RandomState>;

/// The queues of one shard.
#[repr(align(64))]
struct ShardQueues<R> {
    queues: Mutex<Queues<R>>,
    keys: AtomicUsize,
    keys_waking_on_delete: AtomicUsize,
}

impl<R> Default for ShardQueues<R> {
    fn default() -> ShardQueues<R> {
        ShardQueues {
            queues: Mutex::default(),
            keys: AtomicUsize::new(0),
            keys_waking_on_delete: AtomicUsize::new(0),
        }
    }
}

/// The queues of a keyspace, made by [`Keyspace::wait_queues`](crate::Keyspace::wait_queues).
pub struct WaitQueues<R> {
    shards: Box<[ShardQueues<R>]>,
}

impl<R> WaitQueues<R> {
    /// Empty queues for this number of shards.
    pub(crate) fn new(shards: usize) -> WaitQueues<R> {
        WaitQueues { shards: (0..shards).map(|_| ShardQueues::default()).collect() }
    }

    fn shard(&self, shard: u32) -> &ShardQueues<R> {
        &self.shards[shard as usize]
    }

    /// The queues of a shard, locked.
    fn queues(&self, shard: u32) -> MutexGuard<'_, Queues<R>> {
        note(Line::Waiters, 1, 2);
        self.shard(shard).queues.lock()
    }

    /// Adds a waiter to the queue of one of its keys, which belongs to this shard.
    pub(crate) fn add(&self, shard: u32, key: &[u8], waiter: &Arc<Waiter<R>>) {
        let (mut queues, shard) = (self.queues(shard), self.shard(shard));
        let queue = queues.entry((waiter.db, key.into())).or_default();
        queue.waiters.insert(waiter.ticket, Arc::clone(waiter));
        shard.keys.fetch_add(usize::from(queue.waiters.len() == 1), Ordering::Relaxed);
        if waiter.wakes_on_delete {
            queue.waking_on_delete += 1;
            shard
                .keys_waking_on_delete
                .fetch_add(usize::from(queue.waking_on_delete == 1), Ordering::Relaxed);
        }
    }

    /// Removes a waiter from the queue of one of its keys. False if the waiter is not (or no
    /// longer) in it.
    pub(crate) fn remove(&self, shard: u32, key: &[u8], waiter: &Waiter<R>) -> bool {
        let (mut queues, shard) = (self.queues(shard), self.shard(shard));
        let name = Name(waiter.db, key);
        let Some(queue) = queues.get_mut(&name) else { return false };
        if queue.waiters.remove(&waiter.ticket).is_none() {
            return false;
        }
        if waiter.wakes_on_delete {
            queue.waking_on_delete -= 1;
            shard
                .keys_waking_on_delete
                .fetch_sub(usize::from(queue.waking_on_delete == 0), Ordering::Relaxed);
        }
        if queue.waiters.is_empty() {
            queues.remove(&name);
            shard.keys.fetch_sub(1, Ordering::Relaxed);
        }
        true
    }

    /// All waiters for keys of a shard, without duplicates, in order of arrival.
    pub fn of_shard(&self, shard: u32) -> Vec<Arc<Waiter<R>>> {
        let shard = self.shard(shard);
        if shard.keys.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let queues = shard.queues.lock();
        let all = queues.values().flat_map(|queue| queue.waiters.iter());
        let by_ticket: BTreeMap<u64, &Arc<Waiter<R>>> =
            all.map(|(ticket, waiter)| (*ticket, waiter)).collect();
        by_ticket.into_values().cloned().collect()
    }

    /// The first waiter after ticket `behind` that still waits for a key.
    pub(crate) fn next(&self, shard: u32, db: u32, key: &[u8], behind: u64) -> Option<Arc<Waiter<R>>> {
        let queues = self.queues(shard);
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
}

/// The queues as seen by the keyspace, without the waiters' requests.
pub trait AwaitedKeys: Send + Sync {
    /// Number of keys with waiters, and of keys with a waiter that has `wakes_on_delete`; may be
    /// slightly stale.
    fn key_counts(&self) -> (usize, usize);

    /// True if a client waits for a key of this shard.
    fn contains(&self, shard: u32, db: u32, key: &[u8]) -> bool;

    /// True if a waiter with `wakes_on_delete` waits for a key of this shard.
    fn wakes_on_delete(&self, shard: u32, db: u32, key: &[u8]) -> bool;

    /// Calls `visit` with the database and name of each awaited key of this shard.
    fn for_each_key(&self, shard: u32, visit: &mut dyn FnMut(u32, &[u8]));
}

impl<R: Send + Sync> AwaitedKeys for WaitQueues<R> {
    fn key_counts(&self) -> (usize, usize) {
        self.shards.iter().fold((0, 0), |(keys, heeding), shard| {
            let (more, more_heeding) = (&shard.keys, &shard.keys_waking_on_delete);
            (keys + more.load(Ordering::Relaxed), heeding + more_heeding.load(Ordering::Relaxed))
        })
    }

    fn contains(&self, shard: u32, db: u32, key: &[u8]) -> bool {
        let shard = self.shard(shard);
        shard.keys.load(Ordering::Relaxed) > 0 && shard.queues.lock().contains_key(&Name(db, key))
    }

    fn wakes_on_delete(&self, shard: u32, db: u32, key: &[u8]) -> bool {
        self.shard(shard).queues.lock().get(&Name(db, key)).is_some_and(|queue| queue.waking_on_delete > 0)
    }

    fn for_each_key(&self, shard: u32, visit: &mut dyn FnMut(u32, &[u8])) {
        self.shard(shard).queues.lock().keys().for_each(|(db, key)| visit(*db, key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(keys: &[&[u8]], wakes_on_delete: bool) -> Arc<Waiter<()>> {
        Arc::new(Waiter::new(0, keys, Type::new(1), wakes_on_delete, ()))
    }

    #[test]
    fn wait_queue_is_fifo_and_skips_claimed_waiters() {
        let waiters = WaitQueues::new(2);
        let [first, second, third] = [(); 3].map(|()| waiter(&[b"k", b"k"], false));
        assert_eq!(first.keys.len(), 1);
        for waiter in [&second, &first, &third] {
            waiters.add(1, b"k", waiter);
        }
        let next = |behind| waiters.next(1, 0, b"k", behind).map(|waiter| waiter.ticket());
        assert_eq!(next(0), Some(first.ticket()));
        assert_eq!(next(first.ticket()), Some(second.ticket()));
        assert!(first.claim() && !first.claim());
        assert_eq!(next(0), Some(second.ticket()));
        assert_eq!(waiters.next(1, 1, b"k", 0).map(|waiter| waiter.ticket()), None);
        assert_eq!(waiters.next(0, 0, b"k", 0).map(|waiter| waiter.ticket()), None);
        for waiter in [&first, &second, &third] {
            assert!(waiters.contains(1, 0, b"k"));
            assert!(waiters.remove(1, b"k", waiter));
            assert!(!waiters.remove(1, b"k", waiter));
        }
        assert!(!waiters.contains(1, 0, b"k"));
        assert_eq!(waiters.key_counts(), (0, 0));
    }

    #[test]
    fn keys_are_counted_once_however_many_wait() {
        let waiters = WaitQueues::new(1);
        let (plain, heeding, other) = (waiter(&[b"k"], false), waiter(&[b"k"], true), waiter(&[b"l"], true));
        waiters.add(0, b"k", &plain);
        assert!(!waiters.wakes_on_delete(0, 0, b"k"));
        waiters.add(0, b"k", &heeding);
        waiters.add(0, b"l", &other);
        assert!(waiters.wakes_on_delete(0, 0, b"k"));
        assert_eq!(waiters.key_counts(), (2, 2));
        waiters.remove(0, b"k", &heeding);
        assert_eq!(waiters.key_counts(), (2, 1));
        let mut keys = Vec::new();
        waiters.for_each_key(0, &mut |db, key| keys.push((db, key.to_vec())));
        keys.sort();
        assert_eq!(keys, [(0, b"k".to_vec()), (0, b"l".to_vec())]);
    }
}
