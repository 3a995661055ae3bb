// SPDX-License-Identifier: BSD-3-Clause
//! Replays commands from an append-only file or a primary's stream: the bodies of clients'
//! commands, without checks and without replies.
//!
//! HOT PATH: as `dispatch.rs`. Its speed is the speed of a restart, and limits the write rate that
//! a replica can follow.
//!
//! The commands were checked when they first ran, so permissions, memory limits and pauses do not
//! apply. Only commands that change data run, and from a stream those that publish; others are
//! skipped. Commands after MULTI are queued until EXEC, so that a transaction without its end is
//! not run in part. A command that cannot be repeated is an error in a file, because the dataset
//! would differ. In a stream it is counted and recorded, because the primary continues, unless
//! `propagation-error-behavior` ends the process.

mod keydb;

use std::collections::HashMap;
use std::sync::Arc;

use braid_base::clock::unix_ms;
use braid_clients::{Address, ClientRecord};
use braid_config::PropagationErrorBehavior;
use braid_keyspace::txn::{KeyRef, NOTHING_EXPIRED};
use braid_keyspace::{Context, Txn};
use braid_resp::reply::{Protocol, ReplyBuffer};
use braid_spec::{Behavior, Command, CommandTable, Flags, Scope};
use smallvec::SmallVec;

use super::body::run_body;
use super::{collect_keys, unknown_command};
use crate::engine::call::{Call, Others};
use crate::engine::{Engine, access};
use crate::locks::{LockSet, lock};
use crate::session::Session;
use crate::transaction::Queued;

/// Why a replayed command cannot run.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    #[error("Unknown command '{0}'")]
    Unknown(String),
    #[error("Wrong number of arguments for '{0}'")]
    Arity(String),
    /// SELECT of a database that does not exist.
    #[error("No such database: {0}")]
    Database(String),
    /// An invalid RREPLAY request of another server.
    #[error("Bad RREPLAY: {0}")]
    Stream(&'static str),
}

/// How a replayed command is handled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReplayAction {
    Run,
    Select,
    Multi,
    Exec,
    Discard,
    /// Changes no keys; delivered to local subscribers.
    Publish,
    PassOver,
}

/// Source of the commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    File,
    Primary,
}

/// A command with one key.
#[derive(Clone, Copy)]
pub struct Single {
    command: u32,
    /// Hash of its key.
    pub hash: u64,
}

/// How readers of the local journal treat a streamed command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Streamed {
    Change,
    /// Not needed by an append-only file.
    Aside,
    /// An aside that asks for this replica's offset.
    OffsetRequest,
}

/// Number of refusals that are logged individually.
const REFUSALS_TOLD: u64 = 16;

/// The state of a replay.
pub struct Replay {
    source: Source,
    session: Session,
    reply: ReplyBuffer,
    /// By command id.
    kinds: Vec<ReplayAction>,
    /// Commands queued since MULTI.
    transaction: Option<Vec<Queued>>,
    /// Nesting depth of RREPLAY.
    depth: usize,
    /// Time of the last stream of each RREPLAY source.
    servers: HashMap<Box<[u8]>, u64>,
    /// Commands run.
    pub executed: u64,
    /// Commands that replied with an error, although they had succeeded originally.
    pub refused: u64,
}

impl Replay {
    /// A replay that starts in database 0.
    pub fn new(engine: &Engine, source: Source) -> Replay {
        let record = ClientRecord::new(u64::MAX, -1, Address::Unknown, Address::Unknown, unix_ms());
        let mut session = Session::new(Arc::new(record), &engine.attention, &engine.acl);
        session.execution.deny_blocking = true;
        session.execution.is_replay = true;
        let kinds = engine.commands.all().iter().map(|command| kind_of(command, source)).collect();
        let reply = ReplyBuffer::new(Protocol::Resp2);
        Replay {
            source,
            session,
            reply,
            kinds,
            transaction: None,
            depth: 0,
            servers: HashMap::new(),
            executed: 0,
            refused: 0,
        }
    }

    /// Runs a command. The transaction must have the world stopped and no expiry. The database is
    /// the replay's own.
    ///
    /// # Errors
    /// If the command is unknown or malformed, or may not stand in a stream or file, or its
    /// transaction is not well-formed.
    #[inline]
    pub fn run(&mut self, engine: &Engine, txn: &mut Txn<'_>, args: &[&[u8]]) -> Result<(), ReplayError> {
        let command = match find(engine, args) {
            Ok(command) => command,
            Err(error) => return self.run_of_keydb(engine, txn, args, error),
        };
        match self.kinds[command.id as usize] {
            ReplayAction::Run if self.transaction.is_none() => self.execute(engine, txn, command, args),
            kind => self.handle(engine, txn, command, args, kind)?,
        }
        Ok(())
    }

    /// Like [`Replay::run`], for a command of a primary's stream. Failures are recorded, because
    /// the primary continues.
    pub fn run_streamed(&mut self, engine: &Engine, txn: &mut Txn<'_>, args: &[&[u8]]) -> Streamed {
        let (command, kind) = match find(engine, args) {
            Ok(command) => (command, self.kinds[command.id as usize]),
            Err(error) => {
                let (text, command) = told_of(engine, args, &error);
                self.note_error(engine, txn.context.slot, &text, &command);
                return Streamed::Change;
            }
        };
        let asks_for_offset = command.behavior.has(Behavior::ALLOWED_ON_REPLICA_LINK)
            && args.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"getack"));
        if kind == ReplayAction::Run && self.transaction.is_none() {
            self.execute(engine, txn, command, args);
        } else if let Err(error) = self.handle(engine, txn, command, args, kind) {
            self.note_error(engine, txn.context.slot, &error.to_string(), &command.full_name);
        }
        match kind {
            _ if asks_for_offset => Streamed::OffsetRequest,
            ReplayAction::PassOver | ReplayAction::Publish if self.transaction.is_none() => Streamed::Aside,
            _ => Streamed::Change,
        }
    }

    /// The streamed command, if it can run on its own in parallel with others: it has one key, no
    /// value refers to others, and it is not part of a transaction.
    #[inline]
    pub fn single(&self, engine: &Engine, args: &[&[u8]]) -> Option<Single> {
        if self.transaction.is_some() || engine.keyspace.has_links() {
            return None;
        }
        let command = find(engine, args).ok()?;
        let is_single = command.simple_keys.is_single() && command.spec.scope == Scope::Keys;
        let is_run = self.kinds[command.id as usize] == ReplayAction::Run && !command.runs_scripts;
        (is_single && is_run).then(|| Single { command: command.id, hash: engine.keyspace.hash(args[1]) })
    }

    /// Runs a command found by [`Replay::single`] in a database, under its key's lock. Another
    /// thread has stopped the world.
    pub fn run_single(
        &mut self,
        engine: &Engine,
        context: &mut Context,
        db: u32,
        single: Single,
        args: &[&[u8]],
    ) {
        let command = engine.commands.get(single.command);
        let keys = [KeyRef { key: args[1], hash: single.hash, write: true }];
        self.session.db = db;
        let mut txn = lock(&engine.keyspace, context, LockSet::Keys(&keys), db, NOTHING_EXPIRED);
        let (session, reply, blobs) = (&mut self.session, &mut self.reply, &[][..]);
        let (keyspace, others) = (&mut txn, Others::default());
        let failed =
            run_body(&mut Call { engine, command, session, args, blobs, keyspace, reply, others }, false);
        drop(txn);
        self.end_command(engine, context.slot, command, failed);
    }

    /// The selected database.
    pub fn db(&self) -> u32 {
        self.session.db
    }

    /// Selects a database.
    pub fn select(&mut self, db: u32) {
        self.session.select(db);
    }

    /// Prefetches the keys of several commands.
    #[inline]
    pub fn prefetch<'a, C: Iterator<Item = &'a [u8]>>(
        &self,
        engine: &Engine,
        commands: impl Iterator<Item = C>,
    ) {
        let mut hashes = SmallVec::<[u64; 16]>::new();
        let db = self.session.db;
        for mut args in commands {
            let command = args.next().and_then(|name| engine.commands.find(name));
            let first = command.map_or(0, |command| command.simple_keys.first as usize);
            if let Some(key) = first.checked_sub(1).and_then(|index| args.nth(index)) {
                let hash = engine.keyspace.hash(key);
                engine.keyspace.prefetch_bucket(db, hash);
                hashes.push(hash);
            }
        }
        for hash in hashes {
            engine.keyspace.prefetch_entry(db, hash);
        }
    }

    /// Drops an unfinished transaction. Call it after the last command of a file.
    pub fn end_file(&mut self) {
        self.transaction = None;
    }

    fn handle(
        &mut self,
        engine: &Engine,
        txn: &mut Txn<'_>,
        command: &Command,
        args: &[&[u8]],
        kind: ReplayAction,
    ) -> Result<(), ReplayError> {
        match (kind, &mut self.transaction) {
            (ReplayAction::PassOver, _) => {}
            (ReplayAction::Multi, None) => self.transaction = Some(Vec::new()),
            (ReplayAction::Multi, Some(_)) | (ReplayAction::Exec, None) => {}
            (ReplayAction::Discard, _) => self.transaction = None,
            (ReplayAction::Exec, Some(_)) => {
                for queued in self.transaction.take().unwrap_or_default() {
                    let (command, args) = (engine.commands.get(queued.command), queued.args());
                    self.do_now(engine, txn, command, &args)?;
                }
            }
            (ReplayAction::Run | ReplayAction::Select | ReplayAction::Publish, Some(queue)) => {
                queue.push(Queued::new(command.id, args));
            }
            (ReplayAction::Run | ReplayAction::Select | ReplayAction::Publish, None) => {
                self.do_now(engine, txn, command, args)?
            }
        }
        Ok(())
    }

    fn do_now(
        &mut self,
        engine: &Engine,
        txn: &mut Txn<'_>,
        command: &Command,
        args: &[&[u8]],
    ) -> Result<(), ReplayError> {
        if self.kinds[command.id as usize] != ReplayAction::Select {
            self.execute(engine, txn, command, args);
            return Ok(());
        }
        let number = braid_base::number::parse_i64(args[1]).and_then(|number| u32::try_from(number).ok());
        let db = number.filter(|&db| db < engine.keyspace.databases());
        let db = db.ok_or_else(|| ReplayError::Database(String::from_utf8_lossy(args[1]).into_owned()))?;
        self.session.select(db);
        Ok(())
    }

    #[inline]
    fn execute(&mut self, engine: &Engine, txn: &mut Txn<'_>, command: &Command, args: &[&[u8]]) {
        txn.set_db(self.session.db);
        if command.runs_scripts {
            // Replayed scripts have all permissions.
            self.session.take_user(
                engine.acl.unrestricted_user(access::acl_server(engine).terms()),
                true,
                engine.attention.generation(),
            );
        }
        let mut keys = SmallVec::<[KeyRef<'_>; 8]>::new();
        if command.simple_keys.is_single() && command.spec.scope == Scope::Keys {
            let (key, write) = (args[1], command.simple_keys.locks_exclusively);
            keys.push(KeyRef { key, hash: engine.keyspace.hash(key), write });
        } else if command.spec.scope_of(args) == Scope::Keys {
            collect_keys(engine, command.spec, args, &mut keys);
        }
        if keys.len() > 1 {
            // For a deletion of many keys, for instance: they are fetched in parallel.
            Txn::prefetch(&engine.keyspace, self.session.db, &keys);
        }
        let (session, reply) = (&mut self.session, &mut self.reply);
        let failed = txn.with_keys(&keys, |keyspace| {
            let (blobs, others) = (&[][..], Others::default());
            run_body(&mut Call { engine, command, session, args, blobs, keyspace, reply, others }, false)
        });
        self.end_command(engine, txn.context.slot, command, failed);
    }

    #[inline]
    fn end_command(&mut self, engine: &Engine, slot: usize, command: &Command, failed: bool) {
        if failed {
            self.note_refusal(engine, slot, command);
        }
        self.reply.clear();
        self.executed += 1;
        if self.source == Source::Primary {
            // The world is stopped: no other thread counts in this slot.
            engine.telemetry.command_stats(slot, command.id).calls.add(1);
            engine.telemetry.threads[slot].executed.add(1);
        }
    }

    #[cold]
    fn note_refusal(&mut self, engine: &Engine, slot: usize, command: &Command) {
        let line = String::from_utf8_lossy(self.reply.to_bytes().trim_ascii()).into_owned();
        self.note_error(engine, slot, line.trim_start_matches('-'), &command.full_name);
    }

    /// Counts and logs a command that failed, and ends the process if the user wants that.
    #[cold]
    fn note_error(&mut self, engine: &Engine, slot: usize, error: &str, command: &str) {
        self.refused += 1;
        engine.telemetry.threads[slot].unexpected_errors.add(1);
        let (who, whom) = match self.source {
            Source::File => ("AOF-loading-client", "server"),
            Source::Primary => ("replica", "master"),
        };
        if self.refused <= REFUSALS_TOLD {
            log::warn!(
                "== CRITICAL == This {who} is sending an error to its {whom}: '{error}' after processing the command '{command}'"
            );
        }
        let config = &engine.config;
        let panics = match config.propagation_error_behavior() {
            PropagationErrorBehavior::Ignore => false,
            PropagationErrorBehavior::Panic => self.source == Source::File || config.replica_read_only(),
            PropagationErrorBehavior::PanicOnReplicas => {
                self.source == Source::Primary && config.replica_read_only()
            }
        };
        if panics {
            log::error!("Guru Meditation: This {who} panicked sending an error to its {whom}: '{error}'");
            log::logger().flush();
            std::process::exit(1);
        }
    }
}

/// The error that a client would get for a request that names no command, and the command as stock
/// servers show it.
#[cold]
fn told_of(engine: &Engine, args: &[&[u8]], error: &ReplayError) -> (String, String) {
    let name = args.first().copied().unwrap_or_default();
    match error {
        ReplayError::Unknown(_) if engine.commands.find(name).is_none() => {
            (String::from_utf8_lossy(&unknown_command(args)).into_owned(), "<unknown>".to_owned())
        }
        _ => (error.to_string(), String::from_utf8_lossy(name).into_owned()),
    }
}

/// How a command is handled.
fn kind_of(command: &Command, source: Source) -> ReplayAction {
    let (behavior, flags) = (command.behavior, command.spec.flags);
    let kinds = [
        (Behavior::REPLAY_SELECTS, ReplayAction::Select),
        (Behavior::REPLAY_OPENS_TRANSACTION, ReplayAction::Multi),
        (Behavior::EXECUTES_QUEUE, ReplayAction::Exec),
        (Behavior::REPLAY_DROPS_TRANSACTION, ReplayAction::Discard),
        (Behavior::REPLAYED, ReplayAction::Run),
    ];
    if let Some((_, kind)) = kinds.into_iter().find(|(flag, _)| behavior.has(*flag)) {
        return kind;
    }
    if !flags.any(Flags::WRITE | Flags::MAY_REPLICATE) {
        return ReplayAction::PassOver;
    }
    match (flags.has(Flags::PUBSUB), source) {
        (false, _) => ReplayAction::Run,
        (true, Source::Primary) => ReplayAction::Publish,
        (true, Source::File) => ReplayAction::PassOver,
    }
}

/// The command named by a journalled request, if it is known.
pub fn command_of<'e>(engine: &'e Engine, args: &[&[u8]]) -> Option<&'e Command> {
    find(engine, args).ok()
}

/// The command named by the arguments, if the arity is right. A renamed command is known by both
/// names.
#[inline]
fn find<'e>(engine: &'e Engine, args: &[&[u8]]) -> Result<&'e Command, ReplayError> {
    let shown = || String::from_utf8_lossy(args.first().copied().unwrap_or_default()).into_owned();
    let found = args.first().and_then(|name| engine.commands.find(name));
    let mut command = match found {
        Some(command) => command,
        None => find_original(&engine.commands, args).ok_or_else(|| ReplayError::Unknown(shown()))?,
    };
    if !command.subcommands.is_empty()
        && let Some(name) = args.get(1)
    {
        let sub = engine.commands.find_subcommand(command, name);
        command = sub.ok_or_else(|| ReplayError::Unknown(shown()))?;
    }
    if !command.spec.arity.allows(args.len()) || command.spec.is_container {
        return Err(ReplayError::Arity(shown()));
    }
    Ok(command)
}

#[cold]
fn find_original<'e>(commands: &'e CommandTable, args: &[&[u8]]) -> Option<&'e Command> {
    let name = args.first()?;
    let mut originals = commands.all().iter().filter(|command| command.parent.is_none());
    originals.find(|command| command.spec.name.as_bytes().eq_ignore_ascii_case(name))
}
