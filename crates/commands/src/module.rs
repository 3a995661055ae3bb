// SPDX-License-Identifier: BSD-3-Clause
//! MODULE: there are no modules, so lists are empty, unless `module-list-compatible` asks for those
//! whose commands are built in; and loading fails after the permission check of a stock server.

use braid_executor::{Call, Engine, Row};
use braid_resp::reply::ReplyBuffer;
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

/// The modules of stock servers whose commands are built in, with the version that they match.
const BUILT_IN: [(&str, i64); 4] =
    [("ReJSON", 20_803), ("search", 21_005), ("timeseries", 11_202), ("vectorset", 1)];

fn list(call: &mut Call) -> CommandResult {
    reply_list(call.engine, call.reply);
    Ok(())
}

/// Replies with the list of modules, as MODULE LIST and HELLO do.
pub(crate) fn reply_list(engine: &Engine, reply: &mut ReplyBuffer) {
    if !engine.config.module_list_compatible() {
        reply.array(0);
        return;
    }
    reply.array(BUILT_IN.len());
    for (name, version) in BUILT_IN {
        reply.map(4);
        reply.bulk(b"name");
        reply.bulk(name.as_bytes());
        reply.bulk(b"ver");
        reply.integer(version);
        reply.bulk(b"path");
        reply.bulk(b"");
        reply.bulk(b"args");
        reply.array(0);
    }
}

/// Writes the lines of INFO's section Modules, as stock servers do.
pub(crate) fn write_info(engine: &Engine, mut field: impl FnMut(&str, String)) {
    for (name, version) in BUILT_IN.iter().filter(|_| engine.config.module_list_compatible()) {
        field("module", format!("name={name},ver={version},api=1,filters=0,usedby=[],using=[],options=[]"));
    }
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
        let row = "*8\r\n$4\r\nname\r\n$6\r\nReJSON\r\n$3\r\nver\r\n:20803\r\n$4\r\npath\r\n$0\r\n\r\n$4\r\nargs\r\n*0\r\n";
        let search = "*8\r\n$4\r\nname\r\n$6\r\nsearch\r\n$3\r\nver\r\n:21005\r\n$4\r\npath\r\n$0\r\n\r\n$4\r\nargs\r\n*0\r\n";
        let vectors = "*8\r\n$4\r\nname\r\n$9\r\nvectorset\r\n$3\r\nver\r\n:1\r\n$4\r\npath\r\n$0\r\n\r\n$4\r\nargs\r\n*0\r\n";
        let series = "*8\r\n$4\r\nname\r\n$10\r\ntimeseries\r\n$3\r\nver\r\n:11202\r\n$4\r\npath\r\n$0\r\n\r\n$4\r\nargs\r\n*0\r\n";
        let mut compatible = Tester::with("module-list-compatible yes");
        compatible.check(&[("MODULE LIST", &format!("*4\r\n{row}{search}{series}{vectors}"))]);
        assert!(compatible.run("HELLO 2").contains(row));
        let lines = compatible.run("INFO modules");
        let search = "module:name=search,ver=21005,api=1,filters=0,usedby=[],using=[],options=[]\r\n";
        assert!(lines.contains(search) && lines.matches("module:name=").count() == 4, "{lines}");
        assert!(!tester.run("INFO modules").contains("module:"));
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
