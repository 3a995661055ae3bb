// SPDX-License-Identifier: BSD-3-Clause
//! Operations on a key of any type: delete, expiry, rename, copy, and the exchange of databases.

use super::{EXPIRE, Expiry, HeldLocks, PERSIST, Txn};
use crate::entry::{Entry, Value, ValueRef};
use crate::events::{DEL, Event, NEW};
use crate::eviction::protection_request;
use crate::object::Object;

const BLESS: Event = Event::generic("bless");
const UNBLESS: Event = Event::generic("unbless");
const COPY_TO: Event = Event::generic("copy_to");
const RENAMED: [Event; 2] = [Event::generic("rename_from"), Event::generic("rename_to")];
const MOVED: [Event; 2] = [Event::generic("move_from"), Event::generic("move_to")];

impl<'a> Txn<'a> {
    /// Deletes a key and reports the event. False if the key was missing or expired.
    pub fn delete(&mut self, key: &[u8]) -> bool {
        let removed = self.remove(key);
        if removed {
            self.notify(DEL, key);
        }
        removed
    }

    /// Like [`Txn::delete`], without an event.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let hash = self.hash(key);
        let removed = self.discard(hash, key);
        self.context.counters.dirty.add(u64::from(removed));
        removed
    }

    /// Removes a key without counting a change (it is part of another change).
    pub(super) fn discard(&mut self, hash: u64, key: &[u8]) -> bool {
        let Some(entry) = self.find_live(hash, key) else { return false };
        self.before_change(entry);
        self.unlink(hash, entry);
        self.changed_hash(hash, key);
        true
    }

    /// Sets or clears a key's expiry. False if the key is missing. Clearing an absent expiry
    /// changes nothing.
    pub fn set_expiry(&mut self, key: &[u8], at: Option<i64>) -> bool {
        let hash = self.hash(key);
        let Some(entry) = self.find_live(hash, key) else { return false };
        self.before_change(entry);
        match (at, entry.has_expiry()) {
            (Some(at), true) if !entry.is_held() => self.change_expiry_in_place(hash, entry, at),
            (None, false) => return true,
            _ => {
                // SAFETY: exclusive; the old entry becomes a shell here and is retired as a shell.
                unsafe {
                    let new = entry.move_to(entry.key(), at);
                    self.keyspace.snapshots.stamp(new);
                    let table = self.shard(hash, true).table(self.db);
                    table.replace(hash, self.keyspace.shard_bits(), entry, new);
                    self.context.limbo.retire_shell(entry);
                }
                if let Some(at) = at {
                    self.note_due(hash, at);
                    self.note_own_expiring(key);
                }
            }
        }
        self.changed_hash(hash, key);
        self.notify(if at.is_some() { EXPIRE } else { PERSIST }, key);
        self.context.counters.dirty.add(1);
        true
    }

    /// Changes the access clock of a key (RESTORE IDLETIME and FREQ).
    pub fn set_clock(&mut self, key: &[u8], clock: u32) {
        if let Some(entry) = self.peek(key) {
            entry.set_clock(clock);
        }
    }

    /// Protects a key from eviction, or no longer. `None` if the key is missing, else whether that
    /// changes anything. The key counts as changed, but not its value.
    pub fn set_protected(&mut self, key: &[u8], protect: bool) -> Option<bool> {
        let entry = self.find_live(self.hash(key), key)?;
        if entry.is_protected() == protect {
            return Some(false);
        }
        self.before_change(entry);
        entry.set_protected(protect);
        self.notify(if protect { BLESS } else { UNBLESS }, key);
        self.context.counters.dirty.add(1);
        Some(true)
    }

    /// Journals that a key is protected, if it is: behind a removal of the key and its new value.
    pub fn journal_protection(&mut self, key: &[u8]) {
        if self.journals() && self.peek(key).is_some_and(Entry::is_protected) {
            self.journal_as(&protection_request(key));
        }
    }

    /// Protects a key that has just been added during a load. Reports no event.
    pub fn protect_loaded(&mut self, key: &[u8]) {
        if let Some(entry) = self.peek(key) {
            entry.set_protected(true);
        }
    }

    /// Moves the value and the expiry of a key of this database to a key of database `to_db`,
    /// replacing the target. The source must exist.
    pub fn rename(&mut self, from: &[u8], to_db: u32, to: &[u8]) -> bool {
        let (from_db, from_hash) = (self.db, self.hash(from));
        let Some(entry) = self.find_live(from_hash, from) else { return false };
        if from_db == to_db && from == to {
            // Source and target are the same key: removing the target's value would remove the
            // source.
            return true;
        }
        self.before_change(entry);
        self.db = to_db;
        let to_hash = self.hash(to);
        let replaced = self.to_replace(to);
        self.discard(to_hash, to);
        // SAFETY: exclusive; the old entry is unlinked below and retired as a shell.
        let moved = unsafe { entry.move_to(to, entry.expiry()) };
        self.insert_new(to_hash, moved);
        self.note_members(to_hash, moved);
        self.changed_hash(to_hash, to);
        self.db = from_db;
        let table = self.shard(from_hash, true).table(from_db);
        // SAFETY: as above.
        unsafe {
            table.forget_members(from_hash);
            table.remove(from_hash, self.keyspace.shard_bits(), entry, &mut self.context.limbo);
            self.context.limbo.retire_shell(entry);
        }
        self.changed_hash(from_hash, from);
        let [from_event, to_event] = if from_db == to_db { RENAMED } else { MOVED };
        self.notify(from_event, from);
        self.db = to_db;
        self.notify(to_event, to);
        self.notify_replaced(to, replaced);
        if from_db == to_db {
            self.rename_links(from, to);
        }
        self.db = from_db;
        self.context.counters.dirty.add(1);
        true
    }

    /// Copies the value and the expiry of a key to a key of database `to_db`, replacing the target.
    pub fn copy(&mut self, from: &[u8], to_db: u32, to: &[u8]) -> bool {
        self.copy_with(from, to_db, to, None)
    }

    /// Like [`Txn::copy`], but uses `copy`, a copy of the value made earlier, if given.
    pub fn copy_with(&mut self, from: &[u8], to_db: u32, to: &[u8], copy: Option<Object>) -> bool {
        let Some(entry) = self.read(from) else { return false };
        if self.db == to_db && from == to {
            return true;
        }
        let entry: Entry<'_> = self.unbound(entry);
        let expiry = entry.expiry().map_or(Expiry::Clear, Expiry::At);
        let value = match entry.value() {
            _ if let Some(copy) = copy => Value::Object(copy),
            ValueRef::Bytes(bytes) => Value::Bytes { bytes, raw: entry.is_raw() },
            ValueRef::Integer(number) => Value::Integer(number),
            ValueRef::Blob(blob) => Value::Blob(blob.clone()),
            ValueRef::Object(object) => Value::Object(object.duplicate()),
        };
        let from_db = std::mem::replace(&mut self.db, to_db);
        self.replace(COPY_TO, to, value, expiry);
        self.db = from_db;
        true
    }

    /// Stores a value that comes from elsewhere (COPY, RESTORE). For events, a replaced key is
    /// deleted first.
    pub fn replace(&mut self, event: Event, key: &[u8], value: Value<'_>, expiry: Expiry) {
        let replaced = self.to_replace(key);
        self.set(key, value, expiry);
        if replaced.is_some() {
            self.notify(NEW, key);
        }
        self.notify(event, key);
        self.notify_replaced(key, replaced);
    }

    /// Exchanges two databases while the world is stopped.
    ///
    /// A watched key that has expired is removed first: it counts as absent, and its later removal
    /// must not count as a change of an absent key. (For clients that began to watch the key
    /// before its expiry, the expiry is a change.)
    pub fn swap_databases(&mut self, one: u32, other: u32) {
        let keyspace = self.keyspace;
        let db = self.db;
        for shard in keyspace.shards().iter().filter(|shard| !shard.watchers.is_empty()) {
            debug_assert!(matches!(self.held, HeldLocks::World(_)), "a swap needs a stopped world");
            // SAFETY: the world is stopped.
            for key in unsafe { shard.watchers.keys_of([one, other]) } {
                let hash = keyspace.hash(&key);
                for in_db in [one, other] {
                    self.db = in_db;
                    self.find_live(hash, &key);
                }
            }
        }
        self.db = db;
        if let HeldLocks::World(world) = &self.held {
            keyspace.swap_tables(world, one, other);
            self.databases_changed(|db| db == one || db == other);
        }
    }
}
