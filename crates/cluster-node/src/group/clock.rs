// SPDX-License-Identifier: BSD-3-Clause
//! Compares this machine's wall clock with those of etcd's machines. No role depends on it: it is
//! reported because keys expire by the primary's wall clock.

/// Difference, in seconds, from which it is reported. Dates of answers have whole seconds, and
/// answers take time.
const TOLD_FROM: u64 = 10;

/// What has been logged about the clock.
#[derive(Default)]
pub(super) struct ClockWatch {
    is_told: bool,
}

impl ClockWatch {
    /// Records by how many seconds this machine's clock is ahead of etcd's (negative: behind).
    /// Logs one line when the difference becomes large, and one when it is small again.
    pub fn note(&mut self, seconds_ahead: i64) {
        let difference = seconds_ahead.unsigned_abs();
        let is_wrong = difference >= TOLD_FROM;
        if std::mem::replace(&mut self.is_told, is_wrong) == is_wrong {
            return;
        }
        if is_wrong {
            let side = if seconds_ahead > 0 { "ahead of" } else { "behind" };
            log::warn!(
                "This server's clock is {difference} s {side} etcd's: after a failover, keys expire that \
                 much early or late. Correct one of the clocks; roles do not depend on them"
            );
        } else {
            log::info!("This server's clock agrees with etcd's again");
        }
    }
}
