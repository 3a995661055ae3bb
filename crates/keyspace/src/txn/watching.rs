// SPDX-License-Identifier: BSD-3-Clause
//! Registering interest in keys: WATCH, client-side caching, and clients waiting for collections
//! to be filled (`waiters.rs`).
//!
//! All registration happens under the shard's lock, so that no change can slip in between the look
//! at a key and the registration.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use super::{HeldLocks, Txn};
use crate::waiters::{WaitQueues, Waiter};

impl<'a> Txn<'a> {
    /// Watches a key for the client that owns `flag`. An expired key is removed first: its later
    /// removal must not count as a change.
    pub fn watch(&mut self, key: &[u8], flag: &Arc<AtomicBool>) {
        let hash = self.hash(key);
        self.find_live(hash, key);
        let shard = self.shard(hash, true);
        // SAFETY: the shard is held exclusively.
        unsafe { shard.watchers.add(self.db, key, flag) };
    }

    /// Stops watching a key.
    pub fn unwatch(&mut self, key: &[u8], flag: &Arc<AtomicBool>) {
        let hash = self.hash(key);
        // SAFETY: the shard is held exclusively.
        unsafe { self.shard(hash, true).watchers.remove(self.db, key, flag) };
    }

    /// Records that a client has read a key of the lock set, to be informed of its next change.
    /// Returns whether the key is new, and whether the record is new.
    pub fn track(&self, key: &[u8], client: u64) -> (bool, bool) {
        self.shard(self.hash(key), false).watchers.track(key, client)
    }

    /// True if the lock set includes a key for writing.
    pub fn holds(&self, key: &[u8]) -> bool {
        self.covers(self.keyspace.shard_of(self.hash(key)), true)
    }

    /// Adds a waiter to the queues of all its keys. `queues` are the keyspace's own, here and in
    /// the functions below.
    pub fn wait<R>(&mut self, queues: &WaitQueues<R>, waiter: &Arc<Waiter<R>>) {
        for key in &waiter.keys {
            let hash = self.keyspace.hash(key);
            let shard = self.shard(hash, true);
            queues.add(self.keyspace.shard_of(hash), key, waiter);
            shard.watchers.note_waiter();
        }
    }

    /// Removes a waiter from the queues of its keys in the lock set. True if the lock set includes
    /// all of its keys.
    pub fn stop_waiting<R>(&mut self, queues: &WaitQueues<R>, waiter: &Waiter<R>) -> bool {
        let mut complete = true;
        for key in &waiter.keys {
            let shard = self.keyspace.shard_of(self.keyspace.hash(key));
            if !self.covers(shard, true) {
                complete = false;
            } else if queues.remove(shard, key, waiter) {
                self.keyspace.shard(shard).watchers.forget_waiter();
            }
        }
        complete
    }

    /// The first client after ticket `behind` (0: the first client) that still waits for a key of
    /// the current database.
    pub fn next_waiter<R>(&self, queues: &WaitQueues<R>, key: &[u8], behind: u64) -> Option<Arc<Waiter<R>>> {
        let hash = self.hash(key);
        if self.shard(hash, true).watchers.is_empty() {
            return None;
        }
        queues.next(self.keyspace.shard_of(hash), self.db, key, behind)
    }

    /// True if a client waits for a key.
    pub(super) fn is_awaited(&self, hash: u64, key: &[u8]) -> bool {
        self.keyspace
            .awaited()
            .is_some_and(|queues| queues.contains(self.keyspace.shard_of(hash), self.db, key))
    }

    /// True if a client waiting for the key must be informed of its loss.
    pub fn wakes_on_delete(&self, key: &[u8]) -> bool {
        let shard = self.keyspace.shard_of(self.hash(key));
        debug_assert!(self.covers(shard, true));
        self.keyspace.awaited().is_some_and(|queues| queues.wakes_on_delete(shard, self.db, key))
    }

    /// Makes the waiters of some databases look again, after all keys of these databases changed
    /// together. The world must be stopped.
    pub fn databases_changed(&mut self, changed: impl Fn(u32) -> bool) {
        debug_assert!(matches!(self.held, HeldLocks::World(_)));
        let Some(queues) = self.keyspace.awaited() else { return };
        let shards = (0..).zip(self.keyspace.shards());
        for (index, _) in shards.filter(|(_, shard)| !shard.watchers.is_empty()) {
            queues.for_each_key(index, &mut |db, key| {
                if changed(db) {
                    self.note_ready(db, key);
                }
            });
        }
    }
}

/// A flag that is raised when a watched key changes.
pub fn new_watch_flag() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(false))
}

/// True once a watched key has changed.
pub fn is_raised(flag: &AtomicBool) -> bool {
    flag.load(Relaxed)
}
