// SPDX-License-Identifier: BSD-3-Clause
//! This server as a member of a group and as a node of a cluster: its part in etcd's records, slot
//! moves, MIGRATE, and messages that are forwarded to the other nodes.
//!
//! The decisions are `braid-group`'s state machines, which know no clock and no socket; this crate
//! has the threads that carry them out. Without `group-name` and `cluster-enabled` only MIGRATE is
//! used.
#![forbid(unsafe_code)]

pub mod cluster_report;
pub mod commands;
pub mod forwarding;
pub mod group;
pub mod identity;
pub mod migrate;
pub mod slot_moves;
#[cfg(test)]
mod testing;
