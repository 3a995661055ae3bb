// SPDX-License-Identifier: BSD-3-Clause
//! Slots that move to another node at once (CLUSTER MIGRATESLOTS, CLUSTER MIGRATION).
//!
//! The source does the work, on a thread for each move ([`export`]):
//!
//! 1. It connects to the target as a client, with `masteruser`, and says which slots will come
//!    (CLUSTER SYNCSLOTS). The target takes their keys, and shows them to nobody ([`import`]).
//! 2. It copies the slots' keys, a few at a time under their slot's lock, while clients go on, and
//!    passes on what changes them meanwhile: the journal, as far as it is of these slots
//!    ([`positions`]).
//! 3. When little is left it holds back what reaches these slots, sends the rest, and waits until
//!    the target and all of its in-sync members have it.
//! 4. One transaction in etcd gives the slots to the target. It compares the cluster's epoch and
//!    both shards' records, so neither side can have been replaced. Then clients are let go on, and
//!    are redirected.
//!
//! What is to move stands in etcd before, as an order in the record of the source's shard
//! ([`orders`]). That transaction takes it out again. So whoever leads the shard knows what is left
//! to do, and a move that was interrupted is begun again, by another server if need be.
//!
//! Until that transaction the source has everything and the target nothing, so a move that fails
//! leaves nothing behind but keys that the target deletes. It must not do that while the
//! transaction may still come: it raises the epoch before, which makes the transaction fail.

mod export;
mod hold;
mod import;
mod orders;
mod positions;
pub mod state;
mod target_link;
