// SPDX-License-Identifier: BSD-3-Clause
//! Loads a dump file into the keyspace.
//!
//! One thread reads the file and finds where values end; with several threads, others decode them
//! and add the keys (`load/pool.rs`).

mod pool;
mod tally;
mod times;
pub(crate) mod verify;

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::unix_ms;
use braid_base::plural::plural;
use braid_keyspace::{Keyspace, Txn, eviction};
use braid_rdb::{Access, Error, Fault, FileReader, Limits, RdbType, Record, Traits};
use braid_resp::inline::split_words;

use crate::slices::{Slices, Stopped};
use crate::state::Progress;
use crate::value::read_value;
use crate::writer::INDEX_NOTE;
use pool::{Key, LoadPool, Terms};
use times::MemberTimes;

/// Which files are accepted.
#[derive(Clone, Copy)]
pub struct Accepts {
    /// Unknown versions (`rdb-version-check relaxed`).
    pub relaxed: bool,
    /// The checksum is checked (`rdbchecksum`).
    pub checksum: bool,
    /// Values of modules are left out; otherwise they are an error.
    pub skip_unsupported: bool,
}

/// Settings of a load.
pub struct LoadOptions<'a> {
    /// Size of the input in bytes, if known.
    pub len: Option<u64>,
    pub accepts: Accepts,
    /// Limits of the compact encodings.
    pub limits: Limits,
    /// Replace existing keys; otherwise they end the load with an error.
    pub replace: bool,
    /// Receives the names of keys left out as expired, with their databases.
    pub expired: Option<&'a ExpiredKeys>,
    /// Target of the file's database 0; later databases follow it.
    pub first_db: u32,
    /// Threads that decode values besides the reading thread; with fewer than two, the reader
    /// does everything.
    pub threads: usize,
    /// The threads yield busy processors: clients are served during the load.
    pub stands_back: bool,
    pub progress: &'a Progress,
}

/// Keys of a file that were past their expiry, with their databases.
pub type ExpiredKeys = parking_lot::Mutex<Vec<(u32, Box<[u8]>)>>;

/// Result of a load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    pub keys: u64,
    /// Keys left out as expired.
    pub expired: u64,
    /// Keys left out as empty (dump files of some old servers contain such keys).
    pub empty: u64,
    /// Keys left out because of their types (`skip_unsupported`).
    pub unsupported: u64,
    /// Bytes read.
    pub bytes: u64,
    /// The replication history recorded in the file.
    pub replication: Option<ReplicationNote>,
    /// The requests that make the indexes over the keys.
    pub indexes: Vec<Vec<Vec<u8>>>,
}

/// Replication history recorded in a dump file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicationNote {
    /// The replication ID.
    pub id: [u8; 40],
    /// Offset in that history up to which the dataset contains it.
    pub offset: u64,
    /// The database selected in the replication stream.
    pub db: u32,
}

/// The parts of a [`ReplicationNote`] read so far.
#[derive(Default)]
struct ReplicationNotes {
    id: Option<[u8; 40]>,
    offset: Option<u64>,
    db: Option<u32>,
}

impl ReplicationNotes {
    fn complete(&self) -> Option<ReplicationNote> {
        Some(ReplicationNote { id: self.id?, offset: self.offset?, db: self.db.unwrap_or(0) })
    }
}

impl Loaded {
    fn add(&mut self, other: &Loaded) {
        self.keys += other.keys;
        self.expired += other.expired;
        self.empty += other.empty;
    }
}

/// Why a load ended early. Keys loaded before remain.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("{0}")]
    File(#[from] braid_rdb::Error),
    #[error("{error}, in the value of key '{key}' of database {db}")]
    Value { error: braid_rdb::Error, key: String, db: u32 },
    #[error("RDB has duplicated key '{key}' in DB {db} (at byte {position})")]
    Duplicate { key: String, db: u32, position: u64 },
    #[error("the file has database {number}, but 'databases' is {databases}")]
    Database { number: u64, databases: u32 },
    #[error("Failed loading library, {0}")]
    Function(String),
    #[error("a loading thread panicked")]
    Thread,
    #[error("stopped")]
    Stopped,
}

/// Maximum number of keys that are logged by name because they are left out.
const NAMED_MAX: u64 = 10;

impl LoadError {
    /// True if the data is of a kind that this version cannot load: the same data fails again.
    pub fn is_unsupported(&self) -> bool {
        match self {
            LoadError::File(error) | LoadError::Value { error, .. } => {
                matches!(error.fault, Fault::Module(_) | Fault::UnknownType(_) | Fault::Version(_))
            }
            LoadError::Database { .. } | LoadError::Function(_) => true,
            LoadError::Duplicate { .. } | LoadError::Thread | LoadError::Stopped => false,
        }
    }

    /// True if the file itself is damaged; braid-check-rdb reports details.
    pub fn is_damage(&self) -> bool {
        match self {
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

impl From<Stopped> for LoadError {
    fn from(_: Stopped) -> LoadError {
        LoadError::Stopped
    }
}

/// Loads a dump file, while the world is stopped (throughout, or in slices). Passes libraries of
/// functions to `function`. Leaves out keys that are expired at the transaction's time.
///
/// # Errors
/// If the input ends early or fails, is not a dump of an accepted version, is damaged, or has a
/// value, a library or a database that cannot be loaded; [`LoadError::Stopped`] if the load is to
/// end. The keys before the error are loaded.
pub fn load(
    txn: &mut Txn<'_>,
    input: impl Read,
    options: &LoadOptions<'_>,
    slices: &mut Slices<'_>,
    function: &mut dyn FnMut(&[u8]) -> Result<(), String>,
) -> Result<Loaded, LoadError> {
    let Accepts { relaxed, checksum, .. } = options.accepts;
    let reader = FileReader::new(input, options.len, relaxed, checksum)?;
    let db = txn.db();
    txn.set_db(options.first_db);
    // Replacing keys triggers events, which only the thread that stopped the world may report.
    let alone = options.threads < 2 || options.replace || slices.waits() || txn.stopped_world().is_none();
    let threads = if alone { 0 } else { options.threads };
    let terms = Terms {
        keyspace: txn.keyspace(),
        version: reader.version(),
        limits: options.limits,
        now_ms: txn.now(),
        slot: txn.context.slot,
        expired: options.expired,
        stands_back: options.stands_back,
    };
    let loaded = std::thread::scope(|scope| {
        let pool = LoadPool::start(scope, threads, terms).unwrap_or_else(|error| {
            log::warn!("Cannot start the loading threads: {error}");
            None
        });
        let (loaded, unsupported, times, replication) = Default::default();
        let loader =
            Loader { txn: &mut *txn, options, slices, pool, loaded, unsupported, times, replication };
        loader.run(reader, function)
    });
    txn.set_db(db);
    loaded
}

struct Loader<'l, 't, 'p> {
    txn: &'l mut Txn<'t>,
    options: &'l LoadOptions<'l>,
    slices: &'l mut Slices<'p>,
    pool: Option<LoadPool>,
    loaded: Loaded,
    /// Number of keys left out because of their types, by module type.
    unsupported: BTreeMap<String, u64>,
    /// Expiry times of members from the file's notes, not yet set.
    times: MemberTimes,
    replication: ReplicationNotes,
}

impl Loader<'_, '_, '_> {
    fn run<R: Read>(
        mut self,
        mut reader: FileReader<R>,
        function: &mut dyn FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<Loaded, LoadError> {
        let outcome = self.read(&mut reader, function);
        // Faults in earlier records are reported first.
        drain(&mut self.pool)?;
        if let Err(LoadError::Value { error, key, .. }) = &outcome
            && let Fault::Module(kind) = &error.fault
            && !self.options.stands_back
        {
            log::warn!("{}", tally::tally(&mut reader, kind, key));
        }
        outcome?;
        self.times.set_all(self.txn);
        if let Some(pool) = &self.pool {
            self.loaded.add(&pool.loaded);
        }
        for (name, count) in &self.unsupported {
            log::warn!(
                "{} of the module type '{name}' left out (rdb-skip-unknown-modules)",
                plural(*count, "key")
            );
        }
        self.loaded.bytes = reader.position();
        self.loaded.replication = self.replication.complete();
        Ok(self.loaded)
    }

    fn read<R: Read>(
        &mut self,
        reader: &mut FileReader<R>,
        function: &mut dyn FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), LoadError> {
        loop {
            if self.slices.is_due() {
                let keys = self.keys();
                let pool = &mut self.pool;
                let position = reader.position();
                self.slices.turn(self.txn, position, || plural(keys, "key"), || drain(pool))?;
            }
            match reader.record()? {
                Record::Note { name, text } => {
                    if !self.times.note(self.txn.db(), reader.name(), &name, &text) {
                        self.note(&name, &text);
                    } else if self.times.are_many() {
                        drain(&mut self.pool)?;
                        self.times.set_all(self.txn);
                    }
                }
                Record::Database(number) => {
                    let databases = self.txn.keyspace().databases();
                    match u32::try_from(number) {
                        Ok(db) if db < databases => self.txn.set_db(self.options.first_db + db),
                        _ => return Err(LoadError::Database { number, databases }),
                    }
                }
                // Tables grow incrementally: knowing the size in advance saves nothing.
                Record::Size { .. } => {}
                Record::Function(code) => function(&code).map_err(LoadError::Function)?,
                Record::ModuleData(name) => {
                    log::warn!("The RDB file contains data of the module '{name}', which is skipped");
                }
                Record::Key { kind, expire_at, traits } => {
                    if !self.hand_over(reader, kind, expire_at, traits)? {
                        self.key(reader, kind, expire_at, traits)?;
                    }
                }
                Record::End { checked } => {
                    if !checked && self.options.accepts.checksum {
                        log::info!("RDB file was saved with checksum disabled: no check performed.");
                    }
                    return Ok(());
                }
            }
        }
    }

    /// Number of keys so far.
    fn keys(&self) -> u64 {
        self.loaded.keys + self.pool.as_ref().map_or(0, |pool| pool.loaded.keys)
    }

    /// Passes a key to the pool. False if the caller must read it itself.
    #[inline]
    fn hand_over<R: Read>(
        &mut self,
        reader: &mut FileReader<R>,
        kind: RdbType,
        expire_at: Option<i64>,
        traits: Traits,
    ) -> Result<bool, LoadError> {
        let Some(pool) = &mut self.pool else { return Ok(false) };
        let position = reader.position();
        let value = if reader.name().len() <= pool::VALUE_MAX {
            reader.raw_entry(kind, pool::VALUE_MAX)
        } else {
            None
        };
        let Some((name, value)) = value else {
            // Large, or invalid. While this thread decodes it, no other thread may change the
            // tables.
            pool.drain()?;
            return Ok(false);
        };
        let key = Key { name, db: self.txn.db(), kind, expire_at, traits, position };
        pool.add(self.txn.keyspace(), &key, value)?;
        Ok(true)
    }

    fn key<R: Read>(
        &mut self,
        reader: &mut FileReader<R>,
        kind: RdbType,
        expire_at: Option<i64>,
        traits: Traits,
    ) -> Result<(), LoadError> {
        let (db, now_ms) = (self.txn.db(), self.txn.now());
        let position = reader.position();
        let (name, decoder) = reader.name_and_value();
        match read_value(decoder, kind, &self.options.limits, now_ms) {
            Ok(_) if expire_at.is_some_and(|time| time < now_ms) => {
                self.loaded.expired += 1;
                if let Some(expired) = self.options.expired {
                    expired.lock().push((db, name.into()));
                }
            }
            Ok(value) => {
                if self.options.replace {
                    self.txn.delete(name);
                }
                let clock = traits.access.and_then(|access| clock_of(self.txn.keyspace(), access));
                if !self.txn.add(name, value, expire_at, clock) {
                    return Err(LoadError::Duplicate { key: readable(name), db, position });
                }
                if traits.is_protected {
                    self.txn.protect_loaded(name);
                }
                self.loaded.keys += 1;
            }
            Err(error) if matches!(error.fault, Fault::Empty) => note_empty(reader.name(), &mut self.loaded),
            Err(error) if matches!(error.fault, Fault::LeftOut(_)) => {
                log::warn!("key '{}' is skipped: {error}", readable(reader.name()));
            }
            Err(Error { fault: Fault::Module(kind), .. }) if self.options.accepts.skip_unsupported => {
                if self.loaded.unsupported < NAMED_MAX {
                    log::warn!("key '{}' is left out: its type is '{kind}'", readable(reader.name()));
                }
                self.loaded.unsupported += 1;
                *self.unsupported.entry(kind).or_default() += 1;
            }
            Err(error) => {
                return Err(LoadError::Value { error, key: readable(reader.name()), db });
            }
        }
        self.slices.after_record();
        Ok(())
    }

    fn note(&mut self, name: &[u8], text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        match name {
            b"repl-id" => self.replication.id = text.as_bytes().try_into().ok(),
            b"repl-offset" => self.replication.offset = text.parse().ok(),
            b"repl-stream-db" => self.replication.db = text.parse().ok(),
            b"redis-ver" | b"valkey-ver" => log::info!("Loading RDB produced by version {text}"),
            b"ctime" => {
                let age = unix_ms() / 1000 - text.parse().unwrap_or(0);
                log::info!("RDB age {} seconds", age.max(0));
            }
            b"used-mem" => {
                let bytes = text.parse::<u64>().unwrap_or(0);
                self.options.progress.used_memory.store(bytes, Relaxed);
                log::info!("RDB memory usage when created {:.2} Mb", bytes as f64 / (1 << 20) as f64);
            }
            b"aof-base" if text == "1" => log::info!("RDB is base AOF"),
            _ if name == INDEX_NOTE.as_bytes() => {
                // Made by this server's kin: otherwise it is no request, and nothing is made.
                self.loaded.indexes.extend(split_words(text.as_bytes()));
            }
            _ if name.starts_with(b"%") => log::info!("RDB '{}': {text}", String::from_utf8_lossy(name)),
            _ => log::trace!("RDB note '{}': {text}", String::from_utf8_lossy(name)),
        }
    }
}

fn drain(pool: &mut Option<LoadPool>) -> Result<(), LoadError> {
    pool.as_mut().map_or(Ok(()), LoadPool::drain)
}

fn readable(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Counts an empty key, which is left out.
fn note_empty(name: &[u8], loaded: &mut Loaded) {
    if loaded.empty < NAMED_MAX {
        log::info!("skipping empty key: {}", readable(name));
    }
    loaded.empty += 1;
}

/// The access clock for the file's idle time or frequency, if the eviction policy uses it.
fn clock_of(keyspace: &Keyspace, access: Access) -> Option<u32> {
    match access {
        Access::Idle(seconds) if !keyspace.settings.policy().is_lfu() => {
            let seconds = u32::try_from(seconds).unwrap_or(u32::MAX).min(eviction::IDLE_MAX);
            Some(eviction::clock_for_idle(keyspace, seconds))
        }
        Access::Frequency(count) if keyspace.settings.policy().is_lfu() => {
            Some(eviction::clock_for_frequency(keyspace, count))
        }
        _ => None,
    }
}
