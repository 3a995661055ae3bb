// SPDX-License-Identifier: BSD-3-Clause
//! Judges a reader's observations.
//!
//! A writer changes its keys in rounds, in the order of [`STEPS`]; in round `n` all keys get the
//! value `n`. So each state has a position, and a value bounds it from both sides: the key has
//! been written in round `n`, and not yet in round `n + 1`. Later reads must not have a smaller
//! position, and values read at the same moment must have a position in common.

use std::fmt;

/// A writer's keys, by the step of a round that writes them. A step writes its keys atomically.
pub const STEPS: [&[&str]; 9] = [
    &["k0"],
    &["k1"],
    &["k2"],
    &["k3"],
    &["multi0", "multi1"],
    &["k4"],
    &["eval0", "eval1"],
    &["mset0", "mset1"],
    &["k5"],
];

/// A key and its value; 0 if it is missing.
pub type Seen = (&'static str, u64);

/// An observation that no state of the primary explains.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation {
    /// Minimum position according to earlier reads.
    before: u64,
    /// The values read at the same moment.
    values: Vec<Seen>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (round, step) = (self.before / STEPS.len() as u64, self.before % STEPS.len() as u64);
        write!(f, "round {round} had been seen up to step {step}, then {:?}", self.values)
    }
}

/// The position at which a key is written in a round.
fn position(key: &str, round: u64) -> u64 {
    let step = STEPS.iter().position(|keys| keys.contains(&key)).expect("one of the keys");
    round * STEPS.len() as u64 + step as u64
}

/// A reader's knowledge of one writer.
#[derive(Default)]
pub struct Observer {
    /// The lowest position that the replica must have reached.
    reached: u64,
}

impl Observer {
    /// Records values that were read at the same moment.
    pub fn note(&mut self, values: &[Seen]) -> Result<(), Violation> {
        let least = values.iter().filter(|(_, round)| *round > 0).map(|(key, round)| position(key, *round));
        let least = least.max().unwrap_or(0).max(self.reached);
        let end = values.iter().map(|(key, round)| position(key, round + 1)).min().unwrap_or(u64::MAX);
        if least >= end {
            return Err(Violation { before: self.reached, values: values.to_vec() });
        }
        self.reached = least;
        Ok(())
    }

    /// The last round seen.
    pub fn round(&self) -> u64 {
        self.reached / STEPS.len() as u64
    }
}

#[test]
fn a_change_without_an_earlier_one_is_noticed() {
    let judge = |reads: &[&[Seen]]| {
        let mut observer = Observer::default();
        reads.iter().try_for_each(|values| observer.note(values)).is_ok()
    };
    // Separate reads: anything may happen in between, but nothing is undone.
    assert!(judge(&[&[("k5", 3)], &[("k0", 3)], &[("k1", 9)], &[("k2", 8)]]));
    assert!(!judge(&[&[("k5", 3)], &[("k0", 2)]]), "k0 is written first");
    assert!(!judge(&[&[("k0", 3)], &[("k5", 1)]]), "round 2 was over");
    assert!(judge(&[&[("k0", 3)], &[("k5", 2)]]));
    assert!(!judge(&[&[("k0", 3)], &[("k0", 2)]]), "k0 went back");
    // Values read at the same moment.
    assert!(judge(&[&[("k0", 3), ("k1", 3), ("multi0", 2), ("multi1", 2), ("k5", 2)]]));
    assert!(!judge(&[&[("multi0", 3), ("multi1", 2)]]), "half a transaction");
    assert!(!judge(&[&[("k0", 2), ("k1", 3)]]), "out of order");
    assert!(!judge(&[&[("k0", 4), ("k1", 2)]]), "a round is missing");
    assert!(judge(&[&[("k0", 0)], &[("k0", 1), ("k1", 0)]]));
    assert!(!judge(&[&[("k0", 0), ("k1", 1)]]));
}
