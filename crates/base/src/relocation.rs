// SPDX-License-Identifier: BSD-3-Clause
//! Relocation: finds a better place for a block that lies in a sparsely filled slab.
//!
//! jemalloc puts small blocks of one size class into slabs, and a slab's pages go back to the
//! system only once all of its blocks are free. After many removals most slabs hold a few blocks
//! each. A [`Mover`] asks the allocator how full a block's slab is. If much of it is free, and it
//! is emptier than the slab that the allocator fills next or than the average slab of its class,
//! the mover allocates a block of the same size in the same arena. The allocator fills one slab
//! after another, so moves end, and a heap that is dense costs one query a block.
//!
//! The new block bypasses the thread's cache, which would hand out the places just given up.
//!
//! This module decides and allocates. Who owns a block, who may still read it, and when the old
//! one may be freed is known only to the callers.
//!
//! Under Miri and sanitizers, which know no slabs, only a mover that moves everything moves
//! anything.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

use crate::clock::{TickSpan, Ticks};

/// A slab is left alone if less than this share of it is free (1 / 16).
const FREE_SHARE: usize = 16;

/// Moves blocks for a limited time, and counts them.
pub struct Mover {
    /// Blocks move whether that saves memory or not: for tests.
    moves_all: bool,
    start: Ticks,
    span: TickSpan,
    /// Blocks moved.
    pub hits: u64,
    /// Blocks examined that stayed.
    pub misses: u64,
}

impl Mover {
    /// A mover whose time is over after `nanos`.
    pub fn new(nanos: u64, moves_all: bool) -> Mover {
        Mover { moves_all, start: Ticks::now(), span: TickSpan::from_nanos(nanos), hits: 0, misses: 0 }
    }

    /// True once the time is over: the caller should end at the next occasion.
    #[inline]
    pub fn is_over(&self) -> bool {
        Ticks::now().exceeds(self.start, self.span)
    }

    /// A new, uninitialised block of this layout at a better place than `block`, or `None` if the
    /// block should stay. The caller copies the content and frees `block` when nobody reads it any
    /// more.
    ///
    /// # Safety
    /// `block` is allocated by the global allocator with this layout, which is not empty.
    pub unsafe fn place_for(&mut self, block: NonNull<u8>, layout: Layout) -> Option<NonNull<u8>> {
        let place = if self.moves_all {
            // SAFETY: guaranteed by the caller: not empty.
            NonNull::new(unsafe { alloc(layout) })
        } else {
            // SAFETY: guaranteed by the caller.
            unsafe { fuller_place(block, layout) }
        };
        match place {
            Some(_) => self.hits += 1,
            None => self.misses += 1,
        }
        place
    }

    /// Moves a block that no other thread can read, and frees the old one. Returns the new
    /// address, or `None` if the block has stayed.
    ///
    /// # Safety
    /// As for [`Mover::place_for`]; the caller is the only one to reach the block, and uses its old
    /// address no more if this returns a new one. Its content may be moved as bytes.
    pub unsafe fn relocate(&mut self, block: NonNull<u8>, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: guaranteed by the caller; two blocks of this layout, and the old one is freed
        // once.
        unsafe {
            let place = self.place_for(block, layout)?;
            place.copy_from_nonoverlapping(block, layout.size());
            dealloc(block.as_ptr(), layout);
            Some(place)
        }
    }

    /// Moves a slice that only the caller can reach.
    pub fn relocate_slice<T>(&mut self, place: &mut Box<[T]>) {
        let (layout, len) = (Layout::for_value(&**place), place.len());
        if layout.size() == 0 {
            return;
        }
        let block = NonNull::from(&mut **place).cast::<u8>();
        // SAFETY: as in `relocate_box`.
        unsafe {
            if let Some(moved) = self.relocate(block, layout) {
                let content = std::ptr::slice_from_raw_parts_mut(moved.cast::<T>().as_ptr(), len);
                std::ptr::write(place, Box::from_raw(content));
            }
        }
    }

    /// Moves a text that only the caller can reach.
    pub fn relocate_text(&mut self, place: &mut Box<str>) {
        let mut bytes = std::mem::take(place).into_boxed_bytes();
        self.relocate_slice(&mut bytes);
        // SAFETY: the bytes of a text.
        *place = unsafe { std::str::from_boxed_utf8_unchecked(bytes) };
    }

    /// Moves the block of a vector that only the caller can reach.
    pub fn relocate_vec<T>(&mut self, place: &mut Vec<T>) {
        let Ok(layout) = Layout::array::<T>(place.capacity()) else { return };
        if layout.size() == 0 {
            return;
        }
        let (len, capacity) = (place.len(), place.capacity());
        let Some(block) = NonNull::new(place.as_mut_ptr().cast::<u8>()) else { return };
        // SAFETY: as in `relocate_box`; a vector's block has the layout of its capacity.
        unsafe {
            if let Some(moved) = self.relocate(block, layout) {
                std::ptr::write(place, Vec::from_raw_parts(moved.cast::<T>().as_ptr(), len, capacity));
            }
        }
    }

    /// Moves a box that only the caller can reach.
    pub fn relocate_box<T>(&mut self, place: &mut Box<T>) {
        let layout = Layout::new::<T>();
        if layout.size() == 0 {
            return;
        }
        let block = NonNull::from(&mut **place).cast::<u8>();
        // SAFETY: a box is allocated with its type's layout and borrowed mutably here; values move
        // as bytes. The old pointer is overwritten without being dropped.
        unsafe {
            if let Some(moved) = self.relocate(block, layout) {
                std::ptr::write(place, Box::from_raw(moved.cast::<T>().as_ptr()));
            }
        }
    }
}

/// A walk through the parts of a collection, each of which has positions of its own, as one walk
/// that can continue at any of them.
///
/// ```text
/// position: | 32 bits of the part's number | 32 bits of the position in it |
/// ```
pub struct Parts<'m> {
    mover: &'m mut Mover,
    from: u64,
    number: u64,
}

impl<'m> Parts<'m> {
    /// A walk from a position on, 0 at first.
    pub fn new(from: u64, mover: &'m mut Mover) -> Parts<'m> {
        Parts { mover, from, number: 0 }
    }

    /// The next part, unless it is behind the walk: `relocate` takes the position in it, and
    /// returns where it has ended before its end. The walk ends with the position returned here.
    pub fn part(&mut self, relocate: impl FnOnce(u64, &mut Mover) -> Option<u64>) -> Option<u64> {
        let number = self.number;
        self.number += 1;
        let (first, at) = (self.from >> 32, self.from & u64::from(u32::MAX));
        if number < first {
            return None;
        }
        let next = relocate(if number == first { at } else { 0 }, self.mover)?;
        // A position that does not fit leaves the rest of the part for the next pass.
        Some(if next >> 32 == 0 { number << 32 | next } else { (number + 1) << 32 })
    }
}

/// How full the allocator's slabs are.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Bytes of all blocks.
    pub allocated: usize,
    /// Bytes of the pages that have at least one block.
    pub active: usize,
}

impl Occupancy {
    /// Bytes of such pages that hold no block.
    pub fn waste(self) -> usize {
        self.active.saturating_sub(self.allocated)
    }

    /// The waste as a percentage of the bytes of all blocks.
    pub fn percent(self) -> usize {
        self.waste().saturating_mul(100) / self.allocated.max(1)
    }
}

pub use backing::{flush_cache, fuller_place, occupancy};

#[cfg(not(any(miri, braid_sanitize)))]
mod backing {
    //! jemalloc's control functions, each with buffers of exactly the size that it documents.

    use std::alloc::Layout;
    use std::ffi::CStr;
    use std::ptr::{NonNull, null_mut};
    use std::sync::OnceLock;

    use tikv_jemalloc_sys as je;

    use super::{FREE_SHARE, Occupancy};
    use crate::alloc::{adjust, note_allocation, used_bytes};

    /// A name of the allocator, looked up once.
    struct Name<const PARTS: usize>(OnceLock<Option<[usize; PARTS]>>, &'static CStr);

    impl<const PARTS: usize> Name<PARTS> {
        const fn new(name: &'static CStr) -> Name<PARTS> {
            Name(OnceLock::new(), name)
        }

        fn parts(&self) -> Option<&[usize; PARTS]> {
            let look_up = || {
                let (mut parts, mut len) = ([0; PARTS], PARTS);
                // SAFETY: a terminated name, and room for `len` parts.
                let error = unsafe { je::mallctlnametomib(self.1.as_ptr(), parts.as_mut_ptr(), &mut len) };
                (error == 0 && len == PARTS).then_some(parts)
            };
            self.0.get_or_init(look_up).as_ref()
        }

        /// Calls the function of this name with an input and an output.
        fn call<I, O: Default>(&self, input: Option<I>) -> Option<O> {
            let parts = self.parts()?;
            let (mut output, mut len) = (O::default(), size_of::<O>());
            let (input_at, input_len) = match &input {
                Some(input) => (std::ptr::from_ref(input).cast_mut().cast(), size_of::<I>()),
                None => (null_mut(), 0),
            };
            let (output_at, len_at) =
                if len == 0 { (null_mut(), null_mut()) } else { ((&raw mut output).cast(), &raw mut len) };
            // SAFETY: the allocator compares both sizes with those that it expects before it reads
            // or writes, and writes at most `len` bytes.
            let error =
                unsafe { je::mallctlbymib(parts.as_ptr(), PARTS, output_at, len_at, input_at, input_len) };
            (error == 0 && len == size_of::<O>()).then_some(output)
        }
    }

    static BATCH_QUERY: Name<3> = Name::new(c"experimental.utilization.batch_query");
    static QUERY: Name<3> = Name::new(c"experimental.utilization.query");
    static LOOKUP: Name<2> = Name::new(c"arenas.lookup");
    static FLUSH: Name<3> = Name::new(c"thread.tcache.flush");
    static EPOCH: Name<1> = Name::new(c"epoch");
    static ALLOCATED: Name<2> = Name::new(c"stats.allocated");
    static ACTIVE: Name<2> = Name::new(c"stats.active");

    /// Numbers of free places and of all places in the slab around an address. A block that is no
    /// part of a slab has one place, which is not free.
    fn slab(address: *const u8) -> Option<(usize, usize)> {
        let [free, places, _]: [usize; 3] = BATCH_QUERY.call(Some(address))?;
        Some((free, places))
    }

    /// True if blocks come from jemalloc: asking it about others would be a memory fault. Programs
    /// that do not set our allocator, such as some tests, have counted no block.
    fn is_in_use() -> bool {
        static IN_USE: OnceLock<bool> = OnceLock::new();
        *IN_USE.get_or_init(|| used_bytes() > 0)
    }

    /// See [`super::Mover::place_for`].
    ///
    /// # Safety
    /// As there.
    pub unsafe fn fuller_place(block: NonNull<u8>, layout: Layout) -> Option<NonNull<u8>> {
        if !is_in_use() {
            return None;
        }
        let address = block.as_ptr().cast_const();
        let (free, places) = slab(address)?;
        if free == 0 || free * FREE_SHARE < places {
            return None;
        }
        // The slab that the next block of this class would be in, this block's own slab, and all
        // slabs of the class.
        let [next, free, places, bytes, all_free, all_places]: [usize; 6] = QUERY.call(Some(address))?;
        let is_own = (next..next.saturating_add(bytes)).contains(&block.addr().get());
        if next == 0 || is_own {
            return None;
        }
        let (next_free, _) = slab(std::ptr::without_provenance(next))?;
        let is_emptier_than_most = free.saturating_mul(all_places) >= all_free.saturating_mul(places);
        if next_free > free && !is_emptier_than_most {
            return None;
        }
        let arena: u32 = LOOKUP.call(Some(address))?;
        let layout = adjust(layout);
        let flags =
            je::MALLOCX_ALIGN(layout.align()) | je::MALLOCX_TCACHE_NONE | je::MALLOCX_ARENA(arena as usize);
        // SAFETY: the size is not zero.
        let place = NonNull::new(unsafe { je::mallocx(layout.size(), flags) }.cast::<u8>())?;
        note_allocation(layout);
        Some(place)
    }

    /// Gives the free blocks in the calling thread's cache back: each may keep a slab alive.
    pub fn flush_cache() {
        let _: Option<()> = FLUSH.call::<(), ()>(None);
    }

    /// Reads the allocator's statistics; takes several microseconds.
    pub fn occupancy() -> Occupancy {
        let _: Option<u64> = EPOCH.call(Some(1u64));
        let allocated = ALLOCATED.call::<(), usize>(None).unwrap_or(0);
        Occupancy { allocated, active: ACTIVE.call::<(), usize>(None).unwrap_or(0) }
    }
}

#[cfg(any(miri, braid_sanitize))]
mod backing {
    //! Stand-ins where jemalloc is not in use: no block has a better place.

    use std::alloc::Layout;
    use std::ptr::NonNull;

    use super::Occupancy;

    /// # Safety
    /// None.
    pub unsafe fn fuller_place(_: NonNull<u8>, _: Layout) -> Option<NonNull<u8>> {
        None
    }

    pub fn flush_cache() {}

    pub fn occupancy() -> Occupancy {
        Occupancy::default()
    }
}

#[cfg(all(test, not(miri), not(braid_sanitize)))]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const SLAB: usize = 4096;

    fn pages(blocks: &[NonNull<u8>]) -> usize {
        blocks.iter().map(|block| block.addr().get() / SLAB).collect::<HashSet<_>>().len()
    }

    /// Of each size nine blocks in ten are freed; afterwards the rest fills few pages.
    #[test]
    fn survivors_gather_in_few_pages() {
        for size in [64, 200, 1024] {
            let layout = Layout::from_size_align(size, 8).expect("a layout");
            // SAFETY: a layout that is not empty.
            let all: Vec<_> =
                (0..20_000).map(|_| NonNull::new(unsafe { alloc(layout) }).expect("memory")).collect();
            let mut random = 1u32;
            let mut kept = Vec::new();
            for block in all {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if random >> 16 & 0x3ff < 102 {
                    // SAFETY: a block of this size.
                    unsafe { block.write_bytes(kept.len() as u8, size) };
                    kept.push(block);
                } else {
                    // SAFETY: allocated above, freed once.
                    unsafe { dealloc(block.as_ptr(), layout) };
                }
            }
            flush_cache();
            let before = pages(&kept);
            let mut mover = Mover::new(u64::MAX / 4, false);
            for _ in 0..2 {
                for block in &mut kept {
                    // SAFETY: allocated with this layout, used by this test alone.
                    if let Some(moved) = unsafe { mover.relocate(*block, layout) } {
                        *block = moved;
                    }
                }
                flush_cache();
            }
            let (after, least) = (pages(&kept), (kept.len() * size).div_ceil(SLAB));
            assert!(
                after < before / 2 && after <= least * 5 / 4 + 8,
                "{size}: {before} pages, {after}, {least}"
            );
            for (number, block) in kept.into_iter().enumerate() {
                // SAFETY: as above; freed once.
                unsafe {
                    let content = std::slice::from_raw_parts(block.as_ptr(), size);
                    assert!(content.iter().all(|&byte| byte == number as u8), "content has moved along");
                    dealloc(block.as_ptr(), layout);
                }
            }
        }
    }

    #[test]
    fn dense_memory_stays() {
        let layout = Layout::from_size_align(328, 8).expect("a layout");
        // SAFETY: a layout that is not empty.
        let all: Vec<_> =
            (0..5_000).map(|_| NonNull::new(unsafe { alloc(layout) }).expect("memory")).collect();
        let mut mover = Mover::new(u64::MAX / 4, false);
        for block in all {
            // SAFETY: allocated above; freed once, wherever it is.
            unsafe {
                let at = mover.relocate(block, layout).unwrap_or(block);
                dealloc(at.as_ptr(), layout);
            }
        }
        assert!(mover.hits * 20 < mover.misses, "{} moved, {} stayed", mover.hits, mover.misses);
    }

    #[test]
    fn boxes_keep_their_content() {
        let mut mover = Mover::new(1_000_000_000, true);
        let (mut text, mut bytes) = (Box::new(String::from("content")), Box::<[u8]>::from(&b"bytes"[..]));
        let at = std::ptr::from_ref(&*text);
        mover.relocate_box(&mut text);
        mover.relocate_slice(&mut bytes);
        mover.relocate_box(&mut Box::new(()));
        assert!(!std::ptr::eq(at, &*text) && mover.hits == 2);
        assert_eq!((&text[..], &bytes[..]), ("content", &b"bytes"[..]));
        let mut letters = Vec::with_capacity(9);
        letters.extend([Box::<str>::from("a"), "bc".into()]);
        mover.relocate_vec(&mut letters);
        letters.iter_mut().for_each(|letter| mover.relocate_text(letter));
        mover.relocate_vec(&mut Vec::<u8>::new());
        mover.relocate_slice(&mut Box::<[u8]>::default());
        assert_eq!((letters.concat(), letters.capacity(), mover.hits), ("abc".into(), 9, 5));
    }

    #[test]
    fn a_walk_continues_in_the_part_where_it_ended() {
        let mut mover = Mover::new(0, true);
        let (mut from, mut seen) = (0, Vec::new());
        for _ in 0..10 {
            let mut parts = Parts::new(from, &mut mover);
            // Three parts of three places, one place in each step.
            let mut place = |part: u64| {
                let seen = &mut seen;
                parts.part(|at, _| {
                    if at < 3 {
                        seen.push((part, at));
                    }
                    (at < 3).then_some(at + 1)
                })
            };
            let Some(next) = place(0).or_else(|| place(1)).or_else(|| place(2)) else { break };
            from = next;
        }
        assert_eq!(seen, (0..3).flat_map(|part| (0..3).map(move |at| (part, at))).collect::<Vec<_>>());
    }

    #[test]
    fn occupancy_is_plausible() {
        let found = occupancy();
        assert!(found.allocated > 0 && found.active >= found.allocated);
        assert_eq!(Occupancy { allocated: 200, active: 300 }.percent(), 50);
    }
}
