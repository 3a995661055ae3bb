// SPDX-License-Identifier: BSD-3-Clause
//! Version vectors: the effects that a server has applied, per region.
//!
//! A region's effects are applied in order, so one stamp per region would be enough, were it not
//! for crashes. A server that restarts from an older file has forgotten effects of its own that
//! others may know. It must not reuse their stamps, and others must be able to tell forgotten
//! effects from effects that never existed. Therefore it starts a new *run* above the highest stamp
//! it can have given (its ceiling, kept on disk). For each region a vector holds the ranges of its
//! runs, each `(start, last]`; there is nearly always one.

use smallvec::SmallVec;

use crate::stamp::{Region, Stamp};
use crate::stored::stored;

/// A prefix of one run: the effects after `start`, up to and including `last`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    pub start: Stamp,
    pub last: Stamp,
}

impl Run {
    pub fn covers(&self, stamp: Stamp) -> bool {
        stamp.region() == self.start.region() && self.start < stamp && stamp <= self.last
    }

    /// True if such a run can exist.
    pub(crate) fn can_be(&self) -> bool {
        self.start.region() == self.last.region() && self.start <= self.last
    }

    /// True if `next` may follow this run in a vector: a later region, or a later run, which
    /// starts at or above the last stamp that this run may have.
    pub(crate) fn may_precede(&self, next: &Run) -> bool {
        let is_same = self.start.region() == next.start.region();
        self.start.region() < next.start.region()
            || is_same && self.start < next.start && self.last <= next.start
    }
}

/// A set of effects: prefixes of runs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Vector {
    /// By region, then by start. Every unit carries a vector; most systems have few regions.
    runs: SmallVec<[Run; 4]>,
}

impl Vector {
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// True if the runs are valid and in order.
    fn can_be(&self) -> bool {
        self.runs.iter().all(Run::can_be) && self.runs.is_sorted_by(Run::may_precede)
    }

    fn place(&self, start: Stamp) -> Result<usize, usize> {
        let key = |run: &Run| (run.start.region(), run.start);
        self.runs.binary_search_by_key(&(start.region(), start), key)
    }

    /// The run that starts at `start`.
    pub fn run(&self, start: Stamp) -> Option<Run> {
        self.place(start).ok().map(|at| self.runs[at])
    }

    /// The run whose last known stamp is `last`. A run without effects ends at its start.
    pub fn run_ending(&self, last: Stamp) -> Option<Run> {
        self.runs.iter().copied().find(|run| run.last == last && run.start.region() == last.region())
    }

    /// The newest run of a region.
    pub fn newest_run(&self, region: Region) -> Option<Run> {
        self.runs.iter().rfind(|run| run.start.region() == region).copied()
    }

    /// The latest stamp over all regions.
    pub fn latest(&self) -> Stamp {
        self.runs.iter().map(|run| run.last).max().unwrap_or(Stamp::ZERO)
    }

    pub fn covers(&self, stamp: Stamp) -> bool {
        self.run_of(stamp).is_some()
    }

    /// The run that an effect belongs to.
    pub fn run_of(&self, stamp: Stamp) -> Option<Run> {
        self.runs.iter().copied().find(|run| run.covers(stamp))
    }

    /// The start of the run that an effect belongs to; `otherwise` if no run covers it.
    pub fn run_start(&self, stamp: Stamp, otherwise: Stamp) -> Stamp {
        self.run_of(stamp).map_or(otherwise, |run| run.start)
    }

    /// Adds a run, or extends it.
    pub fn add(&mut self, run: Run) {
        match self.place(run.start) {
            Ok(at) => self.runs[at].last = self.runs[at].last.max(run.last),
            Err(at) => self.runs.insert(at, run),
        }
    }

    /// Removes a run.
    pub fn remove_run(&mut self, start: Stamp) {
        if let Ok(at) = self.place(start) {
            self.runs.remove(at);
        }
    }

    /// True if no single server can have made both `run` and the runs in this vector.
    pub(crate) fn contradicts(&self, run: &Run) -> bool {
        let (before, after) = match self.place(run.start) {
            Ok(at) => (at, at + 1),
            Err(at) => (at, at),
        };
        let before = before.checked_sub(1).and_then(|at| self.runs.get(at));
        before.is_some_and(|before| !before.may_precede(run))
            || self.runs.get(after).is_some_and(|after| !run.may_precede(after))
    }

    /// Adds all effects of another vector.
    pub fn join(&mut self, other: &Vector) {
        other.runs.iter().for_each(|run| self.add(*run));
    }

    /// True if this vector has every effect and knows every run of another.
    pub fn includes(&self, other: &Vector) -> bool {
        other.first_missing(self).is_none()
    }

    /// The last effect of the first run that `other` does not have completely.
    pub fn first_missing(&self, other: &Vector) -> Option<Stamp> {
        let lacks = |run: &&Run| other.run(run.start).is_none_or(|known| known.last < run.last);
        self.runs.iter().find(lacks).map(|run| run.last)
    }

    /// True if this vector knows every run that another knows, with or without its effects.
    pub fn knows_runs_of(&self, other: &Vector) -> bool {
        other.runs.iter().all(|run| self.run(run.start).is_some())
    }
}

/// The effects a region had seen when it made an effect: the effect's *causal context*.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The applied effects of other regions and of the region's own earlier runs.
    pub others: &'a Vector,
    /// The region's own effects in the current run before this one.
    pub own: Run,
}

impl Seen<'_> {
    pub fn covers(&self, stamp: Stamp) -> bool {
        self.own.covers(stamp) || self.others.covers(stamp)
    }
}

stored!(Run { start, last });
stored!(Vector { runs }, Vector::can_be);

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(region: u8, position: u64) -> Stamp {
        Stamp::of(Region::new(region).unwrap(), position).unwrap()
    }

    fn run(region: u8, start: u64, last: u64) -> Run {
        Run { start: stamp(region, start), last: stamp(region, last) }
    }

    #[test]
    fn runs_of_a_region_stay_apart() {
        let mut vector = Vector::default();
        vector.add(run(1, 0, 100));
        vector.add(run(1, 1000, 1020));
        vector.add(run(0, 0, 7));
        assert!(vector.covers(stamp(1, 100)) && vector.covers(stamp(1, 1001)));
        assert!(!vector.covers(stamp(1, 101)) && !vector.covers(stamp(1, 1000)));
        assert!(!vector.covers(stamp(2, 5)));
        assert_eq!(vector.run_ending(stamp(1, 100)), Some(run(1, 0, 100)));
        assert_eq!(vector.newest_run(stamp(1, 0).region()), Some(run(1, 1000, 1020)));

        let mut other = vector.clone();
        other.add(run(1, 0, 150));
        assert!(other.includes(&vector) && !vector.includes(&other));
        assert_eq!(other.first_missing(&vector), Some(stamp(1, 150)));
        vector.join(&other);
        assert_eq!(vector, other);
        other.add(run(3, 0, 0));
        assert!(!vector.includes(&other) && !vector.knows_runs_of(&other));
    }
}
