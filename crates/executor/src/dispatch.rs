// SPDX-License-Identifier: BSD-3-Clause
//! The dispatcher: from a request to its reply.
//!
//! HOT PATH: no allocation, no lock but the shards' own, no logging, no system call, for commands
//! without special needs.
//!
//! [`prepare`] finds the command and hashes its first key, so that the loop can fetch what a whole
//! batch will touch into the cache before the first body runs. [`execute`] checks, takes the locks,
//! runs the body and counts.

pub mod body;
mod checks;
pub(crate) mod data;
pub(crate) mod journal;
mod reach;
pub mod replay;
pub(crate) mod report;
pub mod script;
pub(crate) mod slot_stats;
pub mod slots;
pub mod speculative;
mod transaction;

use braid_spec::CommandTable;

pub use braid_spec::Reach;
pub(crate) use journal::note_unit;
pub use reach::{reach, reach_of};
use report::count;
pub use transaction::{discard, unwatch_all};

use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::Ticks;
use braid_keyspace::Stale;
use braid_keyspace::events::KEY_MISS;
use braid_keyspace::txn::{KeyRef, Txn};
use braid_resp::reply::{Mark, ReplyBuffer};
use smallvec::SmallVec;

use crate::blocking;
use crate::blocking::state::Later;
use crate::engine::Engine;
use crate::engine::call::{Call, Others};
pub use crate::engine::request::Request;
use crate::feeds;
use crate::locks::{LockSet, lock};
use crate::session::{ReplyMode, Session, session_attention};
use crate::transaction::Queued;
pub use crate::worker::Worker;
use body::run_body;
use braid_clients::attention::{
    FEEDS, LOADING, MEMORY_LIMIT, MONITORS, OTHER_NODES, PAUSED, READ_ONLY, REPLICA, SLOT_STATS,
};
use braid_clients::client_flags;
use braid_spec::spec::Spec;
use braid_spec::{Behavior, Command, CommandError, Flags, Scope, absent, keys};
use braid_telemetry::Cost;
pub use checks::LOADING_REFUSAL;
use checks::{AdmissionContext, busy, charge, check, check_rights, is_held_back, queues};
pub(crate) use data::command_reveals_data;
use data::is_exec;

use transaction::{abort_exec, exec};

/// What the loop does after a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Continue with the client's next request.
    Done,
    /// The command has not run: keep it and the following requests until the client is resumed.
    Postponed,
    /// The command has run and blocks: keep the following requests until it is answered.
    Blocked,
}

/// Result of [`prepare`].
///
/// Two words, passed in registers. A third field would move it to memory, where the processor
/// stalls when it reads freshly stored parts together.
#[derive(Clone, Copy, Debug)]
pub struct Prepared {
    /// Command id, and in the highest bit whether it runs scripts; or [`Prepared::UNKNOWN`].
    command: u32,
    /// Hash of the first key; 0 if there is none.
    pub hash: u64,
}

impl Prepared {
    const RUNS_SCRIPTS: u32 = 1 << 31;
    const UNKNOWN: u32 = Prepared::RUNS_SCRIPTS - 1;

    /// The command's id, if the name is known.
    #[inline]
    pub fn command(self) -> Option<u32> {
        (!self.is_unknown()).then_some(self.command & !Prepared::RUNS_SCRIPTS)
    }

    /// The name is unknown.
    #[inline]
    pub fn is_unknown(self) -> bool {
        self.command == Prepared::UNKNOWN
    }

    /// See [`Command::runs_scripts`].
    #[inline]
    pub fn runs_scripts(self) -> bool {
        self.command & Prepared::RUNS_SCRIPTS != 0
    }
}

/// Finds the command of a request and hashes its first key.
#[inline]
pub fn prepare(engine: &Engine, args: &[&[u8]]) -> Prepared {
    prepare_by(engine, |index| args.get(index).copied())
}

/// Like [`prepare`], for a request whose arguments are not collected yet: `argument` returns one of
/// them.
#[inline]
pub fn prepare_by<'a>(engine: &Engine, argument: impl Fn(usize) -> Option<&'a [u8]>) -> Prepared {
    let Some(command) = argument(0).and_then(|name| engine.commands.find(name)) else {
        return Prepared { command: Prepared::UNKNOWN, hash: 0 };
    };
    let hash = match command.simple_keys.first {
        0 => 0,
        first => argument(first as usize).map_or(0, |key| engine.keyspace.hash(key)),
    };
    let scripts = if command.runs_scripts { Prepared::RUNS_SCRIPTS } else { 0 };
    Prepared { command: command.id | scripts, hash }
}

/// Runs one request and writes its reply.
#[inline]
pub fn execute(request: &mut Request<'_>, prepared: Prepared) -> Outcome {
    let (engine, session) = (request.engine, &*request.session);
    let attention = engine.attention.word() | request.worker.fence;
    if let Some(id) = prepared.command() {
        let command = engine.commands.get(id);
        let ordinary = command.plain
            && session.transaction.queue.is_none()
            && session.attention == 0
            && command.spec.arity.allows(request.args.len());
        if ordinary
            && (attention == session.login.fast_path_word
                || is_quickly_allowed(request, command, prepared.hash, attention))
            && let Some(outcome) = run(request, command, prepared.hash)
        {
            return outcome;
        }
    }
    let attention = engine.attention.get() | request.worker.fence;
    execute_checked(request, prepared, attention)
}

/// True if no special state is set and a restricted user's permission follows from one key.
#[inline(never)]
fn is_quickly_allowed(request: &Request<'_>, command: &Command, hash: u64, attention: u64) -> bool {
    let Request { engine, session, args, .. } = request;
    let ignored = match session.record.knows_redirect.load(Relaxed) {
        true => 0,
        // A replica refuses writes only.
        false if !command.spec.flags.has(Flags::WRITE) => READ_ONLY | REPLICA,
        false => REPLICA,
    };
    let mut attention = attention & !ignored;
    if attention & OTHER_NODES != 0 && command.simple_keys.is_single() && slots::serves_slot_of(engine, hash)
    {
        attention &= !OTHER_NODES;
    }
    if attention & FEEDS != 0 && feeds::is_far_from_feeds(engine, command, hash) {
        attention &= !FEEDS;
    }
    attention == session.login.fast_path_word
        || (attention == session.login.generation
            && session.authenticated
            && session.login.user.allows_quickly(command, args, session.db))
}

/// Runs a request that needs more than the ordinary checks.
fn execute_checked(request: &mut Request<'_>, prepared: Prepared, attention: u64) -> Outcome {
    let (engine, args) = (request.engine, request.args);
    if request.session.record.has(client_flags::CLOSE_NOW) {
        // Another client has closed this one: its remaining requests must not take anything. The
        // users' generation has changed, so they all come here.
        request.session.close();
        return Outcome::Done;
    }
    let mut mark = request.reply.mark();
    let command = match resolve(&engine.commands, prepared, args) {
        Ok(command) => command,
        Err(error) => {
            refuse(request, named(&engine.commands, prepared, args), &error);
            finish_reply(request.session, request.reply, mark);
            request.session.forget_precomputed();
            return Outcome::Done;
        }
    };
    request.session.cluster.served = None;
    if is_held_back(&AdmissionContext::of(request, command), attention) {
        return Outcome::Postponed;
    }
    let mut outcome = Outcome::Done;
    let checked = match charge(request, command) {
        Ok(false) => return Outcome::Postponed,
        Ok(true) => check(request, command, attention),
        Err(error) => Err(error),
    };
    match checked {
        Err(error) => refuse(request, Some(command), &error),
        Ok(()) if queues(request.session, command) => {
            let session = &mut *request.session;
            if let Some(queue) = &mut session.transaction.queue {
                queue.push(Queued::new(command.id, args));
                if command.behavior.has(Behavior::REPLAY_SELECTS) {
                    queue.note_selected(args, engine.keyspace.databases());
                }
                session.record.last_command.store(command.id + 1, Relaxed);
                session.record.multi_count.store(queue.commands.len() as i64, Relaxed);
                session.record.multi_bytes.store(queue.memory_bytes, Relaxed);
            }
            if attention & SLOT_STATS != 0 {
                slot_stats::count_queued(request, command);
            }
            request.reply.simple("QUEUED");
        }
        // A check may have waited outside of the gate.
        Ok(()) if AdmissionContext::of(request, command).is_outdated() => return again(request, prepared),
        Ok(()) => {
            let tracks = request.session.attention & session_attention::TRACKS != 0;
            if attention & MONITORS != 0 || tracks {
                mark = begin_watched(request, command, attention, mark);
            }
            if let Some(precomputed) = &request.session.execution.precomputed {
                // The background work is part of the command's time.
                request.worker.boundary = precomputed.began;
            }
            let counted = attention & SLOT_STATS != 0;
            let counted = if counted { slot_stats::Begun::of(request, command) } else { None };
            let began = request.worker.boundary;
            let ended = run(request, command, prepared.hash);
            if !request.session.login.user.limits().is_none() {
                let nanos = request.worker.boundary.nanos_since(began);
                request.session.login.charged.add_nanos(nanos);
            }
            request.session.attention &= !session_attention::LOCKS;
            match ended {
                Some(ended) => outcome = ended,
                None => return again(request, prepared),
            }
            if let Some(counted) = counted {
                counted.count(request, outcome);
            }
            if attention & MONITORS != 0 && is_exec(command) {
                report::monitor(engine, request.slot(), request.session, command, args);
            }
        }
    }
    let Request { session, reply, .. } = request;
    if let Some(tracking) = &mut session.listener.tracking
        && tracking.caching
        && session.transaction.queue.is_none()
        && !command.behavior.has(Behavior::KEEPS_CACHING)
    {
        tracking.caching = false;
    }
    session.forget_precomputed();
    let mark = if command.spec.replies_with_pushes() && !session.in_multi() { reply.mark() } else { mark };
    finish_reply(session, reply, mark);
    if session.hears() {
        // Messages caused by the command follow its reply.
        engine.hub.claim(&mut session.listener, reply);
    }
    outcome
}

/// Checks a request again and runs it if it is still allowed.
#[cold]
fn again(request: &mut Request<'_>, prepared: Prepared) -> Outcome {
    let attention = request.engine.attention.get() | request.worker.fence;
    execute_checked(request, prepared, attention)
}

/// Whether the reply to a request may reveal data. For a container, one such subcommand is
/// enough.
pub fn reveals_data(engine: &Engine, prepared: Prepared) -> bool {
    prepared.command().is_some_and(|id| command_reveals_data(engine, id))
}

/// Prepares a command of a client that tracks or that others monitor, so that [`finish_held`]
/// follows. Returns the start of the command's own reply.
#[cold]
fn begin_watched(request: &mut Request<'_>, command: &Command, attention: u64, mark: Mark) -> Mark {
    let Request { engine, worker, session, reply, args, .. } = request;
    worker.context.follow_up.set(true);
    session.attention |= session_attention::LOCKS;
    if attention & MONITORS != 0 && command.runs_scripts && !is_exec(command) {
        report::monitor_always(engine, worker.context.slot, session, command, args);
    }
    if attention & MEMORY_LIMIT != 0 && session.attention & session_attention::TRACKS != 0 {
        // Invalidations of keys evicted for the command precede its reply.
        engine.hub.claim(&mut session.listener, reply);
        return reply.mark();
    }
    mark
}

/// Drops the reply if the client has switched replies off.
fn finish_reply(session: &mut Session, reply: &mut ReplyBuffer, mark: Mark) {
    if session.reply.mode == ReplyMode::On {
        return;
    }
    if !std::mem::take(&mut session.reply.is_complete) {
        reply.truncate(mark);
    }
    match session.reply.mode {
        ReplyMode::On | ReplyMode::Off => {}
        ReplyMode::SkipNext => session.set_reply_mode(ReplyMode::Skip),
        ReplyMode::Skip => session.set_reply_mode(ReplyMode::On),
    }
}

/// The part of an argument shown in an error: at most `max` bytes, up to a NUL.
fn printable(bytes: &[u8], max: usize) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(max)];
    &bytes[..bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len())]
}

/// The error for a request whose first word names no command.
fn unknown_command(args: &[&[u8]]) -> Vec<u8> {
    const SHOWN: usize = 128;
    let mut given = Vec::new();
    for arg in args.iter().skip(1) {
        if given.len() >= SHOWN {
            break;
        }
        let shown = printable(arg, SHOWN - given.len());
        given.extend_from_slice(&[b"'", shown, b"' "].concat());
    }
    let name = printable(args.first().copied().unwrap_or_default(), SHOWN);
    let mut line = [b"ERR unknown command '", name, b"', with args beginning with: ", &given].concat();
    if let Some(family) = args.first().and_then(|name| absent::family_of(name)) {
        let absent = format!("- Braid has no {} (docs/compatibility.md)", family.title);
        line.extend_from_slice(absent.as_bytes());
    }
    line
}

/// The command of a request, checked for arity, or the error.
fn resolve<'e>(
    commands: &'e CommandTable,
    prepared: Prepared,
    args: &[&[u8]],
) -> Result<&'e Command, CommandError> {
    let Some(id) = prepared.command() else {
        return Err(CommandError::Bytes(unknown_command(args)));
    };
    let mut command = commands.get(id);
    if !command.subcommands.is_empty()
        && let Some(name) = args.get(1)
    {
        match commands.find_subcommand(command, name) {
            Some(sub) => command = sub,
            None => {
                let container = command.spec.name.to_ascii_uppercase();
                let after = format!("'. Try {container} HELP.");
                return Err(CommandError::quoting("ERR unknown subcommand '", printable(name, 128), &after));
            }
        }
    }
    let runnable = !command.spec.is_container;
    if !command.spec.arity.allows(args.len()) || !runnable {
        return Err(CommandError::WrongArity(command.full_name.clone().into()));
    }
    Ok(command)
}

/// The command or subcommand that a request names; arity is not checked.
fn named<'e>(commands: &'e CommandTable, prepared: Prepared, args: &[&[u8]]) -> Option<&'e Command> {
    let command = commands.get(prepared.command()?);
    match args.get(1) {
        Some(name) if !command.subcommands.is_empty() => commands.find_subcommand(command, name),
        _ => Some(command),
    }
}

/// Handles a request while a script has stopped the world for long: nearly all are refused, and no
/// keys are touched. The thread is outside of the gate.
pub fn execute_outside(request: &mut Request<'_>, prepared: Prepared) -> Outcome {
    let (engine, args) = (request.engine, request.args);
    let mark = request.reply.mark();
    match resolve(&engine.commands, prepared, args) {
        Err(error) => refuse(request, named(&engine.commands, prepared, args), &error),
        Ok(command) => {
            let flags = command.spec.flags;
            // A script that is not busy yet must not be killed by a shutdown.
            let is_early = engine.clients.busy.is_any() && engine.clients.busy.any_error().is_none();
            let allowed = flags.has(Flags::ALLOW_BUSY) && !(is_early && flags.has(Flags::ADMIN));
            let behavior = command.behavior;
            let watches = behavior.has(Behavior::CHANGES_WATCHES)
                || (behavior.has(Behavior::DROPS_WATCHES) && !request.session.transaction.watched.is_empty());
            request.session.refresh_user(&engine.acl, &engine.attention);
            if let Err(error) = check_rights(engine, request.session, command, args) {
                refuse(request, Some(command), &error);
            } else if engine.attention.get() & LOADING != 0 && !flags.has(Flags::LOADING) {
                // The script is being replayed from the append-only file.
                refuse(request, Some(command), &CommandError::text(LOADING_REFUSAL));
            } else if allowed && watches {
                // Watches are stored with the keys, which the script holds.
                return Outcome::Postponed;
            } else if allowed {
                run_without_keys(request, command);
            } else if let Some(error) = engine.clients.busy.any_error() {
                if is_exec(command) && request.session.transaction.queue.is_some() {
                    abort_exec(request, &error);
                } else {
                    refuse(request, Some(command), &error);
                }
            } else {
                // The script is not busy yet, or has just ended; it resumes the client either way.
                if !engine.clients.busy.is_any() {
                    request.session.record.send(braid_clients::Message::Resume);
                }
                return Outcome::Postponed;
            }
        }
    }
    request.session.forget_precomputed();
    finish_reply(request.session, request.reply, mark);
    Outcome::Done
}

/// Runs a command that needs no key while the thread is outside of the gate.
fn run_without_keys(request: &mut Request<'_>, command: &Command) {
    let (now, slot) = (request.now(), request.slot());
    let Request { engine, worker, session, reply, args, .. } = request;
    let db = session.db;
    let mut txn = lock(&engine.keyspace, &mut worker.context, LockSet::Keys(&[]), db, now);
    let mut call = Call {
        engine,
        command,
        session,
        args,
        blobs: &[],
        keyspace: &mut txn,
        reply,
        others: Others::default(),
    };
    let failed = run_body(&mut call, true);
    drop(txn);
    count(engine, slot, command, 0, failed);
    if engine.attention.get() & MONITORS != 0 {
        report::monitor(engine, slot, session, command, args);
    }
    session.record.last_command.store(command.id + 1, Relaxed);
}

/// EXEC errors that the client must see unchanged: it runs the transaction again elsewhere,
/// later, or in parts.
const SENT_ELSEWHERE: [&[u8]; 6] =
    [b"REDIRECT ", b"CROSSSLOT ", b"MOVED ", b"ASK ", b"TRYAGAIN ", b"CLUSTERDOWN "];

/// Replies with an error before execution.
#[cold]
fn refuse(request: &mut Request<'_>, command: Option<&Command>, error: &CommandError) {
    let (line, slot) = (error.line(), request.slot());
    let Request { engine, worker, session, reply, .. } = request;
    if let Some(command) = command {
        engine.telemetry.command_stats(slot, command.id).rejected.add(1);
    }
    engine.telemetry.threads[slot].count_error(&line);
    if let Some(queue) = &mut session.transaction.queue {
        queue.broken = true;
    }
    // A refused EXEC ends the transaction.
    if command.is_some_and(is_exec) {
        if SENT_ELSEWHERE.iter().any(|code| line.starts_with(code)) {
            reply.error_bytes(&line);
        } else {
            let reason = line.strip_prefix(b"ERR ").unwrap_or(&line);
            reply.error_bytes(&[b"EXECABORT Transaction discarded because of: ", reason].concat());
        }
        discard(engine, &mut worker.context, session);
        return;
    }
    reply.error_bytes(&line);
}

/// Runs a command that has passed all checks. `None` if it must be checked again.
#[inline]
fn run(request: &mut Request<'_>, command: &Command, hash: u64) -> Option<Outcome> {
    let reply_start = request.reply.len();
    let (failed, held) = if command.simple_keys.is_single() && command.spec.scope == Scope::Keys {
        let keys = [KeyRef { key: request.args[1], hash, write: command.simple_keys.locks_exclusively }];
        let lock_free = request.engine.commands.lock_free_of(command);
        if lock_free.is_some_and(|read| read(request, &keys[0])) {
            (false, None)
        } else {
            run_under(request, command, LockSet::Keys(&keys))
        }
    } else {
        let done = run_wide(request, command);
        if std::mem::take(&mut request.worker.context.outdated) {
            return None;
        }
        done
    };
    if let Some(held) = held {
        return Some(finish_later(request, command, failed, held));
    }
    let Request { engine, worker, session, reply, args, blobs, .. } = request;
    let end = Ticks::now();
    let nanos = end.nanos_since(worker.boundary);
    worker.boundary = end;
    count(engine, worker.context.slot, command, nanos, failed);
    session.record.last_command.store(command.id + 1, Relaxed);
    let cost = Cost { nanos, reply_bytes: reply.len().saturating_sub(reply_start) };
    engine.telemetry.hot_keys.note(&mut worker.context, command, args, cost);
    if engine.telemetry.logs.is_noteworthy(cost, blobs.len()) {
        report::log(engine, session, command, args, cost);
    }
    Some(Outcome::Done)
}

/// Runs a command under its locks. Returns whether it failed, and its follow-up work.
#[inline]
fn run_under(request: &mut Request<'_>, command: &Command, locks: LockSet<'_>) -> (bool, Option<FollowUp>) {
    let now = request.now();
    let Request { engine, worker, session, reply, args, blobs, others } = request;
    let start = worker.boundary;
    let mut txn = lock(&engine.keyspace, &mut worker.context, locks, session.db, now);
    let keyspace = &mut txn;
    let mut call = Call { engine, command, session, args, blobs, keyspace, reply, others: others.reborrow() };
    let failed = run_body(&mut call, true);
    let held = call.keyspace.context.follow_up.get().then(|| finish_held(&mut call, start));
    (failed, held)
}

/// Work left for after the command's locks are released.
struct FollowUp {
    /// End of the command's body.
    end: Ticks,
    later: Later,
}

/// The effects of a command beyond its own reply, as far as they belong under its locks.
#[cold]
fn finish_held(call: &mut Call<'_, '_>, start: Ticks) -> FollowUp {
    let Call { engine, command, session, args, keyspace: txn, .. } = call;
    txn.context.follow_up.set(false);
    // Served clients come after the command.
    txn.journal_now();
    let (end, mut later) = (Ticks::now(), *session.script.later.take().unwrap_or_default());
    // A command that runs again was shown to monitors the first time.
    let is_told = !is_exec(command) && session.attention & session_attention::RUNS_AGAIN == 0;
    if engine.attention.get() & MONITORS != 0 && is_told {
        report::monitor(engine, txn.context.slot, session, command, args);
    }
    note_reads(engine, session, txn, command, args);
    engine.trackers.flush_invalidations(txn.context, Some(session.id()));
    if let Some(blocked) = &session.blocked {
        // The waiter may be served and counted once the locks are released.
        blocked.note_nanos(end.nanos_since(start));
        blocked.show();
    }
    blocking::serve_held(engine, txn, &mut later);
    // Changes by served clients invalidate for all trackers.
    engine.trackers.flush_invalidations(txn.context, None);
    FollowUp { end, later }
}

/// Records the keys that a tracking client has read.
fn note_reads(engine: &Engine, session: &Session, txn: &mut Txn<'_>, command: &Command, args: &[&[u8]]) {
    if session.attention & session_attention::TRACKS != 0 {
        let keys_max = engine.config.tracking_table_max_keys();
        engine.trackers.remember(&session.listener, txn, command, args, keys_max);
    }
}

/// Counts a command with effects beyond its own reply, and performs those that need other locks.
#[cold]
fn finish_later(request: &mut Request<'_>, command: &Command, failed: bool, held: FollowUp) -> Outcome {
    let Request { engine, worker, session, args, .. } = request;
    let blocked = session.blocked.is_some();
    // A blocked command is counted when it is answered.
    if !blocked {
        let nanos = held.end.nanos_since(worker.boundary);
        count(engine, worker.context.slot, command, nanos, failed);
        let cost = Cost { nanos, reply_bytes: 0 };
        engine.telemetry.hot_keys.note(&mut worker.context, command, args, cost);
        report::log(engine, session, command, args, cost);
    }
    session.record.last_command.store(command.id + 1, Relaxed);
    blocking::serve_later(engine, worker, held.later);
    // Serving and reading may have found expired keys.
    worker.context.follow_up.set(true);
    follow_up(engine, worker);
    worker.boundary = Ticks::now();
    if blocked { Outcome::Blocked } else { Outcome::Done }
}

/// Removes expired keys that reads have found, and serves clients waiting for keys that expiry or
/// eviction changed. No lock may be held.
pub fn follow_up(engine: &Engine, worker: &mut Worker) {
    while worker.context.follow_up.replace(false) {
        if !worker.context.stale.get_mut().is_empty() {
            remove_stale(engine, worker);
        }
        blocking::serve_later(engine, worker, Later::default());
        engine.trackers.flush_invalidations(&mut worker.context, None);
    }
}

/// Removes expired keys that a read found; the read held their shards shared only.
#[cold]
fn remove_stale(engine: &Engine, worker: &mut Worker) {
    let stale = std::mem::take(worker.context.stale.get_mut());
    let paused = engine.attention.get() & PAUSED != 0;
    for Stale { db, key, missed } in stale {
        if !paused {
            engine.keyspace.expire_key(&mut worker.context, db, worker.now_ms, &key);
        }
        if missed && engine.keyspace.wants(KEY_MISS.class) {
            engine.keyspace.tell_event(worker.context.slot, db, KEY_MISS, &key, None);
        }
    }
}

/// Runs commands with several keys, with none, or with a wider scope.
fn run_wide(request: &mut Request<'_>, command: &Command) -> (bool, Option<FollowUp>) {
    if is_exec(command) {
        return exec(request, command);
    }
    let (engine, args, db) = (request.engine, request.args, request.session.db);
    let mut keys = SmallVec::<[KeyRef<'_>; 8]>::new();
    let locks = match command.spec.scope_of(args) {
        Scope::Keys => {
            collect_keys(engine, command.spec, args, &mut keys);
            if keys.len() > 1 {
                if engine.keyspace.is_by_slot() && !slots::are_of_one(&engine.keyspace, &keys) {
                    // The checks refuse it.
                    request.worker.context.outdated = true;
                    return (true, None);
                }
                Txn::prefetch(&engine.keyspace, db, &keys);
            }
            LockSet::Keys(&keys)
        }
        Scope::Walk => LockSet::Keys(&[]),
        Scope::AllKeys => LockSet::AllShared,
        Scope::World => match world_for(request, command) {
            Some(world) => world,
            None if request.worker.context.outdated => return (true, None),
            None => {
                let line = busy(engine).line().into_owned();
                engine.telemetry.threads[request.slot()].count_error(&line);
                request.reply.error_bytes(&line);
                return (true, None);
            }
        },
    };
    run_under(request, command, locks)
}

/// Stops the world for a request, see [`LockSet::world`].
fn world_for<'r>(request: &mut Request<'r>, command: &Command) -> Option<LockSet<'r>> {
    let Request { engine, worker, session, args, .. } = request;
    let (queue, now_ms) = (session.transaction.queue.as_deref(), worker.now_ms);
    let admission = AdmissionContext { engine, session, queue, command, args, now_ms };
    LockSet::world(&engine.keyspace, &mut worker.context, || admission.is_outdated())
}

/// Collects the lock set of a request.
fn collect_keys<'a>(engine: &Engine, spec: &Spec, args: &[&'a [u8]], out: &mut SmallVec<[KeyRef<'a>; 8]>) {
    if spec.keys.is_empty() && spec.key_finder.is_none() {
        return;
    }
    let exclusive = spec.locks_exclusively.is_some_and(|locks| locks(args));
    for at in keys::find(spec, args).into_iter().flatten() {
        let key = args[at.index];
        let write = exclusive || !at.flags.has(braid_spec::KeyFlags::RO);
        out.push(KeyRef { key, hash: engine.keyspace.hash(key), write });
    }
}
