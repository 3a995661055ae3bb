// SPDX-License-Identifier: BSD-3-Clause
//! Tests of APPEND, SETRANGE, INCR and their relatives.

use braid_commands::testing::{Tester, check};

const NOT_AN_INTEGER: &str = "-ERR value is not an integer or out of range\r\n";
const NOT_A_FLOAT: &str = "-ERR value is not a valid float\r\n";

#[test]
fn append_creates_then_grows() {
    let mut tester = Tester::new();
    tester.check(&[
        ("APPEND k ab", ":2\r\n"),
        ("APPEND k cd", ":4\r\n"),
        ("GET k", "$4\r\nabcd\r\n"),
        ("APPEND n 12", ":2\r\n"),
    ]);
    assert_eq!((tester.encoding("k"), tester.encoding("n")), ("raw", "int"));
    tester.check(&[("APPEND n 3", ":3\r\n"), ("GET n", "$3\r\n123\r\n"), ("APPEND e \"\"", ":0\r\n")]);
    assert_eq!((tester.encoding("n"), tester.encoding("e")), ("raw", "embstr"));
    tester.check(&[("SET i 5", "+OK\r\n"), ("APPEND i \"\"", ":1\r\n")]);
    assert_eq!(tester.encoding("i"), "raw");
    tester.check(&[("INCR i", ":6\r\n")]);
    assert_eq!(tester.encoding("i"), "int");
}

/// Crosses the sizes at which a string moves out of its entry.
#[test]
fn append_grows_through_all_shapes() {
    let mut tester = Tester::new();
    let mut expected = Vec::new();
    for (round, len) in [1usize, 30, 20, 10, 5, 900, 100, 3000, 70_000, 1].into_iter().enumerate() {
        let piece = vec![b'a' + round as u8; len];
        expected.extend_from_slice(&piece);
        let reply = tester.run_args(0, &[b"APPEND", b"k", &piece]);
        assert_eq!(reply, format!(":{}\r\n", expected.len()).into_bytes());
        let whole = [format!("${}\r\n", expected.len()).as_bytes(), &expected, b"\r\n"].concat();
        assert_eq!(tester.run_args(0, &[b"GET", b"k"]), whole);
    }
}

#[test]
fn setrange_overwrites_and_pads() {
    let mut tester = Tester::with("proto-max-bulk-len 1mb");
    tester.check(&[
        ("SETRANGE k 0 \"\"", ":0\r\n"),
        ("GET k", "$-1\r\n"),
        ("SETRANGE k 2 ab", ":4\r\n"),
        ("GET k", "$4\r\n\0\0ab\r\n"),
        ("SETRANGE k 1 xyz", ":4\r\n"),
        ("GET k", "$4\r\n\0xyz\r\n"),
        ("SETRANGE k 0 \"\"", ":4\r\n"),
        ("SETRANGE k -1 x", "-ERR offset is out of range\r\n"),
        ("SETRANGE k x x", NOT_AN_INTEGER),
        ("SETRANGE k 1048575 x", ":1048576\r\n"),
        ("SETRANGE k 1048576 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n"),
        (
            "SETRANGE k 9223372036854775807 x",
            "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n",
        ),
        ("APPEND k x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n"),
        ("GETDEL none", "$-1\r\n"),
    ]);
    tester.check(&[("SET k 1234", "+OK\r\n"), ("SETRANGE k 1 xx", ":4\r\n"), ("GET k", "$4\r\n1xx4\r\n")]);
    assert_eq!(tester.encoding("k"), "raw");
}

#[test]
fn edits_keep_the_expiry() {
    let mut tester = Tester::new();
    for line in ["APPEND k 1", "SETRANGE k 0 2", "SETBIT k 7 0", "INCR k", "INCRBYFLOAT k 1"] {
        tester.run("SET k 1 EX 100");
        tester.run(line);
        let expires = tester.with_keys(&[b"k"], |txn| txn.peek(b"k").is_some_and(|entry| entry.has_expiry()));
        assert!(expires, "{line}");
    }
}

#[test]
fn integers() {
    let mut tester = Tester::new();
    tester.check(&[
        ("INCR k", ":1\r\n"),
        ("INCRBY k 41", ":42\r\n"),
        ("DECR k", ":41\r\n"),
        ("DECRBY k 50", ":-9\r\n"),
        ("GET k", "$2\r\n-9\r\n"),
        ("INCRBY k x", NOT_AN_INTEGER),
        ("DECRBY k -9223372036854775808", "-ERR decrement would overflow\r\n"),
        ("SET k 9223372036854775807", "+OK\r\n"),
        ("INCR k", "-ERR increment or decrement would overflow\r\n"),
        ("DECRBY k -1", "-ERR increment or decrement would overflow\r\n"),
        ("GET k", "$19\r\n9223372036854775807\r\n"),
        ("SET k -9223372036854775808", "+OK\r\n"),
        ("DECR k", "-ERR increment or decrement would overflow\r\n"),
        ("INCRBY k 9223372036854775807", ":-1\r\n"),
    ]);
    assert_eq!(tester.encoding("k"), "int");
    for text in ["\" 11\"", "\"11 \"", "1.5", "abc", "\"\"", "007", "99999999999999999999"] {
        tester.run(&format!("SET k {text}"));
        assert_eq!(tester.run("INCR k"), NOT_AN_INTEGER, "{text}");
    }
    let dirty = tester.engine.keyspace.total(|counters| counters.dirty.get());
    // Five executed increments, and nine SETs.
    assert_eq!(dirty, 5 + 2 + 7);
}

#[test]
fn floats() {
    let mut tester = Tester::new();
    tester.check(&[
        ("INCRBYFLOAT k 1", "$1\r\n1\r\n"),
        ("INCRBYFLOAT k 0.25", "$4\r\n1.25\r\n"),
        ("INCRBYFLOAT k -1.1", "$4\r\n0.15\r\n"),
        ("SET k 3.0e3", "+OK\r\n"),
        ("INCRBYFLOAT k 200", "$4\r\n3200\r\n"),
        ("INCRBYFLOAT k x", NOT_A_FLOAT),
        ("INCRBYFLOAT k nan", NOT_A_FLOAT),
        ("INCRBYFLOAT k inf", "-ERR increment would produce NaN or Infinity\r\n"),
        ("SET k \" 11\"", "+OK\r\n"),
        ("INCRBYFLOAT k 1", NOT_A_FLOAT),
        ("SET k 10", "+OK\r\n"),
        ("INCRBYFLOAT k 1", "$2\r\n11\r\n"),
    ]);
    assert_eq!(tester.encoding("k"), "embstr");
    check(&[("INCRBYFLOAT k 1.5", "$3\r\n1.5\r\n"), ("INCR k", NOT_AN_INTEGER)]);
}

#[test]
fn watchers_learn_of_changes_only() {
    let mut tester = Tester::new();
    tester.run("SET k 1");
    for (line, changes) in [
        ("APPEND k x", true),
        ("SETRANGE k 0 \"\"", false),
        ("SETBIT k 0 0", false),
        ("SETBIT k 0 1", true),
        ("BITFIELD k GET u8 0", false),
        ("BITFIELD k SET u8 0 100", true),
        ("BITFIELD k SET u8 0 100", false),
        ("BITFIELD k OVERFLOW FAIL SET u8 0 256", false),
        ("GETEX k", false),
        ("GETEX k PERSIST", false),
        ("GETEX k EX 100", true),
        ("GETEX k PERSIST", true),
        ("SET k v NX", false),
        ("INCR k", false),
        ("MSETNX k v", false),
        ("SET k 5", true),
        ("INCR k", true),
        ("DELIFEQ k 9", false),
        ("DELIFEQ k 6", true),
        ("SET k 6 IFDEQ 2d06800538d394c2", false),
        ("SET k 6 IFNE 6", true),
        ("SET k 6 IFNE 6", false),
        ("DIGEST k", false),
        ("DELEX k IFNE 6", false),
        ("DELEX k IFEQ 6", true),
        ("DELEX k", false),
        ("GETDEL k", false),
        ("SETBIT k 0 0", true),
    ] {
        let flag = braid_keyspace::txn::new_watch_flag();
        tester.with_keys(&[b"k"], |txn| txn.watch(b"k", &flag));
        tester.run(line);
        tester.with_keys(&[b"k"], |txn| txn.unwatch(b"k", &flag));
        assert_eq!(braid_keyspace::txn::is_raised(&flag), changes, "{line}");
    }
}
