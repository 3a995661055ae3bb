// SPDX-License-Identifier: BSD-3-Clause
//! Reads on a background thread: shard after shard, or the collections of some keys, so that a
//! long command does not delay other commands.
//!
//! A reader has its own gate slot, which it enters for one shard at a time: a thread that stops
//! the world waits for at most one shard. Different shards are seen at different moments. A read
//! here marks no key as used, counts nothing and removes nothing; expired keys are skipped.
//!
//! [`Reader::share`] sees the collections of several keys at one moment: it holds all their shards
//! while it shares them, which takes microseconds at any size. [`Reader::share_or_copy`] takes one
//! key of any type.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::MutexGuard;

use crate::cow_entry::{CowEntry, is_large};
use crate::entry::{Entry, ValueRef};
use crate::keyspace::{Keyspace, Shard};
use crate::object::ObjectRef;
use crate::table::TableCursor;
use crate::txn;

/// Reads keys outside of the executing threads.
pub struct Reader<'k> {
    keyspace: &'k Keyspace,
    /// Its gate slot.
    slot: usize,
    _own: MutexGuard<'k, ()>,
}

/// One shard held for reading, inside the gate.
struct Inside<'r>(&'r Reader<'r>, &'r Shard);

impl<'r> Inside<'r> {
    fn enter(reader: &'r Reader<'_>, shard: u32) -> Inside<'r> {
        reader.keyspace.gate.enter(reader.slot);
        let shard = reader.keyspace.shard(shard);
        shard.lock.lock_shared();
        Inside(reader, shard)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.1.lock.unlock_shared();
        self.0.keyspace.gate.leave(self.0.slot);
    }
}

/// Several shards, held exclusively, inside the gate.
struct AllOf<'r>(&'r Reader<'r>, Vec<u32>);

impl<'r> AllOf<'r> {
    /// Locks the shards of some keys in ascending order, as every transaction does.
    fn enter(reader: &'r Reader<'_>, hashes: impl Iterator<Item = u64>) -> AllOf<'r> {
        let mut shards: Vec<u32> = hashes.map(|hash| reader.keyspace.shard_of(hash)).collect();
        shards.sort_unstable();
        shards.dedup();
        AllOf::of_shards(reader, shards)
    }

    /// Locks these shards, which must be in ascending order.
    fn of_shards(reader: &'r Reader<'_>, shards: Vec<u32>) -> AllOf<'r> {
        reader.keyspace.gate.enter(reader.slot);
        for &shard in &shards {
            reader.keyspace.shard(shard).lock.lock_exclusive();
        }
        AllOf(reader, shards)
    }
}

impl Drop for AllOf<'_> {
    fn drop(&mut self) {
        for &shard in &self.1 {
            self.0.keyspace.shard(shard).lock.unlock_exclusive();
        }
        self.0.keyspace.gate.leave(self.0.slot);
    }
}

/// A key's value as of [`Reader::share`].
pub enum CowValue {
    Missing,
    /// A collection that shares memory with the key's own (`braid_containers::cow`).
    Shared(CowEntry),
    /// A string, or a collection with expiring members.
    Unshareable,
}

impl CowValue {
    /// The collection, if it is shared.
    pub fn object(&self) -> Option<ObjectRef<'_>> {
        match self {
            CowValue::Shared(entry) => match entry.entry().value() {
                ValueRef::Object(object) => Some(object),
                _ => None,
            },
            CowValue::Missing | CowValue::Unshareable => None,
        }
    }
}

/// An entry being copied while its shard is held.
pub enum Found<'e> {
    /// A value to read immediately.
    Here(Entry<'e>),
    /// A large value, to read later without the lock.
    Shared(CowEntry),
}

/// Shares the entry if its value is large.
///
/// # Safety
/// The entry's shard is held exclusively, and no reference to its collection exists.
unsafe fn found(entry: Entry<'_>) -> Found<'_> {
    // SAFETY: guaranteed by the caller.
    let shared = if is_large(entry) { unsafe { CowEntry::of(entry) } } else { None };
    shared.map_or(Found::Here(entry), Found::Shared)
}

/// Keys watched since they were shared. Pass it to [`Reader::unwatch`] to end the watch.
pub struct CowWatch {
    db: u32,
    keys: Vec<Box<[u8]>>,
    flag: Arc<AtomicBool>,
    /// Earliest expiry of these keys, ms since the Unix epoch.
    expiry: i64,
}

impl CowWatch {
    /// True if one of the keys has expired by `now_ms`, assuming that no key has changed since.
    pub fn is_past(&self, now_ms: i64) -> bool {
        now_ms > self.expiry
    }

    /// True if none of the keys has changed or expired by `now_ms`. The caller must hold a lock of
    /// each key's shard.
    pub fn holds(&self, now_ms: i64) -> bool {
        !txn::is_raised(&self.flag) && now_ms <= self.expiry
    }
}

impl Keyspace {
    /// The right to read outside of the executing threads. While there are
    /// [`READERS_MAX`](crate::keyspace::READERS_MAX) readers, waits until one of them is dropped.
    /// The caller must hold no lock and be outside the gate.
    pub fn reader(&self) -> Reader<'_> {
        let free = self.readers.iter().enumerate().find_map(|(place, one)| Some((place, one.try_lock()?)));
        let (place, own) = free.unwrap_or_else(|| (0, self.readers[0].lock()));
        Reader { keyspace: self, slot: self.reader_slot(place), _own: own }
    }
}

impl Reader<'_> {
    /// Visits all unexpired keys of a shard, as of one moment.
    pub fn visit_shard(&self, shard: u32, db: u32, now_ms: i64, mut visit: impl FnMut(Entry<'_>)) {
        if self.keyspace.shard(shard).table(db).is_empty() || self.keyspace.is_hidden(shard) {
            return;
        }
        let inside = Inside::enter(self, shard);
        // SAFETY: the shard is held.
        unsafe {
            inside.1.table(db).for_each(|entry| {
                if !entry.is_expired(now_ms) {
                    visit(entry);
                }
            });
        }
    }

    /// Visits unexpired keys of a shard from `cursor` on, about `most`. Returns the next cursor;
    /// `None` at the end.
    pub fn visit_some(
        &self,
        shard: u32,
        db: u32,
        cursor: TableCursor,
        most: usize,
        now_ms: i64,
        mut visit: impl FnMut(Entry<'_>),
    ) -> Option<TableCursor> {
        if self.keyspace.shard(shard).table(db).is_empty() || self.keyspace.is_hidden(shard) {
            return None;
        }
        let inside = Inside::enter(self, shard);
        // SAFETY: the shard is held.
        unsafe {
            inside.1.table(db).scan(cursor, most, |entry| {
                if !entry.is_expired(now_ms) {
                    visit(entry);
                }
            })
        }
    }

    /// [`Keyspace::look_at`] for this thread, which is outside of the gate and holds nothing.
    pub fn look_at<R>(
        &self,
        db: u32,
        key: &[u8],
        now_ms: i64,
        look: impl FnOnce(Option<Entry<'_>>) -> R,
    ) -> R {
        self.keyspace.gate.enter(self.slot);
        let result = self.keyspace.look_at(db, key, now_ms, look);
        self.keyspace.gate.leave(self.slot);
        result
    }

    /// Shares the values of several keys, all as of one moment. With `watch`, the keys are watched
    /// from that moment on.
    pub fn share(
        &self,
        db: u32,
        now_ms: i64,
        keys: &[Box<[u8]>],
        watch: bool,
    ) -> (Vec<CowValue>, Option<CowWatch>) {
        let keyspace = self.keyspace;
        let hashes: Vec<u64> = keys.iter().map(|key| keyspace.hash(key)).collect();
        let mut watch = watch.then(|| CowWatch {
            db,
            keys: Vec::with_capacity(keys.len()),
            flag: txn::new_watch_flag(),
            expiry: i64::MAX,
        });
        let held = AllOf::enter(self, hashes.iter().copied());
        let mut shared = Vec::with_capacity(keys.len());
        for (key, &hash) in keys.iter().zip(&hashes) {
            let shard = keyspace.shard(keyspace.shard_of(hash));
            // SAFETY: the shard is held.
            let entry = unsafe { shard.table(db).find(hash, keyspace.shard_bits(), key) };
            let entry = entry.filter(|entry| !entry.is_expired(now_ms));
            if let Some(watch) = &mut watch {
                // SAFETY: the shard is held exclusively.
                unsafe { shard.watchers.add(db, key, &watch.flag) };
                watch.keys.push(key.clone());
                watch.expiry = watch.expiry.min(entry.and_then(Entry::expiry).unwrap_or(i64::MAX));
            }
            shared.push(match entry {
                None => CowValue::Missing,
                Some(entry) if can_be_shared(entry) => {
                    // SAFETY: the shard is held exclusively, and no reference to the collection
                    // exists.
                    unsafe { CowEntry::of(entry) }.map_or(CowValue::Unshareable, CowValue::Shared)
                }
                Some(_) => CowValue::Unshareable,
            });
        }
        drop(held);
        (shared, watch)
    }

    /// Shares the value of a key and watches the key from that moment on. A value that cannot be
    /// shared is passed to `copy` under the key's lock. `None` if the key is missing.
    pub fn share_or_copy<T>(
        &self,
        db: u32,
        now_ms: i64,
        key: &[u8],
        copy: impl FnOnce(Entry<'_>) -> T,
    ) -> Option<(Result<CowEntry, T>, CowWatch)> {
        let keyspace = self.keyspace;
        let hash = keyspace.hash(key);
        let shard = keyspace.shard(keyspace.shard_of(hash));
        let _held = AllOf::enter(self, std::iter::once(hash));
        // SAFETY: the shard is held.
        let entry = unsafe { shard.table(db).find(hash, keyspace.shard_bits(), key) }?;
        if entry.is_expired(now_ms) {
            return None;
        }
        let flag = txn::new_watch_flag();
        // SAFETY: the shard is held exclusively.
        unsafe { shard.watchers.add(db, key, &flag) };
        let expiry = entry.expiry().unwrap_or(i64::MAX);
        let watch = CowWatch { db, keys: vec![key.into()], flag, expiry };
        let is_shared = can_be_shared(entry) || matches!(entry.value(), ValueRef::Blob(_));
        // SAFETY: the shard is held exclusively, and no reference to the collection exists.
        let shared = if is_shared { unsafe { CowEntry::of(entry) } } else { None };
        Some((shared.ok_or_else(|| copy(entry)), watch))
    }

    /// Passes the entries of a slot to `visit`, from `cursor` on, until the returned weights add
    /// up to `most`. An entry with a large value is shared and passed as [`Found::Shared`].
    /// Returns the next cursor (`None` at the table's end) and the journal's end: these entries
    /// contain all of their keys' changes that are journalled before it.
    pub fn copy_slot(
        &self,
        slot: u16,
        db: u32,
        cursor: TableCursor,
        most: usize,
        mut visit: impl FnMut(Found<'_>) -> usize,
    ) -> (Option<TableCursor>, u64) {
        let keyspace = self.keyspace;
        let _held = AllOf::of_shards(self, vec![u32::from(slot)]);
        let shard = keyspace.shard(u32::from(slot));
        let position = keyspace.journal.end();
        // SAFETY: the shard is held exclusively, and no reference to a collection exists.
        let mut visit = |entry| visit(unsafe { found(entry) });
        // Visit each entry when the next one is found, so that its string has been prefetched by
        // then.
        let mut before = None;
        let fetch = |entry: Entry<'_>| {
            if let ValueRef::Blob(blob) = entry.value() {
                blob.prefetch();
            }
        };
        // SAFETY: the shard is held exclusively.
        let next = unsafe {
            shard.table(db).scan_weighed(cursor, most, |entry| {
                fetch(entry);
                before.replace(entry).map_or(0, &mut visit)
            })
        };
        if let Some(entry) = before {
            visit(entry);
        }
        (next, position)
    }

    /// Passes keys of one slot to `visit`, as of one moment, each with its value if it has one.
    /// Returns the journal's end, like [`Reader::copy_slot`].
    pub fn copy_keys(
        &self,
        slot: u16,
        keys: &[(u32, Box<[u8]>)],
        mut visit: impl FnMut(usize, Option<Found<'_>>),
    ) -> u64 {
        let keyspace = self.keyspace;
        let _held = AllOf::of_shards(self, vec![u32::from(slot)]);
        let shard = keyspace.shard(u32::from(slot));
        for (index, (db, key)) in keys.iter().enumerate() {
            // SAFETY: the shard is held exclusively.
            let entry = unsafe { shard.table(*db).find(keyspace.hash(key), keyspace.shard_bits(), key) };
            // SAFETY: as above, and no reference to the collection exists.
            visit(index, entry.map(|entry| unsafe { found(entry) }));
        }
        keyspace.journal.end()
    }

    /// Ends the watch of shared keys.
    pub fn unwatch(&self, watch: &CowWatch) {
        let keyspace = self.keyspace;
        for key in &watch.keys {
            let hash = keyspace.hash(key);
            let held = AllOf::enter(self, std::iter::once(hash));
            // SAFETY: the shard is held exclusively.
            unsafe { keyspace.shard(keyspace.shard_of(hash)).watchers.remove(watch.db, key, &watch.flag) };
            drop(held);
        }
    }
}

/// True if the value can be shared and read without locks. Collections with expiring members are
/// not shared.
fn can_be_shared(entry: Entry<'_>) -> bool {
    matches!(entry.value(), ValueRef::Object(object) if object.next_member_expiry().is_none())
}
