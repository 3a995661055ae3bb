// SPDX-License-Identifier: BSD-3-Clause
//! The thread of the link to a peer: connects, introduces this server, and asks for what it lacks,
//! again and again. What comes is handed to the active-active thread; the next question waits until
//! that has applied it.
//!
//! Nothing that a peer sends is believed before it has been decoded and checked. What is wrong ends
//! the connection with a line in the log; the next attempt comes later each time.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use braid_active::effect::{Effect, Unit};
use braid_active::saved::Loader;
use braid_active::{Region, wire};
use braid_base::clock::unix_ms;
use braid_net::outgoing::Outgoing;
use braid_persistence::active::CopyFile;
use braid_replication::link::LinkError;
use braid_replication::link::peer::{Peer, Watch};

use super::codec::{is_identity, parse_members, parse_table, table_text, vector_text};
use super::state::{Active, Merged, Order, PROTOCOL, PeerLink, UnitBytes};
use crate::engine::Engine;

/// How long a read waits, so that the thread looks around now and then.
const TICK: Duration = Duration::from_millis(100);
/// Between two attempts: at first, and at most.
const RETRY_MIN: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// How long a peer keeps a question when it has nothing.
const WAIT_MS: i64 = 1000;
/// Bytes of units that are asked for at once: as many as are applied in this time, since nothing is
/// asked meanwhile, within these bounds.
const APPLY: Duration = Duration::from_millis(10);
const BYTES_MIN: usize = 64 << 10;
const BYTES_MAX: usize = 1 << 20;
/// Between two questions that are answered with units: many small answers would cost both servers
/// more than they save peers of lag.
const GATHER: Duration = Duration::from_millis(1);
/// Parts of an answer to PULL before the units.
const BEFORE_UNITS: usize = 5;
/// Longest text or piece that is believed.
const BULK_MAX: usize = 1 << 30;
const DURING: &str = "talking to an active-active peer";

/// Starts the thread.
pub(super) fn start(engine: &Engine, peer: &Arc<PeerLink>) -> std::io::Result<()> {
    let (engine, peer) = (engine.this.clone(), Arc::clone(peer));
    let run = move || {
        if let Some(engine) = engine.upgrade()
            && let Some(active) = &engine.active
        {
            run(&engine, active, &peer);
        }
    };
    std::thread::Builder::new().name("active-link".into()).spawn(run).map(drop)
}

fn run(engine: &Engine, active: &Active, peer: &PeerLink) {
    let mut rest = RETRY_MIN;
    let link = Link { engine, active, peer, bytes: Cell::new(BYTES_MAX), rests_until: Cell::new(None) };
    while !link.is_called_off() {
        let outcome = link.attempt();
        let was_up = peer.is_up.swap(false, Relaxed);
        if was_up {
            rest = RETRY_MIN;
        }
        if let Err(error) = outcome
            && !link.is_called_off()
        {
            let error = describe(&error);
            if peer.told.lock().error != error {
                log::warn!("Active-active peer {}:{}: {error}", peer.host, peer.port);
            }
            peer.told.lock().error = error;
        }
        let mut left = rest;
        while left > Duration::ZERO && !link.is_called_off() {
            std::thread::sleep(left.min(TICK));
            left = left.saturating_sub(TICK);
        }
        rest = (rest * 2).min(RETRY_MAX);
    }
}

fn describe(error: &LinkError) -> String {
    match error {
        LinkError::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            "the connection was lost".into()
        }
        LinkError::Protocol(what) => format!("what it sends makes no sense: {what}"),
        other => other.to_string(),
    }
}

fn garbage(what: impl Into<String>) -> LinkError {
    LinkError::Protocol(what.into())
}

struct Link<'e> {
    engine: &'e Engine,
    active: &'e Active,
    peer: &'e PeerLink,
    /// Bytes of units that are asked for next, and when at the earliest.
    bytes: Cell<usize>,
    rests_until: Cell<Option<Instant>>,
}

impl Watch for Link<'_> {
    fn is_called_off(&self) -> bool {
        self.engine.shutdown.is_requested() || !self.peer.is_wanted.load(Relaxed)
    }

    fn note_io(&self, bytes: usize) {
        self.peer.bytes.fetch_add(bytes as u64, Relaxed);
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(self.engine.config.repl_timeout_seconds().max(2).into())
    }
}

/// A part of a reply.
enum Part {
    Bulk(Vec<u8>),
    Integer(i64),
}

impl Part {
    fn text(&self) -> Option<&str> {
        match self {
            Part::Bulk(bytes) => std::str::from_utf8(bytes).ok(),
            Part::Integer(_) => None,
        }
    }

    fn integer(&self) -> Option<i64> {
        match self {
            Part::Integer(number) => Some(*number),
            Part::Bulk(_) => None,
        }
    }
}

impl Link<'_> {
    fn attempt(&self) -> Result<(), LinkError> {
        let mut peer = self.connect()?;
        self.log_in(&mut peer)?;
        self.introduce(&mut peer)?;
        let mut position = 0;
        while !self.is_called_off() {
            if let Some(until) = self.rests_until.take() {
                std::thread::sleep(until.saturating_duration_since(Instant::now()));
            }
            position = self.pull(&mut peer, position)?;
            if !self.peer.is_up.swap(true, Relaxed) {
                let region = self.peer.told.lock().region.unwrap_or_default();
                self.peer.told.lock().error.clear();
                log::info!(
                    "Active-active peer {}:{} is connected: region {region}",
                    self.peer.host,
                    self.peer.port
                );
            }
        }
        Err(LinkError::CalledOff)
    }

    fn connect(&self) -> Result<Peer<Outgoing>, LinkError> {
        let config = &self.engine.config;
        let options = crate::tls::connect_options(config, config.tls_replication(), self.timeout())
            .map_err(LinkError::Refused)?;
        let stream = Outgoing::connect(&self.peer.host, self.peer.port, &options)?;
        stream.set_timeouts(TICK, self.timeout())?;
        Ok(Peer::new(stream))
    }

    fn log_in(&self, peer: &mut Peer<Outgoing>) -> Result<(), LinkError> {
        let config = &self.engine.config;
        let (user, password) = (config.masteruser(), config.masterauth());
        if password.is_empty() {
            return Ok(());
        }
        let words = [&b"AUTH"[..], user.as_bytes(), password.as_bytes()];
        let words: Vec<&[u8]> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let line = peer.ask(&words, self, DURING)?;
        match line.strip_prefix('-') {
            Some(error) => Err(LinkError::Refused(format!("it refuses the password: {error}"))),
            None => Ok(()),
        }
    }

    /// Says who this server is, and learns who the peer is.
    fn introduce(&self, peer: &mut Peer<Outgoing>) -> Result<(), LinkError> {
        let me = self.active.me.lock().clone();
        let numbers =
            [PROTOCOL, i64::from(me.region), i64::from(me.is_settled)].map(|number| number.to_string());
        let words = ["ACTIVE", "HELLO", &numbers[0], &me.identity, &numbers[1], &numbers[2]];
        peer.send(&words.map(str::as_bytes))?;
        let parts = self.reply(peer)?;
        let [version, identity, region, settled, taken] = &parts[..] else {
            return Err(garbage("a wrong answer to ACTIVE HELLO"));
        };
        if version.integer() != Some(PROTOCOL) {
            return Err(LinkError::Refused("it speaks another version of ACTIVE".into()));
        }
        let region = region.integer().and_then(|region| u8::try_from(region).ok()).and_then(Region::new);
        let identity = identity.text().filter(|text| is_identity(text));
        let taken = taken.text().and_then(|text| text.parse::<u64>().ok());
        let (Some(region), Some(identity), Some(taken)) = (region, identity, taken) else {
            return Err(garbage("a wrong answer to ACTIVE HELLO"));
        };
        let is_settled = settled.integer() == Some(1);
        let mine = self.active.me.lock();
        if identity == mine.identity {
            return Err(LinkError::Refused("it is this server itself".into()));
        }
        let region = region.number();
        if !mine.fits(region, identity) {
            let may_change = region == mine.region
                && !mine.is_settled
                && (is_settled || mine.identity.as_str() > identity);
            if may_change {
                let taken = taken | mine.taken();
                drop(mine);
                let _ = self.active.orders.send(Order::ChangeRegion { taken });
                return Err(LinkError::Refused(
                    "both servers have the same region: this one takes another".into(),
                ));
            }
            let whose =
                if region == mine.region { "this server's own number" } else { "another server's number" };
            return Err(LinkError::Refused(format!(
                "it is region {region}, which is {whose}: give each server its own active-region"
            )));
        }
        // It is a member once it has told so itself, by its first answer to PULL.
        drop(mine);
        let mut told = self.peer.told.lock();
        (told.region, told.identity) = (Some(region), identity.to_owned());
        Ok(())
    }

    /// Asks once for what this server lacks, and has it applied. Where the peer's backlog goes on.
    fn pull(&self, peer: &mut Peer<Outgoing>, position: u64) -> Result<u64, LinkError> {
        let (identity, region) = {
            let me = self.active.me.lock();
            (me.identity.clone(), me.region)
        };
        let (applied, on_disk) = {
            let outbox = self.active.outbox.lock();
            (vector_text(&outbox.applied), table_text(&outbox.on_disk))
        };
        let numbers = [u64::from(region), position, WAIT_MS as u64, self.bytes.get() as u64]
            .map(|number| number.to_string());
        let words: [&str; 9] = [
            "ACTIVE",
            "PULL",
            &identity,
            &numbers[0],
            &applied,
            &numbers[1],
            &on_disk,
            &numbers[2],
            &numbers[3],
        ];
        let asked = Instant::now();
        peer.send(&words.map(str::as_bytes))?;
        let mut parts = self.reply(peer)?;
        // What a peer sends that is not wanted any more would come as a surprise.
        if self.is_called_off() {
            return Err(LinkError::CalledOff);
        }
        let wrong = || garbage("a wrong answer to ACTIVE PULL");
        let units = parts.split_off(parts.len().min(BEFORE_UNITS));
        let [word, next, on_disk, members, applied] = &parts[..] else { return Err(wrong()) };
        let table = on_disk.text().and_then(parse_table).ok_or_else(wrong)?;
        let members = members.text().and_then(parse_members).ok_or_else(wrong)?;
        applied.text().and_then(super::codec::parse_vector).ok_or_else(wrong)?;
        let next = next.text().and_then(|text| text.parse().ok()).ok_or_else(wrong)?;
        self.note_members(members)?;
        let me = self.active.region();
        if self.active.outbox.lock().note_on_disk(&table, me) {
            let _ = self.active.orders.send(Order::OnDisk);
        }
        match word.text() {
            Some("copy") => self.copy(peer).map(|()| 0),
            Some("units") => {
                let until = (!units.is_empty()).then(|| asked + GATHER);
                self.take_units(units)?;
                self.rests_until.set(until);
                Ok(next)
            }
            _ => Err(wrong()),
        }
    }

    /// Learns of other regions. One that is known as another server is refused.
    fn note_members(&self, members: std::collections::BTreeMap<u8, String>) -> Result<(), LinkError> {
        let mut me = self.active.me.lock();
        for (region, identity) in members {
            if !me.fits(region, &identity) {
                return Err(LinkError::Refused(format!(
                    "it knows another server as region {region} than this server does: give each its own active-region"
                )));
            }
            if region != me.region && me.gone >> region & 1 == 0 {
                me.members.insert(region, identity);
            }
        }
        Ok(())
    }

    fn take_units(&self, parts: Vec<Part>) -> Result<(), LinkError> {
        if parts.is_empty() {
            return Ok(());
        }
        let units = parts.into_iter().map(|part| match part {
            Part::Bulk(bytes) => {
                let unit = wire::decode(&bytes).map_err(|error| garbage(error.to_string()))?;
                self.check_database(unit.effects.iter().filter_map(Effect::database).max())?;
                Ok((unit, UnitBytes::from(bytes)))
            }
            Part::Integer(_) => Err(garbage("a number in place of a unit")),
        });
        let units = units.collect::<Result<Vec<(Unit, UnitBytes)>, LinkError>>()?;
        let bytes: usize = units.iter().map(|(_, bytes)| bytes.len()).sum();
        let last_ms = units.last().map_or(0, |(unit, _)| unit.last().unix_ms());
        let count = units.len() as u64;
        let start = Instant::now();
        self.apply(|answer| Order::Units { units, answer })?;
        let took = start.elapsed().max(Duration::from_millis(1)).as_millis() as usize;
        // A small part says little about how many could have been taken.
        if bytes >= BYTES_MIN / 2 {
            let fit = bytes * APPLY.as_millis() as usize / took;
            self.bytes.set(fit.clamp(BYTES_MIN, BYTES_MAX));
        }
        self.peer.units.fetch_add(count, Relaxed);
        self.peer.lag_ms.store((unix_ms() as u64).saturating_sub(last_ms), Relaxed);
        Ok(())
    }

    /// This server has the databases that the peer has keys in.
    fn check_database(&self, last: Option<u32>) -> Result<(), LinkError> {
        match last.filter(|last| *last >= self.engine.keyspace.databases()) {
            Some(last) => Err(LinkError::Refused(format!("it has keys in database {last}, see 'databases'"))),
            None => Ok(()),
        }
    }

    /// Takes a full copy, which merges with what is here.
    fn copy(&self, peer: &mut Peer<Outgoing>) -> Result<(), LinkError> {
        log::info!("Active-active peer {}:{} sends a full copy", self.peer.host, self.peer.port);
        peer.send(&[b"ACTIVE", b"COPY"])?;
        let mut loader = Loader::new();
        let mut is_whole = false;
        let mut pieces = Vec::new();
        for part in self.reply(peer)? {
            let Part::Bulk(bytes) = part else { return Err(garbage("a number in a full copy")) };
            pieces.push(bytes);
        }
        for bytes in &pieces {
            let mut left = &bytes[..];
            is_whole = loader.feed(&mut left).map_err(|error| garbage(error.to_string()))?;
        }
        if !is_whole {
            return Err(garbage("a full copy that ends too early"));
        }
        let state = loader.finish().map_err(|error| garbage(error.to_string()))?;
        self.check_database(state.last_database())?;
        let _copying = self.active.copying.lock();
        let file = std::env::current_dir()
            .and_then(|folder| CopyFile::write(&folder, pieces.iter().map(|bytes| &bytes[..])));
        let file =
            file.map_err(|error| LinkError::Refused(format!("its full copy cannot be written: {error}")))?;
        drop(pieces);
        self.apply(|answer| Order::Copy { state: Box::new(state), file, answer })?;
        self.active.figures.copies_merged.fetch_add(1, Relaxed);
        log::info!("The full copy of {}:{} has been merged", self.peer.host, self.peer.port);
        Ok(())
    }

    /// Has the thread apply something, and waits until it has.
    fn apply(
        &self,
        order: impl FnOnce(std::sync::mpsc::SyncSender<Merged>) -> Order,
    ) -> Result<(), LinkError> {
        let (answer, merged) = sync_channel(1);
        let _ = self.active.orders.send(order(answer));
        loop {
            match merged.recv_timeout(TICK) {
                Ok(merged) => return merged.map_err(LinkError::Refused),
                Err(RecvTimeoutError::Timeout) if !self.engine.shutdown.is_requested() => {}
                Err(_) => return Err(LinkError::CalledOff),
            }
        }
    }

    /// Reads a reply: a list of texts and numbers, or an error.
    fn reply(&self, peer: &mut Peer<Outgoing>) -> Result<Vec<Part>, LinkError> {
        let head = peer.line(self, DURING)?;
        if let Some(error) = head.strip_prefix('-') {
            return Err(LinkError::Refused(format!("it refuses this server: {error}")));
        }
        let count = head.strip_prefix('*').and_then(|count| count.parse::<usize>().ok());
        let count = count.ok_or_else(|| garbage("no list"))?;
        let mut parts = Vec::new();
        for _ in 0..count {
            let line = peer.line(self, DURING)?;
            if let Some(number) = line.strip_prefix(':') {
                parts.push(Part::Integer(number.parse().map_err(|_| garbage("no number"))?));
                continue;
            }
            let length = line.strip_prefix('$').and_then(|length| length.parse::<usize>().ok());
            let length = length.filter(|length| *length <= BULK_MAX).ok_or_else(|| garbage("no text"))?;
            while peer.buffered().len() < length + 2 {
                peer.fill(self, DURING)?;
            }
            let bytes = peer.buffered()[..length].to_vec();
            if &peer.buffered()[length..length + 2] != b"\r\n" {
                return Err(garbage("a text without its end"));
            }
            peer.consume(length + 2);
            parts.push(Part::Bulk(bytes));
        }
        Ok(parts)
    }
}
