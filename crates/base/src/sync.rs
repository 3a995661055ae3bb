// SPDX-License-Identifier: BSD-3-Clause
//! Synchronization primitives of the lock, the gate and the journal: the standard library's, or
//! the model checker's.
//!
//! With the feature `model` the same protocol code runs under `shuttle`, which explores
//! interleavings.

#[cfg(not(feature = "model"))]
pub use std::{
    hint::spin_loop,
    sync::{Condvar, Mutex, MutexGuard, atomic},
    thread::{Thread, current, park_timeout, yield_now},
};

#[cfg(feature = "model")]
pub use parking::{Thread, current, park_timeout};
#[cfg(feature = "model")]
pub use shuttle::{
    hint::spin_loop,
    sync::{Condvar, Mutex, MutexGuard, atomic},
    thread::yield_now,
};

/// Parking under the model checker. The checker's own parking has spurious wake-ups, which hide a
/// missing wake-up. Here time does not pass, so a thread that is not woken sleeps forever and the
/// checker reports it.
#[cfg(feature = "model")]
mod parking {
    use std::sync::Arc;

    use shuttle::sync::{Condvar, Mutex};

    #[derive(Clone, Default)]
    pub struct Thread(Arc<(Mutex<bool>, Condvar)>);

    shuttle::thread_local! {
        static CURRENT: Thread = Thread::default();
    }

    pub fn current() -> Thread {
        CURRENT.with(Thread::clone)
    }

    impl Thread {
        pub fn unpark(&self) {
            let (token, told) = &*self.0;
            *super::lock(token) = true;
            told.notify_one();
        }
    }

    pub fn park_timeout(_most: std::time::Duration) {
        let thread = current();
        let (token, told) = &*thread.0;
        let mut token = super::lock(token);
        while !std::mem::take(&mut *token) {
            token = told.wait(token).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }
}

/// Faults that the model tests plant, one at a time, to prove that each model can fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A writer does not wait for readers.
    WriterIgnoresReaders,
    /// Unlocking does not wake sleepers.
    NobodyIsWoken,
    /// An exclusive section leaves the version unchanged.
    VersionStays,
    /// Entering does not check whether the gate is closed.
    EnterUnchecked,
    /// Closing waits for the caller's own slot too.
    CloserStaysInside,
    /// The epoch advances regardless of threads inside.
    EpochIgnoresReaders,
    /// An appender publishes its offset only after other threads can see the range.
    NoteComesLate,
    /// A sleeper makes its last check before it marks itself as sleeping.
    SleeperLooksBefore,
    /// A waiting client is claimed in two steps: a check, then a change.
    ClaimInTwoSteps,
    /// A waiting client that is already claimed hides those after it in a queue.
    ClaimedHideOthers,
    /// A client that is being closed by another thread begins to wait all the same.
    ClosedClientWaits,
}

#[cfg(feature = "model")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Runs a model under the checker twice: with the unmodified code, where every explored schedule
/// must pass and finish, and with a planted fault, where some schedule must fail. A model that
/// passes with its fault proves nothing.
#[cfg(feature = "model")]
#[track_caller]
pub fn holds_unless(fault: Fault, schedules: usize, model: fn()) {
    PLANTED.set(None);
    explore(schedules, model);
    PLANTED.set(Some(fault));
    let outcome = std::panic::catch_unwind(|| explore(schedules, model));
    PLANTED.set(None);
    assert!(outcome.is_err(), "the model does not notice {fault:?}");
}

/// Runs a model under the checker; panics if a schedule fails. Explores in two ways: at random,
/// and by priorities that change at few points, which finds faults that need one thread to stall
/// for long.
#[cfg(feature = "model")]
#[track_caller]
pub fn explore(schedules: usize, model: fn()) {
    shuttle::check_random(model, schedules);
    shuttle::check_pct(model, schedules / 3, 4);
}

/// True if this fault is planted; always false outside of model tests.
#[inline(always)]
pub fn planted(fault: Fault) -> bool {
    #[cfg(feature = "model")]
    return PLANTED.get() == Some(fault);
    #[cfg(not(feature = "model"))]
    {
        let _ = fault;
        false
    }
}

/// Locks a mutex whose data a panicking holder cannot have corrupted.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
