//! The table of one shard and database: extendible hashing over small segments of cache-line buckets.
//!
//! HOT PATH: no allocation except where a segment grows, no lock, no logging, no system call.
//!
//! ```text
//! root word -> segment                        while everything fits one segment
//! root word -> directory[2^depth] -> segment  afterwards; a segment of local depth d serves 2^(depth-d) directory words
//! segment: header line, then 1..=63 buckets of one cache line: 7 tags, an overflow count, 7 slots
//! slot: 16 hash bits | address of the entry | has-expiry bit;  0 = empty
//! ```
//!
//! The bits of a key's hash, from the top: shard, directory index, ..., and at the bottom 16 bits of *position* and 8 of tag.
//! The position scaled to the number of buckets is the home bucket, so buckets in order are positions in order,
//! and a SCAN cursor of (directory prefix, position) means the same however a segment has grown or split since, and can tell when
//! it was merged. An entry whose home is full goes to the next bucket with room; each full bucket it passed counts it in
//! its overflow byte, so a look-up stops at the first bucket that nobody passed.
//!
//! A segment that fills grows by one size class (its slots hold all the bits that this needs; no entry is touched); at 63
//! buckets it splits in two. Nothing ever moves more than one segment's slots: no pause, no doubled memory, at any size.
//!
//! Every word is atomic: a thread without the lock may look (prefetching, optimistic GET). It sees only words that were valid
//! at some time; memory it may be looking at is retired, not freed (see `limbo.rs`). All methods that change something are
//! `unsafe`: the caller holds the shard exclusively. Methods that read are `unsafe` too: the caller holds the shard, or is
//! inside the gate and validates what it found with the shard's version.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize};

use crate::entry::Entry;
use crate::limbo::Limbo;

/// Slots of a bucket.
pub(crate) const SLOTS: usize = 7;
/// Cache lines of a segment, header included: jemalloc's size classes from 128 bytes to 4 KiB.
const CLASSES: [u16; 19] = [2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64];
const BUCKETS_MAX: usize = 63;
/// Directory bits; with 16 shard bits, 16 of position and 8 of tag they fit the hash.
const DEPTH_MAX: u32 = 24;

/// Bytes of a short string's entry that are worth fetching ahead.
const SHORT_ENTRY: usize = 56;

const DIRECTORY: u64 = 1;
const EXPIRES: u64 = 1;
const ADDRESS: u64 = (1 << 48) - 8;
const NO_EXPIRY: i64 = i64::MAX;

#[repr(C, align(64))]
struct Bucket {
    /// Bytes 0..7: tags of the slots (0 = empty); byte 7: how many entries passed this bucket for want of room (255: many).
    tags: AtomicU64,
    slots: [AtomicU64; SLOTS],
}

#[repr(C, align(64))]
struct SegmentHeader {
    len: AtomicU32,
    depth: AtomicU32,
    /// No entry in here expires before this time (ms); a lower bound, made exact when expiry walks the segment.
    next_expiry: AtomicI64,
}

/// Entries a segment of `buckets` buckets holds before it grows.
const fn limit(buckets: usize) -> usize {
    buckets * SLOTS * 7 / 8
}

#[inline]
fn tag_of(hash: u64) -> u8 {
    let tag = hash as u8;
    tag + u8::from(tag == 0)
}

#[inline]
fn position_of(hash: u64) -> u64 {
    hash >> 8 & 0xffff
}

#[inline]
fn home_of(position: u64, buckets: usize) -> usize {
    (position as usize * buckets) >> 16
}

/// Bytes of `word` that are zero, as their high bits. Exact up to the lowest one; above it there may be false ones.
#[inline]
fn zero_bytes(word: u64) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    word.wrapping_sub(LOW) & !word & (LOW << 7)
}

const TAG_BYTES: u64 = 0x00ff_ffff_ffff_ffff;

/// Where a slot is: its bucket and its index there.
#[derive(Clone, Copy)]
struct Place {
    bucket: NonNull<Bucket>,
    slot: usize,
}

impl Place {
    fn word(self) -> u64 {
        // SAFETY: places are made from buckets of living segments and used under the same lock.
        unsafe { self.bucket.as_ref() }.slots[self.slot].load(Relaxed)
    }
}

/// A segment: pointer and number of buckets in one word.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Segment(u64);

impl Segment {
    fn allocate(class: u16, depth: u32) -> Segment {
        let layout = Segment::layout_of(usize::from(class) - 1);
        // SAFETY: the layout is not empty. Zeroed memory is a valid empty segment.
        let Some(block) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        let segment = Segment(block.as_ptr() as usize as u64 | u64::from(class - 1) << 48);
        let header = segment.header();
        header.depth.store(depth, Relaxed);
        header.next_expiry.store(NO_EXPIRY, Relaxed);
        segment
    }

    fn layout_of(buckets: usize) -> Layout {
        Layout::from_size_align((buckets + 1) * 64, 64).expect("a few KiB")
    }

    #[inline]
    fn is_null(self) -> bool {
        self.0 == 0
    }

    #[inline]
    fn buckets(self) -> usize {
        (self.0 >> 48) as usize
    }

    #[inline]
    fn base(self) -> *mut u8 {
        (self.0 & ADDRESS) as usize as *mut u8
    }

    #[inline]
    fn header(&self) -> &SegmentHeader {
        // SAFETY: a non-null segment's memory begins with its header and lives as long as it is linked or retired.
        unsafe { &*self.base().cast::<SegmentHeader>() }
    }

    #[inline]
    fn bucket(&self, index: usize) -> &Bucket {
        debug_assert!(index < self.buckets());
        // SAFETY: the index is below the number of buckets behind the header.
        unsafe { &*self.base().add(64 * (index + 1)).cast::<Bucket>() }
    }

    fn len(self) -> usize {
        self.header().len.load(Relaxed) as usize
    }

    /// Walks the buckets that may hold an entry of this hash; `found` is called with each slot whose bits match.
    #[inline]
    fn probe(self, hash: u64, mut found: impl FnMut(u64) -> bool) -> Option<(Place, u64)> {
        let (buckets, position) = (self.buckets(), position_of(hash));
        let pattern = u64::from(tag_of(hash)) * 0x0001_0101_0101_0101;
        let mut index = home_of(position, buckets);
        for _ in 0..buckets {
            let bucket = self.bucket(index);
            let tags = bucket.tags.load(Relaxed);
            let mut matches = zero_bytes((tags ^ pattern) | !TAG_BYTES);
            while matches != 0 {
                let slot = matches.trailing_zeros() as usize / 8;
                let word = bucket.slots[slot].load(Acquire);
                if word != 0 && word >> 48 == position && found(word) {
                    // The word as it was compared: without the lock the slot may hold another entry by now.
                    return Some((Place { bucket: NonNull::from(bucket), slot }, word));
                }
                matches &= matches - 1;
            }
            if tags >> 56 == 0 {
                return None;
            }
            index = if index + 1 == buckets { 0 } else { index + 1 };
        }
        None
    }

    /// Puts a slot word into the first bucket with room. The segment must not be full.
    fn place(self, tag: u8, word: u64) {
        let buckets = self.buckets();
        let mut index = home_of(word >> 48, buckets);
        loop {
            let bucket = self.bucket(index);
            let tags = bucket.tags.load(Relaxed);
            let empty = zero_bytes(tags | !TAG_BYTES);
            if empty != 0 {
                let slot = empty.trailing_zeros() as usize / 8;
                bucket.slots[slot].store(word, Release);
                bucket.tags.store(tags | u64::from(tag) << (8 * slot), Release);
                return;
            }
            if tags >> 56 != 255 {
                bucket.tags.store(tags + (1 << 56), Relaxed);
            }
            index = if index + 1 == buckets { 0 } else { index + 1 };
        }
    }

    /// Empties a slot and takes back what its entry added to the overflow counts on its way there.
    fn clear(self, place: Place) {
        let buckets = self.buckets();
        let mut index = home_of(place.word() >> 48, buckets);
        // SAFETY: the place lies in this segment.
        let bucket = unsafe { place.bucket.as_ref() };
        bucket.tags.store(bucket.tags.load(Relaxed) & !(0xff << (8 * place.slot)), Relaxed);
        bucket.slots[place.slot].store(0, Relaxed);
        while !std::ptr::eq(self.bucket(index), bucket) {
            let passed = &self.bucket(index).tags;
            let tags = passed.load(Relaxed);
            if tags >> 56 != 255 {
                passed.store(tags - (1 << 56), Relaxed);
            }
            index = if index + 1 == buckets { 0 } else { index + 1 };
        }
    }

    fn for_each_slot(self, mut visit: impl FnMut(Place, u8, u64)) {
        for index in 0..self.buckets() {
            let bucket = self.bucket(index);
            let tags = bucket.tags.load(Relaxed);
            for slot in 0..SLOTS {
                let word = bucket.slots[slot].load(Relaxed);
                if word != 0 {
                    visit(Place { bucket: NonNull::from(bucket), slot }, (tags >> (8 * slot)) as u8, word);
                }
            }
        }
    }

    /// Copies all slots into `target`, whose size differs; needs no entry, only the bits in the slots.
    fn copy_into(self, target: Segment) {
        self.for_each_slot(|_, tag, word| target.place(tag, word));
        let header = target.header();
        header.len.store(header.len.load(Relaxed) + self.header().len.load(Relaxed), Relaxed);
        let earliest = header.next_expiry.load(Relaxed).min(self.header().next_expiry.load(Relaxed));
        header.next_expiry.store(earliest, Relaxed);
    }
}

/// The smallest class in which `len` entries leave room for more.
fn class_for(len: usize) -> u16 {
    *CLASSES.iter().find(|&&class| limit(usize::from(class) - 1) > len).unwrap_or(&CLASSES[CLASSES.len() - 1])
}

/// For the oversized segments at the greatest depth: half the buckets.
fn halved_class(buckets: usize) -> u16 {
    u16::try_from(buckets / 2 + 1).expect("half of a number of buckets")
}

#[inline]
fn entry_of<'a>(word: u64) -> Entry<'a> {
    // SAFETY: slot words hold addresses of entries that are linked or retired.
    unsafe { Entry::from_address(word & ADDRESS) }
}

#[inline]
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetching has no effect on memory and may be given any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// The keys of one shard in one database.
#[derive(Default)]
pub struct Table {
    root: AtomicU64,
    len: AtomicUsize,
    expires: AtomicUsize,
    /// No entry expires before this time; 0 = none expires.
    next_expiry: AtomicI64,
}

/// Where a SCAN stands within a table: before all of it, or at a position in the segment of a directory prefix.
///
/// As a number: the prefix left-aligned, a 1 behind its last bit to tell its length, zeros up to 25 bits, 16 bits of position. Short
/// enough for clients that keep cursors in floating-point numbers (53 bits) with up to 4096 shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableCursor(u64);

impl TableCursor {
    /// Bits that a cursor takes.
    pub const BITS: u32 = DEPTH_MAX + 1 + 16;

    /// From its number.
    pub fn from_bits(bits: u64) -> TableCursor {
        TableCursor(bits & ((1 << TableCursor::BITS) - 1))
    }

    /// As a number below `2^BITS`.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// `prefix`: left-aligned in [`DEPTH_MAX`] bits, of which `depth` count.
    fn new(prefix: u64, depth: u32, position: u64) -> TableCursor {
        TableCursor((prefix << 1 | 1 << (DEPTH_MAX - depth)) << 16 | position)
    }

    /// Prefix, depth and position.
    fn parts(self) -> (u64, u32, u64) {
        let (marked, position) = (self.0 >> 16, self.0 & 0xffff);
        if marked == 0 {
            return (0, 0, 0);
        }
        ((marked & (marked - 1)) >> 1, DEPTH_MAX - marked.trailing_zeros(), position)
    }
}

/// Bits of the hash below the shard's, left-aligned in 64 bits.
#[inline]
fn below_shard(hash: u64, shard_bits: u32) -> u64 {
    hash << shard_bits
}

impl Table {
    /// Keys in the table, expired ones that are still there included.
    #[inline]
    pub fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// True without keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keys with an expiry.
    pub fn expires(&self) -> usize {
        self.expires.load(Relaxed)
    }

    /// A time before which no key expires, if any does.
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

    /// Fetches the first line that a look-up of this hash reads into the cache, if that can be known without waiting.
    ///
    /// # Safety
    /// The caller is inside the gate or holds the shard.
    #[inline]
    pub unsafe fn prefetch_bucket(&self, hash: u64, shard_bits: u32) {
        let segment = self.segment(hash, shard_bits);
        if !segment.is_null() {
            let index = home_of(position_of(hash), segment.buckets());
            prefetch(std::ptr::from_ref(segment.bucket(index)).cast());
        }
    }

    /// Fetches the entry of this hash into the cache, if there is one.
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
                // A short string's key lies at its end, often in the next cache line.
                prefetch(entry.wrapping_add(SHORT_ENTRY - 1));
                true
            });
        }
    }

    /// The entry of a key.
    ///
    /// # Safety
    /// The caller holds the shard, or is inside the gate and uses the result only as far as the shard's version then confirms.
    #[inline]
    pub unsafe fn find<'a>(&self, hash: u64, shard_bits: u32, key: &[u8]) -> Option<Entry<'a>> {
        let segment = self.segment(hash, shard_bits);
        if segment.is_null() {
            return None;
        }
        let (_, word) = segment.probe(hash, |word| entry_of(word).key() == key)?;
        Some(entry_of(word))
    }

    fn place_of(&self, hash: u64, shard_bits: u32, address: u64) -> (Segment, Place) {
        let segment = self.segment(hash, shard_bits);
        let (place, _) =
            segment.probe(hash, |word| word & ADDRESS == address).expect("the entry is in the table");
        (segment, place)
    }

    /// Adds an entry whose key is not there.
    ///
    /// # Safety
    /// The caller holds the shard exclusively and gives the entry away.
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
            // SAFETY: the caller's.
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

    /// Lowers the bounds of the next expiry. Returns the slot's has-expiry bit.
    fn note_expiry(&self, segment: Segment, entry: Entry<'_>) -> u64 {
        let Some(at) = entry.expiry() else { return 0 };
        let header = segment.header();
        header.next_expiry.store(header.next_expiry.load(Relaxed).min(at), Relaxed);
        // 0 means none, and every time up to 1 ms after the epoch is in the past alike.
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

    /// Puts `new` in the place of `old`; both have the same key. The caller retires `old`.
    ///
    /// # Safety
    /// The caller holds the shard exclusively; `old` is in the table.
    pub unsafe fn replace(&self, hash: u64, shard_bits: u32, old: Entry<'_>, new: Entry<'_>) {
        let (segment, place) = self.place_of(hash, shard_bits, old.address());
        let had = place.word() & EXPIRES;
        let has = self.note_expiry(segment, new);
        let word = position_of(hash) << 48 | new.address() | has;
        // SAFETY: the place was just found in a living segment.
        unsafe { place.bucket.as_ref() }.slots[place.slot].store(word, Release);
        self.expires.store(self.expires() + has as usize - had as usize, Relaxed);
    }

    /// Takes an entry out. The caller retires it.
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

    /// Links `new` wherever `old` is linked (that is, for all hashes that share `old`'s prefix) and retires `old`.
    fn relink(&self, old: Segment, new: Segment, prefix_hash: u64, limbo: &mut Limbo) {
        let root = self.root.load(Relaxed);
        if root & DIRECTORY == 0 {
            self.root.store(new.0, Release);
        } else {
            for word in Table::words_of(root, old.header().depth.load(Relaxed), prefix_hash) {
                debug_assert_eq!(word.load(Relaxed), old.0);
                word.store(new.0, Release);
            }
        }
        retire_segment(old, limbo);
    }

    /// The directory words of all hashes (below the shard's bits) that share the first `depth` bits of `prefix_hash`.
    fn words_of<'a>(root: u64, depth: u32, prefix_hash: u64) -> &'a [AtomicU64] {
        let global = (root >> 48) as u32;
        let span = 1usize << (global - depth);
        let first = if depth == 0 { 0 } else { ((prefix_hash >> (64 - depth)) as usize) * span };
        &Table::directory(root)[first..first + span]
    }

    unsafe fn grow(
        &self,
        segment: Segment,
        hash: u64,
        shard_bits: u32,
        limbo: &mut Limbo,
        rehash: &dyn Fn(&[u8]) -> u64,
    ) {
        let (below, depth) = (below_shard(hash, shard_bits), segment.header().depth.load(Relaxed));
        if segment.buckets() < BUCKETS_MAX || depth == DEPTH_MAX {
            let class = if segment.buckets() < BUCKETS_MAX {
                class_for(segment.len())
            } else {
                // Sixteen million segments in one shard: from here on segments just get larger.
                u16::try_from(segment.buckets() * 2).expect("fewer than 10^12 keys")
            };
            let bigger = Segment::allocate(class, depth);
            segment.copy_into(bigger);
            self.relink(segment, bigger, below, limbo);
            return;
        }
        self.split(segment, below, shard_bits, limbo, rehash);
    }

    fn split(
        &self,
        segment: Segment,
        below: u64,
        shard_bits: u32,
        limbo: &mut Limbo,
        rehash: &dyn Fn(&[u8]) -> u64,
    ) {
        let depth = segment.header().depth.load(Relaxed);
        let mut root = self.root.load(Relaxed);
        if root & DIRECTORY == 0 || depth == (root >> 48) as u32 {
            root = self.double_directory(root, limbo);
        }
        // The next bit of each key's hash decides; it is not in the slot, so the keys are hashed again.
        segment.for_each_slot(|_, _, word| prefetch((word & ADDRESS) as usize as *const u8));
        let bit_of = |word: u64| below_shard(rehash(entry_of(word).key()), shard_bits) >> (63 - depth) & 1;
        // One bit for each slot in use, in the order of the walk: no key is hashed twice.
        let mut bits = [0u64; (BUCKETS_MAX * SLOTS).div_ceil(64)];
        let (mut lens, mut at) = ([0u32; 2], 0);
        segment.for_each_slot(|_, _, word| {
            let bit = bit_of(word);
            bits[at / 64] |= bit << (at % 64);
            lens[bit as usize] += 1;
            at += 1;
        });
        let halves = lens.map(|len| Segment::allocate(class_for(len as usize), depth + 1));
        at = 0;
        segment.for_each_slot(|_, tag, word| {
            let half = halves[(bits[at / 64] >> (at % 64) & 1) as usize];
            at += 1;
            half.place(tag, word);
            if let Some(at) = entry_of(word).expiry() {
                let header = half.header();
                header.next_expiry.store(header.next_expiry.load(Relaxed).min(at), Relaxed);
            }
        });
        for (half, len) in halves.iter().zip(lens) {
            half.header().len.store(len, Relaxed);
        }
        let words = Table::words_of(root, depth, below);
        let (low, high) = words.split_at(words.len() / 2);
        low.iter().for_each(|word| word.store(halves[0].0, Release));
        high.iter().for_each(|word| word.store(halves[1].0, Release));
        retire_segment(segment, limbo);
    }

    /// Makes a directory, or one of twice the size; every segment is linked as before.
    fn double_directory(&self, root: u64, limbo: &mut Limbo) -> u64 {
        let old: &[AtomicU64] =
            if root & DIRECTORY == 0 { std::slice::from_ref(&self.root) } else { Table::directory(root) };
        let depth = old.len().ilog2() + 1;
        let layout = directory_layout(depth);
        // SAFETY: the layout is not empty; zeroed memory is valid for atomic words.
        let Some(block) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        let new_root = block.as_ptr() as usize as u64 | DIRECTORY | u64::from(depth) << 48;
        for (index, word) in Table::directory(new_root).iter().enumerate() {
            word.store(old[index / 2].load(Relaxed), Relaxed);
        }
        self.root.store(new_root, Release);
        if root & DIRECTORY != 0 {
            retire_directory(root, limbo);
        }
        new_root
    }

    /// Gives memory back after removals: a smaller segment, or one for two neighbours.
    fn shrink(&self, segment: Segment, hash: u64, shard_bits: u32, limbo: &mut Limbo) {
        let below = below_shard(hash, shard_bits);
        // The merged segment may fit its own neighbour; if nothing is removed from it any more, nobody else would notice.
        let mut last = segment;
        while let Some(merged) = self.merge(last, below, limbo) {
            last = merged;
        }
        let len = last.len();
        if len == 0 && self.root.load(Relaxed) & DIRECTORY == 0 {
            self.root.store(0, Release);
            retire_segment(last, limbo);
        } else if last == segment && segment.buckets() > 1 {
            let want = len + len / 4;
            let class =
                if want < limit(BUCKETS_MAX) { class_for(want) } else { halved_class(segment.buckets()) };
            let smaller = Segment::allocate(class, segment.header().depth.load(Relaxed));
            segment.copy_into(smaller);
            self.relink(segment, smaller, below, limbo);
        }
    }

    /// Makes one segment of two neighbours that fit one easily.
    fn merge(&self, segment: Segment, below: u64, limbo: &mut Limbo) -> Option<Segment> {
        let (root, depth) = (self.root.load(Relaxed), segment.header().depth.load(Relaxed));
        if depth == 0 {
            return None;
        }
        let buddy = Segment(Table::words_of(root, depth, below ^ 1 << (64 - depth))[0].load(Relaxed));
        let together = segment.len() + buddy.len();
        if buddy.header().depth.load(Relaxed) != depth || together > limit(BUCKETS_MAX) / 2 {
            return None;
        }
        let merged = Segment::allocate(class_for(together), depth - 1);
        segment.copy_into(merged);
        buddy.copy_into(merged);
        if depth == 1 {
            // One segment serves all: no directory is needed.
            self.root.store(merged.0, Release);
            retire_directory(root, limbo);
        } else {
            for word in Table::words_of(root, depth - 1, below) {
                word.store(merged.0, Release);
            }
        }
        retire_segment(segment, limbo);
        retire_segment(buddy, limbo);
        Some(merged)
    }

    /// Each segment once, with the first hash prefix (below the shard's bits) it serves.
    fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        let root = self.root.load(Relaxed);
        let mut index = 0;
        std::iter::from_fn(move || {
            if root & DIRECTORY == 0 {
                index += 1;
                return (index == 1 && root != 0).then_some(Segment(root));
            }
            let words = Table::directory(root);
            let segment = Segment(words.get(index)?.load(Relaxed));
            index += words.len() >> segment.header().depth.load(Relaxed);
            Some(segment)
        })
    }

    /// Calls `visit` with every entry, expired ones included.
    ///
    /// # Safety
    /// The caller holds the shard.
    pub unsafe fn for_each<'a>(&self, mut visit: impl FnMut(Entry<'a>)) {
        for segment in self.segments() {
            segment.for_each_slot(|_, _, word| visit(entry_of(word)));
        }
    }

    /// Visits the entries from `cursor` on, at least `count` of them (all that share a home bucket are visited together), or to the
    /// end. Returns where to go on, or nothing at the end. Entries that stay in the table throughout a series of
    /// calls are visited at least once, whatever happens to the segments in between.
    ///
    /// # Safety
    /// The caller holds the shard.
    pub unsafe fn scan<'a>(
        &self,
        cursor: TableCursor,
        count: usize,
        mut visit: impl FnMut(Entry<'a>),
    ) -> Option<TableCursor> {
        let root = self.root.load(Relaxed);
        if root == 0 {
            return None;
        }
        let (mut prefix, cursor_depth, mut position) = cursor.parts();
        let mut visited = 0;
        loop {
            let segment = if root & DIRECTORY == 0 {
                Segment(root)
            } else {
                let depth = (root >> 48) as u32;
                Segment(Table::directory(root)[(prefix >> (DEPTH_MAX - depth)) as usize].load(Relaxed))
            };
            let (buckets, depth) = (segment.buckets(), segment.header().depth.load(Relaxed));
            let span = 1u64 << (DEPTH_MAX - depth);
            // The segment that the cursor stood in was merged with its neighbour: what the position says holds for a part of the segment
            // only. It is visited as a whole, in one go, so that cursors never move back.
            let merged = prefix & (span - 1) != 0 || (position > 0 && cursor_depth > depth);
            if merged {
                prefix &= !(span - 1);
                position = 0;
            }
            let mut home = home_of(position, buckets);
            while home < buckets {
                visited += scan_home(segment, home, position, &mut visit);
                home += 1;
                // The first position whose home is the next bucket.
                position = ((home << 16).div_ceil(buckets)) as u64;
                if visited >= count && home < buckets && !merged {
                    return Some(TableCursor::new(prefix, depth, position));
                }
            }
            position = 0;
            prefix += span;
            if prefix >> DEPTH_MAX != 0 {
                return None;
            }
            if visited >= count {
                return Some(TableCursor::new(prefix, depth, 0));
            }
        }
    }

    /// The entries of one bucket somewhere in the table, chosen by `random` bits: up to 7, perhaps none.
    ///
    /// # Safety
    /// The caller holds the shard.
    pub unsafe fn sample<'a>(&self, random: u64, mut visit: impl FnMut(Entry<'a>)) {
        let root = self.root.load(Relaxed);
        if root == 0 {
            return;
        }
        let segment = if root & DIRECTORY == 0 {
            Segment(root)
        } else {
            let words = Table::directory(root);
            Segment(words[(random >> 32) as usize & (words.len() - 1)].load(Relaxed))
        };
        let bucket = segment.bucket(home_of(random & 0xffff, segment.buckets()));
        for slot in &bucket.slots {
            match slot.load(Relaxed) {
                0 => {}
                word => visit(entry_of(word)),
            }
        }
    }

    /// Collects entries past their expiry from one or more segments that may have some, stopping after about `budget` entries were
    /// looked at. Bounds of the segments walked become exact. Returns how many entries were looked at (8 buckets walked
    /// count as one more), and false if more is due.
    ///
    /// # Safety
    /// The caller holds the shard exclusively.
    pub unsafe fn expired<'a>(&self, now: i64, budget: usize, due: &mut Vec<Entry<'a>>) -> (usize, bool) {
        let (mut looked, mut earliest, mut complete) = (0, NO_EXPIRY, true);
        for segment in self.segments() {
            let header = segment.header();
            let bound = header.next_expiry.load(Relaxed);
            if bound >= now || looked >= budget {
                complete &= bound >= now;
                earliest = earliest.min(bound);
                continue;
            }
            let mut next = NO_EXPIRY;
            // Walking costs something even where nothing carries an expiry any more.
            looked += segment.buckets().div_ceil(8);
            segment.for_each_slot(|_, _, word| {
                if word & EXPIRES != 0 {
                    looked += 1;
                    let entry = entry_of(word);
                    if entry.is_expired(now) {
                        due.push(entry);
                    } else {
                        next = next.min(entry.expiry().unwrap_or(NO_EXPIRY));
                    }
                }
            });
            header.next_expiry.store(next, Relaxed);
            earliest = earliest.min(next);
        }
        self.next_expiry.store(if earliest == NO_EXPIRY { 0 } else { earliest.max(1) }, Relaxed);
        (looked, complete)
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
        let at = self.next_expiry.load(Relaxed);
        self.next_expiry.store(other.next_expiry.load(Relaxed), Relaxed);
        other.next_expiry.store(at, Relaxed);
    }

    /// Bytes of segments and directory.
    pub fn structure_bytes(&self) -> usize {
        let root = self.root.load(Relaxed);
        let directory = if root & DIRECTORY == 0 { 0 } else { Table::directory(root).len() * 8 };
        directory + self.segments().map(|segment| Segment::layout_of(segment.buckets()).size()).sum::<usize>()
    }

    /// Number of segments and of slots in them (DEBUG HTSTATS).
    pub fn shape(&self) -> (usize, usize) {
        self.segments()
            .fold((0, 0), |(segments, slots), segment| (segments + 1, slots + segment.buckets() * SLOTS))
    }
}

/// Visits the entries whose home is bucket `home` and whose position is at least `from`. Returns how many.
fn scan_home<'a>(segment: Segment, home: usize, from: u64, visit: &mut impl FnMut(Entry<'a>)) -> usize {
    let buckets = segment.buckets();
    let (mut index, mut visited) = (home, 0);
    for _ in 0..buckets {
        let bucket = segment.bucket(index);
        for slot in &bucket.slots {
            let word = slot.load(Relaxed);
            if word != 0 && home_of(word >> 48, buckets) == home && word >> 48 >= from {
                visit(entry_of(word));
                visited += 1;
            }
        }
        if bucket.tags.load(Relaxed) >> 56 == 0 {
            break;
        }
        index = if index + 1 == buckets { 0 } else { index + 1 };
    }
    visited
}

fn directory_layout(depth: u32) -> Layout {
    Layout::array::<u64>(1 << depth).expect("at most 2^24 words")
}

fn retire_segment(segment: Segment, limbo: &mut Limbo) {
    if let Some(block) = NonNull::new(segment.base()) {
        // SAFETY: just unlinked, allocated with this layout.
        unsafe { limbo.retire_block(block, Segment::layout_of(segment.buckets())) };
    }
}

fn retire_directory(root: u64, limbo: &mut Limbo) {
    if let Some(block) = NonNull::new((root & ADDRESS) as usize as *mut u8) {
        // SAFETY: just unlinked, allocated with this layout.
        unsafe { limbo.retire_block(block, directory_layout((root >> 48) as u32)) };
    }
}

impl Drop for Table {
    /// Frees everything at once: only for a table that no other thread can see.
    fn drop(&mut self) {
        for segment in self.segments().collect::<Vec<_>>() {
            // SAFETY: nobody else can see the table; each entry and segment is released once.
            segment.for_each_slot(|_, _, word| unsafe { entry_of(word).release() });
            // SAFETY: as above.
            unsafe { dealloc(segment.base(), Segment::layout_of(segment.buckets())) };
        }
        let root = self.root.load(Relaxed);
        if root & DIRECTORY != 0 {
            // SAFETY: as above.
            unsafe { dealloc((root & ADDRESS) as usize as *mut u8, directory_layout((root >> 48) as u32)) };
        }
    }
}

#[cfg(test)]
mod tests;
