// SPDX-License-Identifier: BSD-3-Clause
//! Full copies, which peers fetch in parts.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use super::crash::kept;
use super::{NEEDS_COPIES, bring_to_log, field, link, server, wait_until_equal};
use braid_tests::{RawClient, TestServer, Value, wait_for};
use rustix::process::Signal;

/// Size of a value in bytes, and number of values in a batch of concurrent writes.
const VALUE: usize = 400;
const PART: usize = 100;

#[test]
fn a_peer_that_takes_a_copy_needs_no_other() {
    let backlog = ["--active-backlog-size", "1mb", "--active-backlog-disk-size", "0"];
    let (one, two) = (server(1, &backlog), server(2, &backlog));
    let mut client = one.connect();
    let value = "v".repeat(VALUE);
    let mut write = |part: usize| {
        let pairs = (0..PART).map(|at| format!("key:{} {value}{part}", part * PART + at));
        client.ok(&format!("MSET {}", pairs.collect::<Vec<_>>().join(" ")));
    };
    (0..200).for_each(&mut write);
    bring_to_log(&one);
    link(&one, &[two.port()]);
    link(&two, &[one.port()]);
    // Four times the capacity of the backlog, while the copy is made, sent and merged.
    (0..100).for_each(&mut write);
    wait_until_equal(&[&one, &two]);
    let merged = |server: &TestServer| {
        server.connect().info_field("active", "active_full_copies_merged").expect("the field")
    };
    assert_eq!([merged(&one), merged(&two)], ["0", "1"]);
}

#[test]
fn parts_of_a_copy_follow_each_other() {
    let one = server(1, &[]);
    let mut client = one.connect();
    client.ok("SET key value");
    assert_eq!(client.call("ACTIVE COPY MORE").elements(), Some(&[Value::Integer(-1)][..]), "no copy yet");
    let copy = client.call("ACTIVE COPY");
    let parts = copy.elements().expect("a list");
    assert_eq!(parts[0], Value::Integer(0), "no more parts follow");
    assert!(parts.len() > 1);
    assert_eq!(
        client.call("ACTIVE COPY MORE").elements(),
        Some(&[Value::Integer(-1)][..]),
        "the copy was complete"
    );
    assert!(matches!(client.call("ACTIVE COPY other"), Value::Error(_)));
    assert!(matches!(client.call("ACTIVE COPY MORE MORE"), Value::Error(_)));
}

/// A second client's copy does not wait until the first client asks for the rest, which never
/// happens.
#[test]
fn copy_is_abandoned_when_its_client_disconnects() {
    let one = server(1, &[]);
    let mut client = one.connect();
    let value = "v".repeat(1 << 20);
    for number in 0..10 {
        client.ok(&format!("SET key:{number} {value}"));
    }
    wait_for("the writes to become units", || {
        client.info_field("active", "active_own_units").as_deref() == Some("10")
    });
    let mut first = one.connect();
    let copy = first.call("ACTIVE COPY");
    assert_eq!(copy.elements().expect("a list")[0], Value::Integer(1), "more parts follow");
    drop(first);
    let copy = client.call("ACTIVE COPY");
    assert_eq!(copy.elements().expect("a list")[0], Value::Integer(1));
    let copy = client.call("ACTIVE COPY MORE");
    assert!(copy.elements().expect("a list").len() > 1);
}

/// Keys of the copy, the counters among them, and the elements of its large set.
const STRINGS: usize = 60_000;
const COUNTERS: usize = 100;
const LARGE: usize = 20_000;

/// Fills a server that has a copy to give. Each counter becomes 5.
fn fill(server: &TestServer) {
    let mut client = server.connect();
    for part in 0..STRINGS / PART {
        let pairs = (0..PART).map(|at| format!("key:{} value:{part}", part * PART + at));
        client.ok(&format!("MSET {}", pairs.collect::<Vec<_>>().join(" ")));
    }
    for part in 0..LARGE / PART {
        let members = (0..PART).map(|at| (part * PART + at).to_string());
        client.call(&format!("SADD large {}", members.collect::<Vec<_>>().join(" ")));
    }
    for number in 0..COUNTERS {
        client.call(&format!("INCRBY counter:{number} 5"));
        client.call(&format!("SADD set:{number} one"));
    }
    bring_to_log(server);
}

/// Writes in rounds until `is_over`: each round adds 1 to every counter, a member to every set, and
/// one to the large set, with some in transactions. Returns the rounds whose replies all came.
fn write_rounds(mut client: RawClient, is_over: &AtomicBool) -> usize {
    let mut rounds = 0;
    while !is_over.load(Relaxed) {
        let mut words = vec![format!("SADD large round:{rounds}")];
        for number in 0..COUNTERS {
            let (counter, set) = (format!("INCR counter:{number}"), format!("SADD set:{number} {rounds}"));
            match number % 3 {
                // Both keys may or may not have been merged.
                0 => words.extend(["MULTI".into(), counter, set, "EXEC".into()]),
                _ => words.extend([counter, set]),
            }
        }
        let requests: Vec<u8> =
            words.iter().map(|line| format!("{line}\r\n").into_bytes()).collect::<Vec<_>>().concat();
        let is_sent = client.try_send(&requests).is_ok();
        let mut replies = words.iter().map(|_| client.try_read());
        if !is_sent || !replies.all(|reply| reply.is_ok_and(|reply| !matches!(reply, Value::Error(_)))) {
            break;
        }
        rounds += 1;
    }
    rounds
}

/// Clients write to a server while it merges a full copy, and nothing is lost on either side.
#[test]
fn clients_write_while_a_copy_is_merged() {
    let (one, two) = (server(1, &NEEDS_COPIES), server(2, &NEEDS_COPIES));
    fill(&one);
    let mut client = two.connect();
    // Values move from place to place (defragmentation) while they are merged.
    client.ok("DEBUG RELOCATE-ALL 1");
    client.ok("SET key:7 own");
    client.call("DEL key:8");
    client.ok("SET other own");
    let is_over = AtomicBool::new(false);
    let (mut seen, mut before_end) = (0, 0);
    let rounds = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_rounds(two.connect(), &is_over));
        link(&two, &[one.port()]);
        wait_for("the copy to be merged", || {
            let left = field(&two, "active_copy_left_percent");
            if left > 0 {
                let written = client.call("GET counter:99").text().parse::<usize>().unwrap_or(0);
                before_end = written;
                seen += 1;
            }
            field(&two, "active_full_copies_merged") == 1
        });
        is_over.store(true, Relaxed);
        writer.join().expect("the writer ends")
    });
    assert!(seen > 0 && before_end > 0, "no write was seen while the copy was merged: {seen}");
    link(&one, &[two.port()]);
    wait_until_equal(&[&one, &two]);
    for server in [&one, &two] {
        let mut client = server.connect();
        for number in 0..COUNTERS {
            assert_eq!(client.call(&format!("GET counter:{number}")).text(), (5 + rounds).to_string());
            assert_eq!(client.call(&format!("SCARD set:{number}")), Value::Integer(1 + rounds as i64));
        }
        assert_eq!(client.call("SCARD large"), Value::Integer((LARGE + rounds) as i64));
        assert_eq!(client.call("GET other").text(), "own");
        assert_eq!(client.call("GET key:7").text(), "own", "the later write");
        assert_eq!(client.call("GET key:9").text(), "value:0");
    }
}

/// A server that is killed while it merges a copy has merged it after the restart, and has what its
/// clients wrote meanwhile.
#[test]
fn a_server_killed_while_it_merges_a_copy_has_all_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let always = [&NEEDS_COPIES[..], &["--appendonly", "yes", "--appendfsync", "always"]].concat();
    let one = server(1, &NEEDS_COPIES);
    fill(&one);
    let mut two = kept(2, &folder, &always);
    let is_over = AtomicBool::new(false);
    let rounds = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_rounds(two.connect(), &is_over));
        link(&two, &[one.port()]);
        wait_for("the copy to be half merged", || (1..60).contains(&field(&two, "active_copy_left_percent")));
        two.signal(Signal::KILL);
        is_over.store(true, Relaxed);
        writer.join().expect("the writer ends")
    });
    two.wait();
    let two = kept(2, &folder, &always);
    assert_eq!(two.connect().call("GET key:9").text(), "value:0", "the copy is merged before peers connect");
    link(&two, &[one.port()]);
    link(&one, &[two.port()]);
    wait_until_equal(&[&one, &two]);
    for server in [&one, &two] {
        let mut client = server.connect();
        for number in 0..COUNTERS {
            // The last round may have been cut.
            let counter = client.call(&format!("GET counter:{number}")).text();
            let counter: usize = counter.parse().expect("a number");
            assert!((5 + rounds..=6 + rounds).contains(&counter), "{counter} after {rounds} rounds");
        }
        let large = client.call("SCARD large").integer().expect("a number");
        assert!(large as usize >= LARGE + rounds, "{large} after {rounds} rounds");
    }
}
