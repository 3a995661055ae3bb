// SPDX-License-Identifier: BSD-3-Clause
//! The records that a cluster has besides those of its groups.
//!
//! | key under `/braid/<cluster>/` | value | lives |
//! | --- | --- | --- |
//! | `known/<name>` | [`KnownNode`]: a node of the cluster, and its shard | for ever |
//! | `epoch` | a number | for ever |
//! | `slots/<shard>` | [`ShardSlots`]: a shard's slots, those to be moved, its epoch | for ever |
//!
//! A change of any other record compares and raises the epoch, so changes are serialized.

use std::collections::BTreeMap;
use std::sync::Arc;

use braid_base::crc::HASH_SLOTS;
use serde_json::{Value, json};

use super::slot_set::SlotSet;
use crate::record::{RecordError, read_json};

/// Digits of the id of a node or shard.
const ID_LEN: usize = 40;

/// Whether text is the id of a node or shard: 40 lower-case hexadecimal digits.
pub fn is_id(text: &str) -> bool {
    text.len() == ID_LEN && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
}

/// A node that belongs to the cluster, alive or not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownNode {
    pub id: Arc<str>,
    /// The shard that it is in: the id of the node that founded it.
    pub shard: Arc<str>,
    /// Where it was when it joined. As long as it lives, its record as a server tells better.
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
    /// Grows over the whole cluster with each change of a slot's owner and of a primary. No two
    /// shards have the same one.
    pub config_epoch: u64,
    /// The id of the primary that had the epoch raised when it became that.
    pub leader: Option<Arc<str>>,
    /// Slots on their way to another node, key by key (SETSLOT MIGRATING), and that node's id.
    pub migrating: BTreeMap<u16, Arc<str>>,
    /// Slots on their way here, and the id of the node that they come from.
    pub importing: BTreeMap<u16, Arc<str>>,
    /// Slots that are to go to other shards at once, by the names of the moves.
    pub ordered: BTreeMap<Arc<str>, MoveOrder>,
    /// The shard that a move has given the last slot to, as long as this one has none.
    pub taken_by: Option<Arc<str>>,
}

/// A move of slots that an operator wants (CLUSTER MIGRATESLOTS). It stands in the record of the
/// shard that has the slots until that shard's primary, whoever it is, has moved them, or an
/// operator cancels it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MoveOrder {
    pub slots: SlotSet,
    /// The shard that gets them.
    pub to: Arc<str>,
    /// ms since the Unix epoch.
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
    /// Takes slots that go to another shard out of this one.
    pub(super) fn lose(&mut self, slots: impl Iterator<Item = u16>, to: &Arc<str>) {
        for slot in slots {
            self.slots.remove(slot);
            self.migrating.remove(&slot);
        }
        self.taken_by = Some(Arc::clone(to));
    }

    /// Has orders name only slots that are the shard's: others have gone some other way. A shard
    /// that has slots has not been taken.
    pub(super) fn tidy(&mut self) {
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
        if !self.ordered.is_empty() {
            let orders = self.ordered.iter().map(|(name, order)| (name.to_string(), order.to_json()));
            value["ordered"] = Value::Object(orders.collect());
        }
        if let Some(shard) = &self.taken_by {
            value["taken-by"] = Value::from(&**shard);
        }
        value.to_string()
    }

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
                ordered: orders()?,
                taken_by: id("taken-by"),
            })
        })
    }
}
