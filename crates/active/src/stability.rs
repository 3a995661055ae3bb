// SPDX-License-Identifier: BSD-3-Clause
//! Stability: which changes all regions have acknowledged, so that no region can act any more
//! without having seen them.
//!
//! A region acknowledges what is in its files, and so survives a crash. An acknowledgement counts
//! here once everything it covers has been applied here: an effect that the region made before it
//! saw ours may still be in flight. Every acknowledgement must also know all runs: a region that
//! does not know of a server's restart may still accept effects from its former process (links
//! refuse a process that is known to be gone).

use std::collections::{BTreeMap, VecDeque};

use crate::rules::Rules;
use crate::stamp::{Region, Stamp};
use crate::vector::Vector;

/// The maximum number of a region's waiting barriers; others are added when these have been
/// passed.
const BARRIERS: usize = 64;

#[derive(Clone, Debug, Default)]
pub struct Stability {
    regions: BTreeMap<Region, Acknowledged>,
}

#[derive(Clone, Debug, Default)]
struct Acknowledged {
    counted: Vector,
    /// Covers effects that have not been applied here yet.
    waiting: Option<Vector>,
    /// The acknowledgement after `waiting`; a newer one replaces it.
    latest: Option<Vector>,
    /// The number of changes at the time when a vector had been applied.
    barriers: VecDeque<(u64, Vector)>,
    /// The last change covered by the last barrier.
    last: u64,
    /// The last change that the region has acknowledged.
    passed: u64,
}

impl Acknowledged {
    fn advance(&mut self, applied: &Vector, changes: u64, rules: &Rules) {
        let counts = |vector: &mut Vector| applied.includes(vector) || !rules.acknowledgements_wait;
        while let Some(vector) = self.waiting.take_if(counts) {
            self.counted.join(&vector);
            self.waiting = self.latest.take();
        }
        if changes > self.last && self.barriers.len() < BARRIERS {
            self.barriers.push_back((changes, applied.clone()));
            self.last = changes;
        }
        while let Some((number, _)) =
            self.barriers.pop_front_if(|(_, barrier)| self.counted.includes(barrier))
        {
            self.passed = number;
        }
    }
}

impl Stability {
    pub fn acknowledge(&mut self, region: Region, vector: Vector) {
        let one = self.regions.entry(region).or_default();
        let slot = if one.waiting.is_none() { &mut one.waiting } else { &mut one.latest };
        *slot = Some(vector);
    }

    pub fn forget(&mut self, region: Region) {
        self.regions.remove(&region);
    }

    /// The number of changes that all regions have acknowledged, if that can be told.
    pub fn advance(
        &mut self,
        applied: &Vector,
        changes: u64,
        others: &[Region],
        rules: &Rules,
    ) -> Option<u64> {
        let mut all = Vec::new();
        for region in others {
            let one = self.regions.entry(*region).or_default();
            one.advance(applied, changes, rules);
            let knows = one.counted.knows_runs_of(applied) || !rules.acknowledgements_wait;
            all.push(knows.then_some(one.passed));
        }
        match rules.waits_for_all_regions {
            _ if all.is_empty() => Some(changes),
            true => all.into_iter().min().flatten(),
            false => all.into_iter().max().flatten(),
        }
    }

    /// The last change that one region has acknowledged, and the start of the run in which it has
    /// done so; `None` if it has acknowledged nothing of its own.
    pub fn of_region(&self, region: Region) -> Option<(u64, Stamp)> {
        let one = self.regions.get(&region)?;
        Some((one.passed, one.counted.newest_run(region)?.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector::Run;

    fn region(number: u8) -> Region {
        Region::new(number).unwrap()
    }

    fn vector(runs: &[(u8, u64, u64)]) -> Vector {
        let mut vector = Vector::default();
        for (number, start, last) in runs {
            let stamp = |position| Stamp::of(region(*number), position).unwrap();
            vector.add(Run { start: stamp(*start), last: stamp(*last) });
        }
        vector
    }

    #[test]
    fn acknowledgement_counts_once_its_units_are_applied() {
        let rules = Rules::default();
        let others = [region(1), region(2)];
        let mut stability = Stability::default();
        let applied = vector(&[(0, 0, 10), (1, 0, 5)]);
        stability.acknowledge(region(1), applied.clone());
        // Region 2 made an effect before that, which is still in flight.
        let more = vector(&[(0, 0, 10), (1, 0, 5), (2, 0, 3)]);
        stability.acknowledge(region(2), more.clone());
        assert_eq!(stability.advance(&applied, 4, &others, &rules), None);
        // It arrives, but region 1 does not know of region 2.
        assert_eq!(stability.advance(&more, 5, &others, &rules), None);
        stability.acknowledge(region(1), more.clone());
        assert_eq!(stability.advance(&more, 5, &others, &rules), Some(5));
    }

    #[test]
    fn stability_waits_for_regions_unaware_of_a_restart() {
        let rules = Rules::default();
        let others = [region(1), region(2)];
        let mut stability = Stability::default();
        let before = vector(&[(0, 0, 10), (1, 0, 5)]);
        let after = vector(&[(0, 0, 10), (1, 0, 5), (1, 900, 901)]);
        stability.acknowledge(region(1), after.clone());
        // Region 2 may still accept effects of region 1's former process.
        stability.acknowledge(region(2), before.clone());
        assert_eq!(stability.advance(&before, 7, &others, &rules), None);
        assert_eq!(stability.advance(&after, 7, &others, &rules), None);
        stability.acknowledge(region(2), after.clone());
        assert_eq!(stability.advance(&after, 7, &others, &rules), Some(7));
    }
}
