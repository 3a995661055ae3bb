// SPDX-License-Identifier: BSD-3-Clause
//! The gate: tracks which threads are inside a batch, stops the world for a thread that needs the
//! whole keyspace, and decides when memory that lock-free readers may still see can be freed.
//!
//! Each executing thread is *inside* from the start of a batch to its end. It records this in its
//! own padded word, so entering costs a store and a fence and shares no cache line. A thread that
//! needs the whole world closes the gate, waits until all others are outside, works without locks,
//! and opens the gate.
//!
//! The same word carries the epoch in which the thread entered. The epoch advances only when every
//! thread inside has entered in the current epoch, so while a thread that entered in epoch `e` is
//! inside, the epoch is at most `e + 1`. If the thread that unlinks memory (inside, or with the
//! world stopped) then reads epoch `e`, the memory can be freed at `e + 3`, [`EPOCHS`] later. The
//! unlinking store may become visible to other threads after the thread read the epoch, but before
//! it leaves, thus in epoch `e + 1` at the latest; a reader that entered in `e + 1` and still
//! found the memory keeps the epoch at `e + 2` or below until it leaves.
//!
//! A thread must never close the gate while inside (it would wait for itself): [`Gate::stop_world`]
//! takes the thread's own slot and leaves the gate first.

use crate::sharing::{Line, note};
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
use crate::sync::{Condvar, Fault, Mutex, lock, planted, spin_loop, yield_now};
use crossbeam_utils::CachePadded;

/// Memory unlinked in epoch `e` may be freed in epoch `e + EPOCHS`.
pub const EPOCHS: u64 = 3;

/// The gate of an engine, with one slot per executing thread.
pub struct Gate {
    closed: CachePadded<AtomicBool>,
    /// Number of times the gate was closed.
    closings: CachePadded<AtomicU64>,
    epoch: CachePadded<AtomicU64>,
    slots: Box<[CachePadded<AtomicU64>]>,
    /// Number of executing threads: the slots from here to [`Gate::extra`] are unused and not
    /// examined.
    threads: AtomicUsize,
    /// The first slot that does not belong to an executing thread.
    extra: usize,
    /// True while a thread has closed the gate, or is about to.
    waiting: Mutex<bool>,
    opened: Condvar,
    /// The expected duration of the closing, as a [`Wait`].
    wait: AtomicU8,
    /// The slot of the executing thread that closed the gate, plus 1; 0 = none. For monitoring.
    holder: AtomicUsize,
}

/// Proof that the world is stopped; opens the gate when dropped.
pub struct World<'a> {
    gate: &'a Gate,
    /// The slot to enter again when the gate opens.
    slot: Option<usize>,
}

/// The expected duration of a closing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Wait {
    /// As short as a command: worth waiting for.
    Short,
    /// Long: threads about to enter should serve their clients in the meantime.
    Long,
    /// Indefinitely: no thread should wait.
    Endless,
}

/// The outcome of an attempt to enter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entered {
    Inside,
    /// The gate is closed, and is expected to stay closed for long.
    Busy,
}

impl Gate {
    /// A gate for threads that use slots `0..slots`.
    pub fn new(slots: usize) -> Gate {
        Gate::with_room(slots, slots, 0)
    }

    /// A gate for threads that use slots `0..threads`; the number of threads may grow to `most`
    /// ([`Gate::set_threads`]). These slots are followed by `extra` slots for threads that do not
    /// execute commands.
    pub fn with_room(threads: usize, most: usize, extra: usize) -> Gate {
        assert!(threads <= most, "{threads} of {most} threads");
        Gate {
            closed: CachePadded::new(AtomicBool::new(false)),
            closings: CachePadded::new(AtomicU64::new(0)),
            epoch: CachePadded::new(AtomicU64::new(1)),
            slots: (0..most + extra).map(|_| CachePadded::new(AtomicU64::new(0))).collect(),
            threads: AtomicUsize::new(threads),
            extra: most,
            waiting: Mutex::new(false),
            opened: Condvar::new(),
            wait: AtomicU8::new(Wait::Short as u8),
            holder: AtomicUsize::new(0),
        }
    }

    /// Sets the number of threads. Stops the world to do so, so that every thread inside sees it.
    /// A thread may use a new slot once this has returned, and must have ended before its slot is
    /// removed. A thread inside the gate must not call it.
    pub fn set_threads(&self, threads: usize) {
        assert!(threads <= self.extra, "{threads} of {} threads", self.extra);
        let _world = self.stop_world(None);
        self.threads.store(threads, Ordering::Relaxed);
    }

    /// True while there is only one executing thread. This cannot change while any thread is
    /// inside.
    #[inline]
    pub fn is_solo(&self) -> bool {
        self.threads.load(Ordering::Relaxed) == 1
    }

    /// The slots in use. Read them after a fence: a thread enters through a new slot only after
    /// the count includes it.
    fn in_use(&self) -> impl Iterator<Item = &CachePadded<AtomicU64>> {
        let threads = self.threads.load(Ordering::Relaxed);
        self.slots[..threads].iter().chain(&self.slots[self.extra..])
    }

    /// Starts a batch on the thread that owns `slot`; waits while the gate is closed.
    #[inline]
    pub fn enter(&self, slot: usize) {
        while !self.try_enter(slot) {
            self.wait_until_open(None);
        }
    }

    /// Like [`Gate::enter`], but does not wait for a closing announced as long.
    #[inline]
    pub fn enter_unless_busy(&self, slot: usize) -> Entered {
        while !self.try_enter(slot) {
            if !self.wait_until_open(Some(Wait::Long)) {
                return Entered::Busy;
            }
        }
        Entered::Inside
    }

    #[inline]
    fn try_enter(&self, slot: usize) -> bool {
        let epoch = self.epoch.load(Ordering::Relaxed);
        self.slots[slot].store(epoch << 1 | 1, Ordering::Relaxed);
        // Either the closer sees us inside, or we see the gate closed.
        fence(Ordering::SeqCst);
        // Acquire: all work in the stopped world happened before the gate was opened.
        if !self.closed.load(Ordering::Acquire) || planted(Fault::EnterUnchecked) {
            return true;
        }
        self.leave(slot);
        false
    }

    /// Ends a batch.
    #[inline]
    pub fn leave(&self, slot: usize) {
        self.slots[slot].store(0, Ordering::Release);
    }

    /// True while the owner of `slot` is inside.
    pub fn is_inside(&self, slot: usize) -> bool {
        self.slots[slot].load(Ordering::Relaxed) != 0
    }

    fn is_to_last(&self, at_least: Option<Wait>) -> bool {
        at_least.is_some_and(|wait| self.wait.load(Ordering::Relaxed) >= wait as u8)
    }

    /// Waits until the gate is open, or until its closing is announced to last at least as long as
    /// `unless`. True if the gate is open.
    #[cold]
    fn wait_until_open(&self, unless: Option<Wait>) -> bool {
        let mut guard = lock(&self.waiting);
        while self.closed.load(Ordering::Acquire) {
            if self.is_to_last(unless) {
                return false;
            }
            guard = self.opened.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        true
    }

    /// Announces how long the gate will stay closed, so that waiting threads can give up.
    pub fn set_wait(&self, wait: Wait) {
        let _guard = lock(&self.waiting);
        self.wait.store(wait as u8, Ordering::Relaxed);
        self.opened.notify_all();
    }

    /// Stops the world. `slot` is the caller's own slot if the caller is an executing thread in
    /// the middle of a batch.
    pub fn stop_world(&self, slot: Option<usize>) -> World<'_> {
        let slot = self.step_outside(slot);
        self.take(None);
        self.hold(slot)
    }

    /// Like [`Gate::stop_world`], but returns `None` instead of waiting for an endless closing; the
    /// thread is then outside and must enter again.
    pub fn stop_world_unless_busy(&self, slot: usize) -> Option<World<'_>> {
        let slot = self.step_outside(Some(slot));
        self.take(Some(Wait::Endless)).then(|| self.hold(slot))
    }

    fn hold(&self, slot: Option<usize>) -> World<'_> {
        self.wait_until_alone();
        self.holder.store(slot.map_or(0, |slot| slot + 1), Ordering::Relaxed);
        World { gate: self, slot }
    }

    /// True while the owner of `slot` is inside, or works with the world stopped.
    pub fn is_at_work(&self, slot: usize) -> bool {
        self.is_inside(slot) || self.holder.load(Ordering::Relaxed) == slot + 1
    }

    /// Leaves the gate if this thread is inside; otherwise it would wait for itself.
    fn step_outside(&self, slot: Option<usize>) -> Option<usize> {
        let slot = slot.filter(|&slot| self.is_inside(slot));
        if let Some(slot) = slot.filter(|_| !planted(Fault::CloserStaysInside)) {
            self.leave(slot);
        }
        slot
    }

    /// Waits until no other thread has closed the gate, and closes it. False if that would take
    /// too long.
    fn take(&self, unless: Option<Wait>) -> bool {
        // The mutex, twice with the opening; `closed`; the number of closings.
        note(Line::Gate, 3, 4);
        let mut taken = lock(&self.waiting);
        while *taken {
            if self.is_to_last(unless) {
                return false;
            }
            taken = self.opened.wait(taken).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        *taken = true;
        self.closed.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        true
    }

    /// Waits until no thread is inside.
    fn wait_until_alone(&self) {
        for other in self.in_use() {
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
        // Only now: until it left, a thread inside may have stored the number with its copy of a
        // value.
        self.closings.store(self.closings.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Number of closings: while it is unchanged, the world has not been stopped. Read it inside
    /// the gate.
    #[inline]
    pub fn closings(&self) -> u64 {
        self.closings.load(Ordering::Relaxed)
    }

    /// The epoch of memory that is unlinked now.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Advances the epoch if every thread inside entered in the current epoch. Returns the
    /// resulting epoch.
    pub fn try_advance(&self) -> u64 {
        let epoch = self.epoch.load(Ordering::Relaxed);
        fence(Ordering::SeqCst);
        for slot in self.in_use() {
            let word = slot.load(Ordering::Relaxed);
            if word != 0 && word >> 1 != epoch && !planted(Fault::EpochIgnoresReaders) {
                return epoch;
            }
        }
        fence(Ordering::Acquire);
        note(Line::Epoch, 1, 1);
        match self.epoch.compare_exchange(epoch, epoch + 1, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => epoch + 1,
            Err(now) => now,
        }
    }
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        let mut taken = lock(&self.gate.waiting);
        if let Some(slot) = self.slot {
            // The gate is still closed by this thread, so no thread can be waiting for this slot.
            let epoch = self.gate.epoch.load(Ordering::Relaxed);
            self.gate.slots[slot].store(epoch << 1 | 1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
        *taken = false;
        self.gate.holder.store(0, Ordering::Relaxed);
        self.gate.wait.store(Wait::Short as u8, Ordering::Relaxed);
        self.gate.closed.store(false, Ordering::Release);
        self.gate.opened.notify_all();
    }
}

#[cfg(all(test, not(feature = "model")))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    /// Leaves the gate even if the thread panics, so that the others do not wait forever.
    struct Leaves<'a>(&'a Gate, usize);

    impl Drop for Leaves<'_> {
        fn drop(&mut self) {
            self.0.leave(self.1);
        }
    }

    #[test]
    fn no_thread_is_inside_while_the_world_is_stopped() {
        let gate = Gate::new(3);
        let inside = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for slot in 0..3 {
                let (gate, inside) = (&gate, &inside);
                scope.spawn(move || {
                    let _outside_in_the_end = Leaves(gate, slot);
                    for round in 0..if cfg!(miri) { 200 } else { 5_000 } {
                        gate.enter(slot);
                        inside.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        if round % 100 == 0 {
                            let world = gate.stop_world(Some(slot));
                            assert_eq!(inside.load(Ordering::SeqCst), 0);
                            assert!(gate.is_at_work(slot) && !gate.is_inside(slot));
                            // Other threads may briefly appear to be inside, until they find the
                            // gate closed.
                            assert_eq!(gate.holder.load(Ordering::Relaxed), slot + 1);
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
    fn threads_come_and_go() {
        let gate = Gate::with_room(1, 3, 1);
        assert!(gate.is_solo());
        std::thread::scope(|scope| {
            for slot in [0, 3] {
                let gate = &gate;
                scope.spawn(move || {
                    for round in 0..if cfg!(miri) { 100 } else { 2_000 } {
                        gate.enter(slot);
                        if round % 50 == 0 {
                            drop(gate.stop_world(Some(slot)));
                        }
                        gate.leave(slot);
                    }
                });
            }
            for _ in 0..50 {
                gate.set_threads(3);
                scope.spawn(|| gate.enter(2)).join().expect("the thread entered");
                let epoch = gate.epoch();
                assert!(
                    gate.try_advance() <= epoch + 1 && gate.try_advance() <= epoch + 1,
                    "slot 2 holds back the epoch"
                );
                gate.leave(2);
                gate.set_threads(1);
                assert!(gate.is_solo());
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
