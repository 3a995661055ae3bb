//! Reading a dump file into the keyspace.

use std::io::Read;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::unix_ms;
use braid_keyspace::{Txn, eviction};
use braid_rdb::{Access, Fault, FileReader, Limits, Record};

use crate::slices::{Slices, Stopped};
use crate::state::Progress;
use crate::value::from_rdb;

/// How to load.
pub struct LoadOptions<'a> {
    /// Size of the input in bytes, if known.
    pub len: Option<u64>,
    /// Thresholds between the forms of values.
    pub limits: Limits,
    /// Try versions that are not known (`rdb-version-check relaxed`).
    pub relaxed: bool,
    /// Check the checksum (`rdbchecksum`).
    pub checksum: bool,
    /// A key that is there already gives way; else it ends the load.
    pub replace: bool,
    pub progress: &'a Progress,
}

/// What was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    pub keys: u64,
    /// Keys left out since they were past their expiry.
    pub expired: u64,
    /// Keys left out since they had no members (dump files of some old servers have such keys).
    pub empty: u64,
    /// Bytes read.
    pub bytes: u64,
}

/// Why a load ended early. What was loaded until then stays.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("{0}")]
    File(#[from] braid_rdb::Error),
    #[error("{error}, in the value of key '{key}' of database {db}")]
    Value { error: braid_rdb::Error, key: String, db: u32 },
    #[error("RDB has duplicated key '{key}' in DB {db} (at byte {position})")]
    Duplicate { key: String, db: u32, position: u64 },
    #[error("the file has a database {number}, but there are only {databases}")]
    Database { number: u64, databases: u32 },
    #[error("Failed loading library, {0}")]
    Function(String),
    #[error("stopped")]
    Stopped,
}

/// Log the first so many keys without members by name.
const EMPTY_NAMED_MAX: u64 = 10;

impl From<Stopped> for LoadError {
    fn from(_: Stopped) -> LoadError {
        LoadError::Stopped
    }
}

/// Loads a dump file, while the world is stopped (as a whole, or in slices). Libraries of functions go to `function`. What is past its expiry
/// by the transaction's time is left out.
pub fn load(
    txn: &mut Txn<'_>,
    input: impl Read,
    options: &LoadOptions<'_>,
    slices: &mut Slices<'_>,
    function: &mut dyn FnMut(&[u8]) -> Result<(), String>,
) -> Result<Loaded, LoadError> {
    let db = txn.db();
    let loaded = Loader { txn, options, slices, loaded: Loaded::default() }.run(input, function);
    txn.set_db(db);
    loaded
}

struct Loader<'l, 't, 'p> {
    txn: &'l mut Txn<'t>,
    options: &'l LoadOptions<'l>,
    slices: &'l mut Slices<'p>,
    loaded: Loaded,
}

impl Loader<'_, '_, '_> {
    fn run(
        mut self,
        input: impl Read,
        function: &mut dyn FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<Loaded, LoadError> {
        let options = self.options;
        let mut reader = FileReader::new(input, options.len, options.relaxed, options.checksum)?;
        self.txn.set_db(0);
        loop {
            if self.slices.is_due() {
                let keys = self.loaded.keys;
                self.slices.turn(self.txn, reader.position(), || format!("{keys} keys"))?;
            }
            match reader.record()? {
                Record::Note { name, text } => self.note(&name, &text),
                Record::Database(number) => {
                    let databases = self.txn.keyspace().databases();
                    match u32::try_from(number) {
                        Ok(db) if db < databases => self.txn.set_db(db),
                        _ => return Err(LoadError::Database { number, databases }),
                    }
                }
                // Tables grow piece by piece: knowing the number beforehand saves nothing.
                Record::Size { .. } => {}
                Record::Function(code) => function(&code).map_err(LoadError::Function)?,
                Record::ModuleData(name) => {
                    log::warn!("The RDB file contains data of the module '{name}', which is left out");
                }
                Record::Key { kind, expire_at, access } => {
                    self.key(&mut reader, kind, expire_at, access)?;
                }
                Record::End { checked } => {
                    if !checked && options.checksum {
                        log::info!("RDB file was saved with checksum disabled: no check performed.");
                    }
                    break;
                }
            }
        }
        self.loaded.bytes = reader.position();
        Ok(self.loaded)
    }

    fn key<R: Read>(
        &mut self,
        reader: &mut FileReader<R>,
        kind: braid_rdb::Kind,
        expire_at: Option<i64>,
        access: Option<Access>,
    ) -> Result<(), LoadError> {
        let (db, now) = (self.txn.db(), self.txn.now());
        let position = reader.position();
        let readable = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        match reader.entry(kind, &self.options.limits, now) {
            Ok(_) if expire_at.is_some_and(|time| time < now) => self.loaded.expired += 1,
            Ok((name, value)) => {
                if self.options.replace {
                    self.txn.delete(name);
                }
                let clock = access.and_then(|access| self.clock(access));
                if !self.txn.add(name, from_rdb(value), expire_at, clock) {
                    return Err(LoadError::Duplicate { key: readable(name), db, position });
                }
                self.loaded.keys += 1;
            }
            Err(error) if matches!(error.fault, Fault::Empty) => {
                if self.loaded.empty < EMPTY_NAMED_MAX {
                    log::info!("skipping empty key: {}", readable(reader.name()));
                }
                self.loaded.empty += 1;
            }
            Err(error) => {
                return Err(LoadError::Value { error, key: readable(reader.name()), db });
            }
        }
        self.slices.after_record();
        Ok(())
    }

    /// The access clock that says what the file says, if the eviction policy keeps the like.
    fn clock(&self, access: Access) -> Option<u32> {
        let keyspace = self.txn.keyspace();
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

    fn note(&self, name: &[u8], text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        match name {
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
            _ if name.starts_with(b"%") => log::info!("RDB '{}': {text}", String::from_utf8_lossy(name)),
            _ => log::trace!("RDB note '{}': {text}", String::from_utf8_lossy(name)),
        }
    }
}
