// SPDX-License-Identifier: BSD-3-Clause
//! Positions in the history that replicas name: whether the backlog continues from there.

use braid_executor::Engine;
use braid_journal::Reader;
use braid_replication::state::State;

/// The position requested by PSYNC.
pub struct Position<'a> {
    pub id: &'a [u8],
    /// The offset of the next byte, counted from 1; if it is negative, no backlog has it.
    pub next: i64,
}

/// A reader at a replica's position, if that is in this server's history and in the backlog.
pub fn resume_at(engine: &Engine, state: &State, position: &Position<'_>) -> Option<Reader> {
    engine.keyspace.journal.reader_from(own_offset(state, position)?)
}

/// True if a replica at this position needs no full sync.
pub fn can_resume_at(engine: &Engine, state: &State, position: &Position<'_>) -> bool {
    let backlog = engine.keyspace.journal.backlog();
    let is_kept = |at: u64| backlog.is_some_and(|kept| (kept.first..=kept.first + kept.len).contains(&at));
    own_offset(state, position).is_some_and(is_kept)
}

/// The journal offset of a position, if that is in this server's history.
pub fn own_offset(state: &State, position: &Position<'_>) -> Option<u64> {
    let offset = u64::try_from(position.next).ok()?.checked_sub(1)?;
    let is_known = state.history.contains(position.id, offset);
    state.history.journal_offset(offset).filter(|_| is_known)
}

pub fn ping_period_ms(engine: &Engine) -> i64 {
    i64::from(engine.config.repl_ping_replica_period_seconds()) * 1000
}
