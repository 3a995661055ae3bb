// SPDX-License-Identifier: BSD-3-Clause
//! Clients that wait for acknowledgements, and their conditions.

use std::sync::Arc;

use braid_keyspace::waiters::Waiter;
use parking_lot::Mutex;

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

/// The waiting clients.
#[derive(Default)]
pub struct Durability {
    pub(super) waiters: Mutex<Vec<(Acknowledgements, Arc<Waiter>)>>,
}
