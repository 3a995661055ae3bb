// SPDX-License-Identifier: BSD-3-Clause
//! Ordered blocks: some elements of a collection in one contiguous allocation, sorted by name.
//!
//! Most elements have been written once: a name, a stamp and a short value. Elements of a block
//! have much in common, so a block states once how its names ([`names`]) and stamps ([`stamps`])
//! begin, and entries have the rest. When an entry does not fit these forms, and from time to
//! time, the whole block is packed anew. Lookup scans the block, so [`crate::members`], which
//! owns them, keeps them short. Blocks are built only here, never read from a peer or a file.
//!
//! Format: a byte with the length of a stamp's code (3 bits, 7 for a whole stamp), 1 bit for
//! digits, and the length of the common beginning of the names (4 bits, 15 for a varint of the
//! excess that follows); the form of the stamps as a word, unless they are whole; the beginning
//! of the names; the entries. An entry: a byte with the lengths of the name's rest (4 bits, 15
//! for a varint of the excess) and of the value (4 bits, 14 for a varint of the excess, 15 for a
//! varint of the length of a marked content); the varints; the rest of the name; the stamp's code
//! and the value, or the marked content.

mod entry;
mod names;
mod stamps;

use std::cmp::Ordering;
use std::ops::Range;

use braid_base::alloc::size_class;

pub(crate) use entry::{Content, Entry};
use entry::{Head, New, Parts, ordinal};
use names::NameForm;
pub(crate) use names::common_len;
use stamps::StampForm;

/// See the module documentation.
#[derive(Clone, Default)]
pub(crate) struct Block(Vec<u8>);

/// The place of an entry in a block, or its insertion point. Valid until the block changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    range: Range<usize>,
    is_there: bool,
}

/// Entries outside a block, in order.
#[derive(Default)]
struct Unpacked<'b> {
    /// All names, one after the other.
    names: Vec<u8>,
    /// The end of each name, and what belongs to it.
    entries: Vec<(usize, Content<'b>)>,
}

impl<'b> Unpacked<'b> {
    /// Room for the entries of a block, and one more.
    fn for_block(block: &Block) -> Unpacked<'b> {
        let len = block.0.len();
        Unpacked { names: Vec::with_capacity(2 * len), entries: Vec::with_capacity(len / 8 + 2) }
    }

    fn of(block: &'b Block) -> Unpacked<'b> {
        let mut all = Unpacked::for_block(block);
        block.iter().for_each(|entry| all.push(&entry));
        all
    }

    fn push(&mut self, entry: &Entry<'b>) {
        entry.add_name(&mut self.names);
        self.entries.push((self.names.len(), entry.content));
    }

    fn push_new(&mut self, name: &[u8], content: Content<'b>) {
        self.names.extend_from_slice(name);
        self.entries.push((self.names.len(), content));
    }

    fn name(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.entries[before].0);
        &self.names[start..self.entries[index].0]
    }

    /// A block of some of the entries, in the shortest forms.
    fn pack(&self, range: Range<usize>) -> Block {
        let entries = &self.entries[range.clone()];
        let stamps = StampForm::of(entries.iter().filter_map(|(_, content)| content.stamp()));
        let names = NameForm::of(range.clone().map(|index| self.name(index)));
        let mut bytes = Vec::with_capacity(self.names.len() + 16 * entries.len());
        Head { stamps, names, len: 0 }.write(&mut bytes);
        for (index, (_, content)) in range.zip(entries) {
            // The forms are those of these entries.
            if let Some(new) = New::of(&stamps, &names, self.name(index), *content) {
                let start = bytes.len();
                bytes.resize(start + new.len(), 0);
                new.write(&mut bytes[start..]);
            }
        }
        let mut packed = Vec::with_capacity(size_class(bytes.len()));
        packed.extend_from_slice(&bytes);
        Block(packed)
    }
}

impl Block {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The size in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The entries, with the places where they start.
    fn placed(&self) -> impl Iterator<Item = (usize, Entry<'_>)> {
        let bytes = &self.0[..];
        let head = Head::of(bytes);
        let mut at = head.len;
        std::iter::from_fn(move || {
            let start = at;
            (start < bytes.len()).then(|| {
                let parts = Parts::at(bytes, start, head.stamps.width);
                at = parts.end;
                (start, parts.entry(bytes, &head))
            })
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        self.placed().map(|(_, entry)| entry)
    }

    /// True if any entry is plain.
    pub fn has_plain(&self) -> bool {
        let head = Head::of(&self.0);
        let mut at = head.len;
        while at < self.0.len() {
            let parts = Parts::at(&self.0, at, head.stamps.width);
            if !parts.is_marked {
                return true;
            }
            at = parts.end;
        }
        false
    }

    /// The place of an entry, or its insertion point.
    pub fn place_of(&self, name: &[u8]) -> Span {
        self.find(&Head::of(&self.0), name)
    }

    #[inline]
    fn find(&self, head: &Head<'_>, name: &[u8]) -> Span {
        let Some(rest) = head.names.rest(name) else { return self.place_between(name) };
        let (ordinal, width, mut at) = (ordinal(&rest), head.stamps.width, head.len);
        while at < self.0.len() {
            let parts = Parts::at(&self.0, at, width);
            match parts.compare(&self.0, &rest, ordinal) {
                Ordering::Less => at = parts.end,
                Ordering::Equal => return Span { range: at..parts.end, is_there: true },
                Ordering::Greater => break,
            }
        }
        Span { range: at..at, is_there: false }
    }

    /// The insertion point of a name that the block's form cannot express.
    #[cold]
    fn place_between(&self, name: &[u8]) -> Span {
        let later = self.placed().find(|(_, entry)| *entry.name() > *name);
        let at = later.map_or(self.0.len(), |(start, _)| start);
        Span { range: at..at, is_there: false }
    }

    /// The entry at a place.
    pub fn at(&self, place: &Span) -> Option<Entry<'_>> {
        self.entry_at(&Head::of(&self.0), place)
    }

    #[inline]
    fn entry_at<'b>(&'b self, head: &Head<'b>, place: &Span) -> Option<Entry<'b>> {
        let parts = || Parts::at(&self.0, place.range.start, head.stamps.width);
        place.is_there.then(|| parts().entry(&self.0, head))
    }

    pub fn get(&self, name: &[u8]) -> Option<Entry<'_>> {
        let head = Head::of(&self.0);
        self.entry_at(&head, &self.find(&head, name))
    }

    /// Writes an entry at the place of its name.
    pub fn put_at(&mut self, place: &Span, name: &[u8], content: Content<'_>) {
        if !self.put_in_form(place, name, content) {
            *self = self.repacked(place, name, content);
        }
    }

    /// Writes an entry if the block's forms can express it, and need not be renewed.
    fn put_in_form(&mut self, place: &Span, name: &[u8], content: Content<'_>) -> bool {
        let head = Head::of(&self.0);
        let Some(new) = New::of(&head.stamps, &head.names, name, content) else { return false };
        let (had, range) = (self.0.len().max(head.len), place.range.clone());
        let len = had - range.len() + new.len();
        if place.is_there {
            if let Some(at) = head.word_at() {
                let Some(stamps) = head.stamps.overwritten() else { return false };
                self.0[at..at + 8].copy_from_slice(&stamps.word.to_le_bytes());
            }
        } else if len > self.0.capacity() && head.stamps.is_whole() && had > head.len {
            // Another form may be shorter now.
            return false;
        }
        if self.is_empty() {
            self.0.reserve_exact(size_class(len));
            Head::NONE.write(&mut self.0);
        }
        self.replace(range, &new);
        true
    }

    fn replace(&mut self, range: Range<usize>, new: &New<'_>) {
        let (had, end) = (self.0.len(), range.start + new.len());
        let len = had - range.len() + new.len();
        if len > self.0.capacity() {
            self.0.reserve_exact(size_class(len) - had);
        }
        if end > range.end {
            self.0.resize(len, 0);
        }
        // Most values are replaced by ones of the same length.
        if end != range.end {
            self.0.copy_within(range.end..had, end);
            self.0.truncate(len);
        }
        new.write(&mut self.0[range.start..end]);
    }

    /// The block with an entry written, in the shortest forms.
    fn repacked(&self, place: &Span, name: &[u8], content: Content<'_>) -> Block {
        let mut all = Unpacked::for_block(self);
        let mut entries = self.placed().peekable();
        while let Some((_, entry)) = entries.next_if(|(start, _)| *start < place.range.start) {
            all.push(&entry);
        }
        all.push_new(name, content);
        entries.skip(usize::from(place.is_there)).for_each(|(_, entry)| all.push(&entry));
        all.pack(0..all.entries.len())
    }

    /// Removes an entry. Returns true if it existed.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let place = self.place_of(name);
        if !place.is_there {
            return false;
        }
        self.0.drain(place.range);
        if self.0.len() == Head::of(&self.0).len {
            self.0 = Vec::new();
        } else if self.0.len() < self.0.capacity() / 2 {
            self.0.shrink_to_fit();
        }
        true
    }

    /// Keeps only the entries that `keeps` accepts.
    pub fn retain(&mut self, mut keeps: impl FnMut(&Entry<'_>) -> bool) {
        let (had, start) = (self.0.len(), Head::of(&self.0).len);
        let (mut kept, mut at) = (start, start);
        while at < had {
            let head = Head::of(&self.0);
            let parts = Parts::at(&self.0, at, head.stamps.width);
            let is_kept = keeps(&parts.entry(&self.0, &head));
            if is_kept {
                self.0.copy_within(at..parts.end, kept);
                kept += parts.end - at;
            }
            at = parts.end;
        }
        self.0.truncate(if kept == start { 0 } else { kept });
        if kept < had {
            self.0.shrink_to_fit();
        }
    }

    /// Splits off the second half of the entries, by bytes; with `at_end`, for names that arrive
    /// in order, only the last entry, so that blocks filled in order stay full. `None` if there
    /// is only one entry.
    pub fn split(&mut self, at_end: bool) -> Option<Block> {
        let all = Unpacked::of(self);
        let count = all.entries.len();
        if count < 2 {
            return None;
        }
        let half = self.placed().take_while(|(start, _)| *start < self.0.len() / 2).count();
        let first = if at_end { count - 1 } else { half.clamp(1, count - 1) };
        let (one, two) = (all.pack(0..first), all.pack(first..count));
        *self = one;
        Some(two)
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
    use crate::stamp::{Region, Stamp};
    use std::collections::BTreeMap;

    #[derive(Clone, PartialEq, Debug)]
    enum Owned {
        Plain(Stamp, Vec<u8>),
        Marked(Vec<u8>),
    }

    impl Owned {
        fn content(&self) -> Content<'_> {
            match self {
                Owned::Plain(stamp, value) => Content::Plain(*stamp, value),
                Owned::Marked(content) => Content::Marked(content),
            }
        }
    }

    type Map = BTreeMap<Vec<u8>, Owned>;

    fn put(block: &mut Block, map: &mut Map, name: &[u8], content: Owned) {
        let place = block.place_of(name);
        assert_eq!(place.is_there, map.contains_key(name));
        block.put_at(&place, name, content.content());
        map.insert(name.to_vec(), content);
    }

    fn check(block: &Block, map: &Map) {
        let all = map.iter().map(|(name, content)| (name.clone(), content.content()));
        assert!(block.iter().map(|entry| (entry.name().into_vec(), entry.content)).eq(all));
        for (name, content) in map {
            let entry = block.get(name).unwrap();
            assert_eq!((&*entry.name(), entry.content), (&name[..], content.content()));
        }
        assert_eq!(block.is_empty(), map.is_empty());
    }

    /// A name of one of several kinds: alike, with digits, of any bytes, empty or long.
    fn any_name(random: &mut fastrand::Rng, kind: u8) -> Vec<u8> {
        match if random.u8(0..20) == 0 { random.u8(0..6) } else { kind } {
            0 => vec![b'n'; random.usize(0..30)],
            1 => format!("element:{}", random.u32(0..200)).into_bytes(),
            2 => random.u32(0..200).to_string().into_bytes(),
            3 => (0..random.usize(0..3)).map(|_| random.u8(..)).collect(),
            4 => format!("a beginning in common {:03}", random.u32(0..200)).into_bytes(),
            _ => [0, b'/', b'0', b'9', b':', 255][..random.usize(0..7)].to_vec(),
        }
    }

    fn any_stamp(random: &mut fastrand::Rng, now: &mut u64) -> Stamp {
        let scale = random.u32(0..8);
        *now += random.u64(0..3_u64.pow(scale));
        let region = Region::new(if random.u8(0..50) == 0 { random.u8(0..64) } else { 1 }).unwrap();
        match random.u8(0..200) {
            0 => Stamp::ZERO,
            1 => Stamp::start(region),
            2 => Stamp::from_word(u64::MAX >> 1).unwrap(),
            _ => Stamp::at(1_800_000_000_000 + *now, region).plus(random.u64(0..80)),
        }
    }

    fn any_content(random: &mut fastrand::Rng, now: &mut u64) -> Owned {
        let len = if random.u8(0..50) == 0 { random.usize(0..20_000) } else { random.usize(0..20) };
        let value = vec![random.u8(..); len];
        match random.u8(0..10) {
            0 => Owned::Marked(value),
            _ => Owned::Plain(any_stamp(random, now), value),
        }
    }

    /// Random changes have the same effect on a block as on a map.
    #[test]
    fn a_block_is_a_map() {
        let mut random = fastrand::Rng::with_seed(7);
        for round in 0..120 {
            let (mut block, mut map, mut now) = (Block::default(), Map::new(), 0);
            for _ in 0..200 {
                let name = any_name(&mut random, round % 6);
                match random.u8(0..10) {
                    0..7 => put(&mut block, &mut map, &name, any_content(&mut random, &mut now)),
                    7..9 => assert_eq!(block.remove(&name), map.remove(&name).is_some()),
                    _ => {
                        let keeps = |name: &[u8]| name.iter().map(|byte| byte % 8).sum::<u8>() % 4 != 0;
                        map.retain(|name, _| keeps(name));
                        block.retain(|entry| keeps(&entry.name()));
                    }
                }
                check(&block, &map);
            }
            let second = block.split(random.bool());
            assert_eq!(second.is_some(), map.len() > 1);
            let split = second.as_ref().and_then(|second| second.iter().next()).map(|first| first.name());
            let rest = split.map(|first| map.split_off(&*first));
            check(&block, &map);
            check(&second.unwrap_or_default(), &rest.unwrap_or_default());
        }
    }

    /// Names, stamps and contents of extreme lengths and values come back as they were.
    #[test]
    fn extremes_round_trip() {
        let of = |region, position| Stamp::of(Region::new(region).unwrap(), position).unwrap();
        let late = 1 << 56;
        let stamps = [of(1, late), of(1, late + 3), of(63, late), of(0, 0), of(63, u64::MAX >> 7)];
        let long = |end: u8| [vec![b'l'; 70_000], vec![end]].concat();
        let names = [Vec::new(), b"1".to_vec(), b"12".to_vec(), vec![0], long(b'5'), long(b'x'), long(b'7')];
        for count in 1..=names.len() {
            let (mut block, mut map) = (Block::default(), Map::new());
            for (index, name) in names.iter().rev().take(count).enumerate() {
                for value_len in [0, 13, 14, 15, 200, 20_000] {
                    let value = vec![b'v'; value_len];
                    put(&mut block, &mut map, name, Owned::Marked(value.clone()));
                    check(&block, &map);
                    put(&mut block, &mut map, name, Owned::Plain(stamps[index % stamps.len()], value));
                    check(&block, &map);
                }
            }
        }
    }

    /// An entry takes few bytes when its stamp is near the others', again some time after all
    /// entries have been overwritten, and never more than a whole stamp needs.
    #[test]
    fn stamps_take_what_they_need() {
        let (mut block, mut map) = (Block::default(), Map::new());
        let fill = |block: &mut Block, map: &mut Map, start_ms: u64, each_ms: u64| {
            for turn in 0..200 {
                let name = format!("member:{:03}", turn % 40);
                let stamp = Stamp::at(start_ms + turn * each_ms, Region::new(1).unwrap());
                put(block, map, name.as_bytes(), Owned::Plain(stamp, Vec::new()));
            }
            check(block, map);
        };
        let start = 1_800_000_000_000;
        // The head, and for each entry the lengths, a byte of digits and the stamp.
        let size = |width: usize| 17 + 40 * (2 + width)..20 + 40 * (2 + width);
        fill(&mut block, &mut map, start, 100);
        assert!(size(2).contains(&block.len()), "{}", block.len());
        fill(&mut block, &mut map, start + 86_400_000, 100);
        assert!(size(2).contains(&block.len()), "{}", block.len());
        fill(&mut block, &mut map, start + 2 * 86_400_000, 1_000_000);
        assert!(size(4).contains(&block.len()), "{}", block.len());
        let odd = [Stamp::ZERO, Stamp::from_word(u64::MAX >> 1).unwrap()];
        for stamp in odd {
            put(&mut block, &mut map, b"member:001", Owned::Plain(stamp, Vec::new()));
        }
        put(&mut block, &mut map, b"member:002", Owned::Plain(odd[0], Vec::new()));
        assert!(block.len() <= size(8).end, "{}", block.len());
        check(&block, &map);
    }
}
