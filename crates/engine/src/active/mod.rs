// SPDX-License-Identifier: BSD-3-Clause
//! Active-active replication as the engine does it (`active-replica yes`).
//!
//! One thread ([`thread`]) owns the *shadow*, a `braid_active::Replica`: the values and marks of
//! all keys. It reads the journal as an ordinary replica does and turns each unit into effects.
//! These go to the log on disk, then to the outbox ([`outbox`]), from which peers take what they
//! lack ([`serve`]: they ask by ACTIVE PULL, as clients); those that were away for long, from older
//! logs ([`disk_backlog`]). The other way, a thread for each peer ([`link`]) asks that peer; what
//! it brings is applied to the shadow with the world stopped and the journal read to its end, so
//! the shadow equals the keyspace at that moment, and the difference is run in the keyspace as a
//! replica runs its primary's stream. It is journalled for the append-only file and ordinary
//! replicas; the thread knows its place in the journal and does not read it back.
//!
//! Without `active-replica` there is no thread, nothing reads the journal for it, and keys cost
//! nothing.
//!
//! Locks: `Active::outbox` and `Active::me` are held for looks and changes of lists only. Their
//! holder neither enters nor closes the gate, nor waits for anything. `Active::copying` is the
//! links' among themselves.

mod batch;
mod codec;
mod copies;
mod disk_backlog;
mod files;
mod gather;
mod keys;
mod libraries;
mod link;
mod on_disk;
mod outbox;
mod peers;
mod question;
pub mod report;
pub mod serve;
pub mod state;
mod thread;
