// SPDX-License-Identifier: BSD-3-Clause
//! A snapshot in progress: the state of the keyspace at one moment, the cut, written out while it is changed.
//!
//! Every entry carries a mark of one bit. Outside of snapshots all entries have the same one. The
//! cut, made with the world stopped, gives the keyspace the other mark: from now on entries with
//! the old one belong to the snapshot and have not been written yet, new entries get the new one. A
//! walker goes through all tables, shows whoever writes the snapshot the entries with the old mark,
//! and marks them. A writer that comes first ([`Txn`](crate::Txn)'s one function for changes) has
//! the entry's old form kept by the [`Keeper`] and marks it. When the walker is through, all
//! entries have the same mark again.
//!
//! A large collection is shared with the keeper (`braid_containers::cow`), by whoever comes first,
//! walker or writer: so nobody waits until all of it has been encoded, and who changes it meanwhile
//! copies the few blocks of memory that it changes. So is a long string to whoever is about to
//! change it.
//!
//! Tables that are emptied at once are handed to the keeper as they are; databases that are
//! exchanged are told from each other by their number at the cut, the *origin*.
//!
//! Without a snapshot all this costs a comparison per change.

use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::gate::World;
use parking_lot::RwLock;

use crate::cow_entry::{CowEntry, is_large, is_large_collection};
use crate::entry::{Entry, MARK};
use crate::keyspace::{Keyspace, Shard};
use crate::table::{Table, TableCursor};

/// Whoever writes a snapshot: gets what changes before the walker has been there.
pub trait Keeper: Send + Sync {
    /// Keeps the form that an entry of database `origin` has now. Called with its shard held, once per entry.
    fn keep(&self, keyspace: &Keyspace, origin: u32, entry: Entry<'_>);

    /// Keeps an entry of database `origin` with a large collection or string. Called with its shard
    /// held, once per entry.
    fn keep_shared(&self, origin: u32, entry: CowEntry);

    /// Takes tables of database `origin` that nobody else can reach any more. What carries
    /// [`Walk::is_due`] in them belongs to the snapshot.
    fn take(&self, origin: u32, tables: Vec<Table>);
}

struct Current {
    keeper: Arc<dyn Keeper>,
    /// For each database the origin of what is in it now.
    origins: Vec<u32>,
}

/// The keyspace's part in snapshots.
#[derive(Default)]
pub struct Snapshots {
    mark: AtomicU8,
    current: RwLock<Option<Current>>,
}

impl Snapshots {
    /// True if an entry that is about to change belongs to a snapshot and has not been written.
    #[inline]
    pub(crate) fn is_due(&self, entry: Entry<'_>) -> bool {
        entry.mark() != self.mark.load(Relaxed)
    }

    /// Gives a new entry the mark of what belongs to no snapshot.
    #[inline]
    pub(crate) fn stamp(&self, entry: Entry<'_>) {
        let mark = self.mark.load(Relaxed);
        if mark != 0 {
            entry.set_mark(mark);
        }
    }

    /// Has the form of an entry kept that is about to change. Its shard must be held exclusively.
    #[cold]
    pub(crate) fn keep(&self, keyspace: &Keyspace, db: u32, entry: Entry<'_>) {
        if let Some(current) = &*self.current.read() {
            let origin = current.origins[db as usize];
            // SAFETY: the shard is held exclusively, and whoever changes the entry makes a
            // reference to its collection later.
            let shared = if is_large(entry) { unsafe { CowEntry::of(entry) } } else { None };
            match shared {
                Some(shared) => current.keeper.keep_shared(origin, shared),
                None => current.keeper.keep(keyspace, origin, entry),
            }
        }
        entry.set_mark(self.mark.load(Relaxed));
    }

    /// Hands over tables of a database that have been emptied at once; nothing comes back if the
    /// keeper has them.
    pub(crate) fn hand_over(&self, _world: &World<'_>, db: u32, tables: Vec<Table>) -> Vec<Table> {
        match &*self.current.read() {
            Some(current) => {
                current.keeper.take(current.origins[db as usize], tables);
                Vec::new()
            }
            None => tables,
        }
    }

    /// Notes that two databases are exchanged.
    pub(crate) fn exchange(&self, _world: &World<'_>, one: u32, other: u32) {
        if let Some(current) = &mut *self.current.write() {
            current.origins.swap(one as usize, other as usize);
        }
    }
}

/// A walk through a snapshot. The snapshot ends with it, and must have been walked to its end.
pub struct Walk<'k> {
    keyspace: &'k Keyspace,
}

impl Keyspace {
    /// Makes the cut of a snapshot. Nothing if there is one in progress.
    pub fn begin_snapshot(&self, _world: &World<'_>, keeper: Arc<dyn Keeper>) -> bool {
        let mut current = self.snapshots.current.write();
        if current.is_some() {
            return false;
        }
        *current = Some(Current { keeper, origins: (0..self.databases()).collect() });
        self.snapshots.mark.fetch_xor(MARK, Relaxed);
        true
    }

    /// The walk through the snapshot whose cut has been made; one at a time.
    pub fn walk_snapshot(&self) -> Walk<'_> {
        Walk { keyspace: self }
    }
}

impl Keyspace {
    /// Has a large collection kept, if nobody has had that done meanwhile.
    fn keep_cow(&self, shard: &Shard, db: u32, key: &[u8]) {
        shard.lock.lock_exclusive();
        // SAFETY: the shard is held.
        let entry = unsafe { shard.table(db).find(self.hash(key), self.shard_bits(), key) };
        if let Some(entry) = entry.filter(|entry| self.snapshots.is_due(*entry)) {
            self.snapshots.keep(self, db, entry);
        }
        shard.lock.unlock_exclusive();
    }
}

impl Walk<'_> {
    /// Ends the snapshot: the keeper gets nothing any more.
    pub fn end(&mut self) {
        // It is let go of outside of the lock.
        let current = self.keyspace.snapshots.current.write().take();
        drop(current);
    }

    /// True for an entry that belongs to the snapshot and has not been written.
    pub fn is_due(&self, entry: Entry<'_>) -> bool {
        self.keyspace.snapshots.is_due(entry)
    }

    /// Shows `visit` what is left to be written from `cursor` on, in a shard's table of database
    /// `origin`, until what it answers adds up to `most`; an entry that has been written counts as
    /// one. Large collections are not shown, but shared with the keeper. Where to go on; nothing at
    /// the table's end. `lines`: how many cache lines an entry takes, about, all of which will be
    /// looked at. Enters the gate by the slot that is the walker's ([`Keyspace::walker_slot`]) and
    /// holds the shard meanwhile.
    pub fn step(
        &mut self,
        origin: u32,
        shard: u32,
        cursor: TableCursor,
        most: usize,
        lines: usize,
        mut visit: impl FnMut(Entry<'_>) -> usize,
    ) -> Option<TableCursor> {
        let keyspace = self.keyspace;
        let slot = keyspace.walker_slot();
        keyspace.gate.enter(slot);
        let next = keyspace.snapshots.database_of(origin).and_then(|db| {
            let shard = keyspace.shard(shard);
            let (table, mark) = (shard.table(db), keyspace.snapshots.mark.load(Relaxed));
            if table.is_empty() {
                return None;
            }
            let mut large: Vec<Box<[u8]>> = Vec::new();
            // Writers wait while the shard is held: memory is waited for before.
            // SAFETY: the walker is inside the gate.
            unsafe { table.prefetch_scan(cursor, most, lines) };
            shard.lock.lock_shared();
            // SAFETY: the shard is held.
            let next = unsafe {
                table.scan_weighed(cursor, most, |entry| {
                    if entry.mark() == mark {
                        return 1;
                    }
                    if is_large_collection(entry) {
                        large.push(entry.key().into());
                        return 1;
                    }
                    let weight = visit(entry);
                    entry.set_mark(mark);
                    weight
                })
            };
            shard.lock.unlock_shared();
            for key in large {
                keyspace.keep_cow(shard, db, &key);
            }
            next
        });
        keyspace.gate.leave(slot);
        next
    }
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

impl Snapshots {
    /// Where what was in database `origin` at the cut is now.
    fn database_of(&self, origin: u32) -> Option<u32> {
        let current = self.current.read();
        let at = current.as_ref()?.origins.iter().position(|&db| db == origin)?;
        u32::try_from(at).ok()
    }
}
