// SPDX-License-Identifier: BSD-3-Clause
//! Keys whose values refer to other keys, which change with them: a command that names one of them
//! holds the locks of the others as well.
//!
//! A transaction looks at its keys once it has their locks. If their values refer to keys of other
//! shards, it gives its locks back, takes those of all, and looks again: meanwhile the values may
//! have changed. While no value refers to another key, this costs one test.
//!
//! Also tells whoever keeps a catalogue of values by their contents of each value that comes to a
//! key ([`crate::catalogue::Catalogue`]).

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use smallvec::SmallVec;

use crate::entry::{Entry, ValueRef};
use crate::keyspace::Keyspace;
use crate::object::ObjectRef;
use crate::txn::{HeldLocks, Txn};

impl Keyspace {
    /// Notes that a value refers to other keys. Call it under the key's lock.
    pub fn note_links(&self) {
        self.settings.linked.store(1, SeqCst);
    }

    /// True once a value may refer to other keys.
    #[inline]
    pub fn has_links(&self) -> bool {
        self.settings.linked.load(Relaxed) != 0
    }

    /// Tells of a database, or all, that have other keys now.
    pub(crate) fn tell_replaced(&self, db: Option<u32>) {
        if let Some(catalogue) = self.catalogue.get() {
            catalogue.replaced(db);
        }
    }
}

impl<'a> Txn<'a> {
    /// Takes the locks of the keys that the values of the transaction's keys refer to.
    #[cold]
    pub(super) fn with_linked_keys(mut self) -> Self {
        while let Some(shards) = self.lacking() {
            self.relock(shards);
        }
        self
    }

    /// All shards that are needed, if some are not held.
    fn lacking(&self) -> Option<SmallVec<[(u32, bool); 8]>> {
        let keyspace = self.keyspace;
        let mut needed: SmallVec<[(u32, bool); 8]> = SmallVec::new();
        for key in self.keys() {
            let shard = keyspace.shard(keyspace.shard_of(key.hash));
            for db in 0..keyspace.databases() {
                let table = shard.table(db);
                if table.is_empty() {
                    continue;
                }
                // SAFETY: the shard is held.
                let entry = unsafe { table.find(key.hash, keyspace.shard_bits(), key.key) };
                let Some(ValueRef::Object(object)) = entry.map(Entry::value) else { continue };
                object.collection().linked_keys(&mut |name| {
                    let hash = keyspace.hash(name);
                    if !self.covers_hash(hash, key.write) {
                        needed.push((keyspace.shard_of(hash), key.write));
                    }
                });
            }
        }
        (!needed.is_empty()).then_some(needed)
    }

    /// Gives the locks back and takes them again, with these.
    fn relock(&mut self, mut shards: SmallVec<[(u32, bool); 8]>) {
        self.give_back();
        match std::mem::replace(&mut self.held, HeldLocks::Nothing) {
            HeldLocks::One(shard, write) => shards.push((shard, write)),
            HeldLocks::Many(held) => shards.extend(held),
            // Everything is held: nothing is lacking.
            _ => return,
        }
        self.lock_instead(shards);
    }

    /// Moves what other keys' values know of a key's name, after it was renamed.
    pub(super) fn rename_links(&mut self, from: &[u8], to: &[u8]) {
        if !self.keyspace.has_links() {
            return;
        }
        let mut names: Vec<Box<[u8]>> = Vec::new();
        if let Some(collection) = self.write_any(to) {
            collection.relink(from, to);
            collection.linked_keys(&mut |name| names.push(name.into()));
        }
        names.retain(|name| self.covers_hash(self.keyspace.hash(name), true));
        for name in &names {
            if let Some(collection) = self.write_any(name) {
                collection.relink(from, to);
            }
        }
    }

    /// Tells of a value that came to a key of the current database.
    #[inline]
    pub(super) fn note_placed(&self, entry: Entry<'_>, object: ObjectRef<'_>) {
        let collection = object.collection();
        if !collection.is_catalogued() {
            return;
        }
        let mut is_linked = false;
        collection.linked_keys(&mut |_| is_linked = true);
        if is_linked {
            self.keyspace.note_links();
        }
        if let Some(catalogue) = self.keyspace.catalogue.get()
            && self.db() < self.keyspace.databases()
        {
            catalogue.placed(self.db(), entry.key(), object);
        }
    }

    /// Tells of a value that stays where it is, but must be catalogued otherwise.
    pub fn catalogue_again(&self, key: &[u8]) {
        if let Some(ValueRef::Object(object)) = self.peek(key).map(Entry::value)
            && let Some(catalogue) = self.keyspace.catalogue.get()
        {
            catalogue.placed(self.db(), key, object);
        }
    }

    /// Takes the locks of keys, shared, for a transaction that holds none; the caller gives them
    /// back by [`Txn::unlock_found`]. False, with nothing done, if it holds some.
    pub fn lock_found(&mut self, keys: &[Box<[u8]>]) -> bool {
        let is_free = matches!(self.held, HeldLocks::Nothing);
        if is_free {
            let shard_of = |key: &[u8]| (self.keyspace.shard_of(self.keyspace.hash(key)), false);
            self.lock_instead(keys.iter().map(|key| shard_of(key)).collect());
        }
        is_free
    }

    /// Gives back what [`Txn::lock_found`] has taken.
    pub fn unlock_found(&mut self) {
        self.give_back();
        self.held = HeldLocks::Nothing;
    }
}
