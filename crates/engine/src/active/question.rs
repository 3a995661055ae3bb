// SPDX-License-Identifier: BSD-3-Clause
//! What a peer asks for by ACTIVE PULL: everything that it lacks, and where that may begin.

use braid_active::logs::Cursor;
use braid_active::{Region, Stamp, Vector};

/// A peer's question.
pub(super) struct Question {
    /// What the peer has applied.
    pub applied: Vector,
    /// Where it goes on in the backlog; 0: anywhere.
    pub position: u64,
    /// Where it goes on in the backlog on disk.
    pub cursor: Option<Cursor>,
    pub bytes_max: usize,
    /// The peer's own region.
    pub region: Region,
}

impl Question {
    /// Whether the process that asks has made a unit. Those of an earlier one it may have lost.
    pub fn is_of_asker(&self, first: Stamp) -> bool {
        let run = self.applied.newest_run(self.region);
        first.region() == self.region && run.is_none_or(|run| first > run.start)
    }
}
