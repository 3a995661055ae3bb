// SPDX-License-Identifier: BSD-3-Clause
//! Commands on the server itself: state, configuration, slow commands and latencies.
//!
//! Flow: counters live per thread and are summed on demand, without stopping the threads. Nothing
//! in this family touches keys, except MEMORY USAGE.

pub mod allocator;
mod command_log;
mod config;
pub mod figures;
pub mod hot_keys;
pub mod info;
mod key_sizes;
mod latency;
mod lolwut;
mod memory;
pub mod memory_report;
mod monitor;
mod sections;
mod shutdown;
pub mod system;

use braid_executor::{Call, Row};
use braid_spec::{CommandResult, Flags, Group};

pub(crate) use allocator::{Tuned, mallctl_integer, mallctl_text, mallctl_void};

/// Rows of the server commands.
pub const COMMANDS: &[Row] = &[
    command_log::COMMANDLOG,
    config::CONFIG,
    hot_keys::HOTKEYS,
    info::INFO,
    latency::LATENCY,
    lolwut::LOLWUT,
    memory::MEMORY,
    monitor::MONITOR,
    shutdown::SHUTDOWN,
    command_log::SLOWLOG,
    TIME,
];

/// Flags of administrative commands that always work and that scripts may not call.
const ADMIN: Flags = Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::LOADING).and(Flags::STALE);
/// Flags of HELP subcommands.
const HELP: Flags = Flags::LOADING.and(Flags::STALE);

const HELP_SUMMARY: &str = "Lists the subcommands.";
const BY_SUBCOMMAND: &str = "Depends on subcommand.";

const TIME: Row = Row::new("time", Group::Server, time)
    .exactly(1)
    .flags(Flags::LOADING.and(Flags::STALE).and(Flags::FAST))
    .docs("2.6.0", "Returns the server's clock.", "O(1)")
    .tips(&["nondeterministic_output"]);

fn time(call: &mut Call) -> CommandResult {
    // The clock stands still while a script runs.
    let micros =
        if call.session.execution.in_script { call.clock_ms() * 1000 } else { braid_base::clock::unix_us() };
    call.reply.array(2);
    call.reply.bulk_integer(micros / 1_000_000);
    call.reply.bulk_integer(micros % 1_000_000);
    Ok(())
}

#[cfg(test)]
mod tests;
