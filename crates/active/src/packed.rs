// SPDX-License-Identifier: BSD-3-Clause
//! Blocks: a few named entries in one contiguous allocation.
//!
//! Most values and elements have been written once: a name, a stamp and a short text. As separate
//! allocations in a map they cost several times their contents. In a block an entry has two bytes
//! of overhead for lengths. Lookup scans the block, so [`crate::plain`], which finds blocks by
//! hash, keeps them short. Entries are in no order; [`crate::ordered_block`] is for elements.
//!
//! Entry format: length of the name, name, length of the content with a bit for the owner's use,
//! content. Lengths are varints of seven bits a byte. Blocks are built only here, never read from
//! a peer or a file.

use std::ops::Range;

use braid_base::prefetch::{CACHE_LINE, prefetch};

use crate::lengths::{number_len, put, put_number};

/// See the module documentation.
#[derive(Clone, Default)]
pub(crate) struct Block(Vec<u8>);

/// The place of an entry in a block, or its insertion point. Valid until the block changes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Span {
    range: Range<usize>,
    pub is_there: bool,
}

/// An entry of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry<'b> {
    pub name: &'b [u8],
    /// The bit for the owner's use.
    pub is_marked: bool,
    pub content: &'b [u8],
}

impl Entry<'_> {
    /// The bytes that the entry takes in a block.
    fn len(&self) -> usize {
        let lengths = number_len(self.name.len()) + number_len(self.content.len() << 1);
        lengths + self.name.len() + self.content.len()
    }

    fn write(&self, mut out: &mut [u8]) {
        put_number(&mut out, self.name.len());
        put(&mut out, self.name);
        put_number(&mut out, self.content.len() << 1 | usize::from(self.is_marked));
        put(&mut out, self.content);
    }
}

/// Takes a varint from the front of `bytes`.
fn take_number(bytes: &mut &[u8]) -> Option<usize> {
    let (mut number, mut shift) = (0_usize, 0);
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= usize::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
        shift += 7;
    }
}

fn take_entry<'b>(bytes: &mut &'b [u8]) -> Option<Entry<'b>> {
    let len = take_number(bytes)?;
    let (name, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    let word = take_number(bytes)?;
    let (content, rest) = bytes.split_at_checked(word >> 1)?;
    *bytes = rest;
    Some(Entry { name, is_marked: word & 1 == 1, content })
}

impl Block {
    /// Prefetches its entries.
    pub fn prefetch(&self) {
        self.0.chunks(CACHE_LINE).for_each(|line| prefetch(line.as_ptr()));
    }

    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || take_entry(&mut rest))
    }

    /// The place of an entry, or its insertion point.
    pub fn place_of(&self, name: &[u8]) -> Span {
        let (range, found) = self.find(name);
        Span { range, is_there: found.is_some() }
    }

    /// The entry at a place.
    pub fn at(&self, place: &Span) -> Option<Entry<'_>> {
        if place.is_there { take_entry(&mut &self.0[place.range.clone()]) } else { None }
    }

    fn find(&self, name: &[u8]) -> (Range<usize>, Option<Entry<'_>>) {
        let mut rest = &self.0[..];
        loop {
            let start = self.0.len() - rest.len();
            let Some(entry) = take_entry(&mut rest) else { return (start..start, None) };
            // Different names mostly differ at the end.
            if entry.name.last() == name.last() && entry.name == name {
                return (start..self.0.len() - rest.len(), Some(entry));
            }
        }
    }

    /// Adds an entry, or replaces the one with its name. Returns true if it is new.
    pub fn put(&mut self, entry: Entry<'_>) -> bool {
        let place = self.place_of(entry.name);
        self.put_at(&place, entry);
        !place.is_there
    }

    /// [`Block::put`] at a known place. Returns the entry's new place.
    pub fn put_at(&mut self, place: &Span, entry: Entry<'_>) -> Span {
        let range = place.range.clone();
        let (had, len) = (self.0.len(), entry.len());
        if had - range.len() + len > self.0.capacity() {
            // Round up to the allocator's next size class.
            let wanted = had - range.len() + len;
            let step = (wanted.next_power_of_two() / 8).max(16);
            self.0.reserve_exact(wanted.next_multiple_of(step) - had);
        }
        let end = range.start + len;
        if end > range.end {
            self.0.resize(had + (end - range.end), 0);
        }
        // Most values are replaced by ones of the same length.
        if end != range.end {
            self.0.copy_within(range.end..had, end);
            self.0.truncate(had - range.len() + len);
        }
        entry.write(&mut self.0[range.start..end]);
        Span { range: range.start..end, is_there: true }
    }

    /// Removes an entry. Returns true if it existed.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let (range, found) = self.find(name);
        let was_there = found.is_some();
        self.0.drain(range);
        if self.0.len() < self.0.capacity() / 2 {
            self.0.shrink_to_fit();
        }
        was_there
    }

    /// Keeps only the entries that `keeps` accepts, and returns the number of dropped ones.
    pub fn retain(&mut self, mut keeps: impl FnMut(Entry<'_>) -> bool) -> usize {
        let (mut kept, mut read, mut gone) = (0, 0, 0);
        while read < self.0.len() {
            let mut rest = &self.0[read..];
            let Some(entry) = take_entry(&mut rest) else { break };
            let is_kept = keeps(entry);
            let next = self.0.len() - rest.len();
            if is_kept {
                self.0.copy_within(read..next, kept);
                kept += next - read;
            } else {
                gone += 1;
            }
            read = next;
        }
        self.0.truncate(kept);
        if gone > 0 {
            self.0.shrink_to_fit();
        }
        gone
    }

    /// The allocated size in bytes.
    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Random changes have the same effect on a block as on a map.
    #[test]
    fn a_block_is_a_map() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..300 {
            let mut block = Block::default();
            let mut map = BTreeMap::<Vec<u8>, (bool, Vec<u8>)>::new();
            for _ in 0..200 {
                let name = vec![b'n'; random.usize(0..20)];
                match random.u8(0..10) {
                    0..6 => {
                        let len =
                            if random.u8(0..10) == 0 { random.usize(0..20_000) } else { random.usize(0..90) };
                        let content = vec![random.u8(..); len];
                        let is_marked = random.bool();
                        let is_new = block.put(Entry { name: &name, is_marked, content: &content });
                        assert_eq!(is_new, map.insert(name, (is_marked, content)).is_none());
                    }
                    6..9 => assert_eq!(block.remove(&name), map.remove(&name).is_some()),
                    _ => {
                        let keeps = |name: &[u8]| !name.len().is_multiple_of(3);
                        let before = map.len();
                        map.retain(|name, _| keeps(name));
                        assert_eq!(block.retain(|entry| keeps(entry.name)), before - map.len());
                    }
                }
                let all = map.iter().map(|(name, (is_marked, content))| Entry {
                    name,
                    is_marked: *is_marked,
                    content,
                });
                let mut there: Vec<Entry<'_>> = block.iter().collect();
                there.sort_by_key(|entry| entry.name);
                assert!(there.into_iter().eq(all.clone()));
                for entry in all {
                    assert_eq!(block.at(&block.place_of(entry.name)), Some(entry));
                }
            }
        }
    }
}
