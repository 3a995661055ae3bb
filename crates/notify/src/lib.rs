// SPDX-License-Identifier: BSD-3-Clause
//! What clients are sent without asking: messages, keyspace events, invalidations, monitor lines.
//!
//! Flow: a publisher leaves a push in the queue of each loop that owns listeners ([`hub`],
//! [`queue`]); the loop writes it into its clients' replies. The engine calls down into this crate;
//! nothing here takes a shard lock or writes to a socket.

#![forbid(unsafe_code)]

pub mod frame;
pub mod hub;
mod keyspace_events;
pub mod listener;
pub mod payload;
pub mod queue;
pub mod tracking;

pub use hub::Hub;
pub use listener::{Listener, SubscriptionKind, Subscriptions, Tracking};
