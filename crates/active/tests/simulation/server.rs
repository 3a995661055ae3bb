// SPDX-License-Identifier: BSD-3-Clause
//! A server of the simulation: the real replica with its backlog, and a disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use braid_active::backlog::Backlog;
use braid_active::difference::Difference;
use braid_active::effect::Unit;
use braid_active::logs::Logs;
use braid_active::replica::{Settings, State, ceiling_after};
use braid_active::write::{Write, write_with_difference};
use braid_active::{Applied, Refusal, Replica, Stamp, Vector};

use crate::oracle::Units;

/// For so long a ceiling lets a server write.
const CEILING_MS: u64 = 1000;

/// What the server's own code leaves out.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// What it acknowledges is on disk.
    pub acknowledges_saved: bool,
    /// A peer is not sent units after ones that have been dropped.
    pub copies_after_gap: bool,
    /// The backlog knows what came by a full copy.
    pub remembers_copies: bool,
    /// So does the one on disk.
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

/// What is on disk.
#[derive(Clone)]
struct Saved {
    state: State,
    backlog: Backlog,
    logs: LogFiles,
    units: Units,
}

/// Units of a log, and how many logs there are at most.
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

    /// Adds a unit that has been applied by now.
    fn push(&mut self, first: Stamp, bytes: Arc<[u8]>, applied: &Vector) {
        let Some(mut last) = self.units.last_entry() else { return };
        last.get_mut().push((first, bytes));
        if last.get().len() == UNITS_OF_LOG {
            self.begin(applied);
        }
    }

    /// What a server lacks, if that is here.
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
    /// The units that it has applied, as the world knows.
    pub units: Units,
    saved: Saved,
    /// On disk, too.
    ceiling: Stamp,
    /// Its clock is so far from the world's.
    pub skew_ms: i64,
    /// What each server has said that it has applied.
    pub heard: Vec<Vector>,
    /// What each has said that it has on disk.
    pub acknowledged: Vec<Vector>,
    pub backlog_bytes: usize,
    /// Empty if it keeps none.
    logs: LogFiles,
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
        }
    }

    pub fn now(&self, world_ms: u64) -> u64 {
        world_ms.saturating_add_signed(self.skew_ms)
    }

    /// Has a ceiling on disk that lets it write.
    pub fn raise_ceiling(&mut self, now_ms: u64) {
        if self.replica.needs_ceiling(now_ms) {
            self.ceiling = self.replica.next_ceiling(now_ms, CEILING_MS);
            self.replica.raise_ceiling(self.ceiling);
        }
    }

    pub fn save(&mut self) {
        self.saved = Saved {
            state: self.replica.state().clone(),
            backlog: self.backlog.clone(),
            logs: self.logs.clone(),
            units: self.units,
        };
    }

    /// What it has on disk, for the others.
    pub fn durable(&self, path: &Path) -> &Vector {
        if path.acknowledges_saved { &self.saved.state.vector } else { self.replica.vector() }
    }

    /// What it would lose in a crash.
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

    /// It ends in good order and starts again.
    pub fn resume(&mut self) {
        self.save();
        self.load();
        self.replica = Replica::new(self.settings, self.saved.state.clone());
        self.replica.raise_ceiling(self.ceiling);
    }

    /// It crashes and starts from what is on disk; the unit tells the others.
    pub fn crash(&mut self, now_ms: u64) -> Result<Option<Unit>, Refusal> {
        self.load();
        let last = self.ceiling;
        let latest = last.max(self.saved.state.vector.latest());
        self.ceiling = ceiling_after(latest, self.settings.region, now_ms, CEILING_MS);
        let state = self.saved.state.clone();
        let (replica, unit) = Replica::restart(self.settings, state, last, self.ceiling, now_ms)?;
        self.replica = replica;
        Ok(unit)
    }

    /// Keeps a unit that it has applied or made, for its peers.
    pub fn keep(&mut self, first: Stamp, bytes: Arc<[u8]>) {
        self.backlog.push(first, self.replica.vector(), &bytes);
        self.backlog.trim(self.backlog_bytes);
        self.logs.push(first, bytes, self.replica.vector());
    }

    /// What a server lacks that has applied so much; nothing if it needs a full copy.
    pub fn since(&self, applied: &Vector) -> Option<Vec<Arc<[u8]>>> {
        let units = self.backlog.since(applied).map(|units| units.map(Arc::from).collect());
        units.or_else(|| self.logs.since(applied))
    }

    /// Takes a unit; true if it was applied now.
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

    pub fn merge(&mut self, now_ms: u64, state: &State, units: &Units, path: &Path) -> Result<(), String> {
        let before = self.replica.vector().clone();
        self.replica.merge(now_ms, state).map_err(|error| error.to_string())?;
        self.units.join(units);
        if path.remembers_copies {
            self.backlog.merges(&state.vector, &before);
        }
        if path.begins_logs_after_copies && !self.logs.units.is_empty() {
            self.logs.index.clear();
            self.logs.begin(self.replica.vector());
        }
        Ok(())
    }

    pub fn acknowledge(&mut self, of: usize, region: braid_active::Region, vector: &Vector) {
        if self.acknowledged[of] != *vector && region != self.settings.region {
            self.acknowledged[of] = vector.clone();
            self.replica.acknowledge(region, vector.clone());
        }
    }
}
