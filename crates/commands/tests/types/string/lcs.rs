// SPDX-License-Identifier: BSD-3-Clause
//! Tests of LCS.

use braid_commands::testing::{Tester, check};
use braid_resp::reply::Protocol;

#[test]
fn subsequences() {
    check(&[
        ("LCS a b", "$0\r\n\r\n"),
        ("LCS a b IDX", "*4\r\n$7\r\nmatches\r\n*0\r\n$3\r\nlen\r\n:0\r\n"),
        ("MSET a ohmytext b mynewtext n 12345", "+OK\r\n"),
        ("LCS a b", "$6\r\nmytext\r\n"),
        ("LCS a b LEN", ":6\r\n"),
        (
            "LCS a b IDX",
            "*4\r\n$7\r\nmatches\r\n*2\r\n*2\r\n*2\r\n:4\r\n:7\r\n*2\r\n:5\r\n:8\r\n\
             *2\r\n*2\r\n:2\r\n:3\r\n*2\r\n:0\r\n:1\r\n$3\r\nlen\r\n:6\r\n",
        ),
        (
            "LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN",
            "*4\r\n$7\r\nmatches\r\n*1\r\n*3\r\n*2\r\n:4\r\n:7\r\n*2\r\n:5\r\n:8\r\n:4\r\n\
             $3\r\nlen\r\n:6\r\n",
        ),
        ("LCS n n LEN MINMATCHLEN -5", ":5\r\n"),
        ("LCS a b LEN IDX", "-ERR If you want both the length and indexes, please just use IDX.\r\n"),
        ("LCS a b FOO", "-ERR syntax error\r\n"),
        ("LCS a b MINMATCHLEN", "-ERR syntax error\r\n"),
        ("LCS a b MINMATCHLEN x", "-ERR value is not an integer or out of range\r\n"),
    ]);
}

#[test]
fn a_map_in_resp3() {
    let mut tester = Tester::new();
    tester.speak(0, Protocol::Resp3);
    tester.check(&[("LCS a b IDX", "%2\r\n$7\r\nmatches\r\n*0\r\n$3\r\nlen\r\n:0\r\n")]);
}

#[test]
fn too_much_is_refused() {
    let mut tester = Tester::with("proto-max-bulk-len 1mb");
    let text = vec![b'x'; 600];
    tester.run_args(0, &[b"SET", b"k", &text]);
    tester.check(&[(
        "LCS k k LEN",
        "-ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len\r\n",
    )]);
}
