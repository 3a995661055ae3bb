// SPDX-License-Identifier: BSD-3-Clause
//! Streams: entries of fields and values in id order, and consumer groups that distribute the
//! entries.
//!
//! The entries are a [`Log`] of blocks in Redis's own format (`block.rs`), because RDB files and
//! DUMP payloads contain the blocks unchanged; groups ([`Group`]) know only ids. Commands borrow
//! both with [`Stream::split_mut`], since group operations often check in the log whether an entry
//! still exists.
//!
//! This module must not use clocks, locks or commands: times are passed in.

mod block;
mod group;
mod id;
pub mod idempotency;
mod log;

#[cfg(test)]
mod histories;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use block::Fields;
pub use group::{AutoClaimed, Claim, Claimed, Consumer, ConsumerId, Group, IdleClaimed, Pending};
pub use id::{IdError, IdRequest, StreamId};
pub use idempotency::Idempotency;
pub use log::{AppendError, BlockLimits, Blocks, InvalidBlock, Log, LogEntry, LogRange, Trim};

use braid_base::relocation::{Mover, Parts};
use braid_containers::listpack::LARGE_PACKED;

/// A stream with this many blocks is large ([`Stream::is_large`]), or with this many consumers and
/// pending entries together.
const LARGE_BLOCKS: usize = 32;
const LARGE_GROUPS: usize = 2048;

/// Ids by the name of their group.
pub type References = Vec<(Box<[u8]>, Vec<StreamId>)>;

/// A stream's groups by name.
#[derive(Clone, Default)]
pub struct Groups(BTreeMap<Box<[u8]>, Group>);

/// A stream; see the module.
#[derive(Clone, Default)]
pub struct Stream {
    log: Log,
    groups: Groups,
    /// Names that producers gave their entries, if any ever did.
    idempotency: Option<Box<Idempotency>>,
}

impl Stream {
    /// An empty stream without groups.
    pub fn new() -> Stream {
        Stream::default()
    }

    /// True if reading the whole stream takes long: then [`Stream::cow`] is better than a copy.
    pub fn is_large(&self) -> bool {
        let groups = || self.groups.iter().map(|(_, group)| 1 + group.consumers_len() + group.pending_len());
        let bytes = || self.log.blocks().map(|(_, block)| block.byte_len()).sum::<usize>();
        self.log.block_count() > LARGE_BLOCKS
            || groups().sum::<usize>() > LARGE_GROUPS
            || bytes() > LARGE_PACKED
    }

    /// A read-only copy that shares entries and pending entries until they change (see
    /// [`cow`](braid_containers::cow)).
    pub fn cow(&self) -> Stream {
        self.clone()
    }

    /// See `Collection::relocate_blocks`.
    pub fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        let mut parts = Parts::new(from, mover);
        let next = parts.part(|from, mover| self.log.relocate(from, mover));
        next.or_else(|| self.groups.0.values_mut().find_map(|group| group.relocate(&mut parts)))
    }

    /// The entries.
    #[inline]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The entries, for changing.
    #[inline]
    pub fn log_mut(&mut self) -> &mut Log {
        &mut self.log
    }

    /// Inserts a late entry, one with existing entries of greater ids. Groups that are already
    /// past it count it as read.
    ///
    /// # Errors
    /// If the stream has an entry with this ID, or the entry is too large.
    pub fn insert(
        &mut self,
        id: StreamId,
        pairs: &[(&[u8], &[u8])],
        limits: &BlockLimits,
    ) -> Result<(), AppendError> {
        self.log.insert(id, pairs, limits)?;
        for group in self.groups.0.values_mut().filter(|group| group.last_id >= id) {
            group.entries_read = group.entries_read.map(|read| read.saturating_add(1));
        }
        Ok(())
    }

    /// Names that producers gave their entries, if any ever did.
    pub fn idempotency(&self) -> Option<&Idempotency> {
        self.idempotency.as_deref()
    }

    /// As [`Stream::idempotency`], for changing.
    pub fn idempotency_mut(&mut self) -> Option<&mut Idempotency> {
        self.idempotency.as_deref_mut()
    }

    /// As [`Stream::idempotency_mut`]; created by `new` if there are none.
    pub fn idempotency_or(&mut self, new: impl FnOnce() -> Idempotency) -> &mut Idempotency {
        self.idempotency.get_or_insert_with(|| Box::new(new()))
    }

    /// The groups.
    #[inline]
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The groups, for changing, together with the entries, for lookups.
    #[inline]
    pub fn split_mut(&mut self) -> (&Log, &mut Groups) {
        (&self.log, &mut self.groups)
    }

    /// True if every group has received this entry and no longer waits for its acknowledgement.
    pub fn is_acknowledged(&self, id: StreamId) -> bool {
        self.groups.0.values().all(|group| group.has_acknowledged(id))
    }

    /// Makes entries no longer pending in any group. Returns them by group.
    pub fn drop_references(&mut self, ids: &[StreamId]) -> References {
        let lost = self.groups.0.iter_mut().map(|(name, group)| {
            let ids: Vec<StreamId> =
                ids.iter().copied().filter(|id| group.acknowledge(*id).is_some()).collect();
            (name.clone(), ids)
        });
        lost.filter(|(_, ids)| !ids.is_empty()).collect()
    }

    /// As [`Log::trim`], but leaves entries that a group has not received or acknowledged yet.
    /// Returns the ids of the removed entries. At most `limit` entries are examined (0 means all).
    pub fn trim_acknowledged(&mut self, keep: Trim, limit: u64) -> Vec<StreamId> {
        let mut removed = Vec::new();
        // No later entry has been received by all groups.
        let received = self.groups.0.values().map(|group| group.last_id).min().unwrap_or(StreamId::MAX);
        for (examined, entry) in (0..).zip(self.log.range(StreamId::MIN, received)) {
            let enough = match keep {
                Trim::MaxLen(most) => self.log.len() - removed.len() as u64 <= most,
                Trim::MinId(least) => entry.id >= least,
            };
            if enough || (limit > 0 && examined >= limit) {
                break;
            }
            if self.is_acknowledged(entry.id) {
                removed.push(entry.id);
            }
        }
        // Backwards, so that the first id is only looked for once.
        for id in removed.iter().rev() {
            self.log.remove(*id);
        }
        removed
    }

    /// Bytes allocated, without this struct itself.
    pub fn memory_bytes(&self) -> usize {
        let groups =
            self.groups.iter().map(|(name, group)| name.len() + size_of::<Group>() + group.memory_bytes());
        let names = self.idempotency().map_or(0, |all| size_of::<Idempotency>() + all.memory_bytes());
        self.log.memory_bytes() + groups.sum::<usize>() + names
    }
}

impl Groups {
    /// Number of groups.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are no groups.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The group with this name.
    pub fn get(&self, name: &[u8]) -> Option<&Group> {
        self.0.get(name)
    }

    /// The group with this name, for changing.
    pub fn get_mut(&mut self, name: &[u8]) -> Option<&mut Group> {
        self.0.get_mut(name)
    }

    /// Adds a group; false, with nothing changed, if the name is taken.
    pub fn create(&mut self, name: &[u8], group: Group) -> bool {
        let is_new = !self.0.contains_key(name);
        if is_new {
            self.0.insert(name.into(), group);
        }
        is_new
    }

    /// Removes a group with its consumers and pending entries.
    pub fn remove(&mut self, name: &[u8]) -> Option<Group> {
        self.0.remove(name)
    }

    /// The groups in name order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Group)> {
        self.0.iter().map(|(name, group)| (&name[..], group))
    }
}
