// SPDX-License-Identifier: BSD-3-Clause
//! How long memory has been above `maxmemory`, and since when clients are told of what was evicted.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};

/// How long memory has been above its limit, as the commands that make room find it. Any thread may note it.
#[derive(Default)]
pub struct OverLimit {
    /// Unix time (ms) since when; 0 = below.
    since_ms: AtomicI64,
    /// Ms in all, the present time above not included.
    total_ms: AtomicU64,
    /// Unix time (ms) at which enough was evicted last while clients had to be told of it.
    pub(crate) told_ms: AtomicI64,
}

/// Time that is left to what clients are told of evicted keys to leave the server, before room is
/// made for it as well.
pub(crate) const TELLING_MS: i64 = 10;
/// The same if loops have not come to it yet, as on a machine with too much to do.
pub(crate) const TELLING_MAX_MS: i64 = 100;
/// Time after that in which threads keep little memory for later.
const SHORT_MS: i64 = 1000;

impl OverLimit {
    /// Memory is above the limit.
    pub(crate) fn begin(&self, now_ms: i64) {
        // The first to notice counts.
        let _ = self.since_ms.compare_exchange(0, now_ms, Relaxed, Relaxed);
    }

    /// Memory is below the limit.
    #[inline]
    pub(crate) fn end(&self, now_ms: i64) {
        if self.since_ms.load(Relaxed) != 0 {
            let since = self.since_ms.swap(0, Relaxed);
            if since != 0 {
                self.total_ms.fetch_add(u64::try_from(now_ms - since).unwrap_or(0), Relaxed);
            }
        }
    }

    /// Whether memory is above its limit, or was so short a time ago that what clients are told of
    /// evicted keys may be on its way.
    pub fn is_short(&self) -> bool {
        let told_ms = self.told_ms.load(Relaxed);
        self.since_ms.load(Relaxed) != 0
            || (told_ms != 0 && braid_base::clock::unix_ms() - told_ms < SHORT_MS)
    }

    /// Milliseconds above the limit in all, and of these without interruption until now.
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
