// SPDX-License-Identifier: BSD-3-Clause
//! Which replica goes where.

use super::super::replica_migration::goal;
use super::*;

/// Three shards, led by the first three nodes, with replicas: of the first 3, 4 and 5, of the
/// second 6 and 7, of the third 8.
fn cluster() -> Store {
    let mut store = Store::default();
    create(&mut store, 3);
    for (replica, primary) in [(3, 0), (4, 0), (5, 0), (6, 1), (7, 1), (8, 2)] {
        store.start(replica);
        run(&mut store, replica, |operator| operator.meet(&id(0), "h")).expect("both are known");
        run(&mut store, replica, |operator| operator.replicate(&id(primary), true)).expect("it is empty");
    }
    store
}

fn stop(store: &mut Store, index: usize) {
    assert!(store.records.remove(&keys().node(&name(index))).is_some(), "it was alive");
}

/// The nodes that go somewhere, and where.
fn goals(store: &Store, kept: usize) -> Vec<(usize, String)> {
    let map = store.map();
    let of = |index: usize| goal(&map, &id(index), kept).map(|goal| (index, goal.known.id.to_string()));
    (0..9).filter_map(of).collect()
}

#[test]
fn one_of_the_most_goes_where_all_have_failed() {
    let mut store = cluster();
    assert_eq!(goals(&store, 1), [], "each has some");
    stop(&mut store, 8);
    assert_eq!(goals(&store, 1), [(3, id(2))]);
    assert_eq!(goals(&store, 2), [(3, id(2))]);
    assert_eq!(goals(&store, 3), [], "three stay");
    // It goes, and the next one that is needed comes from a shard that has most now.
    run(&mut store, 3, |operator| operator.replicate(&id(2), false)).expect("a replica");
    assert_eq!(goals(&store, 1), []);
    stop(&mut store, 3);
    assert_eq!(goals(&store, 1), [(4, id(2))]);
    stop(&mut store, 4);
    assert_eq!(goals(&store, 1), [(6, id(2))]);
    assert_eq!(goals(&store, 2), []);
    store.start(8);
    assert_eq!(goals(&store, 1), [], "it is back");
}

#[test]
fn a_promoted_replica_gets_one_and_a_primary_that_never_had_any_does_not() {
    let mut store = cluster();
    stop(&mut store, 2);
    assert_eq!(goals(&store, 1), [], "its replica is about to take over");
    store.promote(8, &id(2));
    assert_eq!(goals(&store, 1), [(3, id(8))]);
    run(&mut store, 8, |operator| operator.forget(&id(2))).expect("a replica that has failed");
    assert_eq!(goals(&store, 1), []);
}

#[test]
fn nobody_goes_from_a_shard_without_its_primary_or_to_one_without_slots() {
    let mut store = cluster();
    stop(&mut store, 8);
    stop(&mut store, 0);
    assert_eq!(goals(&store, 1), [], "one of them is about to take over");
    store.start(0);
    run(&mut store, 2, |operator| operator.flush_slots()).expect("it leads");
    assert_eq!(goals(&store, 1), []);
}
