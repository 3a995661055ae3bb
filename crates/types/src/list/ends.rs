// SPDX-License-Identifier: BSD-3-Clause
//! Pushing and popping at the ends of lists.
//!
//! [`take`] and [`move_element`] also serve clients waiting for elements (`blocking.rs`).

use braid_executor::{Call, limits};
use braid_keyspace::object::ObjectType;
use braid_keyspace::txn::WrongType;
use braid_keyspace::{Event, Txn, journal_as};
use braid_resp::reply::ReplyBuffer;
use braid_spec::{CommandError, CommandResult};
use braid_values::list::{End, List, ListLimits};
use smallvec::SmallVec;

use crate::collection::{least_arg, pop_count_arg, reply_element};

/// An element being moved from one list to another.
pub type Text = SmallVec<[u8; 64]>;

pub(super) fn lpush(call: &mut Call) -> CommandResult {
    push(call, End::Front)
}

pub(super) fn rpush(call: &mut Call) -> CommandResult {
    push(call, End::Back)
}

/// The event for pushed elements.
pub(super) fn pushed(end: End) -> Event {
    Event::list(if end == End::Front { "lpush" } else { "rpush" })
}

/// The event for popped elements.
pub(super) fn popped(end: End) -> Event {
    Event::list(if end == End::Front { "lpop" } else { "rpop" })
}

fn push(call: &mut Call, end: End) -> CommandResult {
    let (key, limits) = (call.args[1], limits::list_limits(call.engine));
    let list = call.keyspace.write_or_create(key, List::new)?;
    let len = push_args(list, &call.args[2..], end, &limits);
    call.keyspace.finish_change(pushed(end), key, call.args.len() as u64 - 2, false);
    call.reply.integer(len as i64);
    Ok(())
}

fn push_args(list: &mut List, texts: &[&[u8]], end: End, limits: &ListLimits) -> usize {
    match texts {
        [text] => list.push(end, text, limits),
        _ => list.push_all(end, texts.iter().copied(), limits),
    }
    list.len()
}

pub(super) fn lpushx(call: &mut Call) -> CommandResult {
    push_if_there(call, End::Front)
}

pub(super) fn rpushx(call: &mut Call) -> CommandResult {
    push_if_there(call, End::Back)
}

fn push_if_there(call: &mut Call, end: End) -> CommandResult {
    let (key, limits) = (call.args[1], limits::list_limits(call.engine));
    let mut len = 0;
    if let Some(list) = call.keyspace.write_as::<List>(key)? {
        len = push_args(list, &call.args[2..], end, &limits);
        call.keyspace.finish_change(pushed(end), key, call.args.len() as u64 - 2, false);
    }
    call.reply.integer(len as i64);
    Ok(())
}

pub(super) fn lpop(call: &mut Call) -> CommandResult {
    pop(call, End::Front)
}

pub(super) fn rpop(call: &mut Call) -> CommandResult {
    pop(call, End::Back)
}

fn pop(call: &mut Call, end: End) -> CommandResult {
    let (key, limits) = (call.args[1], limits::list_limits(call.engine));
    let count = match call.args.len() {
        2 => None,
        3 => Some(pop_count_arg(call, 2)?),
        _ => return Err(call.wrong_arity()),
    };
    let Some(list) = call.keyspace.write_as::<List>(key)? else {
        match count {
            Some(_) => call.reply.null_array(),
            None => call.reply.null(),
        }
        return Ok(());
    };
    match count {
        None => {
            list.pop(end, &limits, |element| reply_element(call.reply, element));
            let empty = list.is_empty();
            call.keyspace.finish_change(popped(end), key, 1, empty);
        }
        Some(0) => call.reply.array(0),
        Some(count) => {
            take(call.keyspace, call.reply, key, end, count, &limits)?;
        }
    }
    Ok(())
}

/// Pops up to `count` elements from one end of the list at a key and replies with an array of
/// them. Returns their number; without a list it returns 0 and writes no reply.
///
/// # Errors
/// If the key has a value of another type.
pub fn take(
    keyspace: &mut Txn<'_>,
    reply: &mut ReplyBuffer,
    key: &[u8],
    end: End,
    count: usize,
    limits: &ListLimits,
) -> Result<usize, WrongType> {
    let Some(list) = keyspace.write_as::<List>(key)? else { return Ok(0) };
    let len = list.len();
    let count = count.min(len);
    reply.array(count);
    if end == End::Front {
        list.range(0, count, |element| reply_element(reply, element));
        list.remove_range(0, count, limits);
    } else {
        list.walk(len.saturating_sub(1), false, |position, element| {
            if position + count >= len {
                reply_element(reply, element);
            }
            position + count > len
        });
        list.remove_range(len - count, count, limits);
    }
    let empty = list.is_empty();
    keyspace.finish_change(popped(end), key, count as u64, empty);
    Ok(count)
}

/// The first key that holds a list (which then has elements).
///
/// # Errors
/// If an earlier key holds another type.
pub fn first_filled(keyspace: &Txn<'_>, keys: &[&[u8]]) -> Result<Option<usize>, WrongType> {
    for (index, key) in keys.iter().enumerate() {
        match keyspace.look_at(key).map(|entry| entry.value_type()) {
            Some(List::TYPE) => return Ok(Some(index)),
            Some(_) => return Err(WrongType),
            None => {}
        }
    }
    Ok(None)
}

/// Parses an argument as an end of a list.
///
/// # Errors
/// If it is neither LEFT nor RIGHT.
pub fn end_arg(call: &Call, index: usize) -> Result<End, CommandError> {
    if call.arg_is(index, "left") {
        Ok(End::Front)
    } else if call.arg_is(index, "right") {
        Ok(End::Back)
    } else {
        Err(CommandError::Syntax)
    }
}

/// The parsed arguments of LMPOP and BLMPOP: the keys, the end, and the number of elements.
pub struct MultiplePop<'a> {
    pub keys: &'a [&'a [u8]],
    pub end: End,
    pub count: usize,
}

impl<'a> MultiplePop<'a> {
    /// Parses the arguments; the number of keys is argument `from`.
    ///
    /// # Errors
    /// If a count is not positive, there are fewer keys than stated, or the options are malformed.
    pub fn parse(call: &Call<'a, '_>, from: usize) -> Result<MultiplePop<'a>, CommandError> {
        let keys = least_arg(call, from, 1, "ERR numkeys should be greater than 0")?;
        let first = from + 1;
        let behind = usize::try_from(keys)
            .ok()
            .and_then(|keys| keys.checked_add(first))
            .filter(|&behind| behind < call.args.len())
            .ok_or(CommandError::Syntax)?;
        let end = end_arg(call, behind)?;
        let count = match call.args.len() - behind - 1 {
            0 => 1,
            _ if !call.arg_is(behind + 1, "count") => return Err(CommandError::Syntax),
            1 => return Err(CommandError::Syntax),
            more => {
                let count = least_arg(call, behind + 2, 1, "ERR count should be greater than 0")?;
                if more > 2 {
                    return Err(CommandError::Syntax);
                }
                usize::try_from(count).unwrap_or(usize::MAX)
            }
        };
        Ok(MultiplePop { keys: &call.args[first..behind], end, count })
    }
}

pub(super) fn lmpop(call: &mut Call) -> CommandResult {
    let MultiplePop { keys, end, count } = MultiplePop::parse(call, 1)?;
    let limits = limits::list_limits(call.engine);
    match first_filled(call.keyspace, keys)? {
        None => call.reply.null_array(),
        Some(index) => {
            call.reply.array(2);
            call.reply.bulk(keys[index]);
            let taken = take(call.keyspace, call.reply, keys[index], end, count, &limits)?;
            journal_take(call.keyspace, keys[index], end, taken);
        }
    }
    Ok(())
}

/// The command that pops an element from this end.
pub(super) fn pop_name(end: End) -> &'static [u8] {
    if end == End::Front { b"LPOP" } else { b"RPOP" }
}

/// Journals a pop from the first non-empty of several lists as a pop from that list.
pub(super) fn journal_take(keyspace: &mut Txn<'_>, key: &[u8], end: End, count: usize) {
    journal_as!(keyspace, pop_name(end), key, i64::try_from(count).unwrap_or(i64::MAX));
}

pub(super) fn rpoplpush(call: &mut Call) -> CommandResult {
    reply_moved(call, End::Back, End::Front)
}

pub(super) fn lmove(call: &mut Call) -> CommandResult {
    let (from, to) = (end_arg(call, 3)?, end_arg(call, 4)?);
    reply_moved(call, from, to)
}

fn reply_moved(call: &mut Call, from: End, to: End) -> CommandResult {
    let limits = limits::list_limits(call.engine);
    match move_element(call.keyspace, (call.args[1], from), (call.args[2], to), &limits)? {
        Some(text) => call.reply.bulk(&text),
        None => call.reply.null(),
    }
    Ok(())
}

/// Pops an element from one end of a list and pushes it at one end of another, which may be the
/// same list or missing. `None` if the source is missing.
///
/// # Errors
/// If one of the keys has a value of another type; nothing is changed then.
pub fn move_element(
    keyspace: &mut Txn<'_>,
    (source, from): (&[u8], End),
    (destination, to): (&[u8], End),
    limits: &ListLimits,
) -> Result<Option<Text>, WrongType> {
    match keyspace.look_at(source).map(|entry| entry.value_type()) {
        None => return Ok(None),
        Some(List::TYPE) => {}
        Some(_) => return Err(WrongType),
    }
    if keyspace.look_at(destination).is_some_and(|entry| entry.value_type() != List::TYPE) {
        return Err(WrongType);
    }
    let Some(list) = keyspace.write_as::<List>(source)? else { return Ok(None) };
    let copy = |element: braid_containers::listpack::Element<'_>| {
        Text::from_slice(element.text(&mut itoa::Buffer::new()))
    };
    let Some(text) = list.pop(from, limits, copy) else { return Ok(None) };
    if source == destination {
        // The key stays, with its expiry, even if this was the only element.
        list.push(to, &text, limits);
        keyspace.notify(pushed(to), destination);
        keyspace.finish_change(popped(from), source, 1, false);
        return Ok(Some(text));
    }
    keyspace.write_or_create(destination, List::new)?.push(to, &text, limits);
    keyspace.finish_change(pushed(to), destination, 1, false);
    let empty = keyspace.write_as::<List>(source)?.is_some_and(|list| list.is_empty());
    keyspace.notify(popped(from), source);
    keyspace.finish_change(popped(from), source, 0, empty);
    Ok(Some(text))
}
