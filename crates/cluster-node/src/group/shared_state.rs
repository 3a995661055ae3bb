// SPDX-License-Identifier: BSD-3-Clause
//! State of the records that apply to the whole cluster: etcd's records, and how far this node
//! has applied them (in [`super::shared`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use braid_group::cluster::shared::{Shared, SharedKind};
use parking_lot::{Condvar, Mutex};

/// A record's kind and name.
pub type Name = (SharedKind, Arc<str>);

/// How a record has been applied.
#[derive(Clone)]
pub struct Done {
    pub revision: u64,
    /// The shard's epoch, for functions: a primary of another epoch applies them again.
    pub epoch: u64,
    pub error: Option<String>,
}

/// etcd's records, and how this node has applied them.
#[derive(Default)]
pub struct SharedState {
    pub records: Mutex<(Arc<Shared>, u64)>,
    pub has_records: Condvar,
    /// Held by the one thread that applies records; with etcd's revision up to which that is
    /// done.
    pub done: Mutex<(BTreeMap<Name, Done>, u64)>,
    pub has_done: Condvar,
}

impl SharedState {
    /// Stores the records of a revision. True if they are the first.
    pub fn note(&self, records: Shared, revision: u64) -> bool {
        let mut known = self.records.lock();
        let is_first = known.1 == 0;
        *known = (Arc::new(records), revision);
        self.has_records.notify_all();
        is_first
    }

    /// The number of records, and the errors in applying them here.
    pub fn figures(&self) -> (usize, Vec<String>) {
        let done = self.done.lock();
        let errors = done.0.iter().filter_map(|((kind, name), done)| {
            done.error.as_ref().map(|error| format!("{} {name}: {error}", kind.name()))
        });
        (self.records.lock().0.len(), errors.collect())
    }
}
