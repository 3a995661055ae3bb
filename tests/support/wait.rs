// SPDX-License-Identifier: BSD-3-Clause
//! Waiting for a condition, instead of sleeping for a time that is too short or too long.

use std::time::{Duration, Instant};

/// Time limit of [`wait_for`]. Generous: only a failing test reaches it.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until `condition` holds; panics with `what` if it does not within [`PATIENCE`].
#[track_caller]
pub fn wait_for(what: &str, condition: impl FnMut() -> bool) {
    assert!(wait_for_within(PATIENCE, condition), "gave up waiting for: {what}");
}

/// Waits until `condition` holds, at most `patience`; returns whether it did.
pub fn wait_for_within(patience: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    let mut pause = Duration::from_micros(100);
    loop {
        if condition() {
            return true;
        }
        if start.elapsed() > patience {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}
