// SPDX-License-Identifier: BSD-3-Clause
//! Replication between this server and its replicas or its primary: full syncs, the stream and its
//! acknowledgements, roles, failovers, and replies that wait for replicas.
//!
//! Histories, handshakes and framing are `braid-replication`'s. The loops send the stream
//! (`threading`); groups and clusters decide roles in a crate above. This crate executes what a
//! primary sends, and otherwise changes no key.
//!
//! The primary's side: a replica introduces itself (REPLCONF) and asks for the changes after an
//! offset (PSYNC). If the journal's backlog still has them, the replica is *online* immediately.
//! Otherwise it waits for a full sync: the first loop's cron begins one for all waiting replicas
//! ([`full_syncs`]), whose cut has an offset in the journal; the stream of changes continues from
//! there. The loop that owns the connection gets an order, and sends the full sync and then
//! the journal's own bytes (`threading/replica_output.rs`).
//!
//! The replica's side: a thread connects to the primary ([`link`]), loads a full sync
//! ([`dataset`]), and applies the stream ([`apply`]). The received bytes go to the journal as they
//! are, so append-only file, backlog and sub-replicas read them there as on a primary.
//!
//! Offsets inside the server are the journal's; on the wire and in INFO they are the history's
//! (`braid_replication::history`).
//!
//! Locks: `Replication::state` is held only to read and change its lists. Its holder neither enters
//! nor closes the gate, and takes no other locks than leaf locks (the journal's, a full sync's, a
//! mailbox's).
#![forbid(unsafe_code)]

pub mod apply;
pub mod apply_pool;
pub mod become_replica;
pub mod commands;
pub mod cron;
pub mod dataset;
pub mod dual_channel;
pub mod end_failover;
pub mod failover;
pub mod figures;
pub mod full_syncs;
pub mod link;
pub mod position;
pub mod replicas;
pub mod report;
pub mod role;
pub mod siblings;
pub mod sync_writes;
pub mod throttle;
