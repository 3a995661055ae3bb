// SPDX-License-Identifier: BSD-3-Clause
//! A planned failover (FAILOVER): this primary waits until a replica has caught up, becomes its
//! replica, and has it take over.

use parking_lot::{Condvar, Mutex};
use std::time::Duration;

use crate::link::Primary;

/// How far a failover is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FailoverPhase {
    #[default]
    None,
    /// Writes are held back, and a replica catches up.
    WaitingForSync,
    /// The replica is asked to take over.
    InProgress,
}

impl FailoverPhase {
    /// As INFO names it.
    pub fn name(self) -> &'static str {
        match self {
            FailoverPhase::None => "no-failover",
            FailoverPhase::WaitingForSync => "waiting-for-sync",
            FailoverPhase::InProgress => "failover-in-progress",
        }
    }
}

/// What FAILOVER asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailoverRequest {
    /// The replica that is to take over; any if there is none.
    pub target: Option<Primary>,
    /// How long it may take to catch up; 0: for as long as it takes.
    pub timeout_ms: i64,
    /// After that time it takes over nevertheless.
    pub force: bool,
}

#[derive(Default)]
struct State {
    phase: FailoverPhase,
    /// Counts failovers, so that a thread knows whether its own is still wanted.
    number: u64,
}

/// The failover under way, if there is one. One per server.
#[derive(Default)]
pub struct Failover {
    state: Mutex<State>,
    changed: Condvar,
}

impl Failover {
    /// How far it is.
    pub fn phase(&self) -> FailoverPhase {
        self.state.lock().phase
    }

    /// Begins one; its number. Nothing if one is under way.
    pub fn begin(&self) -> Option<u64> {
        let mut state = self.state.lock();
        if state.phase != FailoverPhase::None {
            return None;
        }
        state.phase = FailoverPhase::WaitingForSync;
        state.number += 1;
        Some(state.number)
    }

    /// Goes on with a failover that has waited; false if it was given up.
    pub fn proceed(&self, number: u64) -> bool {
        let mut state = self.state.lock();
        let is_wanted = state.number == number && state.phase == FailoverPhase::WaitingForSync;
        if is_wanted {
            state.phase = FailoverPhase::InProgress;
        }
        is_wanted
    }

    /// Whether a failover still waits.
    pub fn waits(&self, number: u64) -> bool {
        let state = self.state.lock();
        state.number == number && state.phase == FailoverPhase::WaitingForSync
    }

    /// Ends the failover, if there is one: how far it was.
    pub fn end(&self) -> FailoverPhase {
        let mut state = self.state.lock();
        self.changed.notify_all();
        std::mem::take(&mut state.phase)
    }

    /// Waits for so long, or until it is ended.
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
    fn a_failover_that_was_given_up_does_not_go_on() {
        let failover = Failover::default();
        let first = failover.begin().expect("none is under way");
        assert!(failover.begin().is_none() && failover.waits(first));
        assert_eq!(failover.end(), FailoverPhase::WaitingForSync);
        let second = failover.begin().expect("the first is over");
        assert!(!failover.proceed(first) && !failover.waits(first) && failover.proceed(second));
        assert!(!failover.waits(second) && failover.phase().name() == "failover-in-progress");
        assert_eq!(failover.end(), FailoverPhase::InProgress);
        assert_eq!(failover.end(), FailoverPhase::None);
    }
}
