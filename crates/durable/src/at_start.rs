// SPDX-License-Identifier: BSD-3-Clause
//! Loading at the start: clients are served meanwhile, and are refused what needs data.

use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::unix_ms;
use braid_clients::attention::LOADING;
use braid_executor::cluster_map::ClusterMap;
use braid_executor::locks::{LockSet, lock};
use braid_executor::world;
use braid_executor::{Engine, journal_uses};
use braid_keyspace::Txn;
use braid_keyspace::txn::NOTHING_EXPIRED;

use crate::aof_load::outcome::{AofLoadError, AofLoaded};
use crate::saving::{self, LoadFailure, Manner};
use crate::{aof_load, append_only, history};

/// Loads the dump file at start. The loops already run and serve commands that need no data
/// between slices of the load. False if there is no dump file.
///
/// # Errors
/// If the file cannot be opened or loaded.
pub fn load_at_start(engine: &Engine) -> Result<bool, LoadFailure> {
    // On a replica, expired keys stay until the primary deletes them.
    let now = if engine.replication.link.is_replica() { NOTHING_EXPIRED } else { unix_ms() };
    at_start(engine, now, |txn| saving::load(engine, txn, Manner::AtStart))
}

/// Like [`load_at_start`], but loads the append-only file and continues writing it.
///
/// # Errors
/// If a file cannot be read, is damaged or has unknown commands, or the file cannot be continued.
pub fn load_append_only_at_start(engine: &Engine) -> Result<AofLoaded, AofLoadError> {
    at_start(engine, NOTHING_EXPIRED, |txn| {
        let loaded = aof_load::load_append_only(engine, txn, true)?;
        engine.append_only.was_loaded.store(!loaded.manifest.has_no_data(), Relaxed);
        if let Some(world) = txn.stopped_world() {
            if let Some(place) = loaded.place.filter(|_| engine.active.is_none()) {
                history::resume_history(engine, world, &place);
            }
            append_only::begin_append_only(engine, world, &loaded).map_err(|error| {
                log::warn!("{error}");
                AofLoadError::File(error)
            })?;
        }
        Ok(loaded)
    })
}

fn at_start<T, E>(
    engine: &Engine,
    now: i64,
    load: impl FnOnce(&mut Txn<'_>) -> Result<T, E>,
) -> Result<T, E> {
    // This thread uses the first loop's context, with the world stopped only.
    let mut worker = engine.worker(0);
    let world = world::stop(engine);
    let mut txn = lock(&engine.keyspace, &mut worker.context, LockSet::World(world), 0, now);
    // The loaded changes are in the files already. In active mode the journal is in use: its
    // readers, the append-only file among them, must not get them again.
    engine.keyspace.settings.journals.store(0, Relaxed);
    let loaded = load(&mut txn);
    journal_uses::apply_journal_uses(engine);
    if loaded.is_ok() {
        // In active mode more must be done before clients are served.
        saving::set_loading(engine, engine.active.is_some());
        expect_map(engine);
    } else {
        // A partial dataset must be neither served nor saved.
        engine.persistence.progress.active.store(true, Relaxed);
    }
    loaded
}

/// Refuses commands that need data until [`load_at_start`] is done. Call it before the
/// loops start.
pub fn expect_load(engine: &Engine) {
    saving::set_loading(engine, true);
}

/// Makes clients wait as during a load, if this is a node of a cluster of several that has
/// not seen the cluster's records yet: until then it does not know the owners of slots.
/// Settings can be changed meanwhile: some come with the records.
pub fn expect_map(engine: &Engine) {
    if engine.cluster_map().is_some_and(ClusterMap::is_awaited) {
        engine.attention.set(LOADING, true);
    }
}
