// SPDX-License-Identifier: BSD-3-Clause
//! Groups: servers that share one dataset, one of them the primary, and agree on which by records
//! in etcd.
//!
//! [`record`] has the records and how they are written. [`member`] is one server's part as a state
//! machine: it is shown records, acknowledgements and the time, and orders what the server is to do
//! and the transaction to send to etcd. It does no input or output and reads no clock, so the
//! simulator (`tests/simulation`) runs the same code as a server. The thread that carries the
//! orders out is `engine/group`.
//!
//! [`cluster`] has what several groups share that are a cluster.
//!
//! Nothing here may act on an assumption about another server's clock beyond
//! [`timing`]'s margin for drift.

#![forbid(unsafe_code)]

pub mod cluster;
pub mod member;
pub mod record;
pub mod rules;
pub mod timing;

mod candidate;
mod primary;

pub use member::{Duty, Ended, Follower, Local, Member, Orders};
pub use record::{Holder, MemberId, Node, Offer, Shard, Snapshot, Transaction, Versioned};
pub use rules::Rules;
pub use timing::Timing;
