// SPDX-License-Identifier: BSD-3-Clause
//! Operators' commands, and damaged records.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use braid_tests::{Value, request, wait_for};
use rustix::process::Signal;

use crate::{Cluster, ranges};

fn error(cluster: &Cluster, index: usize, request: &str) -> String {
    match cluster.client(index).call(request) {
        Value::Error(text) => String::from_utf8_lossy(&text).into_owned(),
        other => panic!("{request}: {other}"),
    }
}

/// As in stock servers, clients that set up a cluster need not wait.
#[test]
fn a_node_is_a_replica_once_replicate_has_replied() {
    let Some(cluster) = Cluster::start(6, &[]) else { return };
    for (primary, (first, last)) in ranges(2).into_iter().enumerate() {
        cluster.client(primary).ok(&format!("CLUSTER ADDSLOTSRANGE {first} {last}"));
    }
    let replicates = |node: usize, primary: usize| {
        let mut client = cluster.client(node);
        client.ok(&format!("CLUSTER REPLICATE {}", cluster.id(primary)));
        let info = client.info("replication");
        let port = format!("master_port:{}\r", cluster.nodes[primary].port());
        assert!(info.contains("role:slave") && info.contains(&port), "{info}");
    };
    for node in 2..6 {
        cluster.client(node).ok(&format!("CLUSTER MEET 127.0.0.1 {}", cluster.nodes[0].port()));
        replicates(node, 0);
        replicates(node, 1);
    }
}

#[test]
fn invalid_cluster_commands_get_specific_errors() {
    let Some(cluster) = Cluster::start(3, &[]) else { return };
    assert_eq!(cluster.lines(0).len(), 1, "a new node is alone");
    assert!(error(&cluster, 0, "SET k v").starts_with("CLUSTERDOWN Hash slot not served"));
    cluster.client(0).ok("CLUSTER ADDSLOTSRANGE 0 16383");
    let (own, other) = (cluster.id(0), cluster.id(1));
    assert_eq!(error(&cluster, 1, "CLUSTER ADDSLOTS 5"), "ERR Slot 5 is already busy");
    assert_eq!(cluster.lines(1).len(), 1, "a refused command made the node join");
    assert!(error(&cluster, 0, "CLUSTER MEET 127.0.0.1 1").contains("cannot meet"));
    assert!(error(&cluster, 0, "CLUSTER MEET 127.0.0.1 x").contains("Invalid base port"));
    cluster.client(0).ok(&format!("CLUSTER MEET 127.0.0.1 {}", cluster.nodes[1].port()));
    // The node that replied already sees the other one; the other one follows a moment later.
    assert_eq!(cluster.lines(0).len(), 2);
    wait_for("the other node sees it", || cluster.lines(1).len() == 2);
    let unknown = "0123456789012345678901234567890123456789";
    for (index, request, expected) in [
        (0, format!("CLUSTER REPLICATE {unknown}"), format!("ERR Unknown node {unknown}")),
        (0, format!("CLUSTER REPLICATE {own}"), "ERR Can't replicate myself".into()),
        (
            0,
            format!("CLUSTER REPLICATE {other}"),
            "ERR To set a master the node must be empty and without assigned slots.".into(),
        ),
        (0, format!("CLUSTER FORGET {unknown}"), format!("ERR Unknown node {unknown}")),
        (0, format!("CLUSTER FORGET {own}"), "ERR I tried hard but I can't forget myself...".into()),
        (1, format!("CLUSTER SETSLOT 1 MIGRATING {own}"), "ERR I'm not the owner of hash slot 1".into()),
        (
            0,
            format!("CLUSTER SETSLOT 1 IMPORTING {other}"),
            "ERR I'm already the owner of hash slot 1".into(),
        ),
        (0, "CLUSTER FAILOVER".into(), "ERR You should send CLUSTER FAILOVER to a replica".into()),
        (0, "REPLICAOF 127.0.0.1 1".into(), "ERR REPLICAOF not allowed in cluster mode.".into()),
    ] {
        assert_eq!(error(&cluster, index, &request), expected, "{request}");
    }
    let mut client = cluster.client(0);
    client.ok("MULTI");
    for request in ["CLUSTER BUMPEPOCH", "PING"] {
        assert_eq!(client.call(request), Value::Simple("QUEUED".into()));
    }
    assert!(client.call("EXEC").to_string().contains("not allowed in a transaction"));
    // A node leaves, and tools that do not know that send FORGET as well.
    cluster.client(1).ok("CLUSTER RESET SOFT");
    wait_for("both nodes are alone", || cluster.lines(0).len() == 1 && cluster.lines(1).len() == 1);
    cluster.client(0).ok(&format!("CLUSTER FORGET {other}"));
}

#[test]
fn all_nodes_tell_the_ports_that_one_announces() {
    let Some(cluster) = Cluster::create(2, 2, &[]) else { return };
    cluster.client(0).ok("CONFIG SET cluster-announce-port 7100 cluster-announce-bus-port 7200");
    for index in 0..2 {
        cluster.wait_for(&format!("n{index} reports the announced ports"), || {
            cluster.lines(index).iter().any(|line| line.contains(":7100@7200 "))
        });
    }
    cluster.client(0).ok("CONFIG SET cluster-announce-port 0 cluster-announce-bus-port 0");
    let port = cluster.nodes[0].port();
    let usual = format!(":{port}@{} ", port + 10_000);
    cluster.wait_for("n1 reports the defaults", || cluster.lines(1).iter().any(|line| line.contains(&usual)));
}

#[test]
fn a_node_that_is_reset_hard_is_another_one() {
    let Some(mut cluster) = Cluster::create(3, 2, &[]) else { return };
    let before = cluster.client(2).call("CLUSTER MYID").text();
    assert_eq!(cluster.call("SET k v"), Value::Simple("OK".into()));
    let with_keys = (0..2).find(|&index| cluster.client(index).call("DBSIZE") == Value::Integer(1));
    let refused = error(&cluster, with_keys.expect("one primary has the key"), "CLUSTER RESET HARD");
    assert!(refused.contains("master nodes containing keys"), "{refused}");
    // After the reset, a replica is a primary without keys.
    cluster.client(2).ok("CLUSTER RESET HARD");
    let after = cluster.client(2).call("CLUSTER MYID").text();
    assert!(after.len() == 40 && after != before, "{before} and {after}");
    let lines = cluster.lines(2);
    assert!(
        lines.len() == 1 && lines[0].starts_with(&after) && lines[0].contains("myself,master"),
        "{lines:?}"
    );
    assert_eq!(cluster.client(2).call("DBSIZE"), Value::Integer(0));
    wait_for("the other nodes forget it", || (0..2).all(|index| cluster.lines(index).len() == 2));
    // The node joins like a new one, and keeps its ID across a restart.
    let port = cluster.nodes[2].port();
    cluster.client(0).ok(&format!("CLUSTER MEET 127.0.0.1 {port}"));
    wait_for("the node is known by its new ID", || {
        cluster.lines(1).iter().any(|line| line.starts_with(&after)) && cluster.lines(1).len() == 3
    });
    cluster.nodes[2].signal(Signal::TERM);
    cluster.nodes[2].wait();
    cluster.restart(2);
    wait_for("the restarted node sees all nodes", || cluster.lines(2).len() == 3);
    assert_eq!(cluster.client(2).call("CLUSTER MYID").text(), after);
}

#[test]
fn damaged_and_foreign_records_do_no_harm() {
    let Some(cluster) = Cluster::create(2, 2, &[]) else { return };
    cluster.put_record("known/n7", "{");
    cluster.put_record("known/n8", r#"{"id":"short","shard":"short"}"#);
    cluster.put_record("slots/0123456789012345678901234567890123456789", r#"{"slots":"0-99999"}"#);
    cluster.put_record("something/else", "x");
    wait_for("the log reports them", || cluster.nodes[0].log().contains("invalid records of the group"));
    assert_eq!(cluster.call("SET k v"), Value::Simple("OK".into()));
    assert_eq!(cluster.call("GET k"), Value::Bulk("v".into()));
    assert_eq!(cluster.lines(1).len(), 2);
}

/// The current epoch and that of the node's shard, as the node reports them.
fn epochs(cluster: &Cluster, index: usize) -> [u64; 2] {
    let info = cluster.client(index).call("CLUSTER INFO").text();
    let value = |name: &str| {
        let value = info.lines().find_map(|line| line.strip_prefix(name));
        value.and_then(|value| value.trim().parse().ok()).expect("an epoch")
    };
    [value("cluster_current_epoch:"), value("cluster_my_epoch:")]
}

#[test]
fn a_replica_that_is_reset_leaves_its_primary_the_slots() {
    let Some(mut cluster) = Cluster::create(3, 2, &[]) else { return };
    assert_eq!(cluster.call("SET hello x"), Value::ok());
    let client = &mut cluster.client(2);
    let before = epochs(&cluster, 2);
    assert!(0 < before[1] && before[1] < before[0], "the current epoch is the other shard's: {before:?}");
    // A replica has no slots to give up.
    client.ok("CLUSTER RESET");
    cluster.wait_for("the replica has left", || (0..2).all(|index| cluster.lines(index).len() == 2));
    let info = cluster.client(1).call("CLUSTER INFO").text();
    assert!(info.contains("cluster_state:ok") && info.contains("cluster_slots_assigned:16384"), "{info}");
    assert_eq!(cluster.call("GET hello"), Value::Bulk("x".into()));
    // The node has forgotten the other ones, but not the epochs of its former cluster.
    assert_eq!(epochs(&cluster, 2), before);
    cluster.nodes[2].signal(Signal::TERM);
    cluster.nodes[2].wait();
    cluster.restart(2);
    assert_eq!(epochs(&cluster, 2), before);
    let client = &mut cluster.client(2);
    client.ok("CLUSTER RESET HARD");
    assert_eq!(epochs(&cluster, 2), [0, 0]);
    // Giving up its slots does not change the epochs.
    let before = epochs(&cluster, 1);
    cluster.client(1).ok("CLUSTER RESET SOFT");
    assert_eq!(epochs(&cluster, 1), before);
    client.ok("CLUSTER SET-CONFIG-EPOCH 7");
}

#[test]
fn records_that_are_lost_do_not_stop_the_nodes() {
    let Some(cluster) = Cluster::create(2, 2, &[]) else { return };
    assert_eq!(cluster.call("SET k v"), Value::Simple("OK".into()));
    cluster.etcd.post("/v3/kv/deleterange", r#"{"key":"L2JyYWlkLw==","range_end":"L2JyYWlkMA=="}"#);
    for index in 0..2 {
        cluster.wait_for("the log reports it", || cluster.nodes[index].log().contains("(epoch 0) are older"));
    }
    assert_eq!(cluster.call("GET k"), Value::Bulk("v".into()));
    assert!(error(&cluster, 0, "CLUSTER BUMPEPOCH").contains("older than this node's state"));
}

/// A node serves commands without keys before it has slots; when it gets some, it becomes a
/// primary.
#[test]
fn a_node_refuses_nothing_while_it_gets_its_first_slots() {
    let Some(cluster) = Cluster::start(1, &[]) else { return };
    let (is_over, begin) = (AtomicBool::new(false), Instant::now());
    let ask = || {
        let mut client = cluster.client(0);
        // With a time limit, in case the node never becomes ready and no one ends the loop.
        while !is_over.load(Relaxed) && begin.elapsed() < Duration::from_secs(60) {
            client.send(&b"DBSIZE\r\n".repeat(20));
            (0..20).for_each(|_| assert_eq!(client.read(), Value::Integer(0)));
        }
    };
    std::thread::scope(|scope| {
        let askers: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        cluster.client(0).ok("CLUSTER ADDSLOTSRANGE 0 16383");
        cluster.wait_until_ready(1);
        is_over.store(true, Relaxed);
        askers.into_iter().for_each(|asker| asker.join().expect("no request was refused"));
    });
}

#[test]
fn node_without_slots_accepts_shutdown_safe() {
    let Some(mut cluster) = Cluster::create(3, 2, &[]) else { return };
    let refused = "ERR Errors trying to SHUTDOWN. Check logs.";
    assert_eq!(error(&cluster, 0, "SHUTDOWN NOSAVE SAFE"), refused);
    // A replica.
    assert!(cluster.client(2).try_send(&request("SHUTDOWN NOSAVE SAFE")).is_ok());
    assert_eq!(cluster.nodes[2].wait().code(), Some(0));
    // A primary that has given its slots away.
    cluster.move_slots(1, 0, "8192 16383");
    cluster.wait_for("the node knows the new owner", || {
        cluster.lines(1).iter().any(|line| line.ends_with(" 0-16383") && !line.contains("myself"))
    });
    assert!(cluster.client(1).try_send(&request("SHUTDOWN NOSAVE SAFE")).is_ok());
    assert_eq!(cluster.nodes[1].wait().code(), Some(0));
}

/// As scripts send them to every node, and as a stock cluster answers.
#[test]
fn slot_requests_for_another_nodes_slot_do_no_harm() {
    let Some(cluster) = Cluster::create(3, 3, &[]) else { return };
    let owner_of = |slot: usize| {
        let owns = |index: &usize| {
            let lines = cluster.lines(*index);
            let own = lines.iter().find(|line| line.contains("myself")).expect("its line");
            own.split_whitespace().skip(8).any(|range| {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let number = |text: &str| text.parse::<usize>().unwrap_or(usize::MAX);
                (number(first)..=number(last)).contains(&slot)
            })
        };
        (0..3).find(owns)
    };
    let Value::Integer(slot) = cluster.client(0).call("CLUSTER KEYSLOT foo") else { panic!("no slot") };
    let slot = slot as usize;
    let owner = owner_of(slot).expect("an owner");
    let (one, other) = ((owner + 1) % 3, (owner + 2) % 3);
    assert_eq!(cluster.call("SET foo bar"), Value::ok());
    let (add, delete) = (format!("CLUSTER ADDSLOTS {slot}"), format!("CLUSTER DELSLOTS {slot}"));
    let busy = format!("ERR Slot {slot} is already busy");
    assert_eq!(error(&cluster, one, &add), busy);
    // Nothing changes: neither node is the owner.
    cluster.client(one).ok(&format!("CLUSTER SETSLOT {slot} NODE {}", cluster.id(other)));
    cluster.client(one).ok(&delete);
    cluster.client(other).ok(&delete);
    assert_eq!(owner_of(slot), Some(owner));
    assert_eq!(cluster.call("GET foo"), Value::Bulk("bar".into()));
    // Told to forget the owner, a node may add the slot; the key stays where it is and is found.
    cluster.client(one).ok(&add);
    assert_eq!(owner_of(slot), Some(one));
    assert_eq!(cluster.client(owner).call(&format!("CLUSTER COUNTKEYSINSLOT {slot}")), Value::Integer(1));
    assert!(error(&cluster, one, "GET foo").starts_with("ASK "));
    cluster.client(owner).ok(&delete);
    assert_eq!(error(&cluster, one, &add), busy);
    // The whole range: first at its owner, then elsewhere.
    let (first, last) = ranges(3)[2];
    let range = format!("CLUSTER DELSLOTSRANGE {first} {}", first + 10);
    cluster.client(2).ok(&range);
    cluster.wait_for("the others see it", || {
        (0..3).all(|index| {
            cluster.client(index).call("CLUSTER INFO").text().contains("cluster_slots_assigned:16373")
        })
    });
    cluster.client(0).ok(&range);
    let unassigned = format!("ERR Slot {first} is already unassigned");
    assert_eq!(error(&cluster, 0, &range), unassigned);
    assert_eq!(error(&cluster, 2, &range), unassigned);
    cluster.client(0).ok(&format!("CLUSTER ADDSLOTSRANGE {first} {}", first + 10));
    assert!(last > first + 10);
    cluster.wait_until_ready(3);
}

/// A tool that counts a node's links finds one in each direction for each live node.
#[test]
fn links_are_listed_before_any_message() {
    let Some(mut cluster) = Cluster::create(4, 2, &[]) else { return };
    let links = |index: usize| cluster.client(index).call("CLUSTER LINKS").to_string();
    let all = links(0);
    for index in 1..4 {
        assert_eq!(all.matches(&cluster.id(index)).count(), 2, "{all}");
    }
    assert_eq!((all.matches("\"to\"").count(), all.matches("\"from\"").count()), (3, 3), "{all}");
    assert!(!all.contains("\"create-time\", 0"), "{all}");
    let gone = cluster.id(3);
    cluster.nodes[3].signal(Signal::KILL);
    cluster.nodes[3].wait();
    cluster.wait_for("the dead node's links are gone", || {
        !cluster.client(0).call("CLUSTER LINKS").to_string().contains(&gone)
    });
}

#[test]
fn a_failed_primary_with_slots_is_not_forgotten() {
    let Some(mut cluster) = Cluster::create(3, 3, &[]) else { return };
    let id = cluster.id(2);
    cluster.nodes[2].signal(Signal::KILL);
    cluster.nodes[2].wait();
    cluster.wait_for("its failure is seen", || {
        cluster.lines(0).iter().any(|line| line.starts_with(&id) && line.contains("fail"))
    });
    let refused = "ERR The node is a master with assigned slots: move them first";
    assert_eq!(error(&cluster, 0, &format!("CLUSTER FORGET {id}")), refused);
    // As `redis-cli --cluster fix --cluster-fix-with-unreachable-masters` does.
    let (first, last) = ranges(3)[2];
    cluster.client(1).ok(&format!("CLUSTER DELSLOTSRANGE {first} {last}"));
    cluster.client(1).ok(&format!("CLUSTER ADDSLOTSRANGE {first} {last}"));
    cluster.client(0).ok(&format!("CLUSTER FORGET {id}"));
    let info = cluster.client(0).call("CLUSTER INFO").text();
    assert!(info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:2"), "{info}");
}
