// SPDX-License-Identifier: BSD-3-Clause
//! Random rounds: servers of all kinds replicate from each other while clients send random
//! commands, links are cut, roles change and servers are restarted. At the end all have the same
//! history, offset and dataset.
//!
//! `BRAID_ROUNDS` is the number of rounds (default 3). Each step is printed.

mod clients;
mod commands;
mod datasets;
mod servers;

use std::time::Duration;

use braid_tests::random::{number, source};
use braid_tests::server::is_braid;
use braid_tests::{wait_for, wait_for_within};
use rustix::process::Signal;

use crate::fill::fill;
use crate::peers;
use clients::Clients;
use commands::Commands;
pub use commands::OF_DATA;
use datasets::assert_same;
use servers::{Node, ServerKind, kinds};

/// Servers retry once a second, and the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// The servers of a round, and which one follows which.
struct Set {
    nodes: Vec<Node>,
    commands: Commands,
    /// The followed node, by node.
    follows: Vec<Option<usize>>,
    random: fastrand::Rng,
}

impl Set {
    /// Starts servers that all follow one of them, directly or not. At least one is under test.
    fn start(kinds: &[ServerKind], mut random: fastrand::Rng) -> Set {
        let mut chosen = vec![kinds[0].clone()];
        let kinds = if random.u32(..4) == 0 { &kinds[..1] } else { kinds };
        for _ in 0..random.usize(1..4) {
            chosen.push(kinds[random.usize(..kinds.len())].clone());
        }
        random.shuffle(&mut chosen);
        let commands = Commands::of(&chosen);
        let start = |kind| Node::start(kind, commands.rdb_target(), &mut random);
        let nodes: Vec<Node> = chosen.into_iter().map(start).collect();
        let follows = vec![None; nodes.len()];
        let mut set = Set { nodes, commands, follows, random };
        let head = set.any();
        set.reorder(head);
        set
    }

    fn any(&mut self) -> usize {
        self.random.usize(..self.nodes.len())
    }

    /// The node that follows no other one.
    fn head(&self) -> usize {
        self.follows.iter().position(Option::is_none).expect("a head")
    }

    /// True if `node` follows `above`, directly or not, or is the same node.
    fn is_below(&self, node: usize, above: usize) -> bool {
        node == above || self.follows[node].is_some_and(|next| self.is_below(next, above))
    }

    /// Makes a node the head; the others follow it or each other.
    fn reorder(&mut self, head: usize) {
        let mut others: Vec<usize> = (0..self.nodes.len()).filter(|&node| node != head).collect();
        self.random.shuffle(&mut others);
        // Servers under test can follow any server, and any server can follow them.
        others.sort_by_key(|&node| !self.nodes[node].kind.is_under_test);
        let mut placed = vec![head];
        self.follows[head] = None;
        self.nodes[head].follow(None);
        for node in others {
            let can = |&above: &usize| self.nodes[node].kind.can_follow(&self.nodes[above].kind);
            let above: Vec<usize> = placed.iter().copied().filter(can).collect();
            let above = above[self.random.usize(..above.len())];
            self.attach(node, above);
            placed.push(node);
        }
    }

    fn attach(&mut self, node: usize, above: usize) {
        self.follows[node] = Some(above);
        let port = self.nodes[above].proxy.port();
        self.nodes[node].follow(Some(port));
    }

    /// Applies a random disturbance.
    fn disturb(&mut self, clients: &Clients) {
        let node = self.any();
        match self.random.u32(..14) {
            0 | 1 => {
                let links = ["master", "replica", "normal"][self.random.usize(..3)];
                println!("  {node}: its links to {links} are killed");
                self.nodes[node].call(&format!("CLIENT KILL TYPE {links} SKIPME yes"));
            }
            2 | 3 => {
                let most = [100, 10_000, 500_000][self.random.usize(..3)];
                let bytes = self.random.i64(1..most);
                println!("  {node}: links are cut after {bytes} bytes");
                self.nodes[node].proxy.cut_after(bytes);
            }
            4 | 5 => {
                println!("  {node} becomes the head");
                let early = self.random.bool();
                if early {
                    clients.go_to(self.nodes[node].port);
                }
                self.reorder(node);
                clients.go_to(self.nodes[node].port);
            }
            6 => self.move_one(node),
            7 => self.fail_over(clients),
            8 | 9 => self.restart(node),
            10 if self.random.bool() => {
                let head = self.head();
                println!("  {head} begins another history");
                self.nodes[head].ok("DEBUG CHANGE-REPL-ID");
                // Replicas learn of it when they reconnect.
                self.nodes[head].call("CLIENT KILL TYPE replica");
            }
            10 => {
                let request = ["BGSAVE SCHEDULE", "BGREWRITEAOF"][self.random.usize(..2)];
                println!("  {node}: {request}");
                self.nodes[node].call(request);
            }
            11 => {
                let loads = ["disabled", "on-empty-db", "swapdb"];
                let load = loads[self.random.usize(..loads.len())];
                let diskless = ["yes", "no"][self.random.usize(..2)];
                println!("  {node}: diskless load {load}, sync {diskless}");
                self.nodes[node].ok(&format!("CONFIG SET repl-diskless-load {load}"));
                self.nodes[node].ok(&format!("CONFIG SET repl-diskless-sync {diskless}"));
            }
            12 if self.random.bool() && self.nodes[node].kind.is_under_test => {
                let mut any = |words: [&'static str; 2]| words[self.random.usize(..2)];
                let settings = format!(
                    "repl-compression {} repl-sibling-sync {} dual-channel-replication-enabled {}",
                    any(["no", "lz4"]),
                    any(["no", "yes"]),
                    any(["no", "yes"])
                );
                println!("  {node}: {settings}");
                self.nodes[node].ok(&format!("CONFIG SET {settings}"));
            }
            12 => {
                println!("  {node} stands still");
                self.nodes[node].signal(Signal::STOP);
                std::thread::sleep(Duration::from_millis(self.random.u64(20..300)));
                self.nodes[node].signal(Signal::CONT);
            }
            _ => {
                // Many changes are pending by then, so several threads apply them.
                println!("  much is written while replicas hold the stream");
                let head = self.head();
                for node in (0..self.nodes.len()).filter(|&node| node != head) {
                    self.nodes[node].call("CLIENT PAUSE 300 WRITE");
                }
                clients.burst();
            }
        }
    }

    /// Makes a node follow a different one.
    fn move_one(&mut self, node: usize) {
        let above = self.any();
        let is_able = self.nodes[node].kind.can_follow(&self.nodes[above].kind);
        if is_able && self.follows[node].is_some() && !self.is_below(above, node) {
            println!("  {node} follows {above}");
            self.attach(node, above);
        }
    }

    fn restart(&mut self, node: usize) {
        let above = self.follows[node].map(|above| self.nodes[above].proxy.port());
        let way = ["SAVE", "NOSAVE", "kill"][self.random.usize(..3)];
        println!("  {node} is restarted ({way})");
        self.nodes[node].restart(way, above);
    }

    /// A replica of the head takes over.
    fn fail_over(&mut self, clients: &Clients) {
        let head = self.head();
        let is_fit = |&node: &usize| {
            self.follows[node] == Some(head) && self.nodes[head].kind.can_follow(&self.nodes[node].kind)
        };
        let Some(heir) = (0..self.nodes.len()).find(is_fit) else { return };
        let port = self.nodes[heir].port;
        let reply = self.nodes[head].call(&format!("FAILOVER TO 127.0.0.1 {port} TIMEOUT 3000"));
        println!("  {head} hands over to {heir}: {reply}");
        let is_over = wait_for_within(PATIENCE, || {
            self.nodes[head].info("replication", "master_failover_state") == "no-failover"
        });
        assert!(is_over, "the failover did not end");
        if self.nodes[head].info("replication", "role") == "slave" {
            // The followers of the old head still follow it.
            (self.follows[head], self.follows[heir]) = (Some(heir), None);
            clients.go_to(port);
        }
    }

    /// Asserts that all nodes have the head's data.
    fn assert_equal(&mut self) {
        let head = self.head();
        for node in &mut self.nodes {
            node.proxy.cut_after(-1);
        }
        let position = |node: &mut Node| {
            let of = |node: &mut Node, field| node.info("replication", field);
            (of(node, "master_replid"), of(node, "master_repl_offset"))
        };
        let mut seen = Vec::new();
        let is_equal = wait_for_within(PATIENCE, || {
            let links = self.nodes.iter_mut().enumerate().all(|(number, node)| {
                number == head || node.info("replication", "master_link_status") == "up"
            });
            seen = self.nodes.iter_mut().map(position).collect();
            links && seen.iter().all(|place| *place == seen[head])
        });
        if !is_equal {
            let logs: Vec<String> = self.nodes.iter().map(Node::log).collect();
            panic!("no agreement with {head}: {seen:?}; follows {:?}\n{}", self.follows, logs.join("\n"));
        }
        let mut client = self.nodes[head].connect();
        for number in (0..self.nodes.len()).filter(|&number| number != head) {
            println!("  {number} is compared with {head}");
            let mut its = self.nodes[number].connect();
            assert_same(&mut client, &mut its, &self.commands);
            let functions = "FUNCTION LIST WITHCODE";
            wait_for("functions agree", || client.call(functions) == its.call(functions));
        }
    }
}

#[test]
fn random_rounds_end_with_equal_datasets() {
    if peers().is_empty() || !is_braid() {
        println!("skipped: needs Braid under test and a stock server");
        return;
    }
    let mut random = source("random_rounds_end_with_equal_datasets");
    let kinds = kinds();
    for round in 0..number("BRAID_ROUNDS", 3) {
        println!("round {round}");
        let mut set = Set::start(&kinds, random.fork());
        let (head, seed) = (set.head(), set.random.u64(..));
        if set.random.bool() {
            fill(&mut set.nodes[head].connect(), &mut set.random, false);
        }
        let clients = Clients::start(set.nodes[head].port, seed, &set.commands);
        for _ in 0..set.random.usize(3..8) {
            clients.go_on(set.random.u64(5..40));
            set.disturb(&clients);
        }
        clients.go_on(10);
        clients.stop();
        set.assert_equal();
    }
}
