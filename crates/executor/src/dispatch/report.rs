// SPDX-License-Identifier: BSD-3-Clause
//! Reports executed commands to telemetry: counters, the command logs, the latency monitor and
//! clients in MONITOR.

use braid_spec::Command;
use braid_telemetry::Cost;
use braid_telemetry::monitor::{self, Caller};

use crate::engine::Engine;
use crate::session::Session;

/// Adds a command to the logs whose thresholds it exceeds.
#[cold]
pub(crate) fn log(engine: &Engine, session: &Session, command: &Command, args: &[&[u8]], cost: Cost) {
    engine.telemetry.logs.note(
        &engine.config,
        &engine.telemetry.latency,
        &session.record,
        command,
        args,
        cost,
    );
}

/// A session's client, as MONITOR shows it.
pub(super) fn caller(session: &Session) -> Caller<'_> {
    Caller { record: &session.record, db: session.db, in_script: session.execution.in_script }
}

/// Sends a command to MONITOR clients, unless it is hidden from them. The requests with which the
/// source of a slot move fills the slots are hidden, like a primary's stream.
#[cold]
pub(super) fn monitor(engine: &Engine, slot: usize, session: &Session, command: &Command, args: &[&[u8]]) {
    if session.cluster.import.is_some() {
        return;
    }
    monitor::tell(&engine.hub, &engine.attention, slot, caller(session), command, args);
}

/// Sends a command that runs others to MONITOR clients, before their lines.
#[cold]
pub(super) fn monitor_always(
    engine: &Engine,
    slot: usize,
    session: &Session,
    command: &Command,
    args: &[&[u8]],
) {
    monitor::tell_always(&engine.hub, &engine.attention, slot, caller(session), command, args);
}

/// Counts an executed command.
#[inline]
pub(crate) fn count(engine: &Engine, slot: usize, command: &Command, nanos: u64, failed: bool) {
    let stats = engine.telemetry.command_stats(slot, command.id);
    stats.calls.add(1);
    stats.nanos.add(nanos);
    engine.telemetry.threads[slot].executed.add(1);
    if failed {
        stats.failed.add(1);
    }
    if engine.config.latency_tracking() {
        stats.latency.get_or_init(Box::default).record(nanos);
    }
}
