// SPDX-License-Identifier: BSD-3-Clause
//! Adaptive yield: before a loop polls again, it offers its processor to other threads, if such
//! offers have paid off.
//!
//! If more threads are busy than there are processors (say, because the clients run on the same
//! machine), a loop that continues immediately finds only the few requests that arrived during
//! its last turn. If it first lets the threads run that send requests and read replies, it finds
//! more requests per turn, and each costs less: one wait and one clock reading for many. On a
//! machine with idle processors no thread takes the offer; the loop notices and offers less and
//! less often. The same applies if a thread takes the offer and keeps the processor: such a
//! thread is unrelated to our clients and must not delay them.

use braid_base::clock::{TickSpan, Ticks};

/// A yield that returns sooner was not taken by any thread.
const NOBODY_NANOS: u64 = 5_000;
/// A yield that takes longer went to a thread that does not wait for us. Shorter than the time
/// slice of the system's scheduler.
const TOO_LONG_NANOS: u64 = 1_000_000;
/// Maximum number of turns without an offer.
const SKIPPED_MAX: u32 = 1023;

/// Decides when a loop yields.
pub struct AdaptiveYield {
    nobody: TickSpan,
    too_long: TickSpan,
    /// Turns left until the next offer.
    skip: u32,
    /// Turns skipped before the last offer.
    skipped: u32,
}

impl Default for AdaptiveYield {
    fn default() -> AdaptiveYield {
        AdaptiveYield {
            nobody: TickSpan::from_nanos(NOBODY_NANOS),
            too_long: TickSpan::from_nanos(TOO_LONG_NANOS),
            skip: 0,
            skipped: 0,
        }
    }
}

impl AdaptiveYield {
    /// Yields if an offer is due. Called between two turns if the last turn executed anything.
    #[inline]
    pub fn offer(&mut self) {
        if self.skip > 0 {
            self.skip -= 1;
            return;
        }
        let start = Ticks::now();
        rustix::thread::sched_yield();
        let end = Ticks::now();
        self.note(end.exceeds(start, self.nobody), end.exceeds(start, self.too_long));
    }

    /// Adapts to the outcome of an offer.
    fn note(&mut self, was_taken: bool, was_abused: bool) {
        self.skipped = if was_taken && !was_abused { 0 } else { (2 * self.skipped + 1).min(SKIPPED_MAX) };
        self.skip = self.skipped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fruitless_yields_become_rarer() {
        let mut way = AdaptiveYield::default();
        let mut skipped = Vec::new();
        for _ in 0..12 {
            way.note(false, false);
            skipped.push(way.skip);
        }
        assert_eq!(skipped, [1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 1023, 1023]);
        way.note(true, true);
        assert_eq!(way.skip, SKIPPED_MAX, "offers stay rare if a thread keeps the processor");
        way.note(true, false);
        assert_eq!(way.skip, 0, "a successful offer is repeated immediately");
    }

    #[test]
    fn turns_are_skipped() {
        let mut way = AdaptiveYield { skip: 3, ..AdaptiveYield::default() };
        for left in [2, 1, 0] {
            way.offer();
            assert_eq!(way.skip, left);
        }
    }
}
