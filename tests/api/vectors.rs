// SPDX-License-Identifier: BSD-3-Clause
//! Elements come to one vector set on many connections at once, while others are replaced,
//! removed, searched for and saved: none is lost, and replicas and files agree.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use braid_tests::{RawClient, TestServer, Value};

const DIMENSIONS: usize = 24;
const OLD: usize = 800;
const GONE: usize = 300;
const REPLACED: usize = 150;
const ADDERS: usize = 3;
const EACH: usize = 300;

/// The vector of a name in the words of VADD and VSIM; another one for another version.
fn vector_of(name: &str, version: u64) -> String {
    let seed = name.bytes().fold(version, |seed, byte| seed.wrapping_mul(257) + u64::from(byte));
    let mut random = fastrand::Rng::with_seed(seed);
    let values: Vec<String> = (0..DIMENSIONS).map(|_| random.i32(-99..100).to_string()).collect();
    format!("VALUES {DIMENSIONS} {}", values.join(" "))
}

#[track_caller]
fn is_found(client: &mut RawClient, name: &str, version: u64) {
    let reply = client.call(&format!("VSIM v {} COUNT 3", vector_of(name, version)));
    let found: Vec<String> = reply.elements().expect("elements").iter().map(Value::text).collect();
    assert!(found.iter().any(|found| found == name), "{name}: {found:?}");
}

/// Adds elements alone, in transactions and in scripts; each is found at once.
fn add(client: &mut RawClient, adder: usize) {
    for n in 0..EACH {
        let (name, other) = (format!("{adder}:{n}"), format!("{adder}:{n}:other"));
        let line = format!("VADD v {} {name}", vector_of(&name, 0));
        match n % 10 {
            3 => {
                client.ok("MULTI");
                client.call(&line);
                client.call(&format!("VADD v {} {other}", vector_of(&other, 0)));
                assert_eq!(client.call("EXEC").elements().expect("two").len(), 2);
                is_found(client, &other, 0);
            }
            7 => {
                let words: Vec<&str> = line.split(' ').collect();
                let script = "return redis.call('VADD', KEYS[1], unpack(ARGV))";
                let mut call = vec!["EVAL", script, "1", "v"];
                call.extend(&words[2..]);
                assert_eq!(client.call_arguments(&call), Value::Integer(1), "{name}");
            }
            _ => assert_eq!(client.call(&line), Value::Integer(1), "{name}"),
        }
        is_found(client, &name, 0);
    }
}

fn search(client: &mut RawClient, done: &AtomicBool) {
    let mut n = 0u64;
    while !done.load(Relaxed) {
        n += 1;
        let reply = client.call(&format!("VSIM v {} COUNT 20 WITHSCORES", vector_of("any", n)));
        let found = reply.elements().expect("elements");
        assert_eq!(found.len(), 40);
        assert!(found.chunks(2).all(|pair| !pair[0].text().is_empty()));
        if n.is_multiple_of(100) {
            client.call("BGSAVE");
        }
    }
}

#[test]
fn elements_come_and_go_on_many_connections() {
    for model in ["parallel", "hybrid", "handoff"] {
        let mut arguments = vec!["--io-threads", "3", "--threading-model", model, "--appendonly", "yes"];
        arguments.extend(["--enable-debug-command", "yes"]);
        let server = TestServer::start(&arguments);
        if !server.is_braid() {
            println!("skipped: stock servers execute one command at a time");
            return;
        }
        let port = server.port().to_string();
        let replica =
            TestServer::start(&["--replicaof", "127.0.0.1", &port, "--enable-debug-command", "yes"]);
        let mut client = server.connect();
        for n in 0..OLD {
            let name = format!("old{n}");
            assert_eq!(client.call(&format!("VADD v {} {name}", vector_of(&name, 0))), Value::Integer(1));
        }
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (server, done) = (&server, &done);
            let mut changers: Vec<_> =
                (0..ADDERS).map(|adder| scope.spawn(move || add(&mut server.connect(), adder))).collect();
            changers.push(scope.spawn(move || {
                let mut client = server.connect();
                for n in 0..GONE {
                    assert_eq!(client.call(&format!("VREM v old{n}")), Value::Integer(1), "old{n}");
                }
            }));
            changers.push(scope.spawn(move || {
                let mut client = server.connect();
                for n in GONE..GONE + REPLACED {
                    let name = format!("old{n}");
                    let line = format!("VADD v {} {name}", vector_of(&name, 1));
                    assert_eq!(client.call(&line), Value::Integer(0), "{name}");
                    is_found(&mut client, &name, 1);
                }
            }));
            scope.spawn(move || search(&mut server.connect(), done));
            let ends: Vec<_> = changers.into_iter().map(|changer| changer.join()).collect();
            done.store(true, Relaxed);
            ends.into_iter().for_each(|end| end.expect("no failure"));
        });
        let all = OLD - GONE + ADDERS * (EACH + EACH / 10);
        assert_eq!(client.call("VCARD v"), Value::Integer(all as i64), "{model}");
        (GONE..OLD).for_each(|n| is_found(&mut client, &format!("old{n}"), u64::from(n < GONE + REPLACED)));
        for (adder, n) in (0..ADDERS).flat_map(|adder| (0..EACH).map(move |n| (adder, n))) {
            is_found(&mut client, &format!("{adder}:{n}"), 0);
            if n % 10 == 3 {
                is_found(&mut client, &format!("{adder}:{n}:other"), 0);
            }
        }
        let digest = client.call("DEBUG DIGEST");
        assert_eq!(client.call("WAIT 1 20000"), Value::Integer(1), "{model}");
        assert_eq!(replica.connect().call("DEBUG DIGEST"), digest, "{model}: the replica");
        client.ok("DEBUG LOADAOF");
        assert_eq!(client.call("DEBUG DIGEST"), digest, "{model}: the append-only file");
    }
}
