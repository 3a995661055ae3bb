// SPDX-License-Identifier: BSD-3-Clause
//! Arrays survive a restart, with cursor and ring: after a kill, after a rewrite in either form,
//! and after a save; and a replica has them.

use braid_tests::{RawClient, TestServer, wait_for};

use super::{Restarts, rewrite};

const KEYS: [&str; 4] = ["plain", "far", "ring", "holes"];

fn add(client: &mut RawClient, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let long = "x".repeat((number % 7 * number % 900) as usize);
        client.call(&format!("ARINSERT plain {number} text:{long}"));
        client.call(&format!("ARSET far {} {number}{long} -{number}", number * number * 1_000_003));
        client.call(&format!("ARRING ring 20 {number}"));
        client.call(&format!("ARRING holes {} {number}", 30 + number / 100));
        client.call(&format!("ARDEL holes 0 {}", number % 9));
    }
    client.call("ARSET far 18446744073709551614 last");
    client.call("ARSEEK far 18446744073709551615");
}

/// Content, cursor and the size of the ring (which decides what ARRING with another size keeps).
fn digest(client: &mut RawClient) -> String {
    let digests = KEYS.map(|key| client.call(&format!("DEBUG DIGEST-VALUE {key}")).to_string());
    digests.join(" ")
}

#[test]
fn arrays_survive_kills_rewrites_and_saves() {
    for restarts in Restarts::in_both_forms() {
        let (server, mut client) = restarts.start();
        add(&mut client, 0..150);
        let before = digest(&mut client);
        drop(server);
        let (server, mut client) = restarts.start();
        assert_eq!(digest(&mut client), before);
        rewrite(&mut client);
        add(&mut client, 150..230);
        let before = digest(&mut client);
        drop(server);
        let (server, mut client) = restarts.start();
        assert_eq!(digest(&mut client), before);
        rewrite(&mut client);
        drop(server);
        let (server, mut client) = restarts.start();
        assert_eq!(digest(&mut client), before, "from the rewrite alone");
        assert_eq!(client.call("ARNEXT far").to_string(), "(nil)");
        client.ok("DEBUG RELOAD");
        assert_eq!(digest(&mut client), before);
        let port = server.port().to_string();
        let replica =
            TestServer::start(&["--replicaof", "127.0.0.1", &port, "--enable-debug-command", "yes"]);
        let mut its = replica.connect();
        wait_for("the replica has them", || digest(&mut its) == before);
        add(&mut client, 230..250);
        client.call("ARRING ring 7 smaller");
        let after = digest(&mut client);
        wait_for("the replica has the others", || digest(&mut its) == after);
    }
}
