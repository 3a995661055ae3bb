// SPDX-License-Identifier: BSD-3-Clause
//! Which requests read, write or reveal data: decided by their commands' flags, and for EXEC by
//! those of the queued commands.

use braid_spec::{Behavior, Command, Flags};

use crate::engine::Engine;
use crate::transaction::{Queue, Queued};

/// Flags of commands that read or write keys, or publish.
pub(super) const DATA: Flags = Flags::READONLY.and(Flags::WRITE).and(Flags::MAY_REPLICATE);

/// True if a request writes, or executes a command that writes.
pub(super) fn writes(engine: &Engine, queue: Option<&Queue>, command: &Command, args: &[&[u8]]) -> bool {
    has(engine, command, args, Flags::WRITE) || (is_exec(command) && queue_has(engine, queue, Flags::WRITE))
}

/// Flags that requests may declare themselves.
const DECLARABLE: Flags = Flags::WRITE.and(Flags::DENYOOM).and(Flags::STALE);

/// The flags that a request declares in place of its command's ([`Body::declares`]).
///
/// [`Body::declares`]: crate::engine::row::Body::declares
pub(super) fn declared(engine: &Engine, command: &Command, args: &[&[u8]]) -> Option<Flags> {
    engine.commands.declares_of(command)?(engine, args)
}

/// True if a request has a flag: as declared by the request, or else by its command.
pub(super) fn has(engine: &Engine, command: &Command, args: &[&[u8]], flag: Flags) -> bool {
    let own = if DECLARABLE.has(flag) { declared(engine, command, args) } else { None };
    own.unwrap_or(command.spec.flags).has(flag)
}

/// True if a command reads or writes keys, runs scripts or publishes. For EXEC the queue decides.
pub(super) fn touches_data(command: &Command) -> bool {
    !is_exec(command) && (command.spec.flags.any(DATA) || command.runs_scripts)
}

/// [`touches_data`] for a request and all commands that it executes.
pub(super) fn serves_data(engine: &Engine, queue: Option<&Queue>, command: &Command) -> bool {
    let executed = queue.filter(|_| is_exec(command));
    touches_data(command)
        || executed.is_some_and(|queue| {
            queue.commands.iter().any(|queued| touches_data(engine.commands.get(queued.command)))
        })
}

/// True if a queued request has a flag.
pub(super) fn queue_has(engine: &Engine, queue: Option<&Queue>, flag: Flags) -> bool {
    queue.is_some_and(|queue| {
        let has = |queued: &Queued| has(engine, engine.commands.get(queued.command), &queued.args(), flag);
        queue.commands.iter().any(has)
    })
}

/// Whether the reply to a command may reveal data. For a container, one such subcommand is
/// enough.
pub(crate) fn command_reveals_data(engine: &Engine, id: u32) -> bool {
    let command = engine.commands.get(id);
    let mut subcommands = command.subcommands.iter().map(|&id| engine.commands.get(id));
    is_exec(command) || touches_data(command) || subcommands.any(touches_data)
}

/// True if a command is EXEC.
pub(super) fn is_exec(command: &Command) -> bool {
    command.behavior.has(Behavior::EXECUTES_QUEUE)
}
