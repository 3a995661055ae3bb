// SPDX-License-Identifier: BSD-3-Clause
//! What a query did, measured while it ran (FT.PROFILE): for each step of its plan the documents
//! that it found and the time that finding them took, the steps below it included.
//!
//! Cursors live for a slice, probes for the whole query: a cursor has a [`Watch`] on its step's
//! probe. Without a profile there is none, and nothing is measured.

use std::cell::Cell;

use super::plan::{Plan, Step};
use crate::index::{DocId, Space};

/// Nanoseconds since any time in the past. The caller's, since nothing here reads clocks.
pub type Clock = fn() -> u64;

fn add(cell: &Cell<u64>, more: u64) {
    cell.set(cell.get() + more);
}

/// Of a step of a plan.
#[derive(Debug, Default)]
pub struct Probe {
    nanos: Cell<u64>,
    found: Cell<u64>,
    size: Cell<u64>,
    children: Vec<Probe>,
}

impl Probe {
    fn of(step: &Step) -> Probe {
        let children = match step {
            Step::All { children, .. } | Step::Any { children, .. } => {
                children.iter().map(Probe::of).collect()
            }
            Step::Not(child) | Step::Optional(child) => vec![Probe::of(child)],
            _ => Vec::new(),
        };
        Probe { children, ..Probe::default() }
    }
}

/// A cursor's view of the probe of its step.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    probe: &'a Probe,
    clock: Clock,
    /// The end of the slice: what is found beyond it is found again by the next one.
    until: DocId,
}

impl<'a> Watch<'a> {
    /// Of a step below; the same one if there is none, which does not happen.
    pub fn child(self, at: usize) -> Watch<'a> {
        Watch { probe: self.probe.children.get(at).unwrap_or(self.probe), ..self }
    }

    /// Measures a search for the next document.
    pub fn seek(self, seek: impl FnOnce() -> DocId) -> DocId {
        let began = (self.clock)();
        let found = seek();
        add(&self.probe.nanos, (self.clock)().saturating_sub(began));
        add(&self.probe.found, u64::from(found < self.until));
        found
    }

    /// Measures a question about a document that another step found.
    pub fn test(self, test: impl FnOnce() -> bool) -> bool {
        let began = (self.clock)();
        let holds = test();
        add(&self.probe.nanos, (self.clock)().saturating_sub(began));
        add(&self.probe.found, u64::from(holds));
        holds
    }

    /// Notes how many documents of a part a step has.
    pub fn note_size(self, docs: usize) {
        add(&self.probe.size, docs as u64);
    }
}

/// Of a whole query.
#[derive(Debug)]
pub struct Profile {
    pub(super) clock: Clock,
    root: Probe,
    among: Probe,
    score_nanos: Cell<u64>,
    scored: Cell<u64>,
    sort_nanos: Cell<u64>,
    sorted: Cell<u64>,
    nearest_nanos: Cell<u64>,
    nearest: Cell<u64>,
    /// It looks for the nearest vectors.
    is_nearest: bool,
}

impl Profile {
    pub fn new(plan: &Plan, clock: Clock) -> Profile {
        Profile {
            clock,
            root: Probe::of(&plan.root),
            among: plan.among.as_ref().map(Probe::of).unwrap_or_default(),
            score_nanos: Cell::default(),
            scored: Cell::default(),
            sort_nanos: Cell::default(),
            sorted: Cell::default(),
            nearest_nanos: Cell::default(),
            nearest: Cell::default(),
            is_nearest: plan.nearest.is_some(),
        }
    }

    pub(super) fn watch(&self, until: DocId) -> Watch<'_> {
        Watch { probe: &self.root, clock: self.clock, until }
    }

    pub(super) fn watch_among(&self, until: DocId) -> Watch<'_> {
        Watch { probe: &self.among, clock: self.clock, until }
    }

    pub(super) fn note_score(&self, began: u64) {
        add(&self.score_nanos, (self.clock)().saturating_sub(began));
        add(&self.scored, 1);
    }

    pub(super) fn note_sort(&self, began: u64) {
        add(&self.sort_nanos, (self.clock)().saturating_sub(began));
        add(&self.sorted, 1);
    }

    pub(super) fn note_nearest(&self, began: u64, found: usize) {
        add(&self.nearest_nanos, (self.clock)().saturating_sub(began));
        add(&self.nearest, found as u64);
    }

    /// What was measured, for a plan that ran under it.
    pub fn report(&self, plan: &Plan) -> Report {
        let mut root = report(&plan.root, &self.root);
        if plan.among.is_some() {
            let list = Reported::new("ID-LIST", &self.among);
            let (nanos, count) = (root.nanos + list.nanos, self.sorted.get());
            root = Reported {
                nanos,
                count,
                children: Children::Many(vec![list, root]),
                ..Reported::empty("INTERSECT")
            };
        }
        if self.is_nearest {
            let has_filter = root.kind != "WILDCARD";
            let (nanos, count) = (self.nearest_nanos.get(), self.nearest.get());
            let children = if has_filter { Children::One(Box::new(root)) } else { Children::None };
            root = Reported { nanos, count, children, ..Reported::empty("VECTOR") };
        }
        Report {
            score_nanos: self.score_nanos.get(),
            scored: self.scored.get(),
            sort_nanos: self.sort_nanos.get(),
            is_nearest: self.is_nearest,
            root,
        }
    }
}

/// What a query did.
#[derive(Debug)]
pub struct Report {
    pub root: Reported,
    pub score_nanos: u64,
    /// Documents that were scored.
    pub scored: u64,
    pub sort_nanos: u64,
    pub is_nearest: bool,
}

/// What a step did, in the words of RediSearch.
#[derive(Debug)]
pub struct Reported {
    pub kind: &'static str,
    /// What a union is of.
    pub query: Option<String>,
    pub term: Option<String>,
    pub nanos: u64,
    /// Documents found.
    pub count: u64,
    /// Documents that it could have found.
    pub size: Option<u64>,
    pub children: Children,
}

#[derive(Debug)]
pub enum Children {
    None,
    One(Box<Reported>),
    Many(Vec<Reported>),
}

impl Reported {
    fn empty(kind: &'static str) -> Reported {
        Reported { kind, query: None, term: None, nanos: 0, count: 0, size: None, children: Children::None }
    }

    fn new(kind: &'static str, probe: &Probe) -> Reported {
        Reported { nanos: probe.nanos.get(), count: probe.found.get(), ..Reported::empty(kind) }
    }
}

fn report(step: &Step, probe: &Probe) -> Reported {
    let new = |kind| Reported::new(kind, probe);
    let all = |children: &[Step]| {
        Children::Many(
            children.iter().zip(&probe.children).map(|(step, probe)| report(step, probe)).collect(),
        )
    };
    let one = |child: &Step| {
        probe.children.first().map_or(Children::None, |probe| Children::One(Box::new(report(child, probe))))
    };
    match step {
        Step::Nothing => new("EMPTY"),
        Step::Everything { .. } => new("WILDCARD"),
        Step::Term(term) => {
            let kind = match term.space {
                Space::WORDS => "TEXT",
                Space::MISSING => "MISSING",
                _ => "TAG",
            };
            Reported { term: Some(term.text.clone()), size: Some(u64::from(term.docs)), ..new(kind) }
        }
        Step::Numbers { range, .. } => {
            let term = Some(format!("{} - {}", range.min, range.max));
            Reported { term, size: Some(probe.size.get()), ..new("NUMERIC") }
        }
        Step::Near { .. } => Reported { size: Some(probe.size.get()), ..new("GEO") },
        Step::Docs { .. } => new("METRIC - VECTOR DISTANCE"),
        Step::All { children, .. } => Reported { children: all(children), ..new("INTERSECT") },
        Step::Any { children, form, .. } => {
            let query = Some(form.clone().unwrap_or_else(|| "UNION".to_owned()));
            Reported { query, children: all(children), ..new("UNION") }
        }
        Step::Not(child) => Reported { children: one(child), ..new("NOT") },
        Step::Optional(child) => Reported { children: one(child), ..new("OPTIONAL") },
    }
}
