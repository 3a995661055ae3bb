// SPDX-License-Identifier: BSD-3-Clause
//! Value cache: per-thread copies of long strings that the thread reads often.
//!
//! A short value is read without a lock and without writing to shared memory (`Optimistic`), so the
//! number of threads that read it does not matter. A long value lies in memory that a writer may
//! free, so it is read under the shard's lock and returned by reference count, which costs four
//! writes to contended cache lines. A thread that reads one often therefore keeps a copy. The copy
//! is valid while the shard's state is the one at which it was made: every change advances the
//! state before it is answered.
//!
//! HOT PATH: [`ValueCache::find`] is part of each GET of a long value and does not allocate. It
//! must only be given a state read by the current command, and the cache must not exceed
//! [`BYTES_MAX`].

use crate::txn::{KeyRef, State};
use braid_base::blob::Blob;

/// Number of slots. A power of two.
const SLOTS: usize = 64;
/// Reads before a value is copied, initially and after each change; reads of other values in the
/// same slot count against it. So at most a sixteenth of the reads copies.
const READS: u8 = 16;
/// Longest value that is copied, in bytes: longer ones cost far more to send than to share.
const VALUE_BYTES_MAX: usize = 64 << 10;
/// Size limit of a thread's cache, in bytes.
const BYTES_MAX: usize = 1 << 20;

#[derive(Default)]
struct CacheSlot {
    hash: u64,
    db: u32,
    /// Reads since the copy was made, or since the slot changed hands.
    reads: u8,
    /// Read since the last [`ValueCache::sweep`].
    used: bool,
    cached: Option<CachedValue>,
}

struct CachedValue {
    key: Box<[u8]>,
    state: State,
    value: Blob,
}

/// Result of a lookup.
pub enum Lookup<'a> {
    /// The current value.
    Hit(&'a Blob),
    /// Not cached, but read often enough to be.
    Fill,
    /// Not cached.
    Miss,
}

/// One thread's cache.
#[derive(Default)]
pub struct ValueCache {
    /// [`SLOTS`] slots, allocated by the first read of a long value.
    slots: Box<[CacheSlot]>,
    /// Total length of the cached values.
    bytes: usize,
}

impl ValueCache {
    /// Looks up a key whose shard is in this state, and counts the read.
    pub fn find(&mut self, db: u32, key: &KeyRef<'_>, state: State) -> Lookup<'_> {
        if self.slots.is_empty() {
            self.slots = (0..SLOTS).map(|_| CacheSlot::default()).collect();
        }
        let slot = &mut self.slots[key.hash as usize % SLOTS];
        if (slot.hash, slot.db) != (key.hash, db) {
            if slot.reads > 0 {
                slot.reads -= 1;
                return Lookup::Miss;
            }
            clear(slot, &mut self.bytes);
            (slot.hash, slot.db) = (key.hash, db);
        }
        slot.used = true;
        slot.reads = slot.reads.saturating_add(1);
        let is_good = |cached: &CachedValue| cached.state == state && *cached.key == *key.key;
        if slot.cached.as_ref().is_some_and(|cached| !is_good(cached)) {
            clear(slot, &mut self.bytes);
        }
        match &slot.cached {
            Some(cached) => Lookup::Hit(&cached.value),
            None if slot.reads >= READS => Lookup::Fill,
            None => Lookup::Miss,
        }
    }

    /// Caches the value that the key has in this state. `None` if it is too long or the cache is
    /// full.
    pub fn fill(&mut self, db: u32, key: &KeyRef<'_>, state: State, value: &Blob) -> Option<&Blob> {
        let slot = self.slots.get_mut(key.hash as usize % SLOTS)?;
        clear(slot, &mut self.bytes);
        slot.reads = 0;
        if value.len() > VALUE_BYTES_MAX || self.bytes + value.len() > BYTES_MAX {
            return None;
        }
        (slot.hash, slot.db) = (key.hash, db);
        self.bytes += value.len();
        let cached = CachedValue { key: key.key.into(), state, value: Blob::from_slice(value) };
        Some(&slot.cached.insert(cached).value)
    }

    /// Drops values that were not read since the previous sweep.
    pub fn sweep(&mut self) {
        for slot in self.slots.iter_mut().filter(|slot| slot.cached.is_some()) {
            if !std::mem::take(&mut slot.used) {
                clear(slot, &mut self.bytes);
                slot.reads = 0;
            }
        }
    }
}

fn clear(slot: &mut CacheSlot, bytes: &mut usize) {
    if let Some(cached) = slot.cached.take() {
        *bytes -= cached.value.len();
        slot.reads = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Only a keyspace creates states: this returns two, the second after a change.
    fn states() -> (State, State) {
        use crate::context::Context;
        use crate::entry::Value;
        use crate::keyspace::{Keyspace, Shape};
        use crate::txn::{Expiry, Optimistic, Txn};
        use braid_base::hash::KeyHasher;
        let shape = Shape { shards: 1, databases: 1, threads: 1, threads_max: 1 };
        let keyspace = Keyspace::new(shape, KeyHasher::random());
        let mut context = Context::new(&keyspace, 0);
        let value = Blob::from_slice(&[b'v'; 5000]);
        let key = KeyRef { key: b"k", hash: keyspace.hash(b"k"), write: true };
        let mut state = || {
            let keys = [key];
            let mut txn = Txn::lock(&keyspace, &mut context, 0, 1000, &keys);
            txn.set(b"k", Value::Blob(value.clone()), Expiry::Clear);
            drop(txn);
            match keyspace.read_optimistic(&context, 0, 1000, &key, |_| unreachable!("the value is long")) {
                Optimistic::Large(state) => state,
                other => panic!("{other:?}"),
            }
        };
        (state(), state())
    }

    #[test]
    fn frequently_read_values_are_cached_until_changed() {
        let (before, after) = states();
        assert_ne!(before, after);
        let mut cache = ValueCache::default();
        let (key, value) = (KeyRef { key: b"k", hash: 7, write: false }, Blob::from_slice(&[b'v'; 5000]));
        for _ in 1..READS {
            assert!(matches!(cache.find(0, &key, before), Lookup::Miss));
        }
        assert!(matches!(cache.find(0, &key, before), Lookup::Fill));
        assert!(cache.fill(0, &key, before, &value).is_some());
        assert!(matches!(cache.find(0, &key, before), Lookup::Hit(cached) if **cached == *value));
        let collides = KeyRef { key: b"other", ..key };
        assert!(matches!(cache.find(1, &key, before), Lookup::Miss), "another database");
        assert!(matches!(cache.find(0, &key, before), Lookup::Hit(_)));
        assert!(!matches!(cache.find(0, &collides, before), Lookup::Hit(_)), "another key of the same hash");
        while !matches!(cache.find(0, &key, before), Lookup::Fill) {}
        cache.fill(0, &key, before, &value);
        assert!(!matches!(cache.find(0, &key, after), Lookup::Hit(_)), "the value has changed");
        assert_eq!(cache.bytes, 0);
    }

    #[test]
    fn unread_values_are_dropped_and_cache_size_is_bounded() {
        let (state, _) = states();
        let mut cache = ValueCache::default();
        let value = Blob::from_slice(&vec![b'v'; VALUE_BYTES_MAX]);
        let key = |hash| KeyRef { key: b"k", hash, write: false };
        let mut kept = 0;
        for hash in 0..SLOTS as u64 {
            cache.find(0, &key(hash), state);
            kept += usize::from(cache.fill(0, &key(hash), state, &value).is_some());
        }
        assert_eq!((kept, cache.bytes), (BYTES_MAX / VALUE_BYTES_MAX, BYTES_MAX));
        let longer = Blob::from_slice(&vec![b'v'; VALUE_BYTES_MAX + 1]);
        assert!(cache.fill(0, &key(0), state, &longer).is_none());
        cache.sweep();
        cache.find(0, &key(5), state);
        cache.sweep();
        assert_eq!(cache.bytes, VALUE_BYTES_MAX);
        cache.sweep();
        assert_eq!(cache.bytes, 0);
    }
}
