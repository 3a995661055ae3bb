// SPDX-License-Identifier: BSD-3-Clause
//! Periodic work for replicas, by the first loop's cron; and questions to replicas on behalf of
//! clients that wait for acknowledgements.

use std::sync::atomic::Ordering::Relaxed;

use braid_keyspace::{Context, Txn};

use super::FOR_REPLICAS;
use crate::client_eviction;
use crate::engine::Engine;
use crate::replication;
use crate::replication::dual_channel;
use crate::replication::full_syncs;
use crate::replication::role;
use crate::sync_writes;
use braid_replication::Stage;
use braid_replication::failover::FailoverPhase;

/// Interval, in ms, of checking for silent replicas and counting those that keep up.
const LOOK_MS: i64 = 1000;

/// Starts full syncs, finds silent replicas, frees the backlog. Outside of the gate.
pub fn tend_replicas(engine: &Engine, now_ms: i64) {
    let is_due = {
        let mut state = engine.replication.state.lock();
        let is_idle = state.replicas.is_empty()
            && state.reserved.is_empty()
            && !role::journals_for(engine, FOR_REPLICAS);
        let has_wish = engine.config.min_replicas_to_write() > 0;
        let is_due = now_ms >= state.next_look_ms && (!is_idle || has_wish);
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
        replication::count_good_replicas(engine, now_ms);
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
                replication::cut_off(engine, &replica, "streaming sync");
            }
            Stage::Copying if replica.options.rdb_client.is_some() => {
                let is_silent = now_ms - replica.heard_ms() > timeout_ms;
                is_silent.then(|| replication::cut_off(engine, &replica, "full sync on a second connection"));
            }
            Stage::Copying => {
                let stalled = replica.full_sync().and_then(|sync| sync.stalled_since_ms(replica.record.id));
                if stalled.is_some_and(|since_ms| now_ms - since_ms > timeout_ms) {
                    replication::cut_off(engine, &replica, "full sync");
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
        let is_required = engine.replication.in_sync.requires_any();
        is_primary
            && !is_required
            && state.replicas.is_empty()
            && ttl_ms > 0
            && now_ms - state.last_replica_ms > ttl_ms
    };
    if !role::journals_for(engine, FOR_REPLICAS) || !is_unused() {
        return;
    }
    let _world = engine.keyspace.gate.close(None);
    // A replica may have come before the world was stopped.
    if !is_unused() || engine.replication.full_sync_active.load(Relaxed) {
        return;
    }
    role::set_journal_use(engine, FOR_REPLICAS, false);
    engine.keyspace.journal.end_backlog();
    // Later changes are kept nowhere: no replica may continue from here.
    engine.replication.state.lock().history.begin_anew();
    log::info!("Replication backlog freed: there has been no replica for {} seconds", ttl_ms / 1000);
}

/// Excludes journal memory kept for slow readers, and messages that clients have not read, from
/// the memory limit: evicting keys because of them would add to both.
pub fn note_uncounted_bytes(engine: &Engine) {
    let uncounted = match engine.replication.journal_uses.load(Relaxed) {
        0 => 0,
        _ => {
            let journal = &engine.keyspace.journal;
            let kept = journal.backlog().map_or(0, |kept| kept.len);
            // The rest is kept for replicas that are behind.
            let counted = kept.min(engine.config.repl_backlog_size());
            journal.memory_bytes().saturating_sub(counted as usize)
        }
    };
    engine.memory.uncounted_bytes.store(uncounted + client_eviction::uncounted_push_bytes(engine), Relaxed);
}

/// Shows replicas that the link is alive, and sends them pending questions. Inside of the gate.
pub fn ping_replicas(engine: &Engine, context: &mut Context, now_ms: i64) {
    if !role::journals_for(engine, FOR_REPLICAS) {
        return;
    }
    if engine.replication.asks_soon.swap(false, Relaxed) {
        ask_replicas(engine, context);
    }
    {
        let mut state = engine.replication.state.lock();
        // A failover waits until a replica has everything that was journalled.
        let is_failing_over = engine.replication.failover.phase() != FailoverPhase::None;
        let is_early = now_ms - state.last_ping_ms < ping_period_ms(engine);
        if is_early || state.replicas.is_empty() || is_failing_over {
            return;
        }
        state.last_ping_ms = now_ms;
    }
    let range = engine.keyspace.journal.append_aside(context.slot, &mut context.journal, &[b"PING"]);
    engine.replication.in_sync.note_aside(range);
    tell_news(engine, context);
}

pub(super) fn ping_period_ms(engine: &Engine) -> i64 {
    i64::from(engine.config.repl_ping_replica_period_seconds()) * 1000
}

/// Asks replicas for their offsets, unless they have been asked and nothing has been
/// journalled since. Inside of the gate.
pub(crate) fn ask_replicas(engine: &Engine, context: &mut Context) {
    if engine.replication.asked_at.load(Relaxed) != engine.keyspace.journal.end() {
        sync_writes::append_question(engine, context);
    }
}

/// As [`ask_replicas`], at the next turn of the first loop's cron. May be called on
/// any thread.
pub(crate) fn ask_replicas_soon(engine: &Engine) {
    engine.replication.asks_soon.store(true, Relaxed);
}

/// Sends replicas a request that changes no key, such as PUBLISH for the listeners there. It
/// follows the earlier changes of the current transaction or script, which a client that
/// receives the message must find. Inside of the gate.
#[inline]
pub fn tell_replicas(engine: &Engine, txn: &mut Txn<'_>, args: &[&[u8]]) {
    if role::journals_for(engine, FOR_REPLICAS) {
        let (db, context) = (txn.db(), &mut *txn.context);
        if context.journal.unit.is_empty() {
            let journal = &engine.keyspace.journal;
            journal.append_aside_in(context.slot, &mut context.journal, db, args);
        } else {
            context.journal.unit.push_aside(args);
        }
    }
}

pub(crate) fn tell_news(engine: &Engine, context: &mut Context) {
    context.journal.news = false;
    engine.keyspace.journal.wake();
}
