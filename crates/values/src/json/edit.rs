// SPDX-License-Identifier: BSD-3-Clause
//! Changes of a document at one place or at many.
//!
//! A change names a slot; [`around`] finds the containers of a slot by its offset. Where several
//! slots change, and none is inside another, [`rebuild`] makes the new document in one pass;
//! otherwise [`route`] keeps each place by names and indices, and the places change one after the
//! other, as in Redis Stack.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::builder::{self, Builder};
use super::number::Num;
use super::packed::{self, Slot, Value};
use super::value::{Json, TooLarge};

/// One part of the way from the root to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Name(Box<[u8]>),
    Index(usize),
}

/// What is found on the way from the root to a slot.
#[derive(Debug, Default)]
pub struct Place {
    /// Offsets of the containers around the slot, outermost first.
    pub around: Vec<usize>,
    /// Offset of the member: of its name in an object, else of its value.
    pub member: usize,
    /// Names and indices, if they were asked for.
    pub parts: Vec<Part>,
}

/// Finds the containers around a slot.
pub fn around(bytes: &[u8], slot: Slot) -> Place {
    locate(bytes, slot, false)
}

/// The names and indices that lead to a slot.
pub fn route(bytes: &[u8], slot: Slot) -> Vec<Part> {
    locate(bytes, slot, true).parts
}

fn locate(bytes: &[u8], slot: Slot, with_parts: bool) -> Place {
    let mut place = Place::default();
    let mut here = 0;
    let goal = slot.at();
    while here != goal {
        place.around.push(here);
        match packed::value(bytes, Slot::whole(here)) {
            Value::Object(object) => {
                let mut member = object.start;
                for (name, at) in packed::members(bytes, object) {
                    let end = packed::skip(bytes, at);
                    if goal < end {
                        if with_parts {
                            place.parts.push(Part::Name(name.into()));
                        }
                        here = at;
                        break;
                    }
                    member = end;
                }
                place.member = member;
            }
            Value::Array(_) => {
                for (index, item) in packed::items(bytes, Slot::whole(here)).enumerate() {
                    if goal < packed::skip(bytes, item.at()) {
                        if with_parts {
                            place.parts.push(Part::Index(index));
                        }
                        here = item.at();
                        break;
                    }
                }
                place.member = here;
            }
            _ => unreachable!("a slot is inside containers only"),
        }
    }
    if slot.is_element() && with_parts {
        place.parts.push(Part::Index(slot.element as usize));
    }
    place
}

/// Follows names and indices.
pub fn follow(bytes: &[u8], route: &[Part]) -> Option<Slot> {
    route.iter().try_fold(Slot::whole(0), |slot, part| match part {
        _ if slot.is_element() => None,
        Part::Name(name) => match packed::value(bytes, slot) {
            Value::Object(object) => packed::member(bytes, object, name).map(Slot::whole),
            _ => None,
        },
        Part::Index(index) => packed::item(bytes, slot, *index),
    })
}

/// Replaces the value in a slot by another, which is packed.
///
/// # Errors
/// If the document becomes too large; it is unchanged then.
pub fn replace(document: &mut Json, slot: Slot, value: &[u8]) -> Result<(), TooLarge> {
    if slot.is_element() {
        return replace_element(document, slot, value);
    }
    let at = slot.at();
    let end = packed::skip(document.bytes(), at);
    if end - at == value.len() {
        document.overwrite(at, value);
        return Ok(());
    }
    if at == 0 {
        return document.set(value);
    }
    let place = around(document.bytes(), slot);
    document.replace(&place.around, at..end, value, 0)
}

fn replace_element(document: &mut Json, slot: Slot, value: &[u8]) -> Result<(), TooLarge> {
    let array = Slot::whole(slot.at());
    let (bytes, index) = (document.bytes(), slot.element as usize);
    let Value::Typed(typed) = packed::value(bytes, array) else { return Ok(()) };
    if let Value::Num(number) = packed::value(value, Slot::whole(0))
        && let Some(element) = builder::element(typed.elements, typed.scale, number)
    {
        document.set_element(slot, &element);
        return Ok(());
    }
    let mut out = Builder::default();
    out.begin_array();
    for (at, item) in packed::items(bytes, array).enumerate() {
        if at == index { out.copy(value, Slot::whole(0)) } else { out.copy(bytes, item) }
    }
    out.end();
    replace(document, array, &out.finish())
}

/// Replaces a number.
///
/// # Errors
/// As [`replace`].
pub fn set_number(document: &mut Json, slot: Slot, number: Num) -> Result<(), TooLarge> {
    let mut value = Vec::with_capacity(9);
    builder::push_number(&mut value, number);
    replace(document, slot, &value)
}

/// Adds a member at the end of the object in a slot.
///
/// # Errors
/// As [`replace`].
pub fn add_member(document: &mut Json, object: Slot, name: &[u8], value: &[u8]) -> Result<(), TooLarge> {
    let mut place = around(document.bytes(), object);
    place.around.push(object.at());
    let end = packed::skip(document.bytes(), object.at());
    let mut member = Vec::with_capacity(name.len() + value.len() + 5);
    builder::push_name(&mut member, name);
    member.extend_from_slice(value);
    document.replace(&place.around, end..end, &member, 1)
}

/// Inserts values into the array in a slot, before an index of at most its length.
///
/// # Errors
/// As [`replace`].
pub fn insert(document: &mut Json, array: Slot, index: usize, values: &[Vec<u8>]) -> Result<(), TooLarge> {
    let bytes = document.bytes();
    if let Value::Array(container) = packed::value(bytes, array) {
        // An array whose elements all are numbers of one kind is rebuilt below as a typed one.
        let has_other = packed::items(bytes, array)
            .take(2)
            .any(|item| !matches!(packed::value(bytes, item), Value::Num(_)));
        if has_other || container.count >= 32 {
            let at = if index == container.count {
                container.end
            } else {
                packed::items(bytes, array).nth(index).map_or(container.end, Slot::at)
            };
            let mut place = around(bytes, array);
            place.around.push(array.at());
            return document.replace(&place.around, at..at, &values.concat(), values.len() as isize);
        }
    }
    if let Value::Typed(typed) = packed::value(bytes, array)
        && (typed.has_wide_count || typed.count + values.len() <= 255)
        && let Some(elements) = values
            .iter()
            .map(|value| match packed::value(value, Slot::whole(0)) {
                Value::Num(number) => builder::element(typed.elements, typed.scale, number),
                _ => None,
            })
            .collect::<Option<Vec<_>>>()
    {
        let at = typed.start + index * typed.elements.width();
        let count = typed.count + values.len();
        return resize_typed(document, array, count, at..at, &elements.concat());
    }
    let mut out = Builder::default();
    out.begin_array();
    let items: Vec<Slot> = packed::items(bytes, array).collect();
    items[..index].iter().for_each(|&item| out.copy(bytes, item));
    values.iter().for_each(|value| out.copy(value, Slot::whole(0)));
    items[index..].iter().for_each(|&item| out.copy(bytes, item));
    out.end();
    replace(document, array, &out.finish())
}

/// Replaces elements of an array of numbers by others of the same type.
fn resize_typed(
    document: &mut Json,
    array: Slot,
    count: usize,
    range: std::ops::Range<usize>,
    elements: &[u8],
) -> Result<(), TooLarge> {
    let Value::Typed(typed) = packed::value(document.bytes(), array) else { return Ok(()) };
    let place = around(document.bytes(), array);
    let count_at = array.at() + 1;
    let write_count = |document: &mut Json, count: usize| match typed.has_wide_count {
        true => document.overwrite(count_at, &(count as u32).to_le_bytes()),
        false => document.overwrite(count_at, &[count as u8]),
    };
    // First, since the headers of the containers may grow and move the array.
    write_count(document, count);
    let replaced = document.replace(&place.around, range, elements, 0);
    if replaced.is_err() {
        write_count(document, typed.count);
    }
    replaced
}

/// Removes the value in a slot from its container. The last member of an object takes the place of
/// a removed one, as in Redis Stack.
///
/// # Errors
/// As [`replace`]; a removal does not make it larger.
pub fn remove(document: &mut Json, slot: Slot) -> Result<(), TooLarge> {
    let bytes = document.bytes();
    if slot.is_element() {
        let array = Slot::whole(slot.at());
        let Value::Typed(typed) = packed::value(bytes, array) else { return Ok(()) };
        let width = typed.elements.width();
        let at = typed.start + slot.element as usize * width;
        return resize_typed(document, array, typed.count - 1, at..at + width, &[]);
    }
    let place = around(bytes, slot);
    let Some(&parent) = place.around.last() else { return Ok(()) };
    let end = packed::skip(bytes, slot.at());
    let Value::Object(object) = packed::value(bytes, Slot::whole(parent)) else {
        return document.replace(&place.around, place.member..end, &[], -1);
    };
    if end == object.end {
        return document.replace(&place.around, place.member..end, &[], -1);
    }
    let mut last = object.start;
    for (_, at) in packed::members(bytes, object) {
        let next = packed::skip(bytes, at);
        if next == object.end {
            break;
        }
        last = next;
    }
    // [member .. end] [between] [last .. object.end] becomes [last .. object.end] [between].
    let mut moved = bytes[last..object.end].to_vec();
    moved.extend_from_slice(&bytes[end..last]);
    document.replace(&place.around, place.member..object.end, &moved, -1)
}

/// Up to this many removals are made one after the other, more of them in one pass.
pub const FEW: usize = 32;

/// The order of removals: members by their names, elements from the last one on.
pub fn removal_order(one: &[Part], other: &[Part]) -> Ordering {
    let differing = one.iter().zip(other).find(|(a, b)| a != b);
    match differing {
        Some((Part::Index(a), Part::Index(b))) => b.cmp(a),
        Some((Part::Name(a), Part::Name(b))) => a.cmp(b),
        _ => one.len().cmp(&other.len()),
    }
}

/// The document without some values, which are sorted and not inside each other.
pub fn without(bytes: &[u8], slots: &[Slot]) -> Vec<u8> {
    let mut out = Builder::with_capacity(bytes.len());
    let mut next = 0;
    copy_without(bytes, Slot::whole(0), slots, &mut next, &mut out);
    out.finish()
}

fn copy_without(bytes: &[u8], slot: Slot, slots: &[Slot], next: &mut usize, out: &mut Builder) {
    let is_touched =
        !slot.is_element() && slots.get(*next).is_some_and(|gone| gone.at() < packed::skip(bytes, slot.at()));
    if !is_touched {
        out.copy(bytes, slot);
        return;
    }
    let is_gone = |slot: Slot, next: &mut usize| {
        let gone = slots.get(*next) == Some(&slot);
        *next += usize::from(gone);
        gone
    };
    match packed::value(bytes, slot) {
        Value::Object(object) => {
            out.begin_object();
            // Each member with the slots inside it, since the last ones change their places.
            let mut members: Vec<(&[u8], usize, usize)> = Vec::with_capacity(object.count);
            let mut gone: Vec<&[u8]> = Vec::new();
            for (name, at) in packed::members(bytes, object) {
                members.push((name, at, *next));
                if is_gone(Slot::whole(at), next) {
                    gone.push(name);
                }
                let end = packed::skip(bytes, at);
                *next += slots[*next..].partition_point(|slot| slot.at() < end);
            }
            let after = *next;
            gone.sort_unstable();
            let mut places: HashMap<&[u8], usize> =
                members.iter().enumerate().map(|(index, member)| (member.0, index)).collect();
            for name in gone {
                let Some(place) = places.remove(name) else { continue };
                members.swap_remove(place);
                if let Some(moved) = members.get(place) {
                    places.insert(moved.0, place);
                }
            }
            for (name, at, mut inside) in members {
                out.name(name);
                copy_without(bytes, Slot::whole(at), slots, &mut inside, out);
            }
            *next = after;
        }
        _ => {
            out.begin_array();
            for item in packed::items(bytes, slot) {
                if !is_gone(item, next) {
                    copy_without(bytes, item, slots, next, out);
                }
            }
        }
    }
    out.end();
}

/// True if no slot is inside another and none is twice; `slots` are sorted.
pub fn are_disjoint(bytes: &[u8], slots: &[Slot]) -> bool {
    slots.windows(2).all(|pair| {
        let (one, next) = (pair[0], pair[1]);
        if one.is_element() { one != next } else { packed::skip(bytes, one.at()) <= next.at() }
    })
}

/// The document with the values in some slots replaced, all in one pass. `slots` are sorted and
/// disjoint; `write` appends the new value of the slot with that position among them.
pub fn rebuild(bytes: &[u8], slots: &[Slot], write: &mut dyn FnMut(usize, &mut Builder)) -> Vec<u8> {
    let mut out = Builder::with_capacity(bytes.len());
    let mut next = 0;
    copy_changed(bytes, Slot::whole(0), slots, &mut next, write, &mut out);
    out.finish()
}

fn copy_changed(
    bytes: &[u8],
    slot: Slot,
    slots: &[Slot],
    next: &mut usize,
    write: &mut dyn FnMut(usize, &mut Builder),
    out: &mut Builder,
) {
    let end = packed::skip(bytes, slot.at());
    match slots.get(*next) {
        Some(&change) if change == slot => {
            write(*next, out);
            *next += 1;
        }
        Some(change) if change.at() < end && !slot.is_element() => {
            match packed::value(bytes, slot) {
                Value::Object(object) => {
                    out.begin_object();
                    for (name, at) in packed::members(bytes, object) {
                        out.name(name);
                        copy_changed(bytes, Slot::whole(at), slots, next, write, out);
                    }
                }
                _ => {
                    out.begin_array();
                    for item in packed::items(bytes, slot) {
                        copy_changed(bytes, item, slots, next, write, out);
                    }
                }
            }
            out.end();
        }
        _ => out.copy(bytes, slot),
    }
}

/// Appends `patch` applied to a value, or to nothing: JSON.MERGE's rule (RFC 7396).
pub fn merge(bytes: &[u8], target: Option<Slot>, patch: &[u8], at: Slot, out: &mut Builder) {
    let Value::Object(changes) = packed::value(patch, at) else {
        out.copy(patch, at);
        return;
    };
    let object = target.and_then(|slot| match packed::value(bytes, slot) {
        Value::Object(object) => Some(object),
        _ => None,
    });
    let mut kept: Vec<(&[u8], Option<usize>)> = Vec::new();
    if let Some(object) = object {
        kept.extend(packed::members(bytes, object).map(|(name, at)| (name, Some(at))));
    }
    for (name, change) in packed::members(patch, changes) {
        let known = kept.iter().position(|(known, _)| *known == name);
        let is_null = matches!(packed::value(patch, Slot::whole(change)), Value::Null);
        match known {
            Some(index) if is_null => _ = kept.swap_remove(index),
            None if !is_null => kept.push((name, None)),
            _ => {}
        }
    }
    out.begin_object();
    for (name, at) in kept {
        out.name(name);
        match packed::member(patch, changes, name) {
            Some(change) => merge(bytes, at.map(Slot::whole), patch, Slot::whole(change), out),
            None => out.copy(bytes, Slot::whole(at.unwrap_or_default())),
        }
    }
    out.end();
}
