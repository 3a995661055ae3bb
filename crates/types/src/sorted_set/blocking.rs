// SPDX-License-Identifier: BSD-3-Clause
//! Blocking commands: BZPOPMIN, BZPOPMAX, BZMPOP.
//!
//! Each body serves both the calling client and, once one of its keys has been filled, a waiting
//! client ([`braid_executor::blocking`]). It changes nothing before [`Call::claim`].

use braid_containers::listpack::Element;
use braid_executor::Call;
use braid_executor::blocking::Wait;
use braid_keyspace::object::ObjectType;
use braid_keyspace::txn::WrongType;
use braid_spec::CommandResult;
use braid_values::sorted_set::SortedSet;

use super::remove::{End, MultiplePop, Removed, journal_take, pop, pop_name, popped};
use super::{Layout, change};
use crate::collection;

pub fn bzpopmin(call: &mut Call) -> CommandResult {
    pop_one(call, End::Lowest)
}

pub fn bzpopmax(call: &mut Call) -> CommandResult {
    pop_one(call, End::Highest)
}

/// The first key with a sorted set from which this client may take. A set whose members have all
/// expired does not count.
fn first_filled<'k>(call: &Call, keys: &[&'k [u8]]) -> Result<Option<&'k [u8]>, WrongType> {
    collection::first_filled::<SortedSet>(call, keys, |set| !set.view(call.now()).is_empty())
}

fn pop_one(call: &mut Call, end: End) -> CommandResult {
    let args = call.args;
    let (keys, last) = (&args[1..args.len() - 1], args.len() - 1);
    let deadline = call.deadline_arg(last)?;
    let Some(key) = first_filled(call, keys)? else {
        return call.wait(Wait::new(SortedSet::TYPE, keys, deadline));
    };
    if call.claim() {
        let (reply, mut removed) = (&mut *call.reply, Removed::of(call.keyspace));
        reply.array(3);
        reply.bulk(key);
        change(call.keyspace, popped(end), key, |set| {
            let mut entry = |member: Element<'_>, score| {
                Layout::Flat.entry(reply, member, score);
                removed.note(member);
            };
            match end {
                End::Lowest => set.pop_min(1, &mut entry),
                End::Highest => set.pop_max(1, &mut entry),
            };
            ((), 1)
        })?;
        if !removed.journal(call.keyspace, key) {
            call.keyspace.journal_as(&[pop_name(end), key]);
        }
    }
    Ok(())
}

pub fn bzmpop(call: &mut Call) -> CommandResult {
    let MultiplePop { keys, end, count } = MultiplePop::parse(call.args, 2)?;
    let deadline = call.deadline_arg(1)?;
    let Some(key) = first_filled(call, keys)? else {
        return call.wait(Wait::new(SortedSet::TYPE, keys, deadline));
    };
    if call.claim() {
        let (reply, mut removed) = (&mut *call.reply, Removed::of(call.keyspace));
        reply.array(2);
        reply.bulk(key);
        let popped = change(call.keyspace, popped(end), key, |set| {
            let popped = pop(reply, set, end, count, Layout::Pairs, &mut removed);
            (popped, popped)
        })?;
        journal_take(call.keyspace, key, end, removed, popped.unwrap_or(count));
    }
    Ok(())
}
