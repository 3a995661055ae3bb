// SPDX-License-Identifier: BSD-3-Clause
//! ADDSLOTS, DELSLOTS, FLUSHSLOTS, SETSLOT and BUMPEPOCH, alone or several in one change (MULTI).
//! These move slots key by key, as `redis-cli --cluster` does: MIGRATE moves the keys, and deletes
//! them where they were, so each key is on one node only. The tool may stop after any step, so none
//! of these requests may make such keys strangers, which their node would delete:
//!
//! - A slot is *open* while a node other than its owner may have keys of it. That node has the slot
//!   in `importing`, and the owner has it in `migrating`, to whichever of the two the keys are
//!   going: the owner sends clients there for keys that it does not have.
//! - A request that would end this (STABLE, a new owner, DELSLOTS) marks the slot as *left* at the
//!   node that may have keys. From then on the slot gets no new keys there, so that its primary can
//!   count them. Without keys it closes the slot; with keys the slot is open again, and a tool can
//!   move them ([`Operator::finish_left_slots`]).
//!
//! No code may remove a slot from a shard's `slots` or `importing` unless the shard has no keys of
//! it, or marks it in the same change.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::changes::{Change, Operator, Outcome, Refusal, Write};
use super::map::{Map, MapNode};
use super::records::ShardSlots;
use super::slot_set::SlotSet;

/// The SETSLOT subcommands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SlotChange {
    /// Keys migrate to this node, one by one.
    Migrating(String),
    /// Keys come from this node.
    Importing(String),
    /// The slot is no longer migrating.
    Stable,
    /// The slot belongs to this node's shard.
    Node(String),
}

/// A request that changes slots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SlotRequest {
    Add(Vec<u16>),
    Delete(Vec<u16>),
    Flush,
    BumpEpoch,
    Set {
        slot: u16,
        wanted: SlotChange,
        /// This server has keys in the slot.
        has_keys: bool,
        /// The shard whose primary had the slot in migrating state and then had no keys of it.
        emptied: Option<Arc<str>>,
    },
}

/// Where a stock node's own table of slots would differ from the cluster's. Scripts send DELSLOTS
/// to every node, and then ADDSLOTS to one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SlotMemory {
    /// Slots whose owner this server was told to forget: it may add them.
    pub deleted: SlotSet,
    /// Slots that other nodes' requests have made unassigned: it may delete them once more.
    pub unassigned: SlotSet,
}

/// The outcome of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    pub is_changed: bool,
    /// The configuration epoch of this server's shard afterwards.
    pub config_epoch: u64,
}

/// The slots of shards as a change leaves them.
#[derive(Default)]
struct Draft(BTreeMap<Arc<str>, ShardSlots>);

impl Change {
    /// Adds a change that is based on this one.
    fn extend(&mut self, next: Change) {
        let has_key = |key: &str| self.compares.iter().any(|(known, _)| known == key);
        let new: Vec<_> = next.compares.into_iter().filter(|(key, _)| !has_key(key)).collect();
        self.compares.extend(new);
        let key_of = |write: &Write| match write {
            Write::Put { key, .. } | Write::Delete { key } => key.clone(),
        };
        for write in next.writes {
            let key = key_of(&write);
            self.writes.retain(|known| key_of(known) != key);
            self.writes.push(write);
        }
    }
}

impl Operator<'_> {
    /// Carries out requests one after the other, as one change. `memory` is updated.
    pub fn run(
        &self,
        requests: &[SlotRequest],
        memory: &mut SlotMemory,
    ) -> (Change, Vec<Result<Done, Refusal>>) {
        let mut whole = Change::default();
        let mut latest: Option<Map> = None;
        let mut run = |request: &SlotRequest| {
            let operator = Operator { map: latest.as_ref().unwrap_or(self.map), ..*self };
            let change = operator.carry_out(request, memory)?;
            let is_changed = !change.writes.is_empty();
            if is_changed {
                latest = Some(operator.map.with(self.keys, change.records()));
                whole.extend(change);
            }
            let map = latest.as_ref().unwrap_or(self.map);
            let config_epoch = Operator { map, ..*self }.own_slots().config_epoch;
            Ok(Done { is_changed, config_epoch })
        };
        let outcomes = requests.iter().map(&mut run).collect();
        (whole, outcomes)
    }

    fn carry_out(&self, request: &SlotRequest, memory: &mut SlotMemory) -> Outcome {
        match request {
            SlotRequest::Add(slots) => {
                let change = self.add_slots(slots, &memory.deleted)?;
                memory.deleted.retain(|slot| !slots.contains(&slot));
                memory.unassigned.retain(|slot| !slots.contains(&slot));
                Ok(change)
            }
            SlotRequest::Delete(slots) => {
                let change = self.delete_slots(slots, memory)?;
                for &slot in slots {
                    memory.deleted.insert(slot);
                    memory.unassigned.remove(slot);
                }
                Ok(change)
            }
            SlotRequest::Flush => self.flush_slots(),
            SlotRequest::BumpEpoch => self.bump_epoch(),
            SlotRequest::Set { slot, wanted, has_keys, emptied } => {
                self.set_slot(*slot, wanted, *has_keys, emptied.as_deref())
            }
        }
    }

    /// ADDSLOTS: assigns slots to this server's shard that are free, or whose owner this server was
    /// told to forget (`deleted`).
    ///
    /// # Errors
    /// If a slot is busy, given twice or ordered to move.
    pub fn add_slots(&self, wanted: &[u16], deleted: &SlotSet) -> Outcome {
        let shard = self.own_shard();
        let is_busy =
            |slot: u16| self.map.owner(slot).is_some_and(|owner| *owner == shard || !deleted.contains(slot));
        if let Some(slot) = wanted.iter().find(|&&slot| is_busy(slot)) {
            return Err(Refusal(format!("ERR Slot {slot} is already busy")));
        }
        let added = each_once(wanted)?;
        let mut draft = Draft::default();
        draft
            .0
            .insert(Arc::clone(&shard), ShardSlots { config_epoch: self.map.epoch + 1, ..self.own_slots() });
        for slot in added.iter() {
            self.refuse_ordered(slot)?;
            self.assign(&mut draft, slot, &shard, None);
        }
        let mut change = self.joined();
        self.put_draft(&mut change, &draft);
        Ok(change)
    }

    /// DELSLOTS: frees slots of the shard that this server leads. Other shards' slots stay as they
    /// are: a stock node forgets them only until it hears of their owner again.
    ///
    /// # Errors
    /// If a slot is already unassigned or given twice.
    pub fn delete_slots(&self, wanted: &[u16], memory: &SlotMemory) -> Outcome {
        let is_free = |slot: u16| {
            let was_deleted = memory.deleted.contains(slot) || !memory.unassigned.contains(slot);
            self.map.owner(slot).is_none() && was_deleted
        };
        if let Some(slot) = wanted.iter().find(|&&slot| is_free(slot)) {
            return Err(Refusal(format!("ERR Slot {slot} is already unassigned")));
        }
        let shard = self.own_shard();
        let mut removed = each_once(wanted)?;
        removed.retain(|slot| self.map.owner(slot) == Some(&shard));
        if removed.is_empty() || self.is_replica() {
            return Ok(Change::default());
        }
        Ok(self.drop_slots(&removed))
    }

    /// FLUSHSLOTS: frees all slots of the shard that this server leads. A replica has no slots of
    /// its own.
    ///
    /// # Errors
    /// None: nothing to do is no error.
    pub fn flush_slots(&self) -> Outcome {
        let shard = self.own_shard();
        let slots = self.slots_of(&shard).slots;
        if self.is_replica() || slots.is_empty() {
            return Ok(Change::default());
        }
        let mut change = self.drop_slots(&slots);
        self.expect_leader(&mut change, &shard);
        Ok(change)
    }

    fn drop_slots(&self, removed: &SlotSet) -> Change {
        let shard = self.own_shard();
        let mut slots = self.slots_of(&shard);
        for slot in removed.iter() {
            slots.slots.remove(slot);
            slots.left.insert(slot);
        }
        let mut change = self.begin();
        self.put_slots(&mut change, &shard, &slots);
        change
    }

    /// SETSLOT. `has_keys`: this server has keys in the slot. `emptied`: the shard whose primary
    /// had the slot in migrating state and then had no keys of it.
    ///
    /// # Errors
    /// If this server is no primary or does not have the slot, the other node is unknown or no
    /// primary, or the slot still has keys here. The text is Redis's.
    pub fn set_slot(&self, slot: u16, wanted: &SlotChange, has_keys: bool, emptied: Option<&str>) -> Outcome {
        let Some(own) = self.own() else {
            return match wanted {
                SlotChange::Stable => Ok(Change::default()),
                SlotChange::Node(id) => Err(Refusal::unknown(id)),
                SlotChange::Migrating(_) => Err(not_the_owner(slot)),
                SlotChange::Importing(id) => Err(unknown_peer(id)),
            };
        };
        if !self.map.is_primary(own) {
            // Tools send this to every node that was a primary when they started.
            return match wanted {
                SlotChange::Node(id) if self.is_given(slot, id) => Ok(Change::default()),
                _ => Err(Refusal::new("ERR Please use SETSLOT only with masters.")),
            };
        }
        let shard = &own.known.shard;
        let is_own = self.map.owner(slot) == Some(shard);
        match wanted {
            SlotChange::Migrating(_) if !is_own => Err(not_the_owner(slot)),
            SlotChange::Importing(_) if is_own => {
                Err(Refusal(format!("ERR I'm already the owner of hash slot {slot}")))
            }
            SlotChange::Migrating(id) | SlotChange::Importing(id) => {
                let peer = self.map.node(id).ok_or_else(|| unknown_peer(id))?;
                if !self.map.is_primary(peer) {
                    return Err(Refusal::new("ERR Target node is not a master"));
                }
                self.refuse_ordered(slot)?;
                let mut slots = self.slots_of(shard);
                // Keys that went to the first node would be out of reach.
                let is_other = |known: &Arc<str>| !self.is_of(known, &peer.known.shard);
                if is_own && slots.migrating.get(&slot).is_some_and(is_other) {
                    return Err(Refusal(format!(
                        "ERR Slot {slot} is already migrating to another node: use SETSLOT STABLE first"
                    )));
                }
                let moves = if is_own { &mut slots.migrating } else { &mut slots.importing };
                moves.insert(slot, Arc::clone(&peer.known.id));
                slots.left.remove(slot);
                let mut change = self.begin();
                self.put_slots(&mut change, shard, &slots);
                Ok(change)
            }
            SlotChange::Stable if is_own => Ok(self.close(slot, shard)),
            SlotChange::Stable => Ok(self.stop_import(slot, shard)),
            SlotChange::Node(id) => self.give_slot(slot, id, has_keys, emptied),
        }
    }

    /// SETSLOT STABLE at the owner: nodes that import the slot count their keys.
    fn close(&self, slot: u16, shard: &Arc<str>) -> Change {
        let mut draft = Draft::default();
        let was_migrating = self.edit(&mut draft, shard).migrating.remove(&slot).is_some();
        let has_referred = self.refer(&mut draft, slot, shard);
        if !was_migrating && !has_referred {
            return Change::default();
        }
        let mut change = self.begin();
        self.put_draft(&mut change, &draft);
        change
    }

    /// SETSLOT STABLE at another node.
    fn stop_import(&self, slot: u16, shard: &Arc<str>) -> Change {
        let mut slots = self.slots_of(shard);
        if !slots.importing.contains_key(&slot) || slots.left.contains(slot) {
            return Change::default();
        }
        slots.left.insert(slot);
        if self.map.owner(slot).is_none() {
            slots.importing.remove(&slot);
        }
        let mut change = self.begin();
        self.put_slots(&mut change, shard, &slots);
        change
    }

    /// True if the slot belongs to the node's shard and is not open.
    fn is_given(&self, slot: u16, id: &str) -> bool {
        let Some(shard) = self.map.node(id).map(|node| &node.known.shard) else { return false };
        self.map.owner(slot) == Some(shard) && !self.slots_of(shard).migrating.contains_key(&slot)
    }

    /// SETSLOT NODE: assigns the slot to a node's shard. Only the slot's source and target do so,
    /// or any node if the slot is free; other nodes read it from the records.
    fn give_slot(&self, slot: u16, id: &str, has_keys: bool, emptied: Option<&str>) -> Outcome {
        let target = self.map.node(id).ok_or_else(|| Refusal::unknown(id))?;
        if !self.map.is_primary(target) {
            return Err(Refusal::new("ERR Target node is not a master"));
        }
        let (to, from, own) = (&target.known.shard, self.map.owner(slot), self.own_shard());
        let is_own = from == Some(&own);
        let is_target = *target.known.id == *self.me.node.id;
        if from == Some(to) {
            return Ok(if is_target { self.close(slot, to) } else { Change::default() });
        }
        if is_own && has_keys {
            return Err(Refusal(format!(
                "ERR Can't assign hashslot {slot} to a different node while I still hold keys for this hash slot."
            )));
        }
        if from.is_some() && !is_own && !is_target {
            return Ok(Change::default());
        }
        self.refuse_ordered(slot)?;
        let mut draft = Draft::default();
        self.edit(&mut draft, to).config_epoch = self.map.epoch + 1;
        self.assign(&mut draft, slot, to, emptied);
        let mut change = self.begin();
        self.put_draft(&mut change, &draft);
        Ok(change)
    }

    /// Gives a slot to a shard. Keys that are elsewhere stay, unless its owner is `emptied`.
    fn assign(&self, draft: &mut Draft, slot: u16, to: &Arc<str>, emptied: Option<&str>) {
        if let Some(from) = self.map.owner(slot).filter(|from| *from != to) {
            let slots = self.edit(draft, from);
            let is_emptied = slots.migrating.contains_key(&slot) && emptied == Some(from);
            slots.lose([slot].into_iter(), to);
            if !is_emptied {
                slots.left.insert(slot);
            }
        }
        let slots = self.edit(draft, to);
        slots.slots.insert(slot);
        slots.importing.remove(&slot);
        slots.left.remove(slot);
        slots.migrating.remove(&slot);
        self.refer(draft, slot, to);
    }

    /// Marks the slot wherever there may be keys of it, and refers its owner to one of these shards
    /// that can be reached. False if there is none.
    fn refer(&self, draft: &mut Draft, slot: u16, owner: &Arc<str>) -> bool {
        let may_have_keys =
            |slots: &ShardSlots| slots.left.contains(slot) || slots.importing.contains_key(&slot);
        let of_map =
            self.map.shards.iter().filter(|(_, shard)| may_have_keys(&shard.slots)).map(|(id, _)| id);
        let of_draft = draft.0.iter().filter(|(_, slots)| may_have_keys(slots)).map(|(id, _)| id);
        let mut holders: Vec<Arc<str>> = of_map.chain(of_draft).filter(|id| *id != owner).cloned().collect();
        // The draft may know better.
        holders.retain(|id| draft.0.get(id).is_none_or(may_have_keys));
        holders.sort_unstable();
        holders.dedup();
        let source = self.id_of_primary(owner);
        for holder in &holders {
            let slots = self.edit(draft, holder);
            slots.left.insert(slot);
            slots.importing.insert(slot, Arc::clone(&source));
        }
        let is_up =
            |id: &&Arc<str>| self.map.shards.get(*id).is_some_and(|shard| !self.map.is_lost(id, shard));
        if let Some(first) = holders.iter().find(is_up) {
            let id = self.id_of_primary(first);
            self.edit(draft, owner).migrating.insert(slot, id);
        }
        !holders.is_empty()
    }

    /// Ends the marks of slots that this server's shard has left: the slots in `empty` have no keys
    /// here, those in `full` have some. Slots without an owner stay marked as long as they have
    /// keys.
    pub fn finish_left_slots(&self, empty: &SlotSet, full: &SlotSet) -> Change {
        let Some(own) = self.own().filter(|own| self.map.is_primary(own)) else { return Change::default() };
        let shard = &own.known.shard;
        let marked = self.slots_of(shard).left;
        let mut draft = Draft::default();
        for slot in empty.iter().filter(|&slot| marked.contains(slot)) {
            let slots = self.edit(&mut draft, shard);
            slots.left.remove(slot);
            slots.importing.remove(&slot);
            let Some(owner) = self.map.owner(slot) else { continue };
            let owners = self.edit(&mut draft, owner);
            if owners.migrating.get(&slot).is_some_and(|id| self.is_of(id, shard)) {
                owners.migrating.remove(&slot);
                // Several nodes may have keys.
                self.refer(&mut draft, slot, owner);
            }
        }
        for slot in full.iter().filter(|&slot| marked.contains(slot)) {
            let Some(owner) = self.map.owner(slot) else { continue };
            let source = self.id_of_primary(owner);
            let slots = self.edit(&mut draft, shard);
            slots.left.remove(slot);
            slots.importing.insert(slot, source);
            let owners = self.edit(&mut draft, owner);
            owners.migrating.entry(slot).or_insert_with(|| Arc::clone(&own.known.id));
        }
        if draft.0.is_empty() {
            return Change::default();
        }
        let mut change = self.begin();
        // A former primary may have counted.
        self.expect_leader(&mut change, shard);
        self.put_draft(&mut change, &draft);
        change
    }

    /// Slots that migrate to a node which leaves its shard migrate to the shard's primary, or if it
    /// has none any more, nowhere.
    pub(super) fn refer_elsewhere(&self, change: &mut Change, node: &MapNode) {
        let others = || self.map.members(&node.known.shard).filter(|other| other.known.id != node.known.id);
        let heir = others().find(|other| self.map.is_primary(other)).or_else(|| others().next());
        for (id, shard) in &self.map.shards {
            let mut slots = shard.slots.clone();
            slots.migrating.retain(|_, to| *to != node.known.id || heir.is_some());
            for to in slots.migrating.values_mut().filter(|to| **to == node.known.id) {
                *to = heir.map_or_else(|| Arc::clone(to), |heir| Arc::clone(&heir.known.id));
            }
            if slots != shard.slots {
                self.put_slots(change, id, &slots);
            }
        }
    }

    /// BUMPEPOCH: makes the shard's configuration epoch the greatest. No change if it already is.
    ///
    /// # Errors
    /// None: nothing to do is no error.
    pub fn bump_epoch(&self) -> Outcome {
        let shard = self.own_shard();
        let mut slots = self.own_slots();
        let others = self.map.shards.iter().filter(|(id, _)| **id != shard);
        let greatest = others.map(|(_, shard)| shard.slots.config_epoch).max().unwrap_or(0);
        if slots.config_epoch > greatest {
            return Ok(Change::default());
        }
        slots.config_epoch = self.map.epoch + 1;
        let mut change = self.joined();
        self.put_slots(&mut change, &shard, &slots);
        Ok(change)
    }

    fn is_replica(&self) -> bool {
        self.own().is_some_and(|own| !self.map.is_primary(own))
    }

    /// True if nodes other than the slot's owner may have keys of it, or take them over one by one.
    pub(super) fn is_open(&self, slot: u16) -> bool {
        self.map.shards.values().any(|shard| {
            let slots = &shard.slots;
            slots.migrating.contains_key(&slot)
                || slots.importing.contains_key(&slot)
                || slots.left.contains(slot)
        })
    }

    /// An atomic move of the slot copies its keys, and must not meet others of them.
    fn refuse_ordered(&self, slot: u16) -> Result<(), Refusal> {
        match self.map.orders().any(|(.., order)| order.slots.contains(slot)) {
            true => Err(Refusal(format!("ERR Slot {slot} is already being moved."))),
            false => Ok(()),
        }
    }

    fn id_of_primary(&self, shard: &Arc<str>) -> Arc<str> {
        let node = self.map.primary(shard).or_else(|| self.map.members(shard).next());
        // A shard has its founder's id.
        node.map_or_else(|| Arc::clone(shard), |node| Arc::clone(&node.known.id))
    }

    fn is_of(&self, id: &str, shard: &Arc<str>) -> bool {
        self.map.node(id).map_or(*id == **shard, |node| node.known.shard == *shard)
    }

    fn edit<'d>(&self, draft: &'d mut Draft, shard: &Arc<str>) -> &'d mut ShardSlots {
        draft.0.entry(Arc::clone(shard)).or_insert_with(|| self.slots_of(shard))
    }

    fn put_draft(&self, change: &mut Change, draft: &Draft) {
        draft.0.iter().for_each(|(shard, slots)| self.put_slots(change, shard, slots));
    }
}

fn unknown_peer(id: &str) -> Refusal {
    Refusal(format!("ERR I don't know about node {id}"))
}

fn not_the_owner(slot: u16) -> Refusal {
    Refusal(format!("ERR I'm not the owner of hash slot {slot}"))
}

/// The slots as a set; an error if any is listed twice.
fn each_once(slots: &[u16]) -> Result<SlotSet, Refusal> {
    let mut set = SlotSet::default();
    match slots.iter().find(|&&slot| !set.insert(slot)) {
        Some(slot) => Err(Refusal(format!("ERR Slot {slot} specified multiple times"))),
        None => Ok(set),
    }
}
