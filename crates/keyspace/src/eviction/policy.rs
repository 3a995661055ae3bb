// SPDX-License-Identifier: BSD-3-Clause
//! Eviction policies (`maxmemory-policy`).

/// Selects the keys that may be evicted, and their order (`maxmemory-policy`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Policy {
    NoEviction = 0,
    AllKeysLru,
    AllKeysLfu,
    AllKeysRandom,
    AllKeysLrm,
    VolatileLru,
    VolatileLfu,
    VolatileRandom,
    VolatileTtl,
    VolatileLrm,
}

impl Policy {
    pub(crate) fn from_number(number: u8) -> Policy {
        use Policy::*;
        [
            NoEviction,
            AllKeysLru,
            AllKeysLfu,
            AllKeysRandom,
            AllKeysLrm,
            VolatileLru,
            VolatileLfu,
            VolatileRandom,
            VolatileTtl,
            VolatileLrm,
        ][usize::from(number)]
    }

    /// True if access clocks count frequency instead of recency.
    #[inline]
    pub fn is_lfu(self) -> bool {
        matches!(self, Policy::AllKeysLfu | Policy::VolatileLfu)
    }

    /// True if eviction is by recency.
    pub fn is_lru(self) -> bool {
        matches!(self, Policy::AllKeysLru | Policy::VolatileLru) || self.is_lrm()
    }

    /// True if only changes count as uses, not reads.
    #[inline]
    pub fn is_lrm(self) -> bool {
        matches!(self, Policy::AllKeysLrm | Policy::VolatileLrm)
    }

    /// True if only keys with an expiry may be evicted.
    pub fn is_volatile(self) -> bool {
        self as u8 >= Policy::VolatileLru as u8
    }
}
