// SPDX-License-Identifier: BSD-3-Clause
//! The replication history across restarts: a dump file and an append-only file name the history
//! and the offset that their content belongs to, so that a restarted server continues there.

use std::sync::atomic::Ordering::Relaxed;

use braid_base::gate::World;
use braid_executor::engine::Engine;
use braid_executor::journal_uses::{self, FOR_REPLICAS};
use braid_keyspace::Context;
use braid_keyspace::keyspace::Removal;
use braid_persistence::ReplicationNote;

/// Continues the history in which a dump file was saved, at its offset: replicas of a
/// restarted primary, and primaries of a restarted replica, need no full sync.
pub fn resume_history(engine: &Engine, world: &World<'_>, note: &ReplicationNote) {
    let journal = &engine.keyspace.journal;
    let is_replica = engine.replication.link.is_replica();
    {
        let mut state = engine.replication.state.lock();
        let (id, end) = (String::from_utf8_lossy(&note.id).into_owned(), journal.end());
        if is_replica {
            state.history.adopt(id, note.offset, end);
        } else {
            state.history.resume(id, note.offset, end);
        }
        state.last_replica_ms = braid_base::clock::unix_ms();
    }
    engine.replication.link.db.store(u64::from(note.db), Relaxed);
    keep_backlog(engine, world);
}

/// Makes replicas remove keys that had expired when the dataset was loaded. The world is
/// stopped.
pub fn journal_lost_keys(engine: &Engine, context: &mut Context, keys: &[(u32, Box<[u8]>)]) {
    let keyspace = &engine.keyspace;
    let name = keyspace.settings.removal(Removal::Expired);
    for (db, key) in keys {
        keyspace.journal.append_request(context.slot, &mut context.journal, *db, &[name, key]);
    }
}

/// Begins the backlog, if there is none yet.
pub fn keep_backlog(engine: &Engine, _world: &World<'_>) {
    if engine.keyspace.journal.backlog().is_none() {
        journal_uses::begin_backlog(engine);
    }
    journal_uses::set_journal_use(engine, FOR_REPLICAS, true);
}
