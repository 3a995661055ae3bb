// SPDX-License-Identifier: BSD-3-Clause
//! FUNCTION and FCALL: function libraries.
//!
//! All threads share a table of libraries that is replaced as a whole (`function_libraries.rs`). A
//! thread runs a library's code in its own VM before its first call of one of the library's
//! functions, so a library's local variables are per thread.

use braid_clients::busy::ScriptKind;
use braid_cluster_node::commands::cluster::shared::{for_cluster, share, text_of};
use braid_executor::{Call, Engine, Row};
use braid_group::cluster::shared::SharedKind;
use braid_scripting::function_libraries::{Libraries, Library, Policy};
use braid_scripting::key_analysis::Reach;
use braid_scripting::thread_vms::ThreadVms;
use braid_spec::{CommandError, CommandResult, Flags, Group, Scope};

use super::run::{self, Program};

const fn subcommand(name: &'static str, handler: braid_executor::Handler, flags: Flags) -> Row {
    Row::new(name, Group::Scripting, handler).flags(Flags::NOSCRIPT.and(flags)).scope(Scope::Walk)
}

const ALL_SHARDS: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];

pub(super) const SUBCOMMANDS: &[Row] = &[
    subcommand("delete", delete, Flags::WRITE)
        .exactly(3)
        .docs("7.0.0", "Deletes a library and its functions.", "O(1)")
        .syntax("library-name:string")
        .tips(ALL_SHARDS),
    subcommand("dump", dump, Flags::NONE).exactly(2).docs(
        "7.0.0",
        "Returns all libraries in one payload.",
        "O(N) where N is the number of functions",
    ),
    subcommand("flush", flush, Flags::WRITE)
        .at_least(2)
        .docs("7.0.0", "Deletes all libraries.", "O(N) where N is the number of functions deleted")
        .syntax("[flush-type:(ASYNC|SYNC)]")
        .tips(ALL_SHARDS),
    Row::new("help", Group::Scripting, help).exactly(2).flags(Flags::LOADING.and(Flags::STALE)).docs(
        "7.0.0",
        "Lists the subcommands.",
        "O(1)",
    ),
    subcommand("kill", kill, Flags::ALLOW_BUSY)
        .exactly(2)
        .docs("7.0.0", "Kills the running function.", "O(1)")
        .tips(&["request_policy:all_shards", "response_policy:one_succeeded"]),
    subcommand("list", list, Flags::NONE)
        .at_least(2)
        .docs("7.0.0", "Describes the libraries.", "O(N) where N is the number of functions")
        .syntax("[LIBRARYNAME library-name-pattern:string] [WITHCODE]")
        .tips(&["nondeterministic_output_order"]),
    subcommand("load", load, Flags::WRITE.and(Flags::DENYOOM))
        .at_least(3)
        .docs("7.0.0", "Makes a library.", "O(1) (considering compilation time is redundant)")
        .syntax("[REPLACE] function-code:string")
        .tips(ALL_SHARDS),
    subcommand("restore", restore, Flags::WRITE.and(Flags::DENYOOM))
        .at_least(3)
        .docs(
            "7.0.0",
            "Restores libraries from a payload.",
            "O(N) where N is the number of functions on the payload",
        )
        .syntax("serialized-value:string [policy:(FLUSH|APPEND|REPLACE)]")
        .tips(ALL_SHARDS),
    subcommand("stats", stats, Flags::ALLOW_BUSY)
        .exactly(2)
        .docs("7.0.0", "Returns the running function, and the number of functions.", "O(1)")
        .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]),
];

/// Time limit for loading a library.
const LOAD_TIMEOUT: std::time::Duration = std::time::Duration::from_millis(500);

/// The flags with which a function was registered.
pub(super) fn declares(engine: &Engine, args: &[&[u8]]) -> Option<Flags> {
    let (library, index) = engine.scripts.cache.libraries().function(args.get(1)?)?;
    run::declared(library.functions[index].flags)
}

pub(super) fn fcall(call: &mut Call) -> CommandResult {
    call_function(call, false)
}

pub(super) fn fcall_read_only(call: &mut Call) -> CommandResult {
    call_function(call, true)
}

fn call_function(call: &mut Call, read_only: bool) -> CommandResult {
    let (scripts, slot) = (&call.engine.scripts, call.keyspace.context.slot);
    scripts.with_vms(slot, |vms| call_on(call, vms, read_only))?
}

fn call_on(call: &mut Call, vms: &mut ThreadVms, read_only: bool) -> CommandResult {
    let unknown = || CommandError::text("ERR Function not found");
    let libraries = vms.libraries(&call.engine.scripts.cache);
    let (library, index) = libraries.function(call.args[1]).ok_or_else(unknown)?;
    let info = &library.functions[index];
    let (keys, args) = run::split_arguments(call, "ERR Bad number of keys provided")?;
    let function = vms.function(&call.engine.config, &library, index).ok_or_else(unknown)?;
    let program = Program {
        function,
        name: &info.name,
        flags: info.flags,
        read_only,
        kind: ScriptKind::Function,
        history: &info.history,
        reach: Reach::Anything,
    };
    run::check(call, &program)?;
    run::run(call, vms.for_functions(&call.engine.config), &program, keys, args)
}

fn error(text: impl Into<Vec<u8>>) -> CommandError {
    CommandError::Bytes([b"ERR ", &text.into()[..]].concat())
}

/// Counts a change of the functions as a change of the dataset.
fn changed(call: &mut Call) {
    call.keyspace.context.counters.dirty.add(1);
}

/// Loads libraries into a copy of the table; nothing changes if that fails.
fn change<R>(
    call: &mut Call,
    edit: impl FnOnce(
        &mut Libraries,
        &mut dyn FnMut(&[u8], bool) -> Result<Library, Vec<u8>>,
    ) -> Result<R, Vec<u8>>,
) -> Result<R, CommandError> {
    let (scripts, config, slot) = (&call.engine.scripts, &call.engine.config, call.keyspace.context.slot);
    let result = scripts.with_vms(slot, |vms| {
        scripts.cache.change_libraries(|libraries| {
            let mut read =
                |code: &[u8], hurry: bool| vms.read_library(config, code, hurry.then_some(LOAD_TIMEOUT));
            edit(libraries, &mut read)
        })
    })?;
    let result = result.map_err(error)?;
    changed(call);
    Ok(result)
}

fn load(call: &mut Call) -> CommandResult {
    let [options @ .., code] = &call.args[2..] else { return Err(call.wrong_arity()) };
    if let Some(options) = for_cluster(call, options) {
        return load_for_cluster(call, options, code);
    }
    if let Some(option) = options.iter().find(|option| !option.eq_ignore_ascii_case(b"replace")) {
        return Err(CommandError::quoting("ERR Unknown option given: ", option, ""));
    }
    let (replace, code) = (!options.is_empty(), *code);
    let name = change(call, |libraries, read| {
        let library = libraries.prepare(code, replace, |code| read(code, true))?;
        let name = library.name.clone();
        libraries.add(library);
        Ok(name)
    })?;
    call.reply.bulk(name.as_bytes());
    Ok(())
}

/// Loads a library on all primaries of the cluster.
fn load_for_cluster(call: &mut Call, options: &[&[u8]], code: &[u8]) -> CommandResult {
    if let Some(option) = options.iter().find(|option| !option.eq_ignore_ascii_case(b"replace")) {
        return Err(CommandError::quoting("ERR Unknown option given: ", option, ""));
    }
    let (scripts, config, slot) = (&call.engine.scripts, &call.engine.config, call.keyspace.context.slot);
    let replace = !options.is_empty();
    // On a copy: the library is loaded once the cluster's record is read.
    let mut libraries = (*scripts.cache.libraries()).clone();
    let library = scripts.with_vms(slot, |vms| {
        libraries.prepare(code, replace, |code| vms.read_library(config, code, Some(LOAD_TIMEOUT)))
    })?;
    let name = library.map_err(error)?.name.clone();
    let value = (SharedKind::Library, name.clone(), Some(text_of(code, "the code")?));
    share(call, vec![value], move |reply| reply.bulk(name.as_bytes()))
}

fn delete(call: &mut Call) -> CommandResult {
    let name = call.args[2];
    change(
        call,
        |libraries, _| {
            if libraries.remove(name) { Ok(()) } else { Err(b"Library not found".to_vec()) }
        },
    )?;
    call.reply.ok();
    Ok(())
}

fn flush(call: &mut Call) -> CommandResult {
    if call.args.len() > 3 {
        return Err(call.unknown_subcommand());
    }
    if call.args.len() == 3 && !call.arg_is(2, "sync") && !call.arg_is(2, "async") {
        return Err(CommandError::text("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
    }
    change(call, |libraries, _| {
        *libraries = Libraries::default();
        Ok(())
    })?;
    call.reply.ok();
    Ok(())
}

fn list(call: &mut Call) -> CommandResult {
    let (mut with_code, mut pattern) = (false, None);
    let mut rest = &call.args[2..];
    while let [option, after @ ..] = rest {
        rest = after;
        if !with_code && option.eq_ignore_ascii_case(b"withcode") {
            with_code = true;
        } else if pattern.is_none() && option.eq_ignore_ascii_case(b"libraryname") {
            let [name, after @ ..] = after else {
                return Err(CommandError::text("ERR library name argument was not given"));
            };
            pattern = Some(*name);
            rest = after;
        } else {
            return Err(CommandError::quoting("ERR Unknown argument ", option, ""));
        }
    }
    let libraries = call.engine.scripts.cache.libraries();
    let shown: Vec<_> = libraries
        .all()
        .filter(|library| {
            pattern.is_none_or(|pattern| braid_base::glob::matches(pattern, library.name.as_bytes(), true))
        })
        .collect();
    let reply = &mut *call.reply;
    reply.array(shown.len());
    for library in shown {
        reply.map(if with_code { 4 } else { 3 });
        reply.bulk(b"library_name");
        reply.bulk(library.name.as_bytes());
        reply.bulk(b"engine");
        reply.bulk(b"LUA");
        reply.bulk(b"functions");
        reply.array(library.functions.len());
        for function in &library.functions {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(function.name.as_bytes());
            reply.bulk(b"description");
            match &function.description {
                Some(description) => reply.bulk(description),
                None => reply.null(),
            }
            reply.bulk(b"flags");
            let names = function.flags.names();
            reply.set(names.clone().count());
            names.for_each(|name| reply.simple(name));
        }
        if with_code {
            reply.bulk(b"library_code");
            reply.bulk(&library.code);
        }
    }
    Ok(())
}

fn stats(call: &mut Call) -> CommandResult {
    let running = call.engine.clients.busy.current_of(ScriptKind::Function);
    if running.is_none() && call.engine.clients.busy.current_of(ScriptKind::Script).is_some() {
        return Err(CommandError::text(ScriptKind::Script.busy_error()));
    }
    let figures = call.engine.scripts.cache.figures(call.engine.clients.mailboxes.thread_count());
    let reply = &mut *call.reply;
    reply.map(2);
    reply.bulk(b"running_script");
    match running {
        None => reply.null(),
        Some(running) => {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(running.name.as_bytes());
            reply.bulk(b"command");
            reply.array(running.command.len());
            running.command.iter().for_each(|arg| reply.bulk(arg));
            reply.bulk(b"duration_ms");
            reply.integer(running.elapsed_ms() as i64);
        }
    }
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    reply.bulk(b"libraries_count");
    reply.integer(figures.libraries as i64);
    reply.bulk(b"functions_count");
    reply.integer(figures.functions as i64);
    Ok(())
}

fn kill(call: &mut Call) -> CommandResult {
    call.engine.clients.busy.kill(ScriptKind::Function)?;
    call.reply.ok();
    Ok(())
}

fn dump(call: &mut Call) -> CommandResult {
    let payload = call.engine.scripts.cache.libraries().dump();
    call.reply.bulk(&payload);
    Ok(())
}

fn restore(call: &mut Call) -> CommandResult {
    if call.args.len() > 4 {
        return Err(call.unknown_subcommand());
    }
    let policy = match call.args.get(3) {
        None => Policy::Append,
        Some(word) if word.eq_ignore_ascii_case(b"append") => Policy::Append,
        Some(word) if word.eq_ignore_ascii_case(b"replace") => Policy::Replace,
        Some(word) if word.eq_ignore_ascii_case(b"flush") => Policy::Flush,
        Some(_) => {
            return Err(CommandError::text(
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            ));
        }
    };
    let payload = call.args[2];
    let check = !call.engine.debug.skip_checksums.load(std::sync::atomic::Ordering::Relaxed);
    change(call, |libraries, read| libraries.restore(payload, check, policy, |code| read(code, false)))?;
    call.reply.ok();
    Ok(())
}

fn help(call: &mut Call) -> CommandResult {
    call.help(&[
        "LOAD [REPLACE] <FUNCTION CODE>",
        "    Create a new library with the given library name and code.",
        "DELETE <LIBRARY NAME>",
        "    Delete the given library.",
        "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
        "    Return general information on all the libraries:",
        "    * Library name",
        "    * The engine used to run the Library",
        "    * Library description",
        "    * Functions list",
        "    * Library code (if WITHCODE is given)",
        "    It also possible to get only function that matches a pattern using LIBRARYNAME argument.",
        "STATS",
        "    Return information about the current function running:",
        "    * Function name",
        "    * Command used to run the function",
        "    * Duration in MS that the function is running",
        "    If no function is running, return nil",
        "    In addition, returns a list of available engines.",
        "KILL",
        "    Kill the current running function.",
        "FLUSH [ASYNC|SYNC]",
        "    Delete all the libraries.",
        "    When called without the optional mode argument, the behavior is determined by the",
        "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
        "    * ASYNC: Asynchronously flush the libraries.",
        "    * SYNC: Synchronously flush the libraries.",
        "DUMP",
        "    Return a serialized payload representing the current libraries, can be restored using FUNCTION RESTORE command",
        "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
        "    Restore the libraries represented by the given payload, it is possible to give a restore policy to",
        "    control how to handle existing libraries (default APPEND):",
        "    * FLUSH: delete all existing libraries.",
        "    * APPEND: appends the restored libraries to the existing libraries. On collision, abort.",
        "    * REPLACE: appends the restored libraries to the existing libraries, On collision, replace the old",
        "      libraries with the new libraries (notice that even on this option there is a chance of failure",
        "      in case of functions name collision with another library).",
    ])
}
