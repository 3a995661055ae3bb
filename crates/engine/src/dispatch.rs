//! The dispatcher: from a request to its reply.
//!
//! HOT PATH: no allocation, no lock but the shards' own, no logging, no system call, for commands without special needs.
//!
//! [`prepare`] finds the command and hashes its first key, so that the loop can fetch what a whole batch will touch into the
//! cache before the first body runs. [`execute`] checks, takes the locks, runs the body and counts.

mod journal;
pub mod logging;
mod reach;
pub(crate) mod replay;
pub mod script;
pub mod tentative;

pub(crate) use journal::Before;
pub use reach::{Reach, reach, reach_of};

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::blob::Blob;
use braid_base::clock::Ticks;
use braid_config::ProtectedAction;
use braid_keyspace::entry::{Entry, ValueRef};
use braid_keyspace::events::KEY_MISS;
use braid_keyspace::txn::{KeyRef, Optimistic, State, Txn};
use braid_keyspace::{Context, txn};
use braid_resp::reply::{Mark, ReplyBuffer};
use smallvec::SmallVec;

use crate::acl::{self, log::Origin};
use crate::attention::{
    APPEND_ONLY_FAILED, JOURNAL_FULL, LOADING, MEMORY_LIMIT, MONITORS, PAUSED, SNAPSHOT_FULL, STOPPING,
    WRITES_REFUSED,
};
use crate::blocking::{self, Later};
use crate::call::Call;
use crate::client::client_flags;
use crate::engine::Engine;
use crate::error::CommandError;
use crate::hot_copies::{Found, HotCopies};
use crate::hot_keys::{self, HotKeys};
use crate::keys;
use crate::memory::{Room, make_room};
use crate::monitor;
use crate::pause::PauseMode;
use crate::session::{ReplyMode, Session, Watched, session_attention};
use crate::spec::{Flags, Scope, Spec};
use crate::table::Command;
use crate::tracking;
use crate::transaction::Queued;
use logging::Cost;

/// An executing thread's own state.
pub struct Worker {
    pub context: Context,
    /// End of the last command (and so the start of the next one in the same batch).
    boundary: Ticks,
    /// Wall clock of the batch, ms.
    now_ms: i64,
    hot_keys: Arc<HotKeys>,
    /// Of `hot_keys`, as last seen.
    hot_version: u64,
    /// Long values that this thread reads again and again.
    pub copies: HotCopies,
}

impl Worker {
    /// The worker of one thread.
    pub fn new(context: Context, hot_keys: Arc<HotKeys>) -> Worker {
        let (boundary, now_ms) = (Ticks::now(), braid_base::clock::unix_ms());
        // No version: the first batch looks.
        Worker { context, boundary, now_ms, hot_keys, hot_version: u64::MAX, copies: HotCopies::default() }
    }

    /// Reads the clocks; called at the start of a batch, inside the gate.
    #[inline]
    pub fn begin_batch(&mut self) {
        self.now_ms = braid_base::clock::unix_ms();
        self.boundary = Ticks::now();
        let version = self.hot_keys.version();
        if version != self.hot_version {
            self.hot_version = version;
            self.hot_keys.follow(&mut self.context);
        }
    }

    /// Answers with this thread's copy of a long value, which is made if the value is read often. False, with nothing done, if there is none.
    #[inline(never)]
    fn read_copy(
        &mut self,
        engine: &Engine,
        db: u32,
        reply: &mut ReplyBuffer,
        key: &KeyRef<'_>,
        state: State,
    ) -> bool {
        match self.copies.find(db, key, state) {
            Found::Copy(copy) => reply.bulk_blob(copy),
            Found::Nothing => return false,
            Found::Wanted => {
                let keys = [*key];
                let txn = Txn::lock(&engine.keyspace, &mut self.context, db, self.now_ms, &keys);
                let Some(ValueRef::Blob(value)) = txn.peek(key.key).map(Entry::value) else { return false };
                let Some(state) = txn.state(key.key) else { return false };
                match self.copies.keep(db, key, state, value) {
                    Some(copy) => reply.bulk_blob(copy),
                    None => return false,
                }
            }
        }
        engine.keyspace.count_read(&self.context, db, key);
        true
    }

    /// When the last command ended, or the batch began.
    #[inline]
    pub fn boundary(&self) -> Ticks {
        self.boundary
    }

    /// The time of the present batch, ms since the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }
}

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
/// Two words that are handed on in registers: with a field more they went through the memory, where the processor waits for
/// small stores to arrive before it reads them together.
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

/// As [`prepare`], for a request whose arguments are not listed yet: `argument` gives one of them, if there is one.
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

/// Whether nothing is on, and a user who may not do everything may do this, as far as a look at one key tells.
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
            outcome = run(engine, worker, session, reply, command, prepared.hash, args, blobs);
            session.attention &= !session_attention::LOCKS;
            if attention & MONITORS != 0 && is_exec(command) {
                monitor::tell(engine, worker.context.slot, session, command, args);
            }
        }
    }
    if let Some(tracking) = &mut session.tracking
        && tracking.caching
        && session.queue.is_none()
        && !is_part_of_client(engine, command)
    {
        tracking.caching = false;
    }
    let mark = if command.spec.replies_with_pushes() && !session.in_multi() { reply.mark() } else { mark };
    finish_reply(session, reply, mark);
    if session.hears() {
        // What its own command has caused to be sent to it follows the reply.
        engine.hub.claim(session, reply);
    }
    outcome
}

fn is_exec(command: &Command) -> bool {
    command.spec.name == "exec" && command.parent.is_none()
}

/// CLIENT CACHING is for the next command, and subcommands of CLIENT do not count.
fn is_part_of_client(engine: &Engine, command: &Command) -> bool {
    command.parent.is_some_and(|parent| engine.commands.get(parent).spec.name == "client")
}

/// Before a command of a client that tracks, or of which others are told, is run: sees to it that [`finish_held`] follows. Returns
/// where the command's own reply begins.
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
        monitor::tell_always(engine, worker.context.slot, session, command, args);
    }
    if attention & MEMORY_LIMIT != 0 && session.attention & session_attention::TRACKS != 0 {
        // Of keys that were evicted for the command the client is told before the reply.
        engine.hub.claim(session, reply);
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
    let runnable = command.spec.handler.is_some();
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

/// True if the command has to wait because clients are paused.
fn is_held_back(
    engine: &Engine,
    worker: &Worker,
    session: &Session,
    command: &Command,
    args: &[&[u8]],
    attention: u64,
) -> bool {
    if attention & (PAUSED | STOPPING) == 0 {
        return false;
    }
    if attention & STOPPING != 0 {
        return true;
    }
    match engine.pause.current(worker.now_ms) {
        None => false,
        Some((PauseMode::All, _)) => {
            // A client must be able to end the pause that it is under.
            !(session.authenticated && command.full_name == "client|unpause")
        }
        Some((PauseMode::Write, _)) => {
            if command.spec.name == "exec" {
                session.queue.as_ref().is_some_and(|queue| {
                    let writes = |queued: &Queued| {
                        may_write(engine, engine.commands.get(queued.command), &queued.args())
                    };
                    queue.commands.iter().any(writes)
                })
            } else {
                session.queue.is_none() && may_write(engine, command, args)
            }
        }
    }
}

/// Whether a request may write, or send something that replicas have to be told of.
fn may_write(engine: &Engine, command: &Command, args: &[&[u8]]) -> bool {
    let spec = command.spec;
    spec.flags.any(Flags::WRITE | Flags::MAY_REPLICATE)
        && spec.may_write.is_none_or(|test| test(engine, args))
}

/// Whether the command goes into the transaction's queue.
fn queues(session: &Session, command: &Command) -> bool {
    let immediate = ["exec", "discard", "multi", "watch", "quit", "reset"];
    session.in_multi() && !(command.parent.is_none() && immediate.contains(&command.spec.name))
}

/// What a client that writes is told while the dataset cannot be saved, in the words that clients know.
const SAVE_FAILED: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify \
     the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails \
     (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error.";

/// What a client is told while the dataset is loaded, in the words that clients know.
const LOADING_REFUSAL: &str = "LOADING Redis is loading the dataset in memory";

fn check(
    engine: &Engine,
    worker: &mut Worker,
    session: &mut Session,
    command: &Command,
    args: &[&[u8]],
    attention: u64,
) -> Result<(), CommandError> {
    let flags = command.spec.flags;
    engine.refresh_user(session);
    if flags.has(Flags::PROTECTED) {
        check_protected(engine, session, command)?;
    }
    check_rights(engine, session, command, args)?;
    if session.attention & session_attention::LISTENS != 0 {
        check_listening(session, command)?;
    }
    if session.attention & session_attention::MONITORS != 0
        && flags.any(Flags::READONLY | Flags::WRITE | Flags::MAY_REPLICATE)
    {
        return Err(CommandError::text("ERR Replica can't interact with the keyspace"));
    }
    if attention & LOADING != 0 {
        // Nothing is evicted meanwhile: what is loaded fitted before.
        return if flags.has(Flags::LOADING) { Ok(()) } else { Err(CommandError::text(LOADING_REFUSAL)) };
    }
    if attention & (WRITES_REFUSED | SNAPSHOT_FULL | APPEND_ONLY_FAILED | JOURNAL_FULL) != 0 {
        check_disk(engine, worker, session, command, attention)?;
    }
    if attention & MEMORY_LIMIT != 0 {
        // Every command gives eviction a slice, so that reads help to get below the limit too.
        let room = make_room(engine, worker, worker.now_ms);
        if worker.context.outside {
            return Err(busy(engine));
        }
        follow_up(engine, worker);
        session.out_of_memory = room == Room::None;
        let needs = flags.has(Flags::DENYOOM)
            || (command.spec.name == "exec" && queue_has(engine, session, Flags::DENYOOM));
        if room == Room::None && needs {
            return Err(CommandError::text("OOM command not allowed when used memory > 'maxmemory'."));
        }
    }
    Ok(())
}

/// Whether the client may send this command, and send it now.
fn check_rights(
    engine: &Engine,
    session: &Session,
    command: &Command,
    args: &[&[u8]],
) -> Result<(), CommandError> {
    let flags = command.spec.flags;
    if engine.must_log_in(session) && !flags.has(Flags::NO_AUTH) {
        return Err(CommandError::text("NOAUTH Authentication required."));
    }
    if session.in_multi() && flags.has(Flags::NO_MULTI) {
        return Err(CommandError::text("ERR Command not allowed inside a transaction"));
    }
    let origin = if session.in_multi() { Origin::Transaction } else { Origin::TopLevel };
    engine
        .check_access(session, command, args, origin, (command, args))
        .map_err(|denied| acl::refusal(denied, &session.user, command))
}

/// A client that listens and speaks RESP2 could not tell replies from messages: only few commands are left to it.
#[cold]
fn check_listening(session: &Session, command: &Command) -> Result<(), CommandError> {
    let allowed =
        ["ping", "quit", "reset"].contains(&command.spec.name) || command.spec.replies_with_pushes();
    if allowed || !session.record.speaks_resp2() {
        return Ok(());
    }
    Err(CommandError::text(format!(
        "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
        command.full_name
    )))
}

/// The error while a script has stopped the world for long.
fn busy(engine: &Engine) -> CommandError {
    let text = crate::busy::Kind::Script.busy_error();
    engine.busy.error().unwrap_or(CommandError::text(text))
}

/// What a request may do while a script has stopped the world for long: nearly nothing, and nothing with keys. The thread is outside of the
/// gate.
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
            let allowed = flags.has(Flags::ALLOW_BUSY);
            let ends_watches = ["discard", "reset", "quit"].contains(&command.spec.name);
            let watches = ["watch", "unwatch"].contains(&command.spec.name)
                || (ends_watches && !session.watched.is_empty());
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
                let mut txn =
                    Txn::lock(&engine.keyspace, &mut worker.context, session.db, worker.now_ms, &[]);
                let failed = body(engine, session, reply, command, args, &[], &mut txn, true);
                drop(txn);
                count(engine, worker.context.slot, command, 0, failed);
                if engine.attention.get() & MONITORS != 0 {
                    monitor::tell(engine, worker.context.slot, session, command, args);
                }
                session.record.last_command.store(command.id + 1, Relaxed);
            } else if let Some(error) = engine.busy.any_error() {
                if command.spec.name == "exec" && session.queue.is_some() {
                    abort_exec(engine, worker, session, reply, &error);
                } else {
                    refuse(engine, worker, session, reply, Some(command), &error);
                }
            } else {
                // It has just ended.
                session.record.send(crate::client::Message::Resume);
                return Outcome::Postponed;
            }
        }
    }
    finish_reply(session, reply, mark);
    Outcome::Done
}

/// Gives EXEC up because of a script that has stopped the world. The watches end with the next transaction or UNWATCH: to take them away
/// needs keys.
fn abort_exec(
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

/// Commands that could take the server over are off unless the operator has allowed them.
#[cold]
fn check_protected(engine: &Engine, session: &Session, command: &Command) -> Result<(), CommandError> {
    let container = command.parent.map_or(command, |parent| engine.commands.get(parent)).spec.name;
    let allowed = match container {
        "module" => engine.config.enable_module_command(),
        _ => engine.config.enable_debug_command(),
    };
    let allowed = match allowed {
        ProtectedAction::Yes => true,
        ProtectedAction::Local => session.record.is_local(),
        ProtectedAction::No => false,
    };
    if allowed {
        return Ok(());
    }
    Err(CommandError::text(format!(
        "ERR {} command not allowed. If the enable-{container}-command option is set to \"local\", you can run it from a local \
         connection, otherwise you need to set this option in the configuration file, and then restart the server.",
        container.to_ascii_uppercase()
    )))
}

/// While the dataset cannot be saved nothing is written; while a snapshot is behind, whoever writes waits for it.
#[cold]
fn check_disk(
    engine: &Engine,
    worker: &mut Worker,
    session: &Session,
    command: &Command,
    attention: u64,
) -> Result<(), CommandError> {
    let refusable = command.spec.flags.has(Flags::WRITE)
        || command.spec.name == "ping"
        || (command.spec.name == "exec" && queue_has(engine, session, Flags::WRITE));
    if refusable && let Some(error) = disk_refusal(engine) {
        return Err(error);
    }
    if attention & JOURNAL_FULL != 0 && (refusable || command.runs_scripts) {
        engine.wait_for_journal(&mut worker.context);
        if worker.context.outside {
            return Err(busy(engine));
        }
    }
    if attention & SNAPSHOT_FULL != 0 && (refusable || command.runs_scripts) {
        engine.wait_for_snapshot(&mut worker.context);
        if worker.context.outside {
            return Err(busy(engine));
        }
    }
    Ok(())
}

/// Why nothing may be written at present, if the dataset cannot be saved or changes cannot be written to the append-only file.
#[inline]
fn disk_refusal(engine: &Engine) -> Option<CommandError> {
    let attention = engine.attention.get();
    if attention & WRITES_REFUSED != 0 {
        return Some(CommandError::text(SAVE_FAILED));
    }
    (attention & APPEND_ONLY_FAILED != 0).then(|| engine.append_only.refusal())
}

/// True if any command that waits for EXEC has one of these flags.
fn queue_has(engine: &Engine, session: &Session, flags: Flags) -> bool {
    session.queue.as_ref().is_some_and(|queue| {
        queue.commands.iter().any(|queued| engine.commands.get(queued.command).spec.flags.any(flags))
    })
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
    if command.is_some_and(|command| command.spec.name == "exec") {
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
            let mut txn = Txn::lock(&engine.keyspace, &mut worker.context, session.db, worker.now_ms, &keys);
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
    hot_keys::note(engine, &mut worker.context, command, args, cost);
    if logging::is_noteworthy(engine, cost, blobs.len()) {
        logging::note(engine, session, command, args, cost);
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
    if engine.attention.get() & MONITORS != 0 && !is_exec(command) {
        monitor::tell(engine, txn.context.slot, session, command, args);
    }
    if session.attention & session_attention::TRACKS != 0 {
        tracking::remember(engine, session, txn, command, args);
    }
    tracking::settle(engine, txn.context, Some(session.id()));
    if let Some(blocked) = &session.blocked {
        // Once the locks are released its waiter may be served, and this is counted.
        blocked.note_nanos(end.nanos_since(start));
        blocked.show();
    }
    blocking::serve_held(engine, txn, &mut later);
    // What those who were served have changed is news to everybody.
    tracking::settle(engine, txn.context, None);
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
        hot_keys::note(engine, &mut worker.context, command, args, cost);
        logging::note(engine, session, command, args, cost);
    }
    session.record.last_command.store(command.id + 1, Relaxed);
    blocking::serve_later(engine, worker, held.later);
    // Serving and reading may have found keys past their expiry.
    worker.context.follow_up.set(true);
    follow_up(engine, worker);
    worker.boundary = Ticks::now();
    if blocked { Outcome::Blocked } else { Outcome::Done }
}

/// Removes keys that reads have found past their expiry, and serves the clients that wait for keys that were changed outside of commands
/// (by expiry, by eviction). No lock may be held.
pub fn follow_up(engine: &Engine, worker: &mut Worker) {
    while worker.context.follow_up.replace(false) {
        if !worker.context.stale.get_mut().is_empty() {
            remove_stale(engine, worker);
        }
        blocking::serve_later(engine, worker, Later::default());
        tracking::settle(engine, &mut worker.context, None);
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
        Optimistic::Large(state) => return worker.read_copy(engine, session.db, reply, key, state),
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
        keyspace.set_touches(command.spec.name == "touch");
    }
    let mark = reply.mark();
    let handler = command.spec.handler.expect("containers are resolved to their subcommands");
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
    if spec.name == "exec" && command.parent.is_none() {
        return exec(engine, worker, session, reply, (command, args));
    }
    let (db, now) = (session.db, worker.now_ms);
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
        let write = exclusive || !at.flags.has(crate::spec::KeyFlags::RO);
        out.push(KeyRef { key, hash: engine.keyspace.hash(key), write });
    }
}

/// EXEC: all queued commands under the union of their lock sets.
fn exec(
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
    let (now, start) = (worker.now_ms, worker.boundary);
    let requests: Vec<(&Command, Vec<&[u8]>)> =
        queue.commands.iter().map(|queued| (engine.commands.get(queued.command), queued.args())).collect();
    let watched: Vec<Watched> = std::mem::take(&mut session.watched);
    // SELECT within the transaction moves the commands after it; keys of all databases of one hash share a lock.
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
    session.deny_blocking = true;
    for ((command, args), bounds) in requests.iter().zip(bounds) {
        txn.set_db(session.db);
        txn.set_keys(&keys[bounds]);
        run_queued(engine, session, reply, command, args, &mut txn, current);
    }
    session.deny_blocking = false;
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
        monitor::tell_always(engine, slot, session, command, args);
    }
    let (start, reply_start) = (Ticks::now(), reply.len());
    let failed = body(engine, session, reply, command, args, &[], keyspace, false);
    let nanos = Ticks::now().nanos_since(start);
    count(engine, slot, command, nanos, failed);
    if engine.attention.get() & MONITORS != 0 {
        monitor::tell(engine, slot, session, command, args);
    }
    if session.attention & session_attention::TRACKS != 0 {
        tracking::remember(engine, session, keyspace, command, args);
    }
    let cost = Cost { nanos, reply_bytes: reply.len().saturating_sub(reply_start) };
    hot_keys::note(engine, keyspace.context, command, args, cost);
    if logging::is_noteworthy(engine, cost, 0) {
        logging::note(engine, session, command, args, cost);
    }
}

/// Counts an executed command.
#[inline]
pub(crate) fn count(engine: &Engine, slot: usize, command: &Command, nanos: u64, failed: bool) {
    let stats = engine.command_stats(slot, command.id);
    stats.calls.add(1);
    stats.nanos.add(nanos);
    engine.threads[slot].executed.add(1);
    if failed {
        stats.failed.add(1);
    }
    if engine.config.latency_tracking() {
        stats.latency.get_or_init(Box::default).record(nanos);
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
