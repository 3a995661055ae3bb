// SPDX-License-Identifier: BSD-3-Clause
//! How much of an amount per second has been used, by any number of threads: one number, the time
//! at which all of it will be restored.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

const NS_PER_S: u128 = 1_000_000_000;

/// The part of a second that may be used at once: a limit is exact within this over any time, and
/// what a client sends in one piece is not refused.
const AT_ONCE_NS: u64 = 250_000_000;

/// Uses of an amount per second.
#[derive(Default, Debug)]
pub struct Budget {
    /// When all will be restored, ns on the caller's clock.
    restored_ns: AtomicU64,
}

impl Budget {
    /// Uses an amount if there is enough left at `now_ns`.
    ///
    /// # Errors
    /// How long to wait until there is, in ns.
    pub fn take(&self, amount: u64, per_second: u64, now_ns: u64) -> Result<(), u64> {
        self.reserve(amount, per_second, now_ns, 0).map(|_| ())
    }

    /// Uses an amount that is there within `patience_ns`. Those who come later wait for longer, so
    /// nobody is overtaken. Returns how long to wait until it may be used, in ns.
    ///
    /// # Errors
    /// How long to wait until there is enough, in ns; nothing is used then.
    pub fn reserve(&self, amount: u64, per_second: u64, now_ns: u64, patience_ns: u64) -> Result<u64, u64> {
        let cost = cost_ns(amount, per_second);
        let wait = |restored: u64| {
            let used = restored.saturating_sub(now_ns);
            // Something can always be had if nothing is in use.
            used.saturating_add(cost).saturating_sub(AT_ONCE_NS).min(used)
        };
        let taken = self.restored_ns.fetch_update(Relaxed, Relaxed, |restored| {
            (wait(restored) <= patience_ns).then(|| restored.max(now_ns).saturating_add(cost))
        });
        taken.map(wait).map_err(wait)
    }

    /// Uses an amount, whether or not it is there.
    pub fn charge(&self, amount: u64, per_second: u64, now_ns: u64) {
        let cost = cost_ns(amount, per_second);
        let charged = |restored: u64| Some(restored.max(now_ns).saturating_add(cost));
        let _ = self.restored_ns.fetch_update(Relaxed, Relaxed, charged);
    }

    /// Checks that not more has been used at `now_ns` than may be at once.
    ///
    /// # Errors
    /// How long to wait until that is so, in ns.
    pub fn check(&self, now_ns: u64) -> Result<(), u64> {
        match self.restored_ns.load(Relaxed).saturating_sub(now_ns) {
            used if used <= AT_ONCE_NS => Ok(()),
            used => Err(used - AT_ONCE_NS),
        }
    }
}

/// The time in which an amount is restored.
fn cost_ns(amount: u64, per_second: u64) -> u64 {
    let cost = (u128::from(amount) * NS_PER_S).div_ceil(u128::from(per_second.max(1)));
    u64::try_from(cost).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// Takes one after another for ten seconds, and returns how many were had.
    fn taken_in_ten_seconds(per_second: u64, step_ns: u64) -> u64 {
        let budget = Budget::default();
        (0..10 * S / step_ns)
            .map(|step| u64::from(budget.take(1, per_second, S + step * step_ns).is_ok()))
            .sum()
    }

    #[test]
    fn rates_are_exact_within_five_percent() {
        for per_second in [1, 7, 1000, 333_333] {
            let taken = taken_in_ten_seconds(per_second, 1_000_000.min(S / per_second / 3));
            let expected = per_second * 10;
            assert!(taken.abs_diff(expected) * 20 <= expected.max(20), "{taken} of {expected}");
        }
    }

    #[test]
    fn what_is_refused_can_be_had_after_the_wait() {
        let budget = Budget::default();
        assert_eq!((0..100).filter(|_| budget.take(1, 100, S).is_ok()).count(), 25);
        let wait = budget.take(1, 100, S).expect_err("used up");
        assert!(budget.take(1, 100, S + wait - 1).is_err());
        assert!(budget.take(1, 100, S + wait).is_ok());
    }

    #[test]
    fn less_than_one_a_second_at_once_is_one() {
        let budget = Budget::default();
        assert_eq!(budget.take(1, 1, S), Ok(()));
        assert_eq!(budget.take(1, 1, S), Err(S));
        assert_eq!(budget.take(1, 1, 2 * S), Ok(()));
    }

    #[test]
    fn debts_are_paid() {
        let budget = Budget::default();
        budget.charge(5000, 1000, S);
        assert_eq!(budget.check(S), Err(5 * S - AT_ONCE_NS));
        assert_eq!(budget.check(6 * S - AT_ONCE_NS), Ok(()));
    }

    #[test]
    fn waits_are_handed_out_in_order() {
        let budget = Budget::default();
        let waits: Vec<_> = (0..40).map_while(|_| budget.reserve(1, 100, S, S / 10).ok()).collect();
        // A quarter of a second's worth at once, then one every ten milliseconds.
        assert_eq!(waits.len(), 35);
        assert!(waits[..25].iter().all(|wait| *wait == 0), "{waits:?}");
        let expected: Vec<u64> = (1..=10).map(|number| number * S / 100).collect();
        assert_eq!(waits[25..], expected);
        assert_eq!(budget.reserve(1, 100, S, S / 10), Err(11 * S / 100));
    }

    #[test]
    fn extremes_do_not_overflow() {
        let budget = Budget::default();
        budget.charge(u64::MAX, 1, S);
        assert!(budget.check(S).is_err());
        assert!(budget.take(u64::MAX, 1, S).is_err());
    }
}
