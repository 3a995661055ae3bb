// SPDX-License-Identifier: BSD-3-Clause
//! Saving and loading with the configured settings, log lines, and the counters for INFO.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::unix_ms;
use braid_base::gate::World;
use braid_base::plural::plural;
use braid_base::system_text::reason;
use braid_clients::attention::LOADING;
use braid_config::{Config, RdbTarget, RdbVersionCheck};
use braid_executor::engine::Engine;
use braid_executor::{limits, settings};
use braid_keyspace::{Entry, Txn};
use braid_persistence::{
    Accepts, ExpiredKeys, Folder, Form, LoadError, LoadOptions, Loaded, Manifest, ReplicationNote,
    RequestCount, SaveError, SaveOptions, Slices, files, temporary,
};
use braid_rdb::{Format, Target};
use braid_replication::Reads;
use braid_scripting::Scripts;
use braid_scripting::scripts::PresentLibraries;

use crate::history;

/// Size in bytes below which a dump file is loaded by one thread.
const PARALLEL_MIN: u64 = 1 << 20;

/// Why a dump file was not loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadFailure {
    #[error("can't open the RDB file {0} for reading: {why}", why = reason(.1))]
    Open(String, std::io::Error),
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl LoadFailure {
    /// True if the file itself is damaged: braid-check-rdb says more.
    pub fn is_damage(&self) -> bool {
        matches!(self, LoadFailure::Load(error) if error.is_damage())
    }
}

/// A value for RESTORE on a server of this version. `None` if all of its members have expired.
pub fn payload(entry: Entry<'_>, now_ms: i64) -> Option<Vec<u8>> {
    let (value, format) = (braid_persistence::to_rdb(entry), Format { target: Target::Own, now_ms });
    (!format.is_void(value)).then(|| braid_rdb::dump(value, format, false))
}

/// How a dump file is combined with the keyspace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// Into an empty keyspace; clients are served in between.
    AtStart,
    /// An existing key fails the load.
    Strict,
    /// Existing keys are replaced.
    Merge,
    /// Into an empty keyspace beside the current one (`keyspace/staging.rs`).
    Staged,
}

/// Settings of a save, as configured at one moment.
pub struct Settings {
    path: PathBuf,
    form: Form,
    compress: bool,
    checksum: bool,
    sync_pieces: bool,
    key_delay: i64,
    functions: Vec<Vec<u8>>,
    indexes: Vec<Vec<Vec<u8>>>,
    requests: RequestCount,
    /// The file is the base of an append-only file.
    is_base: bool,
    /// Replication history of the dataset, if changes are kept for replicas.
    replication: Option<ReplicationNote>,
}

impl Settings {
    pub(crate) fn of(engine: &Engine) -> Settings {
        let config = &engine.config;
        // Absolute, because CONFIG SET dir may change the working folder during the save.
        let folder = std::env::current_dir().unwrap_or_default();
        Settings {
            path: folder.join(&*config.dbfilename()),
            form: Form::Dump(rdb_format(&engine.config)),
            compress: config.rdbcompression(),
            checksum: config.rdbchecksum(),
            sync_pieces: config.rdb_save_incremental_fsync(),
            key_delay: config.rdb_key_save_delay_microseconds(),
            functions: functions(&engine.scripts),
            indexes: engine.keyspace.index_requests(),
            requests: request_count(engine),
            is_base: false,
            replication: replication_note(engine),
        }
    }

    /// Settings for a new base of an append-only file, named by `manifest` from now on. Functions
    /// are those at the last [`Settings::read_functions`].
    pub(crate) fn for_base(engine: &Engine, folder: &Folder, manifest: &mut Manifest) -> Settings {
        let is_dump = engine.config.aof_use_rdb_preamble();
        let base = manifest.begin_base(folder.name(), is_dump);
        Settings {
            path: folder.path(&base.name),
            form: if is_dump {
                Form::Dump(rdb_format(&engine.config))
            } else {
                Form::Requests(engine.config.aof_timestamp_enabled().then(|| unix_ms() / 1000))
            },
            sync_pieces: engine.config.aof_rewrite_incremental_fsync(),
            is_base: true,
            // The increment after it begins with its place in the replication history.
            replication: None,
            ..Settings::of(engine)
        }
    }

    /// Settings for a full sync: not synced to disk. Unless `rdb-target` says otherwise, in a form
    /// for replicas that read this (`expiring`: members may expire): for others than Braid that of
    /// Redis 7.0, which all later versions of Redis and Valkey read, or of Valkey 9.
    pub fn for_full_sync(engine: &Engine, reads: Option<Reads>, expiring: bool) -> Settings {
        let mut format = rdb_format(&engine.config);
        match reads {
            None | Some(Reads::Own) => {}
            Some(Reads::Valkey9) if expiring => format.target = Target::Valkey9,
            Some(Reads::Valkey9 | Reads::Unstated) => format.target = Target::Redis70,
        }
        Settings { form: Form::Dump(format), sync_pieces: false, ..Settings::of(engine) }
    }

    /// Saves no functions and indexes.
    pub fn forget_functions(&mut self) {
        (self.functions, self.indexes) = Default::default();
    }

    /// Saves the current functions and indexes.
    pub(crate) fn read_functions(&mut self, engine: &Engine) {
        self.functions = functions(&engine.scripts);
        self.indexes = engine.keyspace.index_requests();
    }

    /// The format of keys.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The file's name.
    pub(crate) fn name(&self) -> std::path::Display<'_> {
        Path::new(self.path.file_name().unwrap_or_default()).display()
    }

    /// Auxiliary fields of the file.
    pub fn notes(&self) -> Vec<(&'static str, String)> {
        let mut notes = vec![
            ("redis-ver", braid_executor::COMPATIBLE_VERSION.to_string()),
            ("redis-bits", "64".to_string()),
            ("ctime", (unix_ms() / 1000).to_string()),
            ("used-mem", braid_base::alloc::used_bytes().to_string()),
        ];
        if let Some(ReplicationNote { id, offset, db }) = &self.replication {
            notes.push(("repl-stream-db", db.to_string()));
            notes.push(("repl-id", String::from_utf8_lossy(id).into_owned()));
            notes.push(("repl-offset", offset.to_string()));
        }
        notes.push(("aof-base", u8::from(self.is_base).to_string()));
        notes
    }

    pub fn options<'s>(&'s self, notes: &'s [(&'s str, String)]) -> SaveOptions<'s> {
        SaveOptions {
            path: &self.path,
            form: self.form,
            compress: self.compress,
            checksum: self.checksum,
            sync_pieces: self.sync_pieces,
            key_delay: self.key_delay,
            notes,
            functions: &self.functions,
            indexes: &self.indexes,
            requests: Some(Arc::clone(&self.requests)),
        }
    }
}

/// Counts the requests of clients.
fn request_count(engine: &Engine) -> RequestCount {
    let weak = engine.weak();
    Arc::new(move || weak.upgrade().map_or(0, |engine| engine.telemetry.total_commands()))
}

/// The replication fields of a dump of the current dataset. The world is stopped.
fn replication_note(engine: &Engine) -> Option<ReplicationNote> {
    let journal = &engine.keyspace.journal;
    journal.backlog()?;
    let link = &engine.replication.link;
    let db = if link.is_replica() { link.db.load(Relaxed) as u32 } else { journal.database().unwrap_or(0) };
    let history = engine.replication.history();
    let id = history.id().as_bytes().try_into().ok()?;
    Some(ReplicationNote { id, offset: history.offset(journal.end()), db })
}

/// Which dump files are loaded.
pub fn accepts(engine: &Engine) -> Accepts {
    let config = &engine.config;
    Accepts {
        relaxed: config.rdb_version_check() == RdbVersionCheck::Relaxed,
        checksum: config.rdbchecksum() && !engine.debug.skip_checksums.load(Relaxed),
        skip_unsupported: config.rdb_skip_unsupported(),
    }
}

/// The format of values, for the servers named by `rdb-target`.
pub fn rdb_format(config: &Config) -> Format {
    let target = match config.rdb_target() {
        RdbTarget::Braid => Target::Own,
        RdbTarget::Valkey9 => Target::Valkey9,
        RdbTarget::Redis8 => Target::Redis8,
        RdbTarget::Redis72 => Target::Redis72,
        RdbTarget::Redis70 => Target::Redis70,
        RdbTarget::Keydb => Target::KeyDb,
    };
    Format { target, now_ms: unix_ms() }
}

fn functions(scripts: &Scripts) -> Vec<Vec<u8>> {
    scripts.library_codes()
}

/// Saves all databases to the dump file while the world is stopped, and logs the outcome.
/// Cancels a background save, whose older file must not replace this one.
///
/// # Errors
/// If the file cannot be written; the reason has been logged, and the old file stays.
pub fn save(engine: &Engine, world: &World<'_>) -> Result<(), SaveError> {
    engine.background_save.stop();
    let settings = Settings::of(engine);
    let notes = settings.notes();
    let saved = braid_persistence::save(&engine.keyspace, world, &settings.options(&notes))
        .inspect_err(|error| log::warn!("Write error while saving DB to the disk: {error}"))?;
    log::info!(
        "DB saved on disk: {}, {}, {:.3} seconds",
        plural(saved.keys, "key"),
        plural(saved.bytes, "byte"),
        saved.duration.as_secs_f64()
    );
    let state = &engine.persistence;
    state.last_save_s.store(unix_ms() / 1000, Relaxed);
    state.saves.fetch_add(1, Relaxed);
    engine.keyspace.forget_changes();
    note_save_outcome(engine, false);
    Ok(())
}

/// The records have been seen, or cannot be read: clients need not wait any more.
pub fn stop_expecting_map(engine: &Engine) {
    if let Some(map) = engine.cluster_map() {
        map.stop_waiting(|| {
            engine.attention.set(LOADING, false);
            settings::apply_settings(engine);
        });
    }
}

pub fn set_loading(engine: &Engine, is_loading: bool) {
    // INFO's status changes last: CONFIG SET works once the load is reported as finished.
    engine.config.set_loading(is_loading);
    engine.attention.set(LOADING, is_loading);
    // Loading publishes no events.
    settings::apply_settings(engine);
}

/// Loads the dump file while the world is stopped; false if there is none.
///
/// # Errors
/// If the file cannot be opened, is damaged, or has data that this server does not accept. The keys
/// before the error have been added.
pub fn load(engine: &Engine, txn: &mut Txn<'_>, manner: Manner) -> Result<bool, LoadFailure> {
    let config = &engine.config;
    let name = config.dbfilename().to_string();
    let file = match files::open(Path::new(&name)) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(LoadFailure::Open(name, error)),
    };
    let len = file.metadata().ok().filter(|data| data.is_file()).map(|data| data.len());
    let progress = &engine.persistence.progress;
    progress.begin(len.unwrap_or(0), unix_ms() / 1000);
    let delay = config.key_load_delay_microseconds();
    let mut slices = Slices::new(progress, manner == Manner::AtStart, delay);
    let loaded = load_dump(engine, txn, &file, len, manner, &mut slices);
    progress.end();
    let loaded =
        loaded.inspect_err(|error| log::warn!("Internal error in RDB reading of {name}: {error}"))?;
    if let Some((note, world)) = loaded.replication.as_ref().zip(txn.stopped_world())
        && manner == Manner::AtStart
        && engine.replication.link.is_replica()
    {
        history::resume_history(engine, world, note);
    }
    engine.keyspace.forget_changes();
    Ok(true)
}

/// Loads a dump of at most `len` bytes (if known) from the start of a file; more data may
/// follow it.
///
/// # Errors
/// As [`load`], and if a library of functions is invalid.
pub fn load_dump(
    engine: &Engine,
    txn: &mut Txn<'_>,
    file: impl std::io::Read,
    len: Option<u64>,
    manner: Manner,
    slices: &mut Slices<'_>,
) -> Result<Loaded, LoadError> {
    let (config, state) = (&engine.config, &engine.persistence);
    // Replicas that continue from this server's offset still have them.
    let is_primary = !engine.replication.link.is_replica();
    let expired = (manner == Manner::AtStart && is_primary).then(ExpiredKeys::default);
    let options = LoadOptions {
        len,
        limits: limits::limits(engine),
        accepts: accepts(engine),
        replace: manner == Manner::Merge,
        expired: expired.as_ref(),
        first_db: if manner == Manner::Staged { txn.keyspace().databases() } else { 0 },
        threads: if len.is_some_and(|len| len < PARALLEL_MIN) { 1 } else { config.io_threads() },
        // For a full sync, or after startup.
        stands_back: engine.replication.link.has_thread.load(Relaxed),
        progress: &state.progress,
    };
    let mut functions = Vec::new();
    let loaded = braid_persistence::load(txn, file, &options, slices, &mut |code| {
        functions.push(code.to_vec());
        Ok(())
    })?;
    let present = match manner {
        Manner::AtStart | Manner::Strict => PresentLibraries::Kept,
        Manner::Merge => PresentLibraries::Replaced,
        Manner::Staged => PresentLibraries::Removed,
    };
    let slot = txn.context.slot;
    engine.scripts.load_libraries(slot, config, &functions, present).map_err(LoadError::Function)?;
    if let Some((note, world)) = loaded.replication.as_ref().zip(txn.stopped_world())
        && let Some(expired) = expired
    {
        history::resume_history(engine, world, note);
        history::journal_lost_keys(engine, txn.context, &expired.into_inner());
    }
    if let Some(documents) = engine.keyspace.documents() {
        documents.load(loaded.indexes.clone(), manner == Manner::Staged);
    }
    state.keys_loaded.store(loaded.keys, Relaxed);
    state.keys_expired.store(loaded.expired, Relaxed);
    state.keys_unsupported.store(loaded.unsupported, Relaxed);
    let skipped = match loaded.empty {
        0 => String::new(),
        count => format!(", empty keys skipped: {count}"),
    };
    log::info!("Done loading RDB, keys loaded: {}, keys expired: {}{skipped}.", loaded.keys, loaded.expired);
    Ok(loaded)
}

/// Removes unfinished files left by killed processes. Must be called at startup, before anything
/// is loaded.
pub fn remove_left_over_files(config: &Config) {
    let folder = std::env::current_dir().unwrap_or_default();
    temporary::remove_left_over(&folder);
    temporary::remove_left_over(&folder.join(&*config.appenddirname()));
}

/// Removes the unfinished files of running saves.
pub fn remove_unfinished_saves() {
    temporary::remove_unfinished(&std::env::current_dir().unwrap_or_default());
}

/// Records the outcome of a save: after a failure writes are refused, if
/// `stop-writes-on-bgsave-error`.
pub fn note_save_outcome(engine: &Engine, failed: bool) {
    engine.background_save.last_failed.store(failed, Relaxed);
    settings::apply_refusal(engine);
}
