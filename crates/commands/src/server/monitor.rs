// SPDX-License-Identifier: BSD-3-Clause
//! MONITOR. Lines are formatted in `braid_telemetry::monitor`.

use braid_executor::{Call, Row};
use braid_spec::{CommandError, CommandResult, Group};

use super::ADMIN;

pub(super) const MONITOR: Row = Row::new("monitor", Group::Server, start).exactly(1).flags(ADMIN).docs(
    "1.0.0",
    "Shows all commands as they are executed.",
    "",
);

fn start(call: &mut Call) -> CommandResult {
    if call.session.execution.deny_blocking || call.session.execution.in_script {
        return Err(CommandError::text("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    // A repeated MONITOR has no reply, as in Redis.
    if call.session.start_monitor(&call.engine.hub, &call.engine.attention) {
        call.reply.ok();
    }
    Ok(())
}

#[cfg(test)]
mod tests;
