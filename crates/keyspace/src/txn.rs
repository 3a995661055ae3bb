//! A transaction: the locks of the shards in which a command's keys live, and the only way to reach those keys.
//!
//! HOT PATH: no allocation beyond the entry's own for up to 8 shards, no logging, no system call.
//!
//! The dispatcher makes one before a body runs and drops it afterwards; nothing else takes shard locks for commands. Locks are
//! taken in ascending shard order, each exclusive if any key in it is to be written. A key outside the lock set is a
//! bug in a command's key specification: debug builds assert it.
//!
//! Whatever changes goes through [`Txn::before_change`], where the old form of an entry is still there, and
//! [`Txn::changed`], where watchers learn of it: the hooks for snapshots and the journal.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use braid_base::blob::Blob;
use braid_base::gate::World;
use braid_containers::hash::Hash;
use braid_containers::set::Set;
use braid_containers::sorted_set::SortedSet;
use smallvec::SmallVec;

use crate::context::Context;
use crate::entry::{EMBEDDED_MAX, Entry, Type, Value, ValueRef};
use crate::events::{DEL, Event, KEY_MISS, NEW, class, members_expired};
use crate::eviction;
use crate::keyspace::{Keyspace, Shard};
use crate::object::{ExpiredMembers, Expiring, Object, Typed};
use crate::waiters::Waiter;

const EXPIRED: Event = Event { class: class::EXPIRED, name: "expired" };
const EXPIRE: Event = Event::generic("expire");
const INCRBY: Event = Event::string("incrby");
const COPY_TO: Event = Event::generic("copy_to");
const PERSIST: Event = Event::generic("persist");
const RENAMED: [Event; 2] = [Event::generic("rename_from"), Event::generic("rename_to")];
const MOVED: [Event; 2] = [Event::generic("move_from"), Event::generic("move_to")];
const OVERWRITTEN: Event = Event { class: class::OVERWRITTEN, name: "overwritten" };
const TYPE_CHANGED: Event = Event { class: class::TYPE_CHANGED, name: "type_changed" };

/// A key that a command names, with its hash; part of the lock set.
#[derive(Clone, Copy)]
pub struct KeyRef<'a> {
    pub key: &'a [u8],
    pub hash: u64,
    /// The command may change it.
    pub write: bool,
}

/// What becomes of a key's expiry when its value is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expiry {
    /// As it was.
    Keep,
    /// None from now on.
    Clear,
    /// At this time, ms since the Unix epoch.
    At(i64),
}

/// A time before all expiries: to a transaction of this time nothing has expired. Changes that are read from an append-only file are made at it,
/// since what they found living must be found living again.
pub const NOTHING_EXPIRED: i64 = 0;

/// The key holds another type than the command works on.
#[derive(Debug, PartialEq, Eq)]
pub struct WrongType;

/// Why [`Txn::increment`] has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncrementError {
    /// The key holds no string.
    WrongType,
    /// The string is no canonical 64-bit integer.
    NotAnInteger,
    /// The sum does not fit in 64 bits.
    Overflow,
}

enum Held<'a> {
    Nothing,
    One(u32, bool),
    Many(SmallVec<[(u32, bool); 8]>),
    AllShared,
    World(World<'a>),
}

/// The outcome of a read without a lock.
#[derive(PartialEq, Eq, Debug)]
pub enum Optimistic {
    /// No such key.
    Missing,
    /// An integer-encoded string.
    Integer(i64),
    /// The string's bytes were copied.
    Copied,
    /// A writer was there, or the value is of another kind: take the lock. What was copied is void.
    Failed,
}

/// A string value, for reading.
#[derive(Clone, Copy)]
pub enum StringRef<'a> {
    Bytes(&'a [u8]),
    Integer(i64),
    Blob(&'a Blob),
}

impl<'a> StringRef<'a> {
    /// The text; integers are written into `scratch`.
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

    /// Length of the text in bytes.
    pub fn len(self) -> usize {
        self.bytes(&mut [0; 20]).len()
    }

    /// True for the empty string.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// Locks held for a command, a queued transaction, or the whole world.
pub struct Txn<'a> {
    keyspace: &'a Keyspace,
    /// The executing thread's context.
    pub context: &'a mut Context,
    keys: &'a [KeyRef<'a>],
    held: Held<'a>,
    hint: Cell<usize>,
    db: u32,
    now: i64,
    /// False for clients that read without marking keys as used (CLIENT NO-TOUCH).
    touches: bool,
    /// Nobody is told of new keys: they are loaded.
    silent: bool,
}

impl<'a> Txn<'a> {
    /// Takes the locks of all shards in which `keys` live.
    #[inline]
    pub fn lock(
        keyspace: &'a Keyspace,
        context: &'a mut Context,
        db: u32,
        now: i64,
        keys: &'a [KeyRef<'a>],
    ) -> Self {
        let held = match keys {
            [] => Held::Nothing,
            [only] => Held::One(keyspace.shard_of(only.hash), only.write),
            several => lock_set(keyspace, several),
        };
        match &held {
            Held::One(shard, write) => lock_shard(keyspace, context, *shard, *write),
            Held::Many(shards) => {
                for &(shard, write) in shards {
                    lock_shard(keyspace, context, shard, write);
                }
            }
            _ => {}
        }
        Txn { keyspace, context, keys, held, hint: Cell::new(0), db, now, touches: true, silent: false }
    }

    /// Takes one shard for writing, whatever keys it has (active expiry).
    pub(crate) fn lock_shard_exclusive(
        keyspace: &'a Keyspace,
        context: &'a mut Context,
        shard: u32,
        db: u32,
        now: i64,
    ) -> Self {
        lock_shard(keyspace, context, shard, true);
        Txn {
            keyspace,
            context,
            keys: &[],
            held: Held::One(shard, true),
            hint: Cell::new(0),
            db,
            now,
            touches: true,
            silent: false,
        }
    }

    /// Removes an entry that is past its expiry.
    pub(crate) fn expire(&mut self, entry: Entry<'a>) {
        let hash = self.keyspace.hash(entry.key());
        self.remove_expired(hash, entry);
    }

    /// Takes all shards for reading.
    pub fn lock_all_shared(keyspace: &'a Keyspace, context: &'a mut Context, db: u32, now: i64) -> Self {
        for shard in 0..keyspace.shard_count() as u32 {
            lock_shard(keyspace, context, shard, false);
        }
        Txn {
            keyspace,
            context,
            keys: &[],
            held: Held::AllShared,
            hint: Cell::new(0),
            db,
            now,
            touches: true,
            silent: false,
        }
    }

    /// Works on everything, with the world stopped.
    pub fn world(
        keyspace: &'a Keyspace,
        context: &'a mut Context,
        world: World<'a>,
        db: u32,
        now: i64,
    ) -> Self {
        Txn {
            keyspace,
            context,
            keys: &[],
            held: Held::World(world),
            hint: Cell::new(0),
            db,
            now,
            touches: true,
            silent: false,
        }
    }

    /// The keyspace.
    #[inline]
    pub fn keyspace(&self) -> &'a Keyspace {
        self.keyspace
    }

    /// The proof that the world is stopped, if it is.
    pub fn stopped_world(&self) -> Option<&World<'a>> {
        match &self.held {
            Held::World(world) => Some(world),
            _ => None,
        }
    }

    /// True if nothing hinders a walk that locks shard after shard by itself (`scan.rs`): either no shard is
    /// held, or the world is stopped and nobody holds any. Within other locks a walk could wait for its own
    /// thread, or break the order of locks.
    pub fn may_walk(&self) -> bool {
        matches!(self.held, Held::Nothing | Held::World(_))
    }

    /// Lets the world go on for a moment, between two pieces of work that needs it stopped. Only for a transaction made by [`Txn::world`] on
    /// a thread that executes nothing else.
    pub fn let_world_go_on(&mut self, pause: std::time::Duration) {
        if let Held::World(world) = std::mem::replace(&mut self.held, Held::Nothing) {
            drop(world);
            std::thread::sleep(pause);
            self.held = Held::World(self.keyspace.gate.close(None));
        }
    }

    /// The database that keys are looked up in.
    #[inline]
    pub fn db(&self) -> u32 {
        self.db
    }

    /// Chooses the database for what follows (SELECT inside a transaction; MOVE and COPY).
    pub fn set_db(&mut self, db: u32) {
        debug_assert!(db < self.keyspace.databases());
        self.db = db;
    }

    /// Goes on at another time; the one before is returned. For what is loaded in the middle of a transaction that has the world stopped.
    pub fn set_now(&mut self, now: i64) -> i64 {
        debug_assert!(matches!(self.held, Held::World(_)));
        std::mem::replace(&mut self.now, now)
    }

    /// Names the keys of the next command of a transaction; they must be within the lock set.
    pub fn set_keys(&mut self, keys: &'a [KeyRef<'a>]) {
        self.keys = keys;
        self.hint.set(0);
    }

    /// The keys of the present command.
    pub(crate) fn keys(&self) -> &'a [KeyRef<'a>] {
        self.keys
    }

    /// Lets `work` run a command of a script, with these keys' hashes at hand.
    #[inline]
    pub fn with_keys<R>(&mut self, keys: &[KeyRef<'_>], work: impl FnOnce(&mut Self) -> R) -> R {
        /// Puts the former keys back, however `work` ends.
        struct Restore<'t, 'a>(&'t mut Txn<'a>, &'a [KeyRef<'a>]);
        impl Drop for Restore<'_, '_> {
            fn drop(&mut self) {
                self.0.keys = self.1;
                self.0.hint.set(0);
            }
        }
        // SAFETY: only the lifetime is longer than true, and the keys are gone before this function returns: `keys` is private, and
        // nothing here hands out what it refers to.
        let lent = unsafe { std::mem::transmute::<&[KeyRef<'_>], &'a [KeyRef<'a>]>(keys) };
        let before = self.keys;
        let restore = Restore(self, before);
        restore.0.keys = lent;
        restore.0.hint.set(0);
        work(restore.0)
    }

    /// True if the lock set covers a key of this hash.
    pub fn covers_hash(&self, hash: u64, write: bool) -> bool {
        self.covers(self.keyspace.shard_of(hash), write)
    }

    /// Whether look-ups mark keys as used.
    pub fn set_touches(&mut self, touches: bool) {
        self.touches = touches;
    }

    /// The time of this command, ms since the Unix epoch, by which keys and members have expired or not. The same throughout.
    #[inline]
    pub fn now(&self) -> i64 {
        self.now
    }

    /// The hash of a key of the lock set (found again by its place in memory, else computed).
    #[inline]
    fn hash(&self, key: &[u8]) -> u64 {
        let same = |known: &KeyRef<'_>| {
            std::ptr::eq(known.key.as_ptr(), key.as_ptr()) && known.key.len() == key.len()
        };
        let hint = self.hint.get();
        if let Some(known) = self.keys.get(hint).filter(|known| same(known)) {
            return known.hash;
        }
        if let Some(known) = self.keys.get(hint + 1).filter(|known| same(known)) {
            self.hint.set(hint + 1);
            return known.hash;
        }
        if let Some(known) = self.keys.first().filter(|known| same(known)) {
            self.hint.set(0);
            return known.hash;
        }
        self.keyspace.hash(key)
    }

    #[inline]
    fn shard(&self, hash: u64, write: bool) -> &'a Shard {
        let index = self.keyspace.shard_of(hash);
        debug_assert!(self.covers(index, write), "a key outside of the command's lock set");
        self.keyspace.shard(index)
    }

    fn covers(&self, index: u32, write: bool) -> bool {
        match &self.held {
            Held::Nothing => false,
            Held::One(shard, exclusive) => *shard == index && (*exclusive || !write),
            Held::Many(shards) => {
                shards.iter().any(|&(shard, exclusive)| shard == index && (exclusive || !write))
            }
            Held::AllShared => !write,
            Held::World(_) => true,
        }
    }

    #[inline]
    fn find(&self, key: &[u8]) -> Option<Entry<'_>> {
        let hash = self.hash(key);
        let table = self.shard(hash, false).table(self.db);
        // SAFETY: the shard is held (asserted in debug builds).
        unsafe { table.find(hash, self.keyspace.shard_bits(), key) }
    }

    /// The entry of a key, without marking it as used. Expired keys are absent.
    #[inline]
    pub fn peek(&self, key: &[u8]) -> Option<Entry<'_>> {
        self.find(key).filter(|entry| !entry.is_expired(self.now))
    }

    /// The entry of a key that is there though past its expiry.
    pub fn peek_expired(&self, key: &[u8]) -> Option<Entry<'_>> {
        self.find(key).filter(|entry| entry.is_expired(self.now))
    }

    /// The entry of a key for reading: counts a hit or miss and marks the key as used.
    #[inline]
    pub fn read(&self, key: &[u8]) -> Option<Entry<'_>> {
        match self.find(key) {
            Some(entry) if !entry.is_expired(self.now) => {
                self.context.counters.hits.add(1);
                self.touch(entry);
                return Some(entry);
            }
            Some(_) => {
                self.context.stale.borrow_mut().push((self.db, key.into()));
                self.context.follow_up.set(true);
            }
            None => {}
        }
        self.context.counters.misses.add(1);
        self.notify(KEY_MISS, key);
        None
    }

    #[inline]
    fn touch(&self, entry: Entry<'_>) {
        if self.touches {
            eviction::mark_used(self.keyspace, entry);
        }
    }

    /// The string at a key.
    #[inline]
    pub fn string(&self, key: &[u8]) -> Result<Option<StringRef<'_>>, WrongType> {
        let Some(entry) = self.read(key) else { return Ok(None) };
        as_string(entry).map(Some)
    }

    /// The string at a key that is about to be changed: as [`Txn::string`], but neither counted nor marked as used (the change
    /// does that).
    #[inline]
    pub fn string_for_change(&self, key: &[u8]) -> Result<Option<StringRef<'_>>, WrongType> {
        self.peek(key).map(as_string).transpose()
    }

    /// The collection of type `T` at a key, for reading.
    pub fn read_as<'s, T: Typed<'s>>(&'s self, key: &[u8]) -> Result<Option<&'s T>, WrongType> {
        let Some(entry) = self.read(key) else { return Ok(None) };
        match entry.value() {
            ValueRef::Object(object) => T::from_ref(object).map(Some).ok_or(WrongType),
            _ => Err(WrongType),
        }
    }

    /// As [`Txn::read_as`], but neither counted nor marked as used.
    pub fn peek_as<'s, T: Typed<'s>>(&'s self, key: &[u8]) -> Result<Option<&'s T>, WrongType> {
        let Some(entry) = self.peek(key) else { return Ok(None) };
        match entry.value() {
            ValueRef::Object(object) => T::from_ref(object).map(Some).ok_or(WrongType),
            _ => Err(WrongType),
        }
    }

    /// The entry of a key that is about to be written: an expired one is removed first. Marks the key as used.
    #[inline]
    pub fn write(&mut self, key: &[u8]) -> Option<Entry<'_>> {
        let hash = self.hash(key);
        let entry = self.find_live(hash, key)?;
        self.touch(entry);
        self.before_change(entry);
        Some(entry)
    }

    /// The collection of type `T` at a key, for writing. Call [`Txn::changed`] after changing it, and
    /// [`Txn::delete`] when it became empty.
    pub fn write_as<'s, T: Typed<'s>>(&'s mut self, key: &[u8]) -> Result<Option<&'s mut T>, WrongType> {
        let Some(entry) = self.write(key) else { return Ok(None) };
        if entry.value_type() != T::TYPE {
            return Err(WrongType);
        }
        // SAFETY: `write` asserts the exclusive lock; the result borrows the transaction, so it is the only reference.
        Ok(Some(unsafe { entry.object_mut::<T>() }))
    }

    /// As [`Txn::write_as`], making the collection with `make` if the key is absent.
    pub fn write_or_create<'s, T: Typed<'s>>(
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
                let entry = Entry::allocate(key, Value::Object(make().into_object()), None, clock);
                self.insert_new(hash, entry);
                entry
            }
        };
        if entry.value_type() != T::TYPE {
            return Err(WrongType);
        }
        // SAFETY: the shard is held exclusively; the result borrows the transaction, so it is the only reference.
        Ok(unsafe { entry.object_mut::<T>() })
    }

    /// The same entry with a lifetime of its own, so that the transaction can be changed while it is at hand.
    #[inline]
    fn unbound<'e>(&self, entry: Entry<'_>) -> Entry<'e> {
        // SAFETY: the entry is linked; callers use the result before they unlink and retire it.
        unsafe { Entry::from_address(entry.address()) }
    }

    /// The entry of a key under its exclusive lock, if not expired; an expired one is removed.
    #[inline]
    fn find_live(&mut self, hash: u64, key: &[u8]) -> Option<Entry<'a>> {
        let table = self.shard(hash, true).table(self.db);
        // SAFETY: the shard is held exclusively (asserted in debug builds).
        let entry = unsafe { table.find(hash, self.keyspace.shard_bits(), key) }?;
        if entry.is_expired(self.now) {
            self.remove_expired(hash, entry);
            return None;
        }
        Some(entry)
    }

    fn remove_expired(&mut self, hash: u64, entry: Entry<'a>) {
        self.context.counters.expired.add(1);
        self.before_change(entry);
        self.changed_hash(hash, entry.key());
        self.journal_loss(entry.key());
        if self.keyspace.wants(EXPIRED.class) {
            self.notify_loss(EXPIRED, entry);
        }
        self.unlink(hash, entry);
    }

    /// Tells that an entry is about to be lost, with its value if that is wanted and it is a string.
    #[cold]
    pub(crate) fn notify_loss(&self, event: Event, entry: Entry<'_>) {
        let mut scratch = [0; 20];
        let with_value = self.keyspace.settings.events_with_values.load(Relaxed) != 0;
        let value = as_string(entry).ok().filter(|_| with_value);
        let value = value.map(|value| value.bytes(&mut scratch));
        self.keyspace.tell_event(self.context.slot, self.db, event, entry.key(), value);
    }

    /// Every change of an entry comes through here while its old form is still in place. What wants to keep old forms (a
    /// snapshot in progress) hooks in here and nowhere else.
    #[inline]
    fn before_change(&self, entry: Entry<'_>) {
        debug_assert!(self.covers(self.keyspace.shard_of(self.keyspace.hash(entry.key())), true));
        if self.keyspace.snapshots.is_due(entry) {
            self.keyspace.snapshots.keep(self.keyspace, self.db, entry);
        }
    }

    /// Tells watchers that a key changed and what happened to it, and counts the change. Setting, deleting, renaming and expiring do
    /// this themselves; call it after changing a collection in place.
    #[inline]
    pub fn changed(&mut self, event: Event, key: &[u8]) {
        let hash = self.hash(key);
        self.changed_hash(hash, key);
        self.notify(event, key);
        self.context.counters.dirty.add(1);
    }

    /// Counts changes that watchers are not told of, as stock servers do not: of what belongs to a stream's consumer groups.
    pub fn count_changes(&mut self, changes: u64) {
        self.context.counters.dirty.add(changes);
    }

    /// As [`Txn::count_changes`] for one change of a key, where those who wait for the key have to look again.
    pub fn changed_for_waiters(&mut self, event: Event, key: &[u8]) {
        self.notify(event, key);
        let watchers = &self.shard(self.hash(key), true).watchers;
        // SAFETY: the shard is held exclusively.
        if !watchers.is_empty() && unsafe { watchers.waiters().contains(self.db, key) } {
            self.note_ready(self.db, key);
        }
        self.count_changes(1);
    }

    /// As [`Txn::changed`], after a change in place that counts as `changes`; with `empty` the collection has nothing left
    /// and its key goes.
    #[inline]
    pub fn settle(&mut self, event: Event, key: &[u8], changes: u64, empty: bool) {
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

    /// As [`Txn::settle`] for a collection of which `expired` members past their expiry were removed, too. Without a change
    /// of either kind nobody is told anything.
    #[inline]
    pub fn settle_expiring(
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
                self.notify(members_expired(kind), key);
            }
        }
        self.settle(event, key, changes, empty);
    }

    /// Notes when the members of the collection at a key begin to expire; call it after giving one an expiry, so that it
    /// is removed though nobody asks for it.
    pub fn note_member_expiry(&mut self, key: &[u8]) {
        let hash = self.hash(key);
        let Some(entry) = self.find_live(hash, key) else { return };
        self.note_members(hash, entry);
    }

    fn note_members(&self, hash: u64, entry: Entry<'_>) {
        if let ValueRef::Object(object) = entry.value()
            && let Some(at) = object.next_member_expiry()
        {
            // SAFETY: the shard is held exclusively.
            unsafe { self.shard(hash, true).table(self.db).note_members(hash, at) };
        }
    }

    /// Removes up to `most` members past their expiry from a collection of the held shard where some are due, and the key
    /// with the last of them. How many there were; nothing when no collection has any.
    pub(crate) fn expire_members(&mut self, shard: u32, most: usize) -> Option<usize> {
        let keyspace = self.keyspace;
        let table = keyspace.shard(shard).table(self.db);
        let rehash = |key: &[u8]| keyspace.hash(key);
        // SAFETY: the shard is held exclusively.
        let hash = unsafe { table.take_due_members(self.now) }?;
        // SAFETY: as above.
        let found: Option<Entry<'a>> = unsafe { table.find_hash(hash, keyspace.shard_bits(), rehash) };
        // A key that is past its own expiry goes as a whole, by the other way.
        let Some(entry) = found.filter(|entry| !entry.is_expired(self.now)) else { return Some(0) };
        let (gone, empty) = match entry.value_type() {
            // SAFETY: the shard is held exclusively, and no other reference to the collection exists.
            Type::Hash => self.expire_members_of(entry, unsafe { entry.object_mut::<Hash>() }, most),
            // SAFETY: as above.
            Type::Set => self.expire_members_of(entry, unsafe { entry.object_mut::<Set>() }, most),
            Type::SortedSet => {
                // SAFETY: as above.
                self.expire_members_of(entry, unsafe { entry.object_mut::<SortedSet>() }, most)
            }
            Type::String | Type::List | Type::Stream => Default::default(),
        };
        let removed = gone.len();
        if removed > 0 {
            self.context.counters.expired_members.add(removed as u64);
            self.changed_hash(hash, entry.key());
            self.journal_members_loss(entry.value_type(), entry.key(), &gone);
            self.notify(members_expired(entry.value_type()), entry.key());
        }
        if empty {
            self.notify(DEL, entry.key());
            self.unlink(hash, entry);
        } else {
            self.note_members(hash, entry);
        }
        Some(removed)
    }

    fn expire_members_of<'c>(
        &self,
        entry: Entry<'a>,
        collection: &mut impl Expiring<'c>,
        most: usize,
    ) -> (ExpiredMembers, bool) {
        if collection.next_expiry().is_none_or(|at| at >= self.now) {
            return Default::default();
        }
        self.before_change(entry);
        let gone = collection.remove_expired(self.now, most);
        (gone, collection.is_empty())
    }

    #[inline]
    fn changed_hash(&self, hash: u64, key: &[u8]) {
        let shard = self.shard(hash, true);
        if !shard.watchers.is_empty() {
            self.tell(shard, key);
        }
    }

    /// Tells those who take an interest in a key that it changed.
    #[cold]
    fn tell(&self, shard: &Shard, key: &[u8]) {
        // SAFETY: the shard is held exclusively.
        let awaited = unsafe {
            shard.watchers.touch(self.db, key);
            shard.watchers.waiters().contains(self.db, key)
        };
        if awaited {
            self.note_ready(self.db, key);
        }
        if let Some(readers) = shard.watchers.take_readers(key) {
            self.context.invalidated.borrow_mut().push((key.into(), readers));
            self.context.follow_up.set(true);
        }
        if self.keyspace.settings.broadcasts.load(Relaxed) != 0 {
            self.context.broadcast.borrow_mut().push(key.into());
            self.context.follow_up.set(true);
        }
    }

    /// Notes that a client has read a key of the lock set: it is to be told when the key changes. Returns whether the key, and
    /// whether the note, is new.
    pub fn track(&self, key: &[u8], client: u64) -> (bool, bool) {
        self.shard(self.hash(key), false).watchers.track(key, client)
    }

    fn note_ready(&self, db: u32, key: &[u8]) {
        let mut ready = self.context.ready.borrow_mut();
        // A command that changes a key many times does so in a row, mostly; to look at a key twice does no harm.
        if ready.last().is_none_or(|(last_db, last)| *last_db != db || **last != *key) {
            ready.push((db, key.into()));
        }
        self.context.follow_up.set(true);
    }

    fn insert_new(&mut self, hash: u64, entry: Entry<'_>) {
        let keyspace = self.keyspace;
        let shard = self.shard(hash, true);
        shard.note_use(self.db);
        keyspace.snapshots.stamp(entry);
        let table = shard.table(self.db);
        let rehash = |key: &[u8]| keyspace.hash(key);
        // SAFETY: the shard is held exclusively, and the entry is new.
        unsafe { table.insert(hash, keyspace.shard_bits(), entry, &mut self.context.limbo, &rehash) };
        if keyspace.wants(NEW.class) && !self.silent {
            self.notify(NEW, entry.key());
        }
    }

    fn unlink(&mut self, hash: u64, entry: Entry<'a>) {
        let table = self.shard(hash, true).table(self.db);
        // SAFETY: the shard is held exclusively; the entry is linked, and retired once.
        unsafe {
            table.forget_members(hash);
            table.remove(hash, self.keyspace.shard_bits(), entry, &mut self.context.limbo);
            self.context.limbo.retire_entry(entry);
        }
    }

    /// Sets a key to a value, whatever it held before.
    #[inline]
    pub fn set(&mut self, key: &[u8], value: Value<'_>, expiry: Expiry) {
        let hash = self.hash(key);
        let old = self.find_live(hash, key);
        self.store(hash, old, key, value, expiry);
        self.changed_hash(hash, key);
        self.context.counters.dirty.add(1);
    }

    /// As [`Txn::set`], telling what has happened: `event`, and whether the key has an expiry now.
    #[inline]
    pub fn set_as(&mut self, event: Event, key: &[u8], value: Value<'_>, expiry: Expiry) {
        if self.keyspace.wants(u32::MAX) {
            return self.set_telling(event, key, value, expiry);
        }
        self.set(key, value, expiry);
    }

    #[cold]
    fn set_telling(&mut self, event: Event, key: &[u8], value: Value<'_>, expiry: Expiry) {
        let before = self.peek(key).map(|entry| entry.value_type());
        self.set(key, value, expiry);
        let now = self.peek(key).map(|entry| entry.value_type());
        if before.is_some() {
            self.notify(OVERWRITTEN, key);
        }
        if before.is_some() && before != now {
            self.notify(TYPE_CHANGED, key);
        }
        self.notify(event, key);
        if matches!(expiry, Expiry::At(_)) {
            self.notify(EXPIRE, key);
        }
    }

    /// Adds a key that must not be there (loading), with the access clock of a new key unless one is given. False, and nothing is changed,
    /// when it is there. Tells nobody.
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

    /// Puts a value at a key whose living entry, if it has one, is `old`. Tells nobody.
    #[inline]
    fn store(&mut self, hash: u64, old: Option<Entry<'a>>, key: &[u8], value: Value<'_>, expiry: Expiry) {
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
            let new = Entry::allocate(key, value, at, old.clock());
            self.keyspace.snapshots.stamp(new);
            let table = self.shard(hash, true).table(self.db);
            // SAFETY: the shard is held exclusively; `old` is linked, replaced and retired once.
            unsafe {
                table.forget_members(hash);
                table.replace(hash, self.keyspace.shard_bits(), old, new);
                self.context.limbo.retire_entry(old);
            }
            if is_object {
                self.note_members(hash, new);
            }
        }
    }

    /// Adds to the integer at a key (a missing key counts as 0) and returns the sum. An integer-encoded one changes in place;
    /// keeps the expiry.
    #[inline]
    pub fn increment(&mut self, key: &[u8], by: i64) -> Result<i64, IncrementError> {
        let hash = self.hash(key);
        let old = self.find_live(hash, key);
        let number = match old {
            None => 0,
            Some(entry) => match entry.integer() {
                Some(number) => number,
                // Text that was edited in place may still be a number.
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

    fn change_expiry_in_place(&self, hash: u64, entry: Entry<'_>, at: i64) {
        entry.set_expiry(at);
        let table = self.shard(hash, true).table(self.db);
        // SAFETY: the shard is held exclusively; the entry is linked.
        unsafe { table.expiry_changed(hash, self.keyspace.shard_bits(), entry) };
    }

    /// Puts a collection at a key, whatever it held before.
    pub fn set_object(&mut self, event: Event, key: &[u8], object: Object, expiry: Expiry) {
        self.set_as(event, key, Value::Object(object), expiry);
    }

    /// Deletes a key, and tells that. False if it was not there (or expired).
    pub fn delete(&mut self, key: &[u8]) -> bool {
        let removed = self.remove(key);
        if removed {
            self.notify(DEL, key);
        }
        removed
    }

    /// As [`Txn::delete`], without telling of it as an event.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let hash = self.hash(key);
        let removed = self.discard(hash, key);
        self.context.counters.dirty.add(u64::from(removed));
        removed
    }

    /// Removes a key without counting a change to the dataset (it is part of another).
    fn discard(&mut self, hash: u64, key: &[u8]) -> bool {
        let Some(entry) = self.find_live(hash, key) else { return false };
        self.before_change(entry);
        self.unlink(hash, entry);
        self.changed_hash(hash, key);
        true
    }

    /// Sets or clears a key's expiry. False if the key is not there. Clearing what is not set changes nothing.
    pub fn set_expiry(&mut self, key: &[u8], at: Option<i64>) -> bool {
        let hash = self.hash(key);
        let Some(entry) = self.find_live(hash, key) else { return false };
        self.before_change(entry);
        match (at, entry.has_expiry()) {
            (Some(at), true) => self.change_expiry_in_place(hash, entry, at),
            (None, false) => return true,
            _ => {
                // SAFETY: exclusive; the old entry becomes a shell here and is retired as one.
                unsafe {
                    let new = entry.move_to(entry.key(), at);
                    self.keyspace.snapshots.stamp(new);
                    let table = self.shard(hash, true).table(self.db);
                    table.replace(hash, self.keyspace.shard_bits(), entry, new);
                    self.context.limbo.retire_shell(entry);
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

    /// Moves the value (with its expiry) from a key of this database to a key of database `to_db`, where it replaces what was there.
    /// The source must exist.
    pub fn rename(&mut self, from: &[u8], to_db: u32, to: &[u8]) -> bool {
        let (from_db, from_hash) = (self.db, self.hash(from));
        let Some(entry) = self.find_live(from_hash, from) else { return false };
        if from_db == to_db && from == to {
            // The same key: removing what the target held would remove the source.
            return true;
        }
        self.before_change(entry);
        self.db = to_db;
        let to_hash = self.hash(to);
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
        self.notify_in(to_db, to_event, to);
        self.context.counters.dirty.add(1);
        true
    }

    /// Copies the value (with its expiry) to a key of database `to_db`, where it replaces what was there.
    pub fn copy(&mut self, from: &[u8], to_db: u32, to: &[u8]) -> bool {
        let Some(entry) = self.read(from) else { return false };
        if self.db == to_db && from == to {
            return true;
        }
        let entry: Entry<'_> = self.unbound(entry);
        let expiry = entry.expiry().map_or(Expiry::Clear, Expiry::At);
        let value = match entry.value() {
            ValueRef::Bytes(bytes) => Value::Bytes { bytes, raw: entry.is_raw() },
            ValueRef::Integer(number) => Value::Integer(number),
            ValueRef::Blob(blob) => Value::Blob(blob.clone()),
            ValueRef::Object(object) => Value::Object(object.duplicate()),
        };
        let from_db = std::mem::replace(&mut self.db, to_db);
        // What is replaced is deleted first, as far as events tell.
        let replaces = self.keyspace.wants(NEW.class) && self.peek(to).is_some();
        self.set(to, value, expiry);
        if replaces {
            self.notify(NEW, to);
        }
        self.notify(COPY_TO, to);
        self.db = from_db;
        true
    }

    /// Edits a string in place: grows it with zero bytes to at least `len` (a missing key counts as empty), passes all of it
    /// and its length before to `edit`, and stores it as `raw`. `edit` returns, beside its result, how many changes it made;
    /// with 0 nobody is told of a change. Keeps the expiry.
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
                // A new string is as large as it is; one that grows is likely to grow again.
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

    /// Exchanges two databases, the world being stopped.
    ///
    /// A watched key that is past its expiry is removed first: brought in, it is as good as absent, and its removal later on must not
    /// count as a change of what was absent before. (To those who watched it while it lived its expiry is a change.)
    pub fn swap_databases(&mut self, one: u32, other: u32) {
        let keyspace = self.keyspace;
        let db = self.db;
        for shard in keyspace.shards().iter().filter(|shard| !shard.watchers.is_empty()) {
            debug_assert!(matches!(self.held, Held::World(_)), "everything changes at once");
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
        if let Held::World(world) = &self.held {
            keyspace.swap_tables(world, one, other);
            self.databases_changed(|db| db == one || db == other);
        }
    }

    /// Watches a key for the client that owns `flag`. A key that is past its expiry is removed first: its removal later on
    /// must not count as a change.
    pub fn watch(&mut self, key: &[u8], flag: &Arc<AtomicBool>) {
        let hash = self.hash(key);
        self.find_live(hash, key);
        let shard = self.shard(hash, true);
        // SAFETY: the shard is held exclusively.
        unsafe { shard.watchers.add(self.db, key, flag) };
    }

    /// Stops watching a key.
    pub fn unwatch(&mut self, key: &[u8], flag: &Arc<AtomicBool>) {
        let hash = self.hash(key);
        // SAFETY: the shard is held exclusively.
        unsafe { self.shard(hash, true).watchers.remove(self.db, key, flag) };
    }

    /// True if a key lies in the lock set, for writing.
    pub fn holds(&self, key: &[u8]) -> bool {
        self.covers(self.keyspace.shard_of(self.hash(key)), true)
    }

    /// Puts a waiter into the queues of all its keys.
    pub fn wait(&mut self, waiter: &Arc<Waiter>) {
        for key in &waiter.keys {
            // SAFETY: the shard is held exclusively (asserted in debug builds).
            unsafe { self.shard(self.keyspace.hash(key), true).watchers.add_waiter(key, waiter) };
        }
    }

    /// Takes a waiter out of the queues of those of its keys that lie in the lock set. True if these are all.
    pub fn stop_waiting(&mut self, waiter: &Waiter) -> bool {
        let mut complete = true;
        for key in &waiter.keys {
            let shard = self.keyspace.shard_of(self.keyspace.hash(key));
            if self.covers(shard, true) {
                // SAFETY: the shard is held exclusively.
                unsafe { self.keyspace.shard(shard).watchers.remove_waiter(key, waiter) };
            } else {
                complete = false;
            }
        }
        complete
    }

    /// The first client that still waits for a key of the current database behind ticket `behind` (0: the first of all).
    pub fn next_waiter(&self, key: &[u8], behind: u64) -> Option<Arc<Waiter>> {
        let shard = self.shard(self.hash(key), true);
        if shard.watchers.is_empty() {
            return None;
        }
        // SAFETY: the shard is held exclusively.
        unsafe { shard.watchers.waiters().next(self.db, key, behind) }
    }

    /// True if somebody waits for a key who wants to know that it is gone.
    pub fn loss_is_heeded(&self, key: &[u8]) -> bool {
        // SAFETY: the shard is held exclusively.
        unsafe { self.shard(self.hash(key), true).watchers.waiters().heeds_loss(self.db, key) }
    }

    /// Has those looked at who wait for keys of some databases, after all keys of these changed at once. The world must be stopped.
    pub fn databases_changed(&mut self, changed: impl Fn(u32) -> bool) {
        debug_assert!(matches!(self.held, Held::World(_)));
        for shard in self.keyspace.shards().iter().filter(|shard| !shard.watchers.is_empty()) {
            // SAFETY: the world is stopped.
            unsafe {
                shard.watchers.waiters().for_each_key(|db, key| {
                    if changed(db) {
                        self.note_ready(db, key);
                    }
                });
            }
        }
    }

    /// Calls `visit` with every entry of the current database that is not expired, shard by shard. All shards must be held.
    pub fn for_each(&self, mut visit: impl FnMut(Entry<'_>)) {
        debug_assert!(matches!(self.held, Held::AllShared | Held::World(_)));
        for shard in self.keyspace.shards() {
            // SAFETY: all shards are held.
            unsafe {
                shard.table(self.db).for_each(|entry| {
                    if !entry.is_expired(self.now) {
                        visit(entry);
                    }
                });
            }
        }
    }

    /// Fetches what look-ups of these keys need into the cache, all at once.
    pub fn prefetch(keyspace: &Keyspace, db: u32, keys: &[KeyRef<'_>]) {
        for key in keys {
            keyspace.prefetch_bucket(db, key.hash);
        }
        for key in keys {
            keyspace.prefetch_entry(db, key.hash);
        }
    }
}

impl Drop for Txn<'_> {
    #[inline]
    fn drop(&mut self) {
        let journals = !self.context.journal.unit.is_empty();
        if journals {
            self.journal_now();
        }
        match &self.held {
            Held::One(shard, write) => unlock_shard(self.keyspace, *shard, *write),
            Held::Many(shards) => {
                for &(shard, write) in shards {
                    unlock_shard(self.keyspace, shard, write);
                }
            }
            Held::AllShared => {
                for shard in 0..self.keyspace.shard_count() as u32 {
                    unlock_shard(self.keyspace, shard, false);
                }
            }
            Held::Nothing | Held::World(_) => {}
        }
        if journals {
            self.keyspace.journal.wake();
        }
    }
}

#[inline]
fn lock_shard(keyspace: &Keyspace, context: &Context, shard: u32, write: bool) {
    if cfg!(feature = "no-locks") {
        return;
    }
    let lock = &keyspace.shard(shard).lock;
    let waited = if write { lock.lock_exclusive() } else { lock.lock_shared() };
    if waited {
        context.counters.contended.add(1);
    }
}

#[inline]
fn unlock_shard(keyspace: &Keyspace, shard: u32, write: bool) {
    if cfg!(feature = "no-locks") {
        return;
    }
    let lock = &keyspace.shard(shard).lock;
    if write { lock.unlock_exclusive() } else { lock.unlock_shared() }
}

fn lock_set<'a>(keyspace: &Keyspace, keys: &[KeyRef<'_>]) -> Held<'a> {
    let mut shards: SmallVec<[(u32, bool); 8]> =
        keys.iter().map(|key| (keyspace.shard_of(key.hash), key.write)).collect();
    shards.sort_unstable();
    // Of several keys in one shard, the exclusive one sorts last and decides.
    let mut kept: usize = 0;
    for at in 0..shards.len() {
        if at + 1 < shards.len() && shards[at + 1].0 == shards[at].0 {
            continue;
        }
        shards[kept] = shards[at];
        kept += 1;
    }
    shards.truncate(kept);
    Held::Many(shards)
}

fn as_string(entry: Entry<'_>) -> Result<StringRef<'_>, WrongType> {
    match entry.value() {
        ValueRef::Bytes(bytes) => Ok(StringRef::Bytes(bytes)),
        ValueRef::Integer(number) => Ok(StringRef::Integer(number)),
        ValueRef::Blob(blob) => Ok(StringRef::Blob(blob)),
        ValueRef::Object(_) => Err(WrongType),
    }
}

/// Room for a string that was grown to `len` bytes: as much again, but at most 1 MiB more, so that repeated appends stay cheap.
fn grown_capacity(len: usize) -> usize {
    len.saturating_add(len.min(1 << 20))
}

/// Grows a blob to `len` bytes of content, if it is shorter.
fn grow_blob(blob: &mut Blob, len: usize) {
    if len > blob.len() {
        if len > blob.capacity() {
            blob.reserve_exact(grown_capacity(len) - blob.len());
        }
        blob.resize_zeroed(len);
    }
}

impl Keyspace {
    /// Reads a short string without taking any lock. `reserve` is asked for room of the string's length at most once; its content only
    /// counts when the outcome is [`Optimistic::Copied`].
    #[inline]
    pub fn read_optimistic<'r>(
        &self,
        context: &Context,
        db: u32,
        now: i64,
        key: &KeyRef<'_>,
        reserve: impl FnOnce(usize) -> &'r mut [u8],
    ) -> Optimistic {
        let shard = self.shard(self.shard_of(key.hash));
        let Some(version) = shard.lock.begin() else { return Optimistic::Failed };
        // SAFETY: executing threads are inside the gate, so what is found is not freed; the version is checked below.
        let found = unsafe { shard.table(db).find(key.hash, self.shard_bits(), key.key) };
        let outcome = match found {
            None => Optimistic::Missing,
            // The reader under the lock has it removed.
            Some(entry) if entry.is_expired(now) => return Optimistic::Failed,
            Some(entry) => {
                let outcome = if let Some(len) = entry.embedded_len() {
                    entry.copy_embedded_racy(reserve(len));
                    Optimistic::Copied
                } else if let Some(number) = entry.integer() {
                    Optimistic::Integer(number)
                } else {
                    return Optimistic::Failed;
                };
                if shard.lock.unchanged(version) {
                    eviction::mark_used(self, entry);
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

impl Type {
    /// The type of a key's value, if the key is there.
    pub fn of(txn: &Txn<'_>, key: &[u8]) -> Option<Type> {
        txn.peek(key).map(Entry::value_type)
    }
}

/// Raised when a watched key changed.
pub fn new_watch_flag() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(false))
}

/// True once a watched key changed.
pub fn is_raised(flag: &AtomicBool) -> bool {
    flag.load(Relaxed)
}
