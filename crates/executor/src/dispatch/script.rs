// SPDX-License-Identifier: BSD-3-Clause
//! Commands called by scripts: the same checks, bodies and counters as clients' commands, under the
//! locks of the script's run.
//!
//! HOT PATH: as `dispatch.rs`.
//!
//! A run holds either the whole world or the locks of the script's declared keys. In the second
//! case a command that needs anything else does not run and returns [`ScriptCall::Undeclared`]; the
//! caller decides whether to restart the script with the world stopped.

use braid_base::clock::{Ticks, unix_ms};
use braid_base::crc::key_hash_slot;
use braid_keyspace::txn::{KeyRef, Txn};
use braid_resp::reply::ReplyBuffer;
use braid_telemetry::Telemetry;
use smallvec::SmallVec;

use super::body::run_body;
use super::checks::AdmissionContext;

pub use super::checks::{NO_LINK, write_refusal};
pub use super::slots::OneSlot;
use super::speculative::Speculative;
use super::{collect_keys, count, note_reads, report};
use crate::blocking;
use crate::cluster_map::ClusterView;
use crate::engine::Engine;
use crate::engine::access;
use crate::engine::call::{Call, Others};
use crate::feeds;
use crate::locks::LockSet;
use crate::session::Session;
use braid_acl::log::Origin;
use braid_clients::attention::{FEEDS, MONITORS, STALE};
use braid_spec::{Command, Flags, Scope, keys};
use braid_telemetry::{CommandLogs, Cost, monitor};

/// State of a script's run in the dispatcher.
pub struct ScriptRun<'k> {
    /// Keys declared by the request.
    pub declared: &'k [KeyRef<'k>],
    /// Undeclared keys are an error.
    pub strict: bool,
    /// Writes are refused.
    pub read_only: bool,
    /// Commands that need memory are allowed above the limit.
    pub allow_out_of_memory: bool,
    /// Memory was above the limit when the script began.
    pub out_of_memory: bool,
    /// Commands with `noscript` are allowed (a test switch).
    pub allow_all: bool,
    /// In cluster mode: the slot of all keys so far, unless the script may use several.
    pub slot: Option<OneSlot>,
    /// A command that writes has been called.
    pub wrote: bool,
    /// A command needed more than the declared keys.
    pub used_undeclared: bool,
    /// The command that runs the script, and its arguments.
    pub current: (&'k Command, &'k [&'k [u8]]),
    /// End of the last command, or the script's latest interruption: of the script's own time, less
    /// than a millisecond counts as its next command's.
    pub boundary: Ticks,
    /// Statistics of a speculative run, until it is committed or rolled back.
    pub speculative: Option<Speculative>,
}

impl ScriptRun<'_> {
    /// Makes a speculative run final. Its locks must still be held.
    pub fn commit(&mut self, engine: &Engine, session: &Session, slot: usize) {
        if let Some(speculative) = self.speculative.take() {
            speculative.commit(engine, session, slot);
        }
    }

    /// Sends a command to MONITOR clients, or holds its line while the run is speculative.
    #[cold]
    fn tell_monitors(
        &mut self,
        engine: &Engine,
        slot: usize,
        session: &Session,
        command: &Command,
        args: &[&[u8]],
    ) {
        match &mut self.speculative {
            Some(run) if monitor::is_shown_to_monitors(command) => {
                run.lines.push(monitor::line(report::caller(session), command, args))
            }
            Some(_) => {}
            None => report::monitor(engine, slot, session, command, args),
        }
    }
}

/// Outcome of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScriptCall {
    /// The command has run.
    Replied,
    /// The command was refused; the reply is the error.
    Refused,
    /// The command needs more than the run holds; nothing has happened.
    Undeclared,
}

/// The error for undeclared keys when the run is strict.
const UNDECLARED: &str = "ERR Script attempted to access a key that it did not declare";

/// Serves clients waiting for keys that the script has changed, before the run's locks are
/// released. Work that needs other locks is deferred to the end of the command that ran the
/// script.
pub fn serve(engine: &Engine, session: &mut Session, keyspace: &mut Txn<'_>) {
    if keyspace.context.follow_up.get() {
        let mut later = session.script.later.take().unwrap_or_default();
        blocking::serve_held(engine, keyspace, &mut later);
        session.script.later = Some(later);
    }
}

/// Stops the world for the command of `call`, which runs a script; see [`LockSet::world`].
pub fn world_for<'e>(call: &mut Call<'e, '_>) -> Option<LockSet<'e>> {
    let Call { engine, command, session, args, keyspace, .. } = call;
    let (queue, now_ms) = (session.transaction.queue.as_deref(), unix_ms());
    let admission = AdmissionContext { engine, session, queue, command, args, now_ms };
    LockSet::world(&engine.keyspace, keyspace.context, || admission.is_outdated())
}

/// Runs a command of a script.
pub fn call(
    engine: &Engine,
    session: &mut Session,
    keyspace: &mut Txn<'_>,
    run: &mut ScriptRun<'_>,
    reply: &mut ReplyBuffer,
    args: &[&[u8]],
) -> ScriptCall {
    let Some(command) = find(engine, args) else {
        let line = b"ERR Unknown Redis command called from script";
        return refuse(&engine.telemetry, keyspace, run, reply, None, line);
    };
    keyspace.set_db(session.db);
    let (blobs, others) = (&[][..], Others::default());
    let mut call = Call { engine, command, session, args, blobs, keyspace, reply, others };
    if let Err(text) = check(run, command, args) {
        return refuse_call(&mut call, run, text.as_bytes());
    }
    let is_stale = engine.attention.get() & STALE != 0 && !call.session.execution.is_replay;
    if is_stale && !command.spec.flags.has(Flags::STALE) {
        return refuse_call(&mut call, run, b"ERR Can not execute the command on a stale replica");
    }
    // A script that has written is not stopped halfway.
    if !run.wrote
        && command.spec.flags.has(Flags::WRITE)
        && let Some(error) = write_refusal(engine, call.session)
    {
        return refuse_call(&mut call, run, &error.line());
    }
    if engine.attention.get() & FEEDS != 0
        && !call.session.execution.is_replay
        && let Err(error) = feeds::check(engine, command, args)
    {
        return refuse_call(&mut call, run, &error.line());
    }
    if let Err(denied) = call.session.allows(command, args) {
        if run.speculative.is_some() && !run.strict {
            // A denial is logged only once the script runs alone, because a speculative run may
            // still be abandoned.
            return ScriptCall::Undeclared;
        }
        access::note_denied(engine, call.session, command, args, Origin::Script, run.current, denied);
        let text = denied.text(call.session.login.user.name(), command);
        let line = [b"ERR ACL failure in script: ", &text[..]].concat();
        return refuse_call(&mut call, run, &line);
    }
    if engine.keyspace.is_by_slot()
        && !call.session.execution.is_replay
        && let Err(text) = check_slots(engine, run, command, args)
    {
        return refuse_call(&mut call, run, text.as_bytes());
    }
    let spec = command.spec;
    let is_world = call.keyspace.stopped_world().is_some();
    if command.simple_keys.is_single() && spec.scope == Scope::Keys {
        let key = args[1];
        let keys =
            [KeyRef { key, hash: engine.keyspace.hash(key), write: command.simple_keys.locks_exclusively }];
        if !may_reach(call.keyspace, run, &keys, is_world) {
            return undeclared(&mut call, run);
        }
        return execute(&mut call, run, &keys);
    }
    let mut keys = SmallVec::<[KeyRef<'_>; 8]>::new();
    let names_keys = spec.scope_of(args) == Scope::Keys;
    if names_keys {
        collect_keys(engine, spec, args, &mut keys);
        // Effects beyond keys cannot be rolled back, nor do key locks guard them.
        let acts = Flags::ADMIN | Flags::PUBSUB | Flags::MAY_REPLICATE | Flags::WRITE | Flags::NOSCRIPT;
        if keys.is_empty() && spec.flags.any(acts) {
            run.used_undeclared = true;
            if !is_world && !run.strict {
                return ScriptCall::Undeclared;
            }
        }
        if !may_reach(call.keyspace, run, &keys, is_world) {
            return undeclared(&mut call, run);
        }
    } else {
        run.used_undeclared = true;
        if !is_world || run.strict {
            return undeclared(&mut call, run);
        }
    }
    execute(&mut call, run, &keys)
}

/// The command or subcommand named by the arguments.
pub fn find<'e>(engine: &'e Engine, args: &[&[u8]]) -> Option<&'e Command> {
    let command = engine.commands.find(args.first()?)?;
    match args.get(1) {
        Some(name) if !command.subcommands.is_empty() => engine.commands.find_subcommand(command, name),
        _ if command.spec.is_container => None,
        _ => Some(command),
    }
}

fn check(run: &mut ScriptRun<'_>, command: &Command, args: &[&[u8]]) -> Result<(), &'static str> {
    let spec = command.spec;
    if !spec.arity.allows(args.len()) {
        return Err("ERR Wrong number of args calling Redis command from script");
    }
    if spec.flags.has(Flags::NOSCRIPT) && !run.allow_all {
        return Err("ERR This Redis command is not allowed from script");
    }
    if run.read_only && spec.flags.any(Flags::WRITE | Flags::MAY_REPLICATE) {
        return Err("ERR Write commands are not allowed from read-only scripts.");
    }
    // A script that has written is not stopped halfway.
    if run.out_of_memory && spec.flags.has(Flags::DENYOOM) && !run.allow_out_of_memory && !run.wrote {
        return Err("OOM command not allowed when used memory > 'maxmemory'.");
    }
    Ok(())
}

/// Cluster mode: all keys of a command must be in one slot, and so must the keys of all commands
/// unless the script's flags say otherwise. The error is Redis's text.
#[cold]
fn check_slots(
    engine: &Engine,
    run: &mut ScriptRun<'_>,
    command: &Command,
    args: &[&[u8]],
) -> Result<(), String> {
    if reaches_elsewhere(engine, run, command, args) {
        return Err("ERR Script attempted to access a non local key in a cluster node".to_owned());
    }
    if !OneSlot::default().accepts_all(command, args) {
        return Err(if engine.process.follows_redis_8() {
            let name = &command.full_name;
            format!(
                "ERR Command '{name}' in script attempted to access keys that don't hash to the same slot"
            )
        } else {
            "ERR Script attempted to access a non local key in a cluster node".to_owned()
        });
    }
    let strays = run.slot.as_mut().is_some_and(|slot| !slot.accepts_all(command, args));
    if strays {
        return Err("ERR Script attempted to access keys that do not hash to the same slot".to_owned());
    }
    Ok(())
}

/// True if a command names a key that the script has not declared and whose slot this node does
/// not serve, at all or at present.
fn reaches_elsewhere(engine: &Engine, run: &ScriptRun<'_>, command: &Command, args: &[&[u8]]) -> bool {
    let Some(map) = engine.cluster_map() else { return false };
    let found = keys::find_slotted(command.spec, args).unwrap_or_default();
    found.into_iter().any(|at| {
        let key = args[at.index];
        let slot = key_hash_slot(key);
        let owns = |view: &ClusterView| view.owns(slot) && (!view.leads || map.is_led());
        let is_here = (map.serves(slot) || owns(&map.view())) && !engine.slot_moves.holds(slot);
        !is_here && !run.declared.iter().any(|declared| declared.key == key)
    })
}

/// True if the run holds these keys; records undeclared ones.
fn may_reach(keyspace: &Txn<'_>, run: &mut ScriptRun<'_>, keys: &[KeyRef<'_>], is_world: bool) -> bool {
    let declares = |run: &ScriptRun<'_>, key: &KeyRef<'_>| {
        run.declared
            .iter()
            .any(|known| known.hash == key.hash && known.key == key.key && (known.write || !key.write))
    };
    if run.strict {
        return keys.iter().all(|key| declares(run, key));
    }
    if is_world {
        run.used_undeclared = run.used_undeclared || !keys.iter().all(|key| declares(run, key));
        return true;
    }
    keys.iter().all(|key| keyspace.covers_hash(key.hash, key.write))
}

#[cold]
fn undeclared(call: &mut Call<'_, '_>, run: &mut ScriptRun<'_>) -> ScriptCall {
    run.used_undeclared = true;
    if run.strict { refuse_call(call, run, UNDECLARED.as_bytes()) } else { ScriptCall::Undeclared }
}

#[cold]
fn refuse_call(call: &mut Call<'_, '_>, run: &mut ScriptRun<'_>, line: &[u8]) -> ScriptCall {
    refuse(&call.engine.telemetry, call.keyspace, run, call.reply, Some(call.command), line)
}

#[cold]
fn refuse(
    telemetry: &Telemetry,
    keyspace: &Txn<'_>,
    run: &mut ScriptRun<'_>,
    reply: &mut ReplyBuffer,
    command: Option<&Command>,
    line: &[u8],
) -> ScriptCall {
    let slot = keyspace.context.slot;
    telemetry.threads[slot].count_error(line);
    if let Some(command) = command {
        telemetry.command_stats(slot, command.id).rejected.add(1);
    }
    if let Some(speculative) = &mut run.speculative {
        speculative.note_error(line);
        if let Some(command) = command {
            speculative.note_rejected(command.id);
        }
    }
    reply.error_bytes(line);
    ScriptCall::Refused
}

#[inline]
fn execute(call: &mut Call<'_, '_>, run: &mut ScriptRun<'_>, keys: &[KeyRef<'_>]) -> ScriptCall {
    let Call { engine, command, session, args, blobs, keyspace, reply, .. } = call;
    let slot = keyspace.context.slot;
    if command.spec.flags.has(Flags::WRITE) {
        run.wrote = true;
        run.commit(engine, session, slot);
    }
    let reply_start = reply.len();
    let errors = engine.telemetry.threads[slot].error_replies.get();
    let failed = keyspace.with_keys(keys, |keyspace| {
        let others = Others::default();
        run_body(&mut Call { engine, command, session, args, blobs, keyspace, reply, others }, false)
    });
    let end = Ticks::now();
    let nanos = end.nanos_since(run.boundary);
    run.boundary = end;
    count(engine, slot, command, nanos, failed);
    let cost = Cost { nanos, reply_bytes: reply.len().saturating_sub(reply_start) };
    let is_noteworthy = engine.telemetry.logs.is_noteworthy(cost, 0);
    match &mut run.speculative {
        None => {
            engine.telemetry.hot_keys.note(keyspace.context, command, args, cost);
            if is_noteworthy {
                report::log(engine, session, command, args, cost);
            }
        }
        Some(speculative) => {
            speculative.note_call(command.id, nanos, failed);
            if is_noteworthy && CommandLogs::would_note(&engine.config, args, cost) {
                speculative.note_logged(command, args, cost);
            }
            engine.telemetry.hot_keys.note_held(
                keyspace.context,
                command,
                args,
                cost,
                &mut speculative.samples,
            );
            if failed
                && engine.telemetry.threads[slot].error_replies.get() != errors
                && let Some(line) = reply.as_contiguous().and_then(|reply| reply.strip_prefix(b"-"))
            {
                speculative.note_error(line);
            }
        }
    }
    if engine.attention.get() & MONITORS != 0 {
        run.tell_monitors(engine, slot, session, command, args);
    }
    note_reads(engine, session, keyspace, command, args);
    ScriptCall::Replied
}
