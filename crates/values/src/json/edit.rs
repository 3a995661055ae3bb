// SPDX-License-Identifier: BSD-3-Clause
//! Changes of a document at one place or at many.
//!
//! A change names a slot; [`around`] (`location.rs`) finds the containers of a slot by its offset.
//! Where several slots change, and none is inside another, [`rebuild`] makes the new document in
//! one pass; otherwise a route keeps each place by names and indices, and the places change one
//! after the other, as in Redis Stack.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;

use super::builder::{self, Builder};
use super::doc::Doc;
use super::location::{Part, around};
use super::number::Num;
use super::packed::{self, Container, Slot, Typed, Value};
use super::value::{Edit, Json, TooLarge};

/// Replaces the value in a slot by another, which is packed.
///
/// # Errors
/// If the document becomes too large; it is unchanged then.
pub fn replace(document: &mut Json, slot: Slot, value: &[u8]) -> Result<(), TooLarge> {
    if slot.is_element() {
        return replace_element(document, slot, value);
    }
    let at = slot.at();
    let end = packed::skip(document.doc(), at);
    if end - at == value.len() && document.doc().is_contiguous(at..end) {
        document.overwrite(at, value);
        return Ok(());
    }
    if at == 0 {
        return document.set(value);
    }
    let place = around(document.doc(), slot);
    change(document, &place.around, &[Edit { range: at..end, bytes: value, children: 0 }])
}

/// Makes changes of children of the innermost of some containers.
fn change(document: &mut Json, around: &[usize], edits: &[Edit<'_>]) -> Result<(), TooLarge> {
    document.replace(around, around.last().copied().unwrap_or(0), edits)
}

fn replace_element(document: &mut Json, slot: Slot, value: &[u8]) -> Result<(), TooLarge> {
    let array = Slot::whole(slot.at());
    let (bytes, index) = (document.doc(), slot.element as usize);
    let Value::Typed(typed) = packed::value(bytes, array) else { return Ok(()) };
    if let Value::Num(number) = packed::value(Doc::flat(value), Slot::whole(0))
        && let Some(element) = builder::element(typed.elements, typed.scale, number)
    {
        document.set_element(slot, &element);
        return Ok(());
    }
    let mut out = Builder::default();
    out.begin_array();
    for (at, item) in packed::items(bytes, array).enumerate() {
        if at == index { out.copy(Doc::flat(value), Slot::whole(0)) } else { out.copy(bytes, item) }
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
    let mut place = around(document.doc(), object);
    place.around.push(object.at());
    let end = packed::skip(document.doc(), object.at());
    let mut member = Vec::with_capacity(name.len() + value.len() + 5);
    builder::push_name(&mut member, name);
    member.extend_from_slice(value);
    change(document, &place.around, &[Edit { range: end..end, bytes: &member, children: 1 }])
}

/// Inserts values into the array in a slot, before an index of at most its length.
///
/// # Errors
/// As [`replace`].
pub fn insert(document: &mut Json, array: Slot, index: usize, values: &[Vec<u8>]) -> Result<(), TooLarge> {
    let bytes = document.doc();
    if let Value::Array(container) = packed::value(bytes, array) {
        // An array whose elements all are numbers of one kind is rebuilt below as a typed one.
        let has_other = packed::items(bytes, array)
            .take(2)
            .any(|item| !matches!(packed::value(bytes, item), Value::Num(_)));
        if has_other || container.count >= 32 {
            let at = place_of(bytes, array, container, index);
            let mut place = around(bytes, array);
            place.around.push(array.at());
            let children = values.len() as isize;
            let edit = Edit { range: at..at, bytes: &values.concat(), children };
            return change(document, &place.around, &[edit]);
        }
    }
    if let Value::Typed(typed) = packed::value(bytes, array)
        && (typed.has_wide_count || typed.count + values.len() <= 255)
        && let Some(elements) = elements(&typed, values)
    {
        let at = typed.start + index * typed.elements.width();
        let edit = Edit { range: at..at, bytes: &elements, children: values.len() as isize };
        return resize_typed(document, array, &[edit]);
    }
    let mut out = Builder::default();
    out.begin_array();
    let items: Vec<Slot> = packed::items(bytes, array).collect();
    items[..index].iter().for_each(|&item| out.copy(bytes, item));
    values.iter().for_each(|value| out.copy(Doc::flat(value), Slot::whole(0)));
    items[index..].iter().for_each(|&item| out.copy(bytes, item));
    out.end();
    replace(document, array, &out.finish())
}

/// The bytes of values in an array of numbers, if they are numbers that it can hold.
fn elements(typed: &Typed, values: &[Vec<u8>]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(values.len() * 8);
    let fit = values.iter().all(|value| match packed::value(Doc::flat(value), Slot::whole(0)) {
        Value::Num(number) => builder::add_element(&mut out, typed.elements, typed.scale, number),
        _ => false,
    });
    fit.then_some(out)
}

/// The offset where the element of an array with an index begins; the end for its length.
fn place_of(doc: Doc<'_>, array: Slot, container: Container, index: usize) -> usize {
    packed::item(doc, array, index).map_or(container.end, Slot::at)
}

/// Adds and removes elements of an array of numbers, of the same type.
fn resize_typed(document: &mut Json, array: Slot, edits: &[Edit<'_>]) -> Result<(), TooLarge> {
    let Value::Typed(typed) = packed::value(document.doc(), array) else { return Ok(()) };
    let place = around(document.doc(), array);
    let count_at = array.at() + 1;
    let write_count = |document: &mut Json, count: usize| match typed.has_wide_count {
        true => document.overwrite(count_at, &(count as u32).to_le_bytes()),
        false => document.overwrite(count_at, &[count as u8]),
    };
    // First, since the headers of the containers may grow and move the array.
    let children: isize = edits.iter().map(|edit| edit.children).sum();
    write_count(document, typed.count.strict_add_signed(children));
    let replaced = document.replace(&place.around, array.at(), edits);
    if replaced.is_err() {
        write_count(document, typed.count);
    }
    replaced
}

/// Removes all but some elements of the array in a slot. `kept` is within its length.
///
/// # Errors
/// Never, since the document becomes smaller.
pub fn keep(document: &mut Json, array: Slot, kept: Range<usize>) -> Result<(), TooLarge> {
    let doc = document.doc();
    let removed = |range: Range<usize>, count: usize| Edit { range, bytes: &[], children: -(count as isize) };
    match packed::value(doc, array) {
        Value::Array(container) => {
            let (from, to) =
                (place_of(doc, array, container, kept.start), place_of(doc, array, container, kept.end));
            let mut place = around(doc, array);
            place.around.push(array.at());
            let edits = [
                removed(container.start..from, kept.start),
                removed(to..container.end, container.count - kept.end),
            ];
            change(document, &place.around, &edits)
        }
        Value::Typed(typed) => {
            let at = |index: usize| typed.start + index * typed.elements.width();
            let edits = [
                removed(typed.start..at(kept.start), kept.start),
                removed(at(kept.end)..typed.end(), typed.count - kept.end),
            ];
            resize_typed(document, array, &edits)
        }
        _ => Ok(()),
    }
}

/// Removes the value in a slot from its container. The last member of an object takes the place of
/// a removed one, as in Redis Stack.
///
/// # Errors
/// As [`replace`]; a removal does not make it larger.
pub fn remove(document: &mut Json, slot: Slot) -> Result<(), TooLarge> {
    let doc = document.doc();
    if slot.is_element() {
        let array = Slot::whole(slot.at());
        let Value::Typed(typed) = packed::value(doc, array) else { return Ok(()) };
        let width = typed.elements.width();
        let at = typed.start + slot.element as usize * width;
        return resize_typed(document, array, &[Edit { range: at..at + width, bytes: &[], children: -1 }]);
    }
    let place = around(doc, slot);
    let Some(&parent) = place.around.last() else { return Ok(()) };
    let end = packed::skip(doc, slot.at());
    let removed = Edit { range: place.member..end, bytes: &[], children: -1 };
    match packed::value(doc, Slot::whole(parent)) {
        Value::Object(object) if end < object.end => {
            let last = packed::last_member(doc, Slot::whole(parent), object);
            let mut moved = Vec::with_capacity(object.end - last);
            doc.copy(last..object.end, &mut moved);
            let edits = [
                Edit { range: place.member..end, bytes: &moved, children: 0 },
                Edit { range: last..object.end, bytes: &[], children: -1 },
            ];
            change(document, &place.around, &edits)
        }
        _ => change(document, &place.around, &[removed]),
    }
}

/// Up to this many removals are made one after the other, more of them in one pass.
pub const FEW: usize = 32;
/// The same for documents in pieces, where one pass costs more.
pub const FEW_IN_PIECES: usize = 256;

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
pub fn without(bytes: Doc<'_>, slots: &[Slot]) -> Vec<u8> {
    let mut out = Builder::with_capacity(bytes.len());
    let mut next = 0;
    copy_without(bytes, Slot::whole(0), slots, &mut next, &mut out);
    out.finish()
}

fn copy_without(bytes: Doc<'_>, slot: Slot, slots: &[Slot], next: &mut usize, out: &mut Builder) {
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
pub fn are_disjoint(bytes: Doc<'_>, slots: &[Slot]) -> bool {
    slots.windows(2).all(|pair| {
        let (one, next) = (pair[0], pair[1]);
        if one.is_element() { one != next } else { packed::skip(bytes, one.at()) <= next.at() }
    })
}

/// The document with the values in some slots replaced, all in one pass. `slots` are sorted and
/// disjoint; `write` appends the new value of the slot with that position among them.
pub fn rebuild(bytes: Doc<'_>, slots: &[Slot], write: &mut dyn FnMut(usize, &mut Builder)) -> Vec<u8> {
    let mut out = Builder::with_capacity(bytes.len());
    let mut next = 0;
    copy_changed(bytes, Slot::whole(0), slots, &mut next, write, &mut out);
    out.finish()
}

fn copy_changed(
    bytes: Doc<'_>,
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
pub fn merge(bytes: Doc<'_>, target: Option<Slot>, patch: Doc<'_>, at: Slot, out: &mut Builder) {
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
