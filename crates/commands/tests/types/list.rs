// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the list commands.

use braid_commands::testing::{Tester, check, check_resp3};

const NOT_AN_INTEGER: &str = "-ERR value is not an integer or out of range\r\n";
const NOT_POSITIVE: &str = "-ERR value is out of range, must be positive\r\n";
const SYNTAX: &str = "-ERR syntax error\r\n";

/// An array of strings in RESP.
fn array(texts: &[&str]) -> String {
    let items: String = texts.iter().map(|text| format!("${}\r\n{text}\r\n", text.len())).collect();
    format!("*{}\r\n{items}", texts.len())
}

fn filled(elements: &str) -> Tester {
    let mut tester = Tester::new();
    tester.run(&format!("RPUSH k {elements}"));
    tester
}

#[test]
fn pushing_and_popping() {
    let mut tester = Tester::new();
    tester.check(&[
        ("LPUSHX k a", ":0\r\n"),
        ("RPUSHX k a", ":0\r\n"),
        ("RPUSH k a 2 c", ":3\r\n"),
        ("LPUSH k x y", ":5\r\n"),
        ("LPUSHX k z", ":6\r\n"),
        ("RPUSHX k -7", ":7\r\n"),
        ("LLEN k", ":7\r\n"),
        ("LRANGE k 0 -1", &array(&["z", "y", "x", "a", "2", "c", "-7"])),
        ("LPOP k", "$1\r\nz\r\n"),
        ("RPOP k", "$2\r\n-7\r\n"),
        ("LPOP k 2", &array(&["y", "x"])),
        ("RPOP k 2", &array(&["c", "2"])),
        ("RPOP k 0", "*0\r\n"),
        ("LPOP k 9223372036854775807", &array(&["a"])),
        ("LLEN k", ":0\r\n"),
        ("EXISTS k", ":0\r\n"),
        ("LPOP k", "$-1\r\n"),
        ("LPOP k 1", "*-1\r\n"),
        ("LPOP k -1", NOT_POSITIVE),
        ("RPOP k x", NOT_POSITIVE),
        ("LPOP k 1 2", "-ERR wrong number of arguments for 'lpop' command\r\n"),
    ]);
    check_resp3(&[("LPOP k", "_\r\n"), ("RPOP k 3", "_\r\n"), ("LMPOP 1 k LEFT", "_\r\n")]);
}

#[test]
fn indexes_and_ranges() {
    filled("a b c d").check(&[
        ("LINDEX k 0", "$1\r\na\r\n"),
        ("LINDEX k -1", "$1\r\nd\r\n"),
        ("LINDEX k 4", "$-1\r\n"),
        ("LINDEX k -5", "$-1\r\n"),
        ("LINDEX k x", NOT_AN_INTEGER),
        ("LINDEX none x", "$-1\r\n"),
        ("LRANGE k 1 2", &array(&["b", "c"])),
        ("LRANGE k -100 0", &array(&["a"])),
        ("LRANGE k 3 1", "*0\r\n"),
        ("LRANGE k 0 x", NOT_AN_INTEGER),
        ("LRANGE none 0 -1", "*0\r\n"),
        ("LSET k 1 B", "+OK\r\n"),
        ("LSET k -1 D", "+OK\r\n"),
        ("LSET k 4 E", "-ERR index out of range\r\n"),
        ("LSET k x E", NOT_AN_INTEGER),
        ("LSET none x E", "-ERR no such key\r\n"),
        ("LTRIM k 1 -2", "+OK\r\n"),
        ("LRANGE k 0 -1", &array(&["B", "c"])),
        ("LTRIM k 5 9", "+OK\r\n"),
        ("EXISTS k", ":0\r\n"),
        ("LTRIM k 0 1", "+OK\r\n"),
        ("LTRIM k 0 x", NOT_AN_INTEGER),
    ]);
}

#[test]
fn inserting_and_removing() {
    filled("a b a c a").check(&[
        ("LINSERT k BEFORE b x", ":6\r\n"),
        ("LINSERT k after b y", ":7\r\n"),
        ("LINSERT k AFTER nosuch y", ":-1\r\n"),
        ("LINSERT none AFTER a y", ":0\r\n"),
        ("LINSERT k BESIDE a y", SYNTAX),
        ("LRANGE k 0 -1", &array(&["a", "x", "b", "y", "a", "c", "a"])),
        ("LREM k 1 a", ":1\r\n"),
        ("LREM k -1 a", ":1\r\n"),
        ("LREM k 0 nosuch", ":0\r\n"),
        ("LRANGE k 0 -1", &array(&["x", "b", "y", "a", "c"])),
        ("LREM k x a", NOT_AN_INTEGER),
        (
            "LREM k -9223372036854775808 a",
            "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807\r\n",
        ),
        ("LREM none 0 a", ":0\r\n"),
        ("LTRIM k 3 3", "+OK\r\n"),
        ("LREM k 0 a", ":1\r\n"),
        ("EXISTS k", ":0\r\n"),
    ]);
}

#[test]
fn positions() {
    filled("a b c 1 2 3 c c").check(&[
        ("LPOS k c", ":2\r\n"),
        ("LPOS k c RANK 2", ":6\r\n"),
        ("LPOS k c RANK -1", ":7\r\n"),
        ("LPOS k c RANK 4", "$-1\r\n"),
        ("LPOS k c COUNT 2", "*2\r\n:2\r\n:6\r\n"),
        ("LPOS k c COUNT 0 RANK -2", "*2\r\n:6\r\n:2\r\n"),
        ("LPOS k c COUNT 0 MAXLEN 3", "*1\r\n:2\r\n"),
        ("LPOS k c MAXLEN 2", "$-1\r\n"),
        ("LPOS k 3 MAXLEN 0", ":5\r\n"),
        ("LPOS none c", "$-1\r\n"),
        ("LPOS none c COUNT 1", "*0\r\n"),
        ("LPOS k c COUNT -1", "-ERR COUNT can't be negative\r\n"),
        ("LPOS k c MAXLEN -1", "-ERR MAXLEN can't be negative\r\n"),
        ("LPOS k c RANK", SYNTAX),
        ("LPOS k c RANK x", NOT_AN_INTEGER),
        (
            "LPOS k c RANK 0",
            "-ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use \
             negative to start from the end of the list\r\n",
        ),
        (
            "LPOS k c RANK -9223372036854775808",
            "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807\r\n",
        ),
    ]);
}

#[test]
fn moving() {
    filled("a b c").check(&[
        ("LMOVE k to LEFT RIGHT", "$1\r\na\r\n"),
        ("RPOPLPUSH k to", "$1\r\nc\r\n"),
        ("LRANGE to 0 -1", &array(&["c", "a"])),
        ("RPOPLPUSH to to", "$1\r\na\r\n"),
        ("LRANGE to 0 -1", &array(&["a", "c"])),
        ("EXPIRE k 100", ":1\r\n"),
        ("LMOVE k k LEFT LEFT", "$1\r\nb\r\n"),
        ("TTL k", ":100\r\n"),
        ("LMOVE k to LEFT LEFT", "$1\r\nb\r\n"),
        ("EXISTS k", ":0\r\n"),
        ("LMOVE k to LEFT LEFT", "$-1\r\n"),
        ("LMOVE k to UP LEFT", SYNTAX),
        ("SET s v", "+OK\r\n"),
        ("LMOVE k s LEFT LEFT", "$-1\r\n"),
        ("LMOVE to s LEFT LEFT", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
        ("LRANGE to 0 -1", &array(&["b", "a", "c"])),
    ]);
}

#[test]
fn popping_from_the_first_list_with_elements() {
    filled("a b c d").check(&[
        ("LMPOP 2 none k LEFT", "*2\r\n$1\r\nk\r\n*1\r\n$1\r\na\r\n"),
        ("LMPOP 2 k none RIGHT COUNT 2", "*2\r\n$1\r\nk\r\n*2\r\n$1\r\nd\r\n$1\r\nc\r\n"),
        ("LMPOP 1 k RIGHT COUNT 10", "*2\r\n$1\r\nk\r\n*1\r\n$1\r\nb\r\n"),
        ("LMPOP 1 k LEFT", "*-1\r\n"),
        ("SET s v", "+OK\r\n"),
        ("LMPOP 2 none s LEFT", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
        ("LMPOP 0 k LEFT", "-ERR numkeys should be greater than 0\r\n"),
        ("LMPOP x k LEFT", "-ERR numkeys should be greater than 0\r\n"),
        ("LMPOP 2 k LEFT", SYNTAX),
        ("LMPOP 9223372036854775807 k LEFT", SYNTAX),
        ("LMPOP 1 k UP", SYNTAX),
        ("LMPOP 1 k LEFT COUNT", SYNTAX),
        ("LMPOP 1 k LEFT COUNT 0", "-ERR count should be greater than 0\r\n"),
        ("LMPOP 1 k LEFT COUNT 1 COUNT 2", SYNTAX),
        ("LMPOP 1 k LEFT NOSUCH 1", SYNTAX),
    ]);
}

#[test]
fn other_types_are_refused() {
    let mut tester = Tester::new();
    tester.put_set("s");
    for line in [
        "LPUSH s a",
        "RPUSHX s a",
        "LPOP s",
        "RPOP s 1",
        "LLEN s",
        "LINDEX s 0",
        "LSET s 0 a",
        "LRANGE s 0 1",
        "LINSERT s BEFORE a b",
        "LTRIM s 0 1",
        "LREM s 0 a",
        "LPOS s a",
        "LMOVE s t LEFT LEFT",
        "LMPOP 1 s LEFT",
        "RPOPLPUSH s t",
    ] {
        let expected = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
        assert_eq!(tester.run(line), expected, "{line}");
    }
    check(&[("SET k v", "+OK\r\n"), ("GETSET k w", "$1\r\nv\r\n")]);
}

#[test]
fn forms_follow_the_configuration() {
    let mut tester = Tester::with("list-max-listpack-size 4");
    tester.run("RPUSH k a b c d");
    assert_eq!(tester.encoding("k"), "listpack");
    tester.run("RPUSH k e");
    assert_eq!(tester.encoding("k"), "quicklist");
    tester.run("LPOP k 4");
    assert_eq!(tester.encoding("k"), "listpack");
}

#[test]
fn watchers_learn_of_changes_only() {
    let mut tester = Tester::new();
    tester.run("RPUSH k a b c");
    for (line, changes) in [
        ("RPUSH k d", true),
        ("LPOP k 0", false),
        ("LPOP k", true),
        ("LREM k 0 nosuch", false),
        ("LREM k 0 b", true),
        ("LINSERT k BEFORE nosuch x", false),
        ("LSET k 9 x", false),
        ("LSET k 0 x", true),
        ("LMOVE k k LEFT RIGHT", true),
        ("LRANGE k 0 -1", false),
        ("LMPOP 1 k LEFT COUNT 10", true),
        ("LPUSHX k x", false),
        ("LMOVE none k LEFT LEFT", false),
    ] {
        let flag = braid_keyspace::txn::new_watch_flag();
        tester.with_keys(&[b"k"], |txn| txn.watch(b"k", &flag));
        tester.run(line);
        tester.with_keys(&[b"k"], |txn| txn.unwatch(b"k", &flag));
        assert_eq!(braid_keyspace::txn::is_raised(&flag), changes, "{line}");
    }
}

#[test]
fn moving_several_elements() {
    for (line, moved, source, destination) in [
        ("LEFT LEFT", "1", "2 3 4", "1 a b"),
        ("LEFT LEFT COUNT 2 OBO", "2 1", "3 4", "2 1 a b"),
        ("LEFT LEFT COUNT 2 BULK", "1 2", "3 4", "1 2 a b"),
        ("left right count 2 obo", "1 2", "3 4", "a b 1 2"),
        ("LEFT RIGHT EXACTLY 2 BULK", "1 2", "3 4", "a b 1 2"),
        ("RIGHT LEFT COUNT 3 OBO", "2 3 4", "1", "2 3 4 a b"),
        ("RIGHT LEFT EXACTLY 3 BULK", "2 3 4", "1", "2 3 4 a b"),
        ("RIGHT RIGHT COUNT 2 OBO", "4 3", "1 2", "a b 4 3"),
        ("RIGHT RIGHT COUNT 2 BULK", "3 4", "1 2", "a b 3 4"),
        ("LEFT RIGHT COUNT 9 OBO", "1 2 3 4", "", "a b 1 2 3 4"),
        ("LEFT LEFT EXACTLY 4 BULK", "1 2 3 4", "", "1 2 3 4 a b"),
    ] {
        let words = |text: &str| array(&text.split_whitespace().collect::<Vec<_>>());
        let mut tester = filled("1 2 3 4");
        tester.run("RPUSH to a b");
        tester.check(&[
            (&format!("LMOVEM k to {line}"), &words(moved)),
            ("LRANGE k 0 -1", &words(source)),
            ("EXISTS k", if source.is_empty() { ":0\r\n" } else { ":1\r\n" }),
            ("LRANGE to 0 -1", &words(destination)),
        ]);
        // With the arguments of the blocking form, and a destination that does not exist.
        let (ends, how) = line.split_at(line.match_indices(' ').nth(1).map_or(line.len(), |(at, _)| at));
        let mut tester = filled("1 2 3 4");
        tester.check(&[(&format!("BLMOVEM k to {ends} 0{how}"), &words(moved))]);
        tester.check(&[
            ("LRANGE to 0 -1", &words(moved)),
            ("LLEN k", &format!(":{}\r\n", source.split_whitespace().count())),
        ]);
    }
}

#[test]
fn moving_several_elements_within_a_list() {
    for (line, moved, after) in [
        ("LEFT LEFT COUNT 2 OBO", "b a", "b a c"),
        ("LEFT LEFT COUNT 2 BULK", "a b", "a b c"),
        ("RIGHT RIGHT EXACTLY 2 OBO", "c b", "a c b"),
        ("LEFT RIGHT COUNT 2 BULK", "a b", "c a b"),
        ("RIGHT LEFT COUNT 2 OBO", "b c", "b c a"),
        ("LEFT LEFT COUNT 9 OBO", "c b a", "c b a"),
    ] {
        let words = |text: &str| array(&text.split_whitespace().collect::<Vec<_>>());
        let mut tester = filled("a b c");
        tester.run("EXPIREAT k 99999999999");
        tester.check(&[
            (&format!("LMOVEM k k {line}"), &words(moved)),
            ("LRANGE k 0 -1", &words(after)),
            ("EXPIRETIME k", ":99999999999\r\n"),
        ]);
    }
}

#[test]
fn refused_moves_of_several_elements() {
    let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
    let not_positive = "-ERR count should be greater than 0\r\n";
    let mut tester = filled("1 2 3 4");
    tester.check(&[
        ("LMOVEM none to LEFT LEFT", "*0\r\n"),
        ("LMOVEM none to LEFT LEFT COUNT 2 OBO", "*0\r\n"),
        ("LMOVEM none to LEFT LEFT EXACTLY 2 OBO", "*-1\r\n"),
        ("LMOVEM k to LEFT LEFT EXACTLY 5 BULK", "*-1\r\n"),
        ("EXISTS to", ":0\r\n"),
        ("LLEN k", ":4\r\n"),
        ("LMOVEM k to LEFT", "-ERR wrong number of arguments for 'lmovem' command\r\n"),
        ("LMOVEM k to LEFT UP", SYNTAX),
        ("LMOVEM k to LEFT LEFT COUNT 2", SYNTAX),
        ("LMOVEM k to LEFT LEFT COUNT OBO 2", SYNTAX),
        ("LMOVEM k to LEFT LEFT COUNT 2 OBO BULK", SYNTAX),
        ("LMOVEM k to LEFT LEFT NOSUCH 2 OBO", SYNTAX),
        ("LMOVEM k to LEFT LEFT COUNT 0 OBO", not_positive),
        ("LMOVEM k to LEFT LEFT EXACTLY -1 OBO", not_positive),
        ("LMOVEM k to LEFT LEFT EXACTLY x OBO", not_positive),
        ("BLMOVEM k to LEFT LEFT x", "-ERR timeout is not a float or out of range\r\n"),
        ("BLMOVEM k to LEFT LEFT 0 COUNT 1", SYNTAX),
        ("SET s x", "+OK\r\n"),
        ("LMOVEM s to LEFT LEFT", wrong_type),
        ("LMOVEM k s LEFT LEFT", wrong_type),
        ("BLMOVEM k s LEFT LEFT 0", wrong_type),
        ("LLEN k", ":4\r\n"),
    ]);
    check_resp3(&[("LMOVEM k to LEFT LEFT EXACTLY 2 OBO", "_\r\n"), ("LMOVEM k to LEFT LEFT", "*0\r\n")]);
}
