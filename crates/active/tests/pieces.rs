// SPDX-License-Identifier: BSD-3-Clause
//! Saves states in pieces, with random local and remote changes of all types between the pieces.
//! The loaded state must be exactly the state at the start, and with the units since then the
//! live state. If keys are not written out before they change, the test must fail.
//!
//! `BRAID_STATES` is the number of histories, `BRAID_SEED` the seed of the first one.

use std::collections::BTreeSet;

use braid_active::effect::Unit;
use braid_active::replica::{Settings, State, ceiling_after};
use braid_active::saved::{Digester, Digesting, Loader, Piece, Saver};
use braid_active::{Applied, Name, Region, Replica, Rules, Stamp};
use fastrand::Rng;

#[path = "simulation/commands.rs"]
#[allow(dead_code, reason = "some items are only for the simulation")]
mod commands;
#[path = "simulation/holding.rs"]
mod holding;

const NOW: u64 = 1_800_000_000_000;

fn settings(region: u8, rules: Rules) -> Settings {
    let region = Region::new(region).expect("a number");
    Settings { region, members: 0b110, ahead_ms_max: 1_000_000, rules }
}

/// A server that saves, and its peer.
struct History {
    random: Rng,
    rules: Rules,
    now: u64,
    names: Vec<Name>,
    servers: [Replica; 2],
    ceiling: Stamp,
    /// Units of the peer that have not arrived yet.
    coming: Vec<Unit>,
    /// The units that the first server has applied since its save began.
    log: Vec<Unit>,
    sent: usize,
    /// The replica when the save began.
    begin: Option<Replica>,
}

impl History {
    fn new(seed: u64, rules: Rules) -> History {
        let mut random = Rng::with_seed(seed);
        let servers = [1, 2].map(|region| {
            let mut server = Replica::new(settings(region, rules), State::default());
            server.raise_ceiling(ceiling_after(server.run(), server.region(), NOW, 10_000_000));
            server
        });
        let ceiling = ceiling_after(servers[0].run(), servers[0].region(), NOW, 10_000_000);
        let many = [3, 30, 300][random.usize(0..3)];
        let name = |number: usize| {
            let letter = commands::NAMES[number % commands::NAMES.len()].chars().next().expect("a letter");
            format!("{letter}{number}").into_bytes().into()
        };
        let names = (0..many).map(name).collect();
        let (coming, log) = (Vec::new(), Vec::new());
        History { random, rules, now: NOW, names, servers, ceiling, coming, log, sent: 0, begin: None }
    }

    fn command(&mut self, who: usize) {
        let (random, names, now_ms) = (&mut self.random, &self.names, self.now);
        let mut outcome = Ok(());
        let unit = self.servers[who].execute(now_ms, |transaction| {
            let mut client = commands::Client {
                transaction,
                random,
                now_ms,
                number: now_ms - NOW,
                names,
                knows_all: true,
            };
            outcome = client.run();
        });
        outcome.expect("the reply is that of a standalone server");
        let unit = unit.expect("stamps are available");
        match who {
            0 => self.log.extend(unit),
            _ => self.coming.extend(unit),
        }
    }

    /// Evictions are in no log, so they happen only before a save.
    fn evict(&mut self) {
        let mut there: Vec<(u32, Name)> =
            self.servers[0].views().map(|(database, name, ..)| (database, Name::from(name))).collect();
        there.sort();
        if !there.is_empty() {
            let (database, name) = there.swap_remove(self.random.usize(0..there.len()));
            let unit = self.servers[0].execute(self.now, |transaction| transaction.evict(database, &name));
            assert_eq!(unit, Ok(None), "an eviction made a unit");
        }
    }

    /// One random event.
    fn step(&mut self) {
        self.now += self.random.u64(0..3);
        match self.random.u8(0..13) {
            0..6 => self.command(0),
            6..9 => self.command(1),
            9 | 10 => {
                for unit in std::mem::take(&mut self.coming) {
                    // Everything that the peer had seen from here arrived there earlier.
                    assert_eq!(self.servers[0].apply(self.now, &unit), Ok(Applied::Now));
                    self.log.push(unit);
                }
                for unit in &self.log[self.sent..] {
                    self.servers[1].apply(self.now, unit).expect("nothing is refused");
                }
                self.sent = self.log.len();
            }
            11 => holding::hold_strings(&mut self.servers[0], &mut self.random),
            _ => {
                let vector = self.servers[1].vector().clone();
                let region = self.servers[1].region();
                self.servers[0].acknowledge(region, vector);
            }
        }
    }

    fn begin(&mut self) -> Saver {
        for unit in self.log.drain(..).skip(self.sent) {
            self.servers[1].apply(self.now, &unit).expect("nothing is refused");
        }
        self.sent = 0;
        self.begin = Some(self.servers[0].clone());
        Saver::begin(&mut self.servers[0])
    }

    /// Saves in pieces, with changes in between.
    fn save(&mut self) -> Vec<u8> {
        let mut saver = self.begin();
        let mut bytes = Vec::new();
        loop {
            (0..self.random.usize(0..6)).for_each(|_| self.step());
            let most = self.random.usize(1..400);
            match saver.piece(&mut self.servers[0], most) {
                Piece::More(piece) => bytes.extend(piece),
                Piece::Last(piece) => {
                    bytes.extend(piece);
                    return bytes;
                }
                Piece::Lost => {
                    bytes.clear();
                    saver = self.begin();
                }
            }
        }
    }

    /// Computes the digest in pieces, with changes in between.
    fn digest(&mut self) -> Result<(), String> {
        let mut begin = self.servers[0].digest();
        let mut digester = Digester::begin(&mut self.servers[0]);
        loop {
            (0..self.random.usize(0..6)).for_each(|_| self.step());
            let most = self.random.usize(1..400);
            match digester.go_on(&mut self.servers[0], most) {
                Digesting::More => {}
                Digesting::Done(digest) if digest == begin => return Ok(()),
                Digesting::Done(_) => return Err("the digest differs from the one at the start".into()),
                Digesting::Lost => {
                    begin = self.servers[0].digest();
                    digester = Digester::begin(&mut self.servers[0]);
                }
            }
        }
    }

    fn check(&mut self) -> Result<(), String> {
        let evicts = self.random.bool();
        for _ in 0..self.random.usize(0..400) {
            self.step();
            if evicts && self.random.u8(0..8) == 0 {
                self.evict();
            }
        }
        self.digest()?;
        let bytes = self.save();
        let mut loader = Loader::new();
        loader.feed(&mut &bytes[..]).map_err(|error| error.to_string())?;
        let state = loader.finish().map_err(|error| error.to_string())?;
        let begin = self.begin.take().expect("the save has begun");
        let settings = settings(1, self.rules);
        same(&Replica::new(settings, state.clone()), &begin)?;
        let (live, now, last) = (&self.servers[0], self.now, self.ceiling);
        let above = ceiling_after(last, live.region(), now, 10_000_000);
        let restarted = Replica::restart(settings, state, last, above, now);
        let (mut again, _) = restarted.map_err(|refusal| refusal.to_string())?;
        for unit in &self.log {
            match again.apply(now, unit) {
                Ok(Applied::Now) => {}
                other => return Err(format!("{other:?}")),
            }
        }
        let is_equal = again.digest() == live.digest() && again.views().count() == live.views().count();
        match (is_equal, again.has_forgotten_garbage() || live.has_forgotten_garbage()) {
            (true, false) => Ok(()),
            (false, _) => Err("the saved state with the later units differs from the live state".into()),
            (true, true) => Err("garbage is forgotten".into()),
        }
    }
}

/// Checks that two replicas have the same keys, with all marks.
fn same(one: &Replica, other: &Replica) -> Result<(), String> {
    let names = |replica: &Replica| -> BTreeSet<(u32, Vec<u8>)> {
        replica.state().names().map(|(database, name)| (database, name.to_vec())).collect()
    };
    let evicted = |replica: &Replica| -> BTreeSet<(u32, Name)> { replica.evicted_names().collect() };
    if evicted(one) != evicted(other) {
        return Err("the evicted keys differ".into());
    }
    let all = names(one);
    if all != names(other) || one.vector() != other.vector() {
        return Err("the keys or vectors differ".into());
    }
    // The live index may have stale entries, of garbage that is already gone.
    if one.has_forgotten_garbage() || one.tombstones() > other.tombstones() {
        return Err("the garbage differs".into());
    }
    let is_equal = |(database, name): &&(u32, Vec<u8>)| {
        one.key(*database, name).as_deref() == other.key(*database, name).as_deref()
    };
    match all.iter().find(|key| !is_equal(key)) {
        Some(key) => Err(format!("{key:?} differs")),
        None => Ok(()),
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The first history that fails.
fn find(rules: Rules, count: u64) -> Option<(u64, String)> {
    let first = setting("BRAID_SEED", 0);
    (first..first + count).find_map(|seed| Some((seed, History::new(seed, rules).check().err()?)))
}

#[test]
fn pieces_make_the_state_of_the_begin() {
    assert_eq!(find(Rules::default(), setting("BRAID_STATES", 600)), None);
}

#[test]
fn keys_are_written_before_they_change() {
    let found = find(Rules { saves_before_changes: false, ..Rules::default() }, 100);
    println!("found by {:?}", found.expect("the fault was not found"));
}
