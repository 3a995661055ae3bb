// SPDX-License-Identifier: BSD-3-Clause
//! Defragmentation: moves live values out of sparsely filled memory, so that the allocator can
//! return it to the system.
//!
//! A *pass* goes through all shards, and then through the server's blocks outside of the keyspace
//! and the indexes of documents.
//! The executing threads claim shards one by one, and work on them in short steps
//! ([`defragment`]), each under the shard's exclusive lock: entries, long strings, the segments of
//! tables, and the blocks of collections
//! ([`Collection::relocate_blocks`](crate::object::Collection::relocate_blocks)). Which block moves
//! where is the allocator's knowledge (`braid_base::relocation`). A load, which has the world
//! stopped, takes part between two records ([`defragment_stopped`]).
//!
//! A moved entry is published and retired like one that a write replaces, so lock-free readers,
//! which may still see the old one, lose nothing. Memory that is read only under locks is freed at
//! once. Whatever has a second owner stays: entries held by active-active replication, strings
//! being sent, and blocks shared with a snapshot.
//!
//! A move is no change: it marks no key as used, expires nothing, and is told to no watcher,
//! tracking client, snapshot or journal. It must never copy a value's content into another form.

pub(crate) mod pass;

use std::sync::atomic::Ordering::Relaxed;

use braid_base::relocation::{Mover, Occupancy};
use smallvec::SmallVec;

use crate::context::Context;
use crate::entry::Entry;
use crate::keyspace::Keyspace;
use crate::table::{Table, TableCursor};
use crate::txn::{NOTHING_EXPIRED, Txn};

use pass::Blocks;
pub use pass::Limits;

impl Keyspace {
    /// Starts or ends a pass, as needed. `occupancy` is called only if no pass is under way. One
    /// thread calls this about once a second.
    pub fn review_defrag(&self, limits: Limits, now_ms: i64, occupancy: impl FnOnce() -> Occupancy) {
        let moved = self.total(|counters| counters.defrag_hits.get());
        let examined = moved + self.total(|counters| counters.defrag_misses.get());
        let blocks = Blocks { moved, examined };
        self.defrag.review(units(self), blocks, limits, now_ms, occupancy);
    }
}

/// One thread's position in a pass.
#[derive(Default)]
pub struct Walk {
    shard: Option<u32>,
    db: u32,
    cursor: TableCursor,
    /// All entries of this table have been visited; collections may be unfinished.
    is_at_end: bool,
    /// Keys in this table whose collections are not finished, and the positions from which to
    /// continue.
    unfinished: Vec<(Box<[u8]>, u64)>,
}

/// Moves blocks outside of the keyspace; true once all have been examined.
pub type Others<'o> = &'o mut dyn FnMut(&mut Mover) -> bool;

/// The parts of a pass: the shards, the indexes of documents, and all that is outside.
fn units(keyspace: &Keyspace) -> u32 {
    keyspace.shard_count() as u32 + 2
}

/// Moves values for about `nanos`. The thread is inside the gate and holds no lock. `others` moves
/// what is outside of the keyspace. False if all parts of the pass are claimed and this thread's
/// are completed.
pub fn defragment(
    keyspace: &Keyspace,
    context: &mut Context,
    walk: &mut Walk,
    nanos: u64,
    others: Others<'_>,
) -> bool {
    step(keyspace, context, walk, nanos, others, false)
}

/// As [`defragment`], by a thread that has stopped the world.
pub fn defragment_stopped(txn: &mut Txn<'_>, walk: &mut Walk, nanos: u64, others: Others<'_>) -> bool {
    let is_stopped = txn.stopped_world().is_some();
    assert!(is_stopped, "no other thread may use a shard");
    step(txn.keyspace(), txn.context, walk, nanos, others, is_stopped)
}

fn step(
    keyspace: &Keyspace,
    context: &mut Context,
    walk: &mut Walk,
    nanos: u64,
    others: Others<'_>,
    is_stopped: bool,
) -> bool {
    let defrag = &keyspace.defrag;
    let mut mover = Mover::new(nanos, defrag.moves_all.load(Relaxed));
    let mut goes_on = true;
    while goes_on && !mover.is_over() {
        let Some(index) = walk.shard.or_else(|| defrag.claim(units(keyspace))) else {
            goes_on = false;
            break;
        };
        walk.shard = Some(index);
        if index as usize >= keyspace.shard_count() {
            let is_done = if index as usize == keyspace.shard_count() {
                others(&mut mover)
            } else {
                keyspace.documents().is_none_or(|documents| documents.relocate(&mut mover))
            };
            if is_done {
                *walk = Walk::default();
                defrag.completed.fetch_add(1, Relaxed);
            }
            continue;
        }
        let shard = keyspace.shard(index);
        let Some((db, table)) = shard.used_tables().find(|&(db, table)| db >= walk.db && !table.is_empty())
        else {
            *walk = Walk::default();
            defrag.completed.fetch_add(1, Relaxed);
            continue;
        };
        if db != walk.db {
            *walk = Walk { shard: Some(index), db, ..Walk::default() };
        }
        let txn;
        let context = if is_stopped {
            &mut *context
        } else {
            txn = Txn::lock_shard_exclusive(keyspace, context, index, db, NOTHING_EXPIRED);
            &mut *txn.context
        };
        let mut work = Work { keyspace, table, context, mover: &mut mover };
        // SAFETY: the shard is held exclusively, or no other thread uses any.
        if unsafe { work.on_table(walk) } {
            *walk = Walk { shard: Some(index), db: db + 1, ..Walk::default() };
        }
    }
    context.counters.defrag_hits.add(mover.hits);
    context.counters.defrag_misses.add(mover.misses);
    goes_on
}

/// Work on one table whose shard is held exclusively.
struct Work<'w> {
    keyspace: &'w Keyspace,
    table: &'w Table,
    context: &'w mut Context,
    mover: &'w mut Mover,
}

impl Work<'_> {
    /// Moves values until the time is over or the table ends. True at its end.
    ///
    /// # Safety
    /// The shard is held exclusively.
    unsafe fn on_table(&mut self, walk: &mut Walk) -> bool {
        while let Some((key, from)) = walk.unfinished.pop() {
            let hash = self.keyspace.hash(&key);
            // SAFETY: the shard is held exclusively, and no reference to the collection exists.
            let next = unsafe {
                let entry = self.table.find(hash, self.keyspace.shard_bits(), &key);
                let collection = entry.and_then(|entry| entry.collection_mut());
                collection.and_then(|collection| collection.relocate_blocks(from, self.mover))
            };
            if let Some(next) = next {
                walk.unfinished.push((key, next));
            }
            if self.mover.is_over() {
                return false;
            }
        }
        if walk.is_at_end {
            return true;
        }
        loop {
            let mut found = SmallVec::<[Entry<'_>; 32]>::new();
            // SAFETY: the shard is held exclusively. Moving an entry changes its slot alone.
            let next = unsafe {
                self.table.relocate_structure(walk.cursor, self.mover, &mut self.context.limbo);
                self.table.scan(walk.cursor, 1, |entry| found.push(entry))
            };
            for entry in found {
                // SAFETY: as above; each entry is in the table.
                unsafe { self.relocate(entry, &mut walk.unfinished) };
            }
            walk.cursor = next.unwrap_or_default();
            walk.is_at_end = next.is_none();
            if walk.is_at_end {
                return walk.unfinished.is_empty();
            }
            if self.mover.is_over() || !walk.unfinished.is_empty() {
                return false;
            }
        }
    }

    /// # Safety
    /// The shard is held exclusively, and the entry is in the table.
    unsafe fn relocate(&mut self, entry: Entry<'_>, unfinished: &mut Vec<(Box<[u8]>, u64)>) {
        let before = self.mover.hits;
        // SAFETY: the shard is held exclusively; the references end here, and the old entry is
        // retired once, after its replacement is published.
        unsafe {
            if let Some(blob) = entry.blob_mut() {
                blob.relocate(self.mover);
            } else if let Some(collection) = entry.collection_mut() {
                if let Some(from) = collection.relocate_blocks(0, self.mover) {
                    unfinished.push((entry.key().into(), from));
                }
                entry.relocate_head(self.mover);
            }
            if let Some(moved) = entry.at_better_place(self.mover) {
                let hash = self.keyspace.hash(moved.key());
                self.table.replace(hash, self.keyspace.shard_bits(), entry, moved);
                self.context.limbo.retire_shell(entry);
            }
        }
        let counters = &self.context.counters;
        if self.mover.hits > before { &counters.defrag_key_hits } else { &counters.defrag_key_misses }.add(1);
    }
}
