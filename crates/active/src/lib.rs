// SPDX-License-Identifier: BSD-3-Clause
//! Active-active replication: every server takes writes, and all converge once they have
//! exchanged effects.
//!
//! [`clock`] stamps a region's effects, [`vector`] records the effects a server has applied, and
//! [`effect`] is the unit of replication, in [`wire`] format. Values merge: [`cell`] has the rules
//! for one value, on which all types are built (`string`, `hash`, `set`, `sorted_set`, `list`,
//! `stream`, `hyperloglog`, `document`, `vector_set`); [`key`] has the rules for a key. [`replica`]
//! is a server's state: it turns client requests into effects, and applies the effects of other
//! regions once and in order, over any route.
//!
//! This crate does no input or output, reads no clock and starts no thread; time is an argument.
//! Therefore the simulator (`tests/simulation`) runs the server's own code. Values are separate
//! from their marks ([`cell::Mark`]), so the engine can keep marks beside its own values, and only
//! while active-active is on.

#![forbid(unsafe_code)]

pub mod amount;
pub mod backlog;
pub mod cell;
pub mod change;
pub mod changes_between;
pub mod clock;
pub mod cold;
pub mod difference;
pub mod document;
pub mod effect;
pub mod elements;
pub mod fill;
pub mod hash;
pub mod hidden;
pub mod hyperloglog;
pub mod key;
pub mod list;
pub mod logs;
pub mod matching;
pub mod members;
pub mod merging;
pub mod parts;
pub mod position;
pub mod replica;
pub mod requests;
pub mod rules;
pub mod saved;
pub mod set;
pub mod sorted_set;
pub mod stamp;
pub mod stream;
pub mod string;
pub mod tally;
pub mod translate;
pub mod value;
pub mod vector;
pub mod vector_set;
pub mod view;
pub mod wire;
pub mod write;

mod block_map;
mod database;
mod ended;
mod evicted;
mod garbage;
mod items;
mod keys;
mod lengths;
mod linear;
mod list_difference;
mod local;
mod local_parts;
mod lookup;
mod lost;
mod merge_progress;
mod ordered_block;
mod others;
mod packed;
mod part_change;
mod plain;
mod saving;
mod short_name;
mod stability;
mod stored;
#[cfg(test)]
mod testing;

pub use database::{KeyRef, ValueRef};
pub use keys::Hashed;
pub use local::Transaction;
pub use replica::{Applied, Refusal, Replica};
pub use rules::Rules;
pub use stamp::{Region, Stamp};
pub use vector::Vector;

/// A value or element as the client wrote it.
pub type Bytes = Box<[u8]>;
/// The value of a string. Long ones can be shared with the keyspace ([`Replica::share`]).
pub type Text = braid_base::blob::Blob;
/// Parts of a value and their values, in the order of their names.
pub type Parts = Vec<(Bytes, Bytes)>;
/// A key's name.
pub type Name = std::sync::Arc<[u8]>;
/// A database and a name.
pub(crate) type KeyId = (u32, Name);
