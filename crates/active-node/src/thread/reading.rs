// SPDX-License-Identifier: BSD-3-Clause
//! Reads the journal and turns its units into effects.

use std::sync::atomic::Ordering::Relaxed;

use braid_active::translate::{EVICTED, EXPIRED, Problem, Request, plain_write, translate};
use braid_active::{Hashed, Refusal};
use braid_base::clock::unix_ms;
use braid_executor::dispatch::replay::command_of;
use braid_keyspace::journal::{Loss, loss_of};
use braid_replication::link::units::{StreamRequest, Units};
use braid_spec::{Behavior, Category, KeyFlags, Scope, keys};
use smallvec::SmallVec;

use super::Thread;

/// Bytes of the journal read in one go.
const READ_BYTES: usize = 256 << 10;
/// Requests whose keys are prefetched together.
const PREFETCHED: usize = 32;
/// Maximum number of problems that are logged.
const PROBLEMS_TOLD: u64 = 16;

/// Databases and hashes of the upcoming requests, in reverse order.
type Hashes = SmallVec<[(u32, u64); PREFETCHED]>;
/// A request's arguments during translation.
type Args<'b> = SmallVec<[&'b [u8]; 8]>;

impl Thread<'_> {
    /// Reads a part of the journal. True if there may be more.
    pub(super) fn read_journal(&mut self) -> bool {
        let engine = self.engine;
        let journal = &engine.keyspace.journal;
        // Everything evicted before this point is in the journal.
        let evicting = engine.memory.evicting_bytes.load(Relaxed);
        let end = journal.complete();
        if self.reader.position() >= end {
            if evicting > 0 {
                engine.memory.evicting_bytes.fetch_sub(evicting, Relaxed);
            }
            return false;
        }
        self.throttle();
        let (buffer, own_until) = (&mut self.buffer, self.own_until);
        let before = buffer.len();
        self.reader.read_placed(journal, end, |offset, bytes| {
            if offset < own_until {
                return bytes.len().min((own_until - offset) as usize);
            }
            if buffer.len() - before >= READ_BYTES {
                return 0;
            }
            buffer.extend_from_slice(bytes);
            bytes.len()
        });
        let buffer = std::mem::take(&mut self.buffer);
        let mut units = std::mem::take(&mut self.units);
        if let Err(error) = units.parse(&buffer) {
            // The journal is this server's own; if it cannot be parsed, the keyspace is
            // authoritative.
            log::warn!("Active-active: the journal cannot be read: {error}");
            (self.all_dirty, self.units) = (true, Units::default());
            return true;
        }
        self.translate_units(&units, &buffer);
        let used = units.forget();
        self.buffer = buffer;
        self.buffer.drain(..used);
        self.units = units;
        true
    }

    fn translate_units(&mut self, units: &Units, buffer: &[u8]) {
        let mut rest = units.requests();
        let mut hashed = Hashes::new();
        while let Some(last) = rest.iter().position(|request| request.ends_unit) {
            if hashed.is_empty() {
                let some = &rest[..rest.len().min(PREFETCHED)];
                let keys = some.iter().map(|request| units.args(request, buffer).nth(1).unwrap_or_default());
                hashed = keys.map(|key| (self.db, self.replica.hash(key))).collect();
                self.replica.prefetch(&hashed);
                hashed.reverse();
            }
            let (_, hash) = hashed[hashed.len() - 1];
            hashed.truncate(hashed.len().saturating_sub(last + 1));
            if last > 0 || !self.write_plain(units.args(&rest[0], buffer), hash) {
                self.translate_unit(units, &rest[..=last], buffer);
            }
            rest = &rest[last + 1..];
        }
    }

    /// Translates a unit of one request if it is a plain write that needs nothing else. False if
    /// not.
    fn write_plain<'b>(&mut self, args: impl ExactSizeIterator<Item = &'b [u8]>, hash: u64) -> bool {
        let Some((name, written)) = plain_write(args) else { return false };
        let (key, replica) = (Hashed { database: self.db, hash, name }, &mut self.replica);
        let made = self.pending.records.push(|bytes| replica.write(unix_ms() as u64, key, written, bytes));
        if let Some(unit) = made {
            self.active.figures.own.fetch_add(1, Relaxed);
            self.pending.units.push(unit);
        }
        made.is_some()
    }

    fn translate_unit(&mut self, units: &Units, requests: &[StreamRequest], buffer: &[u8]) {
        let mut all: SmallVec<[(u32, Args<'_>); 1]> = SmallVec::with_capacity(requests.len());
        for request in requests {
            let mut args: Args<'_> = units.args(request, buffer).collect();
            let command = command_of(self.engine, &args);
            if command.is_some_and(|command| command.behavior.has(Behavior::REPLAY_SELECTS)) {
                let number = args.get(1).and_then(|text| braid_base::number::parse_i64(text));
                self.db = number.and_then(|number| u32::try_from(number).ok()).unwrap_or(self.db);
                continue;
            }
            match args.first().and_then(|name| loss_of(name)) {
                Some(Loss::Expired) => args[0] = EXPIRED,
                Some(Loss::Evicted) => args[0] = EVICTED,
                None => {}
            }
            all.push((self.db, args));
        }
        if all.is_empty() {
            return;
        }
        let requests: SmallVec<[Request<'_>; 1]> =
            all.iter().map(|(database, args)| Request { database: *database, args }).collect();
        if let Some(problem) = self.translate(&requests) {
            self.note_dirty(&problem, &all);
        }
    }

    /// Translates requests as one unit. Returns the problem if some could not be translated.
    pub(super) fn translate(&mut self, requests: &[Request<'_>]) -> Option<Problem> {
        for _ in 0..2 {
            let now_ms = unix_ms() as u64;
            match translate(&mut self.replica, &*self.values, now_ms, requests) {
                Ok(unit) => {
                    if let Some(unit) = unit {
                        self.keep_own(&unit);
                    }
                    return None;
                }
                Err(error) if error.problem == Problem::Refused(Refusal::Ceiling) => self.raise_ceiling(),
                Err(error) => {
                    if let Some(unit) = error.unit {
                        self.keep_own(&unit);
                    }
                    return Some(error.problem);
                }
            }
        }
        Some(Problem::Refused(Refusal::Ceiling))
    }

    /// Marks the keys that requests write as dirty, since no effects follow from the requests.
    fn note_dirty(&mut self, problem: &Problem, requests: &[(u32, Args<'_>)]) {
        self.active.figures.results.fetch_add(1, Relaxed);
        if !matches!(problem, Problem::Unknown(_)) {
            self.requests_told += 1;
            if self.requests_told <= PROBLEMS_TOLD {
                log::warn!("Active-active: {problem}; the keys' values are sent instead");
            }
        }
        // A command may affect a database other than its own (MOVE, COPY).
        let databases = self.engine.keyspace.databases();
        for (db, args) in requests {
            if args[0] == EXPIRED {
                // It had no expiry in the shadow, so the keyspace decides.
                self.dirty.insert((*db, args[1].into()));
                continue;
            }
            let Some(command) = command_of(self.engine, args) else { continue };
            if command.spec.categories_all().has(Category::SEARCH) {
                self.definitions_dirty = true;
                continue;
            }
            if command.spec.scope_of(args) == Scope::World {
                self.all_dirty = true;
            }
            for at in keys::find(command.spec, args).into_iter().flatten() {
                if !at.flags.has(KeyFlags::RO) {
                    self.dirty.extend((0..databases).map(|db| (db, args[at.index].into())));
                }
            }
        }
    }
}
