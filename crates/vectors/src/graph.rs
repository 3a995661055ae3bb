// SPDX-License-Identifier: BSD-3-Clause
//! The graph: vectors, their links, and the operations on them.
//!
//! ```text
//! vectors   a record for each vector: its encoded words (codec)
//! nodes     a record for each vector: first upper record, length, links of the lowest level
//! uppers    a record for each vector and level above the lowest: vector, next upper record, links
//! ```
//! Links of a record come first to last, then `NONE`. Vectors and nodes are apart because a
//! snapshot shares blocks: linking a new vector changes the nodes of its neighbours, but no
//! vector.
//!
//! Invariants, on every level: links are mutual, name existing vectors of that level, no vector
//! twice and not the vector itself. The entry is a vector of the highest level in use.

use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use crate::beam::{Candidate, Scratch, walk, with_scratch};
use crate::blocks::Blocks;
use crate::codec::Codec;
use crate::link;
use crate::{DIM_MAX, Error, LEN_MAX, LEVEL_MAX, LINKS, Quantisation, Shape};

/// No vector, no record.
pub const NONE: u32 = u32::MAX;
/// Words of a record before its links.
pub const HEAD: usize = 2;

/// Candidates kept while descending to the lowest level. More than one, so that a query close to
/// several groups of vectors enters more than one of them.
const DESCENT: usize = 8;

/// A vector found, with its distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    pub id: u32,
    pub distance: f32,
}

/// An encoded vector to search for.
pub struct Query {
    pub(crate) words: Box<[AtomicU32]>,
}

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
}

fn pack(entry: u32, level: u8) -> u64 {
    u64::from(level) << 32 | u64::from(entry)
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
            nodes: Blocks::new(HEAD + 2 * shape.links as usize),
            uppers: Blocks::new(HEAD + shape.links as usize),
            len: AtomicU32::new(0),
            upper_len: AtomicU32::new(0),
            entry: AtomicU64::new(pack(NONE, 0)),
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

    /// Encodes a vector to search for.
    ///
    /// # Errors
    /// If its dimension is not the graph's.
    pub fn query(&self, vector: &[f32]) -> Result<Query, Error> {
        self.check(vector)?;
        let words: Box<[AtomicU32]> = (0..self.codec.words()).map(|_| AtomicU32::new(0)).collect();
        self.codec.encode(vector, &words);
        Ok(Query { words })
    }

    fn check(&self, vector: &[f32]) -> Result<(), Error> {
        match vector.len() == self.shape.dim as usize {
            true => Ok(()),
            false => Err(Error::Dimension(vector.len(), self.shape.dim)),
        }
    }

    /// A vector of the graph as a query.
    ///
    /// # Panics
    /// If there is no such vector, as in all functions that take a number.
    pub fn query_of(&self, id: u32) -> Query {
        let words = self.vector_words(id).iter().map(|word| AtomicU32::new(word.load(Relaxed)));
        Query { words: words.collect() }
    }

    /// Adds a vector and returns its number. `ef` is the number of candidates for its links; the
    /// level is from [`Graph::level_from`].
    ///
    /// # Errors
    /// If the vector's dimension is not the graph's, or the graph is full.
    pub fn add(&mut self, vector: &[f32], ef: usize, level: u8) -> Result<u32, Error> {
        self.check(vector)?;
        let id = self.len();
        if id >= LEN_MAX {
            return Err(Error::Full);
        }
        self.vectors.reserve(id + 1);
        self.nodes.reserve(id + 1);
        let id = id as u32;
        self.vectors.own(id);
        self.nodes.own(id);
        *self.len.get_mut() += 1;
        self.enter(vector, id, ef, level.min(LEVEL_MAX));
        Ok(id)
    }

    /// Writes the record of a vector that has none yet, and links it.
    fn enter(&mut self, vector: &[f32], id: u32, ef: usize, level: u8) {
        let norm = self.codec.encode(vector, self.vectors.get(id));
        self.uppers.reserve(self.upper_len.load(Relaxed) as usize + usize::from(level));
        for record in 0..u32::from(level) {
            self.uppers.own(self.upper_len.load(Relaxed) + record);
        }
        self.init_records(id, norm, level);
        link::insert(&mut link::Exclusive(self), id, ef, level);
    }

    /// Writes the records of a vector without links; there must be memory for them.
    pub(crate) fn init_records(&self, id: u32, norm: f32, level: u8) {
        let first = self.upper_len.fetch_add(u32::from(level), Relaxed);
        let node = self.nodes.get(id);
        node[HEAD..].iter().for_each(|slot| slot.store(NONE, Relaxed));
        node[0].store(if level == 0 { NONE } else { first }, Relaxed);
        node[1].store(norm.to_bits(), Relaxed);
        for record in 0..u32::from(level) {
            let upper = self.uppers.get(first + record);
            upper[HEAD..].iter().for_each(|slot| slot.store(NONE, Relaxed));
            upper[0].store(id, Relaxed);
            let is_top = record + 1 == u32::from(level);
            upper[1].store(if is_top { NONE } else { first + record + 1 }, Relaxed);
        }
    }

    /// Gives an existing number another vector, as if it were removed and added.
    ///
    /// # Errors
    /// If the vector's dimension is not the graph's.
    pub fn replace(&mut self, id: u32, vector: &[f32], ef: usize, level: u8) -> Result<(), Error> {
        self.check(vector)?;
        self.detach(id);
        self.vectors.own(id);
        self.nodes.own(id);
        self.enter(vector, id, ef, level.min(LEVEL_MAX));
        Ok(())
    }

    /// Removes a vector and repairs the graph around it. The last vector gets its number: if that
    /// is another one, the number it had is returned.
    pub fn remove(&mut self, id: u32) -> Option<u32> {
        self.detach(id);
        let last = self.len() as u32 - 1;
        if id != last {
            link::renumber(&mut link::Exclusive(self), last, id);
        }
        *self.len.get_mut() = last;
        self.vectors.shrink(last as usize);
        self.nodes.shrink(last as usize);
        self.uppers.shrink(self.upper_len.load(Relaxed) as usize);
        (id != last).then_some(last)
    }

    /// Takes a vector out of all levels: its links go, its neighbours are linked anew, its upper
    /// records are released.
    fn detach(&mut self, id: u32) {
        let level = self.level(id);
        let (entry, _) = self.entry();
        let orphans: Vec<Vec<u32>> =
            (0..=level).map(|level| link::unlink(&mut link::Exclusive(self), id, level)).collect();
        if entry == id {
            self.choose_entry(id, &orphans);
        }
        for (level, orphans) in orphans.iter().enumerate() {
            link::repair(&mut link::Exclusive(self), orphans, level as u8);
        }
        for _ in 0..level {
            self.release_upper(self.node(id)[0].load(Relaxed), id);
        }
    }

    /// Makes another vector the entry: a former neighbour of the old one on the highest level
    /// that has one, else any vector of the highest level.
    fn choose_entry(&mut self, old: u32, orphans: &[Vec<u32>]) {
        let mut best = orphans.last().and_then(|top| top.first()).map(|&id| (self.level(id), id));
        if best.is_none_or(|(level, _)| usize::from(level) + 1 < orphans.len()) {
            let others =
                (0..self.upper_len.load(Relaxed)).map(|record| self.uppers.get(record)[0].load(Relaxed));
            best = others.filter(|&id| id != old).map(|id| (self.level(id), id)).max();
        }
        let any = (0..self.len() as u32).find(|&id| id != old).map(|id| (self.level(id), id));
        let (level, entry) = best.or(any).unwrap_or((0, NONE));
        self.set_entry(entry, level);
    }

    /// Releases the first upper record of a vector; the last record takes its place.
    fn release_upper(&mut self, record: u32, of: u32) {
        let above = self.uppers.get(record)[1].load(Relaxed);
        self.nodes.own(of);
        self.node(of)[0].store(above, Relaxed);
        *self.upper_len.get_mut() -= 1;
        let last = self.upper_len.load(Relaxed);
        if record == last {
            return;
        }
        let owner = self.uppers.get(last)[0].load(Relaxed);
        self.uppers.own(record);
        self.uppers.copy_record(last, record);
        // The one word that refers to the moved record: in the owner's node, or in an upper
        // record below it.
        let mut at = self.node(owner)[0].load(Relaxed);
        if at == last {
            self.nodes.own(owner);
            self.node(owner)[0].store(record, Relaxed);
            return;
        }
        while at != NONE {
            let next = self.uppers.get(at)[1].load(Relaxed);
            if next == last {
                self.uppers.own(at);
                self.uppers.get(at)[1].store(record, Relaxed);
                return;
            }
            at = next;
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
        if level == 0 { &self.node(id)[HEAD..] } else { &self.uppers.get(self.upper(id, level))[HEAD..] }
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

    /// Distance between a query and a vector.
    pub fn distance(&self, query: &Query, id: u32) -> f32 {
        self.distance_to(&query.words, id)
    }

    /// Distance between two vectors.
    pub fn distance_between(&self, a: u32, b: u32) -> f32 {
        self.between(a, b)
    }

    /// Candidates for the lowest level, from a descent to it.
    pub(crate) fn descend(&self, query: &[AtomicU32], to: u8, scratch: &mut Scratch) -> Vec<Candidate> {
        let (entry, top) = self.entry();
        if entry == NONE {
            return Vec::new();
        }
        let mut entries = vec![Candidate::new(self.distance_to(query, entry), entry)];
        for level in (to + 1..=top).rev() {
            let ef = if level == 1 { DESCENT } else { DESCENT / 2 };
            entries = walk(self, level, query, &entries, ef, scratch);
        }
        entries
    }

    /// The closest vectors that a walk with `ef` candidates finds, up to `count`, closest first.
    pub fn search(&self, query: &Query, count: usize, ef: usize) -> Vec<Hit> {
        if self.is_scan_cheaper(ef.max(count)) {
            return self.scan(query, count);
        }
        self.walk_for(query, count, ef)
    }

    pub(crate) fn walk_for(&self, query: &Query, count: usize, ef: usize) -> Vec<Hit> {
        self.walk_lowest(query, ef.max(count)).into_iter().take(count).map(hit).collect()
    }

    fn walk_lowest(&self, query: &Query, ef: usize) -> Vec<Candidate> {
        with_scratch(|scratch| {
            let entries = self.descend(&query.words, 0, scratch);
            walk(self, 0, &query.words, &entries, ef, scratch)
        })
    }

    /// True if comparing with all vectors costs no more than a walk, which compares with several
    /// for each candidate.
    fn is_scan_cheaper(&self, ef: usize) -> bool {
        ef.saturating_mul(4) >= self.len()
    }

    /// The closest vectors of all, exactly.
    pub fn scan(&self, query: &Query, count: usize) -> Vec<Hit> {
        self.scan_all(query, count, &mut |_| true).into_iter().map(hit).collect()
    }

    fn scan_all(&self, query: &Query, count: usize, matches: &mut dyn FnMut(u32) -> bool) -> Vec<Candidate> {
        let mut best = BinaryHeap::with_capacity(count.min(self.len()) + 1);
        for id in 0..self.len() as u32 {
            let candidate = Candidate::new(self.distance_to(&query.words, id), id);
            if best.len() < count {
                if matches(id) {
                    best.push(candidate);
                }
            } else if best.peek().is_some_and(|worst| candidate < *worst) && matches(id) {
                best.pop();
                best.push(candidate);
            }
        }
        best.into_sorted_vec()
    }

    /// As [`Graph::search`], among vectors that match. A walk without the filter is cheap, so the
    /// filter is asked only about what a walk found, closest first, until enough match; if too
    /// few do, the walk widens as far as their share suggests, and in the end all vectors are
    /// compared. The filter is asked about `effort` vectors at most.
    pub fn search_matching(
        &self,
        query: &Query,
        count: usize,
        ef: usize,
        effort: usize,
        matches: &mut dyn FnMut(u32) -> bool,
    ) -> Vec<Hit> {
        let (mut ef, mut asked, mut found) = (ef.max(count), 0, Vec::new());
        let mut known = HashMap::new();
        while !self.is_scan_cheaper(ef) {
            found.clear();
            for candidate in self.walk_lowest(query, ef) {
                let id = candidate.id();
                let is_match = match known.entry(id) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(_) if asked == effort => return found,
                    Entry::Vacant(place) => {
                        asked += 1;
                        *place.insert(matches(id))
                    }
                };
                if is_match {
                    found.push(hit(candidate));
                    if found.len() == count {
                        return found;
                    }
                }
            }
            let share = (found.len() as f64 + 0.5) / ef as f64;
            let wanted = (count as f64 * 1.5 / share) as usize;
            ef = wanted.clamp(ef * 2, ef * 16);
        }
        let mut limited = |id: u32| {
            *known.entry(id).or_insert_with(|| {
                asked += 1;
                asked <= effort && matches(id)
            })
        };
        self.scan_all(query, count, &mut limited).into_iter().map(hit).collect()
    }

    /// A second owner of the graph's current state; blocks are shared until one side changes them.
    pub fn cow(&self) -> Graph {
        self.with_blocks(self.vectors.cow(), self.nodes.cow(), self.uppers.cow())
    }

    /// A copy that shares nothing.
    pub fn duplicate(&self) -> Graph {
        self.with_blocks(self.vectors.duplicate(), self.nodes.duplicate(), self.uppers.duplicate())
    }

    fn with_blocks(&self, vectors: Blocks, nodes: Blocks, uppers: Blocks) -> Graph {
        Graph {
            shape: self.shape,
            codec: self.codec,
            vectors,
            nodes,
            uppers,
            len: AtomicU32::new(self.len.load(Acquire)),
            upper_len: AtomicU32::new(self.upper_len.load(Acquire)),
            entry: AtomicU64::new(self.entry.load(Acquire)),
        }
    }

    /// Number of blocks of memory.
    pub fn block_count(&self) -> usize {
        self.vectors.block_count() + self.nodes.block_count() + self.uppers.block_count()
    }

    /// Bytes allocated, without this struct itself.
    pub fn memory_bytes(&self) -> usize {
        self.vectors.memory_bytes() + self.nodes.memory_bytes() + self.uppers.memory_bytes()
    }

    /// Moves blocks that a defragmenter wants moved, given their address and size; returns how
    /// many.
    pub fn defragment(&mut self, should_move: &mut dyn FnMut(*const u8, usize) -> bool) -> usize {
        self.vectors.defragment(should_move)
            + self.nodes.defragment(should_move)
            + self.uppers.defragment(should_move)
    }
}

fn hit(candidate: Candidate) -> Hit {
    Hit { id: candidate.id(), distance: candidate.distance() }
}
