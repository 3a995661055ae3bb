// SPDX-License-Identifier: BSD-3-Clause
//! Waiting for something to become true, instead of sleeping for a time that is too short or too
//! long.

use std::time::{Duration, Instant};

/// How long [`wait_for`] waits before it gives the test up. Generous: it is only ever reached by a
/// failing test.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until `condition` holds; panics with `what` when it does not within [`PATIENCE`].
#[track_caller]
pub fn wait_for(what: &str, condition: impl FnMut() -> bool) {
    assert!(wait_for_within(PATIENCE, condition), "gave up waiting for: {what}");
}

/// Waits until `condition` holds, at most `patience`; answers whether it came true.
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
