// SPDX-License-Identifier: BSD-3-Clause
//! Which entries producers have added under which names of their own (XADD IDMP), so that an entry
//! that is sent again is found rather than added again.
//!
//! A producer names each entry by an idempotent ID. The stream remembers the last ones of each
//! producer, for a time that counts from the milliseconds in the entry's ID: no other clock is
//! stored, so files and replicas agree. Names that are too old are found no more, and are removed
//! when the producer adds another, or in passing.
//!
//! A clone shares all names until either side changes them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use braid_base::alloc::size_class;
use braid_containers::cow::CowBox;
use braid_containers::cow_map::CowMap;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::id::StreamId;

/// The ID that IDMPAUTO gives an entry: a hash of its fields and values, in their order.
pub fn name_of(pairs: &[(&[u8], &[u8])]) -> [u8; 16] {
    let mut hash = Xxh3::new();
    for text in pairs.iter().flat_map(|(field, value)| [field, value]) {
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    hash.digest128().to_be_bytes()
}

/// The names of one producer. Invariant: both maps have the same names.
#[derive(Clone, Default)]
struct Producer {
    /// Entries by the hash of their name.
    entries: CowMap<u128, StreamId, 31>,
    /// Names by entry, and so by age.
    names: CowMap<StreamId, Arc<[u8]>, 31>,
}

impl Producer {
    fn find(&self, name: &[u8]) -> Option<StreamId> {
        let id = *self.entries.get(&xxh3_128(name))?;
        // Another name may have the same hash.
        self.names.get(&id).filter(|other| other[..] == *name).map(|_| id)
    }

    fn remove_oldest(&mut self) {
        let Some(id) = self.names.first_key().copied() else { return };
        if let Some(name) = self.names.remove(&id) {
            self.entries.remove(&xxh3_128(&name));
        }
    }

    /// Removes the names of entries older than this one.
    fn forget_before(&mut self, oldest: StreamId) {
        while self.names.first_key().is_some_and(|id| *id < oldest) {
            self.remove_oldest();
        }
    }

    fn count_from(&self, oldest: StreamId) -> usize {
        self.names.range(Bound::Included(oldest), Bound::Unbounded).count()
    }

    fn memory_bytes(&self) -> usize {
        let names: usize = self.names.iter().map(|(_, name)| size_class(16 + name.len())).sum();
        self.entries.memory_bytes() + self.names.memory_bytes() + names
    }
}

/// The names that a stream remembers.
#[derive(Clone)]
pub struct Idempotency {
    /// For how long a name is remembered, in seconds.
    duration_s: u32,
    /// The maximum number of names of one producer.
    names_max: u32,
    producers: CowBox<BTreeMap<Box<[u8]>, Producer>>,
    /// Number of names ever added.
    added: u64,
    /// Number of entries found rather than added again.
    duplicates: u64,
    /// When names of all producers are looked through next, Unix time in ms.
    next_sweep_ms: u64,
}

impl Idempotency {
    /// The bounds of the duration and of the number of names (XCFGSET).
    pub const DURATION_MAX_S: u32 = 86_400;
    pub const NAMES_MAX: u32 = 10_000;

    pub fn new(duration_s: u32, names_max: u32) -> Idempotency {
        let producers = CowBox::new(BTreeMap::new());
        Idempotency { duration_s, names_max, producers, added: 0, duplicates: 0, next_sweep_ms: 0 }
    }

    pub fn duration_s(&self) -> u32 {
        self.duration_s
    }

    pub fn names_max(&self) -> u32 {
        self.names_max
    }

    /// Numbers of names ever added, and of duplicates.
    pub fn totals(&self) -> (u64, u64) {
        (self.added, self.duplicates)
    }

    /// Sets both totals, during a load.
    pub fn set_totals(&mut self, added: u64, duplicates: u64) {
        (self.added, self.duplicates) = (added, duplicates);
    }

    /// Changes the bounds. If they differ, all names are forgotten.
    pub fn configure(&mut self, duration_s: u32, names_max: u32) {
        if (self.duration_s, self.names_max) != (duration_s, names_max) {
            (self.duration_s, self.names_max) = (duration_s, names_max);
            self.producers = CowBox::new(BTreeMap::new());
        }
    }

    /// The least ID of an entry whose name is remembered.
    fn oldest(&self, now_ms: u64) -> StreamId {
        let duration_ms = u64::from(self.duration_s) * 1000;
        match now_ms.checked_sub(duration_ms) {
            Some(before) => StreamId::new(before.saturating_add(1), 0),
            None => StreamId::MIN,
        }
    }

    /// The entry that a producer added under this name.
    pub fn find(&self, producer: &[u8], name: &[u8], now_ms: u64) -> Option<StreamId> {
        self.producers.get(producer)?.find(name).filter(|id| *id >= self.oldest(now_ms))
    }

    pub fn note_duplicate(&mut self) {
        self.duplicates = self.duplicates.saturating_add(1);
    }

    /// Remembers the name of an entry, and forgets names beyond the bounds.
    pub fn record(&mut self, producer: &[u8], name: &[u8], id: StreamId, now_ms: u64) {
        self.added = self.added.saturating_add(1);
        let (oldest, most) = (self.oldest(now_ms), self.names_max as usize);
        if now_ms >= self.next_sweep_ms {
            self.sweep(now_ms);
        }
        if id < oldest {
            return;
        }
        if !self.producers.contains_key(producer) {
            self.producers.insert(producer.into(), Producer::default());
        }
        let Some(producer) = self.producers.get_mut(producer) else { return };
        producer.forget_before(oldest);
        // A name of the same hash is no longer found.
        if let Some(other) = producer.entries.insert(xxh3_128(name), id) {
            producer.names.remove(&other);
        }
        if let Some(other) = producer.names.insert(id, name.into())
            && other[..] != *name
        {
            producer.entries.remove(&xxh3_128(&other));
        }
        while producer.names.len() > most {
            producer.remove_oldest();
        }
    }

    /// Forgets what is too old, also of producers that add nothing more. Ten times per duration,
    /// so that its cost is small beside that of the additions.
    fn sweep(&mut self, now_ms: u64) {
        let oldest = self.oldest(now_ms);
        self.next_sweep_ms = now_ms.saturating_add(u64::from(self.duration_s) * 100);
        self.producers.values_mut().for_each(|producer| producer.forget_before(oldest));
        self.producers.retain(|_, producer| !producer.names.is_empty());
    }

    /// Numbers of producers and of names that are remembered.
    pub fn counts(&self, now_ms: u64) -> (usize, usize) {
        let oldest = self.oldest(now_ms);
        let counts = self.producers.values().map(|producer| producer.count_from(oldest));
        counts.filter(|count| *count > 0).fold((0, 0), |(one, all), count| (one + 1, all + count))
    }

    /// All names with their producers and entries, by producer and age.
    pub fn records(&self) -> impl Iterator<Item = (&[u8], &[u8], StreamId)> {
        self.producers.iter().flat_map(|(producer, of_it)| {
            of_it.names.iter().map(move |(id, name)| (&producer[..], &name[..], *id))
        })
    }

    /// Number of names held.
    pub fn len(&self) -> usize {
        self.producers.values().map(|producer| producer.names.len()).sum()
    }

    /// True if no name is held.
    pub fn is_empty(&self) -> bool {
        self.producers.values().all(|producer| producer.names.is_empty())
    }

    /// Approximate number of bytes allocated, without this struct itself.
    pub fn memory_bytes(&self) -> usize {
        let of_producers = self.producers.iter().map(|(name, producer)| {
            size_of::<(Box<[u8]>, Producer)>() + size_class(name.len()) + producer.memory_bytes()
        });
        of_producers.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(ms: u64) -> StreamId {
        StreamId::new(ms, 0)
    }

    fn names(idempotency: &Idempotency) -> Vec<(String, String, u64)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        idempotency.records().map(|(producer, name, id)| (text(producer), text(name), id.ms)).collect()
    }

    #[test]
    fn names_are_found_until_they_are_too_old_or_too_many() {
        let mut here = Idempotency::new(2, 3);
        for (at, name) in [(1_000, "a"), (1_500, "b"), (1_600, "c")] {
            assert_eq!(here.find(b"p", name.as_bytes(), at), None);
            here.record(b"p", name.as_bytes(), id(at), at);
        }
        here.record(b"q", b"a", id(1_700), 1_700);
        assert_eq!(here.find(b"p", b"a", 2_999), Some(id(1_000)));
        assert_eq!(here.find(b"p", b"a", 3_000), None, "after two seconds");
        assert_eq!(here.find(b"q", b"a", 3_000), Some(id(1_700)), "each producer has its own names");
        assert_eq!(here.find(b"r", b"a", 1_700), None);
        assert_eq!((here.counts(2_999), here.counts(3_000), here.len()), ((2, 4), (2, 3), 4));
        // The oldest makes room.
        here.record(b"p", b"d", id(1_800), 1_800);
        assert_eq!(here.find(b"p", b"a", 1_800), None);
        assert_eq!(here.find(b"p", b"b", 1_800), Some(id(1_500)));
        // And what is too old disappears, also of others.
        here.record(b"p", b"e", id(5_000), 5_000);
        assert_eq!(names(&here), [("p".to_owned(), "e".to_owned(), 5_000)]);
        assert_eq!(here.totals(), (6, 0));
        // A name that is too old at once is not kept.
        here.record(b"p", b"f", id(1), 5_000);
        assert_eq!(here.len(), 1);
    }

    #[test]
    fn other_bounds_forget_all_names() {
        let mut here = Idempotency::new(100, 100);
        here.record(b"p", b"a", id(1_000), 1_000);
        here.configure(100, 100);
        assert_eq!(here.len(), 1);
        let copy = here.clone();
        here.configure(100, 5);
        assert!(here.is_empty() && copy.len() == 1);
    }

    #[test]
    fn an_entry_or_a_name_that_comes_twice_replaces_the_first() {
        let mut here = Idempotency::new(100, 100);
        here.record(b"p", b"a", id(1_000), 1_000);
        here.record(b"p", b"a", id(2_000), 2_000);
        assert_eq!(names(&here), [("p".to_owned(), "a".to_owned(), 2_000)]);
        here.record(b"p", b"b", id(2_000), 2_000);
        assert_eq!((here.find(b"p", b"a", 2_000), here.find(b"p", b"b", 2_000)), (None, Some(id(2_000))));
        assert_eq!(here.len(), 1);
    }

    #[test]
    fn hashes_depend_on_every_field_and_its_bounds() {
        let one = name_of(&[(b"a", b"bc")]);
        assert_eq!(one, name_of(&[(b"a", b"bc")]));
        assert_ne!(one, name_of(&[(b"ab", b"c")]));
        assert_ne!(name_of(&[(b"a", b"1"), (b"b", b"2")]), name_of(&[(b"b", b"2"), (b"a", b"1")]));
    }
}
