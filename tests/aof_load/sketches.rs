// SPDX-License-Identifier: BSD-3-Clause
//! Sketches survive a restart: after a kill, after a rewrite in either form, and after a save; and
//! a replica has them.

use braid_tests::server::is_braid;
use braid_tests::{RawClient, TestServer, wait_for};

use super::restarts::{Restarts, digests};

fn create(client: &mut RawClient) {
    for command in [
        "CMS.INITBYDIM cms 500 4",
        "CMS.INITBYDIM narrow 500 4 CELL_SIZE 1",
        "TOPK.RESERVE topk 5 20 3 0.9",
        "CF.RESERVE cf 20",
        "TDIGEST.CREATE td COMPRESSION 30",
        "BF.RESERVE bf 0.01 50",
    ] {
        client.ok(command);
    }
}

fn add(client: &mut RawClient, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let often = number * number % 23;
        for command in [
            format!("CMS.INCRBY cms i{often} {}", number * 100),
            format!("CMS.INCRBY narrow i{number} 1"),
            format!("TOPK.ADD topk i{often}"),
            format!("CF.ADD cf i{number}"),
            format!("CF.DEL cf i{}", number / 2),
            format!("TDIGEST.ADD td {often}.5 {number}"),
            format!("BF.ADD bf i{number}"),
        ] {
            let reply = client.call(&command);
            assert!(!reply.is_error(), "{command}: {reply}");
        }
    }
}

fn digest(client: &mut RawClient) -> String {
    digests(client, &["cms", "narrow", "topk", "cf", "td", "bf"])
}

#[test]
fn sketches_survive_kills_rewrites_and_saves() {
    for restarts in Restarts::in_both_forms() {
        let mut parts = [0..150, 150..250, 250..300].into_iter();
        let change = |client: &mut RawClient| {
            if parts.len() == 3 {
                create(client);
            }
            add(client, parts.next().expect("another part"));
        };
        restarts.keep(change, digest);
    }
}

#[test]
fn a_replica_has_the_same_sketches() {
    if !is_braid() {
        return;
    }
    let server = TestServer::start(&["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"]);
    let mut client = server.connect();
    create(&mut client);
    add(&mut client, 0..100);
    let port = server.port().to_string();
    let other = TestServer::start(&["--enable-debug-command", "yes", "--replicaof", "127.0.0.1", &port]);
    let mut its = other.connect();
    wait_for("the replica is in sync", || {
        its.info_field("replication", "master_link_status").as_deref() == Some("up")
    });
    add(&mut client, 100..200);
    client.ok("SET last 1");
    wait_for("the last change arrives", || its.call("EXISTS last").to_string() == "(integer) 1");
    assert_eq!(digest(&mut its), digest(&mut client));
}
