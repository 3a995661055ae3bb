// SPDX-License-Identifier: BSD-3-Clause
//! The packed bytes of a document as readers see them: one run of offsets, whether they are in one
//! block or in the pieces of a large document (`rope.rs`).
//!
//! ```text
//! offsets   0                 start of piece 1        start of piece 2
//! bytes     {  "a": 1 "b": [  item 0 ... item 40      item 41 ... item 77  "c": 5 }
//! piece     owner: none       owner: the array at b   owner: the array at b
//!                             ordinal: 0              ordinal: 41
//! ```
//! A piece begins where a child of a container begins (a member with its name, an element), or
//! where the next value after a container begins, never inside of a name, a header, a string or a
//! number. So what belongs together can be read from one slice, and a change moves the bytes of one
//! piece. Each piece names the innermost container around its start (the owner) and how many of the
//! owner's children are in front of it. From there, an offset's containers and an array's element
//! are found without passing all that is before them.

use std::cell::Cell;
use std::ops::Range;

use braid_base::relocation::Mover;
use braid_containers::cow::{CowBox, note_copy};

/// The bytes of a piece, and a filter of the names in it.
#[derive(Debug, Default)]
pub struct Chunk {
    pub bytes: Vec<u8>,
    pub names: Names,
}

/// A set of names, with false positives: those of members that begin in a piece, of objects that
/// are not in this piece alone. A look for a name in a large object passes by the other pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(Box<[u64]>);

impl Names {
    /// Bits for each name, and for all of them at most.
    const BITS: usize = 8;
    const BITS_MAX: usize = 4096;

    pub fn of(hashes: &[u64]) -> Names {
        if hashes.is_empty() {
            return Names::default();
        }
        let bits = (hashes.len() * Names::BITS).next_power_of_two().clamp(64, Names::BITS_MAX);
        let mut words = vec![0; bits / 64].into_boxed_slice();
        for &hash in hashes {
            let bit = hash as usize & (bits - 1);
            words[bit / 64] |= 1 << (bit % 64);
        }
        Names(words)
    }

    pub fn hash(name: &[u8]) -> u64 {
        let fold = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = name.iter().fold(0xcbf2_9ce4_8422_2325, fold);
        hash ^ hash >> 32
    }

    /// False if no name with this hash is in the set.
    pub fn may_have(&self, hash: u64) -> bool {
        let bit = hash as usize & (self.0.len() * 64).wrapping_sub(1);
        self.0.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    pub fn memory_bytes(&self) -> usize {
        self.0.len() * 8
    }

    pub fn relocate(&mut self, mover: &mut Mover) {
        mover.relocate_slice(&mut self.0);
    }
}

impl Clone for Chunk {
    /// A copy of a piece that a snapshot shares.
    fn clone(&self) -> Chunk {
        note_copy(self.bytes.len());
        Chunk { bytes: self.bytes.clone(), names: self.names.clone() }
    }
}

/// A piece of a large document.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Offset of its first byte.
    pub start: u32,
    /// Offset of the innermost container around `start`.
    pub owner: u32,
    /// How many children of the owner begin in front of `start`.
    pub ordinal: u32,
    /// Bytes allocated for the content.
    pub capacity: u32,
    pub chunk: CowBox<Chunk>,
}

impl Piece {
    pub fn start(&self) -> usize {
        self.start as usize
    }

    pub fn owner(&self) -> usize {
        self.owner as usize
    }

    pub fn bytes(&self) -> &[u8] {
        &self.chunk.bytes
    }

    pub fn end(&self) -> usize {
        self.start() + self.bytes().len()
    }
}

thread_local! {
    /// The piece that was looked at last. It may be of another document, so it is only tried first.
    static LAST: Cell<usize> = const { Cell::new(0) };
}

/// See above.
#[derive(Clone, Copy, Debug)]
pub struct Doc<'a> {
    flat: &'a [u8],
    pieces: &'a [Piece],
}

impl<'a> From<&'a [u8]> for Doc<'a> {
    fn from(bytes: &'a [u8]) -> Doc<'a> {
        Doc { flat: bytes, pieces: &[] }
    }
}

impl<'a> From<&'a Vec<u8>> for Doc<'a> {
    fn from(bytes: &'a Vec<u8>) -> Doc<'a> {
        Doc::flat(bytes)
    }
}

impl<'a> Doc<'a> {
    #[inline]
    pub fn flat(bytes: &'a [u8]) -> Doc<'a> {
        Doc { flat: bytes, pieces: &[] }
    }

    /// A document of pieces, of which there is at least one.
    pub fn of_pieces(pieces: &'a [Piece]) -> Doc<'a> {
        debug_assert!(!pieces.is_empty());
        Doc { flat: &[], pieces }
    }

    /// Number of bytes.
    pub fn len(self) -> usize {
        self.pieces.last().map_or(self.flat.len(), Piece::end)
    }

    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The bytes from an offset on: as many as are in one block.
    #[inline]
    pub fn at(self, at: usize) -> &'a [u8] {
        if self.pieces.is_empty() { &self.flat[at..] } else { self.in_piece(at) }
    }

    fn in_piece(self, at: usize) -> &'a [u8] {
        let piece = &self.pieces[self.piece_at(at)];
        &piece.bytes()[at - piece.start()..]
    }

    /// The piece that holds an offset.
    #[inline]
    pub fn piece_at(self, at: usize) -> usize {
        let last = LAST.get();
        let is_in = |index: usize| {
            self.pieces.get(index).is_some_and(|piece| piece.start() <= at)
                && self.pieces.get(index + 1).is_none_or(|next| at < next.start())
        };
        if is_in(last) {
            return last;
        }
        let found = if is_in(last.wrapping_add(1)) {
            last + 1
        } else {
            self.pieces.partition_point(|piece| piece.start() <= at).saturating_sub(1)
        };
        LAST.set(found);
        found
    }

    /// Whether a range of bytes is in one block.
    pub fn is_contiguous(self, range: Range<usize>) -> bool {
        self.at(range.start).len() >= range.len()
    }

    /// Appends a range of bytes.
    pub fn copy(self, range: Range<usize>, out: &mut Vec<u8>) {
        let mut at = range.start;
        while at < range.end {
            let here = self.at(at);
            let count = here.len().min(range.end - at);
            out.extend_from_slice(&here[..count]);
            at += count;
        }
    }

    /// The start of the piece that holds an offset, unless that is the document's start: with its
    /// owner and ordinal.
    pub fn landmark(self, at: usize) -> Option<(usize, usize, usize)> {
        if self.pieces.is_empty() {
            return None;
        }
        let piece = self.pieces.get(self.piece_at(at)).filter(|piece| piece.start > 0)?;
        Some((piece.start(), piece.owner(), piece.ordinal as usize))
    }

    /// Where the children of a container go on if those that begin in the piece of `at` are left
    /// out: the container's end, or the start of the next piece, if that is known to be one of its
    /// children. `None` if the piece may have a member with the hash of a name.
    pub fn without_name(self, at: usize, owner: usize, end: usize, hash: u64) -> Option<usize> {
        let index = self.piece_at(at);
        if self.pieces.get(index)?.chunk.names.may_have(hash) {
            return None;
        }
        match self.pieces.get(index + 1) {
            Some(next) if next.start() < end => (next.owner() == owner).then_some(next.start()),
            _ => Some(end),
        }
    }

    /// The end of the piece of `at`.
    pub fn piece_end(self, at: usize) -> usize {
        self.pieces.get(self.piece_at(at) + 1).map_or(self.len(), Piece::start)
    }

    /// True if the bytes are in pieces.
    pub fn is_in_pieces(self) -> bool {
        !self.pieces.is_empty()
    }

    /// The last known place inside a container's content that is not behind the child with an
    /// index: its offset, and the index of the child that begins there.
    pub fn nearest(self, owner: usize, content: Range<usize>, index: usize) -> Option<(usize, usize)> {
        let first = self.pieces.partition_point(|piece| piece.start() <= content.start);
        let mut found = None;
        for piece in &self.pieces[first..] {
            if piece.start() >= content.end {
                break;
            }
            if piece.owner() == owner {
                if piece.ordinal as usize > index {
                    break;
                }
                found = Some((piece.start(), piece.ordinal as usize));
            }
        }
        found
    }
}
