// SPDX-License-Identifier: BSD-3-Clause
//! Changes of documents: whole values, members, numbers, strings and booleans.

use std::borrow::Cow;
use std::cell::LazyCell;

use braid_base::blob::Blob;
use braid_executor::Call;
use braid_keyspace::object::Object;
use braid_keyspace::{Event, Expiry, Txn};
use braid_resp::reply::Protocol;
use braid_spec::{CommandError, CommandResult};
use braid_values::json::builder::{Builder, push_number};
use braid_values::json::doc::Doc;
use braid_values::json::edit;
use braid_values::json::floats::FloatType;
use braid_values::json::location::{self, Part};
use braid_values::json::number::{Num, Operation};
use braid_values::json::packed::{self, Slot, Value};
use braid_values::json::path::{Path, Selector};
use braid_values::json::value::Json;

use super::find;
use super::reply::number as reply_number;
use super::shared::{
    LONG, change, change_each, change_values, no_match, parse_only_value, parse_path, parse_value,
    parse_value_with, path_arg, path_of_change, peek, reply_each, text, too_large,
};

const SET: Event = Event::module("json.set");
const MSET: Event = Event::module("json.mset");
const MERGE: Event = Event::module("json.merge");
const DEL: Event = Event::module("json.del");
const CLEAR: Event = Event::module("json.clear");
const STRAPPEND: Event = Event::module("json.strappend");
const TOGGLE: Event = Event::module("json.toggle");

const NOT_AT_ROOT: &str = "ERR new objects must be created at the root";
const NOT_STATIC: &str = "Err wrong static path";
const OUT_OF_RANGE: &str = "ERR array index out of range";

/// Which values JSON.SET may set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Any,
    Missing,
    Existing,
}

/// A value to be set or merged.
struct Change<'a> {
    path: Path<'a>,
    value: Content,
    merges: bool,
}

/// A parsed text.
enum Content {
    Packed(Vec<u8>),
    /// Of a long text, parsed in the background.
    Document(Json),
}

impl Content {
    fn document(&self) -> Result<Json, CommandError> {
        match self {
            Content::Packed(bytes) => Json::new(bytes).map_err(too_large),
            Content::Document(document) => Ok(document.clone()),
        }
    }

    fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Content::Packed(bytes) => Cow::Borrowed(bytes),
            Content::Document(document) => {
                let doc = document.doc();
                let mut bytes = Vec::with_capacity(doc.len());
                doc.copy(0..doc.len(), &mut bytes);
                Cow::Owned(bytes)
            }
        }
    }
}

/// What setting a value at a path comes to.
enum Plan {
    Nothing,
    /// Values that are there.
    Replace(Vec<Slot>),
    /// A new member of the object in the slot.
    Add(Slot),
}

/// Decides what to do; the document stays as it is.
fn plan(bytes: Doc<'_>, path: &Path<'_>, condition: Condition) -> Result<Plan, CommandError> {
    let slots = match condition {
        // The way to a new member must be static, whether or not it is needed.
        Condition::Missing if !path.is_static() => return Err(text(NOT_STATIC)),
        Condition::Missing if find::first(bytes, path)?.is_some() => return Ok(Plan::Nothing),
        Condition::Missing => Vec::new(),
        _ => find::all(bytes, path)?,
    };
    if !slots.is_empty() {
        return Ok(Plan::Replace(slots));
    }
    if condition == Condition::Existing {
        return Ok(Plan::Nothing);
    }
    if !path.is_static() {
        return Err(text(NOT_STATIC));
    }
    let Some((last, before)) = path.steps.split_last() else { return Ok(Plan::Nothing) };
    if matches!(last.selector, Selector::Index(_)) {
        return Err(text(OUT_OF_RANGE));
    }
    let parent = find::first_of(bytes, before)?;
    let is_object = |&slot: &Slot| matches!(packed::value(bytes, slot), Value::Object(_));
    Ok(parent.filter(is_object).map_or(Plan::Nothing, Plan::Add))
}

/// Sets or merges a value in a document; true if anything was set.
fn apply(document: &mut Json, change: &Change<'_>, plan: Plan) -> Result<bool, CommandError> {
    match plan {
        Plan::Nothing => return Ok(false),
        Plan::Add(object) => {
            let name = match change.path.steps.last().map(|step| &step.selector) {
                Some(Selector::Name(name)) => name,
                _ => return Ok(false),
            };
            edit::add_member(document, object, name, &change.value.bytes()).map_err(too_large)?;
        }
        Plan::Replace(slots) => match slots.as_slice() {
            [slot] if *slot == Slot::whole(0) && !change.merges => *document = change.value.document()?,
            [slot] => {
                let value = change.new_value(document.doc(), *slot);
                edit::replace(document, *slot, &value).map_err(too_large)?;
            }
            _ => {
                let (done, _) = change_values(document, &change.path, &mut |bytes, slot| {
                    Ok((Some(()), Some(change.new_value(bytes, slot).into_owned())))
                });
                done?;
            }
        },
    }
    Ok(true)
}

impl Change<'_> {
    /// The new value of a slot, packed.
    fn new_value(&self, bytes: Doc<'_>, slot: Slot) -> Cow<'_, [u8]> {
        if !self.merges {
            return self.value.bytes();
        }
        let mut out = Builder::default();
        edit::merge(bytes, Some(slot), Doc::flat(&self.value.bytes()), Slot::whole(0), &mut out);
        Cow::Owned(out.finish())
    }
}

/// Sets or merges a value at a key; true if anything was set.
fn set_at(
    keyspace: &mut Txn<'_>,
    event: Event,
    key: &[u8],
    change: &Change<'_>,
    condition: Condition,
) -> Result<bool, CommandError> {
    let Some(document) = peek(keyspace, key)? else {
        if condition == Condition::Existing {
            return Ok(false);
        }
        if !change.path.is_root() {
            return Err(text(NOT_AT_ROOT));
        }
        keyspace.set_object(event, key, Object::new(change.value.document()?), Expiry::Clear);
        return Ok(true);
    };
    let plan = plan(document.doc(), &change.path, condition)?;
    if matches!(plan, Plan::Nothing) {
        return Ok(false);
    }
    let document = super::shared::change(keyspace, key)?;
    let is_set = apply(document, change, plan)?;
    if is_set {
        keyspace.finish_change(event, key, 1, false);
    }
    Ok(is_set)
}

fn reply_set(call: &mut Call, is_set: bool) {
    if is_set { call.reply.ok() } else { call.reply.null() }
}

pub(super) fn set(call: &mut Call) -> CommandResult {
    let (mut condition, mut floats, mut at) = (Condition::Any, None, 4);
    while at < call.args.len() {
        if call.arg_is(at, "fpha") {
            let word = call.args.get(at + 1).copied().ok_or_else(|| call.wrong_arity())?;
            floats = Some(FloatType::named(word).ok_or(text("ERR invalid FPHA type"))?);
            at += 2;
            continue;
        }
        if call.arg_is(at, "format") {
            let format = call.args.get(at + 1).copied().ok_or_else(|| call.wrong_arity())?;
            let is_text = ["json", "string"].iter().any(|word| format.eq_ignore_ascii_case(word.as_bytes()));
            if !is_text {
                return Err(text("ERR wrong format"));
            }
            at += 2;
            continue;
        }
        let wanted = if call.arg_is(at, "nx") {
            Condition::Missing
        } else if call.arg_is(at, "xx") {
            Condition::Existing
        } else {
            return Err(CommandError::Syntax);
        };
        if condition != Condition::Any {
            return Err(CommandError::Syntax);
        }
        condition = wanted;
        at += 1;
    }
    let json = call.args[3];
    let is_there = peek(call.keyspace, call.args[1])?.is_some();
    let value = match call.take_precomputed::<Json>() {
        Some(document) => Content::Document(document?),
        None if json.len() >= LONG && call.may_precompute() => {
            let json = call.blob_of(json).unwrap_or_else(|| Blob::from_slice(json));
            return call.precompute::<Json>(&[], move |_, _| Some(parse_document(&json, floats)));
        }
        None => Content::Packed(parse_value_with(json, "", floats)?),
    };
    if !is_there && condition == Condition::Existing {
        call.reply.null();
        return Ok(());
    }
    let path = path_of_value(call.args[2], is_there)?;
    let change = Change { path, value, merges: false };
    let is_set = set_at(call.keyspace, SET, call.args[1], &change, condition)?;
    reply_set(call, is_set);
    Ok(())
}

/// The path of a value to be set. A new document can only be set at the root, wherever a path that
/// cannot be parsed leads.
fn path_of_value(path: &[u8], is_there: bool) -> Result<Path<'_>, CommandError> {
    match parse_path(path) {
        Err(_) if !is_there => Err(text(NOT_AT_ROOT)),
        path => path,
    }
}

fn parse_document(json: &[u8], floats: Option<FloatType>) -> Result<Json, CommandError> {
    Json::new(&parse_value_with(json, "", floats)?).map_err(too_large)
}

pub(super) fn merge(call: &mut Call) -> CommandResult {
    let is_there = peek(call.keyspace, call.args[1])?.is_some();
    let value = Content::Packed(parse_value(call.args[3], "")?);
    let path = path_of_value(call.args[2], is_there)?;
    let change = Change { path, value, merges: true };
    let is_set = set_at(call.keyspace, MERGE, call.args[1], &change, Condition::Any)?;
    reply_set(call, is_set);
    Ok(())
}

/// All values are checked before the first is set: each path against its document as it is before
/// the command, as in Redis Stack.
pub(super) fn mset(call: &mut Call) -> CommandResult {
    let mut changes = Vec::with_capacity(call.args.len() / 3);
    for triplet in call.args[1..].chunks(3) {
        if triplet.len() < 3 {
            return Err(call.wrong_arity());
        }
        let document = peek(call.keyspace, triplet[0])?;
        let path = path_of_value(triplet[1], document.is_some())?;
        if document.is_none() && !path.is_root() {
            return Err(text(NOT_AT_ROOT));
        }
        let is_done = match document {
            Some(document) => matches!(plan(document.doc(), &path, Condition::Any)?, Plan::Nothing),
            None => false,
        };
        let value = Content::Packed(parse_value(triplet[2], "")?);
        let change = Change { path, value, merges: false };
        changes.push((triplet[0], change, is_done));
    }
    for (key, change, is_done) in &changes {
        if !is_done {
            mset_one(call.keyspace, key, change)?;
        }
    }
    call.reply.ok();
    Ok(())
}

/// Sets one of the values; a path that an earlier value of the same command has taken away is left
/// out.
fn mset_one(keyspace: &mut Txn<'_>, key: &[u8], change: &Change<'_>) -> CommandResult {
    match set_at(keyspace, MSET, key, change, Condition::Any) {
        Err(CommandError::Text(message)) if matches!(&*message, NOT_STATIC | OUT_OF_RANGE) => Ok(()),
        other => other.map(|_| ()),
    }
}

pub(super) fn del(call: &mut Call) -> CommandResult {
    let key = call.args[1];
    let Some(document) = peek(call.keyspace, key)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let path = path_arg(call.args, 2)?;
    let bytes = document.doc();
    let mut slots = find::all(bytes, &path)?;
    if slots.iter().any(|slot| slot.at() == 0 && !slot.is_element()) {
        call.keyspace.finish_change(DEL, key, 1, false);
        call.keyspace.remove(key);
        call.reply.integer(1);
        return Ok(());
    }
    slots.sort_unstable();
    slots.dedup();
    let mut outer: Vec<Slot> = Vec::with_capacity(slots.len());
    for slot in slots {
        let is_inside = outer.last().is_some_and(|last| {
            last.at == slot.at && !last.is_element()
                || !last.is_element() && slot.at() < packed::skip(bytes, last.at())
        });
        if !is_inside {
            outer.push(slot);
        }
    }
    let count = outer.len();
    if count > 0 {
        remove_all(call.keyspace, key, &outer)?;
        call.keyspace.finish_change(DEL, key, 1, false);
    }
    call.reply.integer(count as i64);
    Ok(())
}

/// Removes values that are not inside each other: members in order of their names, elements from
/// the last one on.
fn remove_all(keyspace: &mut Txn<'_>, key: &[u8], slots: &[Slot]) -> CommandResult {
    let document = change(keyspace, key)?;
    if let [slot] = slots {
        return edit::remove(document, *slot).map_err(too_large);
    }
    let few = if document.is_in_pieces() { edit::FEW_IN_PIECES } else { edit::FEW };
    if slots.len() > few {
        let rebuilt = edit::without(document.doc(), slots);
        return document.set(&rebuilt).map_err(too_large);
    }
    let mut routes: Vec<Vec<Part>> =
        slots.iter().map(|&slot| location::route(document.doc(), slot)).collect();
    routes.sort_unstable_by(|one, other| edit::removal_order(one, other));
    for route in routes {
        if let Some(slot) = location::follow(document.doc(), &route) {
            edit::remove(document, slot).map_err(too_large)?;
        }
    }
    Ok(())
}

pub(super) fn clear(call: &mut Call) -> CommandResult {
    let path = path_of_change(call, 2)?;
    let results = change_each(call, &path, CLEAR, &mut |bytes, slot| {
        let mut out = Builder::default();
        match packed::value(bytes, slot) {
            Value::Object(object) if object.count > 0 => {
                out.begin_object();
                out.end();
            }
            Value::Num(number) if number != Num::Int(0) && number != Num::Float(0.0) => {
                out.number(Num::Int(0));
            }
            _ if packed::array_len(bytes, slot).is_some_and(|len| len > 0) => {
                out.begin_array();
                out.end();
            }
            _ => return Ok((None, None)),
        }
        Ok((Some(()), Some(out.finish())))
    })?;
    call.reply.integer(results.iter().flatten().count() as i64);
    Ok(())
}

pub(super) fn toggle(call: &mut Call) -> CommandResult {
    let path = path_of_change(call, 2)?;
    let results = change_each(call, &path, TOGGLE, &mut |bytes, slot| {
        Ok(match packed::value(bytes, slot) {
            Value::Bool(value) => {
                let mut out = Builder::default();
                out.boolean(!value);
                (Some(!value), Some(out.finish()))
            }
            _ => (None, None),
        })
    })?;
    let is_legacy = path.is_legacy;
    reply_each(
        call.reply,
        &path,
        &results,
        || no_match(&path, " or not a bool"),
        |reply, &value| match is_legacy {
            true => reply.bulk(if value { b"true" } else { b"false" }),
            false => reply.integer(i64::from(value)),
        },
    )
}

pub(super) fn strappend(call: &mut Call) -> CommandResult {
    let (path, json) = match call.args.len() {
        3 => (path_of_change(call, usize::MAX)?, call.args[2]),
        _ => (path_of_change(call, 2)?, call.args[3]),
    };
    // Only looked at if there is a string to append it to, as in Redis Stack.
    let more = LazyCell::new(|| string_arg(json));
    let results = change_each(call, &path, STRAPPEND, &mut |bytes, slot| {
        let Value::Str(old) = packed::value(bytes, slot) else { return Ok((None, None)) };
        let more: &[u8] = more.as_ref().map_err(CommandError::clone)?;
        let mut out = Builder::default();
        out.string(&[old, more].concat());
        Ok((Some(old.len() + more.len()), Some(out.finish())))
    })?;
    reply_each(
        call.reply,
        &path,
        &results,
        || no_match(&path, " or not a string"),
        |reply, &len| reply.integer(len as i64),
    )
}

/// The string that JSON.STRAPPEND appends.
fn string_arg(json: &[u8]) -> Result<Vec<u8>, CommandError> {
    let value = parse_value(json, "ERR ")?;
    let doc = Doc::flat(&value);
    if let Value::Str(more) = packed::value(doc, Slot::whole(0)) {
        return Ok(more.to_vec());
    }
    let mut shown = Vec::new();
    braid_values::json::print::compact(doc, Slot::whole(0), &mut shown);
    Err(text(format!(
        "WRONGTYPE wrong type of path value - expected string but found {}",
        String::from_utf8_lossy(&shown)
    )))
}

/// The number that JSON.NUMINCRBY and its relatives calculate with.
fn number_arg(json: &[u8]) -> Result<Num, CommandError> {
    match packed::value(Doc::flat(&parse_only_value(json)?), Slot::whole(0)) {
        Value::Num(number) => Ok(number),
        _ => Err(text("bad input number")),
    }
}

pub(super) fn numincrby(call: &mut Call) -> CommandResult {
    calculate(call, Operation::Add, Event::module("json.numincrby"))
}

pub(super) fn nummultby(call: &mut Call) -> CommandResult {
    calculate(call, Operation::Multiply, Event::module("json.nummultby"))
}

pub(super) fn numpowby(call: &mut Call) -> CommandResult {
    calculate(call, Operation::Power, Event::module("json.numpowby"))
}

fn calculate(call: &mut Call, operation: Operation, event: Event) -> CommandResult {
    let path = path_of_change(call, 2)?;
    // Only looked at if there is a number to change, as in Redis Stack.
    let by = LazyCell::new(|| number_arg(call.args[3]));
    let results = change_each(call, &path, event, &mut |bytes, slot| {
        let Value::Num(number) = packed::value(bytes, slot) else { return Ok((None, None)) };
        let result =
            number.apply(operation, by.clone()?).ok_or_else(|| text("ERR result is not a number"))?;
        let mut out = Vec::with_capacity(9);
        push_number(&mut out, result);
        Ok((Some(result), Some(out)))
    })?;
    if call.reply.protocol == Protocol::Resp3 {
        call.reply.array(results.len());
        for result in results {
            match result {
                Some(result) => reply_number(call.reply, result),
                None => call.reply.null(),
            }
        }
        return Ok(());
    }
    let mut out = Vec::new();
    if path.is_legacy {
        let last = results.iter().rev().flatten().next();
        last.ok_or_else(|| no_match(&path, " or does not contains a number"))?.print(&mut out);
    } else {
        out.push(b'[');
        for (index, result) in results.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            match result {
                Some(result) => result.print(&mut out),
                None => out.extend_from_slice(b"null"),
            }
        }
        out.push(b']');
    }
    call.reply.bulk(&out);
    Ok(())
}
