// SPDX-License-Identifier: BSD-3-Clause
//! Writers wait while the append-only file is too far behind the journal, or too long unsynced.

use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::unix_ms;
use braid_clients::attention::{APPEND_ONLY_FAILED, JOURNAL_FULL};
use braid_keyspace::Context;
use braid_persistence::aof::Policy;

use crate::engine::Engine;

/// Unwritten journal bytes at which writers must wait.
const JOURNAL_BYTES: u64 = 64 << 20;
/// Under `everysec`, writers wait when changes have not been synced for this long.
const SYNC_LAG_MS: i64 = 2000;

/// Makes writers wait while the file is too far behind the journal or too long unsynced.
pub fn watch_journal(engine: &Engine, now_ms: i64) {
    let state = &engine.append_only;
    let behind = engine.keyspace.journal.end().saturating_sub(state.appender.written());
    let is_late = state.appender.policy() == Policy::EverySecond
        && !engine.config.no_appendfsync_on_rewrite()
        && state.appender.unsynced_ms(now_ms) > SYNC_LAG_MS;
    // Refused writers need not wait.
    let is_full = state.on.load(Relaxed)
        && (behind > JOURNAL_BYTES || is_late)
        && engine.attention.get() & APPEND_ONLY_FAILED == 0;
    let mut full = state.full.lock();
    if is_full && !*full {
        state.delayed_syncs.fetch_add(1, Relaxed);
        log::info!(
            "Asynchronous AOF fsync is taking too long (disk is busy?). Writers wait for it, this may \
             slow down the server."
        );
    }
    if is_full != *full {
        *full = is_full;
        engine.attention.set(JOURNAL_FULL, is_full);
        state.room.notify_all();
    }
}

/// Waits at most 100 ms for room in the journal. No lock may be held. The thread leaves the
/// gate meanwhile, and stays outside if a script has stopped the world for long.
pub fn wait_for_journal(engine: &Engine, context: &mut Context) {
    engine.keyspace.gate.leave(context.slot);
    context.outside = true;
    // The waiting thread may be the one whose cron would clear the flag.
    watch_journal(engine, unix_ms());
    let mut full = engine.append_only.full.lock();
    if *full {
        engine.append_only.room.wait_for(&mut full, std::time::Duration::from_millis(100));
    }
    drop(full);
    engine.keyspace.reenter_gate(context);
}
