// SPDX-License-Identifier: BSD-3-Clause
//! The graph in memory: vectors and their links.
//!
//! ```text
//! vectors   a record for each vector: its encoded words (codec)
//! nodes     a record for each vector: first upper record, length, label (2 words), links of the
//!           lowest level
//! uppers    a record for each vector and level above the lowest: vector, next upper record, links
//! ```
//! Links of a record come first to last, then `NONE`. Vectors and nodes are apart because a
//! snapshot shares blocks: linking a new vector changes the nodes of its neighbours, but no
//! vector.
//!
//! Invariants, on every level: links are mutual, name existing vectors of that level, no vector
//! twice and not the vector itself. The entry is a vector of the highest level in use.

use std::sync::Arc;
use std::sync::atomic::{
    AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, fence,
};

use braid_base::alloc::size_class;
use braid_base::relocation::Mover;

use crate::blocks::Blocks;
use crate::codec::Codec;
use crate::{DIM_MAX, Error, LEVEL_MAX, LINKS, Quantisation, Shape};

/// No vector, no record.
pub const NONE: u32 = u32::MAX;
/// Words of an upper record before its links.
const UPPER_HEAD: usize = 2;
/// Words of a node before its links.
const NODE_HEAD: usize = 4;

/// A graph of vectors.
pub struct Graph {
    pub(crate) shape: Shape,
    pub(crate) codec: Codec,
    pub(crate) vectors: Blocks,
    pub(crate) nodes: Blocks,
    pub(crate) uppers: Blocks,
    pub(crate) len: AtomicU32,
    pub(crate) upper_len: AtomicU32,
    /// The entry and, in the upper half, its level; `NONE` without vectors.
    pub(crate) entry: AtomicU64,
    /// Threads that walk while vectors are added (`shared`).
    pub(crate) guests: AtomicU32,
    /// Owned by all graphs that may share blocks with this one. The last field: dropped after the
    /// blocks.
    sharers: Arc<()>,
}

fn pack(entry: u32, level: u8) -> u64 {
    u64::from(level) << 32 | u64::from(entry)
}

/// A clone is a second owner of the graph's current state; blocks are shared until one side changes
/// them.
impl Clone for Graph {
    fn clone(&self) -> Graph {
        let blocks = (self.vectors.cow(), self.nodes.cow(), self.uppers.cow());
        self.with_blocks(blocks, Arc::clone(&self.sharers))
    }
}

impl Graph {
    /// An empty graph.
    ///
    /// # Errors
    /// If the shape is out of range.
    pub fn new(shape: Shape) -> Result<Graph, Error> {
        if !(1..=DIM_MAX).contains(&shape.dim) || !LINKS.contains(&shape.links) {
            return Err(Error::Shape);
        }
        Ok(Graph::with_codec(shape, Codec::new(shape)))
    }

    pub(crate) fn with_codec(shape: Shape, codec: Codec) -> Graph {
        Graph {
            shape,
            codec,
            vectors: Blocks::new(codec.words()),
            nodes: Blocks::new(NODE_HEAD + 2 * shape.links as usize),
            uppers: Blocks::new(UPPER_HEAD + shape.links as usize),
            len: AtomicU32::new(0),
            upper_len: AtomicU32::new(0),
            entry: AtomicU64::new(pack(NONE, 0)),
            guests: AtomicU32::new(0),
            sharers: Arc::default(),
        }
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.len.load(Acquire) as usize
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The level of a vector that gets this random number; level 0 takes all but one in `links`,
    /// and so on.
    pub fn level_from(&self, random: u64) -> u8 {
        let bits = self.shape.links.ilog2().clamp(2, 5);
        ((random.trailing_zeros() / bits) as u8).min(LEVEL_MAX)
    }

    /// Refuses a vector of another dimension.
    pub(crate) fn check(&self, vector: &[f32]) -> Result<(), Error> {
        match vector.len() == self.shape.dim as usize {
            true => Ok(()),
            false => Err(Error::Dimension(vector.len(), self.shape.dim)),
        }
    }

    /// Writes the records of a vector without links; there must be memory for them.
    pub(crate) fn init_records(&self, id: u32, norm: f32, label: u64, level: u8) {
        let first = self.upper_len.fetch_add(u32::from(level), Relaxed);
        let node = self.nodes.get(id);
        node[NODE_HEAD..].iter().for_each(|slot| slot.store(NONE, Relaxed));
        node[0].store(if level == 0 { NONE } else { first }, Relaxed);
        node[1].store(norm.to_bits(), Relaxed);
        node[2].store(label as u32, Relaxed);
        node[3].store((label >> 32) as u32, Relaxed);
        for record in 0..u32::from(level) {
            let upper = self.uppers.get(first + record);
            upper[UPPER_HEAD..].iter().for_each(|slot| slot.store(NONE, Relaxed));
            upper[0].store(id, Relaxed);
            let is_top = record + 1 == u32::from(level);
            upper[1].store(if is_top { NONE } else { first + record + 1 }, Relaxed);
        }
    }

    /// The entry and its level.
    pub(crate) fn entry(&self) -> (u32, u8) {
        let packed = self.entry.load(Acquire);
        (packed as u32, (packed >> 32) as u8)
    }

    pub(crate) fn set_entry(&self, entry: u32, level: u8) {
        self.entry.store(pack(entry, level), Release);
    }

    pub(crate) fn node(&self, id: u32) -> &[AtomicU32] {
        self.nodes.get(id)
    }

    /// The upper record of a vector at a level above the lowest, which it must have.
    pub(crate) fn upper(&self, id: u32, level: u8) -> u32 {
        let mut record = self.node(id)[0].load(Acquire);
        for _ in 1..level {
            record = self.uppers.get(record)[1].load(Acquire);
        }
        record
    }

    /// The links of a vector at one of its levels.
    #[inline]
    pub(crate) fn slots(&self, id: u32, level: u8) -> &[AtomicU32] {
        if level == 0 {
            &self.node(id)[NODE_HEAD..]
        } else {
            &self.uppers.get(self.upper(id, level))[UPPER_HEAD..]
        }
    }

    #[inline]
    pub(crate) fn prefetch_slots(&self, id: u32, level: u8) {
        if level == 0 {
            self.nodes.prefetch(id, self.nodes.lines().min(4));
        }
    }

    pub(crate) fn vector_lines(&self) -> usize {
        self.vectors.lines().min(16)
    }

    #[inline]
    pub(crate) fn prefetch_vector(&self, id: u32, lines: usize) {
        self.vectors.prefetch(id, lines);
    }

    pub(crate) fn vector_words(&self, id: u32) -> &[AtomicU32] {
        self.vectors.get(id)
    }

    #[inline]
    pub(crate) fn distance_to(&self, query: &[AtomicU32], id: u32) -> f32 {
        self.codec.distance(query, self.vectors.get(id))
    }

    #[inline]
    pub(crate) fn between(&self, a: u32, b: u32) -> f32 {
        self.codec.distance(self.vectors.get(a), self.vectors.get(b))
    }

    /// True if two vectors are stored in the same words.
    pub(crate) fn are_equal(&self, a: u32, b: u32) -> bool {
        let pairs = self.vector_words(a).iter().zip(self.vector_words(b));
        pairs.into_iter().all(|(a, b)| a.load(Relaxed) == b.load(Relaxed))
    }

    pub(crate) fn capacity(&self) -> usize {
        self.nodes.capacity()
    }

    /// The vector's level.
    pub fn level(&self, id: u32) -> u8 {
        let (mut level, mut record) = (0, self.node(id)[0].load(Acquire));
        while record != NONE {
            level += 1;
            record = self.uppers.get(record)[1].load(Acquire);
        }
        level
    }

    /// Highest level in use; 0 without vectors.
    pub fn top_level(&self) -> u8 {
        self.entry().1
    }

    /// The neighbours of a vector at one of its levels.
    pub fn links(&self, id: u32, level: u8) -> impl Iterator<Item = u32> + '_ {
        self.slots(id, level).iter().map(|slot| slot.load(Acquire)).take_while(|&id| id != NONE)
    }

    /// The length that a vector had when it was added.
    pub fn norm(&self, id: u32) -> f32 {
        f32::from_bits(self.node(id)[1].load(Relaxed))
    }

    /// The label that a vector was added with.
    pub fn label(&self, id: u32) -> u64 {
        let node = self.node(id);
        u64::from(node[3].load(Relaxed)) << 32 | u64::from(node[2].load(Relaxed))
    }

    /// A vector, as close to the added one as quantisation allows.
    pub fn vector(&self, id: u32) -> Vec<f32> {
        self.codec.decode(self.vector_words(id), self.norm(id))
    }

    /// A vector's components as stored: scaled to length 1 if the metric is the cosine.
    pub fn components(&self, id: u32) -> Vec<f32> {
        self.codec.components(self.vector_words(id))
    }

    /// A vector's stored components as bytes: floats, signed bytes or bits.
    pub fn raw(&self, id: u32) -> Vec<u8> {
        let words = self.vector_words(id);
        match self.shape.quantisation {
            Quantisation::I8 => self.codec.levels(words).map(|level| level as u8).collect(),
            _ => words.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect(),
        }
    }

    /// The largest component of an `i8` vector, of which the others are fractions.
    pub fn range(&self, id: u32) -> Option<f32> {
        self.codec.range(self.vector_words(id))
    }

    /// A copy that shares nothing.
    pub fn duplicate(&self) -> Graph {
        let blocks = (self.vectors.duplicate(), self.nodes.duplicate(), self.uppers.duplicate());
        self.with_blocks(blocks, Arc::default())
    }

    /// True if another graph, a snapshot's, may have some of the same blocks.
    pub(crate) fn shares_blocks(&self) -> bool {
        let is_shared = Arc::strong_count(&self.sharers) > 1;
        // What a former sharer has read, it read before its share was released.
        fence(Acquire);
        is_shared
    }

    fn with_blocks(&self, (vectors, nodes, uppers): (Blocks, Blocks, Blocks), sharers: Arc<()>) -> Graph {
        Graph {
            shape: self.shape,
            codec: self.codec,
            vectors,
            nodes,
            uppers,
            len: AtomicU32::new(self.len.load(Acquire)),
            upper_len: AtomicU32::new(self.upper_len.load(Acquire)),
            entry: AtomicU64::new(self.entry.load(Acquire)),
            guests: AtomicU32::new(0),
            sharers,
        }
    }

    /// Number of blocks of memory.
    pub fn block_count(&self) -> usize {
        self.vectors.block_count() + self.nodes.block_count() + self.uppers.block_count()
    }

    /// Bytes of a stored vector.
    pub fn vector_bytes(&self) -> usize {
        self.codec.words() * size_of::<AtomicU32>()
    }

    /// Bytes allocated, without this struct itself.
    pub fn memory_bytes(&self) -> usize {
        let sharers = size_class(2 * size_of::<usize>());
        self.vectors.memory_bytes() + self.nodes.memory_bytes() + self.uppers.memory_bytes() + sharers
    }

    /// Moves blocks to better places, from position `from` on (0 = the start), until all have been
    /// examined or the mover's time is over. Returns the position to continue from. The graph may
    /// have changed since the call that returned `from`.
    pub fn relocate(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        let (first, mut at) = ((from >> 32) as usize, from as u32 as usize);
        let parts = [&mut self.vectors, &mut self.nodes, &mut self.uppers];
        for (part, blocks) in parts.into_iter().enumerate().skip(first) {
            if let Some(next) = blocks.relocate(at, mover) {
                return Some((part as u64) << 32 | next as u64);
            }
            at = 0;
        }
        None
    }
}
