// SPDX-License-Identifier: BSD-3-Clause
//! braid-cluster creates and changes clusters, also while they are in use.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;

use braid_tests::{TestServer, Value};
use rustix::process::Signal;
use serde_json::Value as Json;

use crate::Cluster;
use crate::moves::{TAGS, under_load, wait_for_keys};

pub fn command(arguments: &str) -> Command {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| braid_tests::server::tool("braid-cluster"));
    let mut command = Command::new(program);
    command.args(arguments.split_whitespace());
    command
}

fn run(arguments: &str) -> Output {
    command(arguments).output().expect("braid-cluster starts")
}

pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// Runs the tool, which must succeed; returns its output.
#[track_caller]
fn done(arguments: &str) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments}: {}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs the tool, which must fail; returns its messages.
#[track_caller]
fn refused(arguments: &str) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments}: {}", text(&output));
    text(&output)
}

fn json(arguments: &str) -> Json {
    let text = done(&format!("{arguments} --json"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn address(cluster: &Cluster, index: usize) -> String {
    cluster.nodes[index].address().to_string()
}

/// Each primary's number of slots, as reported by the tool.
fn slot_counts(entry: &str) -> Vec<u64> {
    let status = json(&format!("status {entry}"));
    let nodes = status["nodes"].as_array().expect("nodes");
    let primaries = nodes.iter().filter(|node| node["role"] == "primary");
    let mut counts: Vec<u64> = primaries.map(|node| node["slot_count"].as_u64().expect("a count")).collect();
    counts.sort_unstable();
    counts
}

const KEYS: usize = 300;

fn write_keys(cluster: &Cluster) {
    for index in 0..KEYS {
        assert_eq!(cluster.call(&format!("SET key:{index} {index}")), Value::Simple("OK".into()));
    }
}

fn check_keys(cluster: &Cluster) {
    for index in 0..KEYS {
        let value = cluster.call(&format!("GET key:{index}"));
        assert_eq!(value, Value::Bulk(index.to_string().into()), "key:{index}\n{}", cluster.logs());
    }
}

#[test]
fn a_cluster_grows_and_shrinks() {
    let Some(cluster) = Cluster::start(3, &[]) else { return };
    let [a, b, c] = [0, 1, 2].map(|index| address(&cluster, index));
    let plan = done(&format!("create {a} {b} --dry-run"));
    assert_eq!(plan, format!("slots 0-8191  primary {a}\nslots 8192-16383  primary {b}\n"));
    assert!(cluster.client(0).call("CLUSTER INFO").text().contains("cluster_slots_assigned:0"));
    assert!(done(&format!("create {a} {b}")).starts_with("a cluster of 2 shards and 2 nodes"));
    write_keys(&cluster);
    assert!(refused(&format!("create {a} {c}")).contains("is already a node of a cluster"));
    assert_eq!(done(&format!("-p {} rebalance", cluster.nodes[0].port())), "no slot needs to move\n");
    // A new primary, which gets as many slots as the others.
    let told = done(&format!("-p {} add {c}", cluster.nodes[0].port()));
    assert!(told.starts_with(&format!("{c} is a node")), "{told}");
    assert_eq!(slot_counts(&a), [0, 8_192, 8_192]);
    let plan = json(&format!("-p {} rebalance --dry-run", cluster.nodes[2].port()));
    assert_eq!((&plan["slots"], &plan["dry_run"]), (&5_461.into(), &true.into()));
    assert_eq!(slot_counts(&a), [0, 8_192, 8_192]);
    let told = json(&format!("-p {} rebalance", cluster.nodes[2].port()));
    assert_eq!(told["moves"], plan["moves"]);
    assert_eq!(slot_counts(&a), [5_461, 5_461, 5_462]);
    check_keys(&cluster);
    // The named slots go to the named node, given by a prefix of its ID.
    let id = cluster.id(1);
    done(&format!("-p {} move 0-99,200 --to {}", cluster.nodes[0].port(), &id[..8]));
    let owner = |slot: u16| {
        let lines = cluster.lines(0);
        let has_it = |line: &&String| {
            line.split_whitespace().skip(8).any(|range| {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                (first.parse::<u16>().unwrap()..=last.parse().unwrap()).contains(&slot)
            })
        };
        lines.iter().find(has_it).expect("an owner")[..40].to_owned()
    };
    assert_eq!([0, 99, 200].map(owner), [&id; 3].map(String::clone));
    assert_ne!(owner(100), id);
    // A node that has slots cannot be removed; one without slots can.
    assert!(refused(&format!("remove {c}")).contains("move them away with braid-cluster drain"));
    let told = json(&format!("drain {c}"));
    let counts = slot_counts(&a);
    assert!(counts.len() == 2 && counts[1] - counts[0] <= 1, "{counts:?}");
    // The node has become a replica, which cannot be drained: that would drain another shard.
    assert!([&a, &b].iter().any(|place| told["joined"]["address"] == **place), "{told}");
    assert!(refused(&format!("drain {c}")).contains("is a replica of"));
    assert!(done(&format!("-p {} remove {c}", cluster.nodes[0].port())).contains("has left the cluster"));
    cluster.wait_for("the node has left", || cluster.lines(2).len() == 1 && cluster.lines(0).len() == 2);
    check_keys(&cluster);
    assert_eq!(slot_counts(&b), [8_192, 8_192]);
}

#[test]
fn replicas_are_made_take_over_and_go() {
    let Some(mut cluster) = Cluster::start(4, &[]) else { return };
    let places: Vec<String> = (0..4).map(|index| address(&cluster, index)).collect();
    done(&format!("create {} --replicas 1", places.join(" ")));
    write_keys(&cluster);
    let output = run(&format!("status {}", places[3]));
    let told = text(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    for part in ["cluster c, 2 shards, 4 nodes,", "all slots covered", "[####", "n0", "replica", "16383"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // Called on a shard's primary, with the replica's own name.
    let told = done(&format!("failover {} n0 --timeout 60", places[1]));
    assert!(told.starts_with(&format!("{} has taken over from {}", places[2], places[0])), "{told}");
    cluster.wait_for("the old primary follows", || {
        cluster.client(0).call("ROLE").to_string().contains("connected")
    });
    let told = done(&format!("failover {} n0 --timeout 60", places[1]));
    assert!(told.starts_with(&format!("{} has taken over from {}", places[0], places[2])), "{told}");
    // One more replica; a primary with replicas cannot be removed.
    cluster.add_node();
    let new = address(&cluster, 4);
    let told = done(&format!("add {new} --replica-of {}", places[1]));
    assert!(told.starts_with(&format!("{new} is a replica of {}", places[1])), "{told}");
    assert!(refused(&format!("-p {} add {new}", cluster.nodes[0].port())).contains("already"));
    cluster.client(1).ok("CONFIG SET cluster-allow-replica-migration no");
    assert!(!done(&format!("drain {}", places[1])).contains("now of the shard of"));
    assert!(refused(&format!("remove {}", places[1])).contains("has replicas: remove them first"));
    done(&format!("-p {} remove {new}", cluster.nodes[0].port()));
    // A permanently dead node is reported, and then forgotten.
    let dead = cluster.id(3);
    cluster.nodes[3].signal(rustix::process::Signal::KILL);
    cluster.nodes[3].wait();
    cluster.wait_for("n3 is unreachable", || run(&format!("status {}", places[0])).status.code() == Some(3));
    let told = done(&format!("-p {} remove {dead}", cluster.nodes[0].port()));
    assert!(told.contains("is unreachable and was forgotten"), "{told}");
    cluster.nodes.truncate(3);
    check_keys(&cluster);
}

#[test]
fn everything_works_while_slots_move_under_load() {
    let Some(cluster) = Cluster::create(3, 3, &[]) else { return };
    let [a, b] = [0, 1].map(|index| address(&cluster, index));
    under_load(&cluster, 3, || {
        for _ in 0..2 {
            assert!(done(&format!("drain {b}")).contains(&format!("{b}: now of the shard of")));
            assert_eq!(slot_counts(&a), [8_192, 8_192]);
            // The node leaves, and rejoins as a primary.
            let port = cluster.nodes[0].port();
            done(&format!("-p {port} remove {b}"));
            done(&format!("-p {port} add {b}"));
            done(&format!("-p {} rebalance", cluster.nodes[1].port()));
            assert_eq!(slot_counts(&a), [5_461, 5_461, 5_462]);
        }
    });
    wait_for_keys(&cluster, &[0, 1, 2], 3 * 3 * TAGS as i64);
}

#[test]
fn rebalance_evens_out_slots_by_keys_load_and_memory() {
    let Some(cluster) = Cluster::create(2, 2, &[]) else { return };
    let port = cluster.nodes[0].port();
    // All in the lower half: slots 866 (hello), 5061 (bar) and 6257 (b).
    for (tag, count) in [("hello", 60), ("bar", 50), ("b", 40)] {
        for index in 0..count {
            cluster.call(&format!("SET {{{tag}}}:{index} x"));
        }
    }
    let keys = || -> Vec<Value> { (0..2).map(|index| cluster.client(index).call("DBSIZE")).collect() };
    assert_eq!(keys(), [Value::Integer(150), Value::Integer(0)]);
    done(&format!("-p {port} rebalance --by keys"));
    cluster.wait_for("moved keys are deleted", || keys().iter().all(|keys| *keys != Value::Integer(150)));
    wait_for_keys(&cluster, &[0, 1], 150);
    let status = json(&format!("status {}", address(&cluster, 0)));
    let counts: Vec<u64> =
        status["nodes"].as_array().unwrap().iter().map(|node| node["keys"].as_u64().unwrap()).collect();
    assert!(counts.iter().all(|&keys| keys >= 50), "{counts:?}");
    // Figures that the servers do not count cannot be balanced.
    let told = refused(&format!("-p {port} rebalance --by load"));
    assert!(told.contains("CLUSTER SLOT-STATS has no cpu-usec"), "{told}");
    (0..2).for_each(|index| cluster.client(index).ok("CONFIG SET cluster-slot-stats-enabled yes"));
    // Now the load is on one node: slots 15495 (a) and 12182 (foo).
    for number in 0..500 {
        for tag in ["a", "foo"] {
            cluster.call(&format!("SET {{{tag}}} {number}"));
        }
    }
    let hot = |index: usize| {
        let told = cluster.client(index).call("CLUSTER SLOT-STATS ORDERBY CPU-USEC LIMIT 2").to_string();
        ["15495", "12182"].iter().filter(|slot| told.contains(*slot)).count()
    };
    assert_eq!([hot(0), hot(1)], [0, 2]);
    done(&format!("-p {port} rebalance --by load"));
    let owner = |slot: u16| {
        let keys = format!("CLUSTER COUNTKEYSINSLOT {slot}");
        (0..2).find(|&index| cluster.client(index).call(&keys) == Value::Integer(1))
    };
    cluster.wait_for("one of the hot slots has moved", || {
        let owners = [owner(15_495), owner(12_182)];
        owners.iter().all(Option::is_some) && owners[0] != owners[1]
    });
    // Half of the bytes are in one slot, which remains alone.
    let value = "x".repeat(1 << 20);
    for tag in ["hello", "bar", "b", "a", "foo"] {
        cluster.call(&format!("SET {{{tag}}}:big {value}"));
    }
    cluster.call(&format!("SET {{hello}}:more {value}{value}{value}{value}"));
    done(&format!("-p {port} rebalance --by bytes"));
    let big = |index: usize| {
        let told = cluster.client(index).call("CLUSTER SLOT-STATS ORDERBY MEMORY-BYTES LIMIT 5");
        let Value::Array(slots) = told else { panic!("{told}") };
        let heavy = slots.iter().filter_map(|slot| {
            let Value::Array(parts) = slot else { return None };
            let Some(Value::Array(fields)) = parts.last() else { return None };
            match fields.last() {
                Some(Value::Integer(bytes)) if *bytes > 1 << 20 => Some(parts[0].to_string()),
                _ => None,
            }
        });
        heavy.collect::<Vec<_>>()
    };
    cluster.wait_for("the heaviest slot is alone", || {
        let mut counts = [big(0).len(), big(1).len()];
        counts.sort_unstable();
        counts == [1, 4]
    });
}

#[test]
fn impossible_cluster_operations_are_reported() {
    let Some(cluster) = Cluster::start(2, &[]) else { return };
    let [a, b] = [0, 1].map(|index| address(&cluster, index));
    let plain = TestServer::start(&[]);
    let alone = TestServer::start(&["--cluster-enabled", "yes"]);
    let told = refused(&format!("create {a} {}", plain.address()));
    assert!(told.contains("is not in cluster mode"), "{told}");
    let told = refused(&format!("create {a} {}", alone.address()));
    assert!(told.contains("it is a cluster by itself"), "{told}");
    assert!(refused(&format!("create {a} {a}")).contains("is given twice"));
    assert!(refused(&format!("create {a} {b} --replicas 2")).contains("need at least 3 servers"));
    assert!(refused(&format!("add {b} -p {}", cluster.nodes[0].port())).contains("is not in a cluster"));
    assert!(refused(&format!("drain {}", alone.address())).contains("there is no other primary"));
    assert!(refused(&format!("drain {}", plain.address())).contains("cluster support disabled"));
    assert!(refused("drain 127.0.0.1:1").contains("cannot connect"));
    done(&format!("create {a}"));
    let told = refused(&format!("-p {} move 5 --to nobody", cluster.nodes[0].port()));
    assert!(told.contains(&format!("there is no node nobody, only {a}")), "{told}");
    assert!(refused(&format!("failover {a}")).contains("has no replica to take over"));
    assert!(refused(&format!("remove {a}")).contains("has 16384 slots"));
    cluster.client(0).ok("CLUSTER DELSLOTS 7");
    let output = run(&format!("status {a}"));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("1 SLOTS WITHOUT AN OWNER: 7"), "{}", text(&output));
    assert!(refused(&format!("-p {} rebalance", cluster.nodes[0].port())).contains("no node has slots 7"));
}

#[test]
fn a_drain_goes_through_though_the_source_fails_over() {
    let Some(mut cluster) = Cluster::create(4, 2, &["--sync-writes", "yes"]) else { return };
    cluster.wait_for("the replica is in sync", || cluster.client(0).info("group").contains("in_sync:n0,n2"));
    write_keys(&cluster);
    // The program may have to be built first.
    let mut drain = command(&format!("-p {} drain {}", cluster.nodes[1].port(), address(&cluster, 0)));
    std::thread::scope(|scope| {
        let drains = scope.spawn(move || drain.output().expect("braid-cluster starts"));
        cluster.wait_for("the drain has begun", || {
            let has_begun = cluster.client(1).call("CLUSTER GETSLOTMIGRATIONS") != Value::Array(vec![]);
            has_begun || drains.is_finished()
        });
        cluster.nodes[0].signal(Signal::KILL);
        let output = drains.join().expect("the drain thread did not panic");
        assert!(output.status.success(), "{}", text(&output));
    });
    cluster.nodes[0].wait();
    cluster.restart(0);
    cluster.wait_until_ready(1);
    assert_eq!(slot_counts(&address(&cluster, 1)), [16_384]);
    check_keys(&cluster);
}
