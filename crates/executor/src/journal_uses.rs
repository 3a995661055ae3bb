// SPDX-License-Identifier: BSD-3-Clause
//! What this server's own changes are journalled for. Without a use nothing is journalled, and a
//! write costs no more than the check of one byte.

use std::sync::atomic::Ordering::Relaxed;

use crate::engine::Engine;

/// Bits of [`braid_keyspace::keyspace::Settings::journals`]: changes are journalled for the
/// append-only file, for replicas, or for slots being moved.
pub const FOR_FILE: u8 = 1;
pub const FOR_REPLICAS: u8 = 2;
pub const FOR_MOVES: u8 = 4;
/// For active-active replication.
pub const FOR_ACTIVE: u8 = 8;
/// For change feeds.
pub const FOR_FEEDS: u8 = 16;
/// For a backup.
pub const FOR_BACKUP: u8 = 32;

/// Begins the backlog. The world is stopped.
pub fn begin_backlog(engine: &Engine) {
    let (journal, link) = (&engine.keyspace.journal, &engine.replication.link);
    let db = if link.is_replica() { Some(link.db.load(Relaxed) as u32) } else { journal.database() };
    journal.begin_backlog(engine.config.repl_backlog_size(), db);
}

/// Starts or stops the use of the journal for a purpose. The world is stopped when it starts.
pub fn set_journal_use(engine: &Engine, purpose: u8, on: bool) {
    let uses = &engine.replication.journal_uses;
    if on {
        uses.fetch_or(purpose, Relaxed);
    } else {
        uses.fetch_and(!purpose, Relaxed);
    }
    apply_journal_uses(engine);
}

/// Journals the commands of this server's clients if the journal is read.
pub fn apply_journal_uses(engine: &Engine) {
    let is_replica = engine.replication.link.is_replica();
    let uses = if is_replica { 0 } else { engine.replication.journal_uses.load(Relaxed) };
    engine.keyspace.settings.journals.store(uses, Relaxed);
}

/// True if this server's own commands are journalled for a purpose.
#[inline]
pub fn journals_for(engine: &Engine, purpose: u8) -> bool {
    engine.keyspace.settings.journals.load(Relaxed) & purpose != 0
}
