// SPDX-License-Identifier: BSD-3-Clause
//! Lag: writing clients wait for a peer that does not keep up, but not for one that is away; lag
//! and conflicts are reported.

use crate::{cut, link_all, server, wait_until_equal};
use braid_tests::{TestServer, wait_for};

fn field(server: &TestServer, name: &str) -> String {
    server.connect().info_field("active", name).unwrap_or_default()
}

/// A field of the first peer's line.
fn part(server: &TestServer, name: &str) -> i64 {
    let line = field(server, "active_peer0");
    let parts = line.split(',').filter_map(|part| part.split_once('='));
    parts.filter(|(one, _)| *one == name).find_map(|(_, value)| value.parse().ok()).unwrap_or(i64::MIN)
}

#[test]
fn writes_wait_for_a_peer_that_does_not_keep_up() {
    let (one, two) = (server(1, &["--active-lag-max", "50"]), server(2, &["--active-lag-max", "0"]));
    link_all(&[&one, &two]);
    one.connect().ok("SET a 1");
    two.connect().ok("SET b 1");
    wait_until_equal(&[&one, &two]);
    // A peer that has only just connected is not waited for.
    let manifest = || std::fs::read_to_string(one.directory().join("active.manifest"));
    wait_for("the peer to be a member", || manifest().is_ok_and(|text| text.contains("\nmember 2 ")));
    wait_for("the peer to catch up", || part(&one, "behind_bytes") == 0 && part(&one, "behind_ms") == 0);
    // A pause of writes also holds back changes from peers.
    two.connect().ok("CLIENT PAUSE 1000000 WRITE");
    one.connect().ok("SET a 2");
    wait_for("writes to be throttled", || field(&one, "active_throttled") != "0");
    // This write is answered only once the peer has been silent for so long that it counts as
    // away.
    one.connect().ok("SET a 3");
    wait_for("the peer to count as away", || part(&one, "behind_ms") == -1);
    assert_eq!(two.connect().call("GET a").text(), "1");
    two.connect().ok("CLIENT UNPAUSE");
    wait_until_equal(&[&one, &two]);
    assert_eq!(two.connect().call("GET a").text(), "3");
    assert_eq!(field(&two, "active_throttled"), "0", "no client waits without a bound");
}

#[test]
fn writes_do_not_wait_for_a_peer_that_was_cut_off() {
    let (one, two) = (server(1, &["--active-lag-max", "1"]), server(2, &["--active-lag-max", "1"]));
    link_all(&[&one, &two]);
    wait_until_equal(&[&one, &two]);
    cut(&[&one, &two]);
    let mut client = one.connect();
    for number in 0..2000 {
        client.ok(&format!("SET key:{number} {number}"));
    }
    link_all(&[&one, &two]);
    wait_until_equal(&[&one, &two]);
}

#[test]
fn conflicts_are_counted_by_type() {
    let (one, two) = (server(1, &[]), server(2, &[]));
    link_all(&[&one, &two]);
    wait_until_equal(&[&one, &two]);
    cut(&[&one, &two]);
    for (server, value) in [(&one, "1"), (&two, "2")] {
        let mut client = server.connect();
        client.ok(&format!("SET text {value}"));
        client.call(&format!("HSET hash field {value}"));
        client.call(&format!("SADD set {value}"));
    }
    one.connect().call("RPUSH two-types x");
    two.connect().call("SADD two-types x");
    link_all(&[&one, &two]);
    wait_until_equal(&[&one, &two]);
    for server in [&one, &two] {
        let told = || {
            ["string", "hash", "set", "list"].map(|kind| field(server, &format!("active_conflicts_{kind}")))
        };
        wait_for("conflicts to be counted", || told() == ["1", "1", "0", "1"]);
    }
}
