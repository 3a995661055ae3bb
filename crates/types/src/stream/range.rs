// SPDX-License-Identifier: BSD-3-Clause
//! XLEN, XRANGE, XREVRANGE.

use braid_base::number;
use braid_executor::Call;
use braid_spec::{CommandError, CommandResult};
use braid_values::stream::Stream;

use super::{feed, range_end, range_start, reply_entry};

pub fn xlen(call: &mut Call) -> CommandResult {
    if let Some(feed) = feed::feed_of(call, call.args[1]) {
        return feed::len(call, &feed);
    }
    let len = call.keyspace.read_as::<Stream>(call.args[1])?.map_or(0, |stream| stream.log().len());
    call.reply.integer(len as i64);
    Ok(())
}

pub fn xrange(call: &mut Call) -> CommandResult {
    range(call, false)
}

pub fn xrevrange(call: &mut Call) -> CommandResult {
    range(call, true)
}

fn range(call: &mut Call, reverse: bool) -> CommandResult {
    let args = call.args;
    let (start, end) = if reverse { (args[3], args[2]) } else { (args[2], args[3]) };
    let (start, end) = (range_start(start)?, range_end(end)?);
    let mut most = usize::MAX;
    let mut rest = &args[4..];
    while let [option, count, after @ ..] = rest
        && option.eq_ignore_ascii_case(b"COUNT")
    {
        let count = number::parse_i64(count).ok_or(CommandError::NotAnInteger)?;
        most = usize::try_from(count).unwrap_or(0);
        rest = after;
    }
    if !rest.is_empty() {
        return Err(CommandError::Syntax);
    }
    let feed = feed::feed_of(call, args[1]);
    if let Some(feed) = feed.filter(|_| most > 0) {
        return feed::range(call, &feed, reverse, most);
    }
    let Some(stream) = call.keyspace.read_as::<Stream>(args[1])? else {
        call.reply.array(0);
        return Ok(());
    };
    if most == 0 {
        call.reply.null_array();
        return Ok(());
    }
    let log = stream.log();
    let entries = if reverse { log.range_back(start, end) } else { log.range(start, end) };
    let (header, mut count) = (call.reply.begin_array(), 0);
    for entry in entries.take(most) {
        if call.reply.is_full() {
            break;
        }
        reply_entry(call.reply, entry);
        count += 1;
    }
    call.reply.end_array(header, count);
    Ok(())
}
