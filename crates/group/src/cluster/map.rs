// SPDX-License-Identifier: BSD-3-Clause
//! A cluster as read from its records: nodes, shards, and the owner of each slot.

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
    /// Its own record as a server; `None` if it is not alive.
    pub server: Option<Node>,
}

/// A node's health.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Health {
    Online,
    /// A replica receiving a full sync.
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
    /// Offers to take the primary's place, by server name.
    pub offers: BTreeMap<Arc<str>, Offer>,
}

/// A slot without an owner.
const NOBODY: u32 = u32::MAX;

/// A cluster at one revision of its records.
#[derive(Clone, Debug, Default)]
pub struct Map {
    pub revision: u64,
    /// Raised with each change of nodes, slots and primaries; at least the largest of the shards'
    /// configuration epochs.
    pub epoch: u64,
    /// The revision of the epoch's record; `None` before the first change.
    pub(crate) epoch_revision: Option<u64>,
    /// By id.
    pub nodes: BTreeMap<Arc<str>, MapNode>,
    /// All live servers, nodes of the cluster or not; by name.
    pub servers: BTreeMap<Arc<str>, Node>,
    /// By id.
    pub shards: BTreeMap<Arc<str>, MapShard>,
    /// The shards that have slots, and the position of each slot's shard among them, or [`NOBODY`].
    owning: Vec<Arc<str>>,
    owners: Vec<u32>,
    /// The slots that have an owner.
    covered: SlotSet,
}

impl Map {
    /// Parses a cluster's records. Skips those it cannot parse.
    pub fn read<'a>(keys: &Keys, records: impl Iterator<Item = Record<'a>>, revision: u64) -> Map {
        let mut map = Map { revision, ..Map::default() };
        let mut known = Vec::new();
        for Record { key, value, revision, lease } in records {
            let (key, value) = (String::from_utf8_lossy(key), String::from_utf8_lossy(value));
            let Some(name) = key.strip_prefix(keys.prefix()) else { continue };
            // The group thread reports unreadable records.
            let _: Result<(), RecordError> = map.take(name, &value, revision, lease, &mut known);
        }
        map.add_known(known);
        map.assign();
        map
    }

    /// This map after these records have been written.
    pub(super) fn with<'r>(&self, keys: &Keys, records: impl Iterator<Item = (&'r str, &'r str)>) -> Map {
        let mut map = self.clone();
        let mut known = Vec::new();
        for (key, value) in records {
            let Some(name) = key.strip_prefix(keys.prefix()) else { continue };
            // This process has just made the records.
            let _: Result<(), RecordError> = map.take(name, value, self.revision, 0, &mut known);
        }
        map.add_known(known);
        map.assign();
        map
    }

    fn add_known(&mut self, known: Vec<(Arc<str>, KnownNode)>) {
        let map = self;
        for (name, node) in known {
            let server = map.servers.get(&name).filter(|server| *server.id == *node.id).cloned();
            map.shards.entry(Arc::clone(&node.shard)).or_default();
            map.nodes.insert(Arc::clone(&node.id), MapNode { name, known: node, server });
        }
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
                // If it is unreadable, the next change rewrites it.
                self.epoch_revision = Some(revision);
                self.epoch = value.trim().parse().unwrap_or(0);
            }
            _ => {}
        }
        Ok(())
    }

    /// Assigns each slot to its owner. No transaction gives a slot to two shards; if the records do
    /// so nevertheless, the shard with the greater configuration epoch owns it.
    fn assign(&mut self) {
        let mut shards: Vec<_> =
            self.shards.iter().filter(|(_, shard)| !shard.slots.slots.is_empty()).collect();
        shards.sort_by_key(|(_, shard)| shard.slots.config_epoch);
        self.owners = vec![NOBODY; usize::from(HASH_SLOTS)];
        self.covered = SlotSet::default();
        for (position, (_, shard)) in shards.iter().enumerate() {
            for slot in shard.slots.slots.iter() {
                self.owners[usize::from(slot)] = position as u32;
            }
            self.covered.add(&shard.slots.slots);
        }
        self.owning = shards.into_iter().map(|(id, _)| Arc::clone(id)).collect();
        self.epoch = self.shards.values().map(|shard| shard.slots.config_epoch).fold(self.epoch, u64::max);
    }

    /// The shard that a slot belongs to.
    pub fn owner(&self, slot: u16) -> Option<&Arc<str>> {
        self.owning.get(*self.owners.get(usize::from(slot))? as usize)
    }

    /// The slots that a shard owns.
    pub fn owned_by(&self, shard: &str) -> SlotSet {
        let position = self.owning.iter().position(|id| **id == *shard);
        let Some((position, known)) = position.zip(self.shards.get(shard)) else { return SlotSet::default() };
        let mut owned = known.slots.slots.clone();
        owned.retain(|slot| self.owners[usize::from(slot)] == position as u32);
        owned
    }

    /// The slots that have an owner.
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

    /// The current primary of the shard that a node is in; the node itself if it is unknown.
    pub fn primary_for(&self, id: &Arc<str>) -> Arc<str> {
        let shard = self.node(id).map(|node| &node.known.shard);
        let primary = shard.and_then(|shard| self.primary(shard));
        primary.map_or_else(|| Arc::clone(id), |primary| Arc::clone(&primary.known.id))
    }

    /// True while the keys of one of these slots are to be counted at a node that has left it and
    /// can be reached.
    pub fn is_settling(&self, slots: &SlotSet) -> bool {
        self.shards.iter().any(|(id, shard)| {
            let left = &shard.slots.left;
            let has_some = || slots.iter().any(|slot| left.contains(slot) && self.owner(slot).is_some());
            !left.is_empty() && has_some() && !self.is_lost(id, shard)
        })
    }

    /// The nodes of a shard, by id.
    pub fn members(&self, shard: &str) -> impl Iterator<Item = &MapNode> {
        self.nodes.values().filter(move |node| *node.known.shard == *shard)
    }

    /// A shard's primary according to its record, or its founder while there is no record.
    pub fn primary(&self, shard: &str) -> Option<&MapNode> {
        let record = self.shards.get(shard)?.record.as_ref();
        match record.map(|record| &record.value.primary) {
            Some(MemberId { node, .. }) => self.members(shard).find(|member| *member.name == **node),
            None => self.nodes.get(shard).filter(|node| *node.known.shard == *shard),
        }
    }

    /// Fills in the addresses of nodes in the servers' records, for nodes that do not know their
    /// own.
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

    /// The shard's slots; `None` if the shard has no records.
    pub fn slots_of(&self, shard: &str) -> Option<&ShardSlots> {
        self.shards.get(shard).map(|shard| &shard.slots)
    }

    /// The ordered moves, each as the owning shard, the move's name and the order.
    pub fn orders(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, &MoveOrder)> {
        self.shards
            .iter()
            .flat_map(|(id, shard)| shard.slots.ordered.iter().map(move |(name, order)| (id, name, order)))
    }

    /// The number of shards with slots.
    pub fn size(&self) -> usize {
        self.shards.values().filter(|shard| !shard.slots.slots.is_empty()).count()
    }

    /// The number of slots in shards whose primary is not alive and has no live node that may
    /// replace it automatically.
    pub fn lost_slots(&self) -> usize {
        let shards = self.shards.iter().filter(|(id, shard)| self.is_lost(id, shard));
        shards.map(|(_, shard)| shard.slots.slots.len()).sum()
    }

    pub(super) fn is_lost(&self, id: &str, shard: &MapShard) -> bool {
        let Some(Versioned { value: record, .. }) = &shard.record else {
            return self.primary(id).is_none_or(|primary| primary.health() == Health::Failed);
        };
        // A restarted server is another member.
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

    /// True if every slot is served, or will be once a replica has taken over.
    pub fn is_complete(&self) -> bool {
        self.covered.len() == usize::from(HASH_SLOTS) && self.lost_slots() == 0
    }
}

impl MapNode {
    /// The node's address: from its own record, or as it was reached when it joined.
    pub fn host(&self) -> &str {
        let said = self.server.as_ref().map(|server| &*server.host);
        said.filter(|host| !host.is_empty()).unwrap_or(&self.known.host)
    }

    /// Its host name for clients; empty if it has none or is not alive.
    pub fn hostname(&self) -> &str {
        self.server.as_ref().map_or("", |server| &server.hostname)
    }

    pub fn port(&self) -> u16 {
        self.server.as_ref().map_or(self.known.port, |server| server.port)
    }

    pub fn tls_port(&self) -> u16 {
        self.server.as_ref().map_or(self.known.tls_port, |server| server.tls_port)
    }

    /// The port for connections with TLS, or for those without.
    pub fn port_for(&self, is_tls: bool) -> u16 {
        if is_tls { self.tls_port() } else { self.port() }
    }

    /// The bus port announced to clients; 0 if it announces none or is not alive.
    pub fn bus_port(&self) -> u16 {
        self.server.as_ref().map_or(0, |server| server.bus_port)
    }

    /// It never takes another node's place by itself.
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
