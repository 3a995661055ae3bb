// SPDX-License-Identifier: BSD-3-Clause
//! Connection commands: greeting, authentication, protocol, database, and closing.
//!
//! Authentication is in the engine (`executor/access.rs`); passwords must never be logged.

use std::sync::atomic::Ordering::Relaxed;

use braid_acl::DEFAULT_USER;
use braid_base::number;
use braid_clients::client_flags;
use braid_executor::engine::access;
use braid_executor::session::ReplyMode;
use braid_executor::{Call, Row, dispatch};
use braid_resp::reply::Protocol;
use braid_spec::{Behavior, CommandError, CommandResult, Flags, Group, Scope, UsedDatabases};

use crate::keys::{database, has_one_database_of_cluster, small_integer_arg};

const ANY_TIME: Flags = Flags::LOADING.and(Flags::STALE);
const QUICK: Flags = ANY_TIME.and(Flags::FAST);
/// Commands that a client may send before it has authenticated.
const UNAUTHENTICATED: Flags = QUICK.and(Flags::NOSCRIPT).and(Flags::NO_AUTH).and(Flags::ALLOW_BUSY);

/// Rows of the connection commands.
pub const COMMANDS: &[Row] = &[
    Row::new("auth", Group::Connection, auth)
        .at_least(2)
        .flags(UNAUTHENTICATED.and(Flags::SENTINEL))
        .docs(
            "1.0.0",
            "Authenticates the connection.",
            "O(N) where N is the number of passwords defined for the user",
        )
        .syntax("[username:string@6.0.0] password:string")
        .secrets(|_, index| index > 0)
        .history(&[("6.0.0", "Accepts a user name as well, for ACL users.")]),
    Row::new("echo", Group::Connection, echo)
        .exactly(2)
        .flags(QUICK)
        .docs("1.0.0", "Returns its argument.", "O(1)")
        .syntax("message:string"),
    Row::new("hello", Group::Connection, hello)
        .at_least(1)
        .flags(UNAUTHENTICATED.and(Flags::SENTINEL))
        .docs("6.0.0", "Chooses the protocol and describes server and connection.", "O(1)")
        .syntax(
            "[arguments:{protover:integer [AUTH auth:{username:string password:string}] \
             [SETNAME clientname:string]}]",
        )
        .secrets(is_credential)
        .history(&[("6.2.0", "The protocol version is optional.")]),
    Row::new("ping", Group::Connection, ping)
        .behavior(Behavior::ALLOWED_SUBSCRIBED.and(Behavior::REPORTS_WRITE_REFUSAL))
        .at_least(1)
        .flags(Flags::FAST.and(Flags::SENTINEL))
        .docs("1.0.0", "Returns PONG, or its argument.", "O(1)")
        .syntax("[message:string]")
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
    Row::new("quit", Group::Connection, quit)
        .behavior(
            Behavior::NEVER_QUEUED
                .and(Behavior::DROPS_WATCHES)
                .and(Behavior::ALLOWED_SUBSCRIBED)
                .and(Behavior::ALLOWED_ON_REPLICA_LINK),
        )
        .at_least(1)
        .flags(UNAUTHENTICATED)
        .docs("1.0.0", "Closes the connection.", "O(1)")
        .deprecated("7.2.0", "just closing the connection"),
    Row::new("reset", Group::Connection, reset)
        .behavior(Behavior::NEVER_QUEUED.and(Behavior::DROPS_WATCHES).and(Behavior::ALLOWED_SUBSCRIBED))
        .exactly(1)
        .flags(UNAUTHENTICATED)
        .scope(Scope::Walk)
        .docs("6.2.0", "Resets the connection to its initial state.", "O(1)"),
    Row::new("select", Group::Connection, select)
        .databases(UsedDatabases::Named(|_| vec![1]))
        .behavior(Behavior::REPLAY_SELECTS)
        .exactly(2)
        .flags(QUICK)
        .docs("1.0.0", "Selects the database of the connection.", "O(1)")
        .syntax("index:integer"),
];

fn ping(call: &mut Call) -> CommandResult {
    let message = match call.args {
        [_] => None,
        [_, message] => Some(*message),
        _ => return Err(call.wrong_arity()),
    };
    if call.reply.protocol == Protocol::Resp2 && call.session.record.has(client_flags::PUBSUB) {
        // A subscribed RESP2 client could not tell a plain reply from a message.
        call.reply.array(2);
        call.reply.bulk(b"pong");
        call.reply.bulk(message.unwrap_or_default());
        return Ok(());
    }
    match message {
        None => call.reply.simple("PONG"),
        Some(message) => reply_argument(call, message),
    }
    Ok(())
}

fn echo(call: &mut Call) -> CommandResult {
    let message = call.args[1];
    reply_argument(call, message);
    Ok(())
}

fn reply_argument(call: &mut Call, argument: &[u8]) {
    match call.blob_of(argument) {
        Some(blob) => call.reply.bulk_blob(&blob),
        None => call.reply.bulk(argument),
    }
}

fn select(call: &mut Call) -> CommandResult {
    let number = small_integer_arg(call, 1)?;
    if number != 0 && has_one_database_of_cluster(call) {
        return Err(CommandError::text("ERR SELECT is not allowed in cluster mode"));
    }
    let db = database(call, number)?;
    call.session.select(db);
    call.reply.ok();
    Ok(())
}

fn quit(call: &mut Call) -> CommandResult {
    call.session.close();
    call.reply.ok();
    Ok(())
}

/// Checks name and password; on success the session belongs to the user.
fn authenticate(call: &mut Call, user: &[u8], password: &[u8]) -> CommandResult {
    let current = (call.command, call.args);
    access::log_in(call.engine, call.session, current, user, password)
}

/// True for HELLO's arguments after AUTH.
fn is_credential(args: &[&[u8]], index: usize) -> bool {
    let mut at = 2;
    while at < args.len() {
        if args[at].eq_ignore_ascii_case(b"auth") {
            if index == at + 1 || index == at + 2 {
                return true;
            }
            at += 2;
        } else if args[at].eq_ignore_ascii_case(b"setname") {
            at += 1;
        }
        at += 1;
    }
    false
}

fn auth(call: &mut Call) -> CommandResult {
    match *call.args {
        [_, password] => {
            if call.engine.acl.default_user().no_password {
                return Err(CommandError::text(
                    "ERR AUTH <password> called without any password configured for the default user. Are \
                     you sure your configuration is correct?",
                ));
            }
            authenticate(call, DEFAULT_USER, password)?;
        }
        [_, user, password] => authenticate(call, user, password)?,
        _ => return Err(CommandError::Syntax),
    }
    call.reply.ok();
    Ok(())
}

/// True if CLIENT LIST can show a name: only printable ASCII, no spaces.
pub(crate) fn is_showable(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_graphic)
}

/// Checks a client's name.
pub(crate) fn check_name(name: &[u8]) -> CommandResult {
    if is_showable(name) {
        return Ok(());
    }
    Err(CommandError::text("ERR Client names cannot contain spaces, newlines or special characters."))
}

/// The options of HELLO.
#[derive(Default)]
struct Greeting<'a> {
    protocol: Option<Protocol>,
    credentials: Option<(&'a [u8], &'a [u8])>,
    name: Option<&'a [u8]>,
}

impl<'a> Greeting<'a> {
    fn parse(args: &[&'a [u8]]) -> Result<Greeting<'a>, CommandError> {
        let mut greeting = Greeting::default();
        let [version, options @ ..] = args else { return Ok(greeting) };
        let version = number::parse_i64(version)
            .ok_or(CommandError::text("ERR Protocol version is not an integer or out of range"))?;
        greeting.protocol = Some(match version {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return Err(CommandError::text("NOPROTO unsupported protocol version")),
        });
        let mut rest = options;
        while let [option, after @ ..] = rest {
            let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
            rest = match after {
                [user, password, after @ ..] if is("auth") => {
                    greeting.credentials = Some((user, password));
                    after
                }
                [name, after @ ..] if is("setname") => {
                    check_name(name)?;
                    greeting.name = Some(name);
                    after
                }
                _ => return Err(CommandError::quoting("ERR Syntax error in HELLO option '", option, "'")),
            };
        }
        Ok(greeting)
    }
}

fn hello(call: &mut Call) -> CommandResult {
    let greeting = Greeting::parse(&call.args[1..])?;
    if let Some((user, password)) = greeting.credentials {
        authenticate(call, user, password)?;
    }
    if !call.session.authenticated {
        return Err(CommandError::text(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> \
             AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol \
             version at the same time",
        ));
    }
    if let Some(name) = greeting.name {
        call.session.record.edit_texts(|texts| texts.name = name.to_vec());
    }
    if let Some(protocol) = greeting.protocol {
        speak(call, protocol);
    }
    let version = version_of(call.reply.protocol);
    let mode = if call.engine.config.cluster_enabled() { "cluster" } else { "standalone" };
    let role = if call.engine.replication.link.is_replica() { "replica" } else { "master" };
    let zone = call.engine.config.availability_zone();
    let id = i64::try_from(call.session.id()).unwrap_or(i64::MAX);
    let reply = &mut *call.reply;
    reply.map(if zone.is_empty() { 7 } else { 8 });
    let mut text = |name: &str, value: &str| {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    };
    text("server", "redis");
    text("version", &call.engine.config.redis_version());
    reply.bulk(b"proto");
    reply.integer(i64::from(version));
    reply.bulk(b"id");
    reply.integer(id);
    let mut text = |name: &str, value: &str| {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    };
    text("mode", mode);
    text("role", role);
    reply.bulk(b"modules");
    crate::module::reply_list(call.engine, reply);
    if !zone.is_empty() {
        reply.bulk(b"availability_zone");
        reply.bulk(zone.as_bytes());
    }
    Ok(())
}

fn version_of(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    }
}

fn speak(call: &mut Call, protocol: Protocol) {
    call.reply.protocol = protocol;
    call.session.record.protocol.store(version_of(protocol), Relaxed);
}

fn reset(call: &mut Call) -> CommandResult {
    dispatch::discard(call.engine, call.keyspace.context, call.session);
    call.session.unsubscribe_all(&call.engine.hub);
    call.session.stop_monitor(&call.engine.hub, &call.engine.attention);
    call.session.stop_tracking(&call.engine.trackers, &call.engine.keyspace);
    call.engine.hub.skip(&mut call.session.listener);
    speak(call, Protocol::Resp2);
    call.session.log_out(&call.engine.acl, &call.engine.attention);
    let session = &mut *call.session;
    session.select(0);
    session.options.no_touch = false;
    session.set_import_source(false);
    session.set_reply_mode(ReplyMode::On);
    session.options.no_evict = false;
    session.options.durable = None;
    session.field_sets.clear();
    let record = &session.record;
    record.set_flag(client_flags::NO_TOUCH | client_flags::NO_EVICT | client_flags::READS_REPLICA, false);
    // The library's name and version are kept.
    record.edit_texts(|texts| texts.name.clear());
    call.reply.simple("RESET");
    Ok(())
}

#[cfg(test)]
mod tests;
