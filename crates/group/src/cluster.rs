// SPDX-License-Identifier: BSD-3-Clause
//! Clusters: groups that share the hash slots between them, in one namespace of etcd.
//!
//! Each shard is a group, with its id where a group alone has `0` ([`crate::record`]). Two kinds of
//! records come on top ([`records`]): the nodes that the cluster knows, and the slots of each
//! shard. All of them together are the cluster's [`Map`]; commands of operators are functions from
//! a map to a [`Change`] of records ([`changes`]), which is committed only if the records that it
//! was based on are still as they were. So no slot ever has two owners. Settings, users and
//! functions that hold for all nodes have records of their own ([`shared`]).
//!
//! Like the state machine of groups this does no input or output.

pub mod changes;
pub mod map;
pub mod records;
pub mod replica_migration;
pub mod shared;
mod slot_set;
#[cfg(test)]
mod tests;

pub use changes::{Change, Refusal, Write};
pub use map::{Health, Map, MapNode, MapShard};
pub use records::{KnownNode, MoveOrder, ShardSlots};
pub use slot_set::SlotSet;
