// SPDX-License-Identifier: BSD-3-Clause
//! Records of one size, numbered from 0 without gaps, in blocks of memory.
//!
//! A record is a slice of words. All blocks but the last have the same size; the last grows as
//! records are added and shrinks as they are removed, so a small graph takes little memory. Words
//! are atomic because threads that add to a graph write links which others read at that moment.
//!
//! A block may have two owners while a snapshot is in progress ([`Blocks::cow`]). [`Blocks::own`]
//! copies such a block before a change; writing to a record of a shared block is a fault of the
//! caller, which debug builds detect.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use braid_base::alloc::size_class;
use braid_base::prefetch::{CACHE_LINE, prefetch};
use braid_base::relocation::Mover;
use braid_containers::cow::note_copy;

use crate::block::{Block, HEADER_BYTES};

/// Least size of a full block, in words, unless it holds one record: from 32 KiB on, allocations
/// are whole pages, so little is lost.
const BLOCK_WORDS: usize = 16 * 1024;

/// After so many blocks the next one has its full size at once.
const WHOLE: usize = 16;

/// Records in blocks.
pub struct Blocks {
    /// Words of a record.
    stride: usize,
    /// A full block has `1 << shift` records.
    shift: u32,
    table: Vec<Block>,
}

fn copy_words(from: &[AtomicU32], to: &[AtomicU32]) {
    for (from, to) in from.iter().zip(to) {
        to.store(from.load(Relaxed), Relaxed);
    }
}

impl Blocks {
    pub fn new(stride: usize) -> Blocks {
        let records = BLOCK_WORDS.div_ceil(stride.max(1)).next_power_of_two();
        Blocks { stride: stride.max(1), shift: records.ilog2(), table: Vec::new() }
    }

    /// Number of records that there is memory for.
    pub fn capacity(&self) -> usize {
        match self.table.split_last() {
            Some((last, full)) => (full.len() << self.shift) + last.len() / self.stride,
            None => 0,
        }
    }

    #[inline]
    pub fn get(&self, index: u32) -> &[AtomicU32] {
        let index = index as usize;
        let from = (index & ((1 << self.shift) - 1)) * self.stride;
        &self.table[index >> self.shift][from..from + self.stride]
    }

    /// Asks the processor to fetch the first `lines` cache lines of a record.
    #[inline]
    pub fn prefetch(&self, index: u32, lines: usize) {
        let record = self.get(index).as_ptr();
        for line in 0..lines {
            prefetch(record.cast::<u8>().wrapping_add(line * CACHE_LINE));
        }
    }

    /// Cache lines of a record.
    pub fn lines(&self) -> usize {
        (self.stride * size_of::<AtomicU32>()).div_ceil(CACHE_LINE)
    }

    /// Makes memory for at least `count` records. New records hold zeros.
    pub fn reserve(&mut self, count: usize) {
        let full = 1usize << self.shift;
        while self.capacity() < count {
            let before = self.table.len();
            let len = self.table.last().map_or(full, |last| last.len() / self.stride);
            if len == full {
                let wanted = if before < WHOLE { count - self.capacity() } else { full };
                self.table.push(Block::new(self.sized(0, wanted)));
            } else {
                let missing = count - self.capacity();
                let words = self.sized(len, (len + missing).max(len + len / 4));
                let last = &mut self.table[before - 1];
                *last = last.copied(words);
            }
        }
    }

    /// Words of a block for at least `wanted` records (at most a full block), larger than `len`,
    /// that fills its allocation.
    fn sized(&self, len: usize, wanted: usize) -> usize {
        let full = 1usize << self.shift;
        let wanted = wanted.clamp(len + 1, full);
        let room =
            (Block::bytes(wanted * self.stride) - HEADER_BYTES) / (self.stride * size_of::<AtomicU32>());
        room.min(full) * self.stride
    }

    /// Releases memory that `count` records do not need.
    pub fn shrink(&mut self, count: usize) {
        let full = 1usize << self.shift;
        self.table.truncate(count.div_ceil(full));
        if self.table.capacity() > 4 && self.table.len() < self.table.capacity() / 2 {
            self.table.shrink_to(self.table.len() + self.table.len() / 4);
        }
        let Some(last) = self.table.last() else { return };
        let (len, used) = (last.len() / self.stride, count - ((self.table.len() - 1) << self.shift));
        if used < len / 2 {
            let smaller = last.copied(self.sized(0, used + used / 4));
            *self.table.last_mut().expect("seen above") = smaller;
        }
    }

    /// Makes the block of a record this owner's alone, copying it if it is shared.
    #[inline]
    pub fn own(&mut self, index: u32) {
        let block = &mut self.table[index as usize >> self.shift];
        if !block.is_own() {
            note_copy(block.len() * size_of::<AtomicU32>());
            *block = block.copied(block.len());
        }
    }

    /// Makes all blocks this owner's alone.
    pub fn own_all(&mut self) {
        (0..self.table.len()).for_each(|block| self.own((block << self.shift) as u32));
    }

    /// True if the block of a record has one owner.
    #[cfg(test)]
    pub fn is_own(&self, index: u32) -> bool {
        self.table[index as usize >> self.shift].owners() == 1
    }

    /// Copies a record over another one, whose block must have one owner.
    pub fn copy_record(&self, from: u32, to: u32) {
        copy_words(self.get(from), self.get(to));
    }

    /// A second owner of the same blocks.
    pub fn cow(&self) -> Blocks {
        Blocks { stride: self.stride, shift: self.shift, table: self.table.clone() }
    }

    /// A copy that shares nothing.
    pub fn duplicate(&self) -> Blocks {
        let table = self.table.iter().map(|block| block.copied(block.len())).collect();
        Blocks { stride: self.stride, shift: self.shift, table }
    }

    /// Number of blocks.
    pub fn block_count(&self) -> usize {
        self.table.len()
    }

    /// Bytes allocated.
    pub fn memory_bytes(&self) -> usize {
        let table = self.table.capacity() * size_of::<Block>();
        self.table.iter().map(|block| Block::bytes(block.len())).sum::<usize>()
            + if table == 0 { 0 } else { size_class(table) }
    }

    /// Moves blocks from number `from` on to better places until the mover's time is over. Returns
    /// the number to continue with, `None` at the end. Shared blocks stay.
    pub fn relocate(&mut self, from: usize, mover: &mut Mover) -> Option<usize> {
        for (number, block) in self.table.iter_mut().enumerate().skip(from) {
            if mover.is_over() {
                return Some(number);
            }
            block.relocate(mover);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_growth_and_shrinking() {
        for stride in [1, 7, 34, 100, 9000] {
            let mut blocks = Blocks::new(stride);
            // Miri takes long for large blocks.
            let most = if cfg!(miri) { 12 + 60 / stride as u32 } else { 700 };
            for count in 1..most {
                blocks.reserve(count as usize);
                let record = blocks.get(count - 1);
                assert!(record.iter().all(|word| word.load(Relaxed) == 0));
                record[stride - 1].store(count, Relaxed);
            }
            for count in (1..most).rev() {
                assert_eq!(blocks.get(count - 1)[stride - 1].load(Relaxed), count);
                blocks.get(count - 1)[stride - 1].store(0, Relaxed);
                blocks.shrink(count as usize - 1);
            }
            assert_eq!(blocks.block_count(), 0);
        }
    }

    #[test]
    fn a_shared_block_is_copied_before_a_change() {
        let mut blocks = Blocks::new(3);
        blocks.reserve(5);
        blocks.get(4)[0].store(1, Relaxed);
        let other = blocks.cow();
        assert!(!blocks.is_own(4));
        blocks.own(4);
        blocks.get(4)[0].store(2, Relaxed);
        assert_eq!(other.get(4)[0].load(Relaxed), 1);
        assert!(blocks.is_own(4) && other.is_own(4));
    }
}
