// SPDX-License-Identifier: BSD-3-Clause
//! Groups on etcd: real servers and a real etcd. Which server is the primary after crashes,
//! pauses and handovers, the clients' view meanwhile, outages of etcd, and bad input.
//!
//!   cargo test -p braid-tests --test group
//!
//! Needs an `etcd` in `BRAID_PEERS_DIR` or on PATH; otherwise the tests are skipped.

mod bad_input;
mod cut;
mod discovery;
mod failover;
mod leaderless;
mod outage;
mod restart;
mod seen;
mod sick;
mod writer;

use std::time::Duration;

use braid_tests::server::Options;
use braid_tests::wait::PATIENCE;
use braid_tests::{Etcd, RawClient, TestServer, Value, wait_for, wait_for_within};

/// An etcd server and the servers of one group.
pub struct Group {
    pub etcd: Etcd,
    pub servers: Vec<TestServer>,
    more: Vec<String>,
}

impl Group {
    /// Starts `count` servers and waits until all are in sync. `None` without etcd.
    pub fn start(count: usize, more: &[&str]) -> Option<Group> {
        Group::start_each(count, more, |_| Vec::new())
    }

    /// As [`start`](Group::start), with additional arguments for each server.
    pub fn start_each(count: usize, more: &[&str], own: impl Fn(usize) -> Vec<String>) -> Option<Group> {
        let etcd = Etcd::start()?;
        let more = more.iter().map(|&word| word.to_owned()).collect();
        let mut group = Group { etcd, servers: Vec::new(), more };
        for index in 0..count {
            let server = group.start_server_with(index, None, &own(index));
            group.servers.push(server);
        }
        group.wait_until_in_sync();
        Some(group)
    }

    /// A server of the group, named `n<index>`.
    pub fn start_server(&self, index: usize, port: Option<u16>) -> TestServer {
        self.start_server_with(index, port, &[])
    }

    pub fn start_server_with(&self, index: usize, port: Option<u16>, own: &[String]) -> TestServer {
        let mut arguments = arguments(self.etcd.endpoint(), index);
        arguments.extend(self.more.iter().cloned());
        arguments.extend_from_slice(own);
        TestServer::start_with(Options { arguments, port, ..Options::default() })
    }

    /// Restarts a server that has ended, on the same port and without its files.
    pub fn restart(&mut self, index: usize) {
        let port = self.servers[index].port();
        self.servers[index] = self.start_server(index, Some(port));
    }

    /// The server that claims to be the primary.
    pub fn primary(&self) -> Option<usize> {
        (0..self.servers.len()).find(|&index| is_primary(&self.servers[index]))
    }

    /// Waits until one of the servers claims to be the primary.
    pub fn wait_for_primary(&self) -> usize {
        let mut found = None;
        wait_for("a server is the primary", || {
            found = self.primary();
            found.is_some()
        });
        found.expect("found")
    }

    /// Waits for a primary other than this one.
    pub fn wait_for_other(&self, than: usize) -> usize {
        let mut found = None;
        wait_for("another server is the primary", || {
            found = (0..self.servers.len()).find(|&index| index != than && is_primary(&self.servers[index]));
            found.is_some()
        });
        found.expect("found")
    }

    /// A new etcd client.
    pub fn client(&self) -> braid_etcd::Client {
        let options = braid_etcd::Options {
            endpoints: vec![self.etcd.endpoint().to_owned()],
            connect_timeout: PATIENCE,
            request_timeout: PATIENCE,
            ..braid_etcd::Options::default()
        };
        braid_etcd::Client::new(&options).expect("a client")
    }

    /// The shard's record in etcd.
    pub fn record(&self) -> serde_json::Value {
        let found = self.client().get(b"/braid/g/shard/0").expect("an answer");
        found.map_or(serde_json::Value::Null, |pair| serde_json::from_slice(&pair.value).expect("a record"))
    }

    pub fn epoch(&self) -> u64 {
        self.record()["epoch"].as_u64().unwrap_or(0)
    }

    /// Waits until every server is in the in-sync set, with its current run, and the primary knows:
    /// etcd has the record before the primary has etcd's answer.
    pub fn wait_until_in_sync(&self) {
        let runs: Vec<String> = self.servers.iter().map(run_id).collect();
        let is_in_sync = || {
            let record = self.record();
            let set = record["in-sync"].as_array().cloned().unwrap_or_default();
            let has = |run: &String| set.iter().any(|id| id.as_str().is_some_and(|id| id.ends_with(run)));
            set.len() == runs.len() && runs.iter().all(has) && self.knows_set(runs.len())
        };
        assert!(wait_for_within(PATIENCE, is_in_sync), "not in sync: {}\n{}", self.record(), self.logs());
    }

    /// Whether the primary counts on this many members of the in-sync set.
    fn knows_set(&self, len: usize) -> bool {
        let primary = self.primary().and_then(|primary| try_connect(&self.servers[primary]));
        let known = primary.and_then(|mut client| client.info_field("group", "group_in_sync"));
        known.is_some_and(|set| set.split(',').count() == len)
    }

    pub fn logs(&self) -> String {
        self.servers.iter().map(TestServer::log).collect::<Vec<_>>().join("\n")
    }
}

/// Arguments of the server `n<index>` of the group `g`.
pub fn arguments(endpoint: &str, index: usize) -> Vec<String> {
    let node = format!("n{index}");
    [
        "--group-name",
        "g",
        "--node-name",
        &node,
        "--etcd-endpoints",
        endpoint,
        "--repl-diskless-sync-delay",
        "0",
    ]
    .map(String::from)
    .to_vec()
}

/// True if a server claims to be a primary; false if it does not reply.
pub fn is_primary(server: &TestServer) -> bool {
    try_connect(server).is_some_and(|mut client| says_primary(&mut client))
}

/// True if the connected server claims to be a primary; false if it does not reply.
pub fn says_primary(client: &mut RawClient) -> bool {
    client.try_send(b"*1\r\n$4\r\nROLE\r\n").is_ok()
        && client.try_read().is_ok_and(|role| role.to_string().contains("master"))
}

/// A connection with a short timeout; `None` if the server is down.
pub fn try_connect(server: &TestServer) -> Option<RawClient> {
    let mut client = RawClient::tcp(server.address()).ok()?;
    client.set_patience(Duration::from_millis(500)).ok()?;
    Some(client)
}

fn run_id(server: &TestServer) -> String {
    server.connect().info_field("server", "run_id").expect("a run")
}

/// Reads a key's numeric value.
pub fn number(client: &mut RawClient, key: &str) -> i64 {
    match client.call(&format!("GET {key}")) {
        Value::Bulk(text) => String::from_utf8_lossy(&text).parse().expect("a number"),
        other => panic!("{other}"),
    }
}
