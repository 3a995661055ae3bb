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

pub mod aof_load;
pub mod append_only;
pub mod background;
pub mod background_save;
pub mod blocking;
pub mod dispatch;
pub mod durability;
pub mod ending;
pub mod engine;
pub mod hot_copies;
pub mod memory;
pub mod over_limit;
pub mod replication;
pub mod saving;
pub mod session;
pub mod supervisor;
pub mod transaction;
pub mod worker;

pub use braid_acl as acl;
pub use braid_clients::{attention, busy, mailbox, pause};
pub use braid_spec::{error, keys, spec, syntax, table};
pub use braid_telemetry::{big_keys, command_log, histogram, hot_keys, latency, stats};
pub use dispatch::{Outcome, Prepared, Worker};
pub use engine::Engine;
pub use engine::call::Call;
pub use engine::row::Row as Spec;
pub use engine::row::{FunctionFiles, Handler, Row, Rows};
pub use error::{CommandError, CommandResult};
pub use session::Session;
pub use spec::{
    Arity, Begin, Behavior, Category, ChannelAccess, ChannelSpec, Find, Flags, Group, KeyFlags, KeySpec,
    Scope,
};

/// Records of clients and what concerns all of them.
pub mod client {
    pub use braid_clients::describe;
    pub use braid_clients::record::*;
    pub use braid_clients::registry::Registry;
}

/// Publish and subscribe.
pub mod pubsub {
    pub use braid_notify::hub::Hub;
    pub use braid_notify::listener::{Kind, Subscriptions};
    pub use braid_notify::{frame, queue};
}

/// Client-side caching.
pub mod tracking {
    pub use braid_notify::listener::Tracking;
    pub use braid_notify::tracking::Trackers;
}
