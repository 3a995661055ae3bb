// SPDX-License-Identifier: BSD-3-Clause
//! Replica migration: which nodes move where.

use super::super::replica_migration::{goal, successor};
use super::*;

/// Three shards, led by nodes 0 to 2. Replicas: 3, 4 and 5 of the first, 6 and 7 of the second, 8
/// of the third.
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
    assert!(store.records.remove(&keys().node(&name(index))).is_some(), "the node was alive");
}

/// The nodes that migrate, and their new primaries.
fn goals(store: &Store, kept: usize) -> Vec<(usize, String)> {
    let map = store.map();
    let of = |index: usize| goal(&map, &id(index), kept).map(|goal| (index, goal.known.id.to_string()));
    (0..9).filter_map(of).collect()
}

#[test]
fn one_of_the_most_goes_where_all_have_failed() {
    let mut store = cluster();
    assert_eq!(goals(&store, 1), [], "each primary has a replica");
    stop(&mut store, 8);
    assert_eq!(goals(&store, 1), [(3, id(2))]);
    assert_eq!(goals(&store, 2), [(3, id(2))]);
    assert_eq!(goals(&store, 3), [], "three replicas stay");
    // After it has gone, the next replica needed comes from the shard that now has the most.
    run(&mut store, 3, |operator| operator.replicate(&id(2), false)).expect("a replica");
    assert_eq!(goals(&store, 1), []);
    stop(&mut store, 3);
    assert_eq!(goals(&store, 1), [(4, id(2))]);
    stop(&mut store, 4);
    assert_eq!(goals(&store, 1), [(6, id(2))]);
    assert_eq!(goals(&store, 2), []);
    store.start(8);
    assert_eq!(goals(&store, 1), [], "the replica is back");
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
fn replicas_leave_no_headless_shard_and_join_no_empty_one() {
    let mut store = cluster();
    stop(&mut store, 8);
    stop(&mut store, 0);
    assert_eq!(goals(&store, 1), [], "a replica is about to take over");
    store.start(0);
    run(&mut store, 2, |operator| operator.flush_slots()).expect("it leads");
    assert_eq!(goals(&store, 1), []);
}

/// Moves slots of a shard atomically, on behalf of the leading nodes.
fn give(store: &mut Store, from: usize, to: usize, slots: &SlotSet) {
    let wanted = [(move_name(0), slots.clone(), Arc::from(id(to)))];
    run(store, from, |operator| operator.order_moves(&wanted, 7)).expect("the order is accepted");
    run(store, from, |operator| operator.move_slots(&move_name(0), slots, &id(to)))
        .expect("the move is accepted");
}

fn give_all(store: &mut Store, from: usize, to: usize) {
    let shard = store.map().nodes[&*id(from)].known.shard.clone();
    let slots = store.map().slots_of(&shard).expect("its shard").slots.clone();
    give(store, from, to, &slots);
}

/// The nodes whose shard should join another, and the primary of that shard.
fn takers(store: &Store) -> Vec<(usize, String)> {
    let map = store.map();
    let of =
        |index: usize| successor(&map, &id(index)).map(|successor| (index, successor.known.id.to_string()));
    (0..9).filter_map(of).collect()
}

/// The nodes of the shard that node `shard` founded.
fn members(store: &Store, shard: usize) -> Vec<usize> {
    let index = |node: &MapNode| usize::from_str_radix(&node.known.id, 16).expect("an index");
    store.map().members(&id(shard)).map(index).collect()
}

fn join(store: &mut Store, index: usize) {
    run(store, index, |operator| operator.join_successor()).expect("the node joins");
}

#[test]
fn a_shard_without_slots_joins_the_one_that_has_taken_the_last() {
    let mut store = cluster();
    assert_eq!(takers(&store), []);
    let slots: SlotSet = "0,3".parse().expect("slots");
    give(&mut store, 0, 2, &slots);
    assert_eq!(takers(&store), [], "the shard has other slots");
    // A shard that never had slots stays alone.
    store.start(9);
    run(&mut store, 9, |operator| operator.meet(&id(0), "h")).expect("both are known");
    assert_eq!(successor(&store.map(), &id(9)), None);
    give_all(&mut store, 0, 1);
    assert_eq!(takers(&store), [(0, id(1))], "the primary joins the shard that took the last slot");
    // A replica that has taken over also acts, and finds the other shard's new primary.
    store.promote(4, &id(0));
    store.promote(7, &id(1));
    run(&mut store, 4, |operator| Ok(operator.take_lead())).expect("it leads");
    assert_eq!(takers(&store), [(4, id(7))]);
    stop(&mut store, 7);
    assert_eq!(takers(&store), [], "the target's next primary is unknown");
    store.start(7);
    // Nodes that are down at the time join as well.
    stop(&mut store, 5);
    let (map, all) = (store.map(), keys());
    let late = Operator { map: &map, keys: &all, me: &me(4) }.join_successor().expect("the shard may join");
    join(&mut store, 0);
    assert_eq!(members(&store, 0), [0, 3, 4, 5], "a node that no longer leads moved its shard");
    join(&mut store, 4);
    assert_eq!((members(&store, 0), members(&store, 1)), (vec![], vec![0, 1, 3, 4, 5, 6, 7]));
    let map = store.map();
    assert!(!map.shards.contains_key(&*id(0)), "the shard still exists");
    assert_eq!((map.size(), map.covered().len()), (2, usize::from(HASH_SLOTS)));
    assert!(!store.commit(&late), "the same join was committed twice");
}

#[test]
fn shard_does_not_join_another_if_it_regains_slots() {
    let mut store = cluster();
    give_all(&mut store, 0, 1);
    let spoil = |store: &Store, request: &dyn Fn(&mut Store)| {
        let (map, all) = (store.map(), keys());
        let change =
            Operator { map: &map, keys: &all, me: &me(0) }.join_successor().expect("the shard may join");
        let mut other = Store { records: store.records.clone(), revision: store.revision };
        request(&mut other);
        assert!(!other.commit(&change), "a change based on an outdated map was committed");
        other
    };
    let slots: SlotSet = "6".parse().expect("a slot");
    let wanted = [(move_name(1), slots, Arc::from(id(0)))];
    let ordered = spoil(&store, &|store| {
        run(store, 2, |operator| {
            let wanted = [(move_name(1), "2".parse().expect("a slot"), Arc::from(id(0)))];
            operator.order_moves(&wanted, 7)
        })
        .expect("the order is accepted");
    });
    assert_eq!(takers(&ordered), []);
    let importing = spoil(&store, &|store| {
        run(store, 0, |operator| operator.set_slot(4, &SlotChange::Importing(id(1)), false, None))
            .expect("the import is accepted");
    });
    assert_eq!(takers(&importing), []);
    let given = spoil(&store, &|store| {
        run(store, 1, |operator| operator.order_moves(&wanted, 7)).expect("the order is accepted");
        run(store, 1, |operator| operator.move_slots(&move_name(1), &wanted[0].1, &id(0)))
            .expect("the move is accepted");
    });
    assert_eq!(takers(&given), []);
    // `taken_by` is cleared once the shard has slots. Without them it is then like a new shard.
    let mut flushed = given;
    run(&mut flushed, 0, |operator| operator.flush_slots()).expect("it leads");
    assert_eq!(takers(&flushed), []);
    let failed_over = spoil(&store, &|store| store.promote(3, &id(0)));
    assert_eq!(takers(&failed_over), [(3, id(1))]);
    // The operator was faster.
    let gone = spoil(&store, &|store| {
        run(store, 0, |operator| operator.replicate(&id(2), true)).expect("it is empty");
    });
    assert_eq!(members(&gone, 0), [3, 4, 5]);
}

#[test]
fn replicas_follow_slots_moved_singly_and_through_shards() {
    let mut store = cluster();
    let last: SlotSet = "3".parse().expect("a slot");
    let rest =
        store.map().slots_of(&id(0)).expect("its shard").slots.iter().filter(|&slot| slot != 3).collect();
    give(&mut store, 0, 2, &rest);
    run(&mut store, 1, |operator| operator.set_slot(3, &SlotChange::Importing(id(0)), false, None))
        .expect("the import is accepted");
    run(&mut store, 0, |operator| operator.set_slot(3, &SlotChange::Migrating(id(1)), false, None))
        .expect("the migration is accepted");
    assert_eq!(takers(&store), []);
    run(&mut store, 1, |operator| operator.set_slot(3, &SlotChange::Node(id(1)), true, Some(&id(0))))
        .expect("the new owner");
    assert_eq!(takers(&store), [(0, id(1))]);
    // Before it joins, the other shard loses its slots too, and joins first.
    give_all(&mut store, 1, 2);
    assert_eq!(takers(&store), [(0, id(1)), (1, id(2))]);
    join(&mut store, 1);
    assert_eq!(takers(&store), [(0, id(2))], "the shard follows the one that took its slots");
    join(&mut store, 0);
    assert_eq!(members(&store, 2), (0..9).collect::<Vec<_>>());
    // redis-cli continues to notify former primaries of slot changes.
    run(&mut store, 0, |operator| operator.set_slot(3, &SlotChange::Node(id(2)), false, None))
        .expect("the slot has moved");
    let refused =
        run(&mut store, 0, |operator| operator.set_slot(3, &SlotChange::Importing(id(2)), false, None));
    assert_eq!(refused, Err("ERR Please use SETSLOT only with masters.".into()));
    assert!(last.iter().all(|slot| store.map().owner(slot).is_some_and(|shard| **shard == id(2))));
}
