// SPDX-License-Identifier: BSD-3-Clause
//! An item's two hashes, which determine its bits: MurmurHash64A, so that filters dumped by Redis
//! (BF.SCANDUMP) give the same answers here.

const SEED: u64 = 0xc6a4_a793_5bd1_e995;
const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
const SHIFT: u32 = 47;

/// An item's hashes: its `i`-th bit is `first + i * step`, modulo the number of bits of the
/// filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemHash {
    pub first: u64,
    pub step: u64,
}

impl ItemHash {
    pub fn of(item: &[u8]) -> ItemHash {
        let first = murmur(item, SEED);
        ItemHash { first, step: murmur(item, first) }
    }

    /// The item's bits in a filter of `bit_count` bits.
    #[inline]
    pub fn bits(self, hashes: u32, bit_count: u64) -> impl Iterator<Item = u64> {
        (0..u64::from(hashes))
            .map(move |index| self.first.wrapping_add(index.wrapping_mul(self.step)) % bit_count)
    }
}

fn murmur(bytes: &[u8], seed: u64) -> u64 {
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        word ^= word >> SHIFT;
        hash = (hash ^ word.wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> SHIFT;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^ hash >> SHIFT
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
