// SPDX-License-Identifier: BSD-3-Clause
//! The thread that owns the shadow: it reads the journal, applies peers' units, and maintains the
//! files.
//!
//! Every unit, local or remote, goes to the shadow, then the log, then the outbox. So any unit a
//! peer has is in this server's log, and after a crash no peer knows more of this server's units
//! than it does itself. Other threads write the log and fill the outbox
//! ([`super::disk_writer`]): this thread does not wait for the disk, but when a file begins or
//! ends.
//!
//! The world is stopped to apply peers' units, in slices, and to read effects from the keyspace
//! for certain keys ([`super::keys`]). The journal is read to its end first.

mod duties;
mod generation;
mod merge;
mod reading;
mod sharing;
mod throttle;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use braid_active::effect::{Effect, Unit};
use braid_active::replica::Replica;
use braid_active::translate::Values;
use braid_active::vector::Run;
use braid_active::{Stamp, wire};
use braid_durable::saving;
use braid_executor::dispatch::replay::{Replay, Source};
use braid_executor::engine::Engine;
use braid_executor::threads;
use braid_executor::worker::Worker;
use braid_journal::Reader;
use braid_persistence::active::{ActiveFiles, ActiveManifest};
use braid_replication::link::units::Units;

use super::copies::CopyRequest;
use super::disk_writer::{Chunk, DiskWriter, Waited};
use super::files;
use super::gather::Turn;
use super::keys::KeyName;
use super::outbox::Answers;
use super::state::{Active, Order};
use crate::{peers, state};

/// How long the thread sleeps when work may come soon, and when none has come for a while.
const SHORT: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_millis(5);
const BUSY_FOR: Duration = Duration::from_millis(200);
/// Maximum bytes that wait for this thread or for the log before writers and peers' units wait,
/// with or without links.
const BEHIND_MAX: u64 = 64 << 20;
/// Interval of [`Thread::duties`].
const DUTIES: Duration = Duration::from_millis(100);

pub(super) struct Thread<'e> {
    engine: &'e Engine,
    active: &'e Active,
    values: Arc<dyn Values + Send + Sync>,
    replica: Replica,
    files: ActiveFiles,
    manifest: ActiveManifest,
    reader: Reader,
    /// Bytes of the journal that do not form whole units yet, and the parser's position in them.
    buffer: Vec<u8>,
    units: Units,
    /// The journal's current database.
    db: u32,
    /// The journal up to here was written by this thread.
    own_until: u64,
    /// Keys to be compared with the keyspace, or all of them.
    dirty: BTreeSet<KeyName>,
    all_dirty: bool,
    /// Keys of the keyspace that cannot be merged, so that clients see them on this server only.
    unmergeable: BTreeSet<KeyName>,
    /// Libraries must be compared with the shadow.
    libraries_dirty: bool,
    /// Clients may have changed definitions of search.
    definitions_dirty: bool,
    unshared: sharing::Unshared,
    /// Units that are in the shadow and not yet queued for the log.
    pending: Chunk,
    disk: DiskWriter,
    replay: Replay,
    /// Worker of the first slot, which is free while the world is stopped. `None` while in use.
    worker: Option<Worker>,
    last_active: Instant,
    last_duties: Instant,
    last_sync: Instant,
    last_evicted_end: Instant,
    /// The log gets data that no sync covers yet.
    has_unsynced: bool,
    /// A higher ceiling is on its way to disk.
    ceiling_asked: bool,
    /// A sync has been queued that covers the journal up to here.
    sync_asked: u64,
    has_acknowledgements: bool,
    /// Size of the current generation's state, in bytes.
    state_bytes: u64,
    /// A new generation, full copy or digest in progress.
    saving: Option<generation::Saving>,
    /// Peers waiting for a full copy.
    copies_wanted: VecDeque<CopyRequest>,
    /// Operators waiting for a digest.
    digests_wanted: Vec<Box<dyn Answers>>,
    /// When the last uncompleted generation began.
    last_attempt: Option<Instant>,
    /// There is garbage to collect.
    has_garbage: bool,
    requests_told: u64,
    /// Until when writing clients wait; 0 if they do not.
    throttled_until_ms: i64,
    marks: throttle::Marks,
    /// Writing clients wait because a full copy is being merged.
    holds_writes: bool,
}

/// Starts active-active replication: reads its files, reconciles shadow and keyspace, and
/// starts its threads. The dataset has been loaded, and clients are still held back.
///
/// # Errors
/// The files cannot be used.
pub fn start_active(engine: &Engine, values: Arc<dyn Values + Send + Sync>) -> Result<(), String> {
    let Some(active) = state::of(engine) else { return Ok(()) };
    let begin = files::begin(&engine.config)?;
    {
        let mut me = active.me.lock();
        me.identity = begin.manifest.identity.clone();
        me.region = begin.manifest.region;
        me.is_final = begin.manifest.is_final;
        me.members = begin.manifest.members.iter().cloned().collect();
        me.gone = begin.manifest.gone;
    }
    let (Some(inbox), Some(reader)) = (active.inbox.lock().take(), active.reader.lock().take()) else {
        return Err("active-active replication has already started".into());
    };
    let failed = |error| format!("cannot start the threads of active-active replication: {error}");
    let disk = DiskWriter::start(engine, begin.files.folder()).map_err(failed)?;
    let (told, outcome) = std::sync::mpsc::sync_channel(1);
    let run = move |engine: &Arc<Engine>| {
        if let Some(active) = state::of(engine) {
            let is_known = begin.is_known;
            let mut thread = Thread::new(engine, active, values, begin, (reader, disk));
            thread.begin(is_known);
            give(&told, ());
            thread.run(&inbox);
        }
    };
    threads::spawn(engine, "active", run).map_err(failed)?;
    outcome.recv().map_err(|_| "active-active replication has not started".to_owned())?;
    active.is_ready.store(true, Relaxed);
    saving::set_loading(engine, false);
    peers::apply_peers(engine)
}

/// Ends active-active replication cleanly: everything is in its files. The loops have ended.
pub fn end_active(engine: &Engine) {
    let Some(active) = state::of(engine).filter(|active| active.is_ready.load(Relaxed)) else {
        return;
    };
    let (answer, ended) = std::sync::mpsc::sync_channel(1);
    if active.orders.send(Order::End { answer }).is_ok() {
        let _ = ended.recv();
    }
}

impl<'e> Thread<'e> {
    fn new(
        engine: &'e Engine,
        active: &'e Active,
        values: Arc<dyn Values + Send + Sync>,
        begin: files::Begin,
        (reader, disk): (Reader, DiskWriter),
    ) -> Thread<'e> {
        let files::Begin { files, manifest, replica, backlog, logs, .. } = begin;
        {
            let mut outbox = active.outbox.lock();
            outbox.backlog = backlog;
            (outbox.disk.folder, outbox.disk.logs) = (files.folder().to_owned(), logs);
        }
        let own_until = reader.position();
        Thread {
            engine,
            active,
            values,
            replica,
            files,
            manifest,
            reader,
            buffer: Vec::new(),
            units: Units::default(),
            db: 0,
            own_until,
            dirty: BTreeSet::new(),
            all_dirty: false,
            unmergeable: BTreeSet::new(),
            libraries_dirty: false,
            definitions_dirty: false,
            unshared: sharing::Unshared::default(),
            pending: Chunk::default(),
            disk,
            replay: Replay::new(engine, Source::Primary),
            worker: Some(engine.worker(0)),
            last_active: Instant::now(),
            last_duties: Instant::now(),
            last_sync: Instant::now(),
            last_evicted_end: Instant::now(),
            has_unsynced: true,
            ceiling_asked: false,
            sync_asked: 0,
            has_acknowledgements: true,
            state_bytes: 0,
            saving: None,
            copies_wanted: VecDeque::new(),
            digests_wanted: Vec::new(),
            last_attempt: None,
            has_garbage: false,
            requests_told: 0,
            throttled_until_ms: 0,
            marks: throttle::Marks::default(),
            holds_writes: false,
        }
    }

    /// Work before the first client is served.
    fn begin(&mut self, is_known: bool) {
        self.meet_keyspace(is_known);
        self.note_all_long();
        self.flush();
        self.duties();
        let keys = self.replica.visible_len();
        log::info!("Active-active: this server is region {}, with {keys} keys", self.manifest.region);
        log::warn!("Warning: active-replica is experimental (docs/active-active.md)");
    }

    fn run(mut self, inbox: &Receiver<Order>) {
        let mut turn = Turn::first();
        let mut next = Instant::now();
        loop {
            if Instant::now() >= next {
                turn = turn.next();
                next = Instant::now() + self.turn(turn);
            }
            match inbox.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(Order::End { answer }) => {
                    self.end();
                    give(&answer, ());
                    return;
                }
                Ok(order) => {
                    self.last_active = Instant::now();
                    let (has_units, own) = (matches!(order, Order::Units { .. }), self.own_units());
                    self.do_order(order);
                    next = Instant::now();
                    // The journal has been read for a peer's units: that counts as a turn.
                    if has_units && !self.needs_turn() {
                        turn = turn.next();
                        next += turn.rest(self.own_units() - own, self.lag_max_ms());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.last_duties.elapsed() >= DUTIES {
                self.duties();
            }
        }
    }

    /// Brings the journal's new units to the log and to peers, and continues incremental work.
    /// Returns how long the thread may rest afterwards.
    fn turn(&mut self, turn: Turn) -> Duration {
        let own = self.own_units();
        self.active.on_disk.take_request();
        let has_moved = self.read_journal();
        self.throttle();
        if self.is_dirty() {
            self.read_dirty_keys();
        }
        self.flush();
        self.sync_for_replies();
        if has_moved {
            self.last_active = Instant::now();
        }
        let has_more = self.work_in_pieces();
        match self.last_active.elapsed() < BUSY_FOR || self.saving.is_some() {
            _ if has_more => Duration::ZERO,
            _ if has_moved => turn.rest(self.own_units() - own, self.lag_max_ms()),
            true => SHORT,
            false => LONG,
        }
    }

    /// True if there is work besides the journal and peers' units.
    fn needs_turn(&self) -> bool {
        self.is_dirty() || self.has_pieces() || self.engine.sync_writes.waits_for_disk()
    }

    fn lag_max_ms(&self) -> u64 {
        self.engine.config.active_lag_max_ms()
    }

    /// Number of units created by this server so far.
    fn own_units(&self) -> usize {
        self.active.figures.own.load(Relaxed) as usize
    }

    /// True if part of the keyspace must be read into the shadow.
    fn is_dirty(&self) -> bool {
        let is_dirty = self.all_dirty || self.libraries_dirty || self.definitions_dirty;
        is_dirty || !self.dirty.is_empty() || self.replica.has_revived()
    }

    fn do_order(&mut self, order: Order) {
        match order {
            Order::Units { units, answer } => {
                let merged = self.merge_units(&units);
                self.flush();
                give(&answer, merged);
            }
            Order::Copy { state, file, answer } => {
                let merged = self.merge_copy(&state, file);
                self.flush();
                give(&answer, merged);
            }
            Order::MakeCopy(request) => {
                self.flush();
                self.active.figures.copies_sent.fetch_add(1, Relaxed);
                self.copies_wanted.push_back(request);
            }
            Order::MoreCopy(request) => self.continue_copy(request),
            Order::Digest { answer } => {
                while self.read_journal() {}
                if self.is_dirty() || !self.unmergeable.is_empty() {
                    self.read_dirty_keys();
                }
                self.flush();
                self.digests_wanted.push(answer);
            }
            Order::Forget { region, answer } => {
                self.forget(region);
                if let Some(answer) = answer {
                    let mut reply = answer.buffer();
                    reply.ok();
                    answer.give(reply);
                }
            }
            Order::ChangeRegion { taken } => self.change_region(taken),
            Order::NumberIsFinal => self.store_manifest(),
            Order::OnDisk => self.has_acknowledgements = true,
            Order::LogRoom => self.make_room_for_log(),
            Order::Ceiling(ceiling) => self.note_ceiling(ceiling),
            // The thread's loop handles these.
            Order::ToDisk | Order::End { .. } => {}
        }
    }

    /// Notes a unit that is now in the shadow, the latest of its run; `write` appends its
    /// encoding.
    fn keep(&mut self, first: Stamp, run: Run, write: impl FnOnce(&mut Vec<u8>)) {
        self.pending.records.push(|bytes| {
            write(bytes);
            Some(())
        });
        self.pending.units.push((first, run));
    }

    /// Queues a unit of this server.
    fn keep_own(&mut self, unit: &Unit) {
        self.active.figures.own.fetch_add(1, Relaxed);
        self.note_long(unit);
        // A library hidden so far may become visible.
        self.libraries_dirty |= unit.effects.iter().any(Effect::is_of_libraries);
        self.definitions_dirty |= unit.effects.iter().any(|effect| matches!(effect, Effect::Flush { .. }));
        let Some(run) = self.replica.vector().run_of(unit.first) else { return };
        self.keep(unit.first, run, |bytes| wire::encode_into(unit, bytes));
    }

    /// Queues the noted units for the log and the outbox.
    fn flush(&mut self) {
        let is_new = *self.active.received.lock() != *self.replica.vector();
        if self.pending.is_empty() && !is_new {
            // Some waits may have ended.
            return self.active.serve_waiting();
        }
        match self.files.log() {
            Ok(log) => {
                self.has_unsynced |= !self.pending.is_empty();
                let chunk = std::mem::replace(&mut self.pending, self.disk.empty_chunk());
                self.disk.append(chunk, log, self.replica.vector());
                self.active.received.lock().clone_from(self.replica.vector());
            }
            Err(error) => self.active.note_error(error.to_string()),
        }
    }

    /// Waits until all units are in the log and in the outbox, so that the next log can begin.
    ///
    /// # Errors
    /// The log cannot be written.
    fn bring_to_log(&mut self) -> Result<(), String> {
        self.flush();
        self.wait_for_log(DiskWriter::wait_until_idle)
    }

    fn wait_for_log(&mut self, wait: impl Fn(&DiskWriter) -> Waited) -> Result<(), String> {
        loop {
            match wait(&self.disk) {
                Waited::Over => return Ok(()),
                Waited::WantsRoom => self.make_room_for_log(),
                Waited::Failed => return Err("the log cannot be written".into()),
            }
        }
    }
}

/// Sends an answer; the receiver may be gone.
fn give<T>(answer: &SyncSender<T>, result: T) {
    let _ = answer.try_send(result);
}
