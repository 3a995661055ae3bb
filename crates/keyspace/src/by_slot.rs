// SPDX-License-Identifier: BSD-3-Clause
//! Cluster mode: a shard for each of the 16,384 hash slots.
//!
//! The top bits of a hash are then the key's slot instead of keyed bits. Shards are slices of the
//! hash range, so each shard holds the keys of one slot and nothing else: the keys of a slot are
//! counted and listed from its own tables, and two keys are of one slot if their hashes begin
//! alike. No index stands beside the tables, so nothing can fall out of step with them, whatever
//! adds or removes keys. The price: all keys of one slot share one lock.
//!
//! Standalone servers have no slots; this file must not cost them more than the branch in
//! [`Keyspace::hash`].
//!
//! Slots can be *hidden*: they are still being imported, or they have gone and their keys are being
//! deleted. Walks over a database skip them, and none of their keys expire or are evicted.

use braid_base::crc::HASH_SLOTS;
use braid_base::hash::KeyHasher;

use crate::hidden_slots::HiddenSlots;
use crate::keyspace::{Keyspace, Shape};
use crate::slot_hash::SLOT_BITS;

impl Keyspace {
    /// An empty keyspace of cluster mode; `shape.shards` is ignored.
    pub fn by_slot(shape: Shape, hasher: KeyHasher) -> Keyspace {
        let mut keyspace = Keyspace::new(Shape { shards: usize::from(HASH_SLOTS), ..shape }, hasher);
        keyspace.is_by_slot = true;
        keyspace.hidden = HiddenSlots::new();
        keyspace
    }

    /// Hides these slots and no others.
    pub fn hide_slots(&self, hidden: impl Iterator<Item = u16>) {
        self.hidden.set(hidden);
    }

    /// Whether the keys of a shard are passed over by walks.
    #[inline]
    pub fn is_hidden(&self, shard: u32) -> bool {
        self.hidden.has(shard)
    }

    /// Number of keys of a database, without those of hidden slots.
    pub fn visible_len(&self, db: u32) -> usize {
        let hidden = |(shard, _): &(usize, _)| self.is_hidden(*shard as u32);
        let shards = self.shards().iter().enumerate();
        self.len(db).0 - shards.filter(hidden).map(|(_, shard)| shard.table(db).len()).sum::<usize>()
    }

    /// True in cluster mode.
    #[inline]
    pub fn is_by_slot(&self) -> bool {
        self.is_by_slot
    }

    /// The slot of a key's hash. Of use only in cluster mode.
    #[inline]
    pub fn slot_of(&self, hash: u64) -> u16 {
        debug_assert!(self.is_by_slot);
        (hash >> (64 - SLOT_BITS)) as u16
    }

    /// Number of keys of a slot in a database, those included that have expired and are still
    /// there. Exact while the slot's shard is held, of some moment otherwise.
    pub fn slot_len(&self, slot: u16, db: u32) -> usize {
        debug_assert!(self.is_by_slot);
        self.shard(u32::from(slot)).table(db).len()
    }
}
