// SPDX-License-Identifier: BSD-3-Clause
//! What rules are understood by.

use braid_spec::CommandTable;

/// What rules are understood by.
#[derive(Clone, Copy)]
pub struct Terms<'a> {
    pub commands: &'a CommandTable,
    /// New users and selectors may use all channels (`acl-pubsub-default`).
    pub all_channels: bool,
}
