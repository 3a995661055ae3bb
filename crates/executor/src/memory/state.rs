// SPDX-License-Identifier: BSD-3-Clause
//! Memory accounting: what counts towards `maxmemory`, the peak, and the time above the limit.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicUsize};

use braid_base::alloc::used_bytes;
use braid_base::clock::unix_ms;

use crate::over_limit::OverLimit;

/// Memory usage of the process; shared by all threads.
pub struct Memory {
    /// Bytes excluded from `maxmemory`.
    pub uncounted_bytes: AtomicUsize,
    /// Resident memory that no value uses, for which keys have to make room, in bytes.
    pub excess_bytes: AtomicUsize,
    /// Bytes of evicted keys whose second copies the active-active thread has yet to drop.
    pub evicting_bytes: AtomicUsize,
    /// Highest memory usage seen, in bytes.
    peak_bytes: AtomicUsize,
    /// When that was: Unix time in seconds.
    peak_at: AtomicI64,
    /// Bytes in use at start.
    pub initial_bytes: usize,
    /// How long the memory limit has been exceeded.
    pub over_limit: OverLimit,
}

impl Memory {
    /// The accounting of a process that starts now.
    pub(crate) fn new() -> Memory {
        Memory {
            uncounted_bytes: AtomicUsize::new(0),
            excess_bytes: AtomicUsize::new(0),
            evicting_bytes: AtomicUsize::new(0),
            peak_bytes: AtomicUsize::new(0),
            peak_at: AtomicI64::new(unix_ms() / 1000),
            initial_bytes: used_bytes(),
            over_limit: OverLimit::default(),
        }
    }

    /// Memory in use that counts towards `maxmemory`, in bytes.
    pub fn counted_bytes(&self) -> usize {
        self.counted(used_bytes(), self.uncounted_bytes.load(Relaxed))
    }

    pub(super) fn counted(&self, used: usize, uncounted: usize) -> usize {
        used.saturating_sub(uncounted) + self.excess_bytes.load(Relaxed)
    }

    /// The highest memory usage seen, at least `used`.
    pub fn peak_with(&self, used: usize) -> usize {
        let before = self.peak_bytes.fetch_max(used, Relaxed);
        if used > before {
            self.peak_at.store(unix_ms() / 1000, Relaxed);
        }
        before.max(used)
    }

    /// When the peak was reached: Unix time in seconds.
    pub fn peak_at(&self) -> i64 {
        self.peak_at.load(Relaxed)
    }

    /// Updates the peak; called every 100 ms.
    pub fn note_peak(&self) {
        self.peak_with(used_bytes());
    }
}
