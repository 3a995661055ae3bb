// SPDX-License-Identifier: BSD-3-Clause
//! Commands on key expiry.
//!
//! Flow: times in any unit become milliseconds since the Unix epoch before any lookup, so that an
//! invalid time is refused whether or not the key exists. A key whose new expiry is not in the
//! future is deleted immediately.

use braid_executor::{Call, Row};
use braid_spec::{CommandResult, Flags, Group, KeyFlags, KeySpec};
use braid_types::lifetime::{Condition, Unit, expire_at, to_seconds};

use crate::keys::look;

const CHANGE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::UPDATE))];
const READ: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RO.and(KeyFlags::ACCESS))];

/// Rows of the expiry commands.
pub const COMMANDS: &[Row] = &[
    setter("expire", expire)
        .docs("1.0.0", "Sets a key's expiry in seconds from now.", "O(1)")
        .syntax("key:key#0 seconds:integer [condition:(NX|XX|GT|LT)@7.0.0]"),
    setter("expireat", expireat)
        .docs("1.2.0", "Sets a key's expiry to a Unix time in seconds.", "O(1)")
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
        .docs("2.2.0", "Removes a key's expiry.", "O(1)")
        .syntax("key:key#0"),
    setter("pexpire", pexpire)
        .docs("2.6.0", "Sets a key's expiry in milliseconds from now.", "O(1)")
        .syntax("key:key#0 milliseconds:integer [condition:(NX|XX|GT|LT)@7.0.0]"),
    setter("pexpireat", pexpireat)
        .docs("2.6.0", "Sets a key's expiry to a Unix time in milliseconds.", "O(1)")
        .syntax("key:key#0 unix-time-milliseconds:unix-time [condition:(NX|XX|GT|LT)@7.0.0]"),
    getter("pexpiretime", pexpiretime).docs(
        "7.0.0",
        "Returns the Unix time in milliseconds at which a key expires.",
        "O(1)",
    ),
    getter("pttl", pttl)
        .docs("2.6.0", "Returns the milliseconds until a key expires.", "O(1)")
        .history(&[("2.8.0", "Distinguishes a missing key (-2) from one without expiry (-1).")])
        .tips(&["nondeterministic_output"]),
    getter("ttl", ttl)
        .docs("1.0.0", "Returns the seconds until a key expires.", "O(1)")
        .history(&[("2.8.0", "Distinguishes a missing key (-2) from one without expiry (-1).")])
        .tips(&["nondeterministic_output"]),
];

const fn setter(name: &'static str, handler: braid_executor::Handler) -> Row {
    Row::new(name, Group::Generic, handler)
        .at_least(3)
        .flags(Flags::WRITE.and(Flags::FAST))
        .keys(CHANGE)
        .history(&[("7.0.0", "New options `NX`, `XX`, `GT` and `LT`.")])
}

const fn getter(name: &'static str, handler: braid_executor::Handler) -> Row {
    Row::new(name, Group::Generic, handler)
        .exactly(2)
        .flags(Flags::READONLY.and(Flags::FAST))
        .keys(READ)
        .syntax("key:key#0")
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

fn persist(call: &mut Call) -> CommandResult {
    let key = call.args[1];
    let had_expiry = call.keyspace.write(key).is_some_and(|entry| entry.has_expiry());
    if had_expiry {
        call.keyspace.set_expiry(key, None);
    }
    call.reply.integer(i64::from(had_expiry));
    Ok(())
}

/// Replies with `express` of the key's expiry; -1 without an expiry, -2 without the key.
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
    use crate::testing::{Tester, check};

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
    fn times_in_the_past_keep_the_key_during_an_import() {
        let mut tester = Tester::with("import-mode yes");
        tester.check(&[
            ("SET k v", "+OK\r\n"),
            ("EXPIREAT k 1", ":1\r\n"),
            ("GET k", "$-1\r\n"),
            ("DBSIZE", ":1\r\n"),
            ("CLIENT IMPORT-SOURCE ON", "+OK\r\n"),
            ("GET k", "$1\r\nv\r\n"),
            ("PEXPIREAT k 1", ":1\r\n"),
            ("GET k", "$1\r\nv\r\n"),
        ]);
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
}
