// SPDX-License-Identifier: BSD-3-Clause
//! A script run: takes the locks and passes commands to the dispatcher.
//!
//! A script may call commands on undeclared keys, so by default it runs with the world stopped. It
//! runs under the locks of its declared keys, alongside others, if
//! - only declared keys are allowed (`script-undeclared-keys no`), or
//! - its text proves that it touches no other keys (`key_analysis.rs`), or
//! - it only reads (a speculative run). If such a run reaches an undeclared key, it is abandoned,
//!   which no client can notice, and restarted with the world stopped. The script is then not run
//!   speculatively for a while ([`SpeculationHistory`]).
//!
//! In the other threading models scripts run on one thread at a time, always with the world
//! stopped.
//!
//! A long run becomes visible to SCRIPT KILL and FUNCTION KILL after [`VISIBLE_AFTER`]
//! (`busy.rs`). After `busy-reply-threshold` a run under locks that has not written is restarted
//! alone, because clients waiting for its locks could not get BUSY. A run that has written
//! continues, but can no longer be killed.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use braid_base::clock::Ticks;
use braid_base::gate::Wait;
use braid_clients::attention::{Attention, MEMORY_LIMIT, STALE};
use braid_clients::busy::{Running, ScriptKind};
use braid_clients::{Clients, Message};
use braid_executor::dispatch::script::{self, OneSlot, ScriptCall, ScriptRun};
use braid_executor::dispatch::speculative::Speculative;
use braid_executor::engine::call::Others;
use braid_executor::locks::{LockSet, lock};
use braid_executor::state::script_debugger::{Debugged, Debugging, KeySource};
use braid_executor::{Call, Engine, Session, redirect};
use braid_keyspace::events::KEY_MISS;
use braid_keyspace::{KeyRef, Keyspace, Txn};
use braid_node::shutdown;
use braid_resp::reply::{Mark, ReplyBuffer};
use braid_scripting::key_analysis::Reach;
use braid_scripting::speculation::SpeculationHistory;
use braid_scripting::{Called, Ended, Function, Host, Level, LuaVm, ScriptFlags, Verdict};
use braid_spec::{CommandError, CommandResult, Flags};
use smallvec::SmallVec;

/// Time after which a run is visible and can be killed.
const VISIBLE_AFTER: Duration = Duration::from_millis(20);

/// A script or function to run.
pub(super) struct Program<'a> {
    pub function: Function,
    /// The name in error messages.
    pub name: &'a str,
    pub flags: ScriptFlags,
    /// True if called by a read-only command.
    pub read_only: bool,
    pub kind: ScriptKind,
    pub history: &'a SpeculationHistory,
    /// The keys that the program can touch, as proved from its text.
    pub reach: Reach,
}

impl Program<'_> {
    fn writes(&self) -> bool {
        !(self.read_only || self.flags.has(ScriptFlags::NO_WRITES))
    }
}

/// Arguments of a request.
type Args<'a> = &'a [&'a [u8]];

/// Splits the arguments of a request that runs a script into keys and other arguments, by the
/// count at argument 2.
pub(super) fn split_arguments<'a>(
    call: &Call<'a, '_>,
    not_a_number: &'static str,
) -> Result<(Args<'a>, Args<'a>), CommandError> {
    let count = call.integer_arg(2).map_err(|_| CommandError::text(not_a_number))?;
    let rest = &call.args[3..];
    if count > rest.len() as i64 {
        return Err(CommandError::text("ERR Number of keys can't be greater than number of args"));
    }
    match usize::try_from(count) {
        Ok(count) => Ok(rest.split_at(count)),
        Err(_) => Err(CommandError::text("ERR Number of keys can't be negative")),
    }
}

/// Translates a script's flags to command flags; `None` if it declares none.
pub(super) fn declared(flags: ScriptFlags) -> Option<Flags> {
    if flags.has(ScriptFlags::UNDECLARED) {
        return None;
    }
    let mut own = Flags::NONE;
    if !flags.has(ScriptFlags::NO_WRITES) {
        own = own | Flags::WRITE;
        if !flags.has(ScriptFlags::ALLOW_OOM) {
            own = own | Flags::DENYOOM;
        }
    }
    Some(if flags.has(ScriptFlags::ALLOW_STALE) { own | Flags::STALE } else { own })
}

/// Refuses a script whose own flags rule out running it now.
pub(super) fn check(call: &Call, program: &Program<'_>) -> CommandResult {
    let flags = program.flags;
    let attention = call.engine.attention.get();
    // Scripts without flags are also refused as a whole, not at their first read of a key.
    if attention & STALE != 0 && !call.session.execution.is_replay && !flags.has(ScriptFlags::ALLOW_STALE) {
        return Err(CommandError::text(script::NO_LINK));
    }
    if flags.has(ScriptFlags::UNDECLARED) {
        return Ok(());
    }
    if !flags.has(ScriptFlags::NO_WRITES)
        && let Some(error) = redirect::redirection(call.engine, &call.session.record)
    {
        return Err(error);
    }
    if call.engine.keyspace.is_by_slot() && flags.has(ScriptFlags::NO_CLUSTER) {
        return Err(CommandError::text("ERR Can not run script on cluster, 'no-cluster' flag is set."));
    }
    if is_out_of_memory(&call.engine.attention, call.session)
        && !flags.has(ScriptFlags::ALLOW_OOM)
        && !flags.has(ScriptFlags::NO_WRITES)
    {
        return Err(CommandError::text("OOM command not allowed when used memory > 'maxmemory'."));
    }
    if let Some(error) =
        script::write_refusal(call.engine, call.session).filter(|_| !flags.has(ScriptFlags::NO_WRITES))
    {
        return Err(error);
    }
    if program.read_only && !flags.has(ScriptFlags::NO_WRITES) {
        return Err(CommandError::text("ERR Can not execute a script with write flag using *_ro command."));
    }
    Ok(())
}

/// The only slot that the script's keys may be in: the slot of its declared keys, or of the first
/// key that it uses. `None` without that limit, for example for scripts without flags, which could
/// use several slots before flags existed.
fn slot_of(
    keyspace: &Keyspace,
    session: &Session,
    program: &Program<'_>,
    declared: &[KeyRef<'_>],
) -> Option<OneSlot> {
    let several = ScriptFlags::ALLOW_CROSS_SLOT_KEYS;
    let is_free = program.flags.has(ScriptFlags::UNDECLARED) || program.flags.has(several);
    if !keyspace.is_by_slot() || is_free || session.execution.is_replay {
        return None;
    }
    let mut slot = OneSlot::default();
    if let Some(first) = declared.first() {
        slot.accepts(first.key);
    }
    Some(slot)
}

/// True if memory was above the limit when the script's request was checked.
fn is_out_of_memory(attention: &Attention, session: &Session) -> bool {
    attention.get() & MEMORY_LIMIT != 0 && session.execution.out_of_memory
}

/// Runs a script for a client and writes its reply.
pub(super) fn run(
    call: &mut Call,
    vm: &mut LuaVm,
    program: &Program<'_>,
    keys: &[&[u8]],
    args: &[&[u8]],
) -> CommandResult {
    let engine = call.engine;
    let db = call.keyspace.db();
    let write = program.writes();
    let declared: SmallVec<[KeyRef<'_>; 8]> =
        keys.iter().map(|key| KeyRef { key, hash: engine.keyspace.hash(key), write }).collect();
    let mark = call.reply.mark();
    let denied_blocking = std::mem::replace(&mut call.session.execution.deny_blocking, true);
    call.session.execution.in_script = true;
    let mut attempt =
        Attempt { vm, program, declared: &declared, keys, args, started: Ticks::now(), running: None };
    let ended = attempt.run(call);
    attempt.end_visible(&call.engine.clients);
    call.session.execution.in_script = false;
    call.session.execution.deny_blocking = denied_blocking;
    // SELECT within a script affects only the script.
    if call.session.db != db {
        call.session.select(db);
    }
    finish(call, ended?, mark)
}

struct Attempt<'a> {
    vm: &'a mut LuaVm,
    program: &'a Program<'a>,
    declared: &'a [KeyRef<'a>],
    keys: &'a [&'a [u8]],
    args: &'a [&'a [u8]],
    started: Ticks,
    /// Set once the run has lasted [`VISIBLE_AFTER`].
    running: Option<Arc<Running>>,
}

impl Attempt<'_> {
    /// Ends the visibility of a finished run, after its locks are released.
    fn end_visible(&mut self, clients: &Clients) {
        let Some(running) = self.running.take() else { return };
        clients.busy.end(&running);
        // Resumes the clients that could not be served in the meantime.
        clients.mailboxes.tell_all(|| Message::Resume);
    }

    fn run(&mut self, call: &mut Call) -> Result<Ended, CommandError> {
        let (engine, db, now) = (call.engine, call.keyspace.db(), call.now());
        let keyspace = &engine.keyspace;
        let stats = &engine.telemetry.threads[call.keyspace.context.slot];
        if call.keyspace.stopped_world().is_some() {
            // Part of a transaction.
            stats.scripts_alone.add(1);
            return Ok(self.under(call));
        }
        let strict = !engine.config.script_undeclared_keys();
        let program = self.program;
        let runs_beside_others = engine.scripts.run_beside.load(Relaxed);
        let may_try = runs_beside_others
            && (strict
                || program.reach != Reach::Anything
                || (!program.writes() && self.may_try_reading(keyspace)));
        if may_try {
            // A script that calls no command needs no keys, whatever it declares.
            let locked = if program.reach == Reach::Nothing { &[] } else { self.declared };
            let ended = self.under_locks(call, LockSet::Keys(locked), db, now);
            if ended != Ended::Abandoned {
                stats.scripts_beside.add(1);
                return Ok(ended);
            }
            stats.scripts_again.add(1);
            program.history.note_undeclared();
            call.session.db = db;
        }
        let Some(world) = script::world_for(call) else {
            // If no script is busy, the dispatcher checks and runs this one again.
            let text = ScriptKind::Script.busy_error();
            return Err(engine.clients.busy.error().unwrap_or(CommandError::text(text)));
        };
        stats.scripts_alone.add(1);
        Ok(self.under_locks(call, world, db, now))
    }

    /// Runs under the run's own locks, and serves clients waiting for keys that it changed.
    fn under_locks(&mut self, call: &mut Call, locks: LockSet<'_>, db: u32, now: i64) -> Ended {
        let Call { engine, command, session, args, blobs, keyspace: unlocked, reply, others } = call;
        let mut txn = lock(&engine.keyspace, unlocked.context, locks, db, now);
        let (keyspace, others) = (&mut txn, others.reborrow());
        let mut locked = Call { engine, command, session, args, blobs, keyspace, reply, others };
        let ended = self.under(&mut locked);
        script::serve(locked.engine, locked.session, locked.keyspace);
        ended
    }

    /// True if a read-only script is worth a try under its keys' locks. Not with keymiss events
    /// enabled: they are sent immediately, and a second run would send them again.
    fn may_try_reading(&self, keyspace: &Keyspace) -> bool {
        self.program.history.may_try() && !keyspace.wants(KEY_MISS.class)
    }

    /// Runs under the locks held by the call's transaction.
    fn under(&mut self, call: &mut Call) -> Ended {
        let Call { engine, command, session, args: request, keyspace, reply, others, .. } = call;
        let program = self.program;
        let run = ScriptRun {
            declared: self.declared,
            strict: !engine.config.script_undeclared_keys(),
            read_only: !program.writes(),
            allow_out_of_memory: program.flags.has(ScriptFlags::ALLOW_OOM),
            out_of_memory: is_out_of_memory(&engine.attention, session),
            allow_all: engine.debug.scripts_call_all.load(Relaxed),
            slot: slot_of(&engine.keyspace, session, program, self.declared),
            wrote: false,
            used_undeclared: false,
            current: (command, request),
            boundary: Ticks::now(),
            speculative: keyspace.stopped_world().is_none().then(|| Speculative::begin(keyspace.context)),
        };
        let Debugged { debugger, origin } = match session.script.debugging.as_deref_mut() {
            Some(Debugging::Running(debugged)) => std::mem::take(debugged),
            Some(Debugging::Wanted(_)) | None => Debugged::default(),
        };
        let started = self.started;
        let running = &mut self.running;
        let mut hosted = Hosted {
            engine,
            session,
            keyspace,
            run,
            program,
            request,
            started,
            running,
            ends_since: None,
            held_log: Vec::new(),
            origin,
            others: others.reborrow(),
        };
        let (function, name, keys, args) = (program.function, program.name, self.keys, self.args);
        if let Some(debugger) = debugger {
            self.vm.attach(debugger);
        }
        let ended = self.vm.run(function, name, keys, args, &mut hosted, reply);
        if let Some(debugger) = self.vm.detach() {
            let debugged = Debugged { debugger: Some(debugger), origin: None };
            hosted.session.script.debugging = Some(Box::new(Debugging::Running(debugged)));
        }
        hosted.keyspace.context.unjournalled = false;
        let slot = hosted.keyspace.context.slot;
        if ended != Ended::Abandoned {
            hosted.run.commit(engine, hosted.session, slot);
            hosted.held_log.iter().for_each(|(level, line)| write_log(*level, line));
        } else if let Some(speculative) = hosted.run.speculative.take() {
            speculative.roll_back(engine, hosted.keyspace.context);
        }
        ended
    }
}

/// Converts the outcome of a run to the outcome of a command.
fn finish(call: &mut Call, ended: Ended, mark: Mark) -> CommandResult {
    match ended {
        Ended::Replied(mut returned) => {
            if returned.failed {
                // Like a failed command's reply: counted by the dispatcher, unless it was already
                // counted.
                call.reply.truncate(mark);
                return Err(match returned.errors.pop() {
                    Some(line) => CommandError::Bytes(line),
                    None => CommandError::Counted(returned.line),
                });
            }
            let slot = call.keyspace.context.slot;
            returned.errors.iter().for_each(|line| call.engine.telemetry.threads[slot].count_error(line));
            Ok(())
        }
        Ended::Failed { line, counted: false } => Err(CommandError::Bytes(line)),
        Ended::Failed { line, counted: true } => Err(CommandError::Counted(line)),
        // Only runs under locks are abandoned, and those are restarted.
        Ended::Abandoned => Err(CommandError::text("ERR Script was cancelled")),
    }
}

/// The server as seen by a script.
struct Hosted<'h, 't> {
    engine: &'h Engine,
    session: &'h mut Session,
    keyspace: &'h mut Txn<'t>,
    run: ScriptRun<'h>,
    program: &'h Program<'h>,
    request: &'h [&'h [u8]],
    started: Ticks,
    running: &'h mut Option<Arc<Running>>,
    /// When the run was first found to delay the shutdown.
    ends_since: Option<Instant>,
    /// Log lines of a run that may still be abandoned.
    held_log: Vec<(Level, Box<[u8]>)>,
    /// The source of the keys of a script that is debugged in a copy.
    origin: Option<Box<dyn KeySource>>,
    others: Others<'h>,
}

/// Limits on the held log lines: their number, and the bytes of each. A script that logs more is
/// not worth the memory, and may have some lines logged twice.
const HELD_LINES_MAX: usize = 1000;
const HELD_LINE_BYTES_MAX: usize = 4096;

impl Hosted<'_, '_> {
    fn is_alone(&self) -> bool {
        self.keyspace.stopped_world().is_some()
    }

    /// The run as seen by others; created on the first call.
    fn visible(&mut self, elapsed: Duration) -> Arc<Running> {
        let (engine, program, request) = (self.engine, self.program, self.request);
        let running = self.running.get_or_insert_with(|| {
            let started = Instant::now().checked_sub(elapsed).unwrap_or_else(Instant::now);
            let running = Arc::new(Running::new(program.kind, program.name, request, started));
            engine.clients.busy.begin(Arc::clone(&running));
            running
        });
        let running = Arc::clone(running);
        if self.run.wrote {
            running.note_write();
        }
        if self.is_alone() {
            running.set_alone();
            engine.keyspace.gate.set_wait(if running.is_busy() { Wait::Endless } else { Wait::Long });
        }
        running
    }

    #[cold]
    fn begin_busy(&mut self, running: &Running, elapsed: Duration) {
        let program = self.program;
        let command = match program.kind {
            ScriptKind::Script => "SCRIPT KILL",
            ScriptKind::Function => "FUNCTION KILL",
        };
        log::warn!(
            "Slow script detected: still in execution after {} milliseconds. You can try killing the script using the {command} \
             command. Script name is: {}.",
            elapsed.as_millis(),
            program.name
        );
        running.set_busy();
        if self.is_alone() {
            self.engine.keyspace.gate.set_wait(Wait::Endless);
        }
        // Requests that were held back are answered now.
        self.engine.clients.mailboxes.tell_all(|| Message::Resume);
    }
}

impl Host for Hosted<'_, '_> {
    #[inline]
    fn call(&mut self, args: &[&[u8]], reply: &mut ReplyBuffer) -> Called {
        if let Some(origin) = &mut self.origin {
            origin.provide(self.keyspace, self.session.db, args);
        }
        let called = script::call(self.engine, self.session, self.keyspace, &mut self.run, reply, args);
        if let Some(running) = self.running.as_ref().filter(|_| self.run.wrote) {
            running.note_write();
        }
        match called {
            ScriptCall::Replied => Called::Replied,
            ScriptCall::Refused => Called::Refused,
            ScriptCall::Undeclared if !self.run.wrote => Called::Abandoned,
            ScriptCall::Undeclared => {
                // A script that could reach an undeclared key after a write does not run under
                // locks; if that finding was wrong, the script must not continue silently.
                log::error!("Script {} accessed a key that its key analysis had excluded", self.program.name);
                reply.error("ERR Script attempted to access a key that it did not declare");
                Called::Refused
            }
        }
    }

    fn log(&mut self, level: Level, text: &[u8]) {
        let is_small = self.held_log.len() < HELD_LINES_MAX && text.len() < HELD_LINE_BYTES_MAX;
        if self.run.speculative.is_some() && is_small {
            self.held_log.push((level, text.into()));
        } else {
            self.held_log.drain(..).for_each(|(level, line)| write_log(level, &line));
            write_log(level, text);
        }
    }

    fn logs(&self, level: Level) -> bool {
        log::log_enabled!(log_level(level))
    }

    fn may_call(&mut self, args: &[&[u8]]) -> Option<bool> {
        let command = script::find(self.engine, args)?;
        Some(self.session.login.user.check(command, args, self.session.db).is_ok())
    }

    fn set_replication(&mut self, targets: u8) {
        // One journal feeds the file and the replicas: they cannot be chosen separately.
        self.keyspace.context.unjournalled = targets == 0;
    }

    fn interrupt(&mut self) -> Verdict {
        if self.origin.is_some() {
            // Nobody waits for a script that is debugged in a copy.
            return Verdict::Continue;
        }
        self.run.boundary = Ticks::now();
        let elapsed = Duration::from_nanos(self.run.boundary.nanos_since(self.started));
        if elapsed < VISIBLE_AFTER {
            return Verdict::Continue;
        }
        let running = self.visible(elapsed);
        self.others.serve();
        if self.engine.shutdown.is_imminent() {
            if !self.run.wrote {
                return Verdict::Kill;
            }
            let timeout = Duration::from_secs(u64::from(self.engine.config.shutdown_timeout_seconds()));
            if self.ends_since.get_or_insert_with(Instant::now).elapsed() >= timeout {
                shutdown::exit_during_script(self.engine, self.program.name);
            }
        }
        if running.is_killed() {
            log::info!("Lua script killed by user with SCRIPT KILL.");
            return Verdict::Kill;
        }
        let threshold = self.engine.config.busy_reply_threshold_milliseconds();
        if !running.is_busy() && threshold > 0 && elapsed.as_millis() >= u128::from(threshold) {
            if !self.is_alone() && !self.run.wrote {
                return Verdict::Abandon;
            }
            self.begin_busy(&running, elapsed);
        }
        Verdict::Continue
    }
}

fn write_log(level: Level, text: &[u8]) {
    log::log!(log_level(level), "{}", String::from_utf8_lossy(text));
}

fn log_level(level: Level) -> log::Level {
    match level {
        Level::Debug => log::Level::Trace,
        Level::Verbose => log::Level::Debug,
        Level::Notice => log::Level::Info,
        Level::Warning => log::Level::Warn,
    }
}
