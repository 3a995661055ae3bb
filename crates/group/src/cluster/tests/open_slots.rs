// SPDX-License-Identifier: BSD-3-Clause
//! Slots that move key by key: no request, in any order and interrupted anywhere, makes the only
//! copy of a key a stranger to its node, and a slot's owner never takes a key for missing that is
//! elsewhere.

use super::super::slot_changes::{Done, SlotRequest};
use super::*;

/// The slot that moves. Its first owner is node 1.
const SLOT: u16 = 4;
const NODES: usize = 3;
const KEYS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Set(SlotChange),
    Add,
    Delete,
    /// DELSLOTS, ADDSLOTS and STABLE in one transaction, as redis-cli makes a node the owner.
    Fix,
    /// MIGRATE of a key to a node.
    Migrate(usize, usize),
    /// The node counts its keys.
    FinishLeftSlots,
}

fn step() -> impl Strategy<Value = Step> {
    let node = || 0..NODES;
    prop_oneof![
        node().prop_map(|to| Step::Set(SlotChange::Migrating(id(to)))),
        node().prop_map(|from| Step::Set(SlotChange::Importing(id(from)))),
        node().prop_map(|to| Step::Set(SlotChange::Node(id(to)))),
        Just(Step::Set(SlotChange::Stable)),
        Just(Step::Add),
        Just(Step::Delete),
        Just(Step::Fix),
        (0..KEYS, node()).prop_map(|(key, to)| Step::Migrate(key, to)),
        (0..KEYS, node()).prop_map(|(key, to)| Step::Migrate(key, to)),
        Just(Step::FinishLeftSlots),
        Just(Step::FinishLeftSlots),
    ]
}

struct World {
    store: Store,
    memories: [SlotMemory; NODES],
    /// The nodes that have each key.
    places: [BTreeSet<usize>; KEYS],
}

impl World {
    fn new() -> World {
        let mut store = Store::default();
        create(&mut store, NODES);
        let places = std::array::from_fn(|key| if key == 0 { BTreeSet::new() } else { [1].into() });
        World { store, memories: Default::default(), places }
    }

    fn owner(&self, map: &Map) -> Option<usize> {
        (0..NODES).find(|node| map.owner(SLOT).is_some_and(|shard| **shard == id(*node)))
    }

    fn has_keys(&self, node: usize) -> bool {
        self.places.iter().any(|places| places.contains(&node))
    }

    fn slots(map: &Map, node: usize) -> ShardSlots {
        map.slots_of(&id(node)).cloned().unwrap_or_default()
    }

    /// Imports, and takes new keys of clients that were sent by the owner.
    fn takes_keys(map: &Map, node: usize) -> bool {
        let slots = World::slots(map, node);
        slots.importing.contains_key(&SLOT) && !slots.left.contains(SLOT)
    }

    /// A client writes a key, as the nodes send it there.
    fn write(&mut self, key: usize) {
        let map = self.store.map();
        let Some(owner) = self.owner(&map) else { return };
        if self.places[key].contains(&owner) {
            return;
        }
        let referred = World::slots(&map, owner).migrating.get(&SLOT).cloned();
        match (0..NODES).find(|node| referred.as_deref() == Some(&*id(*node))) {
            Some(node) if World::takes_keys(&map, node) => drop(self.places[key].insert(node)),
            // TRYAGAIN, or the client comes back.
            Some(_) => {}
            None => {
                let others = (0..NODES).filter(|node| *node != owner && self.has_keys(*node)).count();
                let is_elsewhere = !self.places[key].is_empty() && others == 1;
                assert!(!is_elsewhere, "the owner {owner} takes key {key} for missing: {:?}", self.places);
                self.places[key].insert(owner);
            }
        }
    }

    fn migrate(&mut self, key: usize, to: usize) {
        let map = self.store.map();
        let Some(from) = self.places[key].first().copied().filter(|from| *from != to) else { return };
        let slots = World::slots(&map, from);
        let owner = self.owner(&map);
        let may_go =
            slots.importing.contains_key(&SLOT) || owner == Some(from) && slots.migrating.contains_key(&SLOT);
        let may_come = owner == Some(to) || World::takes_keys(&map, to);
        if may_go && may_come && self.places[key].insert(to) {
            self.places[key].remove(&from);
        }
    }

    /// The request as its node completes it.
    fn request(&self, node: usize, wanted: SlotChange) -> SlotRequest {
        let map = self.store.map();
        let owner = self.owner(&map);
        let is_migrating = owner.is_some_and(|owner| World::slots(&map, owner).migrating.contains_key(&SLOT));
        let is_emptied = owner.is_some_and(|owner| is_migrating && !self.has_keys(owner));
        let emptied = owner.filter(|_| is_emptied).map(|owner| Arc::from(id(owner)));
        SlotRequest::Set { slot: SLOT, wanted, has_keys: self.has_keys(node), emptied }
    }

    fn run(&mut self, node: usize, step: &Step, written: &[usize]) {
        let requests = match step {
            Step::Migrate(key, to) => return self.migrate(*key, *to),
            Step::Set(wanted) => vec![self.request(node, wanted.clone())],
            Step::Add => vec![SlotRequest::Add(vec![SLOT])],
            Step::Delete => vec![SlotRequest::Delete(vec![SLOT])],
            Step::Fix => vec![
                SlotRequest::Delete(vec![SLOT]),
                SlotRequest::Add(vec![SLOT]),
                self.request(node, SlotChange::Stable),
            ],
            Step::FinishLeftSlots => Vec::new(),
        };
        let (map, keys, me) = (self.store.map(), keys(), me(node));
        let operator = Operator { map: &map, keys: &keys, me: &me };
        let mut memory = self.memories[node].clone();
        let change = match step {
            Step::FinishLeftSlots => {
                let slots: SlotSet = [SLOT].into_iter().collect();
                let none = SlotSet::default();
                let (empty, full) = if self.has_keys(node) { (none, slots) } else { (slots, none) };
                operator.finish_left_slots(&empty, &full)
            }
            _ => operator.run(&requests, &mut memory).0,
        };
        // Clients write while the change is on its way.
        written.iter().for_each(|&key| self.write(key));
        assert!(change.writes.is_empty() || self.store.commit(&change), "no other change was made");
        self.memories[node] = memory;
        self.check(step);
    }

    /// No node has keys of the slot that it would delete.
    fn check(&self, step: &Step) {
        let map = self.store.map();
        for node in (0..NODES).filter(|node| self.has_keys(*node)) {
            let slots = World::slots(&map, node);
            let is_known = slots.slots.contains(SLOT)
                || slots.importing.contains_key(&SLOT)
                || slots.left.contains(SLOT);
            assert!(is_known, "keys of node {node} are strangers after {step:?}: {:?}", self.places);
        }
    }
}

// tests/nightly runs more cases (`PROPTEST_CASES`).
proptest! {
    #[test]
    fn no_key_becomes_a_stranger(
        steps in prop::collection::vec((0..NODES, step(), prop::collection::vec(0..KEYS, 0..3)), 1..40),
    ) {
        let mut world = World::new();
        for (node, step, written) in steps {
            world.run(node, &step, &written);
        }
        // Marks end by themselves.
        for _ in 0..NODES {
            (0..NODES).for_each(|node| world.run(node, &Step::FinishLeftSlots, &[]));
        }
        let map = world.store.map();
        prop_assert!(!map.is_settling(&[SLOT].into_iter().collect()), "{:?}", map.shards);
        for node in (0..NODES).filter(|node| world.owner(&map).is_some_and(|owner| owner != *node)) {
            let is_open = World::slots(&map, node).importing.contains_key(&SLOT);
            prop_assert!(is_open || !world.has_keys(node), "fix does not find the keys of {}", node);
        }
    }
}

/// One request at a node.
fn ask(store: &mut Store, node: usize, memory: &mut SlotMemory, requests: &[SlotRequest]) -> Vec<String> {
    let (map, keys, me) = (store.map(), keys(), me(node));
    let (change, outcomes) = Operator { map: &map, keys: &keys, me: &me }.run(requests, memory);
    assert!(change.writes.is_empty() || store.commit(&change), "no other change was made");
    let text = |outcome: Result<Done, Refusal>| outcome.map_or_else(|refusal| refusal.0, |_| "OK".into());
    outcomes.into_iter().map(text).collect()
}

/// As with a stock node's own table of slots.
#[test]
fn scripts_may_send_slot_requests_to_every_node() {
    let mut store = Store::default();
    create(&mut store, 3);
    let mut memories: [SlotMemory; 3] = Default::default();
    let [add, delete] = [SlotRequest::Add(vec![5]), SlotRequest::Delete(vec![5])];
    let mut one = |node: usize, request: &SlotRequest| {
        ask(&mut store, node, &mut memories[node], std::slice::from_ref(request)).remove(0)
    };
    let give = |to: usize| SlotRequest::Set {
        slot: 5,
        wanted: SlotChange::Node(id(to)),
        has_keys: false,
        emptied: None,
    };
    // The owner is node 2.
    assert_eq!(one(0, &add), "ERR Slot 5 is already busy");
    assert_eq!(one(0, &give(1)), "OK");
    assert_eq!(one(0, &delete), "OK");
    assert_eq!(one(1, &delete), "OK");
    assert_eq!(one(0, &add), "OK", "it was told to forget the owner");
    assert_eq!(one(2, &delete), "OK");
    assert_eq!(one(0, &add), "ERR Slot 5 is already busy");
    let map = store.map();
    assert_eq!(map.owner(5).map(|id| &**id), Some(id(0).as_str()));
    assert!(map.is_complete());
    // Keys may be left at the former owner, which counts them.
    assert!(map.is_settling(&[5].into_iter().collect()));
    let change = Operator { map: &map, keys: &keys(), me: &me(2) }
        .finish_left_slots(&[5].into_iter().collect(), &SlotSet::default());
    assert!(store.commit(&change));
    assert!(store.map().shards.values().all(|shard| {
        let ShardSlots { left, importing, migrating, .. } = &shard.slots;
        left.is_empty() && importing.is_empty() && migrating.is_empty()
    }));
    // Unassigned by another node.
    memories = Default::default();
    memories[1].unassigned.insert(5);
    let mut one = |node: usize, request: &SlotRequest| {
        ask(&mut store, node, &mut memories[node], std::slice::from_ref(request)).remove(0)
    };
    assert_eq!(one(0, &delete), "OK");
    assert_eq!(one(0, &delete), "ERR Slot 5 is already unassigned");
    assert_eq!(one(1, &delete), "OK");
    assert_eq!(one(1, &delete), "ERR Slot 5 is already unassigned");
    assert_eq!(one(2, &delete), "ERR Slot 5 is already unassigned");
}

#[test]
fn a_transaction_of_slot_changes_is_one_change() {
    let mut store = Store::default();
    create(&mut store, 2);
    let mut memory = SlotMemory::default();
    let stable = SlotRequest::Set { slot: 6, wanted: SlotChange::Stable, has_keys: false, emptied: None };
    let requests = [
        SlotRequest::Delete(vec![6]),
        SlotRequest::Add(vec![6, 16_383]),
        SlotRequest::Add(vec![6]),
        stable,
        SlotRequest::BumpEpoch,
    ];
    let before = store.map();
    let busy = "ERR Slot 16383 is already busy";
    assert_eq!(ask(&mut store, 1, &mut memory, &requests), ["OK", busy, "OK", "OK", "OK"]);
    let map = store.map();
    assert_eq!(map.owner(6).map(|id| &**id), Some(id(1).as_str()));
    assert!(map.is_complete() && map.epoch > before.epoch);
    assert_eq!(map.shards.values().map(|shard| shard.slots.slots.len()).sum::<usize>(), 16_384);
}

/// Without its records nobody would know whose its slots were.
#[test]
fn a_failed_primary_with_slots_is_not_forgotten() {
    let mut store = Store::default();
    create(&mut store, 3);
    store.records.remove(&keys().node(&name(1)));
    assert_eq!(store.map().nodes[&*id(1)].health(), Health::Failed);
    let refused = "ERR The node is a master with assigned slots: move them first";
    let forget = |store: &mut Store| run(store, 0, |operator| operator.forget(&id(1)));
    assert_eq!(forget(&mut store), Err(refused.into()));
    // Another node takes the slots over, as `redis-cli --cluster fix` orders it.
    let slots: Vec<u16> = store.map().slots_of(&id(1)).expect("its record").slots.iter().collect();
    let requests = [SlotRequest::Delete(slots.clone()), SlotRequest::Add(slots)];
    assert_eq!(ask(&mut store, 2, &mut SlotMemory::default(), &requests), ["OK", "OK"]);
    let map = store.map();
    assert!(map.is_complete());
    // Nobody waits for a server that is gone.
    assert!(
        !map.is_settling(&SlotSet::all()) && map.slots_of(&id(2)).is_some_and(|own| own.migrating.is_empty())
    );
    assert_eq!(forget(&mut store), Ok(()));
    assert!(store.map().is_complete());
}
