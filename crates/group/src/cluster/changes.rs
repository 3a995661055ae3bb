// SPDX-License-Identifier: BSD-3-Clause
//! Operators' commands as changes of records: each takes a map and a request and returns a change,
//! or an error in Redis's words. Those that move slots key by key are in `slot_changes.rs`.
//!
//! Each change compares the epoch's record and raises it, so it is based on everything committed
//! before. A change that finds the epoch raised fails and must be recomputed. Where it matters, a
//! change also compares the shard's record, which the group's own transactions change (who leads).

use std::sync::Arc;

use super::map::{Health, Map, MapNode};
use super::records::{KnownNode, MoveOrder, ShardSlots};
use super::slot_set::SlotSet;
use crate::record::{Expected, Keys};

/// A record to write or delete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Write {
    Put { key: String, value: String },
    Delete { key: String },
}

/// Writes that are committed atomically.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// Records that must be unchanged.
    pub compares: Vec<(String, Expected)>,
    /// Empty: nothing to do, the records are already as requested.
    pub writes: Vec<Write>,
}

impl Change {
    /// The records that it writes, with their values.
    pub(super) fn records(&self) -> impl Iterator<Item = (&str, &str)> {
        self.writes.iter().filter_map(|write| match write {
            Write::Put { key, value } => Some((&**key, &**value)),
            Write::Delete { .. } => None,
        })
    }
}

/// The error for a refused request.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

impl Refusal {
    pub(super) fn new(text: impl Into<String>) -> Refusal {
        Refusal(text.into())
    }

    pub(super) fn unknown(id: &str) -> Refusal {
        Refusal(format!("ERR Unknown node {id}"))
    }
}

/// The server that a request was sent to.
#[derive(Clone, Debug)]
pub struct LocalIdentity {
    pub name: Arc<str>,
    /// Its record if it joins the cluster; it then founds a shard of its own.
    pub node: KnownNode,
}

/// Computes changes to a map.
#[derive(Clone, Copy, Debug)]
pub struct Operator<'m> {
    pub map: &'m Map,
    /// The keys of any shard of the cluster.
    pub keys: &'m Keys,
    pub me: &'m LocalIdentity,
}

pub(super) type Outcome = Result<Change, Refusal>;

impl<'m> Operator<'m> {
    /// This server as a node, if the cluster knows it.
    pub(super) fn own(&self) -> Option<&'m MapNode> {
        self.map.node(&self.me.node.id)
    }

    /// The shard this server is in, or will be in once it has joined.
    pub(super) fn own_shard(&self) -> Arc<str> {
        self.own().map_or_else(|| Arc::clone(&self.me.node.shard), |own| Arc::clone(&own.known.shard))
    }

    pub(super) fn slots_of(&self, shard: &str) -> ShardSlots {
        self.map.slots_of(shard).cloned().unwrap_or_default()
    }

    /// A change that only raises the epoch.
    pub(super) fn begin(&self) -> Change {
        let epoch = self.keys.named_epoch();
        let expected = self.map.epoch_revision.map_or(Expected::Absent, Expected::Revision);
        let value = (self.map.epoch + 1).to_string();
        Change { compares: vec![(epoch.clone(), expected)], writes: vec![Write::Put { key: epoch, value }] }
    }

    /// A change that raises the epoch, and writes this server's record if it has yet to join.
    pub(super) fn joined(&self) -> Change {
        let mut change = self.begin();
        if self.own().is_none() {
            self.put_known(&mut change, &self.me.name, &self.me.node);
        }
        change
    }

    fn put_known(&self, change: &mut Change, name: &str, node: &KnownNode) {
        change.writes.push(Write::Put { key: self.keys.named("known", name), value: node.to_json() });
    }

    /// The slots of this server's shard. A server that has yet to join founds that shard, so it
    /// leads it.
    pub(super) fn own_slots(&self) -> ShardSlots {
        let mut slots = self.slots_of(&self.own_shard());
        if self.own().is_none() {
            slots.leader.get_or_insert_with(|| Arc::clone(&self.me.node.id));
        }
        slots
    }

    /// Gives a newly founded shard a configuration epoch if it has none: the next one plus `after`.
    fn put_founder(&self, change: &mut Change, node: &KnownNode, after: u64) {
        let slots = self.slots_of(&node.shard);
        if slots.config_epoch == 0 {
            let config_epoch = self.map.epoch + 1 + after;
            let slots = ShardSlots { config_epoch, leader: Some(Arc::clone(&node.id)), ..slots };
            self.put_slots(change, &node.shard, &slots);
        }
    }

    pub(super) fn put_slots(&self, change: &mut Change, shard: &str, slots: &ShardSlots) {
        let mut slots = slots.clone();
        slots.tidy();
        change.writes.push(Write::Put { key: self.keys.named("slots", shard), value: slots.to_json() });
    }

    /// MEET: this server and the server with this ID become nodes of the cluster. `host`: its
    /// address in the request.
    ///
    /// # Errors
    /// If no server of the group has this ID.
    pub fn meet(&self, id: &str, host: &str) -> Outcome {
        let mut change = self.joined();
        let is_new = self.own().is_none();
        if is_new {
            self.put_founder(&mut change, &self.me.node, 0);
        }
        if self.map.node(id).is_none() && *self.me.node.id != *id {
            let found = self.map.servers.iter().find(|(_, server)| *server.id == *id);
            let (name, server) = found.ok_or_else(|| Refusal::unknown(id))?;
            let node = KnownNode {
                id: id.into(),
                shard: id.into(),
                host: host.into(),
                port: server.port,
                tls_port: server.tls_port,
            };
            self.put_known(&mut change, name, &node);
            self.put_founder(&mut change, &node, u64::from(is_new));
        } else if !is_new {
            return Ok(Change::default());
        }
        Ok(change)
    }

    /// FORGET: removes a node from the cluster.
    ///
    /// # Errors
    /// If there is no such node, it is this server, or it is this server's primary and alive.
    pub fn forget(&self, id: &str) -> Outcome {
        let node = self.map.node(id).ok_or_else(|| Refusal::unknown(id))?;
        if *self.me.node.id == *id {
            return Err(Refusal::new("ERR I tried hard but I can't forget myself..."));
        }
        let shard = &node.known.shard;
        if *shard == self.own_shard() && self.map.is_primary(node) && node.health() != Health::Failed {
            return Err(Refusal::new("ERR Can't forget my master!"));
        }
        self.remove(node)
    }

    /// RESET: removes this server from the cluster.
    ///
    /// # Errors
    /// If this server is a primary with slots.
    pub fn leave(&self) -> Outcome {
        self.own().map_or_else(|| Ok(Change::default()), |own| self.remove(own))
    }

    fn remove(&self, node: &MapNode) -> Outcome {
        let mut change = self.begin();
        change.writes.push(Write::Delete { key: self.keys.named("known", &node.name) });
        self.leave_shard(&mut change, node)?;
        Ok(change)
    }

    /// A node leaves its shard. The last node to leave takes the shard's records with it, and a
    /// live primary gives up its lease. A primary must have no slots.
    fn leave_shard(&self, change: &mut Change, node: &MapNode) -> Result<(), Refusal> {
        let shard = &node.known.shard;
        let is_last = self.map.members(shard).count() == 1;
        let leads = self.map.is_primary(node) && node.health() != Health::Failed;
        let has_slots = !self.slots_of(shard).slots.is_empty();
        // Also if it has failed: without its records, nobody would know whose the slots were.
        if has_slots && (is_last || self.map.is_primary(node)) {
            return Err(Refusal::new("ERR The node is a master with assigned slots: move them first"));
        }
        self.refer_elsewhere(change, node);
        if is_last {
            self.delete(change, shard, &["shard", "primary", "slots"]);
        } else if leads {
            self.delete(change, shard, &["primary"]);
        }
        Ok(())
    }

    /// Deletes records of a shard, provided its leader has not changed.
    fn delete(&self, change: &mut Change, shard: &str, kinds: &[&str]) {
        let keys = kinds.iter().map(|kind| self.keys.named(kind, shard));
        change.writes.extend(keys.map(|key| Write::Delete { key }));
        self.expect_leader(change, shard);
    }

    /// Makes the change fail if a failover changes the leader.
    pub(super) fn expect_leader(&self, change: &mut Change, shard: &str) {
        let record = self.map.shards.get(shard).and_then(|shard| shard.record.as_ref());
        let expected = record.map_or(Expected::Absent, |record| Expected::Revision(record.revision));
        change.compares.push((self.keys.named("shard", shard), expected));
    }

    /// REPLICATE: this server becomes a replica in the shard that a node leads. `is_empty`: this
    /// server has no keys.
    ///
    /// # Errors
    /// If there is no such node, it is this server or a replica, this server is no node, or it is a
    /// primary with slots or keys.
    pub fn replicate(&self, id: &str, is_empty: bool) -> Outcome {
        let Some(primary) = self.map.node(id) else { return Err(Refusal::unknown(id)) };
        if *self.me.node.id == *id {
            return Err(Refusal::new("ERR Can't replicate myself"));
        }
        if !self.map.is_primary(primary) {
            return Err(Refusal::new("ERR I can only replicate a master, not a replica."));
        }
        // If the map has another node but not this one, this server has not joined.
        let Some(own) = self.own() else { return Err(Refusal::unknown(id)) };
        if own.known.shard == primary.known.shard {
            return Ok(Change::default());
        }
        let has_slots = !self.slots_of(&own.known.shard).slots.is_empty();
        if self.map.is_primary(own) && (has_slots || !is_empty) {
            return Err(Refusal::new(
                "ERR To set a master the node must be empty and without assigned slots.",
            ));
        }
        let mut change = self.begin();
        self.leave_shard(&mut change, own)?;
        let node = KnownNode { shard: Arc::clone(&primary.known.shard), ..own.known.clone() };
        self.put_known(&mut change, &own.name, &node);
        Ok(change)
    }

    /// The shard that this server leads joins, with all its nodes, the shard that took its last
    /// slot ([`super::replica_migration::successor`]).
    ///
    /// # Errors
    /// None: a shard without a successor, or without a node, is no error.
    pub fn join_successor(&self) -> Outcome {
        let successor = super::replica_migration::successor(self.map, &self.me.node.id);
        let Some((own, successor)) = self.own().zip(successor) else { return Ok(Change::default()) };
        let (from, to) = (&own.known.shard, &successor.known.shard);
        let mut change = self.begin();
        self.delete(&mut change, from, &["shard", "primary", "slots"]);
        for member in self.map.members(from) {
            let node = KnownNode { shard: Arc::clone(to), ..member.known.clone() };
            self.put_known(&mut change, &member.name, &node);
        }
        // Shards that were about to join this one are redirected.
        for (id, shard) in &self.map.shards {
            if shard.slots.taken_by.as_ref() == Some(from) {
                let slots = ShardSlots { taken_by: Some(Arc::clone(to)), ..shard.slots.clone() };
                self.put_slots(&mut change, id, &slots);
            }
        }
        Ok(change)
    }

    /// MIGRATESLOTS: orders moves of slots from this server's shard to other shards. Whichever
    /// server leads this shard from now on carries them out. `moves`: name, slots and target node
    /// of each move.
    ///
    /// # Errors
    /// If this server is not a primary, does not have one of the slots, or a target is no other
    /// primary, or a slot is already ordered to move.
    pub fn order_moves(&self, moves: &[(Arc<str>, SlotSet, Arc<str>)], now_ms: i64) -> Outcome {
        let own = self.own().ok_or_else(|| Refusal::unknown(&self.me.node.id))?;
        if !self.map.is_primary(own) {
            return Err(Refusal::new("ERR Slots are not served by this node."));
        }
        let shard = &own.known.shard;
        let mut slots = self.slots_of(shard);
        for (name, moved, id) in moves {
            let target = self.map.node(id).ok_or_else(|| Refusal(format!("ERR Unknown node name: {id}")))?;
            if !self.map.is_primary(target) || target.known.shard == *shard {
                return Err(Refusal::new("ERR Target node is not a primary."));
            }
            for slot in moved.iter() {
                if self.map.owner(slot) != Some(shard) {
                    return Err(Refusal::new("ERR Slots are not served by this node."));
                }
                if slots.ordered.values().any(|order| order.slots.contains(slot)) {
                    return Err(Refusal(format!("ERR Slot {slot} is already being moved.")));
                }
                if self.is_open(slot) {
                    return Err(Refusal(format!(
                        "ERR Slot {slot} is being moved key by key: complete that first (redis-cli --cluster fix)"
                    )));
                }
            }
            let to = Arc::clone(&target.known.shard);
            let order = MoveOrder { slots: moved.clone(), to, created_ms: now_ms };
            slots.ordered.insert(Arc::clone(name), order);
        }
        let mut change = self.begin();
        self.put_slots(&mut change, shard, &slots);
        Ok(change)
    }

    /// Withdraws the move orders that `is_meant` selects, given the owning shard, the move's name
    /// and the order. A withdrawn order can no longer hand over its slots.
    pub fn cancel_moves(&self, is_meant: impl Fn(&str, &str, &MoveOrder) -> bool) -> Change {
        let mut change = self.begin();
        let mut has_some = false;
        for (id, shard) in &self.map.shards {
            let mut slots = shard.slots.clone();
            slots.ordered.retain(|name, order| !is_meant(id, name, order));
            if slots.ordered.len() < shard.slots.ordered.len() {
                self.put_slots(&mut change, id, &slots);
                has_some = true;
            }
        }
        if has_some { change } else { Change::default() }
    }

    /// Withdraws the order of a move that this server cannot carry out. Does nothing if another
    /// server leads the shard by now: that one makes its own attempt.
    pub fn give_up_move(&self, name: &str) -> Change {
        let Some(own) = self.own().filter(|own| self.map.is_primary(own)) else { return Change::default() };
        let shard = &own.known.shard;
        let mut change = self.cancel_moves(|from, other, _| *from == **shard && *other == *name);
        if !change.writes.is_empty() {
            self.expect_leader(&mut change, shard);
        }
        change
    }

    /// Moves slots of this server's shard to a node's shard in one step, as ordered. Both must be
    /// primaries in the records, and still be primaries when the change is committed.
    ///
    /// # Errors
    /// If one of the two is no longer a primary or a node, this server no longer has one of the
    /// slots, or the move was cancelled.
    pub fn move_slots(&self, name: &str, moved: &SlotSet, id: &str) -> Outcome {
        let own = self.own().ok_or_else(|| Refusal::unknown(&self.me.node.id))?;
        let target = self.map.node(id).ok_or_else(|| Refusal::unknown(id))?;
        let (from, to) = (&own.known.shard, &target.known.shard);
        if !self.map.is_primary(own) || !self.map.is_primary(target) || from == to {
            return Err(Refusal::new("ERR Source and target must be primaries of two shards"));
        }
        if let Some(slot) = moved.iter().find(|&slot| self.map.owner(slot) != Some(from)) {
            return Err(Refusal(format!("ERR I'm not the owner of hash slot {slot}")));
        }
        let (mut left, mut grown) = (self.slots_of(from), self.slots_of(to));
        let order = left.ordered.remove(name);
        if order.is_none_or(|order| order.slots != *moved || order.to != *to) {
            return Err(Refusal::new("ERR the move was cancelled"));
        }
        let mut change = self.begin();
        for shard in [from, to] {
            self.expect_leader(&mut change, shard);
        }
        left.lose(moved.iter(), to);
        for slot in moved.iter() {
            grown.slots.insert(slot);
        }
        grown.config_epoch = self.map.epoch + 1;
        self.put_slots(&mut change, from, &left);
        self.put_slots(&mut change, to, &grown);
        Ok(change)
    }

    /// Raises only the epoch: no change computed earlier can be committed any more.
    pub fn raise_epoch(&self) -> Change {
        self.begin()
    }

    /// Raises the shard's configuration epoch after this server has become its primary. No change
    /// if it was already raised for this server, or another server leads.
    pub fn take_lead(&self) -> Change {
        let Some(own) = self.own().filter(|own| self.map.is_primary(own)) else { return Change::default() };
        let shard = &own.known.shard;
        let mut slots = self.slots_of(shard);
        let id = &self.me.node.id;
        if slots.leader.replace(Arc::clone(id)).as_ref() == Some(id) {
            return Change::default();
        }
        slots.config_epoch = self.map.epoch + 1;
        let mut change = self.begin();
        self.expect_leader(&mut change, shard);
        self.put_slots(&mut change, shard, &slots);
        change
    }
}
