// SPDX-License-Identifier: BSD-3-Clause
//! COMMAND: information on the server's commands, derived from the families' rows.

mod describe;
mod document;
#[cfg(test)]
mod redis_8_2_tests;
#[cfg(test)]
mod table_tests;

use braid_base::glob;
use braid_executor::{Call, Row};
use braid_spec::{Category, Command, CommandError, CommandResult, Flags, Group, KeyFlags, keys};
use describe::{describe, flag_names};
use document::document;

/// Rows of the COMMAND commands.
pub const COMMANDS: &[Row] = &[Row::new("command", Group::Server, all)
    .at_least(1)
    .flags(FLAGS)
    .categories(Category::CONNECTION)
    .docs("2.8.13", "Describes all commands.", "O(N) where N is the total number of Redis commands")
    .tips(&["nondeterministic_output_order"])
    .with_subcommands(SUBCOMMANDS)];

const FLAGS: Flags = Flags::LOADING.and(Flags::STALE).and(Flags::SENTINEL);

const fn subcommand(name: &'static str, handler: braid_executor::Handler) -> Row {
    Row::new(name, Group::Server, handler).flags(FLAGS).categories(Category::CONNECTION)
}

const BY_NAMES: &str = "O(N) where N is the number of commands to look up";
const BY_ARGUMENTS: &str = "O(N) where N is the number of arguments to the command";

const SUBCOMMANDS: &[Row] = &[
    subcommand("count", count).exactly(2).docs("2.8.13", "Returns the number of commands.", "O(1)"),
    subcommand("docs", docs)
        .at_least(2)
        .docs("7.0.0", "Documents some or all commands.", BY_NAMES)
        .tips(&["nondeterministic_output_order"])
        .syntax("[command-name:string...]"),
    subcommand("getkeys", get_keys)
        .at_least(3)
        .docs("2.8.13", "Finds the keys in a request.", BY_ARGUMENTS)
        .syntax("command:string [arg:string...]"),
    subcommand("getkeysandflags", get_keys_and_flags)
        .at_least(3)
        .docs("7.0.0", "Finds the keys in a request, and how it uses them.", BY_ARGUMENTS)
        .syntax("command:string [arg:string...]"),
    subcommand("help", help).exactly(2).docs("5.0.0", "Lists the subcommands.", "O(1)"),
    subcommand("info", info)
        .at_least(2)
        .docs("2.8.13", "Describes some or all commands.", BY_NAMES)
        .history(&[("7.0.0", "Allowed to be called with no argument to get info on all commands.")])
        .tips(&["nondeterministic_output_order"])
        .syntax("[command-name:string...]"),
    subcommand("list", list)
        .at_least(2)
        .docs(
            "7.0.0",
            "Lists the names of all commands, or of some.",
            "O(N) where N is the total number of Redis commands",
        )
        .tips(&["nondeterministic_output_order"])
        .syntax(
            "[FILTERBY filterby:(MODULE module-name:string|ACLCAT category:string|PATTERN pattern:pattern)]",
        ),
];

fn all(call: &mut Call) -> CommandResult {
    let table = &call.engine.commands;
    let commands = table.top_level();
    call.reply.array(commands.len());
    for command in commands {
        describe(call.reply, table, command);
    }
    Ok(())
}

fn info(call: &mut Call) -> CommandResult {
    let table = &call.engine.commands;
    let names = &call.args[2..];
    if names.is_empty() {
        return all(call);
    }
    call.reply.array(names.len());
    for name in names {
        match table.find_full(name) {
            Some(command) => describe(call.reply, table, command),
            None => call.reply.null(),
        }
    }
    Ok(())
}

fn docs(call: &mut Call) -> CommandResult {
    let table = &call.engine.commands;
    let commands: Vec<&Command> = match &call.args[2..] {
        [] => table.top_level().collect(),
        names => names.iter().filter_map(|name| table.find_full(name)).collect(),
    };
    let in_redis = call.engine.process.follows_redis_8();
    call.reply.map(commands.len());
    for command in commands {
        call.reply.bulk(command.full_name.as_bytes());
        document(call.reply, table, command, in_redis);
    }
    Ok(())
}

fn count(call: &mut Call) -> CommandResult {
    let count = call.engine.commands.top_level().len();
    call.reply.integer(count as i64);
    Ok(())
}

/// The commands that LIST shows.
enum Filter<'a> {
    All,
    /// There are no modules, hence no commands of modules.
    Nothing,
    Category(Category),
    Pattern(&'a [u8]),
}

impl Filter<'_> {
    fn of<'a>(args: &[&'a [u8]]) -> Result<Filter<'a>, CommandError> {
        let (kind, value) = match args {
            [] => return Ok(Filter::All),
            [word, kind, value] if word.eq_ignore_ascii_case(b"filterby") => {
                (kind.to_ascii_lowercase(), *value)
            }
            _ => return Err(CommandError::Syntax),
        };
        match kind.as_slice() {
            b"module" => Ok(Filter::Nothing),
            b"aclcat" => {
                let named = |(_, name): &&(Category, &str)| value.eq_ignore_ascii_case(name.as_bytes());
                let found = Category::ALL.iter().find(named);
                Ok(found.map_or(Filter::Nothing, |(category, _)| Filter::Category(*category)))
            }
            b"pattern" => Ok(Filter::Pattern(value)),
            _ => Err(CommandError::Syntax),
        }
    }

    fn lets(&self, command: &Command) -> bool {
        match self {
            Filter::All => true,
            Filter::Nothing => false,
            Filter::Category(category) => command.spec.categories_all().has(*category),
            Filter::Pattern(pattern) => glob::matches(pattern, command.full_name.as_bytes(), true),
        }
    }
}

fn list(call: &mut Call) -> CommandResult {
    let filter = Filter::of(&call.args[2..])?;
    let commands: Vec<&Command> =
        call.engine.commands.available().filter(|command| filter.lets(command)).collect();
    call.reply.array(commands.len());
    for command in commands {
        call.reply.bulk(command.full_name.as_bytes());
    }
    Ok(())
}

fn get_keys(call: &mut Call) -> CommandResult {
    reply_keys(call, false)
}

fn get_keys_and_flags(call: &mut Call) -> CommandResult {
    reply_keys(call, true)
}

fn reply_keys(call: &mut Call, with_flags: bool) -> CommandResult {
    let table = &call.engine.commands;
    let args = &call.args[2..];
    let found = table.find(args[0]).and_then(|command| match args.get(1) {
        Some(name) if !command.subcommands.is_empty() => table.find_subcommand(command, name),
        _ => Some(command),
    });
    let Some(command) = found else { return Err(CommandError::text("ERR Invalid command specified")) };
    let spec = command.spec;
    let has_keys =
        spec.key_finder.is_some() || spec.keys.iter().any(|keys| !keys.flags.has(KeyFlags::NOT_KEY));
    if !has_keys {
        return Err(CommandError::text("ERR The command has no key arguments"));
    }
    if !spec.arity.allows(args.len()) {
        return Err(CommandError::text("ERR Invalid number of arguments specified for command"));
    }
    let keys = keys::find(spec, args).unwrap_or_default();
    if keys.is_empty() && !spec.flags.has(Flags::NO_MANDATORY_KEYS) {
        return Err(CommandError::text("ERR Invalid arguments specified for command"));
    }
    call.reply.array(keys.len());
    for key in keys {
        if with_flags {
            call.reply.array(2);
        }
        call.reply.bulk(args[key.index]);
        if with_flags {
            let flags = match command.spec.exact_key_flags {
                Some(exact) => exact(args),
                None => key.flags,
            };
            flag_names(call.reply, flags.names());
        }
    }
    Ok(())
}

fn help(call: &mut Call) -> CommandResult {
    call.help(&[
        "(no subcommand)",
        "    Return details about all Redis commands.",
        "COUNT",
        "    Return the total number of commands in this Redis server.",
        "LIST",
        "    Return a list of all commands in this Redis server.",
        "INFO [<command-name> ...]",
        "    Return details about multiple Redis commands.",
        "    If no command names are given, documentation details for all",
        "    commands are returned.",
        "DOCS [<command-name> ...]",
        "    Return documentation details about multiple Redis commands.",
        "    If no command names are given, documentation details for all",
        "    commands are returned.",
        "GETKEYS <full-command>",
        "    Return the keys from a full Redis command.",
        "GETKEYSANDFLAGS <full-command>",
        "    Return the keys and the access flags from a full Redis command.",
    ])
}

#[cfg(test)]
mod tests;
