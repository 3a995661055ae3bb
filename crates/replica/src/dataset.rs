// SPDX-License-Identifier: BSD-3-Clause
//! Replaces the dataset by a primary's full sync.

use std::io::Read;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::unix_ms;
use braid_base::gate::World;
use braid_clients::attention::{LOADING_BESIDE, STOPPING};
use braid_durable::saving::{self, Manner, accepts};
use braid_durable::{append_only, background_save, backup};
use braid_executor::engine::Engine;
use braid_executor::journal_uses::{self, FOR_REPLICAS};
use braid_executor::locks::{LockSet, lock};
use braid_executor::world;
use braid_keyspace::Txn;
use braid_keyspace::keyspace::Flushed;
use braid_keyspace::txn::NOTHING_EXPIRED;
use braid_persistence::{LoadError, Prefetch, ReplicationNote, Slices};
use braid_replication::link::LinkError;

use crate::{full_syncs, role};

/// A full sync, with the primary's description of it.
pub(super) struct Incoming<'h, R> {
    pub dump: R,
    /// Its length in bytes, if known.
    pub len: Option<u64>,
    pub id: String,
    pub offset: u64,
    /// What happens to the current dataset meanwhile.
    pub beside: Beside,
    /// Called once a second.
    pub heartbeat: &'h dyn Fn(),
    /// The source of `dump`, if it is a socket.
    pub prefetch: Option<&'h dyn Prefetch>,
}

/// What happens to the current dataset while a full sync is loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Beside {
    /// It is removed first.
    Nothing,
    /// It is kept in case the load fails.
    Kept,
    /// It is kept and served: it is an older state of the same history.
    Served,
}

/// Logs why a full sync cannot be loaded.
fn load_failure(error: &LoadError) -> LinkError {
    log::warn!("Internal error in RDB reading of the full sync: {error}");
    if error.is_unsupported() {
        return LinkError::Unsupported;
    }
    LinkError::Refused("Failed trying to load the MASTER synchronization DB".into())
}

/// Finds out whether a full sync in a file can be loaded, if there is data that it would
/// replace. Otherwise nothing would be gained.
pub(super) fn verify_full_sync(
    engine: &Engine,
    dump: impl Read,
    len: Option<u64>,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<(), LinkError> {
    if engine.keyspace.is_empty() {
        return Ok(());
    }
    let databases = engine.keyspace.databases();
    braid_persistence::verify(dump, len, accepts(engine), databases, goes_on).map_err(|error| {
        if matches!(error, LoadError::Stopped) {
            return LinkError::CalledOff;
        }
        log::info!("MASTER <-> REPLICA sync: the full sync cannot be loaded, the old data is kept");
        load_failure(&error)
    })
}

/// Loads a full sync. If that fails, the dataset is empty or as it was.
pub(super) fn replace_dataset<R: Read>(
    engine: &Engine,
    generation: u64,
    mut incoming: Incoming<'_, R>,
) -> Result<(), LinkError> {
    background_save::finish_background_save(engine);
    full_syncs::stop_full_syncs(engine);
    let beside = incoming.beside;
    if beside != Beside::Served {
        append_only::end_append_only(engine);
        backup::dataset_is_replaced(engine);
    }
    let mut worker = engine.worker(0);
    let world = world_of_link(engine, generation)?;
    // Their data belongs to another history, or soon will.
    role::disconnect_replicas(engine);
    if beside == Beside::Served {
        set_loading_while_serving(engine, true);
    } else {
        saving::set_loading(engine, true);
    }
    let mut txn = lock(&engine.keyspace, &mut worker.context, LockSet::World(world), 0, NOTHING_EXPIRED);
    if beside == Beside::Nothing {
        log::info!("MASTER <-> REPLICA sync: Flushing old data");
        remove_dataset(engine, &mut txn, |keyspace, world| keyspace.flush(world, None));
        engine.scripts.clear_libraries();
        // No replica can continue from here any more.
        engine.replication.state.lock().history.begin_anew();
    } else if let Some(world) = txn.stopped_world() {
        let (_, left_over) = engine.keyspace.begin_staging(world);
        free(engine, left_over);
    }
    log::info!("MASTER <-> REPLICA sync: Loading DB in memory");
    let progress = &engine.persistence.progress;
    progress.begin(incoming.len.unwrap_or(0), unix_ms() / 1000);
    let delay = engine.config.key_load_delay_microseconds();
    let mut slices = Slices::new(progress, true, delay).with_heartbeat(incoming.heartbeat);
    if beside == Beside::Served {
        slices = slices.with_long_breaks();
    }
    if let Some(prefetch) = incoming.prefetch {
        slices = slices.with_prefetch(prefetch);
        // The load begins with a header, which may take long to arrive.
        txn.resume_world_during(|| prefetch.fill());
    }
    let manner = if beside == Beside::Nothing { Manner::AtStart } else { Manner::Staged };
    let loaded = saving::load_dump(engine, &mut txn, &mut incoming.dump, incoming.len, manner, &mut slices);
    progress.end();
    let is_wanted = engine.replication.link.is_current(generation);
    let outcome = match loaded {
        Ok(loaded) if is_wanted => {
            if beside != Beside::Nothing {
                remove_dataset(engine, &mut txn, |keyspace, world| keyspace.publish_staged(world));
            }
            adopt_history(engine, &incoming.id, incoming.offset, loaded.replication);
            engine.keyspace.forget_changes();
            Ok(())
        }
        Ok(_) => Err(LinkError::CalledOff),
        Err(LoadError::Stopped) => Err(LinkError::CalledOff),
        Err(error) => Err(load_failure(&error)),
    };
    if outcome.is_err() {
        match beside {
            Beside::Nothing => {
                remove_dataset(engine, &mut txn, |keyspace, world| keyspace.flush(world, None))
            }
            Beside::Kept | Beside::Served => {
                log::info!("MASTER <-> REPLICA sync: Discarding temporary DB, the old one is kept");
                if let Some(world) = txn.stopped_world() {
                    free(engine, engine.keyspace.drop_staged(world));
                }
            }
        }
    }
    drop(txn);
    if beside == Beside::Served {
        set_loading_while_serving(engine, false);
    } else {
        saving::set_loading(engine, false);
    }
    outcome
}

fn set_loading_while_serving(engine: &Engine, is_loading: bool) {
    engine.config.set_loading(is_loading);
    engine.attention.set(LOADING_BESIDE, is_loading);
}

/// Stops the world for the link's thread, if the link is still wanted.
pub(super) fn world_of_link(engine: &Engine, generation: u64) -> Result<World<'_>, LinkError> {
    let world = world::stop(engine);
    let is_wanted = engine.replication.link.is_current(generation) && engine.attention.get() & STOPPING == 0;
    if is_wanted { Ok(world) } else { Err(LinkError::CalledOff) }
}

/// Removes the dataset, with invalidations for the clients that track keys.
pub fn remove_dataset(
    engine: &Engine,
    txn: &mut Txn<'_>,
    remove: impl FnOnce(&braid_keyspace::Keyspace, &World<'_>) -> Flushed,
) {
    if let Some(world) = txn.stopped_world() {
        free(engine, remove(&engine.keyspace, world));
    }
    txn.databases_changed(|_| true);
    engine.trackers.flushed(&engine.keyspace, txn.context.slot);
}

fn free(engine: &Engine, removed: Flushed) {
    if engine.config.replica_lazy_flush() {
        removed.free_in_background(&engine.keyspace.lazy_free, None);
    }
}

/// Records that the dataset is the primary's at an offset of its history. The world is
/// stopped.
fn adopt_history(engine: &Engine, id: &str, offset: u64, note: Option<ReplicationNote>) {
    let journal = &engine.keyspace.journal;
    engine.replication.state.lock().history.adopt(id.to_owned(), offset, journal.end());
    let db = note.map_or(0, |note| note.db);
    let db = if db < engine.keyspace.databases() { db } else { 0 };
    engine.replication.link.db.store(u64::from(db), Relaxed);
    // The backlog of another history is dropped.
    journal.end_backlog();
    journal_uses::begin_backlog(engine);
    journal_uses::set_journal_use(engine, FOR_REPLICAS, true);
}
