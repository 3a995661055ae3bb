// SPDX-License-Identifier: BSD-3-Clause
//! Loads an append-only file: its base, then its increments in order, command by command.
//!
//! Log lines use Redis's words, because people and scripts look for them. A failed load has logged
//! its reason; the keyspace then holds no valid dataset.
//!
//! A file that was being written at a power failure ends within a command, or has zeros in place
//! of data that was not synced. If it is the last file, it is truncated there
//! (`aof-load-truncated`). Any other damage fails the load and leaves the files unchanged.

pub mod outcome;

use std::io::{ErrorKind, Seek, SeekFrom};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use braid_base::clock::unix_ms;
use braid_base::plural::plural;
use braid_base::system_text::reason;
use braid_config::Config;
use braid_executor::dispatch::replay::{Replay, Source};
use braid_executor::engine::Engine;
use braid_executor::journal_uses;
use braid_keyspace::Txn;
use braid_keyspace::txn::NOTHING_EXPIRED;
use braid_persistence::files::{self, File};
use braid_persistence::{
    AofRecord, CommandReader, FileInfo, FileKind, Folder, HistoryPosition, LoadError, Manifest, ReadError,
    ReplicationNote, Slices, data_len, ends_data, hole_before,
};
use smallvec::SmallVec;

use crate::load_defrag::LoadDefrag;
use crate::saving::{self, Manner};

pub use outcome::{AofLoadError, AofLoaded};

/// How a file ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Good,
    Empty,
    /// Within a command or a transaction: it is truncated.
    Cut,
    /// A hole begins here: the file is truncated.
    Hole(u64),
}

/// The file being loaded.
struct Present<'f> {
    name: String,
    path: std::path::PathBuf,
    folder: &'f Folder,
    /// This is the last file with data.
    ends_data: bool,
}

/// The folder of the append-only file, as configured.
pub fn append_only_folder(config: &Config) -> Folder {
    folder_in_dir(config, &config.appenddirname())
}

/// A folder inside of `dir` with files of these names.
pub(crate) fn folder_in_dir(config: &Config, name: &str) -> Folder {
    // Absolute: the current directory is `dir`, which may have changed by the time the work ends.
    let dir = std::env::current_dir().unwrap_or_default();
    Folder::new(dir.join(name), &*config.appendfilename())
}

/// Loads the append-only file while the world is stopped. Nothing may expire in the transaction
/// ([`NOTHING_EXPIRED`]). `at_start`: serve clients between slices.
///
/// # Errors
/// If the manifest or a file cannot be read, or a file is missing, truncated where that is not
/// allowed, damaged, or has unknown commands. The changes before the error have been applied.
pub fn load_append_only(
    engine: &Engine,
    txn: &mut Txn<'_>,
    at_start: bool,
) -> Result<AofLoaded, AofLoadError> {
    debug_assert_eq!(txn.now(), NOTHING_EXPIRED);
    let folder = append_only_folder(&engine.config);
    let loaded = folder.load_manifest().and_then(|mut manifest| {
        folder.adopt_old_file(&mut manifest)?;
        Ok(manifest)
    });
    let manifest = loaded.inspect_err(|error| {
        // At start the caller logs the reason in one line.
        if !at_start {
            error.messages().iter().for_each(|line| log::warn!("{line}"));
        }
    })?;
    let mut loaded = AofLoaded { folder, manifest, place: None };
    let began = Instant::now();
    loop {
        match (load_all(engine, txn, at_start, &loaded), txn.stopped_world()) {
            (Ok(place), _) => {
                loaded.place = place;
                break;
            }
            (Err(AofLoadError::ReadHole), Some(world)) => {
                drop(engine.keyspace.flush(world, None));
                engine.scripts.clear_libraries();
            }
            (Err(error), _) => return Err(error),
        }
    }
    if !loaded.manifest.has_no_data() {
        log::info!("DB loaded from append only file: {:.3} seconds", began.elapsed().as_secs_f64());
    }
    Ok(loaded)
}

/// Loads all files of a manifest once. Returns the dataset's place in the replication history,
/// if it is known.
fn load_all(
    engine: &Engine,
    txn: &mut Txn<'_>,
    at_start: bool,
    loaded: &AofLoaded,
) -> Result<Option<ReplicationNote>, AofLoadError> {
    let sizes = sizes(&loaded.folder, &loaded.manifest)?;
    let progress = &engine.persistence.progress;
    progress.begin(sizes.iter().sum(), unix_ms() / 1000);
    let db = txn.db();
    let outcome = load_files(engine, txn, at_start, loaded, &sizes);
    txn.set_db(db);
    progress.end();
    outcome
}

/// Clears the dataset and loads the append-only file again, while the world is stopped (DEBUG
/// LOADAOF).
///
/// # Errors
/// As [`load_append_only`]; the server shuts down then, because there is no valid dataset.
pub fn reload_append_only(engine: &Engine, txn: &mut Txn<'_>) -> Result<(), AofLoadError> {
    txn.journal_now();
    let (keyspace, appender) = (&engine.keyspace, &engine.append_only.appender);
    keyspace.journal.wake();
    while engine.append_only.on.load(Relaxed)
        && appender.written() < keyspace.journal.end()
        && appender.failure().is_none()
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    // The loaded changes are in the file already.
    keyspace.settings.journals.store(0, Relaxed);
    saving::set_loading(engine, true);
    if let Some(world) = txn.stopped_world() {
        drop(keyspace.flush(world, None));
    }
    let now = txn.set_now(NOTHING_EXPIRED);
    engine.scripts.clear_libraries();
    let loaded = {
        // A rewrite that ends meanwhile would replace the files being read.
        let _files = engine.append_only.hold_files();
        load_append_only(engine, txn, false)
    };
    txn.set_now(now);
    saving::set_loading(engine, false);
    if let Err(error) = loaded {
        // Saving would write a partial dataset.
        engine.persistence.progress.active.store(true, Relaxed);
        saving::set_loading(engine, true);
        engine.shutdown.request();
        return Err(error);
    }
    journal_uses::apply_journal_uses(engine);
    engine.keyspace.forget_changes();
    Ok(())
}

fn load_files(
    engine: &Engine,
    txn: &mut Txn<'_>,
    at_start: bool,
    loaded: &AofLoaded,
    sizes: &[u64],
) -> Result<Option<ReplicationNote>, AofLoadError> {
    let delay = engine.config.key_load_delay_microseconds();
    let defrag = LoadDefrag::new(engine);
    let upkeep = |txn: &mut Txn<'_>| defrag.turn(txn);
    let mut slices = Slices::new(&engine.persistence.progress, at_start, delay).with_upkeep(&upkeep);
    let mut replay = Replay::new(engine, Source::File);
    let mut place = None;
    let files: Vec<(FileKind, &FileInfo)> = loaded.manifest.data().collect();
    for (index, ((kind, info), &size)) in files.iter().zip(sizes).enumerate() {
        let began = Instant::now();
        let present = Present {
            name: info.name.display().to_string(),
            path: loaded.folder.path(&info.name),
            folder: &loaded.folder,
            ends_data: ends_data(&loaded.manifest, index, |info| loaded.folder.path(&info.name)),
        };
        let (end, at) = load_file(engine, txn, at_start, &mut slices, &mut replay, &present)?;
        slices.end_file(size);
        let part = if *kind == FileKind::Base { "base" } else { "incr" };
        if end != End::Empty {
            place = at;
            let seconds = began.elapsed().as_secs_f64();
            log::info!("DB loaded from {part} file {}: {seconds:.3} seconds", present.name);
        }
    }
    if replay.refused > 0 {
        let (refused, all) = (replay.refused, replay.executed);
        log::warn!(
            "{refused} of the append-only file's {all} commands were refused: the dataset may be \
             incomplete or wrong"
        );
        if let Some(group) = &engine.group {
            group.distrust_files();
        }
        return Ok(None);
    }
    Ok(place.map(|HistoryPosition { id, offset }| ReplicationNote { id, offset, db: replay.db() }))
}

/// Loads one file and returns how it ended, and its place in the replication history.
fn load_file(
    engine: &Engine,
    txn: &mut Txn<'_>,
    at_start: bool,
    slices: &mut Slices<'_>,
    replay: &mut Replay,
    present: &Present<'_>,
) -> Result<(End, Option<HistoryPosition>), AofLoadError> {
    let name = &present.name;
    let mut file = files::open(&present.path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => fail(format!("The append log file {name} doesn't exist: {}", reason(&error))),
        _ => fail(format!(
            "Fatal error: can't open the append log file {name} for reading: {}",
            reason(&error)
        )),
    })?;
    let unreadable = |error: std::io::Error| {
        fail(format!("Unrecoverable error reading the append only file {name}: {}", reason(&error)))
    };
    let size = file.metadata().map_err(unreadable)?.len();
    // A dump may end with zeros: its checksum.
    let has_dump = files::begins_with_dump(&mut file).map_err(unreadable)?;
    let len = if has_dump { size } else { data_len(&mut file).map_err(unreadable)? };
    if size > len {
        log::info!("Truncating the preallocated zeros at the end of the AOF file {name}");
        files::cut_off(&present.path, len).map_err(unreadable)?;
    }
    if len == 0 {
        return Ok((End::Empty, None));
    }
    let mut position = 0;
    if has_dump {
        position = load_base(engine, txn, at_start, slices, present, &file, len)?;
        file.seek(SeekFrom::Start(position)).map_err(unreadable)?;
    }
    let mut reader = CommandReader::resume(file, Some(len), position, Vec::new());
    let end = replay_file(engine, txn, slices, replay, &mut reader, present)?;
    replay.end_file();
    match end {
        End::Cut => cut(engine, present, reader.usable())?,
        End::Hole(hole) if reader.whole() <= hole => truncate(present, reader.usable())?,
        End::Hole(hole) => {
            truncate(present, hole)?;
            return Err(AofLoadError::ReadHole);
        }
        End::Good => return Ok((end, reader.place())),
        End::Empty => {}
    }
    Ok((end, None))
}

/// Looks for a hole as the cause of an error at a position, if the file may be truncated.
fn hole(engine: &Engine, present: &Present<'_>, checked: u64, position: u64) -> std::io::Result<Option<u64>> {
    if !engine.config.aof_load_truncated() || !present.ends_data {
        return Ok(None);
    }
    hole_before(&files::open(&present.path)?, checked, position)
}

/// Loads the dump at the file's start and returns its size.
fn load_base(
    engine: &Engine,
    txn: &mut Txn<'_>,
    at_start: bool,
    slices: &mut Slices<'_>,
    present: &Present<'_>,
    file: &File,
    len: u64,
) -> Result<u64, AofLoadError> {
    let name = &present.name;
    let is_old = name == present.folder.name();
    if is_old {
        log::info!("Reading RDB preamble from AOF file...");
    } else {
        log::info!("Reading RDB base file on AOF loading...");
    }
    let manner = if at_start { Manner::AtStart } else { Manner::Strict };
    txn.set_db(0);
    let loaded = saving::load_dump(engine, txn, file, Some(len), manner, slices);
    match loaded {
        Ok(loaded) => {
            if is_old {
                log::info!("Reading the remaining AOF tail...");
            }
            Ok(loaded.bytes)
        }
        Err(LoadError::Stopped) => Err(AofLoadError::Stopped),
        Err(error) => {
            log::warn!("Internal error in RDB reading of {name}: {error}");
            let what = if is_old { "RDB preamble of the AOF file" } else { "RDB base file" };
            let advice = match error.is_damage() {
                true => {
                    format!(
                        ". Run 'braid-check-rdb {}' to see how much of it can be read",
                        present.path.display()
                    )
                }
                false => String::new(),
            };
            Err(fail(format!("Error reading the {what} {name}, AOF loading aborted{advice}")))
        }
    }
}

/// Runs the commands of a file up to its end.
fn replay_file(
    engine: &Engine,
    txn: &mut Txn<'_>,
    slices: &mut Slices<'_>,
    replay: &mut Replay,
    reader: &mut CommandReader<File>,
    present: &Present<'_>,
) -> Result<End, AofLoadError> {
    let name = &present.name;
    loop {
        if slices.is_due() {
            if txn.context.follow_up.get() && engine.persistence.progress.active.load(Relaxed) {
                engine.trackers.flush_invalidations(txn.context, None);
            }
            let commands = replay.executed;
            slices.turn::<AofLoadError>(txn, reader.position(), || plural(commands, "command"), || Ok(()))?;
        }
        match reader.read() {
            Ok(Some(AofRecord::Command)) => {}
            Ok(Some(_)) => continue,
            Ok(None) if reader.in_transaction() => {
                log::warn!("Revert incomplete MULTI/EXEC transaction in AOF file {name}");
                return Ok(End::Cut);
            }
            Ok(None) => return Ok(End::Good),
            Err(ReadError::Truncated) => return Ok(End::Cut),
            Err(error @ ReadError::Io(_)) => {
                return Err(fail(format!(
                    "Unrecoverable error reading the append only file {name}: {error}"
                )));
            }
            Err(ref error @ (ReadError::Format { position, .. } | ReadError::Checksum { position })) => {
                if let Ok(Some(hole)) = hole(engine, present, reader.checked(), position) {
                    log::warn!(
                        "!!! Warning: zeros at offset {hole} of the AOF file {name}, in place of data \
                         that was not synced !!!"
                    );
                    return Ok(End::Hole(hole));
                }
                return Err(fail(format!(
                    "Bad file format reading the append only file {name}: make a backup of your AOF file, then use \
                     braid-check-aof --fix {} ({error})",
                    present.folder.manifest_path().display()
                )));
            }
        }
        replay.prefetch(engine, reader.just_found());
        let args: SmallVec<[&[u8]; 16]> = reader.args().collect();
        replay
            .run(engine, txn, &args)
            .map_err(|error| fail(format!("{error} reading the append only file {name}")))?;
        slices.after_record();
    }
}

/// Truncates a file after its usable part, if allowed.
fn cut(engine: &Engine, present: &Present<'_>, usable: u64) -> Result<(), AofLoadError> {
    let name = &present.name;
    if !engine.config.aof_load_truncated() {
        return Err(fail(format!(
            "Unexpected end of file reading the append only file {name}. You can: 1) Make a backup of your AOF file, then use \
             braid-check-aof --fix {}. 2) Alternatively you can set the 'aof-load-truncated' configuration option to yes and \
             restart the server.",
            present.folder.manifest_path().display()
        )));
    }
    log::warn!("!!! Warning: short read while loading the AOF file {name}!!!");
    if !present.ends_data {
        // A repair may need the data of all files, so nothing is truncated.
        return Err(fail("Fatal error: the truncated file is not the last file".to_owned()));
    }
    truncate(present, usable)
}

fn truncate(present: &Present<'_>, len: u64) -> Result<(), AofLoadError> {
    let name = &present.name;
    log::warn!("!!! Truncating the AOF {name} at offset {len} !!!");
    files::cut_off(&present.path, len)
        .map_err(|error| fail(format!("Error truncating the AOF file {name}: {}", reason(&error))))?;
    log::warn!("AOF {name} loaded anyway because aof-load-truncated is enabled");
    Ok(())
}

/// Logs the error and returns it.
fn fail(text: String) -> AofLoadError {
    log::warn!("{text}");
    AofLoadError::File(text)
}

/// Sizes of the data files. A missing file is an error, because the dataset would be incomplete.
fn sizes(folder: &Folder, manifest: &Manifest) -> Result<Vec<u64>, AofLoadError> {
    let size = |info: &FileInfo| {
        files::len(&folder.path(&info.name)).map_err(|error| {
            fail(format!(
                "Unable to obtain the AOF file {} length. stat: {}",
                info.name.display(),
                reason(&error)
            ))
        })
    };
    manifest.data().map(|(_, info)| size(info)).collect()
}
