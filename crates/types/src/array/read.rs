// SPDX-License-Identifier: BSD-3-Clause
//! Commands that return texts, indexes and figures of arrays.

use braid_executor::Call;
use braid_spec::{CommandError, CommandResult};
use braid_values::array::value::{Array, EXHAUSTED};
use smallvec::SmallVec;

use super::{index_of, positive, reply_index, reply_pair, reply_text};

/// Most indexes that ARGETRANGE returns.
const RANGE_MAX: u64 = 1_000_000;

pub(super) fn arget(call: &mut Call) -> CommandResult {
    let index = index_of(call.args[2])?;
    let text = call.keyspace.read_as::<Array>(call.args[1])?.and_then(|array| array.get(index));
    reply_text(call.reply, text);
    Ok(())
}

pub(super) fn armget(call: &mut Call) -> CommandResult {
    let read = call.args[2..].iter().map(|index| index_of(index));
    let indexes: SmallVec<[u64; 8]> = read.collect::<Result<_, _>>()?;
    let array = call.keyspace.read_as::<Array>(call.args[1])?;
    call.reply.array(indexes.len());
    for index in indexes {
        reply_text(call.reply, array.and_then(|array| array.get(index)));
    }
    Ok(())
}

pub(super) fn argetrange(call: &mut Call) -> CommandResult {
    let (start, end) = (index_of(call.args[2])?, index_of(call.args[3])?);
    let width = start.abs_diff(end);
    if width >= RANGE_MAX {
        return Err(CommandError::text(format!("ERR range exceeds maximum of {RANGE_MAX} items")));
    }
    let array = call.keyspace.read_as::<Array>(call.args[1])?;
    call.reply.array(width as usize + 1);
    let mut texts = array.into_iter().flat_map(|array| array.scan(start, end)).peekable();
    for step in 0..=width {
        let index = if start > end { start - step } else { start + step };
        let text = texts.next_if(|(at, _)| *at == index).map(|(_, text)| text);
        reply_text(call.reply, text);
    }
    Ok(())
}

pub(super) fn arscan(call: &mut Call) -> CommandResult {
    let (start, end) = (index_of(call.args[2])?, index_of(call.args[3])?);
    let limit = match &call.args[4..] {
        [] => u64::MAX,
        [_, limit] if call.arg_is(4, "limit") => positive(limit)?,
        _ => return Err(CommandError::Syntax),
    };
    let array = call.keyspace.read_as::<Array>(call.args[1])?;
    let reply = call.reply.begin_array();
    let mut count = 0;
    for (index, text) in array.into_iter().flat_map(|array| array.scan(start, end)) {
        if count as u64 == limit {
            break;
        }
        reply_pair(call.reply, index, text);
        count += 1;
    }
    call.reply.end_array(reply, count);
    Ok(())
}

pub(super) fn arlastitems(call: &mut Call) -> CommandResult {
    let count = call.integer_arg(2)?;
    let refusal = CommandError::text("ERR value is out of range, must be positive");
    let count = u64::try_from(count).map_err(|_| refusal)?;
    let is_reverse = match &call.args[3..] {
        [] => false,
        [_] if call.arg_is(3, "rev") => true,
        _ => return Err(CommandError::Syntax),
    };
    let array = call.keyspace.read_as::<Array>(call.args[1])?;
    let mut indexes: Vec<u64> = array.map(|array| array.latest(count).collect()).unwrap_or_default();
    if !is_reverse {
        indexes.reverse();
    }
    call.reply.array(indexes.len());
    for index in indexes {
        reply_text(call.reply, array.and_then(|array| array.get(index)));
    }
    Ok(())
}

pub(super) fn arcount(call: &mut Call) -> CommandResult {
    let count = call.keyspace.read_as::<Array>(call.args[1])?.map_or(0, Array::count);
    reply_index(call.reply, count);
    Ok(())
}

pub(super) fn arlen(call: &mut Call) -> CommandResult {
    let len = call.keyspace.read_as::<Array>(call.args[1])?.map_or(0, Array::len);
    reply_index(call.reply, len);
    Ok(())
}

pub(super) fn arnext(call: &mut Call) -> CommandResult {
    match call.keyspace.read_as::<Array>(call.args[1])?.map_or(0, Array::cursor) {
        EXHAUSTED => call.reply.null(),
        cursor => reply_index(call.reply, cursor),
    }
    Ok(())
}

/// Slices are the groups of indexes of `values/array`: all are of one kind, which Redis calls
/// dense, and there is one directory.
pub(super) fn arinfo(call: &mut Call) -> CommandResult {
    let is_full = match &call.args[2..] {
        [] => false,
        [_] if call.arg_is(2, "full") => true,
        _ => return Err(CommandError::Syntax),
    };
    let array = call.keyspace.read_as::<Array>(call.args[1])?.ok_or(CommandError::NoSuchKey)?;
    let slices = array.chunks() as u64;
    let next = if array.cursor() == EXHAUSTED { 0 } else { array.cursor() };
    let width = Array::chunk_width();
    call.reply.map(if is_full { 12 } else { 7 });
    let figures = [
        ("count", array.count()),
        ("len", array.len()),
        ("next-insert-index", next),
        ("slices", slices),
        ("directory-size", slices),
        ("super-dir-entries", 0),
        ("slice-size", width),
    ];
    for (name, figure) in figures {
        call.reply.bulk(name.as_bytes());
        reply_index(call.reply, figure);
    }
    if is_full {
        for (name, figure) in [("dense-slices", slices), ("sparse-slices", 0)] {
            call.reply.bulk(name.as_bytes());
            reply_index(call.reply, figure);
        }
        let size = array.count() as f64 / slices as f64;
        let averages =
            [("avg-dense-size", size), ("avg-dense-fill", size / width as f64), ("avg-sparse-size", 0.0)];
        for (name, figure) in averages {
            call.reply.bulk(name.as_bytes());
            call.reply.double(figure);
        }
    }
    Ok(())
}
