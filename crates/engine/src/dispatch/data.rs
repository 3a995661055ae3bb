// SPDX-License-Identifier: BSD-3-Clause
//! Which requests read, write or reveal data: by the flags of their commands, and of EXEC by those
//! that it executes.

use crate::engine::Engine;
use crate::transaction::Queue;
use braid_spec::{Behavior, Command, Flags};

/// Flags of commands that read or write keys, or publish.
pub(super) const DATA: Flags = Flags::READONLY.and(Flags::WRITE).and(Flags::MAY_REPLICATE);

/// Whether a request writes, or executes something that does.
pub(super) fn writes(engine: &Engine, queue: Option<&Queue>, command: &Command) -> bool {
    command.spec.flags.has(Flags::WRITE) || (is_exec(command) && queue_has(engine, queue, Flags::WRITE))
}

/// Whether a command reads or writes keys, runs scripts or publishes. Of EXEC its queue decides.
pub(super) fn touches_data(command: &Command) -> bool {
    !is_exec(command) && (command.spec.flags.any(DATA) || command.runs_scripts)
}

/// As [`touches_data`], of a request and all that it executes.
pub(super) fn serves_data(engine: &Engine, queue: Option<&Queue>, command: &Command) -> bool {
    let executed = queue.filter(|_| is_exec(command));
    touches_data(command)
        || executed.is_some_and(|queue| {
            queue.commands.iter().any(|queued| touches_data(engine.commands.get(queued.command)))
        })
}

/// True if a queued command has one of these flags.
pub(super) fn queue_has(engine: &Engine, queue: Option<&Queue>, flags: Flags) -> bool {
    queue.is_some_and(|queue| {
        queue.commands.iter().any(|queued| engine.commands.get(queued.command).spec.flags.any(flags))
    })
}
/// Whether the reply to a command may reveal data. Of a container's subcommands one is enough.
pub(crate) fn command_reveals_data(engine: &Engine, id: u32) -> bool {
    let command = engine.commands.get(id);
    let mut subcommands = command.subcommands.iter().map(|&id| engine.commands.get(id));
    is_exec(command) || touches_data(command) || subcommands.any(touches_data)
}

/// Whether a command is EXEC.
pub(super) fn is_exec(command: &Command) -> bool {
    command.behavior.has(Behavior::EXECUTES_QUEUE)
}
