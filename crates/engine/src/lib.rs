// SPDX-License-Identifier: BSD-3-Clause
//! Command specifications, the dispatcher, sessions, and what the server knows of its clients and itself.
//!
//! Flow: an event loop hands a request (arguments as slices) and its client's [`Session`] to [`dispatch`], which finds the
//! [`Spec`], checks what is to be checked, takes the locks that the spec's keys name, runs the body on a [`Call`] and
//! counts. Command families (another crate) provide specs and bodies.
//!
//! This crate never touches a socket; files only through crate `persistence` (`saving.rs`, `aof_load.rs`), but for the file of users (`acl/file.rs`).
#![forbid(unsafe_code)]

/// The version of Redis whose behaviour and texts the server follows. What clients are told is the directive
/// `redis-version`, which is this by default.
pub const COMPATIBLE_VERSION: &str = "7.2.4";

pub mod acl;
pub mod aof_load;
pub mod append_only;
pub mod attention;
pub mod background;
pub mod background_save;
pub mod big_keys;
pub mod blocking;
pub mod busy;
pub mod call;
pub mod client;
pub mod command_log;
pub mod dispatch;
pub mod durability;
pub mod ending;
pub mod engine;
pub mod error;
pub mod histogram;
pub mod hot_copies;
pub mod hot_keys;
pub mod keys;
pub mod latency;
pub mod mailbox;
pub mod memory;
pub mod monitor;
pub mod pause;
pub mod pubsub;
pub mod replication;
pub mod saving;
pub mod session;
pub mod spec;
pub mod stats;
pub mod supervisor;
pub mod syntax;
pub mod table;
pub mod tracking;
pub mod transaction;

pub use call::Call;
pub use dispatch::{Outcome, Prepared, Worker};
pub use engine::Engine;
pub use error::{CommandError, CommandResult};
pub use session::Session;
pub use spec::{
    Arity, Begin, Category, ChannelAccess, ChannelSpec, Find, Flags, Group, KeyFlags, KeySpec, Scope, Spec,
};
