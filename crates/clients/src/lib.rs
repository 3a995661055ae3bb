// SPDX-License-Identifier: BSD-3-Clause
//! State of connected clients shared by all threads, and the mailboxes of the loops that own
//! them.
//!
//! A client belongs to one event loop. Other threads read its [`record`](ClientRecord), send
//! messages to its owner's mailbox, end its wait, or close it. States that concern all clients (a
//! pause, a long script, the attention word) are also here. This crate takes no shard locks and
//! touches no sockets.

#![forbid(unsafe_code)]

pub mod attention;
pub mod busy;
pub mod clients;
pub mod describe;
pub mod eviction;
pub mod identity;
pub mod mailbox;
pub mod mailboxes;
pub mod pause;
pub mod record;
pub mod registry;

pub use clients::Clients;
pub use identity::{Identity, Reason};
pub use mailbox::Mailbox;
pub use mailboxes::Mailboxes;
pub use record::{Address, ClientRecord, Message, Unblocking, client_flags};
pub use registry::Registry;

/// Maximum number of threads.
pub const THREADS_MAX: usize = 256;
