// SPDX-License-Identifier: BSD-3-Clause
//! How long rights last, and how long others wait for them to expire.
//!
//! Times are in nanoseconds of this machine's CLOCK_BOOTTIME, which is never set and keeps running
//! while the machine sleeps. Only differences on one machine matter.

/// Clock rates may differ by one part in `DRIFT`.
const DRIFT: u64 = 20;

/// The lease time and the rights derived from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// The lease time in nanoseconds.
    pub lease: u64,
    /// Whether clocks may drift: always, except in the simulator.
    pub allows_for_drift: bool,
}

impl Timing {
    pub fn new(lease: u64) -> Timing {
        Timing { lease, allows_for_drift: true }
    }

    fn margin(&self) -> u64 {
        if self.allows_for_drift { self.lease / DRIFT } else { 0 }
    }

    /// When a lease kept alive by a message sent at `sent` may expire in etcd, at the earliest.
    pub fn lease_right(&self, sent: u64) -> u64 {
        sent + self.lease - self.margin()
    }

    /// The time until which a member that answered a probe sent at `probed` cannot be promoted.
    pub fn acknowledged_right(&self, probed: u64) -> u64 {
        probed.saturating_add(self.lease)
    }

    /// When the right given by an acknowledgement sent at `acknowledged` has expired.
    pub fn waited_out(&self, acknowledged: u64) -> u64 {
        acknowledged + self.lease + self.margin()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_is_over_before_it_is_waited_out() {
        let timing = Timing::new(2_000);
        assert_eq!(timing.lease_right(100), 2_000);
        assert_eq!((timing.acknowledged_right(100), timing.waited_out(100)), (2_100, 2_200));
        assert_eq!(timing.acknowledged_right(u64::MAX), u64::MAX);
    }
}
