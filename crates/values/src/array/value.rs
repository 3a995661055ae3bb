// SPDX-License-Identifier: BSD-3-Clause
//! Texts at indexes from 0 to 2^64 - 2, of which any may be unset.
//!
//! Indexes are grouped by 64 (`chunk.rs`); a group without a text does not exist. The groups are
//! in an ordered copy-on-write map, so a snapshot shares them, at any size.
//!
//! Besides, an array has a cursor, where the next insertion goes, and the size of the ring that it
//! was last used as.

use std::ops::Bound::Included;

use braid_base::relocation::Mover;
use braid_containers::cow_map::CowMap;

use super::chunk::{Chunk, WIDTH};
pub use super::chunk::{INLINE_MAX, Text};

/// The last index.
pub const INDEX_MAX: u64 = u64::MAX - 1;
/// A cursor behind the last index: nothing more can be inserted.
pub const EXHAUSTED: u64 = u64::MAX;
/// With so many texts a value is large: a snapshot shares it.
const LARGE: u64 = 4096;

/// An array.
#[derive(Clone, Default)]
pub struct Array {
    chunks: CowMap<u64, Chunk, 16>,
    count: u64,
    /// Where the next insertion goes, or [`EXHAUSTED`].
    cursor: u64,
    /// Indexes of the ring that the array was last used as; 0 if it never was.
    ring: u64,
    /// Bytes that chunks point to.
    heap_bytes: usize,
}

/// A chunk's number, and an index in it.
fn place(index: u64) -> (u64, u32) {
    (index / WIDTH, (index % WIDTH) as u32)
}

/// The bits of a chunk's indexes between two indexes of the array.
fn mask(chunk: u64, first: u64, last: u64) -> u64 {
    let begin = chunk * WIDTH;
    let low = first.saturating_sub(begin);
    let high = last.saturating_sub(begin).min(WIDTH - 1);
    (u64::MAX << low) & (u64::MAX >> (WIDTH - 1 - high))
}

impl Array {
    /// Number of indexes that are set.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The last index that is set, plus one; 0 for an empty array.
    pub fn len(&self) -> u64 {
        let Some((number, chunk)) = self.chunks.iter().next_back() else { return 0 };
        number * WIDTH + u64::from(u64::BITS - chunk.present().leading_zeros())
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Where the next insertion goes, or [`EXHAUSTED`].
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    pub fn set_cursor(&mut self, index: u64) {
        self.cursor = index;
    }

    /// Indexes of the ring that the array was last used as; 0 if it never was.
    pub fn ring(&self) -> u64 {
        self.ring
    }

    /// Groups of [`Array::chunk_width`] indexes that have a text.
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Indexes in a group.
    pub const fn chunk_width() -> u64 {
        WIDTH
    }

    /// The text at an index.
    #[inline]
    pub fn get(&self, index: u64) -> Option<Text<'_>> {
        let (number, offset) = place(index);
        self.chunks.get(&number)?.get(offset)
    }

    /// Sets the text at an index up to [`INDEX_MAX`]. Returns true if there was none.
    pub fn set(&mut self, index: u64, text: Text<'_>) -> bool {
        debug_assert!(index <= INDEX_MAX, "indexes are checked before");
        let (number, offset) = place(index);
        let is_new = self.change(number, |chunk| chunk.set(offset, text)).unwrap_or_else(|| {
            let mut chunk = Chunk::default();
            chunk.set(offset, text);
            self.heap_bytes += chunk.memory_bytes();
            self.chunks.insert(number, chunk);
            true
        });
        self.count += u64::from(is_new);
        is_new
    }

    /// Changes a group, if it exists; one that becomes empty goes.
    fn change<R>(&mut self, number: u64, change: impl FnOnce(&mut Chunk) -> R) -> Option<R> {
        let chunk = self.chunks.get_mut(&number)?;
        self.heap_bytes -= chunk.memory_bytes();
        let changed = change(chunk);
        self.heap_bytes += chunk.memory_bytes();
        if chunk.is_empty() {
            self.chunks.remove(&number);
        }
        Some(changed)
    }

    /// Removes the text at an index. Returns true if there was one.
    pub fn remove(&mut self, index: u64) -> bool {
        let (number, offset) = place(index);
        let is_removed = self.change(number, |chunk| chunk.remove(offset)).unwrap_or(false);
        self.count -= u64::from(is_removed);
        is_removed
    }

    /// Removes the texts between two indexes, both included. Returns how many there were.
    pub fn remove_range(&mut self, first: u64, last: u64) -> u64 {
        let (from, to) = (first / WIDTH, last / WIDTH);
        let numbers: Vec<u64> =
            self.chunks.range(Included(from), Included(to)).map(|(number, _)| *number).collect();
        let mut removed = 0;
        for number in numbers {
            let gone = mask(number, first, last);
            removed += self.change(number, |chunk| chunk.remove_all(gone)).unwrap_or(0);
        }
        self.count -= removed;
        removed
    }

    /// Texts that are set between two indexes, both included, with their indexes: descending if
    /// `first` is the greater one.
    pub fn scan(&self, first: u64, last: u64) -> impl Iterator<Item = (u64, Text<'_>)> {
        let is_reverse = first > last;
        let (low, high) = if is_reverse { (last, first) } else { (first, last) };
        let mut chunks = self.chunks.range(Included(low / WIDTH), Included(high / WIDTH));
        let mut current: Option<(u64, &Chunk, u64)> = None;
        std::iter::from_fn(move || {
            loop {
                if let Some((number, chunk, bits)) = current.as_mut().filter(|(_, _, bits)| *bits != 0) {
                    let offset =
                        if is_reverse { u64::BITS - 1 - bits.leading_zeros() } else { bits.trailing_zeros() };
                    *bits &= !(1 << offset);
                    return Some((*number * WIDTH + u64::from(offset), chunk.get(offset)?));
                }
                let (&number, chunk) = if is_reverse { chunks.next_back()? } else { chunks.next()? };
                current = Some((number, chunk, chunk.present() & mask(number, low, high)));
            }
        })
    }

    /// All texts with their indexes, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Text<'_>)> {
        self.scan(0, INDEX_MAX)
    }

    /// The indexes of the latest insertions, the latest first: from the cursor (or the end of the
    /// array, if the cursor is beyond) backwards, and from the end on after index 0; as many as are
    /// set, and `most` at most.
    pub fn latest(&self, most: u64) -> impl Iterator<Item = u64> {
        let len = self.len();
        let mut next = self.cursor.min(len);
        let most = most.min(self.count);
        (0..most).map(move |_| {
            next = if next == 0 { len - 1 } else { next - 1 };
            next
        })
    }

    /// Inserts a text at the cursor, and returns its index; `None` if no index is left.
    pub fn insert(&mut self, text: Text<'_>) -> Option<u64> {
        let index = self.cursor;
        if index == EXHAUSTED {
            return None;
        }
        self.set(index, text);
        self.cursor = index + 1;
        Some(index)
    }

    /// Makes the array a ring of `size` (at least 1) indexes from now on: if it was another one, or
    /// has texts beyond, the latest texts go to its first indexes in the order of insertion, and
    /// the others are dropped.
    pub fn use_as_ring(&mut self, size: u64) {
        if self.len() > size || self.ring != 0 && self.ring != size {
            let mut kept = Array { ring: size, ..Array::default() };
            let (len, cursor) = (self.len(), self.cursor.min(self.len()));
            let newer = (cursor > 0).then(|| self.scan(cursor - 1, 0)).into_iter().flatten();
            let older = (cursor < len).then(|| self.scan(len - 1, cursor)).into_iter().flatten();
            let most = usize::try_from(size).unwrap_or(usize::MAX);
            let latest: Vec<Text<'_>> = newer.chain(older).map(|(_, text)| text).take(most).collect();
            for text in latest.into_iter().rev() {
                kept.insert(text);
            }
            *self = kept;
        }
        self.ring = size;
    }

    /// Inserts a text at the cursor of a ring of `size` indexes, and returns its index.
    pub fn insert_in_ring(&mut self, size: u64, text: Text<'_>) -> u64 {
        // A cursor behind the last index begins anew, as any other at the end of the ring.
        let index = if self.cursor == EXHAUSTED { 0 } else { self.cursor % size };
        self.set(index, text);
        self.cursor = index + 1;
        index
    }

    /// Restores what [`Array::ring`] and [`Array::cursor`] returned.
    pub(super) fn set_state(&mut self, cursor: u64, ring: u64) {
        (self.cursor, self.ring) = (cursor, ring);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.chunks.memory_bytes() + self.heap_bytes
    }

    pub(super) fn release_effort(&self) -> usize {
        // Two blocks of each group, about, and of each long text one.
        2 * self.chunks.len() + (self.heap_bytes / INLINE_MAX).min(self.count as usize)
    }

    pub(super) fn is_large(&self) -> bool {
        self.count >= LARGE
    }

    pub(super) fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        self.chunks.relocate(from, mover, &mut Chunk::relocate)
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        self.chunks.check();
        let count: u64 = self.chunks.iter().map(|(_, chunk)| u64::from(chunk.len())).sum();
        let bytes: usize = self.chunks.iter().map(|(_, chunk)| chunk.memory_bytes()).sum();
        assert_eq!((count, bytes), (self.count, self.heap_bytes));
        assert!(self.chunks.iter().all(|(_, chunk)| !chunk.is_empty()));
    }
}
