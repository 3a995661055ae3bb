// SPDX-License-Identifier: BSD-3-Clause
//! A graph in which threads walk while vectors are added.
//!
//! Who changes the graph has it for itself, by a lock that this crate does not know. A thread that
//! only looks for something, and would hold that lock long, becomes a guest instead
//! ([`SharedGraph::visit`]): it keeps the graph, and walks without any lock.
//!
//! While there are guests, vectors are added in place, as far as the memory that is there
//! suffices: links are single words, so a guest sees the old or the new neighbour. Any other
//! change (removal, more memory) would pull records away under the guests. It waits for them to
//! leave; if they stay too long, the graph parts from them as from a snapshot, which costs copies
//! of blocks, and they go on with the old one.
//!
//! A snapshot must not see later changes. While one shares the graph, or blocks of it, nobody
//! becomes a guest, and nothing is added in place.
//!
//! Invariants: every guest owns the box and is counted in `guests` of the same graph: it is counted
//! before it owns, and not any more before it ceases to own. So owners above `1 + guests`, where
//! owners are read first, are snapshots or a guest about to leave; never fewer.

use std::ops::Deref;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use braid_base::clock::Ticks;
use braid_base::relocation::Mover;
use braid_containers::cow::CowBox;

use crate::near::Near;
use crate::{Error, Graph};

/// How long a change waits for guests, in nanoseconds: longer than most walks take.
const PATIENCE: u64 = 300_000;
/// Memory that is made at once while there are guests: for this part of the vectors, and at least
/// for so many.
const AHEAD: usize = 16;
const AHEAD_LEAST: usize = 64;
/// Looks at whether a guest has just left.
const GLANCES: usize = 64;

/// A graph with guests.
pub struct SharedGraph(CowBox<Graph>);

/// A thread's stay in a graph that may grow meanwhile.
pub struct Guest(CowBox<Graph>);

impl Deref for Guest {
    type Target = Graph;

    fn deref(&self) -> &Graph {
        &self.0
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.0.guests.fetch_sub(1, AcqRel);
    }
}

impl Deref for SharedGraph {
    type Target = Graph;

    #[inline]
    fn deref(&self) -> &Graph {
        &self.0
    }
}

impl SharedGraph {
    pub fn new(graph: Graph) -> SharedGraph {
        SharedGraph(CowBox::new(graph))
    }

    /// Bytes allocated, without this struct itself.
    pub fn memory_bytes(&self) -> usize {
        braid_base::alloc::size_class(CowBox::<Graph>::bytes()) + self.0.memory_bytes()
    }

    /// Makes the calling thread a guest, unless a snapshot shares the graph. The graph must not
    /// change during this call; other threads may make the same one.
    pub fn visit(&self) -> Option<Guest> {
        if self.has_snapshot() {
            return None;
        }
        self.0.guests.fetch_add(1, AcqRel);
        Some(Guest(self.0.clone()))
    }

    /// True if a snapshot may share the graph, or blocks of it.
    fn has_snapshot(&self) -> bool {
        let owners = self.0.owners();
        owners > 1 + self.0.guests.load(Acquire) as usize || self.0.shares_blocks()
    }

    /// Adds a vector as [`Graph::add_near`] does, beside guests if there are any.
    ///
    /// # Errors
    /// As [`Graph::add_near`].
    pub fn add_near(
        &mut self,
        vector: &[f32],
        label: u64,
        ef: usize,
        level: u8,
        near: Option<&Near>,
    ) -> Result<u32, Error> {
        self.wait_a_moment();
        let has_guests = self.0.owners() > 1 && !self.has_snapshot();
        if has_guests && self.0.has_room(level) {
            return self.0.add_beside(vector, label, ef, level, near);
        }
        let graph = self.own_mut();
        let id = graph.add_near(vector, label, ef, level, near)?;
        if has_guests {
            // The next ones need not wait, too.
            graph.make_room((graph.len() / AHEAD).max(AHEAD_LEAST));
        }
        Ok(id)
    }

    /// The graph, for any change.
    pub fn own_mut(&mut self) -> &mut Graph {
        let began = Ticks::now();
        while self.0.guests.load(Acquire) > 0 && Ticks::now().nanos_since(began) < PATIENCE {
            std::hint::spin_loop();
        }
        self.wait_a_moment();
        &mut self.0
    }

    /// Until a guest that is not counted any more has left.
    fn wait_a_moment(&self) {
        for _ in 0..GLANCES {
            let owners = self.0.owners();
            if owners <= 1 + self.0.guests.load(Acquire) as usize {
                return;
            }
            std::hint::spin_loop();
        }
    }

    /// A snapshot: a second owner of the graph's current state, of which both share the memory
    /// until either changes it.
    pub fn cow(&self) -> SharedGraph {
        SharedGraph(self.0.clone())
    }

    /// A copy that shares nothing.
    pub fn duplicate(&self) -> SharedGraph {
        SharedGraph::new(self.0.duplicate())
    }

    /// Moves blocks to better places; see [`Graph::relocate`].
    pub fn relocate(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        self.0.relocate(mover);
        self.0.own_mut()?.relocate(from, mover)
    }
}
