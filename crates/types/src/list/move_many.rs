// SPDX-License-Identifier: BSD-3-Clause
//! LMOVEM and BLMOVEM: several elements from an end of one list to an end of another.
//!
//! The journal describes a move of one element as LMOVE, and of several as a pop and a push, which
//! every server knows.

use braid_executor::blocking::Wait;
use braid_executor::{Call, Row, limits};
use braid_keyspace::journal_as;
use braid_keyspace::object::ObjectType;
use braid_spec::{CommandError, CommandResult, Flags, Group};
use braid_values::list::{End, List};

use super::ends::{Text, end_arg, pop_name, popped, pushed};
use super::{GROWS, MOVE};
use crate::collection::{self, least_arg};

const COST: &str = "O(N) where N is the number of elements moved.";

pub(super) const BLMOVEM: Row = Row::new("blmovem", Group::List, blmovem)
    .at_least(6)
    .flags(GROWS.and(Flags::BLOCKING))
    .keys(MOVE)
    .docs(
        "8.10.0",
        "Removes several elements from an end of one list and adds them at an end of another; waits for them \
         if there are too few.",
        COST,
    )
    .syntax(
        "source:key#0 destination:key#1 wherefrom:(LEFT|RIGHT) whereto:(LEFT|RIGHT) timeout:double \
         [how-many:{selector:(COUNT count:integer|EXACTLY exactly:integer) ordering:(OBO|BULK)}]",
    );

pub(super) const LMOVEM: Row = Row::new("lmovem", Group::List, lmovem)
    .at_least(5)
    .flags(GROWS)
    .keys(MOVE)
    .docs(
        "8.10.0",
        "Removes several elements from an end of one list and adds them at an end of another.",
        COST,
    )
    .syntax(
        "source:key#0 destination:key#1 wherefrom:(LEFT|RIGHT) whereto:(LEFT|RIGHT) \
         [how-many:{selector:(COUNT count:integer|EXACTLY exactly:integer) ordering:(OBO|BULK)}]",
    );

/// A move as requested.
#[derive(Clone, Copy)]
struct Move {
    from: End,
    to: End,
    count: usize,
    /// EXACTLY: all of them, or none.
    all: bool,
    /// BULK: they keep their order. OBO: each is pushed after the one popped before it.
    keeps_order: bool,
}

impl Move {
    /// Parses the ends, and the options from argument `options` on.
    fn parse(call: &Call, options: usize) -> Result<Move, CommandError> {
        let (from, to) = (end_arg(call, 3)?, end_arg(call, 4)?);
        let mut parsed = Move { from, to, count: 1, all: false, keeps_order: false };
        match call.args.len() - options {
            0 => return Ok(parsed),
            3 => {}
            _ => return Err(CommandError::Syntax),
        }
        parsed.all = call.arg_is(options, "exactly");
        if !parsed.all && !call.arg_is(options, "count") {
            return Err(CommandError::Syntax);
        }
        parsed.keeps_order = call.arg_is(options + 2, "bulk");
        if !parsed.keeps_order && !call.arg_is(options + 2, "obo") {
            return Err(CommandError::Syntax);
        }
        let count = least_arg(call, options + 1, 1, "ERR count should be greater than 0")?;
        parsed.count = usize::try_from(count).unwrap_or(usize::MAX);
        Ok(parsed)
    }

    /// True if a list has enough elements.
    fn is_possible(&self, list: &List) -> bool {
        !self.all || list.len() >= self.count
    }

    /// Moves the elements and replies with them in the destination's order. The source exists and
    /// has enough of them; the destination has been checked.
    fn run(self, call: &mut Call) -> CommandResult {
        let (source, destination) = (call.args[1], call.args[2]);
        let limits = limits::list_limits(call.engine);
        let Some(list) = call.keyspace.write_as::<List>(source)? else { return Ok(()) };
        let count = self.count.min(list.len());
        let mut texts: Vec<Text> = Vec::with_capacity(count);
        for _ in 0..count {
            let copy = |element: braid_containers::listpack::Element<'_>| {
                Text::from_slice(element.text(&mut itoa::Buffer::new()))
            };
            texts.extend(list.pop(self.from, &limits, copy));
        }
        // So far in the order of the pops.
        if self.keeps_order && self.from == self.to {
            texts.reverse();
        }
        let pushes = texts.iter().map(|text| &text[..]);
        let is_empty = list.is_empty();
        if source == destination {
            // The key stays, with its expiry, even if these were all of its elements.
            list.push_all(self.to, pushes, &limits);
            call.keyspace.notify(pushed(self.to), destination);
            call.keyspace.finish_change(popped(self.from), source, count as u64, false);
        } else {
            call.keyspace.write_or_create(destination, List::new)?.push_all(self.to, pushes, &limits);
            call.keyspace.finish_change(pushed(self.to), destination, count as u64, false);
            call.keyspace.notify(popped(self.from), source);
            call.keyspace.finish_change(popped(self.from), source, 0, is_empty);
        }
        self.journal(call, &texts, is_empty);
        call.reply.array(texts.len());
        let mut shown = texts.iter();
        while let Some(text) = if self.to == End::Front { shown.next_back() } else { shown.next() } {
            call.reply.bulk(text);
        }
        Ok(())
    }

    /// `was_all`: the source had no other elements.
    fn journal(self, call: &mut Call, texts: &[Text], was_all: bool) {
        if !call.keyspace.journals() {
            return;
        }
        let (source, destination) = (call.args[1], call.args[2]);
        if texts.len() == 1 {
            let word = |end| if end == End::Front { &b"left"[..] } else { b"right" };
            return call.keyspace.journal_as(&[
                b"LMOVE",
                source,
                destination,
                word(self.from),
                word(self.to),
            ]);
        }
        journal_as!(call.keyspace, pop_name(self.from), source, texts.len() as i64);
        let push: &[u8] = if self.to == End::Front { b"LPUSH" } else { b"RPUSH" };
        let args: Vec<&[u8]> =
            [push, destination].into_iter().chain(texts.iter().map(|text| &text[..])).collect();
        call.keyspace.journal_as(&args);
        let expiry = call.keyspace.peek(destination).and_then(|entry| entry.expiry());
        if let Some(at) = expiry.filter(|_| was_all && source == destination) {
            // The pop has removed the key.
            journal_as!(call.keyspace, b"PEXPIREAT", destination, at);
        }
    }
}

/// Refuses a destination that is no list.
fn check_destination(call: &Call) -> CommandResult {
    match call.keyspace.look_at(call.args[2]) {
        Some(entry) if entry.value_type() != List::TYPE => Err(CommandError::WrongType),
        _ => Ok(()),
    }
}

fn lmovem(call: &mut Call) -> CommandResult {
    let wanted = Move::parse(call, 5)?;
    let Some(list) = call.keyspace.peek_as::<List>(call.args[1])? else {
        if wanted.all {
            call.reply.null_array();
        } else {
            call.reply.array(0);
        }
        return Ok(());
    };
    if !wanted.is_possible(list) {
        call.reply.null_array();
        return Ok(());
    }
    check_destination(call)?;
    wanted.run(call)
}

fn blmovem(call: &mut Call) -> CommandResult {
    let args = call.args;
    let wanted = Move::parse(call, 6)?;
    let deadline = call.deadline_arg(5)?;
    let filled = collection::first_filled::<List>(call, &args[1..2], |list| wanted.is_possible(list))?;
    if filled.is_none() {
        return call.wait(Wait {
            needs_all_keys: true,
            may_be_overtaken: wanted.all,
            ..Wait::new(List::TYPE, &args[1..2], deadline)
        });
    }
    check_destination(call)?;
    if call.claim() { wanted.run(call) } else { Ok(()) }
}
