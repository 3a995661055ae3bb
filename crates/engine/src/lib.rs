// SPDX-License-Identifier: BSD-3-Clause
//! The engine: the state shared by all threads, the dispatcher, and the services that need all
//! parts.
//!
//! Flow: an event loop hands a request (arguments as slices) and its client's [`Session`] to
//! [`dispatch`], which finds the command, checks rights and states, takes the locks that its
//! specification names, runs its body on a [`Call`] and reports it. [`Engine`] is the composition
//! root; specifications, clients, notifications, telemetry and users are crates below that receive
//! their parts. Rows and bodies are in crates above.
//!
//! This crate never touches a socket, and files only through `braid-persistence`.
#![forbid(unsafe_code)]

/// The Redis version that behaviour and texts follow, and the default of the directive
/// `redis-version`.
pub const COMPATIBLE_VERSION: &str = "7.2.4";

pub mod active;
pub mod aof_load;
pub mod append_only;
pub mod background;
pub mod background_save;
pub mod blocking;
pub mod client_eviction;
pub mod cluster_map;
pub mod cluster_node;
pub mod cluster_report;
pub mod dispatch;
pub mod durability;
pub mod engine;
pub mod forwarding;
pub mod group;
pub mod limits;
pub mod locks;
pub mod memory;
pub mod migrate;
pub mod oom_score;
pub mod over_limit;
pub mod process;
pub mod processors;
pub mod replication;
pub mod saving;
pub mod script_debugger;
pub mod session;
pub mod shard_channels;
pub mod shutdown;
pub mod slot_moves;
pub mod supervisor;
pub mod sync_writes;
#[cfg(test)]
mod testing;
pub mod tls;
pub mod transaction;
pub mod value_cache;
pub mod worker;
mod world_change;

pub use dispatch::{Outcome, Prepared};
pub use engine::Engine;
pub use engine::call::Call;
pub use engine::row::{Handler, Row, Rows};
pub use session::Session;
pub use worker::Worker;
