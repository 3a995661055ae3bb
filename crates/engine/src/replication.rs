// SPDX-License-Identifier: BSD-3-Clause
//! The engine's part of replication: roles, attached replicas, the link to a primary.
//!
//! The primary's side: a replica introduces itself (REPLCONF) and asks for the changes after an
//! offset (PSYNC). If the journal's backlog still has them, the replica is *online* immediately.
//! Otherwise it waits for a full sync: the first loop's cron begins one for all waiting replicas
//! ([`full_syncs`]), whose cut has an offset in the journal; the stream of changes continues from
//! there. The loop that owns the connection gets an [`Order`], and sends the full sync and then
//! the journal's own bytes (`threading/replica_output.rs`).
//!
//! The replica's side: a thread connects to the primary ([`link`]), loads a full sync
//! ([`dataset`]), and applies the stream ([`apply`]). The received bytes go to the journal as they
//! are, so append-only file, backlog and sub-replicas read them there as on a primary.
//!
//! Offsets inside the server are the journal's; on the wire and in INFO they are the history's
//! (`braid_replication::history`).
//!
//! Locks: `Replication::state` is held only to read and change its lists. Its holder neither enters
//! nor closes the gate, and takes no other locks than leaf locks (the journal's, a full sync's, a
//! mailbox's).

mod apply;
mod crew;
mod cron;
mod dataset;
mod dual_channel;
mod failover;
mod full_syncs;
mod link;
pub(crate) mod redirect;
pub mod report;
mod role;
mod siblings;
mod throttle;

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use braid_clients::attention::FEW_REPLICAS;
use braid_clients::{ClientRecord, Message, client_flags};
use braid_journal::Reader;
use braid_keyspace::Context;
use braid_replication::state::{Reserved, State};
use braid_replication::{FullSync, Order, Replica, ReplicaOptions, Stage, StreamPosition};

use crate::engine::Engine;
use crate::session::{ReplyMode, Session};

/// Bits of [`braid_keyspace::keyspace::Settings::journals`]: changes are journalled for the
/// append-only file, for replicas, or for slots being moved.
pub const FOR_FILE: u8 = 1;
pub const FOR_REPLICAS: u8 = 2;
pub const FOR_MOVES: u8 = 4;
/// For active-active replication.
pub const FOR_ACTIVE: u8 = 8;

/// Names of replicas without a confirmed full sync that are remembered.
const UNCONFIRMED_MAX: usize = 100;

/// The position requested by PSYNC.
pub struct Position<'a> {
    pub id: &'a [u8],
    /// The offset of the next byte, counted from 1; if it is negative, no backlog has it.
    pub next: i64,
}

impl Engine {
    /// Attaches the client as a replica: it continues from `position` if possible, and gets a
    /// full sync otherwise. `position`: `None` for SYNC, with which a replica neither states its
    /// position nor is told one.
    pub fn attach_replica(&self, session: &mut Session, position: Option<&Position<'_>>, now_ms: i64) {
        let wish = session.replica_options.take().map(|wish| *wish).unwrap_or_default();
        let is_told = position.is_some();
        // The backlog may contain requests that only Braid understands.
        let is_first_other = self.active.is_some()
            && wish.is_other()
            && !self.replication.has_other_replicas.swap(true, SeqCst);
        let position = position.filter(|_| !is_first_other);
        let replica = Arc::new(Replica::new(Arc::clone(&session.record), wish, is_told, now_ms));
        session.record.set_flag(client_flags::REPLICA, true);
        session.replica = Some(Arc::clone(&replica));
        // Only the full sync and the stream may be sent on this connection.
        session.set_reply_mode(ReplyMode::Off);
        let replication = &self.replication;
        let is_resumed = {
            let mut state = replication.state.lock();
            state.replicas.push(Arc::clone(&replica));
            state.last_replica_ms = now_ms;
            if now_ms - state.last_ping_ms >= self.ping_period_ms() {
                // Not immediately.
                state.last_ping_ms = now_ms;
            }
            let stream = position.and_then(|position| {
                dual_channel::take_reserved(&mut state, &replica.options, position)
                    .or_else(|| self.resume_at(&state, position).map(|reader| self.position_of(reader)))
            });
            if let Some(mut stream) = stream {
                let head = if replica.options.psync2 {
                    format!("+CONTINUE {}{}\r\n", state.history.id(), replica.compression_word())
                } else {
                    "+CONTINUE\r\n".into()
                };
                let at = stream.reader().map_or(0, |reader| reader.position());
                replica.acknowledged.store(at, Relaxed);
                replica.order(Order::Stream { head, position: stream });
                true
            } else {
                if let Some(full_sync) =
                    state.full_sync.clone().filter(|full_sync| full_sync.serves(&replica.options))
                {
                    self.join(&mut state, &replica, &full_sync);
                }
                false
            }
        };
        let name = replica.name();
        if is_resumed {
            // With a full sync on a second connection, it is online once it has loaded that.
            let is_loading = replica.options.rdb_client.is_some();
            replica.set_stage(if is_loading { Stage::Copying } else { Stage::Online });
            replication.partial.fetch_add(1, Relaxed);
            log::info!("Partial resynchronization request from {name} accepted.");
            self.count_good_replicas(now_ms);
        } else {
            replication.full.fetch_add(1, Relaxed);
            if position.is_some_and(|position| position.id != b"?") {
                replication.partial_refused.fetch_add(1, Relaxed);
                log::info!("Partial resynchronization not possible for {name}: it gets a full copy");
            } else {
                log::info!("Full resync requested by replica {name}");
            }
        }
        // In any case, the owning loop must learn that it has a replica.
        session.record.send(Message::Feed(session.record.id));
    }

    fn position_of(&self, reader: Reader) -> StreamPosition {
        let engine = self.this.clone();
        let end = move |reader: Reader| {
            if let Some(engine) = engine.upgrade() {
                reader.end(&engine.keyspace.journal);
            }
        };
        StreamPosition::new(reader, Box::new(end))
    }

    /// Returns a check whether a full sync must continue without waiting for replicas: old forms
    /// fill up, or it was stopped.
    fn must_go_on(&self) -> Box<dyn Fn() -> bool + Send + Sync> {
        let engine = self.this.clone();
        Box::new(move || {
            engine.upgrade().is_none_or(|engine| {
                engine.background_save.forms.is_filling() || engine.replication.progress.is_stopped()
            })
        })
    }

    /// A reader at a replica's position, if that is in this server's history and in the backlog.
    fn resume_at(&self, state: &State, position: &Position<'_>) -> Option<Reader> {
        self.keyspace.journal.reader_from(own_offset(state, position)?)
    }

    /// True if a replica at this position needs no full sync.
    fn can_resume_at(&self, state: &State, position: &Position<'_>) -> bool {
        let backlog = self.keyspace.journal.backlog();
        let is_kept =
            |at: u64| backlog.is_some_and(|kept| (kept.first..=kept.first + kept.len).contains(&at));
        own_offset(state, position).is_some_and(is_kept)
    }

    /// Adds a replica to a full sync whose cut has been made. Does nothing if it is too late for
    /// that.
    fn join(&self, state: &mut State, replica: &Arc<Replica>, full_sync: &Arc<FullSync>) {
        let ReplicaOptions { rdb_only, rdb_channel, .. } = replica.options;
        let mut position = None;
        if !rdb_only || rdb_channel {
            let Some(reader) = self.keyspace.journal.reader_from(full_sync.offset) else { return };
            position = Some(self.position_of(reader));
        }
        if !full_sync.join(replica.record.id) {
            return;
        }
        let (id, offset) = (state.history.id(), state.history.offset(full_sync.offset));
        let head = if rdb_channel {
            format!("$ENDOFF:{offset} {id} {} {}\r\n", self.stream_database(), replica.record.id)
        } else if replica.is_told {
            format!("+FULLRESYNC {id} {offset}{}\r\n", replica.compression_word())
        } else {
            String::new()
        };
        if rdb_channel && let Some(position) = position.take() {
            state.reserved.push(Reserved { client: replica.record.id, position, until_ms: None });
        }
        replica.acknowledged.store(full_sync.offset, Relaxed);
        replica.begin_full_sync(Arc::clone(full_sync));
        replica.order(Order::FullSync { head, full_sync: Arc::clone(full_sync), position });
    }

    /// Detaches a client that was a replica: its connection ends.
    pub fn detach_replica(&self, session: &mut Session, now_ms: i64) {
        let Some(replica) = session.replica.take() else { return };
        let mut state = self.replication.state.lock();
        state.replicas.retain(|other| !Arc::ptr_eq(other, &replica));
        state.last_replica_ms = now_ms;
        dual_channel::note_gone(&mut state, replica.record.id, now_ms);
        if let Some(full_sync) = &state.full_sync {
            full_sync.leave(replica.record.id);
        }
        drop(state);
        replica.set_stage(Stage::Gone);
        if let Some((member, epoch)) = &replica.options.member {
            self.replication.in_sync.detach(member, *epoch);
        }
        for order in replica.orders() {
            // Orders that were not carried out.
            if let Order::FullSync { full_sync, .. } = order {
                full_sync.leave(replica.record.id);
            }
        }
        log::info!("Connection with replica {} lost.", replica.name());
        if replica.unconfirmed.load(Relaxed) && replica.options.port != 0 {
            self.note_unconfirmed(&replica);
        }
        self.count_good_replicas(now_ms);
        self.throttle_writers(self.replica_output_limit(), now_ms);
    }

    /// Records that a replica has everything up to an offset of the stream (and possibly up to
    /// another one on disk). Called inside of the gate, unless the context says otherwise.
    pub fn acknowledge(
        &self,
        replica: &Arc<Replica>,
        offset: u64,
        on_disk: Option<u64>,
        now_ms: i64,
        context: &mut Context,
    ) {
        let history = self.replication.history();
        // An offset before the journal's start is no news, but counts as an answer: redis-cli
        // always acknowledges 0.
        let offset = history.journal_offset(offset).unwrap_or(0);
        let on_disk = on_disk.and_then(|offset| history.journal_offset(offset));
        replica.acknowledged.fetch_max(offset, Relaxed);
        if let Some(on_disk) = on_disk {
            replica.on_disk.fetch_max(on_disk, Relaxed);
        }
        replica.has_acknowledged.store(true, Relaxed);
        if replica.unconfirmed.load(Relaxed) {
            self.note_confirmed(replica);
        }
        if replica.stage() == Stage::Copying && replica.options.rdb_client.is_some() {
            replica.set_stage(Stage::Online);
            self.count_good_replicas(now_ms);
        }
        replica.acknowledged_ms.store(now_ms, Relaxed);
        if replica.awaits_acknowledgement.swap(false, Relaxed) {
            // Its loop continues the stream.
            replica.record.send(Message::Feed(replica.record.id));
        }
        self.note_member(replica, offset, on_disk, context);
        self.durability.serve(self);
    }

    /// Handles the first acknowledgement after a full sync.
    #[cold]
    fn note_confirmed(&self, replica: &Replica) {
        if replica.unconfirmed.swap(false, Relaxed) {
            log::info!("Synchronization with replica {} succeeded", replica.name());
            self.replication.state.lock().unconfirmed.remove(&replica.name());
        }
    }

    /// Handles the end of a replica that was sent a full sync and did not acknowledge it.
    #[cold]
    fn note_unconfirmed(&self, replica: &Replica) {
        let name = replica.name();
        let times = {
            let unconfirmed = &mut self.replication.state.lock().unconfirmed;
            if unconfirmed.len() >= UNCONFIRMED_MAX {
                unconfirmed.clear();
            }
            let times = unconfirmed.entry(name.clone()).or_default();
            *times += 1;
            *times
        };
        if times >= 2 {
            log::warn!(
                "Replica {name} has not accepted {times} full copies in a row; it may not read the format of \
                 rdb-target {}: see its log",
                self.config.rdb_target()
            );
        }
    }

    /// Counts the replicas that keep up, and refuses writes if there are too few.
    pub fn count_good_replicas(&self, now_ms: i64) {
        let config = &self.config;
        let (wanted, max_lag) =
            (config.min_replicas_to_write(), i64::from(config.min_replicas_max_lag_seconds()));
        let is_good = |replica: &Arc<Replica>| {
            replica.stage() == Stage::Online && replica.lag_seconds(now_ms) <= max_lag
        };
        let is_primary = !self.replication.link.is_replica();
        let state = self.replication.state.lock();
        let good = state.replicas.iter().filter(|replica| is_good(replica)).count();
        self.replication.good.store(good, Relaxed);
        // Under the lock, so that the latest count remains.
        let are_few = wanted > 0 && max_lag > 0 && good < wanted as usize;
        self.attention.set(FEW_REPLICAS, is_primary && are_few);
    }

    /// Requests a ring of a loop's bell when something is journalled after `seen`. True if that
    /// has happened already.
    pub fn wants_news(&self, slot: usize, seen: u64) -> bool {
        let mut loops = self.replication.loops.lock();
        if !loops.contains(&slot) {
            loops.push(slot);
        }
        drop(loops);
        self.keyspace.journal.wants_bell(seen)
    }

    /// Cancels [`Engine::wants_news`]. The bell may still ring.
    pub fn wants_no_news(&self, slot: usize) {
        self.replication.loops.lock().retain(|&other| other != slot);
    }

    /// Sends what was journalled to the replicas, whose loops sleep; if that is not possible,
    /// wakes the loops.
    pub fn tell_replicas_of_changes(&self) {
        let journal = &self.keyspace.journal;
        let (end, awaited) = self.sendable();
        let may_send = awaited.is_none() && end == journal.end();
        if !(may_send && self.replication.streams.send(journal, end, &self.replication.sent_bytes)) {
            journal.wake();
        }
    }

    /// Rings the bells of the loops that wait for journalled changes.
    pub(crate) fn tell_feeders(&self) {
        for slot in self.replication.loops.lock().drain(..) {
            self.clients.mailboxes[slot].ring();
        }
    }

    /// How far the journal may be sent to replicas: with `appendfsync always`, only the part that
    /// the server itself can no longer lose. The second value is the end of the part that must
    /// wait for the disk, if there is one.
    pub fn sendable(&self) -> (u64, Option<u64>) {
        let complete = self.keyspace.journal.complete();
        if !self.sync_writes.waits_for_disk() {
            return (complete, None);
        }
        let synced = self.append_only.appender.synced();
        (synced.min(complete), (synced < complete).then_some(complete))
    }

    /// Closes the connection of a replica that is too slow or silent.
    pub(crate) fn cut_off(&self, replica: &Replica, why: &str) {
        log::warn!("Disconnecting timedout replica ({why}): {}", replica.name());
        let record: &ClientRecord = &replica.record;
        self.clients.registry.disconnect(record);
    }
}

/// The journal offset of a position, if that is in this server's history.
fn own_offset(state: &State, position: &Position<'_>) -> Option<u64> {
    let offset = u64::try_from(position.next).ok()?.checked_sub(1)?;
    let is_known = state.history.contains(position.id, offset);
    state.history.journal_offset(offset).filter(|_| is_known)
}
