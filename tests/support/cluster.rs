// SPDX-License-Identifier: BSD-3-Clause
//! Multi-server clusters on etcd.

use std::time::Duration;

use tempfile::TempDir;

use crate::server::Options;
use crate::{Etcd, RawClient, TestServer, Value, wait_for_within};

/// Time limit for a change to become visible, with a lease of two seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// The column of CLUSTER NODES in which a node's slots begin.
const SLOTS: usize = 8;

/// An etcd server and the nodes of one cluster. The nodes' folders outlive them.
pub struct Cluster {
    pub etcd: Etcd,
    pub nodes: Vec<TestServer>,
    folders: Vec<TempDir>,
    /// Extra arguments for nodes that are started from now on.
    pub more: Vec<String>,
}

impl Cluster {
    /// Starts `count` nodes that do not know each other. `None` without etcd.
    pub fn start(count: usize, more: &[&str]) -> Option<Cluster> {
        let etcd = Etcd::start()?;
        let more = more.iter().map(|&word| word.to_owned()).collect();
        let mut cluster = Cluster { etcd, nodes: Vec::new(), folders: Vec::new(), more };
        (0..count).for_each(|_| cluster.add_node());
        Some(cluster)
    }

    /// Starts `count` nodes as a cluster of `shards` shards; the other nodes are replicas.
    pub fn create(count: usize, shards: usize, more: &[&str]) -> Option<Cluster> {
        let cluster = Cluster::start(count, more)?;
        cluster.form(shards);
        Some(cluster)
    }

    /// Makes the nodes, which do not know each other yet, a cluster of `shards` shards.
    pub fn form(&self, shards: usize) {
        let count = self.nodes.len();
        let ids: Vec<String> = (0..count).map(|index| self.id(index)).collect();
        for (index, (first, last)) in ranges(shards).into_iter().enumerate() {
            self.client(index).ok(&format!("CLUSTER ADDSLOTSRANGE {first} {last}"));
        }
        for index in shards..count {
            let port = self.nodes[0].port();
            self.client(index).ok(&format!("CLUSTER MEET 127.0.0.1 {port}"));
            self.client(index).ok(&format!("CLUSTER REPLICATE {}", ids[index % shards]));
        }
        self.wait_until_ready(shards);
    }

    /// Starts one more node.
    pub fn add_node(&mut self) {
        let folder = tempfile::tempdir().expect("a folder");
        let node = self.start_node(self.nodes.len(), &folder, None);
        self.folders.push(folder);
        self.nodes.push(node);
    }

    fn start_node(&self, index: usize, folder: &TempDir, port: Option<u16>) -> TestServer {
        let (name, folder) = (format!("n{index}"), folder.path().display().to_string());
        let mut arguments = [
            "--cluster-enabled",
            "yes",
            "--cluster-name",
            "c",
            "--node-name",
            &name,
            "--etcd-endpoints",
            self.etcd.endpoint(),
            "--repl-diskless-sync-delay",
            "0",
            "--dir",
            &folder,
        ]
        .map(String::from)
        .to_vec();
        arguments.extend(self.more.iter().cloned());
        TestServer::start_with(Options { arguments, port, ..Options::default() })
    }

    /// Restarts a node that has ended, on the same port and with its files.
    pub fn restart(&mut self, index: usize) {
        let port = self.nodes[index].port();
        self.nodes[index] = self.start_node(index, &self.folders[index], Some(port));
    }

    pub fn client(&self, index: usize) -> RawClient {
        self.nodes[index].connect()
    }

    pub fn id(&self, index: usize) -> String {
        self.client(index).call("CLUSTER MYID").text()
    }

    /// Waits until every node reports a healthy cluster with `shards` primaries, and every node
    /// has taken up its role.
    pub fn wait_until_ready(&self, shards: usize) {
        for index in 0..self.nodes.len() {
            let is_ready = || {
                let info = self.client(index).call("CLUSTER INFO").text();
                info.contains("cluster_state:ok") && info.contains(&format!("cluster_size:{shards}"))
            };
            self.wait_for(&format!("node {index} sees the cluster"), is_ready);
        }
        for index in 0..self.nodes.len() {
            let has_its_role = || {
                let is_primary = self.lines(index).iter().any(|line| line.contains("myself,master"));
                let role = self.client(index).call("ROLE").to_string();
                role.contains("master") && is_primary || role.contains("connected") && !is_primary
            };
            self.wait_for(&format!("node {index} has its role"), has_its_role);
            let has_begun = || {
                let lines = self.lines(index);
                let own = lines.iter().find(|line| line.contains("myself,")).map_or("", |line| line);
                let part = match own.split_whitespace().nth(SLOTS) {
                    _ if own.contains("myself,slave") => "is a replica of",
                    Some(_) => "is now the primary of the group",
                    None => "is not in any shard",
                };
                self.nodes[index].log().contains(part)
            };
            self.wait_for(&format!("node {index} has taken up its role in its group"), has_begun);
        }
    }

    /// One node's CLUSTER NODES output, by lines.
    pub fn lines(&self, index: usize) -> Vec<String> {
        let text = self.client(index).call("CLUSTER NODES").text();
        text.lines().map(str::to_owned).collect()
    }

    pub fn wait_for(&self, what: &str, mut condition: impl FnMut() -> bool) {
        assert!(wait_for_within(PATIENCE, &mut condition), "gave up waiting for: {what}\n{}", self.logs());
    }

    pub fn logs(&self) -> String {
        self.nodes.iter().map(TestServer::log).collect::<Vec<_>>().join("\n")
    }

    /// Moves slots from one node to another, retrying until a move succeeds.
    pub fn move_slots(&self, from: usize, to: usize, slots: &str) {
        let id = self.id(to);
        let request = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slots} NODE {id}");
        self.wait_for("the slots have moved", || {
            if self.client(from).call(&request) != Value::ok() {
                return false;
            }
            let mut state = String::new();
            self.wait_for("the move has ended", || {
                let moves = self.client(from).call("CLUSTER GETSLOTMIGRATIONS").to_string();
                // The newest move comes first.
                let rest = moves.split_once("\"state\", \"").map_or("", |(_, rest)| rest);
                state = rest.split('"').next().unwrap_or_default().to_owned();
                ["success", "failed"].contains(&state.as_str())
            });
            state == "success"
        });
    }

    /// Sends a request as a cluster client does, following redirections. Starts over if one leads
    /// to a dead node, since some nodes learn of a death later than others.
    pub fn call(&self, text: &str) -> Value {
        let mut reply = None;
        self.wait_for(&format!("a reply to {text}"), || {
            reply = self.follow(text);
            reply.is_some()
        });
        reply.expect("a reply")
    }

    fn follow(&self, text: &str) -> Option<Value> {
        let mut address = self.nodes.last().expect("a node").address().to_string();
        for _ in 0..5 {
            let mut client = RawClient::tcp(address.parse().expect("an address")).ok()?;
            let reply = client.call(text);
            match reply.to_string().split_once("MOVED ") {
                Some((_, place)) => {
                    let place = place.split_whitespace().nth(1).expect("an address");
                    address = place.trim_matches(['"', '\'', ')']).to_owned();
                }
                None => return Some(reply),
            }
        }
        panic!("{text}: too many redirections");
    }

    fn etcd_client(&self) -> braid_etcd::Client {
        let options = braid_etcd::Options {
            endpoints: vec![self.etcd.endpoint().to_owned()],
            connect_timeout: PATIENCE,
            request_timeout: PATIENCE,
            ..braid_etcd::Options::default()
        };
        braid_etcd::Client::new(&options).expect("a client")
    }

    /// Writes a record to etcd, below the cluster's prefix.
    pub fn put_record(&self, key: &str, value: &str) {
        let key = format!("/braid/c/{key}");
        self.etcd_client().put(key.as_bytes(), value.as_bytes(), None).expect("written");
    }

    /// True if the record of the shard that a node has founded says that the in-sync members have
    /// everything on disk.
    pub fn is_on_disk(&self, founder: usize) -> bool {
        let key = format!("/braid/c/shard/{}", self.id(founder));
        let found = self.etcd_client().get(key.as_bytes()).expect("an answer").expect("the shard's record");
        let record: serde_json::Value = serde_json::from_slice(&found.value).expect("a record");
        record["on-disk"].as_bool() == Some(true)
    }
}

/// All slots, divided into `count` ranges.
pub fn ranges(count: usize) -> Vec<(usize, usize)> {
    (0..count).map(|index| (index * 16_384 / count, (index + 1) * 16_384 / count - 1)).collect()
}
