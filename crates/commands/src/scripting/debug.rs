// SPDX-License-Identifier: BSD-3-Clause
//! SCRIPT DEBUG, and the sessions that it leads to (`crate::scripting::debugger`).

use std::sync::Arc;
use std::time::Duration;

use braid_acl::user::User;
use braid_base::clock::unix_ms;
use braid_clients::ClientRecord;
use braid_config::Config;
use braid_executor::engine::Start;
use braid_executor::state::script_debugger::{DebugMode, Debugged, Debugging, Departure, KeySource};
use braid_executor::{Call, Engine, Session, processors};
use braid_resp::reply::{Protocol, ReplyBuffer};
use braid_scripting::Debugger;
use braid_spec::{CommandError, CommandResult};

use crate::scripting::debugger::{self, Origin, StreamConsole};

/// Settings of the server that also hold for the copy in which a script is debugged. Those that
/// decide how values are stored show in OBJECT ENCODING.
const COPIED_SETTINGS: &[&str] = &[
    "hash-max-listpack-entries",
    "hash-max-listpack-value",
    "hll-sparse-max-bytes",
    "list-max-listpack-size",
    "lua-memory",
    "proto-max-bulk-len",
    "redis-version",
    "script-undeclared-keys",
    "set-max-intset-entries",
    "set-max-listpack-entries",
    "set-max-listpack-value",
    "stream-node-max-bytes",
    "stream-node-max-entries",
    "zset-max-listpack-entries",
    "zset-max-listpack-value",
];
/// Running time after which a script that was continued stops again, if `busy-reply-threshold`
/// names none.
const TIMEOUT: Duration = Duration::from_secs(5);

/// SCRIPT DEBUG.
pub(super) fn set(call: &mut Call) -> CommandResult {
    if !call.reply.is_empty() {
        return Err(CommandError::text("ERR SCRIPT DEBUG must be called outside a pipeline"));
    }
    let mode = match () {
        () if call.arg_is(2, "no") => None,
        () if call.arg_is(2, "yes") => Some(DebugMode::Copy),
        () if call.arg_is(2, "sync") => Some(DebugMode::Sync),
        () => return Err(CommandError::text("ERR Use SCRIPT DEBUG YES/SYNC/NO")),
    };
    call.session.script.debugging = mode.map(|mode| Box::new(Debugging::Wanted(mode)));
    call.reply.ok();
    Ok(())
}

/// The mode in which the client wants its scripts to be debugged.
pub(super) fn wanted(session: &Session) -> Option<DebugMode> {
    match session.script.debugging.as_deref() {
        Some(Debugging::Wanted(mode)) => Some(*mode),
        Some(Debugging::Running(_)) | None => None,
    }
}

/// A request whose script is debugged.
struct Job {
    /// The command's ID, which is the same in a copy.
    command: u32,
    args: Vec<Vec<u8>>,
    mode: DebugMode,
    record: Arc<ClientRecord>,
    user: Arc<User>,
    db: u32,
    protocol: Protocol,
}

/// Makes the connection leave its loop, for a thread that runs the script of this request.
pub(super) fn begin(call: &mut Call, mode: DebugMode) -> CommandResult {
    if call.session.execution.deny_blocking {
        return Err(CommandError::text("ERR A script in a transaction cannot be debugged"));
    }
    let engine = call.engine.shared().ok_or(CommandError::text("ERR the server is shutting down"))?;
    let session = &mut *call.session;
    let job = Job {
        command: call.command.id,
        args: call.args.iter().map(|arg| arg.to_vec()).collect(),
        mode,
        record: Arc::clone(&session.record),
        user: Arc::clone(&session.login.user),
        db: session.db,
        protocol: call.reply.protocol,
    };
    let departure: Departure = Box::new(move |stream| {
        let run = move || debug(&engine, &job, StreamConsole::new(stream));
        if let Err(error) = std::thread::Builder::new().name("script-debugger".into()).spawn(run) {
            log::warn!("Cannot start a thread that debugs a script: {error}");
        }
    });
    session.departure = Some(departure);
    session.close();
    Ok(())
}

/// Runs the script and closes the connection.
fn debug(server: &Arc<Engine>, job: &Job, console: StreamConsole) {
    processors::bind_background_thread(server);
    let timeout = match server.config.busy_reply_threshold_milliseconds() {
        milliseconds @ 1.. => Duration::from_millis(milliseconds),
        _ => TIMEOUT,
    };
    let debugger = Box::new(Debugger::new(Box::new(console), &job.args[1], timeout));
    let is_sync = job.mode == DebugMode::Sync;
    let engine = if is_sync { Ok(Arc::clone(server)) } else { copy_of(server) };
    let engine = match engine {
        Ok(engine) => engine,
        Err(why) => {
            log::warn!("Cannot debug a script in a copy: {why}");
            return debugger.end(format!("-ERR can't run EVAL in debugging mode: {why}\r\n").as_bytes());
        }
    };
    log::info!("Debugging session started, {}", if is_sync { "in the server" } else { "in a copy" });
    let origin = || Box::new(Origin::new(Arc::clone(server), Arc::clone(&engine))) as Box<dyn KeySource>;
    let origin = (!is_sync).then(origin);
    let debugged = Debugged { debugger: Some(debugger), origin };
    let record = if is_sync { Arc::clone(&job.record) } else { record_like(&job.record) };
    let mut session = Session::for_debugger(record, Arc::clone(&job.user), job.db, debugged);
    let args: Vec<&[u8]> = job.args.iter().map(Vec::as_slice).collect();
    let mut reply = ReplyBuffer::new(job.protocol);
    let command = engine.commands.get(job.command);
    if let Err(error) = debugger::run_alone(&engine, &mut session, command, &args, &mut reply) {
        reply.error_bytes(&error.line());
    }
    log::info!("Debugging session ended");
    if let Some(Debugging::Running(debugged)) = session.script.debugging.map(|debugging| *debugging)
        && let Some(debugger) = debugged.debugger
    {
        debugger.end(&reply.to_bytes());
    }
}

/// A client's record for another engine: the client's own names a thread of its server.
fn record_like(client: &ClientRecord) -> Arc<ClientRecord> {
    let (address, local) = (client.address.clone(), client.local_address.clone());
    Arc::new(ClientRecord::new(client.id, -1, address, local, unix_ms()))
}

/// An engine without clients and files, with the settings on which scripts depend.
fn copy_of(server: &Engine) -> Result<Arc<Engine>, String> {
    let config = Config::new();
    let databases = server.keyspace.databases();
    let mut text = format!("databases {databases}\nio-threads 1\nshards 16\nsave \"\"\n");
    for (name, value) in server.config.get(COPIED_SETTINGS) {
        text.push_str(&format!("{name} {value}\n"));
    }
    config.load_text(&text).map_err(|error| error.to_string())?;
    braid_node::start(Arc::new(config), server.commands.clone(), Start::default())
        .map_err(|error| error.to_string())
}
