// SPDX-License-Identifier: BSD-3-Clause
//! Whoever keeps an index over values is told of every change here, under the lock of the key's
//! shard and before the client is answered (`indexing.rs`).

use std::any::Any;

use crate::entry::Entry;

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

    /// The requests that make the indexes again, without what is in them. For files.
    fn requests(&self) -> Vec<Vec<Vec<u8>>>;

    /// A dump had these requests. `staged`: its keys are not in place yet, [`Documents::replaced`]
    /// says when.
    fn load(&self, requests: Vec<Vec<Vec<u8>>>, staged: bool);
}
