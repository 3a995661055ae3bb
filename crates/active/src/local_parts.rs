// SPDX-License-Identifier: BSD-3-Clause
//! Changes by this region's clients of values that consist of [parts](crate::parts). See
//! [`crate::local`] for what the caller has checked.

use std::collections::BTreeMap;

use crate::amount::Amount;
use crate::cell::CellChange;
use crate::change::{Change, Kind};
use crate::local::Transaction;
use crate::part_change::PartChange;
use crate::value::Value;
use crate::vector_set::{Element, Shape};
use crate::{Bytes, Name, document, parts, string};

impl Transaction<'_> {
    /// The parts of a visible value of a type whose names begin with `at`, whether or not they
    /// show.
    fn live_parts(&self, database: u32, name: &Name, kind: Kind, at: &[u8]) -> BTreeMap<Bytes, Bytes> {
        match self.value(database, name).as_deref() {
            Some(Value::Parts(of, parts)) if *of == kind => {
                parts::live_from(parts, at).take_while(|(part, _)| part.starts_with(at)).collect()
            }
            _ => BTreeMap::new(),
        }
    }

    /// Brings a value that consists of parts to those that a client sees.
    pub fn bring_parts(&mut self, database: u32, name: &Name, kind: Kind, to: &[(Bytes, Bytes)]) {
        self.prepare(database, name);
        self.clear_other_shapes(database, name);
        let live = self.live_parts(database, name, kind, &[]);
        for change in parts::changes(kind, &live, to) {
            self.change_of_part(database, name, kind, change);
        }
    }

    /// JSON.SET and JSON.DEL below the root: brings the value at a path to these parts, none if it
    /// is removed.
    pub fn bring_member(&mut self, database: u32, name: &Name, at: &[u8], to: &[(Bytes, Bytes)]) {
        self.prepare(database, name);
        let live = self.live_parts(database, name, Kind::Json, at);
        // An object that has no part of its own needs one once it has no member.
        let object = document::object_of(at).filter(|_| to.is_empty());
        let object = object.filter(|object| self.live_part(database, name, object).is_none());
        let object = object.map(|object| PartChange::Write(object.into(), document::OBJECT.into()));
        for change in object.into_iter().chain(document::changes(&live, to)) {
            self.change_of_part(database, name, Kind::Json, change);
        }
    }

    /// JSON.ARRAPPEND of elements to the array that is a part. Returns false if that is none.
    pub fn append_to_array(&mut self, database: u32, name: &Name, at: &[u8], elements: Vec<Bytes>) -> bool {
        self.prepare(database, name);
        let is_array = match self.value(database, name).as_deref() {
            Some(Value::Parts(Kind::Json, all)) => {
                document::has_array(at, |from| parts::live_from(all, from).next())
            }
            _ => false,
        };
        if !is_array {
            return false;
        }
        for element in elements {
            self.change_of_part(database, name, Kind::Json, PartChange::Append(at.into(), element));
        }
        true
    }

    /// True if a key shows a value of a type.
    pub(crate) fn is_of(&self, database: u32, name: &Name, kind: Kind) -> bool {
        self.value(database, name).is_some_and(|value| value.kind() == kind)
    }

    /// The shape of a visible vector set.
    pub(crate) fn shape(&self, database: u32, name: &Name) -> Option<Shape> {
        match self.value(database, name).as_deref() {
            Some(Value::Parts(Kind::VectorSet, parts)) => parts::shape(parts),
            _ => None,
        }
    }

    /// The number of links of the elements of a visible vector set.
    pub(crate) fn links(&self, database: u32, name: &Name) -> Option<u16> {
        match self.value(database, name).as_deref() {
            Some(Value::Parts(Kind::VectorSet, parts)) => {
                let (part, value) = parts::live(parts).next()?;
                Element::of_part(&part, &value).map(|element| element.links)
            }
            _ => None,
        }
    }

    /// The value of a part that is there.
    pub(crate) fn live_part(&self, database: u32, name: &Name, part: &[u8]) -> Option<Bytes> {
        match self.value(database, name).as_deref() {
            Some(Value::Parts(_, parts)) => string::shown(&parts.get(part)?),
            _ => None,
        }
    }

    /// Called before a client's change of a vector set: removes hidden elements, which are of
    /// other shapes.
    fn clear_other_shapes(&mut self, database: u32, name: &Name) {
        let others: Vec<Bytes> = match self.value(database, name).as_deref() {
            Some(Value::Parts(Kind::VectorSet, parts)) => {
                let after = parts::shape(parts).map(Shape::end);
                let others = after.iter().flat_map(|after| parts::live_from(parts, after));
                others.map(|(part, _)| part).collect()
            }
            _ => Vec::new(),
        };
        others.into_iter().for_each(|part| self.change_part(database, name, Kind::VectorSet, part, None));
    }

    /// Writes or removes a part.
    pub fn part(&mut self, database: u32, name: &Name, kind: Kind, part: Bytes, value: Option<Bytes>) {
        self.prepare(database, name);
        self.clear_other_shapes(database, name);
        self.change_part(database, name, kind, part, value);
    }

    fn change_of_part(&mut self, database: u32, name: &Name, kind: Kind, change: PartChange) {
        match change {
            PartChange::Write(part, value) => self.change_part(database, name, kind, part, Some(value)),
            PartChange::Remove(part) => self.change_part(database, name, kind, part, None),
            PartChange::Append(array, element) => {
                let part = document::element_of(&array, self.next);
                self.change_part(database, name, kind, part, Some(element));
            }
        }
    }

    fn change_part(&mut self, database: u32, name: &Name, kind: Kind, part: Bytes, value: Option<Bytes>) {
        let seen = self.seen_of(database, name, |all| match all {
            Value::Parts(of, parts) if *of == kind => parts.seen(&part),
            _ => Vec::new(),
        });
        let change = match value {
            Some(value) => CellChange::Put { value, time: None, seen },
            None => CellChange::Remove { seen },
        };
        self.change(database, name, Change::Part(kind, part, change));
    }

    /// JSON.NUMINCRBY of an integer by an integer. Returns false if the number is not in the
    /// document or no integer, or the result is none: the caller then writes the result instead.
    pub fn part_increment(&mut self, database: u32, name: &Name, part: &[u8], by: i64) -> bool {
        self.prepare(database, name);
        let cell = match self.value(database, name).as_deref() {
            Some(Value::Parts(Kind::Json, parts)) => parts.get(part),
            _ => None,
        };
        let Some(cell) = cell else { return false };
        let is_in_range = |text: Bytes| {
            let number: i64 = std::str::from_utf8(&text).ok()?.parse().ok()?;
            number.checked_add(by)
        };
        if string::shown(&cell).and_then(is_in_range).is_none() {
            return false;
        }
        let by = Amount::of_integer(by);
        let sum = self.sum_of(&cell, by);
        let Some(sum) = sum else { return false };
        self.change(database, name, Change::Part(Kind::Json, part.into(), CellChange::Add(sum)));
        true
    }
}
