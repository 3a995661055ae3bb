// SPDX-License-Identifier: BSD-3-Clause
//! Groups: servers that share one dataset and agree, through records in etcd, which of them is the
//! primary.
//!
//! [`record`] defines the records and their transactions. [`member`] is one server's part as a
//! state machine: its inputs are records, acknowledgements and the time; its outputs are orders for
//! the server and the transaction to send to etcd. It does no I/O and reads no clock, so the
//! simulator (`tests/simulation`) runs the same code as a server. The thread that carries out the
//! orders is `cluster-node/group`.
//!
//! [`cluster`] has the state shared by the groups of a cluster.
//!
//! It must never assume anything about another server's clock beyond [`timing`]'s margin for drift.

#![forbid(unsafe_code)]

pub mod cluster;
pub mod confirmed;
pub mod held_out;
pub mod member;
pub mod record;
pub mod rules;
pub mod timing;

mod candidate;
mod primary;
mod resignation;

pub use confirmed::Confirmed;
pub use held_out::{HeldOut, Why};
pub use member::{CleanShutdown, Duty, Follower, Local, Member, Orders};
pub use record::{Holder, MemberId, Node, Offer, Shard, Snapshot, Transaction, Versioned};
pub use rules::Rules;
pub use timing::Timing;
