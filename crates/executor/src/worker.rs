// SPDX-License-Identifier: BSD-3-Clause
//! Worker: the state of an executing thread.

use std::cell::Cell;
use std::sync::Arc;

use braid_base::clock::Ticks;
use braid_keyspace::entry::{Entry, ValueRef};
use braid_keyspace::txn::{KeyRef, State};
use braid_keyspace::{Context, Keyspace};
use braid_resp::reply::ReplyBuffer;
use braid_telemetry::HotKeys;

use crate::locks::{LockSet, lock};
use braid_keyspace::value_cache::{Lookup, ValueCache};

/// State of an executing thread.
pub struct Worker {
    pub context: Context,
    /// End of the last command (and so the start of the next one in the same batch).
    pub(crate) boundary: Ticks,
    /// Wall clock of the batch, in ms.
    pub(crate) now_ms: i64,
    /// The attention bit `FENCED` if this server may not serve the batch, else 0.
    pub fence: u64,
    /// Commands that read or write keys must be distinguished: their replies wait for members.
    pub notes_data: bool,
    /// The current request was refused since the in-sync set is too small: the reply reveals no
    /// data.
    pub was_refused: Cell<bool>,
    hot_keys: Arc<HotKeys>,
    /// Last seen version of `hot_keys`.
    hot_version: u64,
    /// Long values that this thread reads often.
    pub value_cache: ValueCache,
}

impl Worker {
    /// The worker of one thread.
    pub fn new(context: Context, hot_keys: Arc<HotKeys>) -> Worker {
        let (boundary, now_ms) = (Ticks::now(), braid_base::clock::unix_ms());
        // An invalid version, so that the first batch reads the settings.
        Worker {
            context,
            boundary,
            now_ms,
            fence: 0,
            notes_data: false,
            was_refused: Cell::new(false),
            hot_keys,
            hot_version: u64::MAX,
            value_cache: ValueCache::default(),
        }
    }

    /// Reads the clocks; called at the start of a batch, inside the gate.
    #[inline]
    pub fn begin_batch(&mut self) {
        self.begin_batch_at(braid_base::clock::unix_ms());
    }

    /// [`Worker::begin_batch`] at the given time, Unix ms: the clock of a test.
    pub fn begin_batch_at(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        self.boundary = Ticks::now();
        let version = self.hot_keys.version();
        if version != self.hot_version {
            self.hot_version = version;
            self.hot_keys.follow(&mut self.context);
        }
    }

    /// Replies with a long value from this thread's value cache, which is filled if the value is
    /// read often. False, with nothing done, if the value is not cached.
    #[inline(never)]
    pub fn read_cached(
        &mut self,
        keyspace: &Keyspace,
        db: u32,
        reply: &mut ReplyBuffer,
        key: &KeyRef<'_>,
        state: State,
    ) -> bool {
        match self.value_cache.find(db, key, state) {
            Lookup::Hit(copy) => reply.bulk_blob(copy),
            Lookup::Miss => return false,
            Lookup::Fill => {
                let keys = [*key];
                let txn = lock(keyspace, &mut self.context, LockSet::Keys(&keys), db, self.now_ms);
                let Some(ValueRef::Blob(value)) = txn.peek(key.key).map(Entry::value) else { return false };
                let Some(state) = txn.state(key.key) else { return false };
                match self.value_cache.fill(db, key, state, value) {
                    Some(copy) => reply.bulk_blob(copy),
                    None => return false,
                }
            }
        }
        keyspace.count_read(&self.context, db, key);
        true
    }

    /// End of the last command, or start of the batch.
    #[inline]
    pub fn boundary(&self) -> Ticks {
        self.boundary
    }

    /// The time of the current batch, ms since the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }
}
