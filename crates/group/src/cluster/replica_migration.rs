// SPDX-License-Identifier: BSD-3-Clause
//! Nodes that go to another shard by themselves: a replica of a shard that has several, to a shard
//! that has lost all of its own; and all nodes of a shard that has lost its last slot, to the one
//! that has it.
//!
//! Every node works out from the map who goes where, and only that one acts, or the primary of that
//! shard. The change is based on the same map.
//!
//! Source: Redis documentation, "Redis cluster specification", replica migration.

use std::collections::BTreeMap;

use super::map::{Health, Map, MapNode};

/// What a shard has besides its primary.
#[derive(Default)]
struct Replicas<'m> {
    /// By id.
    alive: Vec<&'m MapNode>,
    has_failed: bool,
}

/// The primary that the node should replicate instead of its own. `kept`: replicas that stay with
/// each primary.
///
/// A shard without known replicas was never meant to have any. The replica comes from a shard that
/// has most; of those it is the one with the least id.
pub fn goal<'m>(map: &'m Map, node: &str, kept: usize) -> Option<&'m MapNode> {
    let mut shards = BTreeMap::<&str, Replicas<'_>>::new();
    for replica in map.nodes.values().filter(|node| !map.is_primary(node)) {
        let replicas = shards.entry(&replica.known.shard).or_default();
        match replica.health() {
            Health::Failed => replicas.has_failed = true,
            Health::Loading | Health::Online => replicas.alive.push(replica),
        }
    }
    let primary_of = |shard: &str| map.primary(shard).filter(|primary| primary.health() == Health::Online);
    let most = shards.values().map(|replicas| replicas.alive.len()).max().filter(|most| *most > kept)?;
    let givers = shards.iter().filter(|(_, replicas)| replicas.alive.len() == most);
    let spare = givers.flat_map(|(_, replicas)| &replicas.alive).min_by_key(|spare| &spare.known.id)?;
    let may_go = *spare.known.id == *node
        && spare.health() == Health::Online
        && primary_of(&spare.known.shard).is_some();
    let mut bereft =
        shards.iter().filter(|(_, replicas)| may_go && replicas.has_failed && replicas.alive.is_empty());
    bereft.find_map(|(shard, _)| {
        let has_slots = map.slots_of(shard).is_some_and(|shard| !shard.slots.is_empty());
        primary_of(shard).filter(|_| has_slots)
    })
}

/// The primary whose replicas the nodes of a shard should become: a move has given that one's shard
/// the last slot. `node`: the one that leads the shard; others do not act.
///
/// Not while slots are to come.
pub fn taker<'m>(map: &'m Map, node: &str) -> Option<&'m MapNode> {
    let own = map.node(node).filter(|own| map.is_primary(own))?;
    let slots = map.slots_of(&own.known.shard).filter(|own| own.slots.is_empty())?;
    let taker = map.primary(slots.taken_by.as_ref()?)?;
    let is_coming =
        !slots.importing.is_empty() || map.orders().any(|(.., order)| order.to == own.known.shard);
    (taker.health() == Health::Online && !is_coming).then_some(taker)
}
