//! A run: a script gets its locks, and its commands get to the dispatcher.

use braid_base::clock::Ticks;
use braid_engine::dispatch::script::{self, ScriptCall, ScriptRun};
use braid_engine::{Call, CommandError, CommandResult, Engine, Session};
use braid_keyspace::{KeyRef, Txn};
use braid_resp::reply::{Mark, ReplyBuffer};
use braid_scripting::{Called, Ended, Function, Host, Level, Machine, ScriptFlags, Verdict};
use smallvec::SmallVec;

/// What is to be run.
pub(super) struct Program<'a> {
    pub function: Function,
    /// As errors call it.
    pub name: &'a str,
    pub flags: ScriptFlags,
    /// Called by a command that only reads.
    pub read_only: bool,
}

/// Arguments of a request.
type Args<'a> = &'a [&'a [u8]];

/// The keys and arguments of a request that runs a script, by the count at argument 2.
pub(super) fn split_arguments<'a>(call: &Call<'a, '_>) -> Result<(Args<'a>, Args<'a>), CommandError> {
    let count = call.integer_arg(2)?;
    let rest = &call.args[3..];
    if count > rest.len() as i64 {
        return Err(CommandError::text("ERR Number of keys can't be greater than number of args"));
    }
    match usize::try_from(count) {
        Ok(count) => Ok(rest.split_at(count)),
        Err(_) => Err(CommandError::text("ERR Number of keys can't be negative")),
    }
}

/// Refuses a script that says itself that it cannot run now.
pub(super) fn check(call: &Call, program: &Program<'_>) -> CommandResult {
    let flags = program.flags;
    if flags.has(ScriptFlags::UNDECLARED) {
        return Ok(());
    }
    if program.read_only && !flags.has(ScriptFlags::NO_WRITES) {
        return Err(CommandError::text("ERR Can not execute a script with write flag using *_ro command."));
    }
    if call.session.out_of_memory && !flags.has(ScriptFlags::ALLOW_OOM) && !flags.has(ScriptFlags::NO_WRITES)
    {
        return Err(CommandError::text("OOM command not allowed when used memory > 'maxmemory'."));
    }
    Ok(())
}

/// Runs a script for a client and writes its reply.
pub(super) fn run(
    call: &mut Call,
    machine: &mut Machine,
    program: &Program<'_>,
    keys: &[&[u8]],
    args: &[&[u8]],
) -> CommandResult {
    let (engine, db, now) = (call.engine, call.keyspace.db(), call.now());
    let keyspace = &engine.keyspace;
    let write = !(program.read_only || program.flags.has(ScriptFlags::NO_WRITES));
    let declared: SmallVec<[KeyRef<'_>; 8]> =
        keys.iter().map(|key| KeyRef { key, hash: keyspace.hash(key), write }).collect();
    let mut runner = Runner {
        engine,
        run: ScriptRun {
            declared: &declared,
            strict: !engine.config.script_undeclared_keys(),
            read_only: !write,
            allow_out_of_memory: program.flags.has(ScriptFlags::ALLOW_OOM),
            out_of_memory: call.session.out_of_memory,
            allow_all: engine.debug.scripts_call_all.load(std::sync::atomic::Ordering::Relaxed),
            wrote: false,
            strayed: false,
            boundary: Ticks::now(),
        },
    };
    let mark = call.reply.mark();
    let could_block = !std::mem::replace(&mut call.session.deny_blocking, true);
    call.session.in_script = true;
    let mut execute = |txn: &mut Txn<'_>, session: &mut Session, reply: &mut ReplyBuffer| {
        let mut host = Hosted { runner: &mut runner, session, keyspace: txn };
        machine.run(program.function, program.name, keys, args, &mut host, reply)
    };
    let ended = if call.keyspace.stopped_world().is_some() {
        // Part of a transaction.
        execute(call.keyspace, call.session, call.reply)
    } else if runner_is_strict(engine) {
        let mut txn = Txn::lock(keyspace, call.keyspace.context, db, now, &declared);
        let ended = execute(&mut txn, call.session, call.reply);
        script::serve(engine, call.session, &mut txn);
        ended
    } else {
        let world = keyspace.gate.close(Some(call.keyspace.context.slot));
        let mut txn = Txn::world(keyspace, call.keyspace.context, world, db, now);
        let ended = execute(&mut txn, call.session, call.reply);
        script::serve(engine, call.session, &mut txn);
        ended
    };
    call.session.in_script = false;
    call.session.deny_blocking = !could_block;
    // SELECT within a script is for the script only.
    if call.session.db != db {
        call.session.select(db);
    }
    finish(call, ended, mark)
}

fn runner_is_strict(engine: &Engine) -> bool {
    !engine.config.script_undeclared_keys()
}

/// Turns the end of a run into the end of a command.
fn finish(call: &mut Call, ended: Ended, mark: Mark) -> CommandResult {
    match ended {
        Ended::Replied(mut returned) => {
            if returned.failed {
                // As the reply of a command that fails: counted by the dispatcher, unless that has happened.
                call.reply.truncate(mark);
                return Err(match returned.errors.pop() {
                    Some(line) => CommandError::Bytes(line),
                    None => CommandError::Counted(returned.line),
                });
            }
            let slot = call.keyspace.context.slot;
            returned.errors.iter().for_each(|line| call.engine.threads[slot].count_error(line));
            Ok(())
        }
        Ended::Failed { line, counted: false } => Err(CommandError::Bytes(line)),
        Ended::Failed { line, counted: true } => Err(CommandError::Counted(line)),
        Ended::Abandoned => Err(CommandError::text("ERR Script was abandoned")),
    }
}

struct Runner<'r> {
    engine: &'r Engine,
    run: ScriptRun<'r>,
}

/// The server as a script sees it.
struct Hosted<'h, 'r, 't> {
    runner: &'h mut Runner<'r>,
    session: &'h mut Session,
    keyspace: &'h mut Txn<'t>,
}

impl Host for Hosted<'_, '_, '_> {
    fn call(&mut self, args: &[&[u8]], reply: &mut ReplyBuffer) -> Called {
        let Runner { engine, run } = self.runner;
        match script::call(engine, self.session, self.keyspace, run, reply, args) {
            ScriptCall::Replied => Called::Replied,
            ScriptCall::Refused => Called::Refused,
            ScriptCall::Strayed => Called::Abandoned,
        }
    }

    fn log(&mut self, level: Level, text: &[u8]) {
        log::log!(log_level(level), "{}", String::from_utf8_lossy(text));
    }

    fn logs(&self, level: Level) -> bool {
        log::log_enabled!(log_level(level))
    }

    fn may_call(&mut self, args: &[&[u8]]) -> Option<bool> {
        script::find(self.runner.engine, args).map(|_| true)
    }

    fn set_replication(&mut self, _: u8) {}

    fn interrupt(&mut self) -> Verdict {
        Verdict::Continue
    }
}

fn log_level(level: Level) -> log::Level {
    match level {
        Level::Debug => log::Level::Trace,
        Level::Verbose => log::Level::Debug,
        Level::Notice => log::Level::Info,
        Level::Warning => log::Level::Warn,
    }
}
