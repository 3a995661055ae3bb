// SPDX-License-Identifier: BSD-3-Clause
//! MurmurHash2, with 32 bits and with 64 (variant A): the hashes of the sketches, chosen so that
//! sketches dumped by Redis give the same answers here.

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
        // Not by copying the rest: a copy of an unknown length is a call.
        let word = match bytes.last_chunk() {
            Some(last) => u64::from_le_bytes(*last) >> (64 - 8 * rest.len()),
            None => rest.iter().rfold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        hash = (hash ^ word).wrapping_mul(MULTIPLIER_64);
    }
    hash ^= hash >> SHIFT_64;
    hash = hash.wrapping_mul(MULTIPLIER_64);
    hash ^ hash >> SHIFT_64
}

/// MurmurHash2 with 32 bits.
#[inline]
pub fn murmur32(bytes: &[u8], seed: u32) -> u32 {
    let (mut few, mut many) = ([0; FEW], Vec::new());
    Mixed::new(bytes, few_or_many(&mut few, &mut many, bytes.len() / 4)).hash(seed)
}

/// Words of a text, or rows of a sketch, up to which no memory is allocated.
const FEW: usize = 16;

/// The first `count` of a few, or of as many as that.
fn few_or_many<'a, T: Clone + Default>(
    few: &'a mut [T; FEW],
    many: &'a mut Vec<T>,
    count: usize,
) -> &'a mut [T] {
    if count <= FEW {
        return &mut few[..count];
    }
    many.resize(count, T::default());
    many
}

/// A text prepared for several MurmurHash2 of 32 bits with different seeds, which share most of the
/// work.
struct Mixed<'a> {
    words: &'a [u32],
    /// The bytes behind the last whole word, if there are any.
    tail: Option<u32>,
    len: u32,
}

impl<'a> Mixed<'a> {
    #[inline]
    fn new(bytes: &[u8], mixed: &'a mut [u32]) -> Mixed<'a> {
        let (words, rest) = bytes.as_chunks::<4>();
        for (word, mixed) in words.iter().zip(&mut *mixed) {
            let word = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER_32);
            *mixed = (word ^ word >> SHIFT_32).wrapping_mul(MULTIPLIER_32);
        }
        let tail = rest.iter().rfold(0, |word, byte| word << 8 | u32::from(*byte));
        let tail = (!rest.is_empty()).then_some(tail);
        Mixed { words: mixed, tail, len: bytes.len() as u32 }
    }

    #[inline]
    fn hash(&self, seed: u32) -> u32 {
        let mut hash = seed ^ self.len;
        for word in self.words {
            hash = hash.wrapping_mul(MULTIPLIER_32) ^ word;
        }
        if let Some(tail) = self.tail {
            hash = (hash ^ tail).wrapping_mul(MULTIPLIER_32);
        }
        hash ^= hash >> 13;
        hash = hash.wrapping_mul(MULTIPLIER_32);
        hash ^ hash >> 15
    }
}

/// Calls `take` with an item's hash for a seed, and its places in the rows of a sketch, which has
/// them one after the other: as many as `depth`, each of `width` cells.
#[inline]
pub fn with_places<R>(
    item: &[u8],
    seed: u32,
    depth: u64,
    width: u64,
    take: impl FnOnce(u32, &[usize]) -> R,
) -> R {
    let (mut few, mut many) = ([0; FEW], Vec::new());
    let mixed = Mixed::new(item, few_or_many(&mut few, &mut many, item.len() / 4));
    let (mut few, mut many) = ([0; FEW], Vec::new());
    let places = few_or_many(&mut few, &mut many, depth as usize);
    // The remainder of a division, by two multiplications: the fraction that the quotient has, in
    // 64 bits, times the divisor (Lemire, Kaser and Kurz, "Faster remainder by direct
    // computation"). It is exact for numbers of 32 bits.
    let fraction = (u64::MAX / width).wrapping_add(1);
    let is_narrow = u32::try_from(width).is_ok();
    for (row, place) in places.iter_mut().enumerate() {
        let hash = u64::from(mixed.hash(row as u32));
        let rest = u128::from(fraction.wrapping_mul(hash));
        let column = if is_narrow { ((rest * u128::from(width)) >> 64) as u64 } else { hash };
        *place = row * width as usize + column as usize;
    }
    take(mixed.hash(seed), places)
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

    #[test]
    fn the_bytes_behind_the_last_word_count_as_zeros_follow() {
        let bytes: Vec<u8> = (200..=255).collect();
        for len in 0..bytes.len() {
            let mut padded = bytes[..len].to_vec();
            padded.resize(len.next_multiple_of(8), 0);
            let mut hash = (len as u64).wrapping_mul(MULTIPLIER_64);
            for (at, word) in padded.as_chunks::<8>().0.iter().enumerate() {
                let word = u64::from_le_bytes(*word);
                let whole = (word.wrapping_mul(MULTIPLIER_64) ^ word.wrapping_mul(MULTIPLIER_64) >> SHIFT_64)
                    .wrapping_mul(MULTIPLIER_64);
                let word = if at < len / 8 { whole } else { word };
                hash = (hash ^ word).wrapping_mul(MULTIPLIER_64);
            }
            hash = (hash ^ hash >> SHIFT_64).wrapping_mul(MULTIPLIER_64);
            assert_eq!(murmur64(&bytes[..len], 0), hash ^ hash >> SHIFT_64, "{len}");
        }
    }

    #[test]
    fn places_are_remainders() {
        let widths = [1, 2, 3, 1000, 2000, 65_536, u64::from(u32::MAX), 1 << 32, 1 << 33];
        let long = [7; 99];
        let items = [&b""[..], b"a", b"hello", b"twelve bytes", &long];
        for (item, width) in items.into_iter().flat_map(|item| widths.map(|width| (item, width))) {
            for depth in [1, 7, 8, 9, 40] {
                let place = |row| row * width + u64::from(murmur32(item, row as u32)) % width;
                let expected: Vec<usize> = (0..depth).map(|row| place(row) as usize).collect();
                with_places(item, 9, depth, width, |hash, places| {
                    assert_eq!((hash, places), (murmur32(item, 9), &expected[..]));
                });
            }
        }
    }
}
