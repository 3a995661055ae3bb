// SPDX-License-Identifier: BSD-3-Clause
//! Saving and loading as the server does it: with the configured settings, words for the operator's
//! log, and the numbers that INFO shows.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::unix_ms;
use braid_base::gate::World;
use braid_base::plural::plural;
use braid_config::{RdbTarget, RdbVersionCheck};
use braid_keyspace::Txn;
use braid_keyspace::txn::NOTHING_EXPIRED;
use braid_persistence::files;
use braid_persistence::{
    ExpiredKeys, Folder, Form, LoadError, LoadOptions, Loaded, Manifest, ReplicationNote, SaveError,
    SaveOptions, Slices,
};
use braid_rdb::{Format, Target};

use crate::aof_load::outcome::{AofLoadError, AofLoaded};
use crate::engine::Engine;
use crate::locks::{LockSet, lock};
use braid_clients::attention::LOADING;

/// Dump files of less than so many bytes are loaded by one thread.
const CREW_MIN: u64 = 1 << 20;

/// Why a dump file was not loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadFailure {
    #[error("can't open the RDB file {0} for reading: {1}")]
    Open(String, std::io::Error),
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl LoadFailure {
    /// Whether the file itself is at fault: braid-check-rdb says more of it then.
    pub fn is_damage(&self) -> bool {
        let LoadFailure::Load(error) = self else { return false };
        match error {
            LoadError::File(error) | LoadError::Value { error, .. } => {
                !matches!(error.fault, braid_rdb::Fault::Io(_))
            }
            LoadError::Duplicate { .. } => true,
            LoadError::Database { .. } | LoadError::Function(_) | LoadError::Thread | LoadError::Stopped => {
                false
            }
        }
    }
}

/// Among what a dump file is loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// Among nothing; others are served in between.
    AtStart,
    /// A key that is there already ends the load.
    Strict,
    /// Keys that are there give way.
    Merge,
    /// Among nothing, beside the present dataset (`keyspace/staging.rs`).
    Staged,
}

/// How to save, as configured at one moment.
pub(crate) struct Settings {
    path: PathBuf,
    form: Form,
    compress: bool,
    checksum: bool,
    sync_pieces: bool,
    key_delay: i64,
    functions: Vec<Vec<u8>>,
    /// The file is the base of an append-only file.
    is_base: bool,
    /// The history that the dataset belongs to, if its changes are kept for replicas.
    replication: Option<ReplicationNote>,
}

impl Settings {
    pub(crate) fn of(engine: &Engine) -> Settings {
        let config = &engine.config;
        // The working folder is `dir`, which may be another one when the save ends.
        let folder = std::env::current_dir().unwrap_or_default();
        Settings {
            path: folder.join(&*config.dbfilename()),
            form: Form::Dump(engine.rdb_format()),
            compress: config.rdbcompression(),
            checksum: config.rdbchecksum(),
            sync_pieces: config.rdb_save_incremental_fsync(),
            key_delay: config.rdb_key_save_delay_microseconds(),
            functions: functions(engine),
            is_base: false,
            replication: engine.replication_note(),
        }
    }

    /// For a new base of an append-only file, which `manifest` names from now on. Functions are
    /// those of the time of [`Settings::read_functions`].
    pub(crate) fn for_base(engine: &Engine, folder: &Folder, manifest: &mut Manifest) -> Settings {
        let is_dump = engine.config.aof_use_rdb_preamble();
        let base = manifest.begin_base(folder.name(), is_dump);
        Settings {
            path: folder.path(&base.name),
            form: if is_dump {
                Form::Dump(engine.rdb_format())
            } else {
                Form::Requests(engine.config.aof_timestamp_enabled().then(|| unix_ms() / 1000))
            },
            sync_pieces: engine.config.aof_rewrite_incremental_fsync(),
            is_base: true,
            // The increments behind it go on without one.
            replication: None,
            ..Settings::of(engine)
        }
    }

    /// For a copy that replicas get: it is not forced to disk. Unless `rdb-target` says for whom,
    /// any version of Redis and Valkey from 7.0 on reads it, if no members expire (`expiring`:
    /// there may be some).
    pub(crate) fn for_copy(engine: &Engine, expiring: bool) -> Settings {
        let mut format = engine.rdb_format();
        if format.target == Target::Own && !expiring {
            format.target = Target::Redis70;
        }
        Settings { form: Form::Dump(format), sync_pieces: false, ..Settings::of(engine) }
    }

    /// Has no functions saved.
    pub(crate) fn forget_functions(&mut self) {
        self.functions = Vec::new();
    }

    /// Has the functions saved that there are now.
    pub(crate) fn read_functions(&mut self, engine: &Engine) {
        self.functions = functions(engine);
    }

    /// In which form keys are written.
    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// The file's name.
    pub(crate) fn name(&self) -> std::path::Display<'_> {
        Path::new(self.path.file_name().unwrap_or_default()).display()
    }

    /// What the file says about itself.
    pub(crate) fn notes(&self) -> Vec<(&'static str, String)> {
        let mut notes = vec![
            ("redis-ver", crate::COMPATIBLE_VERSION.to_string()),
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

    pub(crate) fn options<'s>(&'s self, notes: &'s [(&'s str, String)]) -> SaveOptions<'s> {
        SaveOptions {
            path: &self.path,
            form: self.form,
            compress: self.compress,
            checksum: self.checksum,
            sync_pieces: self.sync_pieces,
            key_delay: self.key_delay,
            notes,
            functions: &self.functions,
        }
    }
}

impl Engine {
    /// What a dump of the dataset as it is now says of its history. The world is stopped.
    fn replication_note(&self) -> Option<ReplicationNote> {
        let journal = &self.keyspace.journal;
        journal.backlog()?;
        let link = &self.replication.link;
        let db =
            if link.is_replica() { link.db.load(Relaxed) as u32 } else { journal.database().unwrap_or(0) };
        let history = self.replication.history();
        let id = history.id().as_bytes().try_into().ok()?;
        Some(ReplicationNote { id, offset: history.offset(journal.end()), db })
    }

    /// How values are written, for the servers that `rdb-target` names.
    pub fn rdb_format(&self) -> Format {
        let target = match self.config.rdb_target() {
            RdbTarget::Braid => Target::Own,
            RdbTarget::Valkey9 => Target::Valkey9,
            RdbTarget::Redis8 => Target::Redis8,
            RdbTarget::Redis72 => Target::Redis72,
            RdbTarget::Redis70 => Target::Redis70,
            RdbTarget::Keydb => Target::KeyDb,
        };
        Format { target, now_ms: unix_ms() }
    }
}

fn functions(engine: &Engine) -> Vec<Vec<u8>> {
    engine.scripts.library_codes()
}

impl Engine {
    /// Saves all databases to the dump file, while the world is stopped. The outcome is in the log,
    /// too. A save in the background is ended, since its older file must not take the place of this
    /// one.
    pub fn save(&self, world: &World<'_>) -> Result<(), SaveError> {
        self.stop_background_save();
        let settings = Settings::of(self);
        let notes = settings.notes();
        let saved = braid_persistence::save(&self.keyspace, world, &settings.options(&notes))
            .inspect_err(|error| log::warn!("Write error while saving DB to the disk: {error}"))?;
        log::info!(
            "DB saved on disk: {}, {}, {:.3} seconds",
            plural(saved.keys, "key"),
            plural(saved.bytes, "byte"),
            saved.duration.as_secs_f64()
        );
        let state = &self.persistence;
        state.last_save_s.store(unix_ms() / 1000, Relaxed);
        state.saves.fetch_add(1, Relaxed);
        self.forget_changes();
        self.note_save_outcome(false);
        Ok(())
    }

    /// The dataset is what the dump file has: from now on changes are counted anew.
    pub(crate) fn forget_changes(&self) {
        self.keyspace.dirty_baseline.store(self.keyspace.total(|counters| counters.dirty.get()), Relaxed);
    }

    /// Loads the dump file at the start, before there is any data, while the loops already run:
    /// they serve what needs no data between slices of the load. False when there is no dump file.
    pub fn load_at_start(&self) -> Result<bool, LoadFailure> {
        // On a replica keys past their expiry wait for the primary's word.
        let now = if self.replication.link.is_replica() { NOTHING_EXPIRED } else { unix_ms() };
        self.at_start(now, |txn| self.load(txn, Manner::AtStart))
    }

    /// As [`Engine::load_at_start`], but loads the append-only file, which changes are written to
    /// from then on.
    pub fn load_append_only_at_start(&self) -> Result<AofLoaded, AofLoadError> {
        self.at_start(NOTHING_EXPIRED, |txn| {
            let loaded = self.load_append_only(txn, true)?;
            if let Some(world) = txn.stopped_world() {
                self.begin_append_only(world, &loaded).map_err(|error| {
                    log::warn!("{error}");
                    AofLoadError::File(error)
                })?;
            }
            Ok(loaded)
        })
    }

    fn at_start<T, E>(&self, now: i64, load: impl FnOnce(&mut Txn<'_>) -> Result<T, E>) -> Result<T, E> {
        // This thread lends itself the first loop's context: it is used with the world stopped only.
        let mut worker = self.worker(0);
        let world = self.keyspace.gate.close(None);
        let mut txn = lock(&self.keyspace, &mut worker.context, LockSet::World(world), 0, now);
        let loaded = load(&mut txn);
        if loaded.is_ok() {
            self.set_loading(false);
        } else {
            // What is there is no dataset: nobody may see it, and nobody may save it.
            self.persistence.progress.active.store(true, Relaxed);
        }
        loaded
    }

    /// Has commands that need data refused from now on, until [`Engine::load_at_start`] is done.
    /// Call it before the loops start.
    pub fn expect_load(&self) {
        self.set_loading(true);
    }

    pub(crate) fn set_loading(&self, is_loading: bool) {
        self.attention.set(LOADING, is_loading);
        self.config.set_loading(is_loading);
        // What the load does is no event.
        self.apply_settings();
    }

    /// Changes to the dataset since the last save.
    pub fn unsaved_changes(&self) -> u64 {
        let changes = self.keyspace.total(|counters| counters.dirty.get());
        changes.wrapping_sub(self.keyspace.dirty_baseline.load(Relaxed))
    }

    /// Loads the dump file, while the world is stopped; false when there is none.
    pub fn load(&self, txn: &mut Txn<'_>, manner: Manner) -> Result<bool, LoadFailure> {
        let config = &self.config;
        let name = config.dbfilename().to_string();
        let file = match files::open(Path::new(&name)) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(LoadFailure::Open(name, error)),
        };
        let len = file.metadata().ok().filter(|data| data.is_file()).map(|data| data.len());
        let progress = &self.persistence.progress;
        progress.begin(len.unwrap_or(0), unix_ms() / 1000);
        let delay = config.key_load_delay_microseconds();
        let mut slices = Slices::new(progress, manner == Manner::AtStart, delay);
        let loaded = self.load_dump(txn, &file, len, manner, &mut slices);
        progress.end();
        let loaded =
            loaded.inspect_err(|error| log::warn!("Internal error in RDB reading of {name}: {error}"))?;
        if let Some((note, world)) = loaded.replication.as_ref().zip(txn.stopped_world())
            && manner == Manner::AtStart
            && self.replication.link.is_replica()
        {
            self.resume_history(world, note);
        }
        self.forget_changes();
        Ok(true)
    }

    /// Loads a dump of at most `len` bytes (if that is known) from the begin of a file, behind
    /// which more may follow.
    pub(crate) fn load_dump(
        &self,
        txn: &mut Txn<'_>,
        file: impl std::io::Read,
        len: Option<u64>,
        manner: Manner,
        slices: &mut Slices<'_>,
    ) -> Result<Loaded, LoadError> {
        let (config, state) = (&self.config, &self.persistence);
        // Replicas that go on from where this server was have them still.
        let is_primary = !self.replication.link.is_replica();
        let expired = (manner == Manner::AtStart && is_primary).then(ExpiredKeys::default);
        let options = LoadOptions {
            len,
            limits: self.limits(),
            relaxed: config.rdb_version_check() == RdbVersionCheck::Relaxed,
            checksum: config.rdbchecksum() && !self.debug.skip_checksums.load(Relaxed),
            replace: manner == Manner::Merge,
            expired: expired.as_ref(),
            first_db: if manner == Manner::Staged { txn.keyspace().databases() } else { 0 },
            threads: if len.is_some_and(|len| len < CREW_MIN) { 1 } else { config.io_threads() },
            progress: &state.progress,
        };
        let mut functions = Vec::new();
        let loaded = braid_persistence::load(txn, file, &options, slices, &mut |code| {
            functions.push(code.to_vec());
            Ok(())
        })?;
        let (slot, replace) = (txn.context.slot, manner == Manner::Merge);
        if manner == Manner::Staged {
            // What could not be loaded ends the load, and the present ones stay.
            self.scripts.replace_libraries(slot, config, &functions).map_err(LoadError::Function)?;
        } else {
            self.scripts.load_libraries(slot, config, &functions, replace).map_err(LoadError::Function)?;
        }
        if let Some((note, world)) = loaded.replication.as_ref().zip(txn.stopped_world())
            && let Some(expired) = expired
        {
            self.resume_history(world, note);
            self.journal_lost_keys(txn.context, &expired.into_inner());
        }
        state.keys_loaded.store(loaded.keys, Relaxed);
        state.keys_expired.store(loaded.expired, Relaxed);
        let skipped = match loaded.empty {
            0 => String::new(),
            count => format!(", empty keys skipped: {count}"),
        };
        log::info!(
            "Done loading RDB, keys loaded: {}, keys expired: {}{skipped}.",
            loaded.keys,
            loaded.expired
        );
        Ok(loaded)
    }

    /// Removes what saves that are under way have written so far, since they will not be finished.
    pub fn remove_unfinished_saves(&self) {
        let folder = std::env::current_dir().unwrap_or_default();
        braid_persistence::remove_unfinished(&folder.join(&*self.config.dbfilename()));
    }
}
