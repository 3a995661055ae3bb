// SPDX-License-Identifier: BSD-3-Clause
//! The encoder. A unit has exactly one encoding.

use super::{VERSION, VERSION_SEEN_LESS, tag};
use crate::Name;
use crate::amount::Amount;
use crate::cell::{CellChange, Sum, Time};
use crate::change::{Change, SeenAt, UnitWrite, Written};
use crate::effect::{Effect, Head, Unit};
use crate::keys::Hashed;
use crate::position::Side;
use crate::stamp::Stamp;
use crate::stream::{GroupChange, Id, StreamChange};
use crate::tally::SeenTally;
use crate::vector::{Run, Vector};

struct Writer<'o> {
    out: &'o mut Vec<u8>,
    first: Stamp,
}

pub fn encode(unit: &Unit, out: &mut Vec<u8>) {
    let mut writer = Writer { out, first: unit.first };
    let version = if unit.seen_less.is_some() { VERSION_SEEN_LESS } else { VERSION };
    writer.head(version, &unit.head(), None);
    writer.count(unit.effects.len());
    if let Some(less) = &unit.seen_less {
        writer.vector(&less.seen, None);
        writer.count(less.effects.len());
        less.effects.iter().for_each(|number| writer.number(u128::from(*number)));
    }
    let mut key: Option<(u32, &Name)> = None;
    for effect in &unit.effects {
        match effect {
            Effect::Key { database, name, change } => {
                let is_same = key == Some((*database, name));
                key = Some((*database, name));
                writer.out.push(tag_of(change) | if is_same { tag::SAME_KEY } else { 0 });
                if !is_same {
                    writer.number(u128::from(*database));
                    writer.bytes(name);
                }
                writer.change(change);
            }
            Effect::Flush { database, seen } => {
                match database {
                    None => writer.out.push(tag::FLUSH_ALL),
                    Some(database) => {
                        writer.out.push(tag::FLUSH);
                        writer.number(u128::from(*database));
                    }
                }
                writer.count(seen.len());
                for one in seen {
                    writer.number(u128::from(one.database));
                    writer.bytes(&one.name);
                    writer.seen_at(&one.at);
                }
            }
        }
    }
}

pub fn encode_write(head: &Head<'_>, run: Stamp, key: Hashed<'_>, written: UnitWrite<'_>, out: &mut Vec<u8>) {
    let mut writer = Writer { out, first: head.first };
    writer.head(VERSION, head, Some(run));
    writer.count(1);
    writer.out.push(match written {
        Written::Text(_) | Written::Sum(_) => tag::STRING,
        Written::Field(..) => tag::HASH,
        Written::Member(_) => tag::SET,
        Written::Score(..) => tag::SORTED_SET,
    });
    writer.number(u128::from(key.database));
    writer.bytes(key.name);
    match written {
        Written::Text(value) => writer.put(|writer| writer.bytes(value)),
        Written::Sum(sum) => writer.add(&sum),
        Written::Field(field, value) => {
            writer.bytes(field);
            writer.put(|writer| writer.bytes(value));
        }
        Written::Member(member) => {
            writer.bytes(member);
            writer.put(|_| {});
        }
        Written::Score(member, score) => {
            writer.bytes(member);
            writer.put(|writer| writer.score(score));
        }
    }
}

fn tag_of(change: &Change) -> u8 {
    match change {
        Change::Remove { .. } => tag::REMOVE,
        Change::Clear { .. } => tag::CLEAR,
        Change::Live(_) => tag::LIVE,
        Change::String(_) => tag::STRING,
        Change::Hash(..) => tag::HASH,
        Change::Part(..) => tag::PART,
        Change::Set(..) => tag::SET,
        Change::SortedSet(..) => tag::SORTED_SET,
        Change::Push { side: Side::Left, .. } => tag::PUSH_LEFT,
        Change::Push { side: Side::Right, .. } => tag::PUSH_RIGHT,
        Change::Element(..) => tag::ELEMENT,
        Change::Stream(StreamChange::Entry(..)) => tag::ENTRY,
        Change::Stream(StreamChange::Last(_)) => tag::LAST,
        Change::Stream(StreamChange::Group(..)) => tag::GROUP,
        Change::Count(_) => tag::COUNT,
    }
}

impl Writer<'_> {
    /// Writes everything before the effects, leaving out one of the runs that were seen.
    fn head(&mut self, version: u8, head: &Head<'_>, without: Option<Stamp>) {
        self.out.push(version);
        self.out.extend(head.first.word().to_le_bytes());
        let distance = head.first.position() - head.previous.position();
        self.number(u128::from(distance) << 1 | u128::from(head.starts_run));
        self.vector(head.seen, without);
    }

    fn vector(&mut self, vector: &Vector, without: Option<Stamp>) {
        let is_left = |run: &&Run| Some(run.start) != without;
        self.count(vector.runs().iter().filter(is_left).count());
        for run in vector.runs().iter().filter(is_left) {
            self.stamp(run.last);
            // The first run of a region starts at 0.
            self.number(u128::from(run.start.position()));
        }
    }

    fn number(&mut self, mut number: u128) {
        while number >= 0x80 {
            self.out.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.out.push(number as u8);
    }

    /// Zigzag encoding: small numbers of either sign are short.
    fn signed(&mut self, number: i128) {
        self.number((number << 1 ^ number >> 127) as u128);
    }

    fn count(&mut self, count: usize) {
        self.number(count as u128);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.out.extend_from_slice(bytes);
    }

    /// Writes a stamp as the distance from the unit's first stamp.
    fn stamp(&mut self, stamp: Stamp) {
        self.out.push(stamp.region().number());
        self.signed(i128::from(self.first.position()) - i128::from(stamp.position()));
    }

    fn amount(&mut self, amount: Amount) {
        self.signed(amount.steps());
    }

    fn time(&mut self, time: Time) {
        // 0 is `Never`; a time is stored plus one.
        self.number(match time {
            Time::At(time) => u128::from(time) + 1,
            Time::Never => 0,
        });
    }

    fn id(&mut self, id: Id) {
        self.number(u128::from(id.ms));
        self.number(u128::from(id.sequence));
    }

    fn tally(&mut self, tally: &SeenTally) {
        self.stamp(tally.start);
        self.number(u128::from(tally.last.position() - tally.start.position()));
        self.amount(tally.sum);
    }

    fn seen(&mut self, seen: &[SeenTally]) {
        self.count(seen.len());
        seen.iter().for_each(|tally| self.tally(tally));
    }

    fn seen_at(&mut self, seen: &SeenAt) {
        self.out.push(seen.kind as u8);
        self.bytes(&seen.element);
        self.tally(&seen.tally);
    }

    fn all_seen_at(&mut self, seen: &[SeenAt]) {
        self.count(seen.len());
        seen.iter().for_each(|one| self.seen_at(one));
    }

    /// Writes a whole value that has no time and has seen no increments.
    fn put(&mut self, value: impl FnOnce(&mut Self)) {
        self.out.push(tag::CELL_PUT);
        self.seen(&[]);
        value(self);
    }

    fn add(&mut self, Sum { start, before, sum }: &Sum) {
        self.out.push(tag::CELL_ADD);
        self.stamp(*start);
        self.amount(*before);
        self.amount(*sum);
    }

    fn score(&mut self, score: f64) {
        self.out.extend(score.to_bits().to_le_bytes());
    }

    fn cell<V>(&mut self, change: &CellChange<V>, value: impl FnOnce(&mut Self, &V)) {
        match change {
            CellChange::Put { value: new, time, seen } => {
                self.out.push(if time.is_some() { tag::CELL_PUT_UNTIL } else { tag::CELL_PUT });
                if let Some(time) = time {
                    self.number(u128::from(*time));
                }
                self.seen(seen);
                value(self, new);
            }
            CellChange::Remove { seen } => {
                self.out.push(tag::CELL_REMOVE);
                self.seen(seen);
            }
            CellChange::Add(sum) => self.add(sum),
            CellChange::Live(time) => {
                self.out.push(tag::CELL_LIVE);
                self.time(*time);
            }
        }
    }

    fn text_cell<T: AsRef<[u8]>>(&mut self, change: &CellChange<T>) {
        self.cell(change, |writer, text| writer.bytes(text.as_ref()));
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::Remove { seen } => self.all_seen_at(seen),
            Change::Clear { kind, seen } => {
                self.out.push(*kind as u8);
                self.all_seen_at(seen);
            }
            Change::Live(time) => self.time(*time),
            Change::String(change) => self.text_cell(change),
            Change::Part(kind, part, change) => {
                self.out.push(*kind as u8);
                self.bytes(part);
                self.text_cell(change);
            }
            Change::Hash(field, change) => {
                self.bytes(field);
                self.text_cell(change);
            }
            Change::Set(member, change) => {
                self.bytes(member);
                self.cell(change, |_, ()| {});
            }
            Change::SortedSet(member, change) => {
                self.bytes(member);
                self.cell(change, |writer, score| writer.score(*score));
            }
            Change::Push { values, .. } => {
                self.count(values.len());
                values.iter().for_each(|value| self.bytes(value));
            }
            Change::Element(place, change) => {
                self.count(place.steps().len());
                for step in place.steps() {
                    self.out.extend(step.word().to_le_bytes());
                }
                self.text_cell(change);
            }
            Change::Stream(change) => self.stream(change),
            Change::Count(registers) => {
                self.count(registers.len());
                for (register, rank) in registers {
                    self.out.extend(register.to_le_bytes());
                    self.out.push(*rank);
                }
            }
        }
    }

    fn stream(&mut self, change: &StreamChange) {
        match change {
            StreamChange::Entry(id, change) => {
                self.id(*id);
                self.cell(change, |writer, fields| {
                    writer.count(fields.len());
                    fields.iter().for_each(|field| writer.bytes(field));
                });
            }
            StreamChange::Last(id) => self.id(*id),
            StreamChange::Group(name, change) => {
                self.bytes(name);
                self.group(change);
            }
        }
    }

    fn group(&mut self, change: &GroupChange) {
        match change {
            GroupChange::Create { delivered } => {
                self.out.push(tag::GROUP_CREATE);
                self.id(*delivered);
            }
            GroupChange::Destroy => self.out.push(tag::GROUP_DESTROY),
            GroupChange::Deliver { created, since, id } => {
                self.out.push(if since.is_some() { tag::GROUP_DELIVER } else { tag::GROUP_SET_ID });
                self.stamp(*created);
                if let Some(since) = since {
                    self.stamp(*since);
                }
                self.id(*id);
            }
            GroupChange::Pending { created, id, pending } => {
                self.out.push(tag::GROUP_PENDING);
                self.stamp(*created);
                self.id(*id);
                self.bytes(&pending.consumer);
                self.number(u128::from(pending.delivered_ms));
                self.number(u128::from(pending.count));
            }
            GroupChange::Acknowledge { id } => {
                self.out.push(tag::GROUP_ACKNOWLEDGE);
                self.id(*id);
            }
            GroupChange::Consumer { created, name, is_there } => {
                self.out.push(if *is_there { tag::GROUP_CONSUMER } else { tag::GROUP_NO_CONSUMER });
                self.stamp(*created);
                self.bytes(name);
            }
        }
    }
}
