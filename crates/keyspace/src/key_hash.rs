// SPDX-License-Identifier: BSD-3-Clause
//! The top bits of a key's hash, which choose its shard and its segment of the shard's table:
//! keyed bits, spread so that there are segments of all sizes at any time; in cluster mode they
//! begin with the key's slot (`by_slot.rs`).

use braid_base::crc::{HASH_SLOTS, key_hash_slot};
use braid_containers::spiral::point;

/// The low bits of a hash, which tables use within a segment: tag and position.
const LOW: u64 = (1 << 24) - 1;

/// Makes shards, and so the segments of their tables, of all sizes: the first shard has twice as
/// many keys as the last. If they were equal, all segments would grow through the allocator's size
/// classes together, and leave nearly empty pages of each class behind.
#[inline]
pub(crate) fn spread(hash: u64) -> u64 {
    point(hash) & !LOW | hash & LOW
}

/// Number of bits of a hash that hold the slot.
pub(crate) const SLOT_BITS: u32 = HASH_SLOTS.ilog2();

/// Puts the key's slot in front of the top bits of its keyed hash. Not inlined, to keep the path
/// of standalone servers short.
#[inline(never)]
pub(crate) fn begin_with_slot(hash: u64, key: &[u8]) -> u64 {
    u64::from(key_hash_slot(key)) << (64 - SLOT_BITS) | hash >> SLOT_BITS
}
