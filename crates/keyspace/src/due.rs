// SPDX-License-Identifier: BSD-3-Clause
//! Lower bounds on the next expiry in each group of shards, so that active expiry skips a group
//! without looking at its shards. Cluster mode has 16,384 shards: reading a cache line of each ten
//! times a second would cost time and evict the commands' data from the processor caches.
//!
//! A writer lowers its table's bound first, then the group's. A thread that raises a group's bound
//! clears it first and reads the tables' bounds afterwards, so in either order, the group's bound
//! ends up no higher than the tables' bounds.
//!
//! HOT PATH: keys without an expiry cost nothing. A key with an expiry costs one comparison,
//! unless it is the next of its table to expire.

use std::ops::Range;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// Upper limit of the number of groups, as a power of two. A group has as many shards as that
/// requires.
const GROUPS_MAX_BITS: u32 = 8;

/// The bound of a group in which nothing expires.
const NEVER: i64 = i64::MAX;

pub(crate) struct DueTimes {
    /// Shards per group, as a power of two.
    group_bits: u32,
    groups: Box<[AtomicI64]>,
}

impl DueTimes {
    pub fn new(shard_bits: u32) -> DueTimes {
        let group_bits = shard_bits.saturating_sub(GROUPS_MAX_BITS);
        let groups = (0..1u32 << (shard_bits - group_bits)).map(|_| AtomicI64::new(NEVER)).collect();
        DueTimes { group_bits, groups }
    }

    /// Makes all bounds unknown: all tables have been exchanged.
    pub fn forget(&self) {
        self.groups.iter().for_each(|group| group.store(i64::MIN, Release));
    }

    pub fn groups(&self) -> u32 {
        self.groups.len() as u32
    }

    pub fn shards_of(&self, group: u32) -> Range<u32> {
        group << self.group_bits..(group + 1) << self.group_bits
    }

    /// The group's bound: nothing in the group expires before this time (ms since the Unix epoch).
    pub fn of(&self, group: u32) -> i64 {
        self.groups[group as usize].load(Acquire)
    }

    /// The lowest bound of all groups; `None` if nothing expires.
    pub fn earliest(&self) -> Option<i64> {
        (0..self.groups()).map(|group| self.of(group)).min().filter(|&at| at != NEVER)
    }

    /// Raises a group's bound to the earliest time of its shards' tables, which `earliest` reads
    /// after the old bound has been cleared.
    pub fn renew(&self, group: u32, earliest: impl FnOnce(Range<u32>) -> Option<i64>) {
        let time = &self.groups[group as usize];
        time.swap(NEVER, AcqRel);
        time.fetch_min(earliest(self.shards_of(group)).unwrap_or(NEVER), AcqRel);
    }

    /// Lowers the bound of a shard's group.
    pub fn lower(&self, shard: u32, at: i64) {
        // Always write, even if the bound is low enough: `renew` may be clearing it at this moment.
        self.groups[(shard >> self.group_bits) as usize].fetch_min(at, AcqRel);
    }
}
