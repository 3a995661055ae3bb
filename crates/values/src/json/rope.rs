// SPDX-License-Identifier: BSD-3-Clause
//! A large document: its packed bytes in pieces of some KB (`doc.rs`), so that a change moves the
//! bytes of one piece, and a snapshot shares the document and copies the pieces that change.
//!
//! A change keeps every piece's start, owner and ordinal right at once, by one pass over the table
//! of pieces (24 bytes each). Pieces that have become too large are divided when the headers of the
//! containers are right again ([`Rope::balance`]), and small ones joined to the next.

use std::ops::Range;

use braid_base::alloc::size_class;
use braid_base::relocation::Mover;
use braid_containers::cow::CowBox;

use super::doc::{Chunk, Doc, Names, Piece};
use super::location::{Frame, Frames, frames_at};
use super::packed::{self, Slot, Value};

/// New pieces have up to this many bytes, if there is a place to cut. In tests few, so that small
/// documents have many pieces.
#[expect(unexpected_cfgs, reason = "set by the fuzzer")]
pub const PIECE: usize = if cfg!(any(test, fuzzing)) { 64 } else { 12 << 10 };
/// Larger ones are divided.
pub const PIECE_MAX: usize = 2 * PIECE;
/// Smaller ones are joined to the next.
const PIECE_MIN: usize = PIECE / 8;
/// No owner: the first piece, and changes that are no children.
pub const NONE: usize = u32::MAX as usize;

/// See above.
#[derive(Clone)]
pub struct Rope {
    pieces: CowBox<Vec<Piece>>,
    /// Starts of the pieces changed since the last [`Rope::balance`].
    due: Vec<usize>,
}

/// Where a piece begins.
#[derive(Clone, Copy)]
struct Cut {
    start: usize,
    owner: usize,
    ordinal: usize,
}

impl Cut {
    fn piece(self, bytes: &[u8]) -> Piece {
        let content = bytes.to_vec();
        Piece {
            start: self.start as u32,
            owner: self.owner as u32,
            ordinal: self.ordinal as u32,
            capacity: content.capacity() as u32,
            chunk: CowBox::new(Chunk { bytes: content, names: Names::default() }),
        }
    }
}

impl Rope {
    /// A document of packed bytes.
    pub fn new(bytes: &[u8]) -> Rope {
        let first = Cut { start: 0, owner: NONE, ordinal: 0 };
        let mut pieces = divide(Doc::flat(bytes), bytes, first, Frames::new());
        let ranges: Vec<Range<usize>> = pieces.iter().map(|piece| piece.start()..piece.end()).collect();
        for (piece, names) in pieces.iter_mut().zip(names_in(Doc::flat(bytes), &ranges, Frames::new())) {
            piece.chunk.names = names;
        }
        Rope { pieces: CowBox::new(pieces), due: Vec::new() }
    }

    #[inline]
    pub fn doc(&self) -> Doc<'_> {
        Doc::of_pieces(&self.pieces)
    }

    /// Number of pieces.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Bytes allocated.
    pub fn memory_bytes(&self) -> usize {
        let names = |piece: &Piece| match piece.chunk.names.memory_bytes() {
            0 => 0,
            bytes => size_class(bytes),
        };
        let chunk = |piece: &Piece| size_class(piece.capacity as usize) + names(piece);
        let chunks: usize = self.pieces.iter().map(chunk).sum();
        let table = size_class(self.pieces.capacity() * size_of::<Piece>());
        let heads = self.pieces.len() * size_class(CowBox::<Chunk>::bytes());
        chunks + table + heads + size_class(CowBox::<Vec<Piece>>::bytes()) + size_class(size_of::<Rope>())
    }

    /// See `Collection::relocate_blocks`; positions are numbers of pieces.
    pub fn relocate(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        let pieces = self.pieces.own_mut()?;
        for (number, piece) in (0..).zip(pieces).skip(usize::try_from(from).unwrap_or(usize::MAX)) {
            if mover.is_over() {
                return Some(number);
            }
            if let Some(chunk) = piece.chunk.own_mut() {
                mover.relocate_vec(&mut chunk.bytes);
                chunk.names.relocate(mover);
                piece.chunk.relocate(mover);
            }
        }
        None
    }

    /// Overwrites bytes, all of one piece, with as many others.
    pub fn overwrite(&mut self, at: usize, bytes: &[u8]) {
        let index = self.doc().piece_at(at);
        let piece = &mut self.pieces[index];
        let from = at - piece.start();
        piece.chunk.bytes[from..from + bytes.len()].copy_from_slice(bytes);
    }

    /// Replaces a range of bytes, which is whole children of the container at `owner`, by as many
    /// children more as `children` says; or a header.
    pub fn splice(&mut self, range: Range<usize>, bytes: &[u8], owner: usize, children: isize) {
        let pieces = &mut *self.pieces;
        // What follows the range stays with the piece where the range begins, so no piece begins
        // in its middle and each of the others begins where it began.
        let first = pieces.partition_point(|piece| piece.start() < range.start).saturating_sub(1);
        let last = pieces.partition_point(|piece| piece.start() < range.end).saturating_sub(1).max(first);
        let behind = match last > first {
            true => pieces[last].bytes()[range.end - pieces[last].start()..].to_vec(),
            false => Vec::new(),
        };
        let piece = &mut pieces[first];
        let start = piece.start();
        let content = &mut piece.chunk.bytes;
        let to = if last > first { content.len() } else { range.end - start };
        replace_range(content, range.start - start..to, bytes);
        content.extend_from_slice(&behind);
        piece.capacity = content.capacity() as u32;
        pieces.drain(first + 1..=last);
        let delta = bytes.len() as isize - range.len() as isize;
        let moved = |at: usize| if at >= range.end { at.strict_add_signed(delta) } else { at };
        for piece in &mut pieces[first + 1..] {
            piece.start = moved(piece.start()) as u32;
            if piece.owner() == owner {
                piece.ordinal = (piece.ordinal as isize + children) as u32;
            } else if piece.owner() >= range.end {
                piece.owner = moved(piece.owner()) as u32;
            }
        }
        self.due.iter_mut().for_each(|due| *due = moved(*due));
        self.due.push(start);
    }

    /// Divides and joins pieces that have changed. The headers of all containers are right.
    pub fn balance(&mut self) {
        for start in std::mem::take(&mut self.due) {
            let index = self.pieces.partition_point(|piece| piece.start() < start);
            let Some(piece) = self.pieces.get(index).filter(|piece| piece.start() == start) else { continue };
            let len = piece.bytes().len();
            let mut range = index..index + 1;
            if len > PIECE_MAX {
                range.end = index + self.split(index);
            } else if len < PIECE_MIN {
                let first = index.min(self.pieces.len().saturating_sub(2));
                self.join(first);
                range = first..(index + 1).min(self.pieces.len());
            }
            self.note_names(range);
        }
    }

    /// Checks that pieces follow each other, and that their owners and ordinals are right.
    #[doc(hidden)]
    pub fn check(&self) {
        let doc = self.doc();
        let mut start = 0;
        for piece in self.pieces.iter() {
            assert!(piece.start() == start && !piece.bytes().is_empty(), "a piece at {start}");
            start = piece.end();
            if piece.start == 0 {
                continue;
            }
            let owner = Frame::of(doc, piece.owner()).expect("the owner is a container");
            let (mut at, mut ordinal) = (owner.start, 0);
            while at < piece.start() {
                let value = if owner.is_object { packed::name(doc, at).1 } else { at };
                at = if owner.width > 0 { at + owner.width } else { packed::skip(doc, value) };
                ordinal += 1;
            }
            assert_eq!((at, ordinal), (piece.start(), piece.ordinal as usize), "a piece's landmark");
            assert!(at < owner.end, "a piece begins in its owner");
        }
        assert_eq!(start, doc.len());
        self.check_names(0);
    }

    /// Checks that all members of the objects in a container are found by their names.
    fn check_names(&self, at: usize) {
        let doc = self.doc();
        let value = packed::value(doc, Slot::whole(at));
        if let Value::Object(object) = value {
            for (name, at) in packed::members(doc, object) {
                assert_eq!(packed::member(doc, object, name), Some(at), "a member is not found");
                self.check_names(at);
            }
        } else if let Value::Array(_) = value {
            packed::items(doc, Slot::whole(at)).for_each(|item| self.check_names(item.at()));
        }
    }

    /// The containers around the start of a piece.
    fn frames(&self, index: usize) -> Frames {
        let piece = &self.pieces[index];
        match index {
            0 => Frames::new(),
            _ => frames_at(self.doc(), piece.owner(), piece.ordinal as usize),
        }
    }

    /// Notes the names in some pieces.
    fn note_names(&mut self, range: Range<usize>) {
        let ranges: Vec<Range<usize>> =
            self.pieces[range.clone()].iter().map(|piece| piece.start()..piece.end()).collect();
        let names = names_in(self.doc(), &ranges, self.frames(range.start));
        for (index, names) in range.zip(names) {
            if self.pieces[index].chunk.names != names {
                self.pieces[index].chunk.names = names;
            }
        }
    }

    /// Divides a piece; returns into how many.
    fn split(&mut self, index: usize) -> usize {
        let piece = &self.pieces[index];
        let first = Cut { start: piece.start(), owner: piece.owner(), ordinal: piece.ordinal as usize };
        let parts = divide(self.doc(), piece.bytes(), first, self.frames(index));
        let count = parts.len();
        if count > 1 {
            self.pieces.splice(index..=index, parts);
        }
        count
    }

    /// Joins a piece and the next, if they are small together.
    fn join(&mut self, index: usize) {
        let Some([piece, next]) = self.pieces.get(index..index + 2) else { return };
        if piece.bytes().len() + next.bytes().len() > PIECE {
            return;
        }
        let more = next.bytes().to_vec();
        let piece = &mut self.pieces[index];
        piece.chunk.bytes.extend_from_slice(&more);
        piece.capacity = piece.chunk.bytes.capacity() as u32;
        self.pieces.remove(index + 1);
    }
}

/// Replaces a range of a vector. A vector that is too small grows by some more than is needed.
fn replace_range(content: &mut Vec<u8>, range: Range<usize>, bytes: &[u8]) {
    let (old, new) = (content.len(), content.len() - range.len() + bytes.len());
    if new > content.capacity() {
        content.reserve_exact(new + new / 8 - old);
    }
    if new > old {
        content.resize(new, 0);
    }
    content.copy_within(range.end..old, range.start + bytes.len());
    content[range.start..range.start + bytes.len()].copy_from_slice(bytes);
    content.truncate(new);
    if content.capacity() > new + new / 2 + 64 {
        content.shrink_to(new + new / 8);
    }
}

/// The names of members that begin in some ranges, which follow each other: of objects that are not
/// in that range alone. `frames` are the containers around the start of the first, none for the
/// start of the document.
fn names_in(doc: Doc<'_>, ranges: &[Range<usize>], mut frames: Frames) -> Vec<Names> {
    let mut at = ranges.first().map_or(0, |range| range.start);
    if frames.is_empty()
        && let Some(root) = Frame::of(doc, 0)
    {
        at = root.start;
        frames.push(root);
    }
    let mut hashes = Vec::new();
    let mut names_of = |range: &Range<usize>| {
        hashes.clear();
        while at < range.end
            && let Some(top) = frames.last()
        {
            if at >= top.end {
                frames.pop();
                continue;
            }
            if top.width > 0 {
                at = top.end.min(range.end);
                continue;
            }
            let mut value = at;
            if top.is_object {
                let (name, behind) = packed::name(doc, at);
                hashes.push(Names::hash(name));
                value = behind;
            }
            let end = packed::skip(doc, value);
            match Frame::of(doc, value).filter(|_| end > range.end) {
                Some(inner) => {
                    at = inner.start;
                    frames.push(inner);
                }
                None => at = end,
            }
        }
        Names::of(&hashes)
    };
    ranges.iter().map(&mut names_of).collect()
}

/// Divides the bytes of a piece. `frames` are the containers around its start, none for the start
/// of the document.
fn divide(doc: Doc<'_>, bytes: &[u8], first: Cut, mut frames: Frames) -> Vec<Piece> {
    let window = first.start..first.start + bytes.len();
    let mut cuts = vec![first];
    let mut last = first.start;
    let mut at = first.start;
    if frames.is_empty()
        && let Some(root) = Frame::of(doc, 0)
    {
        at = root.start;
        frames.push(root);
    }
    while window.end - last > PIECE
        && at < window.end
        && let Some(top) = frames.last_mut()
    {
        if at >= top.end {
            frames.pop();
            frames.last_mut().into_iter().for_each(|parent| parent.index += 1);
            continue;
        }
        let here = Cut { start: at, owner: top.at, ordinal: top.index };
        // A width of 0: children of different lengths.
        if let Some(room) = (last + PIECE).saturating_sub(at).checked_div(top.width) {
            let count = room.min((top.end.min(window.end) - at) / top.width);
            if count == 0 {
                cuts.push(here);
                last = at;
            }
            at += count * top.width;
            top.index += count;
            continue;
        }
        let value = if top.is_object { packed::name(doc, at).1 } else { at };
        let end = packed::skip(doc, value);
        if end - last <= PIECE {
            at = end;
            top.index += 1;
        } else if end - value > PIECE / 2
            && let Some(inner) = Frame::of(doc, value)
        {
            at = inner.start;
            frames.push(inner);
        } else if at > last {
            cuts.push(here);
            last = at;
        } else {
            // A long string.
            at = end;
            top.index += 1;
        }
    }
    let ends = cuts[1..].iter().map(|cut| cut.start).chain([window.end]);
    let part = |(cut, end): (&Cut, usize)| cut.piece(&bytes[cut.start - window.start..end - window.start]);
    cuts.iter().zip(ends).map(part).collect()
}
