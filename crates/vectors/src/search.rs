// SPDX-License-Identifier: BSD-3-Clause
//! Searches: by a walk, by comparing with all vectors, and among vectors that match a filter.

use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::Error;
use crate::beam::{Candidate, descend, walk, with_scratch};
use crate::store::Graph;

/// Vectors that a walk compares with for each of its candidates, roughly.
const WALK_STEPS: usize = 16;
/// Vectors that could be compared with while a filter answers, roughly.
const ASKING: usize = 8;

/// A vector found, with its distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    pub id: u32,
    pub distance: f32,
}

/// An encoded vector to search for.
pub struct Query {
    pub(crate) words: Box<[AtomicU32]>,
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
        let words: Box<[AtomicU32]> = (0..self.codec.words()).map(|_| AtomicU32::new(0)).collect();
        self.codec.encode(vector, &words);
        Ok(Query { words, start: None })
    }

    /// A vector of the graph as a query.
    ///
    /// # Panics
    /// If there is no such vector, as in all functions that take a number.
    pub fn query_of(&self, id: u32) -> Query {
        let words = self.vector_words(id).iter().map(|word| AtomicU32::new(word.load(Relaxed)));
        Query { words: words.collect(), start: None }
    }

    /// Distance between a query and a vector.
    pub fn distance(&self, query: &Query, id: u32) -> f32 {
        self.distance_to(&query.words, id)
    }

    /// Distance between two vectors.
    pub fn distance_between(&self, a: u32, b: u32) -> f32 {
        self.between(a, b)
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
            let mut entries = descend(self, &query.words, 0, scratch);
            let start = query.start.filter(|&id| (id as usize) < self.len());
            entries.extend(start.map(|id| Candidate::new(self.distance_to(&query.words, id), id)));
            walk(self, 0, &query.words, &entries, ef, scratch)
        })
    }

    /// Roughly how many vectors a [search](Graph::search) with so many candidates compares with.
    pub fn search_effort(&self, ef: usize) -> usize {
        if self.is_scan_cheaper(ef) { self.len() } else { ef.saturating_mul(WALK_STEPS) }
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
    /// compared. The filter is asked about `effort` vectors at most. `None` if the search is not
    /// complete after comparing with `budget` vectors, roughly; an answer of the filter counts as
    /// much as several of them.
    pub fn search_matching(
        &self,
        query: &Query,
        count: usize,
        ef: usize,
        (effort, budget): (usize, usize),
        matches: &mut dyn FnMut(u32) -> bool,
    ) -> Option<Vec<Hit>> {
        let (mut ef, mut asked, mut found) = (ef.max(count), 0, Vec::new());
        let (mut known, mut left) = (HashMap::new(), budget);
        while !self.is_scan_cheaper(ef) {
            left = left.checked_sub(ef.saturating_mul(WALK_STEPS + ASKING))?;
            found.clear();
            for candidate in self.walk_lowest(query, ef) {
                let id = candidate.id();
                let is_match = match known.entry(id) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(_) if asked == effort => return Some(found),
                    Entry::Vacant(place) => {
                        asked += 1;
                        *place.insert(matches(id))
                    }
                };
                if is_match {
                    found.push(hit(candidate));
                    if found.len() == count {
                        return Some(found);
                    }
                }
            }
            let share = (found.len() as f64 + 0.5) / ef as f64;
            let wanted = (count as f64 * 1.5 / share) as usize;
            ef = wanted.clamp(ef * 2, ef * 16);
        }
        left.checked_sub(self.len().saturating_mul(1 + ASKING))?;
        let mut limited = |id: u32| {
            *known.entry(id).or_insert_with(|| {
                asked += 1;
                asked <= effort && matches(id)
            })
        };
        Some(self.scan_all(query, count, &mut limited).into_iter().map(hit).collect())
    }
}

fn hit(candidate: Candidate) -> Hit {
    Hit { id: candidate.id(), distance: candidate.distance() }
}
