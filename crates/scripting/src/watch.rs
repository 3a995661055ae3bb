// SPDX-License-Identifier: BSD-3-Clause
//! Watch thread: interrupts long runs, whatever they are executing.
//!
//! Lua's own hook counts instructions, and a single instruction can take seconds: a pattern, a
//! sort, a long concatenation. Therefore one thread per process checks all VMs 50 times a second
//! and sets a word in those that are still in the same run; Lua and its libraries check that word
//! wherever an operation can take long (`build/patches.rs`), and call the hook. The thread sleeps
//! while no script has run for a second.
//!
//! It must never touch a Lua state, because another thread is running it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Interval of checks.
const TICK: Duration = Duration::from_millis(20);
/// After this many checks without a run the thread sleeps.
const IDLE_TICKS: u32 = 50;

/// One VM's state, shared with the watch thread.
#[derive(Default)]
pub(crate) struct Watch {
    /// Number of the current run; 0 between runs.
    run: AtomicU64,
    /// The run seen at the last check.
    seen: AtomicU64,
    /// Not 0: the hook must be called. Lua reads it as a plain word.
    interrupt: AtomicU32,
}

impl Watch {
    /// A watch that the thread checks for as long as the watch exists.
    pub(crate) fn new() -> Arc<Watch> {
        let watch = Arc::new(Watch::default());
        let mut all = WATCHER.watches.lock();
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&watch));
        watch
    }

    /// Starts a run; its number must not be 0, and must differ from that of the previous run.
    #[inline]
    pub(crate) fn begin(&self, run: u64) {
        // SeqCst: either the thread sees the run before it sleeps, or we see that it sleeps.
        self.run.swap(run, Ordering::SeqCst);
        if !WATCHER.awake.load(Ordering::SeqCst) {
            WATCHER.wake();
        }
    }

    /// The run has ended.
    #[inline]
    pub(crate) fn end(&self) {
        self.run.store(0, Ordering::Relaxed);
        self.interrupt.store(0, Ordering::Relaxed);
    }

    /// The word that Lua reads.
    pub(crate) fn word(&self) -> *const AtomicU32 {
        &raw const self.interrupt
    }

    /// True if an interrupt was requested; clears the request.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed) != 0 && self.interrupt.swap(0, Ordering::Relaxed) != 0
    }

    /// Requests an interruption if the run is the same as at the last check. True if a run is in
    /// progress.
    fn look(&self) -> bool {
        let run = self.run.load(Ordering::SeqCst);
        let seen = self.seen.swap(run, Ordering::Relaxed);
        if run != 0 && run == seen {
            self.interrupt.store(1, Ordering::Relaxed);
        }
        run != 0
    }
}

struct Watcher {
    watches: Mutex<Vec<Weak<Watch>>>,
    /// True while the thread checks periodically.
    awake: AtomicBool,
    /// True if the thread exists; locked while it is started or goes to sleep.
    started: Mutex<bool>,
    woken: Condvar,
}

static WATCHER: Watcher = Watcher {
    watches: Mutex::new(Vec::new()),
    awake: AtomicBool::new(false),
    started: Mutex::new(false),
    woken: Condvar::new(),
};

impl Watcher {
    #[cold]
    fn wake(&'static self) {
        let mut started = self.started.lock();
        self.awake.store(true, Ordering::SeqCst);
        if *started {
            self.woken.notify_one();
            return;
        }
        let spawned = std::thread::Builder::new().name("scripts".into()).spawn(|| self.watch());
        match spawned {
            Ok(_) => *started = true,
            // Then only instructions are counted. The next run retries.
            Err(error) => {
                self.awake.store(false, Ordering::SeqCst);
                log::warn!("Cannot start the thread that watches slow scripts: {error}");
            }
        }
    }

    fn watch(&self) {
        let mut idle = 0;
        loop {
            std::thread::sleep(TICK);
            idle = if self.look() { 0 } else { idle + 1 };
            if idle < IDLE_TICKS {
                continue;
            }
            let mut started = self.started.lock();
            self.awake.store(false, Ordering::SeqCst);
            // A run may have begun before it could see that the thread sleeps.
            if self.look() {
                self.awake.store(true, Ordering::SeqCst);
            }
            while !self.awake.load(Ordering::SeqCst) {
                self.woken.wait(&mut started);
            }
            idle = 0;
        }
    }

    /// Checks all VMs. True if one of them is in a run.
    fn look(&self) -> bool {
        let mut runs = false;
        for watch in self.watches.lock().iter().filter_map(Weak::upgrade) {
            runs |= watch.look();
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_run_that_lasts_is_interrupted() {
        let watch = Watch::default();
        assert!(!watch.look());
        watch.run.store(1, Ordering::Relaxed);
        assert!(watch.look() && !watch.take(), "the run has just begun");
        watch.run.store(2, Ordering::Relaxed);
        assert!(watch.look() && !watch.take(), "another run");
        assert!(watch.look() && watch.take() && !watch.take(), "the same run");
        watch.look();
        watch.end();
        assert!(!watch.take() && !watch.look());
    }
}
