// SPDX-License-Identifier: BSD-3-Clause
//! The walk of one level: from entries, always on to the closest vector not yet expanded, until
//! the best `ef` known vectors are all expanded.
//!
//! A candidate is one word that sorts by distance, then by number:
//!
//! ```text
//! distance, as an integer of the same order (32 bits) | number (31) | expanded (1)
//! ```
//! Up to [`SORTED_MAX`] candidates are a sorted array; insertion moves the worse ones along, which
//! costs less than a heap's comparisons. More are two heaps.
//!
//! Equal vectors have equal distances: a few hundred of them near the query would be all that fits
//! among `ef` candidates, and hide what lies behind them. So a twin of a candidate has a place of
//! its own, up to [`TWINS`] times `ef`.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU32, Ordering::Acquire};

use crate::store::{Graph, NONE};

/// Largest `ef` for which candidates are a sorted array.
const SORTED_MAX: usize = 1024;

/// Most twins that are kept beside `ef` candidates, as a multiple of `ef`.
const TWINS: usize = 8;

const EXPANDED: u64 = 1;

/// Candidates kept while descending to the lowest level. More than one, so that a query close to
/// several groups of vectors enters more than one of them.
const DESCENT: usize = 8;

/// A vector and its distance, in an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate(u64);

impl Candidate {
    #[inline]
    pub fn new(distance: f32, id: u32) -> Candidate {
        let bits = distance.to_bits();
        let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
        Candidate(u64::from(ordered) << 32 | u64::from(id) << 1)
    }

    #[inline]
    pub fn id(self) -> u32 {
        self.0 as u32 >> 1
    }

    #[inline]
    pub fn distance(self) -> f32 {
        let ordered = (self.0 >> 32) as u32;
        f32::from_bits(if ordered >> 31 == 1 { ordered & !(1 << 31) } else { !ordered })
    }

    fn is_expanded(self) -> bool {
        self.0 & EXPANDED != 0
    }
}

/// Memory of a walk, kept by each thread for the next one.
#[derive(Default)]
pub struct Scratch {
    /// A bit for each vector already seen; all zero between walks.
    seen: Vec<u64>,
    /// Vectors whose bits are set.
    seen_ids: Vec<u32>,
    /// Neighbours seen for the first time in this step.
    fresh: Vec<u32>,
}

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// Runs a function with the thread's scratch memory.
pub fn with_scratch<R>(run: impl FnOnce(&mut Scratch) -> R) -> R {
    let mut scratch = SCRATCH.take().unwrap_or_default();
    let result = run(&mut scratch);
    SCRATCH.set(Some(scratch));
    result
}

impl Scratch {
    fn begin(&mut self, capacity: usize) {
        if self.seen.len() * 64 < capacity {
            self.seen.resize(capacity.div_ceil(64), 0);
        }
    }

    /// True the first time.
    #[inline]
    fn see(&mut self, id: u32) -> bool {
        let (word, bit) = (&mut self.seen[id as usize / 64], 1u64 << (id % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    fn end(&mut self) {
        for id in self.seen_ids.drain(..) {
            self.seen[id as usize / 64] = 0;
        }
    }

    /// Collects the neighbours of a vector not seen before, and fetches their vectors.
    #[inline]
    fn collect(&mut self, graph: &Graph, level: u8, id: u32) {
        self.fresh.clear();
        let lines = graph.vector_lines();
        for slot in graph.slots(id, level) {
            let neighbour = slot.load(Acquire);
            if neighbour == NONE {
                break;
            }
            if self.see(neighbour) {
                graph.prefetch_vector(neighbour, lines);
                self.fresh.push(neighbour);
            }
        }
        self.seen_ids.extend_from_slice(&self.fresh);
    }
}

/// The closest vectors to a query that a walk of a level finds from the entries: up to `ef`,
/// closest first; more if some are equal.
pub fn walk(
    graph: &Graph,
    level: u8,
    query: &[AtomicU32],
    entries: &[Candidate],
    ef: usize,
    scratch: &mut Scratch,
) -> Vec<Candidate> {
    scratch.begin(graph.capacity());
    for entry in entries {
        if scratch.see(entry.id()) {
            scratch.seen_ids.push(entry.id());
        }
    }
    let found = if ef <= SORTED_MAX {
        walk_sorted(graph, level, query, entries, ef, scratch)
    } else {
        walk_heaps(graph, level, query, entries, ef, scratch)
    };
    scratch.end();
    found
}

/// Entries for level `to`, from a descent to it.
pub fn descend(graph: &Graph, query: &[AtomicU32], to: u8, scratch: &mut Scratch) -> Vec<Candidate> {
    let (entry, top) = graph.entry();
    if entry == NONE {
        return Vec::new();
    }
    let mut entries = vec![Candidate::new(graph.distance_to(query, entry), entry)];
    for level in (to + 1..=top).rev() {
        let ef = if level == 1 { DESCENT } else { DESCENT / 2 };
        entries = walk(graph, level, query, &entries, ef, scratch);
    }
    entries
}

fn walk_sorted(
    graph: &Graph,
    level: u8,
    query: &[AtomicU32],
    entries: &[Candidate],
    ef: usize,
    scratch: &mut Scratch,
) -> Vec<Candidate> {
    let mut beam = Vec::with_capacity(ef + 1);
    beam.extend_from_slice(entries);
    beam.sort_unstable();
    beam.dedup();
    beam.truncate(ef);
    let (mut next, mut limit) = (0, ef);
    while next < beam.len() {
        if beam[next].is_expanded() {
            next += 1;
            continue;
        }
        let current = beam[next];
        beam[next].0 |= EXPANDED;
        next += 1;
        scratch.collect(graph, level, current.id());
        if let Some(following) = beam.get(next) {
            graph.prefetch_slots(following.id(), level);
        }
        for &id in &scratch.fresh {
            let candidate = Candidate::new(graph.distance_to(query, id), id);
            if beam.len() >= limit && candidate >= beam[limit - 1] {
                continue;
            }
            let place = beam.partition_point(|known| *known < candidate);
            if limit < ef + ef * TWINS && has_twin(graph, &beam, place, candidate) {
                limit += 1;
            }
            if beam.len() >= limit {
                beam.pop();
            }
            beam.insert(place, candidate);
            next = next.min(place);
        }
    }
    beam.iter_mut().for_each(|candidate| candidate.0 &= !EXPANDED);
    beam
}

/// True if a candidate beside this place is an equal vector.
#[inline]
fn has_twin(graph: &Graph, beam: &[Candidate], place: usize, candidate: Candidate) -> bool {
    let beside = [place.checked_sub(1), Some(place)].into_iter().flatten();
    let mut beside = beside.filter_map(|at| beam.get(at));
    beside.any(|other| other.0 >> 32 == candidate.0 >> 32 && graph.are_equal(other.id(), candidate.id()))
}

fn walk_heaps(
    graph: &Graph,
    level: u8,
    query: &[AtomicU32],
    entries: &[Candidate],
    ef: usize,
    scratch: &mut Scratch,
) -> Vec<Candidate> {
    let mut open: BinaryHeap<Reverse<Candidate>> = entries.iter().map(|&entry| Reverse(entry)).collect();
    let mut best: BinaryHeap<Candidate> = entries.iter().copied().collect();
    while let Some(Reverse(current)) = open.pop() {
        if best.len() >= ef && best.peek().is_some_and(|worst| current > *worst) {
            break;
        }
        scratch.collect(graph, level, current.id());
        for &id in &scratch.fresh {
            let candidate = Candidate::new(graph.distance_to(query, id), id);
            if best.len() < ef {
                best.push(candidate);
            } else {
                let mut worst = best.peek_mut().expect("as many as `ef`");
                if candidate >= *worst {
                    continue;
                }
                *worst = candidate;
            }
            open.push(Reverse(candidate));
        }
    }
    let mut found = best.into_sorted_vec();
    found.dedup();
    found
}
