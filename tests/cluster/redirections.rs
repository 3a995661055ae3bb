// SPDX-License-Identifier: BSD-3-Clause
//! Redirections and errors compared with a stock cluster of three nodes, byte for byte.

use std::process::Command;

use braid_tests::server::{newer_peers, stock};
use braid_tests::{RawClient, TestServer, Value, wait_for};

use crate::{Cluster, ranges};

/// A stock cluster of `count` primaries, each with its range of slots.
pub fn stock_cluster(program: &std::path::Path, count: usize) -> Vec<TestServer> {
    let mode = ["--cluster-enabled", "yes", "--cluster-node-timeout", "5000"];
    let nodes: Vec<TestServer> = (0..count).map(|_| TestServer::start_program(program, &mode)).collect();
    for ((first, last), node) in ranges(count).into_iter().zip(&nodes) {
        let slots: String = (first..=last).map(|slot| format!(" {slot}")).collect();
        node.connect().ok(&format!("CLUSTER ADDSLOTS{slots}"));
        node.connect().ok(&format!("CLUSTER MEET 127.0.0.1 {}", nodes[0].port()));
    }
    for node in &nodes {
        wait_for("the stock cluster is ok", || {
            node.connect().call("CLUSTER INFO").text().contains("cluster_state:ok")
        });
    }
    nodes
}

/// A node's replies to requests of one connection, with ports and IDs replaced by node numbers.
fn replies(nodes: &[TestServer], index: usize, requests: &[&str]) -> Vec<String> {
    let ids: Vec<String> = nodes.iter().map(|node| node.connect().call("CLUSTER MYID").text()).collect();
    let mut client: RawClient = nodes[index].connect();
    let reply = |request: &&str| {
        let mut request = (*request).to_owned();
        for (place, id) in ids.iter().enumerate() {
            request = request.replace(&format!("@{place}"), id);
        }
        let mut text = client.call(&request).to_string();
        for (place, node) in nodes.iter().enumerate() {
            text = text.replace(&format!(":{}", node.port()), &format!(":port{place}"));
        }
        format!("{request}: {text}").replace(&ids[0], "@0").replace(&ids[1], "@1").replace(&ids[2], "@2")
    };
    requests.iter().map(reply).collect()
}

/// The requests for each node. `foo` is in slot 12182, `bar` in 5061, `hello` in 866.
const REQUESTS: &[(usize, &[&str])] = &[
    (
        0,
        &[
            "SET foo 1",
            "GET foo",
            "GET hello",
            "SET hello 1",
            "GET bar",
            "MGET foo bar",
            "MGET {foo}a {foo}b",
        ],
    ),
    (
        2,
        &["SET foo 1", "GET foo", "EVAL \"return redis.call('get',KEYS[1])\" 1 hello", "EVAL \"return 1\" 0"],
    ),
    (1, &["MULTI", "SET foo 1", "EXEC", "MULTI", "PING", "EXEC", "WATCH foo", "SUBSCRIBE x"]),
    (
        0,
        &[
            "SSUBSCRIBE foo",
            "SPUBLISH foo x",
            "PUBLISH foo x",
            "DEL foo",
            "EXISTS hello foo",
            "RENAME hello foo",
        ],
    ),
    (0, &["READONLY", "GET foo", "READWRITE", "GET foo", "ASKING", "GET foo", "GET foo"]),
    // A slot in migration from the third node to the first one.
    (
        0,
        &[
            "CLUSTER SETSLOT 12182 IMPORTING @2",
            "GET foo",
            "ASKING",
            "GET foo",
            "ASKING",
            "MGET {foo}x {foo}y",
        ],
    ),
    (2, &["CLUSTER SETSLOT 12182 MIGRATING @0", "GET foo", "GET {foo}x", "SET {foo}x 1", "MGET foo {foo}x"]),
    (2, &["DEL foo", "GET foo"]),
    (0, &["ASKING", "SET {foo}x 2", "ASKING", "GET {foo}x", "GET {foo}x", "ASKING", "MGET {foo}x {foo}y"]),
    (0, &["ASKING", "MULTI", "SET {foo}t 1", "GET {foo}t", "EXEC", "GET {foo}t"]),
    (0, &["ASKING", "MULTI", "GET {foo}t", "DISCARD", "GET {foo}t"]),
    (0, &["ASKING", "MULTI", "GET hello", "EXEC", "GET {foo}x", "MULTI", "GET {foo}x", "EXEC"]),
    (0, &["CLUSTER SETSLOT 12182 NODE @0", "GET {foo}x", "CLUSTER COUNTKEYSINSLOT 12182"]),
];

#[test]
fn clients_are_sent_where_stock_nodes_send_them() {
    if Command::new("redis-server").arg("--version").output().is_err() {
        return;
    }
    let Some(cluster) = Cluster::create(3, 3, &[]) else { return };
    let own: Vec<Vec<String>> =
        REQUESTS.iter().map(|(index, requests)| replies(&cluster.nodes, *index, requests)).collect();
    for peer in stock().into_iter().chain(newer_peers()) {
        let nodes = stock_cluster(&peer.program, 3);
        for ((index, requests), own) in REQUESTS.iter().zip(&own) {
            let stock = replies(&nodes, *index, requests);
            assert_eq!(*own, stock, "compared with {}", peer.version);
        }
    }
}

#[test]
fn unassigned_slots_stop_the_cluster_as_configured() {
    let Some(cluster) = Cluster::start(2, &[]) else { return };
    cluster.client(0).ok("CLUSTER ADDSLOTSRANGE 0 8000");
    cluster.client(1).ok("CLUSTER ADDSLOTSRANGE 8001 16000");
    let mut client = cluster.client(0);
    wait_for("both nodes are seen", || {
        cluster.lines(0).len() == 2 && cluster.client(0).call("ROLE").to_string().contains("master")
    });
    let down = "CLUSTERDOWN The cluster is down";
    let text = |client: &mut RawClient, request: &str| client.call(request).to_string();
    assert!(text(&mut client, "SET hello 1").ends_with(down));
    assert!(text(&mut client, "GET {06S}").contains("CLUSTERDOWN"), "reads are refused too");
    client.ok("CONFIG SET cluster-allow-reads-when-down yes");
    assert_eq!(client.call("GET hello"), Value::NullBulk);
    assert!(text(&mut client, "SET hello 1").contains("only accepts read commands"));
    client.ok("CONFIG SET cluster-require-full-coverage no");
    wait_for("the node serves its own slots", || client.call("SET hello 1") == Value::Simple("OK".into()));
    assert_eq!(client.call("CLUSTER INFO").text().lines().next(), Some("cluster_state:ok"));
    // And back, after an update of the slot map.
    assert!(client.call("CLUSTER BUMPEPOCH").text().starts_with("BUMPED"));
    client.ok("CONFIG SET cluster-require-full-coverage yes");
    assert!(text(&mut client, "SET hello 1").contains("only accepts read commands"));
}

#[test]
fn transaction_with_a_moved_slot_is_redirected_as_a_whole() {
    let Some(cluster) = Cluster::create(2, 2, &[]) else { return };
    let mut client = cluster.client(0);
    client.ok("MULTI");
    assert_eq!(client.call("SET hello 1"), Value::Simple("QUEUED".into()));
    cluster.move_slots(0, 1, "866 866");
    // Not EXECABORT: clients resend the transaction to another node.
    let moved = format!("MOVED 866 127.0.0.1:{}", cluster.nodes[1].port());
    let reply = client.call("EXEC").to_string();
    assert!(reply.contains(&moved) && !reply.contains("EXECABORT"), "{reply}");
    assert!(client.call("EXEC").to_string().contains("EXEC without MULTI"));
}
