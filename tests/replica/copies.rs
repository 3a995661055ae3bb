// SPDX-License-Identifier: BSD-3-Clause
//! Full syncs: complete despite concurrent changes, and shared by replicas; also an append-only
//! file that contains nothing of the link.

use braid_tests::random::source;
use braid_tests::{RawClient, TestServer, wait_for};

use crate::fill::fill;
use crate::workload::Writers;
use crate::{any_peer, assert_same, figure, peers, primary, replica, wait_until_in_sync};

fn fill_databases(client: &mut RawClient, random: &mut fastrand::Rng) {
    for db in [0, 9] {
        client.ok(&format!("SELECT {db}"));
        fill(client, random, false);
        for number in 0..300 {
            client.ok(&format!("SET plain:{number} {number} EX 1000000"));
        }
    }
    client.ok("SELECT 0");
    let library = "FUNCTION LOAD \"#!lua name=lib\\nredis.register_function('f', function() return 7 end)\"";
    assert_eq!(client.call(library).text(), "lib");
}

#[test]
fn a_copy_is_complete_while_everything_changes() {
    for peer in peers() {
        for streamed in ["yes", "no"] {
            println!("{} with repl-diskless-sync {streamed}", peer.version);
            let mut random = source("a_copy_is_complete_while_everything_changes");
            // Slow enough for concurrent changes.
            let server = primary(&["--repl-diskless-sync", streamed, "--rdb-key-save-delay", "200"]);
            let mut client = server.connect();
            fill_databases(&mut client, &mut random);
            let writers = Writers::start(&server, 3, &mut random);
            writers.go_on(100);
            let other = replica(&peer, &server, &[]);
            let mut its = other.connect();
            wait_for("the link is up", || {
                its.info_field("replication", "master_link_status").as_deref() == Some("up")
            });
            writers.go_on(500);
            writers.stop();
            assert_same(&mut client, &mut its);
            assert!(its.call("FCALL_RO f 0").text().contains("write"), "the function is missing");
            assert_eq!(figure(&mut client, "stats", "sync_full"), 1);
            assert_eq!(figure(&mut client, "replication", "connected_slaves"), 1);
        }
    }
}

/// Number of full syncs that a server has started.
fn full_syncs_started(server: &TestServer) -> usize {
    server.log().matches("Starting a full copy").count()
}

#[test]
fn replicas_share_a_copy() {
    let Some(peer) = any_peer() else { return };
    // Replicas that connect during the delay share a full sync; if it is written to a file, so do
    // those that connect while it is made.
    let late = ["--repl-diskless-sync-delay", "60", "--repl-diskless-sync-max-replicas", "2"];
    let slow = ["--repl-diskless-sync", "no", "--rdb-key-save-delay", "3000"];
    for arguments in [late, slow] {
        let server = primary(&arguments);
        let mut client = server.connect();
        fill_databases(&mut client, &mut source("replicas_share_a_copy"));
        let first = replica(&peer, &server, &[]);
        wait_for("one replica is connected", || figure(&mut client, "replication", "connected_slaves") == 1);
        if arguments == slow {
            wait_for("a full sync is running", || {
                figure(&mut client, "persistence", "rdb_bgsave_in_progress") == 1
            });
        } else {
            assert_eq!(
                figure(&mut client, "persistence", "rdb_bgsave_in_progress"),
                0,
                "the full sync did not wait for other replicas"
            );
        }
        let second = replica(&peer, &server, &[]);
        client.ok("SET between 1");
        for other in [&first, &second] {
            assert_same(&mut client, &mut other.connect());
        }
        assert_eq!(figure(&mut client, "stats", "sync_full"), 2);
        if server.is_braid() {
            assert_eq!(full_syncs_started(&server), 1);
        }
    }
}

#[test]
fn a_copy_waits_for_a_save_and_a_rewrite() {
    let Some(peer) = any_peer() else { return };
    let server = primary(&["--rdb-key-save-delay", "1000", "--appendonly", "yes"]);
    let mut client = server.connect();
    fill_databases(&mut client, &mut source("a_copy_waits_for_a_save_and_a_rewrite"));
    assert!(!client.call("BGSAVE").is_error());
    let other = replica(&peer, &server, &[]);
    assert_same(&mut client, &mut other.connect());
    // Slow enough to be observed.
    client.ok("CONFIG SET rdb-key-save-delay 5000");
    let again = replica(&peer, &server, &[]);
    wait_for("a full sync is running", || figure(&mut client, "persistence", "rdb_bgsave_in_progress") == 1);
    assert!(client.call("BGREWRITEAOF").text().contains("scheduled"));
    assert!(client.call("BGSAVE").is_error());
    assert_same(&mut client, &mut again.connect());
    wait_for("no rewrite is scheduled", || figure(&mut client, "persistence", "aof_rewrite_scheduled") == 0);
}

#[test]
fn a_replica_that_goes_while_it_is_copied_for_leaves_nothing() {
    let Some(peer) = any_peer() else { return };
    for streamed in ["yes", "no"] {
        let server = primary(&["--repl-diskless-sync", streamed, "--rdb-key-save-delay", "2000"]);
        let mut client = server.connect();
        fill_databases(&mut client, &mut source("a_replica_that_goes"));
        let first = replica(&peer, &server, &[]);
        wait_for("a full sync is running", || {
            figure(&mut client, "persistence", "rdb_bgsave_in_progress") == 1
        });
        drop(first);
        wait_for("the link is closed", || figure(&mut client, "replication", "connected_slaves") == 0);
        client.ok("CONFIG SET rdb-key-save-delay 0");
        let second = replica(&peer, &server, &[]);
        client.ok("SET after 1");
        assert_same(&mut client, &mut second.connect());
    }
}

#[test]
fn append_only_file_contains_no_replication_link_traffic() {
    let Some(peer) = any_peer() else { return };
    for policy in ["always", "everysec"] {
        let mut random = source("the_file_of_one_that_keeps_a_log");
        let server =
            primary(&["--appendonly", "yes", "--appendfsync", policy, "--repl-ping-replica-period", "1"]);
        let mut client = server.connect();
        fill_databases(&mut client, &mut random);
        let other = replica(&peer, &server, &[]);
        let mut its = other.connect();
        let writers = Writers::start(&server, 2, &mut random);
        for _ in 0..3 {
            writers.go_on(100);
            wait_for("the last rewrite is over", || {
                ["aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress"]
                    .iter()
                    .all(|field| figure(&mut client, "persistence", field) == 0)
            });
            assert!(!client.call("BGREWRITEAOF").is_error());
        }
        writers.stop();
        wait_until_in_sync(&mut client, &mut its);
        let offset = figure(&mut client, "replication", "master_repl_offset");
        wait_for("a PING is sent", || figure(&mut client, "replication", "master_repl_offset") > offset);
        client.ok("SET behind ping");
        assert_eq!(client.call("WAIT 1 0").integer(), Some(1));
        assert_same(&mut client, &mut its);
        wait_for("the rewrite ends", || figure(&mut client, "persistence", "aof_rewrite_in_progress") == 0);
        let digest = client.call("DEBUG DIGEST");
        assert!(!client.call("DEBUG LOADAOF").is_error());
        assert_eq!(client.call("DEBUG DIGEST"), digest);
        let folder = server.directory().join("appendonlydir");
        for file in std::fs::read_dir(folder).expect("the AOF folder") {
            let bytes = std::fs::read(file.expect("a file").path()).expect("a file");
            assert!(!bytes.windows(6).any(|window| window == b"\nPING\r"), "the AOF has a PING");
            assert!(!bytes.windows(6).any(|window| window == b"GETACK"), "the AOF has a GETACK");
        }
    }
}
