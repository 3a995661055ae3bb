// SPDX-License-Identifier: BSD-3-Clause
//! How near the end of the server is, and which clients wait for it.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::blocking::state::Waiter;

/// What SHUTDOWN answers if the server goes on.
pub const CANNOT_END: &str = "ERR Errors trying to SHUTDOWN. Check logs.";

/// How near the end of the server is.
#[derive(Default)]
pub struct Ending(pub(super) Mutex<State>);

#[derive(Default)]
pub(super) struct State {
    pub(super) stage: Stage,
    /// Counts requests: one that was taken back is not the next one.
    pub(super) request: u64,
    /// When replicas are not waited for any longer, ms since the Unix epoch.
    pub(super) until_ms: i64,
    /// Clients that have asked for it and wait.
    pub(super) waiters: Vec<Arc<Waiter>>,
}

impl State {
    /// Replicas catch up for this request.
    pub(super) fn waits(&self, request: u64) -> bool {
        self.stage == Stage::Waits && self.request == request
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) enum Stage {
    #[default]
    Far,
    /// A signal has asked for it.
    Scheduled,
    /// Replicas catch up.
    Waits,
    Begun,
}

/// How to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Manner {
    /// Save before, or do not; without a wish only if save points are configured.
    pub save: Option<bool>,
    /// Wait for no replica.
    pub now: bool,
    /// End even if saving fails.
    pub force: bool,
}

impl Ending {
    /// Asks for the end; false if that has been done before.
    pub fn schedule(&self) -> bool {
        let mut state = self.0.lock();
        let is_first = state.stage == Stage::Far;
        if is_first {
            state.stage = Stage::Scheduled;
        }
        is_first
    }

    /// True if it has been asked for and has not begun.
    pub fn is_scheduled(&self) -> bool {
        self.0.lock().stage == Stage::Scheduled
    }

    /// Replicas catch up now, for the request whose number is returned; nothing if things are not
    /// at stage `from`.
    pub(super) fn wait(&self, from: Stage) -> Option<u64> {
        let mut state = self.0.lock();
        if state.stage != from {
            return None;
        }
        state.stage = Stage::Waits;
        state.request += 1;
        state.until_ms = i64::MAX;
        Some(state.request)
    }

    /// Whether replicas catch up for this request.
    pub(super) fn waits(&self, request: u64) -> bool {
        self.0.lock().waits(request)
    }

    /// The end begins, unless the request has been taken back.
    pub(super) fn begin(&self, request: u64) -> bool {
        let mut state = self.0.lock();
        let may = state.waits(request);
        if may {
            state.stage = Stage::Begun;
        }
        may
    }

    /// Milliseconds for which replicas will be waited for at most, while they are.
    pub fn left_ms(&self, now_ms: i64) -> Option<i64> {
        let state = self.0.lock();
        (state.stage == Stage::Waits && state.until_ms < i64::MAX).then(|| (state.until_ms - now_ms).max(0))
    }
}
