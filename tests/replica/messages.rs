// SPDX-License-Identifier: BSD-3-Clause
//! Published messages and keyspace events in a chain of primary, replica and sub-replica: each
//! delivers the same ones as a stock server.

use std::path::Path;
use std::time::{Duration, Instant};

use braid_tests::server::program_under_test;
use braid_tests::{RawClient, TestServer, wait_for};

use crate::{peers, wait_until_in_sync};

const USUAL: [&str; 6] =
    ["--repl-diskless-sync-delay", "0", "--notify-keyspace-events", "KEA", "--enable-debug-command", "yes"];

/// Commands for the primary, in sequence.
const STEPS: [&str; 34] = [
    "PUBLISH news plain",
    "SPUBLISH shard plain",
    "MULTI",
    "PUBLISH news alone",
    "EXEC",
    "MULTI",
    "SET k 1",
    "PUBLISH news within",
    "INCR k",
    "SPUBLISH shard within",
    "EXEC",
    "MULTI",
    "PUBLISH news first",
    "SPUBLISH shard first",
    "EXEC",
    "EVAL \"redis.call('PUBLISH', 'news', 'script'); return redis.call('SPUBLISH', 'shard', 'script')\" 0",
    "EVAL \"redis.call('SET', KEYS[1], 2); return redis.call('PUBLISH', 'news', 'changed')\" 1 k",
    "SELECT 3",
    "PUBLISH news elsewhere",
    "SET k 3",
    "PUBLISH news again",
    "SELECT 0",
    "PUBLISH news back",
    "RPUSH list a b",
    "EXPIRE list 100",
    "PERSIST list",
    "RENAME list other",
    "LPOP other",
    "SET gone 1 PX 1",
    "HSET h f v",
    "DEL h k",
    "MOVE other 3",
    "COPY nosuch k",
    "SPOP nosuch",
];

/// The channels and payloads that a listener receives up to the message `end`.
fn heard(listener: &mut RawClient) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let message = listener.read();
        let parts: Vec<String> =
            message.elements().expect("a message").iter().map(|part| part.text()).collect();
        if parts.last().is_some_and(|payload| payload == "end") {
            return all;
        }
        all.push(parts.join(" "));
    }
}

/// The messages that listeners receive on all servers of a chain.
fn of_chain(program: &Path) -> Vec<(String, Vec<String>)> {
    let head = TestServer::start_program(program, &USUAL);
    let of = |server: &TestServer| {
        let port = server.port().to_string();
        TestServer::start_program(program, &[&USUAL[..], &["--replicaof", "127.0.0.1", &port]].concat())
    };
    let mut client = head.connect();
    let replica = of(&head);
    wait_until_in_sync(&mut client, &mut replica.connect());
    let below = of(&replica);
    wait_until_in_sync(&mut client, &mut below.connect());
    let mut listeners = Vec::new();
    for (name, server) in [("primary", &head), ("replica", &replica), ("sub-replica", &below)] {
        for subscription in ["SUBSCRIBE news", "SSUBSCRIBE shard", "PSUBSCRIBE __key*__:*"] {
            let mut listener = server.connect();
            listener.call(subscription);
            listeners.push((format!("{name}: {subscription}"), listener));
        }
    }
    for step in STEPS {
        assert!(!client.call(step).is_error(), "{step}");
    }
    wait_for("the key has expired", || client.call("EXISTS gone").to_string() == "(integer) 0");
    wait_until_in_sync(&mut client, &mut below.connect());
    // A message published on a replica stays there.
    let mut its = replica.connect();
    assert_eq!(its.call("PUBLISH news at-replica").to_string(), "(integer) 1");
    assert_eq!(its.call("SPUBLISH shard at-replica").to_string(), "(integer) 1");
    for server in [&head, &replica, &below] {
        let mut client = server.connect();
        client.call("SPUBLISH shard end");
        client.call("PUBLISH news end");
        client.call("PUBLISH __keyspace@0__:x end");
    }
    listeners.into_iter().map(|(name, mut listener)| (name, heard(&mut listener))).collect()
}

#[test]
fn a_chain_delivers_messages_and_events_as_stock_servers_do() {
    let ours = of_chain(program_under_test());
    for (name, heard) in &ours {
        assert!(!heard.is_empty(), "{name}");
    }
    for peer in peers() {
        for ((name, ours), (_, theirs)) in ours.iter().zip(of_chain(&peer.program)) {
            assert_eq!(*ours, theirs, "{} {name}", peer.version);
        }
    }
}

#[test]
fn idle_replica_delivers_messages_immediately() {
    let head = TestServer::start(&USUAL);
    let port = head.port().to_string();
    let replica =
        TestServer::start(&[&USUAL[..], &["--io-threads", "1", "--replicaof", "127.0.0.1", &port]].concat());
    let mut client = head.connect();
    wait_until_in_sync(&mut client, &mut replica.connect());
    let (mut listener, mut watcher) = (replica.connect(), replica.connect());
    listener.call("SUBSCRIBE news");
    watcher.call("SUBSCRIBE __keyevent@0__:set");
    for (listener, command) in [(&mut listener, "PUBLISH news x"), (&mut watcher, "SET k v")] {
        let times = (0..21).map(|_| {
            let begin = Instant::now();
            client.call(command);
            listener.read();
            begin.elapsed()
        });
        let mut times: Vec<_> = times.collect();
        times.sort();
        // Messages that wait for the replica's cron arrive at intervals of a tenth of a second.
        assert!(times[10] < Duration::from_millis(50), "{command}: {times:?}");
    }
}
