// SPDX-License-Identifier: BSD-3-Clause
//! The common part of all changes of a key: [`Txn::before_change`], where the entry's old form is
//! still in place, and [`Txn::changed`], which informs watchers, waiters and tracking clients.
//! Also the life cycle of collections: the first write creates them, they are removed when empty,
//! and their members expire.
//!
//! HOT PATH: no allocation beyond the entry's own, no logging, no system call.

use std::sync::atomic::Ordering::Relaxed;

use super::read::as_string;
use super::{NOTHING_EXPIRED, Txn, WrongType};
use crate::documents::INDEXED_DB;
use crate::entry::{Entry, Value, ValueRef};
use crate::events::{DEL, Event, NEW, class};
use crate::eviction;
use crate::keyspace::{Removal, Shard};
use crate::object::{Collection, ExpiredMembers, Object, ObjectType};

const EXPIRED: Event = Event { class: class::EXPIRED, name: "expired" };

impl<'a> Txn<'a> {
    /// The entry of a key about to be written. Marks the key as used. An expired entry is removed
    /// first.
    #[inline]
    pub fn write(&mut self, key: &[u8]) -> Option<Entry<'_>> {
        let hash = self.hash(key);
        let entry = self.find_live(hash, key)?;
        self.touch(entry);
        self.before_change(entry);
        Some(entry)
    }

    /// The collection of type `T` at a key, for writing. Call [`Txn::changed`] after changing it,
    /// and [`Txn::delete`] if it became empty.
    ///
    /// # Errors
    /// If the key has a value of another type.
    pub fn write_as<'s, T: ObjectType>(&'s mut self, key: &[u8]) -> Result<Option<&'s mut T>, WrongType> {
        let Some(entry) = self.write(key) else { return Ok(None) };
        if entry.value_type() != T::TYPE {
            return Err(WrongType);
        }
        // SAFETY: `write` asserts the exclusive lock; the result borrows the transaction, so it is
        // the only reference.
        Ok(Some(unsafe { entry.object_mut::<T>() }))
    }

    /// The collection at a key, whatever its type, for writing; `None` for a string. Otherwise
    /// like [`Txn::write_as`].
    pub fn write_any(&mut self, key: &[u8]) -> Option<&mut dyn Collection> {
        // SAFETY: `write` asserts the exclusive lock; the result borrows the transaction, so it is
        // the only reference.
        unsafe { self.write(key)?.collection_mut() }
    }

    /// Like [`Txn::write_as`], but creates a missing collection with `make`.
    ///
    /// # Errors
    /// If the key has a value of another type.
    pub fn write_or_create<'s, T: ObjectType>(
        &'s mut self,
        key: &[u8],
        make: impl FnOnce() -> T,
    ) -> Result<&'s mut T, WrongType> {
        let hash = self.hash(key);
        let entry = match self.find_live(hash, key) {
            Some(entry) => {
                let entry = self.unbound(entry);
                self.touch(entry);
                self.before_change(entry);
                entry
            }
            None => {
                let clock = eviction::new_clock(self.keyspace);
                let entry = Entry::allocate(key, Value::Object(Object::new(make())), None, clock);
                self.insert_new(hash, entry);
                entry
            }
        };
        if entry.value_type() != T::TYPE {
            return Err(WrongType);
        }
        // SAFETY: the shard is held exclusively; the result borrows the transaction, so it is the
        // only reference.
        Ok(unsafe { entry.object_mut::<T>() })
    }

    /// The same entry with an unbounded lifetime, so that the transaction can be changed while the
    /// entry is in use.
    #[inline]
    pub(super) fn unbound<'e>(&self, entry: Entry<'_>) -> Entry<'e> {
        // SAFETY: the entry is linked; callers use the result before they unlink and retire it.
        unsafe { Entry::from_address(entry.address()) }
    }

    /// The unexpired entry of a key under its exclusive lock; an expired one is removed.
    #[inline]
    pub(super) fn find_live(&mut self, hash: u64, key: &[u8]) -> Option<Entry<'a>> {
        let table = self.shard(hash, true).table(self.db);
        // SAFETY: the shard is held exclusively (asserted in debug builds).
        let entry = unsafe { table.find(hash, self.keyspace.shard_bits(), key) }?;
        if entry.is_expired(self.now_ms) {
            self.remove_expired(hash, entry);
            return None;
        }
        Some(entry)
    }

    /// Removes an expired entry.
    pub(crate) fn expire(&mut self, entry: Entry<'a>) {
        let hash = self.keyspace.hash(entry.key());
        self.remove_expired(hash, entry);
    }

    /// Removes a key if it has expired. True if the key remains and has an expiry.
    pub(crate) fn expire_at(&mut self, key: &[u8], now_ms: i64) -> bool {
        let Some(expiry) = self.find(key).and_then(Entry::expiry) else { return false };
        if expiry >= now_ms {
            return true;
        }
        self.now_ms = now_ms;
        // `find_live` removes it.
        let _ = self.find_live(self.hash(key), key);
        false
    }

    pub(super) fn remove_expired(&mut self, hash: u64, entry: Entry<'a>) {
        self.context.counters.expired.add(1);
        self.before_change(entry);
        self.changed_hash(hash, entry.key());
        self.journal_loss(entry.key(), Removal::Expired);
        if self.keyspace.wants(EXPIRED.class) {
            self.notify_loss(EXPIRED, entry);
        }
        self.unlink(hash, entry);
    }

    /// Reports the loss of an entry, with its value if it is a string and lost values are wanted.
    #[cold]
    pub(crate) fn notify_loss(&self, event: Event, entry: Entry<'_>) {
        let mut scratch = [0; 20];
        let with_value = self.keyspace.settings.events_with_values.load(Relaxed) != 0;
        let value = as_string(entry).ok().filter(|_| with_value);
        let value = value.map(|value| value.bytes(&mut scratch));
        self.keyspace.tell_event(self.context.slot, self.db, event, entry.key(), value);
    }

    /// Called by every change of an entry while its old form is still in place. This is the only
    /// hook for code that keeps old forms (a snapshot in progress).
    #[inline]
    pub(super) fn before_change(&self, entry: Entry<'_>) {
        debug_assert!(self.covers(self.keyspace.shard_of(self.keyspace.hash(entry.key())), true));
        if self.keyspace.snapshots.is_due(entry) {
            self.keyspace.keep_old_form(self.db, entry);
        }
    }

    /// Informs watchers of a change of a key, reports its event and counts it. Setting, deleting,
    /// renaming and expiring do this themselves; call it after changing a collection in place.
    #[inline]
    pub fn changed(&mut self, event: Event, key: &[u8]) {
        let hash = self.hash(key);
        self.changed_hash(hash, key);
        self.notify(event, key);
        self.context.counters.dirty.add(1);
    }

    /// Counts changes that are not reported to watchers, as in stock servers: those of a stream's
    /// consumer groups.
    pub fn count_changes(&mut self, changes: u64) {
        self.context.counters.dirty.add(changes);
    }

    /// Like [`Txn::count_changes`] for one change of a key, after which the key's waiters must
    /// look again.
    pub fn changed_for_waiters(&mut self, event: Event, key: &[u8]) {
        self.notify(event, key);
        let hash = self.hash(key);
        if !self.shard(hash, true).watchers.is_empty() && self.is_awaited(hash, key) {
            self.note_ready(self.db, key);
        }
        self.count_changes(1);
    }

    /// Like [`Txn::changed`], after a change in place that counts as `changes`. With `empty`, the
    /// collection has become empty and its key is removed.
    #[inline]
    pub fn finish_change(&mut self, event: Event, key: &[u8], changes: u64, empty: bool) {
        let hash = self.hash(key);
        if changes > 0 {
            self.notify(event, key);
        }
        if empty && self.discard(hash, key) {
            self.notify(DEL, key);
        } else {
            self.changed_hash(hash, key);
        }
        self.context.counters.dirty.add(changes);
    }

    /// Like [`Txn::finish_change`], for a collection from which `expired` expired members were
    /// removed too. Does nothing if neither kind of change occurred.
    #[inline]
    pub fn finish_change_expiring(
        &mut self,
        event: Event,
        key: &[u8],
        changes: u64,
        expired: ExpiredMembers,
        empty: bool,
    ) {
        if changes == 0 && expired.is_empty() {
            return;
        }
        if !expired.is_empty() {
            self.context.counters.expired_members.add(expired.len() as u64);
            if let Some(kind) = self.peek(key).map(|entry| entry.value_type()) {
                self.journal_members_loss(kind, key, &expired);
                self.notify_members_expired(kind, key, &expired);
            }
        }
        self.finish_change(event, key, changes, empty);
    }

    /// Records the earliest member expiry of the collection at a key, so that active expiry
    /// removes the member. Call it after giving a member an expiry.
    pub fn note_member_expiry(&mut self, key: &[u8]) {
        let hash = self.hash(key);
        let Some(entry) = self.find_live(hash, key) else { return };
        self.note_members(hash, entry);
    }

    pub(super) fn note_members(&self, hash: u64, entry: Entry<'_>) {
        let ValueRef::Object(object) = entry.value() else { return };
        self.note_placed(entry, object);
        if let Some(at) = object.next_member_expiry() {
            // SAFETY: the shard is held exclusively.
            unsafe { self.shard(hash, true).table(self.db).note_members(hash, at) };
            self.note_due(hash, at);
        }
    }

    /// Removes up to `most` expired members from a collection of the held shard, and the key with
    /// its last member. Returns the number of members removed; `None` if no collection has due
    /// members.
    pub(crate) fn expire_members(&mut self, shard: u32, most: usize) -> Option<usize> {
        let keyspace = self.keyspace;
        let table = keyspace.shard(shard).table(self.db);
        let rehash = |key: &[u8]| keyspace.hash(key);
        // SAFETY: the shard is held exclusively.
        let hash = unsafe { table.take_due_members(self.now_ms) }?;
        // SAFETY: as above.
        let found: Option<Entry<'a>> = unsafe { table.find_hash(hash, keyspace.shard_bits(), rehash) };
        // A key past its own expiry is removed as a whole, by key expiry.
        let Some(entry) = found.filter(|entry| !entry.is_expired(self.now_ms)) else { return Some(0) };
        // SAFETY: the shard is held exclusively, and no other reference to the collection exists.
        let (gone, empty) = match unsafe { entry.collection_mut() } {
            Some(collection) => self.expire_members_of(entry, collection, most),
            None => Default::default(),
        };
        let removed = gone.len();
        if removed > 0 {
            self.context.counters.expired_members.add(removed as u64);
            self.changed_hash(hash, entry.key());
            self.journal_members_loss(entry.value_type(), entry.key(), &gone);
            self.notify_members_expired(entry.value_type(), entry.key(), &gone);
        }
        if empty {
            self.notify(DEL, entry.key());
            self.unlink(hash, entry);
        } else {
            self.note_members(hash, entry);
        }
        Some(removed)
    }

    pub(super) fn expire_members_of(
        &self,
        entry: Entry<'a>,
        collection: &mut dyn Collection,
        most: usize,
    ) -> (ExpiredMembers, bool) {
        if collection.next_expiry().is_none_or(|at| at >= self.now_ms) {
            return Default::default();
        }
        self.before_change(entry);
        let gone = collection.remove_expired(self.now_ms, most);
        (gone, collection.is_empty())
    }

    #[inline]
    pub(super) fn changed_hash(&self, hash: u64, key: &[u8]) {
        let shard = self.shard(hash, true);
        if !shard.watchers.is_empty() {
            self.tell(shard, hash, key);
        }
    }

    /// Informs watchers, waiters and tracking clients of a key's change.
    #[cold]
    pub(super) fn tell(&self, shard: &Shard, hash: u64, key: &[u8]) {
        // SAFETY: the shard is held exclusively.
        unsafe { shard.watchers.touch(self.db, key) };
        if self.is_awaited(hash, key) {
            self.note_ready(self.db, key);
        }
        if let Some(readers) = shard.watchers.take_readers(key) {
            self.context.invalidated.borrow_mut().push((key.into(), readers));
            self.context.follow_up.set(true);
        }
        let keyspace = self.keyspace;
        if self.db == INDEXED_DB && keyspace.settings.indexed.load(Relaxed) != 0 {
            self.context.to_index.borrow_mut().push(key.into());
        }
        if keyspace.settings.broadcasts.load(Relaxed) != 0 && !keyspace.is_silent(keyspace.shard_of(hash)) {
            self.context.broadcast.borrow_mut().push(key.into());
            self.context.follow_up.set(true);
        }
    }

    pub(super) fn note_ready(&self, db: u32, key: &[u8]) {
        let mut ready = self.context.ready.borrow_mut();
        // Repeated changes of one key by a command usually come in a row; serving a key twice is
        // harmless.
        if ready.last().is_none_or(|(last_db, last)| *last_db != db || **last != *key) {
            ready.push((db, key.into()));
        }
        self.context.follow_up.set(true);
    }

    pub(super) fn insert_new(&mut self, hash: u64, entry: Entry<'_>) {
        let keyspace = self.keyspace;
        let shard = self.shard(hash, true);
        shard.note_use(self.db);
        keyspace.snapshots.stamp(entry);
        let table = shard.table(self.db);
        let rehash = |key: &[u8]| keyspace.hash(key);
        // SAFETY: the shard is held exclusively, and the entry is new.
        unsafe { table.insert(hash, keyspace.shard_bits(), entry, &mut self.context.limbo, &rehash) };
        if let Some(at) = entry.expiry() {
            self.note_due(hash, at);
            self.note_own_expiring(entry.key());
        }
        if keyspace.wants(NEW.class) && !self.silent {
            self.notify(NEW, entry.key());
        }
    }

    /// Records the expiry time of a key or of a member of a collection.
    #[inline]
    pub(super) fn note_due(&self, hash: u64, at: i64) {
        let keyspace = self.keyspace;
        let shard = keyspace.shard_of(hash);
        keyspace.note_due(shard, keyspace.shard(shard).table(self.db), at);
    }

    /// Records a key to which a replica's client has given an expiry.
    #[inline]
    pub(super) fn note_own_expiring(&self, key: &[u8]) {
        if self.keyspace.settings.notes_own_expiring.load(Relaxed) && self.now_ms != NOTHING_EXPIRED {
            self.keyspace.own_expiring.lock().insert((self.db, key.into()));
        }
    }

    pub(super) fn unlink(&mut self, hash: u64, entry: Entry<'a>) {
        let table = self.shard(hash, true).table(self.db);
        // SAFETY: the shard is held exclusively; the entry is linked, and retired once.
        unsafe {
            table.forget_members(hash);
            table.remove(hash, self.keyspace.shard_bits(), entry, &mut self.context.limbo);
            self.context.limbo.retire_entry(entry);
        }
    }
}
