// SPDX-License-Identifier: BSD-3-Clause
//! WATCH: which clients want to know that a key changed.
//!
//! A shard's watchers live beside its tables and are touched only under its exclusive lock. A
//! watcher is a flag shared with the client; whoever changes the key raises it.
//!
//! The clients that wait for keys (`waiters.rs`) are counted here too, so that a change of a key in
//! which nobody takes an interest costs one look at one count.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;
use smallvec::SmallVec;

/// Clients that have read a key.
pub type Readers = SmallVec<[u64; 2]>;
type Tracked = HashMap<Box<[u8]>, Readers, foldhash::fast::RandomState>;
type Names = HashMap<(u32, Box<[u8]>), Vec<Arc<AtomicBool>>, foldhash::fast::RandomState>;

/// Who takes an interest in keys of one shard.
#[derive(Default)]
pub struct Watchers {
    /// Watches, places in queues of waiters, keys that clients have read; and one more while
    /// somebody wants to know of all changes.
    count: AtomicUsize,
    names: UnsafeCell<Names>,
    /// Clients that have read keys and want to know when these change, by id. Changed by readers,
    /// too: it has a lock of its own.
    tracked: Mutex<Tracked>,
}

// SAFETY: `names` is only touched by whoever holds the shard exclusively (the methods that do are
// unsafe and say so).
unsafe impl Sync for Watchers {}

impl Watchers {
    /// True when no key of the shard is watched or waited for.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Counts one more place in the queue of a waiter.
    pub(crate) fn note_waiter(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one less.
    pub(crate) fn forget_waiter(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Notes that a client has read a key (of whatever database), by whose lock the caller holds
    /// its shard. Returns whether the key, and whether the note, is new.
    pub(crate) fn track(&self, key: &[u8], client: u64) -> (bool, bool) {
        let mut tracked = self.tracked.lock();
        if let Some(readers) = tracked.get_mut(key) {
            let is_new = !readers.contains(&client);
            if is_new {
                readers.push(client);
            }
            return (false, is_new);
        }
        tracked.insert(key.into(), SmallVec::from_slice(&[client]));
        self.count.fetch_add(1, Ordering::Relaxed);
        (true, true)
    }

    /// Takes the notes of a key away.
    pub(crate) fn take_readers(&self, key: &[u8]) -> Option<Readers> {
        let readers = self.tracked.lock().remove(key)?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some(readers)
    }

    /// Takes the notes of some key away.
    pub(crate) fn take_some_readers(&self) -> Option<(Box<[u8]>, Readers)> {
        let mut tracked = self.tracked.lock();
        let key = tracked.keys().next()?.clone();
        let readers = tracked.remove(&key)?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some((key, readers))
    }

    /// Takes all notes away; how many keys and notes there were.
    pub(crate) fn forget_readers(&self) -> (usize, usize) {
        let tracked = std::mem::take(&mut *self.tracked.lock());
        self.count.fetch_sub(tracked.len(), Ordering::Relaxed);
        (tracked.len(), tracked.values().map(|readers| readers.len()).sum())
    }

    /// Somebody wants to know of all changes, or nobody does any more.
    pub(crate) fn set_broadcast(&self, on: bool) {
        if on {
            self.count.fetch_add(1, Ordering::SeqCst);
        } else {
            self.count.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Adds a watcher.
    ///
    /// # Safety
    /// The caller holds the shard exclusively.
    pub unsafe fn add(&self, db: u32, key: &[u8], flag: &Arc<AtomicBool>) {
        // SAFETY: the caller's.
        let names = unsafe { &mut *self.names.get() };
        names.entry((db, key.into())).or_default().push(Arc::clone(flag));
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a watcher away.
    ///
    /// # Safety
    /// The caller holds the shard exclusively.
    pub unsafe fn remove(&self, db: u32, key: &[u8], flag: &Arc<AtomicBool>) {
        // SAFETY: the caller's.
        let names = unsafe { &mut *self.names.get() };
        let name = (db, Box::from(key));
        let Some(flags) = names.get_mut(&name) else { return };
        if let Some(at) = flags.iter().position(|other| Arc::ptr_eq(other, flag)) {
            flags.swap_remove(at);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        if flags.is_empty() {
            names.remove(&name);
        }
    }

    /// How many keys are watched.
    ///
    /// # Safety
    /// The caller holds the shard, exclusively or not.
    pub(crate) unsafe fn key_count(&self) -> usize {
        // SAFETY: the caller's; whoever changes them holds the shard exclusively.
        unsafe { &*self.names.get() }.len()
    }

    /// Raises the flags of a key's watchers.
    ///
    /// # Safety
    /// The caller holds the shard exclusively.
    pub unsafe fn touch(&self, db: u32, key: &[u8]) {
        // SAFETY: the caller's.
        let names = unsafe { &*self.names.get() };
        for flag in names.get(&(db, Box::from(key))).into_iter().flatten() {
            flag.store(true, Ordering::Relaxed);
        }
    }

    /// The watched keys of two databases.
    ///
    /// # Safety
    /// The caller holds the shard exclusively.
    pub unsafe fn keys_of(&self, dbs: [u32; 2]) -> Vec<Box<[u8]>> {
        // SAFETY: the caller's.
        let names = unsafe { &*self.names.get() };
        names.keys().filter(|(db, _)| dbs.contains(db)).map(|(_, key)| key.clone()).collect()
    }

    /// Raises the flags of all watchers for which `changes(db, key)` holds.
    ///
    /// # Safety
    /// The caller holds the shard exclusively.
    pub unsafe fn touch_where(&self, changes: impl Fn(u32, &[u8]) -> bool) {
        // SAFETY: the caller's.
        for ((db, key), flags) in unsafe { &*self.names.get() } {
            if changes(*db, key) {
                flags.iter().for_each(|flag| flag.store(true, Ordering::Relaxed));
            }
        }
    }
}
