// SPDX-License-Identifier: BSD-3-Clause
//! MONITOR: a line for each executed command, sent to all monitoring clients.
//!
//! Lines are made under the command's locks, so the lines of commands on a common key are in the
//! order of their effects. Without monitoring clients, the attention word has no bit for MONITOR,
//! and nothing here runs.

use std::io::Write as _;
use std::sync::Arc;

use braid_resp::inline::push_quoted;

use braid_clients::attention::{Attention, LOADING};
use braid_clients::{Address, ClientRecord, client_flags};
use braid_notify::Hub;
use braid_notify::payload::Payload;
use braid_spec::{Command, Flags};

use crate::without_secrets;

/// The client of a command, as shown in its line.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    pub record: &'a ClientRecord,
    pub db: u32,
    /// The command was called by a script.
    pub in_script: bool,
}

/// Starts MONITOR for a client. False if it is already on.
pub fn start(hub: &Hub, attention: &Attention, record: &ClientRecord) -> bool {
    if record.has(client_flags::MONITOR) {
        return false;
    }
    record.set_flag(client_flags::MONITOR, true);
    hub.add_monitor(record, attention);
    true
}

/// Stops MONITOR for a client.
pub fn stop(hub: &Hub, attention: &Attention, record: &ClientRecord) {
    if record.has(client_flags::MONITOR) {
        record.set_flag(client_flags::MONITOR, false);
        hub.remove_monitor(record.id, attention);
    }
}

/// True if the command is shown to monitors.
pub fn is_shown_to_monitors(command: &Command) -> bool {
    !command.spec.flags.any(Flags::SKIP_MONITOR | Flags::ADMIN)
}

/// Sends a command to monitors, if it may be shown to them.
#[cold]
pub fn tell(
    hub: &Hub,
    attention: &Attention,
    slot: usize,
    caller: Caller<'_>,
    command: &Command,
    args: &[&[u8]],
) {
    if is_shown_to_monitors(command) {
        tell_always(hub, attention, slot, caller, command, args);
    }
}

/// Sends a command that runs other commands to monitors, before their lines.
#[cold]
pub fn tell_always(
    hub: &Hub,
    attention: &Attention,
    slot: usize,
    caller: Caller<'_>,
    command: &Command,
    args: &[&[u8]],
) {
    if attention.get() & LOADING == 0 {
        hub.tell_monitors(slot, &line(caller, command, args));
    }
}

/// Formats a command's line.
#[cold]
pub fn line(caller: Caller<'_>, command: &Command, args: &[&[u8]]) -> Arc<Payload> {
    let micros = braid_base::clock::unix_us();
    let mut line = Vec::with_capacity(64 + args.iter().map(|arg| arg.len() + 3).sum::<usize>());
    // Writing to a vector cannot fail.
    let _ = write!(line, "+{}.{:06} [{} ", micros / 1_000_000, micros % 1_000_000, caller.db);
    let _ = match (&caller.record.local_address, caller.in_script) {
        (_, true) => write!(line, "lua]"),
        (Address::Unix(path), _) => write!(line, "unix:{path}]"),
        _ => write!(line, "{}]", caller.record.address),
    };
    for arg in without_secrets(command, args) {
        line.push(b' ');
        push_quoted(&mut line, arg);
    }
    line.extend_from_slice(b"\r\n");
    Arc::new(Payload::Line(line.into()))
}
