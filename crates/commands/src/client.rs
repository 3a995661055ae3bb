// SPDX-License-Identifier: BSD-3-Clause
//! CLIENT: information about connections, and pausing or closing them.
//!
//! Flow: a client's own state is its session; of other clients only the shared records are read,
//! selected by filters (`filter.rs`). Actions on another client are messages to that client's
//! loop.

mod filter;
mod tracking;

use std::sync::atomic::Ordering::Relaxed;

use braid_base::number;
use braid_clients::pause::{self, PauseMode};
use braid_clients::{ClientRecord, Unblocking, client_flags, describe};
use braid_executor::session::ReplyMode;
use braid_executor::{Call, Handler, Row, blocking};
use braid_replica::sync_writes::{self, NO_GROUP};
use braid_spec::{Behavior, CommandError, CommandResult, Flags, Group};
use filter::{Filters, Purpose};

use crate::connection::{check_name, is_showable};

const ANY_TIME: Flags = Flags::NOSCRIPT.and(Flags::LOADING).and(Flags::STALE);
const ADMIN: Flags = ANY_TIME.and(Flags::ADMIN).and(Flags::SENTINEL);
const ALL_NODES: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

/// Rows of the CLIENT commands.
pub const COMMANDS: &[Row] = &[Row::container("client", Group::Connection, SUBCOMMANDS)
    .behavior(Behavior::KEEPS_CACHING)
    .flags(Flags::SENTINEL)
    .docs("2.4.0", "Groups commands on connections.", "Depends on subcommand.")];

const SUBCOMMANDS: &[Row] = &[
    tracking::CACHING,
    tracking::GETREDIR,
    tracking::TRACKING,
    tracking::TRACKINGINFO,
    own("capa", capa)
        .at_least(3)
        .flags(ANY_TIME.and(Flags::ALLOW_BUSY))
        .docs("8.0.0", "Declares capabilities of the connection's library.", "O(1)")
        .syntax("capability:string..."),
    own("durable", durable)
        .exactly(3)
        .docs(
            "8.0.0",
            "Holds the connection's replies until every in-sync replica has the changes they reveal.",
            "O(1)",
        )
        .syntax("enabled:(ON|OFF)"),
    own("getname", get_name).exactly(2).docs("2.6.9", "Returns the connection's name.", "O(1)"),
    own("help", help).exactly(2).flags(Flags::LOADING.and(Flags::STALE).and(Flags::SENTINEL)).docs(
        "5.0.0",
        "Lists the subcommands.",
        "O(1)",
    ),
    own("id", id).exactly(2).docs("5.0.0", "Returns the connection's ID.", "O(1)"),
    own("info", info)
        .exactly(2)
        .docs("6.2.0", "Describes the connection.", "O(1)")
        .tips(&["nondeterministic_output"]),
    own("import-source", import_source)
        .exactly(3)
        .docs("8.1.0", "Shows expired keys to the connection while the server is in import mode.", "O(1)")
        .syntax("enabled:(ON|OFF)"),
    admin("kill", kill)
        .at_least(3)
        .docs("2.4.0", "Closes connections.", "O(N) where N is the number of client connections")
        .syntax(
            "filter:(old-format:string/ip:port!2.8.12|new-format:([ID client-id:integer@2.8.12]|\
             [TYPE client-type:(normal=normal|master=master@3.2.0|slave=slave|replica=replica@5.0.0|\
             pubsub=pubsub)@2.8.12]|[USER username:string]|[ADDR addr:string/ip:port]|\
             [LADDR laddr:string/ip:port@6.2.0]|[SKIPME skipme:(YES|NO)]|[MAXAGE maxage:integer@7.4.0])...)",
        )
        .history(&[
            ("2.8.12", "New form with filters, `ID` among them."),
            ("3.2.0", "`TYPE` accepts `master`."),
            ("5.0.0", "`TYPE` accepts `replica`; `slave` remains as an alias."),
            ("6.2.0", "New filter `LADDR`."),
            ("8.0.0", "New filter `MAXAGE`."),
        ]),
    admin("list", list)
        .at_least(2)
        .docs("2.4.0", "Describes connections.", "O(N) where N is the number of client connections")
        .syntax(
            "[TYPE client-type:(normal=normal|master=master|replica=replica|pubsub=pubsub)@5.0.0] \
             [ID client-id:integer...@6.2.0]",
        )
        .history(&[
            ("2.8.12", "New field `id`."),
            ("5.0.0", "New filter `TYPE`."),
            ("6.0.0", "New field `user`."),
            ("6.2.0", "New fields `argv-mem`, `tot-mem`, `laddr`, `redir`; new filter `ID`."),
            ("7.0.0", "New fields `resp`, `multi-mem`, `rbs`, `rbp`."),
            ("7.0.3", "New field `ssub`."),
        ])
        .tips(&["nondeterministic_output"]),
    admin("no-evict", no_evict)
        .exactly(3)
        .docs("7.0.0", "Exempts the connection from client eviction.", "O(1)")
        .syntax("enabled:(ON|OFF)"),
    own("no-touch", no_touch)
        .exactly(3)
        .flags(ANY_TIME)
        .docs("7.2.0", "Lets the connection read keys without updating their access time.", "O(1)")
        .syntax("enabled:(ON|OFF)"),
    admin("pause", pause)
        .at_least(3)
        .docs("3.0.0", "Suspends commands for a time.", "O(1)")
        .syntax("timeout:integer [mode:(WRITE|ALL)@6.2.0]")
        .history(&[("6.2.0", "New argument: only writes, or all commands.")]),
    own("reply", reply)
        .exactly(3)
        .docs("3.2.0", "Switches replies to the connection off and on.", "O(1)")
        .syntax("action:(ON|OFF|SKIP)"),
    own("setinfo", set_info)
        .exactly(4)
        .docs("7.2.0", "Records the name and version of the connection's library.", "O(1)")
        .syntax("attr:(lib-name libname:string|lib-ver libver:string)")
        .tips(ALL_NODES),
    own("setname", set_name)
        .exactly(3)
        .docs("2.6.9", "Names the connection.", "O(1)")
        .syntax("connection-name:string")
        .tips(ALL_NODES),
    admin("unblock", unblock)
        .at_least(3)
        .docs(
            "5.0.0",
            "Unblocks a client waiting in a blocking command.",
            "O(log N) where N is the number of client connections",
        )
        .syntax("client-id:integer [unblock-type:(TIMEOUT|ERROR)]"),
    admin("unpause", unpause).behavior(Behavior::ENDS_PAUSE).exactly(2).docs(
        "6.2.0",
        "Ends a pause.",
        "O(N) Where N is the number of paused clients",
    ),
];

/// A subcommand on the calling connection itself.
const fn own(name: &'static str, handler: Handler) -> Row {
    Row::new(name, Group::Connection, handler).flags(ANY_TIME.and(Flags::SENTINEL))
}

/// A subcommand on other connections.
const fn admin(name: &'static str, handler: Handler) -> Row {
    Row::new(name, Group::Connection, handler).flags(ADMIN)
}

fn id(call: &mut Call) -> CommandResult {
    let id = i64::try_from(call.session.id()).unwrap_or(i64::MAX);
    call.reply.integer(id);
    Ok(())
}

/// Ignores unknown names, since libraries list all their capabilities.
fn capa(call: &mut Call) -> CommandResult {
    if call.args[2..].iter().any(|name| name.eq_ignore_ascii_case(b"redirect")) {
        call.session.record.knows_redirect.store(true, Relaxed);
    }
    call.reply.ok();
    Ok(())
}

fn get_name(call: &mut Call) -> CommandResult {
    let texts = call.session.record.texts.lock().clone();
    if texts.name.is_empty() {
        call.reply.null();
    } else {
        call.reply.bulk(&texts.name);
    }
    Ok(())
}

fn set_name(call: &mut Call) -> CommandResult {
    let name = call.args[2];
    check_name(name)?;
    call.session.record.edit_texts(|texts| texts.name = name.to_vec());
    call.reply.ok();
    Ok(())
}

fn set_info(call: &mut Call) -> CommandResult {
    let (attribute, value) = (call.args[2], call.args[3]);
    let is_name = call.arg_is(2, "lib-name");
    if !is_name && !call.arg_is(2, "lib-ver") {
        return Err(CommandError::quoting("ERR Unrecognized option '", attribute, "'"));
    }
    if !is_showable(value) {
        let end = " cannot contain spaces, newlines or special characters.";
        return Err(CommandError::quoting("ERR ", attribute, end));
    }
    call.session.record.edit_texts(|texts| {
        let text = if is_name { &mut texts.lib_name } else { &mut texts.lib_ver };
        *text = value.to_vec();
    });
    call.reply.ok();
    Ok(())
}

fn info(call: &mut Call) -> CommandResult {
    let mut text = Vec::with_capacity(512);
    describe(&mut text, call, &call.session.record);
    call.reply.verbatim("txt", &text);
    Ok(())
}

fn list(call: &mut Call) -> CommandResult {
    let filters = Filters::parse(call, &call.args[2..], Purpose::List)?;
    let mut text = Vec::new();
    for record in filters.select(call) {
        describe(&mut text, call, &record);
    }
    call.reply.verbatim("txt", &text);
    Ok(())
}

fn kill(call: &mut Call) -> CommandResult {
    let old_form = call.args.len() == 3;
    let filters = if old_form {
        Filters::of_address(call.args[2])
    } else {
        Filters::parse(call, &call.args[2..], Purpose::Kill)?
    };
    let own_id = call.session.id();
    let (mut killed, mut own) = (0, false);
    for record in filters.select(call) {
        killed += 1;
        if record.id == own_id {
            own = true;
        } else {
            call.engine.clients.registry.disconnect(&record);
        }
    }
    if killed > 0 {
        // Their requests that are already received are not executed.
        call.engine.attention.next_generation();
    }
    match (old_form, killed) {
        (true, 0) => return Err(CommandError::text("ERR No such client")),
        (true, _) => call.reply.ok(),
        (false, _) => call.reply.integer(killed),
    }
    if own {
        call.session.close();
    }
    Ok(())
}

fn describe(out: &mut Vec<u8>, call: &Call, record: &ClientRecord) {
    let current = (record.id == call.session.id()).then_some((call.command, call.args));
    describe::describe(out, &call.engine.commands, record, call.clock_ms(), current);
}

/// Parses the argument ON or OFF.
fn on_or_off(call: &Call) -> Result<bool, CommandError> {
    match call.args[2].to_ascii_lowercase().as_slice() {
        b"on" => Ok(true),
        b"off" => Ok(false),
        _ => Err(CommandError::Syntax),
    }
}

fn no_evict(call: &mut Call) -> CommandResult {
    let on = on_or_off(call)?;
    call.session.options.no_evict = on;
    call.session.record.set_flag(client_flags::NO_EVICT, on);
    call.reply.ok();
    Ok(())
}

fn import_source(call: &mut Call) -> CommandResult {
    let is_off = call.arg_is(2, "off");
    if !call.engine.config.import_mode() && !is_off {
        return Err(CommandError::text("ERR Server is not in import mode"));
    }
    let on = on_or_off(call)?;
    call.session.set_import_source(on);
    call.reply.ok();
    Ok(())
}

/// CLIENT DURABLE ON|OFF: overrides `sync-writes` for this connection.
fn durable(call: &mut Call) -> CommandResult {
    let on = on_or_off(call)?;
    if on && !sync_writes::has_group(call.engine) {
        return Err(CommandError::text(NO_GROUP));
    }
    call.session.options.durable = Some(on);
    if on {
        sync_writes::note_durable_client(call.engine);
    }
    call.reply.ok();
    Ok(())
}

fn no_touch(call: &mut Call) -> CommandResult {
    let on = on_or_off(call)?;
    call.session.options.no_touch = on;
    call.session.update_attention();
    call.session.record.set_flag(client_flags::NO_TOUCH, on);
    call.reply.ok();
    Ok(())
}

fn reply(call: &mut Call) -> CommandResult {
    let session = &mut *call.session;
    match call.args[2].to_ascii_lowercase().as_slice() {
        b"on" => {
            session.set_reply_mode(ReplyMode::On);
            call.reply.ok();
        }
        b"off" => session.set_reply_mode(ReplyMode::Off),
        b"skip" if session.reply.mode == ReplyMode::Off => {}
        b"skip" => session.set_reply_mode(ReplyMode::SkipNext),
        _ => return Err(CommandError::Syntax),
    }
    Ok(())
}

fn pause(call: &mut Call) -> CommandResult {
    let mode = match call.args {
        [_, _, _] => PauseMode::All,
        [_, _, _, mode] if mode.eq_ignore_ascii_case(b"all") => PauseMode::All,
        [_, _, _, mode] if mode.eq_ignore_ascii_case(b"write") => PauseMode::Write,
        [_, _, _, _] => return Err(CommandError::text("ERR CLIENT PAUSE mode must be WRITE or ALL")),
        _ => return Err(call.unknown_subcommand()),
    };
    let timeout = number::parse_i64(call.args[2])
        .ok_or(CommandError::text("ERR timeout is not an integer or out of range"))?;
    if timeout < 0 {
        return Err(CommandError::text("ERR timeout is negative"));
    }
    let now = call.clock_ms();
    let until = now.checked_add(timeout).ok_or(CommandError::text("ERR timeout is out of range"))?;
    call.engine.clients.pause.begin(&call.engine.attention, pause::Purpose::Client, mode, until, now);
    call.reply.ok();
    Ok(())
}

fn unpause(call: &mut Call) -> CommandResult {
    call.engine.clients.pause.end(
        &call.engine.attention,
        &call.engine.clients.mailboxes,
        pause::Purpose::Client,
    );
    call.reply.ok();
    Ok(())
}

fn unblock(call: &mut Call) -> CommandResult {
    let how = match call.args {
        [_, _, _] => Unblocking::Timeout,
        [_, _, _, reason] if reason.eq_ignore_ascii_case(b"timeout") => Unblocking::Timeout,
        [_, _, _, reason] if reason.eq_ignore_ascii_case(b"error") => Unblocking::Error,
        [_, _, _, _] => {
            return Err(CommandError::text("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
        }
        _ => return Err(call.unknown_subcommand()),
    };
    let id = call.integer_arg(2)?;
    let target = u64::try_from(id).ok().and_then(|id| call.engine.clients.registry.get(id));
    let slot = call.keyspace.context.slot;
    let unblocked = target.is_some_and(|record| blocking::unblock(call.engine, slot, &record, how));
    call.reply.integer(i64::from(unblocked));
    Ok(())
}

fn help(call: &mut Call) -> CommandResult {
    call.help(&[
        "CACHING (YES|NO)",
        "    Track the keys of the next command (OPTIN), or do not (OPTOUT).",
        "CAPA <capability> [<capability> ...]",
        "    Declare capabilities of this connection's library: redirect.",
        "GETREDIR",
        "    Return the ID of the connection that receives the invalidations.",
        "GETNAME",
        "    Return the name of this connection.",
        "ID",
        "    Return the ID of this connection.",
        "IMPORT-SOURCE (ON|OFF)",
        "    Show expired keys to this connection while the server is in import mode.",
        "INFO",
        "    Describe this connection, as LIST does.",
        "KILL <ip:port>",
        "    Close the connection from <ip:port>.",
        "KILL <filter> <value> [<filter> <value> [...]]",
        "    Close the connections that match all filters, which are those of LIST;",
        "    this connection is skipped unless SKIPME NO is given.",
        "LIST [<filter> <value> [...]]",
        "    Describe connections. Filters; all but the last three can be negated",
        "    with the prefix NOT-:",
        "    * ID <id> [<id> ...]",
        "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
        "    * USER <username>",
        "    * ADDR (<ip:port>|<unixsocket>:0)",
        "    * LADDR (<ip:port>|<unixsocket>:0)",
        "    * IP <ip>",
        "    * NAME <name>",
        "    * LIB-NAME <name>",
        "    * LIB-VER <version>",
        "    * FLAGS <letters>, as LIST shows them",
        "    * CAPA <letters>: r for clients that understand redirections",
        "    * DB <number>",
        "    * MAXAGE <seconds>: minimum age",
        "    * IDLE <seconds>: minimum time without a request",
        "    * SKIPME (YES|NO): skip this connection",
        "NO-EVICT (ON|OFF)",
        "    Exempt this connection from client eviction.",
        "NO-TOUCH (ON|OFF)",
        "    Read keys without updating their access time.",
        "PAUSE <timeout> [WRITE|ALL]",
        "    Suspend all commands, or only writes, for <timeout> milliseconds.",
        "REPLY (ON|OFF|SKIP)",
        "    Send replies to this connection, or none, or none to the next command.",
        "SETINFO (LIB-NAME|LIB-VER) <value>",
        "    Record the library that this connection uses.",
        "SETNAME <name>",
        "    Name this connection.",
        "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
        "         [OPTIN] [OPTOUT] [NOLOOP]",
        "    Receive invalidations for keys that this connection has read.",
        "TRACKINGINFO",
        "    Describe how this connection tracks keys.",
        "UNBLOCK <id> [TIMEOUT|ERROR]",
        "    Unblock a client.",
        "UNPAUSE",
        "    End a pause.",
    ])
}

#[cfg(test)]
mod tests;
