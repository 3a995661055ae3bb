// SPDX-License-Identifier: BSD-3-Clause
//! SCAN. The parts shared with HSCAN, SSCAN and ZSCAN are in `braid_types::scan_options`.
//!
//! Flow: nothing is locked when the body starts; it walks from the cursor on, one shard at a time,
//! and collects keys in a buffer, because the next cursor precedes them in the reply. Expired keys
//! found on the way are removed after the walk.

use braid_executor::{Call, Row, memory};
use braid_keyspace::{Entry, scan as walk};
use braid_resp::Protocol;
use braid_resp::reply::ReplyBuffer;
use braid_spec::{CommandError, CommandResult, Flags, Group, Scope};
use braid_types::scan_options::{ScanExtras, ScanOptions, parse_cursor, reply_cursor};

/// Rows of SCAN.
pub const COMMANDS: &[Row] = &[Row::new("scan", Group::Generic, scan)
    .at_least(2)
    .flags(Flags::READONLY)
    .scope(Scope::Walk)
    .docs(
        "2.8.0",
        "Iterates over the keys of the selected database.",
        "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor \
         to return back to 0. N is the number of elements inside the collection.",
    )
    .syntax("cursor:integer [MATCH pattern:pattern] [COUNT count:integer] [TYPE type:string@6.0.0]")
    .history(&[("6.0.0", "New option `TYPE`.")])
    .tips(&["nondeterministic_output", "request_policy:special", "response_policy:special"])];

/// Refuses a walk, which locks one shard after another, if the caller already holds some locks.
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
    let mut found = FoundKeys::new(call.reply.protocol);
    let next = walk::scan(keyspace, db, cursor, options.count, |entry| found.visit(&options, entry, now));
    reply_cursor(call.reply, next, found.count);
    found.write(call.reply);
    expire_found(call, &found.expired);
    Ok(())
}

/// The keys found by a walk.
pub(crate) struct FoundKeys {
    keys: ReplyBuffer,
    pub count: usize,
    pub expired: Vec<Vec<u8>>,
}

impl FoundKeys {
    pub fn new(protocol: Protocol) -> FoundKeys {
        FoundKeys { keys: ReplyBuffer::new(protocol), count: 0, expired: Vec::new() }
    }

    /// Collects a key if it passes the options.
    #[inline]
    pub fn visit(&mut self, options: &ScanOptions<'_>, entry: Entry<'_>, now: i64) {
        let key = entry.key();
        if !options.matches(key) {
            return;
        }
        if entry.is_expired(now) {
            self.expired.push(key.to_vec());
        } else if options.kind.allows(entry.value_type()) {
            self.keys.bulk(key);
            self.count += 1;
        }
    }

    /// Writes the keys; their count must already be in the reply.
    pub fn write(&mut self, reply: &mut ReplyBuffer) {
        reply.raw(self.keys.as_contiguous().expect("keys are copied, not attached"));
    }
}

/// Removes expired keys found by a walk.
pub(crate) fn expire_found(call: &mut Call, expired: &[Vec<u8>]) {
    let (keyspace, db, now) = (call.keyspace.keyspace(), call.keyspace.db(), call.now());
    // Nothing expires while clients are paused.
    if !memory::is_paused(call.engine, now) {
        for key in expired {
            keyspace.expire_key(call.keyspace.context, db, now, key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::testing::{Tester, check};
    use proptest::prelude::*;

    /// Parses cursor and keys of a reply.
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

    /// All keys of a walk, and the number of calls.
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
    fn scan_skips_and_removes_expired_keys() {
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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// From any made-up cursor the walk continues to an end.
        #[test]
        fn any_cursor_leads_to_an_end(cursor: u64, count in 1usize..50) {
            let mut tester = filled(50);
            let mut cursor = cursor;
            for _ in 0..200 {
                let (next, _) = parse(&tester.run(&format!("SCAN {cursor} COUNT {count}")));
                if next == 0 {
                    return Ok(());
                }
                prop_assert!(next > cursor, "cursor {next} after {cursor}");
                cursor = next;
            }
            prop_assert!(false, "the scan does not end");
        }
    }
}
