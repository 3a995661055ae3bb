// SPDX-License-Identifier: BSD-3-Clause
//! Giving way: before a loop looks for more to do it lets others have its processor, where there are any that want it.
//!
//! Where more threads are busy than there are processors (the clients run on the same machine, say) a loop that goes on at once finds only the
//! few requests that have come during its last turn. If it lets those run first who make and take requests it finds more at once, which costs less
//! for each: one wait, and one look at the clock, for many. On a machine with processors to spare nobody takes the offer; that is noticed, and the
//! offer is made ever more seldom. So it is when somebody takes it who keeps the processor: that one has nothing to do with our clients, and must not make
//! them wait.

use braid_base::clock::{TickSpan, Ticks};

/// Whoever has been back sooner has found nobody.
const NOBODY_NANOS: u64 = 5_000;
/// Whoever was away for longer had to do with somebody who does not wait for us. Less than what the system lets a thread run for in one go.
const TOO_LONG_NANOS: u64 = 1_000_000;
/// Turns without an offer, at most.
const SKIPPED_MAX: u32 = 1023;

/// When a loop gives way.
pub struct GiveWay {
    nobody: TickSpan,
    too_long: TickSpan,
    /// Turns until the next offer.
    skip: u32,
    /// Turns that were skipped before the last one.
    skipped: u32,
}

impl Default for GiveWay {
    fn default() -> GiveWay {
        GiveWay {
            nobody: TickSpan::from_nanos(NOBODY_NANOS),
            too_long: TickSpan::from_nanos(TOO_LONG_NANOS),
            skip: 0,
            skipped: 0,
        }
    }
}

impl GiveWay {
    /// To be called between two turns, when the last one has executed anything.
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

    /// Learns what came of an offer.
    fn note(&mut self, was_taken: bool, was_abused: bool) {
        self.skipped = if was_taken && !was_abused { 0 } else { (2 * self.skipped + 1).min(SKIPPED_MAX) };
        self.skip = self.skipped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_finds_nobody_asks_less_and_less() {
        let mut way = GiveWay::default();
        let mut skipped = Vec::new();
        for _ in 0..12 {
            way.note(false, false);
            skipped.push(way.skip);
        }
        assert_eq!(skipped, [1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 1023, 1023]);
        way.note(true, true);
        assert_eq!(way.skip, SKIPPED_MAX, "nor who finds somebody who does not come to an end");
        way.note(true, false);
        assert_eq!(way.skip, 0, "until somebody else wants to run");
    }

    #[test]
    fn turns_are_skipped() {
        let mut way = GiveWay { skip: 3, ..GiveWay::default() };
        for left in [2, 1, 0] {
            way.offer();
            assert_eq!(way.skip, left);
        }
    }
}
