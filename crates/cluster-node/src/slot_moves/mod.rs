// SPDX-License-Identifier: BSD-3-Clause
//! Atomic moves of slots to another node (CLUSTER MIGRATESLOTS, CLUSTER MIGRATION).
//!
//! The source does the work, on a thread for each move ([`export`]):
//!
//! 1. It connects to the target as a client, with `masteruser`, and announces the slots (CLUSTER
//!    SYNCSLOTS). The target accepts their keys, and hides them from all clients ([`import`]).
//! 2. It copies the slots' keys, a few at a time under their slot's lock, while clients continue,
//!    and passes on changes made meanwhile: the part of the journal that concerns these slots
//!    ([`positions`]).
//!    If clients write faster than that, their writes to these slots wait at times ([`pace`]).
//! 3. When little is left it holds back commands that reach these slots, sends the rest, and
//!    waits until the target and all of its in-sync members have it.
//! 4. One transaction in etcd gives the slots to the target. It compares the cluster's epoch and
//!    both shards' records, so neither side can have been replaced. Then clients resume, and are
//!    redirected.
//!
//! The planned move is in etcd beforehand, as an order in the record of the source's shard
//! ([`orders`]). The transaction of step 4 removes it. So the shard's leader knows what is left
//! to do, and an interrupted move is begun again, by another server if need be. If only the
//! connection is lost, the move continues on another one ([`link`]).
//!
//! Until that transaction the source has everything and the target nothing, so a move that fails
//! leaves only keys that the target deletes. It must not do that while the transaction may still
//! be committed: it raises the epoch first, which makes the transaction fail.

mod export;
pub(crate) mod hold;
pub mod import;
mod link;
pub mod orders;
mod pace;
mod positions;
mod target_connection;
