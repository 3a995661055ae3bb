// SPDX-License-Identifier: BSD-3-Clause
//! Memory accounting: what counts towards `maxmemory`, the peak, and the time above the limit.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::alloc::used_bytes;

use crate::over_limit::OverLimit;

/// Memory usage of the process; shared by all threads.
pub struct Memory {
    /// Bytes excluded from `maxmemory`.
    pub uncounted_bytes: AtomicUsize,
    /// Bytes of evicted keys whose second copies the active-active thread has yet to drop.
    pub evicting_bytes: AtomicUsize,
    /// Highest memory usage seen, in bytes.
    pub peak_bytes: AtomicUsize,
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
            evicting_bytes: AtomicUsize::new(0),
            peak_bytes: AtomicUsize::new(0),
            initial_bytes: used_bytes(),
            over_limit: OverLimit::default(),
        }
    }

    /// Memory in use that counts towards `maxmemory`, in bytes.
    pub fn counted_bytes(&self) -> usize {
        used_bytes().saturating_sub(self.uncounted_bytes.load(Relaxed))
    }

    /// Updates the peak; called every 100 ms.
    pub fn note_peak(&self) {
        self.peak_bytes.fetch_max(used_bytes(), Relaxed);
    }
}
