// SPDX-License-Identifier: BSD-3-Clause
//! Finds the values that a path names, in Redis Stack's order: for `..` first a value's own
//! members, then those of its members, one after the other.
//!
//! A term of a filter's condition that is a path has a value only if it matches exactly one.
//!
//! The recursion is bounded by the number of steps, which the parser limits, plus the depth of the
//! document; the time by the number of visited values.

use std::cell::Cell;

use super::steps::{Comparison, Condition, Path, Selector, Step, Term};
use crate::json::doc::Doc;
use crate::json::packed::{self, Items, Slot, Value};

/// A path visits at most this many values, and some for each byte of the document: enough for any
/// way through all of a document, and an end for paths that pass the same values again and again.
const VISITS_MIN: usize = 1 << 20;
const VISITS_PER_BYTE: usize = 4;

/// The path visits too many values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ERR the path visits too many values")]
pub struct TooManyVisits;

/// Calls `found` for every match until it returns false.
///
/// # Errors
/// If the path visits too many values; `found` has been called for some of them.
pub fn visit(
    bytes: Doc<'_>,
    path: &Path<'_>,
    found: &mut dyn FnMut(Slot) -> bool,
) -> Result<(), TooManyVisits> {
    Search::new(bytes).run(&path.steps, found)
}

/// The first match.
///
/// # Errors
/// If the path visits too many values before.
pub fn first(bytes: Doc<'_>, path: &Path<'_>) -> Result<Option<Slot>, TooManyVisits> {
    first_of(bytes, &path.steps)
}

/// The first match of some steps.
///
/// # Errors
/// If they visit too many values before.
pub fn first_of(bytes: Doc<'_>, steps: &[Step<'_>]) -> Result<Option<Slot>, TooManyVisits> {
    let mut first = None;
    Search::new(bytes).run(steps, &mut |slot| {
        first = Some(slot);
        false
    })?;
    Ok(first)
}

/// All matches.
///
/// # Errors
/// If the path visits too many values.
pub fn all(bytes: Doc<'_>, path: &Path<'_>) -> Result<Vec<Slot>, TooManyVisits> {
    let mut slots = Vec::new();
    visit(bytes, path, &mut |slot| {
        slots.push(slot);
        true
    })?;
    Ok(slots)
}

/// A search in a document.
struct Search<'a> {
    bytes: Doc<'a>,
    /// How many values may still be visited.
    left: Cell<usize>,
}

impl<'a> Search<'a> {
    fn new(bytes: Doc<'a>) -> Search<'a> {
        Search { bytes, left: Cell::new(VISITS_MIN + bytes.len().saturating_mul(VISITS_PER_BYTE)) }
    }

    fn run(&self, steps: &[Step<'_>], found: &mut dyn FnMut(Slot) -> bool) -> Result<(), TooManyVisits> {
        self.walk(Slot::whole(0), steps, found);
        if self.left.get() == 0 { Err(TooManyVisits) } else { Ok(()) }
    }

    /// Counts visits. False if that was too much: the search ends.
    fn count(&self, visits: usize) -> bool {
        self.left.set(self.left.get().saturating_sub(visits));
        self.left.get() > 0
    }

    /// Follows steps from a value; false if the visitor has had enough.
    fn walk(&self, slot: Slot, steps: &[Step<'_>], found: &mut dyn FnMut(Slot) -> bool) -> bool {
        let Some((step, rest)) = steps.split_first() else { return found(slot) };
        if step.descends {
            return self.descend(slot, step, rest, found);
        }
        self.count(1) && self.select(slot, &step.selector, &mut |slot| self.walk(slot, rest, found))
    }

    fn descend(
        &self,
        slot: Slot,
        step: &Step<'_>,
        rest: &[Step<'_>],
        found: &mut dyn FnMut(Slot) -> bool,
    ) -> bool {
        self.count(1)
            && self.select(slot, &step.selector, &mut |slot| self.walk(slot, rest, found))
            && self.children(slot, &mut |child| {
                // Elements of arrays of numbers have no members; only a filter looks at them.
                let is_leaf = child.is_element() && !matches!(step.selector, Selector::Filter(_));
                is_leaf || self.descend(child, step, rest, found)
            })
    }

    /// Calls `found` for each member of an object or array.
    fn children(&self, slot: Slot, found: &mut dyn FnMut(Slot) -> bool) -> bool {
        let bytes = self.bytes;
        match packed::value(bytes, slot) {
            Value::Object(object) => packed::members(bytes, object).all(|(_, at)| found(Slot::whole(at))),
            Value::Array(_) | Value::Typed(_) => packed::items(bytes, slot).all(found),
            _ => true,
        }
    }

    fn select(&self, slot: Slot, selector: &Selector<'_>, found: &mut dyn FnMut(Slot) -> bool) -> bool {
        if slot.is_element() && !matches!(selector, Selector::Filter(_)) {
            return true;
        }
        match selector {
            Selector::Name(name) => self.by_name(slot, name, found),
            Selector::Names(names) => names.iter().all(|name| self.by_name(slot, name, found)),
            Selector::All => self.children(slot, &mut |child| self.count(1) && found(child)),
            Selector::Index(index) => self.by_index(slot, *index, found),
            Selector::Indices(indices) => indices.iter().all(|&index| self.by_index(slot, index, found)),
            Selector::Slice { start, end, step } => self.by_slice(slot, (*start, *end, *step), found),
            Selector::Filter(condition) => match packed::value(self.bytes, slot) {
                Value::Object(_) | Value::Array(_) | Value::Typed(_) => self.children(slot, &mut |child| {
                    self.count(1) && (!self.holds(child, condition) || found(child))
                }),
                _ => !self.holds(slot, condition) || found(slot),
            },
        }
    }

    fn by_name(&self, slot: Slot, name: &[u8], found: &mut dyn FnMut(Slot) -> bool) -> bool {
        let Value::Object(object) = packed::value(self.bytes, slot) else { return true };
        // Comparing names costs less than a visit.
        self.count(object.count / 8)
            && packed::member(self.bytes, object, name).is_none_or(|at| found(Slot::whole(at)))
    }

    fn by_index(&self, slot: Slot, index: i64, found: &mut dyn FnMut(Slot) -> bool) -> bool {
        let Some(len) = packed::array_len(self.bytes, slot) else { return true };
        let index = from_end(index, len);
        self.count(1 + index.min(len) / 8) && packed::item(self.bytes, slot, index).is_none_or(found)
    }

    fn by_slice(
        &self,
        slot: Slot,
        (start, end, step): (i64, Option<i64>, u64),
        found: &mut dyn FnMut(Slot) -> bool,
    ) -> bool {
        let Some(len) = packed::array_len(self.bytes, slot) else { return true };
        let from = from_end(start, len).min(len);
        let to = end.map_or(len, |end| from_end(end, len).min(len));
        let step = usize::try_from(step).unwrap_or(usize::MAX).max(1);
        if !self.count(to.saturating_sub(from) / step) {
            return false;
        }
        match packed::items(self.bytes, slot) {
            Items::Typed { at, .. } => {
                (from..to).step_by(step).all(|index| found(Slot { at, element: index as u32 }))
            }
            _ if from < to => {
                let items = packed::items_from(self.bytes, slot, from);
                items.take(to - from).step_by(step).all(found)
            }
            _ => true,
        }
    }

    /// True if a condition holds for the value in a slot.
    fn holds(&self, current: Slot, condition: &Condition<'_>) -> bool {
        self.count(1) && self.is_true(current, condition)
    }

    fn is_true(&self, current: Slot, condition: &Condition<'_>) -> bool {
        match condition {
            Condition::Any(parts) => parts.iter().any(|part| self.holds(current, part)),
            Condition::All(parts) => parts.iter().all(|part| self.holds(current, part)),
            Condition::Exists(Term::Current(steps)) => self.exists(current, steps),
            Condition::Exists(Term::Root(steps)) => self.exists(Slot::whole(0), steps),
            Condition::Exists(_) => true,
            Condition::Compare(sides) => {
                let (left, comparison, right) = &**sides;
                let sides = self.evaluate(current, left).zip(self.evaluate(current, right));
                match (comparison, sides) {
                    (Comparison::NotEqual, None) => true,
                    (_, None) => false,
                    (Comparison::Equal, Some((left, right))) => equal(self.bytes, left, right),
                    (Comparison::NotEqual, Some((left, right))) => !equal(self.bytes, left, right),
                    (Comparison::Ordered(wanted), Some((left, right))) => {
                        order(left.1, right.1).is_some_and(|order| wanted.contains(&order))
                    }
                    (Comparison::Matches(Some(regex)), Some(((_, Value::Str(text)), _))) => {
                        self.count(text.len() / 8) && regex.is_match(text)
                    }
                    (Comparison::Matches(_), Some(_)) => false,
                }
            }
        }
    }

    fn exists(&self, from: Slot, steps: &[Step<'_>]) -> bool {
        let mut count = 0;
        self.walk(from, steps, &mut |_| {
            count += 1;
            count < 2
        });
        count == 1
    }

    fn evaluate<'v>(&'v self, current: Slot, term: &'v Term<'_>) -> Option<Side<'v>> {
        let from = |slot, steps: &[Step<'_>]| {
            let mut only = None;
            let is_single = self.walk(slot, steps, &mut |slot| only.replace(slot).is_none());
            only.filter(|_| is_single).map(|slot| (Some(slot), packed::value(self.bytes, slot)))
        };
        match term {
            Term::Null => Some((None, Value::Null)),
            Term::Bool(value) => Some((None, Value::Bool(*value))),
            Term::Num(value) => Some((None, Value::Num(*value))),
            Term::Text(text) => Some((None, Value::Str(text))),
            Term::Current(steps) => from(current, steps),
            Term::Root(steps) => from(Slot::whole(0), steps),
        }
    }
}

/// An index from the start; one before the first element is the first.
pub fn from_end(index: i64, len: usize) -> usize {
    if index >= 0 {
        usize::try_from(index).unwrap_or(usize::MAX)
    } else {
        len.saturating_sub(usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX))
    }
}

/// A value, and its place in the document if it has one.
type Side<'a> = (Option<Slot>, Value<'a>);

fn order(left: Value<'_>, right: Value<'_>) -> Option<std::cmp::Ordering> {
    match (left, right) {
        (Value::Null, Value::Null) => Some(std::cmp::Ordering::Equal),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(&b)),
        (Value::Num(a), Value::Num(b)) => a.compare(b),
        (Value::Str(a), Value::Str(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

fn equal(bytes: Doc<'_>, left: Side<'_>, right: Side<'_>) -> bool {
    match order(left.1, right.1) {
        Some(order) => order.is_eq(),
        None => match (left.0, right.0) {
            (Some(a), Some(b)) => packed::equal(bytes, a, bytes, b),
            _ => false,
        },
    }
}
