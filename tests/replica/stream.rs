// SPDX-License-Identifier: BSD-3-Clause
//! The stream of changes after the link was cut: resumed from the backlog, or started over.

use braid_tests::certificates::certificates;
use braid_tests::random::source;
use braid_tests::server::free_port;
use braid_tests::{Value, wait_for};
use rustix::process::Signal;

use crate::workload::Writers;
use crate::{
    any_peer, assert_same, figure, peers, primary, replica, replica_at, replica_in_sync, wait_until_in_sync,
};

#[test]
fn replica_resumes_after_a_lost_link() {
    for peer in peers() {
        println!("{}", peer.version);
        let mut random = source("a_replica_goes_on_where_the_link_was_cut");
        let server = primary(&["--repl-backlog-size", "8mb"]);
        let mut client = server.connect();
        let (_other, mut its) = replica_in_sync(&peer, &server, &mut client);
        let writers = Writers::start(&server, 3, &mut random);
        for round in 1..=3 {
            writers.go_on(200);
            assert_eq!(client.call("CLIENT KILL TYPE replica"), Value::Integer(1));
            wait_for("the replica reconnects", || figure(&mut client, "stats", "sync_partial_ok") == round);
        }
        writers.stop();
        assert_same(&mut client, &mut its);
        assert_eq!(figure(&mut client, "stats", "sync_full"), 1);
    }
}

/// Over TLS only, where a file or a pipe would otherwise be used.
#[test]
fn replica_can_sync_over_tls() {
    for (peer, diskless) in peers().iter().flat_map(|peer| ["yes", "no"].map(|diskless| (peer, diskless))) {
        println!("{}, diskless {diskless}", peer.version);
        let mut random = source("a_replica_may_come_by_tls");
        let folder = certificates();
        let file = |name: &str| folder.path().join(name).to_str().expect("a readable path").to_owned();
        let (authority, port) = (file("ca.pem"), free_port().to_string());
        let tls = |name: &str| {
            let own = ["--tls-cert-file".to_owned(), file(&format!("{name}.pem"))];
            let key = ["--tls-key-file".to_owned(), file(&format!("{name}.key"))];
            [&own[..], &key, &["--tls-ca-cert-file".to_owned(), authority.clone()]].concat()
        };
        fn words(arguments: &[String]) -> Vec<&str> {
            arguments.iter().map(String::as_str).collect()
        }
        let own = tls("server");
        let server =
            primary(&[&words(&own)[..], &["--tls-port", &port, "--repl-diskless-sync", diskless]].concat());
        let mut client = server.connect();
        client.ok("SET large x");
        client.call("SETRANGE large 3000000 x");
        let own = tls("client");
        let other = replica_at(peer, &port, &[&words(&own)[..], &["--tls-replication", "yes"]].concat());
        let mut its = other.connect();
        wait_until_in_sync(&mut client, &mut its);
        let writers = Writers::start(&server, 3, &mut random);
        writers.go_on(300);
        assert_eq!(client.call("CLIENT KILL TYPE replica"), Value::Integer(1));
        wait_for("the replica reconnects", || figure(&mut client, "stats", "sync_partial_ok") == 1);
        writers.go_on(100);
        writers.stop();
        assert_same(&mut client, &mut its);
    }
}

#[test]
fn a_replica_that_was_away_too_long_gets_a_copy() {
    for peer in peers() {
        println!("{}", peer.version);
        let server = primary(&["--repl-backlog-size", "16kb"]);
        let mut client = server.connect();
        let (other, mut its) = replica_in_sync(&peer, &server, &mut client);
        assert_eq!(figure(&mut client, "replication", "repl_backlog_active"), 1);
        other.signal(Signal::STOP);
        assert_eq!(client.call("CLIENT KILL TYPE replica"), Value::Integer(1));
        wait_for("the link is closed", || figure(&mut client, "replication", "connected_slaves") == 0);
        for number in 0..100 {
            client.ok(&format!("SET k{number} {}", "x".repeat(1000)));
        }
        assert_eq!(figure(&mut client, "replication", "repl_backlog_histlen"), 16 << 10);
        other.signal(Signal::CONT);
        wait_for("the replica reconnects", || figure(&mut client, "stats", "sync_full") == 2);
        assert_same(&mut client, &mut its);
        assert_eq!(figure(&mut client, "stats", "sync_partial_ok"), 0);
        assert_eq!(figure(&mut client, "stats", "sync_partial_err"), 1);
    }
}

#[test]
fn expired_and_evicted_keys_are_removed_on_the_replica() {
    let Some(peer) = any_peer() else { return };
    let server = primary(&["--maxmemory-policy", "allkeys-random"]);
    let mut client = server.connect();
    let other = replica(&peer, &server, &[]);
    let mut its = other.connect();
    for number in 0..500 {
        client.ok(&format!("SET short:{number} 1 PX 20"));
        client.ok(&format!("SET long:{number} {}", "x".repeat(1000)));
    }
    wait_for("the keys have expired", || figure(&mut client, "stats", "expired_keys") == 500);
    assert_same(&mut client, &mut its);
    client.ok("CONFIG SET maxmemory 1");
    wait_for("some keys are evicted", || {
        client.call("SET one more");
        figure(&mut client, "stats", "evicted_keys") > 50
    });
    client.ok("CONFIG SET maxmemory 0");
    assert!(figure(&mut client, "stats", "evicted_keys") > 0);
    client.ok("SET last 1");
    assert_same(&mut client, &mut its);
}

#[test]
fn replicas_receive_published_messages() {
    let Some(peer) = any_peer() else { return };
    let server = primary(&["--appendonly", "yes"]);
    let mut client = server.connect();
    let other = replica(&peer, &server, &[]);
    let (mut its, mut listener) = (other.connect(), other.connect());
    wait_until_in_sync(&mut client, &mut its);
    listener.call("SUBSCRIBE news");
    client.ok("SET before 1");
    assert_eq!(client.call("PUBLISH news hello"), Value::Integer(0));
    let message = listener.read();
    assert_eq!(message.elements().map(|parts| parts[2].text()), Some("hello".to_owned()));
    client.ok("MULTI");
    client.call("SET within 1");
    client.call("PUBLISH news again");
    client.call("EXEC");
    assert_eq!(listener.read().elements().map(|parts| parts[2].text()), Some("again".to_owned()));
    assert_eq!(its.call("GET within"), Value::bulk("1"), "the replica lacks the write before the message");
    assert_same(&mut client, &mut its);
}
