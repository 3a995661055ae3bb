// SPDX-License-Identifier: BSD-3-Clause
//! The append-only file as the server has it: switched on and off, rewritten, in trouble; and what
//! INFO tells of it.
//!
//! While it is on, changes are journalled (`keyspace/journal.rs`) and a thread takes the journal to
//! disk ([`braid_persistence::Appender`]). A rewrite writes a new base from a snapshot, as a dump
//! file is saved in the background; at the snapshot's cut the thread goes on in a new increment, so
//! that base and increment fit together exactly. The manifest names the new increment before the
//! cut and the new base after it is on disk: whenever the server ends, what the manifest names is
//! the dataset.

pub mod state;

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use braid_base::clock::unix_ms;
use braid_base::gate::World;
use braid_config::AppendFsync;
use braid_journal::Reader;
use braid_keyspace::Context;
use braid_persistence::SaveError;
use braid_persistence::aof::{Folder, FolderError, Manifest, Policy};
use braid_persistence::files::File;

use crate::aof_load::AofLoaded;
use crate::background_save::old_forms_limit;
use crate::engine::Engine;
use crate::replication::FOR_FILE;
use crate::saving::Settings;
use braid_clients::attention::{APPEND_ONLY_FAILED, JOURNAL_FULL};
pub use state::AppendOnly;

/// What may be journalled and not yet written before those who write wait, in bytes.
const JOURNAL_BYTES: u64 = 64 << 20;
/// Under `everysec` what has changed is on disk after so long, or those who write wait.
const SYNC_LAG_MS: i64 = 2000;
/// After so many rewrites that failed in a row the next one waits a while.
const FAILURES_BEFORE_REST: i64 = 3;
/// The longest such wait, in minutes.
const REST_MINUTES_MAX: i64 = 60;
/// The longest one while writes are refused until a rewrite succeeds, in seconds.
const REST_WHEN_NEEDED_S: i64 = 30;

/// What became of the wish to rewrite the append-only file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rewriting {
    Begun,
    /// As soon as what is under way is over.
    Scheduled,
}

/// Why a rewrite has failed.
#[derive(Debug, thiserror::Error)]
enum RewriteError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Save(#[from] SaveError),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("another snapshot is under way")]
    Busy,
    #[error("the append-only file was switched off")]
    Stopped,
}

impl Engine {
    /// Begins to write changes to the append-only file, after what it has was loaded: the dataset
    /// is what the manifest names. With nothing there yet a base of what the dataset is now is
    /// written first. The world is stopped.
    pub(crate) fn begin_append_only(&self, world: &World<'_>, loaded: &AofLoaded) -> Result<(), String> {
        let (folder, mut manifest) = (&loaded.folder, loaded.manifest.clone());
        let text = |error: &dyn std::error::Error| error.to_string();
        folder.create().map_err(|error| text(&error))?;
        let mut changed = false;
        if manifest.base.is_none() && manifest.incrs.is_empty() {
            let settings = Settings::for_base(self, folder, &mut manifest);
            let notes = settings.notes();
            braid_persistence::save(&self.keyspace, world, &settings.options(&notes))
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
        self.remove_history(folder, &mut manifest);
        let size = folder.data_bytes(&manifest);
        let state = &self.append_only;
        state.appender.set_size(size);
        state.base_size.store(size, Relaxed);
        state.state.lock().manifest = manifest;
        self.keyspace.journal.forget_database();
        self.start_writer(self.keyspace.journal.reader(), file).map_err(|error| text(&error))?;
        state.on.store(true, Relaxed);
        Ok(())
    }

    /// Starts the thread that writes, and has changes journalled from now on. The world is stopped.
    fn start_writer(&self, reader: Reader, file: File) -> io::Result<()> {
        let (engine, appender) = (self.this.clone(), Arc::clone(&self.append_only.appender));
        appender.begin(&reader);
        let writer = std::thread::Builder::new().name("aof".into()).spawn(move || {
            if let Some(engine) = engine.upgrade() {
                appender.run(&engine.keyspace.journal, reader, file);
            }
        })?;
        self.append_only.state.lock().writer = Some(writer);
        self.set_journal_use(FOR_FILE, true);
        self.configure_append_only();
        Ok(())
    }

    /// Has the thread that writes end, after it has written everything. Nothing may be journalled any more.
    fn end_writer(&self) {
        let mut state = self.append_only.state.lock();
        if let Some(writer) = state.writer.take() {
            self.append_only.appender.end(&self.keyspace.journal);
            state.stopping = Some(writer);
        }
    }

    /// Waits until a thread that was told to end has done so.
    fn wait_for_end_of_writer(&self) {
        let writer = self.append_only.state.lock().stopping.take();
        if let Some(writer) = writer {
            let _ = writer.join();
        }
    }

    /// Follows the configuration: when changes are forced to disk, and what else is written.
    pub(crate) fn configure_append_only(&self) {
        let (state, config) = (&self.append_only, &self.config);
        let policy = match config.appendfsync() {
            AppendFsync::Always => Policy::Always,
            AppendFsync::Everysec => Policy::EverySecond,
            AppendFsync::No => Policy::Never,
        };
        state.appender.set_policy(&self.keyspace.journal, policy);
        state.appender.set_timestamps(config.aof_timestamp_enabled());
        let is_written = self.replication.journal_uses.load(Relaxed) & FOR_FILE != 0;
        state.waits.store(is_written && policy == Policy::Always, Relaxed);
        self.ring_for_disk();
    }

    /// CONFIG SET appendonly: switches it on, which begins with a rewrite, or off.
    pub(crate) fn switch_append_only(&self) -> Result<(), String> {
        let state = &self.append_only;
        let on = self.config.appendonly();
        if on == state.on.load(Relaxed) {
            return Ok(());
        }
        if on {
            let folder = self.append_only_folder();
            let manifest = folder.load_manifest().map_err(|error| self.cannot_switch(&error))?;
            folder.create().map_err(|error| self.cannot_switch(&error))?;
            {
                let mut state = state.state.lock();
                (state.manifest, state.awaits_base) = (manifest, true);
            }
            state.on.store(true, Relaxed);
            state.scheduled.store(true, Relaxed);
            if !self.is_saving() {
                // Why it could not begin is in the log; it will be tried again.
                let _ = self.rewrite_append_only(false);
            }
        } else {
            self.end_append_only();
        }
        Ok(())
    }

    /// Switches the append-only file off, if it is on: CONFIG SET, or a dataset that takes the place
    /// of what was written.
    pub(crate) fn end_append_only(&self) {
        let state = &self.append_only;
        if state.on.swap(false, Relaxed) {
            log::info!("The append-only file is switched off");
            state.waits.store(false, Relaxed);
            self.set_journal_use(FOR_FILE, false);
            if state.rewriting.load(Relaxed) {
                // Tools look for these words.
                log::info!("Killing AOF child: the rewrite is stopped");
            }
            {
                let _files = state.state.lock();
                state.scheduled.store(false, Relaxed);
                state.progress.stop();
            }
            self.end_writer();
            self.ring_for_disk();
            self.durability.serve(self);
            self.attention.set(APPEND_ONLY_FAILED | JOURNAL_FULL, false);
        }
    }

    fn cannot_switch(&self, error: &dyn std::error::Error) -> String {
        log::warn!("{error}");
        "Unable to turn on AOF. Check server logs.".into()
    }

    /// Writes the append-only file anew in the background. The outcome is in the log and in
    /// [`AppendOnly`]. `in_transaction`: not before it is over. Nothing if a rewrite is under way
    /// that goes on.
    pub fn rewrite_append_only(&self, in_transaction: bool) -> Option<Rewriting> {
        let state = &self.append_only;
        {
            // Switching the file off comes before all of this, or finds a rewrite that it can stop.
            let _files = state.state.lock();
            if state.rewriting.load(SeqCst) {
                // One that was told to stop is over soon.
                return state.progress.is_stopped().then(|| {
                    state.scheduled.store(true, SeqCst);
                    Rewriting::Scheduled
                });
            }
            if in_transaction || self.is_saving() {
                state.scheduled.store(true, SeqCst);
                return Some(Rewriting::Scheduled);
            }
            state.progress.begin();
            state.rewriting.store(true, SeqCst);
            state.scheduled.store(false, SeqCst);
        }
        state.began_s.store(unix_ms() / 1000, Relaxed);
        state.rewrites.fetch_add(1, Relaxed);
        let engine = self.this.clone();
        let thread = std::thread::Builder::new().name("bgrewriteaof".into()).spawn(move || {
            if let Some(engine) = engine.upgrade() {
                engine.rewrite_in_background();
            }
        });
        match thread {
            Ok(_) => log::info!("Background append only file rewriting started by a thread"),
            Err(error) => {
                log::warn!("Can't rewrite append only file in background: {error}");
                self.end_rewrite(true);
            }
        }
        Some(Rewriting::Begun)
    }

    fn rewrite_in_background(&self) {
        let outcome = self.write_base();
        match &outcome {
            Ok(bytes) => {
                log::info!("Background AOF rewrite terminated with success: {bytes} bytes");
            }
            Err(_) if self.append_only.progress.is_stopped() => {
                log::warn!("Background AOF rewrite terminated by signal: it was told to stop");
            }
            Err(error) => log::warn!("Background AOF rewrite terminated with error: {error}"),
        }
        self.append_only.last_copied_bytes.store(self.background_save.copied_bytes(), Relaxed);
        if matches!(outcome, Err(RewriteError::Busy)) {
            // A save in the background has come first: this is no failure, it only has to wait.
            self.append_only.scheduled.store(true, SeqCst);
            self.append_only.rewriting.store(false, SeqCst);
            return;
        }
        self.end_rewrite(outcome.is_err() && !self.append_only.progress.is_stopped());
    }

    fn end_rewrite(&self, failed: bool) {
        let state = &self.append_only;
        state.last_seconds.store(unix_ms() / 1000 - state.began_s.load(Relaxed), Relaxed);
        state.last_failed.store(failed, Relaxed);
        if failed {
            state.failures.fetch_add(1, Relaxed);
            // Without a base what is gathered is worth nothing: it is tried again.
            state.scheduled.store(state.state.lock().awaits_base, SeqCst);
        } else {
            state.failures.store(0, Relaxed);
        }
        state.appender.pause_syncs(false);
        state.rewriting.store(false, SeqCst);
    }

    /// A rewrite, from beginning to end. The size of all files afterwards.
    fn write_base(&self) -> Result<u64, RewriteError> {
        let state = &self.append_only;
        let folder = self.append_only_folder();
        folder.create()?;
        let on = state.on.load(Relaxed);
        let (mut manifest, awaits_base) = {
            let state = state.state.lock();
            (state.manifest.clone(), state.awaits_base)
        };
        if !on && manifest.has_no_data() {
            // Files of an earlier life are replaced, too.
            manifest = folder.load_manifest()?;
        }
        let mut increment = None;
        if on && awaits_base {
            // What was gathered for a base that has failed is of no use.
            self.set_journal_use(FOR_FILE, false);
            self.configure_append_only();
            self.end_writer();
            self.wait_for_end_of_writer();
            increment = Some(folder.create_temporary_incr()?);
        } else if on {
            let info = manifest.begin_incr(folder.name());
            increment = Some(folder.open_incr(&info.name)?);
            folder.persist(&manifest)?;
            log::info!("Creating AOF incr file {} on background rewrite", info.name.display());
            state.state.lock().manifest = manifest.clone();
        }
        let mut settings = Settings::for_base(self, &folder, &mut manifest);
        let (cut, cut_offset) = {
            let world = self.keyspace.gate.close(None);
            if state.progress.is_stopped() {
                return Err(RewriteError::Stopped);
            }
            let forms = &self.background_save.forms;
            let cut =
                braid_persistence::cut(&self.keyspace, &world, forms, old_forms_limit(), settings.form());
            if let Some(file) = increment {
                let journal = &self.keyspace.journal;
                let offset = self.begin_increment(&file)?;
                if awaits_base {
                    self.start_writer(journal.reader(), file)?;
                } else {
                    state.appender.switch(journal, offset, file);
                }
            }
            settings.read_functions(self);
            (cut.ok_or(RewriteError::Busy)?, self.keyspace.journal.end())
        };
        state.appender.pause_syncs(self.config.no_appendfsync_on_rewrite());
        let notes = settings.notes();
        let options = settings.options(&notes);
        braid_persistence::write_snapshot(&self.keyspace, cut, &options, &state.progress)?;
        {
            // Whoever switches the file off, and perhaps on again, does so before or after this.
            let mut files = state.state.lock();
            if state.progress.is_stopped() {
                return Err(RewriteError::Stopped);
            }
            if on && awaits_base {
                let info = manifest.begin_incr(folder.name());
                folder.name_temporary_incr(&info.name)?;
            }
            manifest.retire_incrs(usize::from(on));
            folder.persist(&manifest)?;
            files.manifest = manifest.clone();
            files.awaits_base = false;
        }
        state.appender.forgive(cut_offset);
        self.remove_history(&folder, &mut manifest);
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

    /// Has a new increment begin with the choice of a database; where it begins in the journal. The
    /// world is stopped.
    fn begin_increment(&self, mut file: &File) -> io::Result<u64> {
        let (journal, link) = (&self.keyspace.journal, &self.replication.link);
        if !link.is_replica() {
            return Ok(journal.forget_database());
        }
        // The stream has chosen it some time ago.
        let mut select = Vec::new();
        let db = link.db.load(Relaxed).to_string();
        braid_resp::request::push(&mut select, &[b"SELECT", db.as_bytes()]);
        file.write_all(&select)?;
        Ok(journal.end())
    }

    /// Ends a rewrite without a result, and waits until it has ended; not for long, since it may
    /// wait for the caller itself. The caller must not have closed the gate.
    pub(crate) fn stop_rewrite(&self) {
        let state = &self.append_only;
        let mut rounds = 0;
        while state.rewriting.load(Relaxed) && rounds < 100 {
            state.progress.stop();
            std::thread::sleep(std::time::Duration::from_millis(10));
            rounds += 1;
        }
    }

    /// Removes what a rewrite has replaced, unless it is to be kept. Why that could not be done is
    /// in the log.
    fn remove_history(&self, folder: &Folder, manifest: &mut Manifest) {
        if !self.config.aof_disable_auto_gc()
            && let Err(error) = folder.remove_history(manifest)
        {
            log::warn!("{error}");
        }
    }

    /// Begins a rewrite that is due; has those who write wait if the disk is behind. Called by the
    /// first loop's cron, outside of the gate.
    pub fn append_only_cron(&self, now_ms: i64) {
        let state = &self.append_only;
        let is_on = state.on.load(Relaxed);
        if !is_on && !state.scheduled.load(Relaxed) {
            return;
        }
        self.watch_journal(now_ms);
        let is_busy = state.rewriting.load(Relaxed) || self.is_saving();
        if is_busy || self.persistence.progress.active.load(Relaxed) {
            return;
        }
        let failures = state.failures.load(Relaxed);
        let needed = || is_on && state.appender.failure().is_some_and(|failure| failure.needs_rewrite);
        if failures > 0 {
            let rest_s = if needed() {
                // Nobody can write until it succeeds.
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
        if state.scheduled.load(Relaxed) || (is_on && self.has_grown()) || needed() {
            self.rewrite_append_only(false);
        }
    }

    /// Whether the files have grown so much since the last rewrite that another one is due.
    fn has_grown(&self) -> bool {
        let percentage = u64::from(self.config.auto_aof_rewrite_percentage());
        let size = self.append_only.appender.size();
        if percentage == 0 || size <= self.config.auto_aof_rewrite_min_size() {
            return false;
        }
        let base = self.append_only.base_size.load(Relaxed).max(1);
        let growth = (size * 100 / base).saturating_sub(100);
        if growth >= percentage {
            log::info!("Starting automatic rewriting of AOF on {growth}% growth");
        }
        growth >= percentage
    }

    /// Has those who write wait while the file is too far behind the journal, or too long not on
    /// disk; or no longer.
    fn watch_journal(&self, now_ms: i64) {
        let state = &self.append_only;
        let behind = self.keyspace.journal.end().saturating_sub(state.appender.written());
        let is_late = state.appender.policy() == Policy::EverySecond
            && !self.config.no_appendfsync_on_rewrite()
            && state.appender.unsynced_ms(now_ms) > SYNC_LAG_MS;
        // Who is refused need not wait.
        let is_full = state.on.load(Relaxed)
            && (behind > JOURNAL_BYTES || is_late)
            && self.attention.get() & APPEND_ONLY_FAILED == 0;
        let mut full = state.full.lock();
        if is_full && !*full {
            state.delayed_syncs.fetch_add(1, Relaxed);
            log::info!(
                "Asynchronous AOF fsync is taking too long (disk is busy?). Those who write wait for it, this may slow down the server."
            );
        }
        if is_full != *full {
            *full = is_full;
            self.attention.set(JOURNAL_FULL, is_full);
            state.room.notify_all();
        }
    }

    /// Waits until there is room in the journal, for a tenth of a second at most. No lock may be
    /// held. The thread steps outside of the gate meanwhile, and stays there if a script has
    /// stopped the world for long.
    pub(crate) fn wait_for_journal(&self, context: &mut Context) {
        self.keyspace.gate.leave(context.slot);
        context.outside = true;
        // The cron of this very thread may be the one to tell.
        self.watch_journal(unix_ms());
        let mut full = self.append_only.full.lock();
        if *full {
            self.append_only.room.wait_for(&mut full, std::time::Duration::from_millis(100));
        }
        drop(full);
        self.keyspace.come_in(context);
    }

    /// Waits until everything that has changed so far is on disk, if replies may not be sent
    /// before. False if it cannot be written: what the clients that have changed anything would be
    /// told is not certain. No lock may be held, and the thread is outside of the gate.
    #[inline]
    pub fn settle_changes(&self) -> bool {
        if !self.append_only.waits.load(Relaxed) {
            return true;
        }
        let end = self.keyspace.journal.end();
        self.append_only.appender.wait_until_synced(end)
    }

    /// Whether everything up to an offset of the journal is on disk, as [`Engine::settle_changes`]
    /// answers; nothing while it would wait.
    pub fn progress_on_disk(&self, offset: u64) -> Option<bool> {
        if self.append_only.waits.load(Relaxed) {
            self.append_only.appender.progress(offset)
        } else {
            Some(true)
        }
    }

    /// Has a loop's bell rung, once, when there may be another answer to
    /// [`Engine::progress_on_disk`]. What has become of it before is not told.
    pub fn ask_for_disk(&self, slot: usize, offset: u64) {
        let mut loops = self.append_only.loops.lock();
        if !loops.contains(&slot) {
            loops.push(slot);
        }
        drop(loops);
        self.append_only.appender.ask(offset);
    }

    /// Has the loops look that hold back replies.
    pub(crate) fn ring_for_disk(&self) {
        for slot in self.append_only.loops.lock().drain(..) {
            self.mailboxes[slot].ring();
        }
    }

    /// Tells the loops whose clients wait until something is on disk.
    pub(crate) fn tell_durable(&self) {
        self.ring_for_disk();
        self.durability.serve(self);
    }

    /// Writes everything, at the end of the server. No command is executed any more.
    pub(crate) fn finish_append_only(&self) {
        if self.append_only.on.load(Relaxed) {
            log::info!("Calling fsync() on the AOF file.");
            self.end_writer();
        }
        self.wait_for_end_of_writer();
    }
}
