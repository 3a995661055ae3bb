// SPDX-License-Identifier: BSD-3-Clause
//! A sorted set of integers, each stored in the width that the largest one needs: Redis's intset.
//!
//! HOT PATH: no allocation except for growth, no lock, no logging, no system call.
//!
//! Wire format (used in RDB files and DUMP payloads): width in bytes (2, 4 or 8) and number of
//! integers as u32, then the integers in ascending order, all little endian. In memory the block
//! holds only the integers; the block's word holds number and width. The set never returns to a
//! smaller width, as in Redis.

use braid_base::relocation::Mover;

use crate::thin_block::{ThinBlock, round_capacity};

/// Maximum number of integers in a set: they fit a block at any width.
pub const MAX_LEN: usize = (1 << 28) - 1024;
const _: () = assert!(MAX_LEN * 8 <= crate::thin_block::MAX_CAPACITY);
const HEADER: usize = 8;

/// A sorted set of integers, one pointer wide.
#[derive(Clone)]
pub struct IntSet {
    /// Word: length times four, plus 0, 1 or 2 for a width of 2, 4 or 8 bytes.
    block: ThinBlock,
}

impl Default for IntSet {
    fn default() -> Self {
        IntSet::new()
    }
}

impl std::fmt::Debug for IntSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

fn width_class(number: i64) -> u32 {
    if i16::try_from(number).is_ok() {
        0
    } else if i32::try_from(number).is_ok() {
        1
    } else {
        2
    }
}

#[inline]
fn read(bytes: &[u8], class: u32, index: usize) -> Option<i64> {
    Some(match class {
        0 => i64::from(i16::from_le_bytes(*bytes.get(index * 2..)?.first_chunk()?)),
        1 => i64::from(i32::from_le_bytes(*bytes.get(index * 4..)?.first_chunk()?)),
        _ => i64::from_le_bytes(*bytes.get(index * 8..)?.first_chunk()?),
    })
}

#[inline]
fn write(bytes: &mut [u8], class: u32, index: usize, number: i64) {
    let width = 2usize << class;
    bytes[index * width..(index + 1) * width].copy_from_slice(&number.to_le_bytes()[..width]);
}

impl IntSet {
    /// Moves the set's block to a better place, unless it is shared.
    pub fn relocate(&mut self, mover: &mut Mover) {
        self.block.relocate(mover);
    }

    /// An empty set, with the smallest width.
    pub fn new() -> IntSet {
        IntSet { block: ThinBlock::zeroed(0) }
    }

    /// Parses the wire format; `None` unless it is exactly one set, sorted and without duplicates.
    /// Refuses empty sets, as Redis does.
    pub fn from_bytes(bytes: &[u8]) -> Option<IntSet> {
        let (width, rest) = bytes.split_first_chunk::<4>()?;
        let (length, content) = rest.split_first_chunk::<4>()?;
        let class = match u32::from_le_bytes(*width) {
            2 => 0,
            4 => 1,
            8 => 2,
            _ => return None,
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 || length > MAX_LEN || length.checked_mul(2 << class) != Some(content.len()) {
            return None;
        }
        let mut before = None;
        for index in 0..length {
            let number = read(content, class, index)?;
            if before.is_some_and(|before| before >= number) {
                return None;
            }
            before = Some(number);
        }
        let mut set = IntSet { block: ThinBlock::zeroed(round_capacity(content.len())) };
        set.block.bytes_mut()[..content.len()].copy_from_slice(content);
        set.set_word(length, class);
        Some(set)
    }

    /// A second owner of the same set. Both share the block until either changes (see
    /// [`cow`](crate::cow)).
    pub fn cow(&self) -> IntSet {
        IntSet { block: self.block.cow() }
    }

    /// Appends the wire format to `out`.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        let (length, width) = (self.len(), self.width());
        out.reserve(HEADER + length * width);
        out.extend_from_slice(&(width as u32).to_le_bytes());
        out.extend_from_slice(&(length as u32).to_le_bytes());
        out.extend_from_slice(self.block.bytes().get(..length * width).unwrap_or_default());
    }

    fn set_word(&mut self, length: usize, class: u32) {
        self.block.set_word((length as u32) << 2 | class);
    }

    /// Number of integers.
    #[inline]
    pub fn len(&self) -> usize {
        (self.block.word() >> 2) as usize
    }

    /// True if the set has no integers.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn class(&self) -> u32 {
        self.block.word() & 3
    }

    /// Bytes per integer: 2, 4 or 8.
    #[inline]
    pub fn width(&self) -> usize {
        2 << self.class()
    }

    /// Size of the wire format in bytes.
    pub fn byte_len(&self) -> usize {
        HEADER + self.len() * self.width()
    }

    /// Size of the allocation in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.block.allocation_bytes()
    }

    /// The integer at `index` in ascending order.
    #[inline]
    pub fn get(&self, index: usize) -> Option<i64> {
        if index >= self.len() {
            return None;
        }
        read(self.block.bytes(), self.class(), index)
    }

    /// The smallest integer.
    pub fn first(&self) -> Option<i64> {
        self.get(0)
    }

    /// The largest integer.
    pub fn last(&self) -> Option<i64> {
        self.get(self.len().checked_sub(1)?)
    }

    /// Index of `number`, or the index at which it would be inserted.
    #[inline]
    fn search(&self, number: i64) -> Result<usize, usize> {
        let (bytes, class, length) = (self.block.bytes(), self.class(), self.len());
        // Ascending inserts are common: check the end first.
        match self.last() {
            None => return Err(0),
            Some(last) if number > last => return Err(length),
            Some(_) => {}
        }
        let (mut low, mut high) = (0, length);
        while low < high {
            let middle = (low + high) / 2;
            match read(bytes, class, middle) {
                Some(found) if found == number => return Ok(middle),
                Some(found) if found < number => low = middle + 1,
                _ => high = middle,
            }
        }
        Err(low)
    }

    /// True if `number` is in the set.
    #[inline]
    pub fn contains(&self, number: i64) -> bool {
        width_class(number) <= self.class() && self.search(number).is_ok()
    }

    /// Adds `number`. False if it was present, or if the set already holds [`MAX_LEN`] integers.
    pub fn add(&mut self, number: i64) -> bool {
        let length = self.len();
        if length >= MAX_LEN {
            return false;
        }
        let class = width_class(number);
        if class > self.class() {
            self.widen(class);
            // It needs a larger width than all existing numbers, so it goes before or after all of
            // them.
            self.insert_at(if number < 0 { 0 } else { length }, number);
            return true;
        }
        match self.search(number) {
            Ok(_) => false,
            Err(index) => {
                self.insert_at(index, number);
                true
            }
        }
    }

    fn insert_at(&mut self, index: usize, number: i64) {
        let (length, width, class) = (self.len(), self.width(), self.class());
        let need = (length + 1) * width;
        if need > self.block.capacity() {
            self.block.resize(round_capacity(need));
        }
        let bytes = self.block.bytes_mut();
        bytes.copy_within(index * width..length * width, (index + 1) * width);
        write(bytes, class, index, number);
        self.set_word(length + 1, class);
    }

    fn widen(&mut self, class: u32) {
        let (length, old) = (self.len(), self.class());
        self.block.resize(round_capacity((length + 1) * (2 << class)));
        let bytes = self.block.bytes_mut();
        // From the end, so that no number is overwritten before it is read.
        for index in (0..length).rev() {
            if let Some(number) = read(bytes, old, index) {
                write(bytes, class, index, number);
            }
        }
        self.set_word(length, class);
    }

    /// Removes `number`. False if it was not in the set.
    pub fn remove(&mut self, number: i64) -> bool {
        if width_class(number) > self.class() {
            return false;
        }
        match self.search(number) {
            Ok(index) => self.remove_at(index).is_some(),
            Err(_) => false,
        }
    }

    /// Removes the integer at `index` in ascending order.
    pub fn remove_at(&mut self, index: usize) -> Option<i64> {
        let number = self.get(index)?;
        let (length, width, class) = (self.len(), self.width(), self.class());
        self.block.bytes_mut().copy_within((index + 1) * width..length * width, index * width);
        self.set_word(length - 1, class);
        let used = (length - 1) * width;
        if self.block.capacity() > 64 + 2 * used {
            self.block.resize(round_capacity(used));
        }
        Some(number)
    }

    /// A random integer, all equally likely.
    pub fn random(&self, random: &mut fastrand::Rng) -> Option<i64> {
        if self.is_empty() {
            return None;
        }
        self.get(random.usize(..self.len()))
    }

    /// The integers in ascending order.
    pub fn iter(&self) -> Iter<'_> {
        Iter { set: self, next: 0 }
    }
}

/// The integers of a set in ascending order.
#[derive(Clone)]
pub struct Iter<'a> {
    set: &'a IntSet,
    next: usize,
}

impl Iterator for Iter<'_> {
    type Item = i64;

    #[inline]
    fn next(&mut self) -> Option<i64> {
        let number = self.set.get(self.next)?;
        self.next += 1;
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn wire(set: &IntSet) -> Vec<u8> {
        let mut bytes = Vec::new();
        set.write_to(&mut bytes);
        bytes
    }

    #[test]
    fn wire_format() {
        let mut set = IntSet::new();
        assert!(set.add(5) && set.add(-1) && !set.add(5));
        assert_eq!(wire(&set), [2, 0, 0, 0, 2, 0, 0, 0, 0xFF, 0xFF, 5, 0]);
        assert!(set.add(40_000));
        assert_eq!(wire(&set)[..8], [4, 0, 0, 0, 3, 0, 0, 0]);
        assert!(set.add(i64::MIN));
        assert_eq!(
            (set.width(), set.first(), set.last(), set.byte_len()),
            (8, Some(i64::MIN), Some(40_000), 40)
        );
        assert!(!set.remove(6) && set.remove(i64::MIN));
        assert_eq!(set.width(), 8, "the width never shrinks");
    }

    #[test]
    fn hostile_bytes_are_refused() {
        let good = [2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 2, 0];
        assert!(IntSet::from_bytes(&good).is_some());
        for (at, value) in [(0, 3), (0, 4), (4, 1), (4, 3), (7, 255), (8, 2), (8, 3)] {
            let mut bad = good;
            bad[at] = value;
            assert!(IntSet::from_bytes(&bad).is_none(), "byte {at} = {value}");
        }
        for length in 0..good.len() {
            assert!(IntSet::from_bytes(&good[..length]).is_none());
        }
        assert!(IntSet::from_bytes(&[2, 0, 0, 0, 0, 0, 0, 0]).is_none(), "empty");
    }

    const CASES: u32 = if cfg!(miri) { 2 } else { 100 };

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(CASES) })]
        #[test]
        fn behaves_as_a_sorted_set(changes in vec((any::<i64>(), 0u32..64, 0u8..4), 1..200)) {
            let mut set = IntSet::new();
            let mut model = BTreeSet::new();
            for (number, shift, what) in changes {
                let number = number >> shift;
                match what {
                    0 => prop_assert_eq!(set.remove(number), model.remove(&number)),
                    1 if !model.is_empty() => {
                        let index = number.unsigned_abs() as usize % model.len();
                        let nth = *model.iter().nth(index).unwrap();
                        prop_assert_eq!(set.remove_at(index), Some(nth));
                        model.remove(&nth);
                    }
                    _ => prop_assert_eq!(set.add(number), model.insert(number)),
                }
                prop_assert_eq!(set.contains(number), model.contains(&number));
                prop_assert!(set.iter().eq(model.iter().copied()));
            }
            if !model.is_empty() {
                let loaded = IntSet::from_bytes(&wire(&set)).unwrap();
                prop_assert!(loaded.iter().eq(model.iter().copied()));
                prop_assert!(model.contains(&set.random(&mut fastrand::Rng::with_seed(1)).unwrap()));
            }
        }
    }
}
