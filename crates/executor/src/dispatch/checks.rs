// SPDX-License-Identifier: BSD-3-Clause
//! Checks before execution: permissions, restrictions of subscribers, memory and disk state,
//! pauses, loading.
//!
//! HOT PATH: commands without special needs do not get here ([`execute`](super::execute)).

use std::sync::atomic::Ordering::Relaxed;

use ::braid_acl as acl;
use braid_acl::log::Origin;
use braid_clients::attention::{
    APPEND_ONLY_FAILED, FEEDS, FENCED, FEW_IN_SYNC, FEW_REPLICAS, FORMER_PRIMARY, HELD_SLOTS, JOURNAL_FULL,
    LOADING, LOADING_BESIDE, MEMORY_LIMIT, MIGRATES, OTHER_NODES, PAUSED, READ_ONLY, REPLICA, SNAPSHOT_FULL,
    STALE, STOPPING, WRITES_REFUSED,
};
use braid_clients::pause::PauseMode;
use braid_config::ProtectedAction;
use braid_replication::failover::FailoverPhase;
use braid_spec::{Behavior, Command, CommandError, Flags, KeyFlags, keys};

use super::data::{DATA, declared, has, is_exec, queue_has, serves_data, writes};
use super::{Request, Worker, follow_up, slots};
use crate::engine::{Engine, access};
use crate::memory::{self, Pressure, make_room};
use crate::session::{Session, session_attention};
use crate::transaction::{Queue, Queued};
use crate::{feeds, journal_room, redirect, tenants};

/// The facts that decide whether a request may run.
pub(super) struct AdmissionContext<'r> {
    pub engine: &'r Engine,
    pub session: &'r Session,
    /// The transaction in which the request is queued, or which it executes.
    pub queue: Option<&'r Queue>,
    pub command: &'r Command,
    pub args: &'r [&'r [u8]],
    /// Time of the batch, ms since the Unix epoch.
    pub now_ms: i64,
}

impl<'r> AdmissionContext<'r> {
    pub fn of(request: &'r Request<'_>, command: &'r Command) -> AdmissionContext<'r> {
        let Request { engine, worker, session, args, .. } = request;
        let queue = session.transaction.queue.as_deref();
        AdmissionContext { engine, session, queue, command, args, now_ms: worker.now_ms }
    }

    /// True if a request that has passed the checks may no longer run. Must be called if the
    /// thread has left the gate since then: another thread may have started to hold commands
    /// back, and relies on no previously checked request running afterwards.
    pub fn is_outdated(&self) -> bool {
        let attention = self.engine.attention.get();
        let AdmissionContext { engine, queue, command, args, .. } = *self;
        is_held_back(self, attention)
            || slots::has_left(engine, self.session)
            || loading_refuses(engine, queue, command, args, attention)
            || attention & (READ_ONLY | LOADING) == READ_ONLY && writes(engine, queue, command, args)
    }
}

/// True if the command must wait because clients are paused or its keys are being moved.
pub(super) fn is_held_back(admission: &AdmissionContext<'_>, attention: u64) -> bool {
    let AdmissionContext { engine, session, queue, command, args, now_ms } = admission;
    if attention & (PAUSED | STOPPING | MIGRATES | HELD_SLOTS) == 0 {
        return false;
    }
    if attention & HELD_SLOTS != 0 && reaches_held_slot(admission) {
        return true;
    }
    if attention & STOPPING != 0 || attention & MIGRATES != 0 && changes_migrating(admission) {
        return true;
    }
    if session.replication.replica.is_some() {
        // The pause may be waiting for the replica's messages.
        return false;
    }
    match engine.clients.pause.current(*now_ms) {
        None => false,
        // Commands queued in a transaction wait at its EXEC.
        Some((PauseMode::Data, _)) => {
            (queue.is_none() || is_exec(command)) && serves_data(engine, *queue, command)
        }
        Some((PauseMode::All, _)) => {
            // A client must be able to end its own pause.
            !(session.authenticated && command.behavior.has(Behavior::ENDS_PAUSE))
        }
        Some((PauseMode::Write, _)) => {
            // The redirection target is uncertain until the replica has taken over.
            if attention & REPLICA != 0
                && engine.replication.failover.phase() == FailoverPhase::InProgress
                && is_redirected(engine, session, *queue, command, args)
            {
                return true;
            }
            if is_exec(command) {
                queue.is_some_and(|queue| {
                    let writes = |queued: &Queued| {
                        may_write(engine, engine.commands.get(queued.command), &queued.args())
                    };
                    queue.commands.iter().any(writes)
                })
            } else {
                queue.is_none() && may_write(engine, command, args)
            }
        }
    }
}

/// True if a request names, for writing, a key that is being moved to another server
/// (`migrate.rs`). Keys that no request names, as in some scripts, are not held back.
#[cold]
fn changes_migrating(admission: &AdmissionContext<'_>) -> bool {
    let AdmissionContext { engine, session, .. } = admission;
    let changes = |command: &Command, args: &[&[u8]]| {
        let found = if may_write(engine, command, args) { keys::find(command.spec, args) } else { None };
        let mut found = found.unwrap_or_default().into_iter();
        found.any(|at| !at.flags.has(KeyFlags::RO) && engine.migrations.holds(session.db, args[at.index]))
    };
    executes_any(admission, changes)
}

/// True if `is_it` holds for a request that is to be executed now: the request itself, or for EXEC
/// any of the queued ones.
fn executes_any(admission: &AdmissionContext<'_>, is_it: impl Fn(&Command, &[&[u8]]) -> bool) -> bool {
    let AdmissionContext { engine, queue, command, args, .. } = admission;
    match queue {
        None => is_it(command, args),
        Some(queue) if is_exec(command) => {
            let mut queued = queue.commands.iter();
            queued.any(|queued| is_it(engine.commands.get(queued.command), &queued.args()))
        }
        Some(_) => false,
    }
}

/// True if a request names a key or shard channel of a slot that is being handed over to another
/// node (`slot_moves`), or writes to one whose writes wait for that. While all slots are held,
/// scripts count as well: they may reach a slot that they do not name.
#[cold]
fn reaches_held_slot(admission: &AdmissionContext<'_>) -> bool {
    let engine = admission.engine;
    if slots::only_unsubscribes(&engine.commands, admission.session, admission.command) {
        return false;
    }
    let holds_all = engine.slot_moves.holds_all();
    let reaches = |command: &Command, args: &[&[u8]]| {
        let found = keys::find_slotted(command.spec, args).unwrap_or_default();
        let moves = &engine.slot_moves;
        let is_held =
            |key: &[u8]| moves.holds_key(key) || moves.slows_key(key) && may_write(engine, command, args);
        holds_all && command.runs_scripts || found.into_iter().any(|at| is_held(args[at.index]))
    };
    executes_any(admission, reaches)
}

/// True if the request may write, or sends something that replicas receive.
fn may_write(engine: &Engine, command: &Command, args: &[&[u8]]) -> bool {
    let spec = command.spec;
    spec.flags.any(Flags::WRITE | Flags::MAY_REPLICATE)
        && declared(engine, command, args).is_none_or(|own| own.has(Flags::WRITE))
}

/// True if the command is queued by MULTI.
pub(super) fn queues(session: &Session, command: &Command) -> bool {
    session.in_multi() && !command.behavior.has(Behavior::NEVER_QUEUED)
}

/// Error for writes while the dataset cannot be saved; Redis's text.
const SAVE_FAILED: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify \
     the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails \
     (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error.";

/// Error for writes on a replica; Redis's text.
const READ_ONLY_REPLICA: &str = "READONLY You can't write against a read only replica.";

/// Error for writes in a group that has no primary and will not get one by itself.
const NO_LEADER: &str =
    "MASTERDOWN No server may lead this group at present: group_not_serving_reason in INFO group says why.";

/// Error of a replica without a link that does not serve stale data; Redis's text.
pub const NO_LINK: &str = "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";

/// Error for writes while too few replicas keep up; Redis's text.
const TOO_FEW_REPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";

/// Error for writes whose replies would wait, while the in-sync set is too small.
const TOO_FEW_IN_SYNC: &str = "NOREPLICAS Not enough in-sync replicas to write.";

/// Error of a group's primary whose lease may have ended.
const MAY_NOT_SERVE: &str =
    "MASTERDOWN This server cannot prove at present that it is the primary of its group.";

/// Error while the dataset is loading; Redis's text.
pub const LOADING_REFUSAL: &str = "LOADING Redis is loading the dataset in memory";

/// Error for clients that connected to a primary that no longer is one; closes the connection.
const NO_LONGER_PRIMARY: &str =
    "MASTERDOWN This server is no longer the primary of its group: connect to the new one.";

/// Charges the limits of a client's user with a request. Returns whether it may run now; if not it
/// is to come again at [`Session::delayed_until_ms`].
///
/// # Errors
/// If a limit is exceeded.
pub(super) fn charge(request: &mut Request<'_>, command: &Command) -> Result<bool, CommandError> {
    let Request { engine, worker, session, .. } = request;
    session.refresh_user(&engine.acl, &engine.attention);
    if session.login.user.limits().is_none()
        || command.spec.flags.has(Flags::NO_AUTH)
        || session.must_log_in()
    {
        return Ok(true);
    }
    let login = &mut session.login;
    login.user.limits().charge(&login.user.identity, &mut login.charged, &session.record, worker.now_ms)
}

/// All checks that may refuse a command, and the work due before it runs.
pub(super) fn check(
    request: &mut Request<'_>,
    command: &Command,
    attention: u64,
) -> Result<(), CommandError> {
    let Request { engine, worker, session, args, .. } = request;
    let flags = command.spec.flags;
    session.refresh_user(&engine.acl, &engine.attention);
    if flags.has(Flags::PROTECTED) {
        check_protected(engine, session, command)?;
    }
    check_rights(engine, session, command, args)?;
    let taken = || {
        let queue = session.transaction.queue.as_deref();
        let takes = has(engine, command, args, Flags::DENYOOM)
            || is_exec(command) && queue_has(engine, queue, Flags::DENYOOM)
            || command.runs_scripts && !is_exec(command) && !flags.has(Flags::READONLY);
        takes.then(|| args.iter().map(|arg| arg.len()).sum())
    };
    tenants::check_memory(engine, &session.login.user, taken, worker.now_ms)?;
    if command.checks_slots || attention & OTHER_NODES != 0 {
        slots::check(engine, worker, session, command, args)?;
    }
    if attention & FEEDS != 0 {
        feeds::check(engine, command, args)?;
    }
    if attention & FENCED != 0 && serves_data(engine, session.transaction.queue.as_deref(), command) {
        engine.sync_writes.counts.fenced.fetch_add(1, Relaxed);
        return Err(CommandError::text(MAY_NOT_SERVE));
    }
    if attention & FORMER_PRIMARY != 0 && serves_data(engine, session.transaction.queue.as_deref(), command) {
        check_demoted_client(engine, session, command, args)?;
    }
    if attention & REPLICA != 0
        && is_redirected(engine, session, session.transaction.queue.as_deref(), command, args)
        && let Some(error) = redirect::redirection(engine, &session.record)
    {
        return Err(error);
    }
    if session.attention & session_attention::LISTENS != 0 {
        check_listening(session, command)?;
    }
    if session.attention & session_attention::MONITORS != 0 && flags.any(DATA) {
        return Err(no_keyspace());
    }
    if session.attention & session_attention::IS_REPLICA != 0 {
        check_replica_link(session, command)?;
    }
    if loading_refuses(engine, session.transaction.queue.as_deref(), command, args, attention) {
        return Err(CommandError::text(LOADING_REFUSAL));
    }
    if attention & LOADING != 0 {
        // Nothing is evicted while loading: the dataset fitted before.
        return Ok(());
    }
    if attention & FEW_REPLICAS != 0 && writes(engine, session.transaction.queue.as_deref(), command, args) {
        return Err(CommandError::text(TOO_FEW_REPLICAS));
    }
    if attention & FEW_IN_SYNC != 0 && writes(engine, session.transaction.queue.as_deref(), command, args) {
        check_small_set(engine, session).inspect_err(|_| worker.was_refused.set(true))?;
    }
    if attention & (READ_ONLY | STALE) != 0 {
        check_role(engine, session.transaction.queue.as_deref(), command, args, attention)?;
    }
    if attention & (WRITES_REFUSED | SNAPSHOT_FULL | APPEND_ONLY_FAILED | JOURNAL_FULL) != 0 {
        check_disk(engine, worker, session, (command, args), attention)?;
    }
    if attention & MEMORY_LIMIT != 0 {
        // Every command gives eviction a slice, so that reads help to get below the limit, too.
        // A pause must leave the dataset as it is.
        let may_evict = !memory::is_paused(engine, worker.now_ms);
        let pressure = make_room(engine, worker, worker.now_ms, may_evict);
        if worker.context.outside {
            return Err(busy(engine));
        }
        follow_up(engine, worker);
        session.execution.out_of_memory = pressure == Pressure::Stuck;
        let needs = has(engine, command, args, Flags::DENYOOM)
            || (is_exec(command) && queue_has(engine, session.transaction.queue.as_deref(), Flags::DENYOOM));
        if pressure == Pressure::Stuck && needs {
            return Err(CommandError::text("OOM command not allowed when used memory > 'maxmemory'."));
        }
    }
    Ok(())
}

/// True if a request is refused because a dataset is loading.
fn loading_refuses(
    engine: &Engine,
    queue: Option<&Queue>,
    command: &Command,
    args: &[&[u8]],
    attention: u64,
) -> bool {
    attention & LOADING != 0 && !has_throughout(engine, queue, command, args, Flags::LOADING)
        || attention & LOADING_BESIDE != 0 && command.spec.flags.has(Flags::NO_ASYNC_LOADING)
}

/// True if a request and all commands that it executes have a flag.
fn has_throughout(
    engine: &Engine,
    queue: Option<&Queue>,
    command: &Command,
    args: &[&[u8]],
    flag: Flags,
) -> bool {
    let executed = queue.filter(|_| is_exec(command));
    let queued_has = |queued: &Queued| has(engine, engine.commands.get(queued.command), &queued.args(), flag);
    has(engine, command, args, flag) && executed.is_none_or(|queue| queue.commands.iter().all(queued_has))
}

/// True if a replica refuses a request because its client understands redirections.
fn is_redirected(
    engine: &Engine,
    session: &Session,
    queue: Option<&Queue>,
    command: &Command,
    args: &[&[u8]],
) -> bool {
    let reads = command.spec.flags.has(Flags::READONLY)
        || (is_exec(command) && queue_has(engine, queue, Flags::READONLY));
    redirect::leads_away(&session.record, writes(engine, queue, command, args), reads)
}

/// A client that connected to a primary is served no data by a replica: it would take the data
/// for the latest.
#[cold]
fn check_demoted_client(
    engine: &Engine,
    session: &mut Session,
    command: &Command,
    args: &[&[u8]],
) -> Result<(), CommandError> {
    if !engine.sync_writes.came_to_primary(&session.record) {
        return Ok(());
    }
    session.reply.close_after = true;
    let writes = writes(engine, session.transaction.queue.as_deref(), command, args);
    Err(CommandError::text(if writes { read_only(engine) } else { NO_LONGER_PRIMARY }))
}

/// The error for a write on a replica.
fn read_only(engine: &Engine) -> &'static str {
    let is_leaderless = engine.group.as_ref().is_some_and(|group| group.is_leaderless());
    if is_leaderless { NO_LEADER } else { READ_ONLY_REPLICA }
}

/// The checks of a replica.
#[cold]
fn check_role(
    engine: &Engine,
    queue: Option<&Queue>,
    command: &Command,
    args: &[&[u8]],
    attention: u64,
) -> Result<(), CommandError> {
    if attention & READ_ONLY != 0 && writes(engine, queue, command, args) {
        return Err(CommandError::text(read_only(engine)));
    }
    if attention & STALE != 0 && !has_throughout(engine, queue, command, args, Flags::STALE) {
        return Err(CommandError::text(NO_LINK));
    }
    Ok(())
}

/// Checks permissions and connection state.
pub(super) fn check_rights(
    engine: &Engine,
    session: &Session,
    command: &Command,
    args: &[&[u8]],
) -> Result<(), CommandError> {
    let flags = command.spec.flags;
    if session.must_log_in() && !flags.has(Flags::NO_AUTH) {
        return Err(CommandError::text("NOAUTH Authentication required."));
    }
    if session.in_multi() && flags.has(Flags::NO_MULTI) {
        return Err(CommandError::text("ERR Command not allowed inside a transaction"));
    }
    let origin = if session.in_multi() { Origin::Transaction } else { Origin::TopLevel };
    access::check_access(engine, session, command, args, origin, (command, args))
        .map_err(|denied| acl::refusal(denied, session.login.user.name(), command))
}

/// A RESP2 client with subscriptions cannot tell replies from messages, so only a few commands are
/// allowed.
#[cold]
fn check_listening(session: &Session, command: &Command) -> Result<(), CommandError> {
    let allowed = command.behavior.has(Behavior::ALLOWED_SUBSCRIBED) || command.spec.replies_with_pushes();
    if allowed || !session.record.speaks_resp2() {
        return Ok(());
    }
    Err(CommandError::text(format!(
        "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
        command.full_name
    )))
}

/// Why replicas and monitors may not use keys.
const NO_KEYSPACE: &str = "Replica can't interact with the keyspace";

fn no_keyspace() -> CommandError {
    CommandError::text(format!("ERR {NO_KEYSPACE}"))
}

/// A replica's connection carries the change stream only: a reply would be taken for a part of it.
#[cold]
fn check_replica_link(session: &mut Session, command: &Command) -> Result<(), CommandError> {
    if command.behavior.has(Behavior::ALLOWED_ON_REPLICA_LINK) {
        return Ok(());
    }
    log::warn!(
        "Replica generated a reply to command '{}', disconnecting it: id={}",
        command.full_name,
        session.record.id
    );
    // Other commands have a reply, which is not sent.
    if command.spec.flags.any(DATA) {
        log::warn!(
            "== CRITICAL == This master is sending an error to its replica: '{NO_KEYSPACE}' after processing the command '{}'",
            command.full_name
        );
    }
    session.close();
    Err(no_keyspace())
}

/// The error while a script has stopped the world for long.
pub(super) fn busy(engine: &Engine) -> CommandError {
    let text = braid_clients::busy::ScriptKind::Script.busy_error();
    engine.clients.busy.error().unwrap_or(CommandError::text(text))
}

/// Dangerous commands are disabled unless the operator has enabled them.
#[cold]
fn check_protected(engine: &Engine, session: &Session, command: &Command) -> Result<(), CommandError> {
    let container = command.parent.map_or(command, |parent| engine.commands.get(parent)).spec.name;
    let allowed = if command.behavior.has(Behavior::MODULE_COMMAND) {
        engine.config.enable_module_command()
    } else {
        engine.config.enable_debug_command()
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

/// Refuses writes while the dataset cannot be saved; makes writers wait while a snapshot is behind.
#[cold]
fn check_disk(
    engine: &Engine,
    worker: &mut Worker,
    session: &Session,
    (command, args): (&Command, &[&[u8]]),
    attention: u64,
) -> Result<(), CommandError> {
    let refusable = command.behavior.has(Behavior::REPORTS_WRITE_REFUSAL)
        || writes(engine, session.transaction.queue.as_deref(), command, args);
    if refusable && let Some(error) = disk_refusal(engine) {
        return Err(error);
    }
    if attention & JOURNAL_FULL != 0 && (refusable || command.runs_scripts) {
        journal_room::wait_for_journal(engine, &mut worker.context);
        if worker.context.outside {
            return Err(busy(engine));
        }
    }
    if attention & SNAPSHOT_FULL != 0 && (refusable || command.runs_scripts) {
        engine.background_save.wait_for_room(&engine.keyspace, &mut worker.context);
        if worker.context.outside {
            return Err(busy(engine));
        }
    }
    Ok(())
}

/// The reason why writes are refused, if the dataset cannot be saved or the append-only file cannot
/// be written.
#[inline]
pub(super) fn disk_refusal(engine: &Engine) -> Option<CommandError> {
    let attention = engine.attention.get();
    if attention & WRITES_REFUSED != 0 {
        return Some(CommandError::text(SAVE_FAILED));
    }
    (attention & APPEND_ONLY_FAILED != 0).then(|| engine.append_only.refusal())
}

/// Refuses a write whose reply would wait, since the in-sync set is too small, or notes the write.
#[cold]
fn check_small_set(engine: &Engine, session: &Session) -> Result<(), CommandError> {
    if engine.sync_writes.holds_for(session.options.durable) {
        engine.sync_writes.counts.refused.fetch_add(1, Relaxed);
        return Err(CommandError::text(TOO_FEW_IN_SYNC));
    }
    engine.sync_writes.note_write_in_small_set(&engine.keyspace.gate);
    Ok(())
}

/// The current reason for refusing writes, if any.
#[inline]
pub fn write_refusal(engine: &Engine, session: &Session) -> Option<CommandError> {
    // Commands of the append-only file or the stream have been accepted before.
    if session.execution.is_replay {
        return None;
    }
    let attention = engine.attention.get();
    if attention & FEW_REPLICAS != 0 {
        return Some(CommandError::text(TOO_FEW_REPLICAS));
    }
    if attention & FEW_IN_SYNC != 0
        && let Err(error) = check_small_set(engine, session)
    {
        return Some(error);
    }
    if attention & READ_ONLY != 0 {
        return Some(CommandError::text(READ_ONLY_REPLICA));
    }
    disk_refusal(engine)
}

#[cfg(test)]
mod tests;
