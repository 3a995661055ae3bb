// SPDX-License-Identifier: BSD-3-Clause
//! The end of the server, as SHUTDOWN or a signal asks for it: replicas catch up, everything is
//! saved, the loops stop.
//!
//! Whoever has replicas waits for them first (`shutdown-timeout`), on a thread of its own: writes
//! are held back meanwhile, everything else is served, and SHUTDOWN ABORT takes the end back. Then
//! no command is executed any more, since what it changed would be lost.

pub mod state;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use braid_base::clock::unix_ms;
use braid_keyspace::Type;
use parking_lot::MutexGuard;

use crate::blocking;
use crate::blocking::state::{TimeoutReply, Wait};
use crate::engine::Engine;
use crate::engine::call::Call;
use braid_clients::attention::STOPPING;
use braid_clients::pause::{PauseMode, Purpose};
use braid_replication::{Replica, Stage as ReplicaStage};
use braid_spec::{CommandError, CommandResult};
pub use state::{CANNOT_END, Ending, Manner};
use state::{Stage, State};

/// How often it is looked whether replicas have caught up.
const LOOK: Duration = Duration::from_millis(10);

/// The server cannot end, since it cannot save.
#[derive(Debug, PartialEq, Eq)]
pub struct CannotEnd;

impl Engine {
    /// Ends the server as a signal wants it; [`Ending::schedule`] has been called. Not if that has
    /// been taken back.
    pub fn end_by_signal(&self, manner: Manner) -> Result<(), CannotEnd> {
        let Some(request) = self.ending.wait(Stage::Scheduled) else { return Ok(()) };
        self.end_patiently(request, manner)
    }

    /// Takes the wish to end back (SHUTDOWN ABORT); false if there is none, or if it is too late.
    pub fn take_end_back(&self) -> bool {
        let state = self.ending.0.lock();
        let may = matches!(state.stage, Stage::Scheduled | Stage::Waits);
        if may {
            self.go_on_after_all(state);
        }
        may
    }

    /// Waits for replicas, if they are to be waited for, and ends the server. The thread is outside
    /// of the gate.
    fn end_patiently(&self, request: u64, manner: Manner) -> Result<(), CannotEnd> {
        log::warn!("User requested shutdown...");
        if !manner.now {
            self.supervisor.patiently(|| None, || self.let_replicas_catch_up(request));
        }
        if !self.ending.begin(request) {
            return Ok(());
        }
        let ended = self.end(None, manner);
        if ended.is_err() {
            log::warn!("Errors trying to shut down the server. Check the logs for more information.");
            self.go_on_after_all(self.ending.0.lock());
        }
        ended
    }

    /// Returns when all replicas have all, when it has lasted too long, or when the end has been taken back.
    fn let_replicas_catch_up(&self, request: u64) {
        let timeout_ms = i64::from(self.config.shutdown_timeout_seconds()) * 1000;
        if timeout_ms == 0 || self.lasting_replicas().is_empty() {
            return;
        }
        let until_ms = unix_ms().saturating_add(timeout_ms);
        {
            let mut state = self.ending.0.lock();
            if !state.waits(request) {
                return;
            }
            state.until_ms = until_ms;
            log::info!("Waiting for replicas before shutting down.");
            self.pause.begin(&self.attention, Purpose::Shutdown, PauseMode::Write, i64::MAX, unix_ms());
        }
        // Waits for something, unless the server is to end at once, or not at all.
        let wait_until = |is_so: &dyn Fn() -> bool| {
            let goes_on = || self.ending.waits(request) && self.busy.error().is_none();
            while !is_so() && unix_ms() < until_ms && goes_on() {
                std::thread::sleep(LOOK);
            }
        };
        // Whoever executed something when writes were held back has it in the journal when the
        // epoch has changed twice.
        let gate = &self.keyspace.gate;
        let begin = gate.epoch();
        wait_until(&|| gate.try_advance() >= begin + 2);
        let offset = self.keyspace.journal.end();
        let have_all = || self.lasting_replicas().iter().all(|replica| replica.has(offset));
        if !have_all() {
            self.ask_replicas_soon();
            wait_until(&have_all);
        }
        if self.ending.waits(request) {
            self.tell_who_lags(offset);
        }
    }

    /// Replicas that want changes, not a copy alone.
    fn lasting_replicas(&self) -> Vec<Arc<Replica>> {
        let mut replicas = self.replication.replicas();
        replicas.retain(|replica| !replica.options.copy_only && replica.stage() != ReplicaStage::Gone);
        replicas
    }

    fn tell_who_lags(&self, offset: u64) {
        let (replicas, now_ms) = (self.lasting_replicas(), unix_ms());
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

    /// The server does not end: what was held back goes on, and those who wanted it are told.
    fn go_on_after_all(&self, mut state: MutexGuard<'_, State>) {
        state.stage = Stage::Far;
        self.pause.end(&self.attention, &self.mailboxes, Purpose::Shutdown);
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        for waiter in waiters {
            blocking::serve_keyless(&waiter, 0, |reply| reply.error(CANNOT_END));
        }
    }

    /// Ends the process in the middle of a script that has written and does not end within
    /// `shutdown-timeout`: with the append-only file as it was before the script, and without a
    /// dump file, since a part of what a script does must not be saved. Called on the script's
    /// thread.
    pub fn end_without_script(&self, name: &str) -> ! {
        log::error!(
            "Script {name} has written and does not end within shutdown-timeout. The server ends without it, and saves no dump file."
        );
        if self.append_only.on.load(Relaxed) {
            self.finish_append_only();
        }
        self.remove_unfinished_saves();
        // The end was asked for: no failure to a supervisor.
        std::process::exit(0);
    }

    /// Ends the server: saves before, if `save` says so or, when it says nothing, if save points
    /// are configured. Afterwards no command is executed any more, since what it changed would be
    /// lost. It does not end if it cannot save, or while its append-only file has no base yet,
    /// unless `force` says so. `slot` is the calling thread's own, when it is an executing one.
    /// Replicas are not waited for.
    pub fn end(&self, slot: Option<usize>, manner: Manner) -> Result<(), CannotEnd> {
        let ended = self.supervisor.patiently(|| None, || self.try_to_end(slot, manner));
        match ended {
            Ok(()) => {
                // Before the loops stop: the process ends right after them.
                self.supervisor.stopping();
                self.request_shutdown();
            }
            Err(CannotEnd) => self.supervisor.status("Error trying to save the DB, can't exit"),
        }
        ended
    }

    /// What [`Engine::end`] does before the loops are stopped.
    fn try_to_end(&self, slot: Option<usize>, manner: Manner) -> Result<(), CannotEnd> {
        let Manner { save, force, .. } = manner;
        let progress = &self.persistence.progress;
        if slot.is_some() && self.busy.any_error().is_some() {
            // SHUTDOWN NOSAVE while a script has run for long: it is ended, whatever it has done.
            self.busy.kill_all();
            return Ok(());
        }
        self.finish_background_save();
        self.stop_copies();
        if self.append_only.awaits_base() {
            if !force {
                log::warn!("Writing initial AOF, can't exit.");
                return Err(CannotEnd);
            }
            log::warn!("Writing initial AOF. Exit anyway.");
        }
        if self.append_only.rewriting.load(Relaxed) {
            log::warn!("There is a child rewriting the AOF. Killing it!");
        }
        self.stop_rewrite();
        // Scripts that have not written end because of this, others have some time left; so the
        // world can be stopped.
        self.shutdown.store(true, Relaxed);
        let world = self.keyspace.gate.close(slot);
        // What is not all loaded must not replace what it is loaded from.
        let is_loading = progress.active.load(Relaxed);
        progress.stop.store(is_loading, Relaxed);
        if !is_loading && save.unwrap_or_else(|| !self.config.save_points().is_empty()) {
            log::info!("Saving the final RDB snapshot before exiting.");
            self.supervisor.status("Saving the final RDB snapshot");
            if self.save(&world).is_err() && !force {
                log::warn!("Error trying to save the DB, can't exit.");
                self.shutdown.store(false, Relaxed);
                return Err(CannotEnd);
            }
            self.attention.set(STOPPING, true);
        }
        if !is_loading && self.append_only.on.load(Relaxed) {
            self.attention.set(STOPPING, true);
            self.finish_append_only();
        }
        drop(world);
        Ok(())
    }
}

impl Call<'_, '_> {
    /// Ends the server: the client sees its connection close. If replicas have to catch up first it
    /// waits for that; if it does not come to the end, it is answered.
    pub fn end_server(&mut self, manner: Manner) -> CommandResult {
        let engine = self.engine;
        let is_under_way = engine.ending.0.lock().stage >= Stage::Waits;
        let has_to_wait = !manner.now
            && engine.busy.error().is_none()
            && engine.config.shutdown_timeout_seconds() > 0
            && !engine.lasting_replicas().is_empty();
        if !is_under_way && !has_to_wait {
            log::warn!("User requested shutdown...");
            let ended = engine.end(Some(self.keyspace.context.slot), manner);
            ended.map_err(|CannotEnd| CommandError::text(CANNOT_END))?;
            self.session.close();
            return Ok(());
        }
        if let Some(request) = engine.ending.wait(Stage::Far) {
            let this = engine.this.clone();
            let end = move || {
                if let Some(engine) = this.upgrade() {
                    // Who asked for it is told, too.
                    let _ = engine.end_patiently(request, manner);
                }
            };
            if let Err(error) = std::thread::Builder::new().name("shutdown".into()).spawn(end) {
                log::warn!("There is no thread to shut down the server: {error}");
                engine.go_on_after_all(engine.ending.0.lock());
                return Err(CommandError::text(CANNOT_END));
            }
        }
        self.wait(Wait { timeout: TimeoutReply::CannotEnd, ..Wait::new(Type::STRING, &[], 0) })?;
        if let Some(blocked) = &self.session.blocked {
            let mut state = engine.ending.0.lock();
            state.waiters.push(Arc::clone(&blocked.waiter));
            // It may have been taken back in between.
            if state.stage == Stage::Far {
                engine.go_on_after_all(state);
            }
        }
        Ok(())
    }
}
