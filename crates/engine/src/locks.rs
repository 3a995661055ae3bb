// SPDX-License-Identifier: BSD-3-Clause
//! Shard locks: [`lock`] takes them for commands, transactions, scripts, watches, waiters and
//! copies of values. Nothing else in this crate and above takes any, so that what is held, and in
//! which order, is decided in one place (`keyspace/txn.rs`).

use braid_base::gate::World;
use braid_keyspace::txn::{KeyRef, Txn};
use braid_keyspace::{Context, Keyspace};

/// What is locked.
pub enum LockSet<'k> {
    /// The shards of these keys, each shared or exclusively as its keys ask for; several are taken
    /// in ascending order. With no key nothing is held: the walk over a database takes its shards one
    /// by one.
    Keys(&'k [KeyRef<'k>]),
    /// All shards, shared.
    AllShared,
    /// Everything: the other threads have left the gate.
    World(World<'k>),
}

impl<'k> LockSet<'k> {
    /// Stops the world for the thread of `context`. Nothing if a script has stopped it for long.
    pub fn world(keyspace: &'k Keyspace, context: &mut Context) -> Option<LockSet<'k>> {
        keyspace.stop_world(context).map(LockSet::World)
    }
}

/// Takes the locks for work in database `db`; they are held until the transaction is dropped.
/// `now`: the time by which keys have expired, ms since the Unix epoch.
#[inline]
pub fn lock<'k>(
    keyspace: &'k Keyspace,
    context: &'k mut Context,
    set: LockSet<'k>,
    db: u32,
    now: i64,
) -> Txn<'k> {
    match set {
        LockSet::Keys(keys) => Txn::lock(keyspace, context, db, now, keys),
        LockSet::AllShared => Txn::lock_all_shared(keyspace, context, db, now),
        LockSet::World(world) => Txn::world(keyspace, context, world, db, now),
    }
}
