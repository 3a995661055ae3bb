// SPDX-License-Identifier: BSD-3-Clause
//! Plain strings: keys that hold only a short string that has been written once, with or without
//! a time. Most keys are plain, so they are kept in [blocks](crate::packed), with eleven bytes in
//! addition to name and value. All other keys are whole structures in [`crate::keys`].
//!
//! Blocks are found by hash ([`crate::linear`]).

use std::cell::RefCell;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use braid_base::prefetch::prefetch;
use smallvec::SmallVec;

use crate::linear;
use crate::packed::{Entry, Place};
use crate::stamp::Stamp;

type Block = crate::packed::Block<false>;

/// Limit for name and value of a plain string, in bytes; longer ones would make blocks slow to
/// change.
const LEN_MAX: usize = 512;
/// Average number of entries in a block.
const FILL: usize = 8;
/// Size of a stamp or time, in bytes.
const WORD: usize = 8;

/// A string and its marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plain<'p> {
    pub stamp: Stamp,
    /// The expiry time in Unix ms, given by the same write.
    pub time: Option<u64>,
    pub value: &'p [u8],
}

impl<'p> Plain<'p> {
    /// This module wrote the entry, so it parses.
    fn of(entry: Entry<'p>) -> Option<Plain<'p>> {
        let (stamp, mut value) = entry.content.split_first_chunk::<WORD>()?;
        let mut time = None;
        if entry.is_marked {
            let (until, rest) = value.split_first_chunk::<WORD>()?;
            (time, value) = (Some(u64::from_le_bytes(*until)), rest);
        }
        Some(Plain { stamp: Stamp::from_word(u64::from_le_bytes(*stamp))?, time, value })
    }

    /// True if the string is short enough to be plain.
    pub fn fits(&self, name: &[u8]) -> bool {
        name.len() + self.value.len() <= LEN_MAX
    }
}

/// The place of a string, or its insertion point. Valid until something changes.
#[derive(Debug)]
pub(crate) struct PlainPlace {
    block: usize,
    place: Place,
}

/// The last lookup: the place of a name, or its insertion point.
#[derive(Clone, Debug, Default)]
struct Found {
    name: Vec<u8>,
    block: usize,
    place: Place,
    /// Nothing has changed since the lookup.
    is_current: bool,
}

/// See the module documentation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plains {
    blocks: Vec<Block>,
    len: usize,
    hasher: RandomState,
    /// The last name looked up: an effect looks up its own several times.
    last: RefCell<Found>,
}

impl Plains {
    pub fn new(hasher: RandomState) -> Plains {
        Plains { hasher, ..Plains::default() }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The place of a name, or its insertion point. Requires at least one block.
    fn find(&self, name: &[u8]) -> (usize, Place) {
        let mut last = self.last.borrow_mut();
        if !last.is_current || last.name != name {
            last.block = self.block_among(name, self.blocks.len());
            last.place = self.blocks[last.block].place_of(name);
            last.name.clear();
            last.name.extend_from_slice(name);
            last.is_current = true;
        }
        (last.block, last.place.clone())
    }

    /// Prefetches the block of a hash.
    pub fn prefetch_block(&self, hash: u64) {
        if let Some(block) = self.block_of(hash) {
            prefetch(&self.blocks[block]);
        }
    }

    /// Prefetches the entries in the block of a hash.
    pub fn prefetch_entries(&self, hash: u64) {
        if let Some(block) = self.block_of(hash) {
            self.blocks[block].prefetch();
        }
    }

    fn block_of(&self, hash: u64) -> Option<usize> {
        (!self.blocks.is_empty()).then(|| linear::index(hash, self.blocks.len()))
    }

    /// The place of a name with this hash, or its insertion point; `None` if there are no blocks
    /// yet.
    pub fn place_of(&self, hash: u64, name: &[u8]) -> Option<PlainPlace> {
        let block = self.block_of(hash)?;
        Some(PlainPlace { block, place: self.blocks[block].place_of(name) })
    }

    /// The stamp of the string at a place.
    pub fn stamp_at(&self, at: &PlainPlace) -> Option<Stamp> {
        Some(Plain::of(self.blocks[at.block].at(&at.place)?)?.stamp)
    }

    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// The block of a name if there are `blocks` blocks.
    pub fn block_among(&self, name: &[u8], blocks: usize) -> usize {
        linear::index(self.hasher.hash_one(name), blocks)
    }

    pub fn get(&self, name: &[u8]) -> Option<Plain<'_>> {
        if self.blocks.is_empty() {
            return None;
        }
        let (block, place) = self.find(name);
        Plain::of(self.blocks[block].at(&place)?)
    }

    /// Adds a string, or replaces the one with its name.
    pub fn put(&mut self, name: &[u8], plain: Plain<'_>) {
        if self.blocks.is_empty() {
            self.blocks.push(Block::default());
        }
        let (block, place) = self.find(name);
        let is_there = place.is_there;
        self.last.get_mut().place = self.put_in(block, &place, name, plain);
        self.count_new(!is_there);
    }

    /// [`Plains::put`] at a known place.
    pub fn put_at(&mut self, at: &PlainPlace, name: &[u8], plain: Plain<'_>) {
        self.last.get_mut().is_current = false;
        self.put_in(at.block, &at.place, name, plain);
        self.count_new(!at.place.is_there);
    }

    fn put_in(&mut self, block: usize, place: &Place, name: &[u8], plain: Plain<'_>) -> Place {
        // Only marks of evicted keys can be longer.
        let mut content = SmallVec::<[u8; 2 * LEN_MAX]>::new();
        content.extend_from_slice(&plain.stamp.word().to_le_bytes());
        if let Some(time) = plain.time {
            content.extend_from_slice(&time.to_le_bytes());
        }
        content.extend_from_slice(plain.value);
        let entry = Entry { name, is_marked: plain.time.is_some(), content: &content };
        self.blocks[block].put_at(place, entry)
    }

    fn count_new(&mut self, is_new: bool) {
        self.len += usize::from(is_new);
        if self.len > self.blocks.len() * FILL {
            self.grow();
        }
    }

    /// Adds a block, and moves to it the entries that belong there from the block that is split.
    fn grow(&mut self) {
        let new = self.blocks.len();
        let from = linear::split_by(new);
        let hasher = &self.hasher;
        self.last.get_mut().is_current = false;
        let mut second = Block::default();
        self.blocks[from].retain(|entry| {
            let moves = linear::index(hasher.hash_one(entry.name), new + 1) == new;
            if moves {
                second.put(entry);
            }
            !moves
        });
        self.blocks.push(second);
    }

    pub fn remove(&mut self, name: &[u8]) -> bool {
        if self.blocks.is_empty() {
            return false;
        }
        let (block, place) = self.find(name);
        let was_there = place.is_there && self.blocks[block].remove(name);
        self.last.get_mut().is_current &= !was_there;
        self.len -= usize::from(was_there);
        if self.len == 0 {
            self.blocks = Vec::new();
        }
        was_there
    }

    /// All strings, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Plain<'_>)> {
        let entries = self.blocks.iter().flat_map(Block::iter);
        entries.filter_map(|entry| Some((entry.name, Plain::of(entry)?)))
    }

    /// The present strings of the names that were in `block` when there were `then` blocks.
    pub fn of_block(&self, block: usize, then: usize) -> impl Iterator<Item = (&[u8], Plain<'_>)> {
        let family = linear::family(block, then, self.blocks.len()).into_iter();
        let entries = family.flat_map(|block| self.blocks[block].iter());
        entries.filter_map(|entry| Some((entry.name, Plain::of(entry)?)))
    }

    /// Keeps only the strings that `keeps` accepts.
    pub fn retain(&mut self, mut keeps: impl FnMut(&[u8], Plain<'_>) -> bool) {
        self.last.get_mut().is_current = false;
        for block in &mut self.blocks {
            self.len -= block.retain(|entry| Plain::of(entry).is_some_and(|plain| keeps(entry.name, plain)));
        }
        if self.len == 0 {
            self.blocks = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::Region;
    use std::collections::BTreeMap;

    fn stamp(position: u64) -> Stamp {
        Stamp::of(Region::new(1).unwrap(), position).unwrap()
    }

    type Map = BTreeMap<Vec<u8>, (Stamp, Option<u64>, Vec<u8>)>;

    /// Random changes have the same effect as on a map, while blocks are split.
    #[test]
    fn plain_strings_are_a_map() {
        let mut random = fastrand::Rng::with_seed(5);
        for names in [3_u64, 20, 5_000] {
            let mut plains = Plains::default();
            let mut map = Map::new();
            for position in 1..5 * names {
                let name = random.u64(0..names).to_string().into_bytes();
                if random.u8(0..4) == 0 {
                    assert_eq!(plains.remove(&name), map.remove(&name).is_some());
                    assert_eq!(plains.get(&name), None);
                    continue;
                }
                let other = random.u64(0..names).to_string().into_bytes();
                for name in [&name, &other, &name].into_iter().take(random.usize(0..4)) {
                    assert_eq!(plains.get(name).is_some(), map.contains_key(name));
                }
                let value = vec![b'v'; random.usize(0..500)];
                let time = random.bool().then_some(position);
                plains.put(&name, Plain { stamp: stamp(position), time, value: &value });
                map.insert(name, (stamp(position), time, value));
            }
            let check = |plains: &Plains, map: &Map| {
                assert_eq!(plains.len(), map.len());
                assert_eq!(plains.iter().count(), map.len());
                for (name, (stamp, time, value)) in map {
                    let plain = Plain { stamp: *stamp, time: *time, value };
                    assert_eq!(plains.get(name), Some(plain));
                }
            };
            check(&plains, &map);
            plains.retain(|_, plain| plain.time.is_some());
            map.retain(|_, (_, time, _)| time.is_some());
            check(&plains, &map);
            plains.retain(|_, _| false);
            assert!(plains.len() == 0 && plains.get(b"0").is_none());
        }
    }

    /// Memory per string in addition to name and value.
    #[test]
    fn plain_strings_are_small() {
        const COUNT: usize = 200_000;
        let mut plains = Plains::default();
        for number in 0..COUNT {
            let name = format!("key:{number:09}");
            plains.put(
                name.as_bytes(),
                Plain { stamp: stamp(number as u64 + 1), time: None, value: &[b'v'; 32] },
            );
        }
        let blocks: usize = plains.blocks.iter().map(Block::capacity).sum();
        let all = blocks + plains.blocks.capacity() * size_of::<Block>();
        assert!(all < COUNT * (13 + 32 + 24), "{}", all / COUNT);
    }
}
