// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the string commands.

mod edit;
mod increx;
mod lcs;
mod set;
mod throttle;

use braid_commands::testing::{Tester, check, check_resp3};

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

#[test]
fn string_values_are_read_back() {
    check(&[
        ("GET k", "$-1\r\n"),
        ("SET k hello", "+OK\r\n"),
        ("GET k", "$5\r\nhello\r\n"),
        ("STRLEN k", ":5\r\n"),
        ("SET k 1234", "+OK\r\n"),
        ("GET k", "$4\r\n1234\r\n"),
        ("STRLEN k", ":4\r\n"),
        ("STRLEN none", ":0\r\n"),
        ("SET k \"\"", "+OK\r\n"),
        ("GET k", "$0\r\n\r\n"),
        ("GETDEL k", "$0\r\n\r\n"),
        ("GETDEL k", "$-1\r\n"),
        ("MGET a k b", "*3\r\n$-1\r\n$-1\r\n$-1\r\n"),
        ("MSET a 1 b two", "+OK\r\n"),
        ("MGET a k b", "*3\r\n$1\r\n1\r\n$-1\r\n$3\r\ntwo\r\n"),
    ]);
    check_resp3(&[("GET k", "_\r\n"), ("MGET a b", "*2\r\n_\r\n_\r\n")]);
}

#[test]
fn parts_of_strings() {
    check(&[
        ("GETRANGE k 0 -1", "$0\r\n\r\n"),
        ("SET k \"This is a string\"", "+OK\r\n"),
        ("GETRANGE k 0 3", "$4\r\nThis\r\n"),
        ("SUBSTR k -3 -1", "$3\r\ning\r\n"),
        ("GETRANGE k 0 -1", "$16\r\nThis is a string\r\n"),
        ("GETRANGE k 10 100", "$6\r\nstring\r\n"),
        ("GETRANGE k -100 3", "$4\r\nThis\r\n"),
        ("GETRANGE k 5 4", "$0\r\n\r\n"),
        ("GETRANGE k -1 -2", "$0\r\n\r\n"),
        ("GETRANGE k 100 200", "$0\r\n\r\n"),
        ("GETRANGE k 0 -9223372036854775808", "$1\r\nT\r\n"),
        ("GETRANGE k x 1", "-ERR value is not an integer or out of range\r\n"),
        ("SET k 12345", "+OK\r\n"),
        ("GETRANGE k 1 2", "$2\r\n23\r\n"),
    ]);
}

#[test]
fn long_values_travel_by_reference() {
    let mut tester = Tester::new();
    let value: Vec<u8> = (0..100_000u32).map(|index| (index % 251) as u8).collect();
    assert_eq!(tester.run_args(0, &[b"SET", b"k", &value]), b"+OK\r\n");
    let expected = [b"$100000\r\n", &value[..], b"\r\n"].concat();
    assert_eq!(tester.run_args(0, &[b"GET", b"k"]), expected);
    assert_eq!(tester.run_args(0, &[b"GETRANGE", b"k", b"0", b"-1"]), expected);
    let expected = [b"$3\r\n", &value[5..8], b"\r\n"].concat();
    assert_eq!(tester.run_args(0, &[b"GETRANGE", b"k", b"5", b"7"]), expected);
    tester.check(&[("STRLEN k", ":100000\r\n"), ("APPEND k x", ":100001\r\n"), ("STRLEN k", ":100001\r\n")]);
    assert_eq!(tester.encoding("k"), "raw");
}

#[test]
fn other_types_are_refused() {
    let mut tester = Tester::new();
    tester.put_set("other");
    for line in [
        "GET other",
        "GETDEL other",
        "GETEX other EX 10",
        "GETRANGE other 0 1",
        "GETSET other v",
        "STRLEN other",
        "APPEND other x",
        "SETRANGE other 0 x",
        "SETRANGE other 0 \"\"",
        "INCR other",
        "INCRBYFLOAT other 1",
        "SET other v GET",
        "SET other v IFEQ v",
        "SET other v IFNE v",
        "SET other v IFDNE 2d06800538d394c2",
        "DELIFEQ other v",
        "CL.THROTTLE other 1 1 1",
        "DELEX other IFNE v",
        "DELEX other IFDEQ 2d06800538d394c2",
        "DIGEST other",
        "SETBIT other 0 1",
        "GETBIT other 0",
        "BITCOUNT other",
        "BITPOS other 1",
        "BITOP NOT d other",
        "BITFIELD other GET u8 0",
        "BITFIELD other SET u8 0 1",
    ] {
        assert_eq!(tester.run(line), WRONG_TYPE, "{line}");
    }
    tester.check(&[
        ("MGET other", "*1\r\n$-1\r\n"),
        ("SETNX other v", ":0\r\n"),
        ("LCS other k", "-ERR The specified keys must contain string values\r\n"),
        ("BITOP NOT other k", ":0\r\n"),
        ("GET other", "$-1\r\n"),
    ]);
    tester.put_set("other");
    tester.check(&[("SET other v", "+OK\r\n"), ("GET other", "$1\r\nv\r\n")]);
}
