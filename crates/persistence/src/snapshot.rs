// SPDX-License-Identifier: BSD-3-Clause
//! Writes a file of all keys while the dataset is in use, from a snapshot of the keyspace
//! (`keyspace/snapshot.rs`).
//!
//! The thread walks the tables, a few entries at a time. Writers that are ahead of it hand it old
//! forms, encoded as in the file; their order in the file does not matter (`old_forms.rs`). It
//! never waits for the disk while it holds a shard.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use braid_base::gate::World;
use braid_base::prefetch::CACHE_LINE;
use braid_keyspace::cow_entry::CowEntry;
use braid_keyspace::snapshot_walk::Walk;
use braid_keyspace::table::TableCursor;
use braid_keyspace::{Entry, Keyspace};
use parking_lot::Mutex;

use crate::form::Form;
use crate::old_forms::{OldForms, Record};
use crate::save::{Pause, SaveError, SaveOptions, Saved, Written, begin, end, replace, version};
use crate::staging_buffer::StagingBuffer;
use crate::synced_file::Sink;
use crate::temporary::Purpose;
use crate::throttle::Throttle;
use crate::writer::Writer;

/// Entries examined per hold of a shard; an entry counts once more for each `STEP_BYTES` bytes.
/// Therefore other threads wait only a few microseconds for the shard, except at a huge value.
const STEP: usize = 32;
const STEP_BYTES: usize = 256;
/// Entries are prefetched before the shard is locked, up to this many cache lines of each; the
/// hardware prefetches the rest of longer ones. The header before the name takes about this many
/// bytes.
const LINES_MAX: usize = 6;
const ENTRY_HEAD: usize = 16;
/// Entries per step once the snapshot has failed and writes no more entries.
const STEP_FAILED: usize = 1024;

/// Number of old forms for which memory is kept.
const SPARE: usize = 4096;

/// The state of the dataset at one moment, written by [`write_snapshot`] on a thread of its own.
pub struct Cut {
    forms: Arc<OldForms>,
    /// Database, number of keys, and of keys with an expiry.
    databases: Vec<(u32, usize, usize)>,
    version: u16,
    form: Form,
}

impl Cut {
    /// Keys of all databases.
    pub fn keys(&self) -> u64 {
        self.databases.iter().map(|&(_, keys, _)| keys as u64).sum()
    }
}

/// Makes a cut, to be written in the given form; `None` while another cut is being written. Old
/// forms of entries may take `limit` bytes before writers are slowed.
pub fn cut(
    keyspace: &Keyspace,
    world: &World<'_>,
    forms: &Arc<OldForms>,
    limit: usize,
    form: Form,
) -> Option<Cut> {
    let keeper: Arc<OldForms> = Arc::clone(forms);
    if !keyspace.begin_snapshot(world, keeper) {
        return None;
    }
    forms.begin(limit, form);
    let forms = Arc::clone(forms);
    let databases = (0..keyspace.databases()).map(|db| {
        let (keys, expiring) = keyspace.len(db);
        (db, keys, expiring)
    });
    // There is no time to check whether the values need the later version.
    let version = version(form, keyspace.has_expiring_members());
    Some(Cut { forms, databases: databases.collect(), version, form })
}

/// Progress of a snapshot, readable by any thread.
#[derive(Default)]
pub struct SnapshotProgress {
    /// Keys written.
    pub keys: AtomicU64,
    stop: AtomicBool,
    /// Held while the new file replaces the old one.
    replacing: Mutex<()>,
}

impl SnapshotProgress {
    /// Cancels the snapshot, unless its file has already replaced the old one. After this call it
    /// never does.
    pub fn stop(&self) {
        let _replacing = self.replacing.lock();
        self.stop.store(true, Relaxed);
    }

    /// Resets the progress for a new snapshot.
    pub fn begin(&self) {
        self.keys.store(0, Relaxed);
        self.stop.store(false, Relaxed);
    }

    /// True if it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    fn check(&self) -> io::Result<()> {
        if self.is_stopped() { Err(io::Error::other("stopped")) } else { Ok(()) }
    }
}

/// The destination, until it fails.
struct Output<'o> {
    file: io::Result<Writer>,
    /// Entries copied from shards, not yet written.
    staged: StagingBuffer,
    /// The database of the staged entries.
    origin: u32,
    forms: &'o OldForms,
    /// Spare memory for old forms.
    spare: Vec<Record>,
    pause: Pause,
    throttle: Throttle,
    keys: u64,
    form: Form,
    times_left_out: u64,
    /// Keys since the last pause.
    unpaused: u64,
    /// Average number of cache lines of the entries staged last.
    lines: usize,
    progress: &'o SnapshotProgress,
}

impl Output<'_> {
    /// Fails if the snapshot was stopped.
    fn heed_stop(&mut self) {
        if let (Ok(_), Err(error)) = (&self.file, self.progress.check()) {
            self.fail(error);
        }
    }

    fn put(&mut self, write: impl FnOnce(&mut Writer) -> io::Result<()>) {
        if let Ok(writer) = &mut self.file
            && let Err(error) = write(writer)
        {
            self.fail(error);
        }
    }

    fn fail(&mut self, error: io::Error) {
        self.file = Err(error);
        self.forms.give_up();
    }

    /// Stages an entry, or writes it (only to memory while a shard is `held`); [`Output::let_go`]
    /// writes it out. All entries until then belong to one database. Returns the entry's weight
    /// ([`STEP`]).
    fn entry(&mut self, keyspace: &Keyspace, origin: u32, entry: Entry<'_>, held: bool) -> usize {
        self.keys += 1;
        self.unpaused += 1;
        self.times_left_out += self.form.times_left_out(entry);
        let Ok(writer) = &mut self.file else { return 1 };
        self.origin = origin;
        let bytes = match self.staged.take(keyspace, entry, writer.packed_format()) {
            Some(bytes) => bytes,
            None => {
                let before = writer.written();
                if held {
                    writer.hold();
                }
                let written = writer.select(origin).and_then(|()| writer.entry(keyspace, entry));
                let bytes = writer.written() - before;
                if let Err(error) = written {
                    self.fail(error);
                }
                bytes as usize
            }
        };
        1 + bytes / STEP_BYTES
    }

    /// Writes an entry with a shared large collection. No shard is held, so this may write to the
    /// file.
    fn shared(&mut self, keyspace: &Keyspace, origin: u32, entry: &CowEntry) {
        self.times_left_out += self.form.times_left_out(entry.entry());
        self.put(|writer| {
            writer.select(origin)?;
            writer.entry(keyspace, entry.entry())
        });
        self.unpaused += 1;
        self.let_go();
    }

    /// Writes the entries that writers have handed over. No shard is held.
    fn drain(&mut self, walk: &Walk<'_>, keyspace: &Keyspace) {
        let forms = self.forms;
        // Entries handed over in the meantime use the room made before.
        let mut records = std::mem::take(&mut self.spare);
        if forms.take_records(&mut records) {
            let bytes = records.iter().map(|record| record.bytes.len()).sum();
            for record in records.drain(..) {
                self.put(|writer| {
                    writer.select(record.origin)?;
                    writer.encoded_keys(&record.bytes)
                });
            }
            records.shrink_to(SPARE);
            forms.records_written(bytes);
        }
        self.spare = records;
        for (origin, entry) in forms.take_shared() {
            self.shared(keyspace, origin, &entry);
            forms.shared_written(entry);
        }
        for (origin, tables) in forms.take_tables() {
            for table in &tables {
                let mut cursor = Some(TableCursor::default());
                while let Some(at) = cursor {
                    // SAFETY: the tables have been removed from the keyspace, so no thread changes
                    // them.
                    cursor = unsafe {
                        table.scan_weighed(at, STEP, |entry| {
                            if walk.is_due(entry) { self.entry(keyspace, origin, entry, false) } else { 1 }
                        })
                    };
                    self.let_go();
                }
            }
            keyspace.lazy_free.send(tables.into());
        }
    }

    /// Writes the staged entries, and pauses if the throttle requires it. No shard is held.
    fn let_go(&mut self) {
        let (origin, mut staged) = (self.origin, std::mem::take(&mut self.staged));
        if let Some(bytes) = staged.average_bytes() {
            self.lines = (ENTRY_HEAD + bytes).div_ceil(CACHE_LINE).min(LINES_MAX);
        }
        self.put(|writer| {
            writer.let_go()?;
            if staged.is_empty() {
                return Ok(());
            }
            writer.select(origin)?;
            staged.write(writer)
        });
        staged.clear();
        self.staged = staged;
        self.throttle.pause_if_due();
        for _ in 0..std::mem::take(&mut self.unpaused) {
            if self.file.is_ok() {
                let progress = self.progress;
                self.pause.after_key(|| progress.is_stopped());
                self.heed_stop();
            }
        }
    }
}

/// Writes a snapshot to a file, in the form of its cut. Whether or not this succeeds, the
/// snapshot is over afterwards, and another cut can be made.
///
/// # Errors
/// If the file cannot be created, written, synced or renamed, or the snapshot is called off. A
/// previous file stays as it was.
pub fn write_snapshot(
    keyspace: &Keyspace,
    cut: Cut,
    options: &SaveOptions<'_>,
    progress: &SnapshotProgress,
) -> Result<Saved, SaveError> {
    let mut walked = false;
    let throttle = Throttle::new(&cut.forms, options.requests.clone());
    debug_assert_eq!(cut.form.is_dump(), options.form.is_dump(), "old forms are kept in the cut's form");
    let in_writing = |file| {
        walked = true;
        let writer = begin(options, Sink::file(file), cut.version, Some(throttle.clone()));
        write(keyspace, &cut, writer, options.key_delay, throttle.clone(), progress)
    };
    let in_replacing = || {
        let guard = progress.replacing.lock();
        progress.check().map(|()| guard)
    };
    let saved = replace(options, Purpose::Snapshot, in_writing, in_replacing);
    if !walked {
        // Even without a file, the walk must make the marks of all entries equal.
        let nowhere = Err(io::Error::from(io::ErrorKind::NotFound));
        let _ = write(keyspace, &cut, nowhere, 0, throttle, progress);
    }
    saved
}

/// Like [`write_snapshot`], but writes to `to`; the path in `options` is ignored.
///
/// # Errors
/// If `to` fails, or the snapshot is called off.
pub fn send_snapshot(
    keyspace: &Keyspace,
    cut: Cut,
    options: &SaveOptions<'_>,
    to: Box<dyn io::Write>,
    progress: &SnapshotProgress,
) -> io::Result<(u64, u64)> {
    debug_assert_eq!(cut.form.is_dump(), options.form.is_dump(), "old forms are kept in the cut's form");
    let throttle = Throttle::new(&cut.forms, options.requests.clone());
    let writer = begin(options, Sink::Other(to), cut.version, Some(throttle.clone()));
    let written = write(keyspace, &cut, writer, options.key_delay, throttle, progress)?;
    Ok((written.keys, written.bytes))
}

fn write(
    keyspace: &Keyspace,
    cut: &Cut,
    file: io::Result<Writer>,
    key_delay: i64,
    throttle: Throttle,
    progress: &SnapshotProgress,
) -> io::Result<Written> {
    let forms = &*cut.forms;
    if file.is_err() {
        forms.give_up();
    }
    let mut out = Output {
        file,
        staged: StagingBuffer::default(),
        origin: 0,
        forms,
        spare: Vec::new(),
        pause: Pause::new(key_delay),
        throttle,
        keys: 0,
        form: cut.form,
        times_left_out: 0,
        unpaused: 0,
        lines: 1,
        progress,
    };
    let mut walk = keyspace.walk_snapshot();
    for &(origin, keys, expiring) in &cut.databases {
        if keys > 0 {
            out.put(|writer| writer.database(origin, keys as u64, expiring as u64));
        }
        for shard in 0..keyspace.shard_count() as u32 {
            let mut cursor = Some(TableCursor::default());
            while let Some(at) = cursor {
                out.heed_stop();
                let step = if out.file.is_ok() { STEP } else { STEP_FAILED };
                let lines = out.lines;
                cursor = walk
                    .step(origin, shard, at, step, lines, |entry| out.entry(keyspace, origin, entry, true));
                out.let_go();
                out.drain(&walk, keyspace);
                progress.keys.store(out.keys + forms.keys(), Relaxed);
            }
        }
    }
    // Writers hand over no entries from here on; those already handed over remain to be written.
    walk.end();
    out.drain(&walk, keyspace);
    let keys = out.keys + forms.keys();
    let written =
        Written { keys, times_left_out: out.times_left_out + forms.times_left_out(), bytes: end(out.file?)? };
    Ok(written)
}
