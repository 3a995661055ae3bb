// SPDX-License-Identifier: BSD-3-Clause
//! What is counted, timed, logged and sampled of commands.
//!
//! Each executing thread has counters of its own ([`stats`]), which a reader adds up. The
//! dispatcher reports every command's [`Cost`]; logs, the latency monitor and the sample of hot
//! keys take what they need of it. None of this may cost a command more than a few nanoseconds
//! while nobody looks.

#![forbid(unsafe_code)]

pub mod big_keys;
pub mod command_log;
pub mod histogram;
pub mod hot_keys;
pub mod latency;
pub mod monitor;
pub mod rates;
pub mod stats;

use braid_spec::Command;
use smallvec::SmallVec;

pub use big_keys::BigKeys;
pub use command_log::CommandLogs;
pub use hot_keys::HotKeys;
pub use latency::LatencyMonitor;
pub use rates::Rates;
pub use stats::{ThreadStats, Threads};

/// What a command has cost.
#[derive(Clone, Copy, Default)]
pub struct Cost {
    pub nanos: u64,
    pub reply_bytes: usize,
}

/// A request's arguments as logs may show them.
pub fn without_secrets<'a>(command: &Command, args: &[&'a [u8]]) -> SmallVec<[&'a [u8]; 8]> {
    let Some(is_secret) = command.spec.secrets else { return args.into() };
    let shown = |index| if is_secret(args, index) { &b"(redacted)"[..] } else { args[index] };
    (0..args.len()).map(shown).collect()
}
