// SPDX-License-Identifier: BSD-3-Clause
//! Tests of CL.THROTTLE. Its arithmetic is tested beside it; here no time passes that matters.

use braid_commands::testing::Tester;

const NOT_AN_INTEGER: &str = "-ERR value is not an integer or out of range\r\n";
const OUT_OF_RANGE: &str = "-ERR value is out of range, must be positive\r\n";

/// Three at once, one more each day.
#[test]
fn a_limit_is_taken_from_and_refuses() {
    let mut tester = Tester::new();
    tester.check(&[
        ("CL.THROTTLE k 2 1 86400 0", "*5\r\n:0\r\n:3\r\n:3\r\n:-1\r\n:0\r\n"),
        ("EXISTS k", ":0\r\n"),
        ("CL.THROTTLE k 2 1 86400", "*5\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:86400\r\n"),
    ]);
    let reply = tester.run("CL.THROTTLE k 2 1 86400 2");
    assert!(reply.starts_with("*5\r\n:0\r\n:3\r\n:0\r\n:-1\r\n:2"), "{reply}");
    // What is refused changes nothing.
    let stored = tester.run("GET k");
    for line in ["CL.THROTTLE k 2 1 86400", "CL.THROTTLE k 2 1 86400 9223372036854775807"] {
        let reply = tester.run(line);
        assert!(reply.starts_with("*5\r\n:1\r\n:3\r\n:0\r\n:"), "{reply}");
    }
    assert_eq!(tester.run("GET k"), stored);
    // The key expires when the whole limit is restored.
    let left = tester.run("PTTL k");
    assert!(left.starts_with(":2592") || left.starts_with(":2591"), "three days, not {left}");
    assert_eq!(tester.run("OBJECT ENCODING k"), "$3\r\nint\r\n");
    tester.run("DEL k");
    assert!(tester.run("CL.THROTTLE k 2 1 86400 3").starts_with("*5\r\n:0\r\n:3\r\n:0\r\n:-1\r\n"));
}

#[test]
fn impossible_limits_are_refused() {
    let mut tester = Tester::new();
    tester.check(&[
        ("CL.THROTTLE k 2 1", "-ERR wrong number of arguments for 'cl.throttle' command\r\n"),
        ("CL.THROTTLE k 2 1 60 1 1", "-ERR wrong number of arguments for 'cl.throttle' command\r\n"),
        ("CL.THROTTLE k x 1 60", NOT_AN_INTEGER),
        ("CL.THROTTLE k 2 x 60", NOT_AN_INTEGER),
        ("CL.THROTTLE k 2 1 x", NOT_AN_INTEGER),
        ("CL.THROTTLE k 2 1 60 x", NOT_AN_INTEGER),
        ("CL.THROTTLE k -1 1 60", OUT_OF_RANGE),
        ("CL.THROTTLE k 2 0 60", OUT_OF_RANGE),
        ("CL.THROTTLE k 2 1 0", OUT_OF_RANGE),
        ("CL.THROTTLE k 2 1 60 -1", OUT_OF_RANGE),
        ("CL.THROTTLE k 2 1 9223372036854775807", "-ERR invalid expire time in 'cl.throttle' command\r\n"),
        ("EXISTS k", ":0\r\n"),
        ("SET k text", "+OK\r\n"),
        ("CL.THROTTLE k 2 1 60", NOT_AN_INTEGER),
    ]);
}

/// Rates beyond one a nanosecond, and limits beyond what a reply can say.
#[test]
fn extreme_limits() {
    let mut tester = Tester::new();
    let most = i64::MAX;
    let reply = tester.run(&format!("CL.THROTTLE k {most} {most} 1 1000"));
    assert!(
        reply.starts_with("*5\r\n:0\r\n:9223372036854775807\r\n:9223372036854774808\r\n:-1\r\n:1\r\n"),
        "{reply}"
    );
    assert!(
        tester
            .run(&format!("CL.THROTTLE none {most} {most} 1 {most}"))
            .starts_with("-ERR invalid expire time")
    );
    let reply = tester.run(&format!("CL.THROTTLE other {most} {most} {most} 1"));
    assert!(
        reply.starts_with("*5\r\n:0\r\n:9223372036854775807\r\n:9223372036854775807\r\n:-1\r\n"),
        "{reply}"
    );
}
