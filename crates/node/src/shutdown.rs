// SPDX-License-Identifier: BSD-3-Clause
//! Shutdown by SHUTDOWN or a signal: replicas catch up, the dataset is saved, the loops stop.
//!
//! A primary first waits for its replicas (`shutdown-timeout`) on a separate thread. Writes are
//! paused during that wait, all other commands are served, and SHUTDOWN ABORT cancels the shutdown.
//! Once saving starts no command may execute any more, because its changes would be lost.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use braid_base::clock::unix_ms;
use braid_clients::attention::STOPPING;
use braid_clients::pause::{PauseMode, Purpose};
use braid_cluster_node::group::previous_process;
use braid_durable::saving::{self, remove_unfinished_saves};
use braid_durable::{append_only, background_save, backup};
use braid_executor::blocking::state::{TimeoutReply, Wait};
use braid_executor::engine::Engine;
use braid_executor::engine::call::Call;
use braid_executor::world;
use braid_executor::{blocking, tell_replicas, threads};
use braid_keyspace::Type;
use braid_replica::{failover, full_syncs};
use braid_replication::{Replica, Stage as ReplicaStage};
use braid_spec::{CommandError, CommandResult};
use parking_lot::MutexGuard;

pub use braid_executor::state::shutdown::{SHUTDOWN_FAILED, Shutdown, ShutdownOptions};
use braid_executor::state::shutdown::{Stage, State};

/// Interval between checks of the replicas' progress.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The shutdown was refused: the dataset could not be saved, or `safe` forbids it.
#[derive(Debug, PartialEq, Eq)]
pub struct ShutdownFailed;

/// Shuts down for a signal, after [`Shutdown::schedule`]. Does nothing if the shutdown has
/// been aborted since.
///
/// # Errors
/// If the data cannot be saved: the server continues to run.
pub fn shut_down_by_signal(engine: &Engine, options: ShutdownOptions) -> Result<(), ShutdownFailed> {
    let Some(request) = engine.shutdown.wait(Stage::Scheduled) else { return Ok(()) };
    shut_down_after_replicas(engine, request, options)
}

/// Cancels a pending shutdown (SHUTDOWN ABORT); false if there is none, or if it is too late.
pub fn abort_shutdown(engine: &Engine) -> bool {
    let state = engine.shutdown.state.lock();
    let may = matches!(state.stage, Stage::Scheduled | Stage::WaitingForReplicas);
    if may {
        cancel_shutdown(engine, state);
    }
    may
}

/// Waits for replicas unless `options.now`, then shuts down. The calling thread must be outside
/// of the gate.
fn shut_down_after_replicas(
    engine: &Engine,
    request: u64,
    options: ShutdownOptions,
) -> Result<(), ShutdownFailed> {
    log::warn!("User requested shutdown...");
    if !options.now {
        engine.process.supervisor.patiently(|| None, || wait_for_replicas(engine, request));
    }
    if options.failover {
        engine.process.supervisor.patiently(|| None, || hand_over(engine, request));
    }
    if !engine.shutdown.begin(request) {
        return Ok(());
    }
    let ended = shut_down(engine, None, options);
    if ended.is_err() {
        log::warn!("Errors trying to shut down the server. Check the logs for more information.");
        cancel_shutdown(engine, engine.shutdown.state.lock());
    }
    ended
}

/// Returns when all replicas are in sync, after `shutdown-timeout`, or when the shutdown was
/// aborted.
fn wait_for_replicas(engine: &Engine, request: u64) {
    let timeout_ms = i64::from(engine.config.shutdown_timeout_seconds()) * 1000;
    if timeout_ms == 0 || lasting_replicas(engine).is_empty() {
        return;
    }
    let until_ms = unix_ms().saturating_add(timeout_ms);
    {
        let mut state = engine.shutdown.state.lock();
        if !state.waits(request) {
            return;
        }
        state.until_ms = until_ms;
        log::info!("Waiting for replicas before shutting down.");
        engine.clients.pause.begin(
            &engine.attention,
            Purpose::Shutdown,
            PauseMode::Write,
            i64::MAX,
            unix_ms(),
        );
    }
    // Polls `is_so` until it holds, the time is over, the shutdown is aborted or a script
    // blocks it.
    let wait_until = |is_so: &dyn Fn() -> bool| {
        let goes_on = || engine.shutdown.waits(request) && engine.clients.busy.error().is_none();
        while !is_so() && unix_ms() < until_ms && goes_on() {
            std::thread::sleep(POLL_INTERVAL);
        }
    };
    // A command that was running when the pause began has journalled its changes once the epoch
    // has advanced twice.
    let gate = &engine.keyspace.gate;
    let begin = gate.epoch();
    wait_until(&|| gate.try_advance() >= begin + 2);
    let offset = engine.keyspace.journal.end();
    let have_all = || lasting_replicas(engine).iter().all(|replica| replica.has(offset));
    if !have_all() {
        tell_replicas::ask_replicas_soon(engine);
        wait_until(&have_all);
    }
    if engine.shutdown.waits(request) {
        log_lagging_replicas(engine, offset);
    }
}

/// Lets a replica that has everything take over, if there is one.
fn hand_over(engine: &Engine, request: u64) {
    if engine.replication.link.is_replica() || lasting_replicas(engine).is_empty() {
        return;
    }
    let timeout_ms = i64::from(engine.config.shutdown_timeout_seconds().max(1)) * 1000;
    failover::fail_over_before_exit(engine, unix_ms().saturating_add(timeout_ms), || {
        engine.shutdown.waits(request) && engine.clients.busy.error().is_none()
    });
}

/// Replicas that follow the journal, not those that only fetch a dump file.
fn lasting_replicas(engine: &Engine) -> Vec<Arc<Replica>> {
    let mut replicas = engine.replication.replicas();
    replicas.retain(|replica| !replica.options.rdb_only && replica.stage() != ReplicaStage::Gone);
    replicas
}

fn log_lagging_replicas(engine: &Engine, offset: u64) {
    let (replicas, now_ms) = (lasting_replicas(engine), unix_ms());
    for replica in replicas.iter().filter(|replica| !replica.has(offset)) {
        let lag = if replica.stage() == ReplicaStage::Online { replica.lag_seconds(now_ms) } else { 0 };
        log::info!(
            "Lagging replica {} reported offset {} behind master, lag={lag}, state={}.",
            replica.name(),
            offset.saturating_sub(replica.acknowledged.load(Relaxed)),
            replica.stage_name()
        );
    }
    let count = replicas.iter().filter(|replica| replica.has(offset)).count();
    log::info!("{count} of {} replicas are in sync when shutting down.", replicas.len());
}

/// Resumes writes and answers the waiting SHUTDOWN clients with an error.
fn cancel_shutdown(engine: &Engine, mut state: MutexGuard<'_, State>) {
    state.stage = Stage::Running;
    engine.clients.pause.end(&engine.attention, &engine.clients.mailboxes, Purpose::Shutdown);
    let waiters = std::mem::take(&mut state.waiters);
    drop(state);
    for waiter in waiters {
        blocking::serve_keyless(&waiter, 0, |reply| reply.error(SHUTDOWN_FAILED));
    }
}

/// Exits while a script that has written exceeds `shutdown-timeout`. The append-only file keeps
/// its state from before the script and no dump file is written, because a script's changes
/// must not be saved in part. Called on the script's thread.
pub fn exit_during_script(engine: &Engine, name: &str) -> ! {
    log::error!(
        "Script {name} has written and is still running after shutdown-timeout. The server exits \
         without waiting for it or saving a dump file."
    );
    if engine.append_only.on.load(Relaxed) {
        append_only::finish_append_only(engine);
    }
    backup::finish(engine);
    remove_unfinished_saves();
    // A requested exit is not a failure to a supervisor.
    std::process::exit(0);
}

/// Saves according to `options.save` and stops the loops, without waiting for replicas. No
/// command executes afterwards, because its changes would be lost. Fails if saving fails,
/// while the append-only file has no base yet, or if `options.safe` forbids it; not with
/// `options.force`. `slot` is the calling thread's own, if it executes commands.
fn shut_down(engine: &Engine, slot: Option<usize>, options: ShutdownOptions) -> Result<(), ShutdownFailed> {
    if options.safe && is_primary_with_slots(engine) {
        let outcome = if options.force { "Exit anyway." } else { "Can't exit." };
        log::warn!("This node is a primary that owns slots, which become unavailable without it. {outcome}");
        if !options.force {
            return Err(ShutdownFailed);
        }
    }
    let ended = engine.process.supervisor.patiently(|| None, || prepare_shutdown(engine, slot, options));
    match ended {
        Ok(()) => {
            // Before the loops stop: the process ends right after them.
            engine.process.supervisor.stopping();
            engine.shutdown.request();
        }
        Err(ShutdownFailed) => engine.process.supervisor.status("Error trying to save the DB, can't exit"),
    }
    ended
}

/// True if a cluster loses slots when this server ends, unless a replica takes over.
fn is_primary_with_slots(engine: &Engine) -> bool {
    let Some(cluster) = &engine.cluster else { return false };
    match &cluster.map {
        // A cluster of one node owns all slots.
        None => true,
        // The map may not show yet that a replica has taken over.
        Some(map) => !engine.replication.link.is_replica() && map.view().leads_slots(),
    }
}

/// The part of [`shut_down`] before the loops stop.
fn prepare_shutdown(
    engine: &Engine,
    slot: Option<usize>,
    options: ShutdownOptions,
) -> Result<(), ShutdownFailed> {
    let ShutdownOptions { save, force, .. } = options;
    let progress = &engine.persistence.progress;
    if slot.is_some() && engine.clients.busy.any_error().is_some() {
        // SHUTDOWN NOSAVE while a script blocks the server: kill it, even if it has written.
        engine.clients.busy.kill_all();
        return Ok(());
    }
    background_save::finish_background_save(engine);
    full_syncs::stop_full_syncs(engine);
    if engine.append_only.awaits_base() {
        if !force {
            log::warn!("Writing initial AOF, can't exit.");
            return Err(ShutdownFailed);
        }
        log::warn!("Writing initial AOF. Exit anyway.");
    }
    if engine.append_only.rewriting.load(Relaxed) {
        log::warn!("There is a child rewriting the AOF. Killing it!");
    }
    engine.append_only.stop_rewrite();
    // Scripts that have not written end because of this flag, others within `shutdown-timeout`,
    // so the world can be stopped.
    engine.shutdown.set_imminent(true);
    let world = world::stop_from(engine, slot);
    // A partly loaded dataset must not replace the files that it is loaded from.
    let is_loading = progress.active.load(Relaxed);
    progress.stop.store(is_loading, Relaxed);
    let mut has_dump = false;
    if !is_loading && save.unwrap_or_else(|| !engine.config.save_points().is_empty()) {
        log::info!("Saving the final RDB snapshot before exiting.");
        engine.process.supervisor.status("Saving the final RDB snapshot");
        has_dump = saving::save(engine, &world).is_ok();
        if !has_dump && !force {
            log::warn!("Error trying to save the DB, can't exit.");
            engine.shutdown.set_imminent(false);
            return Err(ShutdownFailed);
        }
        engine.attention.set(STOPPING, true);
    }
    if !is_loading && engine.append_only.on.load(Relaxed) {
        engine.attention.set(STOPPING, true);
        append_only::finish_append_only(engine);
    }
    backup::finish(engine);
    // The files to be loaded next time have everything, and nothing more can be executed or
    // applied.
    let is_saved = if engine.config.appendonly() {
        engine.append_only.is_complete(&engine.keyspace.journal)
    } else {
        has_dump
    };
    if is_saved {
        previous_process::record_clean_shutdown(engine);
    }
    drop(world);
    Ok(())
}

/// Shuts the server down: the client sees its connection close. The client blocks while
/// replicas catch up, and gets an error if the shutdown fails or is aborted.
///
/// # Errors
/// If the data cannot be saved, or a thread cannot be started: the server continues to run.
pub fn shut_down_server(call: &mut Call<'_, '_>, options: ShutdownOptions) -> CommandResult {
    let engine = call.engine;
    let is_under_way = engine.shutdown.state.lock().stage >= Stage::WaitingForReplicas;
    let waits_for_sync = !options.now && engine.config.shutdown_timeout_seconds() > 0;
    let has_to_wait = (waits_for_sync || options.failover)
        && engine.clients.busy.error().is_none()
        && !lasting_replicas(engine).is_empty();
    if !is_under_way && !has_to_wait {
        log::warn!("User requested shutdown...");
        let ended = shut_down(engine, Some(call.keyspace.context.slot), options);
        ended.map_err(|ShutdownFailed| CommandError::text(SHUTDOWN_FAILED))?;
        call.session.close();
        return Ok(());
    }
    if let Some(request) = engine.shutdown.wait(Stage::Running) {
        let end = move |engine: &Arc<Engine>| {
            // A failure is reported to the waiting clients by `cancel_shutdown`.
            let _ = shut_down_after_replicas(engine, request, options);
        };
        if let Err(error) = threads::spawn(engine, "shutdown", end) {
            log::warn!("Cannot start the thread that shuts down the server: {error}");
            cancel_shutdown(engine, engine.shutdown.state.lock());
            return Err(CommandError::text(SHUTDOWN_FAILED));
        }
    }
    call.wait(Wait { timeout: TimeoutReply::ShutdownFailed, ..Wait::new(Type::STRING, &[], 0) })?;
    if let Some(blocked) = &call.session.blocked {
        let mut state = engine.shutdown.state.lock();
        state.waiters.push(Arc::clone(&blocked.waiter));
        // It may have been aborted in between.
        if state.stage == Stage::Running {
            cancel_shutdown(engine, state);
        }
    }
    Ok(())
}
