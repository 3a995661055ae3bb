// SPDX-License-Identifier: BSD-3-Clause
//! A simulated server: the real replica with its backlog, and a disk.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use braid_active::backlog::Backlog;
use braid_active::difference::Difference;
use braid_active::effect::Unit;
use braid_active::logs::Logs;
use braid_active::replica::{Settings, State, ceiling_after};
use braid_active::write::{Write, write_with_difference};
use braid_active::{Applied, Refusal, Replica, Stamp, Vector};

use crate::oracle::Units;

/// How long a ceiling lets a server write, in ms.
const CEILING_MS: u64 = 1000;

/// Rules of the server outside of the replica; a fault disables one.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// The acknowledged state is on disk.
    pub acknowledges_saved: bool,
    /// A peer never gets units that follow dropped ones.
    pub copies_after_gap: bool,
    /// The backlog records full copies.
    pub remembers_copies: bool,
    /// The backlog on disk records full copies.
    pub begins_logs_after_copies: bool,
}

impl Default for Path {
    fn default() -> Path {
        Path {
            acknowledges_saved: true,
            copies_after_gap: true,
            remembers_copies: true,
            begins_logs_after_copies: true,
        }
    }
}

/// The state on disk.
#[derive(Clone)]
struct Saved {
    state: State,
    backlog: Backlog,
    logs: LogFiles,
    units: Units,
}

/// A full copy, and the units that it contains as known to the world.
type Copy = Rc<(State, Units)>;

/// A full copy that is being merged, as on disk: the state before it, the copy, and the units made
/// since.
#[derive(Clone)]
struct Merging {
    copy: Copy,
    before: Saved,
    made: Vec<Arc<[u8]>>,
}

/// The number of units in a log, and the maximum number of logs.
const UNITS_OF_LOG: usize = 12;
const LOGS: u64 = 5;

/// A unit's first stamp and its bytes.
type Record = (Stamp, Arc<[u8]>);

/// The backlog on disk.
#[derive(Clone, Default)]
struct LogFiles {
    index: Logs,
    units: BTreeMap<u64, Vec<Record>>,
}

impl LogFiles {
    fn begin(&mut self, applied: &Vector) {
        let number = self.units.last_key_value().map_or(0, |(last, _)| last + 1);
        self.index.push(number, applied.clone());
        self.index.drop_before((number + 1).saturating_sub(LOGS));
        self.units.insert(number, Vec::new());
    }

    /// Appends a unit that has just been applied.
    fn push(&mut self, first: Stamp, bytes: Arc<[u8]>, applied: &Vector) {
        let Some(mut last) = self.units.last_entry() else { return };
        last.get_mut().push((first, bytes));
        if last.get().len() == UNITS_OF_LOG {
            self.begin(applied);
        }
    }

    /// The units that a server lacks; `None` if they are not all here.
    fn since(&self, applied: &Vector) -> Option<Vec<Arc<[u8]>>> {
        let from = self.index.reach(applied)?.number;
        let units = self.units.range(from..).flat_map(|(_, units)| units);
        Some(units.filter(|(first, _)| !applied.covers(*first)).map(|(_, bytes)| Arc::clone(bytes)).collect())
    }
}

pub struct Server {
    pub settings: Settings,
    pub replica: Replica,
    pub backlog: Backlog,
    /// The applied units, as known to the world.
    pub units: Units,
    saved: Saved,
    /// The ceiling on disk.
    ceiling: Stamp,
    /// The offset of its clock from the world's.
    pub skew_ms: i64,
    /// The applied vector that each server last reported.
    pub heard: Vec<Vector>,
    /// The durable vector that each server last reported.
    pub acknowledged: Vec<Vector>,
    pub backlog_bytes: usize,
    /// Empty if the server keeps no logs.
    logs: LogFiles,
    merging: Option<Box<Merging>>,
    /// The copy and the units after it that follow the saved state on disk.
    redo: Option<(Copy, Vec<Arc<[u8]>>)>,
}

impl Server {
    pub fn new(
        settings: Settings,
        servers: usize,
        skew_ms: i64,
        backlog_bytes: usize,
        keeps_logs: bool,
    ) -> Server {
        let mut logs = LogFiles::default();
        if keeps_logs {
            logs.begin(&Vector::default());
        }
        let saved = Saved {
            state: State::default(),
            backlog: Backlog::default(),
            logs: logs.clone(),
            units: Units::default(),
        };
        Server {
            settings,
            replica: Replica::new(settings, State::default()),
            backlog: Backlog::default(),
            units: Units::default(),
            saved,
            ceiling: Stamp::start(settings.region),
            skew_ms,
            heard: vec![Vector::default(); servers],
            acknowledged: vec![Vector::default(); servers],
            backlog_bytes,
            logs,
            merging: None,
            redo: None,
        }
    }

    pub fn now(&self, world_ms: u64) -> u64 {
        world_ms.saturating_add_signed(self.skew_ms)
    }

    /// Puts a ceiling on disk that lets it write.
    pub fn raise_ceiling(&mut self, now_ms: u64) {
        if self.replica.needs_ceiling(now_ms) {
            self.ceiling = self.replica.next_ceiling(now_ms, CEILING_MS);
            self.replica.raise_ceiling(self.ceiling);
        }
    }

    fn present(&self) -> Saved {
        Saved {
            state: self.replica.state().clone(),
            backlog: self.backlog.clone(),
            logs: self.logs.clone(),
            units: self.units,
        }
    }

    /// Has everything on disk.
    pub fn save(&mut self) {
        self.redo = None;
        match &self.merging {
            // No state is saved meanwhile. The copy and the log are on disk.
            Some(merging) => {
                self.saved = Saved { units: self.units_with_copy(), ..merging.before.clone() };
                self.redo = Some((Rc::clone(&merging.copy), merging.made.clone()));
            }
            None => self.saved = self.present(),
        }
    }

    /// The applied units, with those of the copy that is being merged.
    pub fn units_with_copy(&self) -> Units {
        let mut units = self.units;
        if let Some(merging) = &self.merging {
            units.join(&merging.copy.1);
        }
        units
    }

    /// The vector that it acknowledges to the others.
    pub fn durable(&self, path: &Path) -> &Vector {
        if path.acknowledges_saved { &self.saved.state.vector } else { self.replica.vector() }
    }

    /// True if a crash would lose the unit.
    pub fn unsaved(&self, number: usize) -> bool {
        self.units.has(number) && !self.saved.units.has(number)
    }

    fn load(&mut self) {
        self.backlog = self.saved.backlog.clone();
        self.logs = self.saved.logs.clone();
        self.units = self.saved.units;
        self.heard.fill(Vector::default());
        self.acknowledged.fill(Vector::default());
    }

    /// Shuts down cleanly and starts again.
    pub fn resume(&mut self) {
        self.finish_merge();
        self.save();
        self.load();
        self.replica = Replica::new(self.settings, self.saved.state.clone());
        self.replica.raise_ceiling(self.ceiling);
    }

    /// Crashes and starts from its disk. The returned unit announces the new run.
    pub fn crash(&mut self, now_ms: u64) -> Result<Option<Unit>, Refusal> {
        self.load();
        let last = self.ceiling;
        let latest = last.max(self.saved.state.vector.latest());
        self.ceiling = ceiling_after(latest, self.settings.region, now_ms, CEILING_MS);
        let state = self.saved.state.clone();
        let (replica, unit) = Replica::restart(self.settings, state, last, self.ceiling, now_ms)?;
        self.replica = replica;
        self.merging = None;
        Ok(unit)
    }

    /// After [`Server::crash`], once the new run has been announced: applies what follows the saved
    /// state on disk.
    pub fn redo(&mut self, now_ms: u64, path: &Path) -> Result<(), String> {
        let Some((copy, made)) = self.redo.clone() else { return Ok(()) };
        self.merge(now_ms, &copy, path)?;
        for bytes in made {
            self.take(now_ms, &bytes)?;
        }
        Ok(())
    }

    /// Keeps a unit that it has applied or made, for its peers.
    pub fn keep(&mut self, first: Stamp, bytes: Arc<[u8]>) {
        self.backlog.push(first, self.replica.vector(), &bytes);
        self.backlog.trim(self.backlog_bytes);
        if let Some(merging) = &mut self.merging {
            merging.made.push(Arc::clone(&bytes));
        }
        self.logs.push(first, bytes, self.replica.vector_with_copy());
    }

    /// The units missing from a server that has applied `applied`; `None` if it needs a full
    /// copy.
    pub fn since(&self, applied: &Vector) -> Option<Vec<Arc<[u8]>>> {
        let units = self.backlog.since(applied).map(|units| units.map(Arc::from).collect());
        units.or_else(|| self.logs.since(applied))
    }

    /// Applies a unit. Returns its first stamp if it was applied now.
    pub fn take(&mut self, now_ms: u64, bytes: &Arc<[u8]>) -> Result<Option<Stamp>, String> {
        let unit = braid_active::wire::decode(bytes).map_err(|error| error.to_string())?;
        let mut applied = None;
        if let Some(write) = Write::read(bytes) {
            let (hash, write) = (self.replica.hash(write.name(bytes)), (&write, &bytes[..]));
            let mut difference = Difference::default();
            let short = write_with_difference(&mut self.replica, now_ms, write, hash, &mut difference);
            applied = short.transpose();
        }
        match applied.unwrap_or_else(|| self.replica.apply(now_ms, &unit)) {
            Ok(Applied::Now) => {
                self.keep(unit.first, Arc::clone(bytes));
                Ok(Some(unit.first))
            }
            Ok(_) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Merges a full copy at once.
    pub fn merge(&mut self, now_ms: u64, copy: &Copy, path: &Path) -> Result<(), String> {
        self.begin_merge(now_ms, copy, path)?;
        self.finish_merge();
        Ok(())
    }

    /// Begins to merge a full copy.
    pub fn begin_merge(&mut self, now_ms: u64, copy: &Copy, path: &Path) -> Result<(), String> {
        let merging = Merging { copy: Rc::clone(copy), before: self.present(), made: Vec::new() };
        let before = self.replica.vector().clone();
        self.replica.begin_merge(now_ms, &copy.0).map_err(|error| error.to_string())?;
        self.merging = Some(Box::new(merging));
        if path.remembers_copies {
            self.backlog.merges(&copy.0.vector, &before);
        }
        if path.begins_logs_after_copies && !self.logs.units.is_empty() {
            self.logs.index.clear();
            self.logs.begin(self.replica.vector_with_copy());
        }
        Ok(())
    }

    pub fn is_merging(&self) -> bool {
        self.merging.is_some()
    }

    /// Merges up to `parts` more parts of the copy.
    pub fn merge_parts(&mut self, parts: usize) {
        let Some(merging) = &self.merging else { return };
        let copy = Rc::clone(&merging.copy);
        let mut left = parts;
        while left > 0 && self.replica.is_merging() {
            self.replica.merge_part(&copy.0);
            left -= 1;
        }
        if !self.replica.is_merging() {
            self.units = self.units_with_copy();
            self.merging = None;
        }
    }

    pub fn finish_merge(&mut self) {
        self.merge_parts(usize::MAX);
    }

    pub fn acknowledge(&mut self, of: usize, region: braid_active::Region, vector: &Vector) {
        if self.acknowledged[of] != *vector && region != self.settings.region {
            self.acknowledged[of] = vector.clone();
            self.replica.acknowledge(region, vector.clone());
        }
    }
}
