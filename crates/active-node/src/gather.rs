// SPDX-License-Identifier: BSD-3-Clause
//! How long units are gathered before they are passed on: from the journal to the log and to
//! peers, and from a peer to this server.
//!
//! Each turn wakes threads, writes a file and stops the world, however little it carries. So
//! turns become rarer as the write rate rises, up to the point where each turn has enough to do.
//! Gathering adds the same amount of latency.

use std::time::{Duration, Instant};

/// Minimum and maximum time between the starts of two turns.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(4);
/// Units per [`SHORTEST`] below which a turn for them costs the server next to nothing.
const FEW: f64 = 8.0;
/// Units per turn above which the fixed cost of the turn hardly matters.
const ENOUGH: f64 = 256.0;
/// The fraction of `active-lag-max` that gathering may use.
const PART_OF_LAG: u32 = 5;

/// A turn of a thread.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    began: Instant,
    /// Time since the previous turn began.
    after: Duration,
}

impl Turn {
    pub fn first() -> Turn {
        Turn { began: Instant::now(), after: Duration::ZERO }
    }

    /// The next turn, starting now.
    pub fn next(self) -> Turn {
        let began = Instant::now();
        Turn { began, after: began.saturating_duration_since(self.began) }
    }

    /// How long the thread rests after this turn, which handled `units` units. `lag_max_ms`: the
    /// value of `active-lag-max`; 0 means no limit.
    pub fn rest(self, units: usize, lag_max_ms: u64) -> Duration {
        gather_time(units, self.after, lag_max_ms).saturating_sub(self.began.elapsed())
    }
}

/// The time from the start of a turn to the start of the next, if `units` arrived in `time`.
fn gather_time(units: usize, time: Duration, lag_max_ms: u64) -> Duration {
    let in_shortest = units as f64 * SHORTEST.as_secs_f64() / time.max(SHORTEST).as_secs_f64();
    if in_shortest < FEW {
        return SHORTEST;
    }
    let longest = match lag_max_ms {
        0 => LONGEST,
        lag_max_ms => (Duration::from_millis(lag_max_ms) / PART_OF_LAG).clamp(SHORTEST, LONGEST),
    };
    SHORTEST.mul_f64(ENOUGH / in_shortest).clamp(SHORTEST, longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_rarer_while_much_is_written_but_not_while_very_much_is() {
        let ms = |units, lag_max_ms| gather_time(units, Duration::from_millis(10), lag_max_ms).as_millis();
        assert_eq!([0, 1, 79].map(|units| ms(units, 20)), [1, 1, 1]);
        assert_eq!([80, 500, 850].map(|units| ms(units, 20)), [4, 4, 3]);
        assert_eq!([1280, 2560, 10_000].map(|units| ms(units, 20)), [2, 1, 1]);
        assert_eq!([0, 5, 10, 1000].map(|lag_max_ms| ms(500, lag_max_ms)), [4, 1, 2, 4]);
        // All of them arrived at the same moment.
        assert_eq!(gather_time(1, Duration::ZERO, 20), SHORTEST);
        assert_eq!(gather_time(1000, Duration::ZERO, 20), SHORTEST);
    }
}
