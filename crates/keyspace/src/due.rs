// SPDX-License-Identifier: BSD-3-Clause
//! Times before which nothing expires in groups of shards, so that active expiry passes over a
//! group without a look at its shards. Cluster mode has 16,384 of them: to read a line of each ten
//! times a second would cost time, and push what commands need out of the processor's caches.
//!
//! A writer lowers its group's time after that of its table; who raises one takes it away first and
//! reads the tables then. So whichever of the two comes first, the group's time is not above the
//! tables'.
//!
//! HOT PATH: keys without an expiry cost nothing, those with one a comparison, unless they are the
//! next of their table to expire.

use std::ops::Range;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// Groups have as many shards as it takes to have no more than this many groups (a power of two).
const GROUPS_MAX_BITS: u32 = 8;

/// Nothing expires.
const NEVER: i64 = i64::MAX;

pub(crate) struct DueTimes {
    /// Shards of a group, as a power of two.
    group_bits: u32,
    groups: Box<[AtomicI64]>,
}

impl DueTimes {
    pub fn new(shard_bits: u32) -> DueTimes {
        let group_bits = shard_bits.saturating_sub(GROUPS_MAX_BITS);
        let groups = (0..1u32 << (shard_bits - group_bits)).map(|_| AtomicI64::new(NEVER)).collect();
        DueTimes { group_bits, groups }
    }

    /// Nothing is known: all tables have been exchanged.
    pub fn forget(&self) {
        self.groups.iter().for_each(|group| group.store(i64::MIN, Release));
    }

    pub fn groups(&self) -> u32 {
        self.groups.len() as u32
    }

    pub fn shards_of(&self, group: u32) -> Range<u32> {
        group << self.group_bits..(group + 1) << self.group_bits
    }

    /// The time before which nothing of a group expires.
    pub fn of(&self, group: u32) -> i64 {
        self.groups[group as usize].load(Acquire)
    }

    /// The earliest of all groups' times, if anything expires.
    pub fn earliest(&self) -> Option<i64> {
        (0..self.groups()).map(|group| self.of(group)).min().filter(|&at| at != NEVER)
    }

    /// Raises a group's time to the earliest of its shards' tables, which is read when the former
    /// one has been taken away.
    pub fn renew(&self, group: u32, earliest: impl FnOnce(Range<u32>) -> Option<i64>) {
        let time = &self.groups[group as usize];
        time.swap(NEVER, AcqRel);
        time.fetch_min(earliest(self.shards_of(group)).unwrap_or(NEVER), AcqRel);
    }

    /// Lowers the time of a shard's group.
    pub fn lower(&self, shard: u32, at: i64) {
        // Not without a write, even if the time is low enough: it may be taken away at this moment.
        self.groups[(shard >> self.group_bits) as usize].fetch_min(at, AcqRel);
    }
}
