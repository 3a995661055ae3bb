// SPDX-License-Identifier: BSD-3-Clause
//! Transactions: EXEC of the queued commands, and watched keys.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use ::braid_acl as acl;
use braid_acl::log::Origin;
use braid_base::clock::Ticks;
use braid_clients::attention::MONITORS;
use braid_clients::client_flags;
use braid_keyspace::Context;
use braid_keyspace::txn::{self, KeyRef, Txn};
use braid_resp::reply::ReplyBuffer;
use braid_spec::{Behavior, Command, CommandError, Scope};
use braid_telemetry::Cost;
use smallvec::SmallVec;

use super::body::run_body;
use super::checks::{AdmissionContext, busy};
use super::{FollowUp, Request, collect_keys, count, finish_held, note_reads, note_unit, report};
use crate::engine::call::{Call, Others};
use crate::engine::{Engine, access};
use crate::locks::{LockSet, lock};
use crate::session::{ReplyMode, Session, Watched};
use crate::transaction::SlotBatch;

/// Aborts EXEC because a script has stopped the world. The watches stay until the next transaction
/// or UNWATCH, because removing them needs keys.
pub(super) fn abort_exec(request: &mut Request<'_>, error: &CommandError) {
    let line = error.line();
    request.reply.error_bytes(&[b"EXECABORT Transaction discarded because of: ", &line[..]].concat());
    request.engine.telemetry.threads[request.slot()].count_error(b"EXECABORT");
    request.session.transaction.queue = None;
    leave_multi(request.session);
}

/// EXEC: runs all queued commands under the union of their lock sets.
pub(super) fn exec(request: &mut Request<'_>, command: &Command) -> (bool, Option<FollowUp>) {
    let (engine, slot, now) = (request.engine, request.slot(), request.now());
    let start = request.worker.boundary;
    let Some(queue) = request.session.transaction.queue.take() else {
        request.reply.error("ERR EXEC without MULTI");
        engine.telemetry.threads[slot].count_error(b"ERR");
        return (true, None);
    };
    if queue.broken {
        leave_multi(request.session);
        unwatch_all(engine, &mut request.worker.context, request.session);
        let text = "EXECABORT Transaction discarded because of previous errors.";
        request.reply.error(text);
        engine.telemetry.threads[slot].count_error(text.as_bytes());
        return (true, None);
    }
    let queued: Vec<(&Command, Vec<&[u8]>)> =
        queue.commands.iter().map(|queued| (engine.commands.get(queued.command), queued.args())).collect();
    let watched: Vec<Watched> = std::mem::take(&mut request.session.transaction.watched);
    // SELECT in the transaction affects the commands after it. Equal keys of all databases share a
    // lock.
    let mut keys = SmallVec::<[KeyRef<'_>; 8]>::new();
    let bounds = collect_queued_keys(engine, &queued, &mut keys);
    for watched in &watched {
        keys.push(KeyRef { key: &watched.key, hash: engine.keyspace.hash(&watched.key), write: true });
    }
    let wide = queued.iter().any(|(command, args)| command.spec.scope_of(args) != Scope::Keys);
    let locks = if wide {
        let world = {
            let Request { worker, session, args, .. } = &mut *request;
            let (queue, now_ms) = (Some(&*queue), worker.now_ms);
            let admission = AdmissionContext { engine, session, queue, command, args, now_ms };
            LockSet::world(&engine.keyspace, &mut worker.context, || admission.is_outdated())
        };
        let Some(world) = world else {
            drop(keys);
            request.session.transaction.watched = watched;
            if request.worker.context.outdated {
                drop(queued);
                request.session.transaction.queue = Some(queue);
            } else {
                abort_exec(request, &busy(engine));
            }
            return (true, None);
        };
        world
    } else {
        LockSet::Keys(&keys)
    };
    let Request { worker, session, reply, args: exec_args, others, .. } = request;
    let mut txn = lock(&engine.keyspace, &mut worker.context, locks, session.db, now);
    if release_watches(&mut txn, session, &watched) {
        drop(txn);
        leave_multi(session);
        reply.null_array();
        return (false, None);
    }
    session.transaction.slot_batch = is_slot_batch(engine, &queued).then(Box::default);
    if session.reply.mode != ReplyMode::Off && session.transaction.slot_batch.is_none() {
        reply.array(queued.len());
    }
    let since = txn.context.journal.end;
    session.execution.deny_blocking = true;
    for ((queued, args), bounds) in queued.iter().zip(bounds) {
        txn.set_db(session.db);
        txn.set_keys(&keys[bounds]);
        let mut part = session.transaction.slot_batch.is_some().then(|| ReplyBuffer::new(reply.protocol));
        let mut call = Call {
            engine,
            command: queued,
            session,
            args,
            blobs: &[],
            keyspace: &mut txn,
            reply: part.as_mut().unwrap_or(reply),
            others: others.reborrow(),
        };
        run_queued(&mut call, (command, exec_args));
        if let Some((part, batch)) = part.zip(session.transaction.slot_batch.as_mut()) {
            batch.add_reply(&part);
        }
    }
    session.reply.is_complete = session.reply.mode != ReplyMode::On;
    session.execution.deny_blocking = false;
    if let Some(batch) = session.transaction.slot_batch.take() {
        let (args, blobs, keyspace, others) = (*exec_args, &[][..], &mut txn, Others::default());
        let mut call = Call { engine, command, session, args, blobs, keyspace, reply, others };
        answer_slot_batch(&mut call, *batch);
    }
    note_unit(&mut txn, session, since);
    let held = txn.context.follow_up.get().then(|| {
        let (args, blobs, keyspace, others) = (&[][..], &[][..], &mut txn, Others::default());
        finish_held(&mut Call { engine, command, session, args, blobs, keyspace, reply, others }, start)
    });
    drop(txn);
    leave_multi(session);
    worker.boundary = Ticks::now();
    (false, held)
}

/// Collects the keys of the queued commands; returns the range of each command's keys.
fn collect_queued_keys<'k>(
    engine: &Engine,
    queued: &[(&Command, Vec<&'k [u8]>)],
    keys: &mut SmallVec<[KeyRef<'k>; 8]>,
) -> Vec<Range<usize>> {
    let bounds = queued.iter().map(|(command, args)| {
        let start = keys.len();
        if command.spec.scope_of(args) == Scope::Keys {
            collect_keys(engine, command.spec, args, keys);
        }
        start..keys.len()
    });
    bounds.collect()
}

/// True if a transaction consists of changes of a cluster's slots, which are then one change.
fn is_slot_batch(engine: &Engine, queued: &[(&Command, Vec<&[u8]>)]) -> bool {
    let mut commands = queued.iter().map(|(command, _)| command);
    engine.cluster_map().is_some()
        && !queued.is_empty()
        && commands.all(|command| command.behavior.has(Behavior::CHANGES_SLOTS))
}

/// Shows other threads that the client is no longer in a transaction.
fn leave_multi(session: &Session) {
    session.record.multi_count.store(-1, Relaxed);
    session.record.multi_bytes.store(0, Relaxed);
    session.record.set_flag(client_flags::MULTI, false);
}

/// Runs one command of a transaction. `current`: EXEC. As in Redis, CLIENT REPLY takes effect at
/// once: each part of EXEC's reply is dropped if replies are off at its time.
fn run_queued(call: &mut Call<'_, '_>, current: (&Command, &[&[u8]])) {
    let mark = call.reply.mark();
    run_if_allowed(call, current);
    if call.session.reply.mode == ReplyMode::Off {
        call.reply.truncate(mark);
    }
}

fn run_if_allowed(call: &mut Call<'_, '_>, current: (&Command, &[&[u8]])) {
    let (engine, command, args) = (call.engine, call.command, call.args);
    let slot = call.keyspace.context.slot;
    // Permissions may have changed since the command was queued, and even since EXEC was checked.
    call.session.refresh_user(&engine.acl, &engine.attention);
    if let Err(denied) =
        access::check_access(engine, call.session, command, args, Origin::Transaction, current)
    {
        let line = acl::refusal_in_transaction(denied).line().into_owned();
        engine.telemetry.threads[slot].count_error(&line);
        call.reply.error_bytes(&line);
        return;
    }
    if engine.attention.get() & MONITORS != 0 && command.runs_scripts {
        report::monitor_always(engine, slot, call.session, command, args);
    }
    let (start, reply_start) = (Ticks::now(), call.reply.len());
    let failed = run_body(call, false);
    let nanos = Ticks::now().nanos_since(start);
    count(engine, slot, command, nanos, failed);
    if engine.attention.get() & MONITORS != 0 {
        report::monitor(engine, slot, call.session, command, args);
    }
    note_reads(engine, call.session, call.keyspace, command, args);
    let cost = Cost { nanos, reply_bytes: call.reply.len().saturating_sub(reply_start) };
    engine.telemetry.hot_keys.note(call.keyspace.context, command, args, cost);
    if engine.telemetry.logs.is_noteworthy(cost, 0) {
        report::log(engine, call.session, command, args, cost);
    }
}

/// Removes the watches under the transaction's locks. True if a watched key changed.
fn release_watches(txn: &mut Txn<'_>, session: &mut Session, watched: &[Watched]) -> bool {
    let mut changed = txn::is_raised(&session.transaction.watch_flag);
    let db = txn.db();
    for key in watched {
        txn.set_db(key.db);
        // A key that expired since the watch began has changed, even if it has not been removed
        // yet.
        changed |= txn.peek_expired(&key.key).is_some();
        txn.unwatch(&key.key, &session.transaction.watch_flag);
    }
    txn.set_db(db);
    session.transaction.watch_flag = txn::new_watch_flag();
    session.record.set_flag(client_flags::WATCHING, false);
    *session.record.watch_flag.lock() = None;
    session.record.watch_count.store(0, Relaxed);
    changed
}

/// Removes all watches of a client (UNWATCH, DISCARD, closed connection). No lock may be held.
pub fn unwatch_all(engine: &Engine, context: &mut Context, session: &mut Session) {
    let watched = std::mem::take(&mut session.transaction.watched);
    if watched.is_empty() {
        session.transaction.watch_flag = txn::new_watch_flag();
        return;
    }
    let keys: SmallVec<[KeyRef<'_>; 8]> = watched
        .iter()
        .map(|watched| KeyRef { key: &watched.key, hash: engine.keyspace.hash(&watched.key), write: true })
        .collect();
    let mut txn = lock(&engine.keyspace, context, LockSet::Keys(&keys), session.db, 0);
    release_watches(&mut txn, session, &watched);
}

/// Drops a transaction's queue and the client's watches.
pub fn discard(engine: &Engine, context: &mut Context, session: &mut Session) {
    session.transaction.queue = None;
    leave_multi(session);
    unwatch_all(engine, context, session);
}

/// Replies to an EXEC that has gathered changes of slots.
fn answer_slot_batch(call: &mut Call<'_, '_>, batch: SlotBatch) {
    match &call.engine.cluster {
        Some(cluster) => cluster.service.answer_slot_batch(call, batch),
        None => call.reply.error("ERR cannot change the cluster's slots now"),
    }
}
