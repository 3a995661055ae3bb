// SPDX-License-Identifier: BSD-3-Clause
//! Replicas that migrate to primaries without replicas, and shards that join the shard to which
//! their last slot has moved.

use braid_tests::Value;
use rustix::process::Signal;

use crate::Cluster;
use crate::moves::{TAGS, newest, under_load, wait_for_keys};

/// A key in the second of two shards.
const KEY: &str = "foo";

/// Ports of the replicas connected to a primary.
fn replicas(cluster: &Cluster, index: usize) -> Vec<u16> {
    let role = cluster.client(index).call("ROLE");
    let list = role.elements().and_then(|role| role.get(2)?.elements());
    let port = |replica: &Value| replica.elements()?.get(1)?.text().parse().ok();
    list.unwrap_or_default().iter().filter_map(port).collect()
}

#[test]
fn a_primary_that_has_lost_its_replicas_gets_one_that_takes_over_from_it() {
    let Some(mut cluster) = Cluster::create(5, 2, &[]) else { return };
    cluster
        .wait_for("replicas are connected", || [0, 1].map(|index| replicas(&cluster, index).len()) == [2, 1]);
    assert_eq!(cluster.call(&format!("SET {KEY} value")), Value::ok());
    cluster.nodes[3].signal(Signal::KILL);
    cluster.nodes[3].wait();
    cluster.wait_for("a replica migrated", || [0, 1].map(|index| replicas(&cluster, index).len()) == [1, 1]);
    let spare = replicas(&cluster, 1)[0];
    let index = [2, 4].into_iter().find(|&index| cluster.nodes[index].port() == spare).expect("one of two");
    assert!(cluster.nodes[index].log().contains("Migrating to orphaned master"), "{}", cluster.logs());
    cluster.wait_for("the migrated replica is in sync", || {
        cluster.client(1).info("group").contains(&format!("in_sync:n1,n{index}"))
    });
    cluster.nodes[1].signal(Signal::KILL);
    cluster.nodes[1].wait();
    cluster.wait_for("the migrated replica has taken over", || {
        cluster.client(index).call(&format!("GET {KEY}")) == Value::Bulk("value".into())
    });
    // The last replica stays: the other primary has no further one.
    cluster.restart(3);
    cluster.wait_for("the restarted replica is connected", || replicas(&cluster, index).len() == 1);
    assert_eq!(replicas(&cluster, 0).len(), 1);
}

/// Waits until a primary has exactly these replicas, and they have its data.
fn wait_for_replicas(cluster: &Cluster, primary: usize, wanted: &[usize]) {
    let mut wanted: Vec<u16> = wanted.iter().map(|&index| cluster.nodes[index].port()).collect();
    wanted.sort_unstable();
    cluster.wait_for(&format!("n{primary} has its replicas"), || {
        let mut found = replicas(cluster, primary);
        found.sort_unstable();
        found == wanted
    });
    let digest = |port: u16| {
        let index = cluster.nodes.iter().position(|node| node.port() == port).expect("a node");
        cluster.client(index).call("DEBUG DIGEST").text()
    };
    let own = cluster.nodes[primary].port();
    cluster.wait_for("the replicas have all data", || wanted.iter().all(|&port| digest(port) == digest(own)));
}

fn is_primary(cluster: &Cluster, index: usize) -> bool {
    cluster.client(index).call("ROLE").to_string().contains("master")
}

const KEYS: usize = 200;

fn write_keys(cluster: &Cluster) {
    for index in 0..KEYS {
        assert_eq!(cluster.call(&format!("SET key:{index} {index}")), Value::ok());
    }
}

fn check_keys(cluster: &Cluster) {
    for index in 0..KEYS {
        let value = cluster.call(&format!("GET key:{index}"));
        assert_eq!(value, Value::Bulk(index.to_string().into()), "key:{index}\n{}", cluster.logs());
    }
}

#[test]
fn a_shard_joins_the_one_that_has_taken_its_last_slot() {
    let more = ["--enable-debug-command", "yes"];
    let Some(mut cluster) = Cluster::create(4, 2, &more) else { return };
    write_keys(&cluster);
    let library = "#!lua name=old\\nredis.register_function('old', function() end)";
    let loaded = cluster.client(0).call(&format!("FUNCTION LOAD \"{library}\""));
    assert_eq!(loaded, Value::Bulk("old".into()));
    cluster.move_slots(0, 1, "0 5000");
    // Clients of its servers are redirected throughout, over their existing connections.
    let mut clients = [0, 2].map(|index| cluster.client(index));
    cluster.move_slots(0, 1, "5001 8191");
    cluster.wait_for("all other nodes are replicas", || {
        for client in &mut clients {
            let reply = client.call("GET bar").to_string();
            assert!(reply.contains("MOVED"), "{reply}\n{}", cluster.logs());
        }
        replicas(&cluster, 1).len() == 3
    });
    wait_for_replicas(&cluster, 1, &[0, 2, 3]);
    assert_eq!(newest(&cluster, 0).map(|(state, _)| state), Some("success".into()));
    assert_eq!(cluster.client(1).call("DBSIZE"), Value::Integer(KEYS as i64));
    assert_eq!(
        cluster.client(0).call("FUNCTION LIST"),
        Value::Array(vec![]),
        "the replica keeps functions that its primary lacks"
    );
    for index in 0..4 {
        assert_eq!(cluster.client(index).call("CLUSTER MYSHARDID").text(), cluster.id(1));
        cluster.wait_for("the node sees one shard", || {
            let info = cluster.client(index).call("CLUSTER INFO").text();
            info.contains("cluster_size:1") && info.contains("cluster_known_nodes:4")
        });
        let shards = cluster.client(index).call("CLUSTER SHARDS");
        assert_eq!(shards.elements().map(<[Value]>::len), Some(1), "the former shard is still listed");
    }
    // The new replicas are ordinary ones: one from the former other shard takes over.
    cluster.wait_for("all are in sync", || cluster.client(1).info("group").contains("in_sync:n0,n1,n2,n3"));
    cluster.client(0).ok("CLUSTER FAILOVER");
    wait_for_replicas(&cluster, 0, &[1, 2, 3]);
    check_keys(&cluster);
    cluster.nodes[2].signal(Signal::KILL);
    cluster.nodes[2].wait();
    cluster.restart(2);
    wait_for_replicas(&cluster, 0, &[1, 2, 3]);
}

#[test]
fn a_shard_that_is_not_to_join_another_stays() {
    let more = ["--enable-debug-command", "yes"];
    let Some(mut cluster) = Cluster::create(5, 3, &more) else { return };
    write_keys(&cluster);
    // A node that never had slots.
    cluster.add_node();
    cluster.client(5).ok(&format!("CLUSTER MEET 127.0.0.1 {}", cluster.nodes[0].port()));
    cluster.client(0).ok("CONFIG SET cluster-allow-replica-migration no");
    cluster.move_slots(0, 2, "0 5460");
    cluster.move_slots(1, 2, "5461 10921");
    // Once this shard has joined, the others would have joined too.
    wait_for_replicas(&cluster, 2, &[1, 4]);
    assert!(is_primary(&cluster, 0) && is_primary(&cluster, 5), "{}", cluster.logs());
    wait_for_replicas(&cluster, 0, &[3]);
    check_keys(&cluster);
    // The new primary knows that its shard has lost its slots. It may join the other shard, and
    // the dead node follows.
    cluster.wait_for("the replica is in sync", || cluster.client(0).info("group").contains("in_sync:n0,n3"));
    cluster.nodes[0].signal(Signal::KILL);
    cluster.nodes[0].wait();
    wait_for_replicas(&cluster, 2, &[1, 3, 4]);
    cluster.restart(0);
    wait_for_replicas(&cluster, 2, &[0, 1, 3, 4]);
    assert!(is_primary(&cluster, 5));
    check_keys(&cluster);
}

#[test]
fn primary_with_keys_of_unassigned_slots_does_not_migrate() {
    let Some(cluster) = Cluster::create(2, 2, &["--enable-debug-command", "yes"]) else { return };
    let Value::Integer(slot) = cluster.client(0).call("CLUSTER KEYSLOT b") else { panic!("no slot") };
    assert!((1..8191).contains(&slot));
    assert_eq!(cluster.call("SET b value"), Value::ok());
    cluster.client(0).ok(&format!("CLUSTER DELSLOTS {slot}"));
    cluster.move_slots(0, 1, &format!("0 {} {} 8191", slot - 1, slot + 1));
    cluster.wait_for("the reason is logged", || cluster.nodes[0].log().contains("keys of unassigned slots"));
    assert!(is_primary(&cluster, 0));
    assert_eq!(cluster.client(0).call("DBSIZE"), Value::Integer(1));
    // The slot's new owner does not have the key, which stays until it is moved.
    cluster.client(1).ok(&format!("CLUSTER ADDSLOTS {slot}"));
    cluster.wait_for("clients are sent to the key", || {
        cluster.client(1).call("GET b").text() == format!("ASK {slot} {}", cluster.nodes[0].address())
    });
    assert_eq!(cluster.client(0).call("DBSIZE"), Value::Integer(1));
    let port = cluster.nodes[1].port();
    cluster.client(0).ok(&format!("MIGRATE 127.0.0.1 {port} \"\" 0 5000 KEYS b"));
    cluster.client(0).ok(&format!("CLUSTER SETSLOT {slot} STABLE"));
    wait_for_replicas(&cluster, 1, &[0]);
    assert_eq!(cluster.call("GET b"), Value::Bulk(b"value".to_vec()));
}

#[test]
fn shard_merge_under_load_leaves_no_lost_or_uncertain_writes() {
    let more = ["--sync-writes", "yes", "--enable-debug-command", "yes"];
    let Some(cluster) = Cluster::create(4, 2, &more) else { return };
    for index in 0..2 {
        let set = format!("in_sync:n{index},n{}", index + 2);
        cluster.wait_for("the replica is in sync", || cluster.client(index).info("group").contains(&set));
    }
    under_load(&cluster, 3, || {
        cluster.move_slots(0, 1, "0 8191");
        cluster.wait_for("all other nodes are replicas", || replicas(&cluster, 1).len() == 3);
    });
    wait_for_keys(&cluster, &[1], 3 * 3 * TAGS as i64);
    wait_for_replicas(&cluster, 1, &[0, 2, 3]);
    for index in 0..4 {
        let info = cluster.client(index).info("group");
        assert!(info.contains("sync_writes_uncertain:0"), "{info}");
    }
}
