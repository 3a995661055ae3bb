// SPDX-License-Identifier: BSD-3-Clause
//! What a client knows of its own numbered changes.

use std::time::Instant;

/// A client's record of its own work.
#[derive(Default)]
pub struct Known {
    /// Number of changes sent.
    pub sent: u64,
    /// Times of acknowledgements, and the number of changes acknowledged by then.
    pub acknowledged: Vec<(Instant, u64)>,
}

impl Known {
    /// Number of changes acknowledged by a time.
    pub fn acknowledged_by(&self, time: Instant) -> u64 {
        self.acknowledged.iter().rev().find(|(at, _)| *at <= time).map_or(0, |(_, number)| *number)
    }
}
