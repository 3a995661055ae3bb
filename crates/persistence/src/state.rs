// SPDX-License-Identifier: BSD-3-Clause
//! State of saving and loading, for INFO and LASTSAVE.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};

use crate::aof::backup::Backup;

/// Counters and times. Any thread may read them.
#[derive(Default)]
pub struct State {
    /// Unix time of the last successful save, in seconds; the start time before the first save.
    pub last_save_s: AtomicI64,
    /// Successful saves.
    pub saves: AtomicU64,
    /// Keys that the last load added.
    pub keys_loaded: AtomicU64,
    /// Keys that the last load left out as expired.
    pub keys_expired: AtomicU64,
    /// Keys that the last load left out because of their types (`rdb-skip-unsupported`).
    pub keys_unsupported: AtomicU64,
    /// Progress of the current load.
    pub progress: Progress,
    /// State of BACKUP.
    pub backup: Backup,
}

/// Progress of a load.
#[derive(Default)]
pub struct Progress {
    /// A load is in progress.
    pub active: AtomicBool,
    /// Unix time of its start, in seconds.
    pub started_s: AtomicI64,
    /// Size of the input in bytes; 0 if unknown.
    pub total_bytes: AtomicU64,
    /// Bytes read.
    pub loaded_bytes: AtomicU64,
    /// Memory in use when the file was written, in bytes, as recorded in the file.
    pub used_memory: AtomicU64,
    /// Set to cancel the load.
    pub stop: AtomicBool,
}

impl Progress {
    /// Records the start of a load.
    pub fn begin(&self, total_bytes: u64, now_s: i64) {
        self.started_s.store(now_s, Relaxed);
        self.total_bytes.store(total_bytes, Relaxed);
        self.loaded_bytes.store(0, Relaxed);
        self.used_memory.store(0, Relaxed);
        self.active.store(true, Relaxed);
    }

    /// Records the end of a load.
    pub fn end(&self) {
        self.active.store(false, Relaxed);
    }

    /// Percentage loaded, 0 to 100.
    pub fn percent(&self) -> f64 {
        let (loaded, total) = (self.loaded_bytes.load(Relaxed), self.total_bytes.load(Relaxed));
        if total == 0 { 0.0 } else { loaded as f64 * 100.0 / total as f64 }
    }
}
