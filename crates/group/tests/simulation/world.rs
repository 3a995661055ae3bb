// SPDX-License-Identifier: BSD-3-Clause
//! One random schedule: servers, etcd, clients, and faults of all kinds between them.

mod checks;

use std::collections::VecDeque;
use std::sync::Arc;

use braid_group::confirmed::is_small;
use braid_group::member::Outcome;
use braid_group::{Duty, MemberId, Rules, Timing};
use fastrand::Rng;

use crate::etcd::{Etcd, Reply, Request};
use crate::server::{Clock, Held, Legacy, Path, Pending, Server};

const SERVERS: usize = 3;
/// Durations in ticks: a schedule, the lease time, and the timeout of a request to etcd.
const TICKS: u64 = 700;
const LEASE: u64 = 60;
const GIVES_UP: u64 = 9;
/// How long a member may keep replies waiting, in ticks.
const PATIENCE: u64 = 15;
/// When a replica falls sick, in ticks, and for how many ticks of the rest replies may wait for it.
const FALLS_SICK: u64 = 200;
const STALLS: u64 = (TICKS - FALLS_SICK) * 2 / 5;
/// Units of a clock per tick.
const UNITS: u64 = 1000;
/// Clock drift in thousandths.
const DRIFT: u64 = 24;

/// The rules that a schedule drops.
#[derive(Clone, Copy, Default, Debug)]
pub struct Faults {
    pub rules: Rules,
    pub path: Path,
    /// Servers also shut down cleanly.
    pub has_good_ends: bool,
    /// Writes need replicas (`min-sync-replicas`).
    pub has_minimum: bool,
    /// Nothing fails but one replica: its disk, or it stands still again and again.
    pub has_sick_replica: bool,
    /// Synchronous writes need a replica, so a primary that is cut off from all resigns.
    pub resigns: bool,
}

/// What is wrong with a replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sickness {
    /// It acknowledges from memory, and nothing gets to its disk.
    Disk,
    /// Of so many ticks it stands still for so many.
    Flaps { period: u64, stops: u64 },
}

/// Where a number has been: the process that wrote it, in which of its terms, and the other
/// servers, in memory and on disk.
#[derive(Clone, Default)]
struct Places {
    writer: Option<(MemberId, u64)>,
    in_memory: [bool; SERVERS],
    on_disk: [bool; SERVERS],
}

enum Message {
    /// The replication stream: the primary's whole log. Ordered per primary and epoch.
    Stream {
        from: MemberId,
        epoch: u64,
        sent: u64,
        log: Arc<Vec<u64>>,
    },
    Acknowledgement {
        from: MemberId,
        epoch: u64,
        probed: u64,
        in_memory: usize,
        on_disk: usize,
    },
    ToEtcd {
        from: usize,
        number: u64,
        request: Request,
    },
    FromEtcd {
        number: u64,
        reply: Reply,
    },
}

struct Envelope {
    due: u64,
    to: usize,
    message: Message,
}

/// The outcome of a schedule.
#[derive(Default)]
pub struct Summary {
    pub violation: Option<String>,
    pub acknowledged: usize,
    pub reads: usize,
    pub promotions: u64,
    /// Processes that resumed as one that had shut down cleanly.
    pub resumed: usize,
    /// Primaries that gave up their lease, and those that another one then replaced.
    pub resigned: usize,
    pub replaced: usize,
}

/// The servers' levels of synchronous writes (`sync-level`).
#[derive(Clone, Copy, Debug)]
enum Levels {
    Memory,
    Disk,
    Mixed,
}

impl Levels {
    fn draw(self, random: &mut Rng) -> bool {
        match self {
            Levels::Memory => false,
            Levels::Disk => true,
            Levels::Mixed => random.bool(),
        }
    }
}

pub struct World {
    random: Rng,
    faults: Faults,
    /// Whether all servers have the same level, or each its own.
    levels: Levels,
    etcd: Etcd,
    etcd_clock: Clock,
    etcd_down_until: u64,
    servers: Vec<Server>,
    links: [[bool; SERVERS]; SERVERS],
    etcd_links: [bool; SERVERS],
    /// Messages to etcd are slow at times: a transaction may execute long after its sender gave up.
    slow: bool,
    mail: Vec<Envelope>,
    numbers: u64,
    written: u64,
    acknowledged: Vec<u64>,
    floor: u64,
    reads: usize,
    resumed: usize,
    /// Replicas that writes need.
    minimum: usize,
    /// Where each number has been.
    places: Vec<Places>,
    /// The replica that is sick, and how.
    sick: Option<(usize, Sickness)>,
    sickness: Sickness,
    /// Ticks during which replies waited for the sick replica alone.
    stalled: u64,
    resigned: usize,
    replaced: usize,
    tick: u64,
    /// Prints the schedule (`BRAID_TRACE`).
    pub traces: bool,
    last_trace: String,
}

impl World {
    pub fn new(seed: u64, faults: Faults) -> World {
        let mut random = Rng::with_seed(seed);
        // Without the margin, clocks drift as far as they can; otherwise the fault would rarely be
        // found.
        let drifts = !faults.rules.allows_for_drift;
        let mut clock = || {
            let rate = if drifts { random.u64(0..=1) * 2 } else { random.u64(0..=2) };
            Clock { begin: random.u64(0..50_000), rate: UNITS - DRIFT + rate * DRIFT }
        };
        let clocks: Vec<Clock> = (0..=SERVERS).map(|_| clock()).collect();
        // One server may have a different lease time in its settings.
        let lease = |index: usize, other: u64| {
            Timing::new(LEASE * UNITS * if index == 0 { 4 + other } else { 4 } / 4)
        };
        let other = if drifts { 0 } else { random.u64(0..4).saturating_sub(1) };
        let server = |index| Server::new(index, 0, clocks[index], 0, lease(index, other), faults.rules);
        let mut servers: Vec<Server> = (0..SERVERS).map(server).collect();
        let etcd_clock = clocks[SERVERS];
        // Faults that matter only when levels change would rarely be found otherwise.
        let changes =
            !(faults.rules.clears_disk_anew && faults.rules.waits_for_all_disks && faults.path.follows_level);
        let levels = match random.u8(0..4) {
            _ if changes => Levels::Mixed,
            _ if drifts => Levels::Memory,
            0 => Levels::Disk,
            1 => Levels::Mixed,
            _ => Levels::Memory,
        };
        servers.iter_mut().for_each(|server| server.at_disk = levels.draw(&mut random));
        // Another source: the schedules of the other faults stay as they are.
        let mut other = Rng::with_seed(seed ^ 0x6d69_6e69_6d75_6d21);
        let minimum = if faults.has_minimum { other.usize(0..SERVERS) } else { usize::from(faults.resigns) };
        let sickness = match other.bool() {
            true => Sickness::Disk,
            false => Sickness::Flaps { period: other.u64(24..60), stops: other.u64(17..24) },
        };
        if faults.has_sick_replica {
            servers.iter_mut().for_each(|server| {
                (server.patience, server.at_disk) = (PATIENCE * UNITS, sickness == Sickness::Disk);
            });
        }
        servers.iter_mut().for_each(|server| server.minimum = minimum);
        World {
            slow: random.bool(),
            random,
            faults,
            levels,
            etcd: Etcd::new(),
            etcd_clock,
            etcd_down_until: 0,
            servers,
            links: [[true; SERVERS]; SERVERS],
            etcd_links: [true; SERVERS],
            mail: Vec::new(),
            numbers: 0,
            written: 0,
            acknowledged: Vec::new(),
            floor: 0,
            reads: 0,
            resumed: 0,
            minimum,
            places: vec![Places::default()],
            sick: None,
            sickness,
            stalled: 0,
            resigned: 0,
            replaced: 0,
            tick: 0,
            traces: false,
            last_trace: String::new(),
        }
    }

    pub fn run(mut self) -> Summary {
        let mut violation = None;
        while violation.is_none() && self.tick < TICKS {
            self.tick += 1;
            self.disturb();
            self.etcd.pass(self.etcd_clock.at(self.tick));
            self.end_processes();
            self.deliver();
            for index in 0..SERVERS {
                if self.servers[index].paused_until <= self.tick {
                    self.act(index);
                }
            }
            violation = self.release().or_else(|| self.check()).or_else(|| self.check_progress());
            if self.traces {
                self.trace();
            }
        }
        Summary {
            violation: violation.map(|what| format!("tick {}: {what}", self.tick)),
            acknowledged: self.acknowledged.len(),
            reads: self.reads,
            resumed: self.resumed,
            resigned: self.resigned,
            replaced: self.replaced,
            promotions: self.etcd.records().shard.as_ref().map_or(0, |shard| shard.value.epoch),
        }
    }

    /// Prints the state if it changed in this tick.
    fn trace(&mut self) {
        let records = self.etcd.records();
        let mut line = format!("{:?} etcd {:?} {:?}", self.levels, records.shard, records.holder);
        for server in &self.servers {
            let pause = server.paused_until > self.tick;
            line += &format!(
                "\n    {} {:?} for {:?} {} log {:?} synced {} last {:?}, followers {:?}",
                server.id(),
                server.orders.duty,
                server.orders.required,
                if pause { "paused" } else { "" },
                server.log.len(),
                server.synced,
                server.log.last(),
                server.followers.iter().map(|(id, heard)| format!("{id} {heard:?}")).collect::<Vec<_>>()
            );
        }
        if line != self.last_trace {
            println!("{}: {line}", self.tick);
            self.last_trace = line;
        }
    }

    fn chance(&mut self, percent: u8) -> bool {
        self.random.u8(0..100) < percent
    }

    fn disturb(&mut self) {
        if self.faults.has_sick_replica {
            return self.sicken();
        }
        // A quiet start, so that the group is founded.
        if self.tick < 100 || !self.chance(6) {
            return;
        }
        let one = self.random.usize(0..SERVERS);
        if self.faults.has_good_ends && self.chance(12) {
            self.end_in_good_order(one);
            return;
        }
        match self.random.u8(0..100) {
            0..35 => {
                let other = (one + self.random.usize(1..SERVERS)) % SERVERS;
                let state = self.random.bool();
                self.links[one][other] = state;
                if self.chance(70) {
                    self.links[other][one] = state;
                }
            }
            35..55 => self.etcd_links[one] = self.random.bool(),
            55..62 => self.etcd_down_until = self.tick + self.random.u64(5..80),
            62..80 => self.servers[one].paused_until = self.tick + self.random.u64(3..70),
            80..88 => self.crash(one),
            88..92 => self.hand_over(one),
            // CONFIG SET sync-level.
            92..94 => self.servers[one].at_disk = self.levels.draw(&mut self.random),
            _ => {
                self.links = [[true; SERVERS]; SERVERS];
                self.etcd_links = [true; SERVERS];
            }
        }
    }

    /// Makes a replica sick, and keeps it so.
    fn sicken(&mut self) {
        let shard = self.etcd.records().shard.as_ref().map(|shard| shard.value.clone());
        if self.tick == FALLS_SICK
            && let Some(shard) = shard.filter(|shard| shard.in_sync.len() == SERVERS)
        {
            let sick = (self.index_of(&shard.primary) + 1) % SERVERS;
            self.sick = Some((sick, self.sickness));
        }
        if let Some((sick, Sickness::Flaps { period, stops })) = self.sick
            && (self.tick - FALLS_SICK).is_multiple_of(period)
        {
            self.servers[sick].paused_until = self.tick + stops;
        }
    }

    /// Writes a server's log to its disk, if that works.
    fn sync(&mut self, index: usize) {
        if self.sick != Some((index, Sickness::Disk)) {
            self.servers[index].sync();
            self.note_on_disk(index);
        }
    }

    /// Notes which numbers a server has on its disk.
    fn note_on_disk(&mut self, index: usize) {
        let server = &self.servers[index];
        // What precedes a number that has been noted, has been noted too.
        for &number in server.log[..server.synced.min(server.log.len())].iter().rev() {
            if std::mem::replace(&mut self.places[number as usize].on_disk[index], true) {
                break;
            }
        }
    }

    /// Crashes and restarts a server.
    fn crash(&mut self, index: usize) {
        let server = &self.servers[index];
        let timing = server.timing;
        let record = self.etcd.records().shard.as_ref().map(|shard| &shard.value);
        let members = record.map(|shard| &shard.in_sync);
        let is_on_disk = record.is_some_and(|shard| shard.is_on_disk);
        let is_member = members.is_some_and(|members| members.contains(server.id()));
        // Data acknowledged by this server alone would be lost with its memory, by definition. To
        // avoid that, it keeps its log here; it may shut down cleanly, though.
        let may_be_alone = server.leads().is_some() && server.orders.required.is_empty()
            || is_member && members.is_some_and(|members| members.len() == 1);
        let was = server.id().run.clone();
        let (clock, log, files) = (server.clock, server.log.clone(), server.files.clone());
        let (at_disk, synced) = (server.at_disk, server.synced);
        let (minimum, patience) = (server.minimum, server.patience);
        let has_name = server.member.name().is_some();
        let former = if has_name { Some(was) } else { server.run_on_disk.clone() };
        let runs = if self.faults.path.renames { server.runs + 1 } else { server.runs };
        let mut new = Server::new(index, runs, clock, self.tick, timing, self.faults.rules);
        new.paused_until = self.tick + self.random.u64(1..60);
        new.at_disk = at_disk;
        (new.minimum, new.patience) = (minimum, patience);
        let note = server.note.clone();
        if let Some((shutdown, saved)) = note {
            // Left by the process before; the one that dies now has not removed it yet.
            new.log = saved.clone();
            (new.previous_run, new.run_on_disk) = (Some(shutdown.run.clone()), Some(shutdown.run.clone()));
            new.note = Some((shutdown, saved));
            new.has_data = true;
        } else if may_be_alone && !is_on_disk {
            new.log = log;
            new.previous_run = former;
            new.has_data = true;
        } else if self.chance(70) {
            // Unsynced data may have reached the disk, too.
            let all = synced > 0 && synced <= log.len() && self.random.bool();
            new.log = if all { log } else { files };
            new.previous_run = former.clone().filter(|_| may_be_alone);
            new.run_on_disk = former;
            new.has_data = true;
        }
        (new.files, new.synced) = (new.log.clone(), new.log.len());
        self.servers[index] = new;
    }

    /// Shuts down one server cleanly, or all of them at about the same time.
    fn end_in_good_order(&mut self, one: usize) {
        let all = self.chance(40);
        for index in (0..SERVERS).filter(|&index| all || index == one) {
            if all && self.chance(10) {
                self.crash(index);
                continue;
            }
            let tick = self.tick + if all { self.random.u64(0..4) } else { 0 };
            let server = &mut self.servers[index];
            if server.paused_until <= self.tick && server.ends.is_none() {
                let legacy = server.legacy(self.tick, &self.faults.path);
                let lasts = self.random.u64(1..20);
                server.ends = Some((tick + lasts, legacy));
            }
        }
    }

    /// Ends processes that have saved their data, and starts their successors.
    fn end_processes(&mut self) {
        for index in 0..SERVERS {
            let server = &mut self.servers[index];
            if let Some((at, _)) = &server.ends
                && self.faults.path.stops_before_saving
            {
                server.paused_until = server.paused_until.max(at + 1);
            }
            let Some((_, legacy)) = server.ends.take_if(|(at, _)| *at <= self.tick) else { continue };
            let Legacy { log, former, note } = legacy;
            let runs = if self.faults.path.renames { server.runs + 1 } else { server.runs };
            let (clock, timing, at_disk) = (server.clock, server.timing, server.at_disk);
            let minimum = server.minimum;
            let mut new = Server::new(index, runs, clock, self.tick, timing, self.faults.rules);
            new.paused_until = self.tick + self.random.u64(1..60);
            new.at_disk = at_disk;
            new.minimum = minimum;
            new.note = note.map(|shutdown| (shutdown, Arc::clone(&log)));
            (new.previous_run, new.run_on_disk) = (former.clone(), former);
            new.has_data = true;
            new.synced = log.len();
            (new.files, new.log) = (Arc::clone(&log), log);
            self.servers[index] = new;
        }
    }

    fn hand_over(&mut self, index: usize) {
        let server = &mut self.servers[index];
        let len = server.log.len() as u64;
        let followers = server.local(self.tick, &self.faults.path).followers;
        let ready = followers.iter().find(|follower| follower.acknowledged >= len);
        if server.leads().is_some()
            && server.paused_until <= self.tick
            && let Some(ready) = ready.map(|follower| follower.id.clone())
        {
            let _ = server.member.hand_over(ready);
        }
    }

    fn post(&mut self, to: usize, delay: u64, message: Message) {
        self.mail.push(Envelope { due: self.tick + delay, to, message });
    }

    fn deliver(&mut self) {
        let tick = self.tick;
        // Answers may arrive in the same tick.
        while let Some(due) = self.mail.iter().position(|envelope| envelope.due <= tick) {
            let Envelope { to, message, .. } = self.mail.remove(due);
            match message {
                Message::ToEtcd { from, number, request } => {
                    if tick < self.etcd_down_until {
                        if self.chance(30) {
                            let due = self.etcd_down_until;
                            let message = Message::ToEtcd { from, number, request };
                            self.mail.push(Envelope { due, to, message });
                        }
                        continue;
                    }
                    let reply = self.etcd.execute(&request, self.etcd_clock.at(tick));
                    if self.etcd_links[from] && !self.chance(5) {
                        let delay = self.random.u64(0..4);
                        self.post(from, delay, Message::FromEtcd { number, reply });
                    }
                }
                message if self.servers[to].paused_until > tick => {
                    let due = self.servers[to].paused_until;
                    self.mail.push(Envelope { due, to, message });
                }
                Message::FromEtcd { number, reply } => self.answered(to, number, reply),
                Message::Stream { from, epoch, sent, log } => self.stream(to, &from, epoch, sent, log),
                Message::Acknowledgement { from, epoch, probed, in_memory, on_disk } => {
                    let path = self.faults.path;
                    let server = &mut self.servers[to];
                    let counts =
                        server.leads() == Some(epoch) || server.leads().is_some() && !path.counts_anew;
                    if counts {
                        let probed = if path.counts_from_probe { probed } else { server.clock.at(tick) };
                        let heard = server.followers.entry(from).or_default();
                        heard.probed = heard.probed.max(probed);
                        heard.in_memory = heard.in_memory.max(in_memory);
                        heard.on_disk = heard.on_disk.max(on_disk);
                    }
                }
            }
        }
        if tick == self.etcd_down_until {
            self.etcd.recover(self.etcd_clock.at(tick));
        }
    }

    fn index_of(&self, id: &MemberId) -> usize {
        (id.node.as_bytes()[0] - b'a') as usize
    }

    fn stream(&mut self, to: usize, from: &MemberId, epoch: u64, sent: u64, log: Arc<Vec<u64>>) {
        let from_index = self.index_of(from);
        let tick = self.tick;
        let refuses = self.faults.path.refuses;
        let delay = self.random.u64(0..4);
        let server = &mut self.servers[to];
        let follows = match &server.orders.duty {
            Duty::Follow { primary, epoch: own } => primary == from && *own == epoch,
            Duty::Refuse => !refuses && server.member.shard().is_some_and(|shard| shard.epoch == epoch),
            _ => false,
        };
        if !self.links[from_index][to] || !follows || (epoch, sent) < server.last_stream {
            return;
        }
        server.last_stream = (epoch, sent);
        server.has_data = true;
        if server.loads_until > tick {
            return;
        }
        let is_same = server.log.len() <= log.len() && log[..server.log.len()] == server.log[..];
        if !is_same {
            // It has a divergent tail: it needs a full sync.
            (server.log, server.synced) = (Arc::default(), 0);
            if !self.faults.path.keeps_old_files {
                server.files = Arc::default();
            }
            server.loads_until = tick + self.random.u64(1..30);
            return;
        }
        let known = server.log.len();
        server.log = log;
        let has_disk = self.random.bool();
        if has_disk {
            self.sync(to);
        }
        let server = &mut self.servers[to];
        for &number in &server.log[known..] {
            self.places[number as usize].in_memory[to] = true;
        }
        self.note_on_disk(to);
        let server = &mut self.servers[to];
        let in_memory = server.log.len();
        let on_disk = if self.faults.path.waits_for_disk { server.synced } else { in_memory };
        server.acknowledged = server.clock.at(tick);
        let id = server.id().clone();
        if self.links[to][from_index] {
            let message = Message::Acknowledgement { from: id, epoch, probed: sent, in_memory, on_disk };
            self.post(from_index, delay, message);
        }
    }

    fn ask(&mut self, index: usize, pending: Pending, request: Request) {
        self.numbers += 1;
        let number = self.numbers;
        let sent = self.servers[index].clock.at(self.tick);
        let gives_up = self.tick + GIVES_UP;
        self.servers[index].pending.insert(number, (pending, sent, gives_up));
        let is_late = self.slow && self.chance(10);
        let delay = if is_late { self.random.u64(10..80) } else { self.random.u64(0..4) };
        if self.etcd_links[index] && !self.chance(3) {
            self.post(0, delay, Message::ToEtcd { from: index, number, request });
        }
    }

    fn answered(&mut self, index: usize, number: u64, reply: Reply) {
        let server = &mut self.servers[index];
        let now = server.clock.at(self.tick);
        // Timed out, or sent by a former process.
        let Some((pending, sent, _)) = server.pending.remove(&number) else { return };
        match (pending, reply) {
            (Pending::Read, Reply::Records(records)) => server.member.observe(records, now),
            (Pending::Grant, Reply::Lease(id)) => {
                server.lease = Some(id);
                server.registered = false;
                server.member.lease_lives(id, sent, now);
            }
            (Pending::KeepAlive, Reply::Lease(id)) => server.member.lease_lives(id, sent, now),
            (Pending::KeepAlive, Reply::NoLease) => {
                server.lease = None;
                server.member.lease_lost();
            }
            (Pending::Transact(transaction), Reply::Transacted(revision)) => {
                let outcome = revision.map_or(Outcome::Refused, Outcome::Committed);
                server.member.on_outcome(&transaction, outcome, now);
            }
            _ => {}
        }
    }

    /// A server's turn.
    fn act(&mut self, index: usize) {
        let tick = self.tick;
        let path = self.faults.path;
        let server = &mut self.servers[index];
        let now = server.clock.at(tick);
        let given_up: Vec<u64> = server
            .pending
            .iter()
            .filter(|(_, pending)| pending.2 <= tick)
            .map(|(&number, _)| number)
            .collect();
        for number in given_up {
            if let Some((Pending::Transact(transaction), ..)) = server.pending.remove(&number) {
                server.member.on_outcome(&transaction, Outcome::Unknown, now);
            }
        }
        if self.chance(if self.servers[index].waits_for_disk(&path) { 40 } else { 5 }) {
            self.sync(index);
        }
        if self.chance(35) {
            self.on_tick(index);
            let hears = self.chance(20);
            let server = &mut self.servers[index];
            server.hears_primary = hears && server.orders.duty != Duty::Wait;
            server.take_note(&path);
            let was_resigned = server.orders.is_resigned;
            let was_named = server.member.name().is_some();
            let orders = server.member.step(now, &server.local(tick, &path));
            let is_former =
                server.clean_shutdown.as_ref().is_some_and(|shutdown| shutdown.run == server.id().run);
            self.resumed += usize::from(!was_named && is_former);
            self.resigned += usize::from(!was_resigned && orders.is_resigned);
            self.replaced += usize::from(was_resigned && !matches!(orders.duty, Duty::Lead { .. }));
            server.apply(orders, tick, &path);
            let (transaction, offer) = (server.orders.transaction.clone(), server.orders.offer.clone());
            if let Some(transaction) = transaction {
                self.ask(index, Pending::Transact(transaction.clone()), Request::Transact(transaction));
            }
            let server = &mut self.servers[index];
            if let Some((offer, lease)) = offer.zip(server.lease)
                && server.offered != Some(offer.epoch)
            {
                server.offered = Some(offer.epoch);
                let id = server.id().clone();
                self.ask(index, Pending::Other, Request::PutOffer(id, offer, lease));
            }
        }
        if let Some(epoch) = self.servers[index].leads() {
            self.probe(index, epoch);
            self.clients(index, epoch);
        }
    }

    /// Keeps the lease alive, reads the records, registers the node.
    fn on_tick(&mut self, index: usize) {
        let server = &self.servers[index];
        let has = |test: fn(&Pending) -> bool| server.pending.values().any(|(pending, ..)| test(pending));
        let leases = has(|pending| matches!(pending, Pending::Grant | Pending::KeepAlive));
        let reads = has(|pending| matches!(pending, Pending::Read));
        let time = server.timing.lease;
        let (lease, registered, id) = (server.lease, server.registered, server.id().clone());
        if !leases {
            match lease {
                None => self.ask(index, Pending::Grant, Request::Grant(time)),
                Some(lease) => self.ask(index, Pending::KeepAlive, Request::KeepAlive(lease)),
            }
        }
        if !reads && self.chance(70) {
            self.ask(index, Pending::Read, Request::Read);
        }
        if let Some(lease) = lease
            && !registered
        {
            self.servers[index].registered = true;
            self.ask(index, Pending::Other, Request::PutNode(id, lease));
        }
    }

    fn probe(&mut self, index: usize, epoch: u64) {
        let server = &self.servers[index];
        let (from, log, sent) = (server.id().clone(), server.log.clone(), server.clock.at(self.tick));
        for to in (0..SERVERS).filter(|&to| to != index) {
            if self.chance(60) {
                let delay = self.random.u64(0..4);
                let stream = Message::Stream { from: from.clone(), epoch, sent, log: log.clone() };
                self.post(to, delay, stream);
            }
        }
    }

    /// Client requests: one write, one read.
    fn clients(&mut self, index: usize, epoch: u64) {
        for is_write in [true, false] {
            if !self.chance(30) {
                continue;
            }
            let floor = self.floor;
            let server = &self.servers[index];
            let may = server.may_serve(self.tick, &self.faults.path);
            if !may || is_write && is_small(server.orders.size, self.minimum) {
                continue;
            }
            // The process may be paused between the check and the execution, or before the reply.
            let stops = self.chance(4).then(|| self.tick + self.random.u64(10..70));
            let number = if is_write {
                self.written += 1;
                let server = &self.servers[index];
                let writer = Some((server.id().clone(), server.terms));
                self.places.push(Places { writer, ..Places::default() });
                self.written
            } else {
                self.servers[index].log.last().copied().unwrap_or(0)
            };
            let server = &mut self.servers[index];
            if is_write {
                server.append(number);
            }
            let len = server.log.len();
            server.held.push_back(Held { epoch, len, number, is_write, floor, since: self.tick });
            if let Some(until) = stops {
                server.paused_until = until;
                return;
            }
        }
    }

    /// Sends the replies that are ready.
    fn release(&mut self) -> Option<String> {
        let path = self.faults.path;
        for index in 0..SERVERS {
            let server = &mut self.servers[index];
            if server.paused_until > self.tick || !server.may_serve(self.tick, &path) {
                continue;
            }
            let held = std::mem::take(&mut server.held);
            let (ready, waiting) = held.into_iter().partition(|held: &Held| {
                server.is_acknowledged(held.len, &path) || !held.is_write && !path.reads_wait
            });
            server.held = waiting;
            let ready: VecDeque<Held> = ready;
            for Held { number, is_write, floor, .. } in ready {
                if let Some(what) = self.check_minimum(index, number) {
                    return Some(what);
                }
                if is_write {
                    self.acknowledged.push(number);
                } else {
                    self.reads += 1;
                    if number < floor {
                        let id = self.servers[index].id();
                        return Some(format!("{id} answers {number}, {floor} was seen before"));
                    }
                }
                self.floor = self.floor.max(number);
            }
        }
        None
    }
}
