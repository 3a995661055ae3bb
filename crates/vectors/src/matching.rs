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
//! The more vectors match, the fewer must be asked about. Their share is not known: a sample of all
//! vectors gives an estimate. A filter that is slow is asked for it only if a first walk has not
//! found enough.

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
/// How much more than what seems cheaper it may cost to compare with all that match: the result is
/// exact, and what a walk finds may not be.
const EXACT: usize = 2;
/// Vectors whose memory is fetched ahead.
const AHEAD: usize = 4;
/// Vectors in a sample, if there are [`SAMPLED`] times as many.
const SAMPLE: usize = 200;
const SAMPLED: usize = 16;
/// Vectors in the sample for a quick filter.
const SAMPLE_QUICK: usize = 1000;
/// 2^64 divided by the golden ratio: its multiples are spread evenly.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
/// Vectors that a walk finds for each that shall match.
const SPARE: f64 = 1.5;

/// A filter.
pub trait Matches {
    /// True if a vector matches.
    fn is_match(&mut self, id: u32) -> bool;

    /// Keeps the numbers that match.
    fn retain(&mut self, ids: &mut Vec<u32>) {
        ids.retain(|&id| self.is_match(id));
    }

    /// True if an answer takes no longer than comparing with a vector, roughly.
    fn is_quick(&self) -> bool {
        false
    }

    /// All vectors that match, and maybe others, in order and each once; `None` if the filter does
    /// not know them, or they are more than `most`.
    fn few(&mut self, _most: usize) -> Option<Vec<u32>> {
        None
    }

    /// Is told of vectors, roughly how many, that were compared with only because too few of those
    /// before them matched.
    fn compared_more(&mut self, _vectors: usize) {}

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

/// Candidates of a walk that finds `count` matching vectors, if this share matches.
fn wanted(count: usize, share: f64) -> usize {
    (count as f64 * SPARE / share) as usize
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
        let (mut ef, mut left, mut is_sampled) = (ef.max(count), budget, filter.is_quick());
        let (asking, in_order) =
            if filter.is_quick() { (ASKING_QUICK, ASKING_QUICK) } else { (ASKING, ASKING_IN_ORDER) };
        if let Some(few) = filter.few(self.search_effort(ef)) {
            return self.scan_few(query, count, (effort, left), few, filter);
        }
        if filter.is_quick() && !self.is_scan_cheaper(ef) {
            let share = self.sampled_share(filter);
            let few_max = self.few_max(count, ef, share, (asking, in_order));
            if share * (self.len() as f64) < 1.25 * few_max as f64
                && let Some(few) = filter.few(few_max)
            {
                return self.scan_few(query, count, (effort, left), few, filter);
            }
            ef = ef.max(wanted(count, share));
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
                for id in self.sample(SAMPLE) {
                    answers.of(id);
                }
            }
            let share = answers.share();
            let wanted = wanted(count, share);
            let (first, second) = self.scan_costs(count, share, (asking, in_order));
            if let Some(few) = answers.filter.few(self.few_max(count, ef, share, (asking, in_order))) {
                return self.scan_few(query, count, (answers.left, left), few, answers.filter);
            }
            if wanted.saturating_mul(WALK_STEPS + asking) > first.min(second) {
                break;
            }
            ef = wanted.clamp(ef * 2, ef * 16);
            answers.filter.compared_more(ef.saturating_mul(WALK_STEPS));
        }
        left.checked_sub(self.len().saturating_mul(1 + asking))?;
        let (by_distance, by_filter) = self.scan_costs(count, answers.share(), (asking, in_order));
        let best = match by_distance <= by_filter {
            true => self.scan_by_distance(query, count, &mut answers),
            false => self.scan_by_filter(query, count, answers),
        };
        Some(best.into_hits())
    }

    /// Numbers in no regular distance: those of elements may follow a pattern, as what was added in
    /// turns does. Equal graphs have equal samples.
    fn sample(&self, count: usize) -> impl Iterator<Item = u32> {
        let len = self.len() as u64;
        (0..count as u64).map(move |at| (((at.wrapping_mul(GOLDEN) >> 32) * len) >> 32) as u32)
    }

    /// The share of vectors that a quick filter matches, roughly.
    fn sampled_share(&self, filter: &mut dyn Matches) -> f64 {
        let mut sample: Vec<u32> = self.sample(SAMPLE_QUICK).collect();
        let len = sample.len() as f64;
        filter.retain(&mut sample);
        (sample.len() as f64 + 0.5) / (len + 0.5)
    }

    /// Up to how many vectors are compared if they are known to be all that can match.
    fn few_max(&self, count: usize, ef: usize, share: f64, asking: (usize, usize)) -> usize {
        let (first, second) = self.scan_costs(count, share, asking);
        let walk = wanted(count, share).max(ef).saturating_mul(WALK_STEPS + asking.0);
        walk.min(first).min(second).saturating_mul(EXACT)
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
        budget.checked_sub(few.len())?;
        let mut matching = few;
        matching.truncate(effort);
        filter.retain(&mut matching);
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
