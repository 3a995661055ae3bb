// SPDX-License-Identifier: BSD-3-Clause
//! Active-active replication of a running server (`active-replica yes`).
//!
//! One thread ([`thread`]) owns the *shadow*, a `braid_active::Replica`: the values and marks of
//! all keys. It reads the journal as an ordinary replica does and turns each unit into effects.
//! The effects go to the log on disk and then to the outbox ([`outbox`]), from which peers pull
//! the units they lack ([`serve`]: ACTIVE PULL, sent as ordinary clients); peers that were away
//! for long are served from older logs ([`disk_backlog`]). In the other direction, one thread per
//! peer ([`link`]) pulls from that peer. Its units are applied to the shadow with the world
//! stopped and the journal read to its end, so that the shadow equals the keyspace at that
//! moment; the difference is then run in the keyspace as a replica runs its primary's stream. It
//! is journalled for the append-only file and ordinary replicas; the thread knows its own
//! position in the journal and does not read those requests back.
//!
//! Without `active-replica` there is no thread, nothing reads the journal for it, and keys cost
//! nothing.
//!
//! Locks: `Active::outbox`, `Active::me`, `Active::received` and `Active::refusals` are held only
//! to read or change them. The holder neither enters nor closes the gate and waits for nothing.
//! `Active::copying` is shared by the links only.
#![forbid(unsafe_code)]

mod batch;
mod codec;
pub mod commands;
mod copies;
mod definitions;
mod disk_backlog;
mod disk_writer;
pub mod figures;
mod files;
mod gather;
mod keys;
mod libraries;
mod link;
mod on_disk;
mod outbox;
pub mod peers;
mod pull_request;
mod refusals;
pub mod report;
pub mod serve;
pub mod state;
pub mod thread;
