// SPDX-License-Identifier: BSD-3-Clause
//! The progress of [merging](crate::merging) a full copy: which keys have been merged. It owns no
//! keys, and must never answer otherwise for a key once the key has been merged.

use crate::hidden::flushes;
use crate::keys::{Hashed, KeysPart};
use crate::linear::index;
use crate::vector::{Run, Vector};

/// The least number of buckets of a database, so that a small one also has parts.
const BUCKETS_MIN: usize = 64;

/// Progress of a full copy.
#[derive(Clone, Debug)]
pub(crate) struct MergeProgress {
    /// Everything applied, with the copy.
    joined: Vector,
    /// The databases with their numbers of buckets, in order.
    databases: Vec<(u32, usize)>,
    /// The next part: the index of its database, and its bucket.
    next: (usize, usize),
}

impl MergeProgress {
    /// `databases`: with the numbers of buckets that they have now.
    pub fn begin(joined: Vector, mut databases: Vec<(u32, usize)>) -> MergeProgress {
        databases.iter_mut().for_each(|(_, buckets)| *buckets = (*buckets).max(BUCKETS_MIN));
        MergeProgress { joined, databases, next: (0, 0) }
    }

    /// The next part; `None` if all are merged.
    pub fn part(&self) -> Option<KeysPart> {
        let (database, among) = *self.databases.get(self.next.0)?;
        Some(KeysPart { database, bucket: self.next.1, among })
    }

    /// The next part has been merged.
    pub fn advance(&mut self) {
        self.next.1 += 1;
        if self.databases.get(self.next.0).is_some_and(|(_, among)| self.next.1 == *among) {
            self.next = (self.next.0 + 1, 0);
        }
    }

    /// True if a name with this hash has been merged. A database that neither side had is merged.
    pub fn has_merged(&self, database: u32, hash: u64) -> bool {
        let place = self.databases.iter().position(|(number, _)| *number == database);
        place.is_none_or(|place| (place, index(hash, self.databases[place].1)) < self.next)
    }

    /// Everything applied, with the copy.
    pub fn joined(&self) -> &Vector {
        &self.joined
    }

    /// What a change of a key by a client has seen of other regions: the joined vector, or `vector`
    /// without the copy.
    pub fn seen_of<'v>(&'v self, key: Hashed<'_>, vector: &'v Vector) -> &'v Vector {
        if self.has_merged(key.database, key.hash) { &self.joined } else { vector }
    }

    /// True if a flushed database has keys that have not been merged.
    pub fn has_unmerged_of(&self, flushed: Option<u32>) -> bool {
        self.databases[self.next.0..].iter().any(|(number, _)| flushes(flushed, *number))
    }

    /// This region's run now extends to a unit that it has made.
    pub fn note_own(&mut self, run: Run) {
        self.joined.add(run);
    }

    /// How much is left, in percent: at least 1.
    pub fn left_percent(&self) -> u64 {
        let buckets =
            |databases: &[(u32, usize)]| databases.iter().map(|(_, buckets)| buckets).sum::<usize>();
        let (database, bucket) = self.next;
        let left = buckets(&self.databases[database..]) - bucket;
        (left * 100).div_ceil(buckets(&self.databases).max(1)) as u64
    }
}
