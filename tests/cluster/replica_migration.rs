// SPDX-License-Identifier: BSD-3-Clause
//! Replicas that go to primaries which have lost theirs.

use braid_tests::Value;
use rustix::process::Signal;

use crate::Cluster;

/// A key of the second of two shards.
const KEY: &str = "foo";

/// The replicas of a primary that are connected to it.
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
        .wait_for("each has its replicas", || [0, 1].map(|index| replicas(&cluster, index).len()) == [2, 1]);
    assert_eq!(cluster.call(&format!("SET {KEY} value")), Value::ok());
    cluster.nodes[3].signal(Signal::KILL);
    cluster.nodes[3].wait();
    cluster.wait_for("one has gone there", || [0, 1].map(|index| replicas(&cluster, index).len()) == [1, 1]);
    let spare = replicas(&cluster, 1)[0];
    let index = [2, 4].into_iter().find(|&index| cluster.nodes[index].port() == spare).expect("one of two");
    assert!(cluster.nodes[index].log().contains("Migrating to orphaned master"), "{}", cluster.logs());
    cluster.wait_for("it is in sync", || {
        cluster.client(1).info("group").contains(&format!("in_sync:n1,n{index}"))
    });
    cluster.nodes[1].signal(Signal::KILL);
    cluster.nodes[1].wait();
    cluster.wait_for("it has taken over", || {
        cluster.client(index).call(&format!("GET {KEY}")) == Value::Bulk("value".into())
    });
    // The last spare stays: the other primary has no more.
    cluster.restart(3);
    cluster.wait_for("the first replica is back", || replicas(&cluster, index).len() == 1);
    assert_eq!(replicas(&cluster, 0).len(), 1);
}
