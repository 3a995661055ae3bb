// SPDX-License-Identifier: BSD-3-Clause
//! Outcome of a script's run.

/// How a run has ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// The reply was written; these error lines are in it, of which the first may be all of the reply.
    Replied(Returned),
    /// With an error, whose line this is.
    Failed {
        line: Vec<u8>,
        /// It came from a command that the script called, and was counted then.
        counted: bool,
    },
    /// The host wanted it abandoned.
    Abandoned,
}

/// Result of a script, beyond its written reply.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Returned {
    /// The result as a whole is an error: this line.
    pub failed: bool,
    pub line: Vec<u8>,
    /// Error lines within it that have not been counted yet.
    pub errors: Vec<Vec<u8>>,
}
