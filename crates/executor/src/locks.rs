// SPDX-License-Identifier: BSD-3-Clause
//! Shard locks: [`lock`] takes them for commands, transactions, scripts, watches, waiters and the
//! value cache. No other code in this crate and above takes any, so that lock order is decided in
//! one place (`keyspace/txn.rs`).

use braid_base::gate::World;
use braid_keyspace::txn::{KeyRef, Txn};
use braid_keyspace::{Context, Keyspace};

/// The locks to take.
pub enum LockSet<'k> {
    /// The shards of these keys, shared or exclusive as each key asks, in ascending order. Without
    /// keys nothing is held: a walk over a database locks its shards one by one.
    Keys(&'k [KeyRef<'k>]),
    /// All shards, shared.
    AllShared,
    /// Everything: all other threads are outside of the gate.
    World(World<'k>),
}

impl<'k> LockSet<'k> {
    /// Stops the world for the thread of `context`. `None` if a script has stopped it for long
    /// (`context.outside`), or if the command may not run any more (`context.outdated`): the
    /// thread is outside of the gate in between, so `is_outdated` is called once the world is
    /// stopped.
    pub(crate) fn world(
        keyspace: &'k Keyspace,
        context: &mut Context,
        is_outdated: impl FnOnce() -> bool,
    ) -> Option<LockSet<'k>> {
        let world = keyspace.stop_world(context)?;
        context.outdated = is_outdated();
        (!context.outdated).then_some(LockSet::World(world))
    }
}

/// Takes the locks for work in database `db`; dropping the transaction releases them. `now`: the
/// time that decides expiry, ms since the Unix epoch.
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
