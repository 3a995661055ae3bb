// SPDX-License-Identifier: BSD-3-Clause
//! Telemetry: counters, latencies, logs and samples of commands.
//!
//! Each executing thread has its own counters ([`stats`]), which a reader sums. The dispatcher
//! reports every command's [`Cost`] to the logs, the latency monitor and hot-key sampling. While
//! unused, all of this must not cost a command more than a few nanoseconds.

#![forbid(unsafe_code)]

pub mod big_keys;
pub mod command_log;
pub mod figure;
pub mod histogram;
pub mod hot_keys;
pub mod latency;
pub mod monitor;
pub mod rates;
pub mod slot_stats;
pub mod stats;
pub mod telemetry;

use braid_spec::Command;
use smallvec::SmallVec;

pub use big_keys::BigKeys;
pub use command_log::CommandLogs;
pub use figure::{Figure, MetricKind, Reading};
pub use hot_keys::HotKeys;
pub use latency::LatencyMonitor;
pub use rates::{LinkBytes, Rates};
pub use slot_stats::{SlotCost, SlotStats};
pub use stats::{ThreadStats, Threads};
pub use telemetry::Telemetry;

/// Cost of a command.
#[derive(Clone, Copy, Default)]
pub struct Cost {
    pub nanos: u64,
    pub reply_bytes: usize,
}

/// A request's arguments with secrets redacted, for logs.
pub fn without_secrets<'a>(command: &Command, args: &[&'a [u8]]) -> SmallVec<[&'a [u8]; 8]> {
    let Some(is_secret) = command.spec.secrets else { return args.into() };
    let shown = |index| if is_secret(args, index) { &b"(redacted)"[..] } else { args[index] };
    (0..args.len()).map(shown).collect()
}
