// SPDX-License-Identifier: BSD-3-Clause
//! Which requests read, write or reveal data: by the flags of their commands, and of EXEC by those
//! that it executes.

use crate::engine::Engine;
use crate::transaction::{Queue, Queued};
use braid_spec::{Behavior, Command, Flags};

/// Flags of commands that read or write keys, or publish.
pub(super) const DATA: Flags = Flags::READONLY.and(Flags::WRITE).and(Flags::MAY_REPLICATE);

/// Whether a request writes, or executes something that does.
pub(super) fn writes(engine: &Engine, queue: Option<&Queue>, command: &Command, args: &[&[u8]]) -> bool {
    has(engine, command, args, Flags::WRITE) || (is_exec(command) && queue_has(engine, queue, Flags::WRITE))
}

/// What requests may declare themselves.
const DECLARABLE: Flags = Flags::WRITE.and(Flags::DENYOOM).and(Flags::STALE);

/// What a request declares in place of its command's flags ([`Body::declares`]).
///
/// [`Body::declares`]: crate::engine::row::Body::declares
pub(super) fn declared(engine: &Engine, command: &Command, args: &[&[u8]]) -> Option<Flags> {
    engine.commands.declares_of(command)?(engine, args)
}

/// Whether a request has a flag: by what it declares, or else by its command.
pub(super) fn has(engine: &Engine, command: &Command, args: &[&[u8]], flag: Flags) -> bool {
    let own = if DECLARABLE.has(flag) { declared(engine, command, args) } else { None };
    own.unwrap_or(command.spec.flags).has(flag)
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

/// True if a queued request has a flag.
pub(super) fn queue_has(engine: &Engine, queue: Option<&Queue>, flag: Flags) -> bool {
    queue.is_some_and(|queue| {
        let has = |queued: &Queued| has(engine, engine.commands.get(queued.command), &queued.args(), flag);
        queue.commands.iter().any(has)
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
