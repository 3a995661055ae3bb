// SPDX-License-Identifier: BSD-3-Clause
//! The segments of a table in order: a single list while they are few, otherwise a list of chunks.
//!
//! HOT PATH: no allocation except for growth, no lock, no logging, no system call.
//!
//! Chunks count their owners ([`cow`](crate::cow)), so sharing thousands of segments touches none
//! of them. A writer that changes a segment of a shared chunk first copies the chunk, which shares
//! its segments one by one, and then copies the segment.
//!
//! Invariant: all chunks except the last are full, and none is empty.

use std::ops::{Index, IndexMut};

use arrayvec::ArrayVec;
use braid_base::alloc::size_class;
use braid_base::relocation::Mover;

use super::segment::Segment;
use crate::cow::CowBox;

/// Segments per chunk: copying a chunk takes a few microseconds. Up to this many segments form a
/// single list.
const CHUNK: usize = 256;

/// Prefetch distance while segments are shared one by one.
const AHEAD: usize = 8;

/// The segments of a chunk. A clone shares them.
pub(super) struct Chunk(ArrayVec<Segment, CHUNK>);

impl Clone for Chunk {
    fn clone(&self) -> Chunk {
        Chunk(cow_each(&self.0).collect())
    }
}

fn cow_each(segments: &[Segment]) -> impl Iterator<Item = Segment> {
    segments.iter().enumerate().map(|(number, segment)| {
        if let Some(later) = segments.get(number + AHEAD) {
            later.prefetch();
        }
        segment.cow()
    })
}

/// See the module.
pub(super) enum Segments {
    Few(Vec<Segment>),
    Chunks { chunks: Vec<CowBox<Chunk>>, len: usize },
}

impl Segments {
    /// A list with one empty segment.
    pub fn one() -> Segments {
        Segments::Few(vec![Segment::default()])
    }

    /// Number of segments.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Segments::Few(few) => few.len(),
            Segments::Chunks { len, .. } => *len,
        }
    }

    /// Moves segments from number `from` on to better places until the mover's time is over.
    /// Returns the number to continue with, `None` at the end. Shared chunks stay, with all of
    /// their segments.
    pub fn relocate(&mut self, from: usize, mover: &mut Mover) -> Option<usize> {
        match self {
            Segments::Few(few) => {
                few.iter_mut().for_each(|segment| segment.relocate(mover));
                None
            }
            Segments::Chunks { chunks, .. } => {
                for (number, chunk) in chunks.iter_mut().enumerate().skip(from / CHUNK) {
                    if let Some(own) = chunk.own_mut() {
                        let skipped = if number == from / CHUNK { from % CHUNK } else { 0 };
                        for (at, segment) in own.0.iter_mut().enumerate().skip(skipped) {
                            if mover.is_over() {
                                return Some(number * CHUNK + at);
                            }
                            segment.relocate(mover);
                        }
                        chunk.relocate(mover);
                    }
                }
                None
            }
        }
    }

    #[inline]
    pub fn get(&self, at: usize) -> Option<&Segment> {
        match self {
            Segments::Few(few) => few.get(at),
            Segments::Chunks { chunks, .. } => chunks.get(at / CHUNK)?.0.get(at % CHUNK),
        }
    }

    pub fn push(&mut self, segment: Segment) {
        if let Segments::Few(few) = self
            && few.len() == CHUNK
        {
            let chunks = vec![CowBox::new(Chunk(few.drain(..).collect()))];
            *self = Segments::Chunks { chunks, len: CHUNK };
        }
        match self {
            Segments::Few(few) => few.push(segment),
            Segments::Chunks { chunks, len } => {
                *len += 1;
                match chunks.last_mut() {
                    Some(last) if last.0.len() < CHUNK => last.0.push(segment),
                    _ => chunks.push(CowBox::new(Chunk([segment].into_iter().collect()))),
                }
            }
        }
    }

    pub fn pop(&mut self) -> Option<Segment> {
        match self {
            Segments::Few(few) => few.pop(),
            Segments::Chunks { chunks, len } => {
                let last = chunks.last_mut()?;
                let segment = last.0.pop();
                if last.0.is_empty() {
                    chunks.pop();
                }
                *len -= 1;
                segment
            }
        }
    }

    /// Frees capacity beyond `len` segments. Call it when the number of segments has halved.
    pub fn shrink_to(&mut self, len: usize) {
        if let Segments::Chunks { chunks, len: now } = self
            && *now <= CHUNK / 2
            && let Some(chunk) = chunks.pop()
        {
            *self = Segments::Few(chunk.into_value().0.into_iter().collect());
        }
        match self {
            Segments::Few(few) => few.shrink_to(len),
            Segments::Chunks { chunks, .. } => chunks.shrink_to(len.div_ceil(CHUNK)),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Segment> {
        let (few, chunks) = match self {
            Segments::Few(few) => (&few[..], &[][..]),
            Segments::Chunks { chunks, .. } => (&[][..], &chunks[..]),
        };
        few.iter().chain(chunks.iter().flat_map(|chunk| chunk.0.iter()))
    }

    /// A second owner of the same segments.
    pub fn cow(&self) -> Segments {
        match self {
            Segments::Few(few) => Segments::Few(cow_each(few).collect()),
            Segments::Chunks { chunks, len } => Segments::Chunks { chunks: chunks.clone(), len: *len },
        }
    }

    /// Bytes of the list itself.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Segments::Few(few) => few.capacity() * size_of::<Segment>(),
            Segments::Chunks { chunks, .. } => {
                chunks.capacity() * size_of::<CowBox<Chunk>>()
                    + chunks.len() * size_class(CowBox::<Chunk>::bytes())
            }
        }
    }
}

impl Clone for Segments {
    /// A deep copy, which shares nothing.
    fn clone(&self) -> Segments {
        match self {
            Segments::Few(few) => Segments::Few(few.clone()),
            Segments::Chunks { chunks, len } => {
                let copy = |chunk: &CowBox<Chunk>| CowBox::new(Chunk(chunk.0.iter().cloned().collect()));
                Segments::Chunks { chunks: chunks.iter().map(copy).collect(), len: *len }
            }
        }
    }
}

impl Index<usize> for Segments {
    type Output = Segment;
    #[inline]
    fn index(&self, at: usize) -> &Segment {
        match self {
            Segments::Few(few) => &few[at],
            Segments::Chunks { chunks, .. } => &chunks[at / CHUNK].0[at % CHUNK],
        }
    }
}

impl IndexMut<usize> for Segments {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut Segment {
        match self {
            Segments::Few(few) => &mut few[at],
            Segments::Chunks { chunks, .. } => &mut chunks[at / CHUNK].0[at % CHUNK],
        }
    }
}
