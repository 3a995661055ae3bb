// SPDX-License-Identifier: BSD-3-Clause
//! Conditions of WAIT and WAITAOF: acknowledgements of a journal offset.

/// Condition of a wait: enough acknowledgements of a journal offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acknowledgements {
    pub offset: u64,
    pub of: AckTarget,
}

/// The required acknowledgements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckTarget {
    /// This many replicas.
    Replicas(i64),
    /// Synced append-only files: the server's own, and those of this many replicas.
    Files { own: bool, replicas: i64 },
}
