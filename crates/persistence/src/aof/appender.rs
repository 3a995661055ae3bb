// SPDX-License-Identifier: BSD-3-Clause
//! The appender: a thread that writes the journal's units to the append-only file.
//!
//! The thread writes complete units to the current increment. The [`Policy`] decides when they are
//! synced: under `always` writers wait ([`Appender::wait_until_synced`]), and one fsync covers
//! everything written by then, for all threads (group commit); under `everysec` a second thread
//! syncs, so that a slow disk does not stop the first one from writing.
//!
//! A failed write is retried until it succeeds. No data is lost: the journal keeps unwritten
//! units, and clients that would add to it are refused ([`Appender::failure`]). Where replies do
//! not wait for the disk, space is reserved ahead ([`Increment::reserve`]): once that fails
//! writes are refused, and earlier acknowledged writes fit in the reserved space. After a failed
//! fsync the content of the file is unknown: only a new base repairs it
//! ([`Failure::needs_rewrite`]).
//!
//! Each write ends with its place in the replication history ([`HistoryPosition`]).

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64};
use std::time::{Duration, Instant};

use braid_base::clock::unix_ms;
use braid_base::system_text::reason;
use braid_journal::{Journal, Reader};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::history_position::HistoryPosition;
use super::increment::{Extras, Increment};

/// When written data is synced to disk (`appendfsync`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Before the reply is sent.
    Always,
    /// Once a second.
    EverySecond,
    /// When the kernel decides.
    Never,
}

/// Why the file currently cannot be written or synced.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The operating system's message.
    pub text: String,
    /// The content on disk is unknown: the file must be rewritten.
    pub needs_rewrite: bool,
}

/// While no client waits for them, the journal's bytes are gathered for this long before a write.
const GATHER_MIN: Duration = Duration::from_millis(5);
/// Interval between attempts after a failed write.
const RETRY: Duration = Duration::from_millis(200);
/// With this many bytes after [`GATHER_MIN`], more are gathered, for at most [`GATHER_MAX`], so
/// that the writes are large enough to bypass the kernel's page cache.
const PLENTY: u64 = 64 << 10;
const GATHER_MAX: Duration = Duration::from_millis(20);
/// Disk space reserved, as a multiple of the recent peak of bytes per turn, within the bounds
/// below.
const RESERVED_TURNS: u64 = 4;
const RESERVED_MIN: u64 = 1 << 20;
const RESERVED_MAX: u64 = 64 << 20;
/// The recent peak decays by 1 / `PEAK_DECAY` per turn, so it is forgotten within seconds.
const PEAK_DECAY: u64 = 1024;
/// If the file lags behind the journal by this much, the disk does not keep up: writes then go
/// through the kernel's page cache.
const BEHIND: u64 = 8 << 20;
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of checks of an idle thread, which is normally woken by the journal.
const IDLE: Duration = Duration::from_secs(3600);

#[derive(Default)]
struct State {
    /// Highest offset that a client waits for.
    wanted: u64,
    /// The next files in order, each with the offset at which it begins. There are several if the
    /// disk is slower than the rewrites.
    next: VecDeque<(u64, File)>,
    failure: Option<Failure>,
    /// Data up to this offset may not be on disk, even after later syncs.
    doubtful: u64,
    /// Data up to this offset is not needed: a base contains it.
    covered: u64,
    /// Write and sync up to this offset, then end.
    ends: Option<u64>,
    /// The thread has ended.
    ended: bool,
}

impl State {
    /// The offsets at which the thread switches to another file, and ends.
    fn calls(&self) -> (Option<u64>, Option<u64>) {
        (self.next.front().map(|next| next.0), self.ends)
    }
}

/// State of the syncing thread.
#[derive(Default)]
struct SyncRequest {
    file: Option<(Arc<File>, u64)>,
    ends: bool,
}

/// The append-only file's write side. One per server, shared by all threads that change keys.
pub struct Appender {
    policy: AtomicU8,
    state: Mutex<State>,
    /// Signals every change of the state.
    changed: Condvar,
    sync_request: Mutex<SyncRequest>,
    sync_wanted: Condvar,
    /// Offsets of the journal: written, and synced.
    written: AtomicU64,
    synced: AtomicU64,
    /// Bytes of all files with data.
    size: AtomicU64,
    /// Unix time in ms since which data is unsynced; 0 if none is.
    unsynced_since: AtomicI64,
    /// Timestamp annotations are written.
    timestamps: AtomicBool,
    /// The sync once a second is suspended (`no-appendfsync-on-rewrite`).
    sync_paused: AtomicBool,
    /// Delay before each write in microseconds, for tests.
    delay_us: AtomicU64,
    syncs_pending: AtomicU64,
    /// Called with true when a failure begins, with false when it ends.
    on_failure: Box<dyn Fn(bool) + Send + Sync>,
    /// Called when more data is on disk.
    on_sync: Box<dyn Fn() + Send + Sync>,
    place_of: PlaceOf,
    /// The dataset that is written.
    dataset: AtomicU64,
}

/// The place in the replication history of a journal offset of a dataset, if it is known: `None` if
/// another dataset has replaced that one.
pub type PlaceOf = Box<dyn Fn(u64, u64) -> Option<HistoryPosition> + Send + Sync>;

/// State of the writing thread.
struct Writing {
    increment: Increment,
    /// Time since which gathered bytes are unwritten.
    gathered_since: Option<Instant>,
    last_sync: Instant,
    /// Bytes of the increment that are part of [`Appender::size`].
    counted: u64,
    /// The recent peak of bytes per turn.
    peak: u64,
    /// Time of the last refused reservation.
    refused_at: Option<Instant>,
}

/// Input of one turn of the writing thread.
struct Turn {
    /// Offsets at which the thread switches to another file, and ends.
    switch_at: Option<u64>,
    ends_at: Option<u64>,
    /// The journal had data to write.
    has_found: bool,
    /// The last sync was at least [`SYNC_INTERVAL`] ago.
    has_sync_time: bool,
    reservation: Reservation,
}

/// Disk space for the next writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reservation {
    /// The space is reserved.
    Reserved,
    /// Unknown until the write: the file system cannot reserve space, or no reservation was
    /// attempted.
    Unknown,
    Missing,
}

impl Writing {
    fn new(file: File) -> Writing {
        let increment = Increment::new(file);
        let counted = increment.written_len();
        Writing {
            increment,
            gathered_since: None,
            last_sync: Instant::now(),
            counted,
            peak: 0,
            refused_at: None,
        }
    }

    /// Growth of the file since the last call, in bytes.
    fn count(&mut self) -> u64 {
        let len = self.increment.written_len();
        len - std::mem::replace(&mut self.counted, len)
    }

    /// Switches to another file.
    fn switch_to_file(&mut self, file: File) {
        debug_assert_eq!(self.increment.pending(), 0, "the previous file is complete");
        self.give_up_for(file);
    }

    /// Switches to another file and drops the bytes gathered for the current one, which are not
    /// needed.
    fn give_up_for(&mut self, file: File) {
        self.gathered_since = None;
        self.refused_at = None;
        self.increment.cut();
        self.increment = Increment::new(file);
        self.counted = self.increment.written_len();
    }
}

impl Appender {
    /// An appender that writes nothing before [`Appender::run`].
    pub fn new(
        on_failure: Box<dyn Fn(bool) + Send + Sync>,
        on_sync: Box<dyn Fn() + Send + Sync>,
        place_of: PlaceOf,
    ) -> Appender {
        Appender {
            policy: AtomicU8::new(Policy::EverySecond as u8),
            state: Mutex::default(),
            changed: Condvar::new(),
            sync_request: Mutex::default(),
            sync_wanted: Condvar::new(),
            written: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            size: AtomicU64::new(0),
            unsynced_since: AtomicI64::new(0),
            timestamps: AtomicBool::new(false),
            sync_paused: AtomicBool::new(false),
            delay_us: AtomicU64::new(0),
            syncs_pending: AtomicU64::new(0),
            on_failure,
            on_sync,
            place_of,
            dataset: AtomicU64::new(0),
        }
    }

    /// When written data is synced.
    #[inline]
    pub fn policy(&self) -> Policy {
        match self.policy.load(Relaxed) {
            0 => Policy::Always,
            1 => Policy::EverySecond,
            _ => Policy::Never,
        }
    }

    /// Changes the policy.
    pub fn set_policy(&self, journal: &Journal, policy: Policy) {
        let state = self.state.lock();
        self.policy.store(policy as u8, Relaxed);
        drop(state);
        self.changed.notify_all();
        journal.wake();
    }

    /// Switches timestamp annotations on or off (`aof-timestamp-enabled`).
    pub fn set_timestamps(&self, on: bool) {
        self.timestamps.store(on, Relaxed);
    }

    /// Suspends or resumes the sync once a second.
    pub fn pause_syncs(&self, paused: bool) {
        self.sync_paused.store(paused, Relaxed);
    }

    /// Delays every write (DEBUG AOF-FLUSH-SLEEP).
    pub fn set_delay(&self, microseconds: u64) {
        self.delay_us.store(microseconds, Relaxed);
    }

    /// The journal offset up to which data is written.
    pub fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// The journal offset up to which data is on disk.
    #[inline]
    pub fn synced(&self) -> u64 {
        self.synced.load(Relaxed)
    }

    /// Bytes of all files with data.
    pub fn size(&self) -> u64 {
        self.size.load(Relaxed)
    }

    /// Corrects [`Appender::size`] when files are added or removed.
    pub fn set_size(&self, bytes: u64) {
        self.size.store(bytes, Relaxed);
    }

    /// Number of syncs in progress.
    pub fn syncs_pending(&self) -> u64 {
        self.syncs_pending.load(Relaxed)
    }

    /// Age of the oldest unsynced data in ms; 0 if all data is on disk.
    pub fn unsynced_ms(&self, now_ms: i64) -> i64 {
        match self.unsynced_since.load(Relaxed) {
            0 => 0,
            since => now_ms.saturating_sub(since).max(0),
        }
    }

    /// The current failure, if any.
    pub fn failure(&self) -> Option<Failure> {
        self.state.lock().failure.clone()
    }

    /// A rewrite has produced a base up to this journal offset: earlier data that could not be
    /// written or synced is no longer needed.
    pub fn forgive(&self, offset: u64) {
        let mut state = self.state.lock();
        state.covered = state.covered.max(offset);
        let is_mended = state.doubtful <= offset;
        drop(state);
        if is_mended {
            self.end_failure(true);
        }
    }

    /// Waits until the journal is on disk up to `offset`. False if that fails. The caller must
    /// hold no lock and be outside the gate.
    pub fn wait_until_synced(&self, offset: u64) -> bool {
        if self.synced() >= offset {
            return true;
        }
        self.ask(offset);
        loop {
            let mut state = self.state.lock();
            if let Some(outcome) = self.outcome(&state, offset) {
                return outcome;
            }
            self.changed.wait(&mut state);
        }
    }

    /// Requests a sync of the journal up to `offset`, without waiting for it.
    pub fn ask(&self, offset: u64) {
        let mut state = self.state.lock();
        state.wanted = state.wanted.max(offset);
        self.changed.notify_all();
    }

    /// The result of [`Appender::wait_until_synced`]; `None` if it would wait.
    pub fn progress(&self, offset: u64) -> Option<bool> {
        if self.synced() >= offset {
            return Some(true);
        }
        self.outcome(&self.state.lock(), offset)
    }

    fn outcome(&self, state: &State, offset: u64) -> Option<bool> {
        let is_safe = self.synced() >= offset || self.policy() != Policy::Always;
        (is_safe || state.failure.is_some() || state.ended).then_some(is_safe)
    }

    /// Switches to another file at this journal offset, at which a unit begins. No later data may
    /// have been appended yet (the world is stopped). All earlier data is synced first.
    ///
    /// A rewrite may end, and remove the previous file, while that file is still being written:
    /// the new base contains its data.
    pub fn switch(&self, journal: &Journal, offset: u64, file: File) {
        self.state.lock().next.push_back((offset, file));
        self.changed.notify_all();
        journal.wake();
    }

    /// Makes the thread write and sync the journal's current content, then end. The end is exact
    /// if the world is stopped.
    pub fn end(&self, journal: &Journal) {
        self.state.lock().ends = Some(journal.end());
        self.changed.notify_all();
        journal.wake();
    }

    /// Prepares to write the changes of a dataset from `reader`'s position on: from now on callers
    /// can wait for offsets, and end the thread. No earlier thread may be running.
    pub fn begin(&self, reader: &Reader, dataset: u64) {
        self.dataset.store(dataset, Relaxed);
        let start = reader.position();
        *self.state.lock() = State::default();
        *self.sync_request.lock() = SyncRequest::default();
        self.written.store(start, Relaxed);
        self.synced.store(start, Relaxed);
        self.unsynced_since.store(0, Relaxed);
    }

    /// Writes the journal from `reader`'s position on to `file`, until ended. Runs on a thread of
    /// its own, after [`Appender::begin`].
    pub fn run(self: &Arc<Self>, journal: &Journal, mut reader: Reader, file: File) {
        let appender = Arc::clone(self);
        let syncer =
            std::thread::Builder::new().name("aof-sync".into()).spawn(move || appender.sync_on_request());
        if let Err(error) = &syncer {
            log::warn!("Cannot start the thread that syncs the AOF to disk: {error}");
        }
        let mut writing = Writing::new(file);
        self.note_place(&mut writing, reader.position());
        while !self.turn(journal, &mut reader, &mut writing) {}
        writing.increment.cut();
        reader.end(journal);
        self.sync_request.lock().ends = true;
        self.sync_wanted.notify_all();
        if let Ok(syncer) = syncer {
            let _ = syncer.join();
        }
        self.state.lock().ended = true;
        self.changed.notify_all();
    }

    /// Writes the journal's new data, and waits for more. True at the end.
    fn turn(&self, journal: &Journal, reader: &mut Reader, writing: &mut Writing) -> bool {
        let (switch_at, ends_at, is_superfluous) = {
            let state = self.state.lock();
            let (switch_at, ends_at) = state.calls();
            (switch_at, ends_at, state.failure.is_some() && switch_at.is_some_and(|at| at <= state.covered))
        };
        let ends = ends_at.is_some();
        if is_superfluous && let Some((at, file)) = self.take_next() {
            // The disk may be full only because this file, already removed, is still open.
            while reader.position() < at {
                reader.read(journal, at, <[u8]>::len);
            }
            writing.give_up_for(file);
            self.note_place(writing, at);
            self.written.fetch_max(at, Relaxed);
            self.end_failure(false);
            return false;
        }
        let complete = journal.complete();
        let end = [switch_at, ends_at].into_iter().flatten().fold(complete, u64::min);
        let before = reader.position();
        let has_sync_time = writing.last_sync.elapsed() >= SYNC_INTERVAL;
        // First, so that clients are refused before they add more than there is room for.
        let reservation = self.reserve(writing, complete - before);
        let turn = Turn { switch_at, ends_at, has_found: before < end, has_sync_time, reservation };
        if (turn.has_found || writing.increment.pending() > 0)
            && let Err(error) = self.write(journal, reader, end, writing, &turn)
        {
            self.fail("Error writing to the AOF file", &error, false);
            return self.rest(ends);
        }
        if turn.reservation != Reservation::Missing {
            self.end_failure(false);
        }
        let is_written = writing.increment.pending() == 0;
        if self.failure().is_some_and(|failure| failure.needs_rewrite) {
            // Further writes do not help: the file must be rewritten.
            if switch_at == Some(reader.position()) && is_written {
                self.switch_file(writing, reader.position());
            }
            return self.rest(ends);
        }
        let is_behind = self.synced() < reader.position();
        if switch_at == Some(reader.position()) {
            if !self.sync(&writing.increment.file, reader.position()) {
                return self.rest(ends);
            }
            self.switch_file(writing, reader.position());
            return false;
        }
        if ends_at.is_some_and(|at| reader.position() >= at) {
            // With what the file does not have (PING to replicas).
            self.note_place(writing, reader.position());
            if self.policy() != Policy::Never || is_behind {
                self.sync(&writing.increment.file, reader.position());
            }
            return true;
        }
        match self.policy() {
            Policy::Always => {
                if is_behind && !(is_written && self.sync(&writing.increment.file, reader.position())) {
                    return self.rest(ends);
                }
                self.wait_until_wanted()
            }
            policy => self.sync_in_time(journal, reader, writing, policy, &turn),
        }
    }

    /// Under `always`, waits until a client needs a sync. Always false: the thread continues.
    fn wait_until_wanted(&self) -> bool {
        let mut state = self.state.lock();
        if state.wanted <= self.synced() && state.next.is_empty() && state.ends.is_none() {
            // Changes that no client waits for (expired keys) are written periodically.
            self.changed.wait_for(&mut state, SYNC_INTERVAL);
        }
        false
    }

    /// Under `everysec`, starts a sync on the other thread if one is due, then waits for more data.
    /// Always false: the thread continues.
    fn sync_in_time(
        &self,
        journal: &Journal,
        reader: &mut Reader,
        writing: &mut Writing,
        policy: Policy,
        turn: &Turn,
    ) -> bool {
        let is_written = writing.increment.pending() == 0;
        let is_due = policy == Policy::EverySecond
            && self.synced() < reader.position()
            && !self.sync_paused.load(Relaxed);
        if is_due && turn.has_sync_time && is_written && self.request_sync(&writing.increment, reader) {
            writing.last_sync = Instant::now();
        }
        if policy == Policy::Never && is_written {
            self.unsynced_since.store(0, Relaxed);
        }
        let wait = match (turn.has_found || !is_written, is_due) {
            (true, _) => return self.pause(GATHER_MIN),
            (false, true) => SYNC_INTERVAL.saturating_sub(writing.last_sync.elapsed()).max(GATHER_MIN),
            (false, false) => IDLE,
        };
        let wait = if turn.reservation == Reservation::Missing { wait.min(RETRY) } else { wait };
        let seen = reader.position();
        reader.wait(journal, seen, wait, || {
            self.state.lock().calls() != (turn.switch_at, turn.ends_at) || self.policy() != policy
        });
        false
    }

    /// Reserves disk space for the next turn, after `found` bytes in this one. Without space,
    /// writes are refused from now on.
    fn reserve(&self, writing: &mut Writing, found: u64) -> Reservation {
        writing.peak = found.max(writing.peak - writing.peak / PEAK_DECAY);
        if self.policy() == Policy::Always {
            return Reservation::Unknown;
        }
        if writing.refused_at.is_some_and(|at| at.elapsed() < RETRY) {
            return Reservation::Missing;
        }
        let least = (RESERVED_TURNS * writing.peak).clamp(RESERVED_MIN, RESERVED_MAX);
        let reserved = writing.increment.reserve(found + least);
        writing.refused_at = reserved.is_err().then(Instant::now);
        match reserved {
            Ok(true) => Reservation::Reserved,
            Ok(false) => Reservation::Unknown,
            Err(error) => {
                self.fail("Error writing to the AOF file", &error, false);
                Reservation::Missing
            }
        }
    }

    /// Writes or gathers the journal up to `end`, and counts the bytes written.
    fn write(
        &self,
        journal: &Journal,
        reader: &mut Reader,
        end: u64,
        writing: &mut Writing,
        turn: &Turn,
    ) -> io::Result<()> {
        // What an increment begins with is no data.
        if self.unsynced_since.load(Relaxed) == 0 && self.synced() < end {
            self.unsynced_since.store(unix_ms(), Relaxed);
        }
        match self.delay_us.load(Relaxed) {
            0 => {}
            delay => std::thread::sleep(Duration::from_micros(delay)),
        }
        let may_wait = match self.policy() {
            Policy::Always => false,
            Policy::EverySecond => !turn.has_sync_time,
            Policy::Never => true,
        };
        let may_gather = may_wait
            && turn.reservation == Reservation::Reserved
            && turn.switch_at.is_none()
            && turn.ends_at.is_none();
        let written = self.gather(journal, reader, end, writing, may_gather);
        self.size.fetch_add(writing.count(), Relaxed);
        self.written.fetch_max(reader.position().saturating_sub(writing.increment.pending() as u64), Relaxed);
        written
    }

    /// Gathers the journal up to `end`, and writes it unless gathering more is better.
    fn gather(
        &self,
        journal: &Journal,
        reader: &mut Reader,
        end: u64,
        writing: &mut Writing,
        may_gather: bool,
    ) -> io::Result<()> {
        let found = end - reader.position();
        let extras = Extras {
            timestamps: self.timestamps.load(Relaxed),
            ahead: self.policy() == Policy::Always,
            direct: found < BEHIND,
        };
        writing.increment.write(journal, reader, end, extras)?;
        let since = *writing.gathered_since.get_or_insert_with(Instant::now);
        if may_gather && found >= PLENTY && since.elapsed() < GATHER_MAX {
            return Ok(());
        }
        writing.gathered_since = None;
        if writing.increment.pending() > 0
            && let Some(place) = self.place_of(end)
        {
            writing.increment.note_place(place);
        }
        writing.increment.flush(extras.direct)
    }

    /// Continues in the next file, which begins at this offset.
    fn switch_file(&self, writing: &mut Writing, offset: u64) {
        if let Some((_, file)) = self.take_next() {
            writing.switch_to_file(file);
            self.note_place(writing, offset);
        }
    }

    /// Notes the place of everything so far in the file. It is written with the next data at the
    /// latest.
    fn note_place(&self, writing: &mut Writing, offset: u64) {
        if let Some(place) = self.place_of(offset) {
            writing.increment.note_place(place);
            // An error will recur when data is written.
            let _ = writing.increment.flush(false);
            self.size.fetch_add(writing.count(), Relaxed);
        }
    }

    fn place_of(&self, offset: u64) -> Option<HistoryPosition> {
        (self.place_of)(self.dataset.load(Relaxed), offset)
    }

    fn take_next(&self) -> Option<(u64, File)> {
        self.state.lock().next.pop_front()
    }

    /// Waits for at most `most`, unless there is urgent work. Always false: the thread continues.
    fn pause(&self, most: Duration) -> bool {
        let mut state = self.state.lock();
        if state.next.is_empty() && state.ends.is_none() {
            self.changed.wait_for(&mut state, most);
        }
        false
    }

    /// After a failure: true if there is no time for another attempt.
    fn rest(&self, ends: bool) -> bool {
        let mut state: MutexGuard<'_, State> = self.state.lock();
        if ends {
            log::warn!("The AOF was not written to its end.");
            return true;
        }
        self.changed.wait_for(&mut state, RETRY);
        false
    }

    /// Syncs the file, which is written up to `offset`.
    fn sync(&self, file: &File, offset: u64) -> bool {
        let began_ms = unix_ms();
        match file.sync_data() {
            Ok(()) => {
                self.note_synced(offset, began_ms);
                true
            }
            Err(error) => {
                let mut state = self.state.lock();
                state.doubtful = state.doubtful.max(offset);
                drop(state);
                self.fail("Error syncing the AOF file to disk", &error, true);
                false
            }
        }
    }

    /// Records that the journal is on disk up to `offset`, as written at `began_ms`.
    fn note_synced(&self, offset: u64, began_ms: i64) {
        let state = self.state.lock();
        if state.failure.as_ref().is_some_and(|failure| failure.needs_rewrite) {
            return;
        }
        self.synced.fetch_max(offset, Relaxed);
        if self.written() == offset {
            self.unsynced_since.store(0, Relaxed);
        } else {
            self.unsynced_since.store(began_ms, Relaxed);
        }
        drop(state);
        self.changed.notify_all();
        (self.on_sync)();
    }

    fn fail(&self, what: &str, error: &io::Error, needs_rewrite: bool) {
        let text = reason(error);
        let mut state = self.state.lock();
        let is_new = state.failure.is_none();
        if state.failure.as_ref().is_none_or(|failure| !failure.needs_rewrite) {
            state.failure = Some(Failure { text: text.clone(), needs_rewrite });
        }
        drop(state);
        if is_new {
            log::warn!("{what}: {text}");
            (self.on_failure)(true);
        }
        self.changed.notify_all();
    }

    fn end_failure(&self, rewritten: bool) {
        let mut state = self.state.lock();
        if state.failure.as_ref().is_some_and(|failure| rewritten || !failure.needs_rewrite) {
            state.failure = None;
            drop(state);
            log::warn!("AOF write error looks solved. The server can write again.");
            (self.on_failure)(false);
        }
    }

    /// Starts a sync on the other thread; false if the previous one is still running.
    fn request_sync(&self, increment: &Increment, reader: &Reader) -> bool {
        let mut request = self.sync_request.lock();
        let is_free = request.file.is_none() && self.syncs_pending() == 0;
        if is_free {
            self.syncs_pending.store(1, Relaxed);
            request.file = Some((Arc::clone(&increment.file), reader.position()));
            self.sync_wanted.notify_all();
        }
        is_free
    }

    fn sync_on_request(&self) {
        let mut request = self.sync_request.lock();
        loop {
            if let Some((file, offset)) = request.file.take() {
                drop(request);
                self.sync(&file, offset);
                self.syncs_pending.store(0, Relaxed);
                request = self.sync_request.lock();
            } else if request.ends {
                return;
            } else {
                self.sync_wanted.wait(&mut request);
            }
        }
    }
}

#[cfg(test)]
mod tests;
