// SPDX-License-Identifier: BSD-3-Clause
//! Slot moves whose target stops serving while it receives keys: it dies, hangs or is deposed. The
//! move goes on, to its successor, once the records name one, and whether the target returns or
//! not. `repl-timeout` is ten minutes in these tests: a move that waited for it would not be done
//! in time.

use braid_tests::{Value, request};
use rustix::process::Signal;

use crate::Cluster;
use crate::moves::{Stopped, begin, leads, newest, ok, wait_for_keys};

/// Keys of slots 866 (hello) and 5061 (bar), each with a value of some hundred bytes.
const KEYS: usize = 40_000;
/// Keys that the target has received when it fails.
const RECEIVED: usize = 2000;

/// Fills a slot of a node.
pub(crate) fn fill(cluster: &Cluster, index: usize, tag: &str, keys: usize) {
    let (mut client, value) = (cluster.client(index), "x".repeat(400));
    for batch in (0..keys).step_by(500) {
        let numbers = batch..keys.min(batch + 500);
        let requests = numbers.clone().map(|number| request(&format!("SET {{{tag}}}:{number} {value}")));
        client.send(&requests.flatten().collect::<Vec<u8>>());
        numbers.for_each(|_| assert_eq!(client.read(), ok()));
    }
}

/// The number of keys that a node has, shown or not.
pub(crate) fn physical(cluster: &Cluster, index: usize) -> usize {
    let told = cluster.client(index).call("DEBUG HTSTATS 0").text();
    let line = told.lines().find_map(|line| line.trim().strip_prefix("number of elements: "));
    line.map_or(0, |count| count.parse().expect("a number"))
}

/// Two shards with a replica each, and moves of two slots from the first to the second, one of
/// which has begun to arrive at the target's replica.
fn moving() -> Option<Cluster> {
    let more = ["--repl-timeout", "600", "--enable-debug-command", "yes"];
    let cluster = Cluster::create(4, 2, &more)?;
    cluster.wait_for("the replica is in sync", || cluster.client(1).info("group").contains("in_sync:n1,n3"));
    fill(&cluster, 0, "hello", KEYS);
    fill(&cluster, 0, "bar", KEYS);
    for slot in ["866 866", "5061 5061"] {
        assert_eq!(begin(&cluster, 0, 1, slot), ok());
    }
    cluster.wait_for("the replica has received keys", || physical(&cluster, 3) >= RECEIVED);
    Some(cluster)
}

/// Waits until the second shard's other server has both slots, and all keys.
fn check_successor(cluster: &Cluster) {
    cluster.wait_for("the successor leads", || leads(cluster, 3));
    cluster.wait_for("the successor has the slots", || {
        let counts =
            [866, 5061].map(|slot| cluster.client(3).call(&format!("CLUSTER COUNTKEYSINSLOT {slot}")));
        counts.iter().all(|count| *count == Value::Integer(KEYS as i64))
    });
    cluster.wait_for("the source reports that", || {
        newest(cluster, 0).is_some_and(|(state, _)| state == "success")
    });
    wait_for_keys(cluster, &[0, 3], 2 * KEYS as i64);
    assert!(cluster.nodes[0].log().contains("was interrupted"), "the moves were over before the fault");
}

#[test]
fn moves_go_on_when_the_target_dies_and_stays_dead() {
    let Some(mut cluster) = moving() else { return };
    cluster.nodes[1].signal(Signal::KILL);
    cluster.nodes[1].wait();
    check_successor(&cluster);
    cluster.restart(1);
    cluster.wait_until_ready(2);
}

#[test]
fn moves_go_on_when_the_target_hangs() {
    let Some(cluster) = moving() else { return };
    let _stopped = Stopped::new(&cluster, 1);
    check_successor(&cluster);
}

#[test]
fn moves_go_on_when_the_target_is_deposed() {
    let Some(cluster) = moving() else { return };
    // TAKEOVER is refused while the primary is alive.
    cluster.client(3).ok("CLUSTER FAILOVER");
    check_successor(&cluster);
}
