// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the top-k commands.

use braid_commands::testing::Tester;

use crate::sketches::survives_restore;

#[test]
fn replies_are_those_of_redis() {
    crate::replies::check(include_str!("replies/top_k.txt"));
}

/// Chance is part of the value: the same requests lead to the same sketch.
#[test]
fn chance_is_the_same_after_a_restart() {
    let mut tester = Tester::with("enable-debug-command yes");
    let fill = |tester: &mut Tester, key: &str, range: std::ops::Range<u32>| {
        for number in range {
            tester.run(&format!("TOPK.ADD {key} item{}", number * number % 61));
        }
    };
    tester.check(&[("TOPK.RESERVE a 5 4 3 0.9", "+OK\r\n"), ("TOPK.RESERVE b 5 4 3 0.9", "+OK\r\n")]);
    fill(&mut tester, "a", 0..1000);
    fill(&mut tester, "b", 0..500);
    survives_restore(&mut tester, "b");
    tester.check(&[("COPY b c", ":1\r\n"), ("DEL b", ":1\r\n"), ("RENAME c b", "+OK\r\n")]);
    fill(&mut tester, "b", 500..1000);
    assert_eq!(tester.run("DEBUG DIGEST-VALUE a"), tester.run("DEBUG DIGEST-VALUE b"));
}

#[test]
fn an_increment_that_is_none_ends_the_reply() {
    let mut tester = Tester::new();
    tester.check(&[("TOPK.RESERVE t 2", "+OK\r\n")]);
    let reply = tester.run("TOPK.INCRBY t q 5 a abc z 100000");
    assert!(reply.starts_with("*2\r\n$-1\r\n-TopK: increment must be an integer"), "{reply}");
    tester.check(&[
        ("TOPK.QUERY t q z", "*2\r\n:1\r\n:0\r\n"),
        ("TOPK.RESERVE u 1 4294967296 3 1", "-TopK: insufficient memory to create the key\r\n"),
        ("TOPK.RESERVE u 9223372036854775807", "-TopK: insufficient memory to create the key\r\n"),
    ]);
}
