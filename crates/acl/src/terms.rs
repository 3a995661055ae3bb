// SPDX-License-Identifier: BSD-3-Clause
//! Context in which rules are interpreted.

use braid_spec::CommandTable;

/// Context in which rules are interpreted.
#[derive(Clone, Copy)]
pub struct Terms<'a> {
    pub commands: &'a CommandTable,
    /// Number of databases.
    pub databases: u32,
    /// New users and selectors may use all channels (`acl-pubsub-default`).
    pub all_channels: bool,
}
