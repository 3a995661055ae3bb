// SPDX-License-Identifier: BSD-3-Clause
//! A block of words that counts its owners.
//!
//! Unlike an `Arc` it can be moved to another address while it has one owner, and its owner count
//! takes one word.
//!
//! Invariants (maintained only in this file): the pointer is valid for the head and `len` words,
//! allocated with [`layout`] of that many; all words are always initialised; the count is the
//! number of [`Block`]s with this pointer, and the last one to be dropped frees the memory. An
//! owner that sees that it is the only one also sees (acquire) all accesses of former owners
//! (release).

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicU32, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed},
};

use braid_base::alloc::size_class;
use braid_base::relocation::Mover;

/// Before the words: the number of owners.
type Head = AtomicUsize;

/// Bytes before the words.
pub const HEADER_BYTES: usize = size_of::<Head>();

/// A block of words. A clone is another owner and copies nothing.
pub struct Block {
    head: NonNull<Head>,
    len: usize,
}

// SAFETY: the words and the count are atomic, and the memory is freed by the last owner.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

fn layout(len: usize) -> Layout {
    let bytes = len.checked_mul(size_of::<AtomicU32>()).and_then(|bytes| bytes.checked_add(HEADER_BYTES));
    bytes
        .and_then(|bytes| Layout::from_size_align(bytes, align_of::<Head>()).ok())
        .expect("a size that fits the address space")
}

impl Block {
    /// A block of zeros.
    pub fn new(len: usize) -> Block {
        let layout = layout(len);
        // SAFETY: the layout has room for the head, so it is not empty.
        let block = unsafe { alloc_zeroed(layout) };
        let Some(head) = NonNull::new(block.cast::<Head>()) else { handle_alloc_error(layout) };
        // SAFETY: just allocated, with room for a head and its alignment.
        unsafe { head.write(AtomicUsize::new(1)) };
        Block { head, len }
    }

    /// Bytes that a block of so many words takes.
    pub fn bytes(len: usize) -> usize {
        size_class(layout(len).size())
    }

    /// A block of so many words that begins with those of this one.
    pub fn copied(&self, len: usize) -> Block {
        let copy = Block::new(len);
        for (from, to) in self.iter().zip(&*copy) {
            to.store(from.load(Relaxed), Relaxed);
        }
        copy
    }

    /// True if there is no other owner. No other can appear while this one is borrowed mutably.
    #[inline]
    pub fn is_own(&mut self) -> bool {
        self.owners() == 1
    }

    /// Number of owners.
    #[inline]
    pub fn owners(&self) -> usize {
        // SAFETY: valid as long as there is an owner.
        unsafe { self.head.as_ref() }.load(Acquire)
    }

    /// Moves the block to a better place, unless it has other owners.
    pub fn relocate(&mut self, mover: &mut Mover) {
        if !self.is_own() {
            return;
        }
        // SAFETY: allocated with this layout; this is the only owner, and it is borrowed mutably.
        if let Some(moved) = unsafe { mover.relocate(self.head.cast(), layout(self.len)) } {
            self.head = moved.cast();
        }
    }
}

impl std::ops::Deref for Block {
    type Target = [AtomicU32];

    #[inline]
    fn deref(&self) -> &[AtomicU32] {
        // SAFETY: `len` initialised words follow the head, and live as long as this owner; they
        // are changed only as atomic words.
        unsafe { std::slice::from_raw_parts(self.head.add(1).cast().as_ptr(), self.len) }
    }
}

impl Clone for Block {
    fn clone(&self) -> Block {
        // SAFETY: valid as long as there is an owner.
        unsafe { self.head.as_ref() }.fetch_add(1, Relaxed);
        Block { head: self.head, len: self.len }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: valid until the last owner, which this may be, has gone.
        let owners = unsafe { self.head.as_ref() }.fetch_sub(1, AcqRel);
        if owners == 1 {
            // SAFETY: allocated with this layout, and no other owner is left.
            unsafe { dealloc(self.head.as_ptr().cast(), layout(self.len)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(block: &Block) -> Vec<u32> {
        block.iter().map(|word| word.load(Relaxed)).collect()
    }

    #[test]
    fn a_block_moves_only_with_one_owner() {
        let mut mover = Mover::new(u64::MAX / 4, true);
        for len in [0, 1, 2, 33, 5000] {
            let mut block = Block::new(len);
            block.iter().zip(7..).for_each(|(word, number)| word.store(number, Relaxed));
            let (before, place) = (content(&block), block.as_ptr());
            let other = block.clone();
            block.relocate(&mut mover);
            assert!(!block.is_own() && std::ptr::eq(block.as_ptr(), place));
            drop(other);
            block.relocate(&mut mover);
            assert!(block.is_own() && !std::ptr::eq(block.as_ptr(), place));
            assert_eq!(content(&block), before);
            assert_eq!(content(&block.copied(len + 2)), [&before[..], &[0, 0]].concat());
            assert_eq!(content(&block.copied(len / 2)), before[..len / 2]);
        }
        assert_eq!(mover.hits, 5);
    }

    #[test]
    fn owners_on_threads_part() {
        for _ in 0..100 {
            let block = Block::new(10);
            block[9].store(5, Relaxed);
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    let block = block.clone();
                    scope.spawn(move || assert_eq!(block[9].load(Relaxed), 5));
                }
                drop(block);
            });
        }
    }
}
