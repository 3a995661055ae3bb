// SPDX-License-Identifier: BSD-3-Clause
//! Defragmentation: moves live values out of sparsely filled memory, so that the allocator can
//! return it to the system.
//!
//! A *pass* goes through all shards. The executing threads claim shards one by one, and work on
//! them in short steps ([`defragment`]), each under the shard's exclusive lock: entries, long
//! strings, the segments of tables, and the blocks of collections
//! ([`Collection::relocate_blocks`](crate::object::Collection::relocate_blocks)). Which block moves
//! where is the allocator's knowledge (`braid_base::relocation`).
//!
//! A moved entry is published and retired like one that a write replaces, so lock-free readers,
//! which may still see the old one, lose nothing. Memory that is read only under locks is freed at
//! once. Whatever has a second owner stays: entries held by active-active replication, strings
//! being sent, and blocks shared with a snapshot.
//!
//! A move is no change: it marks no key as used, expires nothing, and is told to no watcher,
//! tracking client, snapshot or journal. It must never copy a value's content into another form.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64};

use braid_base::relocation::{Mover, Occupancy};
use smallvec::SmallVec;

use crate::context::Context;
use crate::entry::Entry;
use crate::keyspace::Keyspace;
use crate::table::{Table, TableCursor};
use crate::txn::{NOTHING_EXPIRED, Txn};

/// After a pass that has moved less than one block in this many, the next one waits.
const USEFUL_SHARE: u64 = 50;
/// The first such wait, and the longest, in milliseconds.
const WAIT_MS: i64 = 10_000;
const WAIT_MAX_MS: i64 = 320_000;
/// Share of each thread's time for a pass that was requested or moves everything, in percent.
const PERCENT_REQUESTED: u32 = 25;

/// When to defragment, and how much of each thread's time it may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub is_enabled: bool,
    /// Less waste than this is left alone, in bytes.
    pub ignore_bytes: u64,
    /// Waste, as a percentage of the bytes in use, at which defragmentation starts and at which it
    /// takes the most time.
    pub percent: (u32, u32),
    /// The least and the most time, as a percentage of each thread's.
    pub cycle: (u32, u32),
}

impl Limits {
    /// The share of each thread's time, in percent; 0 if there is too little waste.
    fn share(&self, found: Occupancy) -> u32 {
        let (lower, upper) = self.percent;
        let waste = u32::try_from(found.percent()).unwrap_or(u32::MAX);
        if !self.is_enabled || waste < lower || (found.waste() as u64) < self.ignore_bytes {
            return 0;
        }
        let (least, most) = (self.cycle.0, self.cycle.1.max(self.cycle.0));
        let span = upper.saturating_sub(lower).max(1);
        let above = (waste - lower).min(span);
        (least + (u64::from(most - least) * u64::from(above) / u64::from(span)) as u32).max(1)
    }
}

/// The keyspace's side of defragmentation: the current pass.
#[derive(Default)]
pub struct Defrag {
    /// Share of each thread's time, in percent; 0 while there is no pass.
    share: AtomicU32,
    /// Shards claimed and completed in this pass.
    claimed: AtomicU32,
    completed: AtomicU32,
    is_requested: AtomicBool,
    /// Every value moves, without end; for tests.
    moves_all: AtomicBool,
    /// When defragmentation started, ms since the Unix epoch; 0 while it is off.
    since_ms: AtomicI64,
    /// Milliseconds of earlier runs.
    total_ms: AtomicI64,
    /// The next pass starts no earlier than this, and how long the last wait was.
    not_before_ms: AtomicI64,
    wait_ms: AtomicI64,
    /// Blocks moved and examined before the current pass.
    moved_before: AtomicU64,
    examined_before: AtomicU64,
}

impl Defrag {
    /// Share of each thread's time, in percent; 0 while there is nothing to do.
    #[inline]
    pub fn share(&self) -> u32 {
        self.share.load(Relaxed)
    }

    /// Asks for a pass, whatever the waste.
    pub fn request(&self) {
        self.is_requested.store(true, Relaxed);
    }

    /// Moves every value again and again, whether that saves memory or not; for tests.
    pub fn set_moves_all(&self, moves_all: bool) {
        self.moves_all.store(moves_all, Relaxed);
        self.request();
    }

    /// Milliseconds for which defragmentation has run: in total, and this time.
    pub fn run_ms(&self, now_ms: i64) -> (i64, i64) {
        let since = self.since_ms.load(Relaxed);
        let current = if since == 0 { 0 } else { (now_ms - since).max(0) };
        (self.total_ms.load(Relaxed) + current, current)
    }

    fn claim(&self, shards: u32) -> Option<u32> {
        let next = |claimed| match claimed {
            claimed if claimed < shards => Some(claimed + 1),
            _ if self.moves_all.load(Relaxed) => Some(1),
            _ => None,
        };
        let before = self.claimed.fetch_update(Relaxed, Relaxed, next).ok()?;
        Some(if before < shards { before } else { 0 })
    }
}

impl Keyspace {
    /// Starts or ends a pass, as needed. `occupancy` is called only if no pass is under way. One
    /// thread calls this about once a second.
    pub fn review_defrag(&self, limits: Limits, now_ms: i64, occupancy: impl FnOnce() -> Occupancy) {
        let defrag = &self.defrag;
        let moves_all = defrag.moves_all.load(Relaxed);
        let is_over = moves_all || defrag.completed.load(Relaxed) >= self.shard_count() as u32;
        if defrag.share() > 0 && !is_over && (limits.is_enabled || defrag.is_requested.load(Relaxed)) {
            return;
        }
        let moved = self.total(|counters| counters.defrag_hits.get());
        let examined = moved + self.total(|counters| counters.defrag_misses.get());
        if defrag.share() > 0 && is_over && !moves_all {
            self.note_use_of_pass(moved, examined, now_ms);
        }
        // A request lasts until its pass ends.
        let asked = defrag.is_requested.swap(false, Relaxed) || moves_all;
        let waits = now_ms < defrag.not_before_ms.load(Relaxed);
        let share = if asked {
            PERCENT_REQUESTED
        } else if waits || !limits.is_enabled {
            0
        } else {
            limits.share(occupancy())
        };
        let since = defrag.since_ms.load(Relaxed);
        if share == 0 {
            if since != 0 {
                defrag.since_ms.store(0, Relaxed);
                defrag.total_ms.fetch_add((now_ms - since).max(0), Relaxed);
            }
            defrag.share.store(0, Relaxed);
            return;
        }
        if since == 0 {
            defrag.since_ms.store(now_ms, Relaxed);
        }
        defrag.moved_before.store(moved, Relaxed);
        defrag.examined_before.store(examined, Relaxed);
        if !moves_all {
            defrag.completed.store(0, Relaxed);
            defrag.claimed.store(0, Relaxed);
        }
        defrag.share.store(share, Relaxed);
    }

    /// Puts the next pass off if the last one has moved next to nothing: what is wasted then is
    /// not in memory that can be moved.
    fn note_use_of_pass(&self, moved: u64, examined: u64, now_ms: i64) {
        let defrag = &self.defrag;
        let moved = moved.saturating_sub(defrag.moved_before.load(Relaxed));
        let examined = examined.saturating_sub(defrag.examined_before.load(Relaxed));
        if moved * USEFUL_SHARE < examined || examined == 0 {
            let wait = (defrag.wait_ms.load(Relaxed) * 2).clamp(WAIT_MS, WAIT_MAX_MS);
            defrag.wait_ms.store(wait, Relaxed);
            defrag.not_before_ms.store(now_ms + wait, Relaxed);
        } else {
            defrag.wait_ms.store(0, Relaxed);
        }
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

/// Moves values for about `nanos`. The thread is inside the gate and holds no lock. False if all
/// shards of the pass are claimed and this thread's are completed.
pub fn defragment(keyspace: &Keyspace, context: &mut Context, walk: &mut Walk, nanos: u64) -> bool {
    let defrag = &keyspace.defrag;
    let mut mover = Mover::new(nanos, defrag.moves_all.load(Relaxed));
    let mut goes_on = true;
    while goes_on && !mover.is_over() {
        let Some(index) = walk.shard.or_else(|| defrag.claim(keyspace.shard_count() as u32)) else {
            goes_on = false;
            break;
        };
        walk.shard = Some(index);
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
        let txn = Txn::lock_shard_exclusive(keyspace, context, index, db, NOTHING_EXPIRED);
        let mut work = Work { keyspace, table, context: &mut *txn.context, mover: &mut mover };
        // SAFETY: the shard is held exclusively.
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
