// SPDX-License-Identifier: BSD-3-Clause
//! Replication, the primary's side: who is attached as a replica, who gets a full copy and when, how far everybody has got.
//!
//! Flow: a replica says what it is (REPLCONF) and asks for the changes behind an offset (PSYNC). If the journal's backlog still has them, the
//! replica is *online* at once. Otherwise it waits for a full copy: the first loop's cron begins one for all that wait ([`copies`]), whose
//! cut has an offset in the journal; the stream of changes goes on from there. What is to be sent is told to the loop that owns the
//! connection ([`Order`]); that loop sends the copy and then the journal's own bytes (`threading/feed.rs`). Offsets are the journal's, so
//! replicas, WAIT and the append-only file all mean the same by them.
//!
//! Locks: [`State`] is held for looks and changes of lists only. Whoever holds it neither enters nor closes the gate, nor waits for anything else
//! but locks within which nothing more is taken (the journal's, a copy's, a mailbox's).

pub mod copies;
pub mod copy;
pub mod replica;
mod tend;

use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use braid_journal::Reader;
use braid_persistence::SnapshotProgress;
use parking_lot::Mutex;

use crate::engine::Engine;
use crate::session::{ReplyMode, Session};
use braid_clients::attention::FEW_REPLICAS;
use braid_clients::{ClientRecord, Message, client_flags};
use copy::Copy;
pub use replica::{Filter, Order, Replica, Stage, Wish};

/// Of [`braid_keyspace::keyspace::Settings::journals`]: changes are journalled for the append-only file, or for replicas.
pub const FOR_FILE: u8 = 1;
pub const FOR_REPLICAS: u8 = 2;

/// Length of a replication ID, and of the mark behind a copy.
pub const ID_LEN: usize = 40;

/// What is known of replicas. One per server.
pub struct Replication {
    state: Mutex<State>,
    /// A full copy is being made.
    pub copying: AtomicBool,
    pub(crate) progress: SnapshotProgress,
    /// Replicas that keep up (`min-replicas-max-lag`).
    pub good: AtomicUsize,
    /// Full copies and streams from the backlog that were begun, and requests for the latter that were refused.
    pub full: AtomicU64,
    pub partial: AtomicU64,
    pub partial_refused: AtomicU64,
    /// Bytes sent to replicas.
    pub sent_bytes: AtomicU64,
    /// The log's end behind the last question how far replicas have got.
    asked_at: AtomicU64,
    /// They are to be asked again.
    asks_soon: AtomicBool,
    /// Loops whose bells are to be rung when something is journalled.
    loops: Mutex<Vec<usize>>,
}

struct State {
    id: String,
    replicas: Vec<Arc<Replica>>,
    /// The last copy, for as long as it is being made.
    copy: Option<Arc<Copy>>,
    /// When there was a replica last, ms since the Unix epoch.
    last_replica_ms: i64,
    next_ping_ms: i64,
    next_look_ms: i64,
    /// No copy is begun before: the last attempt has failed.
    not_before_ms: i64,
}

/// A place in the journal, which keeps what lies behind it until this is dropped.
pub struct Place {
    reader: Option<Reader>,
    engine: Weak<Engine>,
}

impl Place {
    fn new(engine: &Engine, reader: Reader) -> Place {
        Place { reader: Some(reader), engine: engine.this.clone() }
    }

    /// The reader.
    pub fn reader(&mut self) -> Option<&mut Reader> {
        self.reader.as_mut()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let (Some(reader), Some(engine)) = (self.reader.take(), self.engine.upgrade()) {
            reader.end(&engine.keyspace.journal);
        }
    }
}

/// Random hex digits.
pub(crate) fn random_id() -> String {
    let mut random = fastrand::Rng::new();
    (0..ID_LEN).map(|_| random.digit(16)).collect()
}

impl Default for Replication {
    fn default() -> Replication {
        Replication {
            state: Mutex::new(State {
                id: random_id(),
                replicas: Vec::new(),
                copy: None,
                last_replica_ms: 0,
                next_ping_ms: 0,
                next_look_ms: 0,
                not_before_ms: 0,
            }),
            copying: AtomicBool::new(false),
            progress: SnapshotProgress::default(),
            good: AtomicUsize::new(0),
            full: AtomicU64::new(0),
            partial: AtomicU64::new(0),
            partial_refused: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            asks_soon: AtomicBool::new(false),
            asked_at: AtomicU64::new(0),
            loops: Mutex::default(),
        }
    }
}

impl Replication {
    /// The name of the history that offsets belong to.
    pub fn id(&self) -> String {
        self.state.lock().id.clone()
    }

    /// All replicas, in the order in which they were attached.
    pub fn replicas(&self) -> Vec<Arc<Replica>> {
        self.state.lock().replicas.clone()
    }

    /// Replicas that have everything up to an offset of the journal.
    pub fn have(&self, offset: u64) -> i64 {
        self.count(|replica| replica.has(offset))
    }

    /// Replicas that have everything up to an offset of the journal in an append-only file on disk.
    pub fn have_on_disk(&self, offset: u64) -> i64 {
        self.count(|replica| replica.stage() == Stage::Online && replica.on_disk.load(Relaxed) >= offset)
    }

    fn count(&self, test: impl Fn(&Replica) -> bool) -> i64 {
        let state = self.state.lock();
        let count = state.replicas.iter().filter(|replica| test(replica)).count();
        i64::try_from(count).unwrap_or(i64::MAX)
    }
}

/// What PSYNC asks for.
pub struct Position<'a> {
    pub id: &'a [u8],
    /// The offset of the next byte, counted from 1; nothing that is in a backlog if it is negative.
    pub next: i64,
}

impl Engine {
    /// Attaches the client as a replica, which goes on from a position if that is possible, and gets a full copy otherwise. `position`: nothing for
    /// SYNC, by which a replica does not say where it is, and does not hear either.
    pub fn attach_replica(&self, session: &mut Session, position: Option<&Position<'_>>, now_ms: i64) {
        let wish = session.replica_wish.take().map(|wish| *wish).unwrap_or_default();
        let is_told = position.is_some();
        let replica = Arc::new(Replica::new(Arc::clone(&session.record), wish, is_told, now_ms));
        session.record.set_flag(client_flags::REPLICA, true);
        session.replica = Some(Arc::clone(&replica));
        // Nothing but copy and stream may come on this connection.
        session.set_reply_mode(ReplyMode::Off);
        let replication = &self.replication;
        let reader = {
            let mut state = replication.state.lock();
            state.replicas.push(Arc::clone(&replica));
            state.last_replica_ms = now_ms;
            if state.next_ping_ms <= now_ms {
                state.next_ping_ms = now_ms + self.ping_period_ms();
            }
            let reader = position.and_then(|position| self.resume_at(&state.id, position));
            if let Some(reader) = reader {
                let head = if replica.wish.psync2 {
                    format!("+CONTINUE {}\r\n", state.id)
                } else {
                    "+CONTINUE\r\n".into()
                };
                replica.acknowledged.store(reader.position(), Relaxed);
                replica.order(Order::Stream { head, place: Place::new(self, reader) });
                true
            } else {
                if let Some(copy) = state.copy.clone().filter(|copy| copy.serves(&replica.wish)) {
                    self.join(&state.id, &replica, &copy);
                }
                false
            }
        };
        let name = replica.name();
        if reader {
            replica.set_stage(Stage::Online);
            replication.partial.fetch_add(1, Relaxed);
            log::info!("Partial resynchronization request from {name} accepted.");
        } else {
            replication.full.fetch_add(1, Relaxed);
            if position.is_some_and(|position| position.id != b"?") {
                replication.partial_refused.fetch_add(1, Relaxed);
                log::info!("Partial resynchronization not possible for {name}: it gets a full copy");
            } else {
                log::info!("Full resync requested by replica {name}");
            }
        }
        // The loop that owns it learns that it has a replica, in any case.
        session.record.send(Message::Feed(session.record.id));
    }

    /// A reader from where a replica is, if it is in this server's history and in the backlog.
    fn resume_at(&self, id: &str, position: &Position<'_>) -> Option<Reader> {
        let offset = u64::try_from(position.next).ok()?.checked_sub(1)?;
        if !position.id.eq_ignore_ascii_case(id.as_bytes()) {
            return None;
        }
        self.keyspace.journal.reader_from(offset)
    }

    /// Has a replica take part in a copy whose cut has been made. Nothing happens if it is too late for that.
    fn join(&self, id: &str, replica: &Arc<Replica>, copy: &Arc<Copy>) {
        let place = if replica.wish.copy_only {
            None
        } else {
            let Some(reader) = self.keyspace.journal.reader_from(copy.offset) else { return };
            Some(Place::new(self, reader))
        };
        if !copy.join(replica.record.id) {
            return;
        }
        let head =
            if replica.is_told { format!("+FULLRESYNC {id} {}\r\n", copy.offset) } else { String::new() };
        replica.acknowledged.store(copy.offset, Relaxed);
        replica.set_stage(Stage::Copying);
        replica.order(Order::Copy { head, copy: Arc::clone(copy), place });
    }

    /// A client is a replica no longer: its connection ends.
    pub fn detach_replica(&self, session: &mut Session, now_ms: i64) {
        let Some(replica) = session.replica.take() else { return };
        let mut state = self.replication.state.lock();
        state.replicas.retain(|other| !Arc::ptr_eq(other, &replica));
        state.last_replica_ms = now_ms;
        if let Some(copy) = &state.copy {
            copy.leave(replica.record.id);
        }
        drop(state);
        replica.set_stage(Stage::Gone);
        for order in replica.orders() {
            // What it has not been told any more.
            if let Order::Copy { copy, .. } = order {
                copy.leave(replica.record.id);
            }
        }
        log::info!("Connection with replica {} lost.", replica.name());
        self.count_good_replicas(now_ms);
    }

    /// A replica has everything up to an offset (and, perhaps, up to another one on disk).
    pub fn acknowledge(&self, replica: &Replica, offset: u64, on_disk: Option<u64>, now_ms: i64) {
        replica.acknowledged.fetch_max(offset, Relaxed);
        if let Some(on_disk) = on_disk {
            replica.on_disk.fetch_max(on_disk, Relaxed);
        }
        replica.acknowledged_ms.store(now_ms, Relaxed);
        if replica.awaits_acknowledgement.swap(false, Relaxed) {
            // Its loop goes on with the stream.
            replica.record.send(Message::Feed(replica.record.id));
        }
        self.durability.serve(self);
    }

    /// Whether too few replicas keep up for writing to be allowed.
    pub fn count_good_replicas(&self, now_ms: i64) {
        let config = &self.config;
        let (wanted, max_lag) =
            (config.min_replicas_to_write(), i64::from(config.min_replicas_max_lag_seconds()));
        let is_good = |replica: &Arc<Replica>| {
            replica.stage() == Stage::Online && replica.lag_seconds(now_ms) <= max_lag
        };
        let state = self.replication.state.lock();
        let good = state.replicas.iter().filter(|replica| is_good(replica)).count();
        self.replication.good.store(good, Relaxed);
        // Under the lock, so that the last count stays.
        self.attention.set(FEW_REPLICAS, wanted > 0 && max_lag > 0 && good < wanted as usize);
    }

    /// Has the bell of a loop rung when something is journalled behind `seen`. True if that has happened already.
    pub fn wants_news(&self, slot: usize, seen: u64) -> bool {
        let mut loops = self.replication.loops.lock();
        if !loops.contains(&slot) {
            loops.push(slot);
        }
        drop(loops);
        self.keyspace.journal.wants_bell(seen)
    }

    /// Rings the bells of the loops that want to know of what is journalled.
    pub(crate) fn tell_feeders(&self) {
        for slot in self.replication.loops.lock().drain(..) {
            self.mailboxes[slot].ring();
        }
    }

    /// How far the journal may be sent to replicas: with `appendfsync always` only what the server itself cannot lose any more. The second: how far it goes
    /// that has to wait for the disk, if there is anything.
    pub fn sendable(&self) -> (u64, Option<u64>) {
        let complete = self.keyspace.journal.complete();
        if !self.append_only.waits.load(Relaxed) {
            return (complete, None);
        }
        let synced = self.append_only.appender.synced();
        (synced.min(complete), (synced < complete).then_some(complete))
    }

    /// Closes a replica's connection, since it is too slow or silent.
    pub(crate) fn cut_off(&self, replica: &Replica, why: &str) {
        log::warn!("Disconnecting timedout replica ({why}): {}", replica.name());
        let record: &ClientRecord = &replica.record;
        self.disconnect(record);
    }
}
