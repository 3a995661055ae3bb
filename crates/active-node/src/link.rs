// SPDX-License-Identifier: BSD-3-Clause
//! The thread of the link to a peer: it connects, introduces this server, and repeatedly pulls
//! the units this server lacks. Received units are handed to the active-active thread; the next
//! pull waits until they have been applied.
//!
//! No data of a peer is trusted before it has been decoded and checked. Invalid data ends the
//! connection with a line in the log; each further attempt is delayed longer. If what is refused
//! is the peer's effects or number, the link also tells the peer, which cannot see it from its
//! side. With that message, sent every two seconds, servers tell each other which regions have
//! been removed.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use braid_active::Region;
use braid_active::replica::State;
use braid_active::saved::Loader;
use braid_base::clock::unix_ms;
use braid_executor::engine::Engine;
use braid_executor::threads;
use braid_net::outgoing::Outgoing;
use braid_persistence::active::{CopyFile, CopyWriter};
use braid_process::connector::{ConnectError, Connector};
use braid_replication::link::LinkError;
use braid_replication::link::peer::{Peer, Watch};
use braid_resp::request;

use super::batch::Batch;
use super::codec::{is_identity, parse_members, parse_table, table_text, vector_text};
use super::gather::Turn;
use super::refusals::{REASON_MAX, Refused, is_same_problem};
use super::state::{Active, Merged, Order, PROTOCOL, PeerLink};
use crate::state;

/// Read timeout, so that the thread checks for shutdown and removal of the peer.
const TICK: Duration = Duration::from_millis(100);
/// Minimum and maximum delay between two attempts.
const RETRY_MIN: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// How long a peer holds a pull when it has no units, in ms.
const WAIT_MS: i64 = 1000;
/// Bytes of units requested per pull: as many as are applied in this time, since no pull is in
/// flight meanwhile, within these bounds.
const APPLY: Duration = Duration::from_millis(10);
const BYTES_MIN: usize = 64 << 10;
const BYTES_MAX: usize = 1 << 20;
/// Interval of ACTIVE TELL, unless there is news.
const TELL: Duration = Duration::from_secs(2);
/// Number of parts before the units in a reply to PULL.
const BEFORE_UNITS: usize = 5;
/// Longest text or piece accepted, in bytes.
const BULK_MAX: usize = 1 << 30;
const DURING: &str = "talking to an active-active peer";

/// Starts the link's thread.
pub(super) fn start(engine: &Engine, peer: &Arc<PeerLink>) -> std::io::Result<()> {
    let peer = Arc::clone(peer);
    let run = move |engine: &Arc<Engine>| {
        if let Some(active) = state::of(engine) {
            run(engine, active, &peer);
        }
    };
    threads::spawn(engine, "active-link", run).map(drop)
}

fn run(engine: &Engine, active: &Active, peer: &PeerLink) {
    let mut rest = RETRY_MIN;
    let link = Link {
        engine,
        active,
        peer,
        bytes: Cell::new(BYTES_MAX),
        turn: Cell::new(Turn::first()),
        rest: Cell::default(),
        told: Cell::default(),
        is_understood: Cell::new(true),
        refuses: RefCell::default(),
        is_refused: RefCell::default(),
    };
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
            let mut status = peer.status.lock();
            if !is_same_problem(&status.error, &error) {
                log::warn!("Active-active peer {}:{}: {error}", peer.host, peer.port);
            }
            status.error = error;
            status.refused = link.refuses.borrow().clone().or_else(|| link.is_refused.take());
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
        LinkError::Protocol(what) => format!("protocol error: {what}"),
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
    /// Bytes of units to request next, and the rest before that.
    bytes: Cell<usize>,
    turn: Cell<Turn>,
    rest: Cell<Duration>,
    /// When the peer was last told about removed regions, and which; `None` if it has yet to be
    /// told about those or about a refusal.
    told: Cell<Option<(Instant, u64)>>,
    /// False if the peer does not know ACTIVE TELL.
    is_understood: Cell<bool>,
    /// What this server refuses of the peer, until a pull succeeds.
    refuses: RefCell<Option<Refused>>,
    /// Why the peer refuses this server.
    is_refused: RefCell<Option<Refused>>,
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
        self.told.set(None);
        self.is_understood.set(true);
        let outcome = self.converse(&mut peer);
        if self.refuses.borrow().is_some() && self.is_understood.get() && self.told.get().is_none() {
            // The reply to the refused request has been read. If this fails, the next attempt says
            // the same.
            let _ = self.tell(&mut peer).and_then(|()| self.hear(&mut peer));
        }
        outcome
    }

    /// Pulls until the link ends.
    fn converse(&self, peer: &mut Peer<Outgoing>) -> Result<(), LinkError> {
        self.introduce(peer)?;
        let mut position = 0;
        while !self.is_called_off() {
            std::thread::sleep(self.rest.take());
            position = self.pull(peer, position)?;
            if self.refuses.take().is_some() {
                self.told.set(None);
            }
            if !self.peer.is_up.swap(true, Relaxed) {
                let mut status = self.peer.status.lock();
                status.error.clear();
                status.refused = None;
                let region = status.region.unwrap_or_default();
                drop(status);
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
        let connector = Connector::of_links(&self.engine.config, self.timeout());
        let stream = connector.connect(&self.peer.host, self.peer.port).map_err(|error| match error {
            ConnectError::Settings(why) => LinkError::Refused(why),
            ConnectError::Socket(error) => error.into(),
        })?;
        stream.set_timeouts(TICK, self.timeout())?;
        Ok(Peer::new(stream))
    }

    fn log_in(&self, peer: &mut Peer<Outgoing>) -> Result<(), LinkError> {
        let config = &self.engine.config;
        let (user, password) = (config.masteruser(), config.masterauth());
        let Some(words) = request::auth(&user, &password) else { return Ok(()) };
        let line = peer.ask(&words, self, DURING)?;
        match line.strip_prefix('-') {
            Some(error) => Err(LinkError::Refused(format!("the peer rejects the password: {error}"))),
            None => Ok(()),
        }
    }

    /// Introduces this server and learns the peer's identity.
    fn introduce(&self, peer: &mut Peer<Outgoing>) -> Result<(), LinkError> {
        let me = self.active.me.lock().clone();
        let numbers =
            [PROTOCOL, i64::from(me.region), i64::from(me.is_final)].map(|number| number.to_string());
        let words = ["ACTIVE", "HELLO", &numbers[0], &me.identity, &numbers[1], &numbers[2]];
        peer.send(&words.map(str::as_bytes))?;
        let parts = self.reply(peer)?;
        let [version, identity, region, is_final, taken] = &parts[..] else {
            return Err(garbage("invalid reply to ACTIVE HELLO"));
        };
        if version.integer() != Some(PROTOCOL) {
            return Err(LinkError::Refused("the peer speaks another version of ACTIVE".into()));
        }
        let region = region.integer().and_then(|region| u8::try_from(region).ok()).and_then(Region::new);
        let identity = identity.text().filter(|text| is_identity(text));
        let taken = taken.text().and_then(|text| text.parse::<u64>().ok());
        let (Some(region), Some(identity), Some(taken)) = (region, identity, taken) else {
            return Err(garbage("invalid reply to ACTIVE HELLO"));
        };
        let is_final = is_final.integer() == Some(1);
        let mine = self.active.me.lock();
        if identity == mine.identity {
            return Err(LinkError::Refused("the address is this server's own".into()));
        }
        let region = region.number();
        if !mine.fits(region, identity) {
            let may_change =
                region == mine.region && !mine.is_final && (is_final || mine.identity.as_str() > identity);
            if may_change {
                let taken = taken | mine.taken();
                drop(mine);
                let _ = self.active.orders.send(Order::ChangeRegion { taken });
                return Err(LinkError::Refused(
                    "both servers have the same region: this one takes another".into(),
                ));
            }
            let reason = mine.misfit(region);
            let error = LinkError::Refused(format!("the peer is refused: {reason}"));
            drop(mine);
            self.refuse(Refused { about: Some(region), reason });
            // So that it is told as that region.
            self.peer.status.lock().region = Some(region);
            return Err(error);
        }
        // The peer becomes a member once it identifies itself, with its first PULL here.
        drop(mine);
        let mut status = self.peer.status.lock();
        (status.region, status.identity, status.is_foreign) = (Some(region), identity.to_owned(), false);
        Ok(())
    }

    /// Notes that this server refuses something of the peer's, which is to be told so.
    fn refuse(&self, refused: Refused) {
        let is_known =
            self.refuses.borrow().as_ref().is_some_and(|had| {
                had.about == refused.about && is_same_problem(&had.reason, &refused.reason)
            });
        self.refuses.replace(Some(refused));
        if !is_known {
            self.told.set(None);
        }
    }

    /// True if the peer is to be told something before the next pull.
    fn is_tell_due(&self) -> bool {
        let gone = self.active.me.lock().gone;
        let is_told = self.told.get().is_some_and(|(at, told)| at.elapsed() < TELL && told == gone);
        self.is_understood.get() && !is_told
    }

    /// Sends ACTIVE TELL.
    fn tell(&self, peer: &mut Peer<Outgoing>) -> Result<(), LinkError> {
        let (identity, region, gone) = {
            let me = self.active.me.lock();
            (me.identity.clone(), me.region.to_string(), me.gone)
        };
        let refuses = self.refuses.borrow().clone();
        let about = refuses.as_ref().and_then(|refused| refused.about);
        let about = about.map_or("-1".to_owned(), |region| region.to_string());
        let mut reason = refuses.map(|refused| refused.reason).unwrap_or_default();
        reason.retain(|letter| !letter.is_control());
        let end = reason.floor_char_boundary(REASON_MAX);
        let removed = gone.to_string();
        let words = ["ACTIVE", "TELL", &identity, &region, &removed, &about, &reason[..end]];
        self.told.set(Some((Instant::now(), gone)));
        peer.send(&words.map(str::as_bytes))
    }

    /// Reads the reply to ACTIVE TELL. A former version of the peer does not know the command.
    fn hear(&self, peer: &mut Peer<Outgoing>) -> Result<(), LinkError> {
        let head = peer.line(self, DURING)?;
        if head.starts_with('-') {
            self.is_understood.set(false);
            return Ok(());
        }
        let wrong = || garbage("invalid reply to ACTIVE TELL");
        let count: usize = head.strip_prefix('*').and_then(|count| count.parse().ok()).ok_or_else(wrong)?;
        let parts = (0..count).map(|_| self.part(peer)).collect::<Result<Vec<_>, _>>()?;
        let gone = parts.first().and_then(Part::text).and_then(|text| text.parse().ok());
        let removed = self.active.take_removed(gone.ok_or_else(wrong)?);
        if let (Some(removed), Some(region)) = (removed, self.peer.status.lock().region) {
            self.active.note_refusal(region, Some(removed));
        }
        Ok(())
    }

    /// Fails if the peer has been removed.
    fn check_removed(&self) -> Result<(), LinkError> {
        let Some(region) = self.peer.status.lock().region else { return Ok(()) };
        let me = self.active.me.lock();
        match me.has_removed(region) {
            true => Err(LinkError::Refused(format!("the peer is refused: {}", me.misfit(region)))),
            false => Ok(()),
        }
    }

    /// Pulls once and has the units applied. Returns the position at which the peer's backlog
    /// continues.
    fn pull(&self, peer: &mut Peer<Outgoing>, position: u64) -> Result<u64, LinkError> {
        self.check_removed()?;
        let (identity, region) = {
            let me = self.active.me.lock();
            (me.identity.clone(), me.region)
        };
        let applied = vector_text(&self.active.received.lock());
        let on_disk = table_text(&self.active.outbox.lock().on_disk);
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
        self.turn.set(self.turn.get().next());
        // Both at once, so that telling takes no round trip in which no pull waits at the peer.
        let tells = self.is_tell_due();
        if tells {
            self.tell(peer)?;
        }
        peer.send(&words.map(str::as_bytes))?;
        if tells {
            self.hear(peer)?;
        }
        let count = self.count(peer)?;
        let parts = (0..count.min(BEFORE_UNITS)).map(|_| self.part(peer)).collect::<Result<Vec<_>, _>>()?;
        let units = self.units(peer, count - parts.len())?;
        // Applying data of a peer that is no longer configured would surprise the operator.
        if self.is_called_off() {
            return Err(LinkError::CalledOff);
        }
        let wrong = || garbage("invalid reply to ACTIVE PULL");
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
                let count = units.len();
                self.take_units(units)?;
                if count > 0 {
                    self.rest.set(self.turn.get().rest(count, self.engine.config.active_lag_max_ms()));
                }
                Ok(next)
            }
            _ => Err(wrong()),
        }
    }

    /// Adds other regions' members. A region known under another identity is refused.
    fn note_members(&self, members: std::collections::BTreeMap<u8, String>) -> Result<(), LinkError> {
        let mut me = self.active.me.lock();
        for (region, identity) in members {
            match me.has_removed(region) {
                // The peer has just been told.
                true if self.is_understood.get() => continue,
                true => {
                    return Err(LinkError::Refused(format!(
                        "the peer still knows region {region}, which was removed here: send it ACTIVE FORGET \
                         {region}"
                    )));
                }
                false if me.fits(region, &identity) => {}
                false => {
                    return Err(LinkError::Refused(format!(
                        "the peer knows another server as region {region}: give each server its own \
                         active-region"
                    )));
                }
            }
            if region != me.region {
                me.members.insert(region, identity);
            }
        }
        Ok(())
    }

    /// Reads `count` units.
    fn units(&self, peer: &mut Peer<Outgoing>, count: usize) -> Result<Batch, LinkError> {
        let mut batch = Batch::with_capacity(count);
        for _ in 0..count {
            let database = self.text(peer, |bytes| batch.push(bytes))?;
            self.check_database(database.map_err(|error| garbage(error.to_string()))?)?;
        }
        Ok(batch)
    }

    fn take_units(&self, units: Batch) -> Result<(), LinkError> {
        let (bytes, count) = (units.bytes(), units.len());
        let Some(last) = units.last() else { return Ok(()) };
        let start = Instant::now();
        self.apply(|answer| Order::Units { units, answer })?;
        let took = start.elapsed().max(Duration::from_millis(1)).as_millis() as usize;
        // A small batch says little about how much could have been taken.
        if bytes >= BYTES_MIN / 2 {
            let fit = bytes * APPLY.as_millis() as usize / took;
            self.bytes.set(fit.clamp(BYTES_MIN, BYTES_MAX));
        }
        self.peer.units.fetch_add(count as u64, Relaxed);
        self.peer.lag_ms.store((unix_ms() as u64).saturating_sub(last.unix_ms()), Relaxed);
        Ok(())
    }

    /// Checks that this server has the peer's databases.
    fn check_database(&self, last: Option<u32>) -> Result<(), LinkError> {
        match last.filter(|last| *last >= self.engine.keyspace.databases()) {
            Some(last) => Err(LinkError::Refused(format!(
                "the peer has keys in database {last}: raise 'databases' above it"
            ))),
            None => Ok(()),
        }
    }

    /// Takes a full copy and merges it into this server's data.
    fn copy(&self, peer: &mut Peer<Outgoing>) -> Result<(), LinkError> {
        let Some(_copying) = self.active.copying.try_lock() else {
            // The copy just merged may have covered part of what is missing.
            drop(self.active.copying.lock());
            return Ok(());
        };
        log::info!("Active-active peer {}:{} sends a full copy", self.peer.host, self.peer.port);
        let (state, file) = self.receive_copy(peer)?;
        self.apply(|answer| Order::Copy { state: Box::new(state), file, answer })?;
        log::info!("The full copy of {}:{} has been merged", self.peer.host, self.peer.port);
        Ok(())
    }

    /// Receives a full copy and writes it to disk as well.
    fn receive_copy(&self, peer: &mut Peer<Outgoing>) -> Result<(State, CopyFile), LinkError> {
        let unwritten =
            |error: std::io::Error| LinkError::Refused(format!("the full copy cannot be written: {error}"));
        let mut file =
            std::env::current_dir().and_then(|folder| CopyWriter::begin(&folder)).map_err(unwritten)?;
        let (mut loader, mut is_whole) = (Loader::new(), false);
        peer.send(&[b"ACTIVE", b"COPY"])?;
        loop {
            let mut parts = self.reply(peer)?.into_iter();
            let has_more = match parts.next().and_then(|part| part.integer()) {
                Some(more @ 0..=1) => more == 1,
                Some(-1) => return Err(LinkError::Refused("the peer's full copy failed".into())),
                _ => return Err(garbage("invalid reply to ACTIVE COPY")),
            };
            for part in parts {
                let Part::Bulk(bytes) = part else { return Err(garbage("a number in a full copy")) };
                file.write(&bytes).map_err(unwritten)?;
                is_whole = loader.feed(&mut &bytes[..]).map_err(|error| garbage(error.to_string()))?;
            }
            if !has_more {
                break;
            }
            if self.is_called_off() {
                return Err(LinkError::CalledOff);
            }
            peer.send(&[b"ACTIVE", b"COPY", b"MORE"])?;
        }
        if !is_whole {
            return Err(garbage("a truncated full copy"));
        }
        let state = loader.finish().map_err(|error| garbage(error.to_string()))?;
        self.check_database(state.last_database())?;
        Ok((state, file.finish().map_err(unwritten)?))
    }

    /// Has the thread carry out an order, and waits for the outcome.
    fn apply(
        &self,
        order: impl FnOnce(std::sync::mpsc::SyncSender<Merged>) -> Order,
    ) -> Result<(), LinkError> {
        let (answer, merged) = sync_channel(1);
        let _ = self.active.orders.send(order(answer));
        loop {
            match merged.recv_timeout(TICK) {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(refused)) => {
                    let error = LinkError::Refused(refused.reason.clone());
                    if refused.about.is_some() {
                        self.refuse(refused);
                    }
                    return Err(error);
                }
                Err(RecvTimeoutError::Timeout) if !self.engine.shutdown.is_requested() => {}
                Err(_) => return Err(LinkError::CalledOff),
            }
        }
    }

    /// Reads a reply: a list of texts and numbers, or an error.
    fn reply(&self, peer: &mut Peer<Outgoing>) -> Result<Vec<Part>, LinkError> {
        (0..self.count(peer)?).map(|_| self.part(peer)).collect()
    }

    /// Reads the number of parts of a reply.
    fn count(&self, peer: &mut Peer<Outgoing>) -> Result<usize, LinkError> {
        let head = peer.line(self, DURING)?;
        if let Some(error) = head.strip_prefix('-') {
            return Err(self.refused(error));
        }
        let count = head.strip_prefix('*').and_then(|count| count.parse().ok());
        count.ok_or_else(|| garbage("no list"))
    }

    /// What an error reply means. A server that lacks the command ACTIVE is of another kind.
    fn refused(&self, error: &str) -> LinkError {
        if !error.starts_with("ERR unknown command") {
            // It names the number that it does not grant this server.
            if let Some(reason) = error.strip_prefix("ERR ").filter(|reason| reason.starts_with("region ")) {
                let about = Some(self.active.me.lock().region);
                self.is_refused.replace(Some(Refused { about, reason: reason.to_owned() }));
            }
            return LinkError::Refused(format!("the peer refuses this server: {error}"));
        }
        self.peer.status.lock().is_foreign = true;
        LinkError::Refused(
            "the peer is not a Braid server: active-replica links only Braid servers, in place of all servers of \
             KeyDB at once. To take over their data first, see docs/moving.md"
                .into(),
        )
    }

    /// Reads a part.
    fn part(&self, peer: &mut Peer<Outgoing>) -> Result<Part, LinkError> {
        while peer.buffered().is_empty() {
            peer.fill(self, DURING)?;
        }
        if peer.buffered()[0] != b':' {
            return self.text(peer, |bytes| Part::Bulk(bytes.to_vec()));
        }
        let line = peer.line(self, DURING)?;
        Ok(Part::Integer(line[1..].parse().map_err(|_| garbage("no number"))?))
    }

    /// Reads a text part and passes it to `take`.
    fn text<R>(&self, peer: &mut Peer<Outgoing>, take: impl FnOnce(&[u8]) -> R) -> Result<R, LinkError> {
        let (begin, length) = loop {
            match text_head(peer.buffered()) {
                Err(()) => return Err(garbage("no text")),
                Ok(Some(head)) => break head,
                Ok(None) => peer.fill(self, DURING)?,
            }
        };
        let end = begin + length;
        while peer.buffered().len() < end + 2 {
            peer.fill(self, DURING)?;
        }
        if &peer.buffered()[end..end + 2] != b"\r\n" {
            return Err(garbage("an unterminated text"));
        }
        let taken = take(&peer.buffered()[begin..end]);
        peer.consume(end + 2);
        Ok(taken)
    }
}

/// Parses a length-prefixed text's header: where the text begins, and its length. `None` if more
/// bytes are needed.
fn text_head(bytes: &[u8]) -> Result<Option<(usize, usize)>, ()> {
    let mut length = 0_usize;
    for (index, byte) in bytes.iter().enumerate() {
        match (index, byte) {
            (0, b'$') => {}
            (1.., b'0'..=b'9') if length <= BULK_MAX => length = 10 * length + usize::from(byte - b'0'),
            (2.., b'\r') if length <= BULK_MAX => {
                return match bytes.get(index + 1) {
                    Some(b'\n') => Ok(Some((index + 2, length))),
                    Some(_) => Err(()),
                    None => Ok(None),
                };
            }
            _ => return Err(()),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_texts() {
        assert_eq!(text_head(b"$73\r\nabc"), Ok(Some((5, 73))));
        assert_eq!(text_head(b"$0\r\n"), Ok(Some((4, 0))));
        for part in ["", "$", "$7", "$73", "$73\r"] {
            assert_eq!(text_head(part.as_bytes()), Ok(None), "{part}");
        }
        for bad in
            [":1\r\n", "$\r\n", "$-1\r\n", "$1\n", "$1\rx", "$99999999999999999999\r\n", "$9999999999\r"]
        {
            assert_eq!(text_head(bad.as_bytes()), Err(()), "{bad}");
        }
    }
}
