// SPDX-License-Identifier: BSD-3-Clause
//! A snapshot in progress: the state of the keyspace at one moment, the cut, written out while the
//! keyspace changes.
//!
//! Every entry carries a mark of one bit. Outside of snapshots all entries have the same mark. The
//! cut, made with the world stopped, flips the keyspace's mark: from then on entries with the old
//! mark belong to the snapshot and are not yet written, and new entries get the new mark. A walker
//! (`snapshot_walk.rs`) goes through all tables, passes each entry with the old mark to the code
//! that writes the snapshot, and gives it the new mark. A writer that gets there first (all
//! changes go through one function of [`Txn`](crate::Txn)) has the [`Keeper`] keep the entry's old
//! form, and marks the entry. When the walk is complete, all entries have the same mark again.
//!
//! A large collection is shared with the keeper (`braid_containers::cow`) by the walker or the
//! writer, whichever comes first: no request waits for the encoding of the whole collection, and a
//! writer copies only the few memory blocks that it changes. A writer shares a long string in the
//! same way.
//!
//! Tables that are emptied as a whole are handed to the keeper as they are. Databases may be
//! exchanged during a snapshot, so each is identified by its number at the cut, the *origin*.
//!
//! Without a snapshot all this costs one comparison per change.

use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::gate::World;
use braid_rdb::Traits;
use parking_lot::RwLock;

use crate::cow_entry::{CowEntry, is_large};
use crate::entry::{Entry, MARK};
use crate::table::Table;

/// Receives the parts of a snapshot that change before the walker has reached them.
pub trait Keeper: Send + Sync {
    /// Keeps the current form of an entry of database `origin`, with its idle time or frequency
    /// (`access`). Called with the entry's shard held, once per entry.
    fn keep(&self, origin: u32, entry: Entry<'_>, traits: Traits);

    /// Keeps an entry of database `origin` with a large collection or string. Called with the
    /// entry's shard held, once per entry.
    fn keep_shared(&self, origin: u32, entry: CowEntry);

    /// Takes tables of database `origin` that are otherwise unreachable. Those of their entries
    /// for which [`Snapshots::is_due`] is true belong to the snapshot.
    fn take(&self, origin: u32, tables: Vec<Table>);
}

struct Current {
    keeper: Arc<dyn Keeper>,
    /// The origin of each database's current content.
    origins: Vec<u32>,
}

/// The keyspace's side of snapshots.
#[derive(Default)]
pub struct Snapshots {
    mark: AtomicU8,
    current: RwLock<Option<Current>>,
}

impl Snapshots {
    /// True for an entry that belongs to a snapshot and is not yet written.
    #[inline]
    pub(crate) fn is_due(&self, entry: Entry<'_>) -> bool {
        entry.mark() != self.mark.load(Relaxed)
    }

    /// The mark of entries that belong to no snapshot or are already written.
    pub(crate) fn mark(&self) -> u8 {
        self.mark.load(Relaxed)
    }

    /// Gives a new entry the mark of entries that belong to no snapshot.
    #[inline]
    pub(crate) fn stamp(&self, entry: Entry<'_>) {
        let mark = self.mark.load(Relaxed);
        if mark != 0 {
            entry.set_mark(mark);
        }
    }

    /// Has the keeper keep an entry that is about to change. The entry's shard must be held
    /// exclusively.
    pub(crate) fn keep(&self, db: u32, entry: Entry<'_>, traits: Traits) {
        if let Some(current) = &*self.current.read() {
            let origin = current.origins[db as usize];
            // SAFETY: the shard is held exclusively, and the writer takes its reference to the
            // collection later.
            let shared = if is_large(entry) { unsafe { CowEntry::of(entry) } } else { None };
            match shared {
                Some(shared) => current.keeper.keep_shared(origin, shared),
                None => current.keeper.keep(origin, entry, traits),
            }
        }
        entry.set_mark(self.mark.load(Relaxed));
    }

    /// Hands over the tables of a database emptied as a whole; returns them if no snapshot is in
    /// progress.
    pub(crate) fn hand_over(&self, _world: &World<'_>, db: u32, tables: Vec<Table>) -> Vec<Table> {
        match &*self.current.read() {
            Some(current) => {
                current.keeper.take(current.origins[db as usize], tables);
                Vec::new()
            }
            None => tables,
        }
    }

    /// Records that two databases are exchanged.
    pub(crate) fn exchange(&self, _world: &World<'_>, one: u32, other: u32) {
        if let Some(current) = &mut *self.current.write() {
            current.origins.swap(one as usize, other as usize);
        }
    }

    /// The current number of the database that was `origin` at the cut.
    pub(crate) fn database_of(&self, origin: u32) -> Option<u32> {
        let current = self.current.read();
        let at = current.as_ref()?.origins.iter().position(|&db| db == origin)?;
        u32::try_from(at).ok()
    }

    /// Makes the cut. False if a snapshot is already in progress.
    pub(crate) fn begin(&self, _world: &World<'_>, keeper: Arc<dyn Keeper>, databases: u32) -> bool {
        let mut current = self.current.write();
        if current.is_some() {
            return false;
        }
        *current = Some(Current { keeper, origins: (0..databases).collect() });
        self.mark.fetch_xor(MARK, Relaxed);
        true
    }

    /// Ends the snapshot: the keeper receives no more entries.
    pub(crate) fn end(&self) {
        // Drop the keeper outside of the lock.
        let current = self.current.write().take();
        drop(current);
    }
}
