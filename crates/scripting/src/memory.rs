// SPDX-License-Identifier: BSD-3-Clause
//! Memory of a Lua state: counted, and limited while a script runs.
//!
//! Lua jumps when an allocation fails, so the limit applies only while Lua itself runs: native
//! functions and the host lift it. Functions that could allocate much for little input check the
//! remaining room ([`Memory::has_room`]).

use std::alloc::{Layout, alloc, dealloc, realloc};
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use crate::watch::Watch;

/// Counter and limit, in bytes. Lua passes it to its allocator; the patched Lua reads the first
/// fields.
#[repr(C)]
pub(crate) struct Memory {
    /// The word that requests an interruption; lives as long as the watch.
    interrupt: *const AtomicU32,
    pub watch: Arc<Watch>,
    pub used: Cell<usize>,
    pub limit: Cell<usize>,
    /// The limit of the run, also while it is lifted.
    run_limit: Cell<usize>,
}

impl Memory {
    pub(crate) fn new() -> Memory {
        let watch = Watch::new();
        Memory {
            interrupt: watch.word(),
            watch,
            used: Cell::new(0),
            limit: Cell::new(usize::MAX),
            run_limit: Cell::new(usize::MAX),
        }
    }

    /// Sets the limit for a run.
    pub(crate) fn begin(&self, limit: usize) {
        self.limit.set(limit);
        self.run_limit.set(limit);
    }

    /// True if the run may allocate this many more bytes.
    #[inline]
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.used.get().saturating_add(bytes) <= self.run_limit.get()
    }

    /// Bytes that the run may still allocate; `None` if there is no limit.
    pub(crate) fn room(&self) -> Option<usize> {
        let limit = self.run_limit.get();
        (limit != usize::MAX).then(|| limit.saturating_sub(self.used.get()))
    }

    /// The limit of the run, also while it is lifted.
    pub(crate) fn run_limit(&self) -> usize {
        self.run_limit.get()
    }

    /// Lifts the limit and returns it.
    #[inline]
    pub(crate) fn lift(&self) -> usize {
        self.limit.replace(usize::MAX)
    }

    #[inline]
    pub(crate) fn restore(&self, limit: usize) {
        self.limit.set(limit);
    }
}

/// Alignment of all of Lua's allocations.
const ALIGN: usize = 16;

/// Lua's allocator.
///
/// # Safety
/// Called by Lua: `memory` points to a [`Memory`]; `block` was returned by this function and has
/// `old` bytes, or is null.
pub(crate) unsafe extern "C" fn allocate(
    memory: *mut c_void,
    block: *mut c_void,
    old: usize,
    new: usize,
) -> *mut c_void {
    let old = if block.is_null() { 0 } else { old };
    // SAFETY: guaranteed by the caller; the VM owns it and outlives its state.
    let memory = unsafe { &*memory.cast::<Memory>() };
    let used = memory.used.get().wrapping_sub(old).wrapping_add(new);
    if new > old && used > memory.limit.get() || new > isize::MAX as usize - ALIGN {
        return std::ptr::null_mut();
    }
    // SAFETY: sizes are nonzero where required, and layouts are those with which the blocks were
    // allocated.
    let block = unsafe {
        match (old, new) {
            (0, 0) => std::ptr::null_mut(),
            (0, new) => alloc(Layout::from_size_align_unchecked(new, ALIGN)),
            (old, 0) => {
                dealloc(block.cast(), Layout::from_size_align_unchecked(old, ALIGN));
                std::ptr::null_mut()
            }
            (old, new) => realloc(block.cast(), Layout::from_size_align_unchecked(old, ALIGN), new),
        }
    };
    if new == 0 || !block.is_null() {
        memory.used.set(used);
    }
    block.cast()
}
