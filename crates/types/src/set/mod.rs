// SPDX-License-Identifier: BSD-3-Clause
//! Commands on sets: all rows, and the bodies that read one set.
//!
//! Flow: the dispatcher holds the locks of the keys named in the rows. Changes of a set are in
//! `change.rs`, random members in `random.rs`, set operations in `combine.rs`. A set that becomes
//! empty is removed with its key.

mod change;
mod combine;
mod member_expiry;
mod random;

use braid_executor::{Call, Handler, Row};
use braid_resp::reply::ReplyBuffer;
use braid_spec::{CommandResult, Flags, Group, KeyFlags, KeySpec};
use braid_values::set::Set;

use crate::collection::reply_element;
use crate::scan_options::{ScanExtras, ScanOptions, parse_cursor, reply_cursor};

pub use member_expiry::MEMBER_EXPIRY;

const READ: KeyFlags = KeyFlags::RO.and(KeyFlags::ACCESS);
const INSERT: KeyFlags = KeyFlags::RW.and(KeyFlags::INSERT);
const TAKE: KeyFlags = KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE);
const OVERWRITE: KeyFlags = KeyFlags::OW.and(KeyFlags::UPDATE);

const COUNTED: &[KeySpec] = &[KeySpec::counted(1, READ)];
const READ_ONE: &[KeySpec] = &[KeySpec::at(1, READ)];
const LOOK_ONE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RO)];
const READ_ALL: &[KeySpec] = &[KeySpec::range(1, -1, 1, READ)];
const STORE: &[KeySpec] = &[KeySpec::at(1, OVERWRITE), KeySpec::range(2, -1, 1, READ)];

const READS_FAST: Flags = Flags::READONLY.and(Flags::FAST);
const WRITES_FAST: Flags = Flags::WRITE.and(Flags::FAST);
const GROWS: Flags = Flags::WRITE.and(Flags::DENYOOM);

const UNORDERED: &[&str] = &["nondeterministic_output_order"];
const RANDOM: &[&str] = &["nondeterministic_output"];

const MEMBERS: &str = "key:key#0 member:string...";
const INTERSECTION_COST: &str =
    "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.";
const TOTAL_COST: &str = "O(N) where N is the total number of elements in all given sets.";

/// Rows of the set commands.
pub const COMMANDS: &[Row] = &[
    Row::new("sadd", Group::Set, change::sadd)
        .at_least(3)
        .flags(GROWS.and(Flags::FAST))
        .keys(&[KeySpec::at(1, INSERT)])
        .docs(
            "1.0.0",
            "Adds members to a set; creates it if it does not exist.",
            "O(1) for each element added, so O(N) to add N elements when the command is called with multiple \
             arguments.",
        )
        .syntax(MEMBERS)
        .history(&[("2.4.0", "Accepts several `member` arguments.")]),
    Row::new("scard", Group::Set, scard)
        .exactly(2)
        .flags(READS_FAST)
        .keys(LOOK_ONE)
        .docs("1.0.0", "Returns the number of members of a set.", "O(1)")
        .syntax("key:key#0"),
    combiner(
        "sdiff",
        combine::sdiff,
        "Returns the members of a set that the other sets do not have.",
        TOTAL_COST,
    ),
    counter(
        "sdiffcard",
        combine::sdiffcard,
        "Counts the members of a set that the other sets do not have.",
        "numkeys:integer key:key#0... [LIMIT limit:integer]",
    ),
    storer(
        "sdiffstore",
        combine::sdiffstore,
        "Stores the members of a set that the other sets do not have.",
        TOTAL_COST,
    ),
    combiner("sinter", combine::sinter, "Returns the members common to several sets.", INTERSECTION_COST),
    Row::new("sintercard", Group::Set, combine::sintercard)
        .at_least(3)
        .flags(Flags::READONLY.and(Flags::MOVABLE_KEYS))
        .keys(&[KeySpec::counted(1, READ)])
        .docs("7.0.0", "Counts the members common to several sets.", INTERSECTION_COST)
        .syntax("numkeys:integer key:key#0... [LIMIT limit:integer]"),
    storer(
        "sinterstore",
        combine::sinterstore,
        "Stores the members common to several sets.",
        INTERSECTION_COST,
    )
    .keys(&[KeySpec::at(1, KeyFlags::OW.and(KeyFlags::UPDATE)), KeySpec::range(2, -1, 1, READ)]),
    Row::new("sismember", Group::Set, sismember)
        .exactly(3)
        .flags(READS_FAST)
        .keys(LOOK_ONE)
        .docs("1.0.0", "Returns whether a set has a member.", "O(1)")
        .syntax("key:key#0 member:string"),
    Row::new("smembers", Group::Set, smembers)
        .exactly(2)
        .flags(Flags::READONLY)
        .keys(READ_ONE)
        .docs("1.0.0", "Returns all members of a set.", "O(N) where N is the set cardinality.")
        .syntax("key:key#0")
        .tips(UNORDERED),
    Row::new("smismember", Group::Set, smismember)
        .at_least(3)
        .flags(READS_FAST)
        .keys(READ_ONE)
        .docs(
            "6.2.0",
            "Returns whether a set has each of several members.",
            "O(N) where N is the number of elements being checked for membership",
        )
        .syntax(MEMBERS),
    Row::new("smove", Group::Set, change::smove)
        .exactly(4)
        .flags(WRITES_FAST)
        .keys(&[KeySpec::at(1, TAKE), KeySpec::at(2, INSERT)])
        .docs("1.0.0", "Moves a member from one set to another.", "O(1)")
        .syntax("source:key#0 destination:key#1 member:string"),
    Row::new("spop", Group::Set, random::spop)
        .at_least(2)
        .flags(WRITES_FAST)
        .keys(&[KeySpec::at(1, TAKE)])
        .docs(
            "1.0.0",
            "Removes and returns random members of a set.",
            "Without the count argument O(1), otherwise O(N) where N is the value of the passed count.",
        )
        .syntax("key:key#0 [count:integer@3.2.0]")
        .history(&[("3.2.0", "New argument `count`.")])
        .tips(RANDOM),
    Row::new("srandmember", Group::Set, random::srandmember)
        .at_least(2)
        .flags(Flags::READONLY)
        .keys(READ_ONE)
        .docs(
            "1.0.0",
            "Returns random members of a set.",
            "Without the count argument O(1), otherwise O(N) where N is the absolute value of the \
             passed count.",
        )
        .syntax("key:key#0 [count:integer@2.6.0]")
        .history(&[("2.6.0", "New argument `count`.")])
        .tips(RANDOM),
    Row::new("srem", Group::Set, change::srem)
        .at_least(3)
        .flags(WRITES_FAST)
        .keys(&[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE))])
        .docs("1.0.0", "Removes members from a set.", "O(N) where N is the number of members to be removed.")
        .syntax(MEMBERS)
        .history(&[("2.4.0", "Accepts several `member` arguments.")]),
    Row::new("sscan", Group::Set, sscan)
        .at_least(3)
        .flags(Flags::READONLY)
        .keys(READ_ONE)
        .docs(
            "2.8.0",
            "Iterates over the members of a set.",
            "O(1) for every call. O(N) for a complete iteration, including enough command calls for the \
             cursor to return back to 0. N is the number of elements inside the collection.",
        )
        .syntax("key:key#0 cursor:integer [MATCH pattern:pattern] [COUNT count:integer]")
        .tips(RANDOM),
    combiner("sunion", combine::sunion, "Returns the members that any of several sets has.", TOTAL_COST),
    counter(
        "sunioncard",
        combine::sunioncard,
        "Counts the members that any of several sets has.",
        "numkeys:integer key:key#0... [APPROX] [LIMIT limit:integer]",
    ),
    storer(
        "sunionstore",
        combine::sunionstore,
        "Stores the members that any of several sets has.",
        TOTAL_COST,
    ),
];

const fn combiner(name: &'static str, handler: Handler, summary: &'static str, cost: &'static str) -> Row {
    Row::new(name, Group::Set, handler)
        .at_least(2)
        .flags(Flags::READONLY)
        .keys(READ_ALL)
        .docs("1.0.0", summary, cost)
        .syntax("key:key#0...")
        .tips(UNORDERED)
}

const fn counter(name: &'static str, handler: Handler, summary: &'static str, syntax: &'static str) -> Row {
    Row::new(name, Group::Set, handler)
        .at_least(3)
        .flags(Flags::READONLY.and(Flags::MOVABLE_KEYS))
        .keys(COUNTED)
        .docs("8.10.0", summary, TOTAL_COST)
        .syntax(syntax)
}

const fn storer(name: &'static str, handler: Handler, summary: &'static str, cost: &'static str) -> Row {
    Row::new(name, Group::Set, handler)
        .at_least(3)
        .flags(GROWS)
        .keys(STORE)
        .docs("1.0.0", summary, cost)
        .syntax("destination:key#0 key:key#1...")
}

fn scard(call: &mut Call) -> CommandResult {
    let set = call.keyspace.read_as::<Set>(call.args[1])?;
    call.reply.integer(set.map_or(0, Set::len) as i64);
    Ok(())
}

fn sismember(call: &mut Call) -> CommandResult {
    let now = call.now();
    let set = call.keyspace.read_as::<Set>(call.args[1])?;
    call.reply.integer(i64::from(set.is_some_and(|set| set.contains(call.args[2], now))));
    Ok(())
}

fn smismember(call: &mut Call) -> CommandResult {
    let now = call.now();
    let set = call.keyspace.read_as::<Set>(call.args[1])?;
    call.reply.array(call.args.len() - 2);
    for member in &call.args[2..] {
        call.reply.integer(i64::from(set.is_some_and(|set| set.contains(member, now))));
    }
    Ok(())
}

fn smembers(call: &mut Call) -> CommandResult {
    let now = call.now();
    match call.keyspace.read_as::<Set>(call.args[1])? {
        Some(set) => reply_members(call.reply, set, now),
        None => call.reply.set(0),
    }
    Ok(())
}

/// Replies with all members.
fn reply_members(reply: &mut ReplyBuffer, set: &Set, now: i64) {
    let live = if set.expiring_len() == 0 { set.len() } else { set.iter(now).count() };
    reply.set(live);
    for member in set.iter(now) {
        reply_element(reply, member);
    }
}

fn sscan(call: &mut Call) -> CommandResult {
    let cursor = parse_cursor(call.args[2])?;
    let now = call.now();
    let Some(set) = call.keyspace.read_as::<Set>(call.args[1])? else {
        reply_cursor(call.reply, 0, 0);
        return Ok(());
    };
    let options = ScanOptions::parse(&call.args[3..], ScanExtras::default())?;
    let mut found = ReplyBuffer::new(call.reply.protocol);
    let mut count = 0;
    let mut text = itoa::Buffer::new();
    let next = set.scan(cursor, options.count, now, |member| {
        if options.matches(member.text(&mut text)) {
            reply_element(&mut found, member);
            count += 1;
        }
    });
    reply_cursor(call.reply, next, count);
    call.reply.raw(found.as_contiguous().expect("members are copied, not attached"));
    Ok(())
}
