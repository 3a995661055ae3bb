// SPDX-License-Identifier: BSD-3-Clause
//! Writes all keys to a file.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use braid_base::gate::World;
use braid_keyspace::{Keyspace, ValueRef, object};
use braid_rdb::FileWriter;

use crate::aof::RequestWriter;
use crate::form::Form;
use crate::synced_file::{Sink, SyncedFile};
use crate::temporary::{Purpose, create_temporary, temporary_path};
use crate::throttle::{RequestCount, Throttle};
use crate::writer::Writer;

/// Settings of a save.
pub struct SaveOptions<'a> {
    /// The file's final name.
    pub path: &'a Path,
    /// The form in which keys are written. The next two options apply to dump files only.
    pub form: Form,
    /// `rdbcompression`
    pub compress: bool,
    /// `rdbchecksum`
    pub checksum: bool,
    /// Sync the file piece by piece (`rdb-save-incremental-fsync`).
    pub sync_pieces: bool,
    /// Delay after each key in microseconds; if negative, one microsecond after this many keys
    /// (`rdb-key-save-delay`).
    pub key_delay: i64,
    /// Notes at the start of the file: names and texts.
    pub notes: &'a [(&'a str, String)],
    /// Libraries of functions.
    pub functions: &'a [Vec<u8>],
    /// The requests that make the indexes over the keys.
    pub indexes: &'a [Vec<Vec<u8>>],
    /// Background saves leave processors to clients while this count grows; always, if it is
    /// `None`.
    pub requests: Option<RequestCount>,
}

/// Result of a save.
#[derive(Clone, Copy, Debug)]
pub struct Saved {
    pub keys: u64,
    pub bytes: u64,
    pub duration: Duration,
}

/// Why a save failed. A previous file with the final name is unchanged.
#[derive(Debug, thiserror::Error)]
#[error("{action} {}: {error}", path.display())]
pub struct SaveError {
    action: &'static str,
    path: PathBuf,
    #[source]
    error: io::Error,
}

/// Saves all databases, while the world is stopped.
///
/// # Errors
/// If the file cannot be created, written, synced or renamed. A previous file stays as it was.
pub fn save(keyspace: &Keyspace, world: &World<'_>, options: &SaveOptions<'_>) -> Result<Saved, SaveError> {
    replace(options, Purpose::Save, |file| write(keyspace, world, options, file), || Ok(()))
}

/// Content of a file.
pub(crate) struct Written {
    pub keys: u64,
    pub bytes: u64,
    /// Members that became permanent because the form cannot store their expiry.
    pub times_left_out: u64,
}

/// Writes a file and replaces the old one while holding the guard that `may_replace` returns.
///
/// The file is written under another name in the same folder, synced, and only then renamed; then
/// the folder is synced. At any time, even after a power failure, either the old file or the new
/// one exists.
pub(crate) fn replace<G>(
    options: &SaveOptions<'_>,
    purpose: Purpose,
    write: impl FnOnce(File) -> io::Result<Written>,
    may_replace: impl FnOnce() -> io::Result<G>,
) -> Result<Saved, SaveError> {
    let began = Instant::now();
    let folder = match options.path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let temporary = temporary_path(folder, purpose);
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |error| SaveError { action, path, error }
    };
    let file = create_temporary(&temporary).map_err(failed("cannot create", &temporary))?;
    let written = write(file);
    let saved = written.map_err(failed("cannot write", &temporary)).and_then(|written| {
        let _guard = may_replace().map_err(failed("cannot keep", &temporary))?;
        fs::rename(&temporary, options.path).map_err(failed("cannot move the new file to", options.path))?;
        let sync_folder = || File::open(folder)?.sync_all();
        sync_folder().map_err(failed("cannot sync the folder", folder))?;
        warn_of_losses(options, &written);
        Ok(Saved { keys: written.keys, bytes: written.bytes, duration: began.elapsed() })
    });
    if saved.is_err() {
        // The file may have been renamed already, or not yet created.
        let _ = fs::remove_file(&temporary);
    }
    saved
}

/// Logs what the file lacks because the target format cannot express it.
fn warn_of_losses(options: &SaveOptions<'_>, written: &Written) {
    let Form::Dump(format) = options.form else { return };
    if written.times_left_out > 0 {
        log::warn!(
            "rdb-target: {} members of collections lose their expiry: the target format cannot store it",
            written.times_left_out
        );
    }
    if !options.functions.is_empty() && !format.knows_functions() {
        log::warn!("rdb-target: functions are omitted from the file");
    }
}

fn write(
    keyspace: &Keyspace,
    world: &World<'_>,
    options: &SaveOptions<'_>,
    file: File,
) -> io::Result<Written> {
    let mut writer = begin(options, Sink::file(file), version_needed(keyspace, world, options.form), None)?;
    let (mut total, mut times_left_out, mut pause) = (0, 0, Pause::new(options.key_delay));
    for db in 0..keyspace.databases() {
        let (keys, expiring) = keyspace.len(db);
        if keys == 0 {
            continue;
        }
        writer.database(db, keys as u64, expiring as u64)?;
        let mut result = Ok(());
        keyspace.visit(world, db, |entry| {
            result = writer.entry(keyspace, entry);
            pause.after_key(|| false);
            total += 1;
            times_left_out += options.form.times_left_out(entry);
            result.is_ok()
        });
        result?;
    }
    Ok(Written { keys: total, bytes: end(writer)?, times_left_out })
}

/// Opens a dump and writes everything before the keys. `throttle` is set for background saves.
pub(crate) fn begin(
    options: &SaveOptions<'_>,
    file: Sink,
    version: u16,
    throttle: Option<Throttle>,
) -> io::Result<Writer> {
    let file = SyncedFile::new(file, options.sync_pieces, throttle);
    let mut writer = match options.form {
        Form::Dump(format) => {
            let writer = FileWriter::new(file, version, options.compress, options.checksum)?;
            Writer::Dump(writer.with_format(format))
        }
        Form::Requests(time_s) => Writer::Requests(RequestWriter::new(file, time_s)),
    };
    for (name, text) in options.notes {
        writer.note(name, text)?;
    }
    let has_functions = !matches!(options.form, Form::Dump(format) if !format.knows_functions());
    for code in options.functions.iter().filter(|_| has_functions) {
        writer.function(code)?;
    }
    for request in options.indexes {
        writer.index(request)?;
    }
    Ok(writer)
}

/// Writes a dump without keys: only the notes and functions in the options.
///
/// # Errors
/// If `to` fails.
pub fn send_without_keys(options: &SaveOptions<'_>, to: Box<dyn Write>) -> io::Result<u64> {
    end(begin(options, Sink::Other(to), version(options.form, false), None)?)
}

/// Ends a file and syncs it. Returns its size in bytes.
pub(crate) fn end(writer: Writer) -> io::Result<u64> {
    let (synced, bytes) = writer.finish()?;
    synced.sync_all()?;
    Ok(bytes)
}

/// The version of a file; `expiring`: its values may need the version that supports expiring
/// members.
pub(crate) fn version(form: Form, expiring: bool) -> u16 {
    match form {
        Form::Dump(format) => format.version(expiring),
        Form::Requests(_) => braid_rdb::VERSION,
    }
}

/// The version of a file of all keys. Only some values need a later version than usual, and most
/// processes never have any.
fn version_needed(keyspace: &Keyspace, world: &World<'_>, form: Form) -> u16 {
    let mut expiring = false;
    if object::types().any(|known| (known.may_need_expiry_version)()) {
        for db in 0..keyspace.databases() {
            keyspace.visit(world, db, |entry| {
                if let ValueRef::Object(object) = entry.value() {
                    expiring |= object.collection().needs_expiry_version();
                }
                !expiring
            });
        }
    }
    version(form, expiring)
}

/// Interval at which a wait checks for its end.
const PAUSE_SLICE: Duration = Duration::from_millis(10);

/// The delay after each key that tests configure.
pub(crate) struct Pause {
    delay: i64,
    keys: u64,
}

impl Pause {
    pub(crate) fn new(delay: i64) -> Pause {
        Pause { delay, keys: 0 }
    }

    /// Waits until the delay is over or `stopped` returns true.
    pub(crate) fn after_key(&mut self, stopped: impl Fn() -> bool) {
        if self.delay == 0 {
            return;
        }
        self.keys += 1;
        if self.delay > 0 {
            let mut left = Duration::from_micros(self.delay.unsigned_abs());
            while !left.is_zero() && !stopped() {
                let slice = left.min(PAUSE_SLICE);
                std::thread::sleep(slice);
                left -= slice;
            }
        } else if self.keys.is_multiple_of(self.delay.unsigned_abs()) {
            std::thread::sleep(Duration::from_micros(1));
        }
    }
}
