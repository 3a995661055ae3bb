// SPDX-License-Identifier: BSD-3-Clause
//! A peer's request by ACTIVE PULL: the units it lacks, and where to start looking for them.

use braid_active::logs::Cursor;
use braid_active::{Region, Stamp, Vector};

/// The request of one ACTIVE PULL.
pub(super) struct PullRequest {
    /// Everything the peer has applied.
    pub applied: Vector,
    /// The peer's position in the backlog; 0 if unknown.
    pub position: u64,
    /// The peer's cursor in the backlog on disk.
    pub cursor: Option<Cursor>,
    pub bytes_max: usize,
    /// The peer's own region.
    pub region: Region,
}

impl PullRequest {
    /// True if the asking process created the unit. It may have lost units of an earlier process.
    pub fn is_of_asker(&self, first: Stamp) -> bool {
        let run = self.applied.newest_run(self.region);
        first.region() == self.region && run.is_none_or(|run| first > run.start)
    }
}
