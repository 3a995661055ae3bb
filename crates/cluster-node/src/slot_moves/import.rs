// SPDX-License-Identifier: BSD-3-Clause
//! The target's side of a slot move: the implementation of CLUSTER SYNCSLOTS.
//!
//! The source is a client whose connection may reach the slots being imported ([`ImportSession`]).
//! It sends keys by RESTORE, and later changes by APPLY: these run as a primary's stream does on
//! a replica, without expiry, and go unchanged to this server's own replicas and files.
//!
//! If the connection ends before the slots are here, the source may continue on another one
//! (RESUME) for a while. After that the keys are deleted, but only after the cluster's epoch has
//! been raised: then the source's transaction can no longer be committed.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use braid_base::clock::unix_ms;
use braid_executor::cluster_map::ClusterView;
use braid_executor::dispatch::replay::{Replay, Source};
use braid_executor::engine::Engine;
use braid_executor::state::slot_moves::{ImportSession, Move, MoveState};
use braid_executor::world;
use braid_executor::world_change;
use braid_group::cluster::SlotSet;
use braid_keyspace::txn::NOTHING_EXPIRED;
use braid_replication::link::units::Units;
use braid_spec::CommandError;

use crate::group::{changes, foreign_keys};
use crate::migrate;

/// Why an import may have ended.
const LOST: &str = "the connection to the source was lost";
/// How much longer the target waits for a lost source than the source tries to return.
const GRACE: Duration = Duration::from_secs(5);
/// How long the target waits for the change of the map.
const FOLLOW: Duration = Duration::from_secs(2);

fn refused(why: impl Into<String>) -> CommandError {
    CommandError::text(format!("ERR {}", why.into()))
}

/// An error after which the source may begin again, if it still leads.
fn not_now(why: impl Into<String>) -> CommandError {
    CommandError::text(format!("TRYAGAIN {}", why.into()))
}

/// ESTABLISH: prepares for slots from another node.
///
/// # Errors
/// This server cannot take the slots, or not yet.
pub fn begin_import(
    engine: &Engine,
    name: &str,
    source: Arc<str>,
    slots: SlotSet,
) -> Result<Arc<ImportSession>, CommandError> {
    let view = engine.cluster_view().ok_or_else(|| not_now("this server is not in a cluster"))?;
    check_import(&view, &source, &slots).map_err(not_now)?;
    let order = view.map.orders().find(|(_, other, _)| ***other == *name);
    let (is_ordered, created_ms) = match order {
        Some((_, _, order)) => (true, order.created_ms),
        // This server learns of it in a moment.
        None => (false, unix_ms()),
    };
    // The earlier source was another node, or lost its connection without this server's
    // knowledge.
    let is_before = |one: &Arc<Move>| one.name == name;
    if let Some(before) = engine.slot_moves.imports().into_iter().find(is_before) {
        end_import_early(engine, before, "another source has taken over the move");
        return Err(not_now("the move's former source was dropped"));
    }
    let new = Move::new(name, false, slots, source, Arc::clone(&view.id), created_ms);
    // The next map may be one without the order.
    new.was_ordered.store(is_ordered, Relaxed);
    let job = engine
        .slot_moves
        .add(new, engine.config.cluster_slot_migration_log_max_len() as usize)
        .map_err(|slot| not_now(format!("slot {slot} is already being moved")))?;
    log::info!("Receiving slots {} from node {}: move {}", job.slots, job.source, job.name);
    Ok(open_session(engine, job))
}

/// A connection's right to fill the slots of a move.
fn open_session(engine: &Engine, job: Arc<Move>) -> Arc<ImportSession> {
    let weak = engine.weak();
    let lost = move |job: Arc<Move>| {
        if let Some(engine) = weak.upgrade() {
            log::warn!("Move {}: {LOST}", job.name);
            job.note(|progress| progress.message = LOST.into());
            end_lost_import(&engine, job);
        }
    };
    Arc::new(ImportSession::new(job, lost))
}

/// RESUME: the source of a move continues on another connection.
///
/// # Errors
/// This server knows no such move, or no longer.
pub fn resume_import(engine: &Engine, name: &str, source: &str) -> Result<Arc<ImportSession>, CommandError> {
    let leads = engine.cluster_view().is_some_and(|view| view.leads);
    let known = |job: &Arc<Move>| job.name == name && *job.source == *source && job.is_wanted();
    let job = engine.slot_moves.imports().into_iter().find(known).filter(|_| leads);
    job.map(|job| open_session(engine, job))
        .ok_or_else(|| not_now("this server does not receive such a move"))
}

/// The number of the last APPLY that was executed for a move that is resumed. Blocks until the
/// requests of its former connection have ended.
///
/// # Errors
/// The move is over, or another connection has taken over.
pub fn resume_from(engine: &Engine, import: &ImportSession) -> Result<u64, CommandError> {
    world::wait_for_commands(engine);
    if !import.is_taken() {
        return Err(not_now("the move is over"));
    }
    let job = &import.job;
    job.enter(MoveState::Snapshotting);
    job.note(|progress| progress.message.clear());
    log::info!("Move {} is resumed", job.name);
    Ok(job.import.lock().applied)
}

/// Ends an import whose connection has been lost for too long.
fn end_lost_import(engine: &Engine, job: Arc<Move>) {
    let Some(lost) = job.import.lock().lost.map(|lost| lost.elapsed()) else { return };
    let view = engine.cluster_view().unwrap_or_default();
    let patience = match is_ordered(&view, &job.name) {
        _ if !view.leads => Duration::ZERO,
        true => Duration::from_secs(engine.config.repl_timeout_seconds().max(1).into()) + GRACE,
        // The order may be new.
        false => GRACE,
    };
    if lost >= patience {
        end_import_early(engine, job, LOST);
    }
}

/// [`end_lost_import`] for all. Called often, by the group's thread.
pub(crate) fn end_lost_imports(engine: &Engine) {
    let imports = engine.slot_moves.imports();
    if let Some(view) = engine.cluster_view().filter(|_| !imports.is_empty()) {
        // The map may have changed before a move was known here.
        complete_imports(engine, &view);
    }
    imports.into_iter().for_each(|job| end_lost_import(engine, job));
}

/// Makes room for the slots: keys of these slots that are here belong to nobody. Blocks.
///
/// # Errors
/// The slots can no longer come.
pub fn prepare_import(engine: &Engine, import: &ImportSession) -> Result<(), CommandError> {
    let job = &import.job;
    foreign_keys::refresh_hidden_slots(engine);
    // Left by an earlier move that failed.
    foreign_keys::delete_slots(engine, &job.slots, |_| !job.is_over());
    // The map may have changed before the move was known here.
    let view = engine.cluster_view().ok_or_else(|| refused("this server is not in a cluster"))?;
    check_import(&view, &job.source, &job.slots).map_err(not_now)
}

/// APPLY without units: everything before it has been executed.
///
/// # Errors
/// The move is over, or another connection has taken over.
pub fn note_import(import: &ImportSession, number: u64) -> Result<(), CommandError> {
    let is_noted = import.job.is_wanted() && import.note_applied(number);
    is_noted.then_some(()).ok_or_else(|| not_now("the move is over"))
}

/// APPLY: applies units of the source's journal. Blocks.
///
/// # Errors
/// The units cannot be repeated here: then the move has failed.
pub fn apply_import(
    engine: &Engine,
    import: &ImportSession,
    number: u64,
    bytes: &[u8],
) -> Result<(), CommandError> {
    let mut units = Units::default();
    units.parse(bytes).map_err(|error| refused(error.to_string()))?;
    if units.requests().last().is_none_or(|request| request.bytes.end != bytes.len()) {
        return Err(refused("the changes are incomplete"));
    }
    // The batch begins with a SELECT.
    let mut replay = Replay::new(engine, Source::Primary);
    let world = migrate::world_for_changes(engine)?;
    // The move may have ended, or the connection been replaced, before the world was stopped.
    note_import(import, number)?;
    let mut worker = engine.worker(0);
    world_change::change_in_world(engine, world, &mut worker, 0, NOTHING_EXPIRED, |txn| {
        // Requests that run here are not journalled one by one, but as received.
        let journals = engine.keyspace.settings.journals.swap(0, Relaxed);
        for request in units.requests() {
            let args: Vec<&[u8]> = units.args(request, bytes).collect();
            if !args.is_empty() {
                replay.run_streamed(engine, txn, &args);
            }
        }
        engine.keyspace.settings.journals.store(journals, Relaxed);
        if journals != 0 {
            let (journal, context) = (&engine.keyspace.journal, &mut *txn.context);
            journal.append_received(context.slot, &mut context.journal, bytes, false, None);
            journal.forget_database();
        }
    });
    import.job.note(|progress| progress.answered_ms = unix_ms());
    match replay.refused == 0 {
        true => Ok(()),
        false => Err(refused("a change could not be applied here")),
    }
}

/// READY: everything is here. The slots may become this server's from now on.
///
/// # Errors
/// The move is over.
pub fn ready_import(engine: &Engine, import: &ImportSession) -> Result<(), CommandError> {
    let leads = engine.cluster_view().is_some_and(|view| view.leads);
    if !import.is_taken() || !leads {
        return Err(not_now("the move is over"));
    }
    import.job.enter(MoveState::Paused);
    Ok(())
}

/// DONE: the slots belong to this server. Blocks until it applies that.
///
/// # Errors
/// It does not apply that within seconds.
pub fn end_import(engine: &Engine, import: &ImportSession) -> Result<(), CommandError> {
    let map = engine.cluster_map();
    changes::read_records(engine);
    let is_here = map.is_some_and(|map| map.wait_until(|view| owns_all(view, &import.job.slots), FOLLOW));
    is_here.then_some(()).ok_or_else(|| refused("this node has not seen the change yet"))
}

/// Completes moves whose slots are here. Called whenever the map has changed, before it is
/// applied.
pub(crate) fn complete_imports(engine: &Engine, view: &ClusterView) {
    for job in engine.slot_moves.imports() {
        if view.leads && owns_all(view, &job.slots) {
            job.succeed();
            log::info!("Move {} is done", job.name);
        } else if is_ordered(view, &job.name) {
            job.was_ordered.store(true, Relaxed);
        } else if job.was_ordered.load(Relaxed) {
            // Its source may hang without closing the connection.
            end_import_early(engine, job, "it was cancelled, or the source abandoned it");
        }
    }
}

/// Ends an import whose source's connection has ended, or no longer counts.
fn end_import_early(engine: &Engine, job: Arc<Move>, why: &'static str) {
    if job.is_ending.swap(true, Relaxed) {
        return;
    }
    let (engine, name) = (engine.weak(), job.name.clone());
    let run = move || {
        if let Some(engine) = engine.upgrade() {
            give_up_import(&engine, &job, why);
        }
    };
    if let Err(error) = std::thread::Builder::new().name("slot-move".into()).spawn(run) {
        log::warn!("Move {name}: cannot delete its keys: {error}");
    }
}

fn give_up_import(engine: &Engine, job: &Move, why: &str) {
    // Requests of the connection that were admitted have ended; no more are admitted.
    world::wait_for_commands(engine);
    if !changes::raise_epoch(engine) {
        return;
    }
    if job.is_over() {
        return;
    }
    log::warn!("Move {} failed: {why}. Its keys are deleted", job.name);
    // Until the move is over, no other thread deletes the keys, and no client sees them.
    foreign_keys::delete_slots(engine, &job.slots, |_| !job.is_over());
    match engine.cluster_view().is_some_and(|view| is_ordered(&view, &job.name)) {
        true => job.interrupt(why),
        false => job.fail(why),
    }
    foreign_keys::refresh_hidden_slots(engine);
}

/// Checks that slots may come from a node.
fn check_import(view: &ClusterView, source: &str, slots: &SlotSet) -> Result<(), String> {
    if !view.leads {
        return Err("slots can move to primaries only".into());
    }
    let from = view.map.node(source).map(|node| &node.known.shard);
    if let Some(slot) = slots.iter().find(|&slot| from.is_none() || view.map.owner(slot) != from) {
        return Err(format!("slot {slot} does not belong to the source"));
    }
    let leads = view.map.node(source).is_some_and(|node| view.map.is_primary(node));
    if leads { Ok(()) } else { Err("slots can move from primaries only".into()) }
}

fn is_ordered(view: &ClusterView, name: &str) -> bool {
    view.map.orders().any(|(_, other, _)| **other == *name)
}

fn owns_all(view: &ClusterView, slots: &SlotSet) -> bool {
    view.leads && slots.iter().all(|slot| view.owns(slot))
}
