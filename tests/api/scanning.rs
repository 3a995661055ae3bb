// SPDX-License-Identifier: BSD-3-Clause
//! SCAN's guarantee: a key that exists throughout an iteration is returned at least once,
//! whatever other keys come and go, and however the table grows and shrinks meanwhile.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use braid_tests::random::source;
use braid_tests::{RawClient, TestServer, Value, request};

/// A complete iteration; `between` runs after each call.
fn scan(client: &mut RawClient, options: &str, mut between: impl FnMut(u64)) -> Vec<String> {
    let mut found = Vec::new();
    let mut cursor = "0".to_owned();
    for calls in 0_u64.. {
        assert!(calls < 1_000_000, "SCAN never ends");
        let reply = client.call(&format!("SCAN {cursor} {options}"));
        let [next, Value::Array(keys)] = reply.elements().expect("cursor and keys") else {
            panic!("{reply}")
        };
        found.extend(keys.iter().map(Value::text));
        cursor = next.text();
        if cursor == "0" {
            break;
        }
        between(calls);
    }
    found
}

fn fill(client: &mut RawClient, prefix: &str, numbers: std::ops::Range<u64>) {
    let count = numbers.end - numbers.start;
    client.send(
        &numbers.map(|number| request(&format!("SET {prefix}:{number} v"))).collect::<Vec<_>>().concat(),
    );
    for _ in 0..count {
        assert_eq!(client.read(), Value::ok());
    }
}

#[test]
fn scan_of_an_unchanging_keyspace_returns_each_key_once() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    for (count, options) in
        [(0, ""), (1, ""), (10, "COUNT 1"), (5_000, ""), (5_000, "COUNT 7"), (5_000, "COUNT 100000")]
    {
        client.ok("FLUSHALL");
        fill(&mut client, "key", 0..count);
        let found = scan(&mut client, options, |_| {});
        let distinct: BTreeSet<&String> = found.iter().collect();
        assert_eq!(distinct.len() as u64, count, "{options}");
        assert_eq!(found.len() as u64, count, "{options}: keys returned twice though nothing changed");
    }
}

#[test]
fn filters_by_pattern_and_type() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    fill(&mut client, "a", 0..500);
    fill(&mut client, "b", 0..500);
    client.call("RPUSH a:list x");
    assert_eq!(scan(&mut client, "MATCH a:*", |_| {}).len(), 501);
    assert_eq!(scan(&mut client, "MATCH a:* TYPE string", |_| {}).len(), 500);
    assert_eq!(scan(&mut client, "TYPE list", |_| {}), ["a:list"]);
    assert_eq!(scan(&mut client, "TYPE hash", |_| {}), Vec::<String>::new());
}

#[test]
fn keys_present_throughout_are_returned_while_the_table_grows_and_shrinks() {
    let server = TestServer::start(&["--io-threads", "4"]);
    let mut random = source("scan");
    for round in 0..8 {
        let mut client = server.connect();
        client.ok("FLUSHALL");
        let kept = random.u64(1..3_000);
        fill(&mut client, "kept", 0..kept);
        // Shrinking rounds start with many more keys.
        let shrinks = round % 2 == 1;
        if shrinks {
            fill(&mut client, "other", 0..20_000);
        }
        let mut other = server.connect();
        let mut next = 0;
        let found = scan(&mut client, ["COUNT 5", "COUNT 50", ""][round % 3], |_| {
            if next >= 20_000 {
                return;
            }
            let step = 200;
            if shrinks {
                let numbers: Vec<String> =
                    (next..next + step).map(|number| format!("other:{number}")).collect();
                other.call(&format!("DEL {}", numbers.join(" ")));
            } else {
                fill(&mut other, "other", next..next + step);
            }
            next += step;
        });
        let found: BTreeSet<String> = found.into_iter().collect();
        for number in 0..kept {
            assert!(
                found.contains(&format!("kept:{number}")),
                "round {round}: kept:{number} of {kept} was missed"
            );
        }
    }
}

#[test]
fn keys_present_throughout_are_returned_under_concurrent_writers() {
    let server = TestServer::start(&["--io-threads", "4"]);
    let done = AtomicBool::new(false);
    fill(&mut server.connect(), "kept", 0..2_000);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (server, done) = (&server, &done);
            scope.spawn(move || {
                let mut client = server.connect();
                let mut start = 0;
                while !done.load(Ordering::Relaxed) {
                    fill(&mut client, &format!("w{writer}"), start..start + 500);
                    let names: Vec<String> =
                        (start..start + 500).map(|number| format!("w{writer}:{number}")).collect();
                    if start % 1_000 != 0 {
                        client.call(&format!("DEL {}", names.join(" ")));
                    }
                    start = (start + 500) % 20_000;
                }
            });
        }
        let mut client = server.connect();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 0..10 {
                let found: BTreeSet<String> = scan(&mut client, "COUNT 20", |_| {}).into_iter().collect();
                for number in 0..2_000 {
                    assert!(
                        found.contains(&format!("kept:{number}")),
                        "round {round}: kept:{number} was missed"
                    );
                }
            }
        }));
        done.store(true, Ordering::Relaxed);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}
