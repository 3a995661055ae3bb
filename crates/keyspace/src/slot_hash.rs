// SPDX-License-Identifier: BSD-3-Clause
//! Hashes of keys in cluster mode: the top bits are the key's slot (`by_slot.rs`).

use braid_base::crc::{HASH_SLOTS, key_hash_slot};

/// Number of bits of a hash that hold the slot.
pub(crate) const SLOT_BITS: u32 = HASH_SLOTS.ilog2();

/// Puts the key's slot in front of the top bits of its keyed hash. Not inlined, to keep the path
/// of standalone servers short.
#[inline(never)]
pub(crate) fn begin_with_slot(hash: u64, key: &[u8]) -> u64 {
    u64::from(key_hash_slot(key)) << (64 - SLOT_BITS) | hash >> SLOT_BITS
}
