// SPDX-License-Identifier: BSD-3-Clause
//! BGSAVE: a separate thread writes the dump file from a snapshot.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;

use braid_base::clock::unix_ms;
use braid_base::gate::World;
use braid_base::plural::plural;
use braid_executor::engine::Engine;
use braid_executor::processors::{self, Work};
use braid_executor::world;
use braid_persistence::Cut;
use braid_persistence::aof::backup::Phase;

use crate::saving::{self, Settings};

/// Memory for old forms of entries before writers wait: this much, or [`FORMS_SHARE`] of the memory
/// in use if that is more.
const FORMS_BYTES: usize = 64 << 20;
const FORMS_SHARE: usize = 20;
/// Seconds before a failed save by save points is retried.
const RETRY_AFTER_S: i64 = 5;

/// Why a background save did not start.
#[derive(Debug, thiserror::Error)]
pub enum NotBegun {
    #[error("one is already in progress")]
    InProgress,
    #[error("{0}")]
    NoThread(#[from] std::io::Error),
}

/// Current memory limit of old forms, in bytes.
pub fn old_forms_limit() -> usize {
    FORMS_BYTES.max(braid_base::alloc::used_bytes() / FORMS_SHARE)
}

/// Saves all databases as they are now to the dump file. The outcome is in the log and in
/// [`BackgroundSave`].
///
/// # Errors
/// If a save or a rewrite is in progress, or the thread cannot be started.
pub fn save_in_background(engine: &Engine, world: &World<'_>) -> Result<(), NotBegun> {
    let state = &engine.background_save;
    if is_busy(engine) {
        return Err(NotBegun::InProgress);
    }
    let (sender, receiver) = channel::<Cut>();
    let dirty = engine.keyspace.total(|counters| counters.dirty.get());
    let (weak, settings) = (engine.weak(), Settings::of(engine));
    let form = settings.form();
    // The thread comes first, because a cut must be walked.
    let thread = std::thread::Builder::new().name("bgsave".into()).spawn(move || {
        if let (Ok(cut), Some(engine)) = (receiver.recv(), weak.upgrade()) {
            processors::bind_thread(&engine, Work::Save);
            write_in_background(&engine, cut, &settings, dirty);
        }
    })?;
    let cut = braid_persistence::cut(&engine.keyspace, world, &state.forms, old_forms_limit(), form);
    let cut = cut.ok_or(NotBegun::InProgress)?;
    state.active.store(true, Relaxed);
    state.scheduled.store(false, Relaxed);
    state.began_s.store(unix_ms() / 1000, Relaxed);
    state.keys.store(cut.keys(), Relaxed);
    state.progress.begin();
    log::info!("Background saving started by a thread");
    *state.thread.lock() = Some(thread);
    // The thread is waiting for it.
    let _ = sender.send(cut);
    Ok(())
}

fn write_in_background(engine: &Engine, cut: Cut, settings: &Settings, dirty: u64) {
    let state = &engine.background_save;
    let notes = settings.notes();
    let saved =
        braid_persistence::write_snapshot(&engine.keyspace, cut, &settings.options(&notes), &state.progress);
    let now_s = unix_ms() / 1000;
    state.last_seconds.store(now_s - state.began_s.load(Relaxed), Relaxed);
    state.last_copied_bytes.store(state.copied_bytes(), Relaxed);
    match saved {
        Ok(saved) => {
            log::info!(
                "DB saved on disk: {}, {}, {:.3} seconds",
                plural(saved.keys, "key"),
                plural(saved.bytes, "byte"),
                saved.duration.as_secs_f64()
            );
            log::info!("Background saving terminated with success");
            engine.persistence.last_save_s.store(now_s, Relaxed);
            engine.persistence.saves.fetch_add(1, Relaxed);
            engine.keyspace.dirty_baseline.store(dirty, Relaxed);
            saving::note_save_outcome(engine, false);
        }
        Err(_) if state.progress.is_stopped() => {
            log::warn!("Background saving terminated by signal: it was cancelled");
        }
        Err(error) => {
            log::warn!("Background saving error: {error}");
            saving::note_save_outcome(engine, true);
        }
    }
    state.active.store(false, Relaxed);
}

/// True while a snapshot is being taken for a dump file, for replicas, or for a backup.
pub fn is_saving(engine: &Engine) -> bool {
    engine.background_save.active.load(Relaxed)
        || engine.replication.full_sync_active.load(Relaxed)
        || engine.persistence.backup.phase() == Phase::Snapshotting
}

/// [`is_saving`], or a rewrite of the append-only file is running: the next snapshot must wait.
pub(crate) fn is_busy(engine: &Engine) -> bool {
    is_saving(engine) || engine.append_only.rewriting.load(Relaxed)
}

/// After FLUSHALL: cancels a save of the removed keys, and with save points writes an empty
/// dump file, as users of FLUSHALL expect.
pub fn save_after_flush(engine: &Engine, world: &World<'_>) {
    engine.background_save.stop();
    // A FLUSHALL read from the append-only file is an old one.
    let is_loading = engine.persistence.progress.active.load(Relaxed);
    if !is_loading && !engine.config.save_points().is_empty() {
        // The reason is in the log.
        let _ = saving::save(engine, world);
    }
}

/// Cancels a background save and waits for its end. The caller must not have closed the gate.
pub fn finish_background_save(engine: &Engine) {
    engine.background_save.stop();
    let thread = engine.background_save.thread.lock().take();
    if let Some(thread) = thread {
        let _ = thread.join();
    }
}

/// Starts a save that is scheduled or due by a save point. Called by the first loop's cron,
/// outside of the gate.
pub fn save_if_due(engine: &Engine, now_ms: i64) {
    let state = &engine.background_save;
    if is_busy(engine) || engine.persistence.progress.active.load(Relaxed) {
        return;
    }
    let now_s = now_ms / 1000;
    let due = || {
        let points = engine.config.save_points();
        if points.is_empty() {
            return false;
        }
        let changes = engine.keyspace.unsaved_changes();
        let since = now_s - engine.persistence.last_save_s.load(Relaxed);
        let rests = state.last_failed.load(Relaxed) && now_s - state.began_s.load(Relaxed) <= RETRY_AFTER_S;
        let point = points
            .iter()
            .find(|point| changes >= u64::from(point.changes.unsigned_abs()) && since > point.seconds);
        match point.filter(|_| !rests) {
            Some(point) => {
                log::info!("{} changes in {} seconds. Saving...", point.changes, point.seconds);
                true
            }
            None => false,
        }
    };
    if state.scheduled.load(Relaxed) || due() {
        let world = world::stop(engine);
        if let Err(error) = save_in_background(engine, &world) {
            log::warn!("Can't save in background: {error}");
            state.began_s.store(now_s, Relaxed);
            state.last_failed.store(true, Relaxed);
        }
    }
}
