// SPDX-License-Identifier: BSD-3-Clause
//! MONITOR: a line for each command that is executed, to every client that asked for them.
//!
//! Lines are made under the locks of the command, so those of commands that meet in a key come in the order of their effects. While nobody
//! monitors the attention word says so, and nothing here runs.

use std::io::Write as _;
use std::sync::Arc;

use braid_resp::inline::push_quoted;

use crate::dispatch::logging::without_secrets;
use crate::engine::Engine;
use crate::session::Session;
use braid_clients::attention::LOADING;
use braid_clients::{Address, client_flags};
use braid_notify::queue::Payload;
use braid_spec::Command;
use braid_spec::Flags;

/// Begins to tell a client of all commands. False if that is done already.
pub fn start(engine: &Engine, session: &mut Session) -> bool {
    if session.record.has(client_flags::MONITOR) {
        return false;
    }
    session.record.set_flag(client_flags::MONITOR, true);
    session.settle_attention();
    engine.hub.add_monitor(&session.record, &engine.attention);
    true
}

/// Ends it.
pub fn stop(engine: &Engine, session: &mut Session) {
    if !session.record.has(client_flags::MONITOR) {
        return;
    }
    session.record.set_flag(client_flags::MONITOR, false);
    session.settle_attention();
    engine.hub.remove_monitor(session.id(), &engine.attention);
}

/// Whether a command is one that may be told of.
pub(crate) fn tells_of(command: &Command) -> bool {
    !command.spec.flags.any(Flags::SKIP_MONITOR | Flags::ADMIN)
}

/// Tells of a command, if it is one that may be told of.
#[cold]
pub(crate) fn tell(engine: &Engine, slot: usize, session: &Session, command: &Command, args: &[&[u8]]) {
    if tells_of(command) {
        tell_always(engine, slot, session, command, args);
    }
}

/// Tells of a command that runs others: it comes before them.
#[cold]
pub(crate) fn tell_always(
    engine: &Engine,
    slot: usize,
    session: &Session,
    command: &Command,
    args: &[&[u8]],
) {
    if engine.attention.get() & LOADING == 0 {
        send(engine, slot, &line(session, command, args));
    }
}

/// Sends a line to those who monitor.
#[cold]
pub(crate) fn send(engine: &Engine, slot: usize, line: &Arc<Payload>) {
    engine.hub.tell_monitors(slot, line);
}

/// The line of a command.
#[cold]
pub(crate) fn line(session: &Session, command: &Command, args: &[&[u8]]) -> Arc<Payload> {
    let micros = braid_base::clock::unix_us();
    let mut line = Vec::with_capacity(64 + args.iter().map(|arg| arg.len() + 3).sum::<usize>());
    // Writing to a vector does not fail.
    let _ = write!(line, "+{}.{:06} [{} ", micros / 1_000_000, micros % 1_000_000, session.db);
    let _ = match (&session.record.local_address, session.in_script) {
        (_, true) => write!(line, "lua]"),
        (Address::Unix(path), _) => write!(line, "unix:{path}]"),
        _ => write!(line, "{}]", session.record.address),
    };
    for arg in without_secrets(command, args) {
        line.push(b' ');
        push_quoted(&mut line, arg);
    }
    line.extend_from_slice(b"\r\n");
    Arc::new(Payload::Line(line.into()))
}
