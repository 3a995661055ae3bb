// SPDX-License-Identifier: BSD-3-Clause
//! BLESS, as Redis 8.12 documents it: keys that are never evicted.
//!
//! The protection is a bit of the key's entry (`braid_keyspace::Entry::is_protected`). It stays
//! when the value is replaced, goes where RENAME and MOVE take it, and is gone with the key.

use braid_executor::{Call, Handler, Row};
use braid_keyspace::scan as walk;
use braid_spec::{Category, CommandError, CommandResult, Flags, Group, KeyFlags, KeySpec, Scope};
use braid_types::scan_options::{ScanExtras, ScanOptions, parse_cursor, reply_cursor};

use crate::scan::{FoundKeys, check_may_walk, expire_found};

const CHANGED: &[KeySpec] = &[KeySpec::at(2, KeyFlags::RW)];

/// The only protection that there is.
const NO_EVICT: &str = "NO-EVICT";
/// Keys that BLESS SCAN looks at in one call, unless COUNT says otherwise.
const COUNT: usize = 1024;

/// Rows of BLESS.
pub const COMMANDS: &[Row] = &[Row::container("bless", Group::Generic, SUBCOMMANDS).docs(
    "8.12.0",
    "Groups commands that protect keys from eviction.",
    "Depends on subcommand.",
)];

const SUBCOMMANDS: &[Row] = &[
    change("clear", clear, Flags::NONE).docs("8.12.0", "Lets a key be evicted again.", "O(1)"),
    Row::new("get", Group::Generic, get)
        .exactly(3)
        .flags(Flags::FAST)
        .categories(Category::KEYSPACE)
        .keys(&[KeySpec::at(2, KeyFlags::RO)])
        .docs("8.12.0", "Returns a key's protections.", "O(1).")
        .syntax("key:key#0"),
    Row::new("scan", Group::Generic, scan)
        .at_least(4)
        .categories(Category::KEYSPACE)
        .scope(Scope::Walk)
        .docs(
            "8.12.0",
            "Iterates over the keys of the selected database that have a protection.",
            "O(1) for every call. O(N) for a complete iteration, where N is the number of keys of the database.",
        )
        .syntax("cursor:integer NO-EVICT [COUNT count:integer]")
        .tips(&["nondeterministic_output", "request_policy:special", "response_policy:special"]),
    change("set", set, Flags::DENYOOM).docs("8.12.0", "Protects a key from eviction.", "O(1)"),
];

const fn change(name: &'static str, handler: Handler, flags: Flags) -> Row {
    Row::new(name, Group::Generic, handler)
        .exactly(4)
        .flags(Flags::WRITE.and(Flags::FAST).and(flags))
        .categories(Category::DANGEROUS)
        .keys(CHANGED)
        .syntax("key:key#0 NO-EVICT")
}

fn no_such_key() -> CommandError {
    CommandError::text("ERR no such key")
}

fn set(call: &mut Call) -> CommandResult {
    protect(call, true)
}

fn clear(call: &mut Call) -> CommandResult {
    protect(call, false)
}

fn protect(call: &mut Call, protect: bool) -> CommandResult {
    if !call.arg_is(3, NO_EVICT) {
        return Err(CommandError::Syntax);
    }
    let changed = call.keyspace.set_protected(call.args[2], protect).ok_or_else(no_such_key)?;
    call.reply.integer(i64::from(changed));
    Ok(())
}

fn get(call: &mut Call) -> CommandResult {
    let is_protected = call.keyspace.peek(call.args[2]).ok_or_else(no_such_key)?.is_protected();
    call.reply.array(usize::from(is_protected));
    if is_protected {
        call.reply.bulk(NO_EVICT.as_bytes());
    }
    Ok(())
}

fn scan(call: &mut Call) -> CommandResult {
    let cursor = parse_cursor(call.args[2])?;
    let has_count = call.args.len() == 6 && call.arg_is(4, "COUNT");
    if !call.arg_is(3, NO_EVICT) || call.args.len() != 4 && !has_count {
        return Err(CommandError::Syntax);
    }
    let options = ScanOptions::parse(&call.args[4..], ScanExtras { kind: false, bare: None })?;
    check_may_walk(call)?;
    let (keyspace, db, now) = (call.keyspace.keyspace(), call.keyspace.db(), call.now());
    let mut found = FoundKeys::new(call.reply.protocol);
    let next = walk::scan(keyspace, db, cursor, if has_count { options.count } else { COUNT }, |entry| {
        if entry.is_protected() {
            found.visit(&options, entry, now);
        }
    });
    reply_cursor(call.reply, next, found.count);
    found.write(call.reply);
    expire_found(call, &found.expired);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{Tester, check};

    /// The examples of redis.io/commands/bless-set, bless-clear, bless-get and bless-scan.
    #[test]
    fn the_documentations_examples() {
        let mut tester = Tester::new();
        tester.check(&[
            ("SET session:42 value", "+OK\r\n"),
            ("BLESS GET session:42", "*0\r\n"),
            ("BLESS SET session:42 NO-EVICT", ":1\r\n"),
            ("BLESS SET session:42 no-evict", ":0\r\n"),
            ("BLESS GET session:42", "*1\r\n$8\r\nNO-EVICT\r\n"),
            ("BLESS SET missing-key NO-EVICT", "-ERR no such key\r\n"),
            ("BLESS GET missing-key", "-ERR no such key\r\n"),
            ("SET cache:100 value", "+OK\r\n"),
            ("BLESS SET cache:100 NO-EVICT", ":1\r\n"),
            ("SET other value", "+OK\r\n"),
        ]);
        let found = tester.run("BLESS SCAN 0 NO-EVICT");
        assert!(found.starts_with("*2\r\n$1\r\n0\r\n*2\r\n"), "{found}");
        assert!(found.contains("session:42") && found.contains("cache:100"), "{found}");
        tester.check(&[
            ("BLESS CLEAR session:42 NO-EVICT", ":1\r\n"),
            ("BLESS CLEAR session:42 NO-EVICT", ":0\r\n"),
            ("BLESS CLEAR missing-key NO-EVICT", "-ERR no such key\r\n"),
            ("BLESS SCAN 0 NO-EVICT", "*2\r\n$1\r\n0\r\n*1\r\n$9\r\ncache:100\r\n"),
        ]);
    }

    #[test]
    fn arguments() {
        check(&[
            ("SET k v", "+OK\r\n"),
            ("BLESS SET k", "-ERR wrong number of arguments for 'bless|set' command\r\n"),
            ("BLESS SET k NO-EXPIRE", "-ERR syntax error\r\n"),
            ("BLESS CLEAR k EVICT", "-ERR syntax error\r\n"),
            ("BLESS SCAN x NO-EVICT", "-ERR invalid cursor\r\n"),
            ("BLESS SCAN 0 ALL", "-ERR syntax error\r\n"),
            ("BLESS SCAN 0 NO-EVICT COUNT", "-ERR syntax error\r\n"),
            ("BLESS SCAN 0 NO-EVICT COUNT 0", "-ERR syntax error\r\n"),
            ("BLESS SCAN 0 NO-EVICT MATCH k*", "-ERR syntax error\r\n"),
            ("BLESS SCAN 0 NO-EVICT COUNT 10", "*2\r\n$1\r\n0\r\n*0\r\n"),
            ("BLESS THIS k", "-ERR unknown subcommand 'THIS'. Try BLESS HELP.\r\n"),
        ]);
    }

    /// The protection belongs to the key: it outlives values, also those of RESTORE, and the key's
    /// expiry, moves with RENAME, is not copied, and ends with the key.
    #[test]
    fn protection_belongs_to_the_key() {
        let mut tester = Tester::new();
        tester.check(&[("SET k 12", "+OK\r\n"), ("BLESS SET k NO-EVICT", ":1\r\n")]);
        let is_protected =
            |tester: &mut Tester, key: &str| tester.run(&format!("BLESS GET {key}")) != "*0\r\n";
        for change in [
            "INCR k",
            "SET k text",
            "SET k texs",
            "APPEND k more",
            "SETRANGE k 2000 x",
            "EXPIRE k 1000",
            "PERSIST k",
            "SET k v EX 1000",
            "SADD other m",
            "COPY other k REPLACE",
            "SREM k nosuch",
            "SADD k n",
            "PEXPIRE k 99999",
        ] {
            let reply = tester.run(change);
            assert!(!reply.starts_with('-'), "{change}: {reply}");
            assert!(is_protected(&mut tester, "k"), "{change}");
        }
        assert!(!is_protected(&mut tester, "other"));
        tester.check(&[("COPY k copy", ":1\r\n"), ("BLESS GET copy", "*0\r\n")]);
        tester.check(&[("RENAME k moved", "+OK\r\n"), ("BLESS GET moved", "*1\r\n$8\r\nNO-EVICT\r\n")]);
        tester.check(&[("RENAME copy moved", "+OK\r\n"), ("BLESS GET moved", "*0\r\n")]);
        tester.check(&[
            ("BLESS SET moved NO-EVICT", ":1\r\n"),
            ("DEL moved", ":1\r\n"),
            ("SET moved v", "+OK\r\n"),
        ]);
        assert!(!is_protected(&mut tester, "moved"));
    }
}
