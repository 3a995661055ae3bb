// SPDX-License-Identifier: BSD-3-Clause
//! Storing values: SET and its variants, increments, and in-place edits of strings.
//!
//! HOT PATH: no allocation beyond the entry's own, no logging, no system call.

use braid_base::blob::Blob;
use smallvec::SmallVec;

use super::read::{StringRef, as_string};
use super::{EXPIRE, Expiry, PERSIST, Txn, WrongType};
use crate::entry::{EMBEDDED_MAX, Entry, Value, ValueRef};
use crate::events::{Event, class};
use crate::eviction;
use crate::object::Object;
use crate::value_type::Type;

const INCRBY: Event = Event::string("incrby");
const OVERWRITTEN: Event = Event { class: class::OVERWRITTEN, name: "overwritten" };
const TYPE_CHANGED: Event = Event { class: class::TYPE_CHANGED, name: "type_changed" };

/// Reasons why [`Txn::increment`] changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncrementError {
    /// The value is not a string.
    WrongType,
    /// The string is not a canonical 64-bit integer.
    NotAnInteger,
    /// The sum does not fit in 64 bits.
    Overflow,
}

impl<'a> Txn<'a> {
    /// Sets a key to a value, replacing any previous value.
    #[inline]
    pub fn set(&mut self, key: &[u8], value: Value<'_>, expiry: Expiry) {
        let hash = self.hash(key);
        let old = self.find_live(hash, key);
        self.store(hash, old, key, value, expiry);
        self.changed_hash(hash, key);
        self.context.counters.dirty.add(1);
    }

    /// Like [`Txn::set`], but reports `event`, and an expiry event if `expiry` is [`Expiry::At`].
    #[inline]
    pub fn set_as(&mut self, event: Event, key: &[u8], value: Value<'_>, expiry: Expiry) {
        if self.keyspace.wants(u32::MAX) {
            return self.set_telling(event, key, value, expiry);
        }
        self.set(key, value, expiry);
    }

    #[cold]
    pub(super) fn set_telling(&mut self, event: Event, key: &[u8], value: Value<'_>, expiry: Expiry) {
        let replaced = self.peek(key).map(|entry| entry.value_type());
        self.set(key, value, expiry);
        self.notify_replaced(key, replaced);
        self.notify(event, key);
        if matches!(expiry, Expiry::At(_)) {
            self.notify(EXPIRE, key);
        }
    }

    /// Like [`Txn::set_as`], for a value computed from the previous one: it counts as changed, not
    /// as overwritten. [`Expiry::Clear`] is for keys that have an expiry.
    pub fn update(&mut self, event: Event, key: &[u8], value: Value<'_>, expiry: Expiry) {
        self.set(key, value, expiry);
        self.notify(event, key);
        match expiry {
            Expiry::At(_) => self.notify(EXPIRE, key),
            Expiry::Clear => self.notify(PERSIST, key),
            Expiry::Keep => {}
        }
    }

    /// The type of the value at a key that a command is about to replace as a whole, if events
    /// tell of that; for [`Txn::notify_replaced`].
    pub fn to_replace(&self, key: &[u8]) -> Option<Type> {
        let wanted = self.keyspace.wants(class::NEW | class::OVERWRITTEN | class::TYPE_CHANGED);
        self.peek(key).filter(|_| wanted).map(|entry| entry.value_type())
    }

    /// Reports that a key's value, which was of the given type, has been replaced. The new value
    /// may have expired already.
    pub fn notify_replaced(&self, key: &[u8], replaced: Option<Type>) {
        if replaced.is_none() {
            return;
        }
        self.notify(OVERWRITTEN, key);
        if self.find(key).map(|entry| entry.value_type()) != replaced {
            self.notify(TYPE_CHANGED, key);
        }
    }

    /// Adds a key during a load, with the given access clock or that of a new key. False, with
    /// nothing changed, if the key exists. Reports no event.
    pub fn add(&mut self, key: &[u8], value: Value<'_>, expiry: Option<i64>, clock: Option<u32>) -> bool {
        let hash = self.hash(key);
        if self.find(key).is_some() {
            return false;
        }
        let clock = clock.unwrap_or_else(|| eviction::new_clock(self.keyspace));
        let is_object = matches!(value, Value::Object(_));
        let entry = Entry::allocate(key, value, expiry, clock);
        self.silent = true;
        self.insert_new(hash, entry);
        self.silent = false;
        if is_object {
            self.note_members(hash, entry);
        }
        true
    }

    /// Stores a value at a key whose unexpired entry, if it has one, is `old`. Reports no event.
    #[inline]
    pub(super) fn store(
        &mut self,
        hash: u64,
        old: Option<Entry<'a>>,
        key: &[u8],
        value: Value<'_>,
        expiry: Expiry,
    ) {
        let Some(old) = old else {
            let at = if let Expiry::At(at) = expiry { Some(at) } else { None };
            let is_object = matches!(value, Value::Object(_));
            let entry = Entry::allocate(key, value, at, eviction::new_clock(self.keyspace));
            self.insert_new(hash, entry);
            if is_object {
                self.note_members(hash, entry);
            }
            return;
        };
        self.before_change(old);
        self.touch(old);
        let at = match expiry {
            Expiry::Keep => old.expiry(),
            Expiry::Clear => None,
            Expiry::At(at) => Some(at),
        };
        if at.is_some() == old.has_expiry() && old.overwrite(&value) {
            if let Some(at) = at.filter(|_| expiry != Expiry::Keep) {
                self.change_expiry_in_place(hash, old, at);
            }
        } else {
            let is_object = matches!(value, Value::Object(_));
            let new = Entry::allocate(key, value, at, old.clock()).inherit(old);
            self.keyspace.snapshots.stamp(new);
            let table = self.shard(hash, true).table(self.db);
            // SAFETY: the shard is held exclusively; `old` is linked, replaced and retired once.
            unsafe {
                table.forget_members(hash);
                table.replace(hash, self.keyspace.shard_bits(), old, new);
                self.context.limbo.retire_entry(old);
            }
            if let Some(at) = at {
                self.note_due(hash, at);
                self.note_own_expiring(key);
            }
            if is_object {
                self.note_members(hash, new);
            }
        }
    }

    /// Adds to the integer at a key (a missing key counts as 0) and returns the sum. An
    /// integer-encoded value changes in place. The expiry is kept.
    ///
    /// # Errors
    /// If the value is of another type or not an integer, or the sum does not fit into 64 bits. The
    /// value is unchanged then.
    #[inline]
    pub fn increment(&mut self, key: &[u8], by: i64) -> Result<i64, IncrementError> {
        let hash = self.hash(key);
        let old = self.find_live(hash, key);
        let number = match old {
            None => 0,
            Some(entry) => match entry.integer() {
                Some(number) => number,
                // A string edited in place may still be a number.
                None => match entry.value() {
                    ValueRef::Bytes(bytes) => braid_base::number::parse_i64(bytes),
                    ValueRef::Blob(blob) => braid_base::number::parse_i64(blob),
                    ValueRef::Integer(number) => Some(number),
                    ValueRef::Object(_) => return Err(IncrementError::WrongType),
                }
                .ok_or(IncrementError::NotAnInteger)?,
            },
        };
        let sum = number.checked_add(by).ok_or(IncrementError::Overflow)?;
        self.store(hash, old, key, Value::Integer(sum), Expiry::Keep);
        self.changed_hash(hash, key);
        self.notify(INCRBY, key);
        self.context.counters.dirty.add(1);
        Ok(sum)
    }

    pub(super) fn change_expiry_in_place(&self, hash: u64, entry: Entry<'_>, at: i64) {
        entry.set_expiry(at);
        let table = self.shard(hash, true).table(self.db);
        // SAFETY: the shard is held exclusively; the entry is linked.
        unsafe { table.expiry_changed(hash, self.keyspace.shard_bits(), entry) };
        self.note_due(hash, at);
        self.note_own_expiring(entry.key());
    }

    /// Stores a collection at a key, replacing any previous value.
    pub fn set_object(&mut self, event: Event, key: &[u8], object: Object, expiry: Expiry) {
        self.set_as(event, key, Value::Object(object), expiry);
    }

    /// Edits a string in place: extends it with zero bytes to at least `len` bytes (a missing key
    /// counts as empty), passes the whole string and its previous length to `edit`, and stores it
    /// as `raw`. `edit` returns its result and its number of changes; with 0, no change is
    /// reported. The expiry is kept.
    ///
    /// # Errors
    /// If the key has a value of another type; `edit` has not run then.
    pub fn edit_string<R>(
        &mut self,
        event: Event,
        key: &[u8],
        len: usize,
        edit: impl FnOnce(&mut [u8], usize) -> (R, u64),
    ) -> Result<R, WrongType> {
        const SMALL: usize = 64;
        let hash = self.hash(key);
        let entry = self.find_live(hash, key);
        let mut scratch = [0; 20];
        let current = entry.map(as_string).transpose()?.unwrap_or(StringRef::Bytes(b""));
        let (result, changes) = if let (StringRef::Blob(_), Some(entry)) = (current, entry) {
            self.before_change(entry);
            self.touch(entry);
            // SAFETY: exclusive, and the only reference from here on.
            let blob = unsafe { entry.blob_mut() }.expect("a blob");
            let old_len = blob.len();
            grow_blob(blob, len);
            edit(blob.make_mut(), old_len)
        } else {
            let current = current.bytes(&mut scratch);
            let new_len = len.max(current.len());
            if new_len <= SMALL || (new_len <= EMBEDDED_MAX && new_len == current.len()) {
                let mut bytes = SmallVec::<[u8; EMBEDDED_MAX]>::from_slice(current);
                bytes.resize(new_len, 0);
                let edited = edit(&mut bytes, current.len());
                self.store(hash, entry, key, Value::Bytes { bytes: &bytes, raw: true }, Expiry::Keep);
                edited
            } else {
                // A new string is allocated at its exact size; a string that grows is likely to
                // grow again.
                let room = if entry.is_none() { new_len } else { grown_capacity(new_len) };
                let mut blob = Blob::with_capacity(room);
                blob.extend_from_slice(current);
                blob.resize_zeroed(new_len);
                let edited = edit(blob.make_mut(), current.len());
                self.store(hash, entry, key, Value::Blob(blob), Expiry::Keep);
                edited
            }
        };
        if changes > 0 {
            self.changed_hash(hash, key);
            self.notify(event, key);
            self.context.counters.dirty.add(changes);
        }
        Ok(result)
    }
}

/// Capacity for a string that was grown to `len` bytes: twice `len`, but at most 1 MiB extra, so
/// that repeated appends stay cheap.
fn grown_capacity(len: usize) -> usize {
    len.saturating_add(len.min(1 << 20))
}

/// Grows a blob's content to `len` bytes, if it is shorter.
fn grow_blob(blob: &mut Blob, len: usize) {
    if len > blob.len() {
        if len > blob.capacity() {
            blob.reserve_exact(grown_capacity(len) - blob.len());
        }
        blob.resize_zeroed(len);
    }
}
