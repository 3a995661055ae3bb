// SPDX-License-Identifier: BSD-3-Clause
//! Changes of lists other than at the ends.

use braid_executor::{Call, limits};
use braid_keyspace::Event;
use braid_spec::{CommandError, CommandResult};
use braid_values::list::List;

use crate::collection::{index_range, symmetric_arg};

pub(super) fn lset(call: &mut Call) -> CommandResult {
    let (key, limits) = (call.args[1], limits::list_limits(call.engine));
    let index = call.integer_arg(2);
    let Some(list) = call.keyspace.write_as::<List>(key)? else { return Err(CommandError::NoSuchKey) };
    if !list.set(index?, call.args[3], &limits) {
        return Err(CommandError::IndexOutOfRange);
    }
    call.keyspace.changed(Event::list("lset"), key);
    call.reply.ok();
    Ok(())
}

pub(super) fn linsert(call: &mut Call) -> CommandResult {
    let (key, limits) = (call.args[1], limits::list_limits(call.engine));
    let behind = call.arg_is(2, "after");
    if !behind && !call.arg_is(2, "before") {
        return Err(CommandError::Syntax);
    }
    let mut len = 0;
    if let Some(list) = call.keyspace.write_as::<List>(key)? {
        let inserted = list.insert_by(call.args[3], behind, call.args[4], &limits);
        len = if inserted { list.len() as i64 } else { -1 };
        if inserted {
            call.keyspace.changed(Event::list("linsert"), key);
        }
    }
    call.reply.integer(len);
    Ok(())
}

pub(super) fn lrem(call: &mut Call) -> CommandResult {
    let (key, limits) = (call.args[1], limits::list_limits(call.engine));
    let count = symmetric_arg(call, 2, i64::MAX)?;
    let mut removed = 0;
    if let Some(list) = call.keyspace.write_as::<List>(key)? {
        removed = list.remove_equal(call.args[3], count, &limits);
        let empty = list.is_empty();
        if removed > 0 {
            call.keyspace.finish_change(Event::list("lrem"), key, removed as u64, empty);
        }
    }
    call.reply.integer(removed as i64);
    Ok(())
}

pub(super) fn ltrim(call: &mut Call) -> CommandResult {
    let (key, limits) = (call.args[1], limits::list_limits(call.engine));
    let (start, stop) = (call.integer_arg(2)?, call.integer_arg(3)?);
    if let Some(list) = call.keyspace.write_as::<List>(key)? {
        let len = list.len();
        let (first, count) = index_range(start, stop, len);
        list.keep_range(first, count, &limits);
        let empty = list.is_empty();
        // The event is sent even if nothing was removed, as in Redis.
        if len == count {
            call.keyspace.notify(Event::list("ltrim"), key);
        }
        call.keyspace.finish_change(Event::list("ltrim"), key, (len - count) as u64, empty);
    }
    call.reply.ok();
    Ok(())
}
