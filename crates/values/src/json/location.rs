// SPDX-License-Identifier: BSD-3-Clause
//! The way from the root of a document to an offset: the containers around it, and the names and
//! indices that lead there.
//!
//! In a document of pieces the search begins at the start of the offset's piece, whose owner is
//! known, and finds the owner's own containers in the same way; so it passes the values of one
//! piece for each level, however large the document is.

use smallvec::SmallVec;

use super::doc::Doc;
use super::packed::{self, Slot, Value};

/// One part of the way from the root to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Name(Box<[u8]>),
    Index(usize),
}

/// A container around an offset.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Offset of the container.
    pub at: usize,
    /// Its content.
    pub start: usize,
    pub end: usize,
    pub is_object: bool,
    /// Size of an element of an array of numbers, else 0.
    pub width: usize,
    /// Which of its children is meant, and the offset where that begins: its name in an object.
    pub index: usize,
    pub member: usize,
}

/// Containers, each inside the one before.
pub type Frames = SmallVec<[Frame; 4]>;

impl Frame {
    /// The container at an offset, with its first child.
    pub fn of(doc: Doc<'_>, at: usize) -> Option<Frame> {
        let (start, end, is_object, width) = match packed::value(doc, Slot::whole(at)) {
            Value::Object(object) => (object.start, object.end, true, 0),
            Value::Array(array) => (array.start, array.end, false, 0),
            Value::Typed(array) => (array.start, array.end(), false, array.elements.width()),
            _ => return None,
        };
        Some(Frame { at, start, end, is_object, width, index: 0, member: start })
    }
}

/// The containers around the value at an offset, outermost first.
pub fn frames(doc: Doc<'_>, goal: usize) -> Frames {
    let (mut frames, mut at) = match doc.landmark(goal) {
        _ if goal == 0 => return Frames::new(),
        Some((start, owner, ordinal)) => (frames_at(doc, owner, ordinal), start),
        None => {
            let root: Frames = Frame::of(doc, 0).into_iter().collect();
            let start = root.first().map_or(0, |root| root.start);
            (root, start)
        }
    };
    while let Some(top) = frames.last_mut() {
        if top.width > 0 {
            at = top.end;
        }
        if at >= top.end {
            frames.pop();
            frames.last_mut().into_iter().for_each(|parent| parent.index += 1);
            continue;
        }
        top.member = at;
        let value = if top.is_object { packed::name(doc, at).1 } else { at };
        if value == goal {
            break;
        }
        let end = packed::skip(doc, value);
        if goal >= end {
            top.index += 1;
            at = end;
        } else if let Some(inner) = Frame::of(doc, value) {
            at = inner.start;
            frames.push(inner);
        } else {
            unreachable!("a slot is inside containers only");
        }
    }
    frames
}

/// The containers around the start of a piece.
pub fn frames_at(doc: Doc<'_>, owner: usize, ordinal: usize) -> Frames {
    let mut frames = frames(doc, owner);
    frames.extend(Frame::of(doc, owner).map(|frame| Frame { index: ordinal, ..frame }));
    frames
}

/// What is found on the way from the root to a slot.
#[derive(Debug, Default)]
pub struct Location {
    /// Offsets of the containers around the slot, outermost first. The array of an element is not
    /// among them.
    pub around: SmallVec<[usize; 8]>,
    /// Offset of the member: of its name in an object, else of its value.
    pub member: usize,
}

/// Finds the containers around a slot.
pub fn around(doc: Doc<'_>, slot: Slot) -> Location {
    let frames = frames(doc, slot.at());
    let member = frames.last().map_or(0, |frame| frame.member);
    Location { around: frames.iter().map(|frame| frame.at).collect(), member }
}

/// The names and indices that lead to a slot.
pub fn route(doc: Doc<'_>, slot: Slot) -> Vec<Part> {
    let mut parts: Vec<Part> = frames(doc, slot.at())
        .iter()
        .map(|frame| match frame.is_object {
            true => Part::Name(packed::name(doc, frame.member).0.into()),
            false => Part::Index(frame.index),
        })
        .collect();
    if slot.is_element() {
        parts.push(Part::Index(slot.element as usize));
    }
    parts
}

/// Follows names and indices.
pub fn follow(doc: Doc<'_>, route: &[Part]) -> Option<Slot> {
    route.iter().try_fold(Slot::whole(0), |slot, part| match part {
        _ if slot.is_element() => None,
        Part::Name(name) => match packed::value(doc, slot) {
            Value::Object(object) => packed::member(doc, object, name).map(Slot::whole),
            _ => None,
        },
        Part::Index(index) => packed::item(doc, slot, *index),
    })
}
