// SPDX-License-Identifier: BSD-3-Clause
//! Locks of vectors, from a table that all graphs share, so that a graph needs no memory for them.
//! The locks of one change are taken in ascending order: no two threads wait for each other.

#[cfg(not(miri))]
use parking_lot::{Mutex, MutexGuard};
// Miri refuses a system call of the other ones. These need eight times the memory.
#[cfg(miri)]
use std::sync::{Mutex, MutexGuard};

const LOCKS: usize = 4096;

static TABLE: [Mutex<()>; LOCKS] = [const { Mutex::new(()) }; LOCKS];

#[cfg(not(miri))]
fn lock(place: usize) -> MutexGuard<'static, ()> {
    TABLE[place].lock()
}

#[cfg(miri)]
fn lock(place: usize) -> MutexGuard<'static, ()> {
    TABLE[place].lock().expect("no thread panics with a lock")
}

/// Locks held for a change of links.
#[derive(Default)]
pub struct Guards([Option<MutexGuard<'static, ()>>; 3]);

impl Guards {
    /// Locks three vectors, of which some may be the same, of the graph at this address.
    pub fn of(graph: usize, ids: [u32; 3]) -> Guards {
        let mut places =
            ids.map(|id| (id as usize).wrapping_mul(0x9E37_79B1).wrapping_add(graph >> 4) % LOCKS);
        places.sort_unstable();
        let mut guards = Guards::default();
        for at in 0..3 {
            if at == 0 || places[at] != places[at - 1] {
                guards.0[at] = Some(lock(places[at]));
            }
        }
        guards
    }
}
