// SPDX-License-Identifier: BSD-3-Clause
//! EVAL, EVALSHA, their read-only variants, and SCRIPT.

use braid_clients::busy::ScriptKind;
use braid_executor::{Call, Engine, Row};
use braid_scripting::cache::parse_sha;
use braid_scripting::parse_shebang;
use braid_scripting::thread_vms::ThreadVms;
use braid_spec::{Behavior, CommandError, CommandResult, Flags, Group, Scope};

use super::debug;
use super::run::{self, Program};

const fn subcommand(name: &'static str, handler: braid_executor::Handler) -> Row {
    Row::new(name, Group::Scripting, handler).flags(Flags::NOSCRIPT).scope(Scope::Walk)
}

pub(super) const SUBCOMMANDS: &[Row] = &[
    subcommand("debug", debug::set)
        .exactly(3)
        .docs("3.2.0", "Sets whether scripts of this connection are debugged.", "O(1)")
        .syntax("mode:(YES|SYNC|NO)"),
    subcommand("exists", exists)
        .at_least(3)
        .docs(
            "2.6.0",
            "Returns which scripts are cached.",
            "O(N) with N being the number of scripts to check (so checking a single script is an O(1) operation).",
        )
        .syntax("sha1:string...")
        .tips(&["request_policy:all_shards", "response_policy:agg_logical_and"]),
    subcommand("flush", flush)
        .behavior(Behavior::REPLAYED)
        .at_least(2)
        .docs("2.6.0", "Clears the script cache.", "O(N) with N being the number of scripts in cache")
        .history(&[("6.2.0", "Added the `ASYNC` and `SYNC` flushing mode modifiers.")])
        .syntax("[flush-type:(ASYNC|SYNC)@6.2.0]")
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    Row::new("help", Group::Scripting, help)
        .exactly(2)
        .flags(Flags::LOADING.and(Flags::STALE))
        .docs("5.0.0", "Lists the subcommands.", "O(1)"),
    subcommand("kill", kill)
        .exactly(2)
        .flags(Flags::NOSCRIPT.and(Flags::ALLOW_BUSY))
        .docs("2.6.0", "Kills the running script.", "O(1)")
        .tips(&["request_policy:all_shards", "response_policy:one_succeeded"]),
    subcommand("load", load)
        .behavior(Behavior::REPLAYED)
        .exactly(3)
        .flags(Flags::NOSCRIPT.and(Flags::STALE))
        .docs("2.6.0", "Caches a script without running it.", "O(N) with N being the length in bytes of the script body.")
        .syntax("script:string")
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    subcommand("show", show)
        .exactly(3)
        .flags(Flags::NOSCRIPT.and(Flags::STALE))
        .docs("8.0.0", "Returns a script of the cache.", "O(1)")
        .syntax("sha1:string"),
];

#[derive(Clone, Copy)]
enum By {
    Body,
    Sha,
}

/// The flags declared in a script's first line. An invalid line is refused later.
pub(super) fn declares(_: &Engine, args: &[&[u8]]) -> Option<Flags> {
    let (flags, _) = parse_shebang(args.get(1)?).ok()?;
    run::declared(flags)
}

/// The declared flags of a cached script.
pub(super) fn sha_declares(engine: &Engine, args: &[&[u8]]) -> Option<Flags> {
    run::declared(engine.scripts.cache.script(&parse_sha(args.get(1)?)?)?.flags)
}

pub(super) fn eval(call: &mut Call) -> CommandResult {
    evaluate(call, By::Body, false)
}

pub(super) fn eval_sha(call: &mut Call) -> CommandResult {
    evaluate(call, By::Sha, false)
}

pub(super) fn eval_read_only(call: &mut Call) -> CommandResult {
    evaluate(call, By::Body, true)
}

pub(super) fn eval_sha_read_only(call: &mut Call) -> CommandResult {
    evaluate(call, By::Sha, true)
}

fn evaluate(call: &mut Call, by: By, read_only: bool) -> CommandResult {
    match (debug::wanted(call.session), by) {
        (None, _) => {}
        (Some(mode), By::Body) => return debug::begin(call, mode),
        (Some(_), By::Sha) => {
            return Err(CommandError::text("ERR Please use EVAL instead of EVALSHA for debugging"));
        }
    }
    let (keys, args) = run::split_arguments(call, "ERR value is not an integer or out of range")?;
    let (scripts, slot) = (&call.engine.scripts, call.keyspace.context.slot);
    scripts.with_vms(slot, |vms| evaluate_on(call, vms, by, read_only, keys, args))?
}

fn evaluate_on(
    call: &mut Call,
    vms: &mut ThreadVms,
    by: By,
    read_only: bool,
    keys: &[&[u8]],
    args: &[&[u8]],
) -> CommandResult {
    let environment = call.engine.scripts.environment(&call.engine.config, &call.engine.commands);
    let compiled = match by {
        By::Body => vms.by_body(&environment, call.args[1], false, call.clock_ms())?,
        By::Sha => vms.by_sha(&environment, call.args[1], call.clock_ms())?,
    };
    let script = &compiled.script;
    let program = Program {
        function: compiled.function,
        name: &script.name,
        flags: script.flags,
        read_only,
        kind: ScriptKind::Script,
        history: &script.history,
        reach: script.reach,
    };
    run::check(call, &program)?;
    run::run(call, vms.scripts(&call.engine.config), &program, keys, args)
}

fn load(call: &mut Call) -> CommandResult {
    let (scripts, slot) = (&call.engine.scripts, call.keyspace.context.slot);
    let compiled = scripts.with_vms(slot, |vms| {
        vms.by_body(
            &call.engine.scripts.environment(&call.engine.config, &call.engine.commands),
            call.args[2],
            true,
            call.clock_ms(),
        )
    })??;
    call.reply.bulk(compiled.script.name.as_bytes());
    Ok(())
}

fn exists(call: &mut Call) -> CommandResult {
    let cache = &call.engine.scripts.cache;
    call.reply.array(call.args.len() - 2);
    for text in &call.args[2..] {
        let known = parse_sha(text).is_some_and(|sha| cache.script(&sha).is_some());
        call.reply.integer(i64::from(known));
    }
    Ok(())
}

/// As in Valkey 8.
fn show(call: &mut Call) -> CommandResult {
    let script = parse_sha(call.args[2]).and_then(|sha| call.engine.scripts.cache.script(&sha));
    let script = script.ok_or(CommandError::text("NOSCRIPT No matching script."))?;
    call.reply.bulk(&script.body());
    Ok(())
}

fn flush(call: &mut Call) -> CommandResult {
    let known =
        call.args.len() == 2 || (call.args.len() == 3 && (call.arg_is(2, "sync") || call.arg_is(2, "async")));
    if !known {
        return Err(CommandError::text("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
    }
    call.engine.scripts.flush();
    call.reply.ok();
    Ok(())
}

fn kill(call: &mut Call) -> CommandResult {
    call.engine.clients.busy.kill(ScriptKind::Script)?;
    call.reply.ok();
    Ok(())
}

fn help(call: &mut Call) -> CommandResult {
    call.help(&[
        "DEBUG (YES|SYNC|NO)",
        "    Set the debug mode for subsequent scripts executed.",
        "EXISTS <sha1> [<sha1> ...]",
        "    Return information about the existence of the scripts in the script cache.",
        "FLUSH [ASYNC|SYNC]",
        "    Flush the Lua scripts cache. Very dangerous on replicas.",
        "    When called without the optional mode argument, the behavior is determined by the",
        "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
        "    * ASYNC: Asynchronously flush the scripts cache.",
        "    * SYNC: Synchronously flush the scripts cache.",
        "KILL",
        "    Kill the currently executing Lua script.",
        "LOAD <script>",
        "    Load a script into the scripts cache without executing it.",
        "SHOW <sha1>",
        "    Show a script from the scripts cache.",
    ])
}
