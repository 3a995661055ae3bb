// SPDX-License-Identifier: BSD-3-Clause
//! Shutdown of the primary: lagging replicas get time to catch up.

use braid_tests::{RawClient, TestServer, Value, wait_for};
use rustix::process::Signal;

use crate::{any_peer, assert_same, figure, primary, replica, wait_until_in_sync};

/// A primary with these arguments whose replica is stopped and lacks `INCR k`, and a client of
/// each.
struct Lagging {
    server: TestServer,
    other: TestServer,
    client: RawClient,
    its: RawClient,
}

fn lagging(arguments: &[&str]) -> Option<Lagging> {
    let peer = any_peer()?;
    let server = primary(arguments);
    let mut client = server.connect();
    let other = replica(&peer, &server, &[]);
    let mut its = other.connect();
    client.ok("SET k 1");
    wait_until_in_sync(&mut client, &mut its);
    other.signal(Signal::STOP);
    assert_eq!(client.call("INCR k"), Value::Integer(2));
    Some(Lagging { server, other, client, its })
}

/// Requests the server's shutdown over another connection, which stays blocked.
fn shut_down(server: &TestServer, client: &mut RawClient, request: &str) -> RawClient {
    let mut asking = server.connect();
    let before = figure(client, "clients", "blocked_clients");
    asking.send(&braid_tests::request(request));
    wait_for("the client waits", || figure(client, "clients", "blocked_clients") == before + 1);
    asking
}

#[test]
fn replicas_catch_up_before_the_primary_ends() {
    for by_signal in [true, false] {
        let arguments = ["--shutdown-timeout", "300"];
        let Some(Lagging { mut server, other, mut client, mut its }) = lagging(&arguments) else { return };
        let asking = if by_signal {
            server.signal(Signal::TERM);
            None
        } else {
            Some(shut_down(&server, &mut client, "SHUTDOWN"))
        };
        wait_for("the shutdown waits", || client.info_field("server", "shutdown_in_milliseconds").is_some());
        assert_eq!(client.call("GET k"), Value::bulk("2"), "reads go on");
        // Writes do not: this one is never executed.
        let mut writer = server.connect();
        writer.send(&braid_tests::request("INCR k"));
        let waiting = 1 + i64::from(asking.is_some());
        wait_for("the write waits", || figure(&mut client, "clients", "blocked_clients") == waiting);
        assert_eq!(client.call("CLIENT UNPAUSE"), Value::ok());
        // The pause for the shutdown is not a client's to end. UNPAUSE makes the server check all
        // paused clients again.
        wait_for("the write waits again", || figure(&mut client, "clients", "blocked_clients") == waiting);
        assert_eq!(client.call("GET k"), Value::bulk("2"));
        other.signal(Signal::CONT);
        wait_for("the primary has exited", || !server.is_alive());
        assert!(writer.try_read().is_err());
        wait_for("the replica has the last write", || its.call("GET k") == Value::bulk("2"));
        let log = server.log();
        assert!(log.contains("1 of 1 replicas are in sync when shutting down"), "{log}");
        assert!(!log.contains("Lagging replica"), "{log}");
    }
}

#[test]
fn a_replica_that_takes_too_long_is_not_waited_for() {
    for (timeout, request) in [("1", "SHUTDOWN"), ("0", "SHUTDOWN"), ("300", "SHUTDOWN NOW")] {
        let arguments = ["--shutdown-timeout", timeout];
        let Some(Lagging { mut server, other, mut client, .. }) = lagging(&arguments) else { return };
        client.send(&braid_tests::request(request));
        wait_for("the primary has exited", || !server.is_alive());
        other.signal(Signal::CONT);
        let log = server.log();
        let waited = timeout == "1";
        assert_eq!(log.contains("Waiting for replicas before shutting down."), waited, "{log}");
        assert_eq!(log.contains("Lagging replica"), waited, "{log}");
        assert_eq!(log.contains("0 of 1 replicas are in sync when shutting down"), waited, "{log}");
    }
}

#[test]
fn shutdown_caller_gets_an_error_when_shutdown_fails() {
    let error = |client: &mut RawClient| {
        assert_eq!(client.read().text(), "ERR Errors trying to SHUTDOWN. Check logs.")
    };
    let Some(Lagging { server, other, mut client, mut its }) = lagging(&["--shutdown-timeout", "300"]) else {
        return;
    };
    assert_eq!(client.call("SHUTDOWN ABORT").text(), "ERR No shutdown in progress.");
    // Aborted.
    let mut first = shut_down(&server, &mut client, "SHUTDOWN");
    let mut second = shut_down(&server, &mut client, "SHUTDOWN NOW");
    wait_for("the shutdown waits", || client.info_field("server", "shutdown_in_milliseconds").is_some());
    let mut writer = server.connect();
    writer.send(&braid_tests::request("INCR k"));
    wait_for("the write waits", || figure(&mut client, "clients", "blocked_clients") == 3);
    client.ok("SHUTDOWN ABORT");
    error(&mut first);
    error(&mut second);
    assert_eq!(writer.read(), Value::Integer(3), "writes go on");
    assert!(client.info_field("server", "shutdown_in_milliseconds").is_none());
    // Impossible: the first base of an append-only file takes long.
    let mut third = shut_down(&server, &mut client, "SHUTDOWN");
    client.ok("CONFIG SET rdb-key-save-delay 30000000");
    client.ok("CONFIG SET appendonly yes");
    other.signal(Signal::CONT);
    error(&mut third);
    assert_eq!(client.call("INCR k"), Value::Integer(4), "writes go on");
    let log = server.log();
    for line in
        ["Shutdown manually aborted", "1 of 1 replicas are in sync", "Writing initial AOF, can't exit"]
    {
        assert!(log.contains(line), "{line}: {log}");
    }
    client.ok("CONFIG SET appendonly no");
    assert_same(&mut client, &mut its);
}

#[test]
fn a_replica_that_cannot_end_follows_on() {
    let server = primary(&[]);
    let port = server.port().to_string();
    let slow = ["--rdb-key-save-delay", "20000"];
    let replica = TestServer::start(&[&["--replicaof", "127.0.0.1", &port], &slow[..]].concat());
    let (mut client, mut its) = (server.connect(), replica.connect());
    (0..50).for_each(|number| client.ok(&format!("SET k{number} x")));
    wait_until_in_sync(&mut client, &mut its);
    // A folder stands where the dump file of its full sync was.
    let dump = replica.directory().join("dump.rdb");
    std::fs::remove_file(&dump).expect("a full sync");
    std::fs::create_dir_all(dump.join("in-the-way")).expect("a folder");
    assert!(its.call("SHUTDOWN SAVE").text().starts_with("ERR Errors trying to SHUTDOWN"));
    client.ok("SET k after");
    wait_for("the replica applies the write", || its.call("GET k") == Value::bulk("after"));
}
