// SPDX-License-Identifier: BSD-3-Clause
//! Copy on write: shares a collection's current state with a snapshot writer without copying it.
//!
//! A large collection consists of many memory blocks. Sharing it makes a second head for the same
//! blocks; where blocks refer to others (tree nodes, chunks of a list of blocks) only the top ones
//! are touched. This takes nanoseconds, while copying or encoding would take time proportional to
//! the content. From then on such a block has two owners, and neither changes it. An owner that
//! wants to change a block copies it first (but not the blocks that it refers to, which then have
//! two owners); an owner that no longer needs a block releases it, which leaves it to the other
//! owner alone.
//!
//! [`CowBox`] is such a block for any type: it counts its owners. Blocks of bytes
//! ([`ThinBlock`](crate::thin_block::ThinBlock)) have a one-bit mark in their own header instead,
//! and therefore at most two owners: for a third owner the block is copied.
//!
//! Invariants (maintained only in this file): the pointer came from a leaked box; the count is the
//! number of pointers to the block; no owner writes while the count is above one. If two owners
//! release at the same time, the second sees from the count that it is the last; and an owner that
//! sees that it is the only one also sees (acquire) all of the other owners' accesses to the block
//! (release).

use std::alloc::Layout;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use braid_base::relocation::Mover;

/// Bytes of shared blocks copied before a change.
static COPIED: AtomicUsize = AtomicUsize::new(0);

/// Bytes of shared blocks copied before a change, since [`forget_copies`].
pub fn copied_bytes() -> usize {
    COPIED.load(Ordering::Relaxed)
}

/// Resets the count; called when no block is shared any more.
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

/// A box with one owner or, while it is shared, with several owners, none of which changes it. A
/// clone is another owner and copies nothing.
pub struct CowBox<T>(NonNull<Block<T>>, PhantomData<Block<T>>);

// SAFETY: a shared block is only read; any other block has one owner.
unsafe impl<T: Send + Sync> Send for CowBox<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for CowBox<T> {}

impl<T> CowBox<T> {
    pub fn new(value: T) -> CowBox<T> {
        let block = Box::new(Block { owners: AtomicUsize::new(1), value });
        CowBox(NonNull::from(Box::leak(block)), PhantomData)
    }

    /// Size of the allocation, in bytes.
    pub const fn bytes() -> usize {
        size_of::<Block<T>>()
    }

    #[inline]
    fn block(&self) -> &Block<T> {
        // SAFETY: valid as long as it has an owner.
        unsafe { self.0.as_ref() }
    }

    /// Number of owners. None can appear while this one is borrowed mutably.
    #[inline]
    pub fn owners(&self) -> usize {
        self.block().owners.load(Ordering::Acquire)
    }

    /// True if this is the only owner.
    #[inline]
    fn is_own(&self) -> bool {
        self.owners() == 1
    }

    /// The content, for changing, if this is the only owner.
    pub fn own_mut(&mut self) -> Option<&mut T> {
        if !self.is_own() {
            return None;
        }
        // SAFETY: this is the only owner, and it is borrowed mutably.
        Some(unsafe { &mut self.0.as_mut().value })
    }

    /// Moves the block to a better place, unless it has other owners.
    pub fn relocate(&mut self, mover: &mut Mover) {
        if !self.is_own() {
            return;
        }
        // SAFETY: from a leaked box; this is the only owner, and it is borrowed mutably.
        if let Some(moved) = unsafe { mover.relocate(self.0.cast(), Layout::new::<Block<T>>()) } {
            self.0 = moved.cast();
        }
    }

    /// The address of the owner count, which other owners change; for a prefetch.
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

    /// Consumes this owner and returns the content: a copy if the block has other owners.
    pub fn into_value(self) -> T {
        if !self.is_own() {
            return self.block().value.clone();
        }
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: from a leaked box, and this was the last pointer, which is no longer used.
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
        // SAFETY: valid as long as self, and written only through unique references.
        unsafe { &self.0.as_ref().value }
    }
}

impl<T: Clone> std::ops::DerefMut for CowBox<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        if !self.is_own() {
            self.part();
        }
        // SAFETY: this is the only owner, and it is borrowed mutably.
        unsafe { &mut self.0.as_mut().value }
    }
}

impl<T> Drop for CowBox<T> {
    fn drop(&mut self) {
        if !self.is_own() && self.block().owners.fetch_sub(1, Ordering::AcqRel) > 1 {
            // The block belongs to the other owners.
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
        // With a single owner the content is changed in place.
        let place: *const Vec<Arc<()>> = &*one;
        one.push(Arc::clone(&token));
        assert_eq!(place, &raw const *one);
        // The original owner is dropped first.
        let shared = one.clone();
        drop(one);
        assert_eq!(shared.len(), 3);
        // Of several owners, the one that changes the content gets a copy.
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
