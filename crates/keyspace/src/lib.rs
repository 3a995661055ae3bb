// SPDX-License-Identifier: BSD-3-Clause
//! The keyspace: shards, tables, entries, lock sets, expiry and eviction.
//!
//! Flow: the dispatcher makes a [`Txn`] from the keys a command names; the transaction holds the
//! locks of their shards and is the only way to reach a key. Every change goes through its methods,
//! which inform watchers, a snapshot in progress and the journal.
//!
//! This crate knows no clients, commands or files, and no type but strings (other types register
//! themselves, see [`object`]). It never performs I/O.

mod by_slot;
pub mod catalogue;
pub mod context;
pub mod counters;
pub mod cow_entry;
pub mod defrag;
pub mod documents;
mod due;
pub mod entry;
pub mod events;
pub mod eviction;
pub mod expiry;
pub mod held;
mod hidden_slots;
mod indexing;
pub mod journal;
mod key_hash;
pub mod keyspace;
pub mod lazy_free;
pub mod limbo;
pub mod links;
mod member_expiry_index;
mod notify;
pub mod object;
pub mod reader;
pub mod scan;
pub mod snapshot;
pub mod snapshot_walk;
mod staging;
pub mod table;
#[cfg(feature = "testing")]
pub mod testing;
pub mod txn;
pub mod value_cache;
pub mod value_type;
pub mod waiters;
pub mod watch;

pub use context::{Context, Stale};
pub use counters::Counters;
pub use entry::{Entry, Value, ValueRef};
pub use events::Event;
pub use held::HeldString;
pub use keyspace::{Keyspace, Settings};
pub use txn::{Expiry, KeyRef, Txn};
pub use value_type::Type;
