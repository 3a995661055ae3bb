// SPDX-License-Identifier: BSD-3-Clause
//! Elements of sets, hashes and sorted sets: cells by name, in name-ordered
//! [blocks](crate::ordered_block). A removed element leaves nothing.
//!
//! A cell that has been written once, as nearly all have, is stored as its stamp and its value. A
//! cell with more marks is stored in the form of `stored`.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use crate::Bytes;
use crate::block_map::BlockMap;
use crate::cell::{At, Cell, CellChange, Sides};
use crate::ordered_block::{Block, Content, Entry, common_len};
use crate::rules::Rules;
use crate::stamp::Stamp;
use crate::stored::{Stored, load_len, store_len};
use crate::tally::SeenTally;
use crate::vector::Seen;

/// A block of more than one entry is split when it exceeds this size in bytes.
const BLOCK_MAX: usize = 640;
/// A collection with more blocks is large: some thousand elements.
const LARGE_BLOCKS: usize = 64;

/// A type of element value.
pub trait Packed: Stored + Clone + PartialEq {
    /// Appends the value after its stamp.
    fn pack(&self, out: &mut Vec<u8>);
    fn unpack(bytes: &[u8]) -> Self;
}

impl Packed for () {
    fn pack(&self, _: &mut Vec<u8>) {}

    fn unpack(_: &[u8]) {}
}

impl Packed for Bytes {
    fn pack(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn unpack(bytes: &[u8]) -> Bytes {
        bytes.into()
    }
}

impl Packed for f64 {
    /// Drops trailing zero bytes: most scores are short.
    fn pack(&self, out: &mut Vec<u8>) {
        let bytes = self.to_bits().to_be_bytes();
        let len = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        out.extend_from_slice(&bytes[..len]);
    }

    fn unpack(bytes: &[u8]) -> f64 {
        let word = bytes
            .iter()
            .zip((0..8).rev())
            .fold(0, |word, (byte, place)| word | u64::from(*byte) << (8 * place));
        f64::from_bits(word)
    }
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub struct Members<V> {
    blocks: Blocks,
    value: PhantomData<V>,
}

#[derive(Clone, Debug)]
enum Blocks {
    /// All elements in one block.
    One(Block),
    Many(Box<BlockMap>),
}

impl<V> Default for Members<V> {
    fn default() -> Members<V> {
        Members { blocks: Blocks::One(Block::default()), value: PhantomData }
    }
}

impl<V: Packed> PartialEq for Members<V> {
    fn eq(&self, other: &Members<V>) -> bool {
        self.iter().eq(other.iter())
    }
}

/// True if there is no entry, or a plain one whose stamp is covered.
fn is_covered(had: Option<Entry<'_>>, covers: impl FnOnce(Stamp) -> bool) -> bool {
    had.is_none_or(|had| had.content.stamp().is_some_and(covers))
}

fn cell_of<V: Packed>(entry: &Entry<'_>) -> Cell<V> {
    match entry.content {
        Content::Plain(stamp, value) => Cell::written(stamp, V::unpack(value)),
        // This code wrote the entry, so it loads.
        Content::Marked(mut cell) => Cell::load(&mut cell).unwrap_or_default(),
    }
}

impl Blocks {
    fn iter(&self) -> impl Iterator<Item = &Block> {
        let (one, many) = match self {
            Blocks::One(block) => (Some(block), None),
            Blocks::Many(blocks) => (None, Some(blocks.blocks())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    fn from(&self, name: &[u8]) -> impl Iterator<Item = &Block> {
        let (one, many) = match self {
            Blocks::One(block) => (Some(block), None),
            Blocks::Many(blocks) => (None, Some(blocks.blocks_from(name))),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    fn of(&self, name: &[u8]) -> &Block {
        match self {
            Blocks::One(block) => block,
            Blocks::Many(blocks) => blocks.get(name),
        }
    }

    fn of_mut(&mut self, name: &[u8]) -> &mut Block {
        match self {
            Blocks::One(block) => block,
            Blocks::Many(blocks) => blocks.get_mut(name),
        }
    }

    /// Adds or replaces an entry if `may` accepts the present one. Returns false if it does not.
    fn put_if(
        &mut self,
        name: &[u8],
        content: Content<'_>,
        may: impl FnOnce(Option<Entry<'_>>) -> bool,
    ) -> bool {
        let block = self.of_mut(name);
        let place = block.place_of(name);
        if !may(block.at(&place)) {
            return false;
        }
        block.put_at(&place, name, content);
        if block.len() > BLOCK_MAX {
            self.split(name);
        }
        true
    }

    /// Splits the block into which `name` was just put.
    fn split(&mut self, name: &[u8]) {
        let block = self.of_mut(name);
        let is_last = block.iter().last().is_some_and(|last| *last.name() == *name);
        let Some(second) = block.split(is_last) else { return };
        let before = block.iter().last().map(|last| last.name()).unwrap_or_default();
        let Some(first) = second.iter().next().map(|first| first.name()) else { return };
        // The shortest name between the blocks.
        let least = &first[..=common_len(&before, &first)];
        if let Blocks::One(first) = self {
            *self = Blocks::Many(Box::new(BlockMap::new(std::mem::take(first))));
        }
        if let Blocks::Many(blocks) = self {
            blocks.insert(least, second);
        }
    }

    fn remove(&mut self, name: &[u8]) {
        match self {
            Blocks::One(block) => drop(block.remove(name)),
            Blocks::Many(blocks) => {
                blocks.remove(name);
                self.join();
            }
        }
    }

    /// Returns to a single block when only one is left.
    fn join(&mut self) {
        if let Blocks::Many(blocks) = self
            && let Some(block) = blocks.take_only()
        {
            *self = Blocks::One(block);
        }
    }
}

impl<V: Packed> Members<V> {
    pub fn is_empty(&self) -> bool {
        self.blocks.iter().all(Block::is_empty)
    }

    /// True if it has so many elements that working on all of them takes some milliseconds.
    pub fn is_large(&self) -> bool {
        matches!(&self.blocks, Blocks::Many(blocks) if blocks.len() > LARGE_BLOCKS)
    }

    pub fn get(&self, element: &[u8]) -> Option<Cell<V>> {
        self.blocks.of(element).get(element).map(|entry| cell_of(&entry))
    }

    fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.blocks.iter().flat_map(Block::iter)
    }

    /// All elements in order, including invisible ones.
    pub fn iter(&self) -> impl Iterator<Item = (Bytes, Cell<V>)> {
        self.entries().map(|entry| (entry.name(), cell_of(&entry)))
    }

    /// The elements from a name on, in order, including invisible ones.
    pub fn iter_from(&self, name: &[u8]) -> impl Iterator<Item = (Bytes, Cell<V>)> {
        let all = self.blocks.from(name).flat_map(Block::iter);
        all.map(|entry| (entry.name(), entry))
            .skip_while(move |(one, _)| **one < *name)
            .map(|(name, entry)| (name, cell_of(&entry)))
    }

    /// The marked elements: those with more than a stamp and a value.
    pub fn iter_marked(&self) -> impl Iterator<Item = (Bytes, Cell<V>)> {
        let marked = self.entries().filter(Entry::is_marked);
        marked.map(|entry| (entry.name(), cell_of(&entry)))
    }

    fn put(&mut self, name: &[u8], cell: Cell<V>) {
        let mut bytes = Vec::new();
        let content = match cell.into_plain() {
            Ok((stamp, value)) => {
                value.pack(&mut bytes);
                Content::Plain(stamp, &bytes)
            }
            Err(cell) => {
                cell.store(&mut bytes);
                Content::Marked(&bytes)
            }
        };
        self.blocks.put_if(name, content, |_| true);
    }

    /// The increments of an element that a removal has to list as seen.
    pub fn seen(&self, element: &[u8]) -> Vec<SeenTally> {
        let marked = self.blocks.of(element).get(element);
        let marked = marked.filter(Entry::is_marked);
        marked.map_or_else(Vec::new, |entry| cell_of::<V>(&entry).seen())
    }

    /// True if a write that has seen `seen` replaces everything there is of an element: nothing,
    /// or a value that has been written once.
    pub fn is_replaced(&self, element: &[u8], seen: &Seen) -> bool {
        let had = self.blocks.of(element).get(element);
        is_covered(had, |stamp| seen.covers(stamp))
    }

    /// Writes an element that does not exist, or has a plain value that the write replaces: the
    /// fast path of [`Members::apply`]. Returns false, and changes nothing, in any other case.
    pub fn write_plain(&mut self, at: &At, element: &[u8], value: &V) -> bool {
        let mut packed = Vec::new();
        value.pack(&mut packed);
        self.write_packed(at, element, &packed)
    }

    /// [`Members::write_plain`] for a value in the form of [`Packed::pack`].
    pub fn write_packed(&mut self, at: &At, element: &[u8], packed: &[u8]) -> bool {
        let content = Content::Plain(at.stamp, packed);
        self.blocks.put_if(element, content, |had| is_covered(had, |stamp| at.removes(stamp)))
    }

    /// Changes one element. Returns true if it now holds garbage.
    pub fn apply(&mut self, at: &At, element: Bytes, change: CellChange<V>) -> bool {
        let had = self.get(&element);
        let was_there = had.is_some();
        let mut cell = had.unwrap_or_default();
        let has_garbage = cell.apply(at, change);
        if !cell.is_empty() {
            self.put(&element, cell);
        } else if was_there {
            self.blocks.remove(&element);
        }
        has_garbage
    }

    /// Visits all cells: `keeps` decides whether a plain cell stays, `change` edits each marked
    /// cell.
    fn change_all(&mut self, keeps: impl Fn(Stamp) -> bool, mut change: impl FnMut(&[u8], &mut Cell<V>)) {
        let mut marked = Vec::new();
        let mut review = |entry: &Entry<'_>| match entry.content.stamp() {
            Some(stamp) => keeps(stamp),
            None => {
                marked.push((entry.name(), cell_of::<V>(entry)));
                true
            }
        };
        match &mut self.blocks {
            Blocks::One(block) => block.retain(review),
            Blocks::Many(blocks) => blocks.change_all(|block| block.retain(&mut review)),
        }
        for (element, mut cell) in marked {
            change(&element, &mut cell);
            match cell.is_empty() {
                true => self.blocks.remove(&element),
                false => self.put(&element, cell),
            }
        }
        self.blocks.join();
    }

    /// Removes the part of every element that the effect saw.
    pub fn remove_all<'a>(&mut self, at: &At, seen: impl Iterator<Item = (&'a Bytes, SeenTally)>) {
        let mut of_elements: BTreeMap<&[u8], Vec<SeenTally>> = BTreeMap::new();
        seen.for_each(|(element, tally)| of_elements.entry(element).or_default().push(tally));
        self.change_all(
            |stamp| !at.removes(stamp),
            |element, cell| cell.remove(at, of_elements.get(element).map_or(&[], |seen| seen)),
        );
    }

    pub fn merge(&mut self, theirs: &Members<V>, sides: &Sides) {
        let none = Cell::default();
        let mine = std::mem::take(self);
        let mut others = theirs.iter().peekable();
        let mut add = |element: &[u8], cell: Cell<V>| {
            if !cell.is_empty() {
                self.put(element, cell);
            }
        };
        let take_other = |other: &Cell<V>| {
            let mut cell = Cell::default();
            cell.merge(other, sides);
            cell
        };
        for (element, mut cell) in mine.iter() {
            while let Some((name, other)) = others.next_if(|(name, _)| *name < element) {
                add(&name, take_other(&other));
            }
            match others.next_if(|(name, _)| *name == element) {
                Some((_, other)) => cell.merge(&other, sides),
                None => cell.merge(&none, sides),
            }
            add(&element, cell);
        }
        others.for_each(|(name, other)| add(&name, take_other(&other)));
    }

    /// Visits the stamps of everything but increments.
    pub(crate) fn each_stamp(&self, note: &mut dyn FnMut(Stamp)) {
        for entry in self.entries() {
            match entry.content.stamp() {
                Some(stamp) => note(stamp),
                None => cell_of::<V>(&entry).each_stamp(note),
            }
        }
    }

    /// A copy with only the increments.
    pub(crate) fn only_tallies(&self) -> Members<V> {
        let mut members = Members::default();
        for (element, cell) in self.iter_marked() {
            let cell = cell.into_tallies();
            if !cell.is_empty() {
                members.put(&element, cell);
            }
        }
        members
    }

    pub fn is_live(&self) -> bool {
        // Block by block: the first one decides, also of elements that are all marked.
        let is_live = |entry: Entry<'_>| cell_of::<V>(&entry).is_live();
        self.blocks.iter().any(|block| block.has_plain() || block.iter().any(is_live))
    }

    /// True if any element that `shows` accepts is visible.
    pub fn any_shows(&self, shows: impl Fn(&[u8]) -> bool) -> bool {
        self.entries()
            .any(|entry| (!entry.is_marked() || cell_of::<V>(&entry).is_live()) && entry.with_name(&shows))
    }

    pub fn has_garbage(&self, rules: &Rules) -> bool {
        self.iter_marked().any(|(_, cell)| cell.has_garbage(rules))
    }

    /// Drops the forgotten tallies that `is_over` says no region adds to.
    pub(crate) fn drop_tallies(&mut self, is_over: &dyn Fn(Stamp) -> bool) {
        self.change_all(|_| true, |_, cell| cell.drop_tallies(is_over));
    }

    pub fn collect_garbage(&mut self, rules: &Rules) -> usize {
        let mut dropped = 0;
        self.change_all(|_| true, |_, cell| dropped += cell.collect_garbage(rules));
        dropped
    }
}

impl<V: Packed> Stored for Members<V> {
    fn store(&self, out: &mut Vec<u8>) {
        store_len(self.entries().count(), out);
        for (element, cell) in self.iter() {
            element.store(out);
            cell.store(out);
        }
    }

    fn load(from: &mut &[u8]) -> Option<Self> {
        let mut members = Members::default();
        for _ in 0..load_len(from)? {
            let (element, cell) = <(Bytes, Cell<V>)>::load(from)?;
            members.put(&element, cell);
        }
        Some(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::short_name::ShortName;
    use crate::stamp::Region;
    use crate::vector::{Run, Vector};

    fn stamp(position: u64) -> Stamp {
        Stamp::of(Region::new(1).unwrap(), position).unwrap()
    }

    #[test]
    fn scores_round_trip() {
        for score in [0.0, -0.0, 1.0, -1.5, 1e300, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE, 0.1] {
            let mut out = Vec::new();
            score.pack(&mut out);
            assert_eq!(f64::unpack(&out).to_bits(), score.to_bits());
        }
    }

    /// Elements stay ordered and can be found in any block; removed elements leave nothing.
    #[test]
    fn members_are_a_map() {
        let (rules, others) = (Rules::default(), Vector::default());
        let lost = std::cell::Cell::new(0);
        let mut random = fastrand::Rng::with_seed(3);
        for names in [10_u64, 3_000] {
            let mut members = Members::<Bytes>::default();
            let mut map: BTreeMap<Bytes, Bytes> = BTreeMap::new();
            for position in 1..4 * names {
                let own = Run { start: stamp(0), last: stamp(position - 1) };
                let at = At {
                    stamp: stamp(position),
                    seen: Seen { others: &others, own },
                    rules: &rules,
                    lost: &lost,
                };
                let name = Bytes::from(random.u64(0..names).to_string().as_bytes());
                let value = Bytes::from(position.to_string().as_bytes());
                let change = match random.u8(0..4) {
                    0 => {
                        map.remove(&name);
                        CellChange::Remove { seen: Vec::new() }
                    }
                    _ => {
                        map.insert(name.clone(), value.clone());
                        CellChange::Put { value, time: None, seen: Vec::new() }
                    }
                };
                assert!(!members.apply(&at, name, change));
            }
            let all = || members.iter().map(|(name, cell)| (name, cell.base().cloned().unwrap()));
            assert!(all().eq(map.clone()));
            assert!(map.iter().all(|(name, value)| members.get(name).unwrap().base() == Some(value)));
            let mut bytes = Vec::new();
            members.store(&mut bytes);
            assert_eq!(Members::load(&mut &bytes[..]), Some(members.clone()));
            for name in map.keys() {
                members.blocks.remove(name);
            }
            assert!(members.is_empty() && matches!(members.blocks, Blocks::One(_)));
        }
    }

    /// Bytes per element of a collection of elements written at 50 per ms, in random order, and
    /// after all of them have been overwritten twice, a day later.
    fn bytes_each<V: Packed>(name: impl Fn(u64) -> Vec<u8>, value: V) -> [usize; 2] {
        const COUNT: u64 = 25_000;
        let mut members = Members::default();
        let put = |members: &mut Members<V>, number: u64, start_ms: u64| {
            let stamp = Stamp::at(start_ms + number / 50, Region::new(1).unwrap()).plus(number % 50);
            members.put(&name(number % COUNT), Cell::written(stamp, value.clone()));
        };
        let each = |members: &Members<V>| {
            let Blocks::Many(blocks) = &members.blocks else { panic!("all members are in one block") };
            let of_block = |block: &Block| block.capacity() + size_of::<(ShortName, Block)>() * 2;
            blocks.blocks().map(of_block).sum::<usize>().div_ceil(COUNT as usize)
        };
        let start = 1_800_000_000_000;
        (0..COUNT).for_each(|number| put(&mut members, number, start));
        let first = each(&members);
        (0..3 * COUNT).for_each(|number| put(&mut members, number, start + 86_400_000));
        [first, each(&members)]
    }

    /// Memory per element, for names of 11 bytes.
    #[test]
    fn elements_are_small() {
        let scrambled = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let digits = |number| format!("m{:010}", scrambled(number) % 10_000_000_000).into_bytes();
        let random = |number: u64| fastrand::Rng::with_seed(number).u128(..).to_le_bytes()[..11].to_vec();
        let value = Bytes::from(&b"8 bytes."[..]);
        for (bytes, bound) in [
            (bytes_each(digits, ()), 12),
            (bytes_each(digits, 7.0), 15),
            (bytes_each(digits, value.clone()), 25),
            (bytes_each(random, ()), 22),
            (bytes_each(random, 7.0), 26),
            (bytes_each(random, value), 33),
        ] {
            assert!(bytes.iter().all(|bytes| *bytes <= bound), "{bytes:?} above {bound}");
        }
    }
}
