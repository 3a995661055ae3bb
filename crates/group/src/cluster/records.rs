// SPDX-License-Identifier: BSD-3-Clause
//! The records of a cluster, in addition to those of its groups.
//!
//! | key under `/braid/<cluster>/` | value | lives |
//! | --- | --- | --- |
//! | `known/<name>` | [`KnownNode`]: a node of the cluster, and its shard | forever |
//! | `epoch` | a number | forever |
//! | `slots/<shard>` | [`ShardSlots`]: slots, ordered moves and epoch of a shard | forever |
//!
//! Changes to the other records here compare and raise the epoch, so changes are serialized.

use std::collections::BTreeMap;
use std::sync::Arc;

use braid_base::crc::HASH_SLOTS;
use serde_json::{Value, json};

use super::slot_set::SlotSet;
use crate::record::{RecordError, read_json};

/// Length of a node or shard ID in digits.
const ID_LEN: usize = 40;

/// True if the text is a node or shard ID: 40 lower-case hexadecimal digits.
pub fn is_id(text: &str) -> bool {
    text.len() == ID_LEN && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
}

/// A node that belongs to the cluster, alive or not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownNode {
    pub id: Arc<str>,
    /// Its shard: the ID of the node that founded that shard.
    pub shard: Arc<str>,
    /// Its address when it joined. While it is alive, its record as a server is more recent.
    pub host: Box<str>,
    pub port: u16,
    pub tls_port: u16,
}

impl KnownNode {
    pub fn to_json(&self) -> String {
        json!({
            "id": *self.id, "shard": *self.shard,
            "host": self.host, "port": self.port, "tls-port": self.tls_port,
        })
        .to_string()
    }

    /// # Errors
    /// If the text is not JSON, or a field is missing or out of range.
    pub fn from_json(text: &str) -> Result<KnownNode, RecordError> {
        read_json(text, "the record of a node", |value| {
            let id = |name: &str| value[name].as_str().filter(|text| is_id(text)).map(Arc::from);
            let port = |name: &str| u16::try_from(value[name].as_u64().unwrap_or(0)).ok();
            Some(KnownNode {
                id: id("id")?,
                shard: id("shard")?,
                host: value["host"].as_str().unwrap_or("").into(),
                port: port("port")?,
                tls_port: port("tls-port")?,
            })
        })
    }
}

/// The slots of a shard.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ShardSlots {
    pub slots: SlotSet,
    /// Set to a new cluster-wide maximum at each change of a slot's owner or of the primary. No two
    /// shards share a value.
    pub config_epoch: u64,
    /// The ID of the primary that last raised the epoch on taking the lead.
    pub leader: Option<Arc<str>>,
    /// Slots migrating to another node, key by key (SETSLOT MIGRATING), and that node's ID.
    pub migrating: BTreeMap<u16, Arc<str>>,
    /// Slots migrating here, and the ID of the source node.
    pub importing: BTreeMap<u16, Arc<str>>,
    /// Slots given up key by key, or no longer being imported, of which keys may be left at this
    /// shard: these keys may be the only ones. Its primary counts them (`slot_changes.rs`).
    pub left: SlotSet,
    /// Ordered atomic moves of slots to other shards, by name.
    pub ordered: BTreeMap<Arc<str>, MoveOrder>,
    /// The shard that received this shard's last slot, while this one has none.
    pub taken_by: Option<Arc<str>>,
}

/// A move of slots ordered by an operator (CLUSTER MIGRATESLOTS). It stays in the record of the
/// owning shard until that shard's current primary has moved the slots, or an operator cancels it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MoveOrder {
    pub slots: SlotSet,
    /// The receiving shard.
    pub to: Arc<str>,
    /// In ms since the Unix epoch.
    pub created_ms: i64,
}

impl MoveOrder {
    fn to_json(&self) -> Value {
        json!({ "slots": self.slots.to_string(), "to": *self.to, "created-ms": self.created_ms })
    }

    fn from_json(value: &Value) -> Option<MoveOrder> {
        Some(MoveOrder {
            slots: value["slots"].as_str()?.parse().ok()?,
            to: Arc::from(value["to"].as_str().filter(|text| is_id(text))?),
            created_ms: value["created-ms"].as_i64().unwrap_or(0),
        })
    }
}

impl ShardSlots {
    /// Removes slots that go to another shard.
    pub(super) fn lose(&mut self, slots: impl Iterator<Item = u16>, to: &Arc<str>) {
        for slot in slots {
            self.slots.remove(slot);
            self.migrating.remove(&slot);
        }
        self.taken_by = Some(Arc::clone(to));
    }

    /// Restricts orders and migrations to slots that the shard still owns: the others left some
    /// other way. What the shard owns it no longer imports. Clears `taken_by` if it has slots.
    pub(super) fn tidy(&mut self) {
        let owned = &self.slots;
        self.migrating.retain(|slot, _| owned.contains(*slot));
        self.importing.retain(|slot, _| !owned.contains(*slot));
        self.left.retain(|slot| !owned.contains(slot));
        self.taken_by.take_if(|_| !self.slots.is_empty());
        for order in self.ordered.values_mut() {
            order.slots = order.slots.iter().filter(|&slot| self.slots.contains(slot)).collect();
        }
        self.ordered.retain(|_, order| !order.slots.is_empty());
    }

    pub fn to_json(&self) -> String {
        let moves = |moves: &BTreeMap<u16, Arc<str>>| {
            let pairs = moves.iter().map(|(slot, id)| (slot.to_string(), Value::from(&**id)));
            Value::Object(pairs.collect())
        };
        let mut value = json!({ "slots": self.slots.to_string(), "config-epoch": self.config_epoch });
        if let Some(leader) = &self.leader {
            value["leader"] = Value::from(&**leader);
        }
        if !self.migrating.is_empty() {
            value["migrating"] = moves(&self.migrating);
        }
        if !self.importing.is_empty() {
            value["importing"] = moves(&self.importing);
        }
        if !self.left.is_empty() {
            value["left"] = Value::from(self.left.to_string());
        }
        if !self.ordered.is_empty() {
            let orders = self.ordered.iter().map(|(name, order)| (name.to_string(), order.to_json()));
            value["ordered"] = Value::Object(orders.collect());
        }
        if let Some(shard) = &self.taken_by {
            value["taken-by"] = Value::from(&**shard);
        }
        value.to_string()
    }

    /// # Errors
    /// If the text is not JSON, or a field is missing or out of range.
    pub fn from_json(text: &str) -> Result<ShardSlots, RecordError> {
        read_json(text, "the record of a shard's slots", |value| {
            let moves = |name: &str| -> Option<BTreeMap<u16, Arc<str>>> {
                let Some(moves) = value.get(name) else { return Some(BTreeMap::new()) };
                let one = |(slot, id): (&String, &Value)| {
                    let slot = slot.parse().ok().filter(|&slot: &u16| slot < HASH_SLOTS)?;
                    Some((slot, Arc::from(id.as_str().filter(|text| is_id(text))?)))
                };
                moves.as_object()?.iter().map(one).collect()
            };
            let orders = || -> Option<BTreeMap<Arc<str>, MoveOrder>> {
                let Some(orders) = value.get("ordered") else { return Some(BTreeMap::new()) };
                let one = |(name, order): (&String, &Value)| {
                    Some((Arc::from(is_id(name).then_some(&**name)?), MoveOrder::from_json(order)?))
                };
                orders.as_object()?.iter().map(one).collect()
            };
            let id = |name: &str| value[name].as_str().filter(|text| is_id(text)).map(Arc::from);
            Some(ShardSlots {
                slots: value["slots"].as_str()?.parse().ok()?,
                config_epoch: value["config-epoch"].as_u64().unwrap_or(0),
                leader: id("leader"),
                migrating: moves("migrating")?,
                importing: moves("importing")?,
                left: value["left"].as_str().unwrap_or("").parse().ok()?,
                ordered: orders()?,
                taken_by: id("taken-by"),
            })
        })
    }
}
