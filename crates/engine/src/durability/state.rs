// SPDX-License-Identifier: BSD-3-Clause
//! Clients that wait for acknowledgements, and of what.

use std::sync::Arc;

use braid_keyspace::waiters::Waiter;
use parking_lot::Mutex;

/// What somebody waits for: that so many have the journal up to an offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acknowledgements {
    pub offset: u64,
    pub of: AckTarget,
}

/// Who is to have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckTarget {
    /// So many replicas.
    Replicas(i64),
    /// Append-only files on disk: the server's own, and those of so many replicas.
    Files { own: bool, replicas: i64 },
}

/// Who waits, and for what.
#[derive(Default)]
pub struct Durability {
    pub(super) waiters: Mutex<Vec<(Acknowledgements, Arc<Waiter>)>>,
}
