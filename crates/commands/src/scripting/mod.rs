// SPDX-License-Identifier: BSD-3-Clause
//! Scripting commands: EVAL and its variants, SCRIPT, and functions.
//!
//! The language and the caches are in the crate `scripting`. Here are the rows and bodies, and how
//! a run gets its locks and calls commands (`run.rs`).

mod debug;
pub mod debugger;
mod eval;
mod functions;
#[cfg(test)]
mod key_analysis_tests;
mod run;
#[cfg(test)]
mod tests;

use braid_executor::{Engine, Row};
pub use braid_scripting::cache::Figures;
use braid_spec::{Behavior, Flags, Group, KeyFlags, KeySpec, Scope};

const RUN: Flags = Flags::NOSCRIPT.and(Flags::SKIP_MONITOR).and(Flags::NO_MANDATORY_KEYS).and(Flags::STALE);
const CHANGE: Flags = RUN.and(Flags::MAY_REPLICATE);
const READ: Flags = RUN.and(Flags::READONLY);

const UNKNOWN_CHANGE: &str = "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE";
const UNKNOWN_READ: &str = "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS";
const CHANGED: KeySpec = KeySpec::counted(2, KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE));
const READ_ONLY: KeySpec = KeySpec::counted(2, KeyFlags::RO.and(KeyFlags::ACCESS));

const fn runs(name: &'static str, handler: braid_executor::Handler) -> Row {
    Row::new(name, Group::Scripting, handler).behavior(Behavior::RUNS_SCRIPTS).at_least(3).scope(Scope::Walk)
}

const DEPENDS: &str = "Depends on the script that is executed.";

/// Rows of the scripting commands.
pub const COMMANDS: &[Row] = &[
    runs("eval", eval::eval)
        .flags(CHANGE)
        .declares(eval::declares)
        .keys(&[CHANGED.notes(UNKNOWN_CHANGE)])
        .docs("2.6.0", "Runs a script.", DEPENDS)
        .syntax("script:string numkeys:integer [key:key...] [arg:string...]"),
    runs("evalsha", eval::eval_sha)
        .flags(CHANGE)
        .declares(eval::sha_declares)
        .keys(&[CHANGED])
        .docs("2.6.0", "Runs a cached script by its SHA-1.", DEPENDS)
        .syntax("sha1:string numkeys:integer [key:key...] [arg:string...]"),
    runs("eval_ro", eval::eval_read_only)
        .flags(READ)
        .declares(eval::declares)
        .keys(&[READ_ONLY.notes(UNKNOWN_READ)])
        .docs("7.0.0", "Runs a read-only script.", DEPENDS)
        .syntax("script:string numkeys:integer [key:key...] [arg:string...]"),
    runs("evalsha_ro", eval::eval_sha_read_only)
        .flags(READ)
        .declares(eval::sha_declares)
        .keys(&[READ_ONLY])
        .docs("7.0.0", "Runs a cached read-only script by its SHA-1.", DEPENDS)
        .syntax("sha1:string numkeys:integer [key:key...] [arg:string...]"),
    runs("fcall", functions::fcall)
        .flags(CHANGE)
        .declares(functions::declares)
        .keys(&[CHANGED.notes(UNKNOWN_CHANGE)])
        .docs("7.0.0", "Calls a function.", "Depends on the function that is executed.")
        .syntax("function:string numkeys:integer [key:key...] [arg:string...]"),
    runs("fcall_ro", functions::fcall_read_only)
        .flags(READ)
        .declares(functions::declares)
        .keys(&[READ_ONLY.notes(UNKNOWN_READ)])
        .docs("7.0.0", "Calls a read-only function.", "Depends on the function that is executed.")
        .syntax("function:string numkeys:integer [key:key...] [arg:string...]"),
    Row::container("function", Group::Scripting, functions::SUBCOMMANDS).docs(
        "7.0.0",
        "Groups the commands on function libraries.",
        "Depends on subcommand.",
    ),
    Row::container("script", Group::Scripting, eval::SUBCOMMANDS).docs(
        "2.6.0",
        "Groups the commands on scripts.",
        "Depends on subcommand.",
    ),
];

/// The script statistics of INFO.
pub fn figures(engine: &Engine) -> Figures {
    engine.scripts.cache.figures(engine.clients.mailboxes.thread_count())
}

/// Resets the counters among them (CONFIG RESETSTAT).
pub fn reset_figures(engine: &Engine) {
    engine.scripts.cache.reset_figures();
}
