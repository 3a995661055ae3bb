// SPDX-License-Identifier: BSD-3-Clause
//! Finds the values that a path names, in Redis Stack's order: for `..` first a value's own
//! members, then those of its members, one after the other.
//!
//! A term of a filter's condition that is a path has a value only if it matches exactly one.
//!
//! The recursion is bounded by the number of steps plus the depth of the document.

use super::steps::{Comparison, Condition, Path, Selector, Step, Term};
use crate::json::packed::{self, Items, Slot, Value};

/// Calls `found` for every match until it returns false.
pub fn visit(bytes: &[u8], path: &Path<'_>, found: &mut dyn FnMut(Slot) -> bool) {
    walk(bytes, Slot::whole(0), &path.steps, found);
}

/// The first match.
pub fn first(bytes: &[u8], path: &Path<'_>) -> Option<Slot> {
    first_of(bytes, &path.steps)
}

/// The first match of some steps.
pub fn first_of(bytes: &[u8], steps: &[Step<'_>]) -> Option<Slot> {
    let mut first = None;
    walk(bytes, Slot::whole(0), steps, &mut |slot| {
        first = Some(slot);
        false
    });
    first
}

/// All matches.
pub fn all(bytes: &[u8], path: &Path<'_>) -> Vec<Slot> {
    let mut slots = Vec::new();
    visit(bytes, path, &mut |slot| {
        slots.push(slot);
        true
    });
    slots
}

/// Follows steps from a value; false if the visitor has had enough.
fn walk(bytes: &[u8], slot: Slot, steps: &[Step<'_>], found: &mut dyn FnMut(Slot) -> bool) -> bool {
    let Some((step, rest)) = steps.split_first() else { return found(slot) };
    if step.descends {
        return descend(bytes, slot, step, rest, found);
    }
    select(bytes, slot, &step.selector, &mut |slot| walk(bytes, slot, rest, found))
}

fn descend(
    bytes: &[u8],
    slot: Slot,
    step: &Step<'_>,
    rest: &[Step<'_>],
    found: &mut dyn FnMut(Slot) -> bool,
) -> bool {
    select(bytes, slot, &step.selector, &mut |slot| walk(bytes, slot, rest, found))
        && children(bytes, slot, &mut |child| {
            // Elements of arrays of numbers have no members; only a filter looks at them.
            let is_leaf = child.is_element() && !matches!(step.selector, Selector::Filter(_));
            is_leaf || descend(bytes, child, step, rest, found)
        })
}

/// Calls `found` for each member of an object or array.
fn children(bytes: &[u8], slot: Slot, found: &mut dyn FnMut(Slot) -> bool) -> bool {
    match packed::value(bytes, slot) {
        Value::Object(object) => packed::members(bytes, object).all(|(_, at)| found(Slot::whole(at))),
        Value::Array(_) | Value::Typed(_) => packed::items(bytes, slot).all(found),
        _ => true,
    }
}

fn select(bytes: &[u8], slot: Slot, selector: &Selector<'_>, found: &mut dyn FnMut(Slot) -> bool) -> bool {
    if slot.is_element() && !matches!(selector, Selector::Filter(_)) {
        return true;
    }
    match selector {
        Selector::Name(name) => by_name(bytes, slot, name, found),
        Selector::Names(names) => names.iter().all(|name| by_name(bytes, slot, name, found)),
        Selector::All => children(bytes, slot, found),
        Selector::Index(index) => by_index(bytes, slot, *index, found),
        Selector::Indices(indices) => indices.iter().all(|&index| by_index(bytes, slot, index, found)),
        Selector::Slice { start, end, step } => by_slice(bytes, slot, (*start, *end, *step), found),
        Selector::Filter(condition) => {
            let holds = |slot| holds(bytes, slot, condition);
            match packed::value(bytes, slot) {
                Value::Object(_) | Value::Array(_) | Value::Typed(_) => {
                    children(bytes, slot, &mut |child| !holds(child) || found(child))
                }
                _ => !holds(slot) || found(slot),
            }
        }
    }
}

fn by_name(bytes: &[u8], slot: Slot, name: &[u8], found: &mut dyn FnMut(Slot) -> bool) -> bool {
    match packed::value(bytes, slot) {
        Value::Object(object) => packed::member(bytes, object, name).is_none_or(|at| found(Slot::whole(at))),
        _ => true,
    }
}

fn by_index(bytes: &[u8], slot: Slot, index: i64, found: &mut dyn FnMut(Slot) -> bool) -> bool {
    let Some(len) = packed::array_len(bytes, slot) else { return true };
    packed::item(bytes, slot, from_end(index, len)).is_none_or(found)
}

/// An index from the start; one before the first element is the first.
pub fn from_end(index: i64, len: usize) -> usize {
    if index >= 0 {
        usize::try_from(index).unwrap_or(usize::MAX)
    } else {
        len.saturating_sub(usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX))
    }
}

fn by_slice(
    bytes: &[u8],
    slot: Slot,
    (start, end, step): (i64, Option<i64>, u64),
    found: &mut dyn FnMut(Slot) -> bool,
) -> bool {
    let Some(len) = packed::array_len(bytes, slot) else { return true };
    let from = from_end(start, len).min(len);
    let to = end.map_or(len, |end| from_end(end, len).min(len));
    let step = usize::try_from(step).unwrap_or(usize::MAX).max(1);
    match packed::items(bytes, slot) {
        Items::Typed { at, .. } => {
            (from..to).step_by(step).all(|index| found(Slot { at, element: index as u32 }))
        }
        items if from < to => items.take(to).skip(from).step_by(step).all(found),
        _ => true,
    }
}

/// True if a condition holds for the value in a slot.
fn holds(bytes: &[u8], current: Slot, condition: &Condition<'_>) -> bool {
    match condition {
        Condition::Any(parts) => parts.iter().any(|part| holds(bytes, current, part)),
        Condition::All(parts) => parts.iter().all(|part| holds(bytes, current, part)),
        Condition::Exists(Term::Current(steps)) => exists(bytes, current, steps),
        Condition::Exists(Term::Root(steps)) => exists(bytes, Slot::whole(0), steps),
        Condition::Exists(_) => true,
        Condition::Compare(left, comparison, right) => {
            let sides = evaluate(bytes, current, left).zip(evaluate(bytes, current, right));
            match (comparison, sides) {
                (Comparison::NotEqual, None) => true,
                (_, None) => false,
                (Comparison::Equal, Some((left, right))) => equal(bytes, left, right),
                (Comparison::NotEqual, Some((left, right))) => !equal(bytes, left, right),
                (Comparison::Ordered(wanted), Some((left, right))) => {
                    order(left.1, right.1).is_some_and(|order| wanted.contains(&order))
                }
                (Comparison::Matches(Some(regex)), Some(((_, Value::Str(text)), _))) => regex.is_match(text),
                (Comparison::Matches(_), Some(_)) => false,
            }
        }
    }
}

fn exists(bytes: &[u8], from: Slot, steps: &[Step<'_>]) -> bool {
    let mut count = 0;
    walk(bytes, from, steps, &mut |_| {
        count += 1;
        count < 2
    });
    count == 1
}

/// A value, and its place in the document if it has one.
type Side<'a> = (Option<Slot>, Value<'a>);

fn evaluate<'a>(bytes: &'a [u8], current: Slot, term: &'a Term<'_>) -> Option<Side<'a>> {
    let from = |slot, steps: &[Step<'_>]| {
        let mut only = None;
        let is_single = walk(bytes, slot, steps, &mut |slot| only.replace(slot).is_none());
        only.filter(|_| is_single).map(|slot| (Some(slot), packed::value(bytes, slot)))
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

fn order(left: Value<'_>, right: Value<'_>) -> Option<std::cmp::Ordering> {
    match (left, right) {
        (Value::Null, Value::Null) => Some(std::cmp::Ordering::Equal),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(&b)),
        (Value::Num(a), Value::Num(b)) => a.compare(b),
        (Value::Str(a), Value::Str(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

fn equal(bytes: &[u8], left: Side<'_>, right: Side<'_>) -> bool {
    match order(left.1, right.1) {
        Some(order) => order.is_eq(),
        None => match (left.0, right.0) {
            (Some(a), Some(b)) => packed::equal(bytes, a, bytes, b),
            _ => false,
        },
    }
}
