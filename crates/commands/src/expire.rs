// SPDX-License-Identifier: BSD-3-Clause
//! Commands on the expiry of keys.
//!
//! Flow: times given in any unit become milliseconds since the Unix epoch before anything is looked up, so
//! that a time that does not fit is refused whether or not the key is there. A key whose new expiry is not in
//! the future is deleted at once.

use braid_engine::{Call, Row};
use braid_keyspace::journal_as;
use braid_keyspace::keyspace::Removal;
use braid_spec::{CommandError, CommandResult, Flags, Group, KeyFlags, KeySpec};

use crate::keys::look;
use crate::lifetime::{Unit, to_seconds};

const CHANGE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::UPDATE))];
const READ: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RO.and(KeyFlags::ACCESS))];

/// The family.
pub const COMMANDS: &[Row] = &[
    setter("expire", expire)
        .docs("1.0.0", "Lets a key expire after some seconds.", "O(1)")
        .syntax("key:key#0 seconds:integer [condition:(NX|XX|GT|LT)@7.0.0]"),
    setter("expireat", expireat)
        .docs("1.2.0", "Lets a key expire at a Unix time in seconds.", "O(1)")
        .syntax("key:key#0 unix-time-seconds:unix-time [condition:(NX|XX|GT|LT)@7.0.0]"),
    getter("expiretime", expiretime).docs(
        "7.0.0",
        "Returns the Unix time in seconds at which a key expires.",
        "O(1)",
    ),
    Row::new("persist", Group::Generic, persist)
        .exactly(2)
        .flags(Flags::WRITE.and(Flags::FAST))
        .keys(CHANGE)
        .docs("2.2.0", "Takes the expiry from a key.", "O(1)")
        .syntax("key:key#0"),
    setter("pexpire", pexpire)
        .docs("2.6.0", "Lets a key expire after some milliseconds.", "O(1)")
        .syntax("key:key#0 milliseconds:integer [condition:(NX|XX|GT|LT)@7.0.0]"),
    setter("pexpireat", pexpireat)
        .docs("2.6.0", "Lets a key expire at a Unix time in milliseconds.", "O(1)")
        .syntax("key:key#0 unix-time-milliseconds:unix-time [condition:(NX|XX|GT|LT)@7.0.0]"),
    getter("pexpiretime", pexpiretime).docs(
        "7.0.0",
        "Returns the Unix time in milliseconds at which a key expires.",
        "O(1)",
    ),
    getter("pttl", pttl)
        .docs("2.6.0", "Returns the milliseconds until a key expires.", "O(1)")
        .history(&[("2.8.0", "Tells a missing key (-2) from one without expiry (-1).")])
        .tips(&["nondeterministic_output"]),
    getter("ttl", ttl)
        .docs("1.0.0", "Returns the seconds until a key expires.", "O(1)")
        .history(&[("2.8.0", "Tells a missing key (-2) from one without expiry (-1).")])
        .tips(&["nondeterministic_output"]),
];

const fn setter(name: &'static str, handler: braid_spec::spec::Handler) -> Row {
    Row::new(name, Group::Generic, handler)
        .at_least(3)
        .flags(Flags::WRITE.and(Flags::FAST))
        .keys(CHANGE)
        .history(&[("7.0.0", "New options `NX`, `XX`, `GT` and `LT`.")])
}

const fn getter(name: &'static str, handler: braid_spec::spec::Handler) -> Row {
    Row::new(name, Group::Generic, handler)
        .exactly(2)
        .flags(Flags::READONLY.and(Flags::FAST))
        .keys(READ)
        .syntax("key:key#0")
}

/// When a new expiry takes effect, by what the present one is.
#[derive(Default)]
pub(crate) struct Condition {
    none_yet: bool,
    some_yet: bool,
    later: bool,
    earlier: bool,
}

impl Condition {
    /// Reads the options; whether they go together is another question.
    pub(crate) fn parse(options: &[&[u8]]) -> Result<Condition, CommandError> {
        let mut condition = Condition::default();
        for option in options {
            let flag = match option.to_ascii_lowercase().as_slice() {
                b"nx" => &mut condition.none_yet,
                b"xx" => &mut condition.some_yet,
                b"gt" => &mut condition.later,
                b"lt" => &mut condition.earlier,
                _ => return Err(CommandError::quoting("ERR Unsupported option ", option, "")),
            };
            *flag = true;
        }
        Ok(condition)
    }

    /// Refuses options that exclude each other.
    pub(crate) fn check(&self) -> CommandResult {
        if self.none_yet && (self.some_yet || self.later || self.earlier) {
            return Err(CommandError::text(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if self.later && self.earlier {
            return Err(CommandError::text("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(())
    }

    /// No expiry counts as one in the infinite future.
    pub(crate) fn allows(&self, present: Option<i64>, new: i64) -> bool {
        match present {
            None => !self.some_yet && !self.later,
            Some(present) => {
                !self.none_yet && (!self.later || new > present) && (!self.earlier || new < present)
            }
        }
    }
}

fn expire(call: &mut Call) -> CommandResult {
    set_expiry(call, Unit::Seconds)
}

fn pexpire(call: &mut Call) -> CommandResult {
    set_expiry(call, Unit::Milliseconds)
}

fn expireat(call: &mut Call) -> CommandResult {
    set_expiry(call, Unit::UnixSeconds)
}

fn pexpireat(call: &mut Call) -> CommandResult {
    set_expiry(call, Unit::UnixMilliseconds)
}

fn set_expiry(call: &mut Call, unit: Unit) -> CommandResult {
    let key = call.args[1];
    let condition = Condition::parse(&call.args[3..])?;
    condition.check()?;
    let at = unit.deadline(call, call.args[2], i64::MIN)?;
    let Some(entry) = call.keyspace.write(key) else {
        call.reply.integer(0);
        return Ok(());
    };
    let allowed = condition.allows(entry.expiry(), at);
    if allowed {
        expire_at(call, key, at);
    }
    call.reply.integer(i64::from(allowed));
    Ok(())
}

/// Gives a key that is there an expiry, or deletes it if that is past.
pub(crate) fn expire_at(call: &mut Call, key: &[u8], at: i64) {
    if at <= call.now() {
        call.keyspace.delete(key);
        call.keyspace.journal_removal(key, Removal::Expired);
    } else {
        call.keyspace.set_expiry(key, Some(at));
        journal_as!(call.keyspace, b"PEXPIREAT", key, at);
    }
}

fn persist(call: &mut Call) -> CommandResult {
    let key = call.args[1];
    let had_expiry = call.keyspace.write(key).is_some_and(|entry| entry.has_expiry());
    if had_expiry {
        call.keyspace.set_expiry(key, None);
    }
    call.reply.integer(i64::from(had_expiry));
    Ok(())
}

/// Replies with what `express` makes of the expiry; -1 without one, -2 without the key.
fn reply_expiry(call: &mut Call, express: impl FnOnce(i64) -> i64) -> CommandResult {
    let number = match look(call.keyspace, call.args[1]).map(|entry| entry.expiry()) {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => express(at),
    };
    call.reply.integer(number);
    Ok(())
}

fn ttl(call: &mut Call) -> CommandResult {
    let now = call.clock_ms();
    reply_expiry(call, |at| to_seconds(at.saturating_sub(now).max(0)))
}

fn pttl(call: &mut Call) -> CommandResult {
    let now = call.clock_ms();
    reply_expiry(call, |at| at.saturating_sub(now).max(0))
}

fn expiretime(call: &mut Call) -> CommandResult {
    reply_expiry(call, to_seconds)
}

fn pexpiretime(call: &mut Call) -> CommandResult {
    reply_expiry(call, |at| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Tester, check};
    use proptest::prelude::*;

    #[test]
    fn setting_and_asking() {
        check(&[
            ("EXPIRE k 10", ":0\r\n"),
            ("TTL k", ":-2\r\n"),
            ("PTTL k", ":-2\r\n"),
            ("EXPIRETIME k", ":-2\r\n"),
            ("SET k v", "+OK\r\n"),
            ("TTL k", ":-1\r\n"),
            ("PEXPIRETIME k", ":-1\r\n"),
            ("PERSIST k", ":0\r\n"),
            ("EXPIRE k 100", ":1\r\n"),
            ("TTL k", ":100\r\n"),
            ("PERSIST k", ":1\r\n"),
            ("TTL k", ":-1\r\n"),
            ("EXPIREAT k 33177117420", ":1\r\n"),
            ("EXPIRETIME k", ":33177117420\r\n"),
            ("PEXPIRETIME k", ":33177117420000\r\n"),
            ("PEXPIREAT k 33177117420500", ":1\r\n"),
            ("EXPIRETIME k", ":33177117421\r\n"),
            ("PEXPIREAT k 9223372036854775807", ":1\r\n"),
            ("PEXPIRETIME k", ":9223372036854775807\r\n"),
            ("GET k", "$1\r\nv\r\n"),
            ("PERSIST nosuch", ":0\r\n"),
        ]);
    }

    #[test]
    fn times_in_the_past_delete() {
        for line in
            ["EXPIRE k 0", "EXPIRE k -5", "PEXPIRE k 0", "EXPIREAT k 1", "PEXPIREAT k -9223372036854775808"]
        {
            check(&[("SET k v", "+OK\r\n"), (line, ":1\r\n"), ("EXISTS k", ":0\r\n"), ("TTL k", ":-2\r\n")]);
        }
    }

    #[test]
    fn refused_times_and_options() {
        let mut cases: Vec<(String, String)> = Vec::new();
        let mut add = |line: &str, text: &str| cases.push((line.into(), format!("-ERR {text}\r\n")));
        for (name, time) in [
            ("expire", "9223372036854775807"),
            ("expire", "9223372036854776"),
            ("expire", "-9223372036854776"),
            ("expireat", "9223372036854776"),
            ("pexpire", "9223372036854775807"),
        ] {
            add(&format!("{name} k {time}"), &format!("invalid expire time in '{name}' command"));
        }
        add("EXPIRE k 1.5", "value is not an integer or out of range");
        add("EXPIRE k x AB", "Unsupported option AB");
        add("EXPIRE k 1 NX GT", "NX and XX, GT or LT options at the same time are not compatible");
        add("EXPIRE k 1 xx nx", "NX and XX, GT or LT options at the same time are not compatible");
        add("EXPIRE k 1 GT LT", "GT and LT options at the same time are not compatible");
        let mut tester = Tester::new();
        for (line, expected) in cases {
            assert_eq!(tester.run(&line), expected, "to {line}");
        }
    }

    #[test]
    fn conditions() {
        check(&[
            ("SET k v", "+OK\r\n"),
            ("EXPIRE k 100 XX", ":0\r\n"),
            ("EXPIRE k 100 GT", ":0\r\n"),
            ("EXPIRE k 200 LT", ":1\r\n"),
            ("EXPIRE k 300 LT", ":0\r\n"),
            ("EXPIRE k 100 NX", ":0\r\n"),
            ("EXPIRE k 100 XX LT", ":1\r\n"),
            ("EXPIRE k 300 XX GT", ":1\r\n"),
            ("EXPIRE k 200 gt", ":0\r\n"),
            ("TTL k", ":300\r\n"),
            ("EXPIRE k -1 GT", ":0\r\n"),
            ("EXPIRE k -1 LT", ":1\r\n"),
            ("EXISTS k", ":0\r\n"),
            ("SET k v", "+OK\r\n"),
            ("EXPIRE k 100 NX", ":1\r\n"),
        ]);
    }

    #[test]
    fn an_expiry_changes_watched_keys() {
        let mut tester = Tester::new();
        let other = tester.client();
        tester.check(&[("SET k v", "+OK\r\n"), ("WATCH k", "+OK\r\n")]);
        assert_eq!(tester.run_as(other, "EXPIRE k 100"), ":1\r\n");
        tester.check(&[("MULTI", "+OK\r\n"), ("PING", "+QUEUED\r\n"), ("EXEC", "*-1\r\n")]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        /// The options are those of the documentation, taken literally.
        #[test]
        fn conditions_mean_what_they_say(
            present in proptest::option::of(-3i64..3), new in -3i64..3,
            xx: bool, gt: bool, lt: bool, nx: bool,
        ) {
            let condition = Condition { none_yet: nx, some_yet: xx, later: gt, earlier: lt };
            let infinite = present.unwrap_or(i64::MAX);
            let expected = (!nx || present.is_none())
                && (!xx || present.is_some())
                && (!gt || new > infinite)
                && (!lt || new < infinite);
            prop_assert_eq!(condition.allows(present, new), expected);
        }
    }
}
