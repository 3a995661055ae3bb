// SPDX-License-Identifier: BSD-3-Clause
//! Commands that remove members: ZREM, ZREMRANGEBY..., ZPOPMIN, ZPOPMAX, ZMPOP.

use braid_base::number;
use braid_containers::listpack::Element;
use braid_executor::Call;
use braid_keyspace::{Event, Txn, journal_as};
use braid_resp::reply::{Protocol, ReplyBuffer};
use braid_spec::{CommandError, CommandResult};
use braid_values::sorted_set::SortedSet;

use super::range::Selector;
use super::{Layout, change};
use crate::decimal::journal_in_decimal;

pub fn zrem(call: &mut Call) -> CommandResult {
    let args = call.args;
    let removed = change(call.keyspace, Event::zset("zrem"), args[1], |set| {
        let removed = args[2..].iter().filter(|member| set.remove(member).is_some()).count();
        (removed, removed)
    })?;
    call.reply.integer(removed.unwrap_or(0) as i64);
    Ok(())
}

pub fn zremrangebyrank(call: &mut Call) -> CommandResult {
    let selector = Selector::between(call.args[2], call.args[3])?;
    remove_range(call, &selector)
}

pub fn zremrangebyscore(call: &mut Call) -> CommandResult {
    let selector = Selector::scores(call.args[2], call.args[3])?;
    journal_in_decimal(call, [2, 3]);
    remove_range(call, &selector)
}

pub fn zremrangebylex(call: &mut Call) -> CommandResult {
    let selector = Selector::members(call.args[2], call.args[3])?;
    remove_range(call, &selector)
}

fn remove_range(call: &mut Call, selector: &Selector<'_>) -> CommandResult {
    let (now, mut removed_members) = (call.now(), Removed::of(call.keyspace));
    let removed = change(call.keyspace, Event::zset(call.command.spec.name), call.args[1], |set| {
        let ranks = selector.ranks(&set.view(now), false);
        let removed = set.remove_ranks(ranks, |member, _| removed_members.note(member));
        (removed, removed)
    })?;
    removed_members.journal(call.keyspace, call.args[1]);
    call.reply.integer(removed.unwrap_or(0) as i64);
    Ok(())
}

/// The end of a sorted set from which members are popped.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum End {
    Lowest,
    Highest,
}

/// The event for popped members.
pub(super) fn popped(end: End) -> Event {
    Event::zset(if end == End::Lowest { "zpopmin" } else { "zpopmax" })
}

/// The command that pops a member from this end.
pub(super) fn pop_name(end: End) -> &'static [u8] {
    if end == End::Lowest { b"ZPOPMIN" } else { b"ZPOPMAX" }
}

/// Members removed by a command that does not name them. With active-active peers their names are
/// journalled, since in a peer's set other members may come first.
pub(super) struct Removed {
    /// True with active-active peers.
    is_told: bool,
    names: Vec<Vec<u8>>,
}

impl Removed {
    pub fn of(keyspace: &Txn<'_>) -> Removed {
        Removed { is_told: keyspace.journals_for_peers(), names: Vec::new() }
    }

    pub fn note(&mut self, member: Element<'_>) {
        if self.is_told {
            self.names.push(member.to_vec());
        }
    }

    /// Journals the removals in place of the current command; false if the caller must journal the
    /// command.
    pub fn journal(self, keyspace: &mut Txn<'_>, key: &[u8]) -> bool {
        if !self.names.is_empty() {
            let names = self.names.iter().map(Vec::as_slice);
            keyspace.journal_as(&[b"ZREM", key].into_iter().chain(names).collect::<Vec<_>>());
        }
        self.is_told
    }
}

/// Journals a pop from the first non-empty of several sorted sets as a pop from that set.
pub(super) fn journal_take(keyspace: &mut Txn<'_>, key: &[u8], end: End, removed: Removed, count: usize) {
    if !removed.journal(keyspace, key) {
        journal_as!(keyspace, pop_name(end), key, i64::try_from(count).unwrap_or(i64::MAX));
    }
}

/// Removes up to `count` members and replies with them, including the array header; returns their
/// number.
pub(super) fn pop(
    reply: &mut ReplyBuffer,
    set: &mut SortedSet,
    end: End,
    count: usize,
    layout: Layout,
    removed: &mut Removed,
) -> usize {
    let count = count.min(set.len());
    layout.header(reply, count);
    let mut entry = |member: Element<'_>, score| {
        layout.entry(reply, member, score);
        removed.note(member);
    };
    match end {
        End::Lowest => set.pop_min(count, &mut entry),
        End::Highest => set.pop_max(count, &mut entry),
    }
}

pub fn zpopmin(call: &mut Call) -> CommandResult {
    pop_from_one(call, End::Lowest)
}

pub fn zpopmax(call: &mut Call) -> CommandResult {
    pop_from_one(call, End::Highest)
}

fn pop_from_one(call: &mut Call, end: End) -> CommandResult {
    let args = call.args;
    let count = match args {
        [_, _] => 1,
        [_, _, count] => number::parse_i64(count)
            .and_then(|count| usize::try_from(count).ok())
            .ok_or(CommandError::text("ERR value is out of range, must be positive"))?,
        _ => return Err(CommandError::Syntax),
    };
    let layout = match call.reply.protocol {
        Protocol::Resp3 if args.len() == 3 => Layout::Pairs,
        _ => Layout::Flat,
    };
    let (reply, mut removed) = (&mut *call.reply, Removed::of(call.keyspace));
    let found = change(call.keyspace, popped(end), args[1], |set| {
        let count = pop(reply, set, end, count, layout, &mut removed);
        ((), count)
    })?;
    removed.journal(call.keyspace, args[1]);
    if found.is_none() {
        call.reply.array(0);
    }
    Ok(())
}

/// The parsed arguments of ZMPOP and BZMPOP: the keys, the end, and the number of members.
pub(super) struct MultiplePop<'a> {
    pub keys: &'a [&'a [u8]],
    pub end: End,
    pub count: usize,
}

impl<'a> MultiplePop<'a> {
    /// Parses the arguments; the number of keys is argument `from`.
    ///
    /// # Errors
    /// If a count is not positive, there are fewer keys than stated, or the options are malformed.
    pub fn parse(args: &'a [&'a [u8]], from: usize) -> Result<MultiplePop<'a>, CommandError> {
        let positive = |text: &[u8], what: &str| {
            let number = number::parse_i64(text).and_then(|number| usize::try_from(number).ok());
            number
                .filter(|&number| number > 0)
                .ok_or_else(|| CommandError::text(format!("ERR {what} should be greater than 0")))
        };
        let key_count = positive(args[from], "numkeys")?;
        let given = args.get(from + 1..).unwrap_or_default();
        if key_count >= given.len() {
            return Err(CommandError::Syntax);
        }
        let (keys, options) = given.split_at(key_count);
        let end = match options[0].to_ascii_uppercase().as_slice() {
            b"MIN" => End::Lowest,
            b"MAX" => End::Highest,
            _ => return Err(CommandError::Syntax),
        };
        let count = match &options[1..] {
            [] => 1,
            [name, count] if name.eq_ignore_ascii_case(b"COUNT") => positive(count, "count")?,
            [name, count, ..] if name.eq_ignore_ascii_case(b"COUNT") => {
                positive(count, "count")?;
                return Err(CommandError::Syntax);
            }
            _ => return Err(CommandError::Syntax),
        };
        Ok(MultiplePop { keys, end, count })
    }
}

pub fn zmpop(call: &mut Call) -> CommandResult {
    let MultiplePop { keys, end, count } = MultiplePop::parse(call.args, 1)?;
    for key in keys {
        let (reply, mut removed) = (&mut *call.reply, Removed::of(call.keyspace));
        let count = change(call.keyspace, popped(end), key, |set| {
            if set.is_empty() {
                return (0, 0);
            }
            reply.array(2);
            reply.bulk(key);
            let popped = pop(reply, set, end, count, Layout::Pairs, &mut removed);
            (popped, popped)
        })?;
        if let Some(count) = count.filter(|count| *count > 0) {
            journal_take(call.keyspace, key, end, removed, count);
            return Ok(());
        }
    }
    call.reply.null_array();
    Ok(())
}
