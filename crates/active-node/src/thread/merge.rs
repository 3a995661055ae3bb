// SPDX-License-Identifier: BSD-3-Clause
//! Work done with the world stopped: applying peers' units, and reading keys from the keyspace.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};

use braid_active::difference::{Difference, OwnedRequest, apply_with_difference, merge_part_with_difference};
use braid_active::effect::Unit;
use braid_active::fill::{anew, run_whole};
use braid_active::hidden::{DEFINITIONS, LIBRARIES, Touches};
use braid_active::replica::{Replica, State};
use braid_active::translate::{agree, shown};
use braid_active::view::Shown;
use braid_active::write::write_with_difference;
use braid_active::{Applied, Name, Refusal};
use braid_base::clock::unix_ms;
use braid_base::gate::World;
use braid_base::hash::KeyHasher;
use braid_clients::attention::{JOURNAL_FULL, SNAPSHOT_FULL};
use braid_clients::pause::{PauseMode, Purpose};
use braid_executor::engine::Engine;
use braid_executor::journal_uses::FOR_ACTIVE;
use braid_executor::world;
use braid_executor::{memory, world_change};
use braid_journal::push_select;
use braid_keyspace::Txn;
use braid_keyspace::txn::NOTHING_EXPIRED;
use braid_persistence::active::CopyFile;
use braid_resp::request;
use smallvec::SmallVec;

use super::generation::told;
use super::{BEHIND_MAX, DUTIES, Thread};
use crate::batch::{Batch, BatchUnit};
use crate::keys::{KeyName, all_keys, requests_of, shown_by, with_entry, with_given_vectors};
use crate::state::Merged;
use crate::{definitions, libraries};

/// Units applied per stop of the world: as many as fit in this time, which is checked after each
/// [`UNITS`] of them.
const APPLY: Duration = Duration::from_millis(1);
const UNITS: usize = 64;
/// About as many units as are applied in that time.
const UNITS_AT_ONCE: usize = 1024;
/// Maximum unread journal bytes when the world is stopped, and the number of attempts to get
/// below that first.
const READ_WHILE_STOPPED: u64 = 4 << 10;
const CATCH_UPS: usize = 4;
/// How long the thread waits before it checks again whether changes are still held back.
const LOOK: Duration = Duration::from_millis(1);
/// The longest rest between two parts of a copy.
const REST_MAX: Duration = Duration::from_millis(5);
/// Maximum number of keys per unit.
const KEYS: usize = 256;

/// True if something but this thread holds changes back.
pub(super) fn holds_active_back(engine: &Engine, holds_writes: bool) -> bool {
    let is_full = engine.attention.get() & (JOURNAL_FULL | SNAPSHOT_FULL) != 0;
    is_full || memory::is_paused(engine, unix_ms()) && !holds_writes
}

/// Stops the world once nothing but this thread holds changes back. During shutdown it does
/// not wait.
fn world_of_active(engine: &Engine, holds_writes: bool) -> World<'_> {
    loop {
        let world = world::stop(engine);
        if !holds_active_back(engine, holds_writes) || engine.shutdown.is_imminent() {
            return world;
        }
        drop(world);
        std::thread::sleep(LOOK);
    }
}

impl Thread<'_> {
    /// Runs `work` with the world stopped and the shadow equal to the keyspace.
    fn in_world<R>(&mut self, work: impl FnOnce(&mut Self, &mut Txn<'_>) -> R) -> R {
        let engine = self.engine;
        // Most of the journal is read while clients continue; they write less in the meantime.
        for _ in 0..CATCH_UPS {
            let until = engine.keyspace.journal.complete();
            if until - self.reader.position() < READ_WHILE_STOPPED {
                break;
            }
            while self.reader.position() < until && self.read_journal() {}
            self.throttle();
        }
        let world = world_of_active(engine, self.throttled_until_ms > 0 || self.holds_writes);
        // No thread appends any more.
        while self.read_journal() {}
        let mut worker = self.worker.take().unwrap_or_else(|| engine.worker(0));
        let result = world_change::change_in_world(engine, world, &mut worker, 0, NOTHING_EXPIRED, |txn| {
            self.read_dirty_keys_in(txn);
            let result = work(self, txn);
            self.share_in(txn);
            result
        });
        self.worker = Some(worker);
        result
    }

    /// Reads the dirty keys from the keyspace into the shadow.
    pub(super) fn read_dirty_keys(&mut self) {
        self.in_world(|_, _| ());
    }

    fn read_dirty_keys_in(&mut self, txn: &mut Txn<'_>) {
        let mut names = std::mem::take(&mut self.dirty);
        if std::mem::take(&mut self.all_dirty) {
            self.take_libraries();
            self.definitions_dirty = true;
            names.extend(all_keys(txn));
            names.extend(self.replica.views().map(|(db, name, _, _)| (db, Box::from(name))));
        }
        if std::mem::take(&mut self.definitions_dirty) {
            self.take_definitions();
        }
        let names: Vec<KeyName> = names.into_iter().collect();
        for some in names.chunks(KEYS) {
            let now_ms = unix_ms() as u64;
            let mut all = Vec::new();
            for name in some {
                let requests = requests_of(txn, name);
                let Some(there) = shown_by(&*self.values, name, &requests, now_ms) else {
                    self.note_unmergeable(name);
                    continue;
                };
                self.unmergeable.remove(name);
                let here = shown(&self.replica, name.0, &name.1);
                let there = with_given_vectors(&*self.values, there, &here);
                if there != here {
                    all.push((name.0, Name::from(&name.1[..]), there));
                }
            }
            self.agree(&all);
        }
        let mut unmergeable = std::mem::take(&mut self.unmergeable);
        unmergeable.retain(|(db, key)| {
            let mut is_there = false;
            with_entry(txn, *db, key, |_, _| is_there = true);
            is_there && self.replica.key(*db, key).is_none()
        });
        self.unmergeable = unmergeable;
        let revived = self.replica.take_revived();
        if !revived.is_empty() {
            self.run_requests(txn, |replica, run| {
                for OwnedRequest { database, args } in anew(replica, &revived) {
                    run(database, &args.iter().map(Vec::as_slice).collect::<Vec<_>>());
                }
            });
        }
        if std::mem::take(&mut self.libraries_dirty) {
            self.bring_libraries(txn);
        }
    }

    /// Evicts down to the memory limit after applying peers' data. Loops do so for their clients'
    /// writes.
    fn make_room(&mut self) {
        let engine = self.engine;
        let limit = engine.config.maxmemory() as usize;
        if limit == 0 || engine.memory.counted_bytes() <= limit {
            return;
        }
        let _world = world::stop(engine);
        let mut worker = self.worker.take().unwrap_or_else(|| engine.worker(0));
        memory::make_room(engine, &mut worker, unix_ms(), true);
        self.worker = Some(worker);
        engine.keyspace.journal.wake();
    }

    /// Writes this server's libraries that the shadow lacks to the shadow.
    fn take_libraries(&mut self) {
        let new = libraries::libraries_missing_from(self.engine, &self.replica);
        self.execute(|replica, now_ms| {
            replica.execute(now_ms, |transaction| {
                for (name, code) in &new {
                    transaction.set(LIBRARIES, name, code, None);
                }
            })
        });
    }

    /// Writes what clients of this server have defined for search to the shadow.
    fn take_definitions(&mut self) {
        let changed = definitions::changed(self.engine, &self.replica);
        self.execute(|replica, now_ms| {
            replica.execute(now_ms, |transaction| {
                for (name, requests) in &changed {
                    match requests {
                        Some(requests) => transaction.set(DEFINITIONS, name, requests, None),
                        None => transaction.remove(DEFINITIONS, name),
                    }
                }
            })
        });
    }

    /// The reverse: brings the shadow's definitions of search to this server.
    fn bring_definitions(&mut self, txn: &mut Txn<'_>) {
        // In two steps: what is removed may take others with it.
        for requests in [definitions::removals, definitions::missing] {
            let requests = requests(self.engine, &self.replica);
            if !requests.is_empty() {
                self.run_requests(txn, |_, run| {
                    for words in &requests {
                        run(0, &words.iter().map(Vec::as_slice).collect::<Vec<_>>());
                    }
                });
            }
        }
    }

    /// Brings what is in no clients' database from the shadow to this server.
    fn bring_hidden(&mut self, txn: &mut Txn<'_>, touches: Touches) {
        if touches.libraries {
            self.bring_libraries(txn);
        }
        if touches.definitions {
            self.bring_definitions(txn);
        }
    }

    /// The reverse: brings the shadow's libraries to this server.
    fn bring_libraries(&mut self, txn: &mut Txn<'_>) {
        let slot = txn.context.slot;
        if let Some(args) = libraries::libraries_request(self.engine, slot, &self.replica) {
            self.run_requests(txn, |_, run| run(0, &args.iter().map(Vec::as_slice).collect::<Vec<_>>()));
        }
    }

    fn agree(&mut self, keys: &[(u32, Name, Shown)]) {
        self.execute(|replica, now_ms| agree(replica, now_ms, keys));
    }

    /// Performs an operation of this server on the shadow.
    pub(super) fn execute(
        &mut self,
        mut work: impl FnMut(&mut Replica, u64) -> Result<Option<Unit>, Refusal>,
    ) {
        for _ in 0..2 {
            match work(&mut self.replica, unix_ms() as u64) {
                Ok(unit) => {
                    if let Some(unit) = unit {
                        self.keep_own(&unit);
                    }
                    return;
                }
                Err(Refusal::Ceiling) => self.raise_ceiling(),
                Err(refusal) => return self.active.note_error(refusal.to_string()),
            }
        }
        self.active.note_error("no stamps can be issued".into());
    }

    /// What the digest adds for keys that only this server shows.
    pub(super) fn unmergeable_digest(&self) -> u64 {
        let region = self.replica.region().number();
        let hash = |(db, key): &KeyName| {
            let words = [&[region][..], &db.to_le_bytes(), key].concat();
            KeyHasher::with_key(&[0; 16]).hash(&words)
        };
        self.unmergeable.iter().map(hash).fold(0, u64::wrapping_add)
    }

    fn note_unmergeable(&mut self, name: &KeyName) {
        if !self.unmergeable.insert(name.clone()) {
            return;
        }
        let (db, key) = name;
        let key = String::from_utf8_lossy(key).into_owned();
        log::warn!(
            "Active-active: the value of '{key}' in database {db} cannot be merged and stays on this \
             server only"
        );
    }

    /// Reconciles shadow and keyspace at startup: the files are authoritative if there are any;
    /// otherwise the loaded dataset becomes this region's own.
    pub(super) fn meet_keyspace(&mut self, is_known: bool) {
        // The loaded dataset must not be read as this server's own changes.
        self.own_until = self.engine.keyspace.journal.end();
        if !is_known {
            self.all_dirty = true;
            return self.in_world(|thread, _| {
                thread.engine.keyspace.journal.forget_database();
            });
        }
        self.in_world(|thread, txn| {
            let keyspace = &thread.engine.keyspace;
            keyspace.journal.forget_database();
            thread.run_requests(txn, |replica, run| {
                run(0, &[b"FLUSHALL"]);
                let prefetch = |database, names: &mut dyn Iterator<Item = &[u8]>| {
                    let hashes: SmallVec<[u64; UNITS]> = names.map(|name| keyspace.hash(name)).collect();
                    hashes.iter().for_each(|hash| keyspace.prefetch_bucket(database, *hash));
                    hashes.iter().for_each(|hash| keyspace.prefetch_entry(database, *hash));
                };
                run_whole(replica, prefetch, run);
            });
            thread.bring_hidden(txn, Touches { libraries: true, definitions: true });
        });
    }

    /// Applies a peer's units.
    pub(super) fn merge_units(&mut self, batch: &Batch) -> Merged {
        self.replica.allow_ahead(self.engine.config.active_clock_ahead_max_ms());
        let units: Vec<BatchUnit<'_>> = batch.units().collect();
        let mut left = units.chunks(UNITS).peekable();
        while left.peek().is_some() {
            let outcome = self.in_world(|thread, txn| {
                let difference = Difference::with_capacity(UNITS_AT_ONCE.min(left.len() * UNITS));
                thread.with_difference(txn, difference, |thread, now_ms, difference| {
                    let start = Instant::now();
                    while start.elapsed() < APPLY
                        && let Some(some) = left.next()
                    {
                        let hashes = thread.prefetch(some);
                        for (unit, hash) in some.iter().zip(hashes) {
                            thread.merge_unit(now_ms, *unit, hash, difference)?;
                        }
                    }
                    Ok(())
                })
            });
            outcome?;
            self.flush();
            self.wait_for_log(|log| log.wait_until_below(BEHIND_MAX))?;
            self.make_room();
        }
        Ok(())
    }

    /// Prefetches the keys of units, in the shadow and in the keyspace. Returns the keys' hashes
    /// in the shadow.
    fn prefetch(&self, units: &[BatchUnit<'_>]) -> SmallVec<[u64; UNITS]> {
        let keyspace = &self.engine.keyspace;
        let keys = || units.iter().map(|unit| unit.key().unwrap_or((0, b"")));
        let there: SmallVec<[(u32, u64); UNITS]> =
            keys().map(|(database, name)| (database, keyspace.hash(name))).collect();
        there.iter().for_each(|(database, hash)| keyspace.prefetch_bucket(*database, *hash));
        let here: SmallVec<[(u32, u64); UNITS]> =
            keys().map(|(database, name)| (database, self.replica.hash(name))).collect();
        self.replica.prefetch(&here);
        there.iter().for_each(|(database, hash)| keyspace.prefetch_entry(*database, *hash));
        here.into_iter().map(|(_, hash)| hash).collect()
    }

    fn merge_unit<'u>(
        &mut self,
        now_ms: u64,
        unit: BatchUnit<'u>,
        hash: u64,
        difference: &mut Difference<'u>,
    ) -> Merged {
        let mut applied = None;
        if let Some(write) = unit.write() {
            let write = (write, unit.bytes);
            applied = write_with_difference(&mut self.replica, now_ms, write, hash, difference)?;
        }
        let applied = match applied {
            Some(applied) => applied,
            None => {
                let unit = unit.whole().map_err(|error| error.to_string())?;
                self.note_long(unit);
                apply_with_difference(&mut self.replica, now_ms, unit, difference)?
            }
        };
        let figures = &self.active.figures;
        match applied {
            Applied::Now => {
                figures.merged.fetch_add(1, Relaxed);
                let first = unit.first();
                let run = first.and_then(|first| self.replica.vector().run_of(first));
                if let (Some(first), Some(run)) = (first, run) {
                    self.keep(first, run, |pending| pending.extend_from_slice(unit.bytes));
                }
                Ok(())
            }
            Applied::Known => {
                figures.known.fetch_add(1, Relaxed);
                Ok(())
            }
            Applied::Early(missing) => Err(format!("earlier units are missing: {missing:?}").into()),
        }
    }

    /// Merges a full copy, which is on disk, in parts. Clients continue, but for writes while a
    /// part with a large key is merged.
    pub(super) fn merge_copy(&mut self, state: &State, file: CopyFile) -> Merged {
        self.replica.allow_ahead(self.engine.config.active_clock_ahead_max_ms());
        self.stop_saving();
        self.begin_copy(state, file)?;
        while self.replica.is_merging() {
            let start = Instant::now();
            match self.replica.next_part_is_large(state) {
                true => self.merge_large_part(state),
                false => self.merge_parts(state),
            }
            let stopped = start.elapsed();
            self.active.figures.copy_left_percent.store(self.replica.copy_left_percent(), Relaxed);
            self.flush();
            if let Err(error) = self.wait_for_log(|log| log.wait_until_below(BEHIND_MAX)) {
                // Half a copy would be worse.
                self.active.note_error(error);
            }
            self.make_room();
            self.sync_for_replies();
            if self.last_duties.elapsed() >= DUTIES {
                self.duties();
            }
            // Clients get as much time as the copy: their threads may not have been scheduled
            // before the next stop otherwise.
            if !self.engine.shutdown.is_requested() {
                std::thread::sleep(stopped.min(REST_MAX));
            }
        }
        self.note_all_long();
        // The applied vector has the copy now.
        self.has_unsynced = true;
        self.active.figures.copies_merged.fetch_add(1, Relaxed);
        // So that the copy need not be kept.
        if let Err(error) = self.begin_generation() {
            self.active.note_error(error);
        }
        Ok(())
    }

    /// Makes a copy part of this server's files, after everything read from the journal so far. If
    /// the process is killed, the next one merges it at once.
    fn begin_copy(&mut self, state: &State, file: CopyFile) -> Merged {
        self.bring_to_log()?;
        self.files.log().and_then(|log| log.sync()).map_err(|error| told(&error))?;
        let applied = self.replica.vector().clone();
        let number = self.files.begin_with(file).map_err(|error| told(&error))?;
        if let Err(refusal) = self.replica.begin_merge(unix_ms() as u64, state) {
            self.files.drop_copy(number);
            self.note_log(number);
            return Err(refusal.into());
        }
        {
            let mut outbox = self.active.outbox.lock();
            outbox.backlog.merges(&state.vector, &applied);
            // The earlier logs contain nothing of the copy.
            outbox.disk.logs.clear();
        }
        self.note_log(number);
        Ok(())
    }

    /// Merges parts of a copy as units are merged: with the world stopped, for a short time.
    fn merge_parts(&mut self, state: &State) {
        self.in_world(|thread, txn| {
            let merged = thread.with_difference(txn, Difference::default(), |thread, _, difference| {
                let start = Instant::now();
                while start.elapsed() < APPLY
                    && thread.replica.is_merging()
                    && !thread.replica.next_part_is_large(state)
                {
                    merge_part_with_difference(&mut thread.replica, state, difference);
                }
                Ok(())
            });
            if let Err(refused) = merged {
                thread.active.note_error(refused.reason);
            }
        });
    }

    /// Merges a part of a copy that takes long. Writes wait, and reads do not: no key may change
    /// between its merge in the shadow and in the keyspace.
    fn merge_large_part(&mut self, state: &State) {
        let engine = self.engine;
        self.in_world(|thread, _| {
            thread.holds_writes = true;
            thread.active.merges_copy.store(true, SeqCst);
            let pause = &engine.clients.pause;
            pause.begin(&engine.attention, Purpose::Copy, PauseMode::Write, i64::MAX, unix_ms());
        });
        let own = self.own_units();
        let mut difference = Difference::default();
        merge_part_with_difference(&mut self.replica, state, &mut difference);
        let mut pieces = difference.into_pieces();
        // No first replica other than Braid can attach meanwhile ([`Active::merges_copy`]).
        pieces.rewrites_streams = engine.replication.has_other_replicas.load(SeqCst);
        let mut is_over = false;
        while !is_over {
            // While clients read, since a large key takes long.
            pieces.prepare(&self.replica);
            self.in_world(|thread, txn| {
                let start = Instant::now();
                let goes_on = || start.elapsed() < APPLY;
                thread.run_requests(txn, |replica, run| is_over = pieces.run(replica, run, goes_on));
            });
        }
        // No client writes meanwhile; if one has, the keyspace is authoritative.
        self.all_dirty |= self.own_units() != own;
        self.holds_writes = false;
        self.active.merges_copy.store(false, SeqCst);
        engine.clients.pause.end(&engine.attention, &engine.clients.mailboxes, Purpose::Copy);
    }

    /// Runs `work` on the shadow, which notes the difference, and applies that to the keyspace.
    fn with_difference<'u>(
        &mut self,
        txn: &mut Txn<'_>,
        mut difference: Difference<'u>,
        work: impl FnOnce(&mut Self, u64, &mut Difference<'u>) -> Merged,
    ) -> Merged {
        let now_ms = unix_ms() as u64;
        difference.rewrites_streams = self.engine.replication.has_other_replicas.load(SeqCst);
        let outcome = work(self, now_ms, &mut difference);
        let touches = difference.touches;
        self.run_requests(txn, |replica, run| difference.finish(replica, run));
        self.bring_hidden(txn, touches);
        outcome
    }

    /// Runs requests in the keyspace, and journals them as one unit for all other readers.
    fn run_requests(
        &mut self,
        txn: &mut Txn<'_>,
        requests: impl FnOnce(&Replica, &mut dyn FnMut(u32, &[&[u8]])),
    ) {
        let Thread { engine, replica, replay, .. } = self;
        let journals = &engine.keyspace.settings.journals;
        // Requests that run here are not journalled one by one.
        let uses = journals.swap(0, Relaxed);
        let is_journalled = uses & !FOR_ACTIVE != 0;
        let mut bytes = Vec::new();
        let mut selected = None;
        requests(replica, &mut |database, args| {
            let is_first = selected.is_none();
            if selected.replace(database) != Some(database) {
                replay.select(database);
                if is_journalled {
                    push_select(&mut bytes, database);
                }
            }
            if is_first && is_journalled {
                request::push(&mut bytes, &[b"MULTI"]);
            }
            replay.run_streamed(engine, txn, args);
            if is_journalled {
                request::push(&mut bytes, args);
            }
        });
        journals.store(uses, Relaxed);
        if !bytes.is_empty() {
            request::push(&mut bytes, &[b"EXEC"]);
            let (journal, context) = (&engine.keyspace.journal, &mut *txn.context);
            journal.append_received(context.slot, &mut context.journal, &bytes, false, None);
            journal.forget_database();
            self.own_until = journal.end();
        }
    }
}
