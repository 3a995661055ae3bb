// SPDX-License-Identifier: BSD-3-Clause
//! GEOADD, GEOPOS, GEODIST, GEOHASH.

use braid_containers::geohash::Position;
use braid_executor::Call;
use braid_spec::{CommandError, CommandResult};
use braid_values::sorted_set::AddRule;

use super::{position, reply_distance, reply_position, unit};
use crate::decimal::journal_in_decimal;
use crate::sorted_set::{self, Pairs};

pub fn geoadd(call: &mut Call) -> CommandResult {
    let args = call.args;
    let mut rule = AddRule::default();
    let mut counts_changes = false;
    let mut first = 2;
    while let Some(option) = args.get(first) {
        match option.to_ascii_uppercase().as_slice() {
            b"NX" => rule.only_new = true,
            b"XX" => rule.only_existing = true,
            b"CH" => counts_changes = true,
            _ => break,
        }
        first += 1;
    }
    let given = args.get(first..).unwrap_or_default();
    if given.is_empty() || !given.len().is_multiple_of(3) || (rule.only_new && rule.only_existing) {
        return Err(CommandError::Syntax);
    }
    let mut pairs = Pairs::new();
    for place in given.chunks_exact(3) {
        pairs.push((position(place[0], place[1])?.score(), place[2]));
    }
    journal_in_decimal(call, (first..args.len()).filter(|index| (index - first) % 3 < 2));
    let done = sorted_set::put(call, args[1], rule, &pairs)?;
    sorted_set::journal_added(call, args[1], rule, &pairs, &done);
    let count = done.added + if counts_changes { done.updated } else { 0 };
    call.reply.integer(count as i64);
    Ok(())
}

pub fn geopos(call: &mut Call) -> CommandResult {
    let view = sorted_set::find(call.keyspace, call.args[1])?;
    call.reply.array(call.args.len() - 2);
    for member in &call.args[2..] {
        match view.as_ref().and_then(|view| view.score(member)) {
            Some(score) => reply_position(call.reply, Position::from_score(score)),
            None => call.reply.null_array(),
        }
    }
    Ok(())
}

pub fn geohash(call: &mut Call) -> CommandResult {
    let view = sorted_set::find(call.keyspace, call.args[1])?;
    call.reply.array(call.args.len() - 2);
    for member in &call.args[2..] {
        match view.as_ref().and_then(|view| view.score(member)) {
            Some(score) => call.reply.bulk(&Position::from_score(score).geohash()),
            None => call.reply.null(),
        }
    }
    Ok(())
}

pub fn geodist(call: &mut Call) -> CommandResult {
    let args = call.args;
    let metres = match args.get(4..).unwrap_or_default() {
        [] => 1.0,
        [name] => unit(name)?,
        _ => return Err(CommandError::Syntax),
    };
    let distance = sorted_set::find(call.keyspace, args[1])?.and_then(|view| {
        let place = |member: &[u8]| view.score(member).map(Position::from_score);
        Some(place(args[2])?.distance(place(args[3])?) / metres)
    });
    match distance {
        Some(distance) => reply_distance(call.reply, distance),
        None => call.reply.null(),
    }
    Ok(())
}
