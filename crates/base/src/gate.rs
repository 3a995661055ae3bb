//! The gate: knows which threads are inside a batch, stops the world for whoever needs all of it, and tells
//! when memory that lock-free readers may still see can be freed.
//!
//! Each executing thread is *inside* from the start of a batch to its end; it says so in a padded word of its
//! own, so entering costs a store and a fence and shares nothing. Whoever needs the whole world closes the
//! gate, waits until all others are outside, works without locks, and opens it.
//!
//! The same word carries the epoch in which the thread entered. The epoch only moves on when every thread
//! inside has entered in the current one, so while somebody who entered in epoch `e` is inside it is at most
//! `e + 1`. Memory whose unlinking thread (inside, or with the world stopped) then read epoch `e` can be
//! freed at `e + 3`, [`EPOCHS`] later: that thread's store may become visible to others after it read the
//! epoch, though before it leaves, thus in epoch `e + 1` at the latest; a reader that entered in `e + 1` and
//! still found the memory keeps the epoch at `e + 2` at most until it leaves.
//!
//! A thread must never close the gate while inside (it would wait for itself): [`Gate::close`] takes the
//! thread's own slot and steps outside first.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use crate::sync::{Condvar, Fault, Mutex, MutexGuard, lock, planted, spin_loop, yield_now};
use crossbeam_utils::CachePadded;

/// Memory unlinked in epoch `e` may be freed in epoch `e + EPOCHS`.
pub const EPOCHS: u64 = 3;

/// The gate of one engine, with a slot for each executing thread.
pub struct Gate {
    closed: CachePadded<AtomicBool>,
    epoch: CachePadded<AtomicU64>,
    slots: Box<[CachePadded<AtomicU64>]>,
    /// Held by the one who has closed the gate.
    closer: Mutex<()>,
    waiting: Mutex<()>,
    opened: Condvar,
}

/// Proof that the world is stopped; opens the gate when dropped.
pub struct World<'a> {
    gate: &'a Gate,
    /// Entered again when the gate opens.
    slot: Option<usize>,
    _closer: MutexGuard<'a, ()>,
}

impl Gate {
    /// A gate for threads that use slots `0..slots`.
    pub fn new(slots: usize) -> Gate {
        Gate {
            closed: CachePadded::new(AtomicBool::new(false)),
            epoch: CachePadded::new(AtomicU64::new(1)),
            slots: (0..slots).map(|_| CachePadded::new(AtomicU64::new(0))).collect(),
            closer: Mutex::new(()),
            waiting: Mutex::new(()),
            opened: Condvar::new(),
        }
    }

    /// Begins a batch on the thread that owns `slot`; waits while the gate is closed.
    #[inline]
    pub fn enter(&self, slot: usize) {
        loop {
            let epoch = self.epoch.load(Ordering::Relaxed);
            self.slots[slot].store(epoch << 1 | 1, Ordering::Relaxed);
            // Either the closer sees us inside, or we see the gate closed.
            fence(Ordering::SeqCst);
            // Acquire: what was done with the world stopped happened before it was opened.
            if !self.closed.load(Ordering::Acquire) || planted(Fault::EnterUnchecked) {
                return;
            }
            self.leave(slot);
            self.wait_until_open();
        }
    }

    /// Ends a batch.
    #[inline]
    pub fn leave(&self, slot: usize) {
        self.slots[slot].store(0, Ordering::Release);
    }

    /// True while the thread that owns `slot` is inside.
    pub fn is_inside(&self, slot: usize) -> bool {
        self.slots[slot].load(Ordering::Relaxed) != 0
    }

    #[cold]
    fn wait_until_open(&self) {
        let mut guard = lock(&self.waiting);
        while self.closed.load(Ordering::Acquire) {
            guard = self.opened.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// Stops the world. `slot` is the caller's own when it is an executing thread in the middle of a batch.
    pub fn close(&self, slot: Option<usize>) -> World<'_> {
        let slot = slot.filter(|&slot| self.is_inside(slot));
        if let Some(slot) = slot.filter(|_| !planted(Fault::CloserStaysInside)) {
            self.leave(slot);
        }
        let closer = lock(&self.closer);
        self.closed.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        for other in &self.slots {
            let mut rounds = 0u32;
            while other.load(Ordering::Acquire) != 0 {
                rounds += 1;
                if rounds < 200 && !cfg!(feature = "model") {
                    spin_loop();
                } else if rounds < 400 || cfg!(feature = "model") {
                    yield_now();
                } else {
                    std::thread::sleep(std::time::Duration::from_micros(50));
                }
            }
        }
        World { gate: self, slot, _closer: closer }
    }

    /// The epoch that memory unlinked now belongs to.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Moves the epoch on if every thread inside entered in the current one. Returns the epoch as it is then.
    pub fn try_advance(&self) -> u64 {
        let epoch = self.epoch.load(Ordering::Relaxed);
        fence(Ordering::SeqCst);
        for slot in &self.slots {
            let word = slot.load(Ordering::Relaxed);
            if word != 0 && word >> 1 != epoch && !planted(Fault::EpochIgnoresReaders) {
                return epoch;
            }
        }
        fence(Ordering::Acquire);
        match self.epoch.compare_exchange(epoch, epoch + 1, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => epoch + 1,
            Err(now) => now,
        }
    }
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        {
            let _guard = lock(&self.gate.waiting);
            self.gate.closed.store(false, Ordering::Release);
            self.gate.opened.notify_all();
        }
        if let Some(slot) = self.slot {
            // The closer mutex is still ours, but the gate is open: nobody can be waiting for this slot.
            let epoch = self.gate.epoch.load(Ordering::Relaxed);
            self.gate.slots[slot].store(epoch << 1 | 1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
    }
}

#[cfg(all(test, not(feature = "model")))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn nobody_is_inside_while_the_world_is_stopped() {
        let gate = Gate::new(3);
        let inside = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for slot in 0..3 {
                let (gate, inside) = (&gate, &inside);
                scope.spawn(move || {
                    for round in 0..5_000 {
                        gate.enter(slot);
                        inside.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        if round % 100 == 0 {
                            let world = gate.close(Some(slot));
                            assert_eq!(inside.load(Ordering::SeqCst), 0);
                            drop(world);
                            assert!(gate.is_inside(slot));
                        }
                        gate.leave(slot);
                    }
                });
            }
        });
    }

    #[test]
    fn the_epoch_waits_for_a_thread_that_stays_inside() {
        let gate = Gate::new(2);
        gate.enter(0);
        let start = gate.epoch();
        assert_eq!(gate.try_advance(), start + 1);
        assert_eq!(gate.try_advance(), start + 1, "slot 0 entered an epoch ago");
        gate.leave(0);
        assert_eq!(gate.try_advance(), start + 2);
    }
}
