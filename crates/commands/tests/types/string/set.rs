// SPDX-License-Identifier: BSD-3-Clause
//! Tests of SET, its options and its relatives.

use braid_commands::testing::{Tester, check};

const SYNTAX: &str = "-ERR syntax error\r\n";

/// Time to live in ms; `None` without an expiry or without a key.
fn ttl(tester: &mut Tester, key: &str) -> Option<i64> {
    let key = key.as_bytes();
    tester.with_keys(&[key], |txn| txn.peek(key).and_then(|entry| entry.expiry()).map(|at| at - txn.now()))
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

/// As in Valkey.
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

/// As documented for Redis 8.4. The digests are those of its documentation, of a bug report about
/// leading zeros, and of the empty string in the XXH3 specification.
#[test]
fn digests() {
    const LEADING_ZEROS: &str = "v8lf0c11xh8ymlqztfd3eeq16kfn4sspw7fqmnuuq3k3t75em5wdizgcdw7uc26nnf961u2jkf\
        zkjytls2kwlj7626sd";
    let mut tester = Tester::new();
    tester.check(&[
        ("DIGEST k", "$-1\r\n"),
        ("SET k \"Hello world\"", "+OK\r\n"),
        ("DIGEST k", "$16\r\nb6acb9d84a38ff74\r\n"),
        ("SET empty \"\"", "+OK\r\n"),
        ("DIGEST empty", "$16\r\n2d06800538d394c2\r\n"),
        (&format!("SET zeros {LEADING_ZEROS}"), "+OK\r\n"),
        ("DIGEST zeros", "$16\r\n00006c38adf31777\r\n"),
        ("DELEX zeros IFDEQ 00006C38ADF31777", ":1\r\n"),
        ("DIGEST", "-ERR wrong number of arguments for 'digest' command\r\n"),
    ]);
    // An integer has the digest of its text.
    tester.check(&[("SET n 10", "+OK\r\n"), ("SET s 1", "+OK\r\n"), ("APPEND s 0", ":2\r\n")]);
    assert_eq!(tester.encoding("n"), "int");
    assert_ne!(tester.encoding("s"), "int");
    assert_eq!(tester.run("DIGEST n"), tester.run("DIGEST s"));
}

#[test]
fn sets_on_comparisons() {
    let wrong = "-ERR must be exactly 16 hexadecimal characters\r\n";
    let digest = "b6acb9d84a38ff74";
    let mut tester = Tester::new();
    tester.check(&[
        ("SET k v IFDEQ 2d06800538d394c2", "$-1\r\n"),
        ("GET k", "$-1\r\n"),
        ("SET k v IFNE v", "+OK\r\n"),
        ("SET k w ifne v", "$-1\r\n"),
        ("SET k w IFNE x EX 100", "+OK\r\n"),
        ("SET k y IFNE w GET", "$1\r\nw\r\n"),
        ("SET k y GET IFNE z KEEPTTL", "$1\r\nw\r\n"),
        ("GET k", "$1\r\ny\r\n"),
    ]);
    assert_ttl(&mut tester, "k", Some(100_000));
    tester.check(&[
        ("SET new a IFDNE 2d06800538d394c2 GET", "$-1\r\n"),
        ("SET new \"Hello world\"", "+OK\r\n"),
        (&format!("SET new b IFDNE {digest}"), "$-1\r\n"),
        (&format!("SET new b IFDEQ {}", digest.to_uppercase()), "+OK\r\n"),
        (&format!("SET new c IFDEQ {digest}"), "$-1\r\n"),
        (&format!("SET new c IFDNE {digest}"), "+OK\r\n"),
        ("GET new", "$1\r\nc\r\n"),
        ("SET new d IFDEQ 6c38adf31777", wrong),
        ("SET new d IFDNE +6acb9d84a38ff74", wrong),
        ("SET none d IFDNE \"\"", wrong),
        ("SET new d IFDNE", SYNTAX),
        ("SET new d IFNE a NX", SYNTAX),
        ("SET new d XX IFNE a", SYNTAX),
        ("SET new d IFNE a IFEQ b", SYNTAX),
        ("SET new d IFDEQ b6acb9d84a38ff74 IFDNE b6acb9d84a38ff74", SYNTAX),
        ("SET new d IFXE a", SYNTAX),
        ("GET new", "$1\r\nc\r\n"),
        // Options of SET only.
        ("GETEX new IFNE a", SYNTAX),
        ("MSETEX 1 new a IFNE b", SYNTAX),
    ]);
}

#[test]
fn deletes_on_comparisons() {
    let arity = "-ERR wrong number of arguments for 'delex' command\r\n";
    let mut tester = Tester::new();
    tester.check(&[
        ("DELEX k", ":0\r\n"),
        ("DELEX k IFNE a", ":0\r\n"),
        ("DELEX k IFDNE 2d06800538d394c2", ":0\r\n"),
        ("SET k a", "+OK\r\n"),
        ("DELEX k IFEQ b", ":0\r\n"),
        ("DELEX k IFNE a", ":0\r\n"),
        ("DELEX k ifeq a", ":1\r\n"),
        ("SET k a", "+OK\r\n"),
        ("DELEX k IFNE b", ":1\r\n"),
        ("SET k \"Hello world\"", "+OK\r\n"),
        ("DELEX k IFDEQ 2d06800538d394c2", ":0\r\n"),
        ("DELEX k IFDNE b6acb9d84a38ff74", ":0\r\n"),
        ("DELEX k IFDEQ b6acb9d84a38ff74", ":1\r\n"),
        ("SET k a", "+OK\r\n"),
        ("DELEX k IFDNE b6acb9d84a38ff74", ":1\r\n"),
        ("SET k a", "+OK\r\n"),
        ("DELEX k IFEQ", arity),
        ("DELEX k IFEQ a IFNE b", arity),
        ("DELEX k NX a", SYNTAX),
        ("DELEX k IFDEQ a", "-ERR must be exactly 16 hexadecimal characters\r\n"),
        ("DELEX", arity),
        ("GET k", "$1\r\na\r\n"),
        ("DELEX k", ":1\r\n"),
        ("EXISTS k", ":0\r\n"),
    ]);
    // Without a condition, keys of any type.
    tester.put_set("other");
    tester.check(&[("DELEX other", ":1\r\n"), ("EXISTS other", ":0\r\n")]);
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

/// As in Valkey.
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
