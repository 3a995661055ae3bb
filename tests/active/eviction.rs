// SPDX-License-Identifier: BSD-3-Clause
//! Servers that evict, with peers that do not: eviction is local, and deletes nothing elsewhere.

use super::crash::kept;
use super::pair::all;
use super::{NEEDS_COPIES, cut, link_all, server, texts, wait_until_equal};
use braid_tests::{RawClient, TestServer, Value, wait_for};
use rustix::process::Signal;

fn count(client: &mut RawClient, line: &str) -> i64 {
    match client.call(line) {
        Value::Integer(number) => number,
        other => panic!("{line}: {other:?}"),
    }
}

fn evicted_keys(server: &TestServer) -> i64 {
    let text = server.connect().info_field("active", "active_evicted_keys").expect("the field");
    text.parse().expect("a number")
}

/// Makes a server evict all keys, or all keys with an expiry.
fn evict(server: &TestServer, policy: &str, left: i64) {
    let mut client = server.connect();
    client.ok(&format!("CONFIG SET maxmemory-policy {policy}"));
    client.ok("CONFIG SET maxmemory 1");
    wait_for("the keys to be evicted", || count(&mut client, "DBSIZE") == left);
    client.ok("CONFIG SET maxmemory 0");
    client.ok("CONFIG SET maxmemory-policy noeviction");
}

#[test]
fn an_eviction_is_no_deletion_elsewhere() {
    let (one, two) = (server(1, &[]), server(2, &[]));
    link_all(&[&one, &two]);
    let lines = [
        "SET text x",
        "SET n 10",
        "INCRBY n 90",
        "SET own 10",
        "INCRBY own 5",
        "HSET hash a 1 b 2",
        "RPUSH list a b",
        "SADD set a",
        "HINCRBY counts f 60",
        "ZADD z 1 m",
    ];
    all(&two, &lines);
    wait_until_equal(&[&one, &two]);
    evict(&one, "allkeys-lru", 0);
    wait_for("evicted keys to be counted", || evicted_keys(&one) == 8);
    let (mut client, mut other) = (one.connect(), two.connect());

    // Evicted keys do not exist for a client, so it removes nothing.
    assert_eq!(count(&mut client, "DEL text hash"), 0);
    // A peer's change of part of a collection does not bring it back; a counter or a value
    // written as a whole comes back.
    all(&two, &["HSET hash c 3", "RPUSH list c", "INCR n", "SET text y", "SADD set b"]);
    wait_for("the number", || client.call("GET n").text() == "101");
    wait_for("the text", || client.call("GET text").text() == "y");
    assert_eq!(count(&mut client, "EXISTS hash list set"), 0);

    // A local client sees only its own writes; peers merge them with their values.
    assert_eq!(count(&mut client, "INCR own"), 1, "INCR sees only local writes");
    wait_for("the true sum", || client.call("GET own").text() == "16");
    all(&one, &["HSET hash d 4", "RPUSH list d", "HINCRBY counts f 1"]);
    assert_eq!(texts(&client.call("HGETALL hash")), ["d", "4"]);
    assert_eq!(texts(&client.call("LRANGE list 0 -1")), ["d"]);
    wait_for("the field", || count(&mut other, "HLEN hash") == 4);
    wait_for("the element", || texts(&other.call("LRANGE list 0 -1")) == ["a", "b", "c", "d"]);
    wait_for("the sum", || other.call("HGET counts f").text() == "61");
    wait_for("the sum on the evicting server", || client.call("HGET counts f").text() == "61");
    assert_eq!(other.call("GET own").text(), "16");

    // Once they are overwritten or deleted, they are equal again.
    all(&one, &["DEL list hash", "SET set now-a-text", "SET counts 0", "SET z 1"]);
    wait_until_equal(&[&one, &two]);
    assert_eq!(count(&mut other, "EXISTS list hash"), 0);
    assert_eq!(other.call("GET set").text(), "now-a-text");
    wait_for("evicted keys to be forgotten", || evicted_keys(&one) == 0);
    evict(&one, "allkeys-random", 0);
    all(&one, &["FLUSHALL"]);
    wait_until_equal(&[&one, &two]);
    assert_eq!(count(&mut other, "DBSIZE"), 0, "FLUSHALL also deletes evicted keys");
}

/// Writes a batch of keys of one kilobyte each.
const WRITE: &str = "EVAL \"for i=1,500 do redis.call('set', ARGV[1]..i, string.rep('x',1000)) end\" 0 ";
const BATCHES: i64 = 60;

#[test]
fn a_small_server_stays_below_its_limit_and_a_large_one_keeps_all() {
    let few = ["--active-backlog-size", "8mb"];
    let (one, two) = (server(1, &few), server(2, &few));
    link_all(&[&one, &two]);
    all(&one, &["SET first 1"]);
    all(&two, &["SET first 1"]);
    wait_until_equal(&[&one, &two]);
    let mut client = one.connect();
    let used = |client: &mut RawClient| -> i64 {
        client.info_field("memory", "used_memory").expect("the field").parse().expect("a number")
    };
    let limit = used(&mut client) + (32 << 20);
    client.ok(&format!("CONFIG SET maxmemory {limit}"));
    client.ok("CONFIG SET maxmemory-policy allkeys-lru");
    let mut other = two.connect();
    for batch in 0..BATCHES {
        assert!(!matches!(client.call(&format!("{WRITE}one:{batch}:")), Value::Error(_)));
        assert!(!matches!(other.call(&format!("{WRITE}two:{batch}:")), Value::Error(_)));
        // Wait for the peer: the backlog does not keep forever what is evicted here before the
        // peer has received it.
        let all = 2 * 500 * (batch + 1) + 1;
        wait_for("all keys to arrive", || count(&mut other, "DBSIZE") == all);
    }
    wait_for("memory use to fall below the limit", || used(&mut client) <= limit + limit / 20);
    let left = count(&mut client, "DBSIZE");
    // The shadow takes about half of the memory.
    assert!(left > 3000, "too many keys were evicted: {left} remain");
    assert!(left < 500 * BATCHES, "{left}");
    wait_for("evicted keys to be counted", || evicted_keys(&one) + left > 500 * BATCHES);
    assert_eq!(count(&mut other, "DBSIZE"), 2 * 500 * BATCHES + 1);
    // Later writes come back, and stay if there is room.
    client.ok(&format!("CONFIG SET maxmemory {}", 2 * limit));
    other.ok("SET one:0:1 new");
    wait_for("the new value", || client.call("GET one:0:1").text() == "new");
}

#[test]
fn evictions_are_remembered_after_a_restart() {
    for signal in [Signal::TERM, Signal::KILL] {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut one, two) = (kept(1, &folder, &["--appendonly", "yes"]), server(2, &[]));
        link_all(&[&one, &two]);
        all(&one, &["SET a 1", "HSET hash f v", "SET n 5", "INCR n"]);
        wait_until_equal(&[&one, &two]);
        cut(&[&one, &two]);
        evict(&one, "allkeys-lru", 0);
        all(&one, &["SET b 1"]);
        wait_for("evicted keys to be counted", || evicted_keys(&one) == 3);
        one.signal(signal);
        one.wait();
        drop(one);
        let one = kept(1, &folder, &["--appendonly", "yes"]);
        // After a crash, keys evicted since the last generation are back.
        let left = if signal == Signal::TERM { 1 } else { 4 };
        wait_for("the dataset to be loaded", || count(&mut one.connect(), "DBSIZE") == left);
        link_all(&[&one, &two]);
        all(&two, &["SET c 1", "INCR n", "SET a 2"]);
        wait_for("the last write to arrive", || one.connect().call("GET a").text() == "2");
        wait_for("the restarted server's own write", || two.connect().call("GET b").text() == "1");
        assert_eq!(one.connect().call("GET n").text(), "7");
        assert_eq!(count(&mut two.connect(), "DBSIZE"), 5);
        all(&one, &["SET hash 1"]);
        wait_until_equal(&[&one, &two]);
    }
}

#[test]
fn full_copies_of_a_server_that_has_evicted_remove_nothing() {
    let (one, two) = (server(1, &NEEDS_COPIES), server(2, &NEEDS_COPIES));
    link_all(&[&one, &two]);
    all(&one, &["SET text x", "HSET hash a 1", "RPUSH list a", "SET n 10", "INCR n", "SET gone 1"]);
    all(&two, &["SADD set a", "ZADD z 1 m", "ZINCRBY z 1 m"]);
    wait_until_equal(&[&one, &two]);
    cut(&[&one, &two]);
    all(&one, &["DEL gone"]);
    evict(&one, "allkeys-lru", 0);
    wait_for("evicted keys to be counted", || evicted_keys(&one) == 6);
    // Four units, more than is kept for a recently connected peer.
    let own = |server: &TestServer| -> u64 {
        server
            .connect()
            .info_field("active", "active_own_units")
            .expect("the field")
            .parse()
            .expect("a number")
    };
    let before = [&one, &two].map(own);
    for (server, name) in [(&one, "one:1:"), (&one, "one:2:"), (&two, "two:1:"), (&two, "two:2:")] {
        all(server, &[&format!("{WRITE}{name}")]);
    }
    wait_for("the writes to become units", || {
        [&one, &two].map(own).iter().zip(before).all(|(now, before)| *now >= before + 2)
    });
    link_all(&[&one, &two]);
    let merged = |server: &TestServer| server.connect().info_field("active", "active_full_copies_merged");
    wait_for("both copies", || [&one, &two].iter().all(|server| merged(server).as_deref() == Some("1")));
    let mut other = two.connect();
    assert_eq!(count(&mut other, "EXISTS text hash list n set z"), 6);
    assert_eq!(count(&mut other, "EXISTS gone"), 0);
    assert_eq!(count(&mut other, "DBSIZE"), 2006);
    assert_eq!(other.call("ZSCORE z m").text(), "2");
    all(&one, &["SET text y", "SET hash y", "SET list y", "SET n y", "SET set y", "SET z y"]);
    wait_until_equal(&[&one, &two]);
    assert_eq!(count(&mut other, "DBSIZE"), 2006);
}

#[test]
fn times_of_evicted_keys_come() {
    let (one, two) = (server(1, &[]), server(2, &[]));
    link_all(&[&one, &two]);
    all(&one, &["SET short x PX 1500", "SET kept x", "SET n 1 PX 1500", "INCR n"]);
    wait_until_equal(&[&one, &two]);
    evict(&one, "volatile-ttl", 1);
    wait_for("evicted keys to be counted", || evicted_keys(&one) == 2);
    // The server that set the expiry removes them everywhere.
    wait_for("evicted keys to expire", || evicted_keys(&one) == 0);
    wait_until_equal(&[&one, &two]);
    assert_eq!(count(&mut two.connect(), "DBSIZE"), 1);
}
