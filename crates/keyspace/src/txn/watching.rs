// SPDX-License-Identifier: BSD-3-Clause
//! Who takes an interest in keys: WATCH, client-side caching, and clients that wait for collections
//! to be filled (`waiters.rs`).
//!
//! All of it lives under the shard's lock, so that no change can pass between looking and beginning to watch.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use super::{HeldLocks, Txn};
use crate::waiters::Waiter;

impl<'a> Txn<'a> {
    /// Watches a key for the client that owns `flag`. A key that is past its expiry is removed
    /// first: its removal later on must not count as a change.
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

    /// Notes that a client has read a key of the lock set: it is to be told when the key changes.
    /// Returns whether the key, and whether the note, is new.
    pub fn track(&self, key: &[u8], client: u64) -> (bool, bool) {
        self.shard(self.hash(key), false).watchers.track(key, client)
    }

    /// True if a key lies in the lock set, for writing.
    pub fn holds(&self, key: &[u8]) -> bool {
        self.covers(self.keyspace.shard_of(self.hash(key)), true)
    }

    /// Puts a waiter into the queues of all its keys.
    pub fn wait(&mut self, waiter: &Arc<Waiter>) {
        for key in &waiter.keys {
            // SAFETY: the shard is held exclusively (asserted in debug builds).
            unsafe { self.shard(self.keyspace.hash(key), true).watchers.add_waiter(key, waiter) };
        }
    }

    /// Takes a waiter out of the queues of those of its keys that lie in the lock set. True if these are all.
    pub fn stop_waiting(&mut self, waiter: &Waiter) -> bool {
        let mut complete = true;
        for key in &waiter.keys {
            let shard = self.keyspace.shard_of(self.keyspace.hash(key));
            if self.covers(shard, true) {
                // SAFETY: the shard is held exclusively.
                unsafe { self.keyspace.shard(shard).watchers.remove_waiter(key, waiter) };
            } else {
                complete = false;
            }
        }
        complete
    }

    /// The first client that still waits for a key of the current database behind ticket `behind`
    /// (0: the first of all).
    pub fn next_waiter(&self, key: &[u8], behind: u64) -> Option<Arc<Waiter>> {
        let shard = self.shard(self.hash(key), true);
        if shard.watchers.is_empty() {
            return None;
        }
        // SAFETY: the shard is held exclusively.
        unsafe { shard.watchers.waiters().next(self.db, key, behind) }
    }

    /// True if somebody waits for a key who wants to know that it is gone.
    pub fn loss_is_heeded(&self, key: &[u8]) -> bool {
        // SAFETY: the shard is held exclusively.
        unsafe { self.shard(self.hash(key), true).watchers.waiters().heeds_loss(self.db, key) }
    }

    /// Has those looked at who wait for keys of some databases, after all keys of these changed at
    /// once. The world must be stopped.
    pub fn databases_changed(&mut self, changed: impl Fn(u32) -> bool) {
        debug_assert!(matches!(self.held, HeldLocks::World(_)));
        for shard in self.keyspace.shards().iter().filter(|shard| !shard.watchers.is_empty()) {
            // SAFETY: the world is stopped.
            unsafe {
                shard.watchers.waiters().for_each_key(|db, key| {
                    if changed(db) {
                        self.note_ready(db, key);
                    }
                });
            }
        }
    }
}

/// Raised when a watched key changed.
pub fn new_watch_flag() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(false))
}

/// True once a watched key changed.
pub fn is_raised(flag: &AtomicBool) -> bool {
    flag.load(Relaxed)
}
