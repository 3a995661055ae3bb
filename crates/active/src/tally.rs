// SPDX-License-Identifier: BSD-3-Clause
//! Tallies: what one region has added to a number, and how much of that others have overwritten.
//!
//! Only its region writes a tally's sum, so the later of two states is the newer one, and an
//! increment travels as the new sum. A SET or DEL says of each tally which sum it saw; from then on
//! that much of it is forgotten, and increments that it had not seen go on counting. When all of it
//! is forgotten the region starts a new tally with its next increment, and the forgotten one is
//! kept as a tombstone until all regions have acknowledged it: a state in which it still counts may
//! come yet.

use crate::amount::Amount;
use crate::stamp::Stamp;
use crate::stored::stored;
use crate::vector::Vector;

/// A region's increments of one number since it last saw them forgotten.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tally {
    /// The stamp of the first increment: the tally's name.
    pub start: Stamp,
    /// Of the latest.
    pub last: Stamp,
    pub sum: Amount,
    /// Up to which increment, and how much, is forgotten.
    pub forgotten: Stamp,
    pub forgotten_sum: Amount,
}

/// What a removal saw of a tally.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeenTally {
    pub start: Stamp,
    pub last: Stamp,
    pub sum: Amount,
}

impl Tally {
    /// Something of it counts.
    pub fn counts(&self) -> bool {
        self.forgotten < self.last
    }

    pub fn amount(&self) -> Amount {
        self.sum.minus(self.forgotten_sum)
    }

    pub fn seen(&self) -> SeenTally {
        SeenTally { start: self.start, last: self.last, sum: self.sum }
    }

    pub fn forget(&mut self, last: Stamp, sum: Amount) {
        // No region can have seen more than there was.
        if last > self.forgotten && last <= self.last {
            (self.forgotten, self.forgotten_sum) = (last, sum);
        }
    }

    /// Whether its region may have written it.
    fn can_be(&self) -> bool {
        self.start.region() == self.last.region() && self.start <= self.last && self.forgotten <= self.last
    }

    fn merge(&mut self, other: &Tally) {
        if other.last > self.last {
            (self.last, self.sum) = (other.last, other.sum);
        }
        self.forget(other.forgotten, other.forgotten_sum);
    }
}

/// Merges tallies of two replicas, of which each has seen so much.
pub fn merge(mine: &mut Vec<Tally>, seen: &Vector, theirs: &[Tally], their_seen: &Vector) {
    // One that a side has seen to its end and does not have any more was forgotten, and all know.
    mine.retain(|tally| {
        theirs.iter().any(|other| other.start == tally.start) || !their_seen.covers(tally.last)
    });
    for other in theirs {
        match mine.iter_mut().find(|tally| tally.start == other.start) {
            Some(tally) => tally.merge(other),
            None if seen.covers(other.last) => {}
            None => mine.push(other.clone()),
        }
    }
    mine.sort_unstable_by_key(|tally| tally.start);
}

stored!(Tally { start, last, sum, forgotten, forgotten_sum }, Tally::can_be);
