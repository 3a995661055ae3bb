//! WATCH: which clients want to know that a key changed.
//!
//! A shard's watchers live beside its tables and are touched only under its exclusive lock. A watcher is a flag shared
//! with the client; whoever changes the key raises it.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hashbrown::HashMap;

type Names = HashMap<(u32, Box<[u8]>), Vec<Arc<AtomicBool>>, foldhash::fast::RandomState>;

/// The watched keys of one shard.
#[derive(Default)]
pub struct Watchers {
    count: AtomicUsize,
    names: UnsafeCell<Names>,
}

// SAFETY: `names` is only touched by whoever holds the shard exclusively (the methods that do are unsafe and say so).
unsafe impl Sync for Watchers {}

impl Watchers {
    /// True when no key of the shard is watched.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
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
