// SPDX-License-Identifier: BSD-3-Clause
//! Full syncs in parallel with the stream (`dual-channel-replication-enabled`), between servers
//! under test and with Valkey in either role.

use braid_tests::random::source;
use braid_tests::server::{Peer, peer, program_under_test};
use braid_tests::{TestServer, request, wait_for};

use crate::workload::Writers;
use crate::{assert_same, figure, peers, primary, raw};

const ON: [&str; 4] = ["--dual-channel-replication-enabled", "yes", "--enable-debug-command", "yes"];

/// The servers that support it.
fn sides() -> Vec<Peer> {
    let valkey = peers().into_iter().filter(|peer| peer.version.contains("valkey"));
    peer(program_under_test()).into_iter().chain(valkey).collect()
}

#[test]
fn the_stream_comes_while_the_full_sync_does() {
    for (of, by) in sides().iter().flat_map(|of| sides().into_iter().map(move |by| (of, by))) {
        if of.version == by.version && of.version.contains("valkey") {
            continue;
        }
        let is_own = of.version == by.version;
        let loads = if is_own { &["disabled", "flush-before-load", "swapdb"][..] } else { &["swapdb"] };
        for &load in loads {
            println!("{} of {}, {load}", by.version, of.version);
            let mut random = source("the_stream_comes_while_the_full_sync_does");
            let usual = [&ON[..], &["--repl-diskless-sync-delay", "0"]].concat();
            let server = TestServer::start_program(&of.program, &usual);
            let mut client = server.connect();
            client.ok("DEBUG POPULATE 10000 key 50");
            // Slow enough for a stream of some length.
            client.ok("CONFIG SET rdb-key-save-delay 20");
            let writers = Writers::start(&server, 2, &mut random);
            writers.go_on(50);
            let port = server.port().to_string();
            let arguments = ["--replicaof", "127.0.0.1", &port, "--repl-diskless-load", load];
            let replica = TestServer::start_program(&by.program, &[&ON[..], &arguments].concat());
            let mut its = replica.connect();
            wait_for("the link is up", || {
                its.info_field("replication", "master_link_status").as_deref() == Some("up")
            });
            writers.go_on(100);
            writers.stop();
            assert_same(&mut client, &mut its);
            assert_eq!(figure(&mut client, "stats", "sync_full"), 1);
            assert_eq!(figure(&mut client, "stats", "sync_partial_ok"), 1);
            // From now on it is an ordinary replica.
            its.call("CLIENT KILL TYPE master");
            wait_for("the replica reconnects", || figure(&mut client, "stats", "sync_partial_ok") == 2);
            client.ok("SET last 1");
            assert_same(&mut client, &mut its);
            assert_eq!(figure(&mut client, "stats", "sync_full"), 1);
        }
    }
}

/// The stream is kept from the cut on, even if the second connection closes before the first one
/// requests it.
#[test]
fn the_stream_is_kept_until_it_is_asked_for() {
    let server = primary(&["--dual-channel-replication-enabled", "yes", "--repl-backlog-size", "16kb"]);
    let mut client = server.connect();
    client.ok("SET a 1");
    let mut link = server.connect();
    link.ok("REPLCONF capa eof capa psync2 capa dual-channel");
    assert_eq!(link.call("PSYNC ? -1").text(), "DUALCHANNELSYNC");
    let mut copy = server.connect();
    copy.ok("REPLCONF capa eof rdb-only 1 rdb-channel 1 listening-port 1234");
    copy.send(&request("SYNC"));
    let head = raw::line(&mut copy);
    let words: Vec<&str> = head.strip_prefix("$ENDOFF:").expect("an offset").split(' ').collect();
    let [offset, id, _db, name] = words[..] else { panic!("{head}") };
    assert!(raw::copy(&mut copy).starts_with(b"REDIS00"));
    assert_eq!(copy.read_bytes(1), b"", "the connection stays open after the full sync");
    // More than the capacity of the backlog.
    client.ok(&format!("SET b {}", "x".repeat(100_000)));
    assert!(link.call("REPLCONF set-rdb-client-id 0").text().contains("Unrecognized RDB client id 0"));
    link.ok(&format!("REPLCONF set-rdb-client-id {name}"));
    let next: i64 = offset.parse::<i64>().expect("a number") + 1;
    link.send(&request(&format!("PSYNC {id} {next}")));
    assert_eq!(raw::line(&mut link), format!("+CONTINUE {id}"));
    let stream = link.read_bytes(100);
    assert!(stream.starts_with(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n"), "{stream:?}");
    let state = client.info_field("replication", "slave0").expect("a replica");
    assert!(state.contains("state=send_bulk"), "the full sync counts as loaded: {state}");
    link.send(&request("REPLCONF ACK 0"));
    wait_for("the replica is online", || {
        client.info_field("replication", "slave0").expect("a replica").contains("state=online")
    });
}
