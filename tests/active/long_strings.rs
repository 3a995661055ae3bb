// SPDX-License-Identifier: BSD-3-Clause
//! Long strings: the shadow and the keyspace share one allocation, which neither may change for
//! the other.

use crate::crash::kept;
use crate::{link_all, server, wait_until_equal};
use braid_tests::{RawClient, TestServer, wait_for};
use rustix::process::Signal;

/// Bytes per value, and the number of values that each server writes.
const LEN: usize = 100_000;
const COUNT: usize = 200;
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

#[test]
fn long_strings_are_in_memory_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut one, two) = (kept(1, &folder, &SMALL), server(2, &SMALL));
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
    // Loaded from files, and received as a full copy.
    one.signal(Signal::TERM);
    one.wait();
    drop(one);
    let one = kept(1, &folder, &SMALL);
    let three = server(3, &SMALL);
    link_all(&[&one, &two, &three]);
    wait_until_equal(&[&one, &two, &three]);
    wait_until_shared(&one, before);
    wait_until_shared(&three, before);
}
