// SPDX-License-Identifier: BSD-3-Clause
//! The executor: the state shared by all threads, and the dispatcher that runs a request on it.
//!
//! Flow: an event loop hands a request (arguments as slices) and its client's [`Session`] to
//! [`dispatch`], which finds the command, checks rights and states, takes the locks that its
//! specification names, runs its body on a [`Call`] and reports it. [`Engine`] joins the parts;
//! specifications, clients, notifications, telemetry and users are crates below that receive their
//! parts. Rows and bodies are in crates above, and so are the services: saving, replication,
//! groups and clusters, active-active replication. What the request path reads of them stands here
//! ([`state`]), and what it asks of them is in [`services`].
//!
//! This crate never touches a client's socket, nor a file of the dataset.
#![forbid(unsafe_code)]

/// The Redis version that behaviour and texts follow, and the default of the directive
/// `redis-version`.
pub const COMPATIBLE_VERSION: &str = "7.2.4";

pub mod ahead;
pub mod background;
pub mod blocking;
pub mod client_eviction;
pub mod cluster_map;
pub mod dispatch;
pub mod durability;
pub mod engine;
pub mod feeds;
pub mod journal_room;
pub mod journal_uses;
pub mod limits;
pub mod locks;
pub mod memory;
pub mod over_limit;
pub mod processors;
pub mod redirect;
pub mod services;
pub mod session;
pub mod settings;
pub mod state;
pub mod tell_replicas;
mod tenants;
#[cfg(test)]
mod testing;
pub mod threads;
pub mod transaction;
pub mod worker;
pub mod world;
pub mod world_change;

pub use dispatch::{Outcome, Prepared};
pub use engine::Engine;
pub use engine::call::Call;
pub use engine::row::{Handler, Row, Rows};
pub use session::Session;
pub use worker::Worker;
