// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the set commands.

use std::collections::BTreeSet;

use braid_commands::testing::{Tester, check, check_resp3};

const SYNTAX: &str = "-ERR syntax error\r\n";
const NOT_AN_INTEGER: &str = "-ERR value is not an integer or out of range\r\n";
const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

/// The strings of an array, sorted; checks the header against their number.
fn members(reply: &str) -> Vec<String> {
    let mut lines = reply.split("\r\n");
    let count: usize = lines.next().expect("a header")[1..].parse().expect("a count");
    let mut found: Vec<String> = lines.skip(1).step_by(2).map(String::from).collect();
    found.truncate(count);
    assert_eq!(found.len(), count, "{reply}");
    found.sort();
    found
}

#[test]
fn sadd_and_srem_change_membership() {
    check(&[
        ("SADD s a b a", ":2\r\n"),
        ("SADD s b", ":0\r\n"),
        ("SCARD s", ":2\r\n"),
        ("SCARD none", ":0\r\n"),
        ("SISMEMBER s a", ":1\r\n"),
        ("SISMEMBER s c", ":0\r\n"),
        ("SISMEMBER none c", ":0\r\n"),
        ("SMISMEMBER s a c b", "*3\r\n:1\r\n:0\r\n:1\r\n"),
        ("SMISMEMBER none a b", "*2\r\n:0\r\n:0\r\n"),
        ("SMEMBERS s", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        ("SMEMBERS none", "*0\r\n"),
        ("SREM s a c", ":1\r\n"),
        ("SREM s b x", ":1\r\n"),
        ("EXISTS s", ":0\r\n"),
        ("SREM s b", ":0\r\n"),
    ]);
    check_resp3(&[
        ("SADD s a", ":1\r\n"),
        ("SMEMBERS s", "~1\r\n$1\r\na\r\n"),
        ("SMEMBERS none", "~0\r\n"),
        ("SINTER s s", "~1\r\n$1\r\na\r\n"),
        ("SUNION s none", "~1\r\n$1\r\na\r\n"),
        ("SDIFF none s", "~0\r\n"),
        ("SRANDMEMBER s 3", "*1\r\n$1\r\na\r\n"),
        ("SPOP s 3", "~1\r\n$1\r\na\r\n"),
        ("SPOP s 3", "~0\r\n"),
        ("SPOP s", "_\r\n"),
    ]);
}

#[test]
fn moving() {
    check(&[
        ("SADD a 1 2", ":2\r\n"),
        ("SMOVE a b 1", ":1\r\n"),
        ("SMOVE a b 1", ":0\r\n"),
        ("SMOVE a a 2", ":1\r\n"),
        ("SMOVE a a 3", ":0\r\n"),
        ("SMOVE a b 2", ":1\r\n"),
        ("EXISTS a", ":0\r\n"),
        ("SMEMBERS b", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n"),
        ("SET str v", "+OK\r\n"),
        ("SMOVE none str 1", ":0\r\n"),
        ("SMOVE b str nosuch", WRONG_TYPE),
    ]);
}

#[test]
fn forms_follow_the_configuration() {
    let mut tester = Tester::with("set-max-intset-entries 3\nset-max-listpack-entries 3");
    tester.run("SADD s 1 2 3");
    assert_eq!(tester.encoding("s"), "intset");
    tester.run("SADD s 4");
    assert_eq!(tester.encoding("s"), "hashtable");
    tester.run("SADD t a 1");
    assert_eq!(tester.encoding("t"), "listpack");
    tester.check(&[
        ("SADD t b c", ":2\r\n"),
        ("SINTERSTORE u s t", ":1\r\n"),
        ("SUNIONSTORE v s t", ":7\r\n"),
    ]);
    assert_eq!(
        (tester.encoding("t"), tester.encoding("u"), tester.encoding("v")),
        ("hashtable", "intset", "hashtable")
    );
}

#[test]
fn algebra() {
    let mut tester = Tester::new();
    tester.check(&[
        ("SADD a 1 2 3 x", ":4\r\n"),
        ("SADD b 2 3 4 x", ":4\r\n"),
        ("SADD c 3 x y", ":3\r\n"),
        ("SINTERCARD 3 a b c", ":2\r\n"),
        ("SINTERCARD 2 a b LIMIT 2", ":2\r\n"),
        ("SINTERCARD 2 a b LIMIT 0", ":3\r\n"),
        ("SINTERCARD 2 a none", ":0\r\n"),
        ("SINTERCARD 0 a", "-ERR numkeys should be greater than 0\r\n"),
        ("SINTERCARD x a", "-ERR numkeys should be greater than 0\r\n"),
        ("SINTERCARD 2 a", "-ERR Number of keys can't be greater than number of args\r\n"),
        ("SINTERCARD 1 a LIMIT", SYNTAX),
        ("SINTERCARD 1 a NOSUCH 1", SYNTAX),
        ("SINTERCARD 1 a APPROX", SYNTAX),
        ("SINTERCARD 1 a LIMIT x", "-ERR LIMIT can't be negative\r\n"),
        ("SINTER a none", "*0\r\n"),
        ("SDIFF none a", "*0\r\n"),
        ("SDIFF a a", "*0\r\n"),
        ("SDIFFSTORE d a b", ":1\r\n"),
        ("SMEMBERS d", "*1\r\n$1\r\n1\r\n"),
        ("SINTERSTORE a a b c", ":2\r\n"),
        ("SUNIONSTORE d a none", ":2\r\n"),
        ("SINTERSTORE d a none", ":0\r\n"),
        ("EXISTS d", ":0\r\n"),
        ("SET d v", "+OK\r\n"),
        ("SUNIONSTORE d a d", WRONG_TYPE),
        ("SUNIONSTORE d none", ":0\r\n"),
        ("EXISTS d", ":0\r\n"),
    ]);
    assert_eq!(members(&tester.run("SMEMBERS a")), ["3", "x"]);
    assert_eq!(members(&tester.run("SUNION a b none c")), ["2", "3", "4", "x", "y"]);
    assert_eq!(members(&tester.run("SINTER b c")), ["3", "x"]);
    assert_eq!(members(&tester.run("SDIFF b c none")), ["2", "4"]);
}

/// A stored difference equals the replied one, whichever algorithm is used.
#[test]
fn stored_differences() {
    let mut tester = Tester::new();
    for (first, others) in [(400, 10), (10, 400), (200, 200)] {
        tester.run("DEL a b c d");
        for index in 0..first {
            tester.run(&format!("SADD a m{index}"));
        }
        for index in 0..others {
            tester.run(&format!("SADD b m{}", index * 2));
            tester.run(&format!("SADD c m{}", index * 3));
        }
        let expected = members(&tester.run("SDIFF a b c"));
        let reply = tester.run("SDIFFSTORE d a b c");
        assert_eq!(reply, format!(":{}\r\n", expected.len()));
        assert_eq!(members(&tester.run("SMEMBERS d")), expected);
    }
}

#[test]
fn random_members() {
    let mut tester = Tester::new();
    tester.check(&[
        ("SRANDMEMBER s", "$-1\r\n"),
        ("SRANDMEMBER s 1", "*0\r\n"),
        ("SPOP s", "$-1\r\n"),
        ("SPOP s 1", "*0\r\n"),
        ("SADD s 1 2 3", ":3\r\n"),
        ("SRANDMEMBER s 5", "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n"),
        ("SRANDMEMBER s 0", "*0\r\n"),
        ("SRANDMEMBER s x", NOT_AN_INTEGER),
        ("SRANDMEMBER s 1 2", SYNTAX),
        ("SPOP s 1 2", SYNTAX),
        ("SPOP s 0", "*0\r\n"),
        ("SPOP s -1", "-ERR value is out of range, must be positive\r\n"),
        (
            "SRANDMEMBER s -9223372036854775808",
            "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807\r\n",
        ),
    ]);
    assert_eq!(members(&tester.run("SRANDMEMBER s -9")).len(), 9);
    let mut seen = BTreeSet::new();
    for _ in 0..100 {
        seen.insert(tester.run("SRANDMEMBER s"));
    }
    assert_eq!(seen.len(), 3);
    let mut popped = BTreeSet::new();
    popped.insert(tester.run("SPOP s"));
    popped.extend(members(&tester.run("SPOP s 5")).iter().map(|member| format!("$1\r\n{member}\r\n")));
    assert_eq!(popped, seen);
    tester.check(&[("EXISTS s", ":0\r\n")]);
}

#[test]
fn popping_many() {
    for count in [1, 50, 150, 290, 299, 300] {
        let mut tester = Tester::new();
        for index in 0..300 {
            tester.run(&format!("SADD s m{index}"));
        }
        let mut all = members(&tester.run(&format!("SPOP s {count}")));
        assert_eq!(all.len(), count);
        all.extend(members(&tester.run("SMEMBERS s")));
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 300, "after popping {count}");
    }
}

#[test]
fn walking() {
    let mut tester = Tester::new();
    tester.check(&[
        ("SSCAN none 0 NOSUCH", "*2\r\n$1\r\n0\r\n*0\r\n"),
        ("SADD few 1 2", ":2\r\n"),
        ("SSCAN few 0 MATCH 2", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\n2\r\n"),
        ("SSCAN few x", "-ERR invalid cursor\r\n"),
        ("SSCAN few 0 NOVALUES", "-ERR NOVALUES option can only be used in HSCAN\r\n"),
    ]);
    for index in 0..500 {
        tester.run(&format!("SADD many m{index}"));
    }
    let (mut cursor, mut seen) = ("0".to_string(), BTreeSet::new());
    loop {
        let reply = tester.run(&format!("SSCAN many {cursor} COUNT 7"));
        let lines: Vec<&str> = reply.split("\r\n").collect();
        cursor = lines[2].to_string();
        seen.extend(
            lines[5..].iter().step_by(2).filter(|name| !name.is_empty()).map(|name| name.to_string()),
        );
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 500);
}

#[test]
fn other_types_are_refused() {
    let mut tester = Tester::new();
    tester.check(&[("SET k v", "+OK\r\n"), ("SADD s a", ":1\r\n")]);
    for line in [
        "SADD k a",
        "SREM k a",
        "SCARD k",
        "SISMEMBER k a",
        "SMISMEMBER k a",
        "SMEMBERS k",
        "SPOP k",
        "SPOP k 0",
        "SRANDMEMBER k",
        "SRANDMEMBER k 0",
        "SMOVE k s a",
        "SINTER none k",
        "SINTERCARD 2 none k",
        "SUNION s k",
        "SDIFF s k",
        "SINTERSTORE d none k",
        "SUNIONSTORE d k",
        "SDIFFSTORE d s k",
        "SSCAN k 0 NOSUCH",
    ] {
        assert_eq!(tester.run(line), WRONG_TYPE, "{line}");
    }
}

#[test]
fn watchers_learn_of_changes_only() {
    let mut tester = Tester::new();
    tester.run("SADD s a b c");
    for (line, changes) in [
        ("SADD s a", false),
        ("SADD s d", true),
        ("SREM s nosuch", false),
        ("SREM s a", true),
        ("SMOVE s other nosuch", false),
        ("SMOVE s s b", false),
        ("SMOVE s other b", true),
        ("SMOVE other s b", true),
        ("SPOP s 0", false),
        ("SRANDMEMBER s 3", false),
        ("SPOP s", true),
        ("SINTERSTORE s none", true),
        ("SINTERSTORE s none", false),
    ] {
        let flag = braid_keyspace::txn::new_watch_flag();
        tester.with_keys(&[b"s"], |txn| txn.watch(b"s", &flag));
        tester.run(line);
        tester.with_keys(&[b"s"], |txn| txn.unwatch(b"s", &flag));
        assert_eq!(braid_keyspace::txn::is_raised(&flag), changes, "{line}");
    }
}

#[test]
fn counting_unions_and_differences() {
    let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
    let mut tester = Tester::new();
    tester.check(&[
        ("SADD a a b c", ":3\r\n"),
        ("SADD b c d 5", ":3\r\n"),
        ("SADD n 5 6 7", ":3\r\n"),
        ("SUNIONCARD 2 a b", ":5\r\n"),
        ("SUNIONCARD 4 a b n none", ":7\r\n"),
        ("SUNIONCARD 2 a a", ":3\r\n"),
        ("SUNIONCARD 1 none", ":0\r\n"),
        ("SUNIONCARD 2 a b LIMIT 3", ":3\r\n"),
        ("SUNIONCARD 2 a b LIMIT 4", ":4\r\n"),
        ("SUNIONCARD 2 a b LIMIT 0", ":5\r\n"),
        ("SUNIONCARD 2 a b LIMIT 9", ":5\r\n"),
        ("SUNIONCARD 3 a b n APPROX", ":7\r\n"),
        ("SUNIONCARD 3 a b n APPROX LIMIT 2", ":2\r\n"),
        ("SUNIONCARD 3 a b n LIMIT 2 APPROX", ":2\r\n"),
        ("SUNIONCARD 1 none APPROX", ":0\r\n"),
        ("SDIFFCARD 2 a b", ":2\r\n"),
        ("SDIFFCARD 3 b a n", ":1\r\n"),
        ("SDIFFCARD 2 a a", ":0\r\n"),
        ("SDIFFCARD 2 none a", ":0\r\n"),
        ("SDIFFCARD 2 a none", ":3\r\n"),
        ("SDIFFCARD 2 a b LIMIT 1", ":1\r\n"),
        ("SDIFFCARD 2 a b LIMIT 0", ":2\r\n"),
        ("SDIFFCARD 2 a b APPROX", SYNTAX),
        ("SUNIONCARD 0 a", "-ERR numkeys should be greater than 0\r\n"),
        ("SDIFFCARD x a", "-ERR numkeys should be greater than 0\r\n"),
        ("SUNIONCARD 2 a", "-ERR Number of keys can't be greater than number of args\r\n"),
        ("SUNIONCARD 1 a LIMIT", SYNTAX),
        ("SUNIONCARD 1 a LIMIT -1", "-ERR LIMIT can't be negative\r\n"),
        ("SET s x", "+OK\r\n"),
        ("SUNIONCARD 2 a s", wrong_type),
        ("SDIFFCARD 2 a s", wrong_type),
    ]);
}

/// Large sets, which are counted in the background, and their estimate.
#[test]
fn counting_large_unions() {
    let mut tester = Tester::new();
    for (key, from) in [("a", 0), ("b", 10_000)] {
        for piece in (from..from + 20_000).collect::<Vec<i32>>().chunks(1_000) {
            let members: String = piece.iter().map(|number| format!(" m{number}")).collect();
            tester.run(&format!("SADD {key}{members}"));
        }
    }
    // In a transaction nothing is computed in the background.
    for line in ["MULTI", "SUNIONCARD 2 a b", "SDIFFCARD 2 b a", "SUNIONCARD 2 a b LIMIT 25000"] {
        tester.run(line);
    }
    tester.check(&[("EXEC", "*3\r\n:30000\r\n:10000\r\n:25000\r\n"), ("MULTI", "+OK\r\n")]);
    tester.run("SUNIONCARD 2 a b APPROX");
    let reply = tester.run("EXEC");
    let count: f64 = reply.trim_start_matches("*1\r\n:").trim_end().parse().expect("a number");
    // The standard error is 0.81 %.
    assert!((count - 30_000.0).abs() < 30_000.0 * 0.04, "{count}");
}
