// SPDX-License-Identifier: BSD-3-Clause
//! Stock Sentinel with two servers, one or both of them under test: a primary that dies, one that
//! is stopped for a while, and a planned failover. A client follows, and counts its lost writes.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use braid_tests::server::{Options, Peer, free_port, newer_peers, peer, program_under_test, stock};
use braid_tests::{RawClient, TestServer, wait_for, wait_for_within};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::wait_until_in_sync;

/// Milliseconds of silence after which a server counts as down.
const DOWN_AFTER_MS: u64 = 1500;

/// The primary's fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trouble {
    Killed,
    Stopped,
    Planned,
}

/// Three sentinels over one primary.
struct Sentinels {
    processes: Vec<(Child, u16)>,
    _folder: TempDir,
}

impl Sentinels {
    fn start(program: &Path, primary: u16) -> Sentinels {
        let folder = tempfile::tempdir().expect("a folder");
        let start = |number: usize| {
            let port = free_port();
            let file = folder.path().join(format!("sentinel{number}.conf"));
            let text = format!(
                "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor set 127.0.0.1 {primary} 2\n\
                 sentinel down-after-milliseconds set {DOWN_AFTER_MS}\nsentinel failover-timeout set 10000\n",
                folder.path().display()
            );
            std::fs::write(&file, text).expect("written");
            let mut command = Command::new(program);
            command
                .arg(file)
                .arg("--sentinel")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            (command.spawn().expect("a sentinel"), port)
        };
        let processes = (0..3).map(start).collect();
        Sentinels { processes, _folder: folder }
    }

    fn connect(&self) -> RawClient {
        let mut client = None;
        wait_for("a sentinel answers", || {
            client = RawClient::tcp(([127, 0, 0, 1], self.processes[0].1).into()).ok();
            client.is_some()
        });
        client.expect("a sentinel answered")
    }
}

impl Drop for Sentinels {
    fn drop(&mut self) {
        for (process, _) in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn primary_port(sentinel: &mut RawClient) -> u16 {
    let reply = sentinel.call("SENTINEL GET-MASTER-ADDR-BY-NAME set");
    reply.elements().and_then(|words| words.get(1)?.text().parse().ok()).unwrap_or(0)
}

/// Sets a number on the primary that the sentinel names, and waits for the replica if `waits`.
/// True if it is acknowledged.
fn write(sentinel: &mut RawClient, number: u64, waits: bool) -> bool {
    let Ok(mut client) = RawClient::tcp(([127, 0, 0, 1], primary_port(sentinel)).into()) else {
        return false;
    };
    if client.set_patience(Duration::from_millis(300)).is_err() {
        return false;
    }
    let lines = if waits {
        vec![format!("RPUSH log {number}"), "WAIT 1 250".into()]
    } else {
        vec![format!("RPUSH log {number}")]
    };
    lines.iter().all(|line| {
        client.try_send(&braid_tests::request(line)).is_ok()
            && client.try_read().is_ok_and(|reply| !reply.is_error() && reply.to_string() != "(integer) 0")
    })
}

fn round(sentinel: &Peer, one: &Peer, other: &Peer, trouble: Trouble) {
    let usual = |more: &[&str]| -> Vec<String> {
        ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"]
            .iter()
            .chain(more)
            .map(|&word| word.to_owned())
            .collect()
    };
    let port = free_port();
    let first = Options {
        program: Some(one.program.clone()),
        port: Some(port),
        arguments: usual(&[]),
        ..Options::default()
    };
    let mut primary = TestServer::start_with(first.clone());
    let of = port.to_string();
    let replica = TestServer::start_with(Options {
        program: Some(other.program.clone()),
        arguments: usual(&["--replicaof", "127.0.0.1", &of]),
        ..Options::default()
    });
    wait_until_in_sync(&mut primary.connect(), &mut replica.connect());
    let sentinels = Sentinels::start(&sentinel.program, port);
    let mut its = sentinels.connect();
    wait_for("the sentinels know each other and the replica", || {
        let text = its.info("sentinel");
        text.contains("slaves=1") && text.contains("sentinels=3")
    });
    let mut acknowledged = Vec::new();
    let waits = trouble != Trouble::Planned;
    for number in 0..50 {
        assert!(write(&mut its, number, waits), "a write failed before the fault");
        acknowledged.push(number);
    }
    match trouble {
        Trouble::Killed => primary.signal(Signal::KILL),
        Trouble::Stopped => primary.signal(Signal::STOP),
        Trouble::Planned => {
            // It takes sentinels some seconds to see that a replica is suitable.
            let accepted =
                wait_for_within(Duration::from_secs(30), || its.call("SENTINEL FAILOVER set").text() == "OK");
            assert!(accepted, "{}", its.call("SENTINEL FAILOVER set"));
        }
    }
    let began = Instant::now();
    let mut number = 1000;
    wait_for_within(Duration::from_secs(30), || {
        number += 1;
        let done = primary_port(&mut its) == replica.port() && write(&mut its, number, false);
        if done {
            acknowledged.push(number);
        }
        done
    });
    println!(
        "sentinel {}, {} -> {}, {trouble:?}: written again after {:.2} s",
        sentinel.version,
        one.version,
        other.version,
        began.elapsed().as_secs_f64()
    );
    let mut new = replica.connect();
    let log = new.call("LRANGE log 0 -1");
    let has: Vec<u64> =
        log.elements().expect("a list").iter().filter_map(|value| value.text().parse().ok()).collect();
    let lost: Vec<&u64> = acknowledged.iter().filter(|number| !has.contains(number)).collect();
    assert!(lost.is_empty(), "{trouble:?}: lost {lost:?}");
    // The old primary comes back as a replica.
    match trouble {
        Trouble::Killed => {
            primary.wait();
            primary = TestServer::start_with(first);
        }
        Trouble::Stopped => primary.signal(Signal::CONT),
        Trouble::Planned => {}
    }
    // Sentinels close clients' connections when they change a role.
    let text = || {
        let mut client = RawClient::tcp(primary.address()).ok()?;
        client.try_send(b"INFO replication\r\n").ok()?;
        Some(client.try_read().ok()?.text().to_string())
    };
    let is_replica = wait_for_within(Duration::from_secs(60), || {
        text().is_some_and(|text| text.contains("role:slave") && text.contains("master_link_status:up"))
    });
    assert!(is_replica, "{trouble:?}: {:?}", text());
    let (mut old, mut new) = (primary.connect(), replica.connect());
    wait_until_in_sync(&mut new, &mut old);
    assert_eq!(old.call("LLEN log").to_string(), new.call("LLEN log").to_string());
}

fn rounds(trouble: Trouble) {
    let (Some(own), Some(stock)) = (peer(program_under_test()), stock()) else {
        println!("skipped, no stock server");
        return;
    };
    let newer = newer_peers().into_iter().find(|peer| peer.version.starts_with("redis 8"));
    round(&stock, &own, &own, trouble);
    round(newer.as_ref().unwrap_or(&stock), &own, &stock, trouble);
    round(&stock, &stock, &own, trouble);
}

#[test]
fn sentinels_replace_a_primary_that_dies() {
    rounds(Trouble::Killed);
}

#[test]
fn sentinels_replace_a_primary_that_is_stopped() {
    rounds(Trouble::Stopped);
}

#[test]
fn sentinels_fail_over_as_planned() {
    rounds(Trouble::Planned);
}
