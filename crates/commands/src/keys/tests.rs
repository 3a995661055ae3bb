// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the key commands.

use crate::testing::{Tester, check, check_resp3};

#[test]
fn deleting_and_counting() {
    check(&[
        ("MSET a 1 b 2 c 3", "+OK\r\n"),
        ("EXISTS a b nosuch a", ":3\r\n"),
        ("DEL a nosuch b a", ":2\r\n"),
        ("UNLINK c c", ":1\r\n"),
        ("DBSIZE", ":0\r\n"),
        ("EXISTS a", ":0\r\n"),
        ("DEL", "-ERR wrong number of arguments for 'del' command\r\n"),
    ]);
}

#[test]
fn types_and_encodings() {
    check(&[
        ("SET n 12", "+OK\r\n"),
        ("SET s hello", "+OK\r\n"),
        ("TYPE n", "+string\r\n"),
        ("TYPE nosuch", "+none\r\n"),
        ("OBJECT ENCODING n", "$3\r\nint\r\n"),
        ("OBJECT encoding s", "$6\r\nembstr\r\n"),
        ("OBJECT ENCODING nosuch", "$-1\r\n"),
        ("OBJECT REFCOUNT s", ":1\r\n"),
        ("OBJECT IDLETIME s", ":0\r\n"),
        ("OBJECT NOSUCH s", "-ERR unknown subcommand 'NOSUCH'. Try OBJECT HELP.\r\n"),
        ("OBJECT ENCODING", "-ERR wrong number of arguments for 'object|encoding' command\r\n"),
    ]);
    check_resp3(&[("OBJECT IDLETIME nosuch", "_\r\n")]);
}

#[test]
fn idle_time_and_frequency_follow_the_policy() {
    let mut tester = Tester::with("maxmemory-policy allkeys-lfu");
    tester.check(&[("SET k v", "+OK\r\n"), ("OBJECT FREQ k", ":5\r\n")]);
    assert!(
        tester
            .run("OBJECT IDLETIME k")
            .starts_with("-ERR An LFU maxmemory policy is selected, idle time not")
    );
    let mut tester = Tester::new();
    tester.run("SET k v");
    assert!(
        tester
            .run("OBJECT FREQ k")
            .starts_with("-ERR An LFU maxmemory policy is not selected, access frequency")
    );
}

#[test]
fn looking_does_not_count_as_use_but_touching_does() {
    let mut tester = Tester::new();
    let now = braid_base::clock::unix_ms();
    tester.engine.keyspace.tick(now - 100_000);
    tester.run("SET k v");
    tester.engine.keyspace.tick(now);
    let idle = |tester: &mut Tester| tester.run("OBJECT IDLETIME k");
    for line in ["EXISTS k", "TYPE k", "TTL k", "OBJECT ENCODING k"] {
        tester.run(line);
        assert_eq!(idle(&mut tester), ":100\r\n", "after {line}");
    }
    tester.run("CLIENT NO-TOUCH ON");
    tester.run("GET k");
    assert_eq!(idle(&mut tester), ":100\r\n", "a read by a NO-TOUCH client");
    assert_eq!(tester.run("TOUCH k nosuch k"), ":2\r\n");
    assert_eq!(idle(&mut tester), ":0\r\n");
}

#[test]
fn renaming() {
    check(&[
        ("RENAME nosuch b", "-ERR no such key\r\n"),
        ("RENAME nosuch nosuch", "-ERR no such key\r\n"),
        ("SET a 1 EX 100", "+OK\r\n"),
        ("SET b 2", "+OK\r\n"),
        ("RENAMENX a b", ":0\r\n"),
        ("RENAMENX a a", ":0\r\n"),
        ("RENAME a a", "+OK\r\n"),
        ("RENAME a b", "+OK\r\n"),
        ("MGET a b", "*2\r\n$-1\r\n$1\r\n1\r\n"),
        ("TTL b", ":100\r\n"),
        ("RENAMENX b c", ":1\r\n"),
        ("GET c", "$1\r\n1\r\n"),
        ("RENAMENX b c", "-ERR no such key\r\n"),
    ]);
}

#[test]
fn moving_between_databases() {
    check(&[
        ("SET k one EX 100", "+OK\r\n"),
        ("MOVE k 0", "-ERR source and destination objects are the same\r\n"),
        ("MOVE k 16", "-ERR DB index is out of range\r\n"),
        ("MOVE k -1", "-ERR DB index is out of range\r\n"),
        ("MOVE k x", "-ERR value is not an integer or out of range\r\n"),
        (
            "MOVE k 4294967296",
            "-ERR value is out of range, value must between -2147483648 and 2147483647\r\n",
        ),
        ("MOVE k 9", ":1\r\n"),
        ("MOVE k 9", ":0\r\n"),
        ("EXISTS k", ":0\r\n"),
        ("SET k two", "+OK\r\n"),
        ("MOVE k 9", ":0\r\n"),
        ("SELECT 9", "+OK\r\n"),
        ("GET k", "$3\r\none\r\n"),
        ("TTL k", ":100\r\n"),
        ("DBSIZE", ":1\r\n"),
    ]);
}

/// As in Valkey 9.2 (valkey#2278): the destination is overwritten.
#[test]
fn moving_over_a_key() {
    check(&[
        ("SET k one EX 100", "+OK\r\n"),
        ("MOVE k 9 REPLACE", ":1\r\n"),
        ("MOVE k 9 REPLACE", ":0\r\n"),
        ("RPUSH k a b", ":2\r\n"),
        ("MOVE k 9", ":0\r\n"),
        ("MOVE k 9 replace", ":1\r\n"),
        ("EXISTS k", ":0\r\n"),
        ("MOVE k 9 nosuch", "-ERR syntax error\r\n"),
        ("MOVE k 9 REPLACE REPLACE", "-ERR syntax error\r\n"),
        ("MOVE k 0 REPLACE", "-ERR source and destination objects are the same\r\n"),
        ("MOVE k 16 REPLACE", "-ERR DB index is out of range\r\n"),
        // A missing source leaves the destination.
        ("SELECT 9", "+OK\r\n"),
        ("LRANGE k 0 -1", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        ("TTL k", ":-1\r\n"),
        ("DBSIZE", ":1\r\n"),
    ]);
}

#[test]
fn copying() {
    check(&[
        ("SET a one EX 100", "+OK\r\n"),
        ("COPY a a", "-ERR source and destination objects are the same\r\n"),
        ("COPY a b DB 99", "-ERR DB index is out of range\r\n"),
        ("COPY a b DB", "-ERR syntax error\r\n"),
        ("COPY a b DB x", "-ERR value is not an integer or out of range\r\n"),
        ("COPY nosuch b", ":0\r\n"),
        ("COPY a b", ":1\r\n"),
        ("COPY a b", ":0\r\n"),
        ("TTL b", ":100\r\n"),
        ("SET a two", "+OK\r\n"),
        ("COPY a b REPLACE", ":1\r\n"),
        ("GET b", "$3\r\ntwo\r\n"),
        ("TTL b", ":-1\r\n"),
        ("COPY a a DB 3", ":1\r\n"),
        ("COPY b a replace db 3", ":1\r\n"),
        ("COPY a c db 3 nosuch", "-ERR syntax error\r\n"),
        ("GET a", "$3\r\ntwo\r\n"),
        ("SELECT 3", "+OK\r\n"),
        ("GET a", "$3\r\ntwo\r\n"),
        ("DBSIZE", ":1\r\n"),
    ]);
}

#[test]
fn swapping_and_flushing_databases() {
    check(&[
        ("SET a zero", "+OK\r\n"),
        ("SWAPDB x 1", "-ERR invalid first DB index\r\n"),
        ("SWAPDB 0 4294967296", "-ERR invalid second DB index\r\n"),
        ("SWAPDB 0 16", "-ERR DB index is out of range\r\n"),
        ("SWAPDB -1 0", "-ERR DB index is out of range\r\n"),
        ("SWAPDB 0 1", "+OK\r\n"),
        ("SWAPDB 2 2", "+OK\r\n"),
        ("GET a", "$-1\r\n"),
        ("SET b zero", "+OK\r\n"),
        ("FLUSHDB NOW", "-ERR syntax error\r\n"),
        ("FLUSHDB SYNC ASYNC", "-ERR syntax error\r\n"),
        ("FLUSHDB SYNC", "+OK\r\n"),
        ("DBSIZE", ":0\r\n"),
        ("SELECT 1", "+OK\r\n"),
        ("GET a", "$4\r\nzero\r\n"),
        ("FLUSHALL async", "+OK\r\n"),
        ("DBSIZE", ":0\r\n"),
    ]);
}

#[test]
fn listing_by_pattern() {
    let mut tester = Tester::new();
    for line in ["MSET foo_a 1 foo_b 2 bar 3", "SELECT 1", "SET foo_c 1", "SELECT 0"] {
        tester.run(line);
    }
    let mut names = |pattern: &str| {
        let reply = tester.run(&format!("KEYS {pattern}"));
        let mut names: Vec<String> = reply
            .split("\r\n")
            .filter(|line| !line.is_empty() && !line.starts_with(['*', '$']))
            .map(Into::into)
            .collect();
        assert!(reply.starts_with(&format!("*{}\r\n", names.len())), "{reply}");
        names.sort();
        names.join(" ")
    };
    assert_eq!(names("foo*"), "foo_a foo_b");
    assert_eq!(names("*"), "bar foo_a foo_b");
    assert_eq!(names("[a-b]ar"), "bar");
    assert_eq!(names("nosuch"), "");
}

#[test]
fn expired_keys_are_absent() {
    let mut tester = Tester::new();
    tester.check(&[
        ("SET gone 1 PX 5", "+OK\r\n"),
        ("SET here 2", "+OK\r\n"),
        ("SET later 3 PX 100000", "+OK\r\n"),
    ]);
    std::thread::sleep(std::time::Duration::from_millis(10));
    tester.check(&[
        // Counted until it is looked up, as in Redis.
        ("DBSIZE", ":3\r\n"),
        ("EXISTS gone here later", ":2\r\n"),
        ("KEYS g*", "*0\r\n"),
        ("TYPE gone", "+none\r\n"),
        ("DEL gone", ":0\r\n"),
        ("DEL later", ":1\r\n"),
        ("RANDOMKEY", "$4\r\nhere\r\n"),
        ("DEL here", ":1\r\n"),
        ("RANDOMKEY", "$-1\r\n"),
    ]);
}

#[test]
fn every_key_is_met_at_random() {
    let mut tester = Tester::new();
    tester.run("MSET a 1 b 2 c 3");
    let met: std::collections::BTreeSet<String> = (0..300).map(|_| tester.run("RANDOMKEY")).collect();
    assert_eq!(met.len(), 3);
}
