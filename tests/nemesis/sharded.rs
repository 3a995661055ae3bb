// SPDX-License-Identifier: BSD-3-Clause
//! A cluster under a nemesis: three shards with a replica each, two nodes on each machine, with
//! synchronous writes, while `redis-cli --cluster reshard` moves slots, is killed, and
//! `redis-cli --cluster fix` repairs what it left.
//!
//!   tests/jepsen --rounds N --seed S cluster
//!   cargo test -p braid-tests --test nemesis resharding
//!
//! `BRAID_ROUNDS` is the number of rounds (default: 3). In each round a reshard begins, at most
//! one other fault happens, and the tool is killed. Then everything is repaired, until the tool's
//! check finds nothing. No acknowledged write may be lost.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use braid_tests::random::{number, source};
use braid_tests::server::program_under_test;
use braid_tests::{RawClient, Value, wait_for_within};
use fastrand::Rng;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::check;
use crate::clients::Workload;
use crate::machines::{MACHINES, Machines, SERVERS};
use crate::route::Route;
use crate::system::{PORT, Process, etcd, etcd_endpoints};

/// Nodes: two on each server's machine.
const NODES: usize = 2 * SERVERS;
/// Time limit for complete recovery. Generous: only a failing test reaches it.
const RECOVERY: Duration = Duration::from_secs(180);
/// Each shard's slots that hold the keys: its lowest ones, which a reshard moves first.
const SLOTS: usize = 24;
/// Hash tags tried for these slots.
const TAGS: usize = 40_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    None,
    KillSource,
    KillTarget,
    KillReplica,
    StopSource,
    StopTarget,
    /// A machine from all others.
    Isolate,
    /// Two machines from each other.
    Cut,
    KillArbiter,
}

const FAULTS: [Fault; 12] = [
    Fault::None,
    Fault::None,
    Fault::None,
    Fault::None,
    Fault::KillSource,
    Fault::KillTarget,
    Fault::KillReplica,
    Fault::StopSource,
    Fault::StopTarget,
    Fault::Isolate,
    Fault::Cut,
    Fault::KillArbiter,
];

/// The nodes and etcd. Dropping it kills them.
struct Shards<'m> {
    machines: &'m Machines,
    processes: Vec<Process>,
    folders: Vec<TempDir>,
    addresses: Vec<SocketAddr>,
}

/// The available `redis-cli` programs, Redis 7's and Redis 8's.
fn redis_clis() -> Vec<PathBuf> {
    let peers = std::env::var_os("BRAID_PEERS_DIR").map(PathBuf::from).unwrap_or_default();
    let programs = [peers.join("redis7-cli"), peers.join("redis-cli"), "redis-cli".into()];
    let is_there = |program: &PathBuf| Command::new(program).arg("--version").output().is_ok();
    programs.into_iter().filter(is_there).collect()
}

/// The first slot of a shard of the new cluster.
fn first_slot(shard: usize) -> usize {
    (shard * 16_384).div_ceil(SERVERS)
}

/// Runs `redis-cli --cluster ...`.
fn run(program: &Path, arguments: &[&str]) -> Output {
    Command::new(program).arg("--cluster").args(arguments).output().expect("redis-cli runs")
}

/// A node's arguments. It allows DEBUG, by which `redis-cli --cluster fix` compares keys that two
/// nodes have.
fn node(machines: &Machines, index: usize) -> Vec<String> {
    let (machine, port) = (index % SERVERS, PORT as usize + index / SERVERS);
    let mut words: Vec<String> = format!(
        "--port {port} --bind {} --protected-mode no --repl-diskless-sync-delay 0 --repl-timeout 10 \
         --enable-debug-command yes --cluster-enabled yes --cluster-name nemesis --node-name n{index} --etcd-endpoints {} \
         --sync-writes yes --min-sync-replicas 1",
        machines.address(machine),
        etcd_endpoints(machines),
    )
    .split_whitespace()
    .map(str::to_owned)
    .collect();
    words.extend(["--save".into(), String::new()]);
    words
}

/// One line of CLUSTER NODES.
struct Line {
    id: String,
    index: usize,
    is_primary: bool,
}

impl<'m> Shards<'m> {
    /// Starts the cluster. `None` if a prerequisite is missing.
    fn start(machines: &'m Machines, tool: &Path) -> Option<Shards<'m>> {
        let program = program_under_test().display().to_string();
        let etcd_program = braid_tests::etcd::program()?.display().to_string();
        let mut processes: Vec<Process> = (0..NODES)
            .map(|index| Process::new(index % SERVERS, &program, node(machines, index), Vec::new()))
            .collect();
        processes.extend(
            (SERVERS..MACHINES)
                .map(|machine| Process::new(machine, &etcd_program, etcd(machines, machine), Vec::new())),
        );
        let folders = processes.iter().map(|_| tempfile::tempdir().expect("a folder")).collect();
        let addresses = (0..NODES)
            .map(|index| {
                let port = PORT + (index / SERVERS) as u16;
                SocketAddr::new(machines.address(index % SERVERS).into(), port)
            })
            .collect();
        let mut shards = Shards { machines, processes, folders, addresses };
        for index in (0..shards.processes.len()).rev() {
            shards.restart(index);
        }
        // The tool goes on, without saying so, if a node cannot be given its slots since etcd is
        // electing.
        shards.expect("all nodes answer, and have etcd", |shards| {
            (0..NODES).all(|index| {
                let info = shards.call(index, "INFO group").map_or(String::new(), |reply| reply.text());
                info.contains("\r\ngroup_etcd_status:up")
                    && info.contains("\r\ngroup_etcd_last_answer_ms:")
                    && shards.call(index, "PING") == Some(Value::Simple("PONG".into()))
            })
        });
        let places: Vec<String> = shards.addresses.iter().map(SocketAddr::to_string).collect();
        let mut arguments = vec!["create"];
        arguments.extend(places.iter().map(String::as_str));
        arguments.extend(["--cluster-replicas", "1", "--cluster-yes"]);
        let created = run(tool, &arguments);
        assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stdout));
        shards.expect("the cluster is whole", Shards::is_whole);
        Some(shards)
    }

    fn restart(&mut self, index: usize) {
        self.processes[index].start(self.machines, self.folders[index].path());
    }

    /// A node's reply; `None` without one.
    fn call(&self, index: usize, request: &str) -> Option<Value> {
        let socket =
            std::net::TcpStream::connect_timeout(&self.addresses[index], Duration::from_millis(500)).ok()?;
        let mut client = RawClient::from_tcp(socket).ok()?;
        client.set_patience(Duration::from_secs(1)).ok()?;
        client.try_send(format!("{request}\r\n").as_bytes()).ok()?;
        client.try_read().ok()
    }

    /// The nodes as one of them sees them.
    fn lines(&self, index: usize) -> Vec<Line> {
        let text = self.call(index, "CLUSTER NODES").map_or(String::new(), |reply| reply.text());
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            let id = words.next()?.to_owned();
            let address: SocketAddr = words.next()?.split('@').next()?.parse().ok()?;
            let is_primary = words.next()?.contains("master");
            let index = self.addresses.iter().position(|&other| other == address)?;
            Some(Line { id, index, is_primary })
        };
        text.lines().filter_map(line).collect()
    }

    /// True if the cluster serves all slots, and every shard has two members in sync.
    fn is_whole(&self) -> bool {
        (0..NODES).all(|index| {
            let state = self.call(index, "CLUSTER INFO").map_or(String::new(), |reply| reply.text());
            let info = self.call(index, "INFO everything").map_or(String::new(), |reply| reply.text());
            let is_in_sync = info.lines().any(|line| {
                line.strip_prefix("group_in_sync:").is_some_and(|set| set.split(',').count() == 2)
            });
            state.contains("cluster_state:ok")
                && is_in_sync
                && (info.contains("\r\nrole:master") || info.contains("\r\nmaster_link_status:up"))
        })
    }

    fn expect(&mut self, what: &str, condition: impl Fn(&Self) -> bool) {
        if !wait_for_within(RECOVERY, || condition(self)) {
            self.fail(what);
        }
    }

    /// Ends the test. The reason and the nodes' state come first: of a long output only the
    /// beginning is repeated after all tests.
    fn fail(&self, what: &str) -> ! {
        println!("gave up waiting for: {what}");
        for index in 0..NODES {
            let text = |request: &str| self.call(index, request).map_or("none".into(), |reply| reply.text());
            let (state, info) = (text("CLUSTER INFO"), text("INFO everything"));
            let is_telling = |line: &&str| {
                ["role:", "group_in_sync:", "master_link_status:"].iter().any(|name| line.starts_with(name))
            };
            let of_group: Vec<&str> = info.lines().filter(is_telling).collect();
            println!("node {index}: {}, {}", state.lines().next().unwrap_or_default(), of_group.join(", "));
        }
        for (index, folder) in self.folders.iter().enumerate().take(NODES) {
            let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
            println!("---- log of node {index}\n{log}");
        }
        panic!("gave up waiting for: {what}");
    }

    /// Repairs all faults but those of the slots.
    fn mend(&mut self) {
        self.machines.heal();
        for index in 0..self.processes.len() {
            self.processes[index].signal(Signal::CONT);
            if !self.processes[index].is_up() {
                self.restart(index);
            }
        }
        self.expect("the cluster is whole after a fault", Shards::is_whole);
    }

    /// Keys that are at the owner of their slot and at another primary as well, as MIGRATE leaves
    /// them if it is interrupted. The tool could not choose between them.
    fn copies(&self) -> Vec<String> {
        let primaries: Vec<usize> =
            self.lines(0).iter().filter(|line| line.is_primary).map(|line| line.index).collect();
        let is_there =
            |node: usize, key: &str| self.call(node, &format!("EXISTS {key}")) == Some(Value::Integer(1));
        let mut copies = Vec::new();
        for &node in &primaries {
            for slot in (0..SERVERS).flat_map(|shard| (first_slot(shard)..).take(SLOTS)) {
                let keys = self.call(node, &format!("CLUSTER GETKEYSINSLOT {slot} 1000"));
                let Some(Value::Array(keys)) = keys else { continue };
                let others = |key: &str| primaries.iter().any(|&other| other != node && is_there(other, key));
                copies.extend(keys.iter().map(Value::text).filter(|key| !is_there(node, key) && others(key)));
            }
        }
        copies
    }

    /// Lets the tool repair the slots until its check finds nothing.
    fn fix(&mut self, tool: &Path, random: &mut Rng) {
        let mut said = String::new();
        let is_fixed = wait_for_within(RECOVERY, || {
            let place = self.addresses[random.usize(..NODES)].to_string();
            let fixed = run(tool, &["fix", &place, "--cluster-yes"]);
            let checked = run(tool, &["check", &place]);
            said = [fixed.stdout, checked.stdout]
                .map(|text| String::from_utf8_lossy(&text).into_owned())
                .concat();
            checked.status.success()
        });
        if !is_fixed {
            self.fail(&format!("the slots are repaired\n{said}"));
        }
    }

    fn make(&mut self, fault: Fault, source: usize, target: usize, random: &mut Rng) {
        let machine = random.usize(..SERVERS);
        let cut = |one: usize, other: usize| {
            self.machines.cut(one, other);
            self.machines.cut(other, one);
        };
        match fault {
            Fault::None => {}
            Fault::KillSource => self.processes[source].kill(),
            Fault::KillTarget => self.processes[target].kill(),
            Fault::KillReplica => {
                let lines = self.lines(source);
                let replicas: Vec<usize> =
                    lines.iter().filter(|line| !line.is_primary).map(|line| line.index).collect();
                if let Some(replica) = random.choice(replicas) {
                    self.processes[replica].kill();
                }
            }
            Fault::StopSource => self.processes[source].signal(Signal::STOP),
            Fault::StopTarget => self.processes[target].signal(Signal::STOP),
            Fault::Isolate => {
                (0..MACHINES).filter(|&other| other != machine).for_each(|other| cut(machine, other));
            }
            Fault::Cut => cut(machine, (machine + 1) % SERVERS),
            Fault::KillArbiter => self.processes[NODES + machine].kill(),
        }
    }

    /// Hash tags whose slots are the lowest ones of the shards.
    fn tags(&self) -> Vec<String> {
        let mut client = RawClient::tcp(self.addresses[0]).expect("a connection");
        let mut tags = Vec::new();
        for first in (0..TAGS).step_by(1000) {
            let numbers = first..first + 1000;
            let requests: String =
                numbers.clone().map(|number| format!("CLUSTER KEYSLOT t{number}\r\n")).collect();
            client.send(requests.as_bytes());
            for number in numbers {
                let Value::Integer(slot) = client.read() else { panic!("no slot") };
                let is_low = |shard: usize| (first_slot(shard)..).take(SLOTS).any(|low| low == slot as usize);
                if (0..SERVERS).any(is_low) {
                    tags.push(format!("{{t{number}}}"));
                }
            }
        }
        tags
    }
}

impl Drop for Shards<'_> {
    fn drop(&mut self) {
        self.processes.iter_mut().for_each(Process::kill);
    }
}

/// A reshard under way; killed on drop.
struct Reshard(Child);

impl Reshard {
    fn begin(tool: &Path, place: &str, from: &str, to: &str, slots: usize, batch: usize) -> Reshard {
        let mut command = Command::new(tool);
        command.args(["--cluster", "reshard", place, "--cluster-from", from, "--cluster-to", to]);
        command.args(["--cluster-slots", &slots.to_string(), "--cluster-pipeline", &batch.to_string()]);
        command.arg("--cluster-yes").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Reshard(command.spawn().expect("redis-cli starts"))
    }

    /// Kills the tool; true if it had not ended.
    fn kill(mut self) -> bool {
        let runs = self.0.try_wait().is_ok_and(|status| status.is_none());
        let _ = self.0.kill();
        let _ = self.0.wait();
        runs
    }
}

fn round(shards: &mut Shards, tools: &[PathBuf], number: u64, begin: Instant, random: &mut Rng) -> bool {
    let tool = &tools[random.usize(..tools.len())];
    let fixer = &tools[random.usize(..tools.len())];
    let lines = shards.lines(0);
    let mut primaries: Vec<&Line> = lines.iter().filter(|line| line.is_primary).collect();
    random.shuffle(&mut primaries);
    let [from, to, ..] = primaries[..] else { shards.fail("three primaries") };
    let fault = FAULTS[random.usize(..FAULTS.len())];
    let (slots, batch) = (random.usize(5..60), random.usize(1..20));
    let until = Duration::from_millis(random.u64(0..2500));
    println!(
        "cluster {:7.1} s, round {number}: {slots} slots from {} to {}, {fault:?}, killed after {:.2} s",
        begin.elapsed().as_secs_f64(),
        from.index,
        to.index,
        until.as_secs_f64()
    );
    let place = shards.addresses[from.index].to_string();
    let (source, target) = (from.index, to.index);
    let reshard = Reshard::begin(tool, &place, &from.id, &to.id, slots, batch);
    let before = Duration::from_millis(random.u64(0..1500)).min(until);
    std::thread::sleep(before);
    shards.make(fault, source, target, random);
    std::thread::sleep(until - before);
    let was_killed = reshard.kill();
    if fault != Fault::None {
        std::thread::sleep(Duration::from_millis(random.u64(0..5000)));
    }
    shards.mend();
    shards.expect("each key is on one node only", |shards| shards.copies().is_empty());
    shards.fix(fixer, random);
    was_killed
}

#[test]
fn resharding_may_be_killed_and_repaired() {
    let rounds = number("BRAID_ROUNDS", 3);
    let tools = redis_clis();
    let Some(tool) = tools.first() else {
        println!("skipped: no redis-cli");
        return;
    };
    let Some(machines) = Machines::build() else { return };
    let Some(mut shards) = Shards::start(&machines, tool) else { return };
    let (tags, addresses) = (shards.tags(), shards.addresses.clone());
    assert!(tags.len() > SLOTS, "too few tags");
    let route = || Route::to_slots(addresses.clone());
    let workload = Workload::start(route, &tags);
    let mut random = source("cluster");
    let (begin, mut killed) = (Instant::now(), 0);
    for number in 0..rounds {
        killed += u64::from(round(&mut shards, &tools, number, begin, &mut random));
        let repaired = Instant::now();
        shards.expect("writes go on after the repair", |_| workload.acknowledged_since(repaired));
    }
    let history = workload.stop(route());
    history.write("cluster");
    let found = check::check(&history);
    println!(
        "cluster: {rounds} rounds in {:.0} s, {killed} reshards killed, {found}",
        begin.elapsed().as_secs_f64()
    );
    if !found.violations.is_empty() {
        println!("{:#?}", found.violations);
        shards.fail("a history without violations");
    }
    assert!(found.acknowledged > 100, "too few writes");
}
