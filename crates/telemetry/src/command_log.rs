// SPDX-License-Identifier: BSD-3-Clause
//! Command logs: the latest commands that were slow, or had a large request or reply.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use braid_clients::ClientRecord;
use braid_clients::describe::request_bytes;
use braid_config::Config;
use braid_spec::Command;
use braid_spec::spec::{Behavior, Flags};
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::latency::LatencyMonitor;
use crate::{Cost, without_secrets};

/// Commands faster than this are in no log, unless a log records everything.
const NANOS_MIN: u64 = 1000;
/// Requests and replies below this many bytes are in no log, except one with a low threshold.
/// Larger ones are either copied, which takes longer than [`NANOS_MIN`], or passed on in their
/// own allocations.
const BYTES_MIN: i64 = (NANOS_MIN as i64 + 24) << REPLY_SHIFT;
/// A reply's length in bytes is shifted right by this for comparison with nanoseconds.
const REPLY_SHIFT: u32 = 6;

/// The logs of COMMANDLOG.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogKind {
    Slow,
    LargeRequest,
    LargeReply,
}

impl LogKind {
    /// Parses the name used by COMMANDLOG, case-insensitively.
    pub fn parse(name: &[u8]) -> Option<LogKind> {
        Some(match name.to_ascii_lowercase().as_slice() {
            b"slow" => LogKind::Slow,
            b"large-request" => LogKind::LargeRequest,
            b"large-reply" => LogKind::LargeReply,
            _ => return None,
        })
    }
}

/// One logged command.
#[derive(Clone, Debug)]
pub struct Entry {
    pub id: u64,
    /// Unix time in seconds.
    pub time: i64,
    /// Microseconds or bytes.
    pub amount: u64,
    /// The arguments, shortened.
    pub args: Vec<Vec<u8>>,
    pub address: String,
    pub client_name: Vec<u8>,
}

impl Entry {
    /// A new entry; the log assigns the ID.
    pub fn new(time: i64, amount: u64, args: &[&[u8]], address: String, client_name: Vec<u8>) -> Entry {
        Entry { id: 0, time, amount, args: shorten(args), address, client_name }
    }
}

/// Maximum number of arguments kept of a command.
const ARGS_MAX: usize = 32;
/// Maximum number of bytes kept of an argument.
const ARG_LEN_MAX: usize = 128;

/// A log, newest entry first.
#[derive(Default)]
pub struct CommandLog {
    inner: Mutex<(u64, VecDeque<Entry>)>,
}

impl CommandLog {
    /// Adds a command, and drops the oldest entries beyond `len_max`.
    pub fn push(&self, mut entry: Entry, len_max: usize) {
        let mut inner = self.inner.lock();
        entry.id = inner.0;
        inner.0 += 1;
        inner.1.push_front(entry);
        inner.1.truncate(len_max);
    }

    /// The newest `count` entries.
    pub fn latest(&self, count: usize) -> Vec<Entry> {
        self.inner.lock().1.iter().take(count).cloned().collect()
    }

    /// Commands logged since the start.
    pub fn total(&self) -> u64 {
        self.inner.lock().0
    }

    /// Number of entries held.
    pub fn len(&self) -> usize {
        self.inner.lock().1.len()
    }

    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops all entries; IDs continue.
    pub fn clear(&self) {
        self.inner.lock().1.clear();
    }
}

/// All command logs.
pub struct CommandLogs {
    slow: CommandLog,
    large_requests: CommandLog,
    large_replies: CommandLog,
    /// Commands with a lower weight ([`CommandLogs::is_noteworthy`]) are in no log.
    floor: AtomicU64,
}

impl CommandLogs {
    pub fn new(config: &Config) -> CommandLogs {
        let logs = CommandLogs {
            slow: CommandLog::default(),
            large_requests: CommandLog::default(),
            large_replies: CommandLog::default(),
            floor: AtomicU64::new(0),
        };
        logs.configure(config);
        logs
    }

    /// True if a log may record a command. `blobs` is the number of arguments with their own
    /// allocations. HOT PATH: called after every command.
    #[inline]
    pub fn is_noteworthy(&self, cost: Cost, blobs: usize) -> bool {
        let weight = cost.nanos + (cost.reply_bytes as u64 >> REPLY_SHIFT) + blobs as u64 * NANOS_MIN;
        weight >= self.floor.load(Relaxed)
    }

    /// True if [`CommandLogs::note`] would record something.
    #[cold]
    pub fn would_note(config: &Config, args: &[&[u8]], cost: Cost) -> bool {
        is_latency_event(config, cost) || !excesses(config, args, cost).is_empty()
    }

    /// Records a command in the logs and the latency monitor, wherever it exceeds the threshold.
    #[cold]
    pub fn note(
        &self,
        config: &Config,
        latency: &LatencyMonitor,
        record: &ClientRecord,
        command: &Command,
        args: &[&[u8]],
        cost: Cost,
    ) {
        if is_latency_event(config, cost) {
            let event = if command.spec.flags.has(Flags::FAST) { "fast-command" } else { "command" };
            let seconds = braid_base::clock::unix_ms() / 1000;
            latency.add(event, seconds, u32::try_from(cost.nanos / 1_000_000).unwrap_or(u32::MAX));
        }
        // A transaction's commands are logged individually; EXEC itself does not count as slow.
        if command.spec.flags.has(Flags::SKIP_SLOWLOG) || command.behavior.has(Behavior::EXECUTES_QUEUE) {
            return;
        }
        for (kind, amount) in excesses(config, args, cost) {
            let name = record.texts.lock().name.clone();
            let time = braid_base::clock::unix_ms() / 1000;
            let args = without_secrets(command, args);
            let entry = Entry::new(time, amount, &args, record.address.to_string(), name);
            self.of(kind).push(entry, len_max(config, kind));
        }
    }

    /// The log of this kind.
    pub fn of(&self, kind: LogKind) -> &CommandLog {
        match kind {
            LogKind::Slow => &self.slow,
            LogKind::LargeRequest => &self.large_requests,
            LogKind::LargeReply => &self.large_replies,
        }
    }

    /// Applies changed thresholds.
    pub fn configure(&self, config: &Config) {
        let takes_small = |threshold: i64| (0..BYTES_MIN).contains(&threshold);
        let takes_all = config.slowlog_log_slower_than_microseconds() == 0
            || takes_small(config.commandlog_request_larger_than())
            || takes_small(config.commandlog_reply_larger_than());
        self.floor.store(if takes_all { 0 } else { NANOS_MIN }, Relaxed);
    }
}

fn is_latency_event(config: &Config, cost: Cost) -> bool {
    let threshold = config.latency_monitor_threshold_milliseconds();
    threshold > 0 && cost.nanos / 1000 >= threshold * 1000
}

/// The logs whose thresholds a command reaches, with the amount; a negative threshold is none.
fn excesses(config: &Config, args: &[&[u8]], cost: Cost) -> SmallVec<[(LogKind, u64); 3]> {
    let mut found = SmallVec::new();
    let mut check = |kind: LogKind, threshold: i64, amount: &dyn Fn() -> u64| {
        if let Ok(least) = u64::try_from(threshold)
            && let amount = amount()
            && amount >= least
        {
            found.push((kind, amount));
        }
    };
    let larger_than = config.commandlog_request_larger_than();
    check(LogKind::Slow, config.slowlog_log_slower_than_microseconds(), &|| cost.nanos / 1000);
    check(LogKind::LargeRequest, larger_than, &|| request_bytes(args) as u64);
    check(LogKind::LargeReply, config.commandlog_reply_larger_than(), &|| cost.reply_bytes as u64);
    found
}

/// Maximum number of entries of a log.
fn len_max(config: &Config, kind: LogKind) -> usize {
    match kind {
        LogKind::Slow => config.slowlog_max_len(),
        LogKind::LargeRequest => config.commandlog_large_request_max_len(),
        LogKind::LargeReply => config.commandlog_large_reply_max_len(),
    }
}

/// Limits the size of the logs: long arguments and long commands are truncated, with a note of
/// how much is missing.
fn shorten(args: &[&[u8]]) -> Vec<Vec<u8>> {
    let kept = if args.len() > ARGS_MAX { ARGS_MAX - 1 } else { args.len() };
    let mut short: Vec<Vec<u8>> = args[..kept].iter().map(|arg| shorten_one(arg)).collect();
    if args.len() > ARGS_MAX {
        short.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
    }
    short
}

fn shorten_one(arg: &[u8]) -> Vec<u8> {
    if arg.len() <= ARG_LEN_MAX {
        return arg.to_vec();
    }
    let mut short = arg[..ARG_LEN_MAX].to_vec();
    short.extend_from_slice(format!("... ({} more bytes)", arg.len() - ARG_LEN_MAX).as_bytes());
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_are_cut_and_old_entries_go() {
        let log = CommandLog::default();
        let (long, many) = (vec![b'x'; 200], vec![&b"a"[..]; 40]);
        let entry = |args: &[&[u8]]| Entry::new(1, 2, args, "a".into(), Vec::new());
        log.push(entry(&[&long]), 2);
        let first = &log.latest(1)[0];
        assert!(first.args[0].ends_with(b"x... (72 more bytes)"));
        log.push(entry(&many), 2);
        assert_eq!(log.latest(1)[0].args.len(), 32);
        assert_eq!(log.latest(1)[0].args[31], b"... (9 more arguments)");
        log.push(entry(&[b"x"]), 2);
        assert_eq!(log.latest(9).iter().map(|entry| entry.id).collect::<Vec<_>>(), [2, 1]);
    }
}
