// SPDX-License-Identifier: BSD-3-Clause
//! The dispatcher: from a request to its reply.
//!
//! HOT PATH: no allocation, no lock but the shards' own, no logging, no system call, for commands
//! without special needs.
//!
//! [`prepare`] finds the command and hashes its first key, so that the loop can fetch what a whole
//! batch will touch into the cache before the first body runs. [`execute`] checks, takes the locks,
//! runs the body and counts.

mod checks;
pub(crate) mod journal;
mod reach;
pub(crate) mod replay;
pub(crate) mod report;
pub mod script;
pub mod tentative;
mod transaction;

pub use braid_spec::Reach;
pub(crate) use journal::{Before, note_unit};
pub use reach::{reach, reach_of};
use report::count;
pub use transaction::{discard, unwatch_all};

use std::sync::atomic::Ordering::Relaxed;

use braid_base::blob::Blob;
use braid_base::clock::Ticks;
use braid_keyspace::events::KEY_MISS;
use braid_keyspace::txn::{KeyRef, NOTHING_EXPIRED, Optimistic, Txn};
use braid_resp::reply::{Mark, ReplyBuffer};
use smallvec::SmallVec;

use crate::blocking;
use crate::blocking::state::Later;
use crate::engine::Engine;
use crate::engine::call::Call;
use crate::session::{ReplyMode, Session, session_attention};
use crate::transaction::Queued;
pub use crate::worker::Worker;
use braid_clients::attention::{LOADING, MEMORY_LIMIT, MONITORS, PAUSED};
use braid_spec::Command;
use braid_spec::CommandError;
use braid_spec::keys;
use braid_spec::spec::Spec;
use braid_spec::{Behavior, Flags, Scope};
use braid_telemetry::Cost;
use checks::{LOADING_REFUSAL, busy, check, check_rights, is_held_back, queues};

use transaction::{abort_exec, exec};

/// What the loop does after a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Go on with the client's next request.
    Done,
    /// The command has not run: keep it, and the client's following requests, until the client is resumed.
    Postponed,
    /// The command has run and waits: keep the client's following requests until it is answered.
    Blocked,
}

/// What [`prepare`] found out about a request.
///
/// Two words that are handed on in registers: with a field more they went through the memory, where
/// the processor waits for small stores to arrive before it reads them together.
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

    /// The id of the command, if there is one of that name.
    #[inline]
    pub fn command(self) -> Option<u32> {
        (!self.is_unknown()).then_some(self.command & !Prepared::RUNS_SCRIPTS)
    }

    /// There is no such command.
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

/// As [`prepare`], for a request whose arguments are not listed yet: `argument` gives one of them,
/// if there is one.
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

/// Runs one request for a client and writes its reply.
#[inline]
pub fn execute(
    engine: &Engine,
    worker: &mut Worker,
    session: &mut Session,
    reply: &mut ReplyBuffer,
    prepared: Prepared,
    args: &[&[u8]],
    blobs: &[Blob],
) -> Outcome {
    let attention = engine.attention.word();
    if let Some(id) = prepared.command() {
        let command = engine.commands.get(id);
        let ordinary = command.plain
            && session.queue.is_none()
            && session.attention == 0
            && command.spec.arity.allows(args.len());
        if ordinary && (attention == session.calm || is_quickly_allowed(session, command, args, attention)) {
            return run(engine, worker, session, reply, command, prepared.hash, args, blobs);
        }
    }
    let attention = engine.attention.get();
    execute_checked(engine, worker, session, reply, prepared, args, blobs, attention)
}

/// Whether nothing is on, and a user who may not do everything may do this, as far as a look at one
/// key tells.
#[inline(never)]
fn is_quickly_allowed(session: &Session, command: &Command, args: &[&[u8]], attention: u64) -> bool {
    attention == session.generation && session.authenticated && session.user.allows_quickly(command, args)
}

/// The way of a request that needs more than the ordinary checks.
#[expect(clippy::too_many_arguments, reason = "the parts are owned by different structures of the loop")]
fn execute_checked(
    engine: &Engine,
    worker: &mut Worker,
    session: &mut Session,
    reply: &mut ReplyBuffer,
    prepared: Prepared,
    args: &[&[u8]],
    blobs: &[Blob],
    attention: u64,
) -> Outcome {
    let mut mark = reply.mark();
    let command = match resolve(engine, prepared, args) {
        Ok(command) => command,
        Err(error) => {
            refuse(engine, worker, session, reply, named(engine, prepared, args), &error);
            finish_reply(session, reply, mark);
            session.forget_precomputed();
            return Outcome::Done;
        }
    };
    if is_held_back(engine, worker, session, command, args, attention) {
        return Outcome::Postponed;
    }
    let mut outcome = Outcome::Done;
    match check(engine, worker, session, command, args, attention) {
        Err(error) => refuse(engine, worker, session, reply, Some(command), &error),
        Ok(()) if queues(session, command) => {
            let queued = Queued::new(command.id, args);
            if let Some(queue) = &mut session.queue {
                queue.push(queued);
                session.record.last_command.store(command.id + 1, Relaxed);
                session.record.multi_count.store(queue.commands.len() as i64, Relaxed);
                session.record.multi_bytes.store(queue.memory_bytes, Relaxed);
            }
            reply.simple("QUEUED");
        }
        Ok(()) => {
            if attention & MONITORS != 0 || session.attention & session_attention::TRACKS != 0 {
                mark = begin_watched(engine, worker, session, reply, command, args, attention, mark);
            }
            if let Some(precomputed) = &session.precomputed {
                // The work done in the background counts as the command's.
                worker.boundary = precomputed.began;
            }
            outcome = run(engine, worker, session, reply, command, prepared.hash, args, blobs);
            session.attention &= !session_attention::LOCKS;
            if attention & MONITORS != 0 && is_exec(command) {
                report::monitor(engine, worker.context.slot, session, command, args);
            }
        }
    }
    if let Some(tracking) = &mut session.listener.tracking
        && tracking.caching
        && session.queue.is_none()
        && !command.behavior.has(Behavior::KEEPS_CACHING)
    {
        tracking.caching = false;
    }
    session.forget_precomputed();
    let mark = if command.spec.replies_with_pushes() && !session.in_multi() { reply.mark() } else { mark };
    finish_reply(session, reply, mark);
    if session.hears() {
        // What its own command has caused to be sent to it follows the reply.
        engine.hub.claim(&mut session.listener, reply);
    }
    outcome
}

fn is_exec(command: &Command) -> bool {
    command.behavior.has(Behavior::EXECUTES_QUEUE)
}

/// Before a command of a client that tracks, or of which others are told, is run: sees to it that
/// [`finish_held`] follows. Returns where the command's own reply begins.
#[cold]
#[expect(clippy::too_many_arguments, reason = "the parts are owned by different structures of the loop")]
fn begin_watched(
    engine: &Engine,
    worker: &mut Worker,
    session: &mut Session,
    reply: &mut ReplyBuffer,
    command: &Command,
    args: &[&[u8]],
    attention: u64,
    mark: Mark,
) -> Mark {
    worker.context.follow_up.set(true);
    session.attention |= session_attention::LOCKS;
    if attention & MONITORS != 0 && command.runs_scripts && !is_exec(command) {
        report::monitor_always(engine, worker.context.slot, session, command, args);
    }
    if attention & MEMORY_LIMIT != 0 && session.attention & session_attention::TRACKS != 0 {
        // Of keys that were evicted for the command the client is told before the reply.
        engine.hub.claim(&mut session.listener, reply);
        return reply.mark();
    }
    mark
}

/// Drops the reply if the client wants none.
fn finish_reply(session: &mut Session, reply: &mut ReplyBuffer, mark: Mark) {
    match session.reply_mode {
        ReplyMode::On => {}
        ReplyMode::Off => reply.truncate(mark),
        ReplyMode::SkipNext => {
            reply.truncate(mark);
            session.set_reply_mode(ReplyMode::Skip);
        }
        ReplyMode::Skip => {
            reply.truncate(mark);
            session.set_reply_mode(ReplyMode::On);
        }
    }
}

/// What of an argument is shown in an error: at most `max` bytes, up to a NUL.
fn printable(bytes: &[u8], max: usize) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(max)];
    &bytes[..bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len())]
}

/// The command of a request with the right number of arguments, or the error.
fn resolve<'e>(engine: &'e Engine, prepared: Prepared, args: &[&[u8]]) -> Result<&'e Command, CommandError> {
    let Some(id) = prepared.command() else {
        const SHOWN: usize = 128;
        let mut given = Vec::new();
        for arg in args.iter().skip(1) {
            if given.len() >= SHOWN {
                break;
            }
            let shown = printable(arg, SHOWN - given.len());
            given.extend_from_slice(&[b"'", shown, b"' "].concat());
        }
        let name = printable(args[0], SHOWN);
        let line = [b"ERR unknown command '", name, b"', with args beginning with: ", &given].concat();
        return Err(CommandError::Bytes(line));
    };
    let mut command = engine.commands.get(id);
    if !command.subcommands.is_empty()
        && let Some(name) = args.get(1)
    {
        match engine.commands.find_subcommand(command, name) {
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

/// The command or subcommand that a request names, whatever its number of arguments.
fn named<'e>(engine: &'e Engine, prepared: Prepared, args: &[&[u8]]) -> Option<&'e Command> {
    let command = engine.commands.get(prepared.command()?);
    match args.get(1) {
        Some(name) if !command.subcommands.is_empty() => engine.commands.find_subcommand(command, name),
        _ => Some(command),
    }
}

/// What a request may do while a script has stopped the world for long: nearly nothing, and nothing
/// with keys. The thread is outside of the gate.
pub fn execute_outside(
    engine: &Engine,
    worker: &mut Worker,
    session: &mut Session,
    reply: &mut ReplyBuffer,
    prepared: Prepared,
    args: &[&[u8]],
) -> Outcome {
    let mark = reply.mark();
    let resolved = resolve(engine, prepared, args);
    match resolved {
        Err(error) => refuse(engine, worker, session, reply, named(engine, prepared, args), &error),
        Ok(command) => {
            let flags = command.spec.flags;
            // Before the script is busy nobody is to end the server because of it.
            let is_early = engine.busy.is_any() && engine.busy.any_error().is_none();
            let allowed = flags.has(Flags::ALLOW_BUSY) && !(is_early && flags.has(Flags::ADMIN));
            let behavior = command.behavior;
            let watches = behavior.has(Behavior::CHANGES_WATCHES)
                || (behavior.has(Behavior::DROPS_WATCHES) && !session.watched.is_empty());
            engine.refresh_user(session);
            if let Err(error) = check_rights(engine, session, command, args) {
                refuse(engine, worker, session, reply, Some(command), &error);
            } else if engine.attention.get() & LOADING != 0 && !flags.has(Flags::LOADING) {
                // The script is one of the append-only file.
                let error = CommandError::text(LOADING_REFUSAL);
                refuse(engine, worker, session, reply, Some(command), &error);
            } else if allowed && watches {
                // What is watched stands with the keys: the script has them.
                return Outcome::Postponed;
            } else if allowed {
                let now = time_of(engine, worker, session);
                let mut txn = Txn::lock(&engine.keyspace, &mut worker.context, session.db, now, &[]);
                let failed = body(engine, session, reply, command, args, &[], &mut txn, true);
                drop(txn);
                count(engine, worker.context.slot, command, 0, failed);
                if engine.attention.get() & MONITORS != 0 {
                    report::monitor(engine, worker.context.slot, session, command, args);
                }
                session.record.last_command.store(command.id + 1, Relaxed);
            } else if let Some(error) = engine.busy.any_error() {
                if is_exec(command) && session.queue.is_some() {
                    abort_exec(engine, worker, session, reply, &error);
                } else {
                    refuse(engine, worker, session, reply, Some(command), &error);
                }
            } else {
                // It is not busy yet, and says when it is, or it has just ended.
                if !engine.busy.is_any() {
                    session.record.send(braid_clients::Message::Resume);
                }
                return Outcome::Postponed;
            }
        }
    }
    session.forget_precomputed();
    finish_reply(session, reply, mark);
    Outcome::Done
}

/// Replies with an error before execution.
#[cold]
fn refuse(
    engine: &Engine,
    worker: &mut Worker,
    session: &mut Session,
    reply: &mut ReplyBuffer,
    command: Option<&Command>,
    error: &CommandError,
) {
    let line = error.line();
    let slot = worker.context.slot;
    if let Some(command) = command {
        engine.command_stats(slot, command.id).rejected.add(1);
    }
    engine.threads[slot].count_error(&line);
    if let Some(queue) = &mut session.queue {
        queue.broken = true;
    }
    // EXEC itself refused ends the transaction.
    if command.is_some_and(is_exec) {
        let reason = line.strip_prefix(b"ERR ").unwrap_or(&line);
        reply.error_bytes(&[b"EXECABORT Transaction discarded because of: ", reason].concat());
        discard(engine, &mut worker.context, session);
        return;
    }
    reply.error_bytes(&line);
}

/// Runs a command that has passed all checks.
#[expect(clippy::too_many_arguments, reason = "the parts are owned by different structures of the loop")]
#[inline]
fn run(
    engine: &Engine,
    worker: &mut Worker,
    session: &mut Session,
    reply: &mut ReplyBuffer,
    command: &Command,
    hash: u64,
    args: &[&[u8]],
    blobs: &[Blob],
) -> Outcome {
    let slot = worker.context.slot;
    let spec = command.spec;
    let reply_start = reply.len();
    let failed = if command.simple_keys.is_single() && spec.scope == Scope::Keys {
        let keys = [KeyRef { key: args[1], hash, write: command.simple_keys.writes }];
        if spec.optimistic && read_optimistic(engine, worker, session, reply, &keys[0]) {
            false
        } else {
            let now = time_of(engine, worker, session);
            let mut txn = Txn::lock(&engine.keyspace, &mut worker.context, session.db, now, &keys);
            let failed = body(engine, session, reply, command, args, blobs, &mut txn, true);
            if txn.context.follow_up.get() {
                let held = finish_held(engine, session, command, args, worker.boundary, &mut txn);
                drop(txn);
                return finish_later(engine, worker, session, command, args, failed, held);
            }
            failed
        }
    } else {
        match run_wide(engine, worker, session, reply, command, args, blobs) {
            (failed, None) => failed,
            (failed, Some(held)) => {
                return finish_later(engine, worker, session, command, args, failed, held);
            }
        }
    };
    let end = Ticks::now();
    let nanos = end.nanos_since(worker.boundary);
    worker.boundary = end;
    count(engine, slot, command, nanos, failed);
    session.record.last_command.store(command.id + 1, Relaxed);
    let cost = Cost { nanos, reply_bytes: reply.len().saturating_sub(reply_start) };
    engine.hot_keys.note(&mut worker.context, command, args, cost);
    if engine.logs.is_noteworthy(cost, blobs.len()) {
        report::log(engine, session, command, args, cost);
    }
    Outcome::Done
}

/// What is left to do for a command when its locks are released.
struct Held {
    /// When its body ended.
    end: Ticks,
    later: Later,
}

/// What a command has caused beyond its own work, as far as it is done under the command's locks.
#[cold]
fn finish_held(
    engine: &Engine,
    session: &mut Session,
    command: &Command,
    args: &[&[u8]],
    start: Ticks,
    txn: &mut Txn<'_>,
) -> Held {
    txn.context.follow_up.set(false);
    // Those who are served come after it.
    txn.journal_now();
    let (end, mut later) = (Ticks::now(), *session.later.take().unwrap_or_default());
    // Of one that runs again others were told when it ran first.
    let is_told = !is_exec(command) && session.attention & session_attention::RUNS_AGAIN == 0;
    if engine.attention.get() & MONITORS != 0 && is_told {
        report::monitor(engine, txn.context.slot, session, command, args);
    }
    if session.attention & session_attention::TRACKS != 0 {
        engine.trackers.remember(
            &session.listener,
            txn,
            command,
            args,
            engine.config.tracking_table_max_keys(),
        );
    }
    engine.trackers.settle(txn.context, Some(session.id()));
    if let Some(blocked) = &session.blocked {
        // Once the locks are released its waiter may be served, and this is counted.
        blocked.note_nanos(end.nanos_since(start));
        blocked.show();
    }
    blocking::serve_held(engine, txn, &mut later);
    // What those who were served have changed is news to everybody.
    engine.trackers.settle(txn.context, None);
    Held { end, later }
}

/// Counts a command that has caused something beyond its own work, and does what needs other locks.
#[cold]
fn finish_later(
    engine: &Engine,
    worker: &mut Worker,
    session: &Session,
    command: &Command,
    args: &[&[u8]],
    failed: bool,
    held: Held,
) -> Outcome {
    let blocked = session.blocked.is_some();
    // A command that waits is counted when it is answered.
    if !blocked {
        let nanos = held.end.nanos_since(worker.boundary);
        count(engine, worker.context.slot, command, nanos, failed);
        let cost = Cost { nanos, reply_bytes: 0 };
        engine.hot_keys.note(&mut worker.context, command, args, cost);
        report::log(engine, session, command, args, cost);
    }
    session.record.last_command.store(command.id + 1, Relaxed);
    blocking::serve_later(engine, worker, held.later);
    // Serving and reading may have found keys past their expiry.
    worker.context.follow_up.set(true);
    follow_up(engine, worker);
    worker.boundary = Ticks::now();
    if blocked { Outcome::Blocked } else { Outcome::Done }
}

/// Removes keys that reads have found past their expiry, and serves the clients that wait for keys
/// that were changed outside of commands (by expiry, by eviction). No lock may be held.
pub fn follow_up(engine: &Engine, worker: &mut Worker) {
    while worker.context.follow_up.replace(false) {
        if !worker.context.stale.get_mut().is_empty() {
            remove_stale(engine, worker);
        }
        blocking::serve_later(engine, worker, Later::default());
        engine.trackers.settle(&mut worker.context, None);
    }
}

/// Removes keys that a read found past their expiry. The read itself only held them shared.
#[cold]
fn remove_stale(engine: &Engine, worker: &mut Worker) {
    let stale = std::mem::take(worker.context.stale.get_mut());
    if engine.attention.get() & PAUSED != 0 {
        return;
    }
    for (db, key) in stale {
        engine.keyspace.expire_key(&mut worker.context, db, worker.now_ms, &key);
    }
}

/// GET without a lock. False if it has to be done under the lock.
#[inline]
fn read_optimistic(
    engine: &Engine,
    worker: &mut Worker,
    session: &Session,
    reply: &mut ReplyBuffer,
    key: &KeyRef<'_>,
) -> bool {
    if session.attention != 0 {
        return false;
    }
    let mark = reply.mark();
    let (context, now) = (&worker.context, worker.now_ms);
    match engine.keyspace.read_optimistic(context, session.db, now, key, |len| reply.bulk_reserve(len)) {
        Optimistic::Copied => {}
        Optimistic::Missing => {
            reply.truncate(mark);
            reply.null();
            if engine.keyspace.wants(KEY_MISS.class) {
                engine.keyspace.tell_event(context.slot, session.db, KEY_MISS, key.key, None);
            }
        }
        Optimistic::Integer(number) => reply.bulk_integer(number),
        Optimistic::Large(state) => return worker.read_copy(&engine.keyspace, session.db, reply, key, state),
        Optimistic::Failed => {
            reply.truncate(mark);
            return false;
        }
    }
    true
}

/// Runs the body; true if it ended with an error. `is_alone`: the locks are held for this command only.
#[expect(clippy::too_many_arguments, reason = "the parts are owned by different structures of the loop")]
#[inline]
fn body(
    engine: &Engine,
    session: &mut Session,
    reply: &mut ReplyBuffer,
    command: &Command,
    args: &[&[u8]],
    blobs: &[Blob],
    keyspace: &mut Txn<'_>,
    is_alone: bool,
) -> bool {
    let slot = keyspace.context.slot;
    if session.no_touch {
        keyspace.set_touches(command.behavior.has(Behavior::TOUCHES_ALWAYS));
    }
    let mark = reply.mark();
    let handler = engine.body_of(command);
    let before = Before::of(keyspace, command);
    let mut call = Call { engine, command, session, args, blobs, keyspace, reply };
    let result = handler(&mut call);
    if let Some(before) = before {
        before.journal(call.keyspace, call.session, args, is_alone);
    }
    if let Err(error) = result {
        // Whatever a body had written before it found the error is void.
        call.reply.truncate(mark);
        let line = error.line();
        call.reply.error_bytes(&line);
        if !matches!(error, CommandError::Counted(_)) {
            engine.threads[slot].count_error(&line);
        }
        return true;
    }
    false
}

/// The time by which keys have expired or not for a client's command. For the source of an import
/// nothing has.
#[inline]
fn time_of(engine: &Engine, worker: &Worker, session: &Session) -> i64 {
    if session.attention & session_attention::IMPORTS != 0
        && engine.keyspace.settings.keeps_expired.load(Relaxed)
    {
        return NOTHING_EXPIRED;
    }
    worker.now_ms
}

/// Commands with several keys, with none, or with a wider scope.
fn run_wide(
    engine: &Engine,
    worker: &mut Worker,
    session: &mut Session,
    reply: &mut ReplyBuffer,
    command: &Command,
    args: &[&[u8]],
    blobs: &[Blob],
) -> (bool, Option<Held>) {
    let spec = command.spec;
    if is_exec(command) {
        return exec(engine, worker, session, reply, (command, args));
    }
    let (db, now) = (session.db, time_of(engine, worker, session));
    let mut keys = SmallVec::<[KeyRef<'_>; 8]>::new();
    let keyspace = &engine.keyspace;
    let mut txn = match spec.scope_of(args) {
        Scope::Keys => {
            collect_keys(engine, spec, args, &mut keys);
            if keys.len() > 1 {
                Txn::prefetch(keyspace, db, &keys);
            }
            Txn::lock(keyspace, &mut worker.context, db, now, &keys)
        }
        Scope::Walk => Txn::lock(keyspace, &mut worker.context, db, now, &[]),
        Scope::AllKeys => Txn::lock_all_shared(keyspace, &mut worker.context, db, now),
        Scope::World => {
            let Some(world) = keyspace.stop_world(&mut worker.context) else {
                let line = busy(engine).line().into_owned();
                engine.threads[worker.context.slot].count_error(&line);
                reply.error_bytes(&line);
                return (true, None);
            };
            Txn::world(keyspace, &mut worker.context, world, db, now)
        }
    };
    let start = worker.boundary;
    let failed = body(engine, session, reply, command, args, blobs, &mut txn, true);
    let held =
        txn.context.follow_up.get().then(|| finish_held(engine, session, command, args, start, &mut txn));
    (failed, held)
}

/// The lock set of a request.
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
