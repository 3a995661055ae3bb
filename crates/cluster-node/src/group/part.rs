// SPDX-License-Identifier: BSD-3-Clause
//! This server's part in one shard: the state machine and its executor. A node of a cluster starts
//! a new one for each shard that it joins.

use braid_executor::engine::Engine;
use braid_group::{Member, Rules};

use super::previous_process::PreviousProcess;
use super::{Group, duty};

/// This server's part in a shard.
pub(super) struct Part<'e> {
    pub member: Member,
    pub duties: duty::Duties<'e>,
}

impl<'e> Part<'e> {
    /// Creates the part in the shard that the group's keys name. `started`: since when its first
    /// record may be awaited.
    pub fn new(engine: &'e Engine, group: &'e Group, previous: PreviousProcess, started: u64) -> Part<'e> {
        let own = group.view.lock().id.clone();
        Part {
            member: Member::new(own, group.timing, Rules::default(), started),
            duties: duty::Duties::new(engine, group, previous),
        }
    }
}
