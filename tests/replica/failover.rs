// SPDX-License-Identifier: BSD-3-Clause
//! FAILOVER: nothing is lost, and clients wait only briefly.

use std::time::{Duration, Instant};

use braid_tests::random::source;
use braid_tests::server::{Peer, peer, program_under_test};
use braid_tests::{RawClient, TestServer, wait_for};
use rustix::process::Signal;

use crate::{any_peer, assert_same, wait_until_in_sync};

const USUAL: [&str; 4] = ["--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes"];

fn pair(program: &Peer) -> (TestServer, TestServer, RawClient, RawClient) {
    let primary = TestServer::start(&USUAL);
    let port = primary.port().to_string();
    let replica = TestServer::start_program(
        &program.program,
        &[&USUAL[..], &["--replicaof", "127.0.0.1", &port]].concat(),
    );
    let (mut client, mut its) = (primary.connect(), replica.connect());
    wait_until_in_sync(&mut client, &mut its);
    (primary, replica, client, its)
}

fn state(client: &mut RawClient) -> String {
    client.info_field("replication", "master_failover_state").expect("a state")
}

#[test]
fn a_replica_takes_over_with_everything() {
    for program in [peer(program_under_test()), any_peer()].into_iter().flatten() {
        println!("to {}", program.version);
        let mut random = source("a_replica_takes_over_with_everything");
        let (primary, replica, mut client, mut its) = pair(&program);
        let mut writer = primary.connect();
        let mut acknowledged = 0;
        for number in 0..random.u64(500..1000) {
            writer.ok(&format!("SET n {number}"));
            acknowledged = number;
        }
        let began = Instant::now();
        client.ok(&format!("FAILOVER TO 127.0.0.1 {} TIMEOUT 10000", replica.port()));
        // The write waits until the replica has taken over; then this server, now a replica,
        // refuses it.
        let reply = writer.call("SET n lost");
        assert!(reply.text().starts_with("READONLY"), "{reply}");
        let waited = began.elapsed();
        wait_for("the failover is over", || state(&mut client) == "no-failover");
        println!("a write waited for {waited:?}");
        assert!(waited < Duration::from_secs(5), "{waited:?}");
        wait_until_in_sync(&mut its, &mut client);
        assert_eq!(its.call("GET n").text(), acknowledged.to_string());
        assert_eq!(its.call("ROLE").elements().expect("a list")[0].text(), "master");
        its.ok("SET n after");
        assert_same(&mut its, &mut client);
    }
}

#[test]
fn a_failover_that_cannot_be_is_refused_or_given_up() {
    let Some(program) = peer(program_under_test()) else { return };
    let (primary, replica, mut client, _its) = pair(&program);
    let at = format!("TO 127.0.0.1 {}", replica.port());
    let refused = |client: &mut RawClient, request: &str, error: &str| {
        let reply = client.call(request);
        assert!(reply.text().starts_with(error), "{request}: {reply}");
    };
    refused(&mut client, "FAILOVER ABORT", "ERR No failover in progress.");
    refused(&mut client, "FAILOVER TO 127.0.0.1 1", "ERR FAILOVER target HOST and PORT is not a replica.");
    refused(&mut client, &format!("FAILOVER {at} FORCE"), "ERR FAILOVER with force option requires both");
    replica.signal(Signal::STOP);
    client.ok("SET a 1");
    client.ok(&format!("FAILOVER {at} TIMEOUT 300"));
    refused(&mut client, "FAILOVER", "ERR FAILOVER already in progress.");
    refused(&mut client, "REPLICAOF NO ONE", "ERR REPLICAOF not allowed while failing over.");
    // Writes wait, and then continue.
    let mut writer = primary.connect();
    writer.ok("SET a 2");
    assert_eq!(state(&mut client), "no-failover");
    client.ok(&format!("FAILOVER {at}"));
    assert_eq!(state(&mut client), "waiting-for-sync");
    client.ok("FAILOVER ABORT");
    writer.ok("SET a 3");
    // Forced: the replica becomes the primary, and its missing writes are lost.
    client.ok(&format!("FAILOVER {at} TIMEOUT 200 FORCE"));
    wait_for("the replica is asked to take over", || state(&mut client) == "failover-in-progress");
    replica.signal(Signal::CONT);
    wait_for("the failover is over", || state(&mut client) == "no-failover");
    let mut its = replica.connect();
    wait_until_in_sync(&mut its, &mut client);
    assert_eq!(its.call("ROLE").elements().expect("a list")[0].text(), "master");
}

/// The primary is shut down by a signal or by a client.
#[test]
fn a_replica_takes_over_when_the_primary_ends() {
    let programs = [peer(program_under_test()), any_peer()].into_iter().flatten();
    for (program, by_signal) in programs.flat_map(|program| [(program.clone(), true), (program, false)]) {
        println!("to {}, by a signal: {by_signal}", program.version);
        let (mut primary, replica, mut client, mut its) = pair(&program);
        client.ok("CONFIG SET shutdown-on-sigterm \"failover nosave\"");
        let other = TestServer::start_program(
            program_under_test(),
            &[&USUAL[..], &["--replicaof", "127.0.0.1", &primary.port().to_string()]].concat(),
        );
        let mut of_other = other.connect();
        wait_until_in_sync(&mut client, &mut of_other);
        let mut last = 0;
        for number in 0..200 {
            client.ok(&format!("SET n {number}"));
            last = number;
        }
        if by_signal {
            primary.signal(Signal::TERM);
        } else {
            client.send(&braid_tests::request("SHUTDOWN NOSAVE FAILOVER"));
        }
        assert!(primary.wait().success(), "{}", primary.log());
        assert!(primary.log().contains("Failover complete."), "{}", primary.log());
        // One of the two replicas is the primary now, and has everything.
        let role = |client: &mut RawClient| client.call("ROLE").elements().expect("a list")[0].text();
        let roles = [role(&mut its), role(&mut of_other)];
        assert!(roles.contains(&"master".to_string()), "{roles:?}");
        let promoted = if roles[0] == "master" { &mut its } else { &mut of_other };
        assert_eq!(promoted.call("GET n").text(), last.to_string());
        promoted.ok("SET n after");
        drop(replica);
    }
}

#[test]
fn without_a_replica_in_sync_the_primary_ends_alone() {
    let Some(program) = peer(program_under_test()) else { return };
    let (mut primary, replica, mut client, _its) = pair(&program);
    client.ok("CONFIG SET shutdown-timeout 1");
    replica.signal(Signal::STOP);
    client.ok("SET a 1");
    client.send(&braid_tests::request("SHUTDOWN FAILOVER NOSAVE"));
    assert!(primary.wait().success(), "{}", primary.log());
    assert!(primary.log().contains("no replica has caught up"), "{}", primary.log());
    replica.signal(Signal::CONT);
    let mut its = replica.connect();
    assert_eq!(its.call("ROLE").elements().expect("a list")[0].text(), "slave");
}
