// SPDX-License-Identifier: BSD-3-Clause
//! Intersection, union and difference of several sets, as replies or stored under a key.
//!
//! Large operations run in the background (`braid_executor::background`), on shared copies.
//!
//! A stored result has the same encoding as in Redis, which depends on the order in which members
//! are added.

use braid_containers::hyperloglog;
use braid_containers::listpack::{Element, Listpack};
use braid_executor::{Call, limits};
use braid_keyspace::object::{Object, ObjectRef};
use braid_keyspace::reader::CowValue;
use braid_keyspace::txn::WrongType;
use braid_keyspace::{Event, Expiry, Txn};
use braid_resp::reply::ReplyBuffer;
use braid_spec::{CommandError, CommandResult};
use braid_values::set::{self, Set, SetLimits};
use smallvec::SmallVec;

use crate::collection::{MANY_MEMBERS, least_arg, reply_element};

type Sets<'a> = SmallVec<[Option<&'a Set>; 8]>;

/// The sets at these keys; `None` for missing ones.
fn sets_at<'s>(keyspace: &'s Txn<'_>, keys: &[&[u8]]) -> Result<Sets<'s>, WrongType> {
    keys.iter().map(|key| keyspace.read_as::<Set>(key)).collect()
}

/// All sets; none if one is missing, since the intersection is then empty.
fn all_there<'s>(sets: &Sets<'s>) -> SmallVec<[&'s Set; 8]> {
    let there: Option<SmallVec<[&Set; 8]>> = sets.iter().copied().collect();
    there.unwrap_or_default()
}

/// The existing sets, for a union.
fn existing_sets<'s>(sets: &Sets<'s>) -> SmallVec<[&'s Set; 8]> {
    sets.iter().copied().flatten().collect()
}

/// The first set and the other existing ones, for a difference; none if the first is missing.
fn first_and_others<'s>(sets: &Sets<'s>) -> SmallVec<[&'s Set; 8]> {
    if sets.first().is_some_and(Option::is_some) { existing_sets(sets) } else { SmallVec::new() }
}

/// An operation on sets.
#[derive(Clone, Copy, PartialEq)]
enum Operation {
    Intersection,
    Union,
    Difference,
}

impl Operation {
    /// The sets that the operation uses.
    fn choose<'s>(self, sets: &Sets<'s>) -> SmallVec<[&'s Set; 8]> {
        match self {
            Operation::Intersection => all_there(sets),
            Operation::Union => existing_sets(sets),
            Operation::Difference => first_and_others(sets),
        }
    }

    /// True if the operation is expensive enough for the background.
    fn is_much(self, sets: &[&Set]) -> bool {
        let counts = sets.iter().map(|set| set.len());
        let effort = match self {
            Operation::Intersection => counts.min().unwrap_or(0) * sets.len(),
            Operation::Union => counts.sum(),
            Operation::Difference => sets.first().map_or(0, |first| first.len()) * sets.len(),
        };
        effort >= MANY_MEMBERS
    }

    /// Passes the members of the result to `each` until it returns false.
    fn each(self, sets: &[&Set], now: i64, each: impl FnMut(Element<'_>) -> bool) {
        match self {
            Operation::Intersection => set::intersection(sets, now, each),
            Operation::Union => set::union(sets, now, each),
            Operation::Difference => set::difference(sets, now, each),
        }
    }

    /// The result to store.
    fn result(self, sets: &[&Set], now: i64, limits: &SetLimits) -> Set {
        match self {
            Operation::Intersection => intersection(sets, now, limits),
            Operation::Union => union(sets, now, limits),
            Operation::Difference => difference(sets, now, limits),
        }
    }
}

/// The sets shared for a background computation.
fn sets_of(shared: &[CowValue]) -> Result<Sets<'_>, CommandError> {
    let set = |value| match value {
        &CowValue::Missing => Ok(None),
        value => match value.object().and_then(ObjectRef::get::<Set>) {
            Some(set) => Ok(Some(set)),
            None => Err(CommandError::WrongType),
        },
    };
    shared.iter().map(set).collect()
}

fn reply_with(call: &mut Call, operation: Operation) -> CommandResult {
    let (now, keys) = (call.now(), &call.args[1..]);
    let sets = operation.choose(&sets_at(call.keyspace, keys)?);
    if operation.is_much(&sets) && call.may_precompute() {
        drop(sets);
        return call.answer_from_shared(keys, move |shared, now, reply| {
            write_result(reply, operation, &operation.choose(&sets_of(shared)?), now);
            Ok(())
        });
    }
    write_result(call.reply, operation, &sets, now);
    Ok(())
}

fn write_result(reply: &mut ReplyBuffer, operation: Operation, sets: &[&Set], now: i64) {
    let header = reply.begin_set();
    let mut count = 0;
    operation.each(sets, now, |member| {
        reply_element(reply, member);
        count += 1;
        true
    });
    reply.end_set(header, count);
}

fn store_result(call: &mut Call, operation: Operation) -> CommandResult {
    if let Some(result) = call.take_precomputed::<Set>() {
        return store(call, result?);
    }
    let (now, limits, keys) = (call.now(), limits::set_limits(call.engine), &call.args[2..]);
    let sets = operation.choose(&sets_at(call.keyspace, keys)?);
    if operation.is_much(&sets) && call.may_precompute() {
        drop(sets);
        return call.precompute(keys, move |shared, now| {
            let sets = operation.choose(&sets_of(shared).ok()?);
            Some(Ok(operation.result(&sets, now, &limits)))
        });
    }
    let result = operation.result(&sets, now, &limits);
    drop(sets);
    store(call, result)
}

pub(super) fn sinter(call: &mut Call) -> CommandResult {
    reply_with(call, Operation::Intersection)
}

pub(super) fn sunion(call: &mut Call) -> CommandResult {
    reply_with(call, Operation::Union)
}

pub(super) fn sdiff(call: &mut Call) -> CommandResult {
    reply_with(call, Operation::Difference)
}

pub(super) fn sintercard(call: &mut Call) -> CommandResult {
    count_result(call, Operation::Intersection)
}

pub(super) fn sunioncard(call: &mut Call) -> CommandResult {
    count_result(call, Operation::Union)
}

pub(super) fn sdiffcard(call: &mut Call) -> CommandResult {
    count_result(call, Operation::Difference)
}

/// How many members a result has, counted up to a limit.
#[derive(Clone, Copy)]
struct Count {
    operation: Operation,
    /// 0: no limit.
    most: i64,
    /// By a HyperLogLog.
    approximate: bool,
}

impl Count {
    fn of(self, sets: &Sets<'_>, now: i64) -> i64 {
        let sets = self.operation.choose(sets);
        if self.approximate {
            let mut seen = hyperloglog::create_dense();
            let mut text = itoa::Buffer::new();
            for member in sets.iter().flat_map(|set| set.iter(now)) {
                hyperloglog::add_dense(&mut seen, member.text(&mut text));
            }
            let count = hyperloglog::count(&seen).map_or(0, |count| i64::try_from(count).unwrap_or(i64::MAX));
            return if self.most > 0 { count.min(self.most) } else { count };
        }
        let mut count = 0;
        self.operation.each(&sets, now, |_| {
            count += 1;
            count != self.most
        });
        count
    }
}

fn count_result(call: &mut Call, operation: Operation) -> CommandResult {
    let now = call.now();
    let keys = least_arg(call, 1, 1, "ERR numkeys should be greater than 0")?;
    let behind = usize::try_from(keys)
        .ok()
        .and_then(|keys| keys.checked_add(2))
        .filter(|&behind| behind <= call.args.len())
        .ok_or(CommandError::text("ERR Number of keys can't be greater than number of args"))?;
    let mut count = Count { operation, most: 0, approximate: false };
    let mut index = behind;
    while index < call.args.len() {
        if operation == Operation::Union && call.arg_is(index, "approx") {
            count.approximate = true;
            index += 1;
            continue;
        }
        if !call.arg_is(index, "limit") || index + 1 == call.args.len() {
            return Err(CommandError::Syntax);
        }
        count.most = least_arg(call, index + 1, 0, "ERR LIMIT can't be negative")?;
        index += 2;
    }
    let keys = &call.args[2..behind];
    let sets = sets_at(call.keyspace, keys)?;
    // A limit may end the count at any moment.
    let ends_soon = count.most != 0 && count.most < MANY_MEMBERS as i64 && !count.approximate;
    if operation.is_much(&operation.choose(&sets)) && !ends_soon && call.may_precompute() {
        drop(sets);
        return call.answer_from_shared(keys, move |shared, now, reply| {
            reply.integer(count.of(&sets_of(shared)?, now));
            Ok(())
        });
    }
    call.reply.integer(count.of(&sets, now));
    Ok(())
}

pub(super) fn sinterstore(call: &mut Call) -> CommandResult {
    store_result(call, Operation::Intersection)
}

pub(super) fn sunionstore(call: &mut Call) -> CommandResult {
    store_result(call, Operation::Union)
}

pub(super) fn sdiffstore(call: &mut Call) -> CommandResult {
    store_result(call, Operation::Difference)
}

fn intersection(sets: &[&Set], now: i64, limits: &SetLimits) -> Set {
    let of_integers =
        sets.iter().min_by_key(|set| set.len()).is_some_and(|smallest| smallest.encoding() == "intset");
    let mut result = if of_integers {
        Set::default()
    } else {
        Set::from_listpack(Listpack::new(), limits).unwrap_or_default()
    };
    let mut text = itoa::Buffer::new();
    set::intersection(sets, now, |member| {
        result.add(member.text(&mut text), now, limits);
        true
    });
    result.try_make_ints(limits);
    result
}

fn union(sets: &[&Set], now: i64, limits: &SetLimits) -> Set {
    let mut result = Set::default();
    let mut text = itoa::Buffer::new();
    for member in sets.iter().flat_map(|set| set.iter(now)) {
        result.add(member.text(&mut text), now, limits);
    }
    result
}

fn difference(sets: &[&Set], now: i64, limits: &SetLimits) -> Set {
    let mut result = Set::default();
    let Some((first, others)) = sets.split_first() else { return result };
    let mut text = itoa::Buffer::new();
    // Two algorithms: look up every member in every set, or remove every other set's members.
    // Redis compares the costs like this, and the result's encoding shows which one was used.
    let asking = first.len().saturating_mul(sets.len()) / 2;
    let taking: usize = sets.iter().map(|set| set.len()).sum();
    if asking <= taking || others.iter().any(|other| std::ptr::eq(*other, *first)) {
        set::difference(sets, now, |member| {
            result.add(member.text(&mut text), now, limits);
            true
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

/// Stores the result at the key in argument 1, or deletes that key if the result is empty.
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
