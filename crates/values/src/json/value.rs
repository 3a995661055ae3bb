// SPDX-License-Identifier: BSD-3-Clause
//! A document: packed bytes (`packed.rs`) in one block of memory, those of a large document in
//! pieces (`rope.rs`). Blocks are shared with a snapshot until they change.
//!
//! Changes keep the bytes where they can: a number whose new form has the same size is written in
//! its place, and a value that grows or shrinks moves what is behind it in its block and corrects
//! the lengths of the containers around it. Many changes at once rebuild the document in one pass.

use std::ops::Range;

use braid_base::relocation::Mover;
use braid_containers::tagged::{Form, PackedOr};
use braid_containers::thin_block::{ThinBlock, round_capacity};
use smallvec::SmallVec;

use super::builder;
use super::doc::Doc;
use super::packed::{self, Slot, Value};
use super::rope::{NONE, Rope};

/// Where a container's header is, the bytes of a new one, and how many these are.
type Header = (Range<usize>, [u8; 9], usize);

/// The largest document, in packed bytes.
pub const BYTES_MAX: usize = 64 << 20;
/// A document of this many bytes is large: a snapshot shares it.
const LARGE: usize = 64 * 1024;
/// Larger documents are in pieces. In tests small ones are too.
#[expect(unexpected_cfgs, reason = "set by the fuzzer")]
const FLAT_MAX: usize = if cfg!(any(test, fuzzing)) { 256 } else { 128 * 1024 };
/// Smaller ones are in one block again.
const PIECES_MIN: usize = FLAT_MAX / 4;
/// Blocks from this size on grow by a part of their size, so that repeated appending is cheap.
const GROWS: usize = 4096;

/// A JSON document.
#[repr(transparent)]
pub struct Json(PackedOr<Rope, ThinBlock>);

/// The change would make the document too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ERR the document would exceed 64 MB")]
pub struct TooLarge;

/// Replaces a range of bytes, which is whole children of a container, by as many children more as
/// `children` says.
#[derive(Clone, Debug)]
pub struct Edit<'e> {
    pub range: Range<usize>,
    pub bytes: &'e [u8],
    pub children: isize,
}

/// A block of packed bytes.
fn block_of(bytes: &[u8]) -> ThinBlock {
    let mut block = ThinBlock::zeroed(round_capacity(bytes.len()));
    block.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
    block.set_word(bytes.len() as u32);
    block
}

fn content(block: &ThinBlock) -> &[u8] {
    &block.bytes()[..block.word() as usize]
}

impl Json {
    /// A document of packed bytes.
    ///
    /// # Errors
    /// If there are too many.
    pub fn new(bytes: &[u8]) -> Result<Json, TooLarge> {
        if bytes.len() > BYTES_MAX {
            return Err(TooLarge);
        }
        Ok(Json(match bytes.len() > FLAT_MAX {
            true => PackedOr::table(Box::new(Rope::new(bytes))),
            false => PackedOr::packed(block_of(bytes)),
        }))
    }

    /// The packed bytes.
    #[inline]
    pub fn doc(&self) -> Doc<'_> {
        match self.0.get() {
            Form::Packed(block) => Doc::flat(content(block)),
            Form::Table(rope) => rope.doc(),
        }
    }

    /// See `Collection::relocate_blocks`.
    pub fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        if from == 0 {
            self.0.relocate_box(mover);
        }
        match self.0.get_mut() {
            Form::Packed(block) => {
                block.relocate(mover);
                None
            }
            Form::Table(rope) => rope.relocate(from, mover),
        }
    }

    /// True if the document is in pieces.
    pub fn is_in_pieces(&self) -> bool {
        matches!(self.0.get(), Form::Table(_))
    }

    /// The document as compact text.
    pub fn text(&self) -> Vec<u8> {
        let len = self.doc().len();
        let mut out = Vec::with_capacity(len + len / 4);
        super::print::compact(self.doc(), Slot::whole(0), &mut out);
        out
    }

    /// Checks that the packed bytes are what a builder makes of the same text.
    #[doc(hidden)]
    pub fn check(&self) {
        let text = self.text();
        let text = std::str::from_utf8(&text).expect("printed text is UTF-8");
        let again = super::parse::parse(text).expect("a printed document is valid");
        assert_eq!(packed::skip(self.doc(), 0), self.doc().len(), "{text}");
        assert!(packed::equal(self.doc(), Slot::whole(0), Doc::flat(&again), Slot::whole(0)), "{text}");
        if let Form::Table(rope) = self.0.get() {
            rope.check();
        }
    }

    /// Replaces the whole content.
    ///
    /// # Errors
    /// If it is too large.
    pub fn set(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        match self.0.get_mut() {
            Form::Packed(block) if bytes.len() <= FLAT_MAX => {
                let capacity = round_capacity(bytes.len());
                if capacity != block.capacity() {
                    *block = ThinBlock::zeroed(capacity);
                }
                block.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
                block.set_word(bytes.len() as u32);
            }
            _ => *self = Json::new(bytes)?,
        }
        Ok(())
    }

    /// Overwrites bytes, all in one block, with as many others.
    pub fn overwrite(&mut self, at: usize, bytes: &[u8]) {
        debug_assert!(self.doc().is_contiguous(at..at + bytes.len()));
        match self.0.get_mut() {
            Form::Packed(block) => block.bytes_mut()[at..at + bytes.len()].copy_from_slice(bytes),
            Form::Table(rope) => rope.overwrite(at, bytes),
        }
    }

    /// Replaces a range of bytes, without touching any header.
    fn splice(&mut self, edit: &Edit<'_>, owner: usize) {
        match self.0.get_mut() {
            Form::Packed(block) => splice_block(block, edit.range.clone(), edit.bytes),
            Form::Table(rope) => rope.splice(edit.range.clone(), edit.bytes, owner, edit.children),
        }
    }

    /// Makes changes of children of one container, which are in order and apart from each other.
    /// `around` are the containers around them, outermost first; their headers are corrected.
    /// `owner` is the innermost of them, or an array of numbers inside of it.
    ///
    /// # Errors
    /// If the document would be too large.
    pub fn replace(&mut self, around: &[usize], owner: usize, edits: &[Edit<'_>]) -> Result<(), TooLarge> {
        let delta: isize =
            edits.iter().map(|edit| edit.bytes.len() as isize - edit.range.len() as isize).sum();
        // Headers grow by at most six bytes each.
        if self.doc().len().saturating_add_signed(delta) + around.len() * 6 > BYTES_MAX {
            return Err(TooLarge);
        }
        let heads = self.new_headers(around, owner, delta, edits.iter().map(|edit| edit.children).sum());
        edits.iter().rev().for_each(|edit| self.splice(edit, owner));
        // From the inside out: each header is in front of all that has been changed so far.
        for (range, head, size) in heads {
            if range.len() == size {
                self.overwrite(range.start, &head[..size]);
            } else {
                self.splice(&Edit { range, bytes: &head[..size], children: 0 }, NONE);
            }
        }
        self.choose_form();
        Ok(())
    }

    /// The headers of the containers around a change, from the inside out, and where they are now.
    fn new_headers(
        &self,
        around: &[usize],
        owner: usize,
        mut delta: isize,
        children: isize,
    ) -> SmallVec<[Header; 4]> {
        let mut heads = SmallVec::new();
        for &at in around.iter().rev() {
            let (container, is_object) = match packed::value(self.doc(), Slot::whole(at)) {
                Value::Object(container) => (container, true),
                Value::Array(container) => (container, false),
                _ => continue,
            };
            let len = (container.end - container.start).strict_add_signed(delta);
            let count = container.count.strict_add_signed(if at == owner { children } else { 0 });
            let (head, size) = builder::header(len, count, is_object);
            let old = container.start - at;
            heads.push((at..container.start, head, size));
            delta += size as isize - old as isize;
        }
        heads
    }

    /// Gives the document the form of its size.
    fn choose_form(&mut self) {
        let changed = match self.0.get_mut() {
            Form::Packed(block) => {
                let bytes = content(block);
                (bytes.len() > FLAT_MAX).then(|| PackedOr::table(Box::new(Rope::new(bytes))))
            }
            Form::Table(rope) => {
                rope.balance();
                let len = rope.doc().len();
                (len < PIECES_MIN).then(|| {
                    let mut bytes = Vec::with_capacity(len);
                    rope.doc().copy(0..len, &mut bytes);
                    PackedOr::packed(block_of(&bytes))
                })
            }
        };
        if let Some(changed) = changed {
            self.0 = changed;
        }
    }

    /// Writes an element of an array of numbers.
    pub fn set_element(&mut self, slot: Slot, bytes: &[u8]) {
        if let Value::Typed(array) = packed::value(self.doc(), Slot::whole(slot.at())) {
            self.overwrite(array.start + slot.element as usize * array.elements.width(), bytes);
        }
    }

    /// Bytes allocated.
    pub fn memory_bytes(&self) -> usize {
        match self.0.get() {
            Form::Packed(block) => braid_base::alloc::size_class(block.allocation_bytes()),
            Form::Table(rope) => rope.memory_bytes(),
        }
    }

    /// True if a snapshot should share the document rather than write it immediately.
    pub fn is_large(&self) -> bool {
        self.doc().len() >= LARGE
    }

    /// Number of blocks, which are freed one by one.
    pub fn block_count(&self) -> usize {
        match self.0.get() {
            Form::Packed(_) => 1,
            Form::Table(rope) => rope.len(),
        }
    }

    /// A second owner of the same bytes.
    pub fn cow(&self) -> Json {
        Json(match self.0.get() {
            Form::Packed(block) => PackedOr::packed(block.cow()),
            Form::Table(rope) => PackedOr::table(Box::new(rope.clone())),
        })
    }
}

/// Replaces a range of the bytes of a block.
fn splice_block(block: &mut ThinBlock, range: Range<usize>, bytes: &[u8]) {
    let old = block.word() as usize;
    let new = old - range.len() + bytes.len();
    if new > block.capacity() {
        let spare = if new >= GROWS { new / 8 } else { 0 };
        block.resize(round_capacity(new + spare));
    }
    let content = block.bytes_mut();
    content.copy_within(range.end..old, range.start + bytes.len());
    content[range.start..range.start + bytes.len()].copy_from_slice(bytes);
    block.set_word(new as u32);
    let wanted = round_capacity(new + new / 4);
    if block.capacity() > wanted {
        block.resize(round_capacity(new));
    }
}

impl Clone for Json {
    /// Pieces are shared until either document changes them.
    fn clone(&self) -> Json {
        Json(self.0.clone())
    }
}
