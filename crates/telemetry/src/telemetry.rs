// SPDX-License-Identifier: BSD-3-Clause
//! All telemetry of the server: the counters and samples of the dispatcher, and the source of
//! reports.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use braid_base::Padded;
use braid_base::slots::Slots;
use braid_clients::THREADS_MAX;
use braid_config::Config;
use parking_lot::Mutex;

use crate::big_keys::BigKeys;
use crate::command_log::CommandLogs;
use crate::hot_keys::HotKeys;
use crate::latency::LatencyMonitor;
use crate::rates::{LinkBytes, Rates};
use crate::slot_stats::SlotStats;
use crate::stats::{CommandStats, ThreadStats, Threads, total};

/// Counters, logs and samples; shared by all threads.
pub struct Telemetry {
    /// Per-thread statistics. Those of stopped threads are kept.
    pub threads: Threads,
    pub logs: CommandLogs,
    pub latency: LatencyMonitor,
    /// Hot keys, while tracking is on.
    pub hot_keys: Arc<HotKeys>,
    /// Big keys, while the walk is on.
    pub big_keys: BigKeys,
    /// Cost of hash slots, while counted (`cluster-slot-stats-enabled`).
    pub slot_stats: SlotStats,
    /// Samples of instantaneous rates.
    pub rates: Mutex<Rates>,
    /// Threads beyond the first have work; false only in models that let them sleep.
    pub io_threads_active: AtomicBool,
}

impl Telemetry {
    /// Telemetry without threads: see [`Telemetry::make_room_for_threads`].
    pub fn new(config: &Config) -> Telemetry {
        Telemetry {
            threads: Slots::new(THREADS_MAX),
            logs: CommandLogs::new(config),
            latency: LatencyMonitor::default(),
            hot_keys: Arc::default(),
            big_keys: BigKeys::default(),
            slot_stats: SlotStats::default(),
            rates: Mutex::default(),
            io_threads_active: AtomicBool::new(true),
        }
    }

    /// Allocates the statistics of `threads` threads, for a table of `commands` commands.
    pub fn make_room_for_threads(&self, threads: usize, commands: usize) {
        self.threads.grow(threads, |_| Padded::new(ThreadStats::new(commands)));
    }

    /// A command's counters in slot `slot`.
    #[inline]
    pub fn command_stats(&self, slot: usize, command: u32) -> &CommandStats {
        &self.threads[slot].commands[command as usize]
    }

    /// Commands executed since start.
    pub fn total_commands(&self) -> u64 {
        total(&self.threads, |stats| stats.executed.get())
    }

    /// Samples instantaneous rates; called every 100 ms.
    pub fn sample_rates(&self, links: LinkBytes, now_us: i64) {
        self.rates.lock().sample(&self.threads, links, now_us);
    }
}
