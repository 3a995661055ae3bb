//! Saving and loading as the server does it: with the configured settings, words for the operator's log, and the numbers
//! that INFO shows.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use braid_base::clock::unix_ms;
use braid_base::gate::World;
use braid_config::{RdbTarget, RdbVersionCheck};
use braid_keyspace::Txn;
use braid_keyspace::txn::NOTHING_EXPIRED;
use braid_persistence::{
    Folder, Form, LoadError, LoadOptions, Loaded, Manifest, SaveError, SaveOptions, Slices,
};
use braid_rdb::{Format, Limits, Target};

use crate::aof_load::{AofLoadError, AofLoaded};
use crate::attention::{LOADING, STOPPING};
use crate::engine::Engine;

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

/// Among what a dump file is loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// Among nothing; others are served in between.
    AtStart,
    /// A key that is there already ends the load.
    Strict,
    /// Keys that are there give way.
    Merge,
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
        }
    }

    /// For a new base of an append-only file, which `manifest` names from now on. Functions are those of the time of [`Settings::read_functions`].
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
            ..Settings::of(engine)
        }
    }

    /// For a copy that replicas get: it is not forced to disk. Unless `rdb-target` says for whom, any version of Redis and Valkey from 7.0 on reads it, if
    /// no members expire (`expiring`: there may be some).
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
    pub(crate) fn notes(&self) -> [(&'static str, String); 5] {
        [
            ("redis-ver", crate::COMPATIBLE_VERSION.to_string()),
            ("redis-bits", "64".to_string()),
            ("ctime", (unix_ms() / 1000).to_string()),
            ("used-mem", braid_base::alloc::used_bytes().to_string()),
            ("aof-base", u8::from(self.is_base).to_string()),
        ]
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
    engine.commands.functions.map(|files| (files.save)(engine)).unwrap_or_default()
}

/// How near the end of the server is that a signal has asked for.
#[derive(Default)]
pub struct Ending(AtomicU8);

impl Ending {
    const SCHEDULED: u8 = 1;
    const BEGUN: u8 = 2;

    fn step(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Relaxed, Relaxed).is_ok()
    }

    /// Asks for the end; false if that has been done before.
    pub fn schedule(&self) -> bool {
        self.step(0, Ending::SCHEDULED)
    }

    /// True if it has been asked for and has not begun.
    pub fn is_scheduled(&self) -> bool {
        self.0.load(Relaxed) == Ending::SCHEDULED
    }

    /// Takes the request back (SHUTDOWN ABORT); false if there is none, or if it is too late.
    pub fn take_back(&self) -> bool {
        self.step(Ending::SCHEDULED, 0)
    }

    /// Begins; false if the request has been taken back.
    pub fn begin(&self) -> bool {
        self.step(Ending::SCHEDULED, Ending::BEGUN)
    }

    /// The server could not end: it can be asked again.
    pub fn fail(&self) {
        self.0.store(0, Relaxed);
    }
}

/// The server cannot end, since it cannot save.
#[derive(Debug, PartialEq, Eq)]
pub struct CannotEnd;

impl Engine {
    /// Saves all databases to the dump file, while the world is stopped. The outcome is in the log, too.
    pub fn save(&self, world: &World<'_>) -> Result<(), SaveError> {
        let settings = Settings::of(self);
        let notes = settings.notes();
        let saved = braid_persistence::save(&self.keyspace, world, &settings.options(&notes))
            .inspect_err(|error| log::warn!("Write error while saving DB to the disk: {error}"))?;
        log::info!(
            "DB saved on disk: {} keys, {} bytes, {:.3} seconds",
            saved.keys,
            saved.bytes,
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

    /// Loads the dump file at the start, before there is any data, while the loops already run: they serve what needs no data between
    /// slices of the load. False when there is no dump file.
    pub fn load_at_start(&self, limits: Limits) -> Result<bool, LoadFailure> {
        self.at_start(unix_ms(), |txn| self.load(txn, limits, Manner::AtStart))
    }

    /// As [`Engine::load_at_start`], but loads the append-only file, which changes are written to from then on.
    pub fn load_append_only_at_start(&self, limits: Limits) -> Result<AofLoaded, AofLoadError> {
        self.at_start(NOTHING_EXPIRED, |txn| {
            let loaded = self.load_append_only(txn, limits, true)?;
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
        let mut txn = Txn::world(&self.keyspace, &mut worker.context, world, 0, now);
        let loaded = load(&mut txn);
        if loaded.is_ok() {
            self.set_loading(false);
        } else {
            // What is there is no dataset: nobody may see it, and nobody may save it.
            self.persistence.progress.active.store(true, Relaxed);
        }
        loaded
    }

    /// Has commands that need data refused from now on, until [`Engine::load_at_start`] is done. Call it before the loops start.
    pub fn expect_load(&self) {
        self.set_loading(true);
    }

    pub(crate) fn set_loading(&self, is_loading: bool) {
        self.attention.set(LOADING, is_loading);
        self.config.set_loading(is_loading);
        // What the load does is no event.
        self.apply_settings();
    }

    /// Loads the dump file, while the world is stopped; false when there is none.
    pub fn load(&self, txn: &mut Txn<'_>, limits: Limits, manner: Manner) -> Result<bool, LoadFailure> {
        let config = &self.config;
        let name = config.dbfilename().to_string();
        let file = match File::open(&name) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(LoadFailure::Open(name, error)),
        };
        let len = file.metadata().ok().filter(|data| data.is_file()).map(|data| data.len());
        let progress = &self.persistence.progress;
        progress.begin(len.unwrap_or(0), unix_ms() / 1000);
        let delay = config.key_load_delay_microseconds();
        let mut slices = Slices::new(progress, manner == Manner::AtStart, delay);
        let loaded = self.load_dump(txn, &file, len, limits, manner, &mut slices);
        progress.end();
        loaded.inspect_err(|error| log::warn!("Internal error in RDB reading of {name}: {error}"))?;
        self.forget_changes();
        Ok(true)
    }

    /// Loads a dump of at most `len` bytes (if that is known) from the begin of a file, behind which more may follow.
    pub(crate) fn load_dump(
        &self,
        txn: &mut Txn<'_>,
        file: &File,
        len: Option<u64>,
        limits: Limits,
        manner: Manner,
        slices: &mut Slices<'_>,
    ) -> Result<Loaded, LoadError> {
        let (config, state) = (&self.config, &self.persistence);
        let options = LoadOptions {
            len,
            limits,
            relaxed: config.rdb_version_check() == RdbVersionCheck::Relaxed,
            checksum: config.rdbchecksum() && !self.debug.skip_checksums.load(Relaxed),
            replace: manner == Manner::Merge,
            threads: if len.is_some_and(|len| len < CREW_MIN) { 1 } else { config.io_threads() },
            progress: &state.progress,
        };
        let mut functions = Vec::new();
        let loaded = braid_persistence::load(txn, file, &options, slices, &mut |code| {
            functions.push(code.to_vec());
            Ok(())
        })?;
        if let Some(files) = self.commands.functions {
            let merges = manner == Manner::Merge;
            (files.load)(self, txn.context, &functions, merges).map_err(LoadError::Function)?;
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

    /// Ends the server: saves before, if `save` says so or, when it says nothing, if save points are configured. Afterwards no command is executed
    /// any more, since what it changed would be lost. It does not end if it cannot save, or while its append-only file has no base yet, unless
    /// `force` says so. `slot` is the calling
    /// thread's own, when it is an executing one.
    pub fn end(&self, slot: Option<usize>, save: Option<bool>, force: bool) -> Result<(), CannotEnd> {
        let progress = &self.persistence.progress;
        if self.busy.error().is_some() {
            // A script has the world, and will not give it back soon: it is ended, and nothing is saved.
            self.request_shutdown();
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
        // A script that has run for long under locks would keep the world from being stopped: it hears of the end by this.
        self.shutdown.store(true, Relaxed);
        let world = self.keyspace.gate.close(slot);
        // What is not all loaded must not replace what it is loaded from.
        let is_loading = progress.active.load(Relaxed);
        progress.stop.store(is_loading, Relaxed);
        if !is_loading && save.unwrap_or_else(|| !self.config.save_points().is_empty()) {
            log::info!("Saving the final RDB snapshot before exiting.");
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
        self.request_shutdown();
        Ok(())
    }
}
