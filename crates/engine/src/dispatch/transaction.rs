// SPDX-License-Identifier: BSD-3-Clause
//! Transactions: EXEC with what was queued before it, and the keys that are watched.

use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::Ticks;
use braid_keyspace::txn::{KeyRef, Txn};
use braid_keyspace::{Context, txn};
use braid_resp::reply::ReplyBuffer;
use smallvec::SmallVec;

use super::checks::busy;
use super::report;
use super::{Held, Worker, body, collect_keys, count, finish_held, note_unit};
use crate::engine::Engine;
use crate::session::{Session, Watched, session_attention};
use braid_acl as acl;
use braid_acl::log::Origin;
use braid_clients::attention::MONITORS;
use braid_clients::client_flags;
use braid_spec::Command;
use braid_spec::CommandError;
use braid_spec::Scope;
use braid_telemetry::Cost;

/// Gives EXEC up because of a script that has stopped the world. The watches end with the next
/// transaction or UNWATCH: to take them away needs keys.
pub(super) fn abort_exec(
    engine: &Engine,
    worker: &Worker,
    session: &mut Session,
    reply: &mut ReplyBuffer,
    error: &CommandError,
) {
    let line = error.line();
    reply.error_bytes(&[b"EXECABORT Transaction discarded because of: ", &line[..]].concat());
    engine.threads[worker.context.slot].count_error(b"EXECABORT");
    session.queue = None;
    leave_multi(session);
}

/// EXEC: all queued commands under the union of their lock sets.
pub(super) fn exec(
    engine: &Engine,
    worker: &mut Worker,
    session: &mut Session,
    reply: &mut ReplyBuffer,
    current: (&Command, &[&[u8]]),
) -> (bool, Option<Held>) {
    let slot = worker.context.slot;
    let Some(queue) = session.queue.take() else {
        reply.error("ERR EXEC without MULTI");
        engine.threads[slot].count_error(b"ERR");
        return (true, None);
    };
    if queue.broken {
        leave_multi(session);
        unwatch_all(engine, &mut worker.context, session);
        let text = "EXECABORT Transaction discarded because of previous errors.";
        reply.error(text);
        engine.threads[slot].count_error(text.as_bytes());
        return (true, None);
    }
    let (now, start) = (super::time_of(engine, worker, session), worker.boundary);
    let requests: Vec<(&Command, Vec<&[u8]>)> =
        queue.commands.iter().map(|queued| (engine.commands.get(queued.command), queued.args())).collect();
    let watched: Vec<Watched> = std::mem::take(&mut session.watched);
    // SELECT within the transaction moves the commands after it; keys of all databases of one hash
    // share a lock.
    let mut keys = SmallVec::<[KeyRef<'_>; 8]>::new();
    let mut bounds = Vec::with_capacity(requests.len());
    for (command, args) in &requests {
        let start = keys.len();
        if command.spec.scope_of(args) == Scope::Keys {
            collect_keys(engine, command.spec, args, &mut keys);
        }
        bounds.push(start..keys.len());
    }
    for watched in &watched {
        keys.push(KeyRef { key: &watched.key, hash: engine.keyspace.hash(&watched.key), write: true });
    }
    let wide = requests.iter().any(|(command, args)| command.spec.scope_of(args) != Scope::Keys);
    let mut txn = if wide {
        let Some(world) = engine.keyspace.stop_world(&mut worker.context) else {
            drop(keys);
            session.watched = watched;
            let error = busy(engine);
            abort_exec(engine, worker, session, reply, &error);
            return (true, None);
        };
        Txn::world(&engine.keyspace, &mut worker.context, world, session.db, now)
    } else {
        Txn::lock(&engine.keyspace, &mut worker.context, session.db, now, &keys)
    };
    if release_watches(&mut txn, session, &watched) {
        drop(txn);
        leave_multi(session);
        reply.null_array();
        return (false, None);
    }
    reply.array(requests.len());
    let since = txn.context.journal.end;
    session.deny_blocking = true;
    for ((command, args), bounds) in requests.iter().zip(bounds) {
        txn.set_db(session.db);
        txn.set_keys(&keys[bounds]);
        run_queued(engine, session, reply, command, args, &mut txn, current);
    }
    session.deny_blocking = false;
    note_unit(&mut txn, session, since);
    let held =
        txn.context.follow_up.get().then(|| finish_held(engine, session, current.0, &[], start, &mut txn));
    drop(txn);
    leave_multi(session);
    worker.boundary = Ticks::now();
    (false, held)
}

/// The client is no longer in a transaction, for others to see.
fn leave_multi(session: &Session) {
    session.record.multi_count.store(-1, Relaxed);
    session.record.multi_bytes.store(0, Relaxed);
    session.record.set_flag(client_flags::MULTI, false);
}

/// Runs one command of a transaction. `current`: EXEC.
fn run_queued(
    engine: &Engine,
    session: &mut Session,
    reply: &mut ReplyBuffer,
    command: &Command,
    args: &[&[u8]],
    keyspace: &mut Txn<'_>,
    current: (&Command, &[&[u8]]),
) {
    let slot = keyspace.context.slot;
    // Rights may have changed since the command was queued, and even since EXEC was checked.
    engine.refresh_user(session);
    if let Err(denied) = engine.check_access(session, command, args, Origin::Transaction, current) {
        let line = acl::refusal_in_transaction(denied).line().into_owned();
        engine.threads[slot].count_error(&line);
        reply.error_bytes(&line);
        return;
    }
    if engine.attention.get() & MONITORS != 0 && command.runs_scripts {
        report::monitor_always(engine, slot, session, command, args);
    }
    let (start, reply_start) = (Ticks::now(), reply.len());
    let failed = body(engine, session, reply, command, args, &[], keyspace, false);
    let nanos = Ticks::now().nanos_since(start);
    count(engine, slot, command, nanos, failed);
    if engine.attention.get() & MONITORS != 0 {
        report::monitor(engine, slot, session, command, args);
    }
    if session.attention & session_attention::TRACKS != 0 {
        engine.trackers.remember(
            &session.listener,
            keyspace,
            command,
            args,
            engine.config.tracking_table_max_keys(),
        );
    }
    let cost = Cost { nanos, reply_bytes: reply.len().saturating_sub(reply_start) };
    engine.hot_keys.note(keyspace.context, command, args, cost);
    if engine.logs.is_noteworthy(cost, 0) {
        report::log(engine, session, command, args, cost);
    }
}

/// Takes the watches away under the transaction's locks. Returns true if a watched key changed.
fn release_watches(txn: &mut Txn<'_>, session: &mut Session, watched: &[Watched]) -> bool {
    let mut changed = txn::is_raised(&session.watch_flag);
    let db = txn.db();
    for key in watched {
        txn.set_db(key.db);
        // A key that expired since the watch began counts as changed, though nobody has removed it yet.
        changed |= txn.peek_expired(&key.key).is_some();
        txn.unwatch(&key.key, &session.watch_flag);
    }
    txn.set_db(db);
    session.watch_flag = txn::new_watch_flag();
    session.record.set_flag(client_flags::WATCHING, false);
    *session.record.watch_flag.lock() = None;
    session.record.watch_count.store(0, Relaxed);
    changed
}

/// Ends all watches of a client (UNWATCH, DISCARD, a closed connection). No lock may be held.
pub fn unwatch_all(engine: &Engine, context: &mut Context, session: &mut Session) {
    let watched = std::mem::take(&mut session.watched);
    if watched.is_empty() {
        session.watch_flag = txn::new_watch_flag();
        return;
    }
    let keys: SmallVec<[KeyRef<'_>; 8]> = watched
        .iter()
        .map(|watched| KeyRef { key: &watched.key, hash: engine.keyspace.hash(&watched.key), write: true })
        .collect();
    let mut txn = Txn::lock(&engine.keyspace, context, session.db, 0, &keys);
    release_watches(&mut txn, session, &watched);
}

/// Drops a transaction's queue and the client's watches.
pub fn discard(engine: &Engine, context: &mut Context, session: &mut Session) {
    session.queue = None;
    leave_multi(session);
    unwatch_all(engine, context, session);
}
