// SPDX-License-Identifier: BSD-3-Clause
//! Records of keys that the keyspace has evicted. Eviction is local: it removes nothing on other
//! servers, and no effect reports it.
//!
//! An evicted key leaves only a [`Mark`], so that its memory is freed: the stamps of the values
//! lost here, and a small *rest*. The rest has the key's times and the increments of numbers,
//! since a later write must state which of those it saw; a number is kept whole. The mark of an
//! ordinary string takes eleven bytes in addition to the name.
//!
//! Clients do not see a key with a hidden mark:
//!
//! - A peer's write to a part of it (a field, a push, a member) is lost as well: the key stays
//!   hidden rather than show a part as if it were the whole. A whole string becomes visible if it
//!   is later than the lost values. A removal elsewhere ends the mark. A number returns whole
//!   with a peer's next increment.
//! - A client here finds no key. It then sees only its own writes, as on a standalone server,
//!   while peers add them to the value they have; `SET` replaces that value. The mark stays as
//!   long as anything is lost. A number is known completely, so the keyspace gets the true sum
//!   ([`crate::Replica::take_revived`]). DEL finds nothing, and so removes nothing elsewhere.
//!   FLUSHALL removes the key everywhere.
//! - This region still ends the key if it gave the time: the time is in the rest.
//!
//! A full copy contains the marks. A value that the copy's sender may have lost does not count as
//! removed, and the receiver takes over the marks of values it had not heard of. Values that the
//! receiver itself has lost do not come back. Of a collection only the latest stamp of each run
//! is kept, so a part that was removed before the eviction may survive a full copy that would
//! otherwise have shown its removal.
//!
//! Marks are bounded. A mark ends when the key is written or removed as a whole, by any server or
//! by its time. Two servers may both have evicted a key that is never written again, so the
//! oldest of too many marks are dropped ([`crate::keys::Keys::limit_marks`]). The latest stamp of
//! the dropped marks is kept as the *horizon*: a value that is not later than it does not count
//! as removed by a copy either. Marks with increments or times stay.

use std::collections::hash_map::RandomState;

use crate::key::Key;
use crate::lost::Lost;
use crate::plain::{Plain, Plains};
use crate::stamp::Stamp;
use crate::stored::{Stored, load_len, store_len};

/// Flags in the first byte of a packed mark.
const EXACT: u8 = 1;
const HIDDEN: u8 = 2;
const REST: u8 = 4;
/// Any number of stamps other than one.
const MORE: u8 = 8;

/// The remains of an evicted key.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Mark {
    pub lost: Lost,
    /// True until the key is written here again; then it is an ordinary key as well.
    pub is_hidden: bool,
    /// Only a hidden mark has one.
    pub rest: Key,
}

impl Mark {
    /// True if the mark carries no information.
    fn is_spare(&self) -> bool {
        self.lost.is_empty() && (!self.is_hidden || self.rest.is_empty())
    }

    fn pack(&self) -> (Stamp, Vec<u8>) {
        let has_more = self.lost.stamps().len() != 1;
        let has_rest = !self.rest.is_empty();
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let flags = bit(self.lost.is_exact(), EXACT) | bit(self.is_hidden, HIDDEN);
        let mut bytes = vec![flags | bit(has_rest, REST) | bit(has_more, MORE)];
        if has_more {
            store_len(self.lost.stamps().len(), &mut bytes);
            self.lost.stamps().iter().for_each(|stamp| stamp.store(&mut bytes));
        }
        if has_rest {
            self.rest.store(&mut bytes);
        }
        (self.lost.latest(), bytes)
    }

    fn unpack(latest: Stamp, mut bytes: &[u8]) -> Option<Mark> {
        let from = &mut bytes;
        let flags = u8::load(from)?;
        let has = |bit: u8| flags & bit != 0;
        let stamps = match has(MORE) {
            true => (0..load_len(from)?).map(|_| Stamp::load(from)).collect::<Option<_>>()?,
            false => vec![latest],
        };
        let rest = if has(REST) { Key::load(from)? } else { Key::default() };
        Some(Mark { lost: Lost::of(stamps, has(EXACT)), is_hidden: has(HIDDEN), rest })
    }

    fn of(plain: Plain<'_>) -> Option<Mark> {
        Mark::unpack(plain.stamp, plain.value)
    }
}

impl Stored for Mark {
    fn store(&self, out: &mut Vec<u8>) {
        let (latest, bytes) = self.pack();
        latest.store(out);
        bytes.into_boxed_slice().store(out);
    }

    fn load(from: &mut &[u8]) -> Option<Self> {
        let (latest, bytes) = (Stamp::load(from)?, crate::Bytes::load(from)?);
        Mark::unpack(latest, &bytes)
    }
}

/// The marks of a database, in buckets like plain strings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks(Plains);

impl Marks {
    pub fn new(hasher: RandomState) -> Marks {
        Marks(Plains::new(hasher))
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn has(&self, name: &[u8]) -> bool {
        !self.is_empty() && self.0.get(name).is_some()
    }

    pub fn get(&self, name: &[u8]) -> Option<Mark> {
        if self.is_empty() { None } else { self.0.get(name).and_then(Mark::of) }
    }

    /// Sets the mark of a key. A mark without information is removed.
    pub fn set(&mut self, name: &[u8], mark: &Mark) {
        if mark.is_spare() {
            self.0.remove(name);
            return;
        }
        let (stamp, bytes) = mark.pack();
        self.0.put(name, Plain { stamp, time: None, value: &bytes });
    }

    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|(name, _)| name)
    }

    /// The marks that have a rest.
    pub fn with_rest(&self) -> impl Iterator<Item = (&[u8], Mark)> {
        let has_rest = |plain: &Plain<'_>| plain.value.first().is_some_and(|flags| flags & REST != 0);
        let some = self.0.iter().filter(move |(_, plain)| has_rest(plain));
        some.filter_map(|(name, plain)| Some((name, Mark::of(plain)?)))
    }

    pub fn buckets(&self) -> usize {
        self.0.buckets()
    }

    pub fn bucket_among(&self, name: &[u8], buckets: usize) -> usize {
        self.0.bucket_among(name, buckets)
    }

    /// The present marks of the names that were in `bucket` when there were `then` buckets.
    pub fn of_bucket(&self, bucket: usize, then: usize) -> impl Iterator<Item = (&[u8], Mark)> {
        self.0.of_bucket(bucket, then).filter_map(|(name, plain)| Some((name, Mark::of(plain)?)))
    }

    /// The names of the present marks that are in `bucket` if there are `among` buckets.
    pub fn of_part(&self, bucket: usize, among: usize) -> impl Iterator<Item = &[u8]> {
        self.0.of_part(bucket, among).map(|(name, _)| name)
    }

    /// Drops marks without a rest whose latest stamp is not after `horizon`.
    pub fn drop_until(&mut self, horizon: Stamp) {
        let keeps = |plain: &Plain<'_>| {
            plain.stamp > horizon || plain.value.first().is_none_or(|flags| flags & REST != 0)
        };
        self.0.retain(|_, plain| keeps(&plain));
    }

    /// The latest stamps of droppable marks among the first `most` marks.
    pub fn sample(&self, most: usize) -> impl Iterator<Item = Stamp> {
        let droppable = |plain: &Plain<'_>| plain.value.first().is_some_and(|flags| flags & REST == 0);
        self.0.iter().take(most).filter(move |(_, plain)| droppable(plain)).map(|(_, plain)| plain.stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::Region;

    fn stamp(region: u8, position: u64) -> Stamp {
        Stamp::of(Region::new(region).unwrap(), position).unwrap()
    }

    #[test]
    fn marks_round_trip_in_compact_form() {
        let mut marks = Marks::new(RandomState::new());
        let mut one = Mark { is_hidden: true, ..Mark::default() };
        one.lost.add([stamp(1, 7)], true);
        assert_eq!(one.pack().1.len(), 1);
        let mut other = Mark::default();
        for position in 1..5 {
            other.lost.add([stamp(1, position), stamp(2, position)], false);
        }
        other.lost.shorten(|stamp| Some(Stamp::start(stamp.region())));
        assert_eq!(other.lost.stamps(), [stamp(1, 4), stamp(2, 4)]);
        assert!(other.lost.may_have(stamp(2, 3)) && !other.lost.may_have(stamp(2, 5)));
        for (name, mark) in [(&b"one"[..], &one), (b"other", &other)] {
            marks.set(name, mark);
            assert_eq!(marks.get(name).as_ref(), Some(mark));
            let mut bytes = Vec::new();
            mark.store(&mut bytes);
            assert_eq!(Mark::load(&mut &bytes[..]).as_ref(), Some(mark));
        }
        marks.drop_until(stamp(1, 7));
        assert!(marks.is_empty());
    }
}
