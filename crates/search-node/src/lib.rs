// SPDX-License-Identifier: BSD-3-Clause
//! Search of a running server: what the crate `search` needs to be a part of one.
//!
//! ```text
//! service      all indexes: who tells of changes, what files contain
//! index        one index: its definition, its documents, its failures
//! definition   FT.CREATE's arguments
//! values       documents: what an index wants of a hash or a JSON document
//! vectors      the vectors of an index
//! build        looks at the keys that are there already
//! request      FT.SEARCH's arguments, and those of all queries
//! lookup       indexes for commands: which one, and who may
//! run          runs queries in slices, here or in the background
//! search       FT.SEARCH's reply
//! profile      what FT.PROFILE says
//! report       figures for INFO and the metrics
//! totals       counts of queries
//! aggregate    FT.AGGREGATE, FT.CURSOR; cursors: what is kept for them
//! hybrid       FT.HYBRID
//! commands     the rows, and all other commands
//! ```
//! *Changes.* The keyspace tells of each change under the lock of the key's shard, when it is
//! complete and before the client is answered ([`braid_keyspace::documents`]): commands, scripts,
//! transactions, expiry, eviction, the primary's stream. So a query finds what was acknowledged.
//!
//! *Files.* Dumps have the requests that make the indexes, as notes; append-only files and replicas
//! have the requests themselves. What is in an index is never saved: after a load all keys are
//! looked at again.
//!
//! Invariants: no shard is locked here but through the keyspace's own looks at keys, and no lock of
//! this crate is held then. The hook of changes, which runs under a shard's lock, takes no other.

#![forbid(unsafe_code)]

mod aggregate;
mod arguments;
mod build;
pub mod commands;
mod cursors;
mod definition;
pub mod figures;
mod hybrid;
mod index;
mod lookup;
mod profile;
pub mod report;
mod request;
mod run;
mod search;
mod service;
mod totals;
mod values;
mod vectors;

pub use service::attach;
