// SPDX-License-Identifier: BSD-3-Clause
//! Commands on several keys are atomic for every observer, and no update is ever lost.
//!
//! Each test runs writers and readers on separate threads for a number of steps. The `linear`
//! tests prove that such a test can fail: they convict a server without locks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use braid_tests::wait::PATIENCE;
use braid_tests::{RawClient, TestServer, Value};

fn start() -> TestServer {
    TestServer::start(&["--io-threads", "4"])
}

#[test]
fn concurrent_increments_are_all_counted() {
    const CLIENTS: usize = 8;
    const EACH: i64 = 3_000;
    let server = start();
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let mut client = server.connect();
            scope.spawn(move || {
                // Half of the clients send single requests, half send pipelines.
                let request = braid_tests::request("INCR hits");
                let pipeline = if number % 2 == 0 { 1 } else { 50 };
                for _ in 0..EACH / pipeline {
                    client.send(&request.repeat(pipeline as usize));
                    let mut last = 0;
                    for _ in 0..pipeline {
                        let now = client.read().integer().expect("a number");
                        assert!(now > last, "{now} after {last}");
                        last = now;
                    }
                }
            });
        }
    });
    assert_eq!(server.connect().call("GET hits"), Value::bulk((CLIENTS as i64 * EACH).to_string()));
}

#[test]
fn concurrent_appends_lose_no_byte() {
    let server = start();
    std::thread::scope(|scope| {
        for letter in b'a'..b'e' {
            let mut client = server.connect();
            scope.spawn(move || {
                for _ in 0..1_000 {
                    client.call_arguments(&[&b"APPEND"[..], b"text", &[letter]]);
                }
            });
        }
    });
    let Value::Bulk(text) = server.connect().call("GET text") else { panic!("a string") };
    for letter in b'a'..b'e' {
        assert_eq!(text.iter().filter(|&&byte| byte == letter).count(), 1_000);
    }
}

/// Minimum number of reads per reader; with fewer, a reader has observed too little.
const READS_MIN: u64 = 11;

/// Runs `write` in two threads, with `steps` numbers each, and `read` meanwhile in two others.
/// The writers continue beyond `steps` until each reader has read often enough, in case a busy
/// machine starves them. Returns the total number of steps.
fn observe(
    server: &TestServer,
    steps: u64,
    write: impl Fn(&mut RawClient, u64) + Sync,
    read: impl Fn(&mut RawClient) + Sync,
) -> u64 {
    let (done, reads) = (AtomicBool::new(false), [AtomicU64::new(0), AtomicU64::new(0)]);
    let (start, least) = (Instant::now(), || reads.iter().map(|reads| reads.load(Ordering::Relaxed)).min());
    let steps = std::thread::scope(|scope| {
        for reads in &reads {
            let mut client = server.connect();
            let (done, read) = (&done, &read);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    read(&mut client);
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let mut client = server.connect();
                let (write, least) = (&write, &least);
                scope.spawn(move || {
                    let is_enough = || least() >= Some(READS_MIN) || start.elapsed() > PATIENCE;
                    let mut step = 0;
                    while step < steps || !is_enough() {
                        write(&mut client, step * 2 + writer);
                        step += 1;
                    }
                    step
                })
            })
            .collect();
        let ended: Vec<_> = writers.into_iter().map(|thread| thread.join()).collect();
        done.store(true, Ordering::Relaxed);
        ended.into_iter().map(|steps| steps.expect("a writer's steps")).sum()
    });
    assert!(least() >= Some(READS_MIN), "a reader was starved");
    steps
}

#[test]
fn mset_shows_all_or_nothing() {
    let server = start();
    let keys: Vec<String> = (0..20).map(|number| format!("k{number}")).collect();
    let write = |client: &mut RawClient, step: u64| {
        let value = step.to_string();
        let mut command = vec!["MSET"];
        for key in &keys {
            command.extend([key.as_str(), &value]);
        }
        assert_eq!(client.call_arguments(&command), Value::ok());
    };
    let read = |client: &mut RawClient| {
        let mut command = vec!["MGET"];
        command.extend(keys.iter().rev().map(String::as_str));
        let reply = client.call_arguments(&command);
        let values = reply.elements().expect("an array");
        assert!(values.iter().all(|value| value == &values[0]), "a torn MSET: {reply}");
    };
    observe(&server, 2_000, write, read);
}

#[test]
fn msetnx_lets_one_win() {
    let server = start();
    std::thread::scope(|scope| {
        let winners: Vec<_> = (0..4)
            .map(|number| {
                let mut client = server.connect();
                scope.spawn(move || {
                    let won = |round: u64| {
                        // Half of them name the keys in reverse order.
                        let (first, second) = if number % 2 == 0 { ("a", "b") } else { ("b", "a") };
                        client.call(&format!("MSETNX {first}{round} {number} {second}{round} {number}"))
                            == Value::Integer(1)
                    };
                    (0..1_500).map(won).collect::<Vec<bool>>()
                })
            })
            .collect();
        let winners: Vec<Vec<bool>> =
            winners.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        for round in 0..1_500 {
            assert_eq!(winners.iter().filter(|won| won[round]).count(), 1, "round {round}");
        }
    });
    let mut client = server.connect();
    for round in 0..1_500 {
        let reply = client.call(&format!("MGET a{round} b{round}"));
        let values = reply.elements().expect("two values");
        assert_eq!(values[0], values[1], "round {round}");
    }
}

#[test]
fn a_renamed_key_is_never_in_two_places_or_none() {
    let server = start();
    server.connect().ok("SET a token");
    let write = |client: &mut RawClient, step: u64| {
        let way = if step.is_multiple_of(2) { "RENAME a b" } else { "RENAME b a" };
        let reply = client.call(way);
        assert!(reply == Value::ok() || reply == Value::Error(b"ERR no such key".to_vec()), "{reply}");
    };
    let read = |client: &mut RawClient| {
        assert_eq!(client.call("EXISTS a b"), Value::Integer(1));
        let reply = client.call("MGET b a");
        let there =
            reply.elements().expect("two").iter().filter(|value| **value == Value::bulk("token")).count();
        assert_eq!(there, 1, "{reply}");
    };
    observe(&server, 3_000, write, read);
}

#[test]
fn copy_is_atomic() {
    let server = start();
    server.connect().ok(&format!("SET source {}", "0".repeat(2_000)));
    let write = |client: &mut RawClient, step: u64| {
        if step.is_multiple_of(2) {
            let digit = (step / 2 % 10).to_string();
            client.ok(&format!("SET source {}", digit.repeat(2_000)));
        } else {
            assert_eq!(client.call("COPY source target REPLACE"), Value::Integer(1));
        }
    };
    let read = |client: &mut RawClient| {
        if let Value::Bulk(text) = client.call("GET target") {
            assert!(text.len() == 2_000 && text.iter().all(|byte| *byte == text[0]), "a torn copy");
        }
    };
    observe(&server, 2_000, write, read);
}

#[test]
fn nothing_is_seen_of_a_transaction_before_its_end() {
    let server = start();
    server.connect().ok("MSET a 0 b 0 c 0");
    let write = |client: &mut RawClient, _: u64| {
        client.ok("MULTI");
        for key in ["a", "b", "c"] {
            client.call(&format!("INCR {key}"));
        }
        let reply = client.call("EXEC");
        let values = reply.elements().expect("three numbers");
        assert!(values.iter().all(|value| value == &values[0]), "another transaction interfered: {reply}");
    };
    let read = |client: &mut RawClient| {
        let reply = client.call("MGET c a b");
        let values = reply.elements().expect("three");
        assert!(values.iter().all(|value| value == &values[0]), "half a transaction was visible: {reply}");
    };
    let steps = observe(&server, 1_500, write, read);
    assert_eq!(server.connect().call("GET a"), Value::bulk(steps.to_string()));
}

#[test]
fn money_moved_between_many_accounts_stays_the_same() {
    const ACCOUNTS: u64 = 16;
    let server = start();
    let mut client = server.connect();
    for account in 0..ACCOUNTS {
        client.ok(&format!("SET account:{account} 100"));
    }
    let all: Vec<String> = (0..ACCOUNTS).map(|account| format!("account:{account}")).collect();
    let write = |client: &mut RawClient, step: u64| {
        let (from, to) = (step % ACCOUNTS, (step * 7 + 3) % ACCOUNTS);
        client.ok("MULTI");
        client.call(&format!("DECRBY account:{from} 5"));
        client.call(&format!("INCRBY account:{to} 5"));
        assert_eq!(client.call("EXEC").elements().map(<[Value]>::len), Some(2));
    };
    let read = |client: &mut RawClient| {
        let reply = client.call(&format!("MGET {}", all.join(" ")));
        let total: i64 = reply
            .elements()
            .expect("all")
            .iter()
            .map(|value| value.text().parse::<i64>().expect("a number"))
            .sum();
        assert_eq!(total, 100 * ACCOUNTS as i64, "{reply}");
    };
    observe(&server, 1_500, write, read);
}

#[test]
fn flushing_and_swapping_everything_is_one_step() {
    let server = start();
    let write = |client: &mut RawClient, step: u64| match step % 3 {
        0 => client.ok("SWAPDB 0 1"),
        1 => client.ok("FLUSHALL"),
        _ => client.ok("MSET a 1 b 2 c 3 d 4 e 5 f 6 g 7 h 8"),
    };
    let read = |client: &mut RawClient| {
        let there = client.call("EXISTS h g f e d c b a").integer().expect("a number");
        assert!(there == 0 || there == 8, "{there} of 8 keys seen");
    };
    observe(&server, 1_000, write, read);
}

#[test]
fn keys_named_in_opposite_orders_do_not_deadlock() {
    let server = start();
    std::thread::scope(|scope| {
        for number in 0..6_u64 {
            let mut client = server.connect();
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(number);
                for _ in 0..1_000 {
                    let mut keys: Vec<u32> = (0..10).collect();
                    random.shuffle(&mut keys);
                    let pairs: Vec<String> = keys.iter().map(|key| format!("k{key} v")).collect();
                    client.ok(&format!("MSET {}", pairs.join(" ")));
                }
            });
        }
    });
}
