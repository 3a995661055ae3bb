// SPDX-License-Identifier: BSD-3-Clause
//! Attached replicas: they are attached, acknowledge, and are detached; which of them may continue
//! from the backlog, and what may be sent to them.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use braid_clients::attention::FEW_REPLICAS;
use braid_clients::{ClientRecord, Message, client_flags};
use braid_executor::engine::Engine;
use braid_executor::feeds;
use braid_executor::session::{ReplyMode, Session};
use braid_journal::Reader;
use braid_keyspace::Context;
use braid_replication::state::{Reserved, State};
use braid_replication::{FullSync, Order, Replica, ReplicaOptions, Stage, StreamPosition};

use crate::{dual_channel, position, sync_writes, throttle};

pub use crate::position::Position;

/// Names of replicas without a confirmed full sync that are remembered.
const UNCONFIRMED_MAX: usize = 100;

/// Attaches the client as a replica: it continues from `position` if possible, and gets a
/// full sync otherwise. `position`: `None` for SYNC, with which a replica neither states its
/// position nor is told one.
pub fn attach_replica(engine: &Engine, session: &mut Session, position: Option<&Position<'_>>, now_ms: i64) {
    let options = session.replication.options.take().map(|options| *options).unwrap_or_default();
    let is_told = position.is_some();
    // The backlog may contain requests that only Braid understands.
    let is_first_other = engine.active.is_some()
        && options.is_other()
        && !engine.replication.has_other_replicas.swap(true, SeqCst);
    let position = position.filter(|_| !is_first_other);
    let replica = Arc::new(Replica::new(Arc::clone(&session.record), options, is_told, now_ms));
    session.record.set_flag(client_flags::REPLICA, true);
    session.replication.replica = Some(Arc::clone(&replica));
    // Only the full sync and the stream may be sent on this connection.
    session.set_reply_mode(ReplyMode::Off);
    let replication = &engine.replication;
    let is_resumed = {
        let mut state = replication.state.lock();
        state.replicas.push(Arc::clone(&replica));
        state.last_replica_ms = now_ms;
        if now_ms - state.last_ping_ms >= position::ping_period_ms(engine) {
            // Not immediately.
            state.last_ping_ms = now_ms;
        }
        let stream = position.and_then(|position| {
            dual_channel::take_reserved(&mut state, &replica.options, position).or_else(|| {
                position::resume_at(engine, &state, position).map(|reader| position_of(engine, reader))
            })
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
                join(engine, &mut state, &replica, &full_sync);
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
        count_good_replicas(engine, now_ms);
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

fn position_of(engine: &Engine, reader: Reader) -> StreamPosition {
    let weak = engine.weak();
    let end = move |reader: Reader| {
        if let Some(engine) = weak.upgrade() {
            reader.end(&engine.keyspace.journal);
        }
    };
    StreamPosition::new(reader, Box::new(end))
}

/// Returns a check whether a full sync must continue without waiting for replicas: old forms
/// fill up, or it was stopped.
pub fn must_go_on(engine: &Engine) -> Box<dyn Fn() -> bool + Send + Sync> {
    let weak = engine.weak();
    Box::new(move || {
        weak.upgrade().is_none_or(|engine| {
            engine.background_save.forms.is_filling() || engine.replication.progress.is_stopped()
        })
    })
}

/// Adds a replica to a full sync whose cut has been made. Does nothing if it is too late for
/// that.
pub fn join(engine: &Engine, state: &mut State, replica: &Arc<Replica>, full_sync: &Arc<FullSync>) {
    let ReplicaOptions { rdb_only, rdb_channel, .. } = replica.options;
    let mut position = None;
    if !rdb_only || rdb_channel {
        let Some(reader) = engine.keyspace.journal.reader_from(full_sync.offset) else { return };
        position = Some(position_of(engine, reader));
    }
    if !full_sync.join(replica.record.id) {
        return;
    }
    let (id, offset) = (state.history.id(), state.history.offset(full_sync.offset));
    let head = if rdb_channel {
        format!("$ENDOFF:{offset} {id} {} {}\r\n", dual_channel::stream_database(engine), replica.record.id)
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
pub fn detach_replica(engine: &Engine, session: &mut Session, now_ms: i64) {
    let Some(replica) = session.replication.replica.take() else { return };
    let mut state = engine.replication.state.lock();
    state.replicas.retain(|other| !Arc::ptr_eq(other, &replica));
    state.last_replica_ms = now_ms;
    dual_channel::note_gone(&mut state, replica.record.id, now_ms);
    if let Some(full_sync) = &state.full_sync {
        full_sync.leave(replica.record.id);
    }
    drop(state);
    replica.set_stage(Stage::Gone);
    if let Some((member, epoch)) = &replica.options.member {
        engine.replication.in_sync.detach(member, *epoch);
    }
    for order in replica.orders() {
        // Orders that were not carried out.
        if let Order::FullSync { full_sync, .. } = order {
            full_sync.leave(replica.record.id);
        }
    }
    log::info!("Connection with replica {} lost.", replica.name());
    if replica.unconfirmed.load(Relaxed) && replica.options.port != 0 {
        note_unconfirmed(engine, &replica);
    }
    count_good_replicas(engine, now_ms);
    throttle::throttle_writers(engine, throttle::replica_output_limit(engine), now_ms);
}

/// Records that a replica has everything up to an offset of the stream (and possibly up to
/// another one on disk). Called inside of the gate, unless the context says otherwise.
pub fn acknowledge(
    engine: &Engine,
    replica: &Arc<Replica>,
    offset: u64,
    on_disk: Option<u64>,
    now_ms: i64,
    context: &mut Context,
) {
    let history = engine.replication.history();
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
        note_confirmed(engine, replica);
    }
    if replica.stage() == Stage::Copying && replica.options.rdb_client.is_some() {
        replica.set_stage(Stage::Online);
        count_good_replicas(engine, now_ms);
    }
    replica.acknowledged_ms.store(now_ms, Relaxed);
    if replica.awaits_acknowledgement.swap(false, Relaxed) {
        // Its loop continues the stream.
        replica.record.send(Message::Feed(replica.record.id));
    }
    sync_writes::note_member(engine, replica, offset, on_disk, context);
    engine.durability.serve(engine);
}

/// Handles the first acknowledgement after a full sync.
#[cold]
fn note_confirmed(engine: &Engine, replica: &Replica) {
    if replica.unconfirmed.swap(false, Relaxed) {
        log::info!("Synchronization with replica {} succeeded", replica.name());
        engine.replication.state.lock().unconfirmed.remove(&replica.name());
    }
}

/// Handles the end of a replica that was sent a full sync and did not acknowledge it.
#[cold]
fn note_unconfirmed(engine: &Engine, replica: &Replica) {
    let name = replica.name();
    let times = {
        let unconfirmed = &mut engine.replication.state.lock().unconfirmed;
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
            engine.config.rdb_target()
        );
    }
}

/// Counts the replicas that keep up, and refuses writes if there are too few.
pub fn count_good_replicas(engine: &Engine, now_ms: i64) {
    let config = &engine.config;
    let (wanted, max_lag) =
        (config.min_replicas_to_write(), i64::from(config.min_replicas_max_lag_seconds()));
    let is_good =
        |replica: &Arc<Replica>| replica.stage() == Stage::Online && replica.lag_seconds(now_ms) <= max_lag;
    let is_primary = !engine.replication.link.is_replica();
    let state = engine.replication.state.lock();
    let good = state.replicas.iter().filter(|replica| is_good(replica)).count();
    engine.replication.good.store(good, Relaxed);
    // Under the lock, so that the latest count remains.
    let are_few = wanted > 0 && max_lag > 0 && good < wanted as usize;
    engine.attention.set(FEW_REPLICAS, is_primary && are_few);
}

/// Requests a ring of a loop's bell when something is journalled after `seen`. True if that
/// has happened already.
pub fn arm_bell(engine: &Engine, slot: usize, seen: u64) -> bool {
    let mut loops = engine.replication.loops.lock();
    if !loops.contains(&slot) {
        loops.push(slot);
    }
    drop(loops);
    engine.keyspace.journal.wants_bell(seen)
}

/// Cancels [`arm_bell`]. The bell may still ring.
pub fn disarm_bell(engine: &Engine, slot: usize) {
    engine.replication.loops.lock().retain(|&other| other != slot);
}

/// Sends what was journalled to the replicas, whose loops sleep; if that is not possible,
/// wakes the loops.
pub fn tell_replicas_of_changes(engine: &Engine) {
    let journal = &engine.keyspace.journal;
    let (end, awaited) = sendable(engine);
    let may_send = awaited.is_none() && end == journal.end();
    if may_send && engine.replication.streams.send(journal, end, &engine.replication.sent_bytes) {
        feeds::wake_readers(engine);
    } else {
        journal.wake();
    }
}

/// Rings the bells of the loops that wait for journalled changes, and wakes readers of feeds.
pub fn tell_feeders(engine: &Engine) {
    for slot in engine.replication.loops.lock().drain(..) {
        engine.clients.mailboxes[slot].ring();
    }
    feeds::wake_readers(engine);
}

/// How far the journal may be sent to replicas: with `appendfsync always`, only the part that
/// the server itself can no longer lose. The second value is the end of the part that must
/// wait for the disk, if there is one.
pub fn sendable(engine: &Engine) -> (u64, Option<u64>) {
    let complete = engine.keyspace.journal.complete();
    if !engine.sync_writes.waits_for_disk() {
        return (complete, None);
    }
    let synced = engine.append_only.appender.synced();
    (synced.min(complete), (synced < complete).then_some(complete))
}

/// Closes the connection of a replica that is too slow or silent.
pub(crate) fn cut_off(engine: &Engine, replica: &Replica, why: &str) {
    log::warn!("Disconnecting timedout replica ({why}): {}", replica.name());
    let record: &ClientRecord = &replica.record;
    engine.clients.registry.disconnect(record);
}
