// SPDX-License-Identifier: BSD-3-Clause
//! In-place changes of strings: APPEND, SETRANGE, and arithmetic.

use braid_base::long_double::LongDouble;
use braid_base::number;
use braid_executor::Call;
use braid_keyspace::txn::{IncrementError, StringRef};
use braid_keyspace::{Event, Expiry, Value};
use braid_spec::{CommandError, CommandResult};

use super::check_length;

pub(super) fn append(call: &mut Call) -> CommandResult {
    let (key, suffix) = (call.args[1], call.args[2]);
    let Some(value) = call.keyspace.string_for_change(key)? else {
        let value = call.value_arg(2);
        call.keyspace.set_as(Event::string("append"), key, value, Expiry::Clear);
        call.reply.integer(suffix.len() as i64);
        return Ok(());
    };
    let len = value.len();
    check_length(call, len as u64, suffix.len() as u64)?;
    let total = len + suffix.len();
    call.keyspace.edit_string(Event::string("append"), key, total, |bytes, _| {
        bytes[len..].copy_from_slice(suffix);
        ((), 1)
    })?;
    call.reply.integer(total as i64);
    Ok(())
}

pub(super) fn setrange(call: &mut Call) -> CommandResult {
    let (key, part) = (call.args[1], call.args[3]);
    let offset = u64::try_from(call.integer_arg(2)?).map_err(|_| CommandError::OffsetOutOfRange)?;
    let len = call.keyspace.string_for_change(key)?.map_or(0, StringRef::len);
    if part.is_empty() {
        call.reply.integer(len as i64);
        return Ok(());
    }
    check_length(call, offset, part.len() as u64)?;
    let start = usize::try_from(offset).map_err(|_| CommandError::StringTooLong)?;
    let end = start + part.len();
    let total = call.keyspace.edit_string(Event::string("setrange"), key, end, |bytes, _| {
        bytes[start..end].copy_from_slice(part);
        (bytes.len(), 1)
    })?;
    call.reply.integer(total as i64);
    Ok(())
}

pub(super) fn incr(call: &mut Call) -> CommandResult {
    add(call, 1)
}

pub(super) fn decr(call: &mut Call) -> CommandResult {
    add(call, -1)
}

pub(super) fn incrby(call: &mut Call) -> CommandResult {
    let by = call.integer_arg(2)?;
    add(call, by)
}

pub(super) fn decrby(call: &mut Call) -> CommandResult {
    let by = call.integer_arg(2)?;
    let by = by.checked_neg().ok_or(CommandError::text("ERR decrement would overflow"))?;
    add(call, by)
}

#[inline]
fn add(call: &mut Call, by: i64) -> CommandResult {
    match call.keyspace.increment(call.args[1], by) {
        Ok(sum) => {
            call.reply.integer(sum);
            Ok(())
        }
        Err(IncrementError::WrongType) => Err(CommandError::WrongType),
        Err(IncrementError::NotAnInteger) => Err(CommandError::NotAnInteger),
        Err(IncrementError::Overflow) => Err(CommandError::text("ERR increment or decrement would overflow")),
    }
}

pub(super) fn incrbyfloat(call: &mut Call) -> CommandResult {
    let key = call.args[1];
    let value = match call.keyspace.string_for_change(key)? {
        None => Some(LongDouble::from_i64(0)),
        Some(StringRef::Integer(number)) => Some(LongDouble::from_i64(number)),
        Some(StringRef::Bytes(bytes)) => LongDouble::parse(bytes),
        Some(StringRef::Blob(blob)) => LongDouble::parse(blob),
    };
    let increment = LongDouble::parse(call.args[2]);
    let (Some(value), Some(increment)) = (value, increment) else { return Err(CommandError::NotAFloat) };
    let sum = value.add(increment);
    if !sum.is_finite() {
        return Err(CommandError::text("ERR increment would produce NaN or Infinity"));
    }
    let mut text = Vec::with_capacity(number::INTEGER_LEN_MAX * 2);
    sum.write_human(&mut text);
    // Stays text even if it looks like an integer, as OBJECT ENCODING of stock servers shows.
    call.keyspace.update(Event::string("incrbyfloat"), key, Value::plain(&text, false), Expiry::Keep);
    // Other servers may round differently, so the sum is journalled.
    if !call.keyspace.journals_for_peers() {
        call.keyspace.journal_as(&[b"SET", key, &text, b"KEEPTTL"]);
    }
    call.reply.bulk(&text);
    Ok(())
}
