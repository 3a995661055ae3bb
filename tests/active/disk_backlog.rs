// SPDX-License-Identifier: BSD-3-Clause
//! Peers that were away for longer than the backlog in memory reaches get units from the logs on
//! disk, and need no full copy.

use std::path::Path;

use super::crash::kept;
use super::{bring_to_log, cut, field, link_all, server, wait_until_equal};
use braid_tests::small_disk::SmallDisk;
use braid_tests::{TestServer, Value, wait_for};
use rustix::process::Signal;

/// Options of a server that keeps few units in memory.
const FEW: [&str; 2] = ["--active-backlog-size", "64kb"];

/// Writes more than fits in memory, including changes whose result differs if they are merged as
/// a copy or out of order.
fn write_much(server: &TestServer, name: &str) {
    let mut client = server.connect();
    for first in (0..5_000).step_by(50) {
        for number in first..first + 50 {
            client.ok(&format!("SET {name}:{} {number:0>100}", number % 500));
        }
        client.call("INCR counter");
        client.call(&format!("RPUSH list {name}{first}"));
        client.call(&format!("SADD set {name}{first}"));
        client.call(&format!("HSET hash field {name}{first}"));
    }
}

/// Syncs two servers and disconnects them, so that they lack only each other's later writes.
fn meet_and_part(one: &TestServer, two: &TestServer) {
    link_all(&[one, two]);
    one.connect().ok("SET first x");
    wait_until_equal(&[one, two]);
    cut(&[one, two]);
}

fn check_no_copies(servers: &[&TestServer]) {
    for server in servers {
        assert_eq!(field(server, "active_full_copies_merged"), 0, "{}", server.log());
        assert_eq!(field(server, "active_full_copies_sent"), 0, "{}", server.log());
    }
}

#[test]
fn a_peer_that_was_away_is_sent_units_from_disk() {
    let (one, two) = (server(1, &FEW), server(2, &FEW));
    link_all(&[&one, &two]);
    one.connect().call("RPUSH list first");
    wait_until_equal(&[&one, &two]);
    cut(&[&one, &two]);
    std::thread::scope(|scope| {
        scope.spawn(|| write_much(&one, "one"));
        scope.spawn(|| write_much(&two, "two"));
    });
    link_all(&[&one, &two]);
    // Writes continue while they catch up.
    write_much(&one, "meanwhile");
    wait_until_equal(&[&one, &two]);
    check_no_copies(&[&one, &two]);
    for server in [&one, &two] {
        assert!(field(server, "active_backlog_disk_bytes") > 1 << 20);
        assert!(field(server, "active_sent_from_disk") > 1000);
        let mut client = server.connect();
        assert_eq!(client.call("GET counter").text(), "300");
        assert_eq!(client.call("LLEN list"), Value::Integer(301));
        assert_eq!(client.call("DBSIZE"), Value::Integer(1504));
    }
}

/// A peer that was never seen before starts with the first unit.
#[test]
fn a_new_peer_is_sent_all_units_while_they_are_there() {
    let (one, two) = (server(1, &FEW), server(2, &[]));
    write_much(&one, "one");
    link_all(&[&one, &two]);
    wait_until_equal(&[&one, &two]);
    check_no_copies(&[&one, &two]);
}

fn end(mut server: TestServer, signal: Signal) {
    server.signal(signal);
    server.wait();
}

fn logs(folder: &Path) -> usize {
    let names = folder.read_dir().expect("a folder").flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".log")).count()
}

/// The peer's missing units are in the logs of several processes, some of which shut down cleanly
/// and some of which were killed.
#[test]
fn the_backlog_on_disk_outlives_restarts() {
    let folder = tempfile::tempdir().expect("a folder");
    let two = server(2, &FEW);
    let mut one = kept(1, &folder, &FEW);
    meet_and_part(&one, &two);
    for (round, signal) in [Signal::TERM, Signal::KILL, Signal::TERM, Signal::KILL].into_iter().enumerate() {
        write_much(&one, &format!("round{round}"));
        bring_to_log(&one);
        end(one, signal);
        one = kept(1, &folder, &FEW);
    }
    assert!(logs(folder.path()) >= 3, "expected a log per clean shutdown and the current one");
    write_much(&two, "two");
    link_all(&[&one, &two]);
    wait_until_equal(&[&one, &two]);
    check_no_copies(&[&one, &two]);
    assert_eq!(two.connect().call("LLEN list"), Value::Integer(500));
    assert_eq!(two.connect().call("GET counter").text(), "500");
}

/// Logs are limited in size; a peer that lacks units of deleted logs gets a full copy.
#[test]
fn logs_beyond_the_limit_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, two) = (kept(1, &folder, &FEW), server(2, &[]));
    meet_and_part(&one, &two);
    let mut client = one.connect();
    let value = "v".repeat(1 << 20);
    let path = |name: &str| folder.path().join(name);
    // Two new generations are enough, because the state stays small. Each begins when 64 MB have
    // been written.
    for number in 1..=2 {
        for _ in 0..80 {
            client.ok(&format!("SET key {value}"));
        }
        let (new, old) = (format!("active-{number}.state"), format!("active-{}.state", number - 1));
        wait_for("the next state", || path(&new).exists() && !path(&old).exists());
    }
    let second = path("active-1.log").metadata().expect("the second log").len();
    assert!(field(&one, "active_backlog_disk_bytes") > second + (64 << 20));
    client.ok(&format!("CONFIG SET active-backlog-disk-size {second}"));
    wait_for("the first log to be deleted", || !path("active-0.log").exists());
    assert!(path("active-1.log").exists());
    link_all(&[&one, &two]);
    wait_until_equal(&[&one, &two]);
    assert_eq!(field(&two, "active_full_copies_merged"), 1);
    // The peer now lacks only units that are kept.
    cut(&[&one, &two]);
    client.ok("SET later x");
    write_much(&one, "one");
    link_all(&[&one, &two]);
    wait_until_equal(&[&one, &two]);
    assert_eq!(field(&two, "active_full_copies_merged"), 1);
}

/// Logs kept for peers that may return are dropped if the disk is full.
#[test]
fn a_full_disk_costs_old_logs() {
    let Some(disk) = SmallDisk::mount("250m") else {
        println!("skipped: mounting a disk needs root");
        return;
    };
    let folder = disk.path().to_str().expect("a name");
    let (one, two) = (server(1, &["--dir", folder]), server(2, &[]));
    link_all(&[&one, &two]);
    let mut client = one.connect();
    let value = "v".repeat(1 << 20);
    for number in 0..350 {
        client.ok(&format!("SET key {number}{value}"));
    }
    wait_until_equal(&[&one, &two]);
    let log = one.log();
    assert!(log.contains("the disk is full: logs kept for peers were removed"), "{log}");
    assert!(!log.contains("the log cannot be written"), "{log}");
    assert!(field(&one, "active_backlog_disk_bytes") < 250 << 20);
}

/// An unreadable log is not fatal: a full copy transfers everything.
#[test]
fn a_damaged_log_means_a_full_copy() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, two) = (kept(1, &folder, &FEW), server(2, &[]));
    meet_and_part(&one, &two);
    write_much(&one, "one");
    end(one, Signal::TERM);
    let log = folder.path().join("active-0.log");
    let mut bytes = std::fs::read(&log).expect("the log");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&log, bytes).expect("the log is writable");
    let one = kept(1, &folder, &FEW);
    link_all(&[&one, &two]);
    wait_until_equal(&[&one, &two]);
    assert_eq!(field(&two, "active_full_copies_merged"), 1);
    assert!(one.log().contains("active-0.log is damaged"), "{}", one.log());
}
