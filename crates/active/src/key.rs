// SPDX-License-Identifier: BSD-3-Clause
//! A key: its value, its time to live, and what other regions have made of it at the same time.
//!
//! Regions that do not know of each other's may give a key values of different types. The last type
//! in a fixed order shows, the same everywhere. The others are kept hidden, since a removal may have
//! seen only one of them, until a write that saw them removes them.
//!
//! Likewise a write that finds no key, or one whose time has come, first removes what is left of it.

use crate::cell::{At, CellChange, Sides, Time, Times};
use crate::change::{Change, Kind, SeenAt};
use crate::rules::Rules;
use crate::stamp::Stamp;
use crate::stored::stored;
use crate::value::Value;

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Key {
    /// In order of type; nearly always one.
    values: Vec<Value>,
    times: Times,
}

impl Key {
    /// The value that shows, were it not for times.
    pub fn value(&self) -> Option<&Value> {
        self.values.iter().rfind(|value| value.is_live())
    }

    /// Values that are hidden behind it.
    pub fn losers(&self) -> impl Iterator<Item = &Value> {
        let shown = self.value().map(Value::kind);
        self.values.iter().filter(move |value| Some(value.kind()) != shown && value.is_live())
    }

    /// Nothing is left of it.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.times.is_empty()
    }

    /// Until when it lives, with the stamp of who said so. A string that was written later than the
    /// time was given lives without it.
    pub fn time(&self, rules: &Rules) -> Option<(Stamp, u64)> {
        match self.times.winner(self.floor(), rules) {
            Some((stamp, Time::At(time))) => Some((stamp, time)),
            _ => None,
        }
    }

    fn floor(&self) -> Stamp {
        match self.value() {
            Some(Value::String(cell)) => cell.stamp().unwrap_or(Stamp::ZERO),
            _ => Stamp::ZERO,
        }
    }

    /// The value that a client sees.
    pub fn visible(&self, now_ms: u64, rules: &Rules) -> Option<&Value> {
        let value = self.value()?;
        let has_come = self.time(rules).is_some_and(|(_, time)| time <= now_ms);
        (!has_come && value.is_visible(now_ms, rules)).then_some(value)
    }

    /// What a removal is to say that it saw of increments.
    pub fn seen(&self) -> Vec<SeenAt> {
        self.values.iter().flat_map(Value::seen).collect()
    }

    /// Applies a change, and answers whether what it changed holds garbage now.
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
            Change::Live(time) => self.times.set(at, time),
            change => {
                // A string's time is the key's.
                let change = match change {
                    Change::String(CellChange::Put { value, time, seen }) => {
                        match time {
                            Some(time) => self.times.set(at, Time::At(time)),
                            None => self.times.remove(at),
                        }
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

    /// Removes what the effect saw.
    pub fn remove(&mut self, at: &At, seen: &[SeenAt]) {
        self.values.iter_mut().for_each(|value| value.remove(at, seen));
        self.times.remove(at);
        self.compact(at.rules);
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
        self.times.merge(&theirs.times, sides);
        self.compact(sides.rules);
    }

    /// Which times count depends on what shows, so none goes while something is hidden.
    fn times_have_garbage(&self, rules: &Rules) -> bool {
        self.values.len() <= 1 && self.times.has_garbage(self.value().is_some(), self.floor(), rules)
    }

    /// Whether it holds something that does not show and can go when all regions know it. Values of
    /// other types are not among it.
    pub fn has_garbage(&self, rules: &Rules) -> bool {
        self.times_have_garbage(rules) || self.values.iter().any(|value| value.has_garbage(rules))
    }

    /// Drops that, and answers how many things.
    pub fn settle(&mut self, rules: &Rules) -> usize {
        let mut dropped = self.values.iter_mut().map(|value| value.settle(rules)).sum();
        self.compact(rules);
        if self.times_have_garbage(rules) {
            self.times.settle(self.value().is_some(), self.floor(), rules);
            dropped += 1;
        }
        dropped
    }
}

stored!(Key { values, times });
