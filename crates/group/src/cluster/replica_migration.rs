// SPDX-License-Identifier: BSD-3-Clause
//! Automatic migration of nodes between shards: a replica of a shard with several moves to a shard
//! that has lost all of its own, and all nodes of a shard that has lost its last slot join the
//! shard that received it.
//!
//! Every node computes the migrations from the map; only the migrating replica, or the primary of
//! the emptied shard, acts. The change is based on the same map.
//!
//! Source: Redis documentation, "Redis cluster specification", replica migration.

use std::collections::BTreeMap;

use super::map::{Health, Map, MapNode};

/// A shard's replicas.
#[derive(Default)]
struct Replicas<'m> {
    /// By id.
    alive: Vec<&'m MapNode>,
    has_failed: bool,
}

/// The primary that the node should replicate instead of its own. `kept`: the number of replicas
/// that stay with each primary.
///
/// A shard without known replicas was never meant to have any. The donor is a shard with the most
/// live replicas; of the candidates, the one with the lowest ID moves.
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

/// The primary whose shard the nodes of `node`'s shard should join: a move has given it their
/// shard's last slot. `node`: the leader of that shard; other nodes do not act.
///
/// `None` while slots are about to arrive.
pub fn successor<'m>(map: &'m Map, node: &str) -> Option<&'m MapNode> {
    let own = map.node(node).filter(|own| map.is_primary(own))?;
    let slots = map.slots_of(&own.known.shard).filter(|own| own.slots.is_empty())?;
    let successor = map.primary(slots.taken_by.as_ref()?)?;
    let is_coming = !slots.importing.is_empty()
        || !slots.left.is_empty()
        || map.orders().any(|(.., order)| order.to == own.known.shard);
    (successor.health() == Health::Online && !is_coming).then_some(successor)
}
