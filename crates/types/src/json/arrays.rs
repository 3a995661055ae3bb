// SPDX-License-Identifier: BSD-3-Clause
//! Changes of arrays: JSON.ARRAPPEND, ARRINSERT, ARRPOP, ARRTRIM.

use braid_base::number::parse_i64;
use braid_executor::Call;
use braid_keyspace::Event;
use braid_resp::reply::ReplyBuffer;
use braid_spec::{CommandError, CommandResult};
use braid_values::json::builder::Builder;
use braid_values::json::doc::Doc;
use braid_values::json::packed::{self, Slot};
use braid_values::json::path::{Path, eval};
use braid_values::json::{edit, print};

use smallvec::{SmallVec, smallvec};

use super::find;
use super::shared::{
    NOT_AN_INTEGER, Outcome, change, change_each, no_match, no_match_raw, parse_value, path_of_change,
    reply_each, text, too_large,
};

const APPEND: Event = Event::module("json.arrappend");
const INSERT: Event = Event::module("json.arrinsert");
const POP: Event = Event::module("json.arrpop");
const TRIM: Event = Event::module("json.arrtrim");

const NOT_AN_ARRAY: &str = " or not an array";

fn reply_len(reply: &mut ReplyBuffer, len: usize) {
    reply.integer(len as i64);
}

fn index_arg(arg: &[u8]) -> Result<i64, CommandError> {
    parse_i64(arg).ok_or_else(|| text(NOT_AN_INTEGER))
}

/// Appends elements of an array, some of them left out, and others in between.
fn rebuilt(bytes: Doc<'_>, array: Slot, kept: std::ops::Range<usize>, at: usize, new: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Builder::default();
    let add = |out: &mut Builder| new.iter().for_each(|value| out.copy(Doc::flat(value), Slot::whole(0)));
    out.begin_array();
    let mut index = 0;
    for item in packed::items(bytes, array) {
        if index == at {
            add(&mut out);
        }
        if kept.contains(&index) {
            out.copy(bytes, item);
        }
        index += 1;
    }
    if at >= index {
        add(&mut out);
    }
    out.end();
    out.finish()
}

/// The only match of a path, if it has exactly one and that is an array.
fn only_array(bytes: Doc<'_>, path: &Path<'_>) -> Option<Slot> {
    let mut only = None;
    let mut count = 0;
    let searched = find::visit(bytes, path, &mut |slot| {
        only = Some(slot);
        count += 1;
        count < 2
    });
    only.filter(|&slot| searched.is_ok() && count == 1 && packed::array_len(bytes, slot).is_some())
}

/// Most often it is one value.
fn values_arg(call: &Call, first: usize) -> Result<SmallVec<[Vec<u8>; 1]>, CommandError> {
    call.args[first..].iter().map(|json| parse_value(json, "")).collect()
}

pub(super) fn append(call: &mut Call) -> CommandResult {
    let values = values_arg(call, 3)?;
    let path = path_of_change(call, 2)?;
    let key = call.args[1];
    let document = change(call.keyspace, key)?;
    let results: SmallVec<[_; 1]> = if let Some(array) = only_array(document.doc(), &path) {
        let len = packed::array_len(document.doc(), array).unwrap_or(0);
        edit::insert(document, array, len, &values).map_err(too_large)?;
        call.keyspace.finish_change(APPEND, key, 1, false);
        smallvec![Some(len + values.len())]
    } else {
        change_each(call, &path, APPEND, &mut |bytes, slot| {
            Ok(match packed::array_len(bytes, slot) {
                Some(len) => (Some(len + values.len()), Some(rebuilt(bytes, slot, 0..len, len, &values))),
                None => (None, None),
            })
        })?
        .into()
    };
    reply_each(
        call.reply,
        &path,
        &results,
        || no_match_raw(&path, NOT_AN_ARRAY),
        |reply, &len| reply_len(reply, len),
    )
}

pub(super) fn insert(call: &mut Call) -> CommandResult {
    let index = index_arg(call.args[3])?;
    let values = values_arg(call, 4)?;
    let path = path_of_change(call, 2)?;
    let key = call.args[1];
    let place = |len: usize| {
        let at = if index < 0 { len as i64 + index } else { index };
        usize::try_from(at).ok().filter(|&at| at <= len).ok_or_else(|| text("ERR index out of bounds"))
    };
    let document = change(call.keyspace, key)?;
    let results: SmallVec<[_; 1]> = if let Some(array) = only_array(document.doc(), &path) {
        let len = packed::array_len(document.doc(), array).unwrap_or(0);
        edit::insert(document, array, place(len)?, &values).map_err(too_large)?;
        call.keyspace.finish_change(INSERT, key, 1, false);
        smallvec![Some(len + values.len())]
    } else {
        change_each(call, &path, INSERT, &mut |bytes, slot| {
            let Some(len) = packed::array_len(bytes, slot) else { return Ok((None, None)) };
            let value = rebuilt(bytes, slot, 0..len, place(len)?, &values);
            Ok((Some(len + values.len()), Some(value)))
        })?
        .into()
    };
    reply_each(
        call.reply,
        &path,
        &results,
        || no_match(&path, NOT_AN_ARRAY),
        |reply, &len| reply_len(reply, len),
    )
}

/// The index of the element to remove; an index beyond either end means the element there.
fn pop_index(index: i64, len: usize) -> usize {
    eval::from_end(index, len).min(len.saturating_sub(1))
}

/// What was popped: the element's text, or nothing from an empty array.
type Popped = Option<Vec<u8>>;

pub(super) fn pop(call: &mut Call) -> CommandResult {
    let path = path_of_change(call, 2)?;
    // An index that is no number means the last element, as in Redis Stack.
    let index = call.args.get(3).and_then(|arg| parse_i64(arg)).unwrap_or(-1);
    let key = call.args[1];
    let document = change(call.keyspace, key)?;
    let element = |bytes: Doc<'_>, array: Slot, len: usize| {
        let item = packed::item(bytes, array, pop_index(index, len))?;
        let mut out = Vec::new();
        print::compact(bytes, item, &mut out);
        Some((item, out))
    };
    let results: Vec<Option<Popped>> = if let Some(array) = only_array(document.doc(), &path) {
        let len = packed::array_len(document.doc(), array).unwrap_or(0);
        match element(document.doc(), array, len) {
            Some((item, popped)) => {
                edit::remove(document, item).map_err(too_large)?;
                call.keyspace.finish_change(POP, key, 1, false);
                vec![Some(Some(popped))]
            }
            None => vec![Some(None)],
        }
    } else {
        change_each(call, &path, POP, &mut |bytes, slot| {
            let Some(len) = packed::array_len(bytes, slot) else { return Ok((None, None)) };
            let outcome: Outcome<Popped> = match element(bytes, slot, len) {
                Some((_, popped)) => {
                    let at = pop_index(index, len);
                    let mut out = Builder::default();
                    out.begin_array();
                    packed::items(bytes, slot)
                        .enumerate()
                        .filter(|(index, _)| *index != at)
                        .for_each(|(_, item)| out.copy(bytes, item));
                    out.end();
                    (Some(Some(popped)), Some(out.finish()))
                }
                None => (Some(None), None),
            };
            Ok(outcome)
        })?
    };
    reply_each(
        call.reply,
        &path,
        &results,
        || no_match(&path, NOT_AN_ARRAY),
        |reply, popped| match popped {
            Some(popped) => reply.bulk(popped),
            None => reply.null(),
        },
    )
}

pub(super) fn trim(call: &mut Call) -> CommandResult {
    let (start, stop) = (index_arg(call.args[3])?, index_arg(call.args[4])?);
    let path = path_of_change(call, 2)?;
    let kept = |len: usize| {
        let from = eval::from_end(start, len).min(len);
        let to = eval::from_end(stop, len).saturating_add(1);
        from..to.min(len).max(from)
    };
    let key = call.args[1];
    let document = change(call.keyspace, key)?;
    let large = document.is_in_pieces().then(|| only_array(document.doc(), &path)).flatten();
    let results = if let Some(array) = large {
        let kept = kept(packed::array_len(document.doc(), array).unwrap_or(0));
        let count = kept.len();
        edit::keep(document, array, kept).map_err(too_large)?;
        call.keyspace.finish_change(TRIM, key, 1, false);
        vec![Some(count)]
    } else {
        change_each(call, &path, TRIM, &mut |bytes, slot| {
            let Some(len) = packed::array_len(bytes, slot) else { return Ok((None, None)) };
            let kept = kept(len);
            let count = kept.len();
            Ok((Some(count), Some(rebuilt(bytes, slot, kept, usize::MAX, &[]))))
        })?
    };
    reply_each(
        call.reply,
        &path,
        &results,
        || no_match(&path, NOT_AN_ARRAY),
        |reply, &len| reply_len(reply, len),
    )
}
