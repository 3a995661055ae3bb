// SPDX-License-Identifier: BSD-3-Clause
//! A peer that is away for long: what the other servers remove meanwhile takes no memory.

use super::{field, link_all, server, wait_until_equal};
use braid_tests::{RawClient, TestServer, Value, wait_for};

/// Increments counters that expire soon, and waits until they have.
fn limit_rates(client: &mut RawClient, batch: usize) {
    const COUNT: usize = 5_000;
    for number in 0..COUNT {
        let name = format!("{batch}:{number}");
        let lines = format!(
            "INCR rate:{name}\r\nPEXPIRE rate:{name} 200\r\nHINCRBY rates {name} 1\r\nZINCRBY board 1 {name}\r\n"
        );
        client.send(lines.as_bytes());
        for _ in 0..4 {
            let reply = client.read();
            assert!(reply == Value::Integer(1) || reply.text() == "1", "{reply:?}");
        }
    }
    client.call("DEL rates board");
    wait_for("the counters to expire", || client.call("DBSIZE") == Value::Integer(1));
}

fn used(server: &TestServer) -> i64 {
    let text = server.connect().info_field("memory", "used_memory").expect("the field");
    text.parse().expect("a number")
}

#[test]
fn removed_counters_take_no_memory_while_a_peer_is_away() {
    // So that units for the peer take little memory.
    let little = ["--active-backlog-size", "64kb"];
    let (one, two) = (server(1, &little), server(2, &little));
    link_all(&[&one, &two]);
    let mut client = one.connect();
    client.ok("SET kept 1");
    wait_until_equal(&[&one, &two]);
    super::cut(&[&one, &two]);
    limit_rates(&mut client, 0);
    wait_for("the tombstones to go", || field(&one, "active_tombstone_keys") == 0);
    let before = used(&one);
    for batch in 1..3 {
        limit_rates(&mut client, batch);
    }
    wait_for("the tombstones to go", || field(&one, "active_tombstone_keys") == 0);
    let growth = used(&one) - before;
    // Records of 30,000 numbers took 20 MB; buffers may have grown.
    assert!(growth < 8 << 20, "30,000 removed counters left {growth} bytes");
    link_all(&[&one, &two]);
    wait_until_equal(&[&one, &two]);
    assert_eq!(two.connect().call("DBSIZE"), Value::Integer(1));
}

/// With a third server: a counter that both others have incremented goes once these two know.
#[test]
fn counters_of_several_servers_go_while_another_is_away() {
    let (one, two, three) = (server(1, &[]), server(2, &[]), server(3, &[]));
    link_all(&[&one, &two, &three]);
    one.connect().ok("SET kept 1");
    wait_until_equal(&[&one, &two, &three]);
    drop(three);
    for server in [&one, &two] {
        for number in 0..100 {
            server.connect().call(&format!("INCR hits:{number}"));
        }
    }
    wait_until_equal(&[&one, &two]);
    let names: Vec<String> = (0..100).map(|number| format!("hits:{number}")).collect();
    assert_eq!(one.connect().call(&format!("DEL {}", names.join(" "))), Value::Integer(100));
    wait_until_equal(&[&one, &two]);
    for server in [&one, &two] {
        wait_for("the tombstones to go", || field(server, "active_tombstone_keys") == 0);
    }
}
