// SPDX-License-Identifier: BSD-3-Clause
//! Decides when writes wait for a slot move, so that it ends however fast clients write: pure,
//! without clocks, input or output.
//!
//! The source passes changes on while clients make more. If they make them faster than the target
//! takes them, no number of rounds catches up. So there is a bound for the unsent changes: above
//! it writes to the moving slots wait until an eighth less is unsent, as writes wait for a slow
//! replica (`replication/throttle.rs`). While keys are being copied the bound is far away. Each
//! round of catching up lowers it by an eighth, so there are logarithmically many rounds, each as
//! long as the target takes for changes that exist already, and no write waits for all of them.
//!
//! Writes that are let go can outrun a slow target before the next look, by more than the bound. So
//! a round also ends as they are let go: one that had to pass on what they add might never end.
//!
//! Changes of other slots cost next to nothing, but have to be read. If those alone keep the move
//! from catching up, writes to all slots of this server wait. Commands of other moves
//! to this server do not: two servers could wait for each other.
//!
//! The bounds are looked at between two sends, while clients go on, so a busy or silent target can
//! leave more unsent than the move may have. That alone does not end it: then all writes wait, and
//! the move is lost only if that does not help.
//!
//! The caller lets writes go while the target is silent: it may be dead.

use std::time::Duration;

use braid_executor::state::slowed_slots::Reach;

/// The time in which an eighth of the unsent changes has to go while writes to the moving slots
/// wait; otherwise others wait, too.
const WIDEN: Duration = Duration::from_millis(500);
/// The time in which an eighth of the unsent changes has to go while all writes wait and more than
/// the limit is unsent.
const RELIEF: Duration = Duration::from_secs(5);
/// Rounds of the approach in which writes wait throughout, before the move goes on regardless.
const LAST_ROUNDS: u32 = 2;

/// Nothing has been seen yet: any progress will do.
const START: (u64, Duration) = (u64::MAX, Duration::ZERO);

/// An eighth less, rounded down.
fn less(bytes: u64) -> u64 {
    bytes - bytes.div_ceil(8)
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Pace {
    /// Unsent bytes above which writes wait.
    bound: u64,
    /// Unsent bytes above which all writes wait at once.
    alarm: u64,
    /// Unsent bytes that end the move unless waiting writes help.
    limit: u64,
    /// The same as `seen`, of the latest progress above the limit while all writes wait.
    above: Option<(u64, Duration)>,
    reach: Reach,
    /// Writes that waited have been let go in this round.
    has_let_go: bool,
    /// Unsent bytes when progress was last looked at, and the time for which writes had waited.
    seen: (u64, Duration),
    /// Rounds in which writes waited throughout.
    last_rounds: u32,
}

impl Pace {
    /// `limit`: unsent bytes that end the move; 0 if there is no limit.
    pub fn new(limit: u64) -> Pace {
        let limit = if limit == 0 { u64::MAX } else { limit };
        Pace {
            bound: limit / 2,
            alarm: limit / 4 * 3,
            limit,
            above: None,
            reach: Reach::Nothing,
            has_let_go: false,
            seen: START,
            last_rounds: 0,
        }
    }

    /// True if more than the limit is unsent, and stays so although all writes wait. With the
    /// values of a [`Pace::look`] that has just been made.
    pub fn is_lost(&mut self, behind: u64, waited: Duration) -> bool {
        if behind <= self.limit || self.reach != Reach::All {
            self.above = None;
            return false;
        }
        let (before, since) = *self.above.get_or_insert((behind, waited));
        if behind <= less(before) {
            self.above = Some((behind, waited));
        }
        waited >= since + RELIEF && behind > less(before)
    }

    /// The writes that wait from now on. `behind`: unsent bytes. `waited`: for how long some
    /// writes have been waiting.
    pub fn look(&mut self, behind: u64, waited: Duration) -> Reach {
        self.reach = match self.reach {
            Reach::Nothing if behind > self.bound => {
                self.seen = (behind, Duration::ZERO);
                Reach::Moving
            }
            Reach::Nothing => Reach::Nothing,
            _ if behind <= less(self.bound) && self.last_rounds == 0 => {
                self.has_let_go = true;
                Reach::Nothing
            }
            Reach::Moving if behind > self.alarm => Reach::All,
            Reach::Moving if waited >= self.seen.1 + WIDEN => {
                let before = std::mem::replace(&mut self.seen, (behind, waited)).0;
                if behind > less(before) { Reach::All } else { Reach::Moving }
            }
            reach => reach,
        };
        self.reach
    }

    /// True while writes wait until the move has caught up.
    pub fn is_catching_up(&self) -> bool {
        self.reach != Reach::Nothing && self.last_rounds == 0
    }

    /// A round begins.
    pub fn begin_round(&mut self) {
        self.has_let_go = false;
    }

    /// True while the round goes on. `is_passed_on`: so is all that was there when it began.
    pub fn is_in_round(&self, is_passed_on: bool) -> bool {
        self.is_catching_up() || !is_passed_on && !self.has_let_go
    }

    /// A round of catching up has ended, `behind` bytes behind; `most` would be few enough. True
    /// if they are.
    pub fn end_round(&mut self, behind: u64, most: u64) -> bool {
        self.bound = less(self.bound.min(behind).max(most));
        behind <= most
    }

    /// Whether another round of the approach is worthwhile, with writes waiting throughout: their
    /// reach is widened from round to round.
    pub fn begin_last_round(&mut self) -> Option<Reach> {
        self.last_rounds += 1;
        if self.last_rounds > LAST_ROUNDS {
            return None;
        }
        self.seen = START;
        let wider = if self.last_rounds > LAST_ROUNDS / 2 { Reach::All } else { Reach::Moving };
        self.reach = self.reach.max(wider);
        Some(self.reach)
    }

    /// Commands were held back, and the move has to continue: it catches up anew.
    pub fn begin_anew(&mut self) {
        (self.reach, self.last_rounds) = (Reach::Nothing, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 256 << 20;
    const MOST: u64 = 1 << 20;
    /// Simulated time of a step.
    const STEP: Duration = Duration::from_millis(10);

    /// Clients that write to the moving slots and to others, in bytes a step, and a move that
    /// passes on, or reads, so many.
    #[derive(Clone, Copy)]
    struct Rates {
        moving: u64,
        others: u64,
        passed_on: u64,
    }

    struct Source {
        rates: Rates,
        pace: Pace,
        behind: u64,
        reach: Reach,
        waited: Duration,
        steps: u64,
    }

    impl Source {
        fn new(rates: Rates, behind: u64) -> Source {
            let pace = Pace::new(LIMIT);
            Source { rates, pace, behind, reach: Reach::Nothing, waited: Duration::ZERO, steps: 0 }
        }

        fn step(&mut self) {
            let Rates { moving, others, passed_on } = self.rates;
            self.behind += match self.reach {
                Reach::Nothing => moving + others,
                Reach::Moving => others,
                Reach::All => 0,
            };
            self.behind = self.behind.saturating_sub(passed_on);
            self.waited = if self.reach == Reach::Nothing { Duration::ZERO } else { self.waited + STEP };
            self.reach = self.pace.look(self.behind, self.waited);
            self.steps += 1;
            assert!(!self.pace.is_lost(self.behind, self.waited), "the move would have failed");
            assert!(self.behind <= LIMIT);
        }

        /// One round, as `Export::follow`.
        fn round(&mut self, most_steps: u64) -> bool {
            let mut left = self.behind;
            self.pace.begin_round();
            while self.pace.is_in_round(left == 0) && self.steps < most_steps {
                left = left.saturating_sub(self.rates.passed_on);
                self.step();
            }
            self.pace.end_round(self.behind, MOST)
        }
    }

    #[test]
    fn catching_up_ends_however_fast_clients_write() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..2000 {
            let passed_on = random.u64(1 << 10..1 << 20);
            // Up to 20 times as fast as the move.
            let (moving, others) = (random.u64(0..10 * passed_on), random.u64(0..10 * passed_on));
            let start = random.u64(0..LIMIT / 4);
            let mut source = Source::new(Rates { moving, others, passed_on }, start);
            // There are less than 64 rounds from 256 MB to 1 MB. Each passes on what is above the
            // bound, and what is added until the writes wait, all of them after WIDEN.
            let widened = (WIDEN.as_millis() / STEP.as_millis() + 1) as u64;
            let most = 12 * (LIMIT / passed_on) + 64 * 12 * (widened + 10);
            let mut rounds = 0;
            while !source.round(most) {
                rounds += 1;
                assert!(source.steps < most && rounds <= 64, "{moving} {others} {passed_on} {start}");
            }
        }
    }

    #[test]
    fn a_round_ends_as_writes_are_let_go() {
        let mut pace = Pace::new(160);
        pace.begin_round();
        assert!(pace.is_in_round(false) && !pace.is_in_round(true), "nothing waits yet");
        pace.look(90, Duration::ZERO);
        assert!(pace.is_in_round(true), "writes wait");
        pace.look(70, Duration::ZERO);
        assert!(!pace.is_in_round(false), "they do not wait any more");
        // They have added much, which is the next round's.
        pace.begin_round();
        pace.look(1000, Duration::ZERO);
        assert!(pace.is_in_round(true));
        pace.begin_last_round();
        assert!(pace.is_in_round(false) && !pace.is_in_round(true), "writes wait until the end");
    }

    #[test]
    fn writes_wait_between_the_bound_and_an_eighth_less() {
        let mut pace = Pace::new(160);
        let looks = [(80, Reach::Nothing), (81, Reach::Moving), (71, Reach::Moving), (70, Reach::Nothing)];
        let alarming = [(121, Reach::Moving), (120, Reach::Moving), (121, Reach::All), (70, Reach::Nothing)];
        let looks = looks.into_iter().chain(alarming);
        for (behind, reach) in looks {
            assert_eq!(pace.look(behind, Duration::ZERO), reach, "{behind}");
        }
        // Others wait only if that is not enough.
        let looks = [(120, 0, Reach::Moving), (100, 2, Reach::Moving), (88, 3, Reach::Moving)];
        for (behind, times, reach) in looks.into_iter().chain([(88, 4, Reach::All), (75, 4, Reach::All)]) {
            assert_eq!(pace.look(behind, WIDEN * times / 2), reach, "{behind}");
        }
        assert_eq!(pace.look(70, WIDEN), Reach::Nothing);
        // Without a limit nothing waits, until the move tries to end.
        let mut pace = Pace::new(0);
        assert_eq!(pace.look(1 << 62, WIDEN), Reach::Nothing);
        assert!(!pace.end_round(1 << 30, 1 << 20));
        assert_eq!(pace.look(7 << 27, Duration::ZERO), Reach::Nothing);
        assert_eq!(pace.look((7 << 27) + 1, Duration::ZERO), Reach::Moving);
    }

    #[test]
    fn a_move_is_lost_only_if_waiting_writes_do_not_help() {
        let mut pace = Pace::new(160);
        let mut look = |behind, waited| {
            pace.look(behind, waited);
            pace.is_lost(behind, waited)
        };
        assert!(!look(1000, Duration::ZERO), "nothing waits yet");
        assert!(!look(1000, Duration::ZERO) && !look(1000, RELIEF - STEP));
        assert!(!look(875, RELIEF), "an eighth less");
        assert!(!look(800, RELIEF * 2 - STEP) && look(800, RELIEF * 2), "hardly any progress");
        assert!(!look(160, RELIEF * 3), "not above the limit");
        assert!(!look(161, RELIEF * 4) && look(161, RELIEF * 5));
        // Writes that no longer wait may fill up what is unsent again.
        assert!(!look(0, RELIEF * 5) && !look(1000, Duration::ZERO) && !look(1000, Duration::ZERO));
        let mut pace = Pace::new(0);
        pace.begin_last_round();
        pace.begin_last_round();
        assert!(!pace.is_lost(1 << 62, Duration::ZERO) && !pace.is_lost(1 << 62, RELIEF), "no limit");
    }

    #[test]
    fn rounds_lower_the_bound_until_the_rest_is_small() {
        let mut pace = Pace::new(LIMIT);
        assert!(pace.end_round(MOST, MOST));
        assert_eq!(pace.bound, MOST / 8 * 7);
        let mut pace = Pace::new(LIMIT);
        for _ in 0..64 {
            let before = pace.bound;
            assert!(!pace.end_round(LIMIT, MOST));
            assert!(pace.bound < before || pace.bound == MOST / 8 * 7);
        }
        assert_eq!(pace.bound, MOST / 8 * 7);
        // At most one byte may be unsent.
        for _ in 0..120 {
            pace.end_round(LIMIT, 1);
        }
        assert_eq!((pace.bound, pace.look(1, Duration::ZERO)), (0, Reach::Moving));
        assert_eq!(pace.look(0, Duration::ZERO), Reach::Nothing);
    }

    #[test]
    fn the_approach_has_a_last_round() {
        let mut pace = Pace::new(LIMIT);
        let rounds: Vec<Reach> = std::iter::from_fn(|| pace.begin_last_round()).collect();
        assert_eq!(rounds, [Reach::Moving, Reach::All]);
        assert_eq!(pace.look(0, Duration::ZERO), Reach::All, "writes wait until the slots are held");
        pace.begin_anew();
        assert_eq!(pace.look(0, Duration::ZERO), Reach::Nothing);
    }
}
