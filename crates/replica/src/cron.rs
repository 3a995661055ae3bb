// SPDX-License-Identifier: BSD-3-Clause
//! Periodic work for replicas, by the first loop's cron.

use std::sync::atomic::Ordering::Relaxed;

use braid_executor::engine::Engine;
use braid_executor::journal_uses::{self, FOR_FEEDS, FOR_REPLICAS};
use braid_executor::tell_replicas;
use braid_executor::world;
use braid_keyspace::Context;
use braid_replication::Stage;
use braid_replication::failover::FailoverPhase;

use crate::{dual_channel, full_syncs, position, replicas};

/// Interval, in ms, of checking for silent replicas and counting those that keep up.
const LOOK_MS: i64 = 1000;

/// Starts full syncs, finds silent replicas, frees the backlog. Outside of the gate.
pub fn check_replicas(engine: &Engine, now_ms: i64) {
    let is_due = {
        let mut state = engine.replication.state.lock();
        let is_idle = state.replicas.is_empty()
            && state.reserved.is_empty()
            && !journal_uses::journals_for(engine, FOR_REPLICAS);
        let has_minimum = engine.config.min_replicas_to_write() > 0;
        let is_due = now_ms >= state.next_look_ms && (!is_idle || has_minimum);
        if is_due {
            state.next_look_ms = now_ms + LOOK_MS;
        }
        if state.replicas.is_empty() {
            state.stream_times.clear();
        } else {
            state.stream_times.note(now_ms, engine.keyspace.journal.end());
        }
        if is_idle && !is_due {
            return;
        }
        is_due
    };
    full_syncs::begin_full_sync_if_due(engine, now_ms);
    full_syncs::refuse_those_that_lack_a_type(engine);
    if is_due {
        dual_channel::give_up_reserved(engine, now_ms);
        cut_off_the_silent(engine, now_ms);
        replicas::count_good_replicas(engine, now_ms);
        give_up_backlog(engine, now_ms);
    }
}

fn cut_off_the_silent(engine: &Engine, now_ms: i64) {
    let timeout_ms = i64::from(engine.config.repl_timeout_seconds()) * 1000;
    let replicas = engine.replication.replicas();
    for replica in replicas {
        match replica.stage() {
            // A replica attached by SYNC sends nothing.
            Stage::Online if replica.is_told && now_ms - replica.heard_ms() > timeout_ms => {
                replicas::cut_off(engine, &replica, "streaming sync");
            }
            Stage::Copying if replica.options.rdb_client.is_some() => {
                let is_silent = now_ms - replica.heard_ms() > timeout_ms;
                is_silent.then(|| replicas::cut_off(engine, &replica, "full sync on a second connection"));
            }
            Stage::Copying => {
                let stalled = replica.full_sync().and_then(|sync| sync.stalled_since_ms(replica.record.id));
                if stalled.is_some_and(|since_ms| now_ms - since_ms > timeout_ms) {
                    replicas::cut_off(engine, &replica, "full sync");
                }
            }
            _ => {}
        }
    }
}

/// Ends the backlog when there has been no replica for long.
fn give_up_backlog(engine: &Engine, now_ms: i64) {
    let ttl_ms =
        i64::try_from(engine.config.repl_backlog_ttl_seconds()).unwrap_or(i64::MAX).saturating_mul(1000);
    let is_unused = || {
        let state = engine.replication.state.lock();
        // A replica keeps its backlog: it may be promoted.
        let is_primary = !engine.replication.link.is_replica();
        // Members of a group that acknowledge later need the whole backlog: a change that is
        // not journalled cannot be waited for.
        let is_required =
            engine.replication.in_sync.requires_any() || journal_uses::journals_for(engine, FOR_FEEDS);
        is_primary
            && !is_required
            && state.replicas.is_empty()
            && ttl_ms > 0
            && now_ms - state.last_replica_ms > ttl_ms
    };
    if !journal_uses::journals_for(engine, FOR_REPLICAS) || !is_unused() {
        return;
    }
    let _world = world::stop(engine);
    // A replica may have come before the world was stopped.
    if !is_unused() || engine.replication.full_sync_active.load(Relaxed) {
        return;
    }
    journal_uses::set_journal_use(engine, FOR_REPLICAS, false);
    engine.keyspace.journal.end_backlog();
    // Later changes are kept nowhere: no replica may continue from here.
    engine.replication.state.lock().history.begin_anew();
    log::info!("Replication backlog freed: there has been no replica for {} seconds", ttl_ms / 1000);
}

/// Shows replicas that the link is alive, and sends them pending questions. Inside of the gate.
pub fn ping_replicas(engine: &Engine, context: &mut Context, now_ms: i64) {
    if !journal_uses::journals_for(engine, FOR_REPLICAS) {
        return;
    }
    if engine.replication.asks_soon.swap(false, Relaxed) {
        tell_replicas::ask_replicas(engine, context);
    }
    {
        let mut state = engine.replication.state.lock();
        // A failover waits until a replica has everything that was journalled.
        let is_failing_over = engine.replication.failover.phase() != FailoverPhase::None;
        let is_early = now_ms - state.last_ping_ms < position::ping_period_ms(engine);
        if is_early || state.replicas.is_empty() || is_failing_over {
            return;
        }
        state.last_ping_ms = now_ms;
    }
    let range = engine.keyspace.journal.append_aside(context.slot, &mut context.journal, &[b"PING"]);
    engine.replication.in_sync.note_aside(range);
    tell_replicas::wake_readers(engine, context);
}
