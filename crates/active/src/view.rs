// SPDX-License-Identifier: BSD-3-Clause
//! What clients see of a key, without marks, and a digest of it: regions that have applied the same
//! effects have equal digests.

use braid_base::hash::KeyHasher;

use crate::Bytes;
use crate::key::Key;
use crate::rules::Rules;
use crate::stream::{Fields, GroupView, Id};
use crate::value::Value;
use crate::{sorted_set, string};

/// A time to live, in ms of Unix time.
pub type Until = Option<u64>;

#[derive(Clone, PartialEq, Debug)]
pub enum View {
    String(Bytes),
    /// Registers that are not 0, with their ranks.
    HyperLogLog(Vec<(u16, u8)>),
    List(Vec<Bytes>),
    Set(Vec<(Bytes, Until)>),
    Hash(Vec<(Bytes, Bytes, Until)>),
    SortedSet(Vec<(Bytes, f64, Until)>),
    Stream {
        entries: Vec<(Id, Fields)>,
        last: Id,
        groups: Vec<(Bytes, GroupView)>,
    },
}

impl View {
    /// Of what shows at a time; at 0, whatever its time.
    pub fn new(value: &Value, now_ms: u64, rules: &Rules) -> View {
        let is_there = |until: &Until| until.is_none_or(|time| time > now_ms);
        match value {
            Value::String(cell) => View::String(string::shown(cell).unwrap_or_default()),
            Value::HyperLogLog(value) => View::HyperLogLog(value.registers()),
            Value::List(list) => View::List(list.values().cloned().collect()),
            Value::Set(set) => {
                let live = set.iter().filter(|(_, cell)| cell.is_live());
                let all = live.map(|(member, cell)| (member.clone(), until(cell.time(rules))));
                View::Set(all.filter(|(_, until)| is_there(until)).collect())
            }
            Value::Hash(hash) => {
                let live = hash.iter().filter_map(|(field, cell)| {
                    Some((field.clone(), string::shown(cell)?, until(cell.time(rules))))
                });
                View::Hash(live.filter(|(_, _, until)| is_there(until)).collect())
            }
            Value::SortedSet(set) => {
                let live = set.iter().filter_map(|(member, cell)| {
                    Some((member.clone(), sorted_set::score(cell)?, until(cell.time(rules))))
                });
                View::SortedSet(live.filter(|(_, _, until)| is_there(until)).collect())
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
}

fn until(time: Option<(crate::stamp::Stamp, u64)>) -> Until {
    time.map(|(_, time)| time)
}

/// A hash of a key with all that shows of it, whatever its time. Sums of them are digests.
pub fn digest(database: u32, name: &[u8], key: &Key, rules: &Rules) -> u64 {
    let Some(value) = key.value() else { return 0 };
    let mut out = Out(Vec::new());
    out.number(u64::from(database));
    out.bytes(name);
    out.until(until(key.time(rules)));
    out.number(value.kind() as u64);
    out.view(&View::new(value, 0, rules));
    KeyHasher::with_key(&[0; 16]).hash(&out.0)
}

/// An unambiguous form, for the hash only.
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
            View::SortedSet(members) => members.iter().for_each(|(member, score, until)| {
                self.bytes(member);
                self.number(score.to_bits());
                self.until(*until);
            }),
            View::Stream { entries, last, groups } => {
                self.id(*last);
                for (id, fields) in entries {
                    self.id(*id);
                    fields.iter().for_each(|field| self.bytes(field));
                }
                groups.iter().for_each(|(name, group)| self.group(name, group));
            }
        }
    }

    fn group(&mut self, name: &[u8], group: &GroupView) {
        self.bytes(name);
        self.id(group.delivered);
        for (id, pending) in &group.pending {
            self.id(*id);
            self.bytes(&pending.consumer);
            self.number(pending.delivered_ms);
            self.number(pending.count);
        }
        group.consumers.iter().for_each(|name| self.bytes(name));
    }
}
