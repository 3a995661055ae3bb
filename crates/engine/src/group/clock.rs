// SPDX-License-Identifier: BSD-3-Clause
//! Compares this machine's wall clock with those of etcd's machines. No role depends on it: it is
//! reported because keys expire by the primary's wall clock.

/// Seconds of difference from which it is reported. Dates of answers have whole seconds, and
/// answers take time.
const TOLD_FROM: u64 = 10;

/// What the log has reported of the clock.
#[derive(Default)]
pub(super) struct ClockWatch {
    is_told: bool,
}

impl ClockWatch {
    /// Notes by how many seconds this machine's clock is ahead of etcd's (negative: behind). One
    /// line in the log when that becomes much, and one when it is little again.
    pub fn note(&mut self, seconds_ahead: i64) {
        let difference = seconds_ahead.unsigned_abs();
        let is_wrong = difference >= TOLD_FROM;
        if std::mem::replace(&mut self.is_told, is_wrong) == is_wrong {
            return;
        }
        if is_wrong {
            let side = if seconds_ahead > 0 { "ahead of" } else { "behind" };
            log::warn!(
                "This machine's clock is {difference} s {side} etcd's: after a change of the primary keys expire that \
                 much early or late. Set one of them right; roles do not depend on it"
            );
        } else {
            log::info!("This machine's clock shows what etcd's shows again");
        }
    }
}
