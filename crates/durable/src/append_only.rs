// SPDX-License-Identifier: BSD-3-Clause
//! The server's append-only file: switching it on and off, rewriting it, handling write errors,
//! and its counters for INFO.
//!
//! While it is on, changes are journalled (`keyspace/journal.rs`) and a thread writes the journal
//! to disk ([`braid_persistence::aof::Appender`]). A rewrite writes a new base from a snapshot,
//! like BGSAVE. At the snapshot's cut the thread switches to a new increment, so base and
//! increment fit together exactly. The manifest names the new increment before the cut, and the
//! new base once it is on disk: whenever the server stops, the files named by the manifest are
//! the dataset.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use braid_base::clock::unix_ms;
use braid_base::gate::World;
use braid_clients::attention::{APPEND_ONLY_FAILED, JOURNAL_FULL};
use braid_config::{AppendFsync, Config};
use braid_executor::engine::Engine;
use braid_executor::journal_uses::{self, FOR_FILE};
use braid_executor::processors::{self, Work};
use braid_executor::state::sync_writes::WAITS_FOR_DISK;
use braid_executor::world;
use braid_executor::{journal_room, threads};
use braid_journal::Reader;
use braid_persistence::SaveError;
use braid_persistence::aof::{Folder, FolderError, Manifest, Policy};
use braid_persistence::files::File;

use crate::aof_load::{AofLoaded, append_only_folder};
use crate::background_save::{self, old_forms_limit};
use crate::saving::Settings;

/// Consecutive failed rewrites before the next one is delayed.
const FAILURES_BEFORE_REST: i64 = 3;
/// Longest such delay, in minutes.
const REST_MINUTES_MAX: i64 = 60;
/// Longest delay while writes are refused until a rewrite succeeds, in seconds.
const REST_WHEN_NEEDED_S: i64 = 30;

/// Result of requesting a rewrite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rewriting {
    Begun,
    /// Starts when the current save or rewrite ends.
    Scheduled,
}

/// Why no base was written, for the append-only file or a backup.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BaseError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Save(#[from] SaveError),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("another snapshot is under way")]
    Busy,
    /// By whoever says why.
    #[error("it was stopped")]
    Stopped,
}

/// Starts writing changes to the append-only file after loading it. If it is new, a base is
/// written from the dataset first. The world is stopped.
pub(crate) fn begin_append_only(
    engine: &Engine,
    world: &World<'_>,
    loaded: &AofLoaded,
) -> Result<(), String> {
    let (folder, mut manifest) = (&loaded.folder, loaded.manifest.clone());
    let text = |error: &dyn std::error::Error| error.to_string();
    folder.create().map_err(|error| text(&error))?;
    let mut changed = false;
    if manifest.base.is_none() && manifest.incrs.is_empty() {
        let settings = Settings::for_base(engine, folder, &mut manifest);
        let notes = settings.notes();
        braid_persistence::save(&engine.keyspace, world, &settings.options(&notes))
            .map_err(|error| text(&error))?;
        log::info!("Creating AOF base file {} on server start", settings.name());
        changed = true;
    }
    let last = manifest.incrs.last().cloned();
    let info = last.unwrap_or_else(|| {
        changed = true;
        let info = manifest.begin_incr(folder.name());
        log::info!("Creating AOF incr file {} on server start", info.name.display());
        info
    });
    let file = folder.open_incr(&info.name).map_err(|error| text(&error))?;
    if changed {
        folder.persist(&manifest).map_err(|error| text(&error))?;
    }
    remove_history(&engine.config, folder, &mut manifest);
    let size = folder.data_bytes(&manifest);
    let state = &engine.append_only;
    state.appender.set_size(size);
    state.base_size.store(size, Relaxed);
    state.state.lock().manifest = manifest;
    engine.keyspace.journal.forget_database();
    start_writer(engine, engine.keyspace.journal.reader(), file).map_err(|error| text(&error))?;
    state.on.store(true, Relaxed);
    Ok(())
}

/// Starts the writer thread and the journalling of changes. The world is stopped.
fn start_writer(engine: &Engine, reader: Reader, file: File) -> io::Result<()> {
    let appender = Arc::clone(&engine.append_only.appender);
    appender.begin(&reader, engine.replication.history().dataset());
    let writer = threads::spawn(engine, "aof", move |engine| {
        processors::bind_thread(engine, Work::Background);
        appender.run(&engine.keyspace.journal, reader, file);
    })?;
    engine.append_only.state.lock().writer = Some(writer);
    journal_uses::set_journal_use(engine, FOR_FILE, true);
    configure_append_only(engine);
    Ok(())
}

/// Stops the writer thread after it has written everything. Nothing may be journalled any more.
fn end_writer(engine: &Engine) {
    let mut state = engine.append_only.state.lock();
    if let Some(writer) = state.writer.take() {
        engine.append_only.appender.end(&engine.keyspace.journal);
        state.stopping = Some(writer);
    }
}

/// Applies the settings for syncing and annotations.
pub fn configure_append_only(engine: &Engine) {
    let (state, config) = (&engine.append_only, &engine.config);
    let policy = match config.appendfsync() {
        AppendFsync::Always => Policy::Always,
        AppendFsync::Everysec => Policy::EverySecond,
        AppendFsync::No => Policy::Never,
    };
    state.appender.set_policy(&engine.keyspace.journal, policy);
    state.appender.set_timestamps(config.aof_timestamp_enabled());
    let is_written = engine.replication.journal_uses.load(Relaxed) & FOR_FILE != 0;
    let waits = is_written && policy == Policy::Always;
    engine.sync_writes.set_reason(WAITS_FOR_DISK, waits);
    engine.append_only.ring_loops(&engine.clients.mailboxes);
}

/// CONFIG SET appendonly: starts the file by a rewrite, or stops it.
///
/// # Errors
/// If the folder cannot be created, or its manifest cannot be read. A rewrite that fails is
/// repeated and no error.
pub fn switch_append_only(engine: &Engine) -> Result<(), String> {
    let state = &engine.append_only;
    let on = engine.config.appendonly();
    if on == state.on.load(Relaxed) {
        return Ok(());
    }
    if on {
        let folder = append_only_folder(&engine.config);
        let manifest = folder.load_manifest().map_err(|error| cannot_switch(&error))?;
        folder.create().map_err(|error| cannot_switch(&error))?;
        {
            let mut files = state.state.lock();
            state.awaits_base.store(true, SeqCst);
            files.manifest = manifest;
        }
        state.on.store(true, Relaxed);
        state.scheduled.store(true, Relaxed);
        if !background_save::is_saving(engine) {
            // The reason is in the log; the rewrite will be retried.
            let _ = rewrite_append_only(engine, false);
        }
    } else {
        end_append_only(engine);
    }
    Ok(())
}

/// Stops the append-only file if it is on: by CONFIG SET, or because another dataset replaces
/// this one.
pub fn end_append_only(engine: &Engine) {
    let state = &engine.append_only;
    if state.on.swap(false, Relaxed) {
        log::info!("The append-only file is switched off");
        engine.sync_writes.set_reason(WAITS_FOR_DISK, false);
        journal_uses::set_journal_use(engine, FOR_FILE, false);
        if state.rewriting.load(Relaxed) {
            // Tools look for these words.
            log::info!("Killing AOF child: the rewrite is stopped");
        }
        {
            let _files = state.state.lock();
            state.scheduled.store(false, Relaxed);
            state.progress.stop();
        }
        end_writer(engine);
        engine.append_only.ring_loops(&engine.clients.mailboxes);
        engine.durability.serve(engine);
        engine.attention.set(APPEND_ONLY_FAILED | JOURNAL_FULL, false);
    }
}

/// Rewrites the append-only file in the background. The outcome is in the log and in
/// [`AppendOnly`]. `in_transaction`: start after the transaction. `None` if a rewrite is
/// already running.
pub fn rewrite_append_only(engine: &Engine, in_transaction: bool) -> Option<Rewriting> {
    let state = &engine.append_only;
    {
        // Serializes with switching the file off, which stops a rewrite it finds.
        let _files = state.state.lock();
        if state.rewriting.load(SeqCst) {
            // A stopped rewrite ends soon, so another one is scheduled.
            return state.progress.is_stopped().then(|| {
                state.scheduled.store(true, SeqCst);
                Rewriting::Scheduled
            });
        }
        if in_transaction || background_save::is_saving(engine) {
            state.scheduled.store(true, SeqCst);
            return Some(Rewriting::Scheduled);
        }
        state.progress.begin();
        state.rewriting.store(true, SeqCst);
        state.scheduled.store(false, SeqCst);
    }
    state.began_s.store(unix_ms() / 1000, Relaxed);
    state.rewrites.fetch_add(1, Relaxed);
    let thread = threads::spawn(engine, "bgrewriteaof", |engine| {
        processors::bind_thread(engine, Work::Rewrite);
        rewrite_in_background(engine);
    });
    match thread {
        Ok(_) => log::info!("Background append only file rewriting started by a thread"),
        Err(error) => {
            log::warn!("Can't rewrite append only file in background: {error}");
            end_rewrite(engine, true);
        }
    }
    Some(Rewriting::Begun)
}

fn rewrite_in_background(engine: &Engine) {
    let outcome = write_base(engine);
    match &outcome {
        Ok(bytes) => {
            log::info!("Background AOF rewrite terminated with success: {bytes} bytes");
        }
        Err(_) if engine.append_only.progress.is_stopped() => {
            log::warn!("Background AOF rewrite terminated by signal: it was cancelled");
        }
        Err(error) => log::warn!("Background AOF rewrite terminated with error: {error}"),
    }
    engine.append_only.last_copied_bytes.store(engine.background_save.copied_bytes(), Relaxed);
    if matches!(outcome, Err(BaseError::Busy)) {
        // A BGSAVE started first: the rewrite waits for it, which is not a failure.
        engine.append_only.scheduled.store(true, SeqCst);
        engine.append_only.rewriting.store(false, SeqCst);
        return;
    }
    end_rewrite(engine, outcome.is_err() && !engine.append_only.progress.is_stopped());
}

fn end_rewrite(engine: &Engine, failed: bool) {
    let state = &engine.append_only;
    state.last_seconds.store(unix_ms() / 1000 - state.began_s.load(Relaxed), Relaxed);
    state.last_failed.store(failed, Relaxed);
    if failed {
        state.failures.fetch_add(1, Relaxed);
        // Without a base the increment is useless, so the rewrite is retried.
        state.scheduled.store(state.awaits_base.load(SeqCst), SeqCst);
    } else {
        state.failures.store(0, Relaxed);
    }
    state.appender.pause_syncs(false);
    state.rewriting.store(false, SeqCst);
}

/// Runs a rewrite and returns the size of all files afterwards.
fn write_base(engine: &Engine) -> Result<u64, BaseError> {
    let state = &engine.append_only;
    let folder = append_only_folder(&engine.config);
    folder.create()?;
    let on = state.on.load(Relaxed);
    let (mut manifest, awaits_base) = {
        let files = state.state.lock();
        (files.manifest.clone(), state.awaits_base.load(SeqCst))
    };
    if !on && manifest.has_no_data() {
        // Files left by an earlier run are replaced, too.
        manifest = folder.load_manifest()?;
    }
    let mut increment = None;
    if on && awaits_base {
        // The increment of a failed first base is useless.
        journal_uses::set_journal_use(engine, FOR_FILE, false);
        configure_append_only(engine);
        end_writer(engine);
        engine.append_only.wait_for_end_of_writer();
        increment = Some(folder.create_temporary_incr()?);
    } else if on {
        let info = manifest.begin_incr(folder.name());
        increment = Some(folder.open_incr(&info.name)?);
        folder.persist(&manifest)?;
        log::info!("Creating AOF incr file {} on background rewrite", info.name.display());
        state.state.lock().manifest = manifest.clone();
    }
    let mut settings = Settings::for_base(engine, &folder, &mut manifest);
    let (cut, cut_offset) = {
        let world = world::stop(engine);
        if state.progress.is_stopped() {
            return Err(BaseError::Stopped);
        }
        let forms = &engine.background_save.forms;
        let cut = braid_persistence::cut(&engine.keyspace, &world, forms, old_forms_limit(), settings.form());
        if let Some(file) = increment {
            let journal = &engine.keyspace.journal;
            let offset = begin_increment(engine, &file)?;
            if awaits_base {
                start_writer(engine, journal.reader(), file)?;
            } else {
                state.appender.switch(journal, offset, file);
            }
        }
        settings.read_functions(engine);
        (cut.ok_or(BaseError::Busy)?, engine.keyspace.journal.end())
    };
    state.appender.pause_syncs(engine.config.no_appendfsync_on_rewrite());
    let notes = settings.notes();
    let options = settings.options(&notes);
    braid_persistence::write_snapshot(&engine.keyspace, cut, &options, &state.progress)?;
    {
        // Serializes with switching the file off and on.
        let mut files = state.state.lock();
        if state.progress.is_stopped() {
            return Err(BaseError::Stopped);
        }
        if on && awaits_base {
            let info = manifest.begin_incr(folder.name());
            folder.name_temporary_incr(&info.name)?;
        }
        manifest.retire_incrs(usize::from(on));
        folder.persist(&manifest)?;
        files.manifest = manifest.clone();
        state.awaits_base.store(false, SeqCst);
    }
    state.appender.forgive(cut_offset);
    remove_history(&engine.config, &folder, &mut manifest);
    {
        let mut files = state.state.lock();
        if !state.progress.is_stopped() {
            files.manifest = manifest.clone();
        }
    }
    let size = folder.data_bytes(&manifest);
    state.appender.set_size(size);
    state.base_size.store(size, Relaxed);
    Ok(size)
}

/// Starts a new increment by selecting a database, and returns its journal offset. The world is
/// stopped.
pub(crate) fn begin_increment(engine: &Engine, mut file: &File) -> io::Result<u64> {
    let (journal, link) = (&engine.keyspace.journal, &engine.replication.link);
    if !link.is_replica() {
        return Ok(journal.forget_database());
    }
    // The journal selected the database long ago.
    let mut select = Vec::new();
    let db = link.db.load(Relaxed).to_string();
    braid_resp::request::push(&mut select, &[b"SELECT", db.as_bytes()]);
    file.write_all(&select)?;
    Ok(journal.end())
}

/// Starts a rewrite that is due, and makes writers wait if the disk is behind. Called by the
/// first loop's cron, outside of the gate.
pub fn append_only_cron(engine: &Engine, now_ms: i64) {
    let state = &engine.append_only;
    let is_on = state.on.load(Relaxed);
    if !is_on && !state.scheduled.load(Relaxed) {
        return;
    }
    journal_room::watch_journal(engine, now_ms);
    if background_save::is_busy(engine) || engine.persistence.progress.active.load(Relaxed) {
        return;
    }
    let failures = state.failures.load(Relaxed);
    let needed = || is_on && state.appender.failure().is_some_and(|failure| failure.needs_rewrite);
    if failures > 0 {
        let rest_s = if needed() {
            // Writes are refused until it succeeds.
            (1 << failures.min(6)).min(REST_WHEN_NEEDED_S)
        } else if failures >= FAILURES_BEFORE_REST {
            60 * (1 << (failures - FAILURES_BEFORE_REST).min(6)).min(REST_MINUTES_MAX)
        } else {
            0
        };
        if now_ms / 1000 - state.began_s.load(Relaxed) < rest_s {
            return;
        }
    }
    if state.scheduled.load(Relaxed) || (is_on && state.has_grown(&engine.config)) || needed() {
        rewrite_append_only(engine, false);
    }
}

/// Waits until all changes so far are on disk, if replies must not be sent before. False if
/// they cannot be written: the replies of clients that have written are uncertain then. No lock
/// may be held, and the thread is outside of the gate.
#[inline]
pub fn wait_until_durable(engine: &Engine) -> bool {
    if !engine.sync_writes.waits_for_disk() {
        return true;
    }
    let end = engine.keyspace.journal.end();
    if let Some(active) = &engine.active {
        active.ask_for_disk();
    }
    let is_written = engine.append_only.appender.wait_until_synced(end);
    is_written && engine.active.as_ref().is_none_or(|active| active.wait_until_on_disk(end))
}

/// Whether the journal is on disk up to `offset`, like [`wait_until_durable`]; `None` where
/// that would wait.
pub fn progress_on_disk(engine: &Engine, offset: u64) -> Option<bool> {
    if !engine.sync_writes.waits_for_disk() {
        return Some(true);
    }
    match (engine.append_only.appender.progress(offset), &engine.active) {
        (Some(true), Some(active)) => active.progress_on_disk(offset),
        (progress, _) => progress,
    }
}

/// Rings a loop's bell once when [`progress_on_disk`] may have changed. Earlier changes
/// are not reported.
pub fn ask_for_disk(engine: &Engine, slot: usize, offset: u64) {
    let mut loops = engine.append_only.loops.lock();
    if !loops.contains(&slot) {
        loops.push(slot);
    }
    drop(loops);
    engine.append_only.appender.ask(offset);
    if let Some(active) = &engine.active {
        active.ask_for_disk();
    }
}

/// Writes everything at shutdown. No command may execute any more.
pub fn finish_append_only(engine: &Engine) {
    if engine.append_only.on.load(Relaxed) {
        log::info!("Calling fsync() on the AOF file.");
        end_writer(engine);
    }
    engine.append_only.wait_for_end_of_writer();
}

fn cannot_switch(error: &dyn std::error::Error) -> String {
    log::warn!("{error}");
    "Unable to turn on AOF. Check server logs.".into()
}

/// Removes files that a rewrite has replaced, unless they are to be kept. Failures are logged.
fn remove_history(config: &Config, folder: &Folder, manifest: &mut Manifest) {
    if !config.aof_disable_auto_gc()
        && let Err(error) = folder.remove_history(manifest)
    {
        log::warn!("{error}");
    }
}
