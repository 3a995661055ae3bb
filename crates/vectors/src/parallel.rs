// SPDX-License-Identifier: BSD-3-Clause
//! Adding from many threads.
//!
//! An [`Adder`] has memory for a number of vectors, so records never move while threads use it.
//! Threads find candidates without locks. They change links under locks of the vectors concerned
//! (`locks`). Links are single words: whoever walks meanwhile sees the old or
//! the new neighbour. The graph's own count grows when the adder is dropped, so that nothing scans
//! vectors which are not written yet.

use std::sync::atomic::{
    AtomicU32, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use crate::link::{self, Writer};
use crate::locks::Guards;
use crate::search::{Hit, Query};
use crate::store::{Graph, NONE};
use crate::{Error, LEN_MAX, LEVEL_MAX};

/// Adds vectors to a graph from many threads.
pub struct Adder<'g> {
    graph: &'g Graph,
    /// Numbers given out.
    taken: AtomicU32,
    /// Upper records given out.
    uppers: AtomicU32,
}

impl Graph {
    /// Prepares the graph for adding up to `count` vectors from many threads.
    ///
    /// # Errors
    /// If the graph cannot hold as many.
    pub fn adder(&mut self, count: usize) -> Result<Adder<'_>, Error> {
        let len = self.len().checked_add(count).filter(|&len| len <= LEN_MAX).ok_or(Error::Full)?;
        self.vectors.reserve(len);
        self.nodes.reserve(len);
        // Twice the expected number of upper records; vectors that find none left get level 0.
        let uppers = self.upper_len.load(Relaxed) as usize + 64 + count / 2;
        self.uppers.reserve(uppers);
        [&mut self.vectors, &mut self.nodes, &mut self.uppers]
            .into_iter()
            .for_each(|blocks| blocks.own_all());
        let (taken, uppers) =
            (AtomicU32::new(self.len() as u32), AtomicU32::new(self.upper_len.load(Relaxed)));
        Ok(Adder { graph: self, taken, uppers })
    }
}

impl Adder<'_> {
    /// Adds a vector, beside other threads that do; returns its number.
    ///
    /// # Errors
    /// If the vector's dimension is not the graph's, or there is no memory left for it.
    pub fn add(&self, vector: &[f32], label: u64, ef: usize, level: u8) -> Result<u32, Error> {
        let graph = self.graph;
        if vector.len() != graph.shape.dim as usize {
            return Err(Error::Dimension(vector.len(), graph.shape.dim));
        }
        let room = graph.vectors.capacity().min(graph.nodes.capacity()) as u32;
        let id = self.taken.fetch_update(AcqRel, Acquire, |id| (id < room).then_some(id + 1));
        let Ok(id) = id else { return Err(Error::Full) };
        let wanted = u32::from(level.min(LEVEL_MAX));
        let all = graph.uppers.capacity() as u32;
        let granted =
            self.uppers.fetch_update(AcqRel, Acquire, |used| (used + wanted <= all).then_some(used + wanted));
        let level = if granted.is_ok() { wanted as u8 } else { 0 };
        let norm = graph.codec.encode(vector, graph.vectors.get(id));
        graph.init_records(id, norm, label, level);
        link::insert(&mut Shared(graph), id, ef, level, None);
        Ok(id)
    }

    /// As [`Graph::search`], beside threads that add; finds vectors whose addition is complete.
    pub fn search(&self, query: &Query, count: usize, ef: usize) -> Vec<Hit> {
        self.graph.walk_for(query, count, ef)
    }

    /// Encodes a vector to search for.
    ///
    /// # Errors
    /// If its dimension is not the graph's.
    pub fn query(&self, vector: &[f32]) -> Result<Query, Error> {
        self.graph.query(vector)
    }
}

impl Drop for Adder<'_> {
    fn drop(&mut self) {
        self.graph.len.store(self.taken.load(Acquire), Release);
    }
}

/// Access by one of several threads.
struct Shared<'g>(&'g Graph);

impl Writer for Shared<'_> {
    fn graph(&self) -> &Graph {
        self.0
    }

    fn own(&mut self, _: u32, _: u8) {
        // All blocks have one owner while there is an adder.
    }

    fn lock(&self, ids: [u32; 3]) -> Guards {
        Guards::of(std::ptr::from_ref(self.0) as usize, ids)
    }

    fn raise_entry(&self, id: u32, level: u8) {
        let raise = |packed: u64| {
            let is_higher = packed as u32 == NONE || level > (packed >> 32) as u8;
            is_higher.then_some(u64::from(level) << 32 | u64::from(id))
        };
        let _ = self.0.entry.fetch_update(AcqRel, Acquire, raise);
    }
}
