// SPDX-License-Identifier: BSD-3-Clause
//! A query being run, slice by slice.
//!
//! A slice is a range of the documents of one part: the part is locked, cursors are made, documents
//! are visited, the part is unlocked. Documents keep their numbers when they are replaced, so the
//! next slice goes on at the next number. What a query sees is each document once, as it was when
//! its slice was run.

use std::collections::HashMap;

use super::bits::DocSet;
use super::cursor::{Cursor, END, Scoring};
use super::error::SearchError;
use super::explanation;
use super::plan::Plan;
use super::profile::{Clock, Profile, Report};
use super::score::Document;
use super::top::{Hit, Order, Top};
use super::vectors::Vectors;
use crate::index::{DocId, DocRef, Index, Part, SortValue};

/// Documents of a slice, by number. A slice of a query with several words takes about a
/// millisecond.
pub const SLICE_DOCS: DocId = 8192;

pub struct SearchOptions {
    pub order: Order,
    /// How many of the best results are kept.
    pub results_max: usize,
    /// Whether scores are wanted although they are not the order.
    pub with_scores: bool,
    /// Whether it is to be said how scores came about.
    pub explains: bool,
    /// How many documents a slice looks at: its time under a lock.
    pub slice_docs: DocId,
}

impl Default for SearchOptions {
    fn default() -> SearchOptions {
        SearchOptions {
            order: Order::Score,
            results_max: 10,
            with_scores: false,
            explains: false,
            slice_docs: SLICE_DOCS,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// More slices are due.
    Running,
    Done,
}

/// What the slices are for.
enum Phase {
    /// Which documents the nearest ones are looked for among.
    Filter(DocSet),
    Results,
    Done,
}

pub struct Search {
    plan: Plan,
    options: SearchOptions,
    top: Top,
    phase: Phase,
    part: u16,
    from: DocId,
    profile: Option<Profile>,
}

impl Search {
    pub fn new(plan: Plan, options: SearchOptions) -> Search {
        let top = Top::new(&options.order, options.results_max);
        let phase = if plan.nearest.is_some() { Phase::Filter(DocSet::default()) } else { Phase::Results };
        Search { plan, options, top, phase, part: 0, from: 0, profile: None }
    }

    /// Measures what it does from now on (FT.PROFILE).
    pub fn measure(&mut self, clock: Clock) {
        self.profile = Some(Profile::new(&self.plan, clock));
    }

    /// What was measured.
    pub fn report(&self) -> Option<Report> {
        self.profile.as_ref().map(|profile| profile.report(&self.plan))
    }

    /// Runs one slice; a vector search is a slice of its own.
    ///
    /// # Errors
    ///
    /// What the vectors refuse.
    pub fn slice(&mut self, index: &Index, vectors: &dyn Vectors) -> Result<Status, SearchError> {
        if matches!(self.phase, Phase::Done) {
            return Ok(Status::Done);
        }
        // All documents are known without looking.
        let everything = matches!(self.plan.root, super::plan::Step::Everything { .. });
        if matches!(self.phase, Phase::Filter(_)) && everything && self.plan.among.is_none() {
            self.nearest(index, vectors, None)?;
            return Ok(Status::Done);
        }
        if self.part == index.parts() {
            if let Phase::Filter(found) = std::mem::replace(&mut self.phase, Phase::Done) {
                self.nearest(index, vectors, Some(&found))?;
            }
            return Ok(Status::Done);
        }
        let part = index.part(self.part);
        let until = self.from.saturating_add(self.options.slice_docs.max(1)).min(part.end());
        self.visit(index, &part, until);
        if until == part.end() {
            (self.part, self.from) = (self.part + 1, 0);
        } else {
            self.from = until;
        }
        Ok(Status::Running)
    }

    /// Runs all slices, as long as `may_go_on` says so in between. True if it is complete.
    ///
    /// # Errors
    ///
    /// What the vectors refuse.
    pub fn run(
        &mut self,
        index: &Index,
        vectors: &dyn Vectors,
        mut may_go_on: impl FnMut() -> bool,
    ) -> Result<bool, SearchError> {
        while self.slice(index, vectors)? == Status::Running {
            if !may_go_on() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// How many documents were found, and the best of them.
    pub fn finish(self) -> (usize, Vec<Hit>) {
        (self.top.total, self.top.finish())
    }

    /// The names of the distances that hits have.
    pub fn distance_names(&self) -> Vec<String> {
        let within = self.plan.distances.iter().map(|(name, _)| name.clone());
        let nearest = self.plan.nearest.iter().filter_map(|knn| knn.options.distance_as.clone());
        within.chain(nearest).collect()
    }

    fn visit(&mut self, index: &Index, part: &Part, until: DocId) {
        let dictionary = index.dictionary();
        let range = (self.from, until);
        let Search { plan, options, top, phase, part: number, profile, .. } = self;
        let profile = profile.as_ref();
        let watch = profile.map(|profile| profile.watch(until));
        let mut root = Cursor::new(&plan.root, part, *number, &dictionary, range, watch);
        let watch = profile.map(|profile| profile.watch_among(until));
        let mut among =
            plan.among.as_ref().map(|step| Cursor::new(step, part, *number, &dictionary, range, watch));
        drop(dictionary);
        let totals = plan.totals;
        let len_average = if totals.docs > 0 { totals.len as f64 / totals.docs as f64 } else { 0.0 };
        let by_score = options.order == Order::Score;
        let mut from = range.0;
        loop {
            let mut doc = root.seek(from);
            if let Some(among) = &mut among
                && doc < until
            {
                let allowed = among.seek(doc);
                if allowed != doc {
                    from = allowed;
                    if from >= until {
                        break;
                    }
                    continue;
                }
                doc = allowed;
            }
            if doc >= until || doc == END {
                break;
            }
            from = doc + 1;
            if let Phase::Filter(found) = phase {
                found.insert(*number, doc);
                continue;
            }
            let facts = part.facts(doc);
            let mut score = 0.0;
            let mut explained = None;
            if by_score || options.with_scores {
                let began = profile.map(|profile| (profile.clock)());
                let scoring = Scoring { scorer: plan.scorer, len: f64::from(facts.len), len_average };
                let distance = if plan.scorer.needs_distance() { root.distance(doc) } else { 1.0 };
                let document = Document {
                    score: f64::from(facts.score),
                    len: scoring.len,
                    frequency_max: f64::from(facts.frequency_max),
                    distance,
                };
                let sum = root.score(doc, scoring);
                score = plan.scorer.finish(sum, document);
                profile.zip(began).iter().for_each(|(profile, began)| profile.note_score(*began));
                explained = options.explains.then_some((doc, scoring, sum, document));
            }
            let doc = DocRef { part: *number, doc, generation: facts.generation };
            let began = profile.map(|profile| (profile.clock)());
            let sort = sort_value(part, doc, options, &plan.distances);
            top.offer(score, sort, facts.sequence, |sort| {
                let distances = plan.distances.iter().map(|(_, found)| found.get(&doc).copied()).collect();
                let key = part.key(doc.doc).into();
                let explanation = explained.map(|(doc, scoring, sum, document)| {
                    Box::new(explanation::whole(plan.scorer, sum, document, root.explain(doc, scoring)))
                });
                Hit { key, doc, sequence: facts.sequence, score, sort, distances, explanation }
            });
            profile.zip(began).iter().for_each(|(profile, began)| profile.note_sort(*began));
        }
    }

    /// Asks the vectors, and gathers what they found.
    fn nearest(
        &mut self,
        index: &Index,
        vectors: &dyn Vectors,
        allowed: Option<&DocSet>,
    ) -> Result<(), SearchError> {
        self.phase = Phase::Done;
        let Some(knn) = self.plan.nearest.clone() else { return Ok(()) };
        if knn.count == 0 || allowed.is_some_and(DocSet::is_empty) {
            return Ok(());
        }
        let began = self.profile.as_ref().map(|profile| (profile.clock)());
        let found = vectors.nearest(knn.field, &knn.vector, knn.count, &knn.options, allowed);
        let mut found = found.map_err(SearchError::Vectors)?;
        found.retain(|(doc, _)| allowed.is_none_or(|allowed| allowed.contains(*doc)));
        found.sort_by(|one, other| one.1.total_cmp(&other.1));
        found.truncate(knn.count);
        self.profile.iter().zip(began).for_each(|(profile, began)| profile.note_nearest(began, found.len()));
        found.sort_unstable_by_key(|(doc, _)| *doc);
        let name = knn.options.distance_as.unwrap_or_default();
        let distances: HashMap<DocRef, f64> = found.iter().copied().collect();
        self.plan.distances.push((name, distances));
        self.plan.nearest = None;
        for of_part in found.chunk_by(|one, other| one.0.part == other.0.part) {
            let part = index.part(of_part[0].0.part);
            for (doc, _) in of_part {
                let Some(id) = part.resolve(*doc) else { continue };
                let sequence = part.facts(id).sequence;
                let sort = sort_value(&part, *doc, &self.options, &self.plan.distances);
                let distances = &self.plan.distances;
                // All scores are 0: results by score are as they were put.
                self.top.offer(0.0, sort, sequence, |sort| {
                    let distances = distances.iter().map(|(_, found)| found.get(doc).copied()).collect();
                    let (key, explanation) = (part.key(id).into(), None);
                    Hit { key, doc: *doc, sequence, score: 0.0, sort, distances, explanation }
                });
            }
        }
        Ok(())
    }
}

fn sort_value(
    part: &Part,
    doc: DocRef,
    options: &SearchOptions,
    distances: &[(String, HashMap<DocRef, f64>)],
) -> SortValue {
    match &options.order {
        Order::Field { field, .. } => part.sort_value(*field, doc.doc),
        Order::Distance { name, .. } => {
            let found = distances.iter().find(|(one, _)| one == name).and_then(|(_, found)| found.get(&doc));
            found.map_or(SortValue::None, |distance| SortValue::Number(*distance))
        }
        Order::Score | Order::Sequence => SortValue::None,
    }
}
