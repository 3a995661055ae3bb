// SPDX-License-Identifier: BSD-3-Clause
//! What becomes of commands that took long or were large: the command logs and the latency monitor.
//!
//! HOT PATH: [`is_noteworthy`] is asked after every command.

use std::sync::atomic::Ordering::Relaxed;

use smallvec::SmallVec;

use crate::engine::Engine;
use crate::session::Session;
use braid_clients::describe::request_bytes;
use braid_spec::Command;
use braid_spec::Flags;
use braid_telemetry::command_log::{Entry, Kind};

/// Commands below this many nanoseconds are no concern of any log, unless a log takes everything.
pub(crate) const NANOS_MIN: u64 = 1000;
/// Below this many bytes, requests and replies are no concern of any log but one with a low threshold. What is larger is either copied,
/// which takes longer than [`NANOS_MIN`], or handed over in allocations of its own.
pub(crate) const BYTES_MIN: i64 = (NANOS_MIN as i64 + 24) << REPLY_SHIFT;
/// So many bits of a reply's length weigh less than a nanosecond.
const REPLY_SHIFT: u32 = 6;

/// What a command has cost.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cost {
    pub nanos: u64,
    pub reply_bytes: usize,
}

/// Whether a log may want to know of a command. `blobs`: how many arguments came in allocations of their own.
#[inline]
pub(super) fn is_noteworthy(engine: &Engine, cost: Cost, blobs: usize) -> bool {
    let weight = cost.nanos + (cost.reply_bytes as u64 >> REPLY_SHIFT) + blobs as u64 * NANOS_MIN;
    weight >= engine.logs.floor.load(Relaxed)
}

/// Gives a command to the logs whose thresholds it exceeds.
#[cold]
pub(crate) fn note(engine: &Engine, session: &Session, command: &Command, args: &[&[u8]], cost: Cost) {
    let config = &engine.config;
    let micros = cost.nanos / 1000;
    let threshold = config.latency_monitor_threshold_milliseconds();
    if threshold > 0 && micros >= threshold * 1000 {
        let event = if command.spec.flags.has(Flags::FAST) { "fast-command" } else { "command" };
        let seconds = braid_base::clock::unix_ms() / 1000;
        engine.latency.add(event, seconds, u32::try_from(micros / 1000).unwrap_or(u32::MAX));
    }
    // What a transaction's commands took is logged for each of them; EXEC is not slow by itself.
    if command.spec.flags.has(Flags::SKIP_SLOWLOG) || command.spec.name == "exec" {
        return;
    }
    let exceeds = |amount: u64, threshold: i64| u64::try_from(threshold).is_ok_and(|least| amount >= least);
    let log = |kind: Kind, amount: u64, len_max: usize| {
        let record = &session.record;
        let name = record.texts.lock().name.clone();
        let time = braid_base::clock::unix_ms() / 1000;
        let args = without_secrets(command, args);
        engine.logs.of(kind).push(Entry::new(time, amount, &args, record.address.to_string(), name), len_max);
    };
    if exceeds(micros, config.slowlog_log_slower_than_microseconds()) {
        log(Kind::Slow, micros, config.slowlog_max_len());
    }
    let larger_than = config.commandlog_request_larger_than();
    if larger_than >= 0 {
        let bytes = request_bytes(args) as u64;
        if exceeds(bytes, larger_than) {
            log(Kind::LargeRequest, bytes, config.commandlog_large_request_max_len());
        }
    }
    let bytes = cost.reply_bytes as u64;
    if exceeds(bytes, config.commandlog_reply_larger_than()) {
        log(Kind::LargeReply, bytes, config.commandlog_large_reply_max_len());
    }
}

/// A request's arguments as logs may show them.
pub fn without_secrets<'a>(command: &Command, args: &[&'a [u8]]) -> SmallVec<[&'a [u8]; 8]> {
    let Some(is_secret) = command.spec.secrets else { return args.into() };
    let shown = |index| if is_secret(args, index) { &b"(redacted)"[..] } else { args[index] };
    (0..args.len()).map(shown).collect()
}
