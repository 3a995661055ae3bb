// SPDX-License-Identifier: BSD-3-Clause
//! The client-visible state of a key, without marks, and its digest. Regions that have applied
//! the same effects have equal digests.

use braid_base::hash::KeyHasher;

use crate::Bytes;
use crate::cell::Cell;
use crate::change::Kind;
use crate::ended::{EndedOfKey, GivenTime};
use crate::key::Key;
use crate::position::Position;
use crate::rules::Rules;
use crate::stream::{Fields, GroupView, Id};
use crate::value::Value;
use crate::{Parts, parts};
use crate::{sorted_set, string, vector_set};

/// An expiry time, in ms of Unix time.
pub type Until = Option<u64>;

/// A key's visible value and its expiry time; `None` if the key does not exist.
pub type Shown = Option<(View, Until)>;

#[derive(Clone, PartialEq, Debug)]
pub enum View {
    String(Bytes),
    /// The non-zero registers, with their ranks.
    HyperLogLog(Vec<(u16, u8)>),
    List(Vec<Bytes>),
    Set(Vec<(Bytes, Until)>),
    Hash(Vec<(Bytes, Bytes, Until)>),
    SortedSet(Vec<(Bytes, f64, Until)>),
    /// A value of this type that consists of parts.
    Parts(Kind, Parts),
    Stream {
        entries: Vec<(Id, Fields)>,
        last: Id,
        groups: Vec<(Bytes, GroupView)>,
    },
}

impl View {
    pub fn kind(&self) -> Kind {
        match self {
            View::String(_) => Kind::String,
            View::HyperLogLog(_) => Kind::HyperLogLog,
            View::List(_) => Kind::List,
            View::Set(_) => Kind::Set,
            View::Hash(_) => Kind::Hash,
            View::SortedSet(_) => Kind::SortedSet,
            View::Stream { .. } => Kind::Stream,
            View::Parts(kind, _) => *kind,
        }
    }

    /// The whole visible value, whether or not its time has passed.
    pub fn new(value: &Value, rules: &Rules) -> View {
        View::beside(value, None, rules)
    }

    /// The visible value without the elements that the keyspace has ended.
    pub(crate) fn beside(value: &Value, ended: Option<&EndedOfKey>, rules: &Rules) -> View {
        let shows = |element: &Bytes| ended.is_none_or(|ended| !ended.has(element));
        match value {
            Value::String(cell) => View::String(string::shown(cell).unwrap_or_default()),
            Value::HyperLogLog(value) => View::HyperLogLog(value.registers()),
            Value::List(list) => View::List(list.values().cloned().collect()),
            Value::Set(set) => {
                let all = set.iter().filter(|(member, _)| shows(member));
                View::Set(all.filter_map(|(member, cell)| member_of(member, &cell, rules)).collect())
            }
            Value::Hash(hash) => {
                let all = hash.iter().filter(|(field, _)| shows(field));
                View::Hash(all.filter_map(|(field, cell)| field_of(field, &cell, rules)).collect())
            }
            Value::Parts(kind, all) => View::Parts(*kind, parts::visible(*kind, all)),
            Value::SortedSet(set) => {
                let all = set.iter().filter(|(member, _)| shows(member));
                View::SortedSet(all.filter_map(|(member, cell)| scored_of(member, &cell, rules)).collect())
            }
            Value::Stream(stream) => View::Stream {
                entries: stream.entries().map(|(id, fields)| (id, fields.clone())).collect(),
                last: stream.last_id(),
                groups: stream
                    .group_names()
                    .filter_map(|name| Some((name.clone(), stream.group(name)?)))
                    .collect(),
            },
        }
    }

    /// The visible ones of the given parts. A value that has no parts is shown whole.
    pub(crate) fn of_parts<'a>(
        value: &Value,
        parts: impl Iterator<Item = &'a Part>,
        ended: Option<&EndedOfKey>,
        rules: &Rules,
    ) -> View {
        let element = |part: &'a Part| match part {
            Part::Element(element) if ended.is_none_or(|ended| !ended.has(element)) => Some(element),
            _ => None,
        };
        match value {
            Value::Set(set) => {
                let elements = parts.filter_map(element);
                View::Set(elements.filter_map(|one| member_of(one.clone(), &set.get(one)?, rules)).collect())
            }
            Value::Hash(hash) => {
                let elements = parts.filter_map(element);
                View::Hash(elements.filter_map(|one| field_of(one.clone(), &hash.get(one)?, rules)).collect())
            }
            Value::SortedSet(set) => {
                let elements = parts.filter_map(element);
                View::SortedSet(
                    elements.filter_map(|one| scored_of(one.clone(), &set.get(one)?, rules)).collect(),
                )
            }
            Value::Parts(Kind::VectorSet, all) => {
                let part = |name: &Bytes| Some((name.clone(), string::shown(&all.get(name)?)?));
                let some = parts.filter_map(element).filter_map(part);
                let shown = parts::shape(all).map(|shape| vector_set::visible_of(shape, some));
                View::Parts(Kind::VectorSet, shown.unwrap_or_default())
            }
            Value::Stream(stream) => {
                let (mut entries, mut groups) = (Vec::new(), Vec::new());
                for part in parts {
                    match part {
                        Part::Entry(id) => {
                            entries.extend(stream.entry(*id).map(|fields| (*id, fields.clone())));
                        }
                        Part::Group(name) => {
                            groups.extend(stream.group(name).map(|group| (name.clone(), group)));
                        }
                        Part::Element(_) | Part::Item(_) => {}
                    }
                }
                View::Stream { entries, last: stream.last_id(), groups }
            }
            // A list's parts are places, which have no view.
            Value::List(_) => View::List(Vec::new()),
            other => View::new(other, rules),
        }
    }

    /// Adds the parts of another view of the same type. State of the whole value is kept.
    pub(crate) fn append(&mut self, other: View) {
        match (self, other) {
            (View::Set(all), View::Set(more)) => all.extend(more),
            (View::Hash(all), View::Hash(more)) => all.extend(more),
            (View::SortedSet(all), View::SortedSet(more)) => all.extend(more),
            // The shape comes first in both.
            (View::Parts(_, all), View::Parts(_, more)) => {
                let known = usize::from(!all.is_empty());
                all.extend(more.into_iter().skip(known));
            }
            (
                View::Stream { entries: all, groups: all_groups, .. },
                View::Stream { entries: more, groups: more_groups, .. },
            ) => {
                all.extend(more);
                all_groups.extend(more_groups);
            }
            _ => {}
        }
    }
}

/// The part of a collection that a change touches.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Part {
    Element(Bytes),
    Entry(Id),
    Group(Bytes),
    Item(Position),
}

impl Part {
    pub(crate) fn place(&self) -> Option<&Position> {
        match self {
            Part::Item(place) => Some(place),
            Part::Element(_) | Part::Entry(_) | Part::Group(_) => None,
        }
    }
}

fn member_of(member: Bytes, cell: &Cell<()>, rules: &Rules) -> Option<(Bytes, Until)> {
    cell.is_live().then(|| (member, until(cell.time(rules))))
}

fn field_of(field: Bytes, cell: &Cell<Bytes>, rules: &Rules) -> Option<(Bytes, Bytes, Until)> {
    Some((field, string::shown(cell)?, until(cell.time(rules))))
}

fn scored_of(member: Bytes, cell: &Cell<f64>, rules: &Rules) -> Option<(Bytes, f64, Until)> {
    Some((member, sorted_set::score(cell)?, until(cell.time(rules))))
}

fn until(time: Option<GivenTime>) -> Until {
    time.map(|(_, time)| time)
}

/// The hash of everything visible of a key, whether or not its time has passed, and the number of
/// hashed bytes. A digest is the sum of such hashes.
pub fn digest(database: u32, name: &[u8], key: &Key, rules: &Rules) -> (u64, usize) {
    let Some(value) = key.value() else { return (0, name.len()) };
    let mut out = Out(Vec::new());
    out.number(u64::from(database));
    out.bytes(name);
    out.until(until(key.time(rules)));
    out.number(value.kind() as u64);
    out.view(&View::new(value, rules));
    (KeyHasher::with_key(&[0; 16]).hash(&out.0), out.0.len())
}

/// An unambiguous encoding, used only for hashing.
struct Out(Vec<u8>);

impl Out {
    fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn until(&mut self, until: Until) {
        self.number(until.unwrap_or(u64::MAX));
    }

    fn id(&mut self, id: Id) {
        self.number(id.ms);
        self.number(id.sequence);
    }

    fn view(&mut self, view: &View) {
        match view {
            View::String(text) => self.bytes(text),
            View::HyperLogLog(registers) => registers
                .iter()
                .for_each(|(register, rank)| self.number(u64::from(*register) << 8 | u64::from(*rank))),
            View::List(values) => values.iter().for_each(|value| self.bytes(value)),
            View::Set(members) => members.iter().for_each(|(member, until)| {
                self.bytes(member);
                self.until(*until);
            }),
            View::Hash(fields) => fields.iter().for_each(|(field, value, until)| {
                self.bytes(field);
                self.bytes(value);
                self.until(*until);
            }),
            View::Parts(_, parts) => parts.iter().for_each(|(name, value)| {
                self.bytes(name);
                self.bytes(value);
            }),
            View::SortedSet(members) => members.iter().for_each(|(member, score, until)| {
                self.bytes(member);
                self.number(score.to_bits());
                self.until(*until);
            }),
            View::Stream { entries, last, groups } => {
                self.id(*last);
                self.number(entries.len() as u64);
                for (id, fields) in entries {
                    self.id(*id);
                    self.number(fields.len() as u64);
                    fields.iter().for_each(|field| self.bytes(field));
                }
                groups.iter().for_each(|(name, group)| self.group(name, group));
            }
        }
    }

    fn group(&mut self, name: &[u8], group: &GroupView) {
        self.bytes(name);
        self.id(group.delivered);
        self.number(group.pending.len() as u64);
        self.number(group.consumers.len() as u64);
        for (id, pending) in &group.pending {
            self.id(*id);
            self.bytes(&pending.consumer);
            self.number(pending.delivered_ms);
            self.number(pending.count);
        }
        group.consumers.iter().for_each(|name| self.bytes(name));
    }
}
