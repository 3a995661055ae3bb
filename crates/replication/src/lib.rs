// SPDX-License-Identifier: BSD-3-Clause
//! Replication below the engine.
//!
//! [`replicas`] is the primary's side: the state of each replica, full syncs, positions in the
//! stream. [`link`] is the replica's side: the handshake with a primary, the framing of a full
//! sync, the division of the stream into units, and the state of the link. Both share [`history`]
//! (replication IDs and offsets) and [`blocks`] (compression). [`in_sync`] tracks the members of
//! a group whose acknowledgements replies wait for.
//!
//! This crate never executes commands or touches keys: the engine does (`replica/replicas.rs`).
#![forbid(unsafe_code)]

pub mod blocks;
pub mod failover;
pub mod history;
pub mod in_sync;
pub mod link;
pub mod replicas;
pub mod state;

pub use history::{ID_LEN, random_id};
pub use in_sync::InSync;
pub use replicas::full_sync::FullSync;
pub use replicas::options::{Filter, Reads, ReplicaOptions};
pub use replicas::replica::{Order, Replica, Stage};
pub use replicas::stream_output::StreamOutput;
pub use replicas::stream_position::StreamPosition;
pub use state::Replication;
