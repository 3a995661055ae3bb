// SPDX-License-Identifier: BSD-3-Clause
//! A plan on one part: cursors that find documents in ascending order, and tell what each match
//! adds to the score.
//!
//! A cursor lives for one slice of a query, while the part is locked.

use braid_containers::geohash::Position;

use super::bits::DocBits;
use super::explanation::{self, Explanation, Occurrence};
use super::plan::{Step, Term};
use super::profile::Watch;
use super::score::Scorer;
use crate::index::{Dictionary, DocId, Part, TagReader, WordReader};
use crate::query::Range;
use crate::schema::FieldId;

/// After all documents.
pub const END: DocId = DocId::MAX;

pub struct Cursor<'a> {
    /// The document found last; none before the first is asked for.
    at: Option<DocId>,
    kind: Kind<'a>,
    watch: Option<Watch<'a>>,
}

enum Kind<'a> {
    Nothing,
    Everything { part: &'a Part, weight: f64 },
    Word { reader: WordReader<'a>, term: &'a Term },
    Tag { reader: TagReader<'a>, term: &'a Term },
    List { docs: Vec<DocId>, next: usize, weight: f64 },
    Bits { docs: DocBits, weight: f64 },
    All(All<'a>),
    Any { children: Vec<Cursor<'a>>, first_only: bool, weight: f64 },
    Not { child: Box<Cursor<'a>>, part: &'a Part },
    Optional { child: Box<Cursor<'a>>, part: &'a Part },
}

struct All<'a> {
    children: Vec<Cursor<'a>>,
    /// Ranges that are asked of each document instead of being read: they hold for many more
    /// documents than the children find.
    tests: Vec<Test<'a>>,
    slop: Option<u32>,
    in_order: bool,
    weight: f64,
    positions: Vec<Vec<u32>>,
}

struct Test<'a> {
    part: &'a Part,
    field: FieldId,
    range: Range,
    weight: f64,
    watch: Option<Watch<'a>>,
}

impl Test<'_> {
    fn holds(&self, doc: DocId) -> bool {
        let holds = || self.part.has_number(doc, self.field, &self.range);
        self.watch.map_or_else(holds, |watch| watch.test(holds))
    }
}

/// What scoring knows of a document while cursors are on it.
#[derive(Clone, Copy)]
pub struct Scoring {
    pub scorer: Scorer,
    pub len: f64,
    pub len_average: f64,
}

impl<'a> Cursor<'a> {
    /// A cursor for a step of a plan. `range` are the documents that will be asked for.
    pub fn new(
        step: &'a Step,
        part: &'a Part,
        number: u16,
        dictionary: &Dictionary,
        range: (DocId, DocId),
        watch: Option<Watch<'a>>,
    ) -> Cursor<'a> {
        Cursor { at: None, kind: Kind::new(step, part, number, dictionary, range, watch), watch }
    }

    /// About how many documents it finds.
    fn estimate(&self) -> usize {
        match &self.kind {
            Kind::Nothing => 0,
            Kind::Word { reader, .. } => reader.docs_left(),
            Kind::Tag { reader, .. } => reader.docs_left(),
            Kind::List { docs, .. } => docs.len(),
            Kind::All(All { children, .. }) => {
                children.iter().map(Cursor::estimate).min().unwrap_or(usize::MAX)
            }
            Kind::Any { children, .. } => {
                children.iter().map(Cursor::estimate).fold(0, usize::saturating_add)
            }
            Kind::Bits { .. } | Kind::Everything { .. } | Kind::Not { .. } | Kind::Optional { .. } => {
                usize::MAX
            }
        }
    }

    fn is_on(&self, doc: DocId) -> bool {
        self.at == Some(doc)
    }

    /// The first document from the wanted one on. A cursor that is further on stays there.
    pub fn seek(&mut self, wanted: DocId) -> DocId {
        if let Some(at) = self.at.filter(|at| *at >= wanted) {
            return at;
        }
        let at = match self.watch {
            None => self.kind.seek(wanted),
            Some(watch) => watch.seek(|| self.kind.seek(wanted)),
        };
        self.at = Some(at);
        at
    }

    /// What the match of a document adds to its score; nothing if the cursor is not on it.
    pub fn score(&self, doc: DocId, scoring: Scoring) -> f64 {
        if self.is_on(doc) { self.kind.score(doc, scoring) } else { 0.0 }
    }

    /// How it came about what the match of a document adds to its score.
    pub fn explain(&self, doc: DocId, scoring: Scoring) -> Explanation {
        if self.is_on(doc) {
            self.kind.explain(doc, scoring)
        } else {
            explanation::wordless(scoring.scorer, 0.0)
        }
    }

    /// How far apart the words of a match are: 1 if they are neighbours, or if there is only one.
    pub fn distance(&self, doc: DocId) -> f64 {
        let children = match &self.kind {
            Kind::All(All { children, .. }) => children,
            Kind::Any { children, first_only: false, .. } => children,
            _ => return 1.0,
        };
        let mut sum = 0u64;
        let mut before: Vec<u32> = Vec::new();
        let mut positions = Vec::new();
        for child in children {
            positions.clear();
            child.positions(doc, &mut positions);
            if positions.is_empty() {
                continue;
            }
            if !before.is_empty() {
                let gap = u64::from(smallest_gap(&before, &positions));
                sum = sum.saturating_add(gap * gap);
            }
            std::mem::swap(&mut before, &mut positions);
        }
        ((sum as f64).sqrt().floor()).max(1.0)
    }

    /// Adds where the words of a match are, ascending.
    fn positions(&self, doc: DocId, out: &mut Vec<u32>) {
        if !self.is_on(doc) {
            return;
        }
        match &self.kind {
            Kind::Word { reader, .. } => out.extend(reader.hit().positions()),
            Kind::All(All { children, .. }) | Kind::Any { children, .. } => {
                let start = out.len();
                children.iter().for_each(|child| child.positions(doc, out));
                out[start..].sort_unstable();
            }
            Kind::Optional { child, .. } => child.positions(doc, out),
            _ => {}
        }
    }
}

impl<'a> Kind<'a> {
    fn new(
        step: &'a Step,
        part: &'a Part,
        number: u16,
        dictionary: &Dictionary,
        range: (DocId, DocId),
        watch: Option<Watch<'a>>,
    ) -> Kind<'a> {
        let new = |(at, step)| {
            Cursor::new(step, part, number, dictionary, range, watch.map(|watch: Watch<'a>| watch.child(at)))
        };
        // A part is counted once, in its first slice.
        let watch_size = watch.filter(|_| range.0 == 0);
        match step {
            Step::Nothing => Kind::Nothing,
            Step::Everything { weight } => Kind::Everything { part, weight: *weight },
            Step::Term(term) => Kind::of_term(term, part, dictionary),
            Step::Numbers { field, range: wanted, weight } => {
                let within = part.numbers_between(*field, wanted.min, wanted.max);
                let found = within.filter(|(number, _)| wanted.contains(*number)).map(|(_, doc)| doc);
                let about = part.count_between(*field, wanted.min, wanted.max);
                watch_size.iter().for_each(|watch| watch.note_size(about));
                Kind::of_docs(found, about, range, *weight)
            }
            Step::Near { field, area, cells, weight } => {
                let mut docs = Vec::new();
                for cell in cells {
                    let within = part.numbers_between(*field, cell.start, cell.end);
                    let inside = within.filter(|(score, _)| area.contains(Position::from_score(*score)));
                    docs.extend(inside.map(|(_, doc)| doc));
                }
                let about = docs.len();
                watch_size.iter().for_each(|watch| watch.note_size(about));
                Kind::of_docs(docs.into_iter(), about, range, *weight)
            }
            Step::Docs { parts, weight } => {
                let known = parts.get(&number).map_or(&[][..], |docs| docs);
                let alive = known.iter().filter(|(doc, generation)| {
                    part.is_live(*doc) && part.facts(*doc).generation == *generation
                });
                let mut docs: Vec<DocId> = alive.map(|(doc, _)| *doc).collect();
                docs.dedup();
                Kind::List { docs, next: 0, weight: *weight }
            }
            Step::All { children, slop, in_order, weight } => {
                let (children, tests) = split(children, part, watch, new);
                let positions = vec![Vec::new(); children.len()];
                let (slop, in_order, weight) = (*slop, *in_order, *weight);
                Kind::All(All { children, tests, slop, in_order, weight, positions })
            }
            Step::Any { children, first_only, weight, .. } => {
                let mut children: Vec<Cursor<'_>> = children.iter().enumerate().map(new).collect();
                children.retain(|child| !matches!(child.kind, Kind::Nothing));
                if children.is_empty() {
                    return Kind::Nothing;
                }
                Kind::Any { children, first_only: *first_only, weight: *weight }
            }
            Step::Not(child) => Kind::Not { child: Box::new(new((0, child))), part },
            Step::Optional(child) => Kind::Optional { child: Box::new(new((0, child))), part },
        }
    }

    fn of_term(term: &'a Term, part: &'a Part, dictionary: &Dictionary) -> Kind<'a> {
        let Some(id) = dictionary.find(term.space, &term.text) else { return Kind::Nothing };
        if term.space == crate::index::Space::WORDS {
            part.word(id).map_or(Kind::Nothing, |reader| Kind::Word { reader, term })
        } else {
            part.tag(id).map_or(Kind::Nothing, |reader| Kind::Tag { reader, term })
        }
    }

    /// Of documents in any order, those of a range.
    fn of_docs(
        found: impl Iterator<Item = DocId>,
        about: usize,
        range: (DocId, DocId),
        weight: f64,
    ) -> Kind<'a> {
        let within = found.filter(|doc| (range.0..range.1).contains(doc));
        if about > range.1.saturating_sub(range.0) as usize / 64 {
            let mut docs = DocBits::default();
            within.for_each(|doc| docs.insert(doc));
            return Kind::Bits { docs, weight };
        }
        let mut docs: Vec<DocId> = within.collect();
        docs.sort_unstable();
        docs.dedup();
        Kind::List { docs, next: 0, weight }
    }

    /// The first document from the wanted one on; wanted ones ascend.
    fn seek(&mut self, wanted: DocId) -> DocId {
        match self {
            Kind::Nothing => END,
            Kind::Everything { part, .. } => next_live(part, wanted),
            Kind::Word { reader, term } => {
                let mut wanted = wanted;
                loop {
                    let Some(doc) = reader.seek(wanted) else { return END };
                    if term.fields == u128::MAX || reader.hit().fields & term.fields != 0 {
                        return doc;
                    }
                    wanted = doc + 1;
                }
            }
            Kind::Tag { reader, .. } => reader.seek(wanted).unwrap_or(END),
            Kind::List { docs, next, .. } => {
                *next += docs[*next..].partition_point(|doc| *doc < wanted);
                docs.get(*next).copied().unwrap_or(END)
            }
            Kind::Bits { docs, .. } => docs.next_from(wanted).unwrap_or(END),
            Kind::All(all) => all.seek(wanted),
            Kind::Any { children, .. } => {
                children.iter_mut().map(|child| child.seek(wanted)).min().unwrap_or(END)
            }
            Kind::Not { child, part } => {
                let mut doc = next_live(part, wanted);
                while doc != END && child.seek(doc) == doc {
                    doc = next_live(part, doc + 1);
                }
                doc
            }
            Kind::Optional { child, part } => {
                let doc = next_live(part, wanted);
                if doc != END {
                    child.seek(doc);
                }
                doc
            }
        }
    }

    fn score(&self, doc: DocId, scoring: Scoring) -> f64 {
        let Scoring { scorer, len, len_average } = scoring;
        match self {
            Kind::Nothing | Kind::Not { .. } => 0.0,
            Kind::Everything { weight, .. } => weight * scorer.term(1.0, 1.0, len, len_average),
            Kind::Word { reader, term } => {
                let frequency = f64::from(reader.hit().frequency);
                term.weight * scorer.term(frequency, term.rarity, len, len_average)
            }
            Kind::Tag { term, .. } => term.weight * scorer.term(1.0, term.rarity, len, len_average),
            Kind::List { weight, .. } | Kind::Bits { weight, .. } => weight * scorer.wordless(),
            Kind::All(all) => {
                let tests: f64 = all.tests.iter().map(|test| test.weight * scorer.wordless()).sum();
                let children = all.children.iter().map(|child| child.score(doc, scoring));
                all.weight * (children.sum::<f64>() + tests)
            }
            Kind::Any { children, first_only, weight } => {
                let mut scores =
                    children.iter().filter(|child| child.is_on(doc)).map(|child| child.score(doc, scoring));
                weight
                    * if *first_only {
                        scores.next().unwrap_or(0.0)
                    } else if scorer == Scorer::DisMax {
                        scores.fold(0.0, f64::max)
                    } else {
                        scores.sum()
                    }
            }
            Kind::Optional { child, .. } => child.score(doc, scoring),
        }
    }

    fn explain(&self, doc: DocId, scoring: Scoring) -> Explanation {
        let Scoring { scorer, len, len_average } = scoring;
        let term = |text: &str, frequency: f64, rarity: f64, weight: f64| {
            let of = Occurrence { text, frequency, rarity, weight, len, len_average };
            explanation::term(scorer, &of)
        };
        match self {
            Kind::Nothing | Kind::Not { .. } => explanation::wordless(scorer, 0.0),
            Kind::Everything { weight, .. } => match scorer {
                Scorer::Bm25Std => term("*", 1.0, 1.0, *weight),
                _ => explanation::wordless(scorer, *weight),
            },
            Kind::Word { reader, term: of } => {
                term(&of.text, f64::from(reader.hit().frequency), of.rarity, of.weight)
            }
            Kind::Tag { term: of, .. } => term(&of.text, 1.0, of.rarity, of.weight),
            Kind::List { weight, .. } | Kind::Bits { weight, .. } => explanation::wordless(scorer, *weight),
            Kind::All(all) => {
                let mut parts: Vec<_> =
                    all.children.iter().map(|child| child.explain(doc, scoring)).collect();
                parts.extend(all.tests.iter().map(|test| explanation::wordless(scorer, test.weight)));
                let tests: f64 = all.tests.iter().map(|test| test.weight * scorer.wordless()).sum();
                let sum = all.children.iter().map(|child| child.score(doc, scoring)).sum::<f64>() + tests;
                explanation::several(scorer, sum, all.weight, parts)
            }
            Kind::Any { children, first_only, weight } => {
                let on = children.iter().filter(|child| child.is_on(doc));
                let used: Vec<_> = if *first_only { on.take(1).collect() } else { on.collect() };
                let parts = used.iter().map(|child| child.explain(doc, scoring)).collect();
                let scores = used.iter().map(|child| child.score(doc, scoring));
                let sum = if scorer == Scorer::DisMax { scores.fold(0.0, f64::max) } else { scores.sum() };
                explanation::several(scorer, sum, *weight, parts)
            }
            Kind::Optional { child, .. } => child.explain(doc, scoring),
        }
    }
}

impl All<'_> {
    fn seek(&mut self, wanted: DocId) -> DocId {
        let mut doc = wanted;
        'next: loop {
            if doc == END {
                return END;
            }
            for child in &mut self.children {
                let found = child.seek(doc);
                if found != doc {
                    doc = found;
                    continue 'next;
                }
            }
            if self.tests.iter().all(|test| test.holds(doc)) && self.is_close(doc) {
                return doc;
            }
            doc += 1;
        }
    }

    /// Whether the words are as close as they have to be.
    fn is_close(&mut self, doc: DocId) -> bool {
        if self.slop.is_none() && !self.in_order {
            return true;
        }
        let mut used = 0;
        for child in &self.children {
            let positions = &mut self.positions[used];
            positions.clear();
            child.positions(doc, positions);
            used += usize::from(!positions.is_empty());
        }
        let positions = &self.positions[..used];
        let slop = self.slop.map_or(u64::MAX, u64::from);
        used < 2 || if self.in_order { in_order(positions, slop) } else { together(positions, slop) }
    }
}

/// Whether one position of each list can be chosen so that they ascend, with no more than `slop`
/// others between.
fn in_order(lists: &[Vec<u32>], slop: u64) -> bool {
    let Some((first, rest)) = lists.split_first() else { return true };
    first.iter().any(|start| {
        let mut last = *start;
        for list in rest {
            // The nearest is the best one, for this list and those after it.
            match list.get(list.partition_point(|position| *position <= last)) {
                Some(next) => last = *next,
                None => return false,
            }
        }
        u64::from(last - start) - rest.len() as u64 <= slop
    })
}

/// Whether one position of each list can be chosen with no more than `slop` others between.
fn together(lists: &[Vec<u32>], slop: u64) -> bool {
    let mut next = vec![0; lists.len()];
    loop {
        let current = lists.iter().zip(&next).map(|(list, at)| list[*at]);
        let (mut low, mut high) = ((0, u32::MAX), 0);
        for (list, position) in current.enumerate() {
            if position < low.1 {
                low = (list, position);
            }
            high = high.max(position);
        }
        if u64::from(high - low.1) <= slop.saturating_add(lists.len() as u64 - 1) {
            return true;
        }
        next[low.0] += 1;
        if next[low.0] == lists[low.0].len() {
            return false;
        }
    }
}

fn smallest_gap(one: &[u32], other: &[u32]) -> u32 {
    let (mut a, mut b) = (0, 0);
    let mut smallest = u32::MAX;
    while let (Some(&x), Some(&y)) = (one.get(a), other.get(b)) {
        smallest = smallest.min(x.abs_diff(y));
        if x < y { a += 1 } else { b += 1 }
    }
    smallest
}

fn next_live(part: &Part, wanted: DocId) -> DocId {
    (wanted..part.end()).find(|doc| part.is_live(*doc)).unwrap_or(END)
}

/// The cursors of a conjunction, and the ranges that are cheaper to ask of each document.
fn split<'a>(
    steps: &'a [Step],
    part: &'a Part,
    watch: Option<Watch<'a>>,
    new: impl Fn((usize, &'a Step)) -> Cursor<'a>,
) -> (Vec<Cursor<'a>>, Vec<Test<'a>>) {
    let mut children = Vec::with_capacity(steps.len());
    let mut tests = Vec::new();
    let is_range = |(_, step): &(usize, &Step)| matches!(step, Step::Numbers { .. });
    children.extend(steps.iter().enumerate().filter(|step| !is_range(step)).map(&new));
    let fewest = children.iter().map(Cursor::estimate).min();
    for (at, step) in steps.iter().enumerate().filter(is_range) {
        match step {
            Step::Numbers { field, range, weight }
                if fewest.is_some_and(|few| part.count_between(*field, range.min, range.max) / 8 >= few) =>
            {
                let watch = watch.map(|watch| watch.child(at));
                tests.push(Test { part, field: *field, range: *range, weight: *weight, watch });
            }
            _ => children.push(new((at, step))),
        }
    }
    (children, tests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_close_or_not() {
        let lists = |lists: &[&[u32]]| lists.iter().map(|list| list.to_vec()).collect::<Vec<_>>();
        let close = lists(&[&[1, 10], &[3, 12], &[11]]);
        assert!(together(&close, 0));
        assert!(!in_order(&close, 5));
        let ordered = lists(&[&[1, 5], &[2, 9], &[3, 10]]);
        assert!(in_order(&ordered, 0));
        let far = lists(&[&[1], &[4]]);
        assert!(in_order(&far, 2) && together(&far, 2));
        assert!(!in_order(&far, 1) && !together(&far, 1));
        assert_eq!(smallest_gap(&[1, 20], &[5, 18]), 2);
    }
}
