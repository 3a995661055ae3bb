// SPDX-License-Identifier: BSD-3-Clause
//! The `redis` table, also known as `server` for scripts written for Valkey.

use std::ffi::c_int;

use braid_base::number::DoubleText;
use braid_resp::reply::Protocol;
use sha1::{Digest, Sha1};
use smallvec::SmallVec;

use crate::convert::{self, push_error, push_error_line, push_field, push_reply};
use crate::debugger::push_value;
use crate::host::{Called, Level, Verdict};
use crate::lua::{GLOBALS, Lua, LuaType, Raise, function, lua_State};
use crate::shared::Shared;
use crate::{base, interrupt, register};

type Native = unsafe extern "C-unwind" fn(*mut lua_State) -> c_int;

/// Makes the `redis` table a global, under both of its names.
pub(crate) fn install(lua: Lua<'_>, shared: *mut Shared, version: &str) {
    let functions: [(&str, Native); 12] = [
        ("call", function!(call)),
        ("pcall", function!(pcall)),
        ("setresp", function!(set_protocol)),
        ("sha1hex", function!(sha1_hex)),
        ("error_reply", function!(error_reply)),
        ("status_reply", function!(status_reply)),
        ("set_repl", function!(set_replication)),
        ("acl_check_cmd", function!(may_call)),
        ("breakpoint", function!(breakpoint)),
        ("debug", function!(debug)),
        ("replicate_commands", function!(replicate_commands)),
        ("log", function!(log)),
    ];
    lua.push_table(0, 28);
    for (name, function) in functions {
        lua.push_function(function, shared);
        lua.raw_set_field(-3, name);
    }
    let constants =
        [("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2), ("REPL_ALL", 3)];
    for (name, value) in constants {
        lua.push_number(f64::from(value));
        lua.raw_set_field(-3, name);
    }
    set_constants(lua, version);
    lua.push_copy(-1);
    lua.raw_set_field(GLOBALS, "server");
    lua.raw_set_field(GLOBALS, "redis");
}

/// Log levels, and the versions: the Redis version that is emulated, and the server's own.
fn set_constants(lua: Lua<'_>, version: &str) {
    let levels = ["LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"];
    for (value, name) in levels.into_iter().enumerate() {
        lua.push_number(value as f64);
        lua.raw_set_field(-3, name);
    }
    lua.push_string(b"braid");
    lua.raw_set_field(-3, "SERVER_NAME");
    for (name, number_name, version) in [
        ("REDIS_VERSION", "REDIS_VERSION_NUM", version),
        ("SERVER_VERSION", "SERVER_VERSION_NUM", env!("CARGO_PKG_VERSION")),
    ] {
        lua.push_string(version.as_bytes());
        lua.raw_set_field(-3, name);
        let number =
            version.split('.').fold(0, |number, part| number << 8 | part.parse::<u32>().unwrap_or(0));
        lua.push_number(f64::from(number));
        lua.raw_set_field(-3, number_name);
    }
}

/// Pushes the globals of a library's code while it is loaded: a `redis` table with few members.
pub(crate) fn push_loading_globals(lua: Lua<'_>, shared: *mut Shared, version: &str) {
    lua.push_table(0, 1);
    lua.push_table(0, 8);
    lua.push_function(function!(register::register_function), shared);
    lua.raw_set_field(-3, "register_function");
    lua.push_function(function!(log), shared);
    lua.raw_set_field(-3, "log");
    set_constants(lua, version);
    set_strict(lua, shared);
    lua.push_copy(-1);
    lua.raw_set_field(-4, "server");
    lua.raw_set_field(-3, "redis");
}

/// Makes access to missing fields of the table on top of the stack an error.
pub(crate) fn set_strict(lua: Lua<'_>, shared: *mut Shared) {
    lua.push_table(0, 1);
    lua.push_function(function!(base::missing_global), shared);
    lua.raw_set_field(-3, "__index");
    lua.set_metatable(-2);
}

fn call(lua: Lua<'_>, shared: &mut Shared) -> Result<c_int, Raise> {
    if run_command(lua, shared)? { Err(Raise::Value) } else { Ok(1) }
}

fn pcall(lua: Lua<'_>, shared: &mut Shared) -> Result<c_int, Raise> {
    run_command(lua, shared).map(|_| 1)
}

type Arguments<'l> = SmallVec<[&'l [u8]; 16]>;

/// The arguments on the stack; numbers become text in `numbers`. `None` if one is neither a string
/// nor a number.
fn arguments<'l>(lua: Lua<'l>, numbers: &'l mut Vec<u8>) -> Option<Arguments<'l>> {
    let count = lua.top();
    let mut args = Arguments::new();
    let mut texts = SmallVec::<[(usize, usize, usize); 8]>::new();
    numbers.clear();
    for index in 1..=count {
        match lua.string(index) {
            Some(text) => args.push(text),
            None => {
                let number = lua.number(index)?;
                let start = numbers.len();
                write_number(numbers, number);
                texts.push((args.len(), start, numbers.len()));
                args.push(b"");
            }
        }
    }
    let numbers: &'l [u8] = numbers;
    for (at, start, end) in texts {
        args[at] = &numbers[start..end];
    }
    Some(args)
}

fn write_number(out: &mut Vec<u8>, number: f64) {
    if number == 0.0 {
        out.push(b'0');
    } else if number.is_nan() {
        out.extend_from_slice(if number.is_sign_negative() { b"-nan" } else { b"nan" });
    } else {
        out.extend_from_slice(DoubleText::new(number).as_bytes());
    }
}

/// Runs the command on the stack and pushes its reply; true if that is an error.
fn run_command(lua: Lua<'_>, shared: &mut Shared) -> Result<bool, Raise> {
    if shared.verdict != Verdict::Continue {
        interrupt::end_run(lua.state(), shared);
        return Err(Raise::Unwind);
    }
    if lua.top() == 0 {
        return Ok(misused(lua, shared, "Please specify at least one argument for this redis lib call"));
    }
    let mut numbers = std::mem::take(&mut shared.numbers);
    let outcome = match arguments(lua, &mut numbers) {
        None => None,
        Some(args) if shared.debugger.is_some() => Some(call_shown(shared, &args)),
        Some(args) => Some(call_host(shared, &args)),
    };
    shared.numbers = numbers;
    match outcome {
        None => {
            lua.set_top(0);
            Ok(misused(lua, shared, "Lua redis lib command arguments must be strings or integers"))
        }
        Some(None) => Err(Raise::text("commands can only be called while a script runs")),
        Some(Some(Called::Abandoned)) => {
            shared.verdict = Verdict::Abandon;
            interrupt::end_run(lua.state(), shared);
            Err(Raise::Unwind)
        }
        Some(Some(Called::Replied | Called::Refused)) => {
            lua.set_top(0);
            // A full buffer may end in the middle of a value.
            let pushed = if shared.reply.is_full() {
                Err(convert::no_memory())
            } else {
                push_reply(lua, &shared.reply)
            };
            if shared.reply.memory_bytes() > REPLY_KEPT {
                let protocol = shared.reply.protocol;
                shared.reply = braid_resp::reply::ReplyBuffer::new(protocol);
            }
            pushed
        }
    }
}

/// Runs a command; its reply is in `shared.reply`. `None` if no script runs.
fn call_host(shared: &mut Shared, args: &[&[u8]]) -> Option<Called> {
    let mut reply = std::mem::take(&mut shared.reply);
    reply.clear();
    // A reply must not exceed the script's remaining memory; bodies with large replies check this
    // limit.
    reply.set_limit(shared.memory.room().map_or(0, |room| room.max(1)));
    let outcome = shared.host().map(|host| host.call(args, &mut reply));
    shared.reply = reply;
    outcome
}

/// [`call_host`] that shows the command and its reply to the developer, if commands are shown.
#[cold]
pub(crate) fn call_shown(shared: &mut Shared, args: &[&[u8]]) -> Option<Called> {
    if let Some(debugger) = shared.debugger.as_mut().filter(|debugger| debugger.shows_commands()) {
        debugger.show_command(args);
    }
    let called = call_host(shared, args);
    if let Some(debugger) = shared.debugger.as_mut().filter(|debugger| debugger.shows_commands()) {
        let reply = shared.reply.to_bytes();
        match called {
            Some(Called::Replied) => debugger.show_reply(&reply),
            Some(Called::Refused) => debugger.show_refusal(&reply),
            Some(Called::Abandoned) | None => {}
        }
    }
    called
}

/// Pushes the error of a wrong call; true.
#[cold]
fn misused(lua: Lua<'_>, shared: &mut Shared, text: &str) -> bool {
    if let Some(debugger) = shared.debugger.as_mut().filter(|debugger| debugger.shows_commands()) {
        debugger.show_error(text.as_bytes());
    }
    push_error(lua, text);
    true
}

/// The text of the error on top of the stack.
pub(crate) fn error_line(lua: Lua<'_>) -> Vec<u8> {
    if lua.kind(-1) == LuaType::Table && lua.has_room(2) {
        let table = lua.top();
        lua.raw_get_field(table, "err");
        let text = lua.text(-1).unwrap_or_default().to_vec();
        lua.pop(1);
        return text;
    }
    lua.text(-1).unwrap_or_default().to_vec()
}

/// A larger reply buffer is freed instead of being kept for the next command.
const REPLY_KEPT: usize = 128 * 1024;

/// Raises an error in the format of command errors.
fn fail(lua: Lua<'_>, message: &str) -> Result<c_int, Raise> {
    push_error(lua, message);
    Err(Raise::Value)
}

fn sha1_hex(lua: Lua<'_>, _: &mut Shared) -> Result<c_int, Raise> {
    if lua.top() != 1 {
        return fail(lua, "wrong number of arguments");
    }
    let digest = Sha1::digest(lua.text(1).unwrap_or_default());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    lua.push_string(hex.as_bytes());
    Ok(1)
}

fn error_reply(lua: Lua<'_>, _: &mut Shared) -> Result<c_int, Raise> {
    match lua.string(1).filter(|_| lua.top() == 1) {
        Some(text) => push_error_line(lua, text.strip_prefix(b"-").unwrap_or(text)),
        None => push_error(lua, "wrong number or type of arguments"),
    }
    Ok(1)
}

fn status_reply(lua: Lua<'_>, _: &mut Shared) -> Result<c_int, Raise> {
    match lua.string(1).filter(|_| lua.top() == 1) {
        Some(text) => push_field(lua, "ok", |lua| lua.push_string(text)),
        None => push_error(lua, "wrong number or type of arguments"),
    }
    Ok(1)
}

fn set_replication(lua: Lua<'_>, shared: &mut Shared) -> Result<c_int, Raise> {
    if lua.top() != 1 {
        return fail(lua, "redis.set_repl() requires one argument.");
    }
    match lua.convertible_number(1).unwrap_or_default() as i64 {
        targets @ 0..=3 => {
            if let Some(host) = shared.host() {
                host.set_replication(targets as u8);
            }
            Ok(0)
        }
        _ => fail(lua, "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE."),
    }
}

fn may_call(lua: Lua<'_>, shared: &mut Shared) -> Result<c_int, Raise> {
    if lua.top() == 0 {
        return fail(lua, "Please specify at least one argument for this redis lib call");
    }
    let mut numbers = std::mem::take(&mut shared.numbers);
    let verdict =
        arguments(lua, &mut numbers).map(|args| shared.host().and_then(|host| host.may_call(&args)));
    shared.numbers = numbers;
    match verdict {
        None => fail(lua, "Lua redis lib command arguments must be strings or integers"),
        Some(None) => fail(lua, "Invalid command passed to redis.acl_check_cmd()"),
        Some(Some(allowed)) => {
            lua.push_boolean(allowed);
            Ok(1)
        }
    }
}

fn log(lua: Lua<'_>, shared: &mut Shared) -> Result<c_int, Raise> {
    let count = lua.top();
    if count < 2 {
        return fail(lua, "redis.log() requires two arguments or more.");
    }
    let Some(level) = lua.convertible_number(1) else {
        return fail(lua, "First argument must be a number (log level).");
    };
    let level = match level as i64 {
        0 => Level::Debug,
        1 => Level::Verbose,
        2 => Level::Notice,
        3 => Level::Warning,
        _ => return fail(lua, "Invalid debug level."),
    };
    if shared.host().is_some_and(|host| !host.logs(level)) {
        return Ok(0);
    }
    let mut line = Vec::new();
    for index in 2..=count {
        if let Some(text) = lua.text(index) {
            if index > 2 {
                line.push(b' ');
            }
            line.extend_from_slice(text);
        }
    }
    match shared.host() {
        Some(host) => host.log(level, &line),
        None => log::info!("{}", String::from_utf8_lossy(&line)),
    }
    Ok(0)
}

fn set_protocol(lua: Lua<'_>, shared: &mut Shared) -> Result<c_int, Raise> {
    if lua.top() != 1 {
        return fail(lua, "redis.setresp() requires one argument.");
    }
    shared.reply.protocol = match lua.convertible_number(1).unwrap_or_default() as i64 {
        2 => Protocol::Resp2,
        3 => Protocol::Resp3,
        _ => return fail(lua, "RESP version must be 2 or 3."),
    };
    Ok(0)
}

/// Stops before the next line, and returns true, if there is a debugger.
fn breakpoint(lua: Lua<'_>, shared: &mut Shared) -> Result<c_int, Raise> {
    if let Some(debugger) = &mut shared.debugger {
        debugger.break_at_next_line();
    }
    lua.push_boolean(shared.debugger.is_some());
    Ok(1)
}

/// Shows its arguments to the developer.
fn debug(lua: Lua<'_>, shared: &mut Shared) -> Result<c_int, Raise> {
    let Some(debugger) = &mut shared.debugger else { return Ok(0) };
    let shown = |index| {
        let mut text = Vec::new();
        push_value(&mut text, lua, index);
        text
    };
    let values: Vec<Vec<u8>> = (1..=lua.top()).map(shown).collect();
    debugger.show_values(&values);
    Ok(0)
}

/// Scripts are always replicated by their effects; the function exists for scripts that call it.
fn replicate_commands(lua: Lua<'_>, _: &mut Shared) -> Result<c_int, Raise> {
    lua.push_boolean(true);
    Ok(1)
}
