// SPDX-License-Identifier: BSD-3-Clause
//! The heap block of a packed list behind one thin pointer: one byte of its own, then the content.
//!
//! HOT PATH: no allocation except when the block is made, grown or shrunk.
//!
//! Most packed lists are small, and the allocator's size classes are far apart (96, 112, 128, 160):
//! each byte of overhead may push a list into the next class. Therefore the size of the allocation
//! is always one of these classes, encoded in seven bits of one byte. The eighth bit says that the
//! list does not begin at the start of the content. Its start is then stored in the room in front
//! of the list, which is large enough: seven bits per byte, low bits first, the eighth bit set if
//! another byte follows.
//!
//! Invariants (maintained only in this file): the pointer is valid for the number of bytes of the
//! class, allocated with a layout of that size; all bytes are always initialised (new bytes are
//! zero), so that the whole content can be handed out as a plain slice. The own byte is never
//! handed out. The holder of the content can overwrite the stored start, which then becomes a
//! wrong number but causes no memory unsafety.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error, realloc};
use std::ptr::NonNull;

use braid_base::relocation::Mover;

/// Bytes in front of the content.
pub(super) const OWN: usize = 1;

/// Flag in the own byte: the list does not begin at the start of the content.
const BEGINS_LATER: u8 = 0x80;

/// Alignment of blocks. A packed list may be a tagged pointer, so its address must be even.
const ALIGN: usize = 8;

/// An owned, always initialised block of bytes, one pointer wide.
#[repr(transparent)]
pub(super) struct Block(NonNull<u8>);

// SAFETY: the block owns its bytes and is changed only through a unique reference.
unsafe impl Send for Block {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Block {}

/// The size of an allocator class in bytes: 8 apart up to 64, then four per doubling.
#[inline]
fn class_bytes(class: u8) -> usize {
    let class = usize::from(class);
    if class < 8 { (class + 1) * 8 } else { (5 + class % 4) << (class / 4 + 2) }
}

/// The smallest class that holds `bytes`.
#[inline]
fn class_of(bytes: usize) -> u8 {
    let last = bytes.saturating_sub(1);
    if last < 64 {
        return (last / 8) as u8;
    }
    let doubling = last.ilog2();
    (8 + 4 * (doubling - 6)) as u8 + (last >> (doubling - 2) & 3) as u8
}

fn layout(class: u8) -> Layout {
    Layout::from_size_align(class_bytes(class), ALIGN).expect("a size that fits the address space")
}

impl Block {
    /// A block with at least `bytes` of zeroed content; the list begins at its start.
    pub(super) fn with_room(bytes: usize) -> Block {
        let class = class_of(bytes + OWN);
        let layout = layout(class);
        // SAFETY: no class is empty.
        let raw = unsafe { alloc_zeroed(layout) };
        let Some(raw) = NonNull::new(raw) else { handle_alloc_error(layout) };
        // SAFETY: freshly allocated, with at least one byte.
        unsafe { raw.write(class) };
        Block(raw)
    }

    /// The content size of a block made for `bytes`.
    pub(super) fn room_for(bytes: usize) -> usize {
        class_bytes(class_of(bytes + OWN)) - OWN
    }

    #[inline]
    fn own(&self) -> u8 {
        // SAFETY: valid and initialised as long as self.
        unsafe { self.0.read() }
    }

    #[inline]
    fn set_own(&mut self, own: u8) {
        // SAFETY: valid and uniquely borrowed.
        unsafe { self.0.write(own) };
    }

    #[inline]
    fn class(&self) -> u8 {
        self.own() & !BEGINS_LATER
    }

    /// Moves the block to a better place.
    pub(super) fn relocate(&mut self, mover: &mut Mover) {
        // SAFETY: allocated with the layout of its class, and borrowed mutably.
        if let Some(moved) = unsafe { mover.relocate(self.0, layout(self.class())) } {
            self.0 = moved;
        }
    }

    /// Size of the content in bytes.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.allocation_bytes() - OWN
    }

    /// Bytes of the whole allocation.
    #[inline]
    pub(super) fn allocation_bytes(&self) -> usize {
        class_bytes(self.class())
    }

    /// Offset of the list in the content.
    #[inline]
    pub(super) fn start(&self) -> usize {
        if self.own() & BEGINS_LATER == 0 { 0 } else { self.read_start() }
    }

    fn read_start(&self) -> usize {
        let mut start = 0;
        for (place, &byte) in self.bytes().iter().enumerate().take(5) {
            start |= usize::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                break;
            }
        }
        start
    }

    /// Sets the offset of the list. May overwrite the bytes before the list.
    #[inline]
    pub(super) fn set_start(&mut self, start: usize) {
        let class = self.class();
        if start == 0 {
            self.set_own(class);
        } else {
            self.set_own(class | BEGINS_LATER);
            self.write_start(start);
        }
    }

    fn write_start(&mut self, start: usize) {
        let mut rest = start;
        for byte in self.bytes_mut() {
            *byte = rest as u8 & 0x7f;
            rest >>= 7;
            if rest == 0 {
                return;
            }
            *byte |= 0x80;
        }
    }

    /// The whole content.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: that many bytes after the own byte are initialised and live as long as self.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(OWN), self.room()) }
    }

    /// The whole content, for writing.
    #[inline]
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        let room = self.room();
        // SAFETY: as for `bytes`, and uniquely borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr().add(OWN), room) }
    }

    /// Resizes the content to hold `bytes`. Content up to the smaller size is kept; new bytes are
    /// zero.
    pub(super) fn resize(&mut self, bytes: usize) {
        let (own, class) = (self.own(), class_of(bytes + OWN));
        let (old, new) = (layout(self.class()), layout(class));
        // SAFETY: allocated with the old layout; the new size is not zero.
        let raw = unsafe { realloc(self.0.as_ptr(), old, new.size()) };
        let Some(raw) = NonNull::new(raw) else { handle_alloc_error(new) };
        self.0 = raw;
        if new.size() > old.size() {
            // SAFETY: valid for the new size; bytes past the old size are zeroed before they can
            // be read.
            unsafe { raw.as_ptr().add(old.size()).write_bytes(0, new.size() - old.size()) };
        }
        self.set_own(own & BEGINS_LATER | class);
    }
}

impl Clone for Block {
    fn clone(&self) -> Block {
        let mut copy = Block::with_room(self.room());
        copy.set_own(self.own());
        copy.bytes_mut().copy_from_slice(self.bytes());
        copy
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and no other owner has the pointer.
        unsafe { dealloc(self.0.as_ptr(), layout(self.class())) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listpack::MAX_BYTES;
    use crate::thin_block::size_class;

    #[test]
    fn size_classes_match_the_allocator() {
        for bytes in
            (1..20_000).chain((15..30).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1]))
        {
            assert_eq!(class_bytes(class_of(bytes)), size_class(bytes), "{bytes}");
        }
        assert!(class_of(MAX_BYTES + OWN) < BEGINS_LATER);
        assert_eq!(class_bytes(class_of(0)), 8);
    }

    #[test]
    fn growing_shows_zeros_and_shrinking_keeps_the_front() {
        let mut block = Block::with_room(3);
        assert_eq!((block.room(), block.allocation_bytes()), (7, 8));
        block.bytes_mut()[..3].copy_from_slice(b"abc");
        block.resize(300);
        assert_eq!((&block.bytes()[..4], block.room()), (&b"abc\0"[..], 319));
        assert!(block.bytes()[3..].iter().all(|&byte| byte == 0));
        block.bytes_mut().fill(9);
        block.resize(2);
        block.resize(300);
        assert!(block.bytes()[..7] == [9; 7] && block.bytes()[7..].iter().all(|&byte| byte == 0));
        assert_eq!(block.clone().bytes(), block.bytes());
        assert_eq!(size_of::<Option<Block>>(), 8);
    }

    #[test]
    fn the_beginning_stands_in_the_room_in_front_of_the_list() {
        let mut block = Block::with_room(100_000);
        assert_eq!(block.start(), 0);
        for start in [1, 2, 127, 128, 129, 16_383, 16_384, 99_999] {
            block.bytes_mut().fill(0xff);
            block.set_start(start);
            assert_eq!(block.start(), start);
            assert!(
                block.bytes()[start..].iter().all(|&byte| byte == 0xff),
                "{start}: bytes of the list changed"
            );
            assert_eq!((block.clone().start(), block.room()), (start, 114_687));
            block.resize(200_000);
            assert_eq!(block.start(), start);
            block.resize(100_000);
        }
        block.set_start(0);
        assert_eq!(block.start(), 0);
        // An overwritten offset is a wrong number but nothing worse.
        block.set_start(5);
        block.bytes_mut().fill(0xff);
        assert!(block.start() < 1 << 35);
    }
}
