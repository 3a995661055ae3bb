// SPDX-License-Identifier: BSD-3-Clause
//! A transaction: the locks of the shards of a command's keys, and the only way to reach those
//! keys.
//!
//! HOT PATH: no allocation beyond the entry's own for up to 8 shards, no logging, no system call.
//!
//! The dispatcher makes a transaction before a body runs and drops it afterwards; no other code
//! takes shard locks for commands. Locks are taken in ascending shard order, exclusively if the
//! command may write any key of the shard. A key outside the lock set is a bug in a command's key
//! specification: debug builds assert it.
//!
//! This file has the locks and the look-up of hashes; operations on keys are in `read.rs`,
//! `set.rs` (strings), `keys.rs` (any type), `change.rs` (the common part of all changes),
//! `watching.rs`, and `../journal.rs`.
//!
//! Every change goes through [`Txn::before_change`], where the entry's old form is still in place,
//! and [`Txn::changed`], which informs watchers: the hooks for snapshots and the journal.

use std::cell::Cell;

use braid_base::build::are_locks_off;
use braid_base::gate::World;
use smallvec::SmallVec;

use crate::context::Context;
use crate::events::Event;
use crate::keyspace::{Keyspace, Shard};

mod change;
mod keys;
mod read;
mod set;
mod watching;

pub use read::{Optimistic, State, StringRef};
pub use set::IncrementError;
pub use watching::{is_raised, new_watch_flag};

const EXPIRE: Event = Event::generic("expire");
const PERSIST: Event = Event::generic("persist");

/// A key named by a command, with its hash; part of the lock set.
#[derive(Clone, Copy)]
pub struct KeyRef<'a> {
    pub key: &'a [u8],
    pub hash: u64,
    /// True if the command may change the key.
    pub write: bool,
}

/// The key's expiry after its value is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expiry {
    /// Unchanged.
    Keep,
    /// None.
    Clear,
    /// At this time, ms since the Unix epoch.
    At(i64),
}

/// A time before all expiries: at this time no key has expired. An append-only file is replayed at
/// this time, since keys that were alive when a command ran must be alive again.
pub const NOTHING_EXPIRED: i64 = 0;

pub use braid_base::WrongType;

pub(crate) enum HeldLocks<'a> {
    Nothing,
    One(u32, bool),
    Many(SmallVec<[(u32, bool); 8]>),
    AllShared,
    World(World<'a>),
}

/// Locks held for a command, a queued transaction, or the whole world.
pub struct Txn<'a> {
    pub(crate) keyspace: &'a Keyspace,
    /// The executing thread's context.
    pub context: &'a mut Context,
    keys: &'a [KeyRef<'a>],
    pub(crate) held: HeldLocks<'a>,
    hint: Cell<usize>,
    db: u32,
    now_ms: i64,
    /// False for clients whose reads do not mark keys as used (CLIENT NO-TOUCH).
    touches: bool,
    /// True while [`Txn::add`] adds a key: it causes no event.
    silent: bool,
}

impl<'a> Txn<'a> {
    /// Locks all shards that hold `keys`.
    #[inline]
    pub fn lock(
        keyspace: &'a Keyspace,
        context: &'a mut Context,
        db: u32,
        now_ms: i64,
        keys: &'a [KeyRef<'a>],
    ) -> Self {
        let held = match keys {
            [] => HeldLocks::Nothing,
            [only] => HeldLocks::One(keyspace.shard_of(only.hash), only.write),
            several => lock_set(keyspace, several),
        };
        match &held {
            HeldLocks::One(shard, write) => lock_shard(keyspace, context, *shard, *write),
            HeldLocks::Many(shards) => {
                for &(shard, write) in shards {
                    lock_shard(keyspace, context, shard, write);
                }
            }
            _ => {}
        }
        let txn = Txn {
            keyspace,
            context,
            keys,
            held,
            hint: Cell::new(0),
            db,
            now_ms,
            touches: true,
            silent: false,
        };
        if keyspace.has_links() { txn.with_linked_keys() } else { txn }
    }

    /// Takes the locks of these shards in place of none. Of several entries for a shard, one that
    /// is exclusive counts.
    pub(crate) fn lock_instead(&mut self, shards: SmallVec<[(u32, bool); 8]>) {
        debug_assert!(matches!(self.held, HeldLocks::Nothing));
        let shards = in_order(shards);
        for &(shard, write) in &shards {
            lock_shard(self.keyspace, self.context, shard, write);
        }
        self.held = HeldLocks::Many(shards);
    }

    /// Unlocks the shards of single keys.
    pub(crate) fn give_back(&self) {
        match &self.held {
            HeldLocks::One(shard, write) => unlock_shard(self.keyspace, *shard, *write),
            HeldLocks::Many(shards) => {
                for &(shard, write) in shards {
                    unlock_shard(self.keyspace, shard, write);
                }
            }
            _ => {}
        }
    }

    /// Locks one shard exclusively, whatever its keys (active expiry).
    pub(crate) fn lock_shard_exclusive(
        keyspace: &'a Keyspace,
        context: &'a mut Context,
        shard: u32,
        db: u32,
        now_ms: i64,
    ) -> Self {
        lock_shard(keyspace, context, shard, true);
        Txn {
            keyspace,
            context,
            keys: &[],
            held: HeldLocks::One(shard, true),
            hint: Cell::new(0),
            db,
            now_ms,
            touches: true,
            silent: false,
        }
    }

    /// Locks all shards for reading.
    pub fn lock_all_shared(keyspace: &'a Keyspace, context: &'a mut Context, db: u32, now_ms: i64) -> Self {
        for shard in 0..keyspace.shard_count() as u32 {
            lock_shard(keyspace, context, shard, false);
        }
        Txn {
            keyspace,
            context,
            keys: &[],
            held: HeldLocks::AllShared,
            hint: Cell::new(0),
            db,
            now_ms,
            touches: true,
            silent: false,
        }
    }

    /// A transaction over all keys, with the world stopped.
    pub fn world(
        keyspace: &'a Keyspace,
        context: &'a mut Context,
        world: World<'a>,
        db: u32,
        now_ms: i64,
    ) -> Self {
        Txn {
            keyspace,
            context,
            keys: &[],
            held: HeldLocks::World(world),
            hint: Cell::new(0),
            db,
            now_ms,
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
            HeldLocks::World(world) => Some(world),
            _ => None,
        }
    }

    /// True if a walk that locks one shard after another itself (`scan.rs`) is possible: either
    /// this transaction holds no shard, or the world is stopped and no thread holds any. Under
    /// other locks a walk could deadlock with its own thread or violate the lock order.
    pub fn may_walk(&self) -> bool {
        matches!(self.held, HeldLocks::Nothing | HeldLocks::World(_))
    }

    /// Resumes the world for a moment, between two pieces of work that need it stopped. Only for a
    /// transaction made by [`Txn::world`] on a thread that executes no other commands.
    pub fn resume_world_for(&mut self, pause: std::time::Duration) {
        self.resume_world_during(|| std::thread::sleep(pause));
    }

    /// Like [`Txn::resume_world_for`], for the duration of `work`, which must not need the
    /// keyspace.
    pub fn resume_world_during(&mut self, work: impl FnOnce()) {
        if let HeldLocks::World(world) = std::mem::replace(&mut self.held, HeldLocks::Nothing) {
            drop(world);
            work();
            self.held = HeldLocks::World(self.keyspace.gate.stop_world(None));
        }
    }

    /// The current database.
    #[inline]
    pub fn db(&self) -> u32 {
        self.db
    }

    /// Changes the database (SELECT inside a transaction; MOVE and COPY).
    pub fn set_db(&mut self, db: u32) {
        debug_assert!(db < 2 * self.keyspace.databases(), "neither a database nor a staged one");
        self.db = db;
    }

    /// Changes the transaction's time; returns the previous one. For loading a dataset within a
    /// transaction with the world stopped.
    pub fn set_now(&mut self, now_ms: i64) -> i64 {
        debug_assert!(matches!(self.held, HeldLocks::World(_)));
        std::mem::replace(&mut self.now_ms, now_ms)
    }

    /// Advances the time to `now_ms` between two commands, unless it is [`NOTHING_EXPIRED`].
    pub fn catch_up(&mut self, now_ms: i64) {
        if self.now_ms != NOTHING_EXPIRED {
            self.now_ms = self.now_ms.max(now_ms);
        }
    }

    /// Sets the keys of the next command of a transaction; they must be within the lock set.
    pub fn set_keys(&mut self, keys: &'a [KeyRef<'a>]) {
        self.keys = keys;
        self.hint.set(0);
    }

    /// The keys of the current command.
    pub(crate) fn keys(&self) -> &'a [KeyRef<'a>] {
        self.keys
    }

    /// Runs `work`, a command of a script, with these keys in place of the transaction's.
    #[inline]
    pub fn with_keys<R>(&mut self, keys: &[KeyRef<'_>], work: impl FnOnce(&mut Self) -> R) -> R {
        /// Restores the previous keys, even if `work` panics.
        struct Restore<'t, 'a>(&'t mut Txn<'a>, &'a [KeyRef<'a>]);
        impl Drop for Restore<'_, '_> {
            fn drop(&mut self) {
                self.0.keys = self.1;
                self.0.hint.set(0);
            }
        }
        // SAFETY: only the lifetime is too long, and the keys are replaced before this function
        // returns: `keys` is private, and no function hands out references to it.
        let extended = unsafe { std::mem::transmute::<&[KeyRef<'_>], &'a [KeyRef<'a>]>(keys) };
        let before = self.keys;
        let restore = Restore(self, before);
        restore.0.keys = extended;
        restore.0.hint.set(0);
        work(restore.0)
    }

    /// True if the lock set covers keys with this hash.
    pub fn covers_hash(&self, hash: u64, write: bool) -> bool {
        self.covers(self.keyspace.shard_of(hash), write)
    }

    /// Sets whether look-ups mark keys as used.
    pub fn set_touches(&mut self, touches: bool) {
        self.touches = touches;
    }

    /// The command's time, ms since the Unix epoch, against which the expiry of keys and members
    /// is checked. It is constant while the command runs.
    #[inline]
    pub fn now(&self) -> i64 {
        self.now_ms
    }

    /// The hash of a key: taken from the lock set if the slice is one of the set's, otherwise
    /// computed.
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
            HeldLocks::Nothing => false,
            HeldLocks::One(shard, exclusive) => *shard == index && (*exclusive || !write),
            HeldLocks::Many(shards) => {
                shards.iter().any(|&(shard, exclusive)| shard == index && (exclusive || !write))
            }
            HeldLocks::AllShared => !write,
            HeldLocks::World(_) => true,
        }
    }
}

impl Drop for Txn<'_> {
    #[inline]
    fn drop(&mut self) {
        self.index_now();
        self.journal_now();
        let has_appended = std::mem::take(&mut self.context.journal.has_appended);
        match &self.held {
            HeldLocks::One(..) | HeldLocks::Many(_) => self.give_back(),
            HeldLocks::AllShared => {
                for shard in 0..self.keyspace.shard_count() as u32 {
                    unlock_shard(self.keyspace, shard, false);
                }
            }
            HeldLocks::Nothing | HeldLocks::World(_) => {}
        }
        if has_appended {
            self.keyspace.journal.wake_after(&mut self.context.journal);
        }
    }
}

#[inline]
fn lock_shard(keyspace: &Keyspace, context: &Context, shard: u32, write: bool) {
    if are_locks_off() {
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
    if are_locks_off() {
        return;
    }
    let lock = &keyspace.shard(shard).lock;
    if write { lock.unlock_exclusive() } else { lock.unlock_shared() }
}

fn lock_set<'a>(keyspace: &Keyspace, keys: &[KeyRef<'_>]) -> HeldLocks<'a> {
    HeldLocks::Many(in_order(keys.iter().map(|key| (keyspace.shard_of(key.hash), key.write)).collect()))
}

/// Shards in ascending order, each once.
fn in_order(mut shards: SmallVec<[(u32, bool); 8]>) -> SmallVec<[(u32, bool); 8]> {
    shards.sort_unstable();
    // Of several keys in one shard, the exclusive one sorts last and is kept.
    let mut kept: usize = 0;
    for at in 0..shards.len() {
        if at + 1 < shards.len() && shards[at + 1].0 == shards[at].0 {
            continue;
        }
        shards[kept] = shards[at];
        kept += 1;
    }
    shards.truncate(kept);
    shards
}
