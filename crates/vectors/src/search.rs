// SPDX-License-Identifier: BSD-3-Clause
//! Searches: by a walk, and by comparing with all vectors.

use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::Error;
use crate::beam::{Candidate, descend, walk, with_scratch};
use crate::store::Graph;

/// Vectors that a walk compares with for each of its candidates, roughly.
pub const WALK_STEPS: usize = 16;

/// A vector found, with its distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    pub id: u32,
    pub distance: f32,
}

/// An encoded vector to search for.
pub struct Query {
    pub(crate) words: Box<[AtomicU32]>,
    /// What quantisation has taken from it, if that matters.
    rest: Option<Box<[AtomicU32]>>,
    /// A vector known to be close.
    start: Option<u32>,
}

impl Query {
    /// Lets walks start at this vector too, so that it is found whatever its links are.
    pub fn starting_at(mut self, id: u32) -> Query {
        self.start = Some(id);
        self
    }
}

impl Graph {
    /// Encodes a vector to search for.
    ///
    /// # Errors
    /// If its dimension is not the graph's.
    pub fn query(&self, vector: &[f32]) -> Result<Query, Error> {
        self.check(vector)?;
        let words = self.codec.blank();
        let norm = self.codec.encode(vector, &words);
        Ok(Query { rest: self.codec.rest(vector, norm, &words), words, start: None })
    }

    /// A vector of the graph as a query.
    ///
    /// # Panics
    /// If there is no such vector, as in all functions that take a number.
    pub fn query_of(&self, id: u32) -> Query {
        let words = self.vector_words(id).iter().map(|word| AtomicU32::new(word.load(Relaxed)));
        Query { words: words.collect(), rest: None, start: None }
    }

    /// Distance between a query and a vector.
    pub fn distance(&self, query: &Query, id: u32) -> f32 {
        self.codec.exact(&query.words, query.rest.as_deref(), self.vector_words(id))
    }

    /// Distance between two vectors.
    pub fn distance_between(&self, a: u32, b: u32) -> f32 {
        self.codec.exact(self.vector_words(a), None, self.vector_words(b))
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

    /// The vectors that a walk finds, closest first. The walk estimates distances; what it has
    /// found is put in the order of the exact ones.
    pub(crate) fn walk_lowest(&self, query: &Query, ef: usize) -> Vec<Candidate> {
        let mut found = with_scratch(|scratch| {
            let mut entries = descend(self, &query.words, 0, scratch);
            let start = query.start.filter(|&id| (id as usize) < self.len());
            entries.extend(start.map(|id| Candidate::new(self.distance_to(&query.words, id), id)));
            walk(self, 0, &query.words, &entries, ef, scratch)
        });
        if self.codec.estimates() {
            let exact = |found: &mut Candidate| {
                *found = Candidate::new(self.distance(query, found.id()), found.id());
            };
            found.iter_mut().for_each(exact);
            found.sort_unstable();
        }
        found
    }

    /// Roughly how many vectors a [search](Graph::search) with so many candidates compares with.
    pub fn search_effort(&self, ef: usize) -> usize {
        if self.is_scan_cheaper(ef) { self.len() } else { ef.saturating_mul(WALK_STEPS) }
    }

    /// True if comparing with all vectors costs no more than a walk, which compares with several
    /// for each candidate.
    pub(crate) fn is_scan_cheaper(&self, ef: usize) -> bool {
        ef.saturating_mul(4) >= self.len()
    }

    /// The closest vectors of all, exactly.
    pub fn scan(&self, query: &Query, count: usize) -> Vec<Hit> {
        let mut best = BinaryHeap::with_capacity(count.min(self.len()) + 1);
        for id in 0..self.len() as u32 {
            let candidate = Candidate::new(self.distance(query, id), id);
            if best.len() < count {
                best.push(candidate);
            } else if best.peek().is_some_and(|worst| candidate < *worst) {
                best.pop();
                best.push(candidate);
            }
        }
        best.into_sorted_vec().into_iter().map(hit).collect()
    }
}

pub fn hit(candidate: Candidate) -> Hit {
    Hit { id: candidate.id(), distance: candidate.distance() }
}
