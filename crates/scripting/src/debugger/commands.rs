// SPDX-License-Identifier: BSD-3-Clause
//! The developer's commands.

use std::time::{Duration, Instant};

use braid_base::number::parse_i64;

use super::input::parse;
use super::{BREAKPOINTS_MAX, Debugger, Received, TIMEOUT, push_value};
use crate::host::{Called, Host};
use crate::interrupt::KILLED;
use crate::lua::{GLOBALS, Lua};
use crate::shared::Shared;
use crate::{Verdict, api};

/// Maximum number of bytes received ahead.
const INPUT_MAX: usize = 1 << 20;
/// Lines shown before and after a line.
const CONTEXT: i64 = 5;
/// Least limit for shown replies and values, in bytes.
const SHOWN_MIN: usize = 60;

/// Global variables that can be shown.
const SHOWN_GLOBALS: [&str; 2] = ["KEYS", "ARGV"];

const HELP: &[&str] = &[
    "Redis Lua debugger help:",
    "[h]elp               Show this help.",
    "[s]tep               Run current line and stop again.",
    "[n]ext               Alias for step.",
    "[c]ontinue           Run till next breakpoint.",
    "[l]ist               List source code around current line.",
    "[l]ist [line]        List source code around [line].",
    "                     line = 0 means: current position.",
    "[l]ist [line] [ctx]  In this form [ctx] specifies how many lines",
    "                     to show before/after [line].",
    "[w]hole              List all source code. Alias for 'list 1 1000000'.",
    "[p]rint              Show all the local variables.",
    "[p]rint <var>        Show the value of the specified variable.",
    "                     Can also show global vars KEYS and ARGV.",
    "[b]reak              Show all breakpoints.",
    "[b]reak <line>       Add a breakpoint to the specified line.",
    "[b]reak -<line>      Remove breakpoint from the specified line.",
    "[b]reak 0            Remove all breakpoints.",
    "[t]race              Show a backtrace.",
    "[e]val <code>        Execute some Lua code (in a different callframe).",
    "[r]edis <cmd>        Execute a Redis command.",
    "[m]axlen [len]       Trim logged Redis replies and Lua var dumps to len.",
    "                     Specifying zero as <len> means unlimited.",
    "[a]bort              Stop the execution of the script. In sync",
    "                     mode dataset changes will be retained.",
    "",
    "Debugger functions you can call from Lua scripts:",
    "redis.debug()        Produce logs in the debugger console.",
    "redis.breakpoint()   Stop execution like if there was a breakpoint in the",
    "                     next line of code.",
];

/// Commands by their short and long names.
const COMMANDS: &[(&str, &str, Command)] = &[
    ("h", "help", Command::Help),
    ("s", "step", Command::Step),
    ("n", "next", Command::Step),
    ("c", "continue", Command::Continue),
    ("l", "list", Command::List),
    ("w", "whole", Command::Whole),
    ("p", "print", Command::Print),
    ("b", "break", Command::Break),
    ("t", "trace", Command::Trace),
    ("e", "eval", Command::Evaluate),
    ("r", "redis", Command::Call),
    ("m", "maxlen", Command::Limit),
    ("a", "abort", Command::Abort),
];

#[derive(Clone, Copy)]
enum Command {
    Help,
    Step,
    Continue,
    List,
    Whole,
    Print,
    Break,
    Trace,
    Evaluate,
    Call,
    Limit,
    Abort,
}

impl Command {
    fn of(name: &[u8]) -> Option<Command> {
        let is_named = |text: &str| name.eq_ignore_ascii_case(text.as_bytes());
        let found = COMMANDS.iter().find(|(short, long, _)| is_named(short) || is_named(long));
        found.map(|(.., command)| *command)
    }
}

/// What happens after the developer's commands.
pub(super) enum Next {
    /// The script continues.
    Continue,
    /// Code is evaluated, for at most this time; its result goes to [`go_on`].
    Evaluate(Vec<u8>, Duration),
}

/// The outcome of evaluated code, as text.
pub(super) enum Evaluated {
    Value(Vec<u8>),
    Error(Vec<u8>),
    Late,
}

impl Evaluated {
    /// The value or error on top of a coroutine's stack.
    pub(super) fn of(coroutine: Lua<'_>, is_error: bool) -> Evaluated {
        if is_error {
            return Evaluated::Error(api::error_line(coroutine));
        }
        let mut value = Vec::new();
        push_value(&mut value, coroutine, -1);
        Evaluated::Value(value)
    }
}

/// Stops if there is a reason at the current line: shows the line, and executes commands. An error
/// ends the script.
pub(super) fn begin(lua: Lua<'_>, shared: &mut Shared, is_due: bool) -> Result<Next, &'static str> {
    let Some(place) = lua.position(0).filter(|place| place.is_script()) else { return Ok(Next::Continue) };
    let Some(debugger) = &mut shared.debugger else { return Ok(Next::Continue) };
    let line = place.line.into();
    let Some(reason) = debugger.reason_to_stop(line, is_due) else { return Ok(Next::Continue) };
    debugger.show(format!("* Stopped at {line}, stop reason = {reason}"));
    debugger.show_source(line);
    debugger.send_lines();
    attend(lua, shared)
}

/// Shows the outcome of evaluated code, and executes further commands.
pub(super) fn go_on(lua: Lua<'_>, shared: &mut Shared, evaluated: Evaluated) -> Result<Next, &'static str> {
    if shared.verdict != Verdict::Continue {
        return Err(KILLED);
    }
    if let Some(debugger) = &mut shared.debugger {
        match evaluated {
            Evaluated::Value(value) => debugger.show_limited([b"<retval> ", &value[..]].concat()),
            Evaluated::Error(error) => debugger.show_error(&error),
            Evaluated::Late => debugger.show_error(TIMEOUT.as_bytes()),
        }
        debugger.send_lines();
    }
    attend(lua, shared)
}

/// Executes commands until one lets the script continue.
fn attend(lua: Lua<'_>, shared: &mut Shared) -> Result<Next, &'static str> {
    while let Some(mut debugger) = shared.debugger.take() {
        let command = match shared.host() {
            Some(host) => debugger.next_command(host),
            None => Ok(None),
        };
        let next = match command {
            Ok(Some(command)) => {
                shared.debugger = Some(debugger);
                run(lua, shared, &command)
            }
            Ok(None) => {
                debugger.continued = Instant::now();
                shared.debugger = Some(debugger);
                return Ok(Next::Continue);
            }
            Err(error) => {
                shared.debugger = Some(debugger);
                return Err(error);
            }
        };
        let Some(debugger) = &mut shared.debugger else { break };
        match next? {
            None => debugger.send_lines(),
            Some(next) => {
                debugger.continued = Instant::now();
                return Ok(next);
            }
        }
    }
    Ok(Next::Continue)
}

/// Executes a command. `None` if the next one follows.
fn run(lua: Lua<'_>, shared: &mut Shared, words: &[Vec<u8>]) -> Result<Option<Next>, &'static str> {
    let Some(debugger) = &mut shared.debugger else { return Ok(Some(Next::Continue)) };
    let (name, args) = words.split_first().expect("a command has words");
    match Command::of(name) {
        Some(Command::Help) => HELP.iter().for_each(|line| debugger.show(*line)),
        Some(Command::Step) => {
            debugger.steps = true;
            return Ok(Some(Next::Continue));
        }
        Some(Command::Continue) => return Ok(Some(Next::Continue)),
        Some(Command::List) => {
            let number = |index: usize| args.get(index).map(|arg| leading_number(arg));
            let around = number(0).filter(|line| *line > 0).unwrap_or(debugger.line);
            debugger.list(around, number(1).unwrap_or(CONTEXT));
        }
        Some(Command::Whole) => debugger.list(1, i64::MAX),
        Some(Command::Print) => match args {
            [variable] => print(lua, debugger, variable),
            _ => print_all(lua, debugger),
        },
        Some(Command::Break) => debugger.change_breakpoints(args),
        Some(Command::Trace) => trace(lua, debugger),
        Some(Command::Evaluate) => return Ok(Some(Next::Evaluate(args.join(&b' '), debugger.timeout))),
        Some(Command::Call) if !args.is_empty() => {
            if call(shared, args) == Called::Abandoned {
                return Err(KILLED);
            }
        }
        Some(Command::Limit) => debugger.limit(args),
        Some(Command::Abort) => return Err("ERR script aborted for user request"),
        Some(Command::Call) | None => {
            debugger.show_error(b"Unknown Redis Lua debugger command or wrong number of arguments.");
        }
    }
    Ok(None)
}

/// The number at the start of a text, or 0.
fn leading_number(text: &[u8]) -> i64 {
    let end = text.iter().skip(1).position(|byte| !byte.is_ascii_digit()).map_or(text.len(), |at| at + 1);
    parse_i64(&text[..end.min(text.len())]).unwrap_or(0)
}

impl Debugger {
    /// The developer's next command; `None` if the developer has left. An error ends the script.
    fn next_command(&mut self, host: &mut dyn Host) -> Result<Option<Vec<Vec<u8>>>, &'static str> {
        while !self.is_closed {
            match parse(&self.input) {
                Err(_) => return Err("ERR protocol error"),
                Ok(Some((command, len))) => {
                    self.input.drain(..len);
                    return Ok(Some(command));
                }
                Ok(None) if self.input.len() > INPUT_MAX => return Err("ERR max client buffer reached"),
                Ok(None) => {}
            }
            match self.console.receive(&mut self.input, host) {
                Received::Bytes => {}
                Received::Ended(_) => return Err(KILLED),
                Received::Closed => self.close(),
            }
        }
        // It is not stopped for long again, since nobody could continue it.
        if self.is_late {
            return Err("ERR timeout during Lua debugging with client closing connection");
        }
        Ok(None)
    }

    /// Shows the lines around a line.
    fn list(&mut self, around: i64, context: i64) {
        let count = self.source.len() as i64;
        let first = around.saturating_sub(context).max(1);
        let last = around.saturating_add(context).min(count);
        (first..=last).for_each(|line| self.show_source(line));
    }

    fn change_breakpoints(&mut self, args: &[Vec<u8>]) {
        if args.is_empty() {
            if self.breakpoints.is_empty() {
                return self.show("No breakpoints set. Use 'b <line>' to add one.");
            }
            self.show(format!("{} breakpoints set:", self.breakpoints.len()));
            self.breakpoints.clone().into_iter().for_each(|line| self.show_source(line));
        }
        for arg in args {
            match parse_i64(arg) {
                None => self.show([b"Invalid argument:'", &arg[..], b"'"].concat()),
                Some(0) => {
                    self.breakpoints.clear();
                    self.show("All breakpoints removed.");
                }
                Some(line @ 1..) => self.add_breakpoint(line),
                Some(line) => {
                    let before = self.breakpoints.len();
                    self.breakpoints.retain(|known| line.checked_neg() != Some(*known));
                    let is_gone = self.breakpoints.len() < before;
                    let text = "No breakpoint in the specified line.";
                    self.show(if is_gone { "Breakpoint removed." } else { text });
                }
            }
        }
    }

    fn add_breakpoint(&mut self, line: i64) {
        if self.breakpoints.len() == BREAKPOINTS_MAX {
            self.show("Too many breakpoints set.");
        } else if line > self.source.len() as i64 || self.breakpoints.contains(&line) {
            self.show("Wrong line number.");
        } else {
            self.breakpoints.push(line);
            self.list(line, 1);
        }
    }

    /// Shows the limit for replies and values, after setting it if it is given.
    fn limit(&mut self, args: &[Vec<u8>]) {
        if let [limit] = args {
            let limit = usize::try_from(leading_number(limit)).unwrap_or(SHOWN_MIN);
            self.shown_max = if limit == 0 { 0 } else { limit.max(SHOWN_MIN) };
            self.has_hinted = true;
        }
        self.show(match self.shown_max {
            0 => "<value> replies are unlimited.".to_owned(),
            limit => format!("<value> replies are truncated at {limit} bytes."),
        });
    }
}

/// Shows a local variable of the running function or one of its callers, or KEYS or ARGV.
fn print(lua: Lua<'_>, debugger: &mut Debugger, variable: &[u8]) {
    let mut line = b"<value> ".to_vec();
    for level in 0.. {
        if lua.position(level).is_none() || !lua.has_room(1) {
            break;
        }
        let mut index = 1;
        while let Some(name) = lua.push_local(level, index) {
            if name == variable {
                push_value(&mut line, lua, -1);
                lua.pop(1);
                return debugger.show_limited(line);
            }
            lua.pop(1);
            index += 1;
        }
    }
    let global = SHOWN_GLOBALS.iter().find(|name| name.as_bytes() == variable && lua.has_room(2));
    match global {
        Some(name) => {
            lua.raw_get_field(GLOBALS, name);
            push_value(&mut line, lua, -1);
            lua.pop(1);
            debugger.show_limited(line);
        }
        None => debugger.show("No such variable."),
    }
}

/// Shows the local variables of the running function.
fn print_all(lua: Lua<'_>, debugger: &mut Debugger) {
    let (mut index, mut has_any) = (1, false);
    while lua.has_room(1)
        && let Some(name) = lua.push_local(0, index)
    {
        if name != b"(*temporary)" {
            let mut line = [b"<value> ", name, b" = "].concat();
            push_value(&mut line, lua, -1);
            debugger.show_limited(line);
            has_any = true;
        }
        lua.pop(1);
        index += 1;
    }
    if !has_any {
        debugger.show("No local variables in the current context.");
    }
}

/// Shows the calls that led to the current line.
fn trace(lua: Lua<'_>, debugger: &mut Debugger) {
    for level in 0.. {
        let Some(place) = lua.position(level) else { break };
        if place.is_script() {
            let name = place.name.unwrap_or(b"top level");
            debugger.show([if level == 0 { &b"In "[..] } else { b"From " }, name, b":"].concat());
            debugger.show_source(place.line.into());
        }
    }
}

/// Calls a command and shows its reply.
fn call(shared: &mut Shared, args: &[Vec<u8>]) -> Called {
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let steps = shared.debugger.as_mut().map(|debugger| std::mem::replace(&mut debugger.steps, true));
    let called = api::call_shown(shared, &args);
    if let (Some(debugger), Some(steps)) = (&mut shared.debugger, steps) {
        debugger.steps = steps;
    }
    called.unwrap_or(Called::Abandoned)
}
