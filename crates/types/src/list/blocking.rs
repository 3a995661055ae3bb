// SPDX-License-Identifier: BSD-3-Clause
//! Blocking commands: BLPOP, BRPOP, BLMPOP, BLMOVE, BRPOPLPUSH.
//!
//! Each body serves both the calling client and, once one of its keys has been filled, a waiting
//! client ([`braid_executor::blocking`]). It changes nothing before [`Call::claim`].

use braid_executor::blocking::{Refusal, Wait};
use braid_executor::{Call, Row, limits};
use braid_keyspace::object::ObjectType;
use braid_keyspace::txn::WrongType;
use braid_spec::{CommandResult, Flags, Group, KeySpec};
use braid_values::list::{End, List, ListLimits};

use super::ends::{MultiplePop, end_arg, journal_take, move_element, pop_name, popped, take};
use super::{GROWS, MOVE, TAKE};
use crate::collection::{self, reply_element};

const SECONDS: &[(&str, &str)] = &[("6.0.0", "`timeout` may have a fraction.")];

const ALL_BUT_TIMEOUT: &[KeySpec] = &[KeySpec::range(1, -2, 1, TAKE)];

pub(super) const BLMOVE: Row = Row::new("blmove", Group::List, blmove)
    .exactly(6)
    .flags(GROWS.and(Flags::BLOCKING))
    .keys(MOVE)
    .docs(
        "6.2.0",
        "Removes an element from an end of one list and adds it at an end of another; waits for one if the \
         list is empty.",
        "O(1)",
    )
    .syntax("source:key#0 destination:key#1 wherefrom:(LEFT|RIGHT) whereto:(LEFT|RIGHT) timeout:double");

pub(super) const BLMPOP: Row = Row::new("blmpop", Group::List, blmpop)
    .at_least(5)
    .flags(Flags::WRITE.and(Flags::BLOCKING).and(Flags::MOVABLE_KEYS))
    .keys(&[KeySpec::counted(2, TAKE)])
    .docs(
        "7.0.0",
        "Removes elements from an end of the first non-empty list of several; waits if all are empty.",
        "O(N+M) where N is the number of provided keys and M is the number of elements returned.",
    )
    .syntax("timeout:double numkeys:integer key:key#0... where:(LEFT|RIGHT) [COUNT count:integer]");

pub(super) const BLPOP: Row = popper(
    "blpop",
    blpop,
    "Removes an element from the head of the first non-empty list of several; waits if all are empty.",
);

pub(super) const BRPOP: Row = popper(
    "brpop",
    brpop,
    "Removes an element from the tail of the first non-empty list of several; waits if all are empty.",
);

pub(super) const BRPOPLPUSH: Row = Row::new("brpoplpush", Group::List, brpoplpush)
    .exactly(4)
    .flags(GROWS.and(Flags::BLOCKING))
    .keys(MOVE)
    .docs(
        "2.2.0",
        "Removes the last element of one list and adds it in front of another; waits for one if the list \
         is empty.",
        "O(1)",
    )
    .syntax("source:key#0 destination:key#1 timeout:double")
    .history(SECONDS)
    .deprecated("6.2.0", "`BLMOVE` with the `RIGHT` and `LEFT` arguments");

const fn popper(name: &'static str, handler: braid_executor::Handler, summary: &'static str) -> Row {
    Row::new(name, Group::List, handler)
        .at_least(3)
        .flags(Flags::WRITE.and(Flags::BLOCKING))
        .keys(ALL_BUT_TIMEOUT)
        .docs("2.0.0", summary, "O(N) where N is the number of provided keys.")
        .syntax("key:key#0... timeout:double")
        .history(SECONDS)
}

fn blpop(call: &mut Call) -> CommandResult {
    pop(call, End::Front)
}

fn brpop(call: &mut Call) -> CommandResult {
    pop(call, End::Back)
}

/// The first key with a list from which this client may take.
fn first_filled<'k>(call: &Call, keys: &[&'k [u8]]) -> Result<Option<&'k [u8]>, WrongType> {
    collection::first_filled::<List>(call, keys, |_| true)
}

fn pop(call: &mut Call, end: End) -> CommandResult {
    let args = call.args;
    let (keys, last) = (&args[1..args.len() - 1], args.len() - 1);
    let deadline = call.deadline_arg(last)?;
    let Some(key) = first_filled(call, keys)? else {
        return call.wait(Wait::new(List::TYPE, keys, deadline));
    };
    if call.claim() {
        let limits = limits::list_limits(call.engine);
        call.reply.array(2);
        call.reply.bulk(key);
        pop_one(call, key, end, &limits)?;
        call.keyspace.journal_as(&[pop_name(end), key]);
    }
    Ok(())
}

fn pop_one(call: &mut Call, key: &[u8], end: End, limits: &ListLimits) -> Result<(), WrongType> {
    let Some(list) = call.keyspace.write_as::<List>(key)? else { return Ok(()) };
    list.pop(end, limits, |element| reply_element(call.reply, element));
    let empty = list.is_empty();
    call.keyspace.finish_change(popped(end), key, 1, empty);
    Ok(())
}

fn blmpop(call: &mut Call) -> CommandResult {
    let MultiplePop { keys, end, count } = MultiplePop::parse(call, 2)?;
    let deadline = call.deadline_arg(1)?;
    let Some(key) = first_filled(call, keys)? else {
        return call.wait(Wait::new(List::TYPE, keys, deadline));
    };
    if call.claim() {
        let limits = limits::list_limits(call.engine);
        call.reply.array(2);
        call.reply.bulk(key);
        let taken = take(call.keyspace, call.reply, key, end, count, &limits)?;
        journal_take(call.keyspace, key, end, taken);
    }
    Ok(())
}

fn blmove(call: &mut Call) -> CommandResult {
    let (from, to) = (end_arg(call, 3)?, end_arg(call, 4)?);
    let deadline = call.deadline_arg(5)?;
    move_or_wait(call, from, to, deadline)
}

fn brpoplpush(call: &mut Call) -> CommandResult {
    let deadline = call.deadline_arg(3)?;
    move_or_wait(call, End::Back, End::Front, deadline)
}

fn move_or_wait(call: &mut Call, from: End, to: End, deadline: i64) -> CommandResult {
    let args = call.args;
    if first_filled(call, &args[1..2])?.is_none() {
        return call.wait(Wait {
            needs_all_keys: true,
            refusal: Refusal::Null,
            ..Wait::new(List::TYPE, &args[1..2], deadline)
        });
    }
    if call.claim() {
        let limits = limits::list_limits(call.engine);
        if let Some(text) = move_element(call.keyspace, (args[1], from), (args[2], to), &limits)? {
            call.reply.bulk(&text);
            let word = |end| if end == End::Front { &b"left"[..] } else { b"right" };
            match (from, to) {
                (End::Back, End::Front) if args.len() == 4 => {
                    call.keyspace.journal_as(&[b"RPOPLPUSH", args[1], args[2]]);
                }
                _ => call.keyspace.journal_as(&[b"LMOVE", args[1], args[2], word(from), word(to)]),
            }
        }
    }
    Ok(())
}
