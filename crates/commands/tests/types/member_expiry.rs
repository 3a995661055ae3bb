// SPDX-License-Identifier: BSD-3-Clause
//! Tests of expiring members: the commands of sets and sorted sets, how other commands treat
//! expired members, and their removal in the background. (Those of hashes are in `hash.rs`.)

use std::time::Duration;

use braid_commands::testing::{Tester, check};
use braid_keyspace::expiry::{Pass, expire_due};
use proptest::prelude::*;

const REFUSED: &str = "-ERR nummembers should be greater than 0 and match the provided number of members\r\n";
const NOT_AN_INTEGER: &str = "-ERR value is not an integer or out of range\r\n";
const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

#[test]
fn members_are_given_expiries() {
    for (prefix, add) in [("S", "SADD k a b 3"), ("Z", "ZADD k 1 a 2 b 3 3")] {
        let mut tester = Tester::new();
        let mut go = |line: &str, expected: &str| {
            let line = line.replace('@', prefix);
            assert_eq!(tester.run(&line), expected, "{line}");
        };
        go(add, ":3\r\n");
        go("@EXPIRE k 100 MEMBERS 2 a nosuch", "*2\r\n:1\r\n:-2\r\n");
        go("@TTL k MEMBERS 3 a b nosuch", "*3\r\n:100\r\n:-1\r\n:-2\r\n");
        go("@EXPIRE k 200 NX MEMBERS 2 a b", "*2\r\n:0\r\n:1\r\n");
        go("@EXPIRE k 300 XX MEMBERS 2 a 3", "*2\r\n:1\r\n:0\r\n");
        go("@EXPIRE k 200 GT MEMBERS 1 a", "*1\r\n:0\r\n");
        go("@EXPIRE k 200 LT MEMBERS 1 a", "*1\r\n:1\r\n");
        go("@PEXPIREAT k 33177117420123 MEMBERS 1 a", "*1\r\n:1\r\n");
        go("@PEXPIRETIME k members 1 a", "*1\r\n:33177117420123\r\n");
        go("@EXPIRETIME k MEMBERS 1 a", "*1\r\n:33177117420\r\n");
        go("@EXPIREAT k 33177117421 MEMBERS 1 a", "*1\r\n:1\r\n");
        go("@PEXPIRETIME k MEMBERS 1 a", "*1\r\n:33177117421000\r\n");
        go("@PERSIST k MEMBERS 3 a 3 nosuch", "*3\r\n:1\r\n:-1\r\n:-2\r\n");
        go("@PTTL k MEMBERS 1 a", "*1\r\n:-1\r\n");
        go("@PEXPIRE k 0 MEMBERS 1 a", "*1\r\n:2\r\n");
        go("@TTL k MEMBERS 1 a", "*1\r\n:-2\r\n");
        go("@EXPIREAT k 1 MEMBERS 2 b 3", "*2\r\n:2\r\n:2\r\n");
        go("EXISTS k", ":0\r\n");
        go("@EXPIRE k 10 MEMBERS 1 a", "*1\r\n:-2\r\n");
        go("@PERSIST k MEMBERS 1 a", "*1\r\n:-2\r\n");
        go("@TTL k MEMBERS 1 a", "*1\r\n:-2\r\n");
        go(add, ":3\r\n");
        go("@EXPIRE k 10 MEMBERS 2 a", REFUSED);
        go("@EXPIRE k 10 MEMBERS 0 a", REFUSED);
        go("@EXPIRE k 10 FIELDS 1 a", REFUSED);
        go("@EXPIRE k 10 QQ NX MEMBERS", REFUSED);
        go("@EXPIRE k 10 MEMBERS x a", NOT_AN_INTEGER);
        go("@EXPIRE k x MEMBERS 1 a", NOT_AN_INTEGER);
        go("@EXPIRE k 10 QQ MEMBERS 1 a", "-ERR Unsupported option QQ\r\n");
        go("@TTL k FIELDS 1 a", "-ERR syntax error\r\n");
        go("@TTL k MEMBERS 2 a", "-ERR syntax error\r\n");
        go("SET s v", "+OK\r\n");
        go("@EXPIRE s 10 MEMBERS 1 a", WRONG_TYPE);
        go("@TTL s MEMBERS 1 a", WRONG_TYPE);
        go("@PERSIST s MEMBERS 1 a", WRONG_TYPE);
    }
}

#[test]
fn names_of_another_server() {
    check(&[
        ("SADD s a b", ":2\r\n"),
        ("ZADD z 1 a", ":1\r\n"),
        ("HSET h a 1", ":1\r\n"),
        ("RPUSH l a", ":1\r\n"),
        ("EXPIREMEMBER s a 100", ":1\r\n"),
        ("STTL s MEMBERS 1 a", "*1\r\n:100\r\n"),
        ("EXPIREMEMBER z a 100000 ms", ":1\r\n"),
        ("ZTTL z MEMBERS 1 a", "*1\r\n:100\r\n"),
        ("EXPIREMEMBERAT h a 33177117420", ":1\r\n"),
        ("HEXPIRETIME h FIELDS 1 a", "*1\r\n:33177117420\r\n"),
        ("PEXPIREMEMBERAT h a 33177117420500", ":1\r\n"),
        ("HPEXPIRETIME h FIELDS 1 a", "*1\r\n:33177117420500\r\n"),
        ("EXPIREMEMBER s nosuch 100", ":0\r\n"),
        ("EXPIREMEMBER nosuch a 100", ":0\r\n"),
        ("EXPIREMEMBER s a 100 days", "-ERR syntax error\r\n"),
        ("EXPIREMEMBER s a soon", NOT_AN_INTEGER),
        ("EXPIREMEMBER l a 100", WRONG_TYPE),
        ("EXPIREMEMBER z a 0", ":1\r\n"),
        ("EXISTS z", ":0\r\n"),
    ]);
}

/// A tester in which `k` has the members `gone` (already expired) and `kept`.
fn with_expired(lines: &[&str]) -> Tester {
    let mut tester = Tester::new();
    for line in lines {
        tester.run(line);
    }
    std::thread::sleep(Duration::from_millis(4));
    tester
}

#[test]
fn commands_on_sets_pass_over_expired_members() {
    let fresh =
        || with_expired(&["SADD k gone kept", "SPEXPIRE k 1 MEMBERS 1 gone", "SADD other gone kept x"]);
    let kept = "*1\r\n$4\r\nkept\r\n";
    for (line, expected) in [
        ("SCARD k", ":2\r\n"),
        ("SMEMBERS k", kept),
        ("SISMEMBER k gone", ":0\r\n"),
        ("SMISMEMBER k gone kept", "*2\r\n:0\r\n:1\r\n"),
        ("SRANDMEMBER k", "$4\r\nkept\r\n"),
        ("SRANDMEMBER k 5", kept),
        ("SRANDMEMBER k -2", "*2\r\n$4\r\nkept\r\n$4\r\nkept\r\n"),
        ("SSCAN k 0", "*2\r\n$1\r\n0\r\n*1\r\n$4\r\nkept\r\n"),
        ("SINTER k other", kept),
        ("SINTERCARD 2 k other", ":1\r\n"),
        ("SDIFF k other", "*0\r\n"),
        ("SUNION k", kept),
        ("SUNIONSTORE to k", ":1\r\n"),
        ("SINTERSTORE to k other", ":1\r\n"),
        ("SORT k ALPHA", kept),
        ("SPOP k", "$4\r\nkept\r\n"),
        ("SPOP k 5", kept),
        ("SREM k gone", ":0\r\n"),
        ("SADD k gone", ":1\r\n"),
        ("SMOVE k other gone", ":0\r\n"),
        ("STTL k MEMBERS 1 gone", "*1\r\n:-2\r\n"),
    ] {
        assert_eq!(fresh().run(line), expected, "{line}");
    }
    let mut tester = fresh();
    tester.check(&[
        ("SADD k gone", ":1\r\n"),
        ("STTL k MEMBERS 1 gone", "*1\r\n:-1\r\n"),
        ("SREM k gone kept", ":2\r\n"),
        ("EXISTS k", ":0\r\n"),
    ]);
    // Removing the last live member removes the key, although an expired member remained.
    fresh().check(&[("SREM k kept", ":1\r\n"), ("EXISTS k", ":0\r\n")]);
}

#[test]
fn commands_on_sorted_sets_pass_over_expired_members() {
    let lines = ["ZADD k 1 gone 2 kept", "ZPEXPIRE k 1 MEMBERS 1 gone", "ZADD other 1 gone 2 kept 3 x"];
    let kept = "*1\r\n$4\r\nkept\r\n";
    for (line, expected) in [
        ("ZCARD k", ":1\r\n"),
        ("ZRANGE k 0 -1", kept),
        ("ZRANGE k 0 -1 REV", kept),
        ("ZSCORE k gone", "$-1\r\n"),
        ("ZMSCORE k gone kept", "*2\r\n$-1\r\n$1\r\n2\r\n"),
        ("ZRANK k kept", ":0\r\n"),
        ("ZRANK k gone", "$-1\r\n"),
        ("ZCOUNT k -inf +inf", ":1\r\n"),
        ("ZRANDMEMBER k 5", kept),
        ("ZSCAN k 0", "*2\r\n$1\r\n0\r\n*2\r\n$4\r\nkept\r\n$1\r\n2\r\n"),
        ("ZINTER 2 k other", kept),
        ("ZDIFF 2 k other", "*0\r\n"),
        ("ZUNIONSTORE to 1 k", ":1\r\n"),
        ("ZRANGESTORE to k 0 -1", ":1\r\n"),
        ("SORT k ALPHA", kept),
        ("ZPOPMIN k", "*2\r\n$4\r\nkept\r\n$1\r\n2\r\n"),
        ("ZPOPMAX k 5", "*2\r\n$4\r\nkept\r\n$1\r\n2\r\n"),
        ("ZREM k gone", ":0\r\n"),
        ("ZADD k 5 gone", ":1\r\n"),
        ("ZINCRBY k 5 gone", "$1\r\n5\r\n"),
        ("ZREMRANGEBYRANK k 0 -1", ":1\r\n"),
    ] {
        assert_eq!(with_expired(&lines).run(line), expected, "{line}");
    }
    check(&[
        ("ZADD k 1 a", ":1\r\n"),
        ("ZEXPIRE k 100 MEMBERS 1 a", "*1\r\n:1\r\n"),
        ("ZINCRBY k 1 a", "$1\r\n2\r\n"),
        ("ZTTL k MEMBERS 1 a", "*1\r\n:100\r\n"),
        ("ZADD k NX 7 a", ":0\r\n"),
        ("ZTTL k MEMBERS 1 a", "*1\r\n:100\r\n"),
        ("ZADD k 7 a", ":0\r\n"),
        ("ZTTL k MEMBERS 1 a", "*1\r\n:-1\r\n"),
    ]);
}

#[test]
fn expiries_go_where_members_and_keys_go() {
    check(&[
        ("SADD k a b", ":2\r\n"),
        ("SEXPIRE k 100 MEMBERS 1 a", "*1\r\n:1\r\n"),
        ("SADD k a", ":0\r\n"),
        ("STTL k MEMBERS 1 a", "*1\r\n:100\r\n"),
        ("SMOVE k other a", ":1\r\n"),
        ("STTL other MEMBERS 1 a", "*1\r\n:100\r\n"),
        ("COPY other copy", ":1\r\n"),
        ("RENAME copy renamed", "+OK\r\n"),
        ("STTL renamed MEMBERS 1 a", "*1\r\n:100\r\n"),
        ("SUNIONSTORE stored renamed", ":1\r\n"),
        ("STTL stored MEMBERS 1 a", "*1\r\n:-1\r\n"),
    ]);
    // Few of many members are kept, by creating a new set.
    let mut tester = Tester::new();
    for n in 0..300 {
        tester.run(&format!("SADD k member:{n}"));
        tester.run(&format!("SEXPIRE k 100 MEMBERS 1 member:{n}"));
    }
    tester.run("SPOP k 299");
    let left = tester.run("SRANDMEMBER k").split("\r\n").nth(1).expect("a member").to_owned();
    assert_eq!(tester.run(&format!("STTL k MEMBERS 1 {left}")), "*1\r\n:100\r\n");
}

/// One pass over all shards, as in a loop's cron.
fn pass(tester: &mut Tester, now: i64, budget: usize) -> Pass {
    let slot = tester.worker.context.slot;
    tester.engine.keyspace.gate.enter(slot);
    let pass = expire_due(&tester.engine.keyspace, &mut tester.worker.context, (0, 1), now, budget);
    tester.engine.keyspace.gate.leave(slot);
    pass
}

#[test]
fn expired_members_are_removed_without_being_accessed() {
    let mut tester = Tester::new();
    let now = braid_base::clock::unix_ms();
    tester.run("HSET h a 1 b 2");
    tester.run("HPEXPIRE h 1000 FIELDS 1 a");
    tester.run("SADD s a b");
    tester.run("SPEXPIRE s 1000 MEMBERS 2 a b");
    tester.run("ZADD z 1 a 2 b");
    tester.run("ZPEXPIRE z 1000 MEMBERS 1 a");
    tester.run("ZPEXPIRE z 9000 MEMBERS 1 b");
    tester.run("RENAME z moved");
    tester.run("HSETEX h2 PX 1000 FIELDS 1 a 1");
    tester.run("SADD deleted a");
    tester.run("SPEXPIRE deleted 1000 MEMBERS 1 a");
    tester.run("DEL deleted");
    tester.run("SADD replaced a");
    tester.run("SPEXPIRE replaced 1000 MEMBERS 1 a");
    tester.run("SET replaced v");
    let watcher = tester.client();
    tester.run_as(watcher, "WATCH s");
    assert_eq!(tester.engine.keyspace.expiring_collections(0), 4);
    let nothing = Pass { complete: true, ..Pass::default() };
    assert_eq!(pass(&mut tester, now + 500, 1000), nothing);
    let found = pass(&mut tester, now + 3000, 1000);
    assert_eq!(found, Pass { removed: 0, members: 5, complete: true });
    tester.check(&[
        ("HLEN h", ":1\r\n"),
        ("EXISTS s", ":0\r\n"),
        ("EXISTS h2", ":0\r\n"),
        ("ZRANGE moved 0 -1", "*1\r\n$1\r\nb\r\n"),
        ("GET replaced", "$1\r\nv\r\n"),
    ]);
    assert_eq!(tester.engine.keyspace.expiring_collections(0), 1, "only the sorted set is left");
    tester.run_as(watcher, "MULTI");
    assert_eq!(tester.run_as(watcher, "EXEC"), "*-1\r\n", "the expiry aborts the watcher's transaction");
    assert_eq!(tester.engine.keyspace.total(|counters| counters.expired_members.get()), 5);
    assert_eq!(pass(&mut tester, now + 12_000, 1000).members, 1);
    assert_eq!(tester.run("EXISTS moved"), ":0\r\n");
    assert_eq!(tester.engine.keyspace.expiring_collections(0), 0);
}

#[test]
fn member_removal_is_bounded_and_resumes() {
    let mut tester = Tester::new();
    let now = braid_base::clock::unix_ms();
    for n in 0..2000 {
        tester.run(&format!("SADD big {n}"));
        tester.run(&format!("SPEXPIRE big 1000 MEMBERS 1 {n}"));
    }
    let first = pass(&mut tester, now + 100_000, 500);
    assert!(!first.complete && first.members >= 500 && first.members < 1000, "{first:?}");
    let mut members = first.members;
    while members < 2000 {
        let next = pass(&mut tester, now + 100_000, 500);
        assert!(next.members > 0);
        members += next.members;
    }
    assert_eq!(tester.run("EXISTS big"), ":0\r\n");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Whatever is done to keys with expiring members: after a pass nothing expired is left, and
    /// nothing else is gone.
    #[test]
    fn expiry_passes_remove_exactly_the_expired_members(
        steps in proptest::collection::vec((0u8..10, 0u8..3, 0u8..3, 0u8..8), 1..80)
    ) {
        let mut tester = Tester::new();
        let now = braid_base::clock::unix_ms();
        // Members without an expiry, and with one in 1, 2 or 3 hours.
        let mut model: Vec<std::collections::BTreeMap<u8, u8>> = vec![Default::default(); 3];
        for (what, key, other, member) in steps {
            let (at, to) = (usize::from(key), usize::from(other));
            let hours = member % 3 + 1;
            match what {
                0..=2 => {
                    tester.run(&format!("SADD k{key} m{member}"));
                    model[at].entry(member).or_insert(0);
                }
                3..=5 => {
                    let due = now + i64::from(hours) * 3_600_000;
                    tester.run(&format!("SPEXPIREAT k{key} {due} MEMBERS 1 m{member}"));
                    model[at].entry(member).and_modify(|old| *old = hours);
                }
                6 => {
                    tester.run(&format!("SPERSIST k{key} MEMBERS 1 m{member}"));
                    model[at].entry(member).and_modify(|old| *old = 0);
                }
                7 => {
                    tester.run(&format!("COPY k{key} k{other} REPLACE"));
                    if at != to && !model[at].is_empty() {
                        model[to] = model[at].clone();
                    }
                }
                8 => {
                    let moved = tester.run(&format!("RENAME k{key} k{other}")) == "+OK\r\n";
                    if moved && at != to {
                        model[to] = std::mem::take(&mut model[at]);
                    }
                }
                _ => {
                    tester.run(&format!("SREM k{key} m{member}"));
                    model[at].remove(&member);
                }
            }
        }
        for hour in 1..=3u8 {
            let found = pass(&mut tester, now + i64::from(hour) * 3_600_000 + 60_000, usize::MAX);
            prop_assert!(found.complete);
            for (key, members) in model.iter_mut().enumerate() {
                members.retain(|_, due| *due == 0 || *due > hour);
                let left = tester.run(&format!("SCARD k{key}"));
                prop_assert_eq!(left, format!(":{}\r\n", members.len()));
            }
        }
        prop_assert_eq!(tester.engine.keyspace.expiring_collections(0), 0);
    }
}
