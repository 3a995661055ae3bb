// SPDX-License-Identifier: BSD-3-Clause
//! Runs command bodies: the single entry for clients, transactions, scripts, the append-only file
//! and unblocked clients.
//!
//! HOT PATH: as `dispatch.rs`.

use braid_spec::{Behavior, CommandError, CommandResult};

use super::journal::Before;
use crate::engine::call::Call;

/// Runs the body and replies with its error, if any; true on error. `is_alone`: the locks are held
/// for this command only.
#[inline]
pub fn run_body(call: &mut Call<'_, '_>, is_alone: bool) -> bool {
    if call.session.options.no_touch {
        call.keyspace.set_touches(call.command.behavior.has(Behavior::TOUCHES_ALWAYS));
    }
    let mark = call.reply.mark();
    let Err(error) = run_journalled(call, is_alone) else { return false };
    // Discards what the body wrote before its error.
    call.reply.truncate(mark);
    if call.keyspace.context.outdated {
        return true;
    }
    let line = error.line();
    call.reply.error_bytes(&line);
    if !matches!(error, CommandError::Counted(_)) {
        call.engine.telemetry.threads[call.keyspace.context.slot].count_error(&line);
    }
    true
}

/// Runs the body and journals its changes. `is_alone` as above.
#[inline]
pub(crate) fn run_journalled(call: &mut Call<'_, '_>, is_alone: bool) -> CommandResult {
    let handler = call.engine.commands.body_of(call.command);
    let before = Before::of(call.keyspace, call.command);
    let result = handler(call);
    if let Some(before) = before {
        before.journal(call.keyspace, call.session, call.args, is_alone);
    }
    result
}
