// SPDX-License-Identifier: BSD-3-Clause
//! MurmurHash2, with 32 bits and with 64 (variant A): the hashes of the sketches, chosen so that
//! sketches dumped by Redis give the same answers here.

use smallvec::SmallVec;

const MULTIPLIER_64: u64 = 0xc6a4_a793_5bd1_e995;
const SHIFT_64: u32 = 47;
const MULTIPLIER_32: u32 = 0x5bd1_e995;
const SHIFT_32: u32 = 24;

/// MurmurHash64A.
pub fn murmur64(bytes: &[u8], seed: u64) -> u64 {
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER_64);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(MULTIPLIER_64);
        word ^= word >> SHIFT_64;
        hash = (hash ^ word.wrapping_mul(MULTIPLIER_64)).wrapping_mul(MULTIPLIER_64);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(MULTIPLIER_64);
    }
    hash ^= hash >> SHIFT_64;
    hash = hash.wrapping_mul(MULTIPLIER_64);
    hash ^ hash >> SHIFT_64
}

/// MurmurHash2 with 32 bits.
#[inline]
pub fn murmur32(bytes: &[u8], seed: u32) -> u32 {
    Mixed::new(bytes).hash(seed)
}

/// A text prepared for several MurmurHash2 of 32 bits with different seeds, which share most of the
/// work.
pub struct Mixed {
    words: SmallVec<[u32; 16]>,
    /// The bytes behind the last whole word, if there are any.
    tail: Option<u32>,
    len: u32,
}

impl Mixed {
    #[inline]
    pub fn new(bytes: &[u8]) -> Mixed {
        let (words, rest) = bytes.as_chunks::<4>();
        let mix = |word: &[u8; 4]| {
            let word = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER_32);
            (word ^ word >> SHIFT_32).wrapping_mul(MULTIPLIER_32)
        };
        let tail = (!rest.is_empty()).then(|| {
            let mut word = [0; 4];
            word[..rest.len()].copy_from_slice(rest);
            u32::from_le_bytes(word)
        });
        Mixed { words: words.iter().map(mix).collect(), tail, len: bytes.len() as u32 }
    }

    #[inline]
    pub fn hash(&self, seed: u32) -> u32 {
        let mut hash = seed ^ self.len;
        for word in &self.words {
            hash = hash.wrapping_mul(MULTIPLIER_32) ^ word;
        }
        if let Some(tail) = self.tail {
            hash = (hash ^ tail).wrapping_mul(MULTIPLIER_32);
        }
        hash ^= hash >> 13;
        hash = hash.wrapping_mul(MULTIPLIER_32);
        hash ^ hash >> 15
    }

    /// The place in a row of `width` cells, in a sketch that has its rows one after the other.
    #[inline]
    pub fn place(&self, row: u64, width: u64) -> usize {
        let hash = self.hash(row as u32);
        // A division of 32 bits takes a fraction of the time of one of 64.
        let column = match u32::try_from(width) {
            Ok(width) => u64::from(hash % width),
            Err(_) => hash.into(),
        };
        (row * width + column) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places of items in sketches of Redis Stack 7.4, 1000 cells wide, by row.
    #[test]
    fn hashes_place_items_as_in_redis() {
        let rows = |item: &[u8]| (0..7).map(|row| murmur32(item, row) % 1000).collect::<Vec<_>>();
        assert_eq!(rows(b"hello"), [155, 382, 131, 2, 26, 528, 213]);
        assert_eq!(murmur32(b"hello", 1919), 0x234d_ad03);
        assert_eq!(murmur64(b"hello", 0) % 512, 279);
    }
}
