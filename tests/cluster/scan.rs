// SPDX-License-Identifier: BSD-3-Clause
//! CLUSTERSCAN across several nodes: a client follows redirections, and finds all keys.

use std::collections::HashMap;

use braid_tests::Value;

use crate::Cluster;

const KEYS: usize = 3000;

/// Writes the keys. On a busy machine a lease may lapse for a moment.
fn fill(cluster: &Cluster) {
    for number in 0..KEYS {
        let write = format!("SET key:{number} {number}");
        cluster.wait_for("a key is written", || cluster.call(&write) == Value::ok());
    }
}

/// One step of a scan: the next cursor, and keys.
fn step(cluster: &Cluster, request: &str) -> (String, Vec<String>) {
    let reply = cluster.call(request);
    let Value::Array(mut parts) = reply else { panic!("{request}: {reply}") };
    let Some(Value::Array(keys)) = parts.pop() else { panic!("{request}: no keys") };
    (parts.remove(0).text(), keys.iter().map(Value::text).collect())
}

/// The number of times that a scan returns each key. `between` is called after each step with the
/// number of steps.
fn walk(cluster: &Cluster, options: &str, mut between: impl FnMut(usize)) -> HashMap<String, usize> {
    let (mut cursor, mut found) = ("0".to_owned(), HashMap::new());
    for number in 1.. {
        let (next, keys) = step(cluster, &format!("CLUSTERSCAN {cursor} {options}"));
        keys.into_iter().for_each(|key| *found.entry(key).or_default() += 1);
        between(number);
        if next == "0" {
            break;
        }
        cursor = next;
    }
    found
}

#[test]
fn a_walk_finds_the_keys_of_all_nodes() {
    let Some(cluster) = Cluster::create(3, 3, &[]) else { return };
    fill(&cluster);
    for index in 0..3 {
        assert!(
            matches!(cluster.client(index).call("DBSIZE"), Value::Integer(500..)),
            "a node has too few keys"
        );
    }
    let found = walk(&cluster, "COUNT 100", |_| {});
    assert_eq!(found.len(), KEYS);
    assert!(found.values().all(|&times| times == 1), "a key was returned twice although no slot moved");
    // A slot of the last node, to which the first node redirects.
    let mut in_slot: Vec<String> = (0..20).map(|number| format!("{{a}}:{number}")).collect();
    for key in &in_slot {
        cluster.wait_for("a key is written", || cluster.call(&format!("SET {key} x")) == Value::ok());
    }
    for options in ["SLOT 15495 COUNT 7", "MATCH {a}:* COUNT 7"] {
        let mut found: Vec<String> = walk(&cluster, options, |_| {}).into_keys().collect();
        found.retain(|key| key.starts_with("{a}"));
        found.sort();
        in_slot.sort();
        assert_eq!(found, in_slot, "{options}");
    }
    // A cursor sent to a node that does not own its slot is redirected.
    let (cursor, _) = step(&cluster, "CLUSTERSCAN 0 SLOT 16000");
    let moved = cluster.client(0).call(&format!("CLUSTERSCAN {cursor}")).to_string();
    assert!(moved.contains("MOVED 16000"), "{moved}");
}

#[test]
fn cluster_scan_continues_after_slots_move() {
    let Some(cluster) = Cluster::create(2, 2, &[]) else { return };
    fill(&cluster);
    // Slots move to the other node while the scan is in the middle of them.
    let found = walk(&cluster, "COUNT 50", |steps| match steps {
        10 => cluster.move_slots(0, 1, "0 5000"),
        30 => cluster.move_slots(1, 0, "8192 12000"),
        _ => {}
    });
    assert_eq!(found.len(), KEYS, "no key is missed");
    let again = found.values().filter(|&&times| times > 1).count();
    assert!(again < 100, "{again} keys were returned again, more than the slots under a cursor hold");
}
