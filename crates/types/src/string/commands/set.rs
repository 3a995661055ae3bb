// SPDX-License-Identifier: BSD-3-Clause
//! Setting whole values, with the conditions and expiries of SET and its relatives.

use braid_base::number;
use braid_engine::Call;
use braid_keyspace::{Event, Expiry, journal_as};
use braid_spec::{CommandError, CommandResult, KeyFlags};

use super::{CHANGE, OVERWRITE, equals, reply_value};
use crate::lifetime::{Lifetime, Unit, expire_at};

/// SET reads what was there only if it is asked to return it.
pub(super) fn key_flags(args: &[&[u8]]) -> KeyFlags {
    let returns = args[3..].iter().any(|arg| arg.eq_ignore_ascii_case(b"get"));
    if returns { CHANGE } else { OVERWRITE }
}

/// When a value is set.
#[derive(Clone, Copy, Default, PartialEq)]
enum Condition<'a> {
    #[default]
    Always,
    Absent,
    Present,
    /// If it is this string now.
    Equal(&'a [u8]),
}

/// Which of the options a command knows, beside the times that all know.
#[derive(Clone, Copy, PartialEq)]
enum Grammar {
    /// SET: NX, XX, IFEQ, GET, KEEPTTL.
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
    /// Reads the options from argument `from` on. One may be repeated, but not go with one that contradicts
    /// it.
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
            } else if let (Grammar::Set, true, Condition::Always, Some(text)) =
                (grammar, is("IFEQ"), options.condition, next)
            {
                options.condition = Condition::Equal(text);
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

    /// The expiry of a value that is set with these options.
    fn expiry(&self, call: &Call) -> Result<Expiry, CommandError> {
        match self.lifetime {
            Lifetime::Unsaid | Lifetime::Persist => Ok(Expiry::Clear),
            Lifetime::Keep => Ok(Expiry::Keep),
            Lifetime::Until(unit, text) => unit.deadline(call, text, 1).map(Expiry::At),
        }
    }
}

/// The event of a string that was set.
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
        Condition::Absent => call.keyspace.peek(key).is_none(),
        Condition::Present => call.keyspace.peek(key).is_some(),
        Condition::Equal(text) => call.keyspace.string(key)?.is_some_and(|value| equals(value, text)),
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
            // Not every server knows the condition, and it was met.
            (Condition::Equal(_), _) => journal_set(call, key, call.args[2], expiry),
            // As it was given.
            (_, Lifetime::Unsaid | Lifetime::Keep | Lifetime::Until(Unit::UnixMilliseconds, _)) => {}
            _ => journal_set(call, key, call.args[2], expiry),
        }
    }
    Ok(())
}

/// What is set for a span of time is set until then when it is repeated.
fn journal_set(call: &mut Call, key: &[u8], value: &[u8], expiry: Expiry) {
    match expiry {
        Expiry::At(at) => journal_as!(call.keyspace, b"SET", key, value, b"PXAT", at),
        Expiry::Keep => call.keyspace.journal_as(&[b"SET", key, value, b"KEEPTTL"]),
        Expiry::Clear => call.keyspace.journal_as(&[b"SET", key, value]),
    }
}

pub(super) fn setnx(call: &mut Call) -> CommandResult {
    let key = call.args[1];
    let absent = call.keyspace.peek(key).is_none();
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
            // A wrong time is only noticed for a key that is there; the reply so far is then void.
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

pub(super) fn delifeq(call: &mut Call) -> CommandResult {
    let (key, text) = (call.args[1], call.args[2]);
    let equal = call.keyspace.string(key)?.is_some_and(|value| equals(value, text));
    call.reply.integer(i64::from(equal && call.keyspace.delete(key)));
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
    let none_there = call.args[1..].chunks_exact(2).all(|pair| call.keyspace.peek(pair[0]).is_none());
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
    // Behind the pairs; a count that is too large has named no keys, so nothing may be touched before this.
    let end = 2 + pairs * 2;
    if end > call.args.len() {
        return Err(CommandError::Syntax);
    }
    let options = Options::parse(call.args, end, Grammar::MSetEx)?;
    let expiry = options.expiry(call)?;
    let mut keys = call.args[2..end].chunks_exact(2).map(|pair| call.keyspace.peek(pair[0]).is_some());
    let set = match options.condition {
        Condition::Absent => !keys.any(|there| there),
        Condition::Present => keys.all(|there| there),
        Condition::Always | Condition::Equal(_) => true,
    };
    if set {
        set_pairs(call, 2, end, expiry);
        if let Expiry::At(at) = expiry {
            let mut buffer = itoa::Buffer::new();
            let mut args: Vec<&[u8]> = call.args[..end].to_vec();
            args.extend([&b"PXAT"[..], buffer.format(at).as_bytes()]);
            call.keyspace.journal_as(&args);
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

#[cfg(test)]
mod tests {
    use braid_commands::testing::{Tester, check};

    const SYNTAX: &str = "-ERR syntax error\r\n";

    /// Time to live in ms; nothing without an expiry or without a key.
    fn ttl(tester: &mut Tester, key: &str) -> Option<i64> {
        let key = key.as_bytes();
        tester
            .with_keys(&[key], |txn| txn.peek(key).and_then(|entry| entry.expiry()).map(|at| at - txn.now()))
    }

    #[track_caller]
    fn assert_ttl(tester: &mut Tester, key: &str, expected: Option<i64>) {
        let found = ttl(tester, key);
        let near = match (found, expected) {
            (Some(found), Some(expected)) => (expected - 5000..=expected).contains(&found),
            (found, expected) => found == expected,
        };
        assert!(near, "{found:?} instead of {expected:?}");
    }

    #[test]
    fn conditions() {
        check(&[
            ("SET k a XX", "$-1\r\n"),
            ("SET k a NX", "+OK\r\n"),
            ("SET k b NX", "$-1\r\n"),
            ("SET k b XX", "+OK\r\n"),
            ("GET k", "$1\r\nb\r\n"),
            ("SET k c GET", "$1\r\nb\r\n"),
            ("SET k d NX GET", "$1\r\nc\r\n"),
            ("SET k d get xx", "$1\r\nc\r\n"),
            ("GET k", "$1\r\nd\r\n"),
            ("SET new d XX GET", "$-1\r\n"),
            ("GET new", "$-1\r\n"),
            ("SET new d NX GET", "$-1\r\n"),
            ("GET new", "$1\r\nd\r\n"),
            ("SETNX k e", ":0\r\n"),
            ("SETNX other e", ":1\r\n"),
            ("GETSET k f", "$1\r\nd\r\n"),
            ("GETSET none f", "$-1\r\n"),
            ("GET none", "$1\r\nf\r\n"),
            ("SET k v NX NX", "$-1\r\n"),
            ("SET k v NX XX", SYNTAX),
            ("SET k v XX NX", SYNTAX),
            ("SET k v FOO", SYNTAX),
            ("SET k v PERSIST", SYNTAX),
        ]);
    }

    /// As Valkey has them.
    #[test]
    fn comparisons() {
        check(&[
            ("SET k v IFEQ a", "$-1\r\n"),
            ("SET k v", "+OK\r\n"),
            ("SET k w IFEQ v", "+OK\r\n"),
            ("SET k x IFEQ v", "$-1\r\n"),
            ("SET k x IFEQ v GET", "$1\r\nw\r\n"),
            ("SET k x GET IFEQ w", "$1\r\nw\r\n"),
            ("GET k", "$1\r\nx\r\n"),
            ("SET k 10", "+OK\r\n"),
            ("SET k 11 IFEQ 10", "+OK\r\n"),
            ("SET k x IFEQ", SYNTAX),
            ("SET k x IFEQ x NX", SYNTAX),
            ("SET k x XX IFEQ x", SYNTAX),
            ("SET k x IFEQ x IFEQ y", SYNTAX),
            ("DELIFEQ k 10", ":0\r\n"),
            ("DELIFEQ k 11", ":1\r\n"),
            ("DELIFEQ k 11", ":0\r\n"),
        ]);
    }

    #[test]
    fn times() {
        let mut tester = Tester::new();
        let now = braid_base::clock::unix_ms();
        for (line, expected) in [
            ("SET k v EX 100".to_owned(), Some(100_000)),
            ("SET k v PX 100000".to_owned(), Some(100_000)),
            (format!("SET k v EXAT {}", now / 1000 + 100), Some(100_000)),
            (format!("SET k v PXAT {}", now + 100_000), Some(100_000)),
            ("SET k w KEEPTTL".to_owned(), Some(100_000)),
            ("SET k v EX 100 EX 200".to_owned(), Some(200_000)),
            ("SET k v".to_owned(), None),
            ("SETEX k 300 v".to_owned(), Some(300_000)),
            ("PSETEX k 300000 v".to_owned(), Some(300_000)),
            ("SET k v PXAT 1".to_owned(), None),
        ] {
            assert_eq!(tester.run(&line), "+OK\r\n", "{line}");
            assert_ttl(&mut tester, "k", expected);
        }
        tester.check(&[("GET k", "$-1\r\n"), ("SETEX k 100 v", "+OK\r\n"), ("GETSET k w", "$1\r\nv\r\n")]);
        assert_ttl(&mut tester, "k", None);
        for (line, expected) in [
            ("GETEX k", None),
            ("GETEX k EX 100", Some(100_000)),
            ("GETEX k", Some(100_000)),
            ("GETEX k PERSIST", None),
            ("GETEX k PX 5000000", Some(5_000_000)),
            ("GETEX k PERSIST PERSIST", None),
        ] {
            assert_eq!(tester.run(line), "$1\r\nw\r\n", "{line}");
            assert_ttl(&mut tester, "k", expected);
        }
        tester.check(&[("GETEX k PXAT 1", "$1\r\nw\r\n"), ("GETEX k", "$-1\r\n")]);
        assert_eq!(tester.engine.keyspace.len(0), (0, 0));
    }

    #[test]
    fn a_wrong_time_changes_nothing() {
        check(&[
            ("SET k v", "+OK\r\n"),
            ("SET k w EX 0", "-ERR invalid expire time in 'set' command\r\n"),
            ("SET k w EX 9223372036854775807", "-ERR invalid expire time in 'set' command\r\n"),
            ("SET k w PX 9223372036854775807", "-ERR invalid expire time in 'set' command\r\n"),
            ("SET k w EXAT -1", "-ERR invalid expire time in 'set' command\r\n"),
            ("SET k w EX x", "-ERR value is not an integer or out of range\r\n"),
            ("SET k w EX", SYNTAX),
            ("SET k w EX 10 PX 10", SYNTAX),
            ("SET k w EX 10 KEEPTTL", SYNTAX),
            ("SET k w KEEPTTL EX 10", SYNTAX),
            ("SETEX k 0 w", "-ERR invalid expire time in 'setex' command\r\n"),
            ("SETEX k x w", "-ERR value is not an integer or out of range\r\n"),
            ("PSETEX k -5 w", "-ERR invalid expire time in 'psetex' command\r\n"),
            ("GETEX k EX 0", "-ERR invalid expire time in 'getex' command\r\n"),
            ("GETEX none EX 0", "$-1\r\n"),
            ("GETEX k KEEPTTL", SYNTAX),
            ("GETEX k NX", SYNTAX),
            ("GETEX k EX 10 PERSIST", SYNTAX),
            ("GETEX k PERSIST EX 10", SYNTAX),
            ("GET k", "$1\r\nv\r\n"),
        ]);
    }

    #[test]
    fn several_at_once() {
        let mut tester = Tester::new();
        tester.check(&[
            ("MSET a 1 b 2 a 3", "+OK\r\n"),
            ("MGET a b", "*2\r\n$1\r\n3\r\n$1\r\n2\r\n"),
            ("MSET a 1 b", "-ERR wrong number of arguments for 'mset' command\r\n"),
            ("MSETNX a 1 b", "-ERR wrong number of arguments for 'msetnx' command\r\n"),
            ("MSETNX c 1 b 9", ":0\r\n"),
            ("MSETNX c 1 d 9 c 2", ":1\r\n"),
            ("MGET b c d", "*3\r\n$1\r\n2\r\n$1\r\n2\r\n$1\r\n9\r\n"),
        ]);
        let dirty = tester.engine.keyspace.total(|counters| counters.dirty.get());
        assert_eq!(dirty, 6);
    }

    /// As Valkey has it.
    #[test]
    fn several_with_options() {
        let mut tester = Tester::new();
        let numkeys = "-ERR invalid numkeys value or out of range\r\n";
        tester.check(&[
            ("MSETEX 0 a b", numkeys),
            ("MSETEX -1 a b", numkeys),
            ("MSETEX x a b", numkeys),
            ("MSETEX 99999999999999 a b", numkeys),
            ("MSETEX 2147483647 a b", SYNTAX),
            ("MSETEX 2 a b c", SYNTAX),
            ("MSETEX 1 a b c d", SYNTAX),
            ("MSETEX 1 a b GET", SYNTAX),
            ("MSETEX 1 a b NX XX", SYNTAX),
            ("MSETEX 1 a b EX 10 KEEPTTL", SYNTAX),
            ("MSETEX 1 a b EX 0", "-ERR invalid expire time in 'msetex' command\r\n"),
            ("GET a", "$-1\r\n"),
            ("MSETEX 2 a 1 b 2 XX", ":0\r\n"),
            ("MSETEX 2 a 1 b 2 NX EX 100", ":1\r\n"),
            ("MSETEX 2 b 1 c 2 NX", ":0\r\n"),
            ("MSETEX 2 b 1 c 2 XX", ":0\r\n"),
        ]);
        assert_ttl(&mut tester, "b", Some(100_000));
        tester.check(&[("MSETEX 1 b 5 KEEPTTL XX", ":1\r\n"), ("GET b", "$1\r\n5\r\n")]);
        assert_ttl(&mut tester, "b", Some(100_000));
        tester.check(&[("MSETEX 1 b 6", ":1\r\n")]);
        assert_ttl(&mut tester, "b", None);
        tester.check(&[("MSETEX 2 z 1 z 2 NX", ":1\r\n"), ("GET z", "$1\r\n2\r\n")]);
        tester.check(&[("MSETEX 1 z 1 PXAT 1", ":1\r\n"), ("GET z", "$-1\r\n")]);
    }
}
