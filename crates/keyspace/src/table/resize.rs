// SPDX-License-Identifier: BSD-3-Clause
//! Growing and shrinking a table: segments change size, split and merge; the directory doubles and
//! halves.
//!
//! Each step replaces at most one segment (or two neighbours) and retires the old one, so a
//! concurrent reader never loses the memory that it reads. Apart from the directory's words, no
//! step moves more than 4 KiB.

use braid_base::prefetch::prefetch;
use braid_base::relocation::Mover;
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};

use super::segment::{
    ADDRESS, BUCKETS_MAX, SLOTS, Segment, class_for, entry_of, halved_class, limit, retire_segment,
};
use super::{DEPTH_MAX, DIRECTORY, Table, below_shard};
use crate::limbo::Limbo;

impl Table {
    /// Links `new` wherever `old` is linked (that is, for all hashes with `old`'s prefix) and
    /// retires `old`.
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

    /// Moves the segment that serves a directory prefix, left-aligned in [`DEPTH_MAX`] bits, to a
    /// better place, if there is one.
    ///
    /// # Safety
    /// The caller holds the shard exclusively.
    pub(super) unsafe fn relocate_segment(&self, prefix: u64, mover: &mut Mover, limbo: &mut Limbo) {
        let old = Table::segment_at(self.root.load(Relaxed), prefix);
        let Some(block) = NonNull::new(old.base()) else { return };
        let layout = Segment::layout_of(old.buckets());
        // SAFETY: allocated with this layout, and all of it is initialised; it changes only under
        // the exclusive lock.
        unsafe {
            let Some(place) = mover.place_for(block, layout) else { return };
            place.copy_from_nonoverlapping(block, layout.size());
            let moved = Segment(old.0 & !ADDRESS | place.as_ptr() as usize as u64);
            self.relink(old, moved, prefix << (64 - DEPTH_MAX), limbo);
        }
    }

    /// The directory words of all hashes (below the shard's bits) that share the first `depth`
    /// bits of `prefix_hash`.
    fn words_of<'a>(root: u64, depth: u32, prefix_hash: u64) -> &'a [AtomicU64] {
        let global = (root >> 48) as u32;
        let span = 1usize << (global - depth);
        let first = if depth == 0 { 0 } else { ((prefix_hash >> (64 - depth)) as usize) * span };
        &Table::directory(root)[first..first + span]
    }

    pub(super) unsafe fn grow(
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
                // 16 million segments in one shard: from here on segments only get larger.
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
        // The next bit of each key's hash decides; the slot does not have it, so the keys are
        // hashed again.
        segment.for_each_slot(|_, _, word| prefetch((word & ADDRESS) as usize as *const u8));
        // A short string's key is behind its value, in other cache lines than the header.
        segment.for_each_slot(|_, _, word| {
            let key = entry_of(word).key().as_ptr_range();
            prefetch(key.start);
            prefetch(key.end.wrapping_sub(1));
        });
        let bit_of = |word: u64| below_shard(rehash(entry_of(word).key()), shard_bits) >> (63 - depth) & 1;
        // One bit per used slot, in walk order, so that no key is hashed twice.
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

    /// Makes a directory, or doubles it; every segment stays linked.
    fn double_directory(&self, root: u64, limbo: &mut Limbo) -> u64 {
        let old: &[AtomicU64] =
            if root & DIRECTORY == 0 { std::slice::from_ref(&self.root) } else { Table::directory(root) };
        let new_root = allocate_directory(old.len().ilog2() + 1);
        for (index, word) in Table::directory(new_root).iter().enumerate() {
            word.store(old[index / 2].load(Relaxed), Relaxed);
        }
        self.root.store(new_root, Release);
        if root & DIRECTORY != 0 {
            retire_directory(root, limbo);
        }
        new_root
    }

    /// Frees memory after removals: shrinks a segment, or merges two neighbours.
    pub(super) fn shrink(&self, segment: Segment, hash: u64, shard_bits: u32, limbo: &mut Limbo) {
        let below = below_shard(hash, shard_bits);
        // The merged segment may also fit together with its own neighbour. Without further
        // removals no later call would notice.
        let mut last = segment;
        while let Some(merged) = self.merge(last, below, limbo) {
            last = merged;
        }
        if last != segment {
            self.halve_directory(limbo);
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

    /// Merges two neighbours whose entries fit into one segment with enough room left.
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

    /// Halves the directory while no segment needs all its bits. The search for a segment that
    /// does usually ends at the first words, so a check after every merge is cheap; the directory
    /// doubles again only when a segment has filled up.
    fn halve_directory(&self, limbo: &mut Limbo) {
        loop {
            let root = self.root.load(Relaxed);
            if root & DIRECTORY == 0 {
                return;
            }
            let (old, depth) = (Table::directory(root), (root >> 48) as u32 - 1);
            // A single segment needs no directory: the merge of two into one removes it, so there
            // are at least two.
            let shared = |pair: &[AtomicU64]| pair[0].load(Relaxed) == pair[1].load(Relaxed);
            if depth == 0 || !old.chunks_exact(2).all(shared) {
                return;
            }
            let new_root = allocate_directory(depth);
            for (word, pair) in Table::directory(new_root).iter().zip(old.chunks_exact(2)) {
                word.store(pair[0].load(Relaxed), Relaxed);
            }
            self.root.store(new_root, Release);
            retire_directory(root, limbo);
        }
    }
}

/// The root word of a directory of `2^depth` empty words, which the caller fills before it
/// publishes the directory.
fn allocate_directory(depth: u32) -> u64 {
    let layout = directory_layout(depth);
    // SAFETY: the layout is not empty; zeroed memory is valid for atomic words.
    let Some(block) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
    block.as_ptr() as usize as u64 | DIRECTORY | u64::from(depth) << 48
}

pub(super) fn directory_layout(depth: u32) -> Layout {
    Layout::array::<u64>(1 << depth).expect("at most 2^24 words")
}

fn retire_directory(root: u64, limbo: &mut Limbo) {
    if let Some(block) = NonNull::new((root & ADDRESS) as usize as *mut u8) {
        // SAFETY: just unlinked, allocated with this layout.
        unsafe { limbo.retire_block(block, directory_layout((root >> 48) as u32)) };
    }
}
