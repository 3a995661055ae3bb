// SPDX-License-Identifier: BSD-3-Clause
//! SCAN, and what its relatives for collections (HSCAN, SSCAN, ZSCAN) have in common with it.
//!
//! Flow: nothing is locked when the body starts; it walks from the cursor on, one shard at a time, and
//! gathers the keys in a buffer of its own, because the next cursor is replied before them. Keys past their
//! expiry that it comes across are removed afterwards, outside of the walk.

use braid_base::{glob, number};
use braid_engine::{Call, Row};
use braid_keyspace::{Type, scan as walk};
use braid_resp::reply::ReplyBuffer;
use braid_spec::{CommandError, CommandResult, Flags, Group, Scope};

/// The family.
pub const COMMANDS: &[Row] = &[Row::new("scan", Group::Generic, scan)
    .at_least(2)
    .flags(Flags::READONLY)
    .scope(Scope::Walk)
    .docs(
        "2.8.0",
        "Walks the keys of the selected database, some at each call.",
        "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor \
         to return back to 0. N is the number of elements inside the collection.",
    )
    .syntax("cursor:integer [MATCH pattern:pattern] [COUNT count:integer] [TYPE type:string@6.0.0]")
    .history(&[("6.0.0", "New option `TYPE`.")])
    .tips(&["nondeterministic_output", "request_policy:special", "response_policy:special"])];

/// Which types SCAN returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypeFilter {
    Any,
    Only(Type),
    /// A type that no key has: nothing is returned.
    Unknown,
}

impl TypeFilter {
    fn parse(name: &[u8]) -> TypeFilter {
        Type::named(name).map_or(TypeFilter::Unknown, TypeFilter::Only)
    }

    fn allows(self, kind: Type) -> bool {
        match self {
            TypeFilter::Any => true,
            TypeFilter::Only(only) => only == kind,
            TypeFilter::Unknown => false,
        }
    }
}

/// The options of a SCAN command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanOptions<'a> {
    /// What names have to match; nothing if all do.
    pub pattern: Option<&'a [u8]>,
    /// About how many elements to visit, at least 1.
    pub count: usize,
    pub kind: TypeFilter,
    /// The command's own word (HSCAN's NOVALUES) was given.
    pub bare: bool,
}

/// Which options a SCAN command has beyond MATCH and COUNT.
#[derive(Clone, Copy, Default)]
pub struct ScanExtras {
    /// TYPE.
    pub kind: bool,
    /// A word that stands alone, as HSCAN's NOVALUES.
    pub bare: Option<&'static str>,
}

impl<'a> ScanOptions<'a> {
    /// Reads the options, which begin behind the cursor.
    pub fn parse(options: &[&'a [u8]], extras: ScanExtras) -> Result<ScanOptions<'a>, CommandError> {
        let mut parsed = ScanOptions { pattern: None, count: 10, kind: TypeFilter::Any, bare: false };
        let mut rest = options;
        while let [name, after @ ..] = rest {
            let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
            if extras.bare.is_some_and(is) {
                parsed.bare = true;
                rest = after;
                continue;
            }
            let [value, after @ ..] = after else { return Err(CommandError::Syntax) };
            if is("match") {
                parsed.pattern = (*value != b"*").then_some(*value);
            } else if is("count") {
                let count = number::parse_i64(value).ok_or(CommandError::NotAnInteger)?;
                parsed.count =
                    usize::try_from(count).ok().filter(|&count| count > 0).ok_or(CommandError::Syntax)?;
            } else if extras.kind && is("type") {
                parsed.kind = TypeFilter::parse(value);
            } else {
                return Err(CommandError::Syntax);
            }
            rest = after;
        }
        Ok(parsed)
    }

    /// True if a name is among those asked for.
    pub fn matches(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, name, false))
    }
}

/// Reads a cursor.
pub fn parse_cursor(text: &[u8]) -> Result<u64, CommandError> {
    number::parse_cursor(text).ok_or(CommandError::text("ERR invalid cursor"))
}

/// Begins a SCAN command's reply: the next cursor, and the header of `count` elements that are to follow.
pub fn reply_cursor(reply: &mut ReplyBuffer, cursor: u64, count: usize) {
    reply.array(2);
    reply.bulk(number::write_u64(&mut [0; number::INTEGER_LEN_MAX], cursor));
    reply.array(count);
}

/// Walks lock shard after shard: not while the caller holds some of them already.
pub(crate) fn check_may_walk(call: &Call) -> Result<(), CommandError> {
    if call.keyspace.may_walk() {
        return Ok(());
    }
    Err(CommandError::text("ERR This command cannot run while only some keys are locked"))
}

fn scan(call: &mut Call) -> CommandResult {
    let cursor = parse_cursor(call.args[1])?;
    let options = ScanOptions::parse(&call.args[2..], ScanExtras { kind: true, bare: None })?;
    check_may_walk(call)?;
    let (keyspace, db, now) = (call.keyspace.keyspace(), call.keyspace.db(), call.now());
    let mut found = ReplyBuffer::new(call.reply.protocol);
    let mut count = 0;
    let mut expired: Vec<Vec<u8>> = Vec::new();
    let next = walk::scan(keyspace, db, cursor, options.count, |entry| {
        let key = entry.key();
        if !options.matches(key) {
            return;
        }
        if entry.is_expired(now) {
            expired.push(key.to_vec());
        } else if options.kind.allows(entry.value_type()) {
            found.bulk(key);
            count += 1;
        }
    });
    reply_cursor(call.reply, next, count);
    call.reply.raw(found.as_contiguous().expect("keys are copied, not attached"));
    expire_found(call, &expired);
    Ok(())
}

/// Removes keys that a walk has found past their expiry.
pub(crate) fn expire_found(call: &mut Call, expired: &[Vec<u8>]) {
    let (keyspace, db, now) = (call.keyspace.keyspace(), call.keyspace.db(), call.now());
    // Nothing expires while clients are paused.
    if call.engine.pause.current(now).is_none() {
        for key in expired {
            keyspace.expire_key(call.keyspace.context, db, now, key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testing::{Tester, check};
    use proptest::prelude::*;

    /// Cursor and keys of a reply.
    fn parse(reply: &str) -> (u64, Vec<String>) {
        let mut lines = reply.split("\r\n");
        assert_eq!(lines.next(), Some("*2"));
        lines.next();
        let cursor = lines.next().expect("a cursor").parse().expect("a number");
        let count: usize = lines.next().expect("a header")[1..].parse().expect("a count");
        let keys: Vec<String> =
            lines.skip(1).step_by(2).filter(|key| !key.is_empty()).map(Into::into).collect();
        assert_eq!(keys.len(), count);
        (cursor, keys)
    }

    /// All keys of a walk, and the number of calls it took.
    fn walk_all(tester: &mut Tester, options: &str) -> (Vec<String>, usize) {
        let (mut keys, mut cursor, mut calls) = (Vec::new(), 0, 0);
        loop {
            let (next, some) = parse(&tester.run(&format!("SCAN {cursor} {options}")));
            keys.extend(some);
            calls += 1;
            cursor = next;
            if cursor == 0 {
                return (keys, calls);
            }
        }
    }

    fn filled(keys: usize) -> Tester {
        let mut tester = Tester::new();
        for index in 0..keys {
            tester.run(&format!("SET key:{index} v"));
        }
        tester
    }

    #[test]
    fn a_walk_returns_every_key_once() {
        let mut tester = filled(1000);
        for count in [1, 7, 100, 5000] {
            let (mut keys, calls) = walk_all(&mut tester, &format!("COUNT {count}"));
            keys.sort();
            keys.dedup();
            assert_eq!(keys.len(), 1000, "with COUNT {count}");
            assert!(
                calls > 900 / (count * 8) && (count < 5000 || calls == 1),
                "{calls} calls with COUNT {count}"
            );
        }
    }

    #[test]
    fn patterns_and_types() {
        let mut tester = filled(100);
        let (keys, _) = walk_all(&mut tester, "match key:1? count 10");
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), 10);
        let (keys, _) = walk_all(&mut tester, "TYPE STRING COUNT 1000 MATCH *");
        assert_eq!(keys.len(), 100);
        assert_eq!(walk_all(&mut tester, "TYPE hash").0.len(), 0);
        assert_eq!(walk_all(&mut tester, "TYPE nosuch").0.len(), 0);
    }

    #[test]
    fn expired_keys_are_left_out_and_removed() {
        let mut tester = filled(10);
        tester.run("SET gone v PX 1");
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!(tester.engine.keyspace.len(0), (11, 1));
        let (keys, _) = walk_all(&mut tester, "");
        assert_eq!(keys.len(), 10);
        assert_eq!(tester.engine.keyspace.len(0), (10, 0));
        assert_eq!(tester.engine.keyspace.total(|counters| counters.expired.get()), 1);
    }

    #[test]
    fn refused_arguments() {
        check(&[
            ("SCAN x", "-ERR invalid cursor\r\n"),
            ("SCAN 99999999999999999999", "-ERR invalid cursor\r\n"),
            ("SCAN 0 COUNT 0", "-ERR syntax error\r\n"),
            ("SCAN 0 COUNT x", "-ERR value is not an integer or out of range\r\n"),
            ("SCAN 0 COUNT", "-ERR syntax error\r\n"),
            ("SCAN 0 MATCH", "-ERR syntax error\r\n"),
            ("SCAN 0 NOSUCH x", "-ERR syntax error\r\n"),
            ("SCAN -1", "*2\r\n$1\r\n0\r\n*0\r\n"),
            ("SCAN 0", "*2\r\n$1\r\n0\r\n*0\r\n"),
        ]);
    }

    #[test]
    fn options_of_collections() {
        let extras = ScanExtras { kind: false, bare: Some("NOVALUES") };
        let parsed = ScanOptions::parse(&[b"novalues", b"COUNT", b"3"], extras);
        let expected = ScanOptions { pattern: None, count: 3, kind: TypeFilter::Any, bare: true };
        assert_eq!(parsed, Ok(expected));
        assert_eq!(ScanOptions::parse(&[b"TYPE", b"hash"], extras), Err(CommandError::Syntax));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Whatever cursor a client makes up, the walk goes on from there to an end.
        #[test]
        fn any_cursor_leads_to_an_end(cursor: u64, count in 1usize..50) {
            let mut tester = filled(50);
            let mut cursor = cursor;
            for _ in 0..200 {
                let (next, _) = parse(&tester.run(&format!("SCAN {cursor} COUNT {count}")));
                if next == 0 {
                    return Ok(());
                }
                prop_assert!(next > cursor, "{next} behind {cursor}");
                cursor = next;
            }
            prop_assert!(false, "no end");
        }
    }
}
