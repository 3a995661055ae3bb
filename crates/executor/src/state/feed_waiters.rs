// SPDX-License-Identifier: BSD-3-Clause
//! Clients that wait for entries of change feeds (`feeds.rs`).

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI64};

use braid_base::clock::unix_ms;
use parking_lot::Mutex;

use crate::blocking::state::Waiter;

/// Waiters beyond this number are checked for those that have ended.
const ENDED_MAX: usize = 64;

/// The clients that wait for entries.
#[derive(Default)]
pub(crate) struct FeedWaiters {
    any: AtomicBool,
    waiting: Mutex<Waiting>,
    /// When they were woken last, ms since the Unix epoch.
    woken_ms: AtomicI64,
}

#[derive(Default)]
struct Waiting {
    waiters: Vec<Arc<Waiter>>,
    /// The number after ended ones were last removed.
    cleaned: usize,
}

impl FeedWaiters {
    /// Adds a client. The caller checks for news afterwards, and takes all of them if there are.
    pub(crate) fn add(&self, waiter: Arc<Waiter>) {
        let mut waiting = self.waiting.lock();
        if waiting.waiters.len() >= ENDED_MAX.max(2 * waiting.cleaned) {
            waiting.waiters.retain(|waiter| waiter.is_waiting());
            waiting.cleaned = waiting.waiters.len();
        }
        waiting.waiters.push(waiter);
        self.any.store(true, SeqCst);
    }

    /// Takes the clients in order to wake them.
    pub(crate) fn take(&self) -> Vec<Arc<Waiter>> {
        if !self.any.load(SeqCst) {
            return Vec::new();
        }
        let mut waiting = self.waiting.lock();
        self.any.store(false, SeqCst);
        self.woken_ms.store(unix_ms(), Relaxed);
        std::mem::take(&mut waiting.waiters)
    }

    /// The number of clients that wait.
    pub(crate) fn count(&self) -> usize {
        self.waiting.lock().waiters.iter().filter(|waiter| waiter.is_waiting()).count()
    }

    /// When clients were woken last, ms since the Unix epoch.
    pub(crate) fn woken_ms(&self) -> i64 {
        self.woken_ms.load(Relaxed)
    }
}
