// SPDX-License-Identifier: BSD-3-Clause
//! The shard lock: shared or exclusive, with a version that allows reading without taking it.
//!
//! One word: a version (counts exclusive sections), a claim bit, a reader count, a writer bit and
//! a parked bit. Without contention, acquiring is one compare-and-swap and releasing one addition.
//! Under contention a thread spins briefly, yields a few times, then parks on a queue shared by
//! all locks (hashed by address). It is never a pure spin lock: when threads outnumber cores, the
//! holder must get to run.
//!
//! A waiting writer claims the lock. While the lock is claimed new readers hold back, for as long
//! as they would spin and yield anyway: long enough for the readers inside to leave, so a stream
//! of readers on a hot shard cannot keep a writer out; but not forever, so a claim can never be
//! part of a deadlock.
//!
//! Optimistic reading: [`ShardLock::begin`] returns the version if no writer is inside; after the
//! read, [`ShardLock::unchanged`] tells whether all of the data read belongs to that version.
//! Before this check the data may be torn and must not be used.

use crate::sharing::{Line, note};
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::{Condvar, Fault, Mutex, lock, planted, spin_loop, yield_now};

const WRITER: u64 = 1;
const PARKED: u64 = 2;
const READER: u64 = 4;
const READERS: u64 = 0xffff << 2;
const CLAIMED: u64 = 1 << 18;
const VERSION: u64 = 1 << 19;
/// All bits except the version and the writer bit.
const PASSING: u64 = PARKED | READERS | CLAIMED;

// The model checker explores every iteration of a loop, so use few there.
const SPINS: u32 = if cfg!(feature = "model") { 1 } else { 60 };
const YIELDS: u32 = if cfg!(feature = "model") { 1 } else { 4 };
/// Rounds for which a reader holds back in favour of a writer that has claimed the lock.
const COURTESY: u32 = SPINS + YIELDS;

/// The lock of one shard.
pub struct ShardLock(AtomicU64);

/// The version seen by [`ShardLock::begin`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version(u64);

impl Default for ShardLock {
    fn default() -> Self {
        ShardLock(AtomicU64::new(0))
    }
}

impl ShardLock {
    /// Waits for exclusive access. Returns true if the thread had to wait (for the contention
    /// counters).
    #[inline]
    pub fn lock_exclusive(&self) -> bool {
        note(Line::Shard, 1, 1);
        let word = self.0.load(Ordering::Relaxed);
        let blocking = if planted(Fault::WriterIgnoresReaders) { WRITER } else { WRITER | READERS };
        if word & blocking == 0
            && self.0.compare_exchange_weak(word, word | WRITER, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            // Optimistic readers must not see this section's writes before they can see the writer
            // bit.
            fence(Ordering::Release);
            return false;
        }
        self.wait_exclusive()
    }

    /// Ends exclusive access and increments the version.
    #[inline]
    pub fn unlock_exclusive(&self) {
        note(Line::Shard, 0, 1);
        let step = if planted(Fault::VersionStays) { 0 } else { VERSION };
        let before = self.0.fetch_add(step.wrapping_sub(WRITER), Ordering::Release);
        debug_assert!(before & WRITER != 0, "the lock is not held exclusively");
        if before & PARKED != 0 {
            self.wake();
        }
    }

    /// Waits for shared access. Returns true if the thread had to wait.
    #[inline]
    pub fn lock_shared(&self) -> bool {
        note(Line::Shard, 1, 1);
        let word = self.0.load(Ordering::Relaxed);
        if word & (WRITER | CLAIMED) == 0
            && self.0.compare_exchange_weak(word, word + READER, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            return false;
        }
        self.wait_shared()
    }

    /// Ends shared access.
    #[inline]
    pub fn unlock_shared(&self) {
        note(Line::Shard, 0, 1);
        let before = self.0.fetch_sub(READER, Ordering::Release);
        debug_assert!(before & READERS != 0, "the lock is not held shared");
        if before & PARKED != 0 && before & READERS == READER {
            self.wake();
        }
    }

    /// Starts an optimistic read. Returns the version, or `None` while a writer is inside.
    #[inline]
    pub fn begin(&self) -> Option<Version> {
        let word = self.0.load(Ordering::Acquire);
        (word & WRITER == 0).then_some(Version(word & !PASSING))
    }

    /// True if no exclusive section has begun since `version` was read.
    #[inline]
    pub fn unchanged(&self, version: Version) -> bool {
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) & !PASSING == version.0
    }

    /// True while a thread holds the lock exclusively (for debug assertions).
    pub fn is_locked_exclusive(&self) -> bool {
        self.0.load(Ordering::Relaxed) & WRITER != 0
    }

    /// True while a thread holds the lock, shared or exclusively (for debug assertions).
    pub fn is_locked(&self) -> bool {
        self.0.load(Ordering::Relaxed) & (WRITER | READERS) != 0
    }

    #[cold]
    fn wait_exclusive(&self) -> bool {
        let mut rounds = 0;
        loop {
            let word = self.0.load(Ordering::Relaxed);
            if word & (WRITER | READERS) == 0 {
                // Other waiting writers will claim it again in their next round.
                let ours = (word & !CLAIMED) | WRITER;
                if self.0.compare_exchange_weak(word, ours, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    fence(Ordering::Release);
                    return true;
                }
                continue;
            }
            if word & CLAIMED == 0 {
                self.0.fetch_or(CLAIMED, Ordering::Relaxed);
            }
            self.pause(&mut rounds, WRITER | READERS);
        }
    }

    #[cold]
    fn wait_shared(&self) -> bool {
        let (mut rounds, mut courtesy) = (0, COURTESY);
        loop {
            let word = self.0.load(Ordering::Relaxed);
            if word & WRITER != 0 {
                self.pause(&mut rounds, WRITER);
            } else if word & CLAIMED != 0 && courtesy > 0 {
                courtesy -= 1;
                if courtesy >= YIELDS { spin_loop() } else { yield_now() }
            } else if self
                .0
                .compare_exchange_weak(word, word + READER, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                return true;
            }
        }
    }

    /// One round of waiting until all `blocking` bits are clear: spin, then yield, then sleep.
    fn pause(&self, rounds: &mut u32, blocking: u64) {
        *rounds += 1;
        if *rounds <= SPINS {
            spin_loop();
        } else if *rounds <= SPINS + YIELDS {
            yield_now();
        } else {
            self.park(blocking);
            // After a wake-up the lock was free a moment ago, so spinning is worthwhile again.
            *rounds = 0;
        }
    }

    fn park(&self, blocking: u64) {
        let queue = self.queue();
        let mut guard = lock(&queue.0);
        loop {
            let word = self.0.load(Ordering::Relaxed);
            if word & blocking == 0 {
                return;
            }
            if word & PARKED != 0
                || self.0.compare_exchange(word, word | PARKED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                break;
            }
        }
        // The bit was set under the queue's mutex and is cleared under it too: no wake-up is lost.
        guard = queue.1.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner());
        drop(guard);
    }

    #[cold]
    fn wake(&self) {
        if planted(Fault::NobodyIsWoken) {
            return;
        }
        let queue = self.queue();
        let guard = lock(&queue.0);
        self.0.fetch_and(!PARKED, Ordering::Relaxed);
        queue.1.notify_all();
        drop(guard);
    }

    #[cfg(not(feature = "model"))]
    fn queue(&self) -> &'static (Mutex<()>, Condvar) {
        static QUEUES: [(Mutex<()>, Condvar); 64] = [const { (Mutex::new(()), Condvar::new()) }; 64];
        &QUEUES[(self as *const Self as usize >> 7) % QUEUES.len()]
    }

    // The model checker recreates lazy statics for each execution.
    #[cfg(feature = "model")]
    fn queue(&self) -> &'static (Mutex<()>, Condvar) {
        shuttle::lazy_static! {
            static ref QUEUE: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
        }
        &QUEUE
    }
}

#[cfg(all(test, not(feature = "model")))]
mod tests {
    use super::*;
    use std::cell::UnsafeCell;
    use std::sync::Arc;

    struct Guarded(ShardLock, UnsafeCell<[u64; 2]>);
    // SAFETY: the cell is only accessed under the lock.
    unsafe impl Sync for Guarded {}

    const ROUNDS: u64 = if cfg!(miri) { 200 } else { 20_000 };

    #[test]
    fn writers_exclude_each_other_and_readers() {
        let guarded = Arc::new(Guarded(ShardLock::default(), UnsafeCell::new([0; 2])));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let guarded = Arc::clone(&guarded);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        if round % 3 == 0 {
                            guarded.0.lock_shared();
                            // SAFETY: shared access under the lock.
                            let pair = unsafe { *guarded.1.get() };
                            guarded.0.unlock_shared();
                            assert_eq!(pair[0], pair[1]);
                        } else {
                            guarded.0.lock_exclusive();
                            // SAFETY: exclusive access under the lock.
                            unsafe { (*guarded.1.get()).iter_mut().for_each(|half| *half += 1) };
                            guarded.0.unlock_exclusive();
                        }
                    }
                });
            }
        });
        // SAFETY: all threads have ended.
        assert_eq!(unsafe { (*guarded.1.get())[0] }, 4 * (ROUNDS - ROUNDS.div_ceil(3)));
    }

    #[test]
    fn a_version_is_void_during_and_after_an_exclusive_section() {
        let shard = ShardLock::default();
        let version = shard.begin().expect("no writer holds the lock");
        shard.lock_shared();
        assert!(shard.unchanged(version), "readers do not invalidate a version");
        shard.unlock_shared();
        shard.lock_exclusive();
        assert!(shard.begin().is_none() && !shard.unchanged(version));
        shard.unlock_exclusive();
        assert!(!shard.unchanged(version));
    }
}
