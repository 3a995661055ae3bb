// SPDX-License-Identifier: BSD-3-Clause
//! Counting allocator: jemalloc, with the bytes in use known at any moment as the sum of
//! per-thread counters.
//!
//! Counts are of size classes (the sizes that jemalloc really reserves), so they agree with its
//! own statistics. A registered thread owns its counter and adds to it without a locked
//! instruction; all other threads share counter 0.
//!
//! The build configures jemalloc with size classes every 8 bytes. Blocks that need 16-byte
//! alignment are rounded up to a multiple of 16, because classes such as 24 or 56 are only 8-byte
//! aligned.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, Ordering};

use crossbeam_utils::CachePadded;

/// The underlying allocator. Miri and sanitizers must see allocations to check accesses, and they
/// see only the system allocator's (tests/miri, tests/sanitize); sizes are still counted as
/// jemalloc's.
#[cfg(not(any(miri, braid_sanitize)))]
const BACKING: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
#[cfg(any(miri, braid_sanitize))]
const BACKING: std::alloc::System = std::alloc::System;

/// Maximum number of threads that own a counter.
pub const COUNTERS: usize = 512;

static IN_USE: [CachePadded<AtomicIsize>; COUNTERS] =
    [const { CachePadded::new(AtomicIsize::new(0)) }; COUNTERS];

thread_local! {
    static COUNTER: Cell<usize> = const { Cell::new(0) };
}

/// Gives the calling thread counter `index` (1..[`COUNTERS`]); the caller ensures that no two live
/// threads share a counter.
pub fn register_thread(index: usize) {
    assert!((1..COUNTERS).contains(&index), "the index is not that of an owned counter");
    COUNTER.set(index);
}

/// Bytes in use by the whole process.
pub fn used_bytes() -> usize {
    IN_USE.iter().map(|counter| counter.load(Ordering::Relaxed)).sum::<isize>().max(0) as usize
}

#[inline]
fn count(delta: isize) {
    let index = COUNTER.get();
    let counter = &IN_USE[index];
    if index == 0 {
        counter.fetch_add(delta, Ordering::Relaxed);
    } else {
        counter.store(counter.load(Ordering::Relaxed) + delta, Ordering::Relaxed);
    }
}

/// Size from which on jemalloc's classes depend on its configured page size: from eight pages on
/// (32 KiB with pages of 4 KiB) it rounds up to whole pages.
const CLASSES_END: usize = 32 * 1024;

/// jemalloc's allocation size for more than [`CLASSES_END`] bytes.
#[cfg(not(any(miri, braid_sanitize)))]
fn large_class(size: usize) -> usize {
    // SAFETY: the function only computes; any size but 0 is valid.
    let class = unsafe { tikv_jemalloc_sys::nallocx(size, 0) };
    // 0 at the end of the address space, where the allocation would fail anyway.
    class.max(size)
}

/// As above, for builds in which jemalloc cannot be called or is not in use.
#[cfg(any(miri, braid_sanitize))]
fn large_class(size: usize) -> usize {
    size.checked_next_multiple_of(4096).unwrap_or(size)
}

/// jemalloc's allocation size for `size` bytes: four classes per doubling, at least 8 bytes apart,
/// then whole pages.
#[inline]
pub fn size_class(size: usize) -> usize {
    if size > CLASSES_END {
        return large_class(size);
    }
    if size <= 8 {
        return 8;
    }
    let doubling = usize::BITS - 1 - (size - 1).leading_zeros();
    let spacing = 1usize << doubling.saturating_sub(2).max(3);
    (size + spacing - 1) & !(spacing - 1)
}

/// Counts a block that was allocated from jemalloc directly, with a layout of [`adjust`].
#[cfg(not(any(miri, braid_sanitize)))]
pub(crate) fn note_allocation(layout: Layout) {
    count(size_class(layout.size()) as isize);
}

/// The layout with which a block of the given layout is allocated.
#[inline]
pub(crate) fn adjust(layout: Layout) -> Layout {
    if layout.align() == 16 && layout.size() & 15 != 0 {
        // SAFETY: rounding up to the (power of two) alignment of a valid layout stays valid.
        unsafe { Layout::from_size_align_unchecked((layout.size() + 15) & !15, 16) }
    } else {
        layout
    }
}

/// The process's global allocator.
pub struct CountingAllocator;

// SAFETY: every call goes to jemalloc with a layout that is a pure function of the caller's, so
// allocation and release agree.
unsafe impl GlobalAlloc for CountingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let layout = adjust(layout);
        // SAFETY: the caller's contract.
        let block = unsafe { BACKING.alloc(layout) };
        if !block.is_null() {
            count(size_class(layout.size()) as isize);
        }
        block
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let layout = adjust(layout);
        // SAFETY: the caller's contract.
        let block = unsafe { BACKING.alloc_zeroed(layout) };
        if !block.is_null() {
            count(size_class(layout.size()) as isize);
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let layout = adjust(layout);
        count(-(size_class(layout.size()) as isize));
        // SAFETY: the caller's contract; the same adjustment as at allocation.
        unsafe { BACKING.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let old = adjust(layout);
        // SAFETY: GlobalAlloc's contract makes (new_size, align) a valid layout.
        let new = adjust(unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) });
        // SAFETY: the caller's contract.
        let moved = unsafe { BACKING.realloc(block, old, new.size()) };
        if !moved.is_null() {
            count(size_class(new.size()) as isize - size_class(old.size()) as isize);
        }
        moved
    }
}

// Miri cannot call jemalloc.
#[cfg(all(test, not(miri), not(braid_sanitize)))]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator;

    #[test]
    fn size_classes_are_the_allocators() {
        let steps = (5000..2 << 20).step_by(1021);
        let large = [32_768, 32_769, 36_864, 36_865, 65_537, 1 << 20, (1 << 20) + 1, 123_456_789];
        for size in (1..5000).chain(steps).chain(large) {
            // SAFETY: allocated and released with the same size; nallocx has no precondition on a
            // nonzero size.
            let real = unsafe { tikv_jemalloc_sys::nallocx(size, 0) };
            assert_eq!(size_class(size), real, "size {size}");
        }
    }

    #[test]
    fn sixteen_byte_alignment_survives_small_classes() {
        let layout = Layout::from_size_align(52, 16).unwrap();
        let blocks: Vec<_> = (0..100)
            .map(|_| {
                // SAFETY: a valid layout of non-zero size.
                unsafe { ALLOCATOR.alloc(layout) }
            })
            .collect();
        for block in blocks {
            assert_eq!(block as usize % 16, 0);
            // SAFETY: allocated above with this layout.
            unsafe { ALLOCATOR.dealloc(block, layout) };
        }
    }

    #[test]
    fn used_bytes_tracks_allocations_and_frees() {
        // Far more than concurrent tests allocate or free; never touched, so it takes no memory.
        let (size, others) = (1 << 30, 256 << 20);
        let before = used_bytes();
        let block: Vec<u8> = std::hint::black_box(Vec::with_capacity(size));
        assert!(used_bytes() >= before + size - others);
        drop(block);
        assert!(used_bytes() < before + others);
    }
}
