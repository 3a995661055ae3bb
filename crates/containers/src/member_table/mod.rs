// SPDX-License-Identifier: BSD-3-Clause
//! The table behind large sets and hashes: members in segments, without a rehash of the whole
//! table or an allocation per member.
//!
//! HOT PATH: no allocation except for growth, no lock, no logging, no system call.
//!
//! Each of its variable-sized segments ([`segment`]) holds the members whose hashes lie in one
//! interval ([`spiral`]). Whenever the average exceeds [`LOAD`] members per segment, one segment,
//! the next in turn, is split in two; when it is far lower, the last segment is merged back.
//! Therefore growth costs the same small amount every time (no pause at any size), and a segment is
//! allocated as large as its content needs. Intervals differ in width such that there are segments
//! of all sizes at any time: memory freed by some segments is reused by others, and memory is well
//! filled at any number of members.
//!
//! Why not one allocation per member behind a table of pointers: here a set member of 16 bytes
//! costs 17 bytes plus 3 of index (about 23 in total), compared with 24 for its allocation and 10
//! to 12 for the pointer; and most inserts allocate nothing.
//!
//! Splitting halves intervals. SCAN walks the intervals in order ([`scan`](Table::scan)), so its
//! cursor survives growth and shrinking. Each table has its own random seed, so members copied
//! from one table in its order spread evenly over the other.
//!
//! Expiry: a member may have an expiry in ms. It is expired when `now > time`. The table never
//! reads a clock and never hides a member itself: callers compare. An ordered index of the times
//! exists only while some member has one.

mod access;
mod record;
mod segment;
mod segments;

pub use access::{Iter, random_live};

use std::collections::BTreeSet;
use std::hash::Hasher;

use arrayvec::ArrayVec;
use braid_base::relocation::Mover;
use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;
use record::{Content, INLINE_MAX, Outside, Record};
use segment::Segment;
use segments::Segments;

use crate::spiral;

/// Average members per segment at which another segment is added.
const LOAD: usize = 32;
/// Average members per segment below which a segment is merged away.
const LOAD_LOW: usize = 12;

/// Size from which on a table is large ([`Table::is_large`]): number of segments, of about 32
/// members each, or bytes of contents outside of them.
const LARGE_SEGMENTS: usize = 64;
const LARGE_BYTES: usize = 256 * 1024;

/// A member of a table: key, value (empty in a table without values) and expiry in ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    /// Expiry in ms since the Unix epoch, if any.
    pub expire_at: Option<i64>,
}

impl Member<'_> {
    /// True if the member has expired.
    #[inline]
    pub fn is_expired(&self, now_ms: i64) -> bool {
        self.expire_at.is_some_and(|time| now_ms > time)
    }
}

/// A member's expiry after its value is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Unchanged.
    Keep,
    /// None.
    Clear,
    /// This time, in ms.
    At(i64),
}

/// Parts that only some tables need.
#[derive(Clone, Default)]
struct Extra {
    outside: Outside,
    /// Expiry and hash of each member that expires.
    expiring: BTreeSet<(i64, u64)>,
}

/// Marks each zero byte of `word` in its highest bit; a byte above a zero byte may be marked too.
#[inline]
fn zero_bytes(word: u64) -> u64 {
    const LOW: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    word.wrapping_sub(LOW) & !word & HIGH
}

/// A table of members with (`VALUES`) or without values.
#[derive(Clone)]
pub struct Table<const VALUES: bool> {
    segments: Segments,
    len: usize,
    seed: u64,
    extra: Option<Box<Extra>>,
    /// No segment has ever held more members than this; random choice depends on it.
    count_bound: usize,
}

impl<const VALUES: bool> Default for Table<VALUES> {
    fn default() -> Self {
        Table::new()
    }
}

impl<const VALUES: bool> Table<VALUES> {
    /// Moves blocks to better places, from segment `from` on; see
    /// `braid_keyspace::object::Collection::relocate_blocks`.
    pub fn relocate(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        self.segments.relocate(from, mover).map(|next| next as u64)
    }

    /// An empty table with its own seed.
    pub fn new() -> Self {
        let seed = fastrand::u64(..);
        Table { segments: Segments::one(), len: 0, seed, extra: None, count_bound: 0 }
    }

    /// A copy for a second owner, which shares memory until either changes (see
    /// [`cow`](crate::cow)). For reading only: its index of expiring members only says whether
    /// there are any.
    pub fn cow(&self) -> Table<VALUES> {
        let extra = self.extra.as_ref().map(|extra| {
            let expiring = extra.expiring.first().copied().into_iter().collect();
            Box::new(Extra { outside: extra.outside.cow(), expiring })
        });
        Table {
            segments: self.segments.cow(),
            len: self.len,
            seed: self.seed,
            extra,
            count_bound: self.count_bound,
        }
    }

    /// True if reading the whole table takes long.
    pub fn is_large(&self) -> bool {
        self.segments.len() > LARGE_SEGMENTS
            || self.extra.as_ref().is_some_and(|extra| extra.outside.content_bytes() > LARGE_BYTES)
    }

    /// Number of members, including expired ones.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the table has no members.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes allocated, excluding the table itself.
    pub fn memory_bytes(&self) -> usize {
        let segments: usize = self.segments.iter().map(Segment::memory_bytes).sum();
        let extra = self.extra.as_ref().map_or(0, |extra| {
            // A B-tree node is two thirds full on average.
            size_of::<Extra>() + extra.outside.memory_bytes() + extra.expiring.len() * 24
        });
        segments + self.segments.memory_bytes() + extra
    }

    /// Number of members in each segment.
    pub fn segment_lens(&self) -> Vec<usize> {
        self.segments.iter().map(Segment::count).collect()
    }

    #[inline]
    fn hash(&self, key: &[u8]) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.seed, SharedSeed::global_random());
        hasher.write(key);
        hasher.finish()
    }

    /// The segment of a hash.
    #[inline]
    fn segment_of(&self, hash: u64) -> usize {
        spiral::place(spiral::name(spiral::point(hash), self.segments.len()))
    }

    /// The hash bits that distinguish a segment's members; the hash's top bits choose the segment.
    #[inline]
    fn tag(hash: u64) -> u8 {
        hash as u8
    }

    #[inline]
    fn content<'a>(extra: &'a Option<Box<Extra>>, record: &Record<'a, VALUES>) -> (&'a [u8], &'a [u8]) {
        match record.content {
            Content::Inline(key, value) => (key, value),
            Content::Outside(index) => {
                extra.as_ref().map_or((&[][..], &[][..]), |extra| extra.outside.get(index))
            }
        }
    }

    #[inline]
    fn member<'a>(&'a self, record: &Record<'a, VALUES>) -> Member<'a> {
        let (key, value) = Self::content(&self.extra, record);
        Member { key, value, expire_at: record.expire_at }
    }

    #[inline]
    fn member_at(&self, segment: usize, slot: usize) -> Option<Member<'_>> {
        let (record, _) = self.segments.get(segment)?.record::<VALUES>(slot)?;
        Some(self.member(&record))
    }

    /// Slot of a key in its segment.
    #[inline]
    fn slot_of(&self, segment: &Segment, hash: u64, key: &[u8]) -> Option<usize> {
        let tags = segment.tags();
        let same = u64::from_ne_bytes([Self::tag(hash); 8]);
        let mut first = 0;
        // Eight tags at a time. There may be false matches but no false mismatches; the key
        // decides.
        let (chunks, rest) = tags.as_chunks::<8>();
        for chunk in chunks {
            let differing = u64::from_le_bytes(*chunk) ^ same;
            let mut found = zero_bytes(differing);
            while found != 0 {
                let slot = first + found.trailing_zeros() as usize / 8;
                if self.has_key(segment, slot, key) {
                    return Some(slot);
                }
                found &= found - 1;
            }
            first += 8;
        }
        let tag = Self::tag(hash);
        rest.iter()
            .enumerate()
            .filter(|(_, other)| **other == tag)
            .map(|(index, _)| first + index)
            .find(|&slot| self.has_key(segment, slot, key))
    }

    #[inline]
    fn has_key(&self, segment: &Segment, slot: usize, key: &[u8]) -> bool {
        segment.has_short_key(slot, key).unwrap_or_else(|| {
            let record = segment.record::<VALUES>(slot);
            record.is_some_and(|(record, _)| Self::content(&self.extra, &record).0 == key)
        })
    }

    /// Slot of a key in its segment, and the record there.
    #[inline]
    fn locate(&self, segment: usize, hash: u64, key: &[u8]) -> Option<(usize, Record<'_, VALUES>)> {
        let segment = self.segments.get(segment)?;
        let slot = self.slot_of(segment, hash, key)?;
        segment.record::<VALUES>(slot).map(|(record, _)| (slot, record))
    }

    /// The member with this key, even if expired.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<Member<'_>> {
        let hash = self.hash(key);
        self.locate(self.segment_of(hash), hash, key).map(|(_, record)| self.member(&record))
    }

    /// The key's hash in this table, for [`Table::find`].
    pub fn hash_of(&self, key: &[u8]) -> u64 {
        self.hash(key)
    }

    /// The member whose key has this hash and for which `is_it` is true, even if expired.
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(&Member<'_>) -> bool) -> Option<Member<'_>> {
        let segment = self.segments.get(self.segment_of(hash))?;
        let tag = Self::tag(hash);
        let slots = segment.tags().iter().enumerate().filter(|(_, other)| **other == tag);
        let members = slots.filter_map(|(slot, _)| segment.record::<VALUES>(slot));
        members.map(|(record, _)| self.member(&record)).find(|member| is_it(member))
    }

    /// True if there is a member with this key, even if expired.
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        let hash = self.hash(key);
        self.segments
            .get(self.segment_of(hash))
            .is_some_and(|segment| self.slot_of(segment, hash, key).is_some())
    }

    /// Calls `see` for each of `keys` that is a member, even if expired, in their order. Cheaper
    /// than single look-ups, since the memory of several look-ups is prefetched together.
    pub fn common<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        mut see: impl FnMut(&'k [u8], Member<'_>) -> bool,
    ) {
        const TOGETHER: usize = 16;
        let mut group: ArrayVec<(&[u8], u64, &Segment), TOGETHER> = ArrayVec::new();
        let mut keys = keys.fuse();
        loop {
            for key in keys.by_ref().take(TOGETHER) {
                let hash = self.hash(key);
                let Some(segment) = self.segments.get(self.segment_of(hash)) else { continue };
                segment.prefetch();
                group.push((key, hash, segment));
            }
            if group.is_empty() {
                return;
            }
            for (key, hash, segment) in group.drain(..) {
                let slot = self.slot_of(segment, hash, key);
                if let Some((record, _)) = slot.and_then(|slot| segment.record::<VALUES>(slot))
                    && !see(key, self.member(&record))
                {
                    return;
                }
            }
        }
    }

    /// Adds a member without a value or an expiry. False, with nothing changed, if it was present.
    #[inline]
    pub fn add(&mut self, key: &[u8]) -> bool {
        let hash = self.hash(key);
        let segment = self.segment_of(hash);
        if self.locate(segment, hash, key).is_some() {
            return false;
        }
        self.insert_new(segment, hash, key, &[], None);
        true
    }

    /// Sets a member's value. True if the member is new.
    #[inline]
    pub fn set(&mut self, key: &[u8], value: &[u8], expiry: Expiry) -> bool {
        let hash = self.hash(key);
        let segment = self.segment_of(hash);
        let Some((slot, record)) = self.locate(segment, hash, key) else {
            let expire_at = if let Expiry::At(time) = expiry { Some(time) } else { None };
            self.insert_new(segment, hash, key, value, expire_at);
            return true;
        };
        let (old_expire_at, old_index) = (record.expire_at, record.outside_index());
        let expire_at = match expiry {
            Expiry::Keep => old_expire_at,
            Expiry::Clear => None,
            Expiry::At(time) => Some(time),
        };
        let fits = key.len() + value.len() <= INLINE_MAX;
        let content = match (old_index, fits) {
            (Some(index), false) => {
                let outside = &mut self.extra_mut().outside;
                if outside.overwrite(index, value) {
                    Content::Outside(index)
                } else {
                    outside.remove(index);
                    Content::Outside(outside.add(key, value))
                }
            }
            (Some(index), true) => {
                self.extra_mut().outside.remove(index);
                Content::Inline(key, value)
            }
            (None, true) => Content::Inline(key, value),
            (None, false) => Content::Outside(self.extra_mut().outside.add(key, value)),
        };
        self.put(segment, slot, hash, key, value, Record { expire_at, content });
        self.index_expiry(hash, old_expire_at, expire_at);
        false
    }

    /// Overwrites a record with another; content for which the segment has no room goes outside.
    fn put(
        &mut self,
        at: usize,
        slot: usize,
        hash: u64,
        key: &[u8],
        value: &[u8],
        record: Record<'_, VALUES>,
    ) {
        if self.segments[at].replace(slot, &record) {
            return;
        }
        let content = match record.content {
            Content::Inline(..) => Content::Outside(self.extra_mut().outside.add(key, value)),
            outside => outside,
        };
        let record = Record::<VALUES> { content, ..record };
        if !self.segments[at].replace(slot, &record) {
            self.segments[at].remove::<VALUES>(slot);
            self.push(hash, &record);
        }
    }

    /// Adds a record that is not in the table, splitting segments until one can hold it.
    fn push(&mut self, hash: u64, record: &Record<'_, VALUES>) {
        // A segment holds at least 5,000 records. A hash with a secret seed does not put so many
        // where 64 are expected, not once in the lifetime of any machine; even then splitting
        // would help.
        for _ in 0..1 << 20 {
            let at = self.segment_of(hash);
            if self.segments[at].push(Self::tag(hash), record) {
                self.count_bound = self.count_bound.max(self.segments[at].count());
                return;
            }
            self.split_one();
        }
        unreachable!("thousands of members with equal hashes");
    }

    fn insert_new(&mut self, segment: usize, hash: u64, key: &[u8], value: &[u8], expire_at: Option<i64>) {
        let content = if key.len() + value.len() <= INLINE_MAX {
            Content::Inline(key, value)
        } else {
            Content::Outside(self.extra_mut().outside.add(key, value))
        };
        let record = Record::<VALUES> { expire_at, content };
        let target = &mut self.segments[segment];
        if target.push(Self::tag(hash), &record) {
            self.count_bound = self.count_bound.max(target.count());
        } else {
            let content = match content {
                Content::Inline(..) => Content::Outside(self.extra_mut().outside.add(key, value)),
                outside => outside,
            };
            self.push(hash, &Record { content, ..record });
        }
        self.index_expiry(hash, None, expire_at);
        self.len += 1;
        if self.len > LOAD * self.segments.len() {
            self.split_one();
        }
    }

    fn extra_mut(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    #[inline]
    fn index_expiry(&mut self, hash: u64, old: Option<i64>, new: Option<i64>) {
        if old == new {
            return;
        }
        let expiring = &mut self.extra_mut().expiring;
        if let Some(time) = old {
            expiring.remove(&(time, hash));
        }
        if let Some(time) = new {
            expiring.insert((time, hash));
        }
    }

    /// Removes a member, even if expired. False if there was no such member.
    #[inline]
    pub fn remove(&mut self, key: &[u8]) -> bool {
        self.remove_with(key, |_| ()).is_some()
    }

    /// Removes a member after passing it to `see`.
    #[inline]
    pub fn remove_with<R>(&mut self, key: &[u8], see: impl FnOnce(Member<'_>) -> R) -> Option<R> {
        let hash = self.hash(key);
        let segment = self.segment_of(hash);
        let (slot, record) = self.locate(segment, hash, key)?;
        let seen = see(self.member(&record));
        self.remove_at(segment, slot, Some(hash));
        Some(seen)
    }

    /// Removes the record in a slot. Computes the hash if it is needed but not given.
    fn remove_at(&mut self, segment: usize, slot: usize, hash: Option<u64>) {
        if self.extra.is_some() {
            let Some((record, _)) = self.segments[segment].record::<VALUES>(slot) else { return };
            let (expire_at, outside) = (record.expire_at, record.outside_index());
            if expire_at.is_some() {
                let hash = hash.unwrap_or_else(|| self.hash(Self::content(&self.extra, &record).0));
                self.index_expiry(hash, expire_at, None);
            }
            if let Some(index) = outside {
                self.extra_mut().outside.remove(index);
            }
        }
        self.segments[segment].remove::<VALUES>(slot);
        self.len -= 1;
        if self.len < LOAD_LOW * self.segments.len() && self.segments.len() > 1 {
            self.merge_one();
        }
    }

    /// Adds a segment: the next segment in turn gives it a part of its members.
    fn split_one(&mut self) {
        let segments = self.segments.len();
        let from = spiral::place(segments as u64);
        let goes = |record: &Record<'_, VALUES>| {
            let hash = self.hash(Self::content(&self.extra, record).0);
            spiral::name(spiral::point(hash), segments + 1) > 2 * segments as u64
        };
        let (stays, goes) = self.segments[from].split::<VALUES>(goes);
        self.segments[from] = stays;
        self.segments.push(goes);
    }

    /// Merges the last segment back into the segment that it was split from.
    fn merge_one(&mut self) {
        let last = self.segments.len() - 1;
        let into = spiral::place(last as u64);
        let Some(members) = self.segments.pop() else { return };
        if !self.segments[into].merge::<VALUES>(&members) {
            self.segments.push(members);
            return;
        }
        if last.is_power_of_two() {
            // The bound only grows, so a shrinking table gets a fresh one each time its size has
            // halved.
            self.count_bound = self.segments.iter().map(Segment::count).max().unwrap_or(0);
            self.segments.shrink_to(2 * last);
        } else {
            self.count_bound = self.count_bound.max(self.segments[into].count());
        }
    }
}

#[cfg(test)]
mod tests;
