// SPDX-License-Identifier: BSD-3-Clause
//! The search for the place of a new element, which takes most of the time of an addition and
//! needs no lock: what is found is put right when the element is added.

use braid_vectors::{Error, Guest, Near};

/// After more changes a new element's place is looked for again.
const CHANGES_MAX: u64 = 64;

/// A state of a set.
#[derive(Clone, Copy)]
pub(super) struct State {
    /// The set's number in this process.
    pub uid: u64,
    /// Serial number of the last vector.
    pub serial: u64,
    /// Elements removed.
    pub removed: u64,
    /// Number of elements.
    pub len: u32,
}

/// What a search for the place of an element has found.
pub struct Found {
    then: State,
    near: Near,
}

impl Found {
    pub(super) fn new(then: State, near: Near) -> Found {
        Found { then, near }
    }

    /// True if it is of the set with this number.
    pub fn is_of(&self, uid: u64) -> bool {
        self.then.uid == uid
    }

    /// What was found, with what has changed until `now`; `None` if that is too much.
    pub(super) fn until(mut self, now: State) -> Option<Near> {
        let then = self.then;
        let put = now.serial.checked_sub(then.serial)?;
        let removed = now.removed.checked_sub(then.removed)?;
        if then.uid != now.uid || put + removed > CHANGES_MAX {
            return None;
        }
        // New elements get the numbers after the last one, which removals have brought down.
        let least = then.len.saturating_sub(removed as u32);
        self.near.note_added(least..now.len);
        if u64::from(now.len) != u64::from(then.len) + put {
            self.near.note_removed();
        }
        Some(self.near)
    }
}

/// A visit to a set's graph, which may change meanwhile.
pub struct Visit {
    pub(super) guest: Guest,
    pub(super) state: State,
    pub(super) level: u8,
}

impl Visit {
    /// Finds the place of a new element.
    ///
    /// # Errors
    /// If the vector's dimension is not the set's.
    pub fn look_around(self, vector: &[f32], ef: usize) -> Result<Found, Error> {
        Ok(Found::new(self.state, self.guest.look_around(vector, ef, self.level)?))
    }
}
