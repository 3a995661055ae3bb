// SPDX-License-Identifier: BSD-3-Clause
//! HRANDFIELD.

use braid_containers::listpack::Element;
use braid_executor::Call;
use braid_resp::reply::{Protocol, ReplyBuffer};
use braid_spec::{CommandError, CommandResult};
use braid_values::hash::Hash;

use crate::collection::{has_expired, reply_element, symmetric_arg};

pub(super) fn hrandfield(call: &mut Call) -> CommandResult {
    let now = call.now();
    let options = parse(call)?;
    let mut random = call.keyspace.context.random.fork();
    let hash = call.keyspace.read_as::<Hash>(call.args[1])?;
    let Some((count, with_values)) = options else {
        match hash.and_then(|hash| hash.random(now, &mut random)) {
            Some((field, _)) => reply_element(call.reply, field),
            None => call.reply.null(),
        }
        return Ok(());
    };
    let Some(hash) = hash else {
        call.reply.array(0);
        return Ok(());
    };
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count < 0 {
        repeat(call.reply, hash, wanted, with_values, now, &mut random);
        return Ok(());
    }
    if !has_expired(hash, now) {
        reply_header(call.reply, wanted.min(hash.len()), with_values);
        hash.sample(wanted, &mut random, |field, value| reply_pair(call.reply, field, value, with_values));
        return Ok(());
    }
    // A reader must not remove expired fields, so it chooses among the others.
    let mut live: Vec<_> = hash.iter(now).collect();
    random.shuffle(&mut live);
    live.truncate(wanted);
    reply_header(call.reply, live.len(), with_values);
    for (field, value) in live {
        reply_pair(call.reply, field, value, with_values);
    }
    Ok(())
}

/// The count, if given, and whether values are requested.
fn parse(call: &Call) -> Result<Option<(i64, bool)>, CommandError> {
    if call.args.len() < 3 {
        return Ok(None);
    }
    let count = symmetric_arg(call, 2, i64::MAX)?;
    let with_values = match call.args.len() {
        3 => false,
        4 if call.arg_is(3, "withvalues") => true,
        _ => return Err(CommandError::Syntax),
    };
    // Twice the number of replies must not overflow.
    if with_values && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(CommandError::text("ERR value is out of range"));
    }
    Ok(Some((count, with_values)))
}

/// Replies with `wanted` fields, each drawn from all of them (with repetition).
fn repeat(
    reply: &mut ReplyBuffer,
    hash: &Hash,
    wanted: usize,
    with_values: bool,
    now: i64,
    random: &mut fastrand::Rng,
) {
    if hash.random(now, random).is_none() {
        reply.array(0);
        return;
    }
    reply_header(reply, wanted, with_values);
    for _ in 0..wanted {
        let Some((field, value)) = hash.random(now, random).filter(|_| !reply.is_full()) else { break };
        reply_pair(reply, field, value, with_values);
    }
}

fn reply_header(reply: &mut ReplyBuffer, count: usize, with_values: bool) {
    let doubled = with_values && reply.protocol == Protocol::Resp2;
    reply.array(if doubled { count * 2 } else { count });
}

fn reply_pair(reply: &mut ReplyBuffer, field: Element<'_>, value: Element<'_>, with_values: bool) {
    if with_values && reply.protocol == Protocol::Resp3 {
        reply.array(2);
    }
    reply_element(reply, field);
    if with_values {
        reply_element(reply, value);
    }
}
