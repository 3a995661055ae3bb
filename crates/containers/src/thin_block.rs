// SPDX-License-Identifier: BSD-3-Clause
//! A heap block behind one thin pointer: capacity, one word for the owner, then bytes.
//!
//! Sets of integers and the segments of the member tables are such blocks, because a pointer of 8
//! bytes in the owner and 8 bytes in the block cost less than a `Vec` in every small value. The
//! block does not interpret its content and never exposes an uninitialised byte.
//!
//! Invariants (maintained only in this file): the pointer is valid for `HEADER + capacity` bytes,
//! allocated with the layout of that size; the first word is the capacity; every byte after the
//! header is always initialised (new bytes are zero), so that the whole capacity can be handed out
//! as a plain slice.
//!
//! A block can be shared (see [`cow`](crate::cow), whose rules apply here too): the highest bit of
//! the first word marks it as shared.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error, realloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use braid_base::relocation::Mover;

use crate::cow::note_copy;

#[repr(C)]
struct Header {
    capacity: AtomicU32,
    word: u32,
}

/// Flag in the capacity word: the block is shared.
const SHARED: u32 = 1 << 31;

/// Bytes in front of the content.
pub const HEADER: usize = size_of::<Header>();

/// Maximum capacity of a block, in bytes.
pub const MAX_CAPACITY: usize = SHARED as usize - 4096;

/// An owned, always initialised block of bytes, one pointer wide.
#[repr(transparent)]
pub struct ThinBlock(NonNull<Header>);

// SAFETY: the block owns its bytes and is changed only through a unique reference; a shared block
// is not changed.
unsafe impl Send for ThinBlock {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for ThinBlock {}

fn layout(capacity: usize) -> Layout {
    assert!(capacity <= MAX_CAPACITY, "a block exceeds 2 GiB");
    Layout::from_size_align(capacity + HEADER, align_of::<Header>())
        .expect("a size that fits the address space")
}

/// The size of the smallest allocator size class that holds `bytes`. Classes are 8 bytes apart up
/// to 64, then four per doubling, as in jemalloc with a quantum of 8; an allocation of that size
/// wastes nothing to rounding.
pub fn size_class(bytes: usize) -> usize {
    if bytes <= 64 {
        return bytes.max(8).next_multiple_of(8);
    }
    let step = (bytes.checked_next_power_of_two().unwrap_or(usize::MAX / 2) / 8).max(8);
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

/// The capacity of a block of at least `bytes`, rounded up to the allocator's size class.
pub fn round_capacity(bytes: usize) -> usize {
    (size_class(bytes.saturating_add(HEADER)) - HEADER).clamp(bytes.min(MAX_CAPACITY), MAX_CAPACITY)
}

impl ThinBlock {
    /// A block of `capacity` zero bytes and a zero word.
    ///
    /// # Panics
    /// If `capacity` exceeds [`MAX_CAPACITY`].
    pub fn zeroed(capacity: usize) -> ThinBlock {
        let layout = layout(capacity);
        // SAFETY: the layout is not empty, it holds at least the header.
        let raw = unsafe { alloc_zeroed(layout) };
        let Some(raw) = NonNull::new(raw.cast::<Header>()) else { handle_alloc_error(layout) };
        // SAFETY: freshly allocated, large and aligned enough for a header.
        unsafe { raw.write(Header { capacity: AtomicU32::new(capacity as u32), word: 0 }) };
        ThinBlock(raw)
    }

    #[inline]
    fn header(&self) -> &Header {
        // SAFETY: the pointer is valid as long as self.
        unsafe { self.0.as_ref() }
    }

    /// The block's address, for a prefetch.
    #[inline]
    pub fn address(&self) -> *const u8 {
        self.0.as_ptr().cast_const().cast()
    }

    /// Number of content bytes.
    #[inline]
    pub fn capacity(&self) -> usize {
        (self.header().capacity.load(Ordering::Relaxed) & !SHARED) as usize
    }

    /// A second owner of the same block; from now on either owner copies it before a change. If
    /// the block already has two owners, this returns a copy.
    pub fn cow(&self) -> ThinBlock {
        if self.header().capacity.fetch_or(SHARED, Ordering::Relaxed) & SHARED != 0 {
            return self.clone();
        }
        ThinBlock(self.0)
    }

    /// Ensures that this is the only owner, copying a shared block.
    #[inline]
    fn own(&mut self) {
        if self.header().capacity.load(Ordering::Acquire) & SHARED != 0 {
            self.part();
        }
    }

    #[cold]
    fn part(&mut self) {
        let copy = self.clone();
        note_copy(self.allocation_bytes());
        *self = copy;
    }

    /// Moves the block to a better place, unless it is shared.
    pub fn relocate(&mut self, mover: &mut Mover) {
        if self.header().capacity.load(Ordering::Acquire) & SHARED != 0 {
            return;
        }
        // SAFETY: allocated with the layout of its capacity; not shared, and borrowed mutably, so
        // nobody else reads it.
        if let Some(moved) = unsafe { mover.relocate(self.0.cast(), layout(self.capacity())) } {
            self.0 = moved.cast();
        }
    }

    /// Bytes of the whole allocation.
    #[inline]
    pub fn allocation_bytes(&self) -> usize {
        self.capacity() + HEADER
    }

    /// The owner's word.
    #[inline]
    pub fn word(&self) -> u32 {
        self.header().word
    }

    /// Sets the owner's word.
    #[inline]
    pub fn set_word(&mut self, word: u32) {
        self.own();
        // SAFETY: valid, uniquely borrowed and not shared.
        unsafe { self.0.as_mut().word = word };
    }

    /// All content bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `capacity` bytes behind the header are initialised and live as long as self.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(1).cast::<u8>(), self.capacity()) }
    }

    /// All content bytes, for writing.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.own();
        let capacity = self.capacity();
        // SAFETY: as for bytes, uniquely borrowed and not shared.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr().add(1).cast::<u8>(), capacity) }
    }

    /// Changes the capacity. Content up to the smaller capacity is kept; new bytes are zero.
    ///
    /// # Panics
    /// If `capacity` exceeds [`MAX_CAPACITY`].
    pub fn resize(&mut self, capacity: usize) {
        self.own();
        let (old, new) = (self.capacity(), layout(capacity));
        // SAFETY: allocated with the layout of the old capacity; the new size is not zero.
        let raw = unsafe { realloc(self.0.as_ptr().cast(), layout(old), new.size()) };
        let Some(raw) = NonNull::new(raw.cast::<Header>()) else { handle_alloc_error(new) };
        self.0 = raw;
        // SAFETY: valid for the new size; bytes past the old capacity are zeroed before they can
        // be read.
        unsafe {
            if capacity > old {
                std::ptr::write_bytes(raw.as_ptr().add(1).cast::<u8>().add(old), 0, capacity - old);
            }
            *self.0.as_mut().capacity.get_mut() = capacity as u32;
        }
    }
}

impl Clone for ThinBlock {
    fn clone(&self) -> ThinBlock {
        let mut copy = ThinBlock::zeroed(self.capacity());
        copy.set_word(self.word());
        copy.bytes_mut().copy_from_slice(self.bytes());
        copy
    }
}

impl Drop for ThinBlock {
    fn drop(&mut self) {
        let word = &self.header().capacity;
        if word.load(Ordering::Acquire) & SHARED != 0
            && word.fetch_and(!SHARED, Ordering::AcqRel) & SHARED != 0
        {
            // The block belongs to the other owner.
            return;
        }
        let layout = layout(self.capacity());
        // SAFETY: allocated with this layout, and no other owner has the pointer.
        unsafe { dealloc(self.0.as_ptr().cast(), layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_shows_zeros_and_shrinking_keeps_the_front() {
        let mut block = ThinBlock::zeroed(3);
        block.bytes_mut().copy_from_slice(b"abc");
        block.set_word(7);
        block.resize(300);
        assert_eq!(&block.bytes()[..4], b"abc\0");
        assert!(block.bytes()[3..].iter().all(|&byte| byte == 0));
        block.bytes_mut()[299] = 9;
        block.resize(2);
        block.resize(300);
        assert!(block.bytes()[2..].iter().all(|&byte| byte == 0), "a stale byte reappears");
        assert_eq!((block.word(), block.capacity(), block.allocation_bytes()), (7, 300, 308));
        assert_eq!(block.clone().bytes(), block.bytes());
    }

    #[test]
    fn shared_block_outlives_either_owner() {
        let mut block = ThinBlock::zeroed(100);
        block.bytes_mut().fill(1);
        block.set_word(5);
        let changes: [fn(&mut ThinBlock); 3] =
            [|block| block.bytes_mut().fill(2), |block| block.set_word(6), |block| block.resize(3)];
        for change in changes {
            let shared = block.cow();
            assert_eq!(shared.address(), block.address(), "no copy");
            change(&mut block);
            assert!(shared.bytes() == [1; 100] && shared.word() == 5 && shared.capacity() == 100);
            // The only owner again: it changes the block in place.
            block = shared;
            let place = block.address();
            block.bytes_mut().fill(1);
            assert_eq!(block.address(), place);
        }
        let (shared, copy) = (block.cow(), block.cow());
        assert_ne!(copy.address(), shared.address(), "a third owner gets a copy");
        drop(block);
        assert_eq!((shared.bytes(), shared.capacity()), (copy.bytes(), 100));
    }

    #[test]
    fn empty_blocks_and_niches() {
        let mut block = ThinBlock::zeroed(0);
        assert!(block.bytes().is_empty());
        block.resize(1);
        block.resize(0);
        assert_eq!(size_of::<Option<ThinBlock>>(), 8);
    }

    #[test]
    fn size_classes_are_jemallocs() {
        for (want, class) in [
            (1, 8),
            (8, 8),
            (9, 16),
            (57, 64),
            (64, 64),
            (65, 80),
            (81, 96),
            (113, 128),
            (129, 160),
            (1025, 1280),
            (8192, 8192),
            (8193, 10240),
        ] {
            assert_eq!(size_class(want), class, "{want}");
        }
        assert_eq!(round_capacity(0), 0);
        assert_eq!(round_capacity(1), 8);
        assert_eq!(round_capacity(57), 72);
        assert_eq!(round_capacity(MAX_CAPACITY), MAX_CAPACITY);
    }
}
