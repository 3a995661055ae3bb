// SPDX-License-Identifier: BSD-3-Clause
//! One random history: servers, clients, and all faults between them.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use braid_active::change::Kind;
use braid_active::effect::{Effect, Unit};
use braid_active::hidden::LIBRARIES;
use braid_active::replica::{Settings, State};
use braid_active::view::{Until, View};
use braid_active::{Bytes, Name, Region, Replica, Rules, Stamp, Transaction, Vector, wire};
use fastrand::Rng;

use crate::commands::{Client, NAMES};
use crate::holding;
use crate::oracle::{Expected, Made, Units, expected, libraries};
use crate::server::{Path, Server};

/// The number of events in a history, and the maximum number of rounds in which it heals.
const EVENTS: usize = 160;
/// The maximum number of parts of a full copy that are merged between two events.
const PARTS: usize = 100;
const ROUNDS: usize = 12;
const START_MS: u64 = 1_800_000_000_000;
const SKEW_MS: i64 = 4 * 60_000;
const AHEAD_MS: u64 = 15 * 60_000;

/// The rules that a history disables.
#[derive(Clone, Copy, Default, Debug)]
pub struct Faults {
    pub rules: Rules,
    pub path: Path,
}

enum Message {
    Units(Vec<Arc<[u8]>>),
    /// A full copy, and the units that it contains as known to the world.
    Copy(Rc<(State, Units)>),
    /// The sender's applied vector, and each server's acknowledged vector as far as the sender
    /// knows.
    Vectors(Vector, Vec<Vector>),
}

struct Envelope {
    due: usize,
    from: usize,
    to: usize,
    /// The run of the sending process.
    run: Stamp,
    message: Message,
}

/// Whether servers evict. Histories without evictions are the same as before evictions existed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Evictions {
    None,
    Marked,
    /// Marks are dropped now and then.
    Forgotten,
}

/// The outcome of a history.
#[derive(Default)]
pub struct Summary {
    pub violation: Option<String>,
    pub units: usize,
    pub crashes: usize,
    pub copies: usize,
    /// Units made while a full copy was being merged, and those of them with effects of both kinds.
    pub beside_copies: [usize; 2],
    pub evictions: usize,
    pub conflicts: u64,
    pub keys: usize,
}

pub struct World {
    random: Rng,
    faults: Faults,
    servers: Vec<Server>,
    links: Vec<Vec<bool>>,
    mail: Vec<Envelope>,
    history: Vec<Made>,
    numbers: HashMap<Stamp, usize>,
    /// Units that their own server lost in a crash.
    forgotten: Units,
    names: Vec<Name>,
    /// Whether and how servers evict.
    evictions: Evictions,
    /// Servers save before they send vectors, and send them to all, so that acknowledgements are
    /// as early as possible.
    is_eager: bool,
    /// The maximum delay of a message, in events.
    delay_max: usize,
    now_ms: u64,
    event: usize,
    summary: Summary,
    pub traces: bool,
}

impl World {
    pub fn new(seed: u64, faults: Faults) -> World {
        let mut random = Rng::with_seed(seed);
        let count = random.usize(3..=5);
        let is_skewed = random.bool();
        // Region numbers need not be consecutive.
        let step = random.u8(1..=15);
        let backlog_bytes = if random.u8(0..3) == 0 { 1000 } else { usize::MAX };
        let keeps_logs = seed.is_multiple_of(2);
        let region = |index: usize| Region::new(index as u8 * step).expect("at most 60");
        let members = (0..count).fold(0, |members, index| members | 1 << region(index).number());
        let servers = (0..count).map(|index| {
            let settings =
                Settings { region: region(index), members, ahead_ms_max: AHEAD_MS, rules: faults.rules };
            let skew_ms = if is_skewed { random.i64(-SKEW_MS..SKEW_MS) } else { 0 };
            Server::new(settings, count, skew_ms, backlog_bytes, keeps_logs)
        });
        let servers = servers.collect();
        // Few names, so that regions conflict.
        let mut names = NAMES.to_vec();
        random.shuffle(&mut names);
        names.truncate(random.usize(1..5));
        World {
            servers,
            links: vec![vec![true; count]; count],
            faults,
            mail: Vec::new(),
            history: Vec::new(),
            numbers: HashMap::new(),
            forgotten: Units::default(),
            names: names.into_iter().map(|name| name.as_bytes().into()).collect(),
            evictions: match seed % 6 {
                0 => Evictions::Forgotten,
                3 => Evictions::Marked,
                _ => Evictions::None,
            },
            is_eager: random.bool(),
            delay_max: [3, 8, 40, 120][random.usize(0..4)],
            random,
            now_ms: START_MS,
            event: 0,
            summary: Summary::default(),
            traces: false,
        }
    }

    pub fn run(mut self) -> Summary {
        let violation = self.live().and_then(|()| self.heal()).and_then(|()| self.check()).err();
        self.summary.violation = violation.map(|what| format!("event {}: {what}", self.event));
        self.summary.units = self.history.len();
        self.summary.conflicts = self.servers[0].replica.type_conflicts();
        self.summary
    }

    fn trace(&self, what: impl FnOnce() -> String) {
        if self.traces {
            println!("{} +{}: {}", self.event, self.now_ms - START_MS, what());
        }
    }

    fn pick(&mut self) -> usize {
        self.random.usize(0..self.servers.len())
    }

    fn live(&mut self) -> Result<(), String> {
        while self.event < EVENTS && self.history.len() < Units::MAX - 80 {
            self.event += 1;
            // Often no time passes, so that clocks agree to the millisecond.
            self.now_ms += [0, 0, 1, self.random.u64(0..300)][self.random.usize(0..4)];
            let one = self.pick();
            let other = (one + self.random.usize(1..self.servers.len())) % self.servers.len();
            match self.random.u8(0..100) {
                0..36 => self.command(one)?,
                36..62 => self.send(one, other),
                62..81 => self.tell(one, other),
                81..85 => {
                    let state = self.random.bool();
                    self.links[one][other] = state;
                    self.links[other][one] = state;
                }
                85..90 => self.servers[one].save(),
                90..93 => self.restart(one)?,
                93..95 if self.servers[one].skew_ms != 0 => {
                    self.servers[one].skew_ms = self.random.i64(-SKEW_MS..SKEW_MS);
                }
                95..98 => self.expire(one)?,
                // An unnecessary full copy.
                98 => {
                    let delay = self.random.usize(0..20);
                    self.copy(one, other, delay);
                }
                _ => holding::hold_strings(&mut self.servers[one].replica, &mut self.random),
            }
            if self.evictions != Evictions::None && self.random.u8(0..6) == 0 {
                self.evict(one)?;
            }
            if self.servers[other].is_merging() {
                let parts = self.random.usize(0..PARTS);
                self.servers[other].merge_parts(parts);
            }
            self.deliver()?;
        }
        Ok(())
    }

    /// A client's command or transaction.
    fn command(&mut self, index: usize) -> Result<(), String> {
        // A keyspace does not show expired keys and elements to its client.
        self.expire(index)?;
        let now_ms = self.servers[index].now(self.now_ms);
        let count = if self.random.u8(0..5) == 0 { 3 } else { 1 };
        let (mut outcome, names) = (Ok(()), std::mem::take(&mut self.names));
        let number = self.history.len() as u64 * 8;
        let random = &mut self.random;
        let body = |transaction: &mut Transaction| {
            for part in 0..count {
                let mut client = Client {
                    transaction,
                    random,
                    now_ms,
                    number: number + part,
                    names: &names,
                    knows_all: true,
                };
                outcome = client.run();
                if outcome.is_err() {
                    return;
                }
            }
        };
        let server = &mut self.servers[index];
        server.raise_ceiling(now_ms);
        let unit = server.replica.execute(now_ms, body);
        self.names = names;
        outcome.map_err(|what| format!("region {}: {what}", server.settings.region.number()))?;
        match unit {
            Ok(Some(unit)) => self.made(index, unit),
            Ok(None) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// A keyspace evicts a key.
    fn evict(&mut self, index: usize) -> Result<(), String> {
        self.expire(index)?;
        let mut there: Vec<(u32, Name)> = self.views(index).into_keys().collect();
        there.sort();
        if there.is_empty() {
            return Ok(());
        }
        let (database, name) = there.swap_remove(self.random.usize(0..there.len()));
        self.trace(|| format!("{index} evicts {} of {database}", name.escape_ascii()));
        self.summary.evictions += 1;
        let server = &mut self.servers[index];
        let now_ms = server.now(self.now_ms);
        server.raise_ceiling(now_ms);
        let unit = server.replica.execute(now_ms, |transaction| transaction.evict(database, &name));
        if server.replica.view(database, &name).is_some() {
            return Err("an evicted key is visible".into());
        }
        if self.evictions == Evictions::Forgotten && self.random.u8(0..8) == 0 {
            server.replica.limit_marks(1);
        }
        match unit {
            Ok(Some(unit)) => {
                self.made(index, unit)?;
                self.history.last_mut().expect("the unit was just added").is_eviction = true;
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Evicted keys are missing or equal to those elsewhere, except for later writes to them.
    /// Once they are rewritten everything must be equal.
    fn write_anew(&mut self) -> Result<(), String> {
        if self.evictions == Evictions::None {
            return Ok(());
        }
        let expected = self.expected(&self.servers[0].units)?;
        let mut ids: HashSet<(u32, Name)> = expected.keys().cloned().collect();
        for index in 0..self.servers.len() {
            let shown = self.views(index);
            ids.extend(shown.keys().cloned());
            ids.extend(self.servers[index].replica.evicted_names());
            for id in &ids {
                let is_evicted = self.servers[index].replica.is_evicted(id.0, &id.1);
                if self.evictions == Evictions::Marked && !is_evicted && shown.get(id) != expected.get(id) {
                    let (one, other) = (expected.get(id), shown.get(id));
                    let name = id.1.escape_ascii();
                    return Err(format!(
                        "not evicted: {name} of database {} is {other:?} at server {index}, not {one:?}",
                        id.0
                    ));
                }
            }
        }
        let is_touched = |id: &(u32, Name)| {
            let is_evicted = |server: &Server| server.replica.is_evicted(id.0, &id.1);
            self.evictions == Evictions::Forgotten || self.servers.iter().any(is_evicted)
        };
        let mut ids: Vec<(u32, Name)> = ids.iter().filter(|id| is_touched(id)).cloned().collect();
        ids.sort();
        for (database, name) in ids {
            let index = self.pick();
            self.expire(index)?;
            let server = &mut self.servers[index];
            let now_ms = server.now(self.now_ms);
            server.raise_ceiling(now_ms);
            let removes = self.random.bool() && server.replica.view(database, &name).is_some();
            let unit = server.replica.execute(now_ms, |transaction| match removes {
                true => transaction.remove(database, &name),
                false => transaction.set(database, &name, Bytes::from(&b"anew"[..]), None),
            });
            if let Some(unit) = unit.map_err(|error| error.to_string())? {
                self.made(index, unit)?;
            }
            self.exchange()?;
        }
        match self.servers.iter().map(|server| server.replica.evicted()).sum() {
            0 => Ok(()),
            marks => Err(format!("{marks} marks of evicted keys are left")),
        }
    }

    /// Enters a unit into the history.
    fn made(&mut self, by: usize, unit: Unit) -> Result<(), String> {
        let bytes = wire::encode(&unit);
        if wire::decode(&bytes).as_ref() != Ok(&unit) {
            return Err(format!("{unit:?} changes when encoded and decoded"));
        }
        self.trace(|| format!("{by} makes {:?}: {:?}", unit.first, unit.effects));
        let number = self.history.len();
        let server = &mut self.servers[by];
        let beside = &mut self.summary.beside_copies;
        beside[0] += usize::from(server.is_merging());
        beside[1] += usize::from(unit.seen_less.is_some());
        let (without_copy, mut seen) = (server.units, server.units_with_copy());
        let with_copy = server.replica.vector_with_copy();
        // Runs of this server are in both.
        if server.is_merging() && !unit.seen.includes(&others_of(with_copy, unit.first)) {
            seen = without_copy;
        }
        server.units.add(number);
        server.keep(unit.first, bytes.into());
        self.numbers.entry(unit.first).or_insert(number);
        self.history.push(Made { unit, seen, without_copy, by, is_eviction: false });
        Ok(())
    }

    fn expire(&mut self, index: usize) -> Result<(), String> {
        let now_ms = self.servers[index].now(self.now_ms);
        self.servers[index].raise_ceiling(now_ms);
        let due = due(&self.servers[index].replica, now_ms);
        let ended = |transaction: &mut Transaction| {
            for (database, name, element) in &due {
                transaction.end(*database, name, element.as_deref());
            }
        };
        let server = &mut self.servers[index];
        let first = server.replica.execute(now_ms, ended);
        server.raise_ceiling(now_ms);
        let units = [first, server.replica.end_evicted(now_ms)];
        for unit in units {
            if let Some(unit) = unit.map_err(|error| error.to_string())? {
                self.made(index, unit)?;
            }
        }
        Ok(())
    }

    fn restart(&mut self, index: usize) -> Result<(), String> {
        if self.random.u8(0..3) == 0 {
            self.trace(|| format!("{index} restarts"));
            self.servers[index].resume();
            return Ok(());
        }
        self.trace(|| format!("{index} crashes"));
        self.summary.crashes += 1;
        let server = &mut self.servers[index];
        for (number, made) in self.history.iter().enumerate() {
            if made.by == index && server.unsaved(number) {
                self.forgotten.add(number);
            }
        }
        let now_ms = server.now(self.now_ms);
        match server.crash(now_ms) {
            Ok(Some(unit)) => self.made(index, unit)?,
            Ok(None) => {}
            Err(error) => return Err(error.to_string()),
        }
        let path = self.faults.path;
        self.servers[index].redo(now_ms, &path)
    }

    fn post(&mut self, from: usize, to: usize, delay: usize, message: Message) {
        let run = self.servers[from].replica.run();
        self.mail.push(Envelope { due: self.event + delay, from, to, run, message });
    }

    /// Sends units that the peer is known to lack, all or a part.
    fn send(&mut self, from: usize, to: usize) {
        if !self.links[from][to] {
            return;
        }
        let count = self.random.usize(1..12);
        let server = &self.servers[from];
        let units = server.since(&server.heard[to]);
        let units: Option<Vec<Arc<[u8]>>> = units.map(|units| units.into_iter().take(count).collect());
        if units.is_none() && self.faults.path.copies_after_gap {
            let delay = self.random.usize(0..20);
            return self.copy(from, to, delay);
        }
        let units = units.unwrap_or_default();
        // Duplicated or lost; delayed, and so reordered.
        for _ in 0..[0, 1, 1, 1, 1, 1, 1, 2][self.random.usize(0..8)] {
            let delay = self.random.usize(0..self.delay_max);
            self.post(from, to, delay, Message::Units(units.clone()));
        }
    }

    fn copy(&mut self, from: usize, to: usize, delay: usize) {
        // No state is saved while a copy is being merged.
        if self.links[from][to] && !self.servers[from].is_merging() {
            let server = &self.servers[from];
            let copy = Rc::new((server.replica.state().clone(), server.units));
            self.post(from, to, delay, Message::Copy(copy));
        }
    }

    fn vectors(&mut self, from: usize) -> Message {
        let path = self.faults.path;
        let server = &mut self.servers[from];
        server.acknowledged[from] = server.durable(&path).clone();
        Message::Vectors(server.replica.vector().clone(), server.acknowledged.clone())
    }

    fn tell(&mut self, from: usize, to: usize) {
        if self.is_eager {
            self.servers[from].save();
        }
        for other in 0..self.servers.len() {
            let is_meant = other == to || self.is_eager && other != from;
            if is_meant && self.links[from][other] && self.random.u8(0..10) > 0 {
                // Mostly ahead of units that were sent earlier.
                let delay = self.random.usize(0..self.delay_max.min(8));
                let message = self.vectors(from);
                self.post(from, other, delay, message);
            }
        }
    }

    fn deliver(&mut self) -> Result<(), String> {
        // While a server merges a copy, units and other copies wait.
        let waits = |servers: &[Server], envelope: &Envelope| {
            let is_data = !matches!(envelope.message, Message::Vectors(..));
            is_data && servers[envelope.to].is_merging()
        };
        let next = |world: &World| {
            let is_next =
                |envelope: &Envelope| envelope.due <= world.event && !waits(&world.servers, envelope);
            world.mail.iter().position(is_next)
        };
        while let Some(due) = next(self) {
            let envelope = self.mail.remove(due);
            self.receive(envelope)?;
        }
        Ok(())
    }

    fn receive(&mut self, envelope: Envelope) -> Result<(), String> {
        let Envelope { from, to, run, message, .. } = envelope;
        let sender = self.servers[from].settings.region;
        let path = self.faults.path;
        let now_ms = self.servers[to].now(self.now_ms);
        let server = &mut self.servers[to];
        let newest = server.replica.vector().newest_run(sender);
        if newest.is_some_and(|newest| newest.start > run) {
            // Sent by a former process.
            return Ok(());
        }
        match message {
            Message::Units(units) => {
                for bytes in units {
                    if let Some(first) = server.take(now_ms, &bytes)? {
                        let number = self.numbers.get(&first).copied().ok_or("a unit of unknown origin")?;
                        server.units.add(number);
                        if self.traces {
                            println!("{}: {to} applies {first:?}", self.event);
                        }
                    }
                }
            }
            Message::Copy(copy) => {
                self.summary.copies += 1;
                // Some copies are merged while clients write.
                match self.event < usize::MAX && self.random.bool() {
                    true => server.begin_merge(now_ms, &copy, &path)?,
                    false => server.merge(now_ms, &copy, &path)?,
                }
                self.trace(|| format!("{to} merges a copy of {from}"));
            }
            Message::Vectors(applied, acknowledged) => {
                server.heard[from] = applied;
                for (of, vector) in acknowledged.iter().enumerate() {
                    let region = self.servers[of].settings.region;
                    self.servers[to].acknowledge(of, region, vector);
                }
            }
        }
        Ok(())
    }

    /// All links work, and nothing is lost any more.
    fn heal(&mut self) -> Result<(), String> {
        self.event = usize::MAX;
        self.servers.iter_mut().for_each(Server::finish_merge);
        self.deliver()?;
        self.links.iter_mut().for_each(|links| links.fill(true));
        self.exchange()
    }

    /// Sends everything to every server until all have the same.
    fn exchange(&mut self) -> Result<(), String> {
        let count = self.servers.len();
        for _ in 0..ROUNDS {
            for from in 0..count {
                for to in (0..count).filter(|to| *to != from) {
                    self.servers[from].heard[to] = self.servers[to].replica.vector().clone();
                    self.send_all(from, to)?;
                }
            }
            let first = self.servers[0].replica.vector();
            if self.servers.iter().all(|server| server.replica.vector() == first) {
                return Ok(());
            }
        }
        Err("the servers do not converge".into())
    }

    fn send_all(&mut self, from: usize, to: usize) -> Result<(), String> {
        let server = &self.servers[from];
        let message = match server.since(&server.heard[to]) {
            Some(units) => Message::Units(units),
            None if !self.faults.path.copies_after_gap => return Ok(()),
            None => Message::Copy(Rc::new((server.replica.state().clone(), server.units))),
        };
        let run = server.replica.run();
        self.receive(Envelope { due: 0, from, to, run, message })
    }

    fn views(&self, index: usize) -> Expected {
        let views = self.servers[index].replica.views();
        views.map(|(database, name, view, time)| ((database, Name::from(name)), (view, time))).collect()
    }

    fn same(&self, when: &str) -> Result<(), String> {
        let first = &self.servers[0].replica;
        for (index, server) in self.servers.iter().enumerate().skip(1) {
            if server.replica.digest() != first.digest() {
                return Err(format!("{when}: {}", difference(&self.views(0), &self.views(index), index)));
            }
        }
        Ok(())
    }

    /// The keys that should be visible. Checks the libraries.
    fn expected(&self, units: &Units) -> Result<Expected, String> {
        let mut expected = expected(&self.history, units);
        let mut shown = self.servers[0].replica.libraries();
        shown.sort();
        let codes = libraries(&expected);
        if shown != codes {
            return Err(format!("libraries are {shown:?} instead of {codes:?}"));
        }
        expected.retain(|(database, _), _| *database != LIBRARIES);
        Ok(expected)
    }

    fn check(&mut self) -> Result<(), String> {
        self.write_anew()?;
        self.same("after healing")?;
        let units = self.servers[0].units;
        if self.servers.iter().any(|server| server.units != units) {
            return Err("servers with equal vectors have not applied the same units".into());
        }
        for number in 0..self.history.len() {
            if !units.has(number) && !self.forgotten.has(number) {
                return Err(format!("unit {:?} is lost", self.history[number].unit.first));
            }
        }
        let expected = self.expected(&units)?;
        let shown = self.views(0);
        self.summary.keys = shown.len();
        if shown != expected {
            return Err(format!("the keys are wrong: {}", difference(&expected, &shown, 0)));
        }
        self.collect()?;
        self.end_times()
    }

    /// Once all servers have acknowledged everything, no garbage is left, and the visible state
    /// is unchanged.
    fn collect(&mut self) -> Result<(), String> {
        let digest = self.servers[0].replica.digest();
        self.servers.iter_mut().for_each(Server::save);
        for _ in 0..2 {
            for from in 0..self.servers.len() {
                let message = self.vectors(from);
                let Message::Vectors(_, acknowledged) = message else { continue };
                let region = self.servers[from].settings.region;
                for server in &mut self.servers {
                    // Twice, since it may count only now.
                    server.acknowledged[from] = Vector::default();
                    server.acknowledge(from, region, &acknowledged[from]);
                }
            }
        }
        for server in &self.servers {
            if server.replica.tombstones() > 0 || server.replica.has_forgotten_garbage() {
                return Err(format!("{} keys still hold garbage", server.replica.tombstones()));
            }
            if server.replica.digest() != digest {
                return Err("collecting garbage changed the digest".into());
            }
        }
        Ok(())
    }

    /// All times come: exactly one region removes each key and element, and all agree.
    fn end_times(&mut self) -> Result<(), String> {
        self.now_ms += 3_600_000;
        self.servers.iter_mut().for_each(|server| server.skew_ms = 0);
        // A value that becomes visible when one of another type has ended may end as well.
        for _ in 0..Kind::ALL.len() + 1 {
            let made = self.history.len();
            for index in 0..self.servers.len() {
                self.expire(index)?;
            }
            if self.history.len() == made {
                break;
            }
            let mut ended = HashSet::new();
            for effect in self.history[made..].iter().flat_map(|made| &made.unit.effects) {
                let Effect::Key { database, name, change } = effect else { continue };
                if !ended.insert(format!("{database} {name:?} {change:?}")) {
                    return Err(format!("two regions removed the expired key {}", name.escape_ascii()));
                }
            }
            self.exchange()?;
            self.same("after all times")?;
        }
        let now_ms = self.servers[0].now(self.now_ms);
        if self.views(0).values().any(|(_, time)| time.is_some_and(|time| time <= now_ms)) {
            return Err("expired keys are left".into());
        }
        let expected = self.expected(&self.servers[0].units)?;
        let shown = self.views(0);
        if shown != expected {
            return Err(format!("after all expiries: {}", difference(&expected, &shown, 0)));
        }
        Ok(())
    }
}

/// A vector without the run of a unit.
fn others_of(vector: &Vector, first: Stamp) -> Vector {
    let mut others = vector.clone();
    if let Some(run) = vector.run_of(first) {
        others.remove_run(run.start);
    }
    others
}

/// Keys and elements whose time has come.
fn due(replica: &Replica, now_ms: u64) -> Vec<(u32, Name, Option<Bytes>)> {
    let mut due = Vec::new();
    for (database, name, view, until) in replica.views() {
        if until.is_some_and(|time| time <= now_ms) {
            due.push((database, Name::from(name), None));
            continue;
        }
        let elements: Vec<(Bytes, Until)> = match view {
            View::Set(members) => members,
            View::Hash(fields) => fields.into_iter().map(|(field, _, until)| (field, until)).collect(),
            View::SortedSet(members) => members.into_iter().map(|(one, _, until)| (one, until)).collect(),
            _ => continue,
        };
        let ended = elements.into_iter().filter(|(_, until)| until.is_some_and(|time| time <= now_ms));
        due.extend(ended.map(|(element, _)| (database, Name::from(name), Some(element))));
    }
    // Sorted, so that a seed always gives the same history.
    due.sort();
    due
}

/// Describes the first key that differs.
fn difference(expected: &Expected, shown: &Expected, index: usize) -> String {
    let differs = |id: &&(u32, Name)| expected.get(id) != shown.get(id);
    let all = expected.keys().chain(shown.keys());
    match all.filter(differs).min() {
        Some(id) => format!(
            "{} of database {} is {:?} at server {index} instead of {:?}",
            id.1.escape_ascii(),
            id.0,
            shown.get(id),
            expected.get(id)
        ),
        None => "digests differ, views do not".into(),
    }
}
