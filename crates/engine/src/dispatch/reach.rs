// SPDX-License-Identifier: BSD-3-Clause
//! How far a request reaches: whether one lock at most is all that it needs. The threading model
//! `hybrid` asks.

use super::Prepared;
use crate::engine::Engine;
use crate::session::Session;
use braid_spec::{Behavior, Reach, Scope, keys};

/// How far a client's request reaches, as far as that can be told without its arguments. What is
/// queued for a transaction reaches nothing yet.
#[inline]
pub fn reach(engine: &Engine, session: &Session, prepared: Prepared) -> Reach {
    let Some(id) = prepared.command() else { return Reach::OneKey };
    let command = engine.commands.get(id);
    if session.queue.is_some() && !command.behavior.has(Behavior::EXECUTES_QUEUE) {
        Reach::OneKey
    } else {
        command.reach
    }
}

/// How far a request reaches, by its arguments. A request that is not understood needs no keys to be refused.
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
