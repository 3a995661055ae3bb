// SPDX-License-Identifier: BSD-3-Clause
//! Takes over a primary's dataset: a full sync takes the place of what was there.

use std::io::Read;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::unix_ms;
use braid_clients::attention::STOPPING;
use braid_keyspace::txn::NOTHING_EXPIRED;
use braid_persistence::{LoadError, ReplicationNote, Slices};
use braid_replication::link::LinkError;

use super::FOR_REPLICAS;
use crate::engine::Engine;
use crate::locks::{LockSet, lock};
use crate::saving::Manner;

/// The history and the offset that a full sync stands for, as the primary has said.
pub(super) struct Origin {
    pub id: String,
    pub offset: u64,
}

impl Engine {
    /// Empties the dataset and loads a dump of `len` bytes, if that is known. Others are served in
    /// between, as far as they need no data. If the load fails the dataset is empty.
    pub(super) fn replace_dataset(
        &self,
        generation: u64,
        origin: &Origin,
        dump: impl Read,
        len: Option<u64>,
        heartbeat: &dyn Fn(),
    ) -> Result<(), LinkError> {
        self.stop_background_save();
        self.stop_copies();
        self.end_append_only();
        let mut worker = self.worker(0);
        let world = self.keyspace.gate.close(None);
        if !self.replication.link.is_current(generation) || self.attention.get() & STOPPING != 0 {
            return Err(LinkError::CalledOff);
        }
        // What they have is of another history.
        self.disconnect_replicas();
        self.set_loading(true);
        let mut txn = lock(&self.keyspace, &mut worker.context, LockSet::World(world), 0, NOTHING_EXPIRED);
        log::info!("MASTER <-> REPLICA sync: Flushing old data");
        self.empty_dataset(&mut txn);
        log::info!("MASTER <-> REPLICA sync: Loading DB in memory");
        let progress = &self.persistence.progress;
        progress.begin(len.unwrap_or(0), unix_ms() / 1000);
        let mut slices =
            Slices::new(progress, true, self.config.key_load_delay_microseconds()).with_heartbeat(heartbeat);
        let loaded = self.load_dump(&mut txn, dump, len, Manner::AtStart, &mut slices);
        progress.end();
        let outcome = match loaded {
            Ok(loaded) => {
                self.adopt_history(origin, loaded.replication);
                Ok(())
            }
            Err(error) => {
                self.empty_dataset(&mut txn);
                Err(match error {
                    LoadError::Stopped => LinkError::CalledOff,
                    error => LinkError::Refused(format!(
                        "Failed trying to load the MASTER synchronization DB: {error}"
                    )),
                })
            }
        };
        self.forget_changes();
        drop(txn);
        self.set_loading(false);
        outcome
    }

    fn empty_dataset(&self, txn: &mut braid_keyspace::Txn<'_>) {
        if let Some(world) = txn.stopped_world() {
            let removed = self.keyspace.flush(world, None);
            if self.config.replica_lazy_flush() {
                removed.free_in_background(&self.keyspace.lazy_free, None);
            }
        }
        self.scripts.clear_libraries();
        self.trackers.flushed(&self.keyspace, txn.context.slot);
    }

    /// The dataset is the primary's at an offset of its history. The world is stopped.
    fn adopt_history(&self, origin: &Origin, note: Option<ReplicationNote>) {
        let journal = &self.keyspace.journal;
        self.replication.state.lock().history.adopt(origin.id.clone(), origin.offset, journal.end());
        let db = note.map_or(0, |note| note.db);
        let db = if db < self.keyspace.databases() { db } else { 0 };
        self.replication.link.db.store(u64::from(db), Relaxed);
        // Nothing of another history is kept.
        journal.end_backlog();
        journal.begin_backlog(self.config.repl_backlog_size());
        self.set_journal_use(FOR_REPLICAS, true);
    }
}
