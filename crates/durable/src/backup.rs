// SPDX-License-Identifier: BSD-3-Clause
//! BACKUP, as redis.io's pages of Redis 8.10 describe it: a folder with an append-only file of its
//! own, complete at the moment of BACKUP SEAL, made beside clients that write.
//!
//! A backup is a snapshot, as of BGSAVE, and from its cut on a second writer of the journal
//! ([`braid_persistence::aof::Appender`]) beside that of the server's append-only file, which may
//! be off. Sealing stops the world for a moment, so that the last change is exactly known, and
//! writes the manifest: a folder without one is no backup. It is restored as the append-only folder
//! of a new server.
//!
//! A backup never makes clients wait: if its disk is too slow, it fails.

use std::sync::Arc;
use std::time::Duration;

use braid_base::clock::unix_ms;
use braid_executor::engine::Engine;
use braid_executor::journal_uses::{self, FOR_BACKUP};
use braid_executor::processors::{self, Work};
use braid_executor::{threads, world};
use braid_persistence::Cut;
use braid_persistence::aof::backup::{Phase, Run};
use braid_persistence::aof::{Folder, Manifest, Policy};
use braid_persistence::files::File;

use crate::aof_load::folder_in_dir;
use crate::append_only::{BaseError, begin_increment};
use crate::background_save::{self, old_forms_limit};
use crate::saving::Settings;

/// Bytes of the journal that may wait to be written to the backup.
const BEHIND_MAX: u64 = 256 << 20;
/// How long a backup that waits for another snapshot looks for its end.
const LOOK: Duration = Duration::from_millis(50);

/// Begins a backup, which goes on in the background.
///
/// # Errors
/// If there is one already, or its folder cannot be created or has files.
pub fn start(engine: &Engine) -> Result<(), String> {
    let backup = &engine.persistence.backup;
    let mut run = backup.run.lock();
    run.may_start()?;
    remove_files(&mut run);
    let folder = folder_in_dir(&engine.config, &engine.config.backupdirname());
    folder.create().map_err(|error| format!("ERR {error}"))?;
    if folder.has_files().map_err(|error| format!("ERR {error}"))? {
        return Err("ERR the backup directory is not empty".into());
    }
    let number = run.begin(folder.clone(), unix_ms() / 1000);
    backup.progress.begin();
    let thread = threads::spawn(engine, "backup", move |engine| {
        processors::bind_thread(engine, Work::Save);
        match make(engine, &folder, number) {
            Ok(()) => log::info!("The base of the backup is complete"),
            Err(BaseError::Stopped) => {}
            Err(error) => fail(engine, Some(number), &error.to_string()),
        }
    });
    if let Err(error) = thread {
        run.fail(None, &error.to_string());
        return Err(format!("ERR {error}"));
    }
    log::info!("A backup is begun");
    Ok(())
}

/// Writes the base, and begins to write changes.
fn make(engine: &Engine, folder: &Folder, number: u64) -> Result<(), BaseError> {
    let backup = &engine.persistence.backup;
    // The writer of an earlier backup that failed ends soon.
    let earlier = backup.run.lock().writer.take();
    if let Some(writer) = earlier {
        let _ = writer.join();
    }
    let mut manifest = Manifest::default();
    let incr = manifest.begin_incr(folder.name());
    let mut settings = Settings::for_base(engine, folder, &mut manifest);
    let mut file = Some(folder.open_incr(&incr.name)?);
    backup.run.lock().manifest = manifest;
    let cut = loop {
        if !background_save::is_busy(engine)
            && let Some(cut) = begin_changes(engine, number, &mut file, &mut settings)?
        {
            break cut;
        }
        let mut run = backup.run.lock();
        if !run.is_at(number, Phase::Pending) {
            return Err(BaseError::Stopped);
        }
        backup.changed.wait_for(&mut run, LOOK);
    };
    let notes = settings.notes();
    let options = settings.options(&notes);
    braid_persistence::write_snapshot(&engine.keyspace, cut, &options, &backup.progress)?;
    let mut run = backup.run.lock();
    if !run.is_at(number, Phase::Snapshotting) {
        return Err(BaseError::Stopped);
    }
    run.phase = Phase::Incrementing;
    Ok(())
}

/// Makes the cut, and begins to write changes from there on to `file`, which is taken; `None` while
/// another snapshot is being written.
fn begin_changes(
    engine: &Engine,
    number: u64,
    file: &mut Option<File>,
    settings: &mut Settings,
) -> Result<Option<Cut>, BaseError> {
    let (backup, journal) = (&engine.persistence.backup, &engine.keyspace.journal);
    let world = world::stop(engine);
    let mut run = backup.run.lock();
    if !run.is_at(number, Phase::Pending) {
        return Err(BaseError::Stopped);
    }
    let forms = &engine.background_save.forms;
    let cut = braid_persistence::cut(&engine.keyspace, &world, forms, old_forms_limit(), settings.form());
    if let Some(file) = file.take_if(|_| cut.is_some()) {
        begin_increment(engine, &file)?;
        let (appender, reader) = (Arc::clone(&backup.appender), journal.reader());
        // This writer looks for changes once a second: only the append-only file's own may sleep in
        // the journal until there are some.
        appender.set_policy(journal, Policy::Always);
        appender.begin(&reader, engine.replication.history().dataset());
        run.writer = Some(threads::spawn(engine, "backup-aof", move |engine| {
            processors::bind_thread(engine, Work::Background);
            appender.run(&engine.keyspace.journal, reader, file);
        })?);
        journal_uses::set_journal_use(engine, FOR_BACKUP, true);
        settings.read_functions(engine);
        run.phase = Phase::Snapshotting;
    }
    Ok(cut)
}

/// Ends a backup that is not sealed, of this number if one is given. Its files stay until the next
/// one begins, or BACKUP CLEANUP.
fn fail(engine: &Engine, number: Option<u64>, why: &str) {
    let backup = &engine.persistence.backup;
    let mut run = backup.run.lock();
    if run.fail(number, why) {
        log::warn!("The backup has failed: {why}");
        stop_writing(engine, &run);
        backup.changed.notify_all();
    }
}

/// Lets the writer end after what is journalled now. The end is exact if the world is stopped.
fn stop_writing(engine: &Engine, run: &Run) {
    engine.persistence.backup.progress.stop();
    journal_uses::set_journal_use(engine, FOR_BACKUP, false);
    if run.writer.is_some() {
        engine.persistence.backup.appender.end(&engine.keyspace.journal);
    }
}

/// Ends a backup of a dataset that another one replaces.
pub fn dataset_is_replaced(engine: &Engine) {
    fail(engine, None, "another dataset has replaced this one");
}

/// Ends a backup at shutdown, after the last command.
pub fn finish(engine: &Engine) {
    fail(engine, None, "the server was shut down");
}

/// BACKUP ABORT.
///
/// # Errors
/// If no backup is under way that is not sealed.
pub fn abort(engine: &Engine) -> Result<(), String> {
    engine.persistence.backup.run.lock().may_abort()?;
    fail(engine, None, "aborted by BACKUP ABORT");
    Ok(())
}

/// BACKUP SEAL: waits until all changes so far are on disk. The calling thread is outside of the
/// gate.
///
/// # Errors
/// If the base is not complete, or the files cannot be written.
pub fn seal(engine: &Engine) -> Result<(), String> {
    let backup = &engine.persistence.backup;
    let writer = {
        let world = world::stop(engine);
        let mut run = backup.run.lock();
        run.may_seal()?;
        run.phase = Phase::Sealing;
        stop_writing(engine, &run);
        drop(world);
        run.writer.take()
    };
    if let Some(writer) = writer {
        let _ = writer.join();
    }
    let mut run = backup.run.lock();
    if run.phase != Phase::Sealing {
        return Err("ERR the backup has failed".into());
    }
    let written = match (&run.folder, backup.appender.failure()) {
        (_, Some(failure)) => Err(failure.text),
        (Some(folder), None) => folder.persist(&run.manifest).map_err(|error| error.to_string()),
        (None, None) => Ok(()),
    };
    if let Err(why) = written {
        drop(run);
        fail(engine, None, &why);
        return Err(format!("ERR {why}"));
    }
    (run.phase, run.end_s) = (Phase::Sealed, unix_ms() / 1000);
    log::info!("The backup is sealed");
    Ok(())
}

/// BACKUP CLEANUP.
///
/// # Errors
/// If there is no backup that is sealed or has failed.
pub fn clean_up(engine: &Engine) -> Result<(), String> {
    let mut run = engine.persistence.backup.run.lock();
    run.may_clean_up()?;
    remove_files(&mut run);
    run.reset();
    Ok(())
}

/// Removes the files of the last backup, also those that are not complete.
fn remove_files(run: &mut Run) {
    if let Some(folder) = run.folder.take() {
        folder.remove(&run.manifest);
    }
}

/// Ends a backup whose disk is too slow or fails, and removes a sealed one after its time. Called
/// by the first loop's cron, outside of the gate.
pub fn backup_cron(engine: &Engine, now_ms: i64) {
    let backup = &engine.persistence.backup;
    let (phase, end_s) = {
        let run = backup.run.lock();
        (run.phase, run.end_s)
    };
    match phase {
        Phase::Snapshotting | Phase::Incrementing => {
            let behind = engine.keyspace.journal.end().saturating_sub(backup.appender.written());
            if let Some(failure) = backup.appender.failure() {
                fail(engine, None, &failure.text);
            } else if behind > BEHIND_MAX {
                fail(engine, None, "the disk is too slow for the changes");
            }
        }
        Phase::Sealed => {
            let seconds = i64::from(engine.config.backup_sealed_ttl_seconds());
            if seconds > 0 && now_ms / 1000 - end_s >= seconds {
                log::info!("The sealed backup is removed after backup-sealed-ttl");
                // Not on this thread, which has clients. It does nothing if they were removed
                // meanwhile, and is begun again if there is no thread now.
                let _ = threads::spawn(engine, "backup-cleanup", |engine| _ = clean_up(engine));
            }
        }
        _ => {}
    }
}
