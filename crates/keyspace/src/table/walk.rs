// SPDX-License-Identifier: BSD-3-Clause
//! Walking a table: SCAN's cursor and order, samples for eviction, and expired entries.
//!
//! Buckets are in hash order, so a position in hash order stays valid however segments have grown,
//! split or merged since.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use braid_base::relocation::Mover;

use super::segment::{
    EXPIRES, NO_EXPIRY, Segment, entry_of, home_of, position_of, prefetch_entries, scan_home,
};
use super::{DEPTH_MAX, DIRECTORY, Table};
use crate::entry::Entry;
use crate::limbo::Limbo;

/// The position of a SCAN within a table: before its start, or a position in the segment of a
/// directory prefix.
///
/// As a number: the prefix left-aligned, a 1 after its last bit to mark its length, zeros up to 25
/// bits, 16 bits of position. With up to 4096 shards it is short enough for clients that keep
/// cursors in floating-point numbers (53 bits).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableCursor(u64);

impl TableCursor {
    /// Bits of a cursor.
    pub const BITS: u32 = DEPTH_MAX + 1 + 16;

    /// The cursor encoded by this number.
    pub fn from_bits(bits: u64) -> TableCursor {
        TableCursor(bits & ((1 << TableCursor::BITS) - 1))
    }

    /// The cursor, encoded as a number below `2^BITS`.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// `prefix` is left-aligned in [`DEPTH_MAX`] bits, of which the first `depth` are significant.
    pub(super) fn new(prefix: u64, depth: u32, position: u64) -> TableCursor {
        TableCursor((prefix << 1 | 1 << (DEPTH_MAX - depth)) << 16 | position)
    }

    /// Prefix, depth and position.
    pub(super) fn parts(self) -> (u64, u32, u64) {
        let (marked, position) = (self.0 >> 16, self.0 & 0xffff);
        if marked == 0 {
            return (0, 0, 0);
        }
        ((marked & (marked - 1)) >> 1, DEPTH_MAX - marked.trailing_zeros(), position)
    }
}

impl Table {
    /// All segments, each once, in hash order.
    pub(super) fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
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

    /// The segment that serves a directory prefix, left-aligned in [`DEPTH_MAX`] bits. `root` is
    /// the table's root word. Null for a table without keys.
    #[inline]
    pub(super) fn segment_at(root: u64, prefix: u64) -> Segment {
        if root & DIRECTORY == 0 {
            return Segment(root);
        }
        let depth = (root >> 48) as u32;
        Segment(Table::directory(root)[(prefix >> (DEPTH_MAX - depth)) as usize].load(Acquire))
    }

    /// Calls `visit` with every entry, expired ones included.
    ///
    /// # Safety
    /// The caller holds the shard.
    pub unsafe fn for_each<'a>(&self, mut visit: impl FnMut(Entry<'a>)) {
        /// How many buckets ahead entries are prefetched.
        const AHEAD: usize = 4;
        for segment in self.segments() {
            let buckets = segment.buckets();
            for index in 0..buckets + AHEAD {
                if index < buckets {
                    prefetch_entries(segment, index, 2);
                }
                if let Some(index) = index.checked_sub(AHEAD) {
                    segment.entries(index).for_each(&mut visit);
                }
            }
        }
    }

    /// Visits the entries from `cursor` on: at least `count` of them, or up to the end. All
    /// entries with the same home bucket are visited together. Returns the next cursor, `None` at
    /// the end. Entries that stay in the table throughout a series of calls are visited at least
    /// once, however segments change in between.
    ///
    /// # Safety
    /// The caller holds the shard.
    pub unsafe fn scan<'a>(
        &self,
        cursor: TableCursor,
        count: usize,
        mut visit: impl FnMut(Entry<'a>),
    ) -> Option<TableCursor> {
        let weigh = |entry| {
            visit(entry);
            1
        };
        // SAFETY: guaranteed by the caller.
        unsafe { self.scan_weighed(cursor, count, weigh) }
    }

    /// Moves the segment that starts at `cursor`, if one does, to a better place.
    ///
    /// # Safety
    /// The caller holds the shard exclusively.
    pub(crate) unsafe fn relocate_structure(
        &self,
        cursor: TableCursor,
        mover: &mut Mover,
        limbo: &mut Limbo,
    ) {
        let (prefix, _, position) = cursor.parts();
        if position == 0 && prefix >> DEPTH_MAX == 0 {
            // SAFETY: guaranteed by the caller.
            unsafe { self.relocate_segment(prefix, mover, limbo) };
        }
    }

    /// Like [`Table::scan`], but stops once the results of `visit` add up to `most`.
    ///
    /// # Safety
    /// The caller holds the shard.
    pub unsafe fn scan_weighed<'a>(
        &self,
        cursor: TableCursor,
        most: usize,
        mut visit: impl FnMut(Entry<'a>) -> usize,
    ) -> Option<TableCursor> {
        let root = self.root.load(Relaxed);
        if root == 0 {
            return None;
        }
        let (mut prefix, cursor_depth, mut position) = cursor.parts();
        let mut visited = 0;
        loop {
            let segment = Table::segment_at(root, prefix);
            let (buckets, depth) = (segment.buckets(), segment.header().depth.load(Relaxed));
            let span = 1u64 << (DEPTH_MAX - depth);
            // The cursor's segment was merged with its neighbour, so the position is valid for
            // only a part of the segment. Visit the whole segment in one go, so that cursors never
            // move back.
            let merged = prefix & (span - 1) != 0 || (position > 0 && cursor_depth > depth);
            if merged {
                prefix &= !(span - 1);
                position = 0;
            }
            let mut home = home_of(position, buckets);
            prefetch_entries(segment, home, 1);
            while home < buckets {
                // Prefetch the next bucket's entries while these are being visited.
                if home + 1 < buckets {
                    prefetch_entries(segment, home + 1, 1);
                }
                visited += scan_home(segment, home, position, &mut visit);
                home += 1;
                // The lowest position whose home is the next bucket.
                position = ((home << 16).div_ceil(buckets)) as u64;
                if visited >= most && home < buckets && !merged {
                    return Some(TableCursor::new(prefix, depth, position));
                }
            }
            position = 0;
            prefix += span;
            if prefix >> DEPTH_MAX != 0 {
                return None;
            }
            if visited >= most {
                return Some(TableCursor::new(prefix, depth, 0));
            }
        }
    }

    /// Prefetches about `count` entries that [`Table::scan`] would visit, `lines` cache lines of
    /// each, so that the scan under the lock does not wait for memory. Only a hint: reads only the
    /// table's own words.
    ///
    /// # Safety
    /// The caller is inside the gate or holds the shard.
    pub unsafe fn prefetch_scan(&self, cursor: TableCursor, count: usize, lines: usize) {
        let root = self.root.load(Acquire);
        if root == 0 {
            return;
        }
        let (mut prefix, _, mut position) = cursor.parts();
        let mut fetched = 0;
        while prefix >> DEPTH_MAX == 0 {
            let segment = Table::segment_at(root, prefix);
            let buckets = segment.buckets();
            for home in home_of(position, buckets)..buckets {
                fetched += prefetch_entries(segment, home, lines);
                if fetched >= count {
                    return;
                }
            }
            let span = 1u64 << (DEPTH_MAX - segment.header().depth.load(Relaxed));
            prefix = (prefix & !(span - 1)) + span;
            position = 0;
        }
    }

    /// Visits the entries of one bucket of the table, the home of a random key's hash: 0 to 7.
    ///
    /// # Safety
    /// The caller holds the shard.
    pub unsafe fn sample<'a>(&self, hash: u64, shard_bits: u32, mut visit: impl FnMut(Entry<'a>)) {
        let segment = self.segment(hash, shard_bits);
        if segment.is_null() {
            return;
        }
        let index = home_of(position_of(hash), segment.buckets());
        // Prefetch all entries together: the cost of a sample is its cache misses.
        prefetch_entries(segment, index, 1);
        let bucket = segment.bucket(index);
        for slot in &bucket.slots {
            match slot.load(Relaxed) {
                0 => {}
                word => visit(entry_of(word)),
            }
        }
    }

    /// Collects expired entries from segments that may have some, stopping after about `budget`
    /// entries. Makes the bounds of the walked segments exact. Returns the number of entries
    /// examined (8 walked buckets count as one more), and false if more entries are due.
    ///
    /// # Safety
    /// The caller holds the shard exclusively.
    pub unsafe fn expired<'a>(&self, now_ms: i64, budget: usize, due: &mut Vec<Entry<'a>>) -> (usize, bool) {
        let (mut looked, mut earliest, mut complete) = (0, NO_EXPIRY, true);
        for segment in self.segments() {
            let header = segment.header();
            let bound = header.next_expiry.load(Relaxed);
            if bound >= now_ms || looked >= budget {
                complete &= bound >= now_ms;
                earliest = earliest.min(bound);
                continue;
            }
            let mut next = NO_EXPIRY;
            // Walking has a cost even if no entry has an expiry any more.
            looked += segment.buckets().div_ceil(8);
            segment.for_each_slot(|_, _, word| {
                if word & EXPIRES != 0 {
                    looked += 1;
                    let entry = entry_of(word);
                    if entry.is_expired(now_ms) {
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
}
