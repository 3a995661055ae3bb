// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the suggestion commands. All replies are those of Redis Stack 7.4.

use braid_commands::testing::{Tester, check, check_resp3};

#[test]
fn texts_are_suggested_by_their_beginning() {
    check(&[
        ("FT.SUGADD s hello 1", ":1\r\n"),
        ("FT.SUGADD s hello 1", ":1\r\n"),
        ("FT.SUGADD s \"help me\" 5 PAYLOAD pp", ":2\r\n"),
        ("FT.SUGADD s Helm 2", ":3\r\n"),
        ("FT.SUGADD s hel 0.5", ":4\r\n"),
        ("FT.SUGADD s hello 2 INCR", ":4\r\n"),
        ("FT.SUGGET s hel MAX 2", "*2\r\n$3\r\nhel\r\n$7\r\nhelp me\r\n"),
        (
            "FT.SUGGET s HEL MAX 2 WITHSCORES WITHPAYLOADS",
            "*6\r\n$3\r\nhel\r\n$10\r\n2147483648\r\n$-1\r\n$7\r\nhelp me\r\n$15\r\n2.2360680103302\r\n$2\r\npp\r\n",
        ),
        ("FT.SUGGET s hekp FUZZY WITHSCORES", "*2\r\n$7\r\nhelp me\r\n$18\r\n0.3383381962776184\r\n"),
        ("FT.SUGGET s hekp", "*0\r\n"),
        ("FT.SUGGET none a", "$-1\r\n"),
        ("FT.SUGLEN s", ":4\r\n"),
        ("FT.SUGDEL s helm", ":0\r\n"),
        ("FT.SUGDEL s Helm", ":1\r\n"),
        ("FT.SUGLEN s", ":3\r\n"),
        ("FT.SUGLEN none", ":0\r\n"),
        ("FT.SUGDEL none x", ":0\r\n"),
        ("TYPE s", "+trietype0\r\n"),
        ("OBJECT ENCODING s", "$3\r\nraw\r\n"),
        ("COPY s t", ":1\r\n"),
        ("FT.SUGGET t hello", "*1\r\n$5\r\nhello\r\n"),
    ]);
}

#[test]
fn an_empty_key_stays() {
    check(&[
        ("FT.SUGADD s a 1", ":1\r\n"),
        ("FT.SUGDEL s a", ":1\r\n"),
        ("FT.SUGGET s a", "*0\r\n"),
        ("EXISTS s", ":1\r\n"),
        ("FT.SUGADD z x 0", ":0\r\n"),
        ("EXISTS z", ":1\r\n"),
    ]);
}

#[test]
fn bad_arguments_are_refused() {
    check(&[
        ("SET str 1", "+OK\r\n"),
        ("FT.SUGADD s x", "-ERR wrong number of arguments for 'FT.SUGADD' command\r\n"),
        ("FT.SUGADD s x abc", "-ERR invalid score\r\n"),
        ("FT.SUGADD s x nan", "-ERR invalid score\r\n"),
        ("FT.SUGADD s x 1 BOGUS", "-Unknown argument `BOGUS`\r\n"),
        ("FT.SUGADD s x 1 PAYLOAD", "-Invalid payload: Expected an argument, but none provided\r\n"),
        ("EXISTS s", ":0\r\n"),
        ("FT.SUGGET s x MAX", "-MAX: Expected an argument, but none provided\r\n"),
        ("FT.SUGGET s x MAX 0", "-MAX: Value is outside acceptable bounds\r\n"),
        ("FT.SUGGET s x MAX abc", "-MAX: Could not convert argument to expected type\r\n"),
        ("FT.SUGGET s x BOGUS", "-Unrecognized argument: BOGUS\r\n"),
        ("FT.SUGGET s", "-ERR wrong number of arguments for 'FT.SUGGET' command\r\n"),
        ("FT.SUGLEN s s", "-ERR wrong number of arguments for 'FT.SUGLEN' command\r\n"),
        ("FT.SUGDEL s", "-ERR wrong number of arguments for 'FT.SUGDEL' command\r\n"),
        ("FT.SUGADD str x abc", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
        ("FT.SUGGET str x", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
        ("FT.SUGLEN str", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
        ("FT.SUGDEL str x", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
    ]);
    let mut tester = Tester::new();
    let long = |chars: usize| format!("FT.SUGGET s {}", "a".repeat(chars));
    assert_eq!(tester.run(&long(99)), "$-1\r\n");
    assert_eq!(tester.run(&long(100)), "-Invalid query\r\n");
    assert_eq!(tester.run(&long(200)), "-Invalid query length\r\n");
}

#[test]
fn resp3_has_numbers() {
    check_resp3(&[
        ("FT.SUGADD s foo 1 PAYLOAD p", ":1\r\n"),
        ("FT.SUGADD s foobar 2", ":2\r\n"),
        (
            "FT.SUGGET s fo WITHSCORES WITHPAYLOADS",
            "*6\r\n$6\r\nfoobar\r\n,0.8944271802902222\r\n_\r\n$3\r\nfoo\r\n,0.7071067690849304\r\n$1\r\np\r\n",
        ),
        ("FT.SUGGET none fo", "_\r\n"),
    ]);
}

/// A DUMP of Redis Stack, whose payloads may end in any byte.
#[test]
fn a_dump_of_stack_is_restored() {
    let dump = "\\x07\\x81\\xb6\\xb8\\x9e\\xb7*^\\xd0\\x01\\x02\\x03\\x05\\x02a\\x00\\x04\\x00\\x00\\x00\\x00\\x00\
                \\x00\\xf0?\\x05\\x03\\x00\\xff\\x00\\x05\\x03ab\\x00\\x04\\x00\\x00\\x00\\x00\\x00\\x00\\x08@\
                \\x05\\x02q\\x7f\\x05\\x02b\\x00\\x04\\x00\\x00\\x00\\x00\\x00\\x00\\xf0?\\x05\\x01\\x00\\x00\\x0c\
                \\x00\\x84\\x9c\\xdc\\xd6\\x95\\x11\\xb5\\xf7";
    let mut tester = Tester::new();
    assert_eq!(tester.run(&format!("RESTORE s 0 \"{dump}\"")), "+OK\r\n");
    assert_eq!(tester.run("FT.SUGLEN s"), ":3\r\n");
    let found = "*6\r\n$2\r\nab\r\n$18\r\n2.1213202476501465\r\n$1\r\nq\r\n";
    assert!(tester.run("FT.SUGGET s a WITHSCORES WITHPAYLOADS").contains(&found[4..]));
}
