// SPDX-License-Identifier: BSD-3-Clause
//! How long rights last, and how long they are waited out.
//!
//! Times are nanoseconds of a clock of this machine that is never set and runs on while the machine
//! sleeps (CLOCK_BOOTTIME). Only differences on one machine count.

/// Clocks may differ by one part in this many.
const DRIFT: u64 = 20;

/// The lease time, and what follows from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// The lease time in nanoseconds.
    pub lease: u64,
    /// Whether clocks may drift: always, but for the simulator.
    pub allows_for_drift: bool,
}

impl Timing {
    pub fn new(lease: u64) -> Timing {
        Timing { lease, allows_for_drift: true }
    }

    fn margin(&self) -> u64 {
        if self.allows_for_drift { self.lease / DRIFT } else { 0 }
    }

    /// Until when a lease in etcd is surely alive that was kept alive by a message sent then.
    pub fn lease_right(&self, sent: u64) -> u64 {
        sent + self.lease - self.margin()
    }

    /// Until when a member refuses to be promoted that has answered a probe sent then.
    pub fn acknowledged_right(&self, probed: u64) -> u64 {
        probed.saturating_add(self.lease)
    }

    /// When the right is over that an acknowledgement sent then may have given.
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
