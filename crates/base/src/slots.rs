// SPDX-License-Identifier: BSD-3-Clause
//! Per-thread slots, grown on demand.
//!
//! A thread is identified by its slot, a small number. The maximum number of threads is fixed at
//! start but the current number is not, so each possible thread has a place of two words, filled
//! when first needed. Contents are never dropped, because other threads may be reading them; the
//! next thread with the same slot reuses them.

use std::ops::Index;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One value per thread.
pub struct Slots<T> {
    places: Box<[OnceLock<Box<T>>]>,
    made: AtomicUsize,
}

impl<T> Slots<T> {
    /// Empty places for this many threads.
    pub fn new(most: usize) -> Slots<T> {
        Slots { places: (0..most).map(|_| OnceLock::new()).collect(), made: AtomicUsize::new(0) }
    }

    /// Fills the empty places among the first `count`.
    ///
    /// # Errors
    /// The first error of `make`. The places before the failed one are filled then.
    ///
    /// # Panics
    /// If there are fewer places.
    pub fn try_grow<E>(&self, count: usize, make: impl Fn(usize) -> Result<T, E>) -> Result<(), E> {
        for (slot, place) in self.places[..count].iter().enumerate() {
            if place.get().is_none() {
                // If two threads grow the same slot, the first one wins.
                let _ = place.set(Box::new(make(slot)?));
            }
            self.made.fetch_max(slot + 1, Ordering::Release);
        }
        Ok(())
    }

    /// Like [`Slots::try_grow`], for values whose creation cannot fail.
    pub fn grow(&self, count: usize, make: impl Fn(usize) -> T) {
        let made: Result<(), std::convert::Infallible> = self.try_grow(count, |slot| Ok(make(slot)));
        made.unwrap_or_else(|never| match never {});
    }

    /// Number of filled places: the largest number of threads so far.
    pub fn made(&self) -> usize {
        self.made.load(Ordering::Acquire)
    }

    /// The value of a slot, if it is filled.
    #[inline]
    pub fn get(&self, slot: usize) -> Option<&T> {
        self.places.get(slot)?.get().map(|thing| &**thing)
    }

    /// All values, by slot.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.places[..self.made()].iter().filter_map(|place| place.get().map(|thing| &**thing))
    }
}

/// The value of a filled slot.
impl<T> Index<usize> for Slots<T> {
    type Output = T;

    #[inline]
    fn index(&self, slot: usize) -> &T {
        self.places[slot].get().expect("the value is made before a thread gets the slot")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_slots_keeps_existing_entries() {
        let slots = Slots::new(8);
        assert_eq!((slots.made(), slots.iter().count()), (0, 0));
        slots.grow(2, |slot| slot * 10);
        slots.grow(1, |_| unreachable!("the slot is already filled"));
        assert_eq!(slots.try_grow(5, |slot| if slot < 3 { Ok(slot) } else { Err(slot) }), Err(3));
        assert_eq!((slots.made(), slots.iter().copied().collect::<Vec<_>>()), (3, vec![0, 10, 2]));
        assert_eq!((slots[1], slots.get(2), slots.get(3), slots.get(99)), (10, Some(&2), None, None));
    }
}
