// SPDX-License-Identifier: BSD-3-Clause
//! MODULE: there are no modules, so lists are empty, and loading fails after the permission check
//! of a stock server.

use braid_engine::{Call, Row};
use braid_spec::{Behavior, CommandError, CommandResult, Flags, Group};

const LOADING: Flags = Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::NO_ASYNC_LOADING).and(Flags::PROTECTED);

const SUBCOMMANDS: &[Row] = &[
    Row::new("help", Group::Server, help).exactly(2).flags(Flags::LOADING.and(Flags::STALE)).docs(
        "5.0.0",
        "Lists the subcommands.",
        "O(1)",
    ),
    Row::new("list", Group::Server, list)
        .exactly(2)
        .flags(Flags::ADMIN.and(Flags::NOSCRIPT))
        .docs("4.0.0", "Lists the loaded modules: none.", "O(N) where N is the number of loaded modules.")
        .tips(&["nondeterministic_output_order"]),
    Row::new("load", Group::Server, load)
        .at_least(3)
        .flags(LOADING)
        .docs("4.0.0", "Loads a module; not supported by this server.", "O(1)")
        .syntax("path:string [arg:string...]"),
    Row::new("loadex", Group::Server, load)
        .at_least(3)
        .flags(LOADING)
        .docs("7.0.0", "Loads a module with settings; not supported by this server.", "O(1)")
        .syntax("path:string [CONFIG configs:{name:string value:string}...TOKEN] [ARGS args:string...]"),
    Row::new("unload", Group::Server, unload)
        .exactly(3)
        .flags(LOADING)
        .docs("4.0.0", "Unloads a module.", "O(1)")
        .syntax("name:string"),
];

/// Rows of the MODULE commands.
pub const COMMANDS: &[Row] = &[Row::container("module", Group::Server, SUBCOMMANDS)
    .behavior(Behavior::MODULE_COMMAND)
    .docs("4.0.0", "Groups the commands on modules.", "Depends on subcommand.")];

fn help(call: &mut Call) -> CommandResult {
    call.help(&[
        "LIST",
        "    List the loaded modules: this server has none.",
        "LOAD <path> [<arg> ...]",
        "LOADEX <path> [[CONFIG NAME VALUE]...] [ARGS ...]",
        "UNLOAD <name>",
        "    Fail: this server does not support modules.",
    ])
}

fn list(call: &mut Call) -> CommandResult {
    call.reply.array(0);
    Ok(())
}

fn load(call: &mut Call) -> CommandResult {
    log::warn!(
        "Module {} not loaded: this server does not support modules",
        String::from_utf8_lossy(call.args[2])
    );
    Err(CommandError::text("ERR Error loading the extension. Please check the server logs."))
}

fn unload(_: &mut Call) -> CommandResult {
    Err(CommandError::text("ERR Error unloading module: no such module with that name"))
}

#[cfg(test)]
mod tests {
    use crate::testing::Tester;

    #[test]
    fn there_are_no_modules_and_loading_needs_permission() {
        let mut tester = Tester::new();
        tester.check(&[("MODULE LIST", "*0\r\n")]);
        let refusal = tester.run("MODULE LOAD /x.so");
        assert!(
            refusal.starts_with("-ERR MODULE command not allowed. If the enable-module-command"),
            "{refusal}"
        );
        Tester::with("enable-module-command local").check(&[
            ("MODULE LOAD /x.so", "-ERR Error loading the extension. Please check the server logs.\r\n"),
            ("MODULE UNLOAD x", "-ERR Error unloading module: no such module with that name\r\n"),
        ]);
    }
}
