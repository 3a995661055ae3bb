// SPDX-License-Identifier: BSD-3-Clause
//! A table's side of the index of collections whose members expire (`member_expiry_index.rs`):
//! allocated for the first such collection and freed with the last.
//!
//! HOT PATH: in a table without such collections a removal costs one load and one test.

use std::sync::atomic::Ordering::Relaxed;

use super::Table;
use crate::member_expiry_index::MemberExpiryIndex;

impl Table {
    /// A time before which no member of a collection expires; `None` if none has an expiry.
    #[inline]
    pub fn next_member_expiry(&self) -> Option<i64> {
        match self.next_member_expiry.load(Relaxed) {
            0 => None,
            at => Some(at),
        }
    }

    /// Number of collections whose members have, or recently had, an expiry.
    ///
    /// # Safety
    /// The caller holds the shard.
    pub unsafe fn expiring_collections(&self) -> usize {
        // SAFETY: the pointer is null or this table's leaked box, changed only under the exclusive
        // lock.
        unsafe { self.members.load(Relaxed).as_ref() }.map_or(0, MemberExpiryIndex::len)
    }

    /// Records that the earliest expiry of a member of the collection at a key is `at`.
    ///
    /// # Safety
    /// The caller holds the shard exclusively.
    pub unsafe fn note_members(&self, hash: u64, at: i64) {
        if self.members.load(Relaxed).is_null() {
            self.members.store(Box::leak(Box::default()), Relaxed);
        }
        // SAFETY: guaranteed by the caller.
        unsafe { self.with_members(|due| due.note(hash, at)) };
    }

    /// Removes a key from the index.
    ///
    /// # Safety
    /// The caller holds the shard exclusively.
    #[inline]
    pub unsafe fn forget_members(&self, hash: u64) {
        if self.next_member_expiry.load(Relaxed) != 0 {
            // SAFETY: guaranteed by the caller.
            unsafe { self.with_members(|due| due.forget(hash)) };
        }
    }

    /// Removes and returns the hash of a key whose collection may have due members.
    ///
    /// # Safety
    /// The caller holds the shard exclusively.
    pub unsafe fn take_due_members(&self, now_ms: i64) -> Option<u64> {
        self.next_member_expiry().filter(|at| *at < now_ms)?;
        // SAFETY: guaranteed by the caller.
        unsafe { self.with_members(|due| due.take(now_ms)) }.flatten()
    }

    /// # Safety
    /// The caller holds the shard exclusively.
    #[cold]
    unsafe fn with_members<R>(&self, work: impl FnOnce(&mut MemberExpiryIndex) -> R) -> Option<R> {
        let members = self.members.load(Relaxed);
        // SAFETY: null or this table's leaked box; exclusive by the caller.
        let due = unsafe { members.as_mut() }?;
        let result = work(due);
        let next = due.next();
        // 0 means none; every time up to 1 ms after the epoch is equally in the past.
        self.next_member_expiry.store(next.map_or(0, |at| at.max(1)), Relaxed);
        if next.is_none() {
            self.members.store(std::ptr::null_mut(), Relaxed);
            // SAFETY: leaked by `note_members`, and no longer reachable.
            drop(unsafe { Box::from_raw(members) });
        }
        Some(result)
    }

    /// Frees the index together with its table.
    pub(super) fn drop_members(&mut self) {
        let members = std::mem::replace(self.members.get_mut(), std::ptr::null_mut());
        if !members.is_null() {
            // SAFETY: leaked by `note_members`, and no longer reachable.
            drop(unsafe { Box::from_raw(members) });
        }
    }
}
