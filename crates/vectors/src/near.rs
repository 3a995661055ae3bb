// SPDX-License-Identifier: BSD-3-Clause
//! The search for the place of a new vector: which vectors are near it, on each of its levels.
//!
//! The search only reads, so it may run before the vector is added, beside other searches and, by
//! guests (`shared`), beside additions. The graph may have changed by then: a [`Near`] is told what
//! has, and is put right when it is used.

use std::ops::Range;
use std::sync::atomic::AtomicU32;

use crate::beam::{Candidate, descend, walk, with_scratch};
use crate::plan::{Plan, plan};
use crate::store::Graph;

/// Vectors found beside the place of a new one.
pub struct Near {
    levels: Vec<At>,
    ef: usize,
    /// Numbers that may have been given since.
    added: Range<u32>,
    /// Numbers may be those of other vectors now, or of none.
    is_doubtful: bool,
}

/// What was found on a level.
#[derive(Clone, Default)]
pub struct At {
    /// Closest first.
    pub candidates: Vec<Candidate>,
    /// The links among them; `None` if they must be chosen.
    pub plan: Option<Plan>,
}

impl Near {
    /// Tells that these numbers may have been given to vectors since.
    pub fn note_added(&mut self, ids: Range<u32>) {
        self.added = ids;
    }

    /// Tells that vectors may have been removed or replaced since.
    pub fn note_removed(&mut self) {
        self.is_doubtful = true;
    }

    /// What was found for a vector at a level, as far as it exists; no candidates if nothing is
    /// known.
    pub(crate) fn at(&self, graph: &Graph, words: &[AtomicU32], id: u32, level: u8) -> At {
        let Some(found) = self.levels.get(usize::from(level)).filter(|at| !at.candidates.is_empty()) else {
            return At::default();
        };
        let exists =
            |other: u32| other != id && (other as usize) < graph.len() && graph.level(other) >= level;
        let measured = |other: u32| Candidate::new(graph.distance_to(words, other), other);
        let mut at = found.clone();
        // A vector that is replaced was there during the search.
        let is_itself = at.candidates.iter().any(|candidate| candidate.id() == id);
        at.plan = at.plan.filter(|plan| !is_itself && !plan.names(id));
        if self.is_doubtful {
            let numbers = found.candidates.iter().map(|candidate| candidate.id());
            at.candidates = numbers.filter(|&other| exists(other)).map(measured).collect();
            at.plan = None;
        }
        let (known, most) = (at.candidates.len(), at.candidates.len().max(self.ef));
        // Farther ones would not have been found, or not chosen.
        let farthest = at.candidates.last().filter(|_| known >= self.ef);
        let reach = farthest.map_or(f32::INFINITY, |last| last.distance());
        let reach = at.plan.as_ref().map_or(reach, |plan| plan.reach.min(reach));
        for candidate in self.added.clone().filter(|&other| exists(other)).map(measured) {
            at.plan = at.plan.filter(|_| candidate.distance() > reach);
            at.candidates.push(candidate);
        }
        if at.candidates.len() > known || self.is_doubtful {
            at.candidates.sort_unstable();
            at.candidates.dedup();
            at.candidates.truncate(most);
        }
        at
    }
}

/// Candidates for the links of a vector at a level, from those of the level above.
pub fn candidates(
    graph: &Graph,
    words: &[AtomicU32],
    above: &[Candidate],
    ef: usize,
    level: u8,
) -> Vec<Candidate> {
    with_scratch(|scratch| match above {
        [] => {
            let entries = descend(graph, words, level, scratch);
            walk(graph, level, words, &entries, ef.max(1), scratch)
        }
        _ => walk(graph, level, words, above, ef.max(1), scratch),
    })
}

/// The vectors that an insertion would find for the links of a new vector.
pub fn look_around(graph: &Graph, words: &[AtomicU32], ef: usize, level: u8) -> Near {
    let top = level.min(graph.top_level());
    let mut levels = vec![At::default(); usize::from(top) + 1];
    let mut entries: Vec<Candidate> = Vec::new();
    for level in (0..=top).rev() {
        entries = candidates(graph, words, &entries, ef, level);
        let plan = Some(plan(graph, words, &entries, level));
        levels[usize::from(level)] = At { candidates: entries.clone(), plan };
    }
    Near { levels, ef, added: 0..0, is_doubtful: false }
}
