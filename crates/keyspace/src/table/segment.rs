// SPDX-License-Identifier: BSD-3-Clause
//! A segment of a table: a header line and 1 to 63 buckets of one cache line; probing, filling,
//! emptying and copying it.
//!
//! HOT PATH: no allocation except of a segment, no lock, no logging, no system call. A segment
//! knows no directory and no other segment: `resize.rs` links and unlinks them. `table.rs` shows
//! the layout.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

use braid_base::prefetch::{CACHE_LINE, prefetch};

use crate::entry::Entry;
use crate::limbo::Limbo;

/// Slots per bucket.
pub(crate) const SLOTS: usize = 7;
/// Cache lines of a segment, header included: jemalloc's size classes from 128 bytes to 4 KiB.
pub(super) const CLASSES: [u16; 19] = [2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64];
pub(super) const BUCKETS_MAX: usize = 63;

/// The has-expiry bit of a slot.
pub(super) const EXPIRES: u64 = 1;
/// The address bits of a slot, segment or directory word.
pub(super) const ADDRESS: u64 = (1 << 48) - 8;
pub(super) const NO_EXPIRY: i64 = i64::MAX;

#[repr(C, align(64))]
pub(super) struct Bucket {
    /// Bytes 0..7: tags of the slots (0 = empty); byte 7: number of entries that passed this bucket
    /// because it was full (255: many).
    pub(super) tags: AtomicU64,
    pub(super) slots: [AtomicU64; SLOTS],
}

#[repr(C, align(64))]
pub(super) struct SegmentHeader {
    pub(super) len: AtomicU32,
    pub(super) depth: AtomicU32,
    /// No entry of the segment expires before this time (ms); a lower bound, made exact when
    /// active expiry walks the segment.
    pub(super) next_expiry: AtomicI64,
}

/// Maximum number of entries that a segment of `buckets` buckets holds before it grows.
pub(super) const fn limit(buckets: usize) -> usize {
    buckets * SLOTS * 15 / 16
}

#[inline]
pub(super) fn tag_of(hash: u64) -> u8 {
    let tag = hash as u8;
    tag + u8::from(tag == 0)
}

#[inline]
pub(super) fn position_of(hash: u64) -> u64 {
    hash >> 8 & 0xffff
}

#[inline]
pub(super) fn home_of(position: u64, buckets: usize) -> usize {
    (position as usize * buckets) >> 16
}

/// Marks the zero bytes of `word` in their high bits. Exact up to the lowest zero byte; above it
/// there may be false positives.
#[inline]
fn zero_bytes(word: u64) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    word.wrapping_sub(LOW) & !word & (LOW << 7)
}

const TAG_BYTES: u64 = 0x00ff_ffff_ffff_ffff;

/// The location of a slot: its bucket and its index there.
#[derive(Clone, Copy)]
pub(super) struct SlotLocation {
    pub(super) bucket: NonNull<Bucket>,
    pub(super) slot: usize,
}

impl SlotLocation {
    #[inline]
    pub(super) fn word(self) -> u64 {
        // SAFETY: locations are made from buckets of live segments and used under the same lock.
        unsafe { self.bucket.as_ref() }.slots[self.slot].load(Relaxed)
    }
}

/// A segment: its pointer and its number of buckets in one word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment(pub(super) u64);

impl Segment {
    pub(super) fn allocate(class: u16, depth: u32) -> Segment {
        let layout = Segment::layout_of(usize::from(class) - 1);
        // SAFETY: the layout is not empty. Zeroed memory is a valid empty segment.
        let Some(block) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        let segment = Segment(block.as_ptr() as usize as u64 | u64::from(class - 1) << 48);
        let header = segment.header();
        header.depth.store(depth, Relaxed);
        header.next_expiry.store(NO_EXPIRY, Relaxed);
        segment
    }

    pub(super) fn layout_of(buckets: usize) -> Layout {
        Layout::from_size_align((buckets + 1) * 64, 64).expect("a few KiB")
    }

    #[inline]
    pub(super) fn is_null(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub(super) fn buckets(self) -> usize {
        (self.0 >> 48) as usize
    }

    #[inline]
    pub(super) fn base(self) -> *mut u8 {
        (self.0 & ADDRESS) as usize as *mut u8
    }

    #[inline]
    pub(super) fn header(&self) -> &SegmentHeader {
        // SAFETY: a non-null segment's memory begins with its header and lives as long as the
        // segment is linked or retired.
        unsafe { &*self.base().cast::<SegmentHeader>() }
    }

    #[inline]
    pub(super) fn bucket(&self, index: usize) -> &Bucket {
        debug_assert!(index < self.buckets());
        // SAFETY: the index is below the number of buckets behind the header.
        unsafe { &*self.base().add(64 * (index + 1)).cast::<Bucket>() }
    }

    #[inline]
    pub(super) fn len(self) -> usize {
        self.header().len.load(Relaxed) as usize
    }

    /// Walks the buckets that may hold an entry with this hash and calls `found` for each slot
    /// whose bits match.
    #[inline]
    pub(super) fn probe(self, hash: u64, mut found: impl FnMut(u64) -> bool) -> Option<(SlotLocation, u64)> {
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
                    // Return the word that was compared: without the lock the slot may hold
                    // another entry by now.
                    return Some((SlotLocation { bucket: NonNull::from(bucket), slot }, word));
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

    /// Stores a slot word in the first bucket with room. The segment must not be full.
    pub(super) fn place(self, tag: u8, word: u64) {
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

    /// Empties a slot and decrements its entry's counts in the overflow bytes between home and
    /// slot.
    pub(super) fn clear(self, place: SlotLocation) {
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

    /// The entries in a bucket.
    pub(super) fn entries<'a>(self, index: usize) -> impl Iterator<Item = Entry<'a>> {
        let slots = self.bucket(index).slots.each_ref().map(|slot| slot.load(Relaxed));
        slots.into_iter().filter(|&word| word != 0).map(entry_of)
    }

    pub(super) fn for_each_slot(self, mut visit: impl FnMut(SlotLocation, u8, u64)) {
        for index in 0..self.buckets() {
            let bucket = self.bucket(index);
            let tags = bucket.tags.load(Relaxed);
            for slot in 0..SLOTS {
                let word = bucket.slots[slot].load(Relaxed);
                if word != 0 {
                    visit(
                        SlotLocation { bucket: NonNull::from(bucket), slot },
                        (tags >> (8 * slot)) as u8,
                        word,
                    );
                }
            }
        }
    }

    /// Copies all slots into `target`, which has another size. Needs only the bits in the slots,
    /// no entry.
    pub(super) fn copy_into(self, target: Segment) {
        self.for_each_slot(|_, tag, word| target.place(tag, word));
        let header = target.header();
        header.len.store(header.len.load(Relaxed) + self.header().len.load(Relaxed), Relaxed);
        let earliest = header.next_expiry.load(Relaxed).min(self.header().next_expiry.load(Relaxed));
        header.next_expiry.store(earliest, Relaxed);
    }
}

/// The smallest class in which a segment of `len` entries has room for more.
pub(super) fn class_for(len: usize) -> u16 {
    *CLASSES.iter().find(|&&class| limit(usize::from(class) - 1) > len).unwrap_or(&CLASSES[CLASSES.len() - 1])
}

/// The class with half the buckets, for oversized segments at the greatest depth.
pub(super) fn halved_class(buckets: usize) -> u16 {
    u16::try_from(buckets / 2 + 1).expect("half a bucket count fits in 16 bits")
}

#[inline]
pub(super) fn entry_of<'a>(word: u64) -> Entry<'a> {
    // SAFETY: slot words hold addresses of entries that are linked or retired.
    unsafe { Entry::from_address(word & ADDRESS) }
}

/// Prefetches the first `lines` cache lines of each entry in a bucket. Returns the number of
/// entries.
#[inline]
pub(super) fn prefetch_entries(segment: Segment, index: usize, lines: usize) -> usize {
    let mut entries = 0;
    for slot in &segment.bucket(index).slots {
        let word = slot.load(Relaxed);
        if word != 0 {
            let entry = (word & ADDRESS) as usize as *const u8;
            for line in 0..lines {
                prefetch(entry.wrapping_add(line * CACHE_LINE));
            }
            entries += 1;
        }
    }
    entries
}

/// Visits the entries whose home is bucket `home` and whose position is at least `from`. Returns
/// the sum of the results of `visit`.
pub(super) fn scan_home<'a>(
    segment: Segment,
    home: usize,
    from: u64,
    visit: &mut impl FnMut(Entry<'a>) -> usize,
) -> usize {
    let buckets = segment.buckets();
    let (mut index, mut visited) = (home, 0);
    for _ in 0..buckets {
        let bucket = segment.bucket(index);
        for slot in &bucket.slots {
            let word = slot.load(Relaxed);
            if word != 0 && home_of(word >> 48, buckets) == home && word >> 48 >= from {
                visited += visit(entry_of(word));
            }
        }
        if bucket.tags.load(Relaxed) >> 56 == 0 {
            break;
        }
        index = if index + 1 == buckets { 0 } else { index + 1 };
    }
    visited
}

pub(super) fn retire_segment(segment: Segment, limbo: &mut Limbo) {
    if let Some(block) = NonNull::new(segment.base()) {
        // SAFETY: just unlinked, allocated with this layout.
        unsafe { limbo.retire_block(block, Segment::layout_of(segment.buckets())) };
    }
}
