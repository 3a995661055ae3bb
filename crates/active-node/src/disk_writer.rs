// SPDX-License-Identifier: BSD-3-Clause
//! The threads that write the log and the manifest, and force them to disk. A disk can take
//! seconds for that; the active-active thread goes on meanwhile, reads the journal and merges
//! peers' units.
//!
//! Units enter the outbox once they are in the log, never before, and in the same order. What
//! waits for the disk is bounded by the active-active thread: writing clients wait
//! ([`super::thread`]'s throttle), and so do peers' units.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use braid_active::vector::Run;
use braid_active::{Stamp, Vector};
use braid_base::clock::unix_ms;
use braid_executor::engine::Engine;
use braid_executor::{durability, threads};
use braid_persistence::active::{ActiveManifest, Log, Records};
use parking_lot::{Condvar, Mutex};

use super::state::{Active, Order};
use crate::state;

/// Delay before another attempt to write.
const RETRY: Duration = Duration::from_millis(100);
/// How long the writer waits for the active-active thread to remove files from a full disk.
const ROOM: Duration = Duration::from_secs(1);
/// Capacity kept for units, in bytes and in units.
const BYTES_KEPT: usize = 1 << 20;
const UNITS_KEPT: usize = 16 << 10;

/// Units for the log, and then for the outbox.
#[derive(Default)]
pub(super) struct Chunk {
    pub records: Records,
    /// First stamp of each record's unit, and its run up to and including the unit.
    pub units: Vec<(Stamp, Run)>,
}

impl Chunk {
    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    fn clear(&mut self) {
        self.records.clear(BYTES_KEPT);
        self.units.clear();
        self.units.shrink_to(UNITS_KEPT);
    }
}

enum Job {
    /// `applied`: everything that is applied once the units are.
    Append {
        chunk: Chunk,
        log: Arc<Log>,
        applied: Vector,
    },
    Sync {
        log: Arc<Log>,
        until: u64,
    },
}

/// What the second thread does.
enum ToDisk {
    Log(Sync),
    Manifest { manifest: Box<ActiveManifest>, then: Then },
}

/// What follows once the manifest is on disk.
enum Then {
    Nothing,
    /// A ceiling is in effect.
    Ceiling(Stamp),
    /// The active-active thread waits for the outcome.
    Answer(SyncSender<io::Result<()>>),
}

/// A request to force a log to disk.
struct Sync {
    log: Arc<Log>,
    /// The journal is covered up to here.
    until: u64,
    /// The units in the log.
    logged: Vector,
}

/// What the writing threads have not done yet, and their problems.
#[derive(Default)]
struct State {
    /// Since when each chunk waits, in ms of Unix time, and its bytes.
    chunks: VecDeque<(i64, usize)>,
    bytes: usize,
    /// The number of queued syncs and manifests.
    syncs: usize,
    /// The number of chunks written so far.
    written: u64,
    /// The last attempt to write has failed.
    has_failed: bool,
    /// A manifest could not be written since [`DiskWriter::take_manifest_failure`].
    manifest_has_failed: bool,
    /// The disk is full: the writer waits for files to be removed.
    wants_room: bool,
    /// Nothing more will be queued; what cannot be written is given up.
    is_closing: bool,
    /// A cleared chunk, to be used again.
    spare: Option<Chunk>,
}

#[derive(Default)]
struct Progress {
    state: Mutex<State>,
    changed: Condvar,
}

impl Progress {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        self.changed.notify_all();
    }
}

/// The outcome of a wait.
pub(super) enum Waited {
    Over,
    /// The log cannot be written.
    Failed,
    /// The disk is full. The caller removes files if it can, and calls [`DiskWriter::note_room`].
    WantsRoom,
}

/// The active-active thread's side of the writing threads, which end when it is dropped.
pub(super) struct DiskWriter {
    jobs: Sender<Job>,
    to_disk: Sender<ToDisk>,
    progress: Arc<Progress>,
    /// The number of chunks queued so far.
    queued: u64,
}

impl Drop for DiskWriter {
    fn drop(&mut self) {
        self.progress.change(|state| state.is_closing = true);
    }
}

impl DiskWriter {
    /// Starts the threads, for the files in a folder.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(engine: &Engine, folder: &Path) -> io::Result<DiskWriter> {
        let (jobs, queue) = channel();
        let (to_disk, disk_queue) = channel();
        let (syncs, folder) = (to_disk.clone(), folder.to_owned());
        let progress = Arc::new(Progress::default());
        spawn("active-log", engine, &progress, move |writer| write(writer, &queue, &syncs))?;
        spawn("active-sync", engine, &progress, move |writer| bring_to_disk(writer, &folder, &disk_queue))?;
        Ok(DiskWriter { jobs, to_disk, progress, queued: 0 })
    }

    /// An empty chunk.
    pub fn empty_chunk(&self) -> Chunk {
        self.progress.state.lock().spare.take().unwrap_or_default()
    }

    /// Queues units for a log. `applied`: everything that is applied once they are.
    pub fn append(&mut self, chunk: Chunk, log: &Arc<Log>, applied: &Vector) {
        self.queued += 1;
        {
            let mut state = self.progress.state.lock();
            state.bytes += chunk.records.bytes();
            state.chunks.push_back((unix_ms(), chunk.records.bytes()));
        }
        let _ = self.jobs.send(Job::Append { chunk, log: Arc::clone(log), applied: applied.clone() });
    }

    /// Queues a sync of a log, after everything queued so far. The journal is then covered up to
    /// `until`.
    pub fn sync(&self, log: &Arc<Log>, until: u64) {
        self.progress.state.lock().syncs += 1;
        let _ = self.jobs.send(Job::Sync { log: Arc::clone(log), until });
    }

    /// Queues the manifest to replace the present one.
    pub fn store(&self, manifest: &ActiveManifest) {
        self.store_then(manifest, Then::Nothing);
    }

    /// [`DiskWriter::store`] for a manifest with a new ceiling. [`Order::Ceiling`] follows.
    pub fn store_with_ceiling(&self, manifest: &ActiveManifest, ceiling: Stamp) {
        self.store_then(manifest, Then::Ceiling(ceiling));
    }

    /// [`DiskWriter::store`] that waits until the manifest is on disk.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn store_now(&self, manifest: &ActiveManifest) -> io::Result<()> {
        let (answer, outcome) = sync_channel(1);
        self.store_then(manifest, Then::Answer(answer));
        outcome.recv().unwrap_or_else(|_| Err(io::Error::other("the server shuts down")))
    }

    fn store_then(&self, manifest: &ActiveManifest, then: Then) {
        self.progress.state.lock().syncs += 1;
        let manifest = Box::new(manifest.clone());
        let _ = self.to_disk.send(ToDisk::Manifest { manifest, then });
    }

    /// True if a manifest for which no thread waited could not be written since the last call.
    pub fn take_manifest_failure(&self) -> bool {
        std::mem::take(&mut self.progress.state.lock().manifest_has_failed)
    }

    /// The number of the last chunk queued so far.
    pub fn queued(&self) -> u64 {
        self.queued
    }

    /// True if the chunk with this number has been written.
    pub fn has_written(&self, number: u64) -> bool {
        self.progress.state.lock().written >= number
    }

    /// How long the oldest queued units have been waiting, in ms, and the bytes of all of them.
    pub fn behind(&self, now_ms: i64) -> (u64, u64) {
        let state = self.progress.state.lock();
        let since_ms = state.chunks.front().map_or(now_ms, |(since_ms, _)| *since_ms);
        (now_ms.saturating_sub(since_ms).max(0) as u64, state.bytes as u64)
    }

    /// Waits until everything queued so far has been done.
    pub fn wait_until_idle(&self) -> Waited {
        self.wait(|state| state.chunks.is_empty() && state.syncs == 0)
    }

    /// Waits until at most `most` bytes are queued.
    pub fn wait_until_below(&self, most: u64) -> Waited {
        self.wait(|state| state.bytes as u64 <= most)
    }

    fn wait(&self, is_over: impl Fn(&State) -> bool) -> Waited {
        let mut state = self.progress.state.lock();
        loop {
            if is_over(&state) {
                return Waited::Over;
            }
            if state.wants_room {
                return Waited::WantsRoom;
            }
            if state.has_failed {
                return Waited::Failed;
            }
            self.progress.changed.wait(&mut state);
        }
    }

    /// Files have been removed from a full disk, or there are none to remove.
    pub fn note_room(&self) {
        self.progress.change(|state| state.wants_room = false);
    }
}

/// A writing thread's view of the server.
struct Writer<'e> {
    engine: &'e Engine,
    active: &'e Active,
    progress: &'e Progress,
}

fn spawn(
    name: &str,
    engine: &Engine,
    progress: &Arc<Progress>,
    run: impl FnOnce(&Writer<'_>) + Send + 'static,
) -> io::Result<()> {
    let progress = Arc::clone(progress);
    let body = move |engine: &Arc<Engine>| {
        if let Some(active) = state::of(engine) {
            run(&Writer { engine, active, progress: &progress });
        }
    };
    threads::spawn(engine, name, body).map(drop)
}

/// Writes what is queued.
fn write(writer: &Writer<'_>, jobs: &Receiver<Job>, syncs: &Sender<ToDisk>) {
    let mut logged = Vector::default();
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Append { mut chunk, log, applied } => {
                let Some(len) = writer.append(&log, &mut chunk) else { return };
                // The next log begins only once no thread has this one.
                drop(log);
                logged.clone_from(&applied);
                writer.publish(&chunk, applied, len);
                chunk.clear();
                writer.progress.change(|state| {
                    let (_, bytes) = state.chunks.pop_front().unwrap_or_default();
                    state.bytes -= bytes;
                    state.written += 1;
                    state.spare = Some(chunk);
                });
                writer.active.serve_waiting();
            }
            Job::Sync { log, until } => {
                let _ = syncs.send(ToDisk::Log(Sync { log, until, logged: logged.clone() }));
            }
        }
    }
}

/// Forces logs to disk, and stores manifests. A sync covers all requests for its log that came
/// before it began.
fn bring_to_disk(writer: &Writer<'_>, folder: &Path, queue: &Receiver<ToDisk>) {
    let mut next = None;
    while let Some(first) = next.take().or_else(|| queue.recv().ok()) {
        match first {
            ToDisk::Log(mut last) => {
                let mut count = 1;
                while let Ok(later) = queue.try_recv() {
                    match later {
                        ToDisk::Log(later) if Arc::ptr_eq(&later.log, &last.log) => {
                            (last, count) = (later, count + 1);
                        }
                        other => {
                            next = Some(other);
                            break;
                        }
                    }
                }
                let outcome = last.log.sync();
                writer.note_synced(&outcome, last);
                writer.progress.change(|state| state.syncs -= count);
            }
            ToDisk::Manifest { manifest, then } => writer.store(folder, &manifest, then),
        }
    }
}

impl Writer<'_> {
    /// Appends units to a log, however often that fails. Returns the log's length in bytes; `None`
    /// if the server shuts down before it can be written.
    fn append(&self, log: &Log, chunk: &mut Chunk) -> Option<u64> {
        loop {
            let mut outcome = log.append(&mut chunk.records);
            if outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::StorageFull) {
                self.ask_for_room();
                outcome = log.append(&mut chunk.records);
            }
            let error = match outcome {
                Ok(len) => {
                    self.progress.state.lock().has_failed = false;
                    return Some(len);
                }
                Err(error) => error,
            };
            self.note_failure(format!(
                "the log cannot be written: {error}. Nothing is sent to peers until it can be"
            ));
            self.progress.change(|state| state.has_failed = true);
            let mut state = self.progress.state.lock();
            if !state.is_closing {
                self.progress.changed.wait_for(&mut state, RETRY);
            }
            if state.is_closing {
                return None;
            }
        }
    }

    /// Has the active-active thread remove files from the full disk.
    fn ask_for_room(&self) {
        self.progress.change(|state| state.wants_room = true);
        let _ = self.active.orders.send(Order::LogRoom);
        let mut state = self.progress.state.lock();
        self.progress.changed.wait_while_for(&mut state, |state| state.wants_room && !state.is_closing, ROOM);
        state.wants_room = false;
    }

    /// Moves units, which are in the log, to the outbox.
    fn publish(&self, chunk: &Chunk, applied: Vector, log_len: u64) {
        let most = usize::try_from(self.engine.config.active_backlog_size()).unwrap_or(usize::MAX);
        let late = {
            let mut outbox = self.active.outbox.lock();
            for ((first, run), bytes) in chunk.units.iter().zip(chunk.records.iter()) {
                outbox.backlog.push_of(*first, *run, bytes);
            }
            outbox.applied = applied;
            outbox.disk.logs.set_len(log_len);
            outbox.trim(most, unix_ms())
        };
        for region in late {
            log::warn!(
                "Active-active: the backlog is too small for the peer of region {}, which is connected but \
                 behind: it will need a full copy. Raise active-backlog-size or active-backlog-disk-size",
                region.number()
            );
        }
    }

    fn note_synced(&self, outcome: &io::Result<()>, Sync { until, logged, .. }: Sync) {
        match outcome {
            Ok(()) => {
                self.active.note_own_on_disk(logged);
                self.active.on_disk.note(until);
                durability::tell_durable(self.engine);
                self.active.last_error.lock().clear();
            }
            Err(error) => self.note_failure(format!(
                "the log cannot be synced to disk: {error}. The state is saved instead"
            )),
        }
    }

    /// Replies that wait for the log are refused until it is on disk.
    fn note_failure(&self, error: String) {
        self.active.on_disk.note_failure();
        self.engine.append_only.ring_loops(&self.engine.clients.mailboxes);
        self.active.note_error(error);
    }

    fn store(&self, folder: &Path, manifest: &ActiveManifest, then: Then) {
        let outcome = manifest.store(folder);
        let has_failed = outcome.is_err() && !matches!(then, Then::Answer(_));
        if let (true, Err(error)) = (has_failed, &outcome) {
            self.active.note_error(format!("the manifest cannot be written: {error}"));
        }
        match then {
            Then::Nothing => {}
            Then::Ceiling(ceiling) => {
                let _ = self.active.orders.send(Order::Ceiling(outcome.is_ok().then_some(ceiling)));
            }
            Then::Answer(answer) => {
                let _ = answer.send(outcome);
            }
        }
        self.progress.change(|state| {
            state.syncs -= 1;
            state.manifest_has_failed |= has_failed;
        });
    }
}
