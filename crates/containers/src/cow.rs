// SPDX-License-Identifier: BSD-3-Clause
//! Copy on write: a collection shared with a snapshot writer as it was at one moment, without
//! copying it.
//!
//! A large collection stands in many blocks of memory. To share it is to make a second head for the
//! same blocks; where blocks lead to others (nodes of a tree, chunks of a list of blocks) only the
//! first ones are touched, which takes some nanoseconds, where copying or encoding all of it would
//! take as much time as it has content. From then on such a block belongs to both: neither changes
//! it. Whoever wants to change it copies that block first (and not what it leads to, which belongs
//! to both from then on), and whoever is done with it lets go of it, so that it belongs to the
//! other alone.
//!
//! [`CowBox`] is such a block for any type: it counts its owners. Blocks of bytes
//! ([`ThinBlock`](crate::thin_block::ThinBlock)) have a mark of one bit in their own header
//! instead, and so two owners at most: one that has two is copied for a third.
//!
//! Invariants (kept here alone): the pointer came from a leaked box; the count is the number of
//! pointers to the block; nobody writes while it is above one. Of two that give up at the same time
//! the second one knows by the count that it is alone, and whoever sees that it is alone sees
//! (acquire) that the others have done with the block (release).

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of shared blocks copied before a change.
static COPIED: AtomicUsize = AtomicUsize::new(0);

/// Bytes that were copied since [`forget_copies`], because a shared block was to be changed.
pub fn copied_bytes() -> usize {
    COPIED.load(Ordering::Relaxed)
}

/// Resets the count: nothing is shared any more.
pub fn forget_copies() {
    COPIED.store(0, Ordering::Relaxed);
}

pub fn note_copy(bytes: usize) {
    COPIED.fetch_add(bytes, Ordering::Relaxed);
}

struct Block<T> {
    owners: AtomicUsize,
    value: T,
}

/// A box with one owner or, while it is shared, several: none of them changes it then. A clone is
/// another owner; it copies nothing.
pub struct CowBox<T>(NonNull<Block<T>>, PhantomData<Block<T>>);

// SAFETY: a shared block is read by several and written by none; any other block belongs to one.
unsafe impl<T: Send + Sync> Send for CowBox<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for CowBox<T> {}

impl<T> CowBox<T> {
    pub fn new(value: T) -> CowBox<T> {
        let block = Box::new(Block { owners: AtomicUsize::new(1), value });
        CowBox(NonNull::from(Box::leak(block)), PhantomData)
    }

    /// What the allocator is asked for.
    pub const fn bytes() -> usize {
        size_of::<Block<T>>()
    }

    #[inline]
    fn block(&self) -> &Block<T> {
        // SAFETY: valid as long as one of its owners is there.
        unsafe { self.0.as_ref() }
    }

    /// True when nobody else has the block. Nobody can come to have it either while this owner is
    /// borrowed for itself alone.
    #[inline]
    fn is_own(&self) -> bool {
        self.block().owners.load(Ordering::Acquire) == 1
    }

    /// Where the count is that another owner changes, for a prefetch.
    pub fn count_address(&self) -> *const u8 {
        std::ptr::from_ref(&self.block().owners).cast()
    }
}

impl<T: Clone> CowBox<T> {
    #[cold]
    #[inline(never)]
    fn part(&mut self) {
        let copy = CowBox::new(self.block().value.clone());
        note_copy(Self::bytes());
        *self = copy;
    }

    /// The content, when this owner goes: a copy if there are others.
    pub fn into_value(self) -> T {
        if !self.is_own() {
            return self.block().value.clone();
        }
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: from a leaked box, and this was the last pointer, which is not used any more.
        unsafe { Box::from_raw(this.0.as_ptr()) }.value
    }
}

impl<T> Clone for CowBox<T> {
    fn clone(&self) -> CowBox<T> {
        self.block().owners.fetch_add(1, Ordering::Relaxed);
        CowBox(self.0, PhantomData)
    }
}

impl<T> std::ops::Deref for CowBox<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: valid as long as self, and written through unique references alone.
        unsafe { &self.0.as_ref().value }
    }
}

impl<T: Clone> std::ops::DerefMut for CowBox<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        if !self.is_own() {
            self.part();
        }
        // SAFETY: nobody else has the block now, and it is borrowed for itself alone.
        unsafe { &mut self.0.as_mut().value }
    }
}

impl<T> Drop for CowBox<T> {
    fn drop(&mut self) {
        if !self.is_own() && self.block().owners.fetch_sub(1, Ordering::AcqRel) > 1 {
            // It belongs to the others.
            return;
        }
        // SAFETY: from a leaked box, and this is the last pointer.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for CowBox<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: Default> Default for CowBox<T> {
    fn default() -> CowBox<T> {
        CowBox::new(T::default())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_shared_value_stays_and_is_freed_once() {
        let token = Arc::new(());
        let mut one = CowBox::new(vec![Arc::clone(&token)]);
        let shared = one.clone();
        one.push(Arc::clone(&token));
        assert_eq!((one.len(), shared.len()), (2, 1));
        drop(shared);
        assert_eq!(Arc::strong_count(&token), 3);
        // Nobody has it besides: it is changed where it is.
        let place: *const Vec<Arc<()>> = &*one;
        one.push(Arc::clone(&token));
        assert_eq!(place, &raw const *one);
        // The owner goes first.
        let shared = one.clone();
        drop(one);
        assert_eq!(shared.len(), 3);
        // Of several owners the one that changes it gets a copy.
        let (mut second, third) = (shared.clone(), shared.clone());
        assert_eq!(Arc::strong_count(&token), 4);
        second.clear();
        assert_eq!((second.len(), shared.len(), third.into_value().len()), (0, 3, 3));
        drop(second);
        assert_eq!(shared.into_value().len(), 3);
        assert_eq!(Arc::strong_count(&token), 1);
    }

    #[test]
    fn two_threads_part_without_a_leak_or_a_torn_read() {
        let token = Arc::new(());
        for round in 0..300 {
            let mut one = CowBox::new((vec![7u64; 100], Arc::clone(&token)));
            let shared = one.clone();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    let (numbers, _) = &*shared;
                    assert!(numbers.iter().all(|&number| number == 7));
                    drop(shared);
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
