// SPDX-License-Identifier: BSD-3-Clause
//! The state of what holds for the whole cluster: etcd's records, and how far this node has applied
//! them ([`super::shared`] does).

use std::collections::BTreeMap;
use std::sync::Arc;

use braid_group::cluster::shared::{Shared, SharedKind};
use parking_lot::{Condvar, Mutex};

/// A record's kind and name.
pub type Name = (SharedKind, Arc<str>);

/// What has been done with a record.
#[derive(Clone)]
pub struct Done {
    pub revision: u64,
    /// Of the shard, for functions: a primary of another epoch applies them again.
    pub epoch: u64,
    pub error: Option<String>,
}

/// The records as etcd has them, and what this node has made of them.
#[derive(Default)]
pub struct SharedState {
    pub records: Mutex<(Arc<Shared>, u64)>,
    pub has_records: Condvar,
    /// One thread at a time applies them. Up to which revision of etcd that was done.
    pub done: Mutex<(BTreeMap<Name, Done>, u64)>,
    pub has_done: Condvar,
}

impl SharedState {
    /// Takes note of the records at a revision. True if it is the first time.
    pub fn note(&self, records: Shared, revision: u64) -> bool {
        let mut known = self.records.lock();
        let is_first = known.1 == 0;
        *known = (Arc::new(records), revision);
        self.has_records.notify_all();
        is_first
    }

    /// How many records there are, and what is wrong with them here.
    pub fn figures(&self) -> (usize, Vec<String>) {
        let done = self.done.lock();
        let errors = done.0.iter().filter_map(|((kind, name), done)| {
            done.error.as_ref().map(|error| format!("{} {name}: {error}", kind.name()))
        });
        (self.records.lock().0.len(), errors.collect())
    }
}
