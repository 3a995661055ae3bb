// SPDX-License-Identifier: BSD-3-Clause
//! Reach of a request: whether it needs at most one lock. Used by the threading model `hybrid`.

use braid_spec::{Behavior, Reach, Scope, keys};

use super::Prepared;
use crate::engine::Engine;
use crate::session::Session;

/// Reach of a client's request, as far as it is known without the arguments. A queued command has
/// none.
#[inline]
pub fn reach(engine: &Engine, session: &Session, prepared: Prepared) -> Reach {
    let Some(id) = prepared.command() else { return Reach::OneKey };
    let command = engine.commands.get(id);
    if session.transaction.queue.is_some() && !command.behavior.has(Behavior::EXECUTES_QUEUE) {
        Reach::OneKey
    } else {
        command.reach
    }
}

/// Reach of a request by its arguments. An invalid request is refused without keys.
pub fn reach_of(engine: &Engine, prepared: Prepared, args: &[&[u8]]) -> Reach {
    let Some(id) = prepared.command() else { return Reach::OneKey };
    let mut command = engine.commands.get(id);
    if let Some(name) = args.get(1)
        && let Some(subcommand) = engine.commands.find_subcommand(command, name)
    {
        command = subcommand;
    }
    let spec = command.spec;
    if !spec.arity.allows(args.len()) {
        return Reach::OneKey;
    }
    let takes_one = || keys::find(spec, args).is_none_or(|keys| keys.len() <= 1);
    if spec.scope_of(args) == Scope::Keys && takes_one() { Reach::OneKey } else { Reach::Wide }
}
