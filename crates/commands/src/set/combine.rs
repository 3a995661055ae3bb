// SPDX-License-Identifier: BSD-3-Clause
//! Intersection, union and difference of several sets, as replies or stored under a key.
//!
//! A stored result takes the form it takes in Redis, which follows from the order in which members come
//! together.

use braid_containers::listpack::Listpack;
use braid_engine::Call;
use braid_keyspace::object::Object;
use braid_keyspace::txn::WrongType;
use braid_keyspace::{Event, Expiry, Txn};
use braid_spec::{CommandError, CommandResult};
use braid_types::set::{self, Set, SetLimits};
use smallvec::SmallVec;

use super::limits;
use crate::collection::{least_arg, reply_element};

type Sets<'a> = SmallVec<[Option<&'a Set>; 8]>;

/// The sets at some keys, nothing where there is none.
fn sets_at<'s>(keyspace: &'s Txn<'_>, keys: &[&[u8]]) -> Result<Sets<'s>, WrongType> {
    keys.iter().map(|key| keyspace.read_as::<Set>(key)).collect()
}

/// All sets, if none is missing: an intersection has no members otherwise.
fn all_there<'s>(sets: &Sets<'s>) -> SmallVec<[&'s Set; 8]> {
    let there: Option<SmallVec<[&Set; 8]>> = sets.iter().copied().collect();
    there.unwrap_or_default()
}

/// The sets that are there, for a union.
fn those_there<'s>(sets: &Sets<'s>) -> SmallVec<[&'s Set; 8]> {
    sets.iter().copied().flatten().collect()
}

/// The first set with those that are there of the others, for a difference; none without the first.
fn first_and_others<'s>(sets: &Sets<'s>) -> SmallVec<[&'s Set; 8]> {
    if sets.first().is_some_and(Option::is_some) { those_there(sets) } else { SmallVec::new() }
}

pub(super) fn sinter(call: &mut Call) -> CommandResult {
    let now = call.now();
    let sets = all_there(&sets_at(call.keyspace, &call.args[1..])?);
    let header = call.reply.begin_set();
    let mut count = 0;
    set::intersection(&sets, now, |member| {
        reply_element(call.reply, member);
        count += 1;
        true
    });
    call.reply.end_set(header, count);
    Ok(())
}

pub(super) fn sunion(call: &mut Call) -> CommandResult {
    let now = call.now();
    let sets = those_there(&sets_at(call.keyspace, &call.args[1..])?);
    let header = call.reply.begin_set();
    let mut count = 0;
    set::union(&sets, now, |member| {
        reply_element(call.reply, member);
        count += 1;
    });
    call.reply.end_set(header, count);
    Ok(())
}

pub(super) fn sdiff(call: &mut Call) -> CommandResult {
    let now = call.now();
    let sets = first_and_others(&sets_at(call.keyspace, &call.args[1..])?);
    let header = call.reply.begin_set();
    let mut count = 0;
    set::difference(&sets, now, |member| {
        reply_element(call.reply, member);
        count += 1;
    });
    call.reply.end_set(header, count);
    Ok(())
}

pub(super) fn sintercard(call: &mut Call) -> CommandResult {
    let now = call.now();
    let keys = least_arg(call, 1, 1, "ERR numkeys should be greater than 0")?;
    let behind = usize::try_from(keys)
        .ok()
        .and_then(|keys| keys.checked_add(2))
        .filter(|&behind| behind <= call.args.len())
        .ok_or(CommandError::text("ERR Number of keys can't be greater than number of args"))?;
    let mut most = 0;
    let mut index = behind;
    while index < call.args.len() {
        if !call.arg_is(index, "limit") || index + 1 == call.args.len() {
            return Err(CommandError::Syntax);
        }
        most = least_arg(call, index + 1, 0, "ERR LIMIT can't be negative")?;
        index += 2;
    }
    let sets = all_there(&sets_at(call.keyspace, &call.args[2..behind])?);
    let mut count = 0;
    set::intersection(&sets, now, |_| {
        count += 1;
        count != most
    });
    call.reply.integer(count);
    Ok(())
}

pub(super) fn sinterstore(call: &mut Call) -> CommandResult {
    let (now, limits) = (call.now(), limits(call.engine));
    let sets = all_there(&sets_at(call.keyspace, &call.args[2..])?);
    let of_integers =
        sets.iter().min_by_key(|set| set.len()).is_some_and(|smallest| smallest.encoding() == "intset");
    let mut result = if of_integers {
        Set::default()
    } else {
        Set::from_listpack(Listpack::new(), &limits).unwrap_or_default()
    };
    let mut text = itoa::Buffer::new();
    set::intersection(&sets, now, |member| {
        result.add(member.text(&mut text), now, &limits);
        true
    });
    result.try_make_ints(&limits);
    drop(sets);
    store(call, result)
}

pub(super) fn sunionstore(call: &mut Call) -> CommandResult {
    let (now, limits) = (call.now(), limits(call.engine));
    let sets = those_there(&sets_at(call.keyspace, &call.args[2..])?);
    let mut result = Set::default();
    let mut text = itoa::Buffer::new();
    for member in sets.iter().flat_map(|set| set.iter(now)) {
        result.add(member.text(&mut text), now, &limits);
    }
    drop(sets);
    store(call, result)
}

pub(super) fn sdiffstore(call: &mut Call) -> CommandResult {
    let (now, limits) = (call.now(), limits(call.engine));
    let sets = first_and_others(&sets_at(call.keyspace, &call.args[2..])?);
    let result = difference(&sets, now, &limits);
    drop(sets);
    store(call, result)
}

fn difference(sets: &[&Set], now: i64, limits: &SetLimits) -> Set {
    let mut result = Set::default();
    let Some((first, others)) = sets.split_first() else { return result };
    let mut text = itoa::Buffer::new();
    // Asking every set for every member, or taking every other set's members away: Redis reckons like this,
    // and the form of the result shows which way it went.
    let asking = first.len().saturating_mul(sets.len()) / 2;
    let taking: usize = sets.iter().map(|set| set.len()).sum();
    if asking <= taking || others.iter().any(|other| std::ptr::eq(*other, *first)) {
        set::difference(sets, now, |member| {
            result.add(member.text(&mut text), now, limits);
        });
        return result;
    }
    for member in first.iter(now) {
        result.add(member.text(&mut text), now, limits);
    }
    for member in others.iter().flat_map(|set| set.iter(now)) {
        result.remove(member.text(&mut text), now);
        if result.is_empty() {
            break;
        }
    }
    result
}

/// Stores a result under argument 1, or deletes that key if there is nothing to store.
fn store(call: &mut Call, result: Set) -> CommandResult {
    let (destination, count) = (call.args[1], result.len());
    if count == 0 {
        call.keyspace.delete(destination);
    } else {
        call.keyspace.set_object(
            Event::set(call.command.spec.name),
            destination,
            Object::new(result),
            Expiry::Clear,
        );
    }
    call.reply.integer(count as i64);
    Ok(())
}
