// SPDX-License-Identifier: BSD-3-Clause
//! Files of active-active replication, next to the dump. They hold the state that must outlive
//! the process, so that its effects remain distinguishable from those of another process.
//!
//! ```text
//! active.manifest      identity of the server, upper bound of its stamps, the valid generation
//! active-N.state       complete state at the start of generation N (the bytes have a checksum)
//! active-N.log         the units applied since ([`log`])
//! active-N.copy        a peer's full copy, merged before the first unit of log N
//! active-N.tmp         a state being written
//! active-copy.tmp      a full copy that is not merged yet
//! active.boot          the start of the machine in which a process last used these files
//! ```
//! A new generation begins with its log; its state, taken at that moment, is written while the
//! log grows. The generation becomes valid once its state is complete and the manifest, which is
//! replaced atomically, names it. Until then the previous generation is valid: its state, its
//! log, and all later logs. Older logs are kept for peers that were away; the manifest records
//! the applied units before each of them.
//!
//! A crash may tear the end of a log: the log is truncated before its first incomplete record. A
//! log is synced before its successor begins. If that fails the log stays doubtful: the next one
//! can only begin a generation, and until that is valid its records are not on disk either
//! ([`ActiveFiles::is_doubtful`]). This module never interprets states, units, or records of
//! applied units.

mod log;

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use braid_base::crc::crc64;

use crate::files::{self, File};
use log::{HEAD, record_at};
pub use log::{Log, LogReader, Records};

const MANIFEST: &str = "active.manifest";
const BOOT: &str = "active.boot";
const STATE: &str = "state";
const LOG: &str = "log";
const COPY: &str = "copy";
const TEMPORARY: &str = "tmp";
const NEXT_COPY: &str = "active-copy.tmp";

/// Identity of the server, and the state of its files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActiveManifest {
    /// Random; identifies the server independently of its region number.
    pub identity: String,
    pub region: u8,
    /// Other servers know this one by its region number.
    pub is_final: bool,
    pub generation: u64,
    /// No issued stamp is above this.
    pub ceiling: u64,
    /// The process shut down cleanly: generation and dataset belong together.
    pub clean: bool,
    /// Permanently removed regions, one bit each.
    pub gone: u64,
    /// Other regions, with their servers' identities.
    pub members: Vec<(u8, String)>,
    /// Logs before this generation's that are kept for peers, oldest first, each with the units
    /// applied before it, as text without spaces.
    pub kept_logs: Vec<(u64, String)>,
}

impl ActiveManifest {
    fn text(&self) -> String {
        let mut text = format!(
            "version 1\nidentity {}\nregion {}\nsettled {}\ngeneration {}\nceiling {}\nclean {}\ngone {}\n",
            self.identity,
            self.region,
            u8::from(self.is_final),
            self.generation,
            self.ceiling,
            u8::from(self.clean),
            self.gone
        );
        for (region, identity) in &self.members {
            text.push_str(&format!("member {region} {identity}\n"));
        }
        for (number, begin) in &self.kept_logs {
            text.push_str(&format!("log {number} {begin}\n"));
        }
        let sum = crc64(0, text.as_bytes());
        text.push_str(&format!("sum {sum:016x}\n"));
        text
    }

    /// Replaces the manifest in a folder. It is on disk then.
    ///
    /// # Errors
    /// The former one may still be there.
    pub fn store(&self, folder: &Path) -> io::Result<()> {
        files::store(&folder.join(MANIFEST), self.text().as_bytes())
    }

    fn parse(text: &str) -> Option<ActiveManifest> {
        let at = text.find("sum ")?;
        let sum = u64::from_str_radix(text[at + 4..].trim_end(), 16).ok()?;
        let body = text.get(..at).filter(|body| crc64(0, body.as_bytes()) == sum)?;
        let mut manifest = ActiveManifest::default();
        let mut lines = body.lines();
        if lines.next() != Some("version 1") {
            return None;
        }
        for line in lines {
            let (name, value) = line.split_once(' ')?;
            match name {
                "identity" => manifest.identity = value.to_owned(),
                "region" => manifest.region = value.parse().ok()?,
                "settled" => manifest.is_final = value == "1",
                "generation" => manifest.generation = value.parse().ok()?,
                "ceiling" => manifest.ceiling = value.parse().ok()?,
                "clean" => manifest.clean = value == "1",
                "gone" => manifest.gone = value.parse().ok()?,
                "member" => {
                    let (region, identity) = value.split_once(' ')?;
                    manifest.members.push((region.parse().ok()?, identity.to_owned()));
                }
                "log" => {
                    let (number, begin) = value.split_once(' ')?;
                    manifest.kept_logs.push((number.parse().ok()?, begin.to_owned()));
                }
                _ => return None,
            }
        }
        Some(manifest)
    }
}

/// Identifies the present start of the machine, where the system tells it.
fn boot_id() -> Option<Vec<u8>> {
    let id = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim_ascii().to_vec()).filter(|id| !id.is_empty())
}

/// The files of a server in active mode.
pub struct ActiveFiles {
    folder: PathBuf,
    log: Option<Arc<Log>>,
    /// Number of the current log.
    number: u64,
    /// Numbers and sizes in bytes of the earlier logs, and of the copies between them.
    earlier: VecDeque<(u64, u64)>,
    copies: Vec<(u64, u64)>,
    /// The valid generation: recovery needs the logs and copies from there on.
    generation: u64,
    /// A log before this one is doubtful, and needed for recovery.
    doubtful_before: Option<u64>,
}

/// The state file of a new generation.
pub struct StateFile {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
    bytes: u64,
}

impl StateFile {
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    /// Completes the state and syncs it to disk; returns its size in bytes.
    ///
    /// # Errors
    /// If the file cannot be synced or renamed; it is removed then.
    pub fn finish(self) -> io::Result<u64> {
        let finished = self.file.sync_all().and_then(|()| files::replace(&self.temporary, &self.path));
        finished.map(|()| self.bytes).inspect_err(|_| files::remove(&self.temporary))
    }

    /// Discards the state.
    pub fn remove(self) {
        files::remove(&self.temporary);
    }
}

/// A full copy on disk, to be merged. There is at most one.
pub struct CopyFile {
    path: PathBuf,
    bytes: u64,
}

/// A full copy that is being written.
pub struct CopyWriter {
    file: File,
    copy: CopyFile,
}

impl CopyWriter {
    /// # Errors
    /// If the file cannot be created.
    pub fn begin(folder: &Path) -> io::Result<CopyWriter> {
        let path = folder.join(NEXT_COPY);
        Ok(CopyWriter { file: files::create(&path)?, copy: CopyFile { path, bytes: 0 } })
    }

    /// # Errors
    /// If the file cannot be written.
    pub fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        self.copy.bytes += piece.len() as u64;
        self.file.write_all(piece)
    }

    /// Completes the copy and syncs it to disk.
    ///
    /// # Errors
    /// If the file cannot be synced.
    pub fn finish(self) -> io::Result<CopyFile> {
        self.file.sync_all()?;
        Ok(self.copy)
    }
}

/// An item of a log.
pub enum Logged<'a> {
    Unit(&'a [u8]),
    Copy(Vec<u8>),
    /// The log of this number begins here.
    Log(u64),
}

/// Obsolete files.
pub struct ObsoleteFiles(Vec<PathBuf>);

impl ObsoleteFiles {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Deletes the files, which may take a while.
    pub fn remove(self) {
        self.0.iter().for_each(|path| files::remove(path));
    }
}

impl ActiveFiles {
    /// Whether a folder has such files.
    pub fn exist(folder: &Path) -> bool {
        folder.join(MANIFEST).exists()
    }

    /// Opens the files in a folder; returns the manifest if there is one.
    ///
    /// # Errors
    /// The manifest exists but is invalid or unreadable.
    pub fn open(folder: &Path) -> io::Result<(ActiveFiles, Option<ActiveManifest>)> {
        let files = ActiveFiles {
            folder: folder.to_owned(),
            log: None,
            number: 0,
            earlier: VecDeque::new(),
            copies: Vec::new(),
            generation: 0,
            doubtful_before: None,
        };
        files::remove(&files.folder.join(NEXT_COPY));
        let manifest = match read_all(&files.folder.join(MANIFEST))? {
            None => None,
            Some(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                Some(ActiveManifest::parse(&text).ok_or_else(|| damaged(MANIFEST))?)
            }
        };
        Ok((files, manifest))
    }

    /// Names the present start of the machine in the folder. Returns true if the former process
    /// named the same: what it wrote to files is there, whether or not it was forced to disk.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn note_boot(&self) -> io::Result<bool> {
        let path = self.folder.join(BOOT);
        let Some(boot) = boot_id() else {
            files::remove(&path);
            return Ok(false);
        };
        let is_same = read_all(&path)?.is_some_and(|former| former == boot);
        if !is_same {
            files::store(&path, &boot)?;
        }
        Ok(is_same)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, generation: u64, kind: &str) -> PathBuf {
        match kind {
            LOG => log::path(&self.folder, generation),
            kind => self.folder.join(format!("active-{generation}.{kind}")),
        }
    }

    /// Reads a generation's initial state; `None` if the file is missing.
    ///
    /// # Errors
    /// If the file exists and cannot be read.
    pub fn state(&self, generation: u64) -> io::Result<Option<Vec<u8>>> {
        read_all(&self.path(generation, STATE))
    }

    /// Finds the logs before a generation's and removes older files. Logs from `first` on were
    /// kept. Returns the first of the consecutive logs that lead up to the generation.
    pub fn find_earlier(&mut self, first: u64, generation: u64) -> u64 {
        self.earlier.clear();
        for number in (first..generation).rev() {
            let Ok(len) = files::len(&self.path(number, LOG)) else { break };
            self.earlier.push_front((number, len));
        }
        let first = generation - self.earlier.len() as u64;
        ObsoleteFiles(self.files_before(first)).remove();
        first
    }

    /// All numbered files below `first`.
    fn files_before(&self, first: u64) -> Vec<PathBuf> {
        let number_of = |path: &Path| {
            let kind = path.extension()?.to_str()?;
            let number = path.file_stem()?.to_str()?.strip_prefix("active-")?.parse().ok()?;
            [STATE, LOG, COPY, TEMPORARY].contains(&kind).then_some::<u64>(number)
        };
        let entries = self.folder.read_dir().into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        paths.filter(|path| number_of(path).is_some_and(|number| number < first)).collect()
    }

    /// Passes the content of a generation's log and of all later logs to `visit`, then continues
    /// after the last one. Returns the number of bytes cut from torn ends.
    ///
    /// # Errors
    /// If a log or a copy cannot be read, or a torn end cannot be cut off.
    pub fn resume_logs(&mut self, generation: u64, mut visit: impl FnMut(Logged<'_>)) -> io::Result<u64> {
        let (mut torn, mut number) = (0, generation);
        self.generation = generation;
        loop {
            if let Some(copy) = read_all(&self.path(number, COPY))? {
                self.copies.push((number, copy.len() as u64));
                visit(Logged::Copy(copy));
            }
            visit(Logged::Log(number));
            let path = self.path(number, LOG);
            let bytes = read_all(&path)?.unwrap_or_default();
            let mut at = 0;
            while let Ok(Some(record)) = record_at(&bytes[at..]) {
                visit(Logged::Unit(record));
                at += HEAD + record.len();
            }
            if at < bytes.len() {
                torn += (bytes.len() - at) as u64;
                files::cut_off(&path, at as u64)?;
            }
            // A state that was not completed.
            files::remove(&self.path(number, TEMPORARY));
            if !files::exists(&self.path(number + 1, LOG)) {
                self.log = Some(Arc::new(Log::new(files::open_to_write(&path)?, at as u64)));
                self.number = number;
                return Ok(torn);
            }
            self.earlier.push_back((number, at as u64));
            number += 1;
        }
    }

    /// The current log.
    ///
    /// # Errors
    /// If no log has begun.
    pub fn log(&self) -> io::Result<&Arc<Log>> {
        self.log.as_ref().ok_or_else(|| io::Error::other("there is no log"))
    }

    /// Bytes of the logs and copies after the valid state.
    pub fn log_bytes(&self) -> u64 {
        let needed = self.earlier.iter().chain(&self.copies).filter(|(number, _)| *number >= self.generation);
        needed.map(|(_, bytes)| bytes).sum::<u64>() + self.log_len()
    }

    /// Length of the current log in bytes.
    pub fn log_len(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.bytes())
    }

    /// Length of a log in bytes.
    pub fn len_of(&self, number: u64) -> u64 {
        let earlier = self.earlier.iter().find(|(of, _)| *of == number);
        earlier.map_or_else(|| self.log_len(), |(_, bytes)| *bytes)
    }

    /// True if a log that recovery needs could not be synced. No record counts as on disk until a
    /// generation that begins later is valid.
    pub fn is_doubtful(&self) -> bool {
        self.doubtful_before.is_some() || self.log.as_ref().is_some_and(|log| log.is_doubtful())
    }

    /// The number of the next log. Nothing else may hold the current one.
    fn next_number(&self) -> io::Result<u64> {
        let Some(log) = &self.log else { return Ok(0) };
        if Arc::strong_count(log) > 1 {
            return Err(io::Error::other("some records are not in the log"));
        }
        Ok(self.number + 1)
    }

    fn sync_log(&self) -> io::Result<()> {
        self.log.as_ref().map_or(Ok(()), |log| log.sync())
    }

    fn begin_log(&mut self, number: u64) -> io::Result<()> {
        let log = files::create(&self.path(number, LOG))?;
        if let Some(before) = self.log.replace(Arc::new(Log::new(log, 0))) {
            self.earlier.push_back((self.number, before.bytes()));
        }
        self.number = number;
        Ok(())
    }

    /// Starts the log of a new generation, and the file for its state. No thread appends to the
    /// present log any more. Later records go to the new one, and are found after the valid state
    /// whether or not the new state is completed. Returns the generation's number.
    ///
    /// # Errors
    /// If some records are not in the log, or one of the new files cannot be created. A failed sync
    /// of the present log is no error, but makes that log doubtful.
    pub fn begin(&mut self) -> io::Result<(u64, StateFile)> {
        let number = self.next_number()?;
        let is_synced = self.sync_log().is_ok();
        let temporary = self.path(number, TEMPORARY);
        let file = files::create(&temporary)?;
        self.begin_log(number)?;
        if !is_synced {
            self.doubtful_before = Some(number);
        }
        Ok((number, StateFile { file, temporary, path: self.path(number, STATE), bytes: 0 }))
    }

    /// Starts another log of the same generation and returns its number.
    ///
    /// # Errors
    /// If some records are not in the log, the present log cannot be synced, or the new one cannot
    /// be created.
    pub fn begin_next(&mut self) -> io::Result<u64> {
        let number = self.next_number()?;
        self.sync_log()?;
        self.begin_log(number)?;
        Ok(number)
    }

    /// Like [`ActiveFiles::begin_next`], for a log before whose units a copy is merged.
    ///
    /// # Errors
    /// As [`ActiveFiles::begin_next`], or if the copy cannot be renamed: the new log has begun
    /// then, without the copy.
    pub fn begin_with(&mut self, copy: CopyFile) -> io::Result<u64> {
        let number = self.begin_next()?;
        // No record follows yet, so the copy takes effect or not as a whole.
        files::replace(&copy.path, &self.path(number, COPY))?;
        self.copies.push((number, copy.bytes));
        Ok(number)
    }

    /// Drops the copy before a log, because it was not merged.
    pub fn drop_copy(&mut self, number: u64) {
        self.copies.retain(|(of, _)| *of != number);
        files::remove(&self.path(number, COPY));
    }

    /// The first log to keep so that the logs kept before a generation take at most `bytes_max`
    /// bytes.
    pub fn first_kept(&self, generation: u64, bytes_max: u64) -> u64 {
        let (mut first, mut bytes) = (generation, 0);
        for (number, len) in self.earlier.iter().rev().filter(|(number, _)| *number < generation) {
            bytes += len;
            if bytes > bytes_max {
                break;
            }
            first = *number;
        }
        first
    }

    /// Stops keeping the logs before `first_kept`.
    pub fn drop_logs(&mut self, first_kept: u64) -> ObsoleteFiles {
        let gone = self.earlier.partition_point(|(number, _)| *number < first_kept);
        ObsoleteFiles(self.earlier.drain(..gone).map(|(number, _)| log::path(&self.folder, number)).collect())
    }

    /// The manifest now names another generation: its log is the valid one, and earlier files are
    /// obsolete except for the kept logs.
    pub fn forget(&mut self, before: u64, generation: u64, first_kept: u64) -> ObsoleteFiles {
        self.generation = generation;
        self.doubtful_before = self.doubtful_before.filter(|before| *before > generation);
        self.copies.retain(|(number, _)| *number >= generation);
        let ObsoleteFiles(mut paths) = self.drop_logs(first_kept.min(generation));
        let of = |number| [STATE, COPY, TEMPORARY].map(|kind| self.path(number, kind));
        paths.extend((before..generation).flat_map(of).filter(|path| files::exists(path)));
        ObsoleteFiles(paths)
    }
}

fn damaged(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{name} is damaged"))
}

/// Reads a file; `None` if it does not exist.
fn read_all(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut file = match files::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(files: &mut ActiveFiles, generation: u64) -> (Vec<Vec<u8>>, u64) {
        let mut found = Vec::new();
        let visit = |logged: Logged<'_>| match logged {
            Logged::Unit(record) => found.push(record.to_vec()),
            Logged::Copy(copy) => found.push([&b"copy of "[..], &copy].concat()),
            Logged::Log(_) => {}
        };
        let torn = files.resume_logs(generation, visit).expect("readable");
        (found, torn)
    }

    fn append(files: &ActiveFiles, record: &[u8]) {
        let mut records = Records::default();
        records.add(record);
        files.log().expect("a log").append(&mut records).expect("written");
    }

    fn begin(files: &mut ActiveFiles, state: &[u8]) -> u64 {
        let (number, mut file) = files.begin().expect("begun");
        file.write(state).expect("written");
        assert_eq!(file.finish().expect("complete"), state.len() as u64);
        number
    }

    #[test]
    fn the_start_of_the_machine_is_recognized() {
        let folder = tempfile::tempdir().expect("a folder");
        let (files, _) = ActiveFiles::open(folder.path()).expect("an empty folder");
        assert!(!files.note_boot().expect("written"), "nobody used the folder before");
        assert_eq!(files.note_boot().expect("written"), boot_id().is_some());
        std::fs::write(folder.path().join(BOOT), "another start").expect("written");
        assert!(!files.note_boot().expect("written"));
        assert_eq!(files.note_boot().expect("written"), boot_id().is_some());
    }

    #[test]
    fn a_generation_comes_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut files, none) = ActiveFiles::open(folder.path()).expect("an empty folder");
        assert_eq!(none, None);
        assert_eq!(begin(&mut files, b"everything"), 0);
        let manifest = ActiveManifest {
            identity: "abc".into(),
            region: 7,
            is_final: true,
            generation: 0,
            ceiling: u64::MAX,
            clean: true,
            gone: 5,
            members: vec![(9, "def".into())],
            kept_logs: vec![(3, String::new()), (4, "1-2,3-4".into())],
        };
        manifest.store(folder.path()).expect("stored");
        append(&files, b"one");
        append(&files, b"1");
        let (mut again, found) = ActiveFiles::open(folder.path()).expect("there");
        assert_eq!(found, Some(manifest));
        assert_eq!(again.state(0).expect("readable").as_deref(), Some(&b"everything"[..]));
        assert_eq!(again.state(1).expect("a missing file is no error"), None);
        assert_eq!(records(&mut again, 0), (vec![b"one".to_vec(), b"1".to_vec()], 0));
        append(&again, b"two");
        // A crash in the middle of a record.
        let path = folder.path().join("active-0.log");
        let len = files::len(&path).expect("there");
        files::cut_off(&path, len - 1).expect("cut");
        let (mut last, _) = ActiveFiles::open(folder.path()).expect("there");
        assert_eq!(records(&mut last, 0), (vec![b"one".to_vec(), b"1".to_vec()], 14));
        append(&last, b"three");
        assert_eq!(records(&mut last, 0).0.len(), 3);
    }

    /// Names of the files in a folder, sorted.
    fn names(folder: &Path) -> Vec<String> {
        let entries = folder.read_dir().expect("a folder").map(|entry| entry.expect("readable"));
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Until a generation is valid, the logs of later generations follow the log of the valid
    /// one.
    #[test]
    fn a_generation_counts_when_it_is_complete() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut files, _) = ActiveFiles::open(folder.path()).expect("an empty folder");
        begin(&mut files, b"first");
        let mut expected = Vec::new();
        let mut write = |files: &mut ActiveFiles, record: &[u8]| {
            let log = Arc::clone(files.log().expect("a log"));
            assert!(files.begin().is_err(), "a pending record would end up in the wrong log");
            drop(log);
            append(files, record);
            expected.push(record.to_vec());
            expected.clone()
        };
        write(&mut files, b"one");
        // A generation that the process does not complete.
        let (number, mut state) = files.begin().expect("begun");
        state.write(b"half").expect("written");
        assert_eq!(number, 1);
        let there = write(&mut files, b"two");
        let (mut files, _) = ActiveFiles::open(folder.path()).expect("there");
        assert_eq!(records(&mut files, 0), (there, 0));
        assert_eq!(names(folder.path()), ["active-0.log", "active-0.state", "active-1.log"]);
        // A generation that is complete, but not named by the manifest.
        let bytes = files.log_bytes();
        assert_eq!(begin(&mut files, b"second"), 2);
        assert_eq!(files.log_bytes(), bytes);
        let there = write(&mut files, b"three");
        let (mut again, _) = ActiveFiles::open(folder.path()).expect("there");
        assert_eq!(records(&mut again, 0), (there, 0));
        assert_eq!(records(&mut again, 2), (vec![b"three".to_vec()], 0));
        // Now the manifest names it.
        files.forget(0, 2, 2).remove();
        assert_eq!(files.log_bytes(), 12 + 5);
        assert_eq!(names(folder.path()), ["active-2.log", "active-2.state"]);
    }

    /// A copy is found between the units before and after it, until a later generation becomes
    /// valid.
    #[test]
    fn a_copy_stands_between_logs() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut files, _) = ActiveFiles::open(folder.path()).expect("an empty folder");
        let copy = || {
            let mut writer = CopyWriter::begin(folder.path()).expect("begun");
            for piece in [&b"pe"[..], b"er"] {
                writer.write(piece).expect("written");
            }
            writer.finish().expect("on disk")
        };
        begin(&mut files, b"first");
        let log = Arc::clone(files.log().expect("a log"));
        assert!(files.begin_with(copy()).is_err(), "a pending record would end up after the copy");
        drop(log);
        append(&files, b"one");
        assert_eq!(files.begin_with(copy()).expect("begun"), 1);
        append(&files, b"two");
        let (number, state) = files.begin().expect("begun");
        assert_eq!((number, files.log_bytes()), (2, 2 * (12 + 3) + 4));
        append(&files, b"three");
        // A copy that is not merged.
        let refused = files.begin_with(copy()).expect("begun");
        files.drop_copy(refused);
        append(&files, b"four");
        // A copy that is only on disk when the process ends.
        copy();
        state.finish().expect("complete");
        let expected: Vec<Vec<u8>> =
            [&b"one"[..], b"copy of peer", b"two", b"three", b"four"].map(<[u8]>::to_vec).into();
        let (mut again, _) = ActiveFiles::open(folder.path()).expect("there");
        assert_eq!(records(&mut again, 0), (expected[..].to_vec(), 0));
        assert!(!names(folder.path()).contains(&NEXT_COPY.to_owned()));
        assert_eq!(records(&mut again, 2), (expected[3..].to_vec(), 0));
        files.forget(0, 2, 2).remove();
        assert_eq!(names(folder.path()), ["active-2.log", "active-2.state", "active-3.log"]);
    }

    /// Older logs are kept while they fit the size limit, and are found again.
    #[test]
    fn logs_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut files, _) = ActiveFiles::open(folder.path()).expect("an empty folder");
        begin(&mut files, b"first");
        for number in 1..=4 {
            append(&files, &[0; 88]);
            assert_eq!(files.begin_next().expect("begun"), number);
        }
        assert_eq!(begin(&mut files, b"second"), 5);
        assert_eq!((files.len_of(3), files.len_of(4), files.len_of(5)), (100, 0, 0));
        let first = |files: &ActiveFiles, bytes_max| files.first_kept(5, bytes_max);
        assert_eq!([0, 99, 100, 250, 1000].map(|most| first(&files, most)), [4, 4, 3, 2, 0]);
        assert_eq!(files.log_bytes(), 400);
        files.forget(0, 5, 2).remove();
        assert_eq!(files.log_bytes(), 0);
        let expected = ["active-2.log", "active-3.log", "active-4.log", "active-5.log", "active-5.state"];
        assert_eq!(names(folder.path()), expected);
        // A new process finds the consecutive logs from the given one on.
        let find = |first| {
            let (mut files, _) = ActiveFiles::open(folder.path()).expect("there");
            let first = files.find_earlier(first, 5);
            (first, names(folder.path()), files)
        };
        let (found, left, mut files) = find(2);
        assert_eq!((found, left.len()), (2, 5));
        assert_eq!(records(&mut files, 5), (Vec::new(), 0));
        assert_eq!(first(&files, 150), 3);
        files.drop_logs(3).remove();
        assert_eq!(names(folder.path()), expected[1..]);
        files::remove(&folder.path().join("active-3.log"));
        let (found, left, _) = find(2);
        assert_eq!((found, &left[..]), (4, &expected.map(str::to_owned)[2..]));
        // A file that an earlier process failed to remove.
        files::store(&folder.path().join("active-3.state"), b"left over").expect("stored");
        let (found, left, _) = find(5);
        assert_eq!((found, &left[..]), (5, &expected.map(str::to_owned)[3..]));
    }

    /// Records after such a log are of no use without it, so they do not count either.
    #[test]
    fn a_log_that_could_not_be_synced_is_doubtful_until_a_later_generation_is_valid() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut files, _) = ActiveFiles::open(folder.path()).expect("an empty folder");
        begin(&mut files, b"first");
        assert!(!files.is_doubtful());
        // Such a file cannot be synced.
        let fail = |files: &mut ActiveFiles| {
            let null = files::open_to_write(Path::new("/dev/null")).expect("a device");
            files.log = Some(Arc::new(Log::new(null, 0)));
        };
        fail(&mut files);
        assert!(files.begin_next().is_err() && files.is_doubtful());
        assert!(files.log().expect("a log").sync().is_err(), "no later attempt is trusted");
        assert_eq!(begin(&mut files, b"second"), 1);
        files.log().expect("a log").sync().expect("a real file");
        assert!(files.is_doubtful());
        // The next generation begins before this one is valid.
        fail(&mut files);
        assert_eq!(begin(&mut files, b"third"), 2);
        files.forget(0, 1, 1).remove();
        assert!(files.is_doubtful());
        files.forget(1, 2, 2).remove();
        assert!(!files.is_doubtful());
    }

    #[test]
    fn damage_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        ActiveManifest::default().store(folder.path()).expect("stored");
        let path = folder.path().join(MANIFEST);
        let mut bytes = read_all(&path).expect("there").expect("there");
        bytes[20] ^= 1;
        files::store(&path, &bytes).expect("damaged");
        assert!(ActiveFiles::open(folder.path()).is_err());
    }
}
