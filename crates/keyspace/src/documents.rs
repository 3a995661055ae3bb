// SPDX-License-Identifier: BSD-3-Clause
//! Whoever keeps an index over values is told of every change here, under the lock of the key's
//! shard and before the client is answered (`indexing.rs`).

use std::any::Any;
use std::collections::BTreeMap;

use braid_base::relocation::Mover;

use crate::entry::Entry;

/// Requests with their arguments.
pub type Requests = Vec<Vec<Vec<u8>>>;

/// The database that is indexed.
pub const INDEXED_DB: u32 = 0;

/// Receives changes of keys of [`INDEXED_DB`].
pub trait Documents: Any + Send + Sync {
    /// A key has this value now, or none. Its shard is held exclusively: this must neither take a
    /// shard's lock nor wait for one.
    fn changed(&self, shard: u32, key: &[u8], entry: Option<Entry<'_>>, now_ms: i64);

    /// All keys of the database are gone. The world is stopped.
    fn emptied(&self);

    /// The database has other keys now: it was exchanged, or a dataset was loaded beside it. The
    /// world is stopped.
    fn replaced(&self, loaded: bool);

    /// What the requests of clients have defined (an index, another name, a dictionary): a name for
    /// it, and the requests that make it again, in an order in which they can be run.
    fn definitions(&self) -> BTreeMap<Vec<u8>, Requests>;

    /// The requests that remove a definition; none if there is no such.
    fn removal(&self, definition: &[u8]) -> Requests;

    /// The requests of all definitions. For files.
    fn requests(&self) -> Requests {
        self.definitions().into_values().flatten().collect()
    }

    /// Moves blocks of the index to better places, from where the last call ended, until all have
    /// been examined, which is true, or the mover's time is over. The caller holds no lock.
    fn relocate(&self, mover: &mut Mover) -> bool;

    /// A dump had these requests. `staged`: its keys are not in place yet, [`Documents::replaced`]
    /// says when.
    fn load(&self, requests: Requests, staged: bool);
}
