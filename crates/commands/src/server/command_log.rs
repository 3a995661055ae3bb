// SPDX-License-Identifier: BSD-3-Clause
//! SLOWLOG: the latest slow commands. COMMANDLOG, as in Valkey: also commands with large requests
//! or replies.

use braid_executor::{Call, Row};
use braid_spec::{CommandError, CommandResult, Flags, Group};
use braid_telemetry::command_log::LogKind;

use super::{BY_SUBCOMMAND, HELP, HELP_SUMMARY};

const FLAGS: Flags = Flags::ADMIN.and(Flags::LOADING).and(Flags::STALE);

pub const SLOWLOG: Row = Row::container("slowlog", Group::Server, SUBCOMMANDS).docs(
    "2.2.12",
    "Groups the commands of the slow log.",
    BY_SUBCOMMAND,
);

const SUBCOMMANDS: &[Row] = &[
    Row::new("get", Group::Server, get)
        .at_least(2)
        .flags(FLAGS)
        .docs("2.2.12", "Returns the newest entries.", "O(N) where N is the number of entries returned")
        .history(&[("4.0.0", "Added client IP address, port and name to the reply.")])
        .tips(&["request_policy:all_nodes", "nondeterministic_output"])
        .syntax("[count:integer]"),
    Row::new("help", Group::Server, help).exactly(2).flags(HELP).docs("6.2.0", HELP_SUMMARY, "O(1)"),
    Row::new("len", Group::Server, len)
        .exactly(2)
        .flags(FLAGS)
        .docs("2.2.12", "Returns the number of entries.", "O(1)")
        .tips(&["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"]),
    Row::new("reset", Group::Server, reset)
        .exactly(2)
        .flags(FLAGS)
        .docs("2.2.12", "Drops all entries.", "O(N) where N is the number of entries in the slowlog")
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
];

pub const COMMANDLOG: Row = Row::container("commandlog", Group::Server, OF_ANY_KIND).docs(
    "8.1.0",
    "Groups the commands of the logs of slow and large commands.",
    BY_SUBCOMMAND,
);

const KIND: &str = "type:(SLOW|LARGE-REQUEST|LARGE-REPLY)";

const OF_ANY_KIND: &[Row] = &[
    Row::new("get", Group::Server, get_of_kind)
        .exactly(4)
        .flags(FLAGS)
        .docs(
            "8.1.0",
            "Returns the newest entries of a log.",
            "O(N) where N is the number of entries returned",
        )
        .tips(&["request_policy:all_nodes", "nondeterministic_output"])
        .syntax("count:integer type:(SLOW|LARGE-REQUEST|LARGE-REPLY)"),
    Row::new("help", Group::Server, help_of_kinds).exactly(2).flags(HELP).docs("8.1.0", HELP_SUMMARY, "O(1)"),
    Row::new("len", Group::Server, len_of_kind)
        .exactly(3)
        .flags(FLAGS)
        .docs("8.1.0", "Returns the number of entries of a log.", "O(1)")
        .tips(&["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"])
        .syntax(KIND),
    Row::new("reset", Group::Server, reset_of_kind)
        .exactly(3)
        .flags(FLAGS)
        .docs(
            "8.1.0",
            "Drops all entries of a log.",
            "O(N) where N is the number of entries in the commandlog",
        )
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
        .syntax(KIND),
];

/// Number of entries returned without a count.
const COUNT_DEFAULT: usize = 10;

/// Parses a number of entries; -1 means all.
fn count_arg(call: &Call, index: usize) -> Result<usize, CommandError> {
    let wrong = CommandError::text("ERR count should be greater than or equal to -1");
    match braid_base::number::parse_i64(call.args[index]) {
        Some(-1) => Ok(usize::MAX),
        Some(count) => usize::try_from(count).map_err(|_| wrong),
        None => Err(wrong),
    }
}

fn kind_arg(call: &Call, index: usize) -> Result<LogKind, CommandError> {
    LogKind::parse(call.args[index]).ok_or(CommandError::text(
        "ERR type should be one of the following: slow, large-request, large-reply",
    ))
}

fn reply_latest(call: &mut Call, kind: LogKind, count: usize) {
    let entries = call.engine.telemetry.logs.of(kind).latest(count);
    call.reply.array(entries.len());
    for entry in entries {
        call.reply.array(6);
        call.reply.integer(i64::try_from(entry.id).unwrap_or(i64::MAX));
        call.reply.integer(entry.time);
        call.reply.integer(i64::try_from(entry.amount).unwrap_or(i64::MAX));
        call.reply.array(entry.args.len());
        for arg in &entry.args {
            call.reply.bulk(arg);
        }
        call.reply.bulk(entry.address.as_bytes());
        call.reply.bulk(&entry.client_name);
    }
}

fn get(call: &mut Call) -> CommandResult {
    let count = match call.args.len() {
        2 => COUNT_DEFAULT,
        3 => count_arg(call, 2)?,
        _ => return Err(call.unknown_subcommand()),
    };
    reply_latest(call, LogKind::Slow, count);
    Ok(())
}

fn get_of_kind(call: &mut Call) -> CommandResult {
    let count = count_arg(call, 2)?;
    let kind = kind_arg(call, 3)?;
    reply_latest(call, kind, count);
    Ok(())
}

fn reply_len(call: &mut Call, kind: LogKind) {
    let len = call.engine.telemetry.logs.of(kind).len();
    call.reply.integer(len as i64);
}

fn len(call: &mut Call) -> CommandResult {
    reply_len(call, LogKind::Slow);
    Ok(())
}

fn len_of_kind(call: &mut Call) -> CommandResult {
    let kind = kind_arg(call, 2)?;
    reply_len(call, kind);
    Ok(())
}

fn reset(call: &mut Call) -> CommandResult {
    call.engine.telemetry.logs.of(LogKind::Slow).clear();
    call.reply.ok();
    Ok(())
}

fn reset_of_kind(call: &mut Call) -> CommandResult {
    let kind = kind_arg(call, 2)?;
    call.engine.telemetry.logs.of(kind).clear();
    call.reply.ok();
    Ok(())
}

fn help_of_kinds(call: &mut Call) -> CommandResult {
    call.help(&[
        "GET <count> <type>",
        "    Return the newest <count> entries (all if -1) of a log: slow, large-request or large-reply;",
        "    each with: id, Unix time, duration in microseconds or size in bytes, arguments,",
        "    address and name of the client.",
        "LEN <type>",
        "    The number of entries of a log.",
        "RESET <type>",
        "    Drop all entries of a log.",
    ])
}

fn help(call: &mut Call) -> CommandResult {
    call.help(&[
        "GET [<count>]",
        "    The newest <count> entries (10 if not given, all if -1), each with: id, Unix time,",
        "    duration in microseconds, arguments, address and name of the client.",
        "LEN",
        "    The number of entries.",
        "RESET",
        "    Drop all entries.",
    ])
}
