// SPDX-License-Identifier: BSD-3-Clause
//! Pushes to clients: messages, keyspace events, invalidations, MONITOR lines.
//!
//! Flow: a publisher queues a push at each loop that owns receivers ([`hub`], [`queue`]); the
//! loop writes it into its clients' replies. The engine calls down into this crate, which must
//! never take a shard lock or write to a socket.

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
