// SPDX-License-Identifier: BSD-3-Clause
//! Statistics: padded per-thread counters, summed on demand.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32};

use braid_base::Padded;
use braid_base::slots::Slots;
use braid_keyspace::counters::Counter;
use parking_lot::Mutex;

use crate::histogram::{Histogram, HistogramSum};

/// Counters of all executing threads, by slot.
pub type Threads = Slots<Padded<ThreadStats>>;

/// Counters of one command on one thread.
#[derive(Default)]
pub struct CommandStats {
    pub calls: Counter,
    /// Nanoseconds of execution.
    pub nanos: Counter,
    /// Commands refused before execution.
    pub rejected: Counter,
    /// Commands that ended with an error.
    pub failed: Counter,
    pub latency: OnceLock<Box<Histogram>>,
}

macro_rules! thread_counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of one executing thread.
        pub struct ThreadStats {
            /// By command ID.
            pub commands: Box<[CommandStats]>,
            /// Error replies by their first word.
            pub errors: Mutex<BTreeMap<String, u64>>,
            /// Clients owned by the loop; updated by the loop and never reset.
            pub clients: Counter,
            /// The loop has postponed its next cron; updated by the loop.
            pub resting: AtomicBool,
            /// The thread's ID in the operating system, for reading its processor time; 0 until
            /// the thread runs.
            pub task: AtomicU32,
            $($(#[$doc])* pub $name: Counter),*
        }

        impl ThreadStats {
            /// Counters for `commands` commands.
            pub fn new(commands: usize) -> ThreadStats {
                ThreadStats {
                    commands: (0..commands).map(|_| CommandStats::default()).collect(),
                    errors: Mutex::default(),
                    clients: Counter::default(),

                    resting: AtomicBool::new(false),
                    task: AtomicU32::new(0),
                    $($name: Counter::default()),*
                }
            }

            /// Resets the counters (CONFIG RESETSTAT).
            pub fn reset(&self) {
                for command in &self.commands {
                    command.calls.reset();
                    command.nanos.reset();
                    command.rejected.reset();
                    command.failed.reset();
                    if let Some(latency) = command.latency.get() { latency.reset(); }
                }
                self.errors.lock().clear();
                $(self.$name.reset();)*
            }
        }
    };
}

thread_counters! {
    /// Commands executed.
    executed,
    /// Reads from sockets.
    reads,
    /// Writes to sockets.
    writes,
    /// Bytes received.
    net_in,
    /// Bytes sent.
    net_out,
    /// Error replies sent.
    error_replies,
    /// Commands of a primary or an append-only file that failed, although they had succeeded
    /// originally.
    unexpected_errors,
    /// Turns of the event loop.
    cycles,
    /// Nanoseconds in turns of the event loop, excluding waits.
    cycle_nanos,
    /// Waits for other threads during a turn (for the lock of `global-lock`, for the helpers of
    /// `fanout`).
    waits,
    /// Nanoseconds of those waits.
    wait_nanos,
    /// Clients handed over to less loaded loops.
    handed_over,
    /// Clients migrated to the main thread for execution.
    sent_away,
    /// Requests migrated with them.
    requests_sent_away,
    /// Migrations delayed because the ring to the main thread was full.
    ring_full,
    /// Nanoseconds in the cron of the event loop.
    cron_nanos,
    /// The longest turn of the event loop, in nanoseconds.
    cycle_nanos_max,
    /// Maximum number of commands executed in one turn of the event loop.
    cycle_commands_max,
    /// Clients closed for exceeding the output buffer limit.
    output_limit_disconnections,
    /// Packed encodings in RESTORE payloads that were checked entry by entry.
    payload_checks,
    /// Commands denied for lack of permission on the command, a key or a channel.
    denied_commands,
    denied_keys,
    denied_channels,
    denied_databases,
    /// Failed log-ins.
    denied_logins,
    /// TLS clients whose certificate named no enabled user.
    denied_certificates,
    /// Clients closed by `maxmemory-clients`.
    evicted_clients,
    /// Clients closed for exceeding the query buffer limit.
    query_limit_disconnections,
    /// Turns of clients cut short because others were waiting.
    turns_cut_short,
    /// Script and function runs under the locks of their declared keys.
    scripts_beside,
    /// Script and function runs with the world stopped.
    scripts_alone,
    /// Script and function runs restarted with the world stopped after a speculative run.
    scripts_again,
}

impl ThreadStats {
    /// Counts a read of `bytes` bytes.
    #[inline]
    pub fn count_received(&self, bytes: usize) {
        if bytes > 0 {
            self.reads.add(1);
            self.net_in.add(bytes as u64);
        }
    }

    /// Counts an error reply by its first word.
    #[cold]
    pub fn count_error(&self, line: &[u8]) {
        const KINDS_MAX: usize = 128;
        self.error_replies.add(1);
        let code = String::from_utf8_lossy(line.split(|&byte| byte == b' ').next().unwrap_or_default());
        let mut errors = self.errors.lock();
        if errors.len() < KINDS_MAX || errors.contains_key(&*code) {
            *errors.entry(code.into_owned()).or_default() += 1;
        }
    }

    /// Subtracts errors with this first word.
    #[cold]
    pub fn take_back_errors(&self, code: &[u8], count: u64) {
        self.error_replies.take_back(count);
        let mut errors = self.errors.lock();
        let code = String::from_utf8_lossy(code);
        if let Some(counted) = errors.get_mut(&*code) {
            *counted = counted.saturating_sub(count);
            if *counted == 0 {
                errors.remove(&*code);
            }
        }
    }
}

/// One command's counters, summed over all threads.
#[derive(Default)]
pub struct CommandTotals {
    pub calls: u64,
    pub nanos: u64,
    pub rejected: u64,
    pub failed: u64,
}

/// Sums a command's counters.
pub fn command_totals(threads: &Threads, id: u32) -> CommandTotals {
    let mut totals = CommandTotals::default();
    for stats in threads.iter().map(|thread| &thread.commands[id as usize]) {
        totals.calls += stats.calls.get();
        totals.nanos += stats.nanos.get();
        totals.rejected += stats.rejected.get();
        totals.failed += stats.failed.get();
    }
    totals
}

/// Sums a command's latencies.
pub fn command_latency(threads: &Threads, id: u32) -> HistogramSum {
    let mut sum = HistogramSum::default();
    for histogram in threads.iter().filter_map(|thread| thread.commands[id as usize].latency.get()) {
        histogram.add_to(&mut sum);
    }
    sum
}

/// Sums one thread counter.
pub fn total(threads: &Threads, counter: impl Fn(&ThreadStats) -> u64) -> u64 {
    threads.iter().map(|thread| counter(thread)).sum()
}
