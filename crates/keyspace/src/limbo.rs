// SPDX-License-Identifier: BSD-3-Clause
//! Limbo: unlinked memory that a lock-free reader may still see, kept until the gate's epoch
//! proves that no such reader is left.
//!
//! Each executing thread has a limbo. With a single executing thread memory is freed immediately.
//! Values that are expensive to free (a large collection or blob) go to the lazy-free thread
//! instead of being freed on the request path.

use std::alloc::{Layout, dealloc};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;

use braid_base::gate::{EPOCHS, Gate};

use crate::entry::{Entry, ValueRef};
use crate::lazy_free::{Garbage, LazyFree};

/// A release of more allocations than this, or of a blob larger than [`LAZY_BYTES`], is left to
/// the background thread. Freeing a smaller blob only marks its pages as unused, which is faster
/// than waking that thread; blobs of 8 MiB and more jemalloc gives back to the system at once.
const LAZY_EFFORT: usize = 64;
const LAZY_BYTES: usize = 4 << 20;

/// Number of waiting blocks from which on [`Limbo::reclaim`] frees memory.
const RECLAIM_AT: usize = 64;
/// An entry with a blob of this capacity does not wait for others.
const LARGE_BYTES: usize = 64 * 1024;

enum Retired {
    Entry(u64),
    /// Goes to the lazy-free thread; already counted as pending.
    Heavy(u64),
    Shell(u64),
    Block(NonNull<u8>, Layout),
}

// SAFETY: retired memory is reachable through this limbo alone (lock-free readers only read).
unsafe impl Send for Limbo {}

/// True if an entry is so expensive to release that the background thread does it.
#[inline]
pub(crate) fn is_heavy(entry: Entry<'_>) -> bool {
    match entry.value() {
        ValueRef::Object(object) => object.release_effort() > LAZY_EFFORT,
        ValueRef::Blob(blob) => blob.capacity() > LAZY_BYTES,
        _ => false,
    }
}

/// True if an entry holds so much memory that it is freed as soon as possible.
#[inline]
fn is_large(entry: Entry<'_>) -> bool {
    matches!(entry.value(), ValueRef::Blob(blob) if blob.capacity() >= LARGE_BYTES)
}

/// Unlinked memory of one executing thread.
pub struct Limbo {
    gate: Arc<Gate>,
    lazy: Arc<LazyFree>,
    waiting: VecDeque<(u64, Retired)>,
    /// Much memory waits, though perhaps in few blocks.
    has_large: bool,
}

impl Limbo {
    /// A limbo for one of the gate's threads. While that is the only thread, memory is freed
    /// immediately.
    pub fn new(gate: Arc<Gate>, lazy: Arc<LazyFree>) -> Limbo {
        Limbo { gate, lazy, waiting: VecDeque::new(), has_large: false }
    }

    /// Releases an entry and its value once no reader can see them any more.
    ///
    /// # Safety
    /// The entry is unlinked from its table and retired once.
    #[inline]
    pub unsafe fn retire_entry(&mut self, entry: Entry<'_>) {
        if is_heavy(entry) {
            self.lazy.announce(1);
            if self.gate.is_solo() {
                self.lazy.send_announced(Garbage::Entry(entry.address()));
            } else {
                self.has_large = true;
                self.push(Retired::Heavy(entry.address()));
            }
        } else if self.gate.is_solo() {
            // SAFETY: no other thread executes; the caller unlinked it.
            unsafe { entry.release() };
        } else {
            self.has_large |= is_large(entry);
            self.push(Retired::Entry(entry.address()));
        }
    }

    /// Deallocates an entry whose value was moved out.
    ///
    /// # Safety
    /// As for `retire_entry`, after `Entry::move_to`.
    #[inline]
    pub unsafe fn retire_shell(&mut self, entry: Entry<'_>) {
        if self.gate.is_solo() {
            // SAFETY: as above.
            unsafe { entry.release_shell() };
        } else {
            self.push(Retired::Shell(entry.address()));
        }
    }

    /// Deallocates a block of a table.
    ///
    /// # Safety
    /// The block was allocated with `layout`, is unlinked, and is retired once.
    pub unsafe fn retire_block(&mut self, block: NonNull<u8>, layout: Layout) {
        if self.gate.is_solo() {
            // SAFETY: as above.
            unsafe { dealloc(block.as_ptr(), layout) };
        } else {
            self.push(Retired::Block(block, layout));
        }
    }

    #[inline]
    fn push(&mut self, retired: Retired) {
        self.waiting.push_back((self.gate.epoch(), retired));
    }

    /// Frees memory that has waited long enough, once enough of it has accumulated. Called between
    /// batches, outside the gate.
    #[inline]
    pub fn reclaim(&mut self) {
        if self.has_large {
            self.reclaim_large();
        } else if self.waiting.len() >= RECLAIM_AT {
            self.reclaim_now();
        }
    }

    /// Frees all if no other thread is in a batch that may see it; otherwise, some batches later.
    #[cold]
    fn reclaim_large(&mut self) {
        for _ in 0..EPOCHS {
            self.reclaim_now();
        }
        self.has_large = !self.waiting.is_empty();
    }

    /// Frees memory that has waited long enough. The thread should be outside the gate: its own
    /// presence inside delays the rest.
    pub fn reclaim_now(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let epoch = self.gate.try_advance();
        while let Some((since, _)) = self.waiting.front()
            && since + EPOCHS <= epoch
        {
            match self.waiting.pop_front().expect("the front was just checked").1 {
                // SAFETY: enough epochs have passed since it was unlinked, so no reader is left
                // (see `Gate`).
                Retired::Entry(address) => unsafe { Entry::from_address(address).release() },
                Retired::Heavy(address) => self.lazy.send_announced(Garbage::Entry(address)),
                // SAFETY: as above.
                Retired::Shell(address) => unsafe { Entry::from_address(address).release_shell() },
                // SAFETY: as above.
                Retired::Block(block, layout) => unsafe { dealloc(block.as_ptr(), layout) },
            }
        }
    }

    /// True if no memory is waiting.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The lazy-free thread's queue.
    pub fn lazy_free(&self) -> &Arc<LazyFree> {
        &self.lazy
    }
}

impl Drop for Limbo {
    fn drop(&mut self) {
        while !self.waiting.is_empty() {
            self.reclaim_now();
            braid_base::sync::yield_now();
        }
    }
}
