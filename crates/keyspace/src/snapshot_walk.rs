// SPDX-License-Identifier: BSD-3-Clause
//! The walk through a snapshot (`snapshot.rs`), on its own thread: shard after shard, a few
//! entries at a time. Each shard is held only while these entries are read.
//!
//! The walker never waits for the disk, or for the consumer of the entries, while it holds a shard.

use std::sync::Arc;

use braid_base::gate::World;

use crate::cow_entry::is_large_collection;
use crate::entry::Entry;
use crate::eviction;
use crate::keyspace::{Keyspace, Shard};
use crate::snapshot::Keeper;
use crate::table::TableCursor;

/// A walk through a snapshot. It must reach the end before it ends the snapshot.
pub struct Walk<'k> {
    keyspace: &'k Keyspace,
}

impl Keyspace {
    /// Makes the cut of a snapshot. False if a snapshot is already in progress.
    pub fn begin_snapshot(&self, world: &World<'_>, keeper: Arc<dyn Keeper>) -> bool {
        self.snapshots.begin(world, keeper, self.databases())
    }

    /// The walk through the snapshot whose cut has been made. Only one walk at a time.
    pub fn walk_snapshot(&self) -> Walk<'_> {
        Walk { keyspace: self }
    }

    /// Has the keeper keep an entry that is about to change, if it belongs to the snapshot
    /// ([`Snapshots::is_due`](crate::snapshot::Snapshots::is_due)). The entry's shard must be held
    /// exclusively.
    #[cold]
    pub(crate) fn keep_old_form(&self, db: u32, entry: Entry<'_>) {
        self.snapshots.keep(db, entry, eviction::traits(self, entry));
    }

    /// Shares a large collection with the keeper, unless a writer has already done so.
    fn keep_cow(&self, shard: &Shard, db: u32, key: &[u8]) {
        shard.lock.lock_exclusive();
        // SAFETY: the shard is held.
        let entry = unsafe { shard.table(db).find(self.hash(key), self.shard_bits(), key) };
        if let Some(entry) = entry.filter(|entry| self.snapshots.is_due(*entry)) {
            self.keep_old_form(db, entry);
        }
        shard.lock.unlock_exclusive();
    }
}

impl Walk<'_> {
    /// Ends the snapshot: the keeper receives no more entries.
    pub fn end(&mut self) {
        self.keyspace.snapshots.end();
    }

    /// True for an entry that belongs to the snapshot and is not yet written.
    pub fn is_due(&self, entry: Entry<'_>) -> bool {
        self.keyspace.snapshots.is_due(entry)
    }

    /// Passes unwritten entries of database `origin` in a shard's table to `visit`, from `cursor`
    /// on, until the returned weights add up to `most`; an already written entry counts as one.
    /// Large collections are shared with the keeper instead. Returns the next cursor; `None` at
    /// the table's end. `lines`: approximate number of cache lines per entry, all of which will be
    /// read. Enters the gate in the walker's slot ([`Keyspace::walker_slot`]) and holds the shard
    /// meanwhile.
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
            let (table, mark) = (shard.table(db), keyspace.snapshots.mark());
            if table.is_empty() {
                return None;
            }
            let mut large: Vec<Box<[u8]>> = Vec::new();
            // Writers wait while the shard is held, so take the cache misses first.
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
