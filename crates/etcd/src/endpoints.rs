// SPDX-License-Identifier: BSD-3-Clause
//! The endpoints of a cluster, and the selection of the next one to use.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// All endpoints, in the order of the options.
pub struct Endpoints {
    list: Vec<Endpoint>,
    /// The endpoint to try first: the one that answered last.
    current: AtomicUsize,
}

struct Endpoint {
    /// `scheme://host:port`.
    address: String,
    /// It has answered like an etcd server since its last failure. Until then it gets no request
    /// that may be executed.
    is_checked: AtomicBool,
    failures: AtomicU64,
}

impl Endpoints {
    /// `addresses` has at least one entry.
    pub fn new(addresses: Vec<String>) -> Endpoints {
        let endpoint =
            |address| Endpoint { address, is_checked: AtomicBool::new(false), failures: AtomicU64::new(0) };
        Endpoints { list: addresses.into_iter().map(endpoint).collect(), current: AtomicUsize::new(0) }
    }

    pub fn address(&self, index: usize) -> &str {
        &self.list[index].address
    }

    pub fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    /// All endpoints, starting with the current one.
    pub fn in_turn(&self) -> impl Iterator<Item = usize> + use<> {
        let (first, count) = (self.current(), self.list.len());
        (0..count).map(move |step| (first + step) % count)
    }

    pub fn is_checked(&self, index: usize) -> bool {
        self.list[index].is_checked.load(Ordering::Acquire)
    }

    pub fn set_checked(&self, index: usize) {
        self.list[index].is_checked.store(true, Ordering::Release);
    }

    /// The number of failures of the endpoint.
    pub fn failures(&self, index: usize) -> u64 {
        self.list[index].failures.load(Ordering::Acquire)
    }

    /// The endpoint has answered: stay with it.
    pub fn stay(&self, index: usize) {
        self.current.store(index, Ordering::Relaxed);
    }

    /// The endpoint has failed: move on to the next one.
    pub fn leave(&self, index: usize) {
        self.list[index].is_checked.store(false, Ordering::Release);
        self.list[index].failures.fetch_add(1, Ordering::AcqRel);
        let next = (index + 1) % self.list.len();
        let _ = self.current.compare_exchange(index, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}
