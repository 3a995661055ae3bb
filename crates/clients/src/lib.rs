// SPDX-License-Identifier: BSD-3-Clause
//! What all threads know of connected clients, and how they reach the loop that owns one.
//!
//! A client belongs to one event loop. Other threads see its [`record`](ClientRecord), leave
//! messages in its owner's mailbox, end its wait, or close it. States that concern all clients (a
//! pause, a script that runs for long, the attention word) stand here too. Nothing in this crate
//! takes a shard lock or touches a socket.

#![forbid(unsafe_code)]

pub mod attention;
pub mod busy;
pub mod describe;
pub mod eviction;
pub mod identity;
pub mod mailbox;
pub mod mailboxes;
pub mod pause;
pub mod record;
pub mod registry;

pub use identity::{Identity, Reason};
pub use mailbox::Mailbox;
pub use mailboxes::Mailboxes;
pub use record::{Address, ClientRecord, Message, Unblocking, client_flags};
pub use registry::Registry;

/// The most threads that there may be.
pub const THREADS_MAX: usize = 256;
