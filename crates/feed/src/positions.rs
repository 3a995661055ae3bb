// SPDX-License-Identifier: BSD-3-Clause
//! Where readers continue: for an ID that a reader asks for, the unit up to which nothing more is
//! to be found. So a reader that comes back does not look at the same bytes again, and one whose
//! keys change rarely has not fallen behind although the journal has moved on.
//!
//! A place that is lost costs a walk from the last known boundary. The number of places is bounded:
//! those that have not been used while as many others were are forgotten.

use std::collections::HashMap;

use braid_journal::Boundary;

use crate::id::EntryId;

/// The number of places in each of the two halves.
const PLACES: usize = 8192;

/// A reader's request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReadPoint {
    /// The feed's number.
    pub feed: u64,
    /// The dataset's number in the history: in another one the same offsets mean other units.
    pub dataset: u64,
    pub after: EntryId,
}

/// Places by request, the younger half and the older one.
#[derive(Default)]
pub struct Positions {
    young: HashMap<ReadPoint, Boundary>,
    old: HashMap<ReadPoint, Boundary>,
}

impl Positions {
    pub fn get(&mut self, asked: &ReadPoint) -> Option<Boundary> {
        if let Some(place) = self.young.get(asked) {
            return Some(*place);
        }
        let place = *self.old.get(asked)?;
        self.note(*asked, place);
        Some(place)
    }

    pub fn note(&mut self, asked: ReadPoint, place: Boundary) {
        if self.young.len() >= PLACES {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(asked, place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(number: u64) -> ReadPoint {
        ReadPoint { feed: 1, dataset: 0, after: EntryId::at(number) }
    }

    #[test]
    fn places_in_use_stay_and_others_are_forgotten() {
        let mut positions = Positions::default();
        let place = |offset: u64| Boundary { offset, db: Some(0) };
        for number in 0..5 * PLACES as u64 {
            positions.note(asked(number), place(number));
            assert_eq!(positions.get(&asked(0)), Some(place(0)), "used all the time");
        }
        assert_eq!(positions.get(&asked(1)), None);
        assert_eq!(positions.get(&ReadPoint { dataset: 1, ..asked(0) }), None);
        assert!(positions.young.len() + positions.old.len() <= 2 * PLACES + 1);
        positions.note(asked(0), place(7));
        assert_eq!(positions.get(&asked(0)), Some(place(7)), "the reader has gone on");
    }
}
