// SPDX-License-Identifier: BSD-3-Clause
//! Cost accounting per hash slot (CLUSTER SLOT-STATS).
//!
//! While it is enabled, all requests take the checked path, so that it costs nothing when
//! disabled. Each byte and nanosecond counts once: those of a transaction or script as its own,
//! not as those of its commands.

use braid_base::clock::Ticks;
use braid_clients::attention::SLOT_STATS;
use braid_clients::describe::request_bytes;
use braid_spec::{Command, CommandTable, keys};
use braid_telemetry::SlotCost;

use super::data::is_exec;
use super::{Outcome, Request};
use crate::engine::Engine;
use crate::transaction::Queue;

/// Size of the request `MULTI`, which is counted with EXEC.
const MULTI_BYTES: usize = b"*1\r\n$5\r\nMULTI\r\n".len();

/// A request of one slot before it runs.
pub(super) struct Begun {
    slot: u16,
    bytes_in: usize,
    began: Ticks,
    reply_start: usize,
}

impl Begun {
    /// `None` for requests without a slot.
    #[cold]
    pub fn of(request: &Request<'_>, command: &Command) -> Option<Begun> {
        let Request { engine, worker, session, reply, args, .. } = request;
        let slot = slot_of(&engine.commands, session.transaction.queue.as_deref(), command, args)?;
        // Queued commands were counted when they were queued.
        let more = if is_exec(command) { MULTI_BYTES } else { 0 };
        let (began, bytes_in) = (worker.boundary, request_bytes(args) + more);
        Some(Begun { slot, bytes_in, began, reply_start: reply.len() })
    }

    /// Counts the request once it has run or blocked.
    pub fn count(self, request: &Request<'_>, outcome: Outcome) {
        let Request { engine, worker, reply, .. } = request;
        let bytes_in = self.bytes_in as u64;
        let cost = match outcome {
            // The rest is counted when the client is answered.
            Outcome::Blocked | Outcome::Postponed => SlotCost { bytes_in, ..SlotCost::default() },
            Outcome::Done => SlotCost {
                nanos: worker.boundary.nanos_since(self.began),
                bytes_in,
                bytes_out: reply.len().saturating_sub(self.reply_start) as u64,
            },
        };
        engine.telemetry.slot_stats.add(worker.context.slot, self.slot, cost);
    }
}

/// Counts a request that is queued by MULTI.
#[cold]
pub(super) fn count_queued(request: &Request<'_>, command: &Command) {
    let Request { engine, worker, args, .. } = request;
    if let Some(slot) = slot_of(&engine.commands, None, command, args) {
        let cost = SlotCost { bytes_in: request_bytes(args) as u64, ..SlotCost::default() };
        engine.telemetry.slot_stats.add(worker.context.slot, slot, cost);
    }
}

/// The slot of a request that has passed the single-slot check.
fn slot_of(table: &CommandTable, queue: Option<&Queue>, command: &Command, args: &[&[u8]]) -> Option<u16> {
    let first = |command: &Command, args: &[&[u8]]| {
        let found = keys::find_slotted(command.spec, args)?;
        Some(braid_base::crc::key_hash_slot(args[found.first()?.index]))
    };
    match queue.filter(|_| is_exec(command)) {
        None => first(command, args),
        Some(queue) => {
            let mut queued = queue.commands.iter();
            queued.find_map(|queued| first(table.get(queued.command), &queued.args()))
        }
    }
}

/// Counts a command that is answered after a wait, if slot statistics are enabled.
pub(crate) fn count_later(
    engine: &Engine,
    thread: usize,
    command: &Command,
    args: &[&[u8]],
    nanos: u64,
    bytes: usize,
) {
    if engine.attention.get() & SLOT_STATS != 0
        && let Some(slot) = slot_of(&engine.commands, None, command, args)
    {
        let cost = SlotCost { nanos, bytes_in: 0, bytes_out: bytes as u64 };
        engine.telemetry.slot_stats.add(thread, slot, cost);
    }
}
