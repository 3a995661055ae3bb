// SPDX-License-Identifier: BSD-3-Clause
//! The table of one shard and database: extendible hashing over small segments of cache-line
//! buckets.
//!
//! HOT PATH: no allocation except where a segment grows, no lock, no logging, no system call.
//!
//! ```text
//! root word -> segment                        while everything fits one segment
//! root word -> directory[2^depth] -> segment  afterwards; a segment of local depth d serves
//!                                             2^(depth-d) directory words
//! segment: header line, then 1..=63 buckets of one cache line: 7 tags, an overflow count, 7 slots
//! slot:    16 hash bits | address of the entry | has-expiry bit;  0 = empty
//! ```
//!
//! The bits of a key's hash, from the top: shard, directory index, ..., and at the bottom 16 bits
//! of *position* and 8 of tag. The position scaled to the number of buckets is the home bucket, so
//! buckets are in order of position. A SCAN cursor of (directory prefix, position) therefore stays
//! valid however a segment has grown or split since, and shows when it was merged. An entry whose
//! home is full goes to the next bucket with room; each full bucket on the way counts it in its
//! overflow byte, so a look-up stops at the first bucket that no entry has passed.
//!
//! A full segment grows by one size class; its slots hold all the bits needed, so no entry is
//! touched. At 63 buckets it splits in two. No step moves more than one segment's slots, so there
//! is no pause and no doubled memory at any size.
//!
//! Every word is atomic: a thread without the lock may read (prefetching, optimistic GET). It sees
//! only words that were valid at some time; memory that it may be reading is retired, not freed
//! (see `limbo.rs`). Methods that change the table are `unsafe`: the caller holds the shard
//! exclusively. Methods that read are `unsafe` too: the caller holds the shard, or is inside the
//! gate and validates the result with the shard's version.

use std::alloc::dealloc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicU64, AtomicUsize};

use braid_base::prefetch::prefetch;

use crate::entry::Entry;
use crate::lazy_free::Garbage;
use crate::limbo::Limbo;
use crate::member_expiry_index::MemberExpiryIndex;

mod members;
mod resize;
mod segment;
mod walk;

use resize::directory_layout;
pub(crate) use segment::SLOTS;
use segment::{
    ADDRESS, CLASSES, EXPIRES, Segment, SlotLocation, entry_of, home_of, limit, position_of, tag_of,
};
pub use walk::TableCursor;

/// Maximum number of directory bits; with 16 shard bits, 16 of position and 8 of tag they fill the
/// hash.
const DEPTH_MAX: u32 = 24;

/// Bytes of a short string's entry that are worth prefetching.
const SHORT_ENTRY: usize = 56;

const DIRECTORY: u64 = 1;

/// The keys of one shard in one database.
#[derive(Default)]
pub struct Table {
    root: AtomicU64,
    len: AtomicUsize,
    expires: AtomicUsize,
    /// No entry expires before this time (ms); 0 = no entry has an expiry.
    next_expiry: AtomicI64,
    /// The earliest time in `members`; 0 = none.
    next_member_expiry: AtomicI64,
    /// Collections whose members expire (`members.rs`); null without any. Accessed only under the
    /// shard's lock.
    members: AtomicPtr<MemberExpiryIndex>,
}

/// Hash bits below the shard's, left-aligned in 64 bits.
#[inline]
fn below_shard(hash: u64, shard_bits: u32) -> u64 {
    hash << shard_bits
}

impl Table {
    /// Number of keys, including expired ones not yet removed.
    #[inline]
    pub fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// True if the table has no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of keys with an expiry.
    pub fn expires(&self) -> usize {
        self.expires.load(Relaxed)
    }

    /// A time before which no key expires; `None` if no key has an expiry.
    #[inline]
    pub fn next_expiry(&self) -> Option<i64> {
        match self.next_expiry.load(Relaxed) {
            0 => None,
            at => Some(at),
        }
    }

    #[inline]
    fn segment(&self, hash: u64, shard_bits: u32) -> Segment {
        let root = self.root.load(Acquire);
        if root & DIRECTORY == 0 {
            return Segment(root);
        }
        let depth = (root >> 48) as u32;
        let index = below_shard(hash, shard_bits) >> (64 - depth);
        Segment(Table::directory(root)[index as usize].load(Acquire))
    }

    #[inline]
    fn directory<'a>(root: u64) -> &'a [AtomicU64] {
        debug_assert!(root & DIRECTORY != 0);
        // SAFETY: a root word with the directory bit points to 2^depth words, linked or retired.
        unsafe {
            std::slice::from_raw_parts((root & ADDRESS) as usize as *const AtomicU64, 1 << (root >> 48))
        }
    }

    /// Prefetches the first cache line that a look-up of this hash reads, if its address is known
    /// without a cache miss.
    ///
    /// # Safety
    /// The caller is inside the gate or holds the shard.
    #[inline]
    pub unsafe fn prefetch_bucket(&self, hash: u64, shard_bits: u32) {
        let segment = self.segment(hash, shard_bits);
        if !segment.is_null() {
            let index = home_of(position_of(hash), segment.buckets());
            prefetch(std::ptr::from_ref(segment.bucket(index)));
        }
    }

    /// Prefetches the entry with this hash, if there is one.
    ///
    /// # Safety
    /// The caller is inside the gate or holds the shard.
    #[inline]
    pub unsafe fn prefetch_entry(&self, hash: u64, shard_bits: u32) {
        let segment = self.segment(hash, shard_bits);
        if !segment.is_null() {
            segment.probe(hash, |word| {
                let entry = (word & ADDRESS) as usize as *const u8;
                prefetch(entry);
                // A short string's key is at the entry's end, often in the next cache line.
                prefetch(entry.wrapping_add(SHORT_ENTRY - 1));
                true
            });
        }
    }

    /// The entry of a key.
    ///
    /// # Safety
    /// The caller holds the shard, or is inside the gate and uses the result only as far as the
    /// shard's version confirms it afterwards.
    #[inline]
    pub unsafe fn find<'a>(&self, hash: u64, shard_bits: u32, key: &[u8]) -> Option<Entry<'a>> {
        let segment = self.segment(hash, shard_bits);
        if segment.is_null() {
            return None;
        }
        let (_, word) = segment.probe(hash, |word| entry_of(word).key() == key)?;
        Some(entry_of(word))
    }

    /// The entry whose key has this hash; `rehash` computes a key's hash.
    ///
    /// # Safety
    /// The caller holds the shard.
    pub unsafe fn find_hash<'a>(
        &self,
        hash: u64,
        shard_bits: u32,
        rehash: impl Fn(&[u8]) -> u64,
    ) -> Option<Entry<'a>> {
        let segment = self.segment(hash, shard_bits);
        if segment.is_null() {
            return None;
        }
        let (_, word) = segment.probe(hash, |word| rehash(entry_of(word).key()) == hash)?;
        Some(entry_of(word))
    }

    fn place_of(&self, hash: u64, shard_bits: u32, address: u64) -> (Segment, SlotLocation) {
        let segment = self.segment(hash, shard_bits);
        let (place, _) =
            segment.probe(hash, |word| word & ADDRESS == address).expect("the entry is in the table");
        (segment, place)
    }

    /// Adds an entry whose key is absent.
    ///
    /// # Safety
    /// The caller holds the shard exclusively and passes ownership of the entry.
    pub unsafe fn insert(
        &self,
        hash: u64,
        shard_bits: u32,
        entry: Entry<'_>,
        limbo: &mut Limbo,
        rehash: &dyn Fn(&[u8]) -> u64,
    ) {
        let mut segment = self.segment(hash, shard_bits);
        if segment.is_null() {
            segment = Segment::allocate(CLASSES[0], 0);
            debug_assert_eq!(self.root.load(Relaxed), 0, "directories have no empty words");
            self.root.store(segment.0, Release);
        }
        while segment.len() >= limit(segment.buckets()) {
            // SAFETY: guaranteed by the caller.
            unsafe { self.grow(segment, hash, shard_bits, limbo, rehash) };
            segment = self.segment(hash, shard_bits);
        }
        let expires = self.note_expiry(segment, entry);
        segment.place(tag_of(hash), position_of(hash) << 48 | entry.address() | expires);
        let header = segment.header();
        header.len.store(header.len.load(Relaxed) + 1, Relaxed);
        self.len.store(self.len() + 1, Relaxed);
        self.expires.store(self.expires() + expires as usize, Relaxed);
    }

    /// Lowers the bounds on the next expiry. Returns the slot's has-expiry bit.
    fn note_expiry(&self, segment: Segment, entry: Entry<'_>) -> u64 {
        let Some(at) = entry.expiry() else { return 0 };
        let header = segment.header();
        header.next_expiry.store(header.next_expiry.load(Relaxed).min(at), Relaxed);
        // 0 means none; every time up to 1 ms after the epoch is equally in the past.
        let at = at.max(1);
        self.next_expiry.store(self.next_expiry().map_or(at, |next| next.min(at)), Relaxed);
        EXPIRES
    }

    /// Lowers the bounds after an entry's expiry was changed in place.
    ///
    /// # Safety
    /// The caller holds the shard exclusively; the entry is in the table.
    pub unsafe fn expiry_changed(&self, hash: u64, shard_bits: u32, entry: Entry<'_>) {
        self.note_expiry(self.segment(hash, shard_bits), entry);
    }

    /// Replaces `old` with `new`, which has the same key. The caller retires `old`.
    ///
    /// # Safety
    /// The caller holds the shard exclusively; `old` is in the table.
    pub unsafe fn replace(&self, hash: u64, shard_bits: u32, old: Entry<'_>, new: Entry<'_>) {
        let (segment, place) = self.place_of(hash, shard_bits, old.address());
        let had = place.word() & EXPIRES;
        let has = self.note_expiry(segment, new);
        let word = position_of(hash) << 48 | new.address() | has;
        // SAFETY: the place was just found in a live segment.
        unsafe { place.bucket.as_ref() }.slots[place.slot].store(word, Release);
        self.expires.store(self.expires() + has as usize - had as usize, Relaxed);
    }

    /// Removes an entry. The caller retires it.
    ///
    /// # Safety
    /// The caller holds the shard exclusively; the entry is in the table.
    pub unsafe fn remove(&self, hash: u64, shard_bits: u32, entry: Entry<'_>, limbo: &mut Limbo) {
        let (segment, place) = self.place_of(hash, shard_bits, entry.address());
        let had = place.word() & EXPIRES;
        segment.clear(place);
        let header = segment.header();
        header.len.store(header.len.load(Relaxed) - 1, Relaxed);
        self.len.store(self.len() - 1, Relaxed);
        self.expires.store(self.expires() - had as usize, Relaxed);
        if self.expires() == 0 {
            self.next_expiry.store(0, Relaxed);
        }
        if segment.len() < limit(segment.buckets()) / 4 {
            self.shrink(segment, hash, shard_bits, limbo);
        }
    }

    /// Exchanges the contents of two tables.
    ///
    /// # Safety
    /// The caller holds both exclusively.
    pub unsafe fn swap(&self, other: &Table) {
        let word = self.root.load(Relaxed);
        self.root.store(other.root.load(Relaxed), Release);
        other.root.store(word, Release);
        for (mine, theirs) in [(&self.len, &other.len), (&self.expires, &other.expires)] {
            let number = mine.load(Relaxed);
            mine.store(theirs.load(Relaxed), Relaxed);
            theirs.store(number, Relaxed);
        }
        for (mine, theirs) in
            [(&self.next_expiry, &other.next_expiry), (&self.next_member_expiry, &other.next_member_expiry)]
        {
            let at = mine.load(Relaxed);
            mine.store(theirs.load(Relaxed), Relaxed);
            theirs.store(at, Relaxed);
        }
        let members = self.members.load(Relaxed);
        self.members.store(other.members.load(Relaxed), Relaxed);
        other.members.store(members, Relaxed);
    }

    /// Bytes of the segments and the directory.
    pub fn structure_bytes(&self) -> usize {
        let root = self.root.load(Relaxed);
        let directory = if root & DIRECTORY == 0 { 0 } else { Table::directory(root).len() * 8 };
        directory + self.segments().map(|segment| Segment::layout_of(segment.buckets()).size()).sum::<usize>()
    }

    /// Number of segments, and of their slots (DEBUG HTSTATS).
    pub fn shape(&self) -> (usize, usize) {
        self.segments()
            .fold((0, 0), |(segments, slots), segment| (segments + 1, slots + segment.buckets() * SLOTS))
    }
}

impl Drop for Table {
    /// Frees all memory immediately: no other thread may see the table.
    fn drop(&mut self) {
        for segment in self.segments().collect::<Vec<_>>() {
            // SAFETY: no other thread can see the table; each entry and segment is released once.
            segment.for_each_slot(|_, _, word| unsafe { entry_of(word).release() });
            // SAFETY: as above.
            unsafe { dealloc(segment.base(), Segment::layout_of(segment.buckets())) };
        }
        let root = self.root.load(Relaxed);
        if root & DIRECTORY != 0 {
            // SAFETY: as above.
            unsafe { dealloc((root & ADDRESS) as usize as *mut u8, directory_layout((root >> 48) as u32)) };
        }
        self.drop_members();
    }
}

/// Tables are freed one by one.
impl From<Vec<Table>> for Garbage {
    fn from(tables: Vec<Table>) -> Garbage {
        let count = tables.iter().map(Table::len).sum();
        let free = |table: Table| {
            let count = table.len();
            drop(table);
            count
        };
        Garbage::Parts(count, Box::new(tables.into_iter().map(free)))
    }
}

#[cfg(test)]
mod tests;
