// SPDX-License-Identifier: BSD-3-Clause
//! Clusters: groups that divide the hash slots among them, in one etcd namespace.
//!
//! Each shard is a group; its keys contain the shard's id where those of a group alone contain `0`
//! ([`crate::record`]). A cluster adds two kinds of records ([`records`]): the known nodes, and the
//! slots of each shard. All records together form the cluster's [`Map`]. Operators' commands are
//! functions from a map to a [`Change`] of records ([`changes`], [`slot_changes`]), which is
//! committed only if the records it is based on are unchanged. Therefore no slot ever has two
//! owners. Settings, users and functions that apply to all nodes have records of their own
//! ([`shared`]).
//!
//! Like the group state machine, this module does no I/O.

pub mod changes;
pub mod map;
pub mod records;
pub mod replica_migration;
pub mod shared;
pub mod slot_changes;
mod slot_set;
#[cfg(test)]
mod tests;

pub use changes::{Change, Refusal, Write};
pub use map::{Health, Map, MapNode, MapShard};
pub use records::{KnownNode, MoveOrder, ShardSlots};
pub use slot_set::SlotSet;
