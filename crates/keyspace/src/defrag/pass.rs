// SPDX-License-Identifier: BSD-3-Clause
//! When a pass of defragmentation starts and ends, how much time it may take, and which parts are
//! left: atomic state that all threads share.
//!
//! Knows no keys. What a thread does with a shard is in `defrag.rs`.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64};

use braid_base::relocation::Occupancy;

/// After a pass that has moved less than one block in this many, the next one waits.
const USEFUL_SHARE: u64 = 50;
/// The first such wait, and the longest, in milliseconds.
const WAIT_MS: i64 = 10_000;
const WAIT_MAX_MS: i64 = 320_000;
/// The same while memory is scarce.
const WAIT_SCARCE_MS: i64 = 1000;
const WAIT_SCARCE_MAX_MS: i64 = 8000;
/// Memory is scarce if pages exceed the limit by more than this part of it.
const SCARCE_PART: u64 = 32;
/// The most of a thread's time while it executes requests, unless memory is scarce, in percent.
const PERCENT_BUSY: u32 = 4;
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
    /// The memory limit (`maxmemory`); 0 without one. With more than this in use by the pages,
    /// memory is scarce.
    pub memory_bytes: u64,
    /// Memory is scarce in any case: keys make room for waste, so each block that stays costs some.
    pub keys_make_room: bool,
}

impl Limits {
    /// True if the waste takes memory beyond the limit that is set for data.
    fn is_scarce(&self, found: Occupancy) -> bool {
        let most = self.memory_bytes + self.memory_bytes / SCARCE_PART;
        let is_beyond = self.memory_bytes > 0 && found.active as u64 > most;
        self.is_enabled && (is_beyond || self.keys_make_room)
    }

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
    /// The most of a thread that executes requests.
    busy_share: AtomicU32,
    /// Parts of this pass claimed and completed: shards, and what is outside of the keyspace.
    claimed: AtomicU32,
    pub(super) completed: AtomicU32,
    /// Shards completed at the last look.
    completed_before: AtomicU32,
    is_requested: AtomicBool,
    /// Every value moves, without end; for tests.
    pub(super) moves_all: AtomicBool,
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

    /// The share of the time of a thread that executes requests, in percent.
    pub fn busy_share(&self) -> u32 {
        self.share().min(self.busy_share.load(Relaxed))
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

    /// The data are about to be replaced, so earlier passes tell nothing about the next one.
    pub fn begin_anew(&self) {
        self.not_before_ms.store(0, Relaxed);
        self.wait_ms.store(0, Relaxed);
    }

    /// Milliseconds for which defragmentation has run: in total, and this time.
    pub fn run_ms(&self, now_ms: i64) -> (i64, i64) {
        let since = self.since_ms.load(Relaxed);
        let current = if since == 0 { 0 } else { (now_ms - since).max(0) };
        (self.total_ms.load(Relaxed) + current, current)
    }

    /// The next part of this pass that no thread works on, of so many.
    pub(super) fn claim(&self, units: u32) -> Option<u32> {
        let next = |claimed| match claimed {
            claimed if claimed < units => Some(claimed + 1),
            _ if self.moves_all.load(Relaxed) => Some(1),
            _ => None,
        };
        let before = self.claimed.fetch_update(Relaxed, Relaxed, next).ok()?;
        Some(if before < units { before } else { 0 })
    }

    /// True if all parts are completed, or if none is left to claim and none was completed since
    /// the last look: a thread that has ended leaves the part that it had claimed.
    fn is_over(&self, units: u32) -> bool {
        let completed = self.completed.load(Relaxed);
        let stalls = self.completed_before.swap(completed, Relaxed) == completed;
        completed >= units || (stalls && self.claimed.load(Relaxed) >= units)
    }

    /// Starts or ends a pass; see [`Keyspace::review_defrag`](crate::Keyspace::review_defrag).
    /// `blocks`: those of all passes so far.
    pub(crate) fn review(
        &self,
        units: u32,
        blocks: Blocks,
        limits: Limits,
        now_ms: i64,
        occupancy: impl FnOnce() -> Occupancy,
    ) {
        let moves_all = self.moves_all.load(Relaxed);
        let is_over = moves_all || self.is_over(units);
        let goes_on = self.share() > 0 && !is_over;
        let may_be_scarce = limits.is_enabled && limits.memory_bytes > 0;
        let found = (may_be_scarce || !goes_on).then(occupancy).unwrap_or_default();
        let is_scarce = limits.is_scarce(found);
        self.busy_share.store(if is_scarce { limits.cycle.1 } else { PERCENT_BUSY }, Relaxed);
        if goes_on && (limits.is_enabled || self.is_requested.load(Relaxed)) {
            if is_scarce {
                self.share.fetch_max(limits.cycle.1, Relaxed);
            }
            return;
        }
        if self.share() > 0 && is_over && !moves_all {
            self.note_use_of_pass(blocks, is_scarce, now_ms);
            // A request lasts until its pass ends.
            self.is_requested.store(false, Relaxed);
        }
        let asked = self.is_requested.load(Relaxed) || moves_all;
        let waits = now_ms < self.not_before_ms.load(Relaxed);
        let share = if asked {
            PERCENT_REQUESTED
        } else if waits || !limits.is_enabled {
            0
        } else if is_scarce {
            limits.cycle.1
        } else {
            limits.share(found)
        };
        let since = self.since_ms.load(Relaxed);
        if share == 0 {
            if since != 0 {
                self.since_ms.store(0, Relaxed);
                self.total_ms.fetch_add((now_ms - since).max(0), Relaxed);
            }
            self.share.store(0, Relaxed);
            return;
        }
        if since == 0 {
            self.since_ms.store(now_ms, Relaxed);
        }
        self.moved_before.store(blocks.moved, Relaxed);
        self.examined_before.store(blocks.examined, Relaxed);
        if !moves_all {
            self.completed.store(0, Relaxed);
            self.claimed.store(0, Relaxed);
        }
        self.share.store(share, Relaxed);
    }

    /// Puts the next pass off if the last one has moved next to nothing: what is wasted then is
    /// not in memory that can be moved.
    fn note_use_of_pass(&self, blocks: Blocks, is_scarce: bool, now_ms: i64) {
        let moved = blocks.moved.saturating_sub(self.moved_before.load(Relaxed));
        let examined = blocks.examined.saturating_sub(self.examined_before.load(Relaxed));
        if moved * USEFUL_SHARE < examined || examined == 0 {
            let (least, most) =
                if is_scarce { (WAIT_SCARCE_MS, WAIT_SCARCE_MAX_MS) } else { (WAIT_MS, WAIT_MAX_MS) };
            let wait = (self.wait_ms.load(Relaxed) * 2).clamp(least, most);
            self.wait_ms.store(wait, Relaxed);
            self.not_before_ms.store(now_ms + wait, Relaxed);
        } else {
            self.wait_ms.store(0, Relaxed);
        }
    }
}

/// Numbers of blocks.
#[derive(Clone, Copy)]
pub(crate) struct Blocks {
    pub moved: u64,
    pub examined: u64,
}
