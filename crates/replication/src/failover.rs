// SPDX-License-Identifier: BSD-3-Clause
//! Planned failover (FAILOVER): this primary waits until a replica has caught up, becomes its
//! replica, and asks it to take over.

use parking_lot::{Condvar, Mutex};
use std::time::Duration;

use crate::link::Primary;

/// The phase of a failover.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FailoverPhase {
    #[default]
    None,
    /// Writes are held back while a replica catches up.
    WaitingForSync,
    /// The replica has been asked to take over.
    InProgress,
}

impl FailoverPhase {
    /// The name that INFO shows.
    pub fn name(self) -> &'static str {
        match self {
            FailoverPhase::None => "no-failover",
            FailoverPhase::WaitingForSync => "waiting-for-sync",
            FailoverPhase::InProgress => "failover-in-progress",
        }
    }
}

/// The arguments of FAILOVER.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailoverRequest {
    /// The replica to promote; `None` for any.
    pub target: Option<Primary>,
    /// How long the replica may take to catch up; 0 for no limit.
    pub timeout_ms: i64,
    /// Whether the replica takes over anyway once the time is up.
    pub force: bool,
}

#[derive(Default)]
struct State {
    phase: FailoverPhase,
    /// Counts failovers, so that a thread can tell whether its own is still the current one.
    number: u64,
}

/// The failover in progress, if any. One per server.
#[derive(Default)]
pub struct Failover {
    state: Mutex<State>,
    changed: Condvar,
}

impl Failover {
    /// The current phase.
    pub fn phase(&self) -> FailoverPhase {
        self.state.lock().phase
    }

    /// Begins a failover and returns its number; `None` if one is already in progress.
    pub fn begin(&self) -> Option<u64> {
        let mut state = self.state.lock();
        if state.phase != FailoverPhase::None {
            return None;
        }
        state.phase = FailoverPhase::WaitingForSync;
        state.number += 1;
        Some(state.number)
    }

    /// Continues a failover that was waiting for its replica; false if it was cancelled.
    pub fn proceed(&self, number: u64) -> bool {
        let mut state = self.state.lock();
        let is_wanted = state.number == number && state.phase == FailoverPhase::WaitingForSync;
        if is_wanted {
            state.phase = FailoverPhase::InProgress;
        }
        is_wanted
    }

    /// Whether failover `number` still waits for its replica.
    pub fn waits(&self, number: u64) -> bool {
        let state = self.state.lock();
        state.number == number && state.phase == FailoverPhase::WaitingForSync
    }

    /// Ends the failover, if any; returns the phase it was in.
    pub fn end(&self) -> FailoverPhase {
        let mut state = self.state.lock();
        self.changed.notify_all();
        std::mem::take(&mut state.phase)
    }

    /// Waits for `duration`, or until the failover ends.
    pub fn rest(&self, number: u64, duration: Duration) {
        let mut state = self.state.lock();
        if state.number == number && state.phase == FailoverPhase::WaitingForSync {
            self.changed.wait_for(&mut state, duration);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aborted_failover_does_not_continue() {
        let failover = Failover::default();
        let first = failover.begin().expect("no failover is under way");
        assert!(failover.begin().is_none() && failover.waits(first));
        assert_eq!(failover.end(), FailoverPhase::WaitingForSync);
        let second = failover.begin().expect("the first failover has ended");
        assert!(!failover.proceed(first) && !failover.waits(first) && failover.proceed(second));
        assert!(!failover.waits(second) && failover.phase().name() == "failover-in-progress");
        assert_eq!(failover.end(), FailoverPhase::InProgress);
        assert_eq!(failover.end(), FailoverPhase::None);
    }
}
