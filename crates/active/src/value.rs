// SPDX-License-Identifier: BSD-3-Clause
//! A value of one type with its marks, and the operations common to all types.

use crate::cell::{At, Cell, CellChange, Sides};
use crate::change::{Change, Kind, SeenAt, UnitWrite, Written};
use crate::ended::{EndedOfKey, GivenTime};
use crate::hash::Hash;
use crate::hyperloglog::HyperLogLog;
use crate::list::List;
use crate::lost::Lost;
use crate::rules::Rules;
use crate::set::Set;
use crate::sorted_set::SortedSet;
use crate::stamp::Stamp;
use crate::stored::Stored;
use crate::stream::Stream;
use crate::tally::SeenTally;
use crate::vector::Seen;
use crate::{Bytes, Text};

/// A longer text is not a number.
const NUMBER_MAX: usize = 64;

#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    String(Cell<Text>),
    HyperLogLog(HyperLogLog),
    List(List),
    Set(Set),
    Hash(Hash),
    /// JSON documents and vector sets, see [`crate::parts`].
    Parts(Kind, Hash),
    SortedSet(SortedSet),
    /// The rarest and largest type.
    Stream(Box<Stream>),
}

impl Value {
    pub fn new(kind: Kind) -> Value {
        match kind {
            Kind::String => Value::String(Cell::default()),
            Kind::HyperLogLog => Value::HyperLogLog(HyperLogLog::default()),
            Kind::List => Value::List(List::default()),
            Kind::Set => Value::Set(Set::default()),
            Kind::Hash => Value::Hash(Hash::default()),
            Kind::SortedSet => Value::SortedSet(SortedSet::default()),
            Kind::Stream => Value::Stream(Box::default()),
            Kind::Json | Kind::VectorSet => Value::Parts(kind, Hash::default()),
        }
    }

    pub fn kind(&self) -> Kind {
        match self {
            Value::String(_) => Kind::String,
            Value::HyperLogLog(_) => Kind::HyperLogLog,
            Value::List(_) => Kind::List,
            Value::Set(_) => Kind::Set,
            Value::Hash(_) => Kind::Hash,
            Value::Parts(kind, _) => *kind,
            Value::SortedSet(_) => Kind::SortedSet,
            Value::Stream(_) => Kind::Stream,
        }
    }

    /// True if the value is visible, whether or not its time has passed.
    pub fn is_live(&self) -> bool {
        match self {
            Value::String(cell) => cell.is_live(),
            Value::HyperLogLog(value) => !value.is_empty(),
            Value::List(list) => !list.is_empty(),
            Value::Set(set) => set.is_live(),
            Value::Hash(hash) | Value::Parts(_, hash) => hash.is_live(),
            Value::SortedSet(set) => set.is_live(),
            Value::Stream(stream) => stream.is_live(),
        }
    }

    /// True if the value is visible without the elements that the keyspace has ended.
    pub(crate) fn is_visible_without(&self, ended: &EndedOfKey) -> bool {
        let shows = |element: &[u8]| !ended.has(element);
        match self {
            _ if ended.is_whole() => false,
            Value::Set(set) => set.any_shows(shows),
            Value::Hash(hash) => hash.any_shows(shows),
            Value::SortedSet(set) => set.any_shows(shows),
            other => other.is_live(),
        }
    }

    /// The time of a live element, if it has one.
    pub(crate) fn time_of(&self, element: &[u8], rules: &Rules) -> Option<GivenTime> {
        match self {
            Value::Hash(hash) => hash.get(element).filter(Cell::is_live)?.time(rules),
            Value::Set(set) => set.get(element).filter(Cell::is_live)?.time(rules),
            Value::SortedSet(set) => set.get(element).filter(Cell::is_live)?.time(rules),
            _ => None,
        }
    }

    /// True if it has a live element, whether or not its time has passed.
    pub(crate) fn has(&self, element: &[u8]) -> bool {
        match self {
            Value::Hash(hash) | Value::Parts(_, hash) => hash.get(element).is_some_and(|cell| cell.is_live()),
            Value::Set(set) => set.get(element).is_some_and(|cell| cell.is_live()),
            Value::SortedSet(set) => set.get(element).is_some_and(|cell| cell.is_live()),
            _ => false,
        }
    }

    /// True if nothing is left of it.
    pub fn is_empty(&self) -> bool {
        match self {
            Value::String(cell) => cell.is_empty(),
            Value::HyperLogLog(value) => value.is_empty(),
            Value::List(list) => list.is_empty(),
            Value::Set(set) => set.is_empty(),
            Value::Hash(hash) | Value::Parts(_, hash) => hash.is_empty(),
            Value::SortedSet(set) => set.is_empty(),
            Value::Stream(stream) => stream.is_empty(),
        }
    }

    /// True if it has so many elements that merging it takes some milliseconds.
    pub(crate) fn is_large(&self) -> bool {
        match self {
            Value::String(_) | Value::HyperLogLog(_) => false,
            Value::List(list) => list.is_large(),
            Value::Set(set) => set.is_large(),
            Value::Hash(hash) | Value::Parts(_, hash) => hash.is_large(),
            Value::SortedSet(set) => set.is_large(),
            Value::Stream(stream) => stream.is_large(),
        }
    }

    /// Visits the stamps of everything but increments.
    pub(crate) fn each_stamp(&self, note: &mut dyn FnMut(Stamp)) {
        match self {
            Value::String(cell) => cell.each_stamp(note),
            Value::HyperLogLog(value) => value.each_stamp(note),
            Value::List(list) => list.each_stamp(note),
            Value::Set(set) => set.each_stamp(note),
            Value::Hash(hash) | Value::Parts(_, hash) => hash.each_stamp(note),
            Value::SortedSet(set) => set.each_stamp(note),
            Value::Stream(stream) => stream.each_stamp(note),
        }
    }

    /// Drops the parts that an evicted key does not keep, and adds their stamps to `lost`. A
    /// number is kept.
    pub(crate) fn strip(&mut self, lost: &mut Lost) {
        let is_string = matches!(self, Value::String(_));
        if let Value::String(cell) = self
            && !cell.tallies().is_empty()
            && cell.base().is_none_or(|base| base.len() <= NUMBER_MAX)
        {
            return;
        }
        let mut stamps = Vec::new();
        self.each_stamp(&mut |stamp| stamps.push(stamp));
        lost.add(stamps, is_string);
        *self = match std::mem::replace(self, Value::new(Kind::Set)) {
            Value::String(cell) => Value::String(cell.into_tallies()),
            Value::Hash(hash) => Value::Hash(hash.only_tallies()),
            Value::Parts(kind, hash) => Value::Parts(kind, hash.only_tallies()),
            Value::SortedSet(set) => Value::SortedSet(set.only_tallies()),
            other => Value::new(other.kind()),
        };
    }

    /// The increments that a removal has to list as seen.
    pub fn seen(&self) -> Vec<SeenAt> {
        let kind = self.kind();
        let at = |element: &Bytes, tally| SeenAt { kind, element: element.clone(), tally };
        match self {
            Value::String(cell) => {
                let none = Bytes::default();
                cell.seen().into_iter().map(|tally| at(&none, tally)).collect()
            }
            Value::Hash(hash) | Value::Parts(_, hash) => {
                let all = hash.iter_marked().map(|(field, cell)| (field, cell.seen()));
                all.flat_map(|(field, seen)| seen.into_iter().map(move |tally| at(&field, tally))).collect()
            }
            Value::SortedSet(set) => {
                let all = set.iter_marked().map(|(member, cell)| (member, cell.seen()));
                all.flat_map(|(member, seen)| seen.into_iter().map(move |tally| at(&member, tally))).collect()
            }
            _ => Vec::new(),
        }
    }

    /// True if a change that has seen `seen` replaces everything there is of an element, or
    /// increments a visible string.
    pub(crate) fn is_replaced(&self, change: &Change, seen: &Seen) -> bool {
        match (self, change) {
            (Value::Hash(hash), Change::Hash(field, _)) => hash.is_replaced(field, seen),
            (Value::Set(set), Change::Set(member, _)) => set.is_replaced(member, seen),
            (Value::SortedSet(set), Change::SortedSet(member, _)) => set.is_replaced(member, seen),
            (Value::String(_), Change::String(CellChange::Add(_))) => true,
            _ => false,
        }
    }

    /// Writes an element that does not exist, or has a plain value that the write replaces: the
    /// fast path of [`Value::apply`]. Returns false, and changes nothing, in any other case.
    pub(crate) fn write_plain(&mut self, at: &At, change: &Change) -> bool {
        match (self, change) {
            (Value::Hash(hash), Change::Hash(field, change)) => {
                change.written().is_some_and(|value| hash.write_plain(at, field, value))
            }
            (Value::Parts(kind, parts), Change::Part(of, part, change)) if kind == of => {
                change.written().is_some_and(|value| parts.write_plain(at, part, value))
            }
            (Value::Set(set), Change::Set(member, change)) => {
                change.written().is_some_and(|value| set.write_plain(at, member, value))
            }
            (Value::SortedSet(set), Change::SortedSet(member, change)) => {
                change.written().is_some_and(|value| set.write_plain(at, member, value))
            }
            _ => false,
        }
    }

    /// The change of a plain write: increments a string; or writes an element that does not
    /// exist, or has a plain value that the write replaces. Returns whether the changed part now
    /// holds garbage, as [`Value::apply`] does; `None`, with nothing changed, in any other case.
    pub(crate) fn write(&mut self, at: &At, written: UnitWrite<'_>) -> Option<bool> {
        let is_written = match (self, written) {
            (Value::String(cell), Written::Sum(sum)) => return Some(cell.apply(at, CellChange::Add(sum))),
            (Value::Hash(hash), Written::Field(field, value)) => hash.write_packed(at, field, value),
            (Value::Set(set), Written::Member(member)) => set.write_packed(at, member, b""),
            (Value::SortedSet(set), Written::Score(member, score)) => set.write_plain(at, member, &score),
            _ => false,
        };
        is_written.then_some(false)
    }

    /// Applies a change of the value's type. Returns true if the changed part now holds garbage.
    pub fn apply(&mut self, at: &At, change: Change) -> bool {
        match (self, change) {
            (Value::String(cell), Change::String(change)) => cell.apply(at, change),
            (Value::HyperLogLog(value), Change::Count(registers)) => value.apply(at, &registers),
            (Value::List(list), Change::Push { side, values }) => {
                list.push(at, side, values);
                false
            }
            (Value::List(list), Change::Element(place, change)) => list.apply(at, &place, change),
            (Value::Set(set), Change::Set(member, change)) => set.apply(at, member, change),
            (Value::Hash(hash), Change::Hash(field, change))
            | (Value::Parts(_, hash), Change::Part(_, field, change)) => hash.apply(at, field, change),
            (Value::SortedSet(set), Change::SortedSet(member, change)) => set.apply(at, member, change),
            (Value::Stream(stream), Change::Stream(change)) => stream.apply(at, change),
            (value, change) => unreachable!("{change:?} does not apply to {:?}", value.kind()),
        }
    }

    /// Removes everything that the effect saw.
    pub fn remove(&mut self, at: &At, seen: &[SeenAt]) {
        let kind = self.kind();
        let of_elements = || {
            let own = seen.iter().filter(move |one| one.kind == kind);
            own.map(|one| (&one.element, one.tally))
        };
        match self {
            Value::String(cell) => {
                let seen: Vec<SeenTally> = of_elements().map(|(_, tally)| tally).collect();
                cell.remove(at, &seen);
            }
            Value::HyperLogLog(value) => value.remove_all(at),
            Value::List(list) => list.remove_all(at),
            Value::Set(set) => set.remove_all(at, of_elements()),
            Value::Hash(hash) | Value::Parts(_, hash) => hash.remove_all(at, of_elements()),
            Value::SortedSet(set) => set.remove_all(at, of_elements()),
            Value::Stream(stream) => stream.remove_all(at),
        }
    }

    /// Merges another replica's value of the same type.
    pub fn merge(&mut self, theirs: &Value, sides: &Sides) {
        match (self, theirs) {
            (Value::String(mine), Value::String(theirs)) => mine.merge(theirs, sides),
            (Value::HyperLogLog(mine), Value::HyperLogLog(theirs)) => mine.merge(theirs, sides),
            (Value::List(mine), Value::List(theirs)) => mine.merge(theirs, sides),
            (Value::Set(mine), Value::Set(theirs)) => mine.merge(theirs, sides),
            (Value::Hash(mine), Value::Hash(theirs)) | (Value::Parts(_, mine), Value::Parts(_, theirs)) => {
                mine.merge(theirs, sides);
            }
            (Value::SortedSet(mine), Value::SortedSet(theirs)) => mine.merge(theirs, sides),
            (Value::Stream(mine), Value::Stream(theirs)) => mine.merge(theirs, sides),
            (mine, theirs) => unreachable!("{:?} cannot merge {:?}", mine.kind(), theirs.kind()),
        }
    }

    pub fn has_garbage(&self, rules: &Rules) -> bool {
        match self {
            Value::String(cell) => cell.has_garbage(rules),
            Value::HyperLogLog(value) => value.has_garbage(),
            Value::List(list) => list.has_garbage(rules),
            Value::Set(set) => set.has_garbage(rules),
            Value::Hash(hash) | Value::Parts(_, hash) => hash.has_garbage(rules),
            Value::SortedSet(set) => set.has_garbage(rules),
            Value::Stream(stream) => stream.has_garbage(rules),
        }
    }

    /// Drops the forgotten tallies that `is_over` says no region adds to.
    pub(crate) fn drop_tallies(&mut self, is_over: &dyn Fn(Stamp) -> bool) {
        match self {
            Value::String(cell) => cell.drop_tallies(is_over),
            Value::Hash(hash) | Value::Parts(_, hash) => hash.drop_tallies(is_over),
            Value::SortedSet(set) => set.drop_tallies(is_over),
            // The others have no numbers.
            Value::HyperLogLog(_) | Value::List(_) | Value::Set(_) | Value::Stream(_) => {}
        }
    }

    pub fn collect_garbage(&mut self, rules: &Rules) -> usize {
        match self {
            Value::String(cell) => cell.collect_garbage(rules),
            Value::HyperLogLog(value) => value.collect_garbage(),
            Value::List(list) => list.collect_garbage(rules),
            Value::Set(set) => set.collect_garbage(rules),
            Value::Hash(hash) | Value::Parts(_, hash) => hash.collect_garbage(rules),
            Value::SortedSet(set) => set.collect_garbage(rules),
            Value::Stream(stream) => stream.collect_garbage(rules),
        }
    }
}

impl Stored for Value {
    fn store(&self, out: &mut Vec<u8>) {
        (self.kind() as u8).store(out);
        match self {
            Value::String(cell) => cell.store(out),
            Value::HyperLogLog(value) => value.store(out),
            Value::List(list) => list.store(out),
            Value::Set(set) => set.store(out),
            Value::Hash(hash) | Value::Parts(_, hash) => hash.store(out),
            Value::SortedSet(set) => set.store(out),
            Value::Stream(stream) => stream.store(out),
        }
    }

    fn load(from: &mut &[u8]) -> Option<Self> {
        let kind = usize::from(u8::load(from)?);
        Some(match Kind::ALL.get(kind)? {
            Kind::String => Value::String(Stored::load(from)?),
            Kind::HyperLogLog => Value::HyperLogLog(Stored::load(from)?),
            Kind::List => Value::List(Stored::load(from)?),
            Kind::Set => Value::Set(Stored::load(from)?),
            Kind::Hash => Value::Hash(Stored::load(from)?),
            Kind::SortedSet => Value::SortedSet(Stored::load(from)?),
            Kind::Stream => Value::Stream(Stored::load(from)?),
            kind @ (Kind::Json | Kind::VectorSet) => Value::Parts(*kind, Stored::load(from)?),
        })
    }
}
