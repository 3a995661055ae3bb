// SPDX-License-Identifier: BSD-3-Clause
//! `redis-cli --cluster` of Redis 7 and 8 creates and changes clusters.

use std::path::Path;
use std::process::Command;

use braid_tests::Value;

use crate::{Cluster, redis_clis};

/// Runs `redis-cli --cluster ...`, which must succeed; returns its output.
fn run(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).arg("--cluster").args(arguments).output().expect("redis-cli runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !text.contains("[ERR]"), "{arguments:?}: {text}\n{errors}");
    text
}

fn address(cluster: &Cluster, index: usize) -> String {
    cluster.nodes[index].address().to_string()
}

/// Number of keys, spread over the slots.
const KEYS: usize = 300;

/// A third of the keys is in slot 0.
fn key(index: usize) -> String {
    if index.is_multiple_of(3) { format!("{{06S}}:{index}") } else { format!("key:{index}") }
}

fn write_keys(cluster: &Cluster) {
    for index in 0..KEYS {
        assert_eq!(cluster.call(&format!("SET {} {index}", key(index))), Value::Simple("OK".into()));
    }
}

fn check_keys(cluster: &Cluster) {
    for index in 0..KEYS {
        let value = cluster.call(&format!("GET {}", key(index)));
        assert_eq!(value, Value::Bulk(index.to_string().into()), "key:{index}\n{}", cluster.logs());
    }
    let primaries = (0..cluster.nodes.len())
        .filter(|&index| cluster.lines(index).iter().any(|line| line.contains("myself,master")));
    let size = |index| match cluster.client(index).call("DBSIZE") {
        Value::Integer(count) => count,
        other => panic!("{other}"),
    };
    let count: i64 = primaries.map(size).sum();
    assert_eq!(count, KEYS as i64, "a key is on two nodes");
}

#[test]
fn a_cluster_is_created_and_looked_at() {
    for program in redis_clis() {
        let Some(cluster) = Cluster::start(4, &[]) else { return };
        let places: Vec<String> = (0..4).map(|index| address(&cluster, index)).collect();
        // The tool requires at least three primaries.
        let mut arguments = vec!["create"];
        arguments.extend(places[..3].iter().map(String::as_str));
        arguments.extend(["--cluster-replicas", "0", "--cluster-yes"]);
        assert!(run(&program, &arguments).contains("All 16384 slots covered"));
        let added = ["add-node", &places[3], &places[0], "--cluster-slave"];
        run(&program, &added);
        cluster.wait_until_ready(3);
        write_keys(&cluster);
        check_keys(&cluster);
        assert!(run(&program, &["check", &places[3]]).contains("All nodes agree"));
        assert!(run(&program, &["info", &places[1]]).contains(&format!("{KEYS} keys in 3 masters")));
        assert!(run(&program, &["call", &places[2], "PING"]).matches("PONG").count() == 4);
    }
}

#[test]
fn slots_move_key_by_key_and_nodes_go() {
    for program in redis_clis() {
        let Some(mut cluster) = Cluster::create(2, 2, &[]) else { return };
        write_keys(&cluster);
        cluster.add_node();
        let places: Vec<String> = (0..3).map(|index| address(&cluster, index)).collect();
        run(&program, &["add-node", &places[2], &places[0]]);
        cluster.wait_for("the cluster knows the new node", || cluster.lines(0).len() == 3);
        let id = cluster.id(2);
        // From slots with keys.
        let moved = ["--cluster-from", "all", "--cluster-to", &id, "--cluster-slots", "60", "--cluster-yes"];
        run(&program, &[&["reshard", &places[0]], &moved[..]].concat());
        cluster.wait_until_ready(3);
        check_keys(&cluster);
        assert!(cluster.client(2).call("DBSIZE") != Value::Integer(0), "no keys moved with the slots");
        // A slot whose migration was abandoned half-way.
        let Value::Integer(slot) = cluster.client(0).call("CLUSTER KEYSLOT key:1") else { panic!("no slot") };
        let has_it = |index: &usize| cluster.client(*index).call("GET key:1") == Value::Bulk("1".into());
        let from = (0..3).find(has_it).expect("one node has the key");
        let to = (from + 1) % 3;
        cluster.client(to).ok(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", cluster.id(from)));
        cluster.client(from).ok(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", cluster.id(to)));
        run(&program, &["fix", &places[1]]);
        check_keys(&cluster);
        // Everything moves back, and the node leaves.
        let owned = cluster.client(2).call("CLUSTER NODES").text();
        let own = owned.lines().find(|line| line.contains("myself")).expect("its line");
        let count: usize = own
            .split_whitespace()
            .skip(8)
            .map(|range| match range.split_once('-') {
                Some((first, last)) => {
                    last.parse::<usize>().unwrap_or(0) + 1 - first.parse::<usize>().unwrap_or(0)
                }
                None => 1,
            })
            .sum();
        let (target, count) = (cluster.id(0), count.to_string());
        let moved =
            ["--cluster-from", &id, "--cluster-to", &target, "--cluster-slots", &count, "--cluster-yes"];
        run(&program, &[&["reshard", &places[0]], &moved[..]].concat());
        run(&program, &["del-node", &places[0], &id]);
        cluster.wait_for("the node has left", || cluster.lines(0).len() == 2 && cluster.lines(2).len() == 1);
        assert_eq!(cluster.client(2).call("DBSIZE"), Value::Integer(0));
        cluster.nodes.truncate(2);
        check_keys(&cluster);
    }
}
