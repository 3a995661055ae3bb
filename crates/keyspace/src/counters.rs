// SPDX-License-Identifier: BSD-3-Clause
//! Counters of one executing thread, which other threads sum up for INFO.
//!
//! HOT PATH: an addition is a relaxed load and a relaxed store, since only the owner adds.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of one thread. Only the owner adds; anyone may read and sum.
        #[derive(Default)]
        pub struct Counters { $($(#[$doc])* pub $name: Counter),* }

        impl Counters {
            /// Sets all to zero (CONFIG RESETSTAT); additions that run meanwhile may survive.
            pub fn reset(&self) { $(self.$name.0.store(0, Relaxed);)* }
        }
    };
}

/// A number that one thread adds to and others read.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`; only the owning thread may.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    /// Takes back what was added, as far as it has not been set to zero meanwhile; only the owning
    /// thread may.
    pub fn take_back(&self, amount: u64) {
        self.0.store(self.get().saturating_sub(amount), Relaxed);
    }

    /// Raises it to `value` if that is more; only the owning thread may.
    #[inline]
    pub fn raise(&self, value: u64) {
        if value > self.get() {
            self.0.store(value, Relaxed);
        }
    }

    /// The present value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Sets it to zero.
    pub fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

counters! {
    /// Look-ups of keys for reading that found one.
    hits,
    /// Look-ups of keys for reading that found none.
    misses,
    /// Keys removed because they were past their expiry.
    expired,
    /// Members of collections (hash fields among them) removed because they were past their expiry.
    expired_members,
    /// Keys evicted for memory.
    evicted,
    /// Changes to the dataset.
    dirty,
    /// Shard locks that had to be waited for.
    contended,
    /// Optimistic reads that had to be repeated under the lock.
    optimistic_failures,
    /// Reads of long values answered with a thread's own copy.
    from_value_cache,
    /// Values freed in the background at the request of a command.
    lazy_freed,
}
