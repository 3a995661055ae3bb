// SPDX-License-Identifier: BSD-3-Clause
//! What WAIT and WAITAOF wait for: acknowledgements of an offset of the journal.

/// What somebody waits for: that so many have the journal up to an offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copies {
    pub offset: u64,
    pub of: CopiesOf,
}

/// Who is to have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopiesOf {
    /// So many replicas.
    Replicas(i64),
    /// Append-only files on disk: the server's own, and those of so many replicas.
    Files { own: bool, replicas: i64 },
}
