// SPDX-License-Identifier: BSD-3-Clause
//! Searches among the vectors that match a filter.
//!
//! Four ways, of which the cheapest is taken:
//!
//! ```text
//! few             vectors of which the filter knows that no others match are compared
//! walk            without the filter, which is asked about what the walk found, closest first
//! distance first  all vectors are compared; the filter is asked about those closer than the best
//!                 matching ones so far
//! filter first    the filter is asked about all vectors; those that match are compared
//! ```
//! The more vectors match, the fewer must be asked about. Their share is not known: a first walk,
//! and a sample of all vectors if that has not found enough, give an estimate.

use std::collections::{BinaryHeap, HashMap};

use crate::beam::Candidate;
use crate::search::{Hit, Query, WALK_STEPS, hit};
use crate::store::Graph;

/// Vectors that could be compared with while a filter answers, roughly.
const ASKING: usize = 8;
/// As above, if the filter itself chooses the order of its answers.
const ASKING_IN_ORDER: usize = 4;
/// As both, if the filter is quick.
const ASKING_QUICK: usize = 1;
/// Vectors that could be compared with while a filter names one that may match, and answers.
const NAMING: usize = 1;
/// Vectors whose memory is fetched ahead.
const AHEAD: usize = 4;
/// Vectors in a sample, if there are [`SAMPLED`] times as many.
const SAMPLE: usize = 200;
const SAMPLED: usize = 16;

/// A filter.
pub trait Matches {
    /// True if a vector matches.
    fn is_match(&mut self, id: u32) -> bool;

    /// True if an answer takes no longer than comparing with a vector, roughly.
    fn is_quick(&self) -> bool {
        false
    }

    /// All vectors that match, and maybe others, in order and each once; `None` if the filter does
    /// not know them, or they are more than `most`.
    fn few(&mut self, _most: usize) -> Option<Vec<u32>> {
        None
    }

    /// Shows the numbers below `len` that match, in any order, after asking about `most` vectors
    /// at most.
    fn each_match(&mut self, len: u32, most: usize, see: &mut dyn FnMut(u32)) {
        (0..len).take(most).filter(|&id| self.is_match(id)).for_each(see);
    }
}

impl<F: FnMut(u32) -> bool> Matches for F {
    fn is_match(&mut self, id: u32) -> bool {
        self(id)
    }
}

/// What a filter has answered so far.
struct Answers<'f> {
    filter: &'f mut dyn Matches,
    known: HashMap<u32, bool>,
    matching: usize,
    /// Vectors that it may still be asked about.
    left: usize,
}

impl Answers<'_> {
    /// `None` if the filter may not be asked any more.
    fn of(&mut self, id: u32) -> Option<bool> {
        if let Some(known) = self.known.get(&id) {
            return Some(*known);
        }
        self.left = self.left.checked_sub(1)?;
        let answer = self.filter.is_match(id);
        self.known.insert(id, answer);
        self.matching += usize::from(answer);
        Some(answer)
    }

    /// The share of vectors that match, roughly.
    fn share(&self) -> f64 {
        (self.matching as f64 + 0.5) / (self.known.len() as f64 + 0.5)
    }
}

/// The closest of some vectors.
struct Best {
    heap: BinaryHeap<Candidate>,
    count: usize,
}

impl Best {
    fn new(count: usize, len: usize) -> Best {
        Best { heap: BinaryHeap::with_capacity(count.min(len) + 1), count }
    }

    fn would_take(&self, candidate: Candidate) -> bool {
        self.heap.len() < self.count || self.heap.peek().is_some_and(|worst| candidate < *worst)
    }

    fn take(&mut self, candidate: Candidate) {
        if self.would_take(candidate) {
            self.heap.push(candidate);
            if self.heap.len() > self.count {
                self.heap.pop();
            }
        }
    }

    fn into_hits(self) -> Vec<Hit> {
        self.heap.into_sorted_vec().into_iter().map(hit).collect()
    }
}

impl Graph {
    /// As [`Graph::search`], among vectors that match. The filter is asked about `effort` vectors
    /// at most. `None` if the search is not complete after comparing with `budget` vectors,
    /// roughly; an answer of the filter counts as much as several of them.
    pub fn search_matching(
        &self,
        query: &Query,
        count: usize,
        ef: usize,
        (effort, budget): (usize, usize),
        filter: &mut dyn Matches,
    ) -> Option<Vec<Hit>> {
        let (mut ef, mut left, mut is_sampled) = (ef.max(count), budget, false);
        let (asking, in_order) =
            if filter.is_quick() { (ASKING_QUICK, ASKING_QUICK) } else { (ASKING, ASKING_IN_ORDER) };
        if let Some(few) = filter.few(self.search_effort(ef) / (1 + NAMING)) {
            return self.scan_few(query, count, (effort, left), few, filter);
        }
        let mut answers = Answers { filter, known: HashMap::new(), matching: 0, left: effort };
        while !self.is_scan_cheaper(ef) {
            left = left.checked_sub(ef.saturating_mul(WALK_STEPS + asking))?;
            let mut found = Vec::new();
            for candidate in self.walk_lowest(query, ef) {
                match answers.of(candidate.id()) {
                    None => return Some(found),
                    Some(true) => found.push(hit(candidate)),
                    Some(false) => {}
                }
                if found.len() == count {
                    return Some(found);
                }
            }
            if !std::mem::replace(&mut is_sampled, true) && self.len() >= SAMPLE * SAMPLED {
                left = left.checked_sub(SAMPLE * asking)?;
                let step = self.len() / SAMPLE;
                for id in (0..SAMPLE).map(|at| (at * step) as u32) {
                    answers.of(id);
                }
            }
            let share = answers.share();
            let wanted = (count as f64 * 1.5 / share) as usize;
            let (first, second) = self.scan_costs(count, share, (asking, in_order));
            let walk = wanted.saturating_mul(WALK_STEPS + asking);
            if let Some(few) = answers.filter.few(walk.min(first).min(second) / (1 + NAMING)) {
                return self.scan_few(query, count, (answers.left, left), few, answers.filter);
            }
            if walk > first.min(second) {
                break;
            }
            ef = wanted.clamp(ef * 2, ef * 16);
        }
        left.checked_sub(self.len().saturating_mul(1 + asking))?;
        let (by_distance, by_filter) = self.scan_costs(count, answers.share(), (asking, in_order));
        let best = match by_distance <= by_filter {
            true => self.scan_by_distance(query, count, &mut answers),
            false => self.scan_by_filter(query, count, answers),
        };
        Some(best.into_hits())
    }

    /// The closest of vectors that a filter has named.
    fn scan_few(
        &self,
        query: &Query,
        count: usize,
        (effort, budget): (usize, usize),
        few: Vec<u32>,
        filter: &mut dyn Matches,
    ) -> Option<Vec<Hit>> {
        budget.checked_sub(few.len().saturating_mul(1 + NAMING))?;
        let matching: Vec<u32> = few.into_iter().take(effort).filter(|&id| filter.is_match(id)).collect();
        let (mut best, lines) = (Best::new(count, matching.len()), self.vector_lines());
        for (at, &id) in matching.iter().enumerate() {
            if let Some(&ahead) = matching.get(at + AHEAD) {
                self.prefetch_vector(ahead, lines);
            }
            best.take(Candidate::new(self.distance(query, id), id));
        }
        Some(best.into_hits())
    }

    /// What the two ways to look at all vectors cost, in comparisons, if this share matches.
    fn scan_costs(&self, count: usize, share: f64, (asking, in_order): (usize, usize)) -> (usize, usize) {
        let len = self.len() as f64;
        // Until enough have matched all are asked about, then those closer than the worst.
        let filling = count as f64 / share;
        let asked = (filling * (1.0 + (len / filling).max(1.0).ln())).min(len);
        let by_distance = len + asked * asking as f64;
        let by_filter = len * in_order as f64 + len * share;
        (by_distance as usize, by_filter as usize)
    }

    fn scan_by_distance(&self, query: &Query, count: usize, answers: &mut Answers<'_>) -> Best {
        let mut best = Best::new(count, self.len());
        for id in 0..self.len() as u32 {
            let candidate = Candidate::new(self.distance(query, id), id);
            if best.would_take(candidate) && answers.of(id) == Some(true) {
                best.take(candidate);
            }
        }
        best
    }

    fn scan_by_filter(&self, query: &Query, count: usize, answers: Answers<'_>) -> Best {
        let Answers { filter, known, left, .. } = answers;
        let mut best = Best::new(count, self.len());
        let mut take = |id: u32| best.take(Candidate::new(self.distance(query, id), id));
        known.iter().filter(|(_, is_match)| **is_match).for_each(|(&id, _)| take(id));
        filter.each_match(self.len() as u32, left, &mut |id| {
            if !known.contains_key(&id) {
                take(id);
            }
        });
        best
    }
}
