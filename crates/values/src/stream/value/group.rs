// SPDX-License-Identifier: BSD-3-Clause
//! Consumer groups: which entries were delivered to which consumer and are not yet acknowledged.
//!
//! A group keeps each pending entry once, in id order, with its consumer's number; every consumer
//! keeps the ids of its own entries. Invariant: an id is in the set of exactly the consumer that
//! its pending entry names, if it names one: none if the entry was released (XNACK), and while a
//! group is loaded, since entries come before consumers.
//!
//! A clone shares all pending entries until either side changes them ([`CowMap`]), so copying a
//! group takes time proportional to its number of consumers.
//!
//! Groups count the entries that they have read, and their lag, by the rules of Redis 8: the lag
//! is the number of entries not yet delivered, or unknown, whichever trims and deletions came
//! before.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeInclusive};

use braid_base::alloc::size_class;
use braid_base::relocation::Parts;

use super::id::StreamId;
use super::log::Log;
use braid_containers::cow::CowBox;
use braid_containers::cow_map::CowMap;

/// Pending entries of a group, pending ids of a consumer: as many per leaf as fit in 1024 bytes.
type PendingEntries = CowMap<StreamId, Pending, 25>;
type PendingIds = CowMap<StreamId, (), 63>;

/// Identifies a consumer of a group for as long as it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerId(u32);

/// No consumer: the entry was released, or its consumer is not loaded yet.
const UNOWNED: ConsumerId = ConsumerId(u32::MAX);

/// A delivered entry that is not yet acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Unix time of the last delivery in milliseconds.
    pub delivery_time: i64,
    /// Number of deliveries.
    pub delivery_count: u64,
    /// The consumer that received the entry.
    pub consumer: ConsumerId,
}

impl Pending {
    /// True if no consumer has the entry: it may be claimed at any time (XNACK).
    pub fn is_released(&self) -> bool {
        self.consumer == UNOWNED
    }

    /// Since when the entry has been idle: released ones always have been.
    fn idle_since(&self) -> i64 {
        if self.is_released() { i64::MIN } else { self.delivery_time }
    }
}

/// A consumer.
#[derive(Clone, Debug)]
pub struct Consumer {
    name: Box<[u8]>,
    /// Unix time of its last attempt to read or claim, in milliseconds.
    pub seen_time: i64,
    /// Unix time of its last success, in milliseconds; -1 means never.
    pub active_time: i64,
    pending: PendingIds,
}

impl Consumer {
    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Number of its pending entries.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// The ids of its pending entries, from `start` on.
    pub fn pending_from(&self, start: StreamId) -> impl Iterator<Item = StreamId> + '_ {
        self.pending.range(Bound::Included(start), Bound::Unbounded).map(|(id, ())| *id)
    }
}

/// The arguments of XCLAIM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The current Unix time in milliseconds.
    pub now: i64,
    /// Claim only entries last delivered at least this many milliseconds ago.
    pub min_idle: i64,
    /// The delivery time to set (IDLE, TIME; else `now`).
    pub delivery_time: i64,
    /// The delivery count to set (RETRYCOUNT).
    pub retry_count: Option<u64>,
    /// Do not count the claim as a delivery (JUSTID).
    pub just_id: bool,
    /// Create the pending entry if there is none (FORCE).
    pub force: bool,
    /// Claim it though the stream no longer has the entry (DELETED).
    pub deleted: bool,
}

impl Claim {
    /// A claim without options.
    pub const fn new(now: i64, min_idle: i64) -> Claim {
        Claim {
            now,
            min_idle,
            delivery_time: now,
            retry_count: None,
            just_id: false,
            force: false,
            deleted: false,
        }
    }
}

/// XCLAIM's result for one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The entry now belongs to the consumer.
    Yes,
    /// The entry is not pending, not idle long enough, or missing.
    No,
    /// The entry was deleted; it was pending and no longer is.
    Gone(Pending),
}

/// The result of XAUTOCLAIM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AutoClaimed {
    /// The continuation point: the next pending id, `0-0` at the end.
    pub next: StreamId,
    /// Ids of entries that now belong to the consumer.
    pub claimed: Vec<StreamId>,
    /// Ids of deleted entries that were pending and no longer are.
    pub gone: Vec<(StreamId, Pending)>,
}

/// The result of [`Group::claim_idle`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdleClaimed {
    /// Entries that now belong to the consumer.
    pub claimed: Vec<StreamId>,
    /// Ids of deleted entries that were pending and no longer are.
    pub gone: Vec<StreamId>,
}

/// A consumer group.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// The last id delivered.
    pub last_id: StreamId,
    /// Number of entries that the group has read, counted from the stream's very first; `None` if
    /// unknown.
    pub entries_read: Option<u64>,
    pending: PendingEntries,
    /// No pending entry was delivered before this time.
    delivered_from: i64,
    consumers: Vec<Option<CowBox<Consumer>>>,
    by_name: CowBox<BTreeMap<Box<[u8]>, ConsumerId>>,
}

impl Group {
    /// A group to which everything up to `last_id` has been delivered.
    pub fn new(last_id: StreamId, entries_read: Option<u64>) -> Group {
        Group { last_id, entries_read, ..Group::default() }
    }

    /// See `Collection::relocate_blocks`; `parts` are those of the stream.
    pub(super) fn relocate(&mut self, parts: &mut Parts<'_>) -> Option<u64> {
        let mut next = parts.part(|from, mover| self.pending.relocate(from, mover, &mut |_, _| ()));
        for consumer in self.consumers.iter_mut().flatten() {
            next = next.or_else(|| {
                parts.part(|from, mover| {
                    let own = consumer.own_mut()?;
                    let next = own.pending.relocate(from, mover, &mut |(), _| ());
                    if next.is_none() {
                        mover.relocate_slice(&mut own.name);
                        consumer.relocate(mover);
                    }
                    next
                })
            });
        }
        next
    }

    // Consumers.

    /// The consumer with this name.
    pub fn find_consumer(&self, name: &[u8]) -> Option<ConsumerId> {
        self.by_name.get(name).copied()
    }

    /// Creates a consumer; `None` if the name is taken.
    pub fn create_consumer(&mut self, name: &[u8], now: i64) -> Option<ConsumerId> {
        if self.by_name.contains_key(name) {
            return None;
        }
        let consumer =
            Consumer { name: name.into(), seen_time: now, active_time: -1, pending: PendingIds::default() };
        // There are free places only after deletions of consumers, which are rare.
        let some_free = self.by_name.len() < self.consumers.len();
        let free = if some_free { self.consumers.iter().position(Option::is_none) } else { None };
        let index = free.unwrap_or(self.consumers.len());
        let id = ConsumerId(u32::try_from(index).ok().filter(|index| *index != UNOWNED.0)?);
        match self.consumers.get_mut(index) {
            Some(place) => *place = Some(CowBox::new(consumer)),
            None => self.consumers.push(Some(CowBox::new(consumer))),
        }
        self.by_name.insert(name.into(), id);
        Some(id)
    }

    /// Deletes a consumer and its pending entries; returns their number.
    pub fn delete_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let id = self.by_name.remove(name)?;
        let consumer = self.consumers.get_mut(id.0 as usize)?.take()?;
        for (pending, ()) in consumer.pending.iter() {
            self.pending.remove(pending);
        }
        while matches!(self.consumers.last(), Some(None)) {
            self.consumers.pop();
        }
        Some(consumer.pending.len())
    }

    /// A consumer.
    pub fn consumer(&self, id: ConsumerId) -> Option<&Consumer> {
        self.consumers.get(id.0 as usize)?.as_deref()
    }

    /// A consumer, for changing its times.
    pub fn consumer_mut(&mut self, id: ConsumerId) -> Option<&mut Consumer> {
        self.consumers.get_mut(id.0 as usize)?.as_deref_mut()
    }

    /// Number of consumers.
    pub fn consumers_len(&self) -> usize {
        self.by_name.len()
    }

    /// The consumers in name order.
    pub fn consumers(&self) -> impl Iterator<Item = (ConsumerId, &Consumer)> {
        self.by_name.values().filter_map(|id| Some((*id, self.consumer(*id)?)))
    }

    // Pending entries.

    /// Number of pending entries.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// A pending entry.
    pub fn pending(&self, id: StreamId) -> Option<&Pending> {
        self.pending.get(&id)
    }

    /// The pending entries in a range of ids, in order.
    pub fn pending_range(
        &self,
        ids: RangeInclusive<StreamId>,
    ) -> impl DoubleEndedIterator<Item = (StreamId, &Pending)> {
        let (start, end) = ids.into_inner();
        let range = self.pending.range(Bound::Included(start), Bound::Included(end));
        range.map(|(id, pending)| (*id, pending))
    }

    /// Makes an entry pending for a consumer, as first delivered now; a previous owner loses it.
    pub fn deliver(&mut self, id: StreamId, consumer: ConsumerId, now: i64) {
        if self.consumer(consumer).is_some() {
            self.give(id, Pending { delivery_time: now, delivery_count: 1, consumer });
        }
    }

    /// Counts another delivery of a pending entry (to a consumer that reads its history).
    pub fn redeliver(&mut self, id: StreamId, now: i64) {
        if let Some(pending) = self.pending.get_mut(&id) {
            pending.delivery_time = now;
            pending.delivery_count = pending.delivery_count.saturating_add(1);
        }
    }

    /// Takes a pending entry from its consumer, with a new number of deliveries, and makes it ready
    /// to be claimed (XNACK). An entry that is not pending becomes so.
    pub fn release(&mut self, id: StreamId, delivery_count: u64) {
        self.give(id, Pending { delivery_time: 0, delivery_count, consumer: UNOWNED });
        self.delivered_from = i64::MIN;
    }

    /// Number of pending entries that no consumer has.
    pub fn released_len(&self) -> usize {
        self.pending.len() - self.owned_len()
    }

    fn owned_len(&self) -> usize {
        self.consumers.iter().flatten().map(|consumer| consumer.pending_len()).sum()
    }

    /// The pending entries that no consumer has.
    pub fn released(&self) -> impl Iterator<Item = (StreamId, &Pending)> {
        let all = if self.released_len() == 0 { None } else { Some(self.pending.iter()) };
        all.into_iter().flatten().filter(|(_, one)| one.is_released()).map(|(id, one)| (*id, one))
    }

    /// Removes a pending entry that was acknowledged (XACK) or deleted.
    pub fn acknowledge(&mut self, id: StreamId) -> Option<Pending> {
        let pending = self.pending.remove(&id)?;
        if let Some(consumer) = self.consumer_mut(pending.consumer) {
            consumer.pending.remove(&id);
        }
        Some(pending)
    }

    fn give(&mut self, id: StreamId, pending: Pending) {
        self.delivered_from = self.delivered_from.min(pending.delivery_time);
        let before = self.pending.insert(id, pending).map(|before| before.consumer);
        if before == Some(pending.consumer) {
            return;
        }
        if let Some(before) = before.and_then(|before| self.consumer_mut(before)) {
            before.pending.remove(&id);
        }
        if let Some(consumer) = self.consumer_mut(pending.consumer) {
            consumer.pending.insert(id, ());
        }
    }

    /// Claims one id (XCLAIM). Sets the consumer's active time if it gets the entry.
    pub fn claim(&mut self, log: &Log, id: StreamId, consumer: ConsumerId, claim: &Claim) -> Claimed {
        if self.consumer(consumer).is_none() {
            return Claimed::No;
        }
        if !claim.deleted && !log.contains(id) {
            return self.acknowledge(id).map_or(Claimed::No, Claimed::Gone);
        }
        let delivery_count = match self.pending.get(&id) {
            Some(pending) if !is_idle(pending, claim.now, claim.min_idle) => return Claimed::No,
            Some(pending) => pending.delivery_count,
            // As after a delivery; the count is then incremented again, as in Redis.
            None if claim.force => 1,
            None => return Claimed::No,
        };
        let delivery_count = match claim.retry_count {
            Some(count) => count,
            None => delivery_count.saturating_add(u64::from(!claim.just_id)),
        };
        self.give(id, Pending { delivery_time: claim.delivery_time, delivery_count, consumer });
        if let Some(consumer) = self.consumer_mut(consumer) {
            consumer.active_time = claim.now;
        }
        Claimed::Yes
    }

    /// XAUTOCLAIM: examines up to ten times `count` pending entries from `start` on and transfers
    /// up to `count` of them, idle for at least `min_idle` milliseconds, to the consumer. Deleted
    /// entries count towards `count`.
    pub fn auto_claim(
        &mut self,
        log: &Log,
        consumer: ConsumerId,
        start: StreamId,
        count: usize,
        claim: &Claim,
    ) -> AutoClaimed {
        let mut done = AutoClaimed::default();
        let (mut left, mut attempts) = (count, count.saturating_mul(10));
        let mut from = Some(start);
        while let Some(at) = from {
            let mut later = self.pending.range(Bound::Included(at), Bound::Unbounded);
            let Some((id, pending)) = later.next().map(|(id, pending)| (*id, *pending)) else { break };
            if attempts == 0 || left == 0 {
                done.next = id;
                break;
            }
            attempts -= 1;
            from = id.next();
            if !log.contains(id) {
                self.acknowledge(id);
                done.gone.push((id, pending));
                left -= 1;
            } else if self.claim(log, id, consumer, &Claim { force: false, ..*claim }) == Claimed::Yes {
                done.claimed.push(id);
                left -= 1;
            }
        }
        done
    }

    /// True if the group has received this entry and no longer waits for its acknowledgement.
    pub fn has_acknowledged(&self, id: StreamId) -> bool {
        id <= self.last_id && self.pending.get(&id).is_none()
    }

    /// True if an existing entry has been pending for at least `min_idle` milliseconds.
    pub fn has_idle(&self, log: &Log, now: i64, min_idle: i64) -> bool {
        self.may_have_idle(now, min_idle)
            && self.pending.iter().any(|(id, pending)| is_idle(pending, now, min_idle) && log.contains(*id))
    }

    /// Claims up to `most` entries for the consumer that have been pending for at least
    /// `claim.min_idle` milliseconds, the longest idle first, until `take` refuses one; it gets
    /// each entry as it was before (XREADGROUP). Deleted entries met on the way are no longer
    /// pending afterwards.
    pub fn claim_idle(
        &mut self,
        log: &Log,
        consumer: ConsumerId,
        most: usize,
        claim: &Claim,
        mut take: impl FnMut(StreamId, &Pending) -> bool,
    ) -> IdleClaimed {
        let mut done = IdleClaimed::default();
        if !self.may_have_idle(claim.now, claim.min_idle) {
            return done;
        }
        let mut idle = Vec::new();
        let mut oldest = i64::MAX;
        for (id, pending) in self.pending.iter() {
            if is_idle(pending, claim.now, claim.min_idle) {
                idle.push((pending.idle_since(), *id));
            } else {
                oldest = oldest.min(pending.delivery_time);
            }
        }
        idle.sort_unstable();
        let mut rest = idle.into_iter();
        while done.claimed.len() < most
            && let Some((time, id)) = rest.next()
        {
            let Some(before) = self.pending.get(&id).copied() else { continue };
            if log.contains(id) && !take(id, &before) {
                // The others have been idle for less time.
                oldest = oldest.min(time);
                break;
            }
            match self.claim(log, id, consumer, claim) {
                Claimed::Yes => done.claimed.push(id),
                Claimed::Gone(_) => done.gone.push(id),
                Claimed::No => oldest = oldest.min(time),
            }
        }
        let left = rest.next().map_or(i64::MAX, |(time, _)| time);
        let claimed = if done.claimed.is_empty() { i64::MAX } else { claim.delivery_time };
        self.delivered_from = oldest.min(left).min(claimed);
        done
    }

    /// When an entry that is pending now will have been so for `min_idle` milliseconds: a lower
    /// bound, exact after [`Group::claim_idle`].
    pub fn next_idle(&self, min_idle: i64) -> i64 {
        if self.pending.is_empty() { i64::MAX } else { self.delivered_from.saturating_add(min_idle) }
    }

    fn may_have_idle(&self, now: i64, min_idle: i64) -> bool {
        !self.pending.is_empty() && (min_idle <= 0 || self.next_idle(min_idle) <= now)
    }

    // Progress.

    /// Records a delivery to the group if its id is beyond the previous ones; true if so.
    pub fn advance(&mut self, log: &Log, id: StreamId) -> bool {
        if id <= self.last_id {
            return false;
        }
        self.pass(log, id, 1);
        true
    }

    /// Moves the group forward to an id named by a client (XCLAIM's LASTID), over any number of
    /// entries; false if that is not forward. Stock servers leave the number of entries read
    /// behind, and report a lag that is not there.
    pub fn skip_to(&mut self, log: &Log, id: StreamId) -> bool {
        let Some(start) = self.last_id.next().filter(|start| *start <= id) else { return false };
        let passed = log.range(start, id).take(2).count() as u64;
        self.pass(log, id, passed);
        true
    }

    /// Moves the group forward to `id`, over `passed` entries if there are no more than one.
    fn pass(&mut self, log: &Log, id: StreamId, passed: u64) {
        // The count goes on only if all entries added after the last one delivered still exist:
        // none was deleted, and a trim has not come as far. Nor may the group skip entries to come.
        let intact = (log.first_id()..=log.last_id()).contains(&self.last_id)
            && id <= log.last_id()
            && passed <= 1
            && !log.has_tombstones(self.last_id, StreamId::MAX);
        match &mut self.entries_read {
            Some(count) if intact => *count = count.saturating_add(passed),
            _ if log.entries_added() > 0 => self.entries_read = log.entries_up_to(id),
            _ => (),
        }
        self.last_id = id;
    }

    /// Number of entries not yet delivered to the group; `None` if unknown. A group that received
    /// none of the existing entries lags by all of them, whatever `entries_read` was set to.
    pub fn lag(&self, log: &Log) -> Option<i64> {
        if log.is_empty() {
            return Some(0);
        }
        if self.last_id < log.first_id() && !log.has_tombstones(log.first_id(), StreamId::MAX) {
            return Some(log.len() as i64);
        }
        let read = match self.entries_read {
            Some(read) if !log.has_tombstones(self.last_id, StreamId::MAX) => read,
            _ => log.entries_up_to(self.last_id)?,
        };
        Some(log.entries_added().wrapping_sub(read) as i64)
    }

    // Loading.

    /// Adds a pending entry whose consumer is loaded later; false if the id is already pending.
    pub fn load_pending(&mut self, id: StreamId, delivery_time: i64, delivery_count: u64) -> bool {
        self.delivered_from = self.delivered_from.min(delivery_time);
        let pending = Pending { delivery_time, delivery_count, consumer: UNOWNED };
        self.pending.insert(id, pending).is_none()
    }

    /// Assigns a loaded pending entry to its consumer; false if the entry is missing or already
    /// has one.
    pub fn load_owner(&mut self, id: StreamId, owner: ConsumerId) -> bool {
        let unowned = self.pending.get_mut(&id).filter(|pending| pending.consumer == UNOWNED);
        let (Some(pending), Some(Some(consumer))) = (unowned, self.consumers.get_mut(owner.0 as usize))
        else {
            return false;
        };
        pending.consumer = owner;
        consumer.pending.insert(id, ()).is_none()
    }

    /// Ends the load of a group in which this many entries were released. False if the entries
    /// without a consumer are not as many; such a group must be refused.
    pub fn end_load(&mut self, released: usize) -> bool {
        if released > 0 {
            self.delivered_from = i64::MIN;
        }
        self.released_len() == released
    }

    /// Approximate number of bytes allocated.
    pub fn memory_bytes(&self) -> usize {
        // A name is stored twice, once in a node of the map by name.
        let consumer = |consumer: &CowBox<Consumer>| {
            size_class(CowBox::<Consumer>::bytes())
                + 2 * size_class(consumer.name.len())
                + 2 * size_of::<(Box<[u8]>, ConsumerId)>()
                + consumer.pending.memory_bytes()
        };
        self.pending.memory_bytes()
            + size_class(self.consumers.capacity() * size_of::<Option<CowBox<Consumer>>>())
            + self.consumers.iter().flatten().map(consumer).sum::<usize>()
    }
}

fn is_idle(pending: &Pending, now: i64, min_idle: i64) -> bool {
    min_idle <= 0 || pending.is_released() || now.saturating_sub(pending.delivery_time) >= min_idle
}

impl Log {
    /// True if an entry between these ids (inclusive) may have been deleted.
    pub fn has_tombstones(&self, start: StreamId, end: StreamId) -> bool {
        let deleted = self.max_deleted_id();
        if self.is_empty() || deleted == StreamId::MIN || self.first_id() > deleted {
            return false;
        }
        start <= deleted && deleted <= end
    }

    /// Number of entries ever added up to this id, if it is known in spite of deletions: for the
    /// last id, for the first entry, for any id before it, and for an empty stream.
    pub fn entries_up_to(&self, id: StreamId) -> Option<u64> {
        let added = self.entries_added();
        if added == 0 || (self.is_empty() && id <= self.last_id()) || id == self.last_id() {
            return Some(added);
        }
        if id > self.last_id() {
            return None;
        }
        let deleted = self.max_deleted_id();
        if deleted != StreamId::MIN && deleted >= self.first_id() {
            return None;
        }
        let before_first = added.checked_sub(self.len())?;
        match id.cmp(&self.first_id()) {
            std::cmp::Ordering::Less => Some(before_first),
            std::cmp::Ordering::Equal => Some(before_first + 1),
            std::cmp::Ordering::Greater => None,
        }
    }
}
