// SPDX-License-Identifier: BSD-3-Clause
//! Changes of keys with the world stopped by threads other than loops (the link to a primary,
//! MIGRATE): the change and its follow-up work.

use braid_base::gate::World;
use braid_keyspace::Txn;

use crate::dispatch::follow_up;
use crate::engine::Engine;
use crate::locks::{LockSet, lock};
use crate::worker::Worker;
use crate::world;

/// Makes a change, notifies clients that track keys or listen, wakes the journal's readers,
/// and serves clients that wait for keys. `worker` has a slot that is free while the world is
/// stopped.
pub fn change_in_world<R>(
    engine: &Engine,
    world: World<'_>,
    worker: &mut Worker,
    db: u32,
    now: i64,
    change: impl FnOnce(&mut Txn<'_>) -> R,
) -> R {
    let mut txn = lock(&engine.keyspace, &mut worker.context, LockSet::World(world), db, now);
    let result = change(&mut txn);
    engine.trackers.flush_invalidations(txn.context, None);
    drop(txn);
    engine.keyspace.journal.wake();
    if worker.context.follow_up.get() {
        let _world = world::stop(engine);
        follow_up(engine, worker);
    }
    worker.context.limbo.reclaim();
    engine.hub.wake_loops();
    result
}
