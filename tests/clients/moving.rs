// SPDX-License-Identifier: BSD-3-Clause
//! Cluster clients while the cluster changes: slots move back and forth, a node joins, a primary
//! hands over, another one dies. The programs tolerate only the errors that any cluster causes
//! when a primary dies, because a library gives up on a request or does not look for the new
//! primary; each program's header lists them. The programs configure their libraries to retry for
//! as long as a failover takes, as with a stock cluster.
//!
//! A program works until its standard input ends, so a run lasts as long as the changes take.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use braid_tests::Value;
use braid_tests::cluster::Cluster;
use rustix::process::Signal;

use crate::{folder, is_skipped, java_program, judge};

/// The changes to the cluster while a program runs.
#[derive(Clone, Copy, PartialEq)]
enum Changes {
    /// Slots move back and forth between two shards.
    Moves,
    /// In addition, a node joins, a primary hands over and another one dies.
    Failover,
}

impl Changes {
    fn name(self) -> &'static str {
        match self {
            Changes::Moves => "moves",
            Changes::Failover => "failover",
        }
    }

    fn start_cluster(self) -> Option<Cluster> {
        match self {
            Changes::Moves => Cluster::create(2, 2, &[]),
            // Then no acknowledged write is lost, whichever node dies.
            Changes::Failover => Cluster::create(4, 2, &["--sync-writes", "yes"]),
        }
    }

    fn make(self, cluster: &mut Cluster) {
        for turn in 0..6 {
            cluster.move_slots(turn % 2, 1 - turn % 2, "0 4095");
            wait_for_work(cluster);
        }
        if self == Changes::Failover {
            join(cluster);
            hand_over(cluster);
            kill(cluster);
        }
    }
}

/// Waits until the program has made progress. Moves in quick succession would redirect a single
/// request more often than libraries allow.
fn wait_for_work(cluster: &Cluster) {
    let before = increments(cluster);
    cluster.wait_for("the program to make progress", || increments(cluster) >= before + 100);
}

/// Number of INCR and INCRBY calls executed on the first two nodes.
fn increments(cluster: &Cluster) -> u64 {
    let of = |index: usize| {
        let stats = cluster.client(index).info("commandstats");
        let calls = |name: &str| {
            let (_, rest) = stats.split_once(&format!("cmdstat_{name}:calls="))?;
            rest.split(',').next()?.parse::<u64>().ok()
        };
        calls("incr").unwrap_or(0) + calls("incrby").unwrap_or(0)
    };
    of(0) + of(1)
}

fn leads(cluster: &Cluster, index: usize, seen_by: usize) -> bool {
    let id = cluster.id(index);
    cluster.lines(seen_by).iter().any(|line| line.starts_with(&id) && line.contains("master"))
}

/// A fifth node joins and gets slots.
fn join(cluster: &mut Cluster) {
    cluster.add_node();
    let port = cluster.nodes[0].port();
    cluster.client(4).ok(&format!("CLUSTER MEET 127.0.0.1 {port}"));
    let id = cluster.id(4);
    cluster.wait_for("the new node has joined", || cluster.lines(0).iter().any(|line| line.starts_with(&id)));
    cluster.move_slots(0, 4, "0 999");
}

/// The replica of the second shard takes over by a planned handover.
fn hand_over(cluster: &Cluster) {
    cluster.wait_for("the replica is in sync", || {
        cluster.client(3).call("CLUSTER FAILOVER") == Value::Simple("OK".into())
    });
    cluster.wait_for("the replica has taken over", || leads(cluster, 3, 4));
}

/// The primary of the first shard dies.
fn kill(cluster: &mut Cluster) {
    let info = |cluster: &Cluster| cluster.client(0).info("group");
    cluster.wait_for("a replica is in sync", || info(cluster).contains("group_in_sync:n0,n2"));
    cluster.nodes[0].signal(Signal::KILL);
    cluster.nodes[0].wait();
    cluster.wait_for("the replica has taken over", || leads(cluster, 2, 4));
}

/// Starts a program, changes the cluster, and ends the program.
fn run(changes: Changes, language: &str, installed: &str, command: impl FnOnce(&Path) -> Command) {
    let folder = folder(language);
    if is_skipped(language, &folder.join(installed)) {
        return;
    }
    let Some(mut cluster) = changes.start_cluster() else { return };
    let mut command = command(&folder);
    command.args([&cluster.nodes[0].port().to_string(), changes.name()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = command.spawn().expect("the program starts");
    cluster.wait_for("the program to write", || count(&cluster) > 0);
    changes.make(&mut cluster);
    drop(program.stdin.take());
    judge(language, &program.wait_with_output().expect("it ends"));
}

/// The total number of keys of all nodes that answer: on a stalled machine a node may be waiting
/// for its lease.
fn count(cluster: &Cluster) -> i64 {
    let of = |index: usize| match cluster.client(index).call("DBSIZE") {
        Value::Integer(count) => count,
        _ => 0,
    };
    (0..cluster.nodes.len()).map(of).sum()
}

fn python(changes: Changes) {
    run(changes, "python", "venv/bin/python", |folder| {
        let mut command = Command::new(folder.join("venv/bin/python"));
        command.arg(folder.join("moving.py"));
        command
    });
}

#[test]
fn python_while_slots_move() {
    python(Changes::Moves);
}

#[test]
fn python_while_primaries_change() {
    python(Changes::Failover);
}

fn go(changes: Changes) {
    run(changes, "go", "bin/client-test", |folder| {
        let mut command = Command::new(folder.join("bin/client-test"));
        command.arg("moving");
        command
    });
}

#[test]
fn go_while_slots_move() {
    go(Changes::Moves);
}

#[test]
fn go_while_primaries_change() {
    go(Changes::Failover);
}

fn node(changes: Changes) {
    run(changes, "node", "node_modules/redis", |folder| {
        let mut command = Command::new("node");
        command.arg(folder.join("moving.mjs"));
        command
    });
}

#[test]
fn node_while_slots_move() {
    node(Changes::Moves);
}

#[test]
fn node_while_primaries_change() {
    node(Changes::Failover);
}

fn java(changes: Changes) {
    run(changes, "java", "target/client-test.jar", |folder| java_program(folder, "Moving"));
}

#[test]
fn java_while_slots_move() {
    java(Changes::Moves);
}

#[test]
fn java_while_primaries_change() {
    java(Changes::Failover);
}

/// Counts on many keys with redis-rs, as the programs do. redis-rs retries a dead node over and
/// over without a pause, and does not ask other nodes for the slots, so the test reconnects.
fn rust(changes: Changes) {
    let Some(mut cluster) = changes.start_cluster() else { return };
    let addresses: Vec<String> =
        cluster.nodes.iter().map(|node| format!("redis://127.0.0.1:{}", node.port())).collect();
    let client = redis::cluster::ClusterClient::new(addresses).expect("addresses");
    let stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let work = scope.spawn(|| count_with(&client, changes == Changes::Moves, &stopped));
        cluster.wait_for("the program to write", || count(&cluster) > 0);
        changes.make(&mut cluster);
        stopped.store(true, Relaxed);
        assert!(work.join().expect("every count is right") > 0);
    });
}

/// Increments counters until stopped; returns the sum of all counts.
fn count_with(client: &redis::cluster::ClusterClient, is_exact: bool, stopped: &AtomicBool) -> u64 {
    let mut connection = client.get_connection().expect("a cluster");
    let mut counts = [0u64; 200];
    for index in (0..counts.len()).cycle().take_while(|_| !stopped.load(Relaxed)) {
        let incr = redis::cmd("INCR").arg(format!("rust:{index}")).to_owned();
        let count = loop {
            match incr.query::<u64>(&mut connection) {
                Ok(count) => break count,
                Err(error) => {
                    // A primary may answer so when it steps down.
                    let is_uncertain = error.code() == Some("UNCERTAIN");
                    assert!(!is_exact && (error.is_io_error() || is_uncertain), "{error}");
                }
            }
            std::thread::sleep(Duration::from_millis(50));
            if let Ok(new) = client.get_connection() {
                connection = new;
            }
        };
        let next = counts[index] + 1;
        assert!(if is_exact { count == next } else { count >= next }, "rust:{index}: {count}");
        counts[index] = count;
    }
    counts.iter().sum()
}

#[test]
fn rust_while_slots_move() {
    rust(Changes::Moves);
}

#[test]
fn rust_while_primaries_change() {
    rust(Changes::Failover);
}
