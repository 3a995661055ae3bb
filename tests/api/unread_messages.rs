// SPDX-License-Identifier: BSD-3-Clause
//! Messages that clients do not read never take the place of keys: each evicted key is one more
//! message for each of these clients, so eviction that made room for messages would go on until no
//! key is left, as it does in stock servers.

use braid_tests::{RawClient, TestServer, Value, request, wait_for};

/// Sets keys with names of this length.
fn fill(client: &mut RawClient, name_len: usize, value_len: usize, count: usize) {
    let value = "v".repeat(value_len);
    for start in (0..count).step_by(500) {
        let set = |number| request(&format!("SET {number:0>name_len$} {value}"));
        client.send(&(start..start + 500).map(set).collect::<Vec<_>>().concat());
        for _ in 0..500 {
            assert_eq!(client.read(), Value::ok());
        }
    }
}

fn field(client: &mut RawClient, section: &str, name: &str) -> i64 {
    client.info_field(section, name).and_then(|value| value.parse().ok()).expect("a number")
}

/// A server with 20,000 keys, room for 2 MB more, and an eviction policy.
fn crowded(arguments: &[&str]) -> (TestServer, RawClient) {
    let server = TestServer::start(&[&["--io-threads", "2"], arguments].concat());
    let mut client = server.connect();
    fill(&mut client, 10, 400, 20_000);
    let limit = field(&mut client, "memory", "used_memory") + (2 << 20);
    client.ok(&format!("CONFIG SET maxmemory {limit} maxmemory-policy allkeys-lru"));
    (server, client)
}

#[test]
fn clients_that_do_not_read_displace_no_keys() {
    if !braid_tests::server::is_braid() {
        return;
    }
    for listen in ["CLIENT TRACKING ON BCAST", "PSUBSCRIBE *", "MONITOR"] {
        let (server, mut client) = crowded(&["--notify-keyspace-events", "KEA"]);
        let mut deaf: Vec<RawClient> = (0..4).map(|_| server.connect()).collect();
        for client in &mut deaf {
            client.call("HELLO 3");
            client.call(listen);
        }
        fill(&mut client, 500, 1, 30_000);
        let keys = client.call("DBSIZE").integer().expect("a number");
        assert!(keys > 12_000, "{listen}: {keys} keys are left");
        // Messages may still be on their way.
        wait_for("nothing but messages to be above the limit", || {
            let info = client.info("memory");
            let number = |name: &str| {
                let found = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
                found.and_then(|text| text.parse::<i64>().ok()).expect("a number")
            };
            let counted = number("used_memory") - number("mem_not_counted_for_evict");
            counted < number("maxmemory") + (4 << 20)
        });
        drop(deaf);
        wait_for("the messages to go with their clients", || {
            field(&mut client, "memory", "mem_not_counted_for_evict") == 0
        });
    }
}

#[test]
fn clients_that_do_not_read_are_closed_while_memory_is_short() {
    if !braid_tests::server::is_braid() {
        return;
    }
    let (server, mut client) = crowded(&["--tracking-output-limit", "0"]);
    let mut deaf: Vec<RawClient> = (0..4).map(|_| server.connect()).collect();
    for client in &mut deaf {
        client.call("HELLO 3");
        client.ok("CLIENT TRACKING ON BCAST");
    }
    wait_for("the clients to be closed", || {
        fill(&mut client, 500, 1, 1000);
        field(&mut client, "stats", "client_output_buffer_limit_disconnections") > 0
    });
    assert!(server.log().contains("(maxmemory-pushes)"), "{}", server.log());
    assert!(client.call("DBSIZE").integer().is_some_and(|keys| keys > 8_000));
}

/// The limit of one client, which also holds without `maxmemory`. Replies do not count.
#[test]
fn a_client_that_does_not_read_its_invalidations_is_closed() {
    if !braid_tests::server::is_braid() {
        return;
    }
    let server = TestServer::start(&["--tracking-output-limit", "1mb"]);
    let (mut client, mut deaf, mut asking) = (server.connect(), server.connect(), server.connect());
    client.call_arguments(&["SET", "long", &"x".repeat(30_000_000)]);
    for client in [&mut deaf, &mut asking] {
        client.call("HELLO 3");
    }
    asking.ok("CLIENT TRACKING ON");
    asking.send(&request("GET long"));
    deaf.ok("CLIENT TRACKING ON BCAST");
    wait_for("the deaf client to be closed", || {
        fill(&mut client, 500, 1, 1000);
        field(&mut client, "stats", "client_output_buffer_limit_disconnections") == 1
    });
    assert!(server.log().contains("(tracking-output-limit)"), "{}", server.log());
    assert_eq!(asking.read().bytes().map(<[u8]>::len), Some(30_000_000));
}
