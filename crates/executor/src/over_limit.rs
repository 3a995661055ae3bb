// SPDX-License-Identifier: BSD-3-Clause
//! Time above `maxmemory`, and the grace period for messages about evicted keys.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};

/// Time above the memory limit, as seen by commands that make room. Shared by all threads.
#[derive(Default)]
pub struct OverLimit {
    /// Start of the current period above the limit, Unix time in ms; 0 = below.
    since_ms: AtomicI64,
    /// Total ms above the limit, without the current period.
    total_ms: AtomicU64,
    /// Unix time (ms) of the last sufficient eviction that had to be announced to clients.
    pub(crate) told_ms: AtomicI64,
}

/// Time for messages about evicted keys to leave the server before room is made for them, too.
pub(crate) const TELLING_MS: i64 = 10;
/// [`TELLING_MS`] when loops are late, on a busy machine.
pub(crate) const TELLING_MAX_MS: i64 = 100;
/// How long after such an eviction threads cache little memory.
const SHORT_MS: i64 = 1000;

impl OverLimit {
    /// Records that memory is above the limit.
    pub(crate) fn begin(&self, now_ms: i64) {
        // The first thread to notice wins.
        let _ = self.since_ms.compare_exchange(0, now_ms, Relaxed, Relaxed);
    }

    /// Records that memory is below the limit.
    #[inline]
    pub(crate) fn end(&self, now_ms: i64) {
        if self.since_ms.load(Relaxed) != 0 {
            let since = self.since_ms.swap(0, Relaxed);
            if since != 0 {
                self.total_ms.fetch_add(u64::try_from(now_ms - since).unwrap_or(0), Relaxed);
            }
        }
    }

    /// True if memory is above its limit, or was so recently that messages about evicted keys may
    /// be in transit.
    pub fn is_short(&self) -> bool {
        let told_ms = self.told_ms.load(Relaxed);
        self.since_ms.load(Relaxed) != 0
            || (told_ms != 0 && braid_base::clock::unix_ms() - told_ms < SHORT_MS)
    }

    /// Milliseconds above the limit: in total, and of the current period.
    pub fn times(&self, now_ms: i64) -> (u64, u64) {
        let since = self.since_ms.load(Relaxed);
        let now = if since == 0 { 0 } else { u64::try_from(now_ms - since).unwrap_or(0) };
        (self.total_ms.load(Relaxed) + now, now)
    }

    /// Counts from zero again (CONFIG RESETSTAT).
    pub fn reset(&self, now_ms: i64) {
        self.total_ms.store(0, Relaxed);
        let _ = self.since_ms.fetch_update(Relaxed, Relaxed, |since| (since != 0).then_some(now_ms));
    }
}
