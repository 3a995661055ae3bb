//! Collections lent to whoever writes a snapshot: what a large one had at one moment, without a copy of it.
//!
//! A large collection stands in many blocks of memory. To lend it is to make a second head for the same blocks, each of which is marked as lent; that
//! takes some nanoseconds a block, where copying or encoding it would take as much time as it has content. From then on a lent block belongs to
//! both: neither changes it. Whoever wants to change it copies that block first, and whoever is done with it takes the mark away, so that it
//! belongs to the other alone. There are never more than two: a block that is lent already is copied for a third.
//!
//! [`Lent`] is such a block for any type; blocks of bytes ([`ThinBlock`](crate::thin_block::ThinBlock)) have the mark in their own header.
//!
//! Invariants (kept here alone): the pointer came from a leaked box; while the mark is set there are exactly two pointers to the block, otherwise one;
//! nobody writes while it is set. The mark is taken away by an atomic exchange, so of two that give up at the same time the second one knows
//! that it is alone. Whoever sees the mark gone sees (acquire) that the other has done with the block (release).

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes of lent blocks that were copied since they were lent.
static COPIED: AtomicUsize = AtomicUsize::new(0);

/// Bytes that were copied since [`forget_copies`], because a block that is lent was to be changed.
pub fn copied_bytes() -> usize {
    COPIED.load(Ordering::Relaxed)
}

/// Counts anew: nothing is lent any more.
pub fn forget_copies() {
    COPIED.store(0, Ordering::Relaxed);
}

pub(crate) fn note_copy(bytes: usize) {
    COPIED.fetch_add(bytes, Ordering::Relaxed);
}

struct Block<T> {
    lent: AtomicBool,
    value: T,
}

/// A box that can be lent once at a time.
pub(crate) struct Lent<T>(NonNull<Block<T>>, PhantomData<Block<T>>);

// SAFETY: what is lent is read by two at most and written by none; a block that is not lent belongs to one.
unsafe impl<T: Send + Sync> Send for Lent<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Lent<T> {}

impl<T: Clone> Lent<T> {
    pub fn new(value: T) -> Lent<T> {
        let block = Box::new(Block { lent: AtomicBool::new(false), value });
        Lent(NonNull::from(Box::leak(block)), PhantomData)
    }

    /// What the allocator is asked for.
    pub const fn bytes() -> usize {
        size_of::<Block<T>>()
    }

    fn block(&self) -> &Block<T> {
        // SAFETY: valid as long as one of the two pointers is there.
        unsafe { self.0.as_ref() }
    }

    /// A second pointer to the same block; to a copy if there are two already.
    pub fn lend(&self) -> Lent<T> {
        if self.block().lent.swap(true, Ordering::Relaxed) {
            return Lent::new(self.block().value.clone());
        }
        Lent(self.0, PhantomData)
    }

    /// Where what [`Lent::lend`] looks at is, for a prefetch.
    pub fn mark_address(&self) -> *const u8 {
        std::ptr::from_ref(&self.block().lent).cast()
    }

    #[cold]
    fn part(&mut self) {
        let copy = Lent::new(self.block().value.clone());
        note_copy(Self::bytes());
        *self = copy;
    }
}

impl<T> std::ops::Deref for Lent<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: valid as long as self, and written through unique references alone.
        unsafe { &self.0.as_ref().value }
    }
}

impl<T: Clone> std::ops::DerefMut for Lent<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        if self.block().lent.load(Ordering::Acquire) {
            self.part();
        }
        // SAFETY: nobody else has the block now, and it is borrowed for itself alone.
        unsafe { &mut self.0.as_mut().value }
    }
}

impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        // SAFETY: valid: this pointer is one of those that keep it.
        let lent = unsafe { &self.0.as_ref().lent };
        if lent.load(Ordering::Acquire) && lent.swap(false, Ordering::AcqRel) {
            // It belongs to the other one.
            return;
        }
        // SAFETY: from a leaked box, and this is the last pointer.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl<T: Clone + Default> Default for Lent<T> {
    fn default() -> Lent<T> {
        Lent::new(T::default())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_is_lent_stays_and_goes_once() {
        let token = Arc::new(());
        let mut one = Lent::new(vec![Arc::clone(&token)]);
        let lent = one.lend();
        one.push(Arc::clone(&token));
        assert_eq!((one.len(), lent.len()), (2, 1));
        drop(lent);
        assert_eq!(Arc::strong_count(&token), 3);
        // Nobody has it besides: it is changed where it is.
        let place: *const Vec<Arc<()>> = &*one;
        one.push(Arc::clone(&token));
        assert_eq!(place, &raw const *one);
        // The owner goes first.
        let lent = one.lend();
        drop(one);
        assert_eq!(lent.len(), 3);
        // A third one gets a copy.
        let (second, third) = (lent.lend(), lent.lend());
        assert_eq!(Arc::strong_count(&token), 7);
        drop((lent, second, third));
        assert_eq!(Arc::strong_count(&token), 1);
    }

    #[test]
    fn two_threads_part_without_a_leak_or_a_torn_read() {
        let token = Arc::new(());
        for round in 0..300 {
            let mut one = Lent::new((vec![7u64; 100], Arc::clone(&token)));
            let lent = one.lend();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    let (numbers, _) = &*lent;
                    assert!(numbers.iter().all(|&number| number == 7));
                    drop(lent);
                });
                scope.spawn(move || {
                    if round % 3 > 0 {
                        let (numbers, _) = &mut *one;
                        numbers.fill(8);
                        assert!(numbers.iter().all(|&number| number == 8));
                    }
                    drop(one);
                });
            });
        }
        assert_eq!(Arc::strong_count(&token), 1);
    }
}
