// SPDX-License-Identifier: BSD-3-Clause
//! The expiry of single hash fields, set members and sorted set members: HEXPIRE and its
//! relatives, with Valkey 9's replies, and their counterparts for the other two types (SEXPIRE
//! ..., ZEXPIRE ...), which use the word MEMBERS where hashes use FIELDS. This file has the
//! bodies, for any type that implements [`Members`]; rows and implementation are in the type's
//! folder (`commands/member_expiry.rs`). KeyDB's commands that set member expiries are here, too.
//!
//! Members past their expiry are hidden from reads and removed by the next write to the collection
//! or in the background (`keyspace/expiry.rs`). HLEN and SCARD count them until then, like HLEN in
//! Redis and Valkey; ZCARD does not, since ranks must agree with it.
//!
//! Redis 8 also has the hash commands, with the same replies, but words its errors differently and
//! accepts only one condition: `redis.rs`.

pub(crate) mod redis;

use braid_base::number;
use braid_executor::{Call, Handler, Row};
use braid_keyspace::object::{Expiring, ObjectType};
use braid_keyspace::{Event, Txn, Type};
use braid_spec::{CommandError, CommandResult, Flags, Group, KeyFlags, KeySpec};
use braid_values::hash::Hash;
use braid_values::set::Set;
use braid_values::sorted_set::SortedSet;

use crate::collection::purge;
use crate::lifetime::{Condition, Unit, to_seconds};

const READ_ONE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RO.and(KeyFlags::ACCESS))];
pub(crate) const UPDATE_ONE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::UPDATE))];
pub(crate) const WRITES_FAST: Flags = Flags::WRITE.and(Flags::FAST);

pub(crate) const NONDETERMINISTIC: &[&str] = &["nondeterministic_output"];

/// Reply codes for a member.
const NO_MEMBER: i64 = -2;
const NO_EXPIRY: i64 = -1;
const NOT_SET: i64 = 0;
const SET: i64 = 1;
const DELETED: i64 = 2;

/// A collection's operations for these commands.
pub trait Members: Expiring {
    /// Redis 8 has these commands for the type.
    const IN_REDIS: bool = false;
    /// The keyword before the number of members.
    const WORD: &'static str;
    /// The error if the stated number does not match the members.
    const COUNT_REFUSED: &'static str;

    /// The commands that journal changes of member expiries.
    const JOURNALLED: Journalled;

    /// The event for members that lost their expiry.
    const PERSISTED: Event;

    /// The event for members whose expiry was set, or that were removed because it is past.
    fn expire_event(past: bool) -> Event;

    /// A member's expiry in ms since the Unix epoch; outer `None` if the member is missing.
    fn expiry_of(&self, member: &[u8], now: i64) -> Option<Option<i64>>;

    /// Sets or clears the expiry of an existing member.
    fn set_expiry_of(&mut self, member: &[u8], at: Option<i64>, now: i64);

    /// Removes a member.
    fn remove_member(&mut self, member: &[u8], now: i64);
}

/// The commands that journal changes of member expiries.
#[derive(Clone, Copy)]
pub struct Journalled {
    pub expire: &'static [u8],
    pub persist: &'static [u8],
    pub remove: &'static [u8],
}

/// [`Members::COUNT_REFUSED`] of types that use MEMBERS.
pub(crate) const MEMBERS_REFUSED: &str =
    "ERR nummembers should be greater than 0 and match the provided number of members";

/// The rows of one type: prefix of the names, type, group, since, since in Redis, the nouns for
/// members and collection, the syntax of the member arguments, complexity.
macro_rules! rows {
    ($type:tt) => {{
        use $crate::member_expiry::*;
        &[
            rows!($type expirer "expire" expire "Lets " " expire after some seconds." "seconds:integer"),
            rows!($type expirer "expireat" expireat "Lets " " expire at a Unix time in seconds."
                "unix-time-seconds:unix-time"),
            rows!($type reader "expiretime" expiretime "Returns the Unix times in seconds at which " " expire."),
            rows!($type reader "persist" persist "Removes the expiry of " ".").flags(WRITES_FAST).keys(UPDATE_ONE),
            rows!($type expirer "pexpire" pexpire "Lets " " expire after some milliseconds." "milliseconds:integer"),
            rows!($type expirer "pexpireat" pexpireat "Lets " " expire at a Unix time in milliseconds."
                "unix-time-milliseconds:unix-time"),
            rows!($type reader "pexpiretime" pexpiretime "Returns the Unix times in milliseconds at which " " expire."),
            rows!($type reader "pttl" pttl "Returns the milliseconds until " " expire.").tips(NONDETERMINISTIC),
            rows!($type reader "ttl" ttl "Returns the seconds until " " expire.").tips(NONDETERMINISTIC),
        ]
    }};
    (
        ($prefix:literal $kind:ident $group:ident $since:literal $redis:literal $members:literal $collection:literal $block:literal $cost:literal)
        $row:ident $name:literal $body:ident $before:literal $after:literal $($time:literal)?
    ) => {
        $row(concat!($prefix, $name), braid_spec::Group::$group, $body::<$kind>)
            .docs($since, concat!($before, $members, " of a ", $collection, $after), $cost)
            .syntax(concat!("key:key#0 ", $($time, " [condition:(NX|XX|GT|LT)] ",)? $block))
            .in_redis($redis, "")
    };
}
pub(crate) use rows;

/// KeyDB's commands, for all three types.
pub const COMMANDS: &[Row] = &[
    any_expirer(
        "expiremember",
        expiremember,
        "Lets a field or member of a collection expire after some time.",
    )
    .at_least(4)
    .syntax("key:key#0 member:string delay:integer [unit:(S|MS)]"),
    any_expirer(
        "expirememberat",
        expirememberat,
        "Lets a field or member of a collection expire at a Unix time in seconds.",
    )
    .exactly(4)
    .syntax("key:key#0 member:string unix-time-seconds:unix-time"),
    any_expirer(
        "pexpirememberat",
        pexpirememberat,
        "Lets a field or member of a collection expire at a Unix time in milliseconds.",
    )
    .exactly(4)
    .syntax("key:key#0 member:string unix-time-milliseconds:unix-time"),
];

pub(crate) const fn expirer(name: &'static str, group: Group, handler: Handler) -> Row {
    Row::new(name, group, handler).at_least(6).flags(WRITES_FAST).keys(UPDATE_ONE)
}

pub(crate) const fn reader(name: &'static str, group: Group, handler: Handler) -> Row {
    Row::new(name, group, handler).at_least(5).flags(Flags::READONLY.and(Flags::FAST)).keys(READ_ONE)
}

const fn any_expirer(name: &'static str, handler: Handler, summary: &'static str) -> Row {
    Row::new(name, Group::Generic, handler).flags(WRITES_FAST).keys(UPDATE_ONE).docs(
        "0.1.0",
        summary,
        "O(1) for hashes and sets, O(log(N)) for sorted sets.",
    )
}

/// The arguments of a command with options before the members.
pub struct Arguments<'a> {
    pub options: &'a [&'a [u8]],
    /// The stated number of members.
    pub count: Option<&'a [u8]>,
    /// The arguments after the number.
    pub members: &'a [&'a [u8]],
}

impl<'a> Arguments<'a> {
    /// Finds the keyword before the number of members, from argument `from` on. A keyword as the
    /// last argument is ignored.
    ///
    /// # Errors
    /// If the keyword is missing.
    pub fn parse<T: Members>(args: &'a [&'a [u8]], from: usize) -> Result<Arguments<'a>, CommandError> {
        let places = args.get(from..args.len() - 1).unwrap_or_default();
        let at = places.iter().position(|arg| arg.eq_ignore_ascii_case(T::WORD.as_bytes()));
        let at = from + at.ok_or(CommandError::text(T::COUNT_REFUSED))?;
        let members = args.get(at + 2..).unwrap_or_default();
        Ok(Arguments { options: &args[from..at], count: args.get(at + 1).copied(), members })
    }

    /// Checks that the number of members, of `width` arguments each, equals the stated one.
    ///
    /// # Errors
    /// If the count is missing, not a number, or not the number of members.
    pub fn check_count<T: Members>(&self, width: usize) -> CommandResult {
        let refusal = CommandError::text(T::COUNT_REFUSED);
        match self.count {
            Some(count) => check_count(count, self.members.len(), width, refusal),
            None => Err(refusal),
        }
    }
}

/// Checks the stated number of members against the number of arguments.
fn check_count(count: &[u8], given: usize, width: usize, refusal: CommandError) -> CommandResult {
    let count = number::parse_i64(count).ok_or(CommandError::NotAnInteger)?;
    let matches = usize::try_from(count).ok().and_then(|count| count.checked_mul(width)) == Some(given);
    if count > 0 && matches { Ok(()) } else { Err(refusal) }
}

/// The members of a command whose keyword is always argument 2.
///
/// # Errors
/// If the keyword is missing, or the count of members is not the number of those given.
pub fn fixed_members<'a, T: Members>(
    call: &Call<'a, '_>,
    refusal: CommandError,
) -> Result<&'a [&'a [u8]], CommandError> {
    if redis::follows::<T>(call) {
        return redis::fixed_fields(call.args);
    }
    if !call.arg_is(2, T::WORD) {
        return Err(CommandError::Syntax);
    }
    check_count(call.args[3], call.args.len() - 4, 1, refusal)?;
    Ok(&call.args[4..])
}

/// Sets a member's expiry, or removes the member if the time is past; returns its reply code.
fn set_one<T: Members>(
    collection: &mut T,
    member: &[u8],
    at: i64,
    now: i64,
    allows: impl FnOnce(Option<i64>) -> bool,
) -> i64 {
    match collection.expiry_of(member, now) {
        None => NO_MEMBER,
        Some(present) if !allows(present) => NOT_SET,
        Some(_) if at <= now => {
            collection.remove_member(member, now);
            DELETED
        }
        Some(_) => {
            collection.set_expiry_of(member, Some(at), now);
            SET
        }
    }
}

fn set_expiry<T: Members>(call: &mut Call, unit: Unit) -> CommandResult {
    let (key, now) = (call.args[1], call.now());
    let redis::Expire { at, condition, members } = if redis::follows::<T>(call) {
        redis::check_type::<T>(call)?;
        redis::Expire::parse::<T>(call, unit)?
    } else {
        let arguments = Arguments::parse::<T>(call.args, 3)?;
        let condition = Condition::parse(arguments.options)?;
        arguments.check_count::<T>(1)?;
        condition.check()?;
        let at = redis::member_deadline::<T>(call, unit, call.args[2], 0)?;
        redis::Expire { at, condition, members: arguments.members }
    };
    call.reply.array(members.len());
    let Some(collection) = call.keyspace.write_as::<T>(key)? else {
        members.iter().for_each(|_| call.reply.integer(NO_MEMBER));
        return Ok(());
    };
    let expired = purge(collection, now);
    let mut changed = Vec::with_capacity(members.len());
    for member in members {
        let outcome = set_one(collection, member, at, now, |present| condition.allows(present, at));
        if outcome == SET || outcome == DELETED {
            changed.push(*member);
        }
        call.reply.integer(outcome);
    }
    let (empty, changes) = (collection.is_empty(), changed.len() as u64);
    call.keyspace.finish_change_expiring(T::expire_event(at <= now), key, changes, expired, empty);
    call.keyspace.notify_members(T::expire_event(at <= now), key, changed.iter().copied());
    if changes > 0 {
        journal_members::<T>(call.keyspace, key, Some(at), &changed);
    }
    call.keyspace.note_member_expiry(key);
    Ok(())
}

/// Journals an expiry set for members, or cleared (`None`). If the time is past, the members were
/// removed and are journalled as removed. A time that Redis refuses is journalled after the removal
/// of the earlier one, at which a server that refuses it would otherwise remove the member.
pub fn journal_members<T: Members>(keyspace: &mut Txn<'_>, key: &[u8], at: Option<i64>, members: &[&[u8]]) {
    let (mut time, mut count) = (itoa::Buffer::new(), itoa::Buffer::new());
    let names = T::JOURNALLED;
    if T::IN_REDIS && at.is_some_and(|at| at > redis::TIME_MAX) {
        journal_members::<T>(keyspace, key, None, members);
    }
    let mut args: Vec<&[u8]> = Vec::with_capacity(members.len() + 5);
    match at {
        Some(at) if at <= keyspace.now() => args.extend([names.remove, key]),
        Some(at) => args.extend([names.expire, key, time.format(at).as_bytes()]),
        None => args.extend([names.persist, key]),
    }
    if args[0] != names.remove {
        args.extend([T::WORD.as_bytes(), count.format(members.len()).as_bytes()]);
    }
    args.extend(members);
    keyspace.journal_as(&args);
}

pub(crate) fn expire<T: Members>(call: &mut Call) -> CommandResult {
    set_expiry::<T>(call, Unit::Seconds)
}

pub(crate) fn pexpire<T: Members>(call: &mut Call) -> CommandResult {
    set_expiry::<T>(call, Unit::Milliseconds)
}

pub(crate) fn expireat<T: Members>(call: &mut Call) -> CommandResult {
    set_expiry::<T>(call, Unit::UnixSeconds)
}

pub(crate) fn pexpireat<T: Members>(call: &mut Call) -> CommandResult {
    set_expiry::<T>(call, Unit::UnixMilliseconds)
}

pub(crate) fn persist<T: Members>(call: &mut Call) -> CommandResult {
    let (key, now) = (call.args[1], call.now());
    if redis::follows::<T>(call) {
        redis::check_type::<T>(call)?;
    }
    let members = fixed_members::<T>(call, CommandError::text(T::COUNT_REFUSED))?;
    call.reply.array(members.len());
    let Some(collection) = call.keyspace.write_as::<T>(key)? else {
        members.iter().for_each(|_| call.reply.integer(NO_MEMBER));
        return Ok(());
    };
    let expired = purge(collection, now);
    let mut changed: Vec<&[u8]> = Vec::new();
    for member in members {
        let outcome = match collection.expiry_of(member, now) {
            None => NO_MEMBER,
            Some(None) => NO_EXPIRY,
            Some(Some(_)) => {
                collection.set_expiry_of(member, None, now);
                changed.push(member);
                SET
            }
        };
        call.reply.integer(outcome);
    }
    let (empty, changes) = (collection.is_empty(), changed.len() as u64);
    call.keyspace.finish_change_expiring(T::PERSISTED, key, changes, expired, empty);
    call.keyspace.notify_members(T::PERSISTED, key, changed);
    Ok(())
}

pub(crate) fn ttl<T: Members>(call: &mut Call) -> CommandResult {
    let (now, seconds) = (call.clock_ms(), seconds::<T>(call));
    reply_expiry::<T>(call, |at| seconds(at.saturating_sub(now).max(0)))
}

pub(crate) fn pttl<T: Members>(call: &mut Call) -> CommandResult {
    let now = call.clock_ms();
    reply_expiry::<T>(call, |at| at.saturating_sub(now).max(0))
}

pub(crate) fn expiretime<T: Members>(call: &mut Call) -> CommandResult {
    reply_expiry::<T>(call, seconds::<T>(call))
}

/// How milliseconds are told as seconds: Redis rounds those of fields up.
fn seconds<T: Members>(call: &Call) -> fn(i64) -> i64 {
    if redis::follows::<T>(call) { |ms| ms.saturating_add(999) / 1000 } else { to_seconds }
}

pub(crate) fn pexpiretime<T: Members>(call: &mut Call) -> CommandResult {
    reply_expiry::<T>(call, |at| at)
}

/// Replies with `express` of each member's expiry.
fn reply_expiry<T: Members>(call: &mut Call, express: impl Fn(i64) -> i64) -> CommandResult {
    let now = call.now();
    // Redis looks up the key first.
    let parsed = (!redis::follows::<T>(call)).then(|| fixed_members::<T>(call, CommandError::Syntax));
    let parsed = parsed.transpose()?;
    let collection = call.keyspace.read_as::<T>(call.args[1])?;
    let members = parsed.map_or_else(|| redis::fixed_fields(call.args), Ok)?;
    call.reply.array(members.len());
    for member in members {
        let number = match collection.and_then(|collection| collection.expiry_of(member, now)) {
            None => NO_MEMBER,
            Some(None) => NO_EXPIRY,
            Some(Some(at)) => express(at),
        };
        call.reply.integer(number);
    }
    Ok(())
}

fn expiremember(call: &mut Call) -> CommandResult {
    let unit = match &call.args[4..] {
        [] => Unit::Seconds,
        [unit] if unit.eq_ignore_ascii_case(b"s") => Unit::Seconds,
        [unit] if unit.eq_ignore_ascii_case(b"ms") => Unit::Milliseconds,
        _ => return Err(CommandError::Syntax),
    };
    expire_one_of_any(call, unit)
}

fn expirememberat(call: &mut Call) -> CommandResult {
    expire_one_of_any(call, Unit::UnixSeconds)
}

fn pexpirememberat(call: &mut Call) -> CommandResult {
    expire_one_of_any(call, Unit::UnixMilliseconds)
}

/// Sets the member's expiry and replies 1; replies 0 if the member is missing.
fn expire_one_of_any(call: &mut Call, unit: Unit) -> CommandResult {
    let (key, member) = (call.args[1], call.args[2]);
    let kind = Type::of(call.keyspace, key);
    let at = if kind == Some(Hash::TYPE) {
        redis::member_deadline::<Hash>(call, unit, call.args[3], i64::MIN)?
    } else {
        unit.deadline(call, call.args[3], i64::MIN)?
    };
    let found = match kind {
        None => false,
        Some(Hash::TYPE) => expire_one::<Hash>(call.keyspace, key, member, at)?,
        Some(Set::TYPE) => expire_one::<Set>(call.keyspace, key, member, at)?,
        Some(SortedSet::TYPE) => expire_one::<SortedSet>(call.keyspace, key, member, at)?,
        Some(_) => return Err(CommandError::WrongType),
    };
    call.reply.integer(i64::from(found));
    Ok(())
}

fn expire_one<T: Members>(
    keyspace: &mut Txn<'_>,
    key: &[u8],
    member: &[u8],
    at: i64,
) -> Result<bool, CommandError> {
    let now = keyspace.now();
    let Some(collection) = keyspace.write_as::<T>(key)? else { return Ok(false) };
    let expired = purge(collection, now);
    let found = set_one(collection, member, at, now, |_| true) != NO_MEMBER;
    let empty = collection.is_empty();
    keyspace.finish_change_expiring(T::expire_event(at <= now), key, u64::from(found), expired, empty);
    keyspace.notify_members(T::expire_event(at <= now), key, found.then_some(member));
    if found {
        journal_members::<T>(keyspace, key, Some(at), &[member]);
    }
    keyspace.note_member_expiry(key);
    Ok(found)
}
