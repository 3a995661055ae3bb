// SPDX-License-Identifier: BSD-3-Clause
//! Counters of one executing thread, summed by other threads for INFO.
//!
//! HOT PATH: an addition is one relaxed load and one relaxed store, since only the owner adds.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of one thread. Only the owner adds; any thread may read and sum.
        #[derive(Default)]
        pub struct Counters { $($(#[$doc])* pub $name: Counter),* }

        impl Counters {
            /// Sets all counters to zero (CONFIG RESETSTAT); concurrent additions may survive.
            pub fn reset(&self) { $(self.$name.0.store(0, Relaxed);)* }
        }
    };
}

/// A number that one thread adds to and other threads read.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`; only the owning thread may.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    /// Subtracts an earlier addition, but not below zero (the counter may have been reset since);
    /// only the owning thread may.
    pub fn take_back(&self, amount: u64) {
        self.0.store(self.get().saturating_sub(amount), Relaxed);
    }

    /// Raises the counter to `value` if that is larger; only the owning thread may.
    #[inline]
    pub fn raise(&self, value: u64) {
        if value > self.get() {
            self.0.store(value, Relaxed);
        }
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

counters! {
    /// Key look-ups for reading that found a key.
    hits,
    /// Key look-ups for reading that found no key.
    misses,
    /// Keys removed because they had expired.
    expired,
    /// Members of collections (including hash fields) removed because they had expired.
    expired_members,
    /// Keys evicted to free memory.
    evicted,
    /// Changes to the dataset.
    dirty,
    /// Shard locks that the thread had to wait for.
    contended,
    /// Optimistic reads repeated under the lock.
    optimistic_failures,
    /// Reads of long values answered from the thread's own copy.
    from_value_cache,
    /// Values freed in the background at a command's request.
    lazy_freed,
    /// Blocks moved by defragmentation, and blocks examined that stayed.
    defrag_hits,
    defrag_misses,
    /// Keys of which some memory was moved, and keys examined of which none was.
    defrag_key_hits,
    defrag_key_misses,
}
