// SPDX-License-Identifier: BSD-3-Clause
//! What an executing thread brings along: its gate slot, its limbo, its counters and its source of
//! randomness.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::Padded;
use braid_journal::Writer;

use crate::eviction::Pool;
use crate::keyspace::Keyspace;
use crate::limbo::Limbo;
use crate::watch::Readers;

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

    /// Takes back what was added, as far as nobody has set it to zero meanwhile; only the owning thread may.
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

/// One executing thread's access to a keyspace.
pub struct Context {
    /// The thread's slot in the gate.
    pub slot: usize,
    /// Unlinked memory that waits to be freed.
    pub limbo: Limbo,
    /// The thread's counters, shared with whoever sums them.
    pub counters: Arc<Padded<Counters>>,
    /// There is something in `stale` or `ready`, or the command has begun to wait: one look after
    /// each body tells.
    pub follow_up: Cell<bool>,
    /// Keys that a read under a shared lock found past their expiry; removed when the lock is released.
    pub stale: RefCell<Vec<(u32, Box<[u8]>)>>,
    /// Keys that were changed and that clients wait for, in the order of the changes.
    pub ready: RefCell<Vec<(u32, Box<[u8]>)>>,
    /// Keys that were changed and that clients have read, with these clients.
    pub invalidated: RefCell<Vec<(Box<[u8]>, Readers)>>,
    /// Keys that were changed, while somebody wants to know of all.
    pub broadcast: RefCell<Vec<Box<[u8]>>>,
    /// What the present command has changed, for the journal.
    pub journal: Writer,
    /// A script has said that what it changes is not to be journalled.
    pub unjournalled: bool,
    /// Arguments of the present command, by their index, that the journal is to have in another spelling.
    pub respelled: Vec<(usize, Vec<u8>)>,
    /// The thread had to step outside of the gate in the middle of a batch, and has not come in
    /// again: no key may be touched.
    pub outside: bool,
    /// Keys sampled for eviction.
    pub eviction: Pool,
    /// Commands up to the next one that is looked at closer, that included; 0 while none is.
    pub until_sample: u32,
    /// Randomness for sampling; never for anything that must not be guessed.
    pub random: fastrand::Rng,
}

impl Context {
    /// The context of the thread that owns gate slot `slot`.
    pub fn new(keyspace: &Keyspace, slot: usize) -> Context {
        Context {
            slot,
            limbo: Limbo::new(Arc::clone(&keyspace.gate), Arc::clone(&keyspace.lazy_free)),
            counters: Arc::clone(&keyspace.counters[slot]),
            follow_up: Cell::new(false),
            stale: RefCell::default(),
            ready: RefCell::default(),
            invalidated: RefCell::default(),
            broadcast: RefCell::default(),
            journal: Writer::default(),
            unjournalled: false,
            respelled: Vec::new(),
            outside: false,
            eviction: Pool::default(),
            until_sample: 0,
            random: fastrand::Rng::new(),
        }
    }
}
