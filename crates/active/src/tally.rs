// SPDX-License-Identifier: BSD-3-Clause
//! Tallies: one region's increments of a number, and the part of them that has been overwritten.
//!
//! Only its region changes a tally's sum, so the later of two states is the newer one, and an
//! increment is sent as the new sum. A SET or DEL states the sum it saw of each tally; that part
//! is then forgotten, and increments it had not seen still count. Once a tally is forgotten
//! completely, the region's next increment starts a new one. The forgotten tally is kept as a
//! tombstone, since the region may have added to it meanwhile, and a state with that sum may yet
//! arrive.
//!
//! The tombstone goes once the region is known to have forgotten the tally as well: everything
//! that it added to it has then been applied here, so any state that still has the tally is an
//! older one. That is at once if the region itself removed the number, else when it acknowledges
//! the removal. So a region that is away holds back only the tombstones of its own tallies. After
//! a crash a region may get back increments that it had forgotten, so tombstones of its earlier
//! runs wait for all regions.

use crate::amount::Amount;
use crate::stamp::{Stamp, sort_few};
use crate::stored::stored;
use crate::vector::Vector;

/// One region's increments of a number since it last saw them forgotten.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tally {
    /// The stamp of the first increment: the tally's identity.
    pub start: Stamp,
    /// The stamp of the latest increment.
    pub last: Stamp,
    pub sum: Amount,
    /// The last forgotten increment, and the sum up to it.
    pub forgotten: Stamp,
    pub forgotten_sum: Amount,
}

/// The state of a tally that a removal saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeenTally {
    pub start: Stamp,
    pub last: Stamp,
    pub sum: Amount,
}

impl Tally {
    /// True if part of the tally still counts.
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

    /// True if the region can have written this tally.
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

/// Merges the tallies of two replicas; each vector lists the effects its replica has seen.
pub fn merge(mine: &mut Vec<Tally>, seen: &Vector, theirs: &[Tally], their_seen: &Vector) {
    // A tally that a side has seen to its end and no longer has was forgotten, as all regions
    // know.
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
    sort_few(mine, |tally| tally.start);
}

stored!(Tally { start, last, sum, forgotten, forgotten_sum }, Tally::can_be);
