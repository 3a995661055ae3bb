// SPDX-License-Identifier: BSD-3-Clause
//! Moving from a stock server to Braid and back without downtime: the commands of
//! docs/moving.md, with other ports, while a client writes continuously.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU16};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use braid_tests::server::Peer;
use braid_tests::{RawClient, TestServer, wait_for};

use crate::{assert_same, peers};

const DOCUMENT: &str = include_str!("../../docs/moving.md");

/// The redis-cli commands in the section on moving: first those with CLIENT PAUSE, then the one
/// with FAILOVER.
fn commands() -> (Vec<&'static str>, &'static str) {
    let (_, section) = DOCUMENT.split_once("\n## Without downtime").expect("the document has the section");
    let section = section.split("\n## ").next().expect("split yields at least one part");
    let lines: Vec<&str> =
        section.lines().map(str::trim).filter(|line| line.starts_with("redis-cli")).collect();
    let begin = lines.iter().position(|line| line.contains("client pause")).expect("a pause");
    let end = lines.iter().position(|line| line.contains("failover")).expect("a failover");
    assert!(lines[..begin].iter().all(|line| line.contains("info replication")), "{lines:?}");
    (lines[begin..end].to_vec(), lines[end])
}

/// Runs one of the document's commands for a move between these ports; returns its output.
fn run(command: &str, from: u16, to: u16) -> String {
    let command = command.replace("6379", &from.to_string()).replace("7379", &to.to_string());
    let output = Command::new("sh").args(["-c", &command]).output().expect("a shell");
    assert!(output.status.success(), "{command}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().to_owned()))
}

/// The writing client's observations.
#[derive(Default)]
struct Seen {
    acknowledged: Vec<u64>,
    /// Error replies, and errors that ended a connection.
    errors: Vec<String>,
    longest_wait: Duration,
}

/// A client that writes continuously to the server that clients are currently directed to.
struct Writer {
    port: Arc<AtomicU16>,
    /// The server that acknowledged the last write.
    acknowledged_by: Arc<AtomicU16>,
    ends: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl Writer {
    fn start(at: u16) -> Writer {
        let (port, ends) = (Arc::new(AtomicU16::new(at)), Arc::new(AtomicBool::new(false)));
        let acknowledged_by = Arc::new(AtomicU16::new(0));
        let (target, end, by) = (Arc::clone(&port), Arc::clone(&ends), Arc::clone(&acknowledged_by));
        let thread = std::thread::spawn(move || {
            let mut seen = Seen::default();
            let (mut connection, mut number, mut last) = (None, 0_u64, Instant::now());
            while !end.load(Relaxed) {
                let at = target.load(Relaxed);
                if connection.as_ref().is_none_or(|(_, port)| *port != at) {
                    let client = RawClient::tcp(([127, 0, 0, 1], at).into()).expect("a server");
                    connection = Some((client, at));
                }
                let Some((client, _)) = &mut connection else { continue };
                number += 1;
                match try_write(client, number, || target.load(Relaxed) != at || end.load(Relaxed)) {
                    Ok(()) => {
                        seen.acknowledged.push(number);
                        by.store(at, Relaxed);
                        seen.longest_wait = seen.longest_wait.max(last.elapsed());
                        last = Instant::now();
                    }
                    Err(error) => {
                        seen.errors.extend(error);
                        connection = None;
                    }
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            seen
        });
        Writer { port, acknowledged_by, ends, thread }
    }

    /// Waits until that server has acknowledged a write.
    fn wait_until_it_has_moved(&self) {
        wait_for("the client has moved", || self.acknowledged_by.load(Relaxed) == self.port.load(Relaxed));
    }

    fn end(self) -> Seen {
        self.ends.store(true, Relaxed);
        self.thread.join().expect("no panic")
    }
}

/// Writes a number. An error without text: the client was directed to another server while it
/// waited.
fn try_write(
    client: &mut RawClient,
    number: u64,
    is_sent_away: impl Fn() -> bool,
) -> Result<(), Option<String>> {
    let text = |error: &dyn std::fmt::Debug| Some(format!("{error:?}"));
    client.set_patience(Duration::from_millis(10)).map_err(|error| text(&error))?;
    client.try_send(&braid_tests::request(&format!("RPUSH log {number}"))).map_err(|error| text(&error))?;
    loop {
        match client.try_read() {
            Ok(reply) if reply.is_error() => return Err(Some(reply.text().to_string())),
            Ok(_) => return Ok(()),
            Err(braid_tests::client::ReadError::TimedOut) if is_sent_away() => return Err(None),
            Err(braid_tests::client::ReadError::TimedOut) => {}
            Err(error) => return Err(text(&error)),
        }
    }
}

/// Moves with CLIENT PAUSE.
fn move_by_pause(commands: &[&str], writer: &Writer, from: u16, to: u16) {
    let infos: Vec<&&str> = commands.iter().filter(|command| command.contains("info replication")).collect();
    assert_eq!(infos.len(), 2, "{commands:?}");
    for command in commands {
        if command == infos[0] {
            wait_for("the offsets agree", || {
                let offset = field(&run(infos[0], from, to), "master_repl_offset");
                offset.is_some() && field(&run(infos[1], from, to), "slave_repl_offset") == offset
            });
        } else if command != infos[1] {
            assert_eq!(run(command, from, to).trim(), "OK", "{command}");
        }
        if command.contains("replicaof no one") {
            writer.port.store(to, Relaxed);
        }
    }
    writer.wait_until_it_has_moved();
}

/// Moves with FAILOVER.
fn move_by_failover(command: &str, writer: &Writer, from: u16, to: u16) {
    assert_eq!(run(command, from, to).trim(), "OK", "{command}");
    let mut client = RawClient::tcp(([127, 0, 0, 1], from).into()).expect("a server");
    wait_for("the failover is over", || {
        client.info_field("replication", "master_failover_state").as_deref() == Some("no-failover")
    });
    writer.port.store(to, Relaxed);
    writer.wait_until_it_has_moved();
}

fn there_and_back(peer: &Peer) {
    let (pause, failover) = commands();
    let usual = ["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"];
    let stock = TestServer::start_program(&peer.program, &usual);
    let writer = Writer::start(stock.port());
    let port = stock.port().to_string();
    let braid = TestServer::start(&[&usual[..], &["--replicaof", "127.0.0.1", &port]].concat());
    let (at_stock, at_braid) = (stock.port(), braid.port());
    let (mut old, mut new) = (stock.connect(), braid.connect());
    let is_up = |client: &mut RawClient| {
        wait_for("the link is up", || {
            client.info_field("replication", "master_link_status").as_deref() == Some("up")
        });
    };
    is_up(&mut new);
    writer.wait_until_it_has_moved();
    move_by_pause(&pause, &writer, at_stock, at_braid);
    is_up(&mut old);
    move_by_failover(failover, &writer, at_braid, at_stock);
    is_up(&mut new);
    move_by_failover(failover, &writer, at_stock, at_braid);
    is_up(&mut old);
    move_by_pause(&pause, &writer, at_braid, at_stock);
    is_up(&mut new);
    let seen = writer.end();
    println!(
        "{}: {} writes, the longest wait {:?}, {} errors",
        peer.version,
        seen.acknowledged.len(),
        seen.longest_wait,
        seen.errors.len()
    );
    assert!(seen.errors.iter().all(|error| error.starts_with("READONLY")), "{:?}", seen.errors);
    assert_same(&mut old, &mut new);
    let log = old.call("LRANGE log 0 -1");
    let has: Vec<u64> =
        log.elements().expect("a list").iter().filter_map(|value| value.text().parse().ok()).collect();
    let lost: Vec<&u64> =
        seen.acknowledged.iter().filter(|number| has.binary_search(number).is_err()).collect();
    assert!(lost.is_empty(), "lost {lost:?}");
    assert!(seen.longest_wait < Duration::from_secs(10), "{:?}", seen.longest_wait);
}

#[test]
fn clients_move_to_braid_and_back_without_downtime() {
    for peer in peers() {
        there_and_back(&peer);
    }
}
