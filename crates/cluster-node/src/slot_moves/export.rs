// SPDX-License-Identifier: BSD-3-Clause
//! The source's side of a slot move.
//!
//! Only this thread talks to the target. It never waits for the target while it holds a lock, and
//! holds commands back only once little is left.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use braid_base::clock::unix_ms;
use braid_base::crc::key_hash_slot;
use braid_durable::saving::payload;
use braid_executor::cluster_map::ClusterView;
use braid_executor::dispatch::replay::command_of;
use braid_executor::engine::Engine;
use braid_executor::journal_uses::{self, FOR_MOVES};
use braid_executor::processors::{self, Work};
use braid_executor::state::slot_moves::{Move, MoveState};
use braid_executor::state::slowed_slots::Reach;
use braid_executor::threads;
use braid_executor::world;
use braid_group::cluster::changes::Operator;
use braid_group::cluster::{Change, Map, Refusal, SlotSet};
use braid_journal::{Reader, push_select};
use braid_keyspace::cow_entry::CowEntry;
use braid_keyspace::reader::Found;
use braid_keyspace::table::TableCursor;
use braid_replica::throttle;
use braid_replication::link::units::{StreamRequest, Units};
use braid_spec::{Behavior, Flags, Group as Family, Scope, keys};

use super::hold::Hold;
use super::link::{Link, Request, check};
use super::pace::Pace;
use super::positions::{Name, Positions};
use super::target_connection::{Failure, answer, ask, interrupted, rejected};
use crate::group::author;
use crate::group::changes::{self, ChangeError};
use crate::slot_moves::hold;

/// Delay before a mandatory withdrawal is retried.
const PAUSE: Duration = Duration::from_millis(250);
/// Limit of what is copied under a slot's lock at a time: an entry counts once, and once more for
/// each [`STEP_BYTES`] bytes.
const STEP: usize = 32;
const STEP_BYTES: usize = 2048;
/// The journal is read whenever this many bytes have been sent, or this much time has passed. The
/// target stops its clients to apply the changes in between.
const SENT_BETWEEN: usize = 4 << 20;
const TIME_BETWEEN: Duration = Duration::from_millis(20);
/// Bytes of the journal read at a time, and bytes sent to the target as one batch.
const READ_BYTES: usize = 1 << 20;
const BATCH_BYTES: usize = 64 << 10;
/// Maximum number of keys copied again under one lock.
const AGAIN_MAX: usize = 64;
/// Delay before etcd is asked again if it does not answer.
const RETRY: Duration = Duration::from_millis(100);
/// Duration of a catch-up round that is short enough for commands to wait as long, and the time
/// after which they wait for a longer one.
const SHORT_ROUND: Duration = Duration::from_millis(5);
const APPROACH: Duration = Duration::from_secs(2);
/// Duration of such a round with which commands wait once writes have waited throughout one.
const BEARABLE_ROUND: Duration = Duration::from_millis(100);
/// Attempts to hand the slots over, if the connection is lost meanwhile.
const HANDOVERS_MAX: usize = 10;
/// How long the target may take to see the change of the map.
const FOLLOW: Duration = Duration::from_secs(2);

/// Begins an ordered move.
pub(super) fn begin_export(engine: &Engine, new: Move) {
    let Ok(job) = engine.slot_moves.add(new, engine.config.cluster_slot_migration_log_max_len() as usize)
    else {
        return;
    };
    let known = Arc::clone(&job);
    let run = move |engine: &Arc<Engine>| {
        processors::bind_thread(engine, Work::Background);
        run(engine, &known);
    };
    if let Err(error) = threads::spawn(engine, "slot-move", run) {
        job.fail(&format!("cannot start a thread: {error}"));
    }
}

/// Counts the moves that read the journal: one more from now on, or one less. The world is
/// stopped when one begins.
fn count_move_readers(engine: &Engine, begins: bool) {
    let mut readers = engine.slot_moves.readers.lock();
    *readers = if begins { *readers + 1 } else { *readers - 1 };
    journal_uses::set_journal_use(engine, FOR_MOVES, *readers > 0);
}

fn run(engine: &Engine, job: &Move) {
    log::info!("Moving slots {} to node {}: move {}", job.slots, job.target, job.name);
    let ended = Link::establish(engine, job).and_then(|link| Export::begin(engine, job, link)?.run());
    match ended {
        Ok(()) => {
            job.succeed();
            let progress = job.progress();
            log::info!(
                "Move {} is done: {} keys, commands waited for {} ms",
                job.name,
                progress.keys,
                progress.pause_ms
            );
        }
        Err(failure) if failure.is_transient() => {
            job.interrupt(&failure.to_string());
            log::warn!("Move {} was interrupted, the slots stay here for now: {failure}", job.name);
        }
        Err(failure) => {
            // The move is not over while its order stands: this server's successor would begin it
            // again.
            give_up_order(engine, &job.name);
            if matches!(failure, Failure::Cancelled) {
                job.is_cancelled.store(true, Relaxed);
            }
            job.fail(&failure.to_string());
            log::warn!("Move {} failed, the slots stay here: {failure}", job.name);
        }
    }
}

/// A key to be sent.
struct Item {
    db: u32,
    key: Box<[u8]>,
    content: Content,
}

enum Content {
    /// The payload, the expiry, and whether the key is protected from eviction.
    Payload(Vec<u8>, Option<i64>, bool),
    Shared(CowEntry),
    Gone,
}

struct Export<'e> {
    engine: &'e Engine,
    job: &'e Move,
    link: Link<'e>,
    positions: Positions,
    /// `None` only while this is dropped.
    journal: Option<Reader>,
    buffer: Vec<u8>,
    /// Start of each piece of the journal in the buffer, with its offset.
    pieces: VecDeque<(usize, u64)>,
    units: Units,
    /// The journal's database after the last unit.
    db: u32,
    /// Units for the target, and the database selected after them.
    batch: Vec<u8>,
    batch_db: Option<u32>,
    sent: usize,
    last_read: Instant,
    pace: Pace,
    /// Since when some writes have been waiting for the move.
    slowed: Option<Instant>,
    /// For how long some have been waiting before.
    slowed_before: Duration,
}

impl Drop for Export<'_> {
    fn drop(&mut self) {
        self.slow(Reach::Nothing, 0);
        if !self.slowed_before.is_zero() {
            log::info!("Move {}: writes waited for {:.1?} in all", self.job.name, self.slowed_before);
        }
        if let Some(journal) = self.journal.take() {
            journal.end(&self.engine.keyspace.journal);
        }
        count_move_readers(self.engine, false);
    }
}

impl<'e> Export<'e> {
    /// Reads the journal from now on.
    fn begin(engine: &'e Engine, job: &'e Move, link: Link<'e>) -> Result<Export<'e>, Failure> {
        let keyspace = &engine.keyspace;
        let journal = {
            let _world = world::stop(engine);
            count_move_readers(engine, true);
            keyspace.journal.forget_database();
            keyspace.journal.reader()
        };
        let databases = keyspace.databases();
        let keys =
            job.slots.iter().map(|slot| (0..databases).map(|db| keyspace.slot_len(slot, db)).sum::<usize>());
        let total = keys.sum::<usize>() as u64;
        job.note(|progress| {
            progress.state = MoveState::Snapshotting;
            progress.keys_total = total;
            progress.answered_ms = unix_ms();
        });
        Ok(Export {
            engine,
            job,
            link,
            positions: Positions::new(job.slots.iter()),
            journal: Some(journal),
            buffer: Vec::new(),
            pieces: VecDeque::new(),
            units: Units::default(),
            db: 0,
            batch: Vec::new(),
            batch_db: None,
            sent: 0,
            last_read: Instant::now(),
            pace: Pace::new(throttle::replica_output_limit(engine).hard_bytes),
            slowed: None,
            slowed_before: Duration::ZERO,
        })
    }

    /// Makes these writes wait, and no others.
    fn slow(&mut self, reach: Reach, behind: u64) {
        hold::slow_writes(self.engine, self.job, reach);
        if reach == Reach::Nothing {
            self.slowed_before += self.slowed.take().map_or(Duration::ZERO, |since| since.elapsed());
        } else if self.slowed.is_none() {
            self.slowed = Some(Instant::now());
            if self.slowed_before.is_zero() {
                log::info!("Move {}: writes to its slots wait, {behind} bytes are unsent", self.job.name);
            }
        }
    }

    /// Makes writes wait if they are too fast for the move. Fails if that does not help.
    fn keep_pace(&mut self, behind: u64) -> Result<(), Failure> {
        let waited = self.slowed.map_or(Duration::ZERO, |since| since.elapsed());
        let reach = self.pace.look(behind, waited);
        if reach != Reach::Nothing || self.slowed.is_some() {
            self.slow(reach, behind);
        }
        if self.pace.is_lost(behind, waited) {
            return Err(rejected("the target cannot keep up with the writes"));
        }
        Ok(())
    }

    fn run(mut self) -> Result<(), Failure> {
        let slots: Vec<u16> = self.job.slots.iter().collect();
        for slot in slots {
            self.copy_slot(slot)?;
        }
        self.job.enter(MoveState::Streaming);
        let mut handovers = 0;
        loop {
            self.catch_up()?;
            // Done before commands wait, since etcd may take its time.
            let records = self.records()?;
            self.approach()?;
            self.link.resumes = false;
            let ended = self.hand_over(records);
            self.link.resumes = true;
            self.slow(Reach::Nothing, 0);
            self.pace.begin_anew();
            handovers += 1;
            match ended {
                // The slots are still here, and the target still has what it had.
                Err(lost @ Failure::Broken) if handovers < HANDOVERS_MAX => {
                    self.job.enter(MoveState::Streaming);
                    self.link.resume(lost)?;
                }
                ended => return ended,
            }
        }
    }

    /// Passes on changes until few are left.
    fn catch_up(&mut self) -> Result<(), Failure> {
        let most = self.most_behind();
        loop {
            let behind = self.follow()?;
            self.link.drain()?;
            let is_little = self.pace.end_round(behind, most);
            if is_little && self.positions.wanted(1).is_none() {
                return Ok(());
            }
        }
    }

    fn most_behind(&self) -> u64 {
        self.engine.config.cluster_slot_migration_handoff_max_lag_bytes()
    }

    /// The records on which the change will be based, as soon as etcd returns them.
    fn records(&mut self) -> Result<Map, Failure> {
        loop {
            match changes::cluster_records(self.engine) {
                Ok(records) => return Ok(records),
                Err(error) => log::debug!("Move {} waits for etcd: {error}", self.job.name),
            }
            self.follow()?;
            self.link.drain()?;
            std::thread::sleep(RETRY);
        }
    }

    /// Catches up, together with the target's in-sync members, until a round takes next to no
    /// time: another one takes as long while commands wait. If that does not come about, writes
    /// wait throughout some more rounds, and then until the end.
    fn approach(&mut self) -> Result<(), Failure> {
        let (began, most) = (Instant::now(), self.most_behind());
        // From now on its answers wait for the members.
        self.link.make_durable()?;
        loop {
            let is_last = began.elapsed() >= APPROACH;
            if is_last {
                match self.pace.begin_last_round() {
                    Some(reach) => self.slow(reach, 0),
                    None => return Ok(()),
                }
            }
            let round = Instant::now();
            let behind = self.follow()?;
            self.reveal()?;
            let took = round.elapsed();
            if took <= SHORT_ROUND || is_last && behind <= most && took <= BEARABLE_ROUND {
                log::debug!("Move {}: the last round took {took:?}", self.job.name);
                return Ok(());
            }
        }
    }

    /// Waits until the target and its in-sync members have everything.
    fn reveal(&mut self) -> Result<(), Failure> {
        self.link.send(Request::Reveal)?;
        self.link.drain()
    }

    /// Copies a slot's keys, and reads the journal in between.
    fn copy_slot(&mut self, slot: u16) -> Result<(), Failure> {
        let engine = self.engine;
        self.positions.begin(slot);
        let mut last = 0;
        for db in 0..engine.keyspace.databases() {
            let mut cursor = Some(TableCursor::default());
            while let Some(from) = cursor {
                let mut items = Vec::new();
                let now = unix_ms();
                let (next, position) = engine.keyspace.reader().copy_slot(slot, db, from, STEP, |found| {
                    let item = item(db, found, now);
                    let weight = item.as_ref().map_or(0, Item::bytes) / STEP_BYTES + 1;
                    items.extend(item);
                    weight
                });
                (cursor, last) = (next, position);
                self.send_items(items)?;
                if self.sent >= SENT_BETWEEN || self.last_read.elapsed() >= TIME_BETWEEN {
                    self.follow_once()?;
                    while self.pace.is_catching_up() {
                        self.follow_once()?;
                    }
                }
            }
        }
        self.positions.end(slot, last);
        Ok(())
    }

    fn send_items(&mut self, items: Vec<Item>) -> Result<(), Failure> {
        let now = unix_ms();
        let count = items.len() as u64;
        for Item { db, key, content } in items {
            let (payload, expiry, is_protected) = match content {
                Content::Gone => {
                    self.link.send_for(db, Request::Unlink(key))?;
                    continue;
                }
                Content::Payload(payload, expiry, is_protected) => (Some(payload), expiry, is_protected),
                Content::Shared(shared) => {
                    let entry = shared.entry();
                    (payload(entry, now), entry.expiry(), entry.is_protected())
                }
            };
            let Some(payload) = payload else { continue };
            self.sent += payload.len();
            let protected = is_protected.then(|| key.clone());
            self.link.send_for(db, Request::Restore { key, expiry, payload })?;
            if let Some(key) = protected {
                self.link.send_for(db, Request::Protect(key))?;
            }
        }
        self.job.note(|progress| progress.keys += count);
        Ok(())
    }

    /// One round of passing changes on ([`Pace`]). Returns the number of unsent bytes.
    fn follow(&mut self) -> Result<u64, Failure> {
        let end = self.engine.keyspace.journal.end();
        self.pace.begin_round();
        while self.pace.is_in_round(self.has_read(end)) {
            self.follow_once()?;
        }
        self.copy_wanted()
    }

    /// Reads the journal up to its current end, and copies keys again where necessary. Returns
    /// the number of bytes journalled meanwhile.
    fn follow_to_end(&mut self) -> Result<u64, Failure> {
        let end = self.engine.keyspace.journal.end();
        while !self.has_read(end) {
            self.follow_once()?;
        }
        self.follow_once()?;
        self.copy_wanted()
    }

    /// True if the journal has been read up to an offset.
    fn has_read(&self, end: u64) -> bool {
        self.journal.as_ref().is_none_or(|journal| journal.position() >= end)
    }

    /// Copies keys again where necessary. Returns the number of unsent bytes.
    fn copy_wanted(&mut self) -> Result<u64, Failure> {
        while let Some((slot, names)) = self.positions.wanted(AGAIN_MAX) {
            self.copy_again(slot, &names)?;
            self.follow_once()?;
        }
        let position = self.journal.as_ref().map_or(0, Reader::position);
        Ok(self.engine.keyspace.journal.end().saturating_sub(position) + self.buffer.len() as u64)
    }

    fn copy_again(&mut self, slot: u16, names: &[Name]) -> Result<(), Failure> {
        let now = unix_ms();
        let mut items = Vec::with_capacity(names.len());
        let position = self.engine.keyspace.reader().copy_keys(slot, names, |index, found| {
            let (db, key) = &names[index];
            let gone = || Item { db: *db, key: key.clone(), content: Content::Gone };
            items.push(found.and_then(|found| item(*db, found, now)).unwrap_or_else(gone));
        });
        for name in names {
            self.positions.copied_again(slot, name.clone(), position);
        }
        // The collected batch is older than these copies.
        self.send_batch()?;
        self.send_items(items)
    }

    /// Reads a part of the journal, and passes on what the target needs.
    fn follow_once(&mut self) -> Result<(), Failure> {
        check(self.engine, self.job)?;
        (self.sent, self.last_read) = (0, Instant::now());
        let journal = &self.engine.keyspace.journal;
        let Some(reader) = &mut self.journal else { return Ok(()) };
        let (buffer, pieces) = (&mut self.buffer, &mut self.pieces);
        let before = buffer.len();
        reader.read_placed(journal, journal.complete(), |offset, bytes| {
            if buffer.len() - before >= READ_BYTES {
                return 0;
            }
            pieces.push_back((buffer.len(), offset));
            buffer.extend_from_slice(bytes);
            bytes.len()
        });
        let behind = journal.end().saturating_sub(reader.position());
        self.job.note(|progress| progress.behind = behind);
        self.keep_pace(behind)?;
        let buffer = std::mem::take(&mut self.buffer);
        let mut units = std::mem::take(&mut self.units);
        units.parse(&buffer).map_err(|error| rejected(format!("the journal cannot be read: {error}")))?;
        let mut rest = units.requests();
        while let Some(last) = rest.iter().position(|request| request.ends_unit) {
            let (unit, later) = rest.split_at(last + 1);
            rest = later;
            self.pass_on(&units, unit, &buffer)?;
        }
        let used = units.forget();
        self.units = units;
        self.buffer = buffer;
        self.forget(used);
        self.send_batch()
    }

    /// Drops the first `used` bytes of the buffer.
    fn forget(&mut self, used: usize) {
        let place = self.offset_of(used);
        self.buffer.drain(..used);
        while self.pieces.get(1).is_some_and(|(begin, _)| *begin <= used) {
            self.pieces.pop_front();
        }
        for (begin, offset) in &mut self.pieces {
            let passed = used.saturating_sub(*begin);
            *offset += passed as u64;
            *begin = begin.saturating_sub(used);
        }
        if self.buffer.is_empty() {
            self.pieces.clear();
        }
        if let Some(place) = place {
            self.positions.passed(place);
        }
    }

    /// The journal offset of a position in the buffer, or of its end.
    fn offset_of(&self, place: usize) -> Option<u64> {
        let (begin, offset) = self.pieces.iter().rev().find(|(begin, _)| *begin <= place)?;
        Some(offset + (place - begin) as u64)
    }

    /// Adds a unit to the batch, if the target needs it.
    fn pass_on(&mut self, units: &Units, unit: &[StreamRequest], buffer: &[u8]) -> Result<(), Failure> {
        let (Some(first), Some(last)) = (unit.first(), unit.last()) else { return Ok(()) };
        let before = self.db;
        let (mut found, mut is_all) = (Vec::new(), true);
        for request in unit {
            let args: Vec<&[u8]> = units.args(request, buffer).collect();
            is_all &= self.look_at(&args, &mut found)?;
        }
        if found.is_empty() {
            return Ok(());
        }
        // The pieces still describe `buffer`.
        let offset = self.offset_of(first.bytes.start).unwrap_or(0);
        if !self.positions.needs(offset, &found, is_all) {
            return Ok(());
        }
        if self.batch_db != Some(before) {
            push_select(&mut self.batch, before);
        }
        self.batch_db = Some(self.db);
        self.batch.extend_from_slice(&buffer[first.bytes.start..last.bytes.end]);
        if self.batch.len() >= BATCH_BYTES { self.send_batch() } else { Ok(()) }
    }

    /// Collects a request's keys that are in the move's slots. False if it has others, too.
    fn look_at(&mut self, args: &[&[u8]], found: &mut Vec<(u16, Name)>) -> Result<bool, Failure> {
        let command = command_of(self.engine, args);
        if command.is_some_and(|command| command.behavior.has(Behavior::REPLAY_SELECTS)) {
            let db = args.get(1).and_then(|db| braid_base::number::parse_i64(db));
            self.db = db.and_then(|db| u32::try_from(db).ok()).unwrap_or(0);
            return Ok(true);
        }
        let Some(command) = command.filter(|command| command.spec.flags.has(Flags::WRITE)) else {
            return Ok(true);
        };
        let at = keys::find(command.spec, args).unwrap_or_default();
        if at.is_empty()
            && command.spec.scope_of(args) == Scope::World
            && command.spec.group != Family::Scripting
        {
            return Err(rejected(format!(
                "{} was executed during the move",
                command.full_name.to_ascii_uppercase()
            )));
        }
        let mut is_all = true;
        for at in at {
            let (key, db) = (args[at.index], self.db);
            let slot = key_hash_slot(key);
            match self.positions.has(slot) {
                true => found.push((slot, (db, key.into()))),
                false => is_all = false,
            }
        }
        Ok(is_all)
    }

    fn send_batch(&mut self) -> Result<(), Failure> {
        if self.batch.is_empty() && !self.link.needs_mark() {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.batch);
        self.batch_db = None;
        self.sent += batch.len();
        self.link.apply(batch)
    }

    /// Holds commands back, sends the rest, and hands the slots over.
    fn hand_over(&mut self, records: Map) -> Result<(), Failure> {
        let (engine, job) = (self.engine, self.job);
        let began = Instant::now();
        let limit = engine.config.cluster_slot_migration_write_pause_timeout_milliseconds();
        let deadline = began + Duration::from_millis(limit.into());
        let hold = Hold::new(engine, &job.slots);
        job.enter(MoveState::Paused);
        let held = began.elapsed();
        self.finish(deadline)?;
        let finished = began.elapsed();
        let mut given = None;
        let committed = self.commit(records, deadline, || given = Some(began.elapsed()));
        let followed = began.elapsed();
        if committed.is_ok() {
            // The slots are the target's: whether it has noticed affects only how often clients
            // are redirected.
            let _ = self.link.connection.set_timeout(FOLLOW);
            let _ = match given {
                Some(_) => answer(&mut self.link.connection),
                // The outcome was determined in another way.
                None => ask(&mut self.link.connection, &[b"CLUSTER", b"SYNCSLOTS", b"DONE"]),
            };
        }
        drop(hold);
        let ended = began.elapsed();
        job.note(|progress| progress.pause_ms = ended.as_millis() as u64);
        if let Some(given) = given {
            log::info!(
                "Move {}: commands waited for {ended:.1?}: {held:.1?} for running commands, {:.1?} for the \
                 last changes, {:.1?} for etcd, {:.1?} until this node and {:.1?} until the target applied \
                 the change",
                job.name,
                finished.saturating_sub(held),
                given.saturating_sub(finished),
                followed.saturating_sub(given),
                ended.saturating_sub(followed),
            );
        }
        committed
    }

    /// Sends the remaining changes, and waits until the target and its in-sync members have them.
    fn finish(&mut self, deadline: Instant) -> Result<(), Failure> {
        let end = self.engine.keyspace.journal.end();
        loop {
            let patience = deadline.saturating_duration_since(Instant::now());
            if patience.is_zero() {
                return Err(rejected("commands would have to wait too long"));
            }
            self.link.patience = patience;
            self.link.connection.set_timeout(patience)?;
            self.follow_to_end()?;
            let is_read = self.journal.as_ref().is_none_or(|journal| journal.position() >= end);
            if is_read && self.buffer.is_empty() && self.positions.wanted(1).is_none() {
                break;
            }
        }
        self.reveal()
    }

    /// Gives the slots to the target, or fails with certainty that the target has not got them.
    /// `records` were read before the target is asked whether it still has everything. After the
    /// commit the target is notified; its answer must still be read.
    fn commit(&mut self, records: Map, deadline: Instant, given: impl FnOnce()) -> Result<(), Failure> {
        let (engine, job) = (self.engine, self.job);
        let me = author::as_author(engine).ok_or_else(|| interrupted("this server is not in a cluster"))?;
        let connection = RefCell::new(&mut self.link.connection);
        let refused = RefCell::new(None);
        let work = |operator: &Operator<'_>| -> Result<Change, Refusal> {
            let refuse = |failure: Failure| {
                let refusal = Refusal(failure.to_string());
                *refused.borrow_mut() = Some(failure);
                refusal
            };
            if job.is_cancelled.load(Relaxed) {
                return Err(refuse(Failure::Cancelled));
            }
            if Instant::now() >= deadline {
                return Err(refuse(rejected("commands would have to wait too long")));
            }
            // The records were read before this: any event that makes the target drop the keys
            // comes later, and raises the epoch.
            let request: [&[u8]; 3] = [b"CLUSTER", b"SYNCSLOTS", b"READY"];
            ask(&mut connection.borrow_mut(), &request).map_err(refuse)?;
            operator.move_slots(&job.name, &job.slots, &job.target)
        };
        let committed = || {
            given();
            // Both sides follow at the same time.
            let mut connection = connection.borrow_mut();
            let told = connection.request(&[b"CLUSTER", b"SYNCSLOTS", b"DONE"]);
            let _ = told.and_then(|()| connection.flush());
        };
        match changes::change_cluster_from(engine, Some(records), &me, work, committed) {
            Ok(_) => Ok(()),
            Err(ChangeError::Unseen) => wait_for(engine, |view| !owns_any(view, &job.slots)),
            Err(ChangeError::Store(why)) => {
                log::warn!("Move {}: the outcome is unknown: {why}", job.name);
                is_gone(engine, job)?.then_some(()).ok_or_else(|| interrupted(why))
            }
            Err(error) => {
                // Otherwise the records are not as required; the next attempt will show that.
                let why = || interrupted(error.to_string().trim_start_matches("ERR "));
                Err(refused.take().unwrap_or_else(why))
            }
        }
    }
}

/// Determines whether a transaction of unknown outcome was committed. Afterwards it cannot be.
fn is_gone(engine: &Engine, job: &Move) -> Result<bool, Failure> {
    let gone = || engine.cluster_view().is_some_and(|view| !owns_any(&view, &job.slots));
    match gone() || changes::raise_epoch(engine) {
        true => Ok(gone()),
        false => Err(interrupted("this server is shutting down")),
    }
}

/// Waits until this server applies a map.
fn wait_for(engine: &Engine, is_there: impl Fn(&ClusterView) -> bool) -> Result<(), Failure> {
    let map = engine.cluster_map();
    let map = map.ok_or_else(|| interrupted("this server is not in a cluster"))?;
    while !map.wait_until(&is_there, Duration::from_secs(1)) {
        if engine.shutdown.is_requested() {
            return Err(interrupted("this server is shutting down"));
        }
    }
    Ok(())
}

fn owns_any(view: &ClusterView, slots: &SlotSet) -> bool {
    slots.iter().any(|slot| view.owns(slot))
}

impl Item {
    /// Bytes copied under the lock for this key.
    fn bytes(&self) -> usize {
        match &self.content {
            Content::Payload(payload, ..) => payload.len(),
            Content::Shared(_) | Content::Gone => 0,
        }
    }
}

/// A key in the form in which it is sent. `None` if all of its members have expired.
fn item(db: u32, found: Found<'_>, now_ms: i64) -> Option<Item> {
    let (key, content) = match found {
        Found::Shared(entry) => (entry.entry().key().into(), Content::Shared(entry)),
        Found::Here(entry) => {
            let content = Content::Payload(payload(entry, now_ms)?, entry.expiry(), entry.is_protected());
            (entry.key().into(), content)
        }
    };
    Some(Item { db, key, content })
}

/// Withdraws the order of a move that has failed permanently here. Blocks until that is
/// certain, or the server shuts down.
pub(super) fn give_up_order(engine: &Engine, name: &str) {
    while !engine.shutdown.is_requested() {
        let Some(me) = author::as_author(engine) else { return };
        match changes::change_cluster(engine, &me, |operator| Ok(operator.give_up_move(name))) {
            Ok(_) | Err(ChangeError::Unseen) => return,
            Err(error) => log::warn!("Cannot withdraw the order of move {name}: {error}"),
        }
        std::thread::sleep(PAUSE);
    }
}
