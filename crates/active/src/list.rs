// SPDX-License-Identifier: BSD-3-Clause
//! Lists: elements in the order of their [places](crate::place). Concurrent pushes all stay, in
//! the same order everywhere. A removal removes the value it saw, so an element that a concurrent
//! LSET changes stays, with the new value.
//!
//! An element that has only been pushed needs 16 bytes of marks: the one word of its place, which
//! is also its stamp, and an empty box. An inserted or changed element has more in the box.

use crate::stored::stored;
use std::cmp::Ordering;

use crate::Bytes;
use crate::cell::{At, Cell, CellChange, Sides};
use crate::items::Items;
use crate::position::{Position, Side, Step, compare};
use crate::rules::Rules;
use crate::stamp::Stamp;

/// A list with more elements is large.
const LARGE: usize = 2_000;

#[derive(Clone, PartialEq, Debug, Default)]
pub struct List {
    items: Items<Item>,
}

#[derive(Clone, PartialEq, Debug)]
struct Item {
    /// Empty if the box has a cell.
    value: Bytes,
    mark: ItemMark,
}

#[derive(Clone, PartialEq, Debug)]
struct ItemMark {
    /// The last step of the place.
    step: Step,
    more: Option<Box<More>>,
}

#[derive(Clone, PartialEq, Debug, Default)]
struct More {
    /// The steps before the last one.
    way: Box<[Step]>,
    /// Value and marks, if the stamp differs from the place's or there is more than one value.
    cell: Option<Cell<Bytes>>,
}

impl Item {
    fn new(steps: &[Step]) -> Item {
        let (last, way) = steps.split_last().expect("a place has a step");
        let more = (!way.is_empty()).then(|| Box::new(More { way: way.into(), cell: None }));
        Item { value: Bytes::default(), mark: ItemMark { step: *last, more } }
    }

    fn way(&self) -> &[Step] {
        self.mark.more.as_ref().map_or(&[], |more| &more.way)
    }

    fn steps(&self) -> impl Iterator<Item = Step> {
        self.way().iter().copied().chain([self.mark.step])
    }

    fn shown(&self) -> &Bytes {
        let cell = self.mark.more.as_ref().and_then(|more| more.cell.as_ref());
        cell.and_then(Cell::base).unwrap_or(&self.value)
    }

    fn own_stamp(&self) -> Stamp {
        self.mark.step.stamp(self.way().is_empty())
    }

    fn cell(&self) -> Cell<Bytes> {
        match self.mark.more.as_ref().and_then(|more| more.cell.as_ref()) {
            Some(cell) => cell.clone(),
            None => Cell::written(self.own_stamp(), self.value.clone()),
        }
    }

    /// The item with this cell; `None` if nothing is left of it.
    fn with(mut self, cell: Cell<Bytes>) -> Option<Item> {
        cell.base()?;
        let plain = cell.into_plain().and_then(|(stamp, value)| {
            if stamp == self.own_stamp() { Ok(value) } else { Err(Cell::written(stamp, value)) }
        });
        match plain {
            Ok(value) => {
                self.value = value;
                if self.mark.more.take_if(|more| more.way.is_empty()).is_none()
                    && let Some(more) = &mut self.mark.more
                {
                    more.cell = None;
                }
            }
            Err(cell) => {
                self.value = Bytes::default();
                self.mark.more.get_or_insert_default().cell = Some(cell);
            }
        }
        Some(self)
    }

    fn is_plain(&self) -> bool {
        self.mark.more.as_ref().is_none_or(|more| more.cell.is_none())
    }

    /// Fast only for plain items.
    fn removed(self, at: &At) -> Option<Item> {
        if self.is_plain() {
            return (!at.removes(self.own_stamp())).then_some(self);
        }
        let mut cell = self.cell();
        cell.remove(at, &[]);
        self.with(cell)
    }
}

impl List {
    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// See [`Members::is_large`](crate::members::Members::is_large).
    pub fn is_large(&self) -> bool {
        self.len() > LARGE
    }

    /// Visits the stamps of everything.
    pub(crate) fn each_stamp(&self, note: &mut dyn FnMut(Stamp)) {
        for item in self.items.iter() {
            if item.is_plain() { note(item.own_stamp()) } else { item.cell().each_stamp(note) }
        }
    }

    pub fn values(&self) -> impl Iterator<Item = &Bytes> {
        self.items.iter().map(Item::shown)
    }

    /// The values from an index on.
    pub(crate) fn values_since(&self, index: usize) -> impl Iterator<Item = &Bytes> {
        self.items.since(index).map(Item::shown)
    }

    /// Places and values, in order.
    pub(crate) fn placed(&self) -> impl DoubleEndedIterator<Item = (Option<Position>, &Bytes)> {
        self.items.iter().map(|item| (Position::new(item.steps()), item.shown()))
    }

    /// The index of an element; `Err` with its insertion point if it does not exist.
    pub(crate) fn index(&self, place: &Position) -> Result<usize, usize> {
        self.find(place.steps())
    }

    /// True if an element exists.
    pub(crate) fn has(&self, place: &Position) -> bool {
        self.index(place).is_ok()
    }

    pub(crate) fn value(&self, index: usize) -> Option<&Bytes> {
        self.items.get(index).map(Item::shown)
    }

    /// The number of elements before all of these places, and the number after all of them.
    pub(crate) fn around<'a>(&self, places: impl Iterator<Item = &'a Position>) -> (usize, usize) {
        let (mut first, mut end) = (self.len(), 0);
        for place in places {
            let (at, next) = match self.find(place.steps()) {
                Ok(index) => (index, index + 1),
                Err(index) => (index, index),
            };
            (first, end) = (first.min(at), end.max(next));
        }
        (first, self.len() - end)
    }

    pub fn place(&self, index: usize) -> Option<Position> {
        Position::new(self.items.get(index)?.steps())
    }

    /// The place of an element that is inserted before the one at `index`.
    pub fn place_before(&self, index: usize, stamp: Stamp) -> Option<Position> {
        if index == 0 {
            return Position::new([Step::push(Side::Left, stamp)].into_iter());
        }
        if index >= self.items.len() {
            return Position::new([Step::push(Side::Right, stamp)].into_iter());
        }
        let (Some(left), Some(right)) = (self.items.get(index - 1), self.items.get(index)) else {
            return None;
        };
        let (parent, side) =
            if left.way().len() < right.way().len() { (left, Side::Right) } else { (right, Side::Left) };
        Position::new(parent.steps().chain([Step::child(side, stamp)]))
    }

    fn find(&self, steps: &[Step]) -> Result<usize, usize> {
        let order = |item: &Item| compare(item.steps(), steps.iter().copied());
        // Most elements are pushed or popped.
        if self.items.back().is_none_or(|item| order(item) == Ordering::Less) {
            return Err(self.items.len());
        }
        if self.items.front().is_some_and(|item| order(item) == Ordering::Greater) {
            return Err(0);
        }
        self.items.search(order)
    }

    /// Pushes values, which take consecutive stamps.
    pub fn push(&mut self, at: &At, side: Side, values: Vec<Bytes>) {
        for (count, value) in (0..).zip(values) {
            let steps = [Step::push(side, at.stamp.plus(count))];
            if let Err(index) = self.find(&steps) {
                let item = Item { value, ..Item::new(&steps) };
                self.items.insert(index, item);
            }
        }
    }

    /// Inserts, changes or removes one element. Returns true if it now holds garbage.
    pub fn apply(&mut self, at: &At, place: &Position, change: CellChange<Bytes>) -> bool {
        match self.find(place.steps()) {
            Ok(index) => {
                let Some(item) = self.items.remove(index) else { return false };
                let mut cell = item.cell();
                let has_garbage = cell.apply(at, change);
                if let Some(item) = item.with(cell) {
                    self.items.insert(index, item);
                }
                has_garbage
            }
            Err(index) => {
                let mut cell = Cell::default();
                cell.apply(at, change);
                if let Some(item) = Item::new(place.steps()).with(cell) {
                    self.items.insert(index, item);
                }
                false
            }
        }
    }

    /// True if the elements are in order.
    fn can_be(&self) -> bool {
        let mut items = self.items.iter();
        let Some(mut before) = items.next() else { return true };
        items.all(|item| {
            let before = std::mem::replace(&mut before, item);
            compare(before.steps(), item.steps()) == Ordering::Less
        })
    }

    pub fn remove_all(&mut self, at: &At) {
        self.items =
            std::mem::take(&mut self.items).into_iter().filter_map(|item| item.removed(at)).collect();
    }

    pub fn merge(&mut self, theirs: &List, sides: &Sides) {
        let mut merged = Items::default();
        let mut others = theirs.items.iter().peekable();
        let none = Cell::default();
        let take_other = |other: &Item, merged: &mut Items<Item>| {
            let mut cell = Cell::default();
            cell.merge(&other.cell(), sides);
            merged.extend(other.clone().with(cell));
        };
        for item in std::mem::take(&mut self.items) {
            let is_before = |other: &&Item| compare(other.steps(), item.steps()) == Ordering::Less;
            while let Some(other) = others.next_if(is_before) {
                take_other(other, &mut merged);
            }
            let is_same = |other: &&Item| compare(other.steps(), item.steps()) == Ordering::Equal;
            let mut cell = item.cell();
            match others.next_if(is_same) {
                Some(other) => cell.merge(&other.cell(), sides),
                None => cell.merge(&none, sides),
            }
            merged.extend(item.with(cell));
        }
        others.for_each(|other| take_other(other, &mut merged));
        self.items = merged;
    }

    pub fn has_garbage(&self, rules: &Rules) -> bool {
        self.items.iter().any(|item| !item.is_plain() && item.cell().has_garbage(rules))
    }

    pub fn collect_garbage(&mut self, rules: &Rules) -> usize {
        let mut dropped = 0;
        let items = std::mem::take(&mut self.items).into_iter();
        let items = items.filter_map(|item| {
            if item.is_plain() {
                return Some(item);
            }
            let mut cell = item.cell();
            dropped += cell.collect_garbage(rules);
            item.with(cell)
        });
        self.items = items.collect();
        dropped
    }
}

stored!(List { items }, List::can_be);
stored!(Item { value, mark });
stored!(ItemMark { step, more });
stored!(More { way, cell });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_small() {
        assert_eq!(size_of::<ItemMark>(), 16);
    }
}
