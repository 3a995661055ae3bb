// SPDX-License-Identifier: BSD-3-Clause
//! Sets of slots that walks over a database skip, and of those that were shown before
//! (`by_slot.rs`): one bit per slot.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use braid_base::crc::HASH_SLOTS;

#[derive(Default)]
pub(crate) struct HiddenSlots {
    any: AtomicBool,
    /// Empty outside of cluster mode.
    words: Box<[AtomicU64]>,
}

impl HiddenSlots {
    /// No slot is hidden.
    pub fn new() -> HiddenSlots {
        let words = (0..HASH_SLOTS / 64).map(|_| AtomicU64::new(0)).collect();
        HiddenSlots { any: AtomicBool::new(false), words }
    }

    pub fn has_any(&self) -> bool {
        self.any.load(Relaxed)
    }

    /// True if a slot (a shard, in cluster mode) is hidden.
    #[inline]
    pub fn has(&self, shard: u32) -> bool {
        self.has_any() && self.has_bit(shard)
    }

    #[cold]
    fn has_bit(&self, shard: u32) -> bool {
        let word = self.words.get(shard as usize / 64);
        word.is_some_and(|word| word.load(Relaxed) >> (shard % 64) & 1 == 1)
    }

    /// Hides these slots and no others.
    pub fn set(&self, hidden: impl Iterator<Item = u16>) {
        let mut words = vec![0u64; self.words.len()];
        for slot in hidden {
            if let Some(word) = words.get_mut(usize::from(slot / 64)) {
                *word |= 1 << (slot % 64);
            }
        }
        self.any.store(words.iter().any(|&word| word != 0), Relaxed);
        for (word, new) in self.words.iter().zip(words) {
            word.store(new, Relaxed);
        }
    }
}
