// SPDX-License-Identifier: BSD-3-Clause
//! A key: its value, its time to live, and the concurrent changes of other regions.
//!
//! Regions that write concurrently may give a key values of different types. The last type in a
//! fixed order shows, on every server. The others stay hidden until a write that saw them removes
//! them, since a removal may have seen only one of them.
//!
//! Likewise, a write that finds no key, or an expired one, first removes its remains.

use smallvec::SmallVec;

use crate::Text;
use crate::cell::{At, Cell, CellChange, Sides, Time, Times};
use crate::change::{Change, Kind, SeenAt, UnitWrite, Written};
use crate::ended::GivenTime;
use crate::lost::Lost;
use crate::plain::Plain;
use crate::rules::Rules;
use crate::stamp::Stamp;
use crate::stored::{Stored, load_len, store_len};
use crate::value::Value;

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Key {
    /// Ordered by type; nearly always one.
    values: SmallVec<[Value; 1]>,
    /// Absent for most keys.
    times: Option<Box<Times>>,
}

static NO_TIMES: Times = Times::none();

impl Key {
    /// A key with a string that has been written once.
    pub(crate) fn of_plain(plain: Plain<'_>) -> Key {
        let cell = Cell::written(plain.stamp, Text::from_slice(plain.value));
        let times = plain.time.map(|time| Box::new(Times::given(plain.stamp, time)));
        Key { values: SmallVec::from_buf([Value::String(cell)]), times }
    }

    /// The string, if it has been written once and any time of the key came from that write.
    pub(crate) fn as_plain(&self) -> Option<Plain<'_>> {
        let [Value::String(cell)] = &self.values[..] else { return None };
        let (stamp, value) = cell.plain()?;
        let time = match &self.times {
            None => None,
            Some(times) => Some(times.only().filter(|(giver, _)| *giver == stamp)?.1),
        };
        Some(Plain { stamp, time, value })
    }

    /// Stores the key that [`Key::of_plain`] would make.
    pub(crate) fn store_plain(plain: Plain<'_>, out: &mut Vec<u8>) {
        store_len(1, out);
        (Kind::String as u8).store(out);
        1_u8.store(out);
        store_len(plain.value.len(), out);
        out.extend_from_slice(plain.value);
        plain.stamp.store(out);
        // No more marks.
        0_u8.store(out);
        store_len(usize::from(plain.time.is_some()), out);
        if let Some(time) = plain.time {
            plain.stamp.store(out);
            Time::At(time).store(out);
        }
    }

    /// Takes a key that [`Key::store_plain`] has stored; `None`, without taking anything, for any
    /// other one.
    pub(crate) fn take_plain<'p>(from: &mut &'p [u8]) -> Option<Plain<'p>> {
        let mut rest = *from;
        let is_one_string = load_len(&mut rest)? == 1
            && u8::load(&mut rest)? == Kind::String as u8
            && u8::load(&mut rest)? == 1;
        if !is_one_string {
            return None;
        }
        let len = load_len(&mut rest)?;
        let value = rest.split_off(..len)?;
        let stamp = Stamp::load(&mut rest)?;
        if u8::load(&mut rest)? != 0 {
            return None;
        }
        let time = match load_len(&mut rest)? {
            0 => None,
            1 => match (Stamp::load(&mut rest)?, Time::load(&mut rest)?) {
                (giver, Time::At(time)) if giver == stamp => Some(time),
                _ => return None,
            },
            _ => return None,
        };
        *from = rest;
        Some(Plain { stamp, time, value })
    }

    /// The visible string, without its increments.
    pub(crate) fn text(&self) -> Option<&Text> {
        match self.value()? {
            Value::String(cell) => cell.base(),
            _ => None,
        }
    }

    /// Takes over `text` in place of an equal string.
    pub(crate) fn share(&mut self, text: &Text) {
        if let [Value::String(cell), ..] = &mut self.values[..] {
            cell.share(text);
        }
    }

    /// The value, if it is the only one and visible.
    pub(crate) fn only(&self) -> Option<&Value> {
        let [value] = &self.values[..] else { return None };
        value.is_live().then_some(value)
    }

    /// Prefetches the rare marks of a string.
    pub(crate) fn prefetch_marks(&self) {
        if let [Value::String(cell)] = &self.values[..] {
            cell.prefetch_marks();
        }
    }

    /// True if merging it takes some milliseconds.
    pub(crate) fn is_large(&self) -> bool {
        self.values.iter().any(Value::is_large)
    }

    pub(crate) fn has_times(&self) -> bool {
        self.times.is_some()
    }

    /// [`Value::write_plain`] on the only value.
    pub(crate) fn write_plain(&mut self, at: &At, change: &Change) -> bool {
        let [value] = &mut self.values[..] else { return false };
        value.write_plain(at, change)
    }

    /// [`Value::write`] on the only value, if it is visible.
    pub(crate) fn write(&mut self, at: &At, written: UnitWrite<'_>) -> Option<bool> {
        let [value] = &mut self.values[..] else { return None };
        // Times may become garbage with a new value of a string.
        let is_usual = value.is_live() && !(self.times.is_some() && matches!(written, Written::Sum(_)));
        if is_usual { value.write(at, written) } else { None }
    }

    /// The visible value.
    pub(crate) fn into_value(mut self) -> Option<Value> {
        let index = self.values.iter().rposition(Value::is_live)?;
        Some(self.values.swap_remove(index))
    }

    /// The types of the hidden values, one bit each.
    pub(crate) fn hidden(&self) -> u16 {
        if self.values.len() < 2 { 0 } else { self.losers().fold(0, |all, value| all | value.kind().bit()) }
    }

    /// The visible value, whether or not the key's time has passed.
    pub fn value(&self) -> Option<&Value> {
        self.values.iter().rfind(|value| value.is_live())
    }

    /// The values of all types.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Value> {
        self.values.iter()
    }

    /// The hidden live values.
    pub fn losers(&self) -> impl Iterator<Item = &Value> {
        let shown = self.value().map(Value::kind);
        self.values.iter().filter(move |value| Some(value.kind()) != shown && value.is_live())
    }

    /// True if nothing is left of the key.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.times.is_none()
    }

    fn times(&self) -> &Times {
        self.times.as_deref().unwrap_or(&NO_TIMES)
    }

    fn change_times(&mut self, change: impl FnOnce(&mut Times)) {
        change(self.times.get_or_insert_default());
        self.times.take_if(|times| times.is_empty());
    }

    /// The expiry time in Unix ms, with the stamp of the effect that gave it. A time given before
    /// the visible string was written does not apply.
    pub fn time(&self, rules: &Rules) -> Option<(Stamp, u64)> {
        match self.times().winner(self.floor(), rules) {
            Some((stamp, Time::At(time))) => Some((stamp, time)),
            _ => None,
        }
    }

    /// The time of a visible key, or of one of its elements.
    pub(crate) fn time_of(&self, element: Option<&[u8]>, rules: &Rules) -> Option<GivenTime> {
        let value = self.value()?;
        match element {
            None => self.time(rules),
            Some(element) => value.time_of(element, rules),
        }
    }

    fn floor(&self) -> Stamp {
        match self.value() {
            Some(Value::String(cell)) => cell.stamp().unwrap_or(Stamp::ZERO),
            _ => Stamp::ZERO,
        }
    }

    /// The increments that a removal has to list as seen.
    pub fn seen(&self) -> Vec<SeenAt> {
        self.values.iter().flat_map(Value::seen).collect()
    }

    /// Applies a change. Returns true if the changed part now holds garbage.
    pub fn apply(&mut self, at: &At, change: Change) -> bool {
        let mut has_garbage = false;
        let kind = change.kind();
        match change {
            Change::Remove { seen } => {
                self.remove(at, &seen);
                return self.has_garbage(at.rules);
            }
            Change::Clear { kind, seen } => {
                let loser = self.values.iter_mut().find(|value| value.kind() == kind);
                if let Some(loser) = loser {
                    loser.remove(at, &seen);
                    has_garbage = loser.has_garbage(at.rules);
                }
            }
            Change::Live(time) => self.change_times(|times| times.set(at, time)),
            change => {
                // The time of a string is the time of the key.
                let change = match change {
                    Change::String(CellChange::Put { value, time, seen }) => {
                        match time {
                            Some(time) => self.change_times(|times| times.set(at, Time::At(time))),
                            None => self.forget_times(at),
                        }
                        // The writer may have evicted values of other types, and so not know of
                        // them.
                        let others = self.values.iter_mut().filter(|value| value.kind() != Kind::String);
                        others.for_each(|value| value.remove(at, &[]));
                        Change::String(CellChange::Put { value, time: None, seen })
                    }
                    change => change,
                };
                if let Some(kind) = kind {
                    has_garbage = self.value_of(kind).apply(at, change);
                }
            }
        }
        self.compact(at.rules);
        has_garbage || self.times_have_garbage(at.rules)
    }

    fn value_of(&mut self, kind: Kind) -> &mut Value {
        let index = match self.values.binary_search_by_key(&kind, Value::kind) {
            Ok(index) => index,
            Err(index) => {
                self.values.insert(index, Value::new(kind));
                index
            }
        };
        &mut self.values[index]
    }

    fn compact(&mut self, rules: &Rules) {
        self.values.retain(|value| !value.is_empty());
        if !rules.keeps_losing_types {
            let shown = self.value().map(Value::kind);
            self.values.retain(|value| Some(value.kind()) == shown);
        }
    }

    fn forget_times(&mut self, at: &At) {
        if self.times.is_some() {
            self.change_times(|times| times.remove(at));
        }
    }

    /// Removes everything that the effect saw.
    pub fn remove(&mut self, at: &At, seen: &[SeenAt]) {
        self.values.iter_mut().for_each(|value| value.remove(at, seen));
        self.forget_times(at);
        self.compact(at.rules);
    }

    /// Visits the stamps of everything but increments and times.
    pub(crate) fn each_stamp(&self, note: &mut dyn FnMut(Stamp)) {
        self.values.iter().for_each(|value| value.each_stamp(note));
    }

    /// Drops the parts that an evicted key does not keep, and adds their stamps to `lost`.
    pub(crate) fn strip(&mut self, lost: &mut Lost) {
        self.values.iter_mut().for_each(|value| value.strip(lost));
        self.values.retain(|value| !value.is_empty());
    }

    /// True if the visible value is a string older than a stamp.
    pub(crate) fn is_older(&self, than: Stamp) -> bool {
        matches!(self.value(), Some(Value::String(cell)) if cell.stamp().is_some_and(|stamp| stamp < than))
    }

    pub fn merge(&mut self, theirs: &Key, sides: &Sides) {
        for kind in Kind::ALL {
            let find = |key: &Key| key.values.iter().position(|value| value.kind() == kind);
            match (find(self), find(theirs)) {
                (None, None) => {}
                (Some(index), None) => self.values[index].merge(&Value::new(kind), sides),
                (_, Some(index)) => self.value_of(kind).merge(&theirs.values[index], sides),
            }
        }
        if self.times.is_some() || theirs.times.is_some() {
            // An evicted key keeps its times, even a time that came with a value it has lost.
            let sides = &Sides { lost: &Lost::none(), ..*sides };
            self.change_times(|times| times.merge(theirs.times(), sides));
        }
        self.compact(sides.rules);
    }

    /// Which times apply depends on the visible value, so none is dropped while a value is
    /// hidden.
    fn times_have_garbage(&self, rules: &Rules) -> bool {
        self.values.len() <= 1 && self.times().has_garbage(self.value().is_some(), self.floor(), rules)
    }

    /// True if the key holds invisible state that can be dropped once every region has
    /// acknowledged it. Hidden values of other types are not garbage.
    pub fn has_garbage(&self, rules: &Rules) -> bool {
        self.times_have_garbage(rules) || self.values_have_garbage(rules)
    }

    /// The same for a key with an evicted part: all its times count, whatever is left of its
    /// value.
    pub(crate) fn values_have_garbage(&self, rules: &Rules) -> bool {
        self.values.iter().any(|value| value.has_garbage(rules))
    }

    /// Drops that garbage.
    pub(crate) fn collect_garbage_of_values(&mut self, rules: &Rules) {
        for value in &mut self.values {
            value.collect_garbage(rules);
        }
        self.values.retain(|value| !value.is_empty());
    }

    /// Drops the forgotten tallies that `is_over` says no region adds to.
    pub(crate) fn drop_tallies(&mut self, is_over: &dyn Fn(Stamp) -> bool) {
        self.values.iter_mut().for_each(|value| value.drop_tallies(is_over));
        self.values.retain(|value| !value.is_empty());
    }

    /// Drops all garbage, and returns the number of dropped items.
    pub fn collect_garbage(&mut self, rules: &Rules) -> usize {
        let mut dropped = self.values.iter_mut().map(|value| value.collect_garbage(rules)).sum();
        self.compact(rules);
        if self.times_have_garbage(rules) {
            let (is_live, floor) = (self.value().is_some(), self.floor());
            self.change_times(|times| times.collect_garbage(is_live, floor, rules));
            dropped += 1;
        }
        dropped
    }
}

impl Stored for Key {
    fn store(&self, out: &mut Vec<u8>) {
        store_len(self.values.len(), out);
        self.values.iter().for_each(|value| value.store(out));
        self.times().store(out);
    }

    fn load(from: &mut &[u8]) -> Option<Self> {
        let values: SmallVec<[Value; 1]> =
            (0..load_len(from)?).map(|_| Value::load(from)).collect::<Option<_>>()?;
        if !values.is_sorted_by(|one, next| one.kind() < next.kind()) {
            return None;
        }
        let times = Some(Box::new(Times::load(from)?)).filter(|times| !times.is_empty());
        Some(Key { values, times })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_small() {
        assert!((size_of::<Value>(), size_of::<Key>()) <= (40, 64));
    }

    #[test]
    fn plain_strings_are_stored_as_keys_are() {
        for (value, time) in [(&b"text"[..], None), (b"", Some(1_800_000_000_000))] {
            let plain = Plain { stamp: Stamp::ZERO.plus(77), time, value };
            let (mut one, mut other) = (Vec::new(), Vec::new());
            Key::store_plain(plain, &mut one);
            let key = Key::of_plain(plain);
            key.store(&mut other);
            assert_eq!(one, other);
            assert_eq!(Key::load(&mut &one[..]).as_ref().and_then(Key::as_plain), Some(plain));
            let mut left = &one[..];
            assert_eq!((Key::take_plain(&mut left), left), (Some(plain), &b""[..]));
            for end in 0..one.len() {
                let mut left = &one[..end];
                assert_eq!((Key::take_plain(&mut left), left.len()), (None, end));
            }
        }
    }
}
