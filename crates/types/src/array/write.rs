// SPDX-License-Identifier: BSD-3-Clause
//! Changes of arrays. All arguments are read, and checked, before anything is changed.

use braid_base::blob::Blob;
use braid_base::number::parse_u64;
use braid_executor::Call;
use braid_executor::engine::call::blob_among;
use braid_spec::{CommandError, CommandResult};
use braid_values::array::value::{Array, INDEX_MAX, Text};
use smallvec::SmallVec;

use super::{ARDEL, ARINSERT, ARRING, ARSEEK, ARSET, index_of, positive, reply_index};

type Indexes<T> = SmallVec<[T; 8]>;

/// An argument, which may have been received into an allocation of its own.
fn text_of<'a>(blobs: &'a [Blob], arg: &'a [u8]) -> Text<'a> {
    blob_among(blobs, arg).map_or(Text::Bytes(arg), Text::Blob)
}

/// The last of `count` indexes from this one on, if there are so many.
fn last_of(first: u64, count: usize) -> Option<u64> {
    first.checked_add(count as u64 - 1).filter(|last| *last <= INDEX_MAX)
}

pub(super) fn arset(call: &mut Call) -> CommandResult {
    let (first, texts) = (index_of(call.args[2])?, &call.args[3..]);
    last_of(first, texts.len()).ok_or(CommandError::NotAnInteger)?;
    set_all(call, texts.iter().zip(first..).map(|(text, index)| (index, *text)))
}

pub(super) fn armset(call: &mut Call) -> CommandResult {
    let (pairs, []) = call.args[2..].as_chunks::<2>() else { return Err(call.wrong_arity()) };
    let indexes: Indexes<u64> = pairs.iter().map(|[index, _]| index_of(index)).collect::<Result<_, _>>()?;
    set_all(call, indexes.into_iter().zip(pairs.iter().map(|[_, text]| *text)))
}

/// Sets texts, which are arguments, in the array at the command's key; replies how many of the
/// indexes were not set before.
fn set_all<'a>(call: &mut Call<'a, '_>, texts: impl Iterator<Item = (u64, &'a [u8])>) -> CommandResult {
    let key = call.args[1];
    let array = call.keyspace.write_or_create(key, Array::default)?;
    let (mut all, mut new) = (0, 0);
    for (index, text) in texts {
        new += i64::from(array.set(index, text_of(call.blobs, text)));
        all += 1;
    }
    call.keyspace.finish_change(ARSET, key, all, false);
    call.reply.integer(new);
    Ok(())
}

pub(super) fn arinsert(call: &mut Call) -> CommandResult {
    let (key, texts) = (call.args[1], &call.args[2..]);
    let cursor = call.keyspace.read_as::<Array>(key)?.map_or(0, Array::cursor);
    let last = last_of(cursor, texts.len()).ok_or(CommandError::text("ERR insert index overflow"))?;
    let array = call.keyspace.write_or_create(key, Array::default)?;
    for text in texts {
        array.insert(text_of(call.blobs, text));
    }
    call.keyspace.finish_change(ARINSERT, key, texts.len() as u64, false);
    reply_index(call.reply, last);
    Ok(())
}

pub(super) fn arring(call: &mut Call) -> CommandResult {
    let (key, size, texts) = (call.args[1], positive(call.args[2])?, &call.args[3..]);
    let array = call.keyspace.write_or_create(key, Array::default)?;
    array.use_as_ring(size);
    let mut last = 0;
    for text in texts {
        last = array.insert_in_ring(size, text_of(call.blobs, text));
    }
    call.keyspace.finish_change(ARRING, key, texts.len() as u64, false);
    reply_index(call.reply, last);
    Ok(())
}

/// The index after the last one is allowed here: nothing more can be inserted then.
pub(super) fn arseek(call: &mut Call) -> CommandResult {
    let (key, index) = (call.args[1], parse_u64(call.args[2]).ok_or(CommandError::NotAnInteger)?);
    let array = call.keyspace.write_as::<Array>(key)?;
    let is_there = array.is_some();
    if let Some(array) = array {
        array.set_cursor(index);
        call.keyspace.finish_change(ARSEEK, key, 1, false);
    }
    call.reply.integer(is_there.into());
    Ok(())
}

pub(super) fn ardel(call: &mut Call) -> CommandResult {
    let indexes: Indexes<u64> =
        call.args[2..].iter().map(|index| index_of(index)).collect::<Result<_, _>>()?;
    remove(call, |array| indexes.iter().filter(|index| array.remove(**index)).count() as u64)
}

pub(super) fn ardelrange(call: &mut Call) -> CommandResult {
    let (pairs, []) = call.args[2..].as_chunks::<2>() else { return Err(call.wrong_arity()) };
    let read = |[start, end]: &[&[u8]; 2]| Ok((index_of(start)?, index_of(end)?));
    let ranges: Indexes<(u64, u64)> = pairs.iter().map(read).collect::<Result<_, CommandError>>()?;
    let each =
        |array: &mut Array, (start, end): (u64, u64)| array.remove_range(start.min(end), start.max(end));
    remove(call, |array| ranges.iter().map(|range| each(array, *range)).sum())
}

/// Removes texts from the array at the command's key; replies how many.
fn remove(call: &mut Call, remove: impl FnOnce(&mut Array) -> u64) -> CommandResult {
    let key = call.args[1];
    let (mut removed, mut is_empty) = (0, false);
    if let Some(array) = call.keyspace.write_as::<Array>(key)? {
        removed = remove(array);
        is_empty = array.is_empty();
    }
    if removed > 0 {
        call.keyspace.finish_change(ARDEL, key, removed, is_empty);
    }
    call.reply.integer(removed as i64);
    Ok(())
}
