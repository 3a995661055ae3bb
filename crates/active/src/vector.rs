// SPDX-License-Identifier: BSD-3-Clause
//! Vectors: which effects a server has applied, of every region.
//!
//! Effects of a region are applied in its order, so one stamp per region would do, were it not for
//! crashes. A server that comes back from an older file has forgotten effects of its own that
//! others may know. It must not give their stamps again, and others must be able to tell what it
//! has forgotten from what it has never made. So it starts a new *run* above the highest stamp that
//! it can have given (its ceiling, kept on disk), and a vector holds, for each region, the
//! stretches `(start, last]` of its runs; nearly always one.

use smallvec::SmallVec;

use crate::stamp::{Region, Stamp};
use crate::stored::stored;

/// The effects of one run up to one: those after `start`, up to and with `last`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    pub start: Stamp,
    pub last: Stamp,
}

impl Run {
    pub fn covers(&self, stamp: Stamp) -> bool {
        stamp.region() == self.start.region() && self.start < stamp && stamp <= self.last
    }

    /// Whether there can be such a run.
    pub(crate) fn can_be(&self) -> bool {
        self.start.region() == self.last.region() && self.start <= self.last
    }

    /// Whether another one of a vector may come next: of a later region, or a later run, which
    /// starts at or above the last stamp that this one may have.
    pub(crate) fn may_precede(&self, next: &Run) -> bool {
        let is_same = self.start.region() == next.start.region();
        self.start.region() < next.start.region()
            || is_same && self.start < next.start && self.last <= next.start
    }
}

/// A set of effects: prefixes of runs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Vector {
    /// By region, then by start. Each unit carries a vector; most systems have few regions.
    runs: SmallVec<[Run; 4]>,
}

impl Vector {
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Whether its runs are in order.
    fn can_be(&self) -> bool {
        self.runs.iter().all(Run::can_be) && self.runs.is_sorted_by(Run::may_precede)
    }

    fn place(&self, start: Stamp) -> Result<usize, usize> {
        let key = |run: &Run| (run.start.region(), run.start);
        self.runs.binary_search_by_key(&(start.region(), start), key)
    }

    /// The run that starts there.
    pub fn run(&self, start: Stamp) -> Option<Run> {
        self.place(start).ok().map(|at| self.runs[at])
    }

    /// The run whose latest known effect has this stamp, or that starts with it.
    pub fn run_ending(&self, last: Stamp) -> Option<Run> {
        self.runs.iter().copied().find(|run| run.last == last && run.start.region() == last.region())
    }

    /// The newest run of a region.
    pub fn newest_run(&self, region: Region) -> Option<Run> {
        self.runs.iter().rfind(|run| run.start.region() == region).copied()
    }

    /// The latest stamp of any region.
    pub fn latest(&self) -> Stamp {
        self.runs.iter().map(|run| run.last).max().unwrap_or(Stamp::ZERO)
    }

    pub fn covers(&self, stamp: Stamp) -> bool {
        self.run_of(stamp).is_some()
    }

    /// The run that an effect is of.
    pub fn run_of(&self, stamp: Stamp) -> Option<Run> {
        self.runs.iter().copied().find(|run| run.covers(stamp))
    }

    /// Where the run of an effect starts; `otherwise` if it is of none of these.
    pub fn run_start(&self, stamp: Stamp, otherwise: Stamp) -> Stamp {
        self.run_of(stamp).map_or(otherwise, |run| run.start)
    }

    /// Adds a run, or effects to it.
    pub fn add(&mut self, run: Run) {
        match self.place(run.start) {
            Ok(at) => self.runs[at].last = self.runs[at].last.max(run.last),
            Err(at) => self.runs.insert(at, run),
        }
    }

    pub fn remove_run(&mut self, start: Stamp) {
        if let Ok(at) = self.place(start) {
            self.runs.remove(at);
        }
    }

    /// Whether one server cannot have made both a run and those that are known.
    pub(crate) fn contradicts(&self, run: &Run) -> bool {
        let (before, after) = match self.place(run.start) {
            Ok(at) => (at, at + 1),
            Err(at) => (at, at),
        };
        let before = before.checked_sub(1).and_then(|at| self.runs.get(at));
        before.is_some_and(|before| !before.may_precede(run))
            || self.runs.get(after).is_some_and(|after| !run.may_precede(after))
    }

    /// Adds all effects of another.
    pub fn join(&mut self, other: &Vector) {
        other.runs.iter().for_each(|run| self.add(*run));
    }

    /// Whether it has all effects of another, and knows all its runs.
    pub fn includes(&self, other: &Vector) -> bool {
        other.first_missing(self).is_none()
    }

    /// The latest effect of the first run of which `other` has not everything.
    pub fn first_missing(&self, other: &Vector) -> Option<Stamp> {
        let lacks = |run: &&Run| other.run(run.start).is_none_or(|known| known.last < run.last);
        self.runs.iter().find(lacks).map(|run| run.last)
    }

    /// Whether it knows every run that another knows, however much of it.
    pub fn knows_runs_of(&self, other: &Vector) -> bool {
        other.runs.iter().all(|run| self.run(run.start).is_some())
    }
}

/// What an effect's region had seen when it made it: its *causal context*.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// What it had applied of other regions and of its own earlier runs.
    pub others: &'a Vector,
    /// Its own effects before this one.
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
