// SPDX-License-Identifier: BSD-3-Clause
//! The shadow and the keyspace share the allocations of strings, which neither may change for the
//! other: long ones as soon as possible, short ones once they have not been written for a while.

use std::ops::RangeInclusive;

use crate::crash::kept;
use crate::{link_all, server, wait_until_equal};
use braid_tests::{RawClient, TestServer, wait_for};
use rustix::process::Signal;

/// Bytes per long value, and the number of values that each server writes.
const LEN: usize = 100_000;
const COUNT: usize = 200;
/// The same for short ones.
const SHORT_LEN: usize = 400;
const SHORT_COUNT: usize = 10_000;
/// Almost no units are kept in memory for peers.
const SMALL: [&str; 2] = ["--active-backlog-size", "64kb"];

fn used(server: &TestServer) -> usize {
    let field = server.connect().info_field("memory", "used_memory");
    field.expect("the field").parse().expect("a number")
}

/// Waits until all values are in memory once. `before`: the memory used without them.
#[track_caller]
fn wait_until_shared(server: &TestServer, before: usize) {
    let limit = before + 2 * COUNT * LEN * 3 / 2;
    wait_for("the values to be in memory only once", || used(server) < limit);
}

fn write(client: &mut RawClient, name: &str) {
    let zeros = "0".repeat(LEN - 3);
    for number in 0..COUNT {
        client.ok(&format!("SET {name}:{number} {zeros}{number:03}"));
    }
}

/// Restarts the first server, which loads its strings from files, and starts a third one, which
/// receives them as a full copy.
fn restart_with_a_third(
    mut one: TestServer,
    two: &TestServer,
    folder: &tempfile::TempDir,
) -> (TestServer, TestServer) {
    one.signal(Signal::TERM);
    one.wait();
    drop(one);
    let (one, three) = (kept(1, folder, &SMALL), server(3, &SMALL));
    link_all(&[&one, two, &three]);
    wait_until_equal(&[&one, two, &three]);
    (one, three)
}

#[test]
fn long_strings_are_in_memory_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, two) = (kept(1, &folder, &SMALL), server(2, &SMALL));
    link_all(&[&one, &two]);
    one.connect().ok("SET first 1");
    wait_until_equal(&[&one, &two]);
    let before = used(&one).max(used(&two));
    write(&mut one.connect(), "one");
    write(&mut two.connect(), "two");
    wait_until_equal(&[&one, &two]);
    wait_until_shared(&one, before);
    wait_until_shared(&two, before);
    // Changes in place, of own values and of received ones.
    let (mut at_one, mut at_two) = (one.connect(), two.connect());
    for name in ["one", "two"] {
        at_one.call(&format!("SETRANGE {name}:0 10 changed"));
        at_two.call(&format!("APPEND {name}:1 more"));
        at_one.call(&format!("SETBIT {name}:2 7 1"));
        at_two.call(&format!("GETSET {name}:3 {}", "v".repeat(LEN)));
        at_one.call(&format!("RENAME {name}:4 {name}:renamed"));
        at_two.call(&format!("COPY {name}:5 {name}:copied"));
        at_one.call(&format!("DEL {name}:6"));
        at_two.call(&format!("SET {name}:7 brief"));
    }
    wait_until_equal(&[&one, &two]);
    for client in [&mut at_one, &mut at_two] {
        for name in ["one", "two"] {
            assert_eq!(client.call(&format!("GETRANGE {name}:0 8 18")).text(), "00changed00");
            assert_eq!(client.call(&format!("STRLEN {name}:1")), braid_tests::Value::Integer(LEN as i64 + 4));
            assert_eq!(client.call(&format!("GETRANGE {name}:2 0 1")).text(), "10");
        }
    }
    wait_until_shared(&one, before);
    wait_until_shared(&two, before);
    let (one, three) = restart_with_a_third(one, &two, &folder);
    wait_until_shared(&one, before);
    wait_until_shared(&three, before);
}

fn shared(server: &TestServer) -> usize {
    let field = server.connect().info_field("active", "active_shared_strings");
    field.expect("the field").parse().expect("a number")
}

#[track_caller]
fn wait_until_all_shared(servers: &[&TestServer], count: RangeInclusive<usize>) {
    for server in servers {
        wait_for(&format!("{count:?} shared strings"), || count.contains(&shared(server)));
    }
}

fn short(text: &str) -> String {
    format!("{text:v<SHORT_LEN$}")
}

#[test]
fn short_strings_are_in_memory_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, two) = (kept(1, &folder, &SMALL), server(2, &SMALL));
    link_all(&[&one, &two]);
    // Afterwards the buffers have the size that they will have.
    for server in [&one, &two] {
        let mut client = server.connect();
        (0..SHORT_COUNT).for_each(|number| client.ok(&format!("SET first {}", short(&number.to_string()))));
    }
    wait_until_equal(&[&one, &two]);
    let before = used(&one).max(used(&two));
    for (server, name) in [(&one, "one"), (&two, "two")] {
        let mut client = server.connect();
        for number in 0..SHORT_COUNT {
            // Every other one has a time.
            let time = if number % 2 == 0 { "" } else { " EX 10000" };
            client.ok(&format!("SET {name}:{number} {}{time}", short(&number.to_string())));
        }
    }
    wait_until_equal(&[&one, &two]);
    let all = 2 * SHORT_COUNT + 1;
    wait_until_all_shared(&[&one, &two], all..=all);
    for server in [&one, &two] {
        // With a copy of name and value it would be 420 more.
        let each = (used(server) - before) / (2 * SHORT_COUNT);
        assert!(each < SHORT_LEN + 150, "{each} bytes each");
    }
    // Changes of shared strings, own and received ones.
    let (mut at_one, mut at_two) = (one.connect(), two.connect());
    let after = short("after");
    for name in ["one", "two"] {
        at_one.ok(&format!("SET {name}:0 {after}"));
        at_two.call(&format!("SETRANGE {name}:2 0 after"));
        at_one.call(&format!("APPEND {name}:4 more"));
        at_two.call(&format!("GETSET {name}:6 {after}"));
        at_one.call(&format!("EXPIRE {name}:7 20000"));
        at_two.call(&format!("EXPIRE {name}:8 20000"));
        at_one.call(&format!("PERSIST {name}:9"));
        at_two.call(&format!("RENAME {name}:10 {name}:renamed"));
        at_one.call(&format!("COPY {name}:12 {name}:copied"));
        at_two.call(&format!("DEL {name}:14"));
        at_one.call(&format!("SETBIT {name}:16 1 0"));
        at_two.ok(&format!("SET {name}:18 brief"));
        at_one.call(&format!("GETDEL {name}:20"));
        at_two.ok(&format!("SET {name}:22 1"));
        at_one.ok(&format!("SET {name}:23 {after} KEEPTTL"));
    }
    wait_until_equal(&[&one, &two]);
    // One copied and two deleted by each server. Not shared are a number, a string that has grown
    // in place (until the next start), and strings whose time was not given with the value.
    let left = 2 * (SHORT_COUNT + 1 - 2 - 2 - 4) + 1;
    let left = left..=left + 10;
    wait_until_all_shared(&[&one, &two], left.clone());
    for client in [&mut at_one, &mut at_two] {
        for name in ["one", "two"] {
            let mut get = |number: &str| client.call(&format!("GET {name}:{number}")).text().to_owned();
            for number in ["0", "6", "23"] {
                assert_eq!(get(number), after, "{name}:{number}");
            }
            assert_eq!(get("2"), short("2").replacen(&short("2")[..5], "after", 1));
            assert_eq!(get("4"), format!("{}more", short("4")));
            assert_eq!((get("renamed"), get("copied"), get("12")), (short("10"), short("12"), short("12")));
            assert_eq!((get("18"), get("22"), get("24")), ("brief".into(), "1".into(), short("24")));
            let mut ttl =
                |number: u32| client.call(&format!("TTL {name}:{number}")).integer().expect("a number");
            assert!(ttl(7) > 10_000 && ttl(8) > 10_000 && ttl(9) == -1 && ttl(11) > 0 && ttl(23) > 0);
        }
    }
    let (one, three) = restart_with_a_third(one, &two, &folder);
    wait_until_all_shared(&[&one, &two, &three], left);
    one.connect().ok("FLUSHALL");
    wait_until_equal(&[&one, &two, &three]);
    wait_until_all_shared(&[&one, &two, &three], 0..=0);
    for server in [&one, &two, &three] {
        wait_for("the memory to be free", || used(server) < before + 2 * SHORT_COUNT * SHORT_LEN / 4);
    }
}
