// SPDX-License-Identifier: BSD-3-Clause
//! Setting whole values, with the conditions and expiries of SET and its relatives.

use braid_base::number;
use braid_executor::Call;
use braid_keyspace::{Event, Expiry, journal_as};
use braid_spec::{CommandError, CommandResult, KeyFlags};

use super::compare::{Comparison, Word};
use super::{CHANGE, OVERWRITE, reply_value};
use crate::lifetime::{Lifetime, Unit, expire_at};

/// SET reads the old value only if it has to return it or compare it.
pub(super) fn key_flags(args: &[&[u8]]) -> KeyFlags {
    let reads = |arg: &&[u8]| arg.eq_ignore_ascii_case(b"get") || Word::parse(arg).is_some();
    if args[3..].iter().any(reads) { CHANGE } else { OVERWRITE }
}

/// The condition of a SET.
#[derive(Clone, Copy, Default, PartialEq)]
enum Condition<'a> {
    #[default]
    Always,
    Absent,
    Present,
    /// The current value passes this comparison.
    Compared(Comparison<'a>),
}

/// The options of a command, in addition to the times, which all commands accept.
#[derive(Clone, Copy, PartialEq)]
enum Grammar {
    /// SET: NX, XX, IFEQ, IFNE, IFDEQ, IFDNE, GET, KEEPTTL.
    Set,
    /// GETEX: PERSIST.
    GetEx,
    /// MSETEX: NX, XX, KEEPTTL.
    MSetEx,
}

#[derive(Default)]
struct Options<'a> {
    condition: Condition<'a>,
    get: bool,
    lifetime: Lifetime<'a>,
}

impl<'a> Options<'a> {
    /// Parses the options from argument `from` on. Options may be repeated; contradictory options
    /// are refused.
    fn parse(args: &[&'a [u8]], from: usize, grammar: Grammar) -> Result<Options<'a>, CommandError> {
        let sets = grammar != Grammar::GetEx;
        let mut options = Options::default();
        let mut index = from;
        while index < args.len() {
            let is = |word: &str| args[index].eq_ignore_ascii_case(word.as_bytes());
            let next = args.get(index + 1).copied();
            if sets && is("NX") && matches!(options.condition, Condition::Always | Condition::Absent) {
                options.condition = Condition::Absent;
            } else if sets && is("XX") && matches!(options.condition, Condition::Always | Condition::Present)
            {
                options.condition = Condition::Present;
            } else if grammar == Grammar::Set && is("GET") {
                options.get = true;
            } else if let (Grammar::Set, Condition::Always, Some(word), Some(operand)) =
                (grammar, options.condition, Word::parse(args[index]), next)
            {
                options.condition = Condition::Compared(Comparison::new(word, operand)?);
                index += 1;
            } else {
                let agrees = if sets && is("KEEPTTL") {
                    options.lifetime.say(Lifetime::Keep)
                } else if !sets && is("PERSIST") {
                    options.lifetime.say(Lifetime::Persist)
                } else {
                    index += 1;
                    options.lifetime.say_time(args[index - 1], next)
                };
                if !agrees {
                    return Err(CommandError::Syntax);
                }
            }
            index += 1;
        }
        Ok(options)
    }

    /// The expiry of a value set with these options.
    fn expiry(&self, call: &Call) -> Result<Expiry, CommandError> {
        match self.lifetime {
            Lifetime::Unsaid | Lifetime::Persist => Ok(Expiry::Clear),
            Lifetime::Keep => Ok(Expiry::Keep),
            Lifetime::Until(unit, text) => unit.deadline(call, text, 1).map(Expiry::At),
        }
    }
}

/// The event for a string that was set.
const SET: Event = Event::string("set");

pub(super) fn set(call: &mut Call) -> CommandResult {
    if call.args.len() > 3 {
        return set_with_options(call);
    }
    let value = call.value_arg(2);
    call.keyspace.set_as(SET, call.args[1], value, Expiry::Clear);
    call.reply.ok();
    Ok(())
}

fn set_with_options(call: &mut Call) -> CommandResult {
    let options = Options::parse(call.args, 3, Grammar::Set)?;
    let expiry = options.expiry(call)?;
    let key = call.args[1];
    let set = match options.condition {
        Condition::Always => true,
        Condition::Absent => call.keyspace.look_at(key).is_none(),
        Condition::Present => call.keyspace.look_at(key).is_some(),
        Condition::Compared(comparison) => comparison.holds(call.keyspace.string(key)?),
    };
    if options.get {
        reply_value(call)?;
    } else if set {
        call.reply.ok();
    } else {
        call.reply.null();
    }
    if set {
        let value = call.value_arg(2);
        call.keyspace.set_as(SET, key, value, expiry);
        match (options.condition, options.lifetime) {
            // The condition held, and not every server supports it.
            (Condition::Compared(_), _) => journal_set(call, key, call.args[2], expiry),
            // The arguments reproduce the change exactly.
            (_, Lifetime::Unsaid | Lifetime::Keep | Lifetime::Until(Unit::UnixMilliseconds, _)) => {}
            _ => journal_set(call, key, call.args[2], expiry),
        }
    }
    Ok(())
}

/// Journals a value set with a relative time, with the absolute time.
fn journal_set(call: &mut Call, key: &[u8], value: &[u8], expiry: Expiry) {
    match expiry {
        Expiry::At(at) => journal_as!(call.keyspace, b"SET", key, value, b"PXAT", at),
        Expiry::Keep => call.keyspace.journal_as(&[b"SET", key, value, b"KEEPTTL"]),
        Expiry::Clear => call.keyspace.journal_as(&[b"SET", key, value]),
    }
}

pub(super) fn setnx(call: &mut Call) -> CommandResult {
    let key = call.args[1];
    let absent = call.keyspace.look_at(key).is_none();
    if absent {
        let value = call.value_arg(2);
        call.keyspace.set_as(SET, key, value, Expiry::Clear);
    }
    call.reply.integer(i64::from(absent));
    Ok(())
}

pub(super) fn setex(call: &mut Call) -> CommandResult {
    set_for(call, Unit::Seconds)
}

pub(super) fn psetex(call: &mut Call) -> CommandResult {
    set_for(call, Unit::Milliseconds)
}

fn set_for(call: &mut Call, unit: Unit) -> CommandResult {
    let at = unit.deadline(call, call.args[2], 1)?;
    let value = call.value_arg(3);
    call.keyspace.set_as(SET, call.args[1], value, Expiry::At(at));
    journal_set(call, call.args[1], call.args[3], Expiry::At(at));
    call.reply.ok();
    Ok(())
}

pub(super) fn getset(call: &mut Call) -> CommandResult {
    reply_value(call)?;
    let value = call.value_arg(2);
    let key = call.args[1];
    call.keyspace.set_as(SET, key, value, Expiry::Clear);
    call.keyspace.journal_as(&[b"SET", key, call.args[2]]);
    Ok(())
}

pub(super) fn getex(call: &mut Call) -> CommandResult {
    let options = Options::parse(call.args, 2, Grammar::GetEx)?;
    if !reply_value(call)? {
        return Ok(());
    }
    let key = call.args[1];
    match options.lifetime {
        Lifetime::Until(unit, text) => {
            // An invalid time is detected only for an existing key; the reply so far is then
            // discarded.
            let at = unit.deadline(call, text, 1)?;
            expire_at(call, key, at);
        }
        Lifetime::Persist if call.keyspace.peek(key).is_some_and(|entry| entry.has_expiry()) => {
            call.keyspace.set_expiry(key, None);
            call.keyspace.journal_as(&[b"PERSIST", key]);
        }
        _ => {}
    }
    Ok(())
}

pub(super) fn mset(call: &mut Call) -> CommandResult {
    if call.args.len().is_multiple_of(2) {
        return Err(call.wrong_arity());
    }
    set_pairs(call, 1, call.args.len(), Expiry::Clear);
    call.reply.ok();
    Ok(())
}

pub(super) fn msetnx(call: &mut Call) -> CommandResult {
    if call.args.len().is_multiple_of(2) {
        return Err(call.wrong_arity());
    }
    let none_there = call.args[1..].chunks_exact(2).all(|pair| call.keyspace.look_at(pair[0]).is_none());
    if none_there {
        set_pairs(call, 1, call.args.len(), Expiry::Clear);
    }
    call.reply.integer(i64::from(none_there));
    Ok(())
}

pub(super) fn msetex(call: &mut Call) -> CommandResult {
    let pairs = number::parse_i64(call.args[1])
        .and_then(|count| i32::try_from(count).ok())
        .and_then(|count| usize::try_from(count).ok())
        .filter(|&count| count > 0)
        .ok_or(CommandError::text("ERR invalid numkeys value or out of range"))?;
    // Options follow the pairs. A count that is too large names no keys, so nothing may be changed
    // before this check.
    let end = 2 + pairs * 2;
    if end > call.args.len() {
        return Err(CommandError::Syntax);
    }
    let options = Options::parse(call.args, end, Grammar::MSetEx)?;
    let expiry = options.expiry(call)?;
    let mut keys = call.args[2..end].chunks_exact(2).map(|pair| call.keyspace.look_at(pair[0]).is_some());
    let set = match options.condition {
        Condition::Absent => !keys.any(|there| there),
        Condition::Present => keys.all(|there| there),
        Condition::Always | Condition::Compared(_) => true,
    };
    if set {
        set_pairs(call, 2, end, expiry);
        // In commands of every server: MSETEX is newer than most.
        let pairs = &call.args[2..end];
        if expiry == Expiry::Clear {
            let args: Vec<&[u8]> = [&b"MSET"[..]].into_iter().chain(pairs.iter().copied()).collect();
            call.keyspace.journal_as(&args);
        } else {
            pairs.chunks_exact(2).for_each(|pair| journal_set(call, pair[0], pair[1], expiry));
        }
    }
    call.reply.integer(i64::from(set));
    Ok(())
}

/// Sets the keys and values among the arguments `from..end`.
#[inline]
fn set_pairs(call: &mut Call, from: usize, end: usize, expiry: Expiry) {
    for index in (from..end).step_by(2) {
        let value = call.value_arg(index + 1);
        call.keyspace.set_as(SET, call.args[index], value, expiry);
    }
}
