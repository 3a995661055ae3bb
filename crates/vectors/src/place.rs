// SPDX-License-Identifier: BSD-3-Clause
//! The search for the place of a new vector, which takes most of the time of an addition and needs
//! no lock: what is found is put right when the vector is added.

use crate::{Error, Guest, Near, SharedGraph};

/// After more changes a new vector's place is looked for again.
const CHANGES_MAX: u64 = 64;

/// A state of a graph, by which its owner can tell what has changed.
#[derive(Clone, Copy)]
pub struct State {
    /// The graph's number in this process.
    pub uid: u64,
    /// Vectors added or replaced so far.
    pub put: u64,
    /// Vectors removed so far.
    pub removed: u64,
    /// Number of vectors.
    pub len: u32,
}

/// What a search for the place of a vector has found.
pub struct Found {
    then: State,
    near: Near,
}

impl Found {
    pub fn new(then: State, near: Near) -> Found {
        Found { then, near }
    }

    /// True if it is of the graph with this number.
    pub fn is_of(&self, uid: u64) -> bool {
        self.then.uid == uid
    }

    /// What was found, with what has changed until `now`; `None` if that is too much.
    pub fn until(mut self, now: State) -> Option<Near> {
        let then = self.then;
        let put = now.put.checked_sub(then.put)?;
        let removed = now.removed.checked_sub(then.removed)?;
        if then.uid != now.uid || put + removed > CHANGES_MAX {
            return None;
        }
        // New vectors get the numbers after the last one, which removals have brought down.
        let least = then.len.saturating_sub(removed as u32);
        self.near.note_added(least..now.len);
        if u64::from(now.len) != u64::from(then.len) + put {
            self.near.note_removed();
        }
        Some(self.near)
    }
}

/// A visit to a graph, which may change meanwhile.
pub struct Visit {
    guest: Guest,
    state: State,
    level: u8,
}

impl Visit {
    /// `state`: the graph's now. `level`: the new vector's. `None` while a snapshot shares the
    /// graph. It must not change during this call.
    pub fn begin(graph: &SharedGraph, state: State, level: u8) -> Option<Visit> {
        Some(Visit { guest: graph.visit()?, state, level })
    }

    /// Finds the place of a new vector.
    ///
    /// # Errors
    /// If the vector's dimension is not the graph's.
    pub fn look_around(self, vector: &[f32], ef: usize) -> Result<Found, Error> {
        Ok(Found::new(self.state, self.guest.look_around(vector, ef, self.level)?))
    }
}
