// SPDX-License-Identifier: BSD-3-Clause
//! The hybrid logical clock of a region: wall-clock milliseconds, but always later than every
//! stamp that the region has given or seen.
//!
//! So a wall clock that steps back, or lags behind another region's, cannot give a later write an
//! earlier stamp. A wall clock that runs ahead would drag all regions with it, so a stamp too far
//! ahead of the local wall clock is refused. The clock never reads the time; callers pass it.

use crate::rules::Rules;
use crate::stamp::{Region, Stamp};

/// The error for a stamp that is further ahead of the local clock than allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "a stamp of region {} is {ahead_ms} ms ahead of this server's clock, {allowed_ms} ms are allowed \
     (active-clock-ahead-max)", .region.number()
)]
pub struct TooFarAhead {
    pub region: Region,
    pub ahead_ms: u64,
    pub allowed_ms: u64,
}

#[derive(Clone, Debug)]
pub struct Clock {
    region: Region,
    latest: Stamp,
    ahead_ms_max: u64,
}

impl Clock {
    /// A clock that continues after a stamp.
    pub fn new(region: Region, after: Stamp, ahead_ms_max: u64) -> Clock {
        Clock { region, latest: after, ahead_ms_max }
    }

    /// The latest stamp given or seen.
    pub fn latest(&self) -> Stamp {
        self.latest
    }

    /// Returns the first of `count` consecutive stamps, all later than any stamp given or seen.
    pub fn tick(&mut self, now_ms: u64, count: u64, rules: &Rules) -> Stamp {
        let wall = Stamp::at(now_ms, self.region);
        let next = self.latest.next_of(self.region);
        let first = if rules.clock_never_goes_back { wall.max(next) } else { wall };
        self.latest = first.plus(count.saturating_sub(1));
        first
    }

    /// Checks another region's stamp.
    ///
    /// # Errors
    /// If another region's stamp is too far ahead to be observed.
    pub fn check(&self, now_ms: u64, stamp: Stamp) -> Result<(), TooFarAhead> {
        let ahead_ms = stamp.unix_ms().saturating_sub(now_ms);
        if ahead_ms > self.ahead_ms_max {
            return Err(TooFarAhead { region: stamp.region(), ahead_ms, allowed_ms: self.ahead_ms_max });
        }
        Ok(())
    }

    /// Sets how far another region's stamps may be ahead.
    pub fn allow_ahead(&mut self, ahead_ms_max: u64) {
        self.ahead_ms_max = ahead_ms_max;
    }

    /// How far the latest stamp is ahead of the wall clock, in ms.
    pub fn ahead_ms(&self, now_ms: u64) -> u64 {
        match self.latest == Stamp::ZERO {
            true => 0,
            false => self.latest.unix_ms().saturating_sub(now_ms),
        }
    }

    /// Advances the clock to a stamp that was seen.
    pub fn observe(&mut self, stamp: Stamp) {
        self.latest = self.latest.max(stamp);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: u64 = 1_800_000_000_000;

    fn region(number: u8) -> Region {
        Region::new(number).unwrap()
    }

    #[test]
    fn the_clock_never_goes_back() {
        let rules = Rules::default();
        let mut clock = Clock::new(region(3), Stamp::ZERO, 1000);
        let first = clock.tick(NOON, 1, &rules);
        let second = clock.tick(NOON - 3_600_000, 1, &rules);
        assert!(second > first && second.unix_ms() == NOON);
        let rest = clock.tick(NOON, 10, &rules);
        assert!(clock.tick(NOON, 1, &rules) > rest.plus(9));
        assert_eq!(clock.tick(NOON + 5, 1, &rules), Stamp::at(NOON + 5, region(3)));
    }

    #[test]
    fn clock_ticks_after_observed_stamps() {
        let mut clock = Clock::new(region(1), Stamp::ZERO, 1000);
        let other = Stamp::at(NOON + 900, region(2));
        assert_eq!(clock.check(NOON, other), Ok(()));
        clock.observe(other);
        assert!(clock.tick(NOON, 1, &Rules::default()) > other);
        let far = Stamp::at(NOON + 1001, region(2));
        let refused = clock.check(NOON, far).unwrap_err();
        assert_eq!(refused, TooFarAhead { region: region(2), ahead_ms: 1001, allowed_ms: 1000 });
        assert_eq!(
            refused.to_string(),
            "a stamp of region 2 is 1001 ms ahead of this server's clock, 1000 ms are allowed \
             (active-clock-ahead-max)"
        );
        clock.allow_ahead(1001);
        assert_eq!(clock.check(NOON, far), Ok(()));
    }

    #[test]
    fn a_clock_tells_how_far_it_is_ahead() {
        let mut clock = Clock::new(region(1), Stamp::ZERO, 1000);
        assert_eq!(clock.ahead_ms(NOON), 0);
        clock.tick(NOON + 500, 1, &Rules::default());
        assert_eq!((clock.ahead_ms(NOON), clock.ahead_ms(NOON + 700)), (500, 0));
    }
}
