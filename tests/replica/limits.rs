// SPDX-License-Identifier: BSD-3-Clause
//! Replicas that are too slow, too few, or silent.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use braid_tests::{Value, request, wait_for};
use rustix::process::Signal;

use crate::{any_peer, assert_same, figure, primary, raw, replica, replica_in_sync, wait_until_in_sync};

#[test]
fn with_too_few_replicas_nothing_is_written() {
    let Some(peer) = any_peer() else { return };
    let server = primary(&["--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"]);
    let mut client = server.connect();
    let refusal = "NOREPLICAS Not enough good replicas to write.";
    let script = "EVAL \"return redis.call('SET', KEYS[1], 1)\" 1 k";
    assert_eq!(client.call("SET k v").text(), refusal);
    assert!(client.call("GET k").is_null());
    client.ok("MULTI");
    client.call("SET k v");
    assert!(client.call("EXEC").is_error());
    assert!(client.call(script).text().contains("NOREPLICAS"));
    let other = replica(&peer, &server, &[]);
    wait_for("writes are allowed", || client.call("SET k v") == Value::ok());
    assert_eq!(figure(&mut client, "replication", "min_slaves_good_slaves"), 1);
    assert!(!client.call(script).is_error());
    other.signal(Signal::STOP);
    wait_for("writes are refused", || client.call("SET k v").text() == refusal);
    other.signal(Signal::CONT);
    wait_for("writes are allowed", || client.call("SET k v") == Value::ok());
    client.ok("CONFIG SET min-replicas-to-write 2");
    assert_eq!(client.call("SET k v").text(), refusal);
    client.ok("CONFIG SET min-replicas-to-write 0");
    client.ok("SET k v");
}

#[test]
fn writes_are_allowed_as_soon_as_a_replica_is_online() {
    const TRIES: usize = 5;
    let server = primary(&["--min-replicas-to-write", "1"]);
    let mut client = server.connect();
    let mut at_once = |_: &usize| {
        wait_for("no replica is online", || client.call("SET k v").is_error());
        let (_link, ..) = raw::attached(&server);
        wait_for("the replica is online", || client.call("INFO replication").text().contains("state=online"));
        client.call("SET k v") == Value::ok()
    };
    // Writes are allowed immediately, not only after the next check of all replicas, which runs
    // once a second.
    let allowed = (0..TRIES).filter(&mut at_once).count();
    assert!(allowed * 2 > TRIES, "{allowed} of {TRIES}");
}

#[test]
fn a_replica_that_is_too_far_behind_is_cut_off() {
    let Some(peer) = any_peer() else { return };
    let server = primary(&["--repl-backlog-size", "16kb"]);
    let mut client = server.connect();
    let (other, mut its) = replica_in_sync(&peer, &server, &mut client);
    client.ok("CONFIG SET client-output-buffer-limit \"replica 1mb 0 0\"");
    other.signal(Signal::STOP);
    let value = "x".repeat(100_000);
    // Data in the sockets' buffers is not counted.
    wait_for("the link is closed", || {
        client.ok(&format!("SET k {value}"));
        figure(&mut client, "replication", "connected_slaves") == 0
    });
    client.ok("CONFIG SET client-output-buffer-limit \"replica 0 0 0\"");
    other.signal(Signal::CONT);
    wait_for("the replica reconnects", || figure(&mut client, "stats", "sync_full") == 2);
    assert_same(&mut client, &mut its);
}

#[test]
fn writes_wait_for_a_slow_replica() {
    const ROUNDS: usize = 500;
    let server = primary(&["--repl-backlog-size", "16kb", "--replica-throttle-writers", "yes"]);
    let mut client = server.connect();
    client.ok("CONFIG SET client-output-buffer-limit \"replica 32mb 0 0\"");
    let (mut link, ..) = raw::attached(&server);
    let value = "x".repeat(100_000);
    let written = AtomicUsize::new(0);
    let write = || {
        let mut writer = server.connect();
        for _ in 0..ROUNDS {
            writer.ok(&format!("SET k {value}"));
            written.fetch_add(1, SeqCst);
        }
    };
    let is_told = |line: &str| server.log().contains(line);
    std::thread::scope(|scope| {
        let writer = scope.spawn(write);
        wait_for("writes to pause", || {
            // The replica is alive, but reads nothing.
            link.send(&request("REPLCONF ACK 1"));
            is_told("Writes wait for replica")
        });
        let paused_at = written.load(SeqCst);
        assert!(paused_at < ROUNDS);
        assert_eq!(client.call("GET k").text(), value, "reads go on");
        // The stream is complete, and the replica was not disconnected.
        let mut received = 0;
        while received < ROUNDS * value.len() {
            received += link.read_bytes(100_000).len();
            link.send(&request("REPLCONF ACK 1"));
        }
        writer.join().expect("no panic");
        assert_eq!(figure(&mut client, "replication", "connected_slaves"), 1);
        wait_for("writes to go on", || is_told("Writes no longer wait for replicas"));
        // Once the replica is silent, writes continue, and it is disconnected.
        scope.spawn(write);
        wait_for("the link is closed", || figure(&mut client, "replication", "connected_slaves") == 0);
    });
    assert_eq!(written.load(SeqCst), 2 * ROUNDS);
    let told = |line: &str| server.log().matches(line).count();
    let ends = told("Writes no longer wait for replicas");
    assert!(ends > 0 && ends <= told("Writes wait for replica"), "each pause's end is logged once");
}

#[test]
fn a_silent_replica_is_cut_off() {
    let Some(peer) = any_peer() else { return };
    let server = primary(&["--repl-timeout", "2", "--timeout", "1"]);
    let mut client = server.connect();
    let (other, _its) = replica_in_sync(&peer, &server, &mut client);
    other.signal(Signal::STOP);
    // A new connection each time, because idle connections are closed.
    wait_for("the link is closed", || figure(&mut server.connect(), "replication", "connected_slaves") == 0);
    other.signal(Signal::CONT);
    wait_for("the replica reconnects", || figure(&mut server.connect(), "stats", "sync_partial_ok") == 1);
}

#[test]
fn slow_replica_output_buffer_causes_no_eviction() {
    let server = primary(&["--repl-backlog-size", "16kb", "--maxmemory-policy", "allkeys-random"]);
    let mut client = server.connect();
    for number in 0..50 {
        client.call(&format!("SETRANGE key:{number} 100000 x"));
    }
    let (_link, ..) = raw::attached(&server);
    let limit = figure(&mut client, "memory", "used_memory")
        - figure(&mut client, "memory", "mem_not_counted_for_evict")
        + (2 << 20);
    client.ok(&format!("CONFIG SET maxmemory {limit}"));
    // The replica reads nothing, and the rate is too high for any cron to keep up with.
    let change = request(&format!("SETRANGE key:0 0 {}", "y".repeat(90_000)));
    for _ in 0..10 {
        client.send(&change.repeat(30));
        (0..30).for_each(|_| assert!(!client.read().is_error()));
    }
    wait_for("the replica lags", || figure(&mut client, "memory", "mem_clients_slaves") > 10 << 20);
    assert!(figure(&mut client, "memory", "mem_not_counted_for_evict") > 10 << 20);
    assert_eq!(figure(&mut client, "stats", "evicted_keys"), 0);
    assert_eq!(client.call("DBSIZE").to_string(), "(integer) 50");
}

#[test]
fn a_replica_that_takes_no_full_sync_is_cut_off() {
    for streams in ["no", "yes"] {
        let server = primary(&["--repl-timeout", "2", "--repl-diskless-sync", streams]);
        let mut client = server.connect();
        // More than the sockets' buffers hold.
        let value = "x".repeat(100_000);
        for number in 0..200 {
            client.ok(&format!("SET {number} {value}"));
        }
        client.ok("CONFIG SET rdbcompression no");
        let mut link = server.connect();
        link.ok("REPLCONF listening-port 12345 capa psync2 capa eof");
        link.send(&request("PSYNC ? -1"));
        assert!(raw::line(&mut link).starts_with("+FULLRESYNC"));
        wait_for("the link is closed", || {
            // The replica is alive, but reads nothing.
            let _ = link.try_send(&request("REPLCONF ACK 1"));
            figure(&mut client, "replication", "connected_slaves") == 0
        });
        if server.is_braid() {
            let told = "Disconnecting timedout replica (full sync)";
            assert!(server.log().contains(told), "repl-diskless-sync {streams}: {}", server.log());
        }
    }
}

#[test]
fn without_replicas_nothing_is_kept_for_long() {
    let Some(peer) = any_peer() else { return };
    let server = primary(&["--repl-backlog-ttl", "1"]);
    let mut client = server.connect();
    let other = replica(&peer, &server, &[]);
    wait_until_in_sync(&mut client, &mut other.connect());
    let id = client.info_field("replication", "master_replid");
    drop(other);
    wait_for("the backlog is freed", || figure(&mut client, "replication", "repl_backlog_active") == 0);
    assert_ne!(client.info_field("replication", "master_replid"), id);
    let offset = figure(&mut client, "replication", "master_repl_offset");
    client.ok("SET k v");
    if server.is_braid() {
        assert_eq!(figure(&mut client, "replication", "master_repl_offset"), offset, "SET was journalled");
    }
    let again = replica(&peer, &server, &[]);
    assert_same(&mut client, &mut again.connect());
}
