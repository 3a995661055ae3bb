// SPDX-License-Identifier: BSD-3-Clause
//! An item's two hashes, which determine its bits: MurmurHash64A, so that filters dumped by Redis
//! (BF.SCANDUMP) give the same answers here.

use crate::murmur::murmur64;

const SEED: u64 = 0xc6a4_a793_5bd1_e995;

/// An item's hashes: its `i`-th bit is `first + i * step`, modulo the number of bits of the
/// filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemHash {
    pub first: u64,
    pub step: u64,
}

impl ItemHash {
    pub fn of(item: &[u8]) -> ItemHash {
        let first = murmur64(item, SEED);
        ItemHash { first, step: murmur64(item, first) }
    }

    /// The item's bits in a filter of `bit_count` bits.
    #[inline]
    pub fn bits(self, hashes: u32, bit_count: u64) -> impl Iterator<Item = u64> {
        (0..u64::from(hashes))
            .map(move |index| self.first.wrapping_add(index.wrapping_mul(self.step)) % bit_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The BF.SCANDUMP example from Redis's documentation: one item in a filter of 64 bits.
    #[test]
    fn bloom_bits_match_redis() {
        let bits: Vec<u64> = ItemHash::of(b"item1").bits(5, 64).collect();
        assert_eq!(bits, [11, 0, 53, 42, 31]);
    }
}
