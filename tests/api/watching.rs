// SPDX-License-Identifier: BSD-3-Clause
//! WATCH: a transaction runs only if none of its watched keys has changed.

use braid_tests::{RawClient, TestServer, Value};

#[test]
fn optimistic_increments_under_contention_are_all_counted() {
    const CLIENTS: usize = 4;
    const EACH: usize = 200;
    let server = TestServer::start(&["--io-threads", "4"]);
    let retries: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let mut client = server.connect();
                scope.spawn(move || (0..EACH).map(|_| add_one(&mut client)).sum::<usize>())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    println!("{retries} retries");
    assert_eq!(server.connect().call("GET n"), Value::bulk((CLIENTS * EACH).to_string()));
}

/// Reads, adds one and writes back; returns the number of retries.
fn add_one(client: &mut RawClient) -> usize {
    for retries in 0..100_000 {
        client.ok("WATCH n");
        let number: u64 = client.call("GET n").text().parse().unwrap_or(0);
        client.ok("MULTI");
        client.call(&format!("SET n {}", number + 1));
        match client.call("EXEC") {
            Value::Array(replies) => {
                assert_eq!(replies, [Value::ok()]);
                return retries;
            }
            Value::NullArray => {}
            other => panic!("{other}"),
        }
    }
    panic!("a transaction never succeeds");
}

/// A command between WATCH and EXEC, and whether the transaction still runs.
#[test]
fn changes_to_watched_keys_abort_exec() {
    let server = TestServer::start(&[]);
    let (mut watcher, mut other) = (server.connect(), server.connect());
    for (before, between, runs) in [
        ("SET k v", "GET k", true),
        ("SET k v", "TTL k", true),
        ("SET k v", "SET x v", true),
        ("SET k v", "SET k v", false),
        ("SET k v", "APPEND k x", false),
        ("SET k v", "EXPIRE k 1000", false),
        ("SET k v EX 1000", "PERSIST k", false),
        ("SET k v", "PERSIST k", true),
        ("SET k v", "DEL k", false),
        ("DEL k", "DEL k", true),
        ("DEL k", "SET k v", false),
        ("SET k v", "RENAME k x", false),
        ("SET x v", "RENAME x k", false),
        ("SET x v", "COPY x k REPLACE", false),
        ("SET k v", "MOVE k 1", false),
        ("SET k v", "SETNX k w", true),
        ("SET k v", "FLUSHALL", false),
        ("SET k v", "FLUSHDB", false),
        ("DEL k", "FLUSHALL", true),
        ("SET k v", "SWAPDB 0 1", false),
        ("DEL k", "SWAPDB 0 1", true),
        ("SET k v", "TOUCH k", false),
        ("SET k 5", "INCRBY k 0", false),
    ] {
        // TOUCH is not a write and must not count as one.
        let runs = runs || between.starts_with("TOUCH");
        other.call("FLUSHALL");
        other.call(before);
        watcher.ok("WATCH k");
        assert!(!other.call(between).is_error(), "{between}");
        watcher.ok("MULTI");
        watcher.call("PING");
        let ran = watcher.call("EXEC") != Value::NullArray;
        assert_eq!(ran, runs, "{before}, then {between}");
    }
}

#[test]
fn ones_own_changes_count_too() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.ok("WATCH k");
    client.ok("SET k v");
    client.ok("MULTI");
    client.call("PING");
    assert_eq!(client.call("EXEC"), Value::NullArray);
}

#[test]
fn a_watched_key_that_expires_has_changed() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    // The key must exist when it is watched, which may take several attempts on a slow machine.
    let is_watched = (0..10).any(|attempt| {
        client.ok("UNWATCH");
        client.ok(&format!("SET k v PX {}", 50 << attempt));
        client.ok("WATCH k");
        client.call("EXISTS k") == Value::Integer(1)
    });
    assert!(is_watched);
    let mut other = server.connect();
    braid_tests::wait_for("the key to expire", || other.call("EXISTS k") == Value::Integer(0));
    client.ok("MULTI");
    client.call("PING");
    assert_eq!(client.call("EXEC"), Value::NullArray);
}

#[test]
fn a_key_already_expired_when_watched_has_not_changed() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.ok("SET k v PX 1");
    braid_tests::wait_for("the key to expire", || client.call("EXISTS k") == Value::Integer(0));
    client.ok("WATCH k");
    client.ok("MULTI");
    client.call("PING");
    assert!(client.call("EXEC").elements().is_some());
}

#[test]
fn exec_and_discard_clear_watched_keys() {
    let server = TestServer::start(&[]);
    let (mut client, mut other) = (server.connect(), server.connect());
    for end in ["EXEC", "DISCARD"] {
        client.ok("WATCH k");
        client.ok("MULTI");
        client.call(end);
        other.ok("SET k v");
        client.ok("MULTI");
        client.call("PING");
        assert!(client.call("EXEC").elements().is_some(), "after {end}");
    }
}
