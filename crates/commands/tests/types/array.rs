// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the array commands. Those named "page" have the examples of redis.io's pages of the
//! commands and of the type (Redis 8.8).

use braid_commands::testing::{Tester, check, check_resp3};

const NIL: &str = "$-1\r\n";

/// A reply that is an array of these replies.
fn all(replies: &[&str]) -> String {
    format!("*{}\r\n{}", replies.len(), replies.concat())
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

fn texts(texts: &[&str]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| bulk(text)).collect();
    all(&texts.iter().map(String::as_str).collect::<Vec<_>>())
}

fn pairs(pairs: &[(u64, &str)]) -> String {
    let pairs: Vec<String> =
        pairs.iter().map(|(index, text)| format!("*2\r\n:{index}\r\n{}", bulk(text))).collect();
    all(&pairs.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn page_texts_at_indexes() {
    check(&[
        ("ARSET myarray 0 hello", ":1\r\n"),
        ("ARSET myarray 2 a b c", ":3\r\n"),
        ("ARGET myarray 2", "$1\r\na\r\n"),
        ("ARGET myarray 4", "$1\r\nc\r\n"),
        ("ARGET myarray 1", NIL),
        ("ARGET none 1", NIL),
        ("ARMSET m 0 alpha 5 beta 100 gamma", ":3\r\n"),
        ("ARMGET m 0 100 5 3", &all(&[&bulk("alpha"), &bulk("gamma"), &bulk("beta"), NIL])),
        ("ARMGET none 0 1", &all(&[NIL, NIL])),
        ("ARMSET m 0 other 6 new", ":1\r\n"),
        ("ARLEN m", ":101\r\n"),
        ("ARCOUNT m", ":4\r\n"),
        ("ARLEN none", ":0\r\n"),
        ("ARCOUNT none", ":0\r\n"),
        ("TYPE m", "+array\r\n"),
        ("OBJECT ENCODING m", "$12\r\nsliced-array\r\n"),
        ("COPY m n", ":1\r\n"),
        ("ARGET n 100", "$5\r\ngamma\r\n"),
    ]);
}

#[test]
fn page_ranges() {
    check(&[
        ("ARMSET r 0 a 1 b 3 d", ":3\r\n"),
        ("ARGETRANGE r 0 3", &all(&[&bulk("a"), &bulk("b"), NIL, &bulk("d")])),
        ("ARGETRANGE r 3 0", &all(&[&bulk("d"), NIL, &bulk("b"), &bulk("a")])),
        ("ARGETRANGE none 7 8", &all(&[NIL, NIL])),
        ("ARGETRANGE r 0 1000000", "-ERR range exceeds maximum of 1000000 items\r\n"),
        ("ARMSET s 0 a 5 b 9 c", ":3\r\n"),
        ("ARSCAN s 0 10", &pairs(&[(0, "a"), (5, "b"), (9, "c")])),
        ("ARSCAN s 0 10 LIMIT 2", &pairs(&[(0, "a"), (5, "b")])),
        ("ARSCAN s 9 1 LIMIT 1", &pairs(&[(9, "c")])),
        ("ARSCAN none 0 18446744073709551614", "*0\r\n"),
        ("ARDEL s 5 6 5", ":1\r\n"),
        ("ARDELRANGE s 20 1 0 0 0 9", ":2\r\n"),
        ("EXISTS s", ":0\r\n"),
        ("ARDEL s 1", ":0\r\n"),
        ("ARDELRANGE s 0 1", ":0\r\n"),
    ]);
}

#[test]
fn page_insertions() {
    check(&[
        ("ARINSERT a alpha", ":0\r\n"),
        ("ARINSERT a beta gamma", ":2\r\n"),
        ("ARNEXT a", ":3\r\n"),
        ("ARNEXT none", ":0\r\n"),
        ("ARSEEK a 10", ":1\r\n"),
        ("ARSEEK none 10", ":0\r\n"),
        ("ARINSERT a c", ":10\r\n"),
        ("ARNEXT a", ":11\r\n"),
        ("ARLASTITEMS a 1", &texts(&["c"])),
        ("ARMSET m 0 a 1 b 100 c", ":3\r\n"),
        ("ARINSERT m d", ":0\r\n"),
        ("ARGET m 0", "$1\r\nd\r\n"),
        ("ARINSERT log first", ":0\r\n"),
        ("ARINSERT log second", ":1\r\n"),
        ("ARINSERT log third", ":2\r\n"),
        ("ARLASTITEMS log 2", &texts(&["second", "third"])),
        ("ARLASTITEMS log 2 REV", &texts(&["third", "second"])),
        ("ARLASTITEMS log 0", "*0\r\n"),
        ("ARLASTITEMS none 2", "*0\r\n"),
    ]);
}

#[test]
fn page_rings() {
    check(&[
        ("ARRING readings 3 v0", ":0\r\n"),
        ("ARRING readings 3 v1", ":1\r\n"),
        ("ARRING readings 3 v2", ":2\r\n"),
        ("ARRING readings 3 v3", ":0\r\n"),
        ("ARGET readings 0", "$2\r\nv3\r\n"),
        ("ARCOUNT readings", ":3\r\n"),
        ("ARLASTITEMS readings 3", &texts(&["v1", "v2", "v3"])),
        ("ARLASTITEMS readings 3 REV", &texts(&["v3", "v2", "v1"])),
        ("ARRING readings 2 v4 v5", ":1\r\n"),
        ("ARLASTITEMS readings 9", &texts(&["v4", "v5"])),
        ("ARRING readings 4 v6", ":2\r\n"),
        ("ARGETRANGE readings 0 2", &texts(&["v4", "v5", "v6"])),
        ("ARRING readings 0 v", "-ERR value is out of range, must be positive\r\n"),
    ]);
}

#[test]
fn page_figures_of_a_range() {
    check(&[
        ("ARMSET a 0 10 1 20 2 30", ":3\r\n"),
        ("AROP a 0 2 SUM", &bulk("60")),
        ("AROP a 2 0 min", &bulk("10")),
        ("AROP a 0 2 MAX", &bulk("30")),
        ("AROP a 0 2 MATCH 10", ":1\r\n"),
        ("AROP a 0 9 USED", ":3\r\n"),
        ("ARMSET flags 0 255 1 15 2 240", ":3\r\n"),
        ("AROP flags 0 2 AND", ":0\r\n"),
        ("AROP flags 0 2 OR", ":255\r\n"),
        ("AROP flags 1 2 XOR", ":255\r\n"),
        ("ARMSET f 0 1.5 1 text 2 3.75", ":3\r\n"),
        ("AROP f 0 2 SUM", &bulk("5.25")),
        ("AROP f 0 2 MIN", &bulk("1.5")),
        ("AROP f 0 2 OR", ":3\r\n"),
        ("AROP f 1 1 SUM", NIL),
        ("AROP f 7 9 AND", NIL),
        ("ARMSET big 0 9223372036854775807 1 1", ":2\r\n"),
        ("AROP big 0 1 SUM", &bulk("9.2233720368547758e+18")),
        ("AROP big 0 1 MAX", &bulk("9223372036854775807")),
        ("AROP none 0 1 USED", ":0\r\n"),
        ("AROP none 0 1 SUM", NIL),
        ("AROP a 0 1 MATCH", "-ERR syntax error\r\n"),
        ("AROP a 0 1 AVG", "-ERR syntax error\r\n"),
        ("AROP a 0 1 SUM 2", "-ERR syntax error\r\n"),
    ]);
}

#[test]
fn page_searches() {
    let error = "ERROR: cpu";
    check(&[
        (
            "ARMSET log 0 \"boot: ok\" 1 \"warn: disk\" 2 \"ERROR: cpu\" 3 \"info: ready\" 4 \"error: net\"",
            ":5\r\n",
        ),
        ("ARGREP log - + MATCH error NOCASE", "*2\r\n:2\r\n:4\r\n"),
        ("ARGREP log - + MATCH error NOCASE WITHVALUES", &pairs(&[(2, error), (4, "error: net")])),
        ("ARGREP log 0 4 GLOB warn:* OR GLOB error:*", "*2\r\n:1\r\n:4\r\n"),
        (
            "ARGREP log 0 4 RE \"^[A-Za-z]+: (cpu|net)$\" NOCASE WITHVALUES",
            &pairs(&[(2, error), (4, "error: net")]),
        ),
        ("ARGREP log 0 4 EXACT \"info: ready\"", "*1\r\n:3\r\n"),
        ("ARGREP log 0 4 EXACT \"INFO: READY\"", "*0\r\n"),
        ("ARGREP log 0 4 EXACT \"INFO: READY\" NOCASE", "*1\r\n:3\r\n"),
        ("ARGREP log - + MATCH error NOCASE LIMIT 1", "*1\r\n:2\r\n"),
        ("ARGREP log + - MATCH error NOCASE LIMIT 1", "*1\r\n:4\r\n"),
        ("ARGREP log 4 0 MATCH o AND GLOB *k", "*1\r\n:0\r\n"),
        ("ARGREP none - + MATCH x", "*0\r\n"),
        ("ARGREP log - + MATCH", "-ERR wrong number of arguments for 'argrep' command\r\n"),
        ("ARGREP log - + NOCASE OR", "-ERR syntax error\r\n"),
        ("ARGREP log - + MATCH x LIMIT", "-ERR syntax error\r\n"),
        ("ARGREP log - + MATCH x LIMIT 0", "-ERR value is out of range, must be positive\r\n"),
        ("ARGREP log - + RE (", "-ERR invalid regular expression\r\n"),
        ("ARGREP log a + MATCH x", "-ERR value is not an integer or out of range\r\n"),
    ]);
}

/// The figures of structure are those of Braid.
#[test]
fn figures_of_an_array() {
    check_resp3(&[
        ("ARMSET a 0 a 1 b 100 c", ":3\r\n"),
        ("ARINSERT a d", ":0\r\n"),
        (
            "ARINFO a FULL",
            "%12\r\n$5\r\ncount\r\n:3\r\n$3\r\nlen\r\n:101\r\n$17\r\nnext-insert-index\r\n:1\r\n$6\r\nslices\r\n:2\r\n\
             $14\r\ndirectory-size\r\n:2\r\n$17\r\nsuper-dir-entries\r\n:0\r\n$10\r\nslice-size\r\n:64\r\n\
             $12\r\ndense-slices\r\n:2\r\n$13\r\nsparse-slices\r\n:0\r\n$14\r\navg-dense-size\r\n,1.5\r\n\
             $14\r\navg-dense-fill\r\n,0.0234375\r\n$15\r\navg-sparse-size\r\n,0\r\n",
        ),
        ("ARINFO none", "-ERR no such key\r\n"),
        ("ARINFO a HALF", "-ERR syntax error\r\n"),
    ]);
}

#[test]
fn indexes_have_64_bits() {
    let last = "18446744073709551614";
    check_resp3(&[
        ("ARSET a 18446744073709551614 x", ":1\r\n"),
        ("ARLEN a", "(18446744073709551615\r\n"),
        ("ARSCAN a 18446744073709551614 0", &format!("*1\r\n*2\r\n({last}\r\n$1\r\nx\r\n")),
        ("ARSEEK a 18446744073709551615", ":1\r\n"),
        ("ARNEXT a", "_\r\n"),
        ("ARINSERT a y", "-ERR insert index overflow\r\n"),
        ("ARSEEK a 18446744073709551614", ":1\r\n"),
        ("ARINSERT a y z", "-ERR insert index overflow\r\n"),
        ("ARINSERT a y", &format!("({last}\r\n")),
        ("ARNEXT a", "_\r\n"),
        ("ARRING a 2 z", ":1\r\n"),
        ("ARGETRANGE a 0 1", "*2\r\n$1\r\ny\r\n$1\r\nz\r\n"),
    ]);
    check(&[
        ("ARSET a 18446744073709551614 x", ":1\r\n"),
        ("ARLEN a", &bulk("18446744073709551615")),
        ("ARSET a 18446744073709551614 x y", "-ERR value is not an integer or out of range\r\n"),
        ("ARSET a 18446744073709551615 x", "-ERR value is not an integer or out of range\r\n"),
        ("ARGET a -1", "-ERR value is not an integer or out of range\r\n"),
        ("ARMGET a 0 x", "-ERR value is not an integer or out of range\r\n"),
        ("ARDEL a 18446744073709551614 x", "-ERR value is not an integer or out of range\r\n"),
        ("ARMSET a 1 x 2", "-ERR wrong number of arguments for 'armset' command\r\n"),
        ("ARDELRANGE a 1 2 3", "-ERR wrong number of arguments for 'ardelrange' command\r\n"),
        ("ARCOUNT a", ":1\r\n"),
    ]);
}

#[test]
fn other_types_are_refused_and_nothing_is_made() {
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
    let mut tester = Tester::new();
    tester.run("SET s 1");
    let commands = [
        "ARSET s 0 a",
        "ARMSET s 0 a",
        "ARGET s 0",
        "ARMGET s 0",
        "ARGETRANGE s 0 1",
        "ARSCAN s 0 1",
        "ARINSERT s a",
        "ARRING s 2 a",
        "ARLASTITEMS s 1",
        "ARNEXT s",
        "ARSEEK s 1",
        "ARDEL s 1",
        "ARDELRANGE s 0 1",
        "ARCOUNT s",
        "ARLEN s",
        "ARINFO s",
        "AROP s 0 1 USED",
        "ARGREP s - + MATCH a",
    ];
    for command in commands {
        assert_eq!(tester.run(command), wrong, "{command}");
    }
    for command in
        ["ARGREP none x + MATCH a", "ARINSERT none", "ARRING none 0 a", "ARSET none x a", "ARSEEK none 1"]
    {
        tester.run(command);
    }
    assert_eq!(tester.run("EXISTS none"), ":0\r\n");
}
