// SPDX-License-Identifier: BSD-3-Clause
//! Runs bodies: the one way into them for every command, wherever it comes from: clients,
//! transactions, scripts, the append-only file, clients that have waited.
//!
//! HOT PATH: as `dispatch.rs`.

use braid_spec::{Behavior, CommandError, CommandResult};

use super::journal::Before;
use crate::engine::call::Call;

/// Runs the body and replies with its error, if it ends with one: true then. `is_alone`: the locks
/// are held for this command only.
#[inline]
pub(super) fn run_body(call: &mut Call<'_, '_>, is_alone: bool) -> bool {
    if call.session.no_touch {
        call.keyspace.set_touches(call.command.behavior.has(Behavior::TOUCHES_ALWAYS));
    }
    let mark = call.reply.mark();
    let Err(error) = run_journalled(call, is_alone) else { return false };
    // Whatever a body had written before it found the error is void.
    call.reply.truncate(mark);
    let line = error.line();
    call.reply.error_bytes(&line);
    if !matches!(error, CommandError::Counted(_)) {
        call.engine.threads[call.keyspace.context.slot].count_error(&line);
    }
    true
}

/// Runs the body, and has the journal repeat what it does. `is_alone` as above.
#[inline]
pub(crate) fn run_journalled(call: &mut Call<'_, '_>, is_alone: bool) -> CommandResult {
    let handler = call.engine.body_of(call.command);
    let before = Before::of(call.keyspace, call.command);
    let result = handler(call);
    if let Some(before) = before {
        before.journal(call.keyspace, call.session, call.args, is_alone);
    }
    result
}
