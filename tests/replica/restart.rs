// SPDX-License-Identifier: BSD-3-Clause
//! Servers with append-only files that are restarted: the file has the replication ID and offset,
//! so they, or their replicas, continue where they stopped, with the right data.

use braid_tests::random::source;
use braid_tests::server::{Options, free_port};
use braid_tests::{RawClient, TestServer, wait_for};
use rustix::process::Signal;

use crate::fill::fill;
use crate::workload::Writers;
use crate::{assert_same, figure, newer_peers, peers, replica, wait_until_in_sync};

/// A server that can be restarted on its folder.
struct Node {
    options: Options,
    server: TestServer,
    _folder: tempfile::TempDir,
}

impl Node {
    fn start(arguments: &[&str]) -> Node {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().to_str().expect("a readable path");
        let usual =
            ["--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes", "--appendonly", "yes"];
        let arguments = [&usual[..], &["--dir", dir], arguments].concat();
        let options = Options {
            port: Some(free_port()),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            ..Options::default()
        };
        Node { server: TestServer::start_with(options.clone()), options, _folder: folder }
    }

    fn replica_of(port: u16, arguments: &[&str]) -> Node {
        Node::start(&[&["--replicaof", "127.0.0.1", &port.to_string()], arguments].concat())
    }

    fn connect(&self) -> RawClient {
        self.server.connect()
    }

    /// Waits until the file has a base: without one a server refuses SIGTERM.
    fn wait_for_base(&self) {
        let mut client = self.connect();
        wait_for("the base is written", || {
            figure(&mut client, "persistence", "aof_rewrite_in_progress") == 0
                && figure(&mut client, "persistence", "aof_rewrite_scheduled") == 0
        });
    }

    fn stop(&mut self, signal: Signal) {
        if signal == Signal::TERM {
            self.wait_for_base();
        }
        self.server.signal(signal);
        self.server.wait();
    }

    fn start_again(&mut self) {
        self.server = TestServer::start_with(self.options.clone());
    }

    fn restart(&mut self, signal: Signal) {
        self.stop(signal);
        self.start_again();
    }
}

#[test]
fn a_replica_that_has_restarted_continues_from_its_file() {
    let mut random = source("a_replica_that_has_restarted_continues_from_its_file");
    for policy in ["everysec", "always"] {
        for signal in [Signal::TERM, Signal::KILL] {
            // WAITAOF says when a killed replica's file has everything.
            let programs = newer_peers().into_iter().map(Some).chain([None]);
            for program in programs {
                let name = program.as_ref().map_or("Braid", |peer| &*peer.version).to_owned();
                println!("{name}, {policy}, {signal:?}");
                let usual = ["--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes"];
                let primary = match &program {
                    Some(peer) => TestServer::start_program(&peer.program, &usual),
                    None => TestServer::start(&usual),
                };
                let mut client = primary.connect();
                fill(&mut client, &mut random, false);
                let mut node = Node::replica_of(primary.port(), &["--appendfsync", policy]);
                let mut its = node.connect();
                wait_until_in_sync(&mut client, &mut its);
                node.wait_for_base();
                for number in 0..50 {
                    client.ok(&format!("SET before{number} {number}"));
                }
                wait_until_in_sync(&mut client, &mut its);
                client.ok("SELECT 3");
                assert_eq!(client.call("INCR counter").to_string(), "(integer) 1");
                let reply = client.call("WAITAOF 0 1 0").to_string();
                assert!(reply.ends_with("(integer) 1]"), "{reply}");
                drop(its);
                node.stop(signal);
                for _ in 0..50 {
                    client.call("INCR counter");
                }
                client.call("RPUSH list a b c");
                node.start_again();
                assert_same(&mut client, &mut node.connect());
                assert_eq!(figure(&mut client, "stats", "sync_full"), 1, "{name}, {policy}, {signal:?}");
                assert_eq!(figure(&mut client, "stats", "sync_partial_ok"), 1);
            }
        }
    }
}

#[test]
fn replicas_of_a_primary_that_has_restarted_continue() {
    for peer in peers() {
        let mut primary = Node::start(&[]);
        let mut client = primary.connect();
        client.ok("SET key 1");
        let other = replica(&peer, &primary.server, &[]);
        let mut its = other.connect();
        wait_until_in_sync(&mut client, &mut its);
        client.ok("SELECT 5");
        client.ok("SET later 1");
        wait_until_in_sync(&mut client, &mut its);
        primary.restart(Signal::TERM);
        let mut client = primary.connect();
        assert_same(&mut client, &mut its);
        assert_eq!(figure(&mut client, "stats", "sync_full"), 0, "{}", peer.version);
        client.call("INCR key");
        assert_same(&mut client, &mut its);
    }
}

/// Two servers with append-only files are killed and restarted, and change their roles, under
/// load: whatever is continued, both have the same data.
#[test]
fn restarted_servers_never_continue_from_a_wrong_place() {
    let mut random = source("restarted_servers_never_continue_from_a_wrong_place");
    let mut partial = 0;
    let mut primary = Node::start(&["--replica-serve-stale-data", "yes"]);
    let mut other = Node::replica_of(primary.server.port(), &[]);
    for round in 0..25 {
        let mut client = primary.connect();
        wait_until_in_sync(&mut client, &mut other.connect());
        let writers = Writers::start(&primary.server, 3, &mut random);
        writers.go_on(random.u64(1..60));
        let signal = if random.bool() { Signal::TERM } else { Signal::KILL };
        let action = random.u32(..5);
        println!("round {round}: action {action}, {signal:?}");
        match action {
            0 | 1 => {
                other.stop(signal);
                writers.go_on(random.u64(1..60));
                other.start_again();
                writers.stop();
            }
            2 => {
                writers.stop();
                primary.restart(signal);
            }
            3 => {
                client.call("BGREWRITEAOF");
                other.connect().call("BGREWRITEAOF");
                writers.go_on(20);
                other.restart(signal);
                writers.stop();
            }
            _ => {
                writers.stop();
                wait_until_in_sync(&mut client, &mut other.connect());
                other.connect().ok("REPLICAOF NO ONE");
                other.connect().call("INCRBY n:promoted 5");
                if random.bool() {
                    // Its last changes are lost.
                    client.call("INCRBY n:demoted 7");
                }
                client.ok(&format!("REPLICAOF 127.0.0.1 {}", other.server.port()));
                std::mem::swap(&mut primary, &mut other);
                // The roles are those of the command line after a restart.
                let of = format!("127.0.0.1 {}", primary.server.port());
                for (node, to) in [(&mut primary, String::from("no one")), (&mut other, of)] {
                    let arguments = &mut node.options.arguments;
                    let at = arguments.iter().position(|argument| argument == "--replicaof");
                    if let Some(at) = at {
                        arguments.drain(at..at + 3);
                    }
                    if to != "no one" {
                        arguments.push("--replicaof".into());
                        arguments.extend(to.split(' ').map(str::to_owned));
                    }
                }
                if random.bool() {
                    wait_until_in_sync(&mut primary.connect(), &mut other.connect());
                    other.restart(signal);
                }
            }
        }
        let mut client = primary.connect();
        assert_same(&mut client, &mut other.connect());
        partial += figure(&mut client, "stats", "sync_partial_ok");
        client.ok("CONFIG RESETSTAT");
    }
    assert!(partial > 3, "hardly anything was continued: {partial}");
}
