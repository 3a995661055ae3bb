// SPDX-License-Identifier: BSD-3-Clause
//! The backlog: encoded units in the order in which a server applied them, its own and others', from
//! which it serves its peers. In that order nothing comes before what it depends on, so units may go
//! any way: pairs, rings, meshes.
//!
//! What was dropped, or came by a full copy, is remembered as a vector: a peer that lacks some of it
//! needs a full copy.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::stamp::{Region, Stamp};
use crate::vector::{Run, Vector};

#[derive(Clone, Debug)]
struct Kept {
    first: Stamp,
    /// The run that it is of, up to and with it.
    run: Run,
    bytes: Arc<[u8]>,
}

#[derive(Clone, Debug, Default)]
pub struct Backlog {
    units: VecDeque<Kept>,
    bytes: usize,
    /// Everything that was applied and cannot be sent unit by unit.
    before: Vector,
    /// Units that were dropped: the position of the first that is kept.
    dropped: u64,
}

impl Backlog {
    /// A backlog that begins after what has been applied so far.
    pub fn new(applied: Vector) -> Backlog {
        Backlog { before: applied, ..Backlog::default() }
    }

    /// Keeps a unit that has just been applied, so that it is the last of its run.
    pub fn push(&mut self, first: Stamp, applied: &Vector, bytes: Arc<[u8]>) {
        if let Some(run) = applied.run_of(first) {
            self.push_of(first, run, bytes);
        }
    }

    /// As [`Backlog::push`]: `run` was its run, up to and with it.
    pub fn push_of(&mut self, first: Stamp, run: Run, bytes: Arc<[u8]>) {
        self.bytes += bytes.len();
        self.units.push_back(Kept { first, run, bytes });
    }

    /// A full copy is about to be merged into what has been applied.
    pub fn merges(&mut self, copy: &Vector, applied: &Vector) {
        for run in copy.runs() {
            if applied.run(run.start).is_none_or(|known| known.last < run.last) {
                self.before.add(*run);
            }
        }
    }

    /// Drops the oldest units until the rest takes no more than so many bytes.
    pub fn trim(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max
            && let Some(kept) = self.units.pop_front()
        {
            self.bytes -= kept.bytes.len();
            self.before.add(kept.run);
            self.dropped += 1;
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The position behind the last unit.
    pub fn end(&self) -> u64 {
        self.dropped + self.units.len() as u64
    }

    /// As [`Backlog::since`], for a peer that has applied everything before a position: units with
    /// their positions and regions.
    pub fn since_position<'a>(
        &'a self,
        applied: &'a Vector,
        position: u64,
    ) -> Option<impl Iterator<Item = (u64, &'a Arc<[u8]>, Region)>> {
        let skipped = usize::try_from(position.saturating_sub(self.dropped)).unwrap_or(usize::MAX);
        let units = self.units.iter().enumerate().skip(skipped);
        let lacking = units.filter(|(_, kept)| !applied.covers(kept.first));
        let placed =
            lacking.map(|(index, kept)| (self.dropped + index as u64, &kept.bytes, kept.first.region()));
        applied.includes(&self.before).then_some(placed)
    }

    /// The units that a peer lacks that has applied so much, or nothing if it needs a full copy.
    pub fn since<'a>(&'a self, applied: &'a Vector) -> Option<impl Iterator<Item = &'a Arc<[u8]>>> {
        let lacking = self.units.iter().filter(|kept| !applied.covers(kept.first));
        applied.includes(&self.before).then_some(lacking.map(|kept| &kept.bytes))
    }
}
