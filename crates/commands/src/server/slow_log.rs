//! SLOWLOG: looking at the latest slow commands.

use braid_engine::{Call, CommandError, CommandResult, Flags, Group, Spec};

use super::{BY_SUBCOMMAND, HELP, HELP_SUMMARY};

const FLAGS: Flags = Flags::ADMIN.and(Flags::LOADING).and(Flags::STALE);

pub const SLOWLOG: Spec = Spec::container("slowlog", Group::Server, SUBCOMMANDS).docs(
    "2.2.12",
    "Groups the commands of the slow log.",
    BY_SUBCOMMAND,
);

const SUBCOMMANDS: &[Spec] = &[
    Spec::new("get", Group::Server, get)
        .at_least(2)
        .flags(FLAGS)
        .docs("2.2.12", "Returns the newest entries.", "O(N) where N is the number of entries returned")
        .history(&[("4.0.0", "Added client IP address, port and name to the reply.")])
        .tips(&["request_policy:all_nodes", "nondeterministic_output"])
        .syntax("[count:integer]"),
    Spec::new("help", Group::Server, help).exactly(2).flags(HELP).docs("6.2.0", HELP_SUMMARY, "O(1)"),
    Spec::new("len", Group::Server, len)
        .exactly(2)
        .flags(FLAGS)
        .docs("2.2.12", "Returns the number of entries.", "O(1)")
        .tips(&["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"]),
    Spec::new("reset", Group::Server, reset)
        .exactly(2)
        .flags(FLAGS)
        .docs("2.2.12", "Drops all entries.", "O(N) where N is the number of entries in the slowlog")
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
];

/// Entries returned when no count is given.
const COUNT_DEFAULT: usize = 10;

fn get(call: &mut Call) -> CommandResult {
    let count = match call.args.len() {
        2 => COUNT_DEFAULT,
        3 => {
            let wrong = CommandError::text("ERR count should be greater than or equal to -1");
            match braid_base::number::parse_i64(call.args[2]) {
                Some(-1) => usize::MAX,
                Some(count) => usize::try_from(count).map_err(|_| wrong)?,
                None => return Err(wrong),
            }
        }
        _ => return Err(call.unknown_subcommand()),
    };
    let entries = call.engine.slow_log.latest(count);
    call.reply.array(entries.len());
    for entry in entries {
        call.reply.array(6);
        call.reply.integer(i64::try_from(entry.id).unwrap_or(i64::MAX));
        call.reply.integer(entry.time);
        call.reply.integer(i64::try_from(entry.micros).unwrap_or(i64::MAX));
        call.reply.array(entry.args.len());
        for arg in &entry.args {
            call.reply.bulk(arg);
        }
        call.reply.bulk(entry.address.as_bytes());
        call.reply.bulk(&entry.client_name);
    }
    Ok(())
}

fn len(call: &mut Call) -> CommandResult {
    let len = call.engine.slow_log.len();
    call.reply.integer(len as i64);
    Ok(())
}

fn reset(call: &mut Call) -> CommandResult {
    call.engine.slow_log.clear();
    call.reply.ok();
    Ok(())
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
