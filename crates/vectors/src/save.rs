// SPDX-License-Identifier: BSD-3-Clause
//! A graph as bytes: a head, then pieces of whole vectors in the order of their numbers.
//!
//! ```text
//! head    "BVG", version (1), metric (1), quantisation (1), highest level (1), dimension (4),
//!         links (4), vectors (4), entry (4)
//! vector  level (1), length (4), encoded words (4 each), and for each of its levels from the
//!         lowest: number of links (2), links (4 each)
//! ```
//! All numbers are little endian. Labels are not saved; who loads gives new ones.
//!
//! Bytes are untrusted: a graph is accepted only if all of its invariants hold. That links are
//! mutual is checked without looking at them twice: the links that lead to a higher number and
//! those that lead to a lower one must have equal sums of hashes, whose key is drawn at random for
//! each load.

use std::sync::atomic::Ordering::Relaxed;

use crate::store::{Graph, NONE};
use crate::{Error, LEN_MAX, LEVEL_MAX, Metric, Quantisation, Shape};

const MAGIC: &[u8] = b"BVG\x01";
const METRICS: [Metric; 3] = [Metric::Cosine, Metric::InnerProduct, Metric::L2];
const QUANTISATIONS: [Quantisation; 3] = [Quantisation::F32, Quantisation::I8, Quantisation::Bin];

/// Aimed-at size of a piece, in bytes.
const PIECE_BYTES: usize = 64 * 1024;

impl Graph {
    /// The head of the saved graph.
    pub fn save_head(&self) -> Vec<u8> {
        let (entry, top) = self.entry();
        Loader::head(self.shape, self.len() as u32, entry, top)
    }

    /// The piece that begins with this vector, and the first vector after it; `None` at the end.
    pub fn save_piece(&self, from: u32) -> Option<(Vec<u8>, u32)> {
        let (mut out, mut id) = (Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 4), from);
        while (id as usize) < self.len() && out.len() < PIECE_BYTES {
            self.save_vector(id, &mut out);
            id += 1;
        }
        (id > from).then_some((out, id))
    }

    /// Appends one vector's record of the saved form.
    pub fn save_vector(&self, id: u32, out: &mut Vec<u8>) {
        let level = self.level(id);
        out.push(level);
        out.extend_from_slice(&self.norm(id).to_bits().to_le_bytes());
        for word in self.vector_words(id) {
            out.extend_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        for level in 0..=level {
            let at = out.len();
            out.extend_from_slice(&[0, 0]);
            let mut count = 0u16;
            for link in self.links(id, level) {
                out.extend_from_slice(&link.to_le_bytes());
                count += 1;
            }
            out[at..at + 2].copy_from_slice(&count.to_le_bytes());
        }
    }
}

/// Rebuilds a graph from its saved form.
pub struct Loader {
    graph: Graph,
    count: u32,
    entry: u32,
    top: u8,
    highest: u8,
    keys: [u64; 2],
    /// Sums of the hashes of links to higher and to lower numbers.
    sums: [u64; 2],
}

struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (field, rest) = self.0.split_first_chunk::<N>().ok_or(Error::Damaged("it ends early"))?;
        self.0 = rest;
        Ok(*field)
    }

    fn word(&mut self) -> Result<u32, Error> {
        self.bytes().map(u32::from_le_bytes)
    }
}

impl Loader {
    /// The head of a graph of this shape, with this many vectors and this entry and highest level.
    pub fn head(shape: Shape, count: u32, entry: u32, top: u8) -> Vec<u8> {
        let code = |at: Option<usize>| at.expect("listed") as u8;
        let mut out = MAGIC.to_vec();
        out.push(code(METRICS.iter().position(|metric| *metric == shape.metric)));
        out.push(code(QUANTISATIONS.iter().position(|kind| *kind == shape.quantisation)));
        out.push(top);
        for number in [shape.dim, shape.links, count, entry] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out
    }

    /// Reads the head.
    ///
    /// # Errors
    /// If it is not one.
    pub fn new(head: &[u8]) -> Result<Loader, Error> {
        let rest = head.strip_prefix(MAGIC).ok_or(Error::Damaged("unknown head"))?;
        let mut cursor = Cursor(rest);
        let [metric, quantisation, top] = cursor.bytes()?;
        let (dim, links) = (cursor.word()?, cursor.word()?);
        let (count, entry) = (cursor.word()?, cursor.word()?);
        let metric = METRICS.get(usize::from(metric)).ok_or(Error::Damaged("unknown metric"))?;
        let kind = QUANTISATIONS.get(usize::from(quantisation));
        let quantisation = *kind.ok_or(Error::Damaged("unknown quantisation"))?;
        let graph = Graph::new(Shape { metric: *metric, quantisation, dim, links })?;
        let has_entry = if count == 0 { entry == NONE && top == 0 } else { entry < count };
        if !cursor.0.is_empty() || !has_entry || top > LEVEL_MAX || count as usize > LEN_MAX {
            return Err(Error::Damaged("inconsistent head"));
        }
        let keys = [fastrand::u64(..) | 1, fastrand::u64(..) | 1];
        Ok(Loader { graph, count, entry, top, highest: 0, keys, sums: [0; 2] })
    }

    /// What the graph has in common for all vectors.
    pub fn shape(&self) -> Shape {
        self.graph.shape
    }

    /// Number of vectors that the head promises.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Number of vectors loaded.
    pub fn loaded(&self) -> usize {
        self.graph.len()
    }

    /// Adds a piece of whole vectors, with a label for each number.
    ///
    /// # Errors
    /// If it is not one.
    pub fn push(&mut self, piece: &[u8], label: &mut dyn FnMut(u32) -> u64) -> Result<(), Error> {
        let mut cursor = Cursor(piece);
        while !cursor.0.is_empty() {
            let id = self.graph.len() as u32;
            self.push_vector(&mut cursor, label(id))?;
        }
        Ok(())
    }

    fn push_vector(&mut self, cursor: &mut Cursor<'_>, label: u64) -> Result<(), Error> {
        let id = self.graph.len() as u32;
        let [level] = cursor.bytes()?;
        if id >= self.count || level > self.top {
            return Err(Error::Damaged("more vectors or levels than announced"));
        }
        self.highest = self.highest.max(level);
        let norm = f32::from_bits(cursor.word()?);
        let graph = &mut self.graph;
        graph.vectors.reserve(id as usize + 1);
        graph.nodes.reserve(id as usize + 1);
        graph.uppers.reserve(graph.upper_len.load(Relaxed) as usize + usize::from(level));
        *graph.len.get_mut() = id + 1;
        for word in graph.vectors.get(id) {
            word.store(cursor.word()?, Relaxed);
        }
        graph.init_records(id, norm, label, level);
        for level in 0..=level {
            let count = usize::from(u16::from_le_bytes(cursor.bytes()?));
            let slots = self.graph.slots(id, level).get(..count).ok_or(Error::Damaged("too many links"))?;
            for (at, slot) in slots.iter().enumerate() {
                let link = cursor.word()?;
                let is_known = slots[..at].iter().any(|slot| slot.load(Relaxed) == link);
                if link >= self.count || link == id || is_known {
                    return Err(Error::Damaged("a link to nowhere"));
                }
                slot.store(link, Relaxed);
                let pair = u64::from(id.min(link)) << 32 | u64::from(id.max(link));
                let sum = &mut self.sums[usize::from(link < id)];
                *sum = sum.wrapping_add(hash(pair, level, self.keys));
            }
        }
        Ok(())
    }

    /// The graph, if it is complete and sound.
    ///
    /// # Errors
    /// If it is not.
    pub fn finish(self) -> Result<Graph, Error> {
        let graph = self.graph;
        if graph.len() != self.count as usize {
            return Err(Error::Damaged("it ends early"));
        }
        if self.sums[0] != self.sums[1] {
            return Err(Error::Damaged("a link that is not mutual"));
        }
        if self.count > 0 && (self.highest != self.top || graph.level(self.entry) != self.top) {
            return Err(Error::Damaged("an entry below the highest level"));
        }
        graph.set_entry(self.entry, self.top);
        Ok(graph)
    }
}

fn hash(pair: u64, level: u8, keys: [u64; 2]) -> u64 {
    let mut mixed = (pair ^ keys[0]).wrapping_add(u64::from(level).wrapping_mul(keys[1]));
    for _ in 0..2 {
        mixed = (mixed ^ mixed >> 32).wrapping_mul(keys[1]);
        mixed = (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    }
    mixed ^ mixed >> 32
}
