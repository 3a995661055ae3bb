// SPDX-License-Identifier: BSD-3-Clause
//! Tells an index of changes ([`Documents`]).
//!
//! A change notes its key where watchers are told, if the keyspace is indexed; when the change
//! is complete, before the locks are released, [`Txn::index_now`] passes each key with the value
//! that it then has. Only database 0 is indexed. Keys that a load adds are not told one by one:
//! when a dataset is in place the index looks at all of it.
//!
//! While nothing is indexed, a change costs the test of its shard's watchers, which it makes
//! anyway, and the end of a transaction one test of the thread's own memory.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use crate::documents::{Documents, INDEXED_DB};
use crate::entry::Entry;
use crate::keyspace::Keyspace;
use crate::txn::{HeldLocks, Txn};

impl Keyspace {
    /// Starts or stops telling of changes. A change that is being made meanwhile may be told or
    /// not; who takes its shard's lock later sees it.
    pub fn set_indexed(&self, on: bool) {
        if self.settings.indexed.swap(on.into(), SeqCst) != u8::from(on) {
            self.shards().iter().for_each(|shard| shard.watchers.set_broadcast(on));
        }
    }

    /// The one who receives changes, if there is one.
    pub fn documents(&self) -> Option<&Arc<dyn Documents>> {
        self.documents.get()
    }

    /// The requests that make the indexes again.
    pub fn index_requests(&self) -> Vec<Vec<Vec<u8>>> {
        self.documents.get().map(|documents| documents.requests()).unwrap_or_default()
    }

    /// Looks at one key under its shard's lock, which this takes: the caller must hold none, unless
    /// the world is stopped, and is inside the gate. Expired keys are missing.
    pub fn look_at<R>(
        &self,
        db: u32,
        key: &[u8],
        now_ms: i64,
        look: impl FnOnce(Option<Entry<'_>>) -> R,
    ) -> R {
        let hash = self.hash(key);
        let shard = self.shard(self.shard_of(hash));
        shard.lock.lock_shared();
        // SAFETY: the shard is held.
        let entry = unsafe { shard.table(db).find(hash, self.shard_bits(), key) };
        let result = look(entry.filter(|entry| !entry.is_expired(now_ms)));
        shard.lock.unlock_shared();
        result
    }
}

impl Txn<'_> {
    /// Brings the keys changed so far to the index. Called before the locks are released; a command
    /// that asks the index within a transaction calls it first.
    #[inline]
    pub fn index_now(&mut self) {
        if !self.context.to_index.get_mut().is_empty() {
            self.index_changed();
        }
    }

    #[cold]
    fn index_changed(&mut self) {
        let keyspace = self.keyspace;
        let mut keys = std::mem::take(self.context.to_index.get_mut());
        let Some(documents) = keyspace.documents.get() else { return };
        match &keys[..] {
            [_] => {}
            // Usual: a command that changes its key twice.
            [one, other] if one == other => drop(keys.pop()),
            _ => keep_last(&mut keys),
        }
        for key in &keys {
            let hash = keyspace.hash(key);
            let index = keyspace.shard_of(hash);
            debug_assert!(self.covers_hash(hash, true), "a changed key outside of the lock set");
            // SAFETY: the shard is held exclusively since the key was changed.
            let entry =
                unsafe { keyspace.shard(index).table(INDEXED_DB).find(hash, keyspace.shard_bits(), key) };
            documents.changed(index, key, entry.filter(|entry| !entry.is_expired(self.now())), self.now());
        }
        keys.clear();
        *self.context.to_index.get_mut() = keys;
    }

    /// Removes keys for a command that holds the world.
    pub fn delete_all(&mut self, keys: &[Box<[u8]>]) -> Vec<Box<[u8]>> {
        debug_assert!(matches!(self.held, HeldLocks::World(_)));
        let gone = keys.iter().filter(|key| self.delete(key));
        gone.cloned().collect()
    }
}

/// Keeps each key once, where it is for the last time: documents are in the order of their last
/// changes, also those of a transaction.
fn keep_last(keys: &mut Vec<Box<[u8]>>) {
    let mut known: HashSet<&[u8]> = HashSet::with_capacity(keys.len());
    let mut is_last: Vec<bool> = keys.iter().rev().map(|key| known.insert(key)).collect();
    keys.retain(|_| is_last.pop().unwrap_or(true));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_kept_where_they_changed_last() {
        let mut keys: Vec<Box<[u8]>> = [b"b", b"a", b"b", b"c", b"a"].map(|key| key[..].into()).into();
        keep_last(&mut keys);
        assert_eq!(keys.concat(), b"bca");
    }
}
