// SPDX-License-Identifier: BSD-3-Clause
//! A member's single allocation: its score and its bytes, reached through an 8-byte tagged
//! pointer.
//!
//! ```text
//! handle: | 8 bits of hash | 8 bits of length | 48 bits of address |
//! block:  | score, 8 bytes | [length, 8 bytes, only when the tag says 255] | the member's bytes |
//! ```
//! A 16-byte member thus takes 24 bytes, and a table can reject most wrong candidates without
//! touching the block.
//!
//! A [`Handle`] is a plain copyable value: the tree keeps one copy for order, the member table
//! another for lookups. Invariant, on which all `unsafe` here rests: **a handle is live from
//! [`Handle::create`] until [`Handle::free`]**, and `free` (unsafe) requires that no copy is used
//! afterwards. The block's bytes never change; the score changes only through
//! [`Handle::set_score`] (unsafe), whose caller has exclusive access to the set; a shared copy
//! (`big.rs`) reads bytes only.

use braid_base::prefetch::prefetch;
use braid_base::relocation::Mover;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

const ADDRESS_BITS: u32 = 48;
const ADDRESS_MASK: usize = (1 << ADDRESS_BITS) - 1;
/// The length tag of members whose length is in the block.
const LONG: usize = 0xFF;
const SCORE_SIZE: usize = 8;
const LENGTH_SIZE: usize = 8;

const _: () = assert!(usize::BITS == 64, "tagged pointers need 64-bit addresses");

/// A member of a big sorted set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handle(NonNull<u8>);

// SAFETY: a handle is a pointer to memory that only the owning set frees or changes, with
// exclusive access; otherwise any thread may read it.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    /// Allocates a member. `hash_tag` is any 8 bits of the member's hash that the table wants to
    /// compare.
    pub fn create(score: f64, bytes: &[u8], hash_tag: u8) -> Handle {
        let tag = if bytes.len() < LONG { bytes.len() } else { LONG };
        let layout = layout(tag, bytes.len());
        // SAFETY: the layout is never empty: it holds at least the score.
        let block = unsafe { alloc(layout) };
        let Some(block) = NonNull::new(block) else { handle_alloc_error(layout) };
        assert!(block.addr().get() >> ADDRESS_BITS == 0, "user addresses fit in 48 bits");
        // SAFETY: the block is 8-byte aligned and as large as `layout` computed for score, length
        // and bytes.
        unsafe {
            block.cast::<f64>().write(score);
            if tag == LONG {
                block.add(SCORE_SIZE).cast::<usize>().write(bytes.len());
            }
            block.add(bytes_offset(tag)).copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
        let high = tag | usize::from(hash_tag) << 8;
        Handle(block.map_addr(|address| address | (high << ADDRESS_BITS)))
    }

    /// Frees the block.
    ///
    /// # Safety
    /// No copy of this handle, and nothing borrowed through one, is used after the call.
    pub unsafe fn free(self) {
        let layout = layout(self.length_tag(), self.len());
        // SAFETY: allocated in `create` with the same layout; the caller promises that this is the
        // last use.
        unsafe { dealloc(self.block().as_ptr(), layout) }
    }

    /// The same member in a new block at a better place, if there is one. This one stays live.
    pub fn at_better_place(self, mover: &mut Mover) -> Option<Handle> {
        let layout = layout(self.length_tag(), self.len());
        // SAFETY: a live handle's block is allocated with this layout; the new one has room for all
        // of its bytes.
        let block = unsafe {
            let block = mover.place_for(self.block(), layout)?;
            block.copy_from_nonoverlapping(self.block(), layout.size());
            block
        };
        assert!(block.addr().get() >> ADDRESS_BITS == 0, "user addresses fit in 48 bits");
        let high = self.0.addr().get() & !ADDRESS_MASK;
        Some(Handle(block.map_addr(|address| address | high)))
    }

    /// The score.
    #[inline]
    pub fn score(self) -> f64 {
        // SAFETY: a live handle's block begins with its score.
        unsafe { self.block().cast::<f64>().read() }
    }

    /// Changes the score.
    ///
    /// # Safety
    /// No other thread reads the score during the call.
    pub unsafe fn set_score(self, score: f64) {
        // SAFETY: a live handle's block begins with its score, which no other thread reads and
        // nothing borrows.
        unsafe { self.block().cast::<f64>().write(score) }
    }

    /// The member's bytes. Borrowed from the handle's location, so that a borrow from the set's
    /// own copy cannot outlive the set's next change.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let offset = bytes_offset(self.length_tag());
        // SAFETY: a live handle's block holds `len` initialised bytes at this offset, and they
        // never change.
        unsafe { std::slice::from_raw_parts(self.block().add(offset).as_ptr(), self.len()) }
    }

    /// Length of the member in bytes.
    #[inline]
    pub fn len(self) -> usize {
        let tag = self.length_tag();
        if tag != LONG {
            return tag;
        }
        // SAFETY: a live handle's block has the length after the score if the tag is `LONG`.
        unsafe { self.block().add(SCORE_SIZE).cast::<usize>().read() }
    }

    /// The hash bits given to [`Handle::create`].
    #[inline]
    pub fn hash_tag(self) -> u8 {
        (self.0.addr().get() >> (ADDRESS_BITS + 8)) as u8
    }

    /// True if this is the member `bytes` with hash bits `hash_tag`; reads the block only if the
    /// tags agree.
    #[inline]
    pub fn is(self, hash_tag: u8, bytes: &[u8]) -> bool {
        let tag = bytes.len().min(LONG) | usize::from(hash_tag) << 8;
        self.0.addr().get() >> ADDRESS_BITS == tag && self.bytes() == bytes
    }

    /// Prefetches the block.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(self.block().as_ptr());
    }

    /// Bytes requested from the allocator for this member.
    pub fn block_size(self) -> usize {
        bytes_offset(self.length_tag()) + self.len()
    }

    #[inline]
    fn length_tag(self) -> usize {
        (self.0.addr().get() >> ADDRESS_BITS) & 0xFF
    }

    #[inline]
    fn block(self) -> NonNull<u8> {
        // SAFETY: the address bits are those of a block, hence not null.
        unsafe { NonNull::new_unchecked(self.0.as_ptr().map_addr(|address| address & ADDRESS_MASK)) }
    }
}

#[inline]
fn bytes_offset(length_tag: usize) -> usize {
    if length_tag == LONG { SCORE_SIZE + LENGTH_SIZE } else { SCORE_SIZE }
}

fn layout(length_tag: usize, len: usize) -> Layout {
    let size = bytes_offset(length_tag).checked_add(len);
    let layout = size.and_then(|size| Layout::from_size_align(size, align_of::<f64>()).ok());
    layout.expect("a slice is never longer than isize::MAX, and 16 bytes more cannot be allocated either way")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handle_round_trips_member_and_score() {
        for len in [0, 1, 7, 8, 16, 100, 253, 254, 255, 256, 70_000] {
            let bytes: Vec<u8> = (0..len).map(|index| index as u8).collect();
            let handle = Handle::create(-1.5, &bytes, 0xA7);
            assert_eq!((handle.bytes(), handle.len(), handle.score()), (&bytes[..], len, -1.5));
            assert_eq!(handle.hash_tag(), 0xA7);
            assert!(handle.is(0xA7, &bytes) && !handle.is(0xA8, &bytes));
            let mut longer = bytes.clone();
            longer.push(0);
            assert!(!handle.is(0xA7, &longer), "a prefix is another member");
            if let Some(last) = longer.get_mut(len.wrapping_sub(1)) {
                *last ^= 1;
                assert!(!handle.is(0xA7, &longer[..len]));
            }
            // SAFETY: one thread, one handle.
            unsafe { handle.set_score(f64::INFINITY) };
            assert_eq!(
                (handle.score(), handle.bytes()),
                (f64::INFINITY, &bytes[..]),
                "a new score leaves the bytes unchanged"
            );
            // SAFETY: not used again.
            unsafe { handle.free() };
        }
    }

    #[test]
    fn sixteen_bytes_take_twenty_four() {
        let handle = Handle::create(0.0, &[b'x'; 16], 0);
        assert_eq!(handle.block_size(), 24);
        // SAFETY: not used again.
        unsafe { handle.free() };
    }
}
