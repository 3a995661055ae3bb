// SPDX-License-Identifier: BSD-3-Clause
//! Tests of SORT and SORT_RO.

use crate::testing::{Tester, check};

fn array(texts: &[&str]) -> String {
    let items: String = texts.iter().map(|text| format!("${}\r\n{text}\r\n", text.len())).collect();
    format!("*{}\r\n{items}", texts.len())
}

#[test]
fn numbers_and_texts() {
    check(&[
        ("RPUSH l 3 10 -1.5 2e0", ":4\r\n"),
        ("SORT l", &array(&["-1.5", "2e0", "3", "10"])),
        ("SORT l DESC", &array(&["10", "3", "2e0", "-1.5"])),
        ("SORT l ALPHA", &array(&["-1.5", "10", "2e0", "3"])),
        ("SORT_RO l LIMIT 1 2", &array(&["2e0", "3"])),
        ("SORT l LIMIT 9 2", "*0\r\n"),
        ("SORT l LIMIT -1 -1 DESC ASC", &array(&["-1.5", "2e0", "3", "10"])),
        ("SORT none", "*0\r\n"),
        ("RPUSH l text", ":5\r\n"),
        ("SORT l", "-ERR One or more scores can't be converted into double\r\n"),
        ("SORT l ALPHA LIMIT 4 1", &array(&["text"])),
        ("SORT l LIMIT 1", "-ERR syntax error\r\n"),
        ("SORT l LIMIT x 1", "-ERR value is not an integer or out of range\r\n"),
        ("SORT_RO l STORE d", "-ERR syntax error\r\n"),
        ("SET str v", "+OK\r\n"),
        ("SORT str", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
        ("DEL l", ":1\r\n"),
        ("RPUSH l \" 5\" \"\" 0x10 inf", ":4\r\n"),
        ("SORT l", &array(&["", " 5", "0x10", "inf"])),
        ("RPUSH l 1e400", ":5\r\n"),
        ("SORT l", "-ERR One or more scores can't be converted into double\r\n"),
    ]);
}

#[test]
fn by_and_get() {
    check(&[
        ("RPUSH l 1 2 3", ":3\r\n"),
        ("MSET w1 30 w2 20 w3 10 v1 one v3 three", "+OK\r\n"),
        ("SORT l BY w*", &array(&["3", "2", "1"])),
        (
            "SORT l BY w* GET v* GET #",
            "*6\r\n$5\r\nthree\r\n$1\r\n3\r\n$-1\r\n$1\r\n2\r\n$3\r\none\r\n$1\r\n1\r\n",
        ),
        ("SORT l BY v* ALPHA", &array(&["2", "1", "3"])),
        ("SORT l BY missing* DESC", &array(&["3", "2", "1"])),
        ("HSET h1 f 5 t x", ":2\r\n"),
        ("HSET h2 f 9", ":1\r\n"),
        (
            "SORT_RO l BY h*->f DESC GET # GET h*->t",
            "*6\r\n$1\r\n2\r\n$-1\r\n$1\r\n1\r\n$1\r\nx\r\n$1\r\n3\r\n$-1\r\n",
        ),
        ("SORT l BY v*", "-ERR One or more scores can't be converted into double\r\n"),
        ("SORT l BY nosort DESC LIMIT 0 2", &array(&["3", "2"])),
        ("SORT l GET plain", "*3\r\n$-1\r\n$-1\r\n$-1\r\n"),
        ("SORT l BY l* GET l*", "*3\r\n$-1\r\n$-1\r\n$-1\r\n"),
    ]);
}

/// Elements that compare equal keep their order, and texts end at the first NUL unless they are
/// stored.
#[test]
fn sort_alpha_compares_up_to_the_first_nul() {
    check(&[
        ("RPUSH l \"a\\x00z\" b a \"a\\x00c\"", ":4\r\n"),
        ("SORT l ALPHA", &array(&["a\0z", "a", "a\0c", "b"])),
        ("SORT l ALPHA DESC", &array(&["b", "a\0z", "a", "a\0c"])),
        ("SORT l ALPHA STORE d", ":4\r\n"),
        ("LRANGE d 0 -1", &array(&["a", "a\0c", "a\0z", "b"])),
        ("SORT l BY none* ALPHA DESC", &array(&["a\0z", "b", "a", "a\0c"])),
    ]);
}

#[test]
fn other_types_and_storing() {
    let mut tester = Tester::new();
    tester.check(&[
        ("ZADD z 3 a 2 b 1 c", ":3\r\n"),
        ("SORT z ALPHA", &array(&["a", "b", "c"])),
        ("SORT z BY nosort", &array(&["c", "b", "a"])),
        ("SORT z BY nosort DESC LIMIT 1 1", &array(&["b"])),
        ("SADD s 3 1 2", ":3\r\n"),
        ("SORT s DESC STORE d", ":3\r\n"),
        ("LRANGE d 0 -1", &array(&["3", "2", "1"])),
        ("SADD t b a", ":2\r\n"),
        ("SADD w d c b a", ":4\r\n"),
        ("EVAL \"return redis.call('sort', KEYS[1], 'by', 'nosort')\" 1 w", &array(&["a", "b", "c", "d"])),
        ("SORT t BY nosort STORE d", ":2\r\n"),
        ("LRANGE d 0 -1", &array(&["a", "b"])),
        ("SORT s GET none* STORE d", ":3\r\n"),
        ("LRANGE d 0 -1", &array(&["", "", ""])),
        ("SORT s STORE s", ":3\r\n"),
        ("LRANGE s 0 -1", &array(&["1", "2", "3"])),
        ("SORT none STORE d", ":0\r\n"),
        ("EXISTS d", ":0\r\n"),
        ("MULTI", "+OK\r\n"),
        ("SORT s DESC STORE d", "+QUEUED\r\n"),
        ("SORT_RO d GET #", "+QUEUED\r\n"),
        ("EXEC", &format!("*2\r\n:3\r\n{}", array(&["1", "2", "3"]))),
        ("COMMAND GETKEYS SORT a BY store GET x STORE b LIMIT 1 2 STORE c", &array(&["a", "c"])),
        ("COMMAND GETKEYS SORT_RO a", &array(&["a"])),
    ]);
    assert_eq!(tester.encoding("d"), "listpack");
}
