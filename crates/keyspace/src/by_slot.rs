// SPDX-License-Identifier: BSD-3-Clause
//! Cluster mode: one shard for each of the 16,384 hash slots.
//!
//! In cluster mode the top bits of a hash are the key's slot instead of keyed bits. Shards are
//! slices of the hash range, so each shard holds exactly the keys of one slot: a slot's keys are
//! counted and listed from its own tables, and two keys share a slot if their hashes have the same
//! top bits. There is no separate index, so no change of keys can leave one out of sync. The
//! price: all keys of a slot share one lock.
//!
//! Standalone servers have no slots; this file must not cost them more than the branch in
//! [`Keyspace::hash`].
//!
//! A slot can be *hidden*: it is still being imported, or it has moved away and its keys are being
//! deleted. Walks over a database skip hidden slots, their keys are not counted and cause no
//! keyspace events, and none of them expire or are evicted. Clients that track all changes
//! (broadcasting mode) hear of a hidden slot only if it was shown before: they may have cached its
//! keys, and nobody else may tell them that they are gone.

use braid_base::crc::HASH_SLOTS;
use braid_base::hash::KeyHasher;

use crate::hidden_slots::HiddenSlots;
use crate::key_hash::SLOT_BITS;
use crate::keyspace::{Keyspace, Shape, Shard};

impl Keyspace {
    /// An empty keyspace in cluster mode; `shape.shards` is ignored.
    pub fn by_slot(shape: Shape, hasher: KeyHasher) -> Keyspace {
        let mut keyspace = Keyspace::new(Shape { shards: usize::from(HASH_SLOTS), ..shape }, hasher);
        keyspace.is_by_slot = true;
        keyspace.hidden = HiddenSlots::new();
        keyspace.gone = HiddenSlots::new();
        keyspace
    }

    /// Hides these slots and no others. One caller at a time.
    pub fn hide_slots(&self, hidden: impl Iterator<Item = u16>) {
        let hidden: Vec<u16> = hidden.collect();
        let has_keys = |slot: u16| (0..self.databases()).any(|db| self.slot_len(slot, db) > 0);
        let was_shown = |slot: u16| !self.is_silent(u32::from(slot));
        // First, so that no deletion goes unheard.
        self.gone.set(hidden.iter().copied().filter(|&slot| was_shown(slot) && has_keys(slot)));
        self.hidden.set(hidden.into_iter());
    }

    /// True if changes of this shard's keys are no business of clients: its slot is hidden, and was
    /// before it had these keys.
    #[inline]
    pub(crate) fn is_silent(&self, shard: u32) -> bool {
        self.hidden.has(shard) && !self.gone.has(shard)
    }

    /// True if any slot is hidden.
    pub fn hides_any(&self) -> bool {
        self.hidden.has_any()
    }

    /// True if walks skip the keys of this shard.
    #[inline]
    pub fn is_hidden(&self, shard: u32) -> bool {
        self.hidden.has(shard)
    }

    /// The shards that walks visit.
    pub(crate) fn visible_shards(&self) -> impl Iterator<Item = &Shard> {
        let shards = (0..).zip(self.shards());
        shards.filter(|(index, _)| !self.is_hidden(*index)).map(|(_, shard)| shard)
    }

    /// [`Keyspace::len`], excluding hidden slots.
    pub fn visible_len(&self, db: u32) -> (usize, usize) {
        self.visible_shards().fold((0, 0), |(keys, expires), shard| {
            let table = shard.table(db);
            (keys + table.len(), expires + table.expires())
        })
    }

    /// True in cluster mode.
    #[inline]
    pub fn is_by_slot(&self) -> bool {
        self.is_by_slot
    }

    /// The slot of a key's hash. Meaningful only in cluster mode.
    #[inline]
    pub fn slot_of(&self, hash: u64) -> u16 {
        debug_assert!(self.is_by_slot);
        (hash >> (64 - SLOT_BITS)) as u16
    }

    /// Number of keys of a slot in a database, including expired keys not yet removed. Exact while
    /// the caller holds the slot's shard; otherwise possibly stale.
    pub fn slot_len(&self, slot: u16, db: u32) -> usize {
        debug_assert!(self.is_by_slot);
        self.shard(u32::from(slot)).table(db).len()
    }
}
