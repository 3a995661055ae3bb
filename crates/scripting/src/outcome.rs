// SPDX-License-Identifier: BSD-3-Clause
//! Outcome of a script's run.

/// The outcome of a run.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// The reply was written. It contains these error lines; the first may be the whole reply.
    Replied(Returned),
    /// It failed with this error line.
    Failed {
        line: Vec<u8>,
        /// The error came from a command that the script called, and is already counted.
        counted: bool,
    },
    /// The host abandoned the run.
    Abandoned,
}

/// Result of a script, beyond its written reply.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Returned {
    /// The whole result is an error, given by this line.
    pub failed: bool,
    pub line: Vec<u8>,
    /// Error lines in the result that are not counted yet.
    pub errors: Vec<Vec<u8>>,
}
