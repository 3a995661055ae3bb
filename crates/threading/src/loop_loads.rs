// SPDX-License-Identifier: BSD-3-Clause
//! Loop loads: which loops serve clients, how many clients each loop has, and the queue through
//! which one loop hands a client over to another.

use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};

use braid_base::slots::Slots;
use braid_executor::engine::THREADS_MAX;
use crossbeam_queue::SegQueue;
use parking_lot::{Mutex, MutexGuard};

use crate::client::Client;

/// The number of threads, the serving loops, and their clients.
pub struct LoopLoads {
    /// The loops that are given clients, by number of threads; the last of them is the last loop.
    serving: fn(usize) -> Range<usize>,
    threads: AtomicUsize,
    /// Changes with the number of threads.
    version: AtomicU64,
    /// Held while a client is assigned to a loop, until it is in that loop's queue, and while the
    /// number of threads changes: no client is sent to a loop that is about to end.
    assigning: Mutex<()>,
    loops: Slots<Arrivals>,
}

/// The part of a loop visible to other threads.
#[derive(Default)]
struct Arrivals {
    /// Number of clients, incremented on assignment and decremented by the loop that closes them.
    clients: AtomicUsize,
    /// Clients handed over by other loops.
    handed_over: SegQueue<Box<Client>>,
}

/// The right to assign clients to loops.
pub struct Assigning<'a> {
    loads: &'a LoopLoads,
    _guard: MutexGuard<'a, ()>,
}

impl Assigning<'_> {
    /// The loop with the fewest clients.
    pub fn least(&self) -> usize {
        let clients = |&index: &usize| self.loads.loops[index].clients.load(Relaxed);
        self.loads.serving().min_by_key(clients).unwrap_or(0)
    }

    /// Counts a client that a loop is about to get.
    pub fn take(&self, index: usize) {
        self.loads.loops[index].clients.fetch_add(1, Relaxed);
    }

    /// Puts a client into another loop's queue. The client must already be counted there; the
    /// caller must still ring the loop's notifier.
    pub fn hand_over(&self, to: usize, client: Box<Client>) {
        self.loads.loops[to].handed_over.push(client);
    }
}

impl LoopLoads {
    /// Loads for this number of threads. `serving` gives the loops that are given clients, by
    /// number of threads.
    pub fn new(threads: usize, serving: fn(usize) -> Range<usize>) -> LoopLoads {
        let loads = LoopLoads {
            serving,
            threads: AtomicUsize::new(threads),
            version: AtomicU64::new(0),
            assigning: Mutex::new(()),
            loops: Slots::new(THREADS_MAX),
        };
        loads.make_room(threads);
        loads
    }

    /// Makes room for this number of threads.
    pub fn make_room(&self, threads: usize) {
        self.loops.grow(threads, |_| Arrivals::default());
    }

    /// Changes the number of threads. There must be room. Loops that no longer serve hand their
    /// clients over; they notice when they wake up.
    pub fn set_threads(&self, threads: usize) {
        let _guard = self.assigning.lock();
        self.threads.store(threads, Relaxed);
        self.version.fetch_add(1, Release);
    }

    /// Changes with the number of threads.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// Number of threads to keep, with or without a loop.
    pub fn threads(&self) -> usize {
        self.threads.load(Relaxed)
    }

    /// Number of loops, serving or not.
    pub fn loops(&self) -> usize {
        self.serving().end
    }

    /// The loops that are given clients.
    pub fn serving(&self) -> Range<usize> {
        (self.serving)(self.threads())
    }

    /// While this is held, no other thread assigns clients, and the number of threads does not
    /// change.
    pub fn assign(&self) -> Assigning<'_> {
        Assigning { loads: self, _guard: self.assigning.lock() }
    }

    /// The next client handed over to a loop.
    pub fn take_handed_over(&self, index: usize) -> Option<Box<Client>> {
        self.loops[index].handed_over.pop()
    }

    /// Decrements the count: a loop has closed a client, or does not get it after all.
    pub fn release(&self, index: usize) {
        self.loops[index].clients.fetch_sub(1, Relaxed);
    }
}
