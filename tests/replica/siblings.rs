// SPDX-License-Identifier: BSD-3-Clause
//! Full syncs that replicas get from each other (`repl-sibling-sync`).

use braid_tests::random::source;
use braid_tests::{RawClient, TestServer, wait_for};

use crate::workload::Writers;
use crate::{any_peer, assert_same, figure, primary, replica, wait_until_in_sync};

fn sibling(of: &TestServer) -> (TestServer, RawClient) {
    let port = of.port().to_string();
    let server = primary(&["--replicaof", "127.0.0.1", &port, "--repl-sibling-sync", "yes"]);
    let client = server.connect();
    (server, client)
}

/// Numbers of started full syncs and of resumed streams.
fn syncs(client: &mut RawClient) -> (i64, i64) {
    (figure(client, "stats", "sync_full"), figure(client, "stats", "sync_partial_ok"))
}

#[test]
fn a_replica_takes_a_full_sync_from_another() {
    let mut random = source("a_replica_takes_a_full_sync_from_another");
    let server = primary(&["--repl-backlog-size", "64mb"]);
    let mut client = server.connect();
    client.ok("DEBUG POPULATE 50000 key 50");
    let writers = Writers::start(&server, 2, &mut random);
    writers.go_on(50);
    let (_first, mut of_first) = sibling(&server);
    wait_until_in_sync(&mut client, &mut of_first);
    assert_eq!((syncs(&mut client), syncs(&mut of_first)), ((1, 0), (0, 0)));
    // All later replicas cost the primary only the stream.
    let mut later: Vec<(TestServer, RawClient)> = (0..2).map(|_| sibling(&server)).collect();
    for (_, of_later) in &mut later {
        wait_until_in_sync(&mut client, of_later);
    }
    writers.go_on(50);
    writers.stop();
    for (_, of_later) in &mut later {
        assert_same(&mut client, of_later);
    }
    assert_same(&mut client, &mut of_first);
    assert_eq!(syncs(&mut client), (1, 2));
    let of_siblings: i64 = std::iter::once(&mut of_first)
        .chain(later.iter_mut().map(|(_, of_later)| of_later))
        .map(|of_one| syncs(of_one).0)
        .sum();
    assert_eq!(of_siblings, 2);
    // Stock servers do not support it.
    let Some(peer) = any_peer() else { return };
    let other = replica(&peer, &server, &[]);
    wait_until_in_sync(&mut client, &mut other.connect());
    assert_eq!(syncs(&mut client).0, 2);
}

#[test]
fn the_primary_serves_when_no_sibling_can() {
    let server = primary(&["--repl-backlog-size", "1mb"]);
    let mut client = server.connect();
    client.ok("SET a 1");
    let (first, mut of_first) = sibling(&server);
    wait_until_in_sync(&mut client, &mut of_first);
    // The sibling refuses connections.
    of_first.ok("CONFIG SET requirepass secret");
    let (second, mut of_second) = sibling(&server);
    wait_until_in_sync(&mut client, &mut of_second);
    assert_same(&mut client, &mut of_second);
    assert!(second.log().contains(&format!("Full resync from replica 127.0.0.1:{}", first.port())));
    assert_eq!(syncs(&mut client), (2, 0));
    drop((first, of_first));
    wait_for("the first replica disconnects", || figure(&mut client, "replication", "connected_slaves") == 1);
    // After a sibling's full sync has been loaded, the following stream may no longer be
    // available.
    let (_third, mut of_third) = sibling(&server);
    let value = "x".repeat(100_000);
    wait_for("the third replica's link is up", || {
        client.ok(&format!("SET k {value}"));
        of_third.info_field("replication", "master_link_status").as_deref() == Some("up")
    });
    wait_until_in_sync(&mut client, &mut of_third);
    assert_eq!(of_third.call("GET a").text(), "1");
}
