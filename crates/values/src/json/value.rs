// SPDX-License-Identifier: BSD-3-Clause
//! A document: packed bytes (`packed.rs`) in one block of memory, which is shared with a snapshot
//! until it changes.
//!
//! Changes keep the block where they can: a number whose new form has the same size is written in
//! its place, and a value that grows or shrinks moves what is behind it and corrects the lengths of
//! the containers around it. Several changes at once rebuild the document in one pass.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use braid_containers::thin_block::{ThinBlock, round_capacity};

use super::builder;
use super::packed::{self, Slot, Value};

/// The largest document, in packed bytes.
pub const BYTES_MAX: usize = 64 << 20;
/// A document of this many bytes is large: a snapshot shares it.
const LARGE: usize = 64 * 1024;
/// Blocks from this size on grow by a part of their size, so that repeated appending is cheap.
const GROWS: usize = 4096;

/// Whether the process has had a document.
static EVER_MADE: AtomicBool = AtomicBool::new(false);

/// True once a document may exist.
pub fn was_ever_made() -> bool {
    EVER_MADE.load(Relaxed)
}

/// A JSON document.
#[repr(transparent)]
pub struct Json(ThinBlock);

/// The change would make the document too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ERR the document would exceed 64 MB")]
pub struct TooLarge;

impl Json {
    /// A document of packed bytes.
    ///
    /// # Errors
    /// If the document is too large.
    pub fn new(bytes: &[u8]) -> Result<Json, TooLarge> {
        if bytes.len() > BYTES_MAX {
            return Err(TooLarge);
        }
        if !EVER_MADE.load(Relaxed) {
            EVER_MADE.store(true, Relaxed);
        }
        let mut block = ThinBlock::zeroed(round_capacity(bytes.len()));
        block.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        block.set_word(bytes.len() as u32);
        Ok(Json(block))
    }

    /// The packed bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.0.bytes()[..self.0.word() as usize]
    }

    /// The document as compact text.
    pub fn text(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes().len() + self.bytes().len() / 4);
        super::print::compact(self.bytes(), Slot::whole(0), &mut out);
        out
    }

    /// Checks that the packed bytes are what a builder makes of the same text.
    #[doc(hidden)]
    pub fn check(&self) {
        let text = self.text();
        let text = std::str::from_utf8(&text).expect("printed text is UTF-8");
        let again = super::parse::parse(text).expect("a printed document is valid");
        assert_eq!(packed::skip(self.bytes(), 0), self.bytes().len(), "{text}");
        assert!(packed::equal(self.bytes(), Slot::whole(0), &again, Slot::whole(0)), "{text}");
    }

    /// Replaces the whole content.
    ///
    /// # Errors
    /// If the document becomes too large; it is unchanged then.
    pub fn set(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        if bytes.len() > BYTES_MAX {
            return Err(TooLarge);
        }
        let capacity = round_capacity(bytes.len());
        if capacity != self.0.capacity() {
            self.0 = ThinBlock::zeroed(capacity);
        }
        self.0.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        self.0.set_word(bytes.len() as u32);
        Ok(())
    }

    /// Overwrites bytes with as many others.
    pub fn overwrite(&mut self, at: usize, bytes: &[u8]) {
        debug_assert!(at + bytes.len() <= self.bytes().len());
        self.0.bytes_mut()[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Replaces a range of bytes, without touching any header.
    fn splice(&mut self, range: Range<usize>, bytes: &[u8]) {
        let old = self.0.word() as usize;
        let new = old - range.len() + bytes.len();
        if new > self.0.capacity() {
            let spare = if new >= GROWS { new / 8 } else { 0 };
            self.0.resize(round_capacity(new + spare));
        }
        let content = self.0.bytes_mut();
        content.copy_within(range.end..old, range.start + bytes.len());
        content[range.start..range.start + bytes.len()].copy_from_slice(bytes);
        self.0.set_word(new as u32);
        let wanted = round_capacity(new + new / 4);
        if self.0.capacity() > wanted {
            self.0.resize(round_capacity(new));
        }
    }

    /// Replaces a range of bytes inside the innermost of some containers (outermost first), whose
    /// number of members changes by `members`; corrects the headers of all of them.
    ///
    /// # Errors
    /// If the document becomes too large; it is unchanged then.
    pub fn replace(
        &mut self,
        around: &[usize],
        range: Range<usize>,
        bytes: &[u8],
        members: isize,
    ) -> Result<(), TooLarge> {
        // Headers grow by at most six bytes each.
        let after = self.bytes().len() + bytes.len() + around.len() * 6;
        if after - range.len() > BYTES_MAX {
            return Err(TooLarge);
        }
        let mut delta = bytes.len() as isize - range.len() as isize;
        let mut members = members;
        // Headers first, from the inside out, while the old lengths still lead to them.
        let mut heads: Vec<(Range<usize>, [u8; 9], usize)> = Vec::with_capacity(around.len());
        for &at in around.iter().rev() {
            let (container, is_object) = match packed::value(self.bytes(), Slot::whole(at)) {
                Value::Object(container) => (container, true),
                Value::Array(container) => (container, false),
                _ => continue,
            };
            let len = (container.end - container.start).strict_add_signed(delta);
            let count = container.count.strict_add_signed(members);
            let (head, size) = builder::header(len, count, is_object);
            let old = container.start - at;
            heads.push((at..container.start, head, size));
            delta += size as isize - old as isize;
            members = 0;
        }
        self.splice(range, bytes);
        // Each header is in front of all that has been changed so far.
        for (range, head, size) in heads {
            if range.len() == size {
                self.overwrite(range.start, &head[..size]);
            } else {
                self.splice(range, &head[..size]);
            }
        }
        Ok(())
    }

    /// Writes an element of an array of numbers.
    pub fn set_element(&mut self, slot: Slot, bytes: &[u8]) {
        if let Value::Typed(array) = packed::value(self.bytes(), Slot::whole(slot.at())) {
            self.overwrite(array.start + slot.element as usize * array.elements.width(), bytes);
        }
    }

    /// Bytes allocated.
    pub fn memory_bytes(&self) -> usize {
        braid_base::alloc::size_class(self.0.allocation_bytes())
    }

    /// True if a snapshot should share the document rather than write it immediately.
    pub fn is_large(&self) -> bool {
        self.bytes().len() >= LARGE
    }

    /// A second owner of the same bytes.
    pub fn cow(&self) -> Json {
        Json(self.0.cow())
    }
}

impl Clone for Json {
    fn clone(&self) -> Json {
        Json(self.0.clone())
    }
}
