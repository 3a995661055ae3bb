// SPDX-License-Identifier: BSD-3-Clause
//! Hashes of keys in cluster mode: they begin with the key's slot (`by_slot.rs`).

use braid_base::crc::{HASH_SLOTS, key_hash_slot};

/// Bits of a hash that tell the slot.
pub(crate) const SLOT_BITS: u32 = HASH_SLOTS.ilog2();

/// The hash of a key whose keyed hash is given: the slot, then what fits of the keyed bits. Out of
/// line, for the sake of standalone servers.
#[inline(never)]
pub(crate) fn begin_with_slot(hash: u64, key: &[u8]) -> u64 {
    u64::from(key_hash_slot(key)) << (64 - SLOT_BITS) | hash >> SLOT_BITS
}
