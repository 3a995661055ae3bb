// SPDX-License-Identifier: BSD-3-Clause
//! Counts of the queries that have ended.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Queries of all indexes since the start.
#[derive(Debug, Default)]
pub struct QueryTotals {
    pub count: AtomicU64,
    pub nanos: AtomicU64,
    pub late: AtomicU64,
}

impl QueryTotals {
    /// Counts a query that has ended; `is_late`: because its time was over.
    pub fn note(&self, nanos: u64, is_late: bool) {
        self.count.fetch_add(1, Relaxed);
        self.nanos.fetch_add(nanos, Relaxed);
        self.late.fetch_add(u64::from(is_late), Relaxed);
    }
}
