// SPDX-License-Identifier: BSD-3-Clause
//! Reading keys within a transaction, and reading short strings without any lock.
//!
//! HOT PATH: no allocation, no lock besides the transaction's, no system call.

use braid_base::blob::Blob;
use braid_base::lock::Version;

use super::{HeldLocks, KeyRef, Txn, WrongType};
use crate::context::{Context, Stale};
use crate::entry::{Entry, ValueRef};
use crate::events::KEY_MISS;
use crate::eviction;
use crate::keyspace::Keyspace;
use crate::object::ObjectType;
use crate::value_type::Type;

/// The outcome of a lock-free read.
#[derive(PartialEq, Eq, Debug)]
pub enum Optimistic {
    /// The key is missing.
    Missing,
    /// An integer-encoded string.
    Integer(i64),
    /// The string's bytes were copied.
    Copied,
    /// The string is too long to be copied here. A copy made earlier in this state of the shard is
    /// still valid.
    Large(State),
    /// A writer was active, or the value is of another type: take the lock. Copied bytes are
    /// invalid.
    Failed,
}

/// The state of all keys of a shard: while two states are equal, no key has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// Version of the shard's lock; covers changes made under the lock.
    version: Version,
    /// Number of times the gate was closed; covers changes made with the world stopped.
    closings: u64,
}

/// A string value, for reading.
#[derive(Clone, Copy)]
pub enum StringRef<'a> {
    Bytes(&'a [u8]),
    Integer(i64),
    Blob(&'a Blob),
}

impl<'a> StringRef<'a> {
    /// The string's bytes; an integer is formatted into `scratch`.
    pub fn bytes<'b>(self, scratch: &'b mut [u8; 20]) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            StringRef::Bytes(bytes) => bytes,
            StringRef::Blob(blob) => blob,
            StringRef::Integer(number) => braid_base::number::write_i64(scratch, number),
        }
    }

    /// Length of the string in bytes.
    pub fn len(self) -> usize {
        self.bytes(&mut [0; 20]).len()
    }

    /// True for the empty string.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl<'a> Txn<'a> {
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> Option<Entry<'_>> {
        let hash = self.hash(key);
        let table = self.shard(hash, false).table(self.db);
        // SAFETY: the shard is held (asserted in debug builds).
        unsafe { table.find(hash, self.keyspace.shard_bits(), key) }
    }

    /// The entry of a key, without marking it as used. Expired keys count as absent.
    #[inline]
    pub fn peek(&self, key: &[u8]) -> Option<Entry<'_>> {
        self.find(key).filter(|entry| !entry.is_expired(self.now_ms))
    }

    /// The entry of a key that has expired and is not yet removed.
    pub fn peek_expired(&self, key: &[u8]) -> Option<Entry<'_>> {
        self.find(key).filter(|entry| entry.is_expired(self.now_ms))
    }

    /// Schedules a key found expired for removal once the locks are released.
    #[cold]
    fn note_expired(&self, key: &[u8], missed: bool) {
        self.context.stale.borrow_mut().push(Stale { db: self.db, key: key.into(), missed });
        self.context.follow_up.set(true);
    }

    /// Reports that a read has missed a key. If the key has expired, it is scheduled for removal,
    /// and the event waits for that of the expiry. Under an exclusive lock it does not wait, since
    /// the command may send events of its own for the key.
    #[inline]
    pub fn note_miss(&self, key: &[u8]) {
        if self.peek_expired(key).is_some() {
            let waits = !self.covers(self.keyspace.shard_of(self.hash(key)), true);
            self.note_expired(key, waits);
            if waits {
                return;
            }
        }
        self.notify(KEY_MISS, key);
    }

    /// Like [`Txn::peek`], for a command whose work depends on the key: one that has expired is
    /// scheduled for removal.
    #[inline]
    pub fn look_at(&self, key: &[u8]) -> Option<Entry<'_>> {
        let entry = self.find(key)?;
        if entry.is_expired(self.now_ms) {
            self.note_expired(key, false);
            return None;
        }
        Some(entry)
    }

    /// The entry of a key, for reading: counts a hit or a miss and marks the key as used.
    #[inline]
    pub fn read(&self, key: &[u8]) -> Option<Entry<'_>> {
        match self.find(key) {
            Some(entry) if !entry.is_expired(self.now_ms) => {
                self.context.counters.hits.add(1);
                if self.touches {
                    eviction::mark_read(self.keyspace, entry);
                }
                Some(entry)
            }
            found => {
                self.context.counters.misses.add(1);
                match found {
                    Some(_) => self.note_miss(key),
                    None => self.notify(KEY_MISS, key),
                }
                None
            }
        }
    }

    #[inline]
    pub(super) fn touch(&self, entry: Entry<'_>) {
        if self.touches {
            eviction::mark_used(self.keyspace, entry);
        }
    }

    /// The string at a key.
    ///
    /// # Errors
    /// If the key has a value of another type.
    #[inline]
    pub fn string(&self, key: &[u8]) -> Result<Option<StringRef<'_>>, WrongType> {
        let Some(entry) = self.read(key) else { return Ok(None) };
        as_string(entry).map(Some)
    }

    /// The string at a key about to be changed: like [`Txn::string`], but neither counted nor
    /// marked as used (the change does that).
    ///
    /// # Errors
    /// If the key has a value of another type.
    #[inline]
    pub fn string_for_change(&self, key: &[u8]) -> Result<Option<StringRef<'_>>, WrongType> {
        self.look_at(key).map(as_string).transpose()
    }

    /// The collection of type `T` at a key, for reading.
    ///
    /// # Errors
    /// If the key has a value of another type.
    pub fn read_as<'s, T: ObjectType>(&'s self, key: &[u8]) -> Result<Option<&'s T>, WrongType> {
        let Some(entry) = self.read(key) else { return Ok(None) };
        match entry.value() {
            ValueRef::Object(object) => object.get::<T>().map(Some).ok_or(WrongType),
            _ => Err(WrongType),
        }
    }

    /// Like [`Txn::read_as`], but neither counted nor marked as used.
    ///
    /// # Errors
    /// If the key has a value of another type.
    pub fn peek_as<'s, T: ObjectType>(&'s self, key: &[u8]) -> Result<Option<&'s T>, WrongType> {
        let Some(entry) = self.look_at(key) else { return Ok(None) };
        match entry.value() {
            ValueRef::Object(object) => object.get::<T>().map(Some).ok_or(WrongType),
            _ => Err(WrongType),
        }
    }

    /// The state of a key's shard; this transaction must only read the key.
    pub fn state(&self, key: &[u8]) -> Option<State> {
        let version = self.shard(self.hash(key), false).lock.begin()?;
        Some(State { version, closings: self.keyspace.gate.closings() })
    }

    /// Calls `visit` for each unexpired entry of the current database, shard by shard. All shards
    /// must be held.
    pub fn for_each(&self, mut visit: impl FnMut(Entry<'_>)) {
        debug_assert!(matches!(self.held, HeldLocks::AllShared | HeldLocks::World(_)));
        for shard in self.keyspace.visible_shards() {
            // SAFETY: all shards are held.
            unsafe {
                shard.table(self.db).for_each(|entry| {
                    if !entry.is_expired(self.now_ms) {
                        visit(entry);
                    }
                });
            }
        }
    }

    /// Prefetches the memory that look-ups of these keys need, for all keys together.
    pub fn prefetch(keyspace: &Keyspace, db: u32, keys: &[KeyRef<'_>]) {
        for key in keys {
            keyspace.prefetch_bucket(db, key.hash);
        }
        for key in keys {
            keyspace.prefetch_entry(db, key.hash);
        }
    }
}

pub(super) fn as_string(entry: Entry<'_>) -> Result<StringRef<'_>, WrongType> {
    match entry.value() {
        ValueRef::Bytes(bytes) => Ok(StringRef::Bytes(bytes)),
        ValueRef::Integer(number) => Ok(StringRef::Integer(number)),
        ValueRef::Blob(blob) => Ok(StringRef::Blob(blob)),
        ValueRef::Object(_) => Err(WrongType),
    }
}

impl Keyspace {
    /// Reads a short string without a lock. `reserve` is called at most once, for a buffer of the
    /// string's length; the buffer's content is valid only if the outcome is
    /// [`Optimistic::Copied`].
    #[inline]
    pub fn read_optimistic<'r>(
        &self,
        context: &Context,
        db: u32,
        now_ms: i64,
        key: &KeyRef<'_>,
        reserve: impl FnOnce(usize) -> &'r mut [u8],
    ) -> Optimistic {
        let shard = self.shard(self.shard_of(key.hash));
        let Some(version) = shard.lock.begin() else { return Optimistic::Failed };
        // SAFETY: executing threads are inside the gate, so the entry found is not freed; the
        // version is checked below.
        let found = unsafe { shard.table(db).find(key.hash, self.shard_bits(), key.key) };
        let outcome = match found {
            None => Optimistic::Missing,
            // The read under the lock will schedule the key's removal.
            Some(entry) if entry.is_expired(now_ms) => return Optimistic::Failed,
            Some(entry) => {
                let outcome = if let Some(len) = entry.embedded_len() {
                    entry.copy_embedded_racy(reserve(len));
                    Optimistic::Copied
                } else if let Some(number) = entry.integer() {
                    Optimistic::Integer(number)
                } else if entry.is_blob() {
                    return if shard.lock.unchanged(version) {
                        Optimistic::Large(State { version, closings: self.gate.closings() })
                    } else {
                        Optimistic::Failed
                    };
                } else {
                    return Optimistic::Failed;
                };
                if shard.lock.unchanged(version) {
                    eviction::mark_read(self, entry);
                    context.counters.hits.add(1);
                    return outcome;
                }
                Optimistic::Failed
            }
        };
        if outcome == Optimistic::Failed || !shard.lock.unchanged(version) {
            context.counters.optimistic_failures.add(1);
            return Optimistic::Failed;
        }
        context.counters.misses.add(1);
        outcome
    }
}

impl Keyspace {
    /// Counts a hit and marks the key as used, as a look-up under the lock does. For a reply from
    /// a cached copy. The caller is inside the gate.
    pub fn count_read(&self, context: &Context, db: u32, key: &KeyRef<'_>) {
        context.counters.hits.add(1);
        context.counters.from_value_cache.add(1);
        let table = self.shard(self.shard_of(key.hash)).table(db);
        // SAFETY: executing threads are inside the gate, so the entry found is not freed; marking
        // a just replaced entry is harmless.
        if let Some(entry) = unsafe { table.find(key.hash, self.shard_bits(), key.key) } {
            eviction::mark_read(self, entry);
        }
    }
}

impl Type {
    /// The type of a key's value, if the key exists, for a command whose work depends on it.
    pub fn of(txn: &Txn<'_>, key: &[u8]) -> Option<Type> {
        txn.look_at(key).map(Entry::value_type)
    }
}
