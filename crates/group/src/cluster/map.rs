// SPDX-License-Identifier: BSD-3-Clause
//! A cluster as its records tell: nodes, shards, and which slots are whose.

use std::collections::BTreeMap;
use std::sync::Arc;

use braid_base::crc::HASH_SLOTS;

use super::records::{KnownNode, MoveOrder, ShardSlots, is_id};
use super::slot_set::SlotSet;
use crate::record::{
    EPOCH, Holder, Keys, MemberId, Node, Offer, Record, RecordError, Shard, Versioned, is_name,
};

/// A node of the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapNode {
    /// Its name (`node-name`).
    pub name: Arc<str>,
    pub known: KnownNode,
    /// What it says of itself; none if it is not alive.
    pub server: Option<Node>,
}

/// How a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Health {
    Online,
    /// It is a replica that gets a full sync.
    Loading,
    /// Its lease in etcd has ended.
    Failed,
}

/// A shard of the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MapShard {
    pub record: Option<Versioned<Shard>>,
    pub holder: Option<Holder>,
    pub slots: ShardSlots,
    /// Names of servers that offer to take the primary's place.
    pub offers: BTreeMap<Arc<str>, Offer>,
}

/// A cluster at one revision of its records.
#[derive(Clone, Debug, Default)]
pub struct Map {
    pub revision: u64,
    /// Raised with each change of nodes, slots and primaries; the largest of the shards' epochs, at
    /// least.
    pub epoch: u64,
    /// The revision of the epoch's record; none before the first change.
    pub(crate) epoch_revision: Option<u64>,
    /// By id.
    pub nodes: BTreeMap<Arc<str>, MapNode>,
    /// All servers that are alive, nodes of the cluster or not; by name.
    pub servers: BTreeMap<Arc<str>, Node>,
    /// By id.
    pub shards: BTreeMap<Arc<str>, MapShard>,
    /// The shard of each slot.
    owners: Vec<Option<Arc<str>>>,
    /// Slots that have an owner.
    covered: SlotSet,
}

impl Map {
    /// Reads a cluster's records. What is not understood is passed over.
    pub fn read<'a>(keys: &Keys, records: impl Iterator<Item = Record<'a>>, revision: u64) -> Map {
        let mut map = Map { revision, owners: vec![None; usize::from(HASH_SLOTS)], ..Map::default() };
        let mut known = Vec::new();
        for Record { key, value, revision, lease } in records {
            let (key, value) = (String::from_utf8_lossy(key), String::from_utf8_lossy(value));
            let Some(name) = key.strip_prefix(keys.prefix()) else { continue };
            // The group's thread reports what it cannot read.
            let _: Result<(), RecordError> = map.take(name, &value, revision, lease, &mut known);
        }
        for (name, node) in known {
            let server = map.servers.get(&name).filter(|server| *server.id == *node.id).cloned();
            map.shards.entry(Arc::clone(&node.shard)).or_default();
            map.nodes.insert(Arc::clone(&node.id), MapNode { name, known: node, server });
        }
        map.assign();
        map
    }

    fn take(
        &mut self,
        name: &str,
        value: &str,
        revision: u64,
        lease: i64,
        known: &mut Vec<(Arc<str>, KnownNode)>,
    ) -> Result<(), RecordError> {
        match name.split_once('/') {
            Some(("known", name)) if is_name(name) => known.push((name.into(), KnownNode::from_json(value)?)),
            Some(("node", name)) if is_name(name) => {
                self.servers.insert(name.into(), Node::from_json(value)?);
            }
            Some(("shard", id)) if is_id(id) => {
                let value = Shard::from_json(value)?;
                self.shards.entry(id.into()).or_default().record = Some(Versioned { value, revision });
            }
            Some(("primary", id)) if is_id(id) => {
                self.shards.entry(id.into()).or_default().holder = Some(Holder::from_json(value, lease)?);
            }
            Some(("slots", id)) if is_id(id) => {
                self.shards.entry(id.into()).or_default().slots = ShardSlots::from_json(value)?;
            }
            Some(("offer", rest)) => {
                if let Some((id, name)) = rest.split_once('/').filter(|(id, name)| is_id(id) && is_name(name))
                {
                    let offer = Offer::from_json(value)?;
                    self.shards.entry(id.into()).or_default().offers.insert(name.into(), offer);
                }
            }
            None if name == EPOCH => {
                // If it cannot be read the next change makes it anew.
                self.epoch_revision = Some(revision);
                self.epoch = value.trim().parse().unwrap_or(0);
            }
            _ => {}
        }
        Ok(())
    }

    /// Which slot is whose. No transaction gives one slot to two shards; if records say so
    /// nevertheless, the one with the greater epoch has it.
    fn assign(&mut self) {
        let mut shards: Vec<_> =
            self.shards.iter().filter(|(_, shard)| !shard.slots.slots.is_empty()).collect();
        shards.sort_by_key(|(_, shard)| shard.slots.config_epoch);
        for (id, shard) in shards {
            for slot in shard.slots.slots.iter() {
                self.owners[usize::from(slot)] = Some(Arc::clone(id));
                self.covered.insert(slot);
            }
        }
        self.epoch = self.shards.values().map(|shard| shard.slots.config_epoch).fold(self.epoch, u64::max);
    }

    /// The shard that a slot belongs to.
    pub fn owner(&self, slot: u16) -> Option<&Arc<str>> {
        self.owners.get(usize::from(slot))?.as_ref()
    }

    /// Slots that belong to a shard.
    pub fn covered(&self) -> &SlotSet {
        &self.covered
    }

    pub fn node(&self, id: &str) -> Option<&MapNode> {
        self.nodes.get(id)
    }

    /// The node with a name.
    pub fn named(&self, name: &str) -> Option<&MapNode> {
        self.nodes.values().find(|node| *node.name == *name)
    }

    /// The nodes of a shard, by id.
    pub fn members(&self, shard: &str) -> impl Iterator<Item = &MapNode> {
        self.nodes.values().filter(move |node| *node.known.shard == *shard)
    }

    /// The primary of a shard: as its record says, or its founder before there is one.
    pub fn primary(&self, shard: &str) -> Option<&MapNode> {
        let record = self.shards.get(shard)?.record.as_ref();
        match record.map(|record| &record.value.primary) {
            Some(MemberId { node, .. }) => self.members(shard).find(|member| *member.name == **node),
            None => self.nodes.get(shard).filter(|node| *node.known.shard == *shard),
        }
    }

    /// Has the records of servers say where nodes are that do not know it themselves.
    pub fn place(&self, servers: &mut BTreeMap<Arc<str>, Node>) {
        for node in self.nodes.values() {
            if let Some(server) = servers.get_mut(&node.name).filter(|server| *server.id == *node.known.id) {
                server.host = node.host().into();
            }
        }
    }

    pub fn is_primary(&self, node: &MapNode) -> bool {
        let KnownNode { id, shard, .. } = &node.known;
        self.shards.get(shard).is_some_and(|shard_record| match &shard_record.record {
            Some(record) => record.value.primary.node == node.name,
            None => id == shard,
        })
    }

    /// The shard's slots; none of them if it has no record.
    pub fn slots_of(&self, shard: &str) -> Option<&ShardSlots> {
        self.shards.get(shard).map(|shard| &shard.slots)
    }

    /// Moves that are ordered: the shard that has the slots, the move's name, and the order.
    pub fn orders(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, &MoveOrder)> {
        self.shards
            .iter()
            .flat_map(|(id, shard)| shard.slots.ordered.iter().map(move |(name, order)| (id, name, order)))
    }

    /// Shards that have slots.
    pub fn size(&self) -> usize {
        self.shards.values().filter(|shard| !shard.slots.slots.is_empty()).count()
    }

    /// Slots of shards whose primary is not alive, and of which no node that is may take its place
    /// by itself.
    pub fn lost_slots(&self) -> usize {
        let shards = self.shards.iter().filter(|(id, shard)| self.is_lost(id, shard));
        shards.map(|(_, shard)| shard.slots.slots.len()).sum()
    }

    fn is_lost(&self, id: &str, shard: &MapShard) -> bool {
        let Some(Versioned { value: record, .. }) = &shard.record else {
            return self.primary(id).is_none_or(|primary| primary.health() == Health::Failed);
        };
        // One that was started anew is not the member that it was.
        let run = |node: &MapNode| Some(Arc::clone(&node.server.as_ref()?.run));
        let is_primary = |node: &MapNode| {
            *node.name == *record.primary.node && run(node).as_ref() == Some(&record.primary.run)
        };
        let may_follow = |node: &MapNode| {
            let Some(run) = run(node) else { return false };
            let offers = shard.offers.get(&node.name);
            let is_in_sync =
                record.in_sync.contains(&MemberId { node: Arc::clone(&node.name), run: run.clone() });
            is_in_sync && !node.stays_replica()
                || offers.is_some_and(|offer| offer.run == run && offer.epoch == record.epoch)
        };
        !self.members(id).any(|node| is_primary(node) || may_follow(node))
    }

    /// Every slot is served, or will be as soon as a replica has taken over.
    pub fn is_complete(&self) -> bool {
        self.covered.len() == usize::from(HASH_SLOTS) && self.lost_slots() == 0
    }
}

impl MapNode {
    /// Where the node is: as it says, or as it was reached when it joined.
    pub fn host(&self) -> &str {
        let said = self.server.as_ref().map(|server| &*server.host);
        said.filter(|host| !host.is_empty()).unwrap_or(&self.known.host)
    }

    /// Its name for clients; empty if it has none, or is not alive.
    pub fn hostname(&self) -> &str {
        self.server.as_ref().map_or("", |server| &server.hostname)
    }

    pub fn port(&self) -> u16 {
        self.server.as_ref().map_or(self.known.port, |server| server.port)
    }

    pub fn tls_port(&self) -> u16 {
        self.server.as_ref().map_or(self.known.tls_port, |server| server.tls_port)
    }

    /// The bus port that it has clients told; 0 if it has not said, or is not alive.
    pub fn bus_port(&self) -> u16 {
        self.server.as_ref().map_or(0, |server| server.bus_port)
    }

    /// It takes no other node's place by itself.
    pub fn stays_replica(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.priority == 0)
    }

    pub fn health(&self) -> Health {
        match &self.server {
            Some(server) if server.is_loading => Health::Loading,
            Some(_) => Health::Online,
            None => Health::Failed,
        }
    }
}
