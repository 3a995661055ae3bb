// SPDX-License-Identifier: BSD-3-Clause
//! WATCH: the clients to inform of a key's change.
//!
//! A shard's watchers live next to its tables and are changed only under its exclusive lock. A
//! watcher is a flag shared with the client; it is raised when the key changes.
//!
//! Waiters (`waiters.rs`) are counted here too, so that a change of a key without an interested
//! client costs one test of one counter.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;
use parking_lot::Mutex;
use smallvec::SmallVec;

/// Clients that have read a key.
pub type Readers = SmallVec<[u64; 2]>;
type Tracked = HashMap<Box<[u8]>, Readers, foldhash::fast::RandomState>;
type Names = HashMap<(u32, Box<[u8]>), Vec<Arc<AtomicBool>>, foldhash::fast::RandomState>;

/// Clients interested in keys of one shard. The count comes first, next to the shard's table
/// ([`crate::keyspace::Shard`]).
#[derive(Default)]
#[repr(C)]
pub struct Watchers {
    /// Number of watches, of waiters' places in queues and of keys that clients have read; plus
    /// one while a client tracks all changes (broadcasting mode).
    count: AtomicUsize,
    /// Allocated when first needed, so that shards stay small.
    clients: OnceLock<Box<Clients>>,
}

#[derive(Default)]
struct Clients {
    names: UnsafeCell<Names>,
    /// Ids of the clients that have read a key and must be informed of its change. Readers add to
    /// it too, so it has its own lock.
    tracked: Mutex<Tracked>,
}

// SAFETY: `names` is accessed only under the shard's lock, and changed only under its exclusive
// lock (the methods that do so are unsafe and state this requirement).
unsafe impl Sync for Clients {}

impl Watchers {
    fn clients(&self) -> &Clients {
        self.clients.get_or_init(Box::default)
    }

    /// True if no key of the shard is watched or has waiters.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Counts a waiter's place in one more queue.
    pub(crate) fn note_waiter(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a waiter's place in one queue less.
    pub(crate) fn forget_waiter(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Records that a client has read a key (of any database); the caller holds the key's shard.
    /// Returns whether the key is new, and whether the record is new.
    pub(crate) fn track(&self, key: &[u8], client: u64) -> (bool, bool) {
        let mut tracked = self.clients().tracked.lock();
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

    /// Removes and returns the readers of a key.
    pub(crate) fn take_readers(&self, key: &[u8]) -> Option<Readers> {
        let readers = self.clients().tracked.lock().remove(key)?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some(readers)
    }

    /// Removes and returns one tracked key with its readers.
    pub(crate) fn take_some_readers(&self) -> Option<(Box<[u8]>, Readers)> {
        let mut tracked = self.clients().tracked.lock();
        let key = tracked.keys().next()?.clone();
        let readers = tracked.remove(&key)?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some((key, readers))
    }

    /// Removes all records of readers; returns the numbers of keys and of records.
    pub(crate) fn forget_readers(&self) -> (usize, usize) {
        let tracked = std::mem::take(&mut *self.clients().tracked.lock());
        self.count.fetch_sub(tracked.len(), Ordering::Relaxed);
        (tracked.len(), tracked.values().map(|readers| readers.len()).sum())
    }

    /// Turns broadcasting of all changes on or off.
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
        // SAFETY: guaranteed by the caller.
        let names = unsafe { &mut *self.clients().names.get() };
        names.entry((db, key.into())).or_default().push(Arc::clone(flag));
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a watcher.
    ///
    /// # Safety
    /// The caller holds the shard exclusively.
    pub unsafe fn remove(&self, db: u32, key: &[u8], flag: &Arc<AtomicBool>) {
        // SAFETY: guaranteed by the caller.
        let names = unsafe { &mut *self.clients().names.get() };
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

    /// Number of watched keys.
    ///
    /// # Safety
    /// The caller holds the shard, exclusively or not.
    pub(crate) unsafe fn key_count(&self) -> usize {
        // SAFETY: guaranteed by the caller; changes need the exclusive lock.
        unsafe { &*self.clients().names.get() }.len()
    }

    /// Raises the flags of a key's watchers.
    ///
    /// # Safety
    /// The caller holds the shard exclusively.
    pub unsafe fn touch(&self, db: u32, key: &[u8]) {
        // SAFETY: guaranteed by the caller.
        let names = unsafe { &*self.clients().names.get() };
        for flag in names.get(&(db, Box::from(key))).into_iter().flatten() {
            flag.store(true, Ordering::Relaxed);
        }
    }

    /// The watched keys of two databases.
    ///
    /// # Safety
    /// The caller holds the shard exclusively.
    pub unsafe fn keys_of(&self, dbs: [u32; 2]) -> Vec<Box<[u8]>> {
        // SAFETY: guaranteed by the caller.
        let names = unsafe { &*self.clients().names.get() };
        names.keys().filter(|(db, _)| dbs.contains(db)).map(|(_, key)| key.clone()).collect()
    }

    /// Raises the flags of all watchers for which `changes(db, key)` is true.
    ///
    /// # Safety
    /// The caller holds the shard exclusively.
    pub unsafe fn touch_where(&self, changes: impl Fn(u32, &[u8]) -> bool) {
        // SAFETY: guaranteed by the caller.
        for ((db, key), flags) in unsafe { &*self.clients().names.get() } {
            if changes(*db, key) {
                flags.iter().for_each(|flag| flag.store(true, Ordering::Relaxed));
            }
        }
    }
}
