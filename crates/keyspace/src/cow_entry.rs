// SPDX-License-Identifier: BSD-3-Clause
//! Entries as of a snapshot's cut. Large collections and strings share memory with the live entry
//! until it changes (copy on write).

use crate::entry::{Entry, Value, ValueRef};

/// A copy-on-write copy of an entry with a large collection or string. It belongs to no table and
/// shares memory with the original entry.
pub struct CowEntry(Entry<'static>);

// SAFETY: it owns the entry, which is unreachable otherwise; neither side changes memory that both
// share.
unsafe impl Send for CowEntry {}

impl CowEntry {
    /// Shares the collection or the long string of an entry; `None` for an entry with neither.
    ///
    /// # Safety
    /// The caller holds the entry's shard exclusively and has no reference to the collection.
    pub(crate) unsafe fn of(entry: Entry<'_>) -> Option<CowEntry> {
        let value = match entry.value() {
            ValueRef::Blob(blob) => Value::Blob(blob.clone()),
            // SAFETY: guaranteed by the caller.
            _ => Value::Object(unsafe { entry.collection_mut() }?.cow()),
        };
        Some(CowEntry(Entry::allocate(entry.key(), value, entry.expiry(), entry.clock()).inherit(entry)))
    }

    /// Bytes that this copy keeps allocated once any part of the original has changed: a string's
    /// allocation; 0 for a collection.
    pub fn kept_bytes(&self) -> usize {
        if let ValueRef::Blob(blob) = self.0.value() { blob.allocation_bytes() } else { 0 }
    }

    pub fn entry(&self) -> Entry<'_> {
        self.0
    }
}

impl Drop for CowEntry {
    fn drop(&mut self) {
        // SAFETY: made here, in no table, and no longer used.
        unsafe { self.0.release() };
    }
}

/// True if the entry's collection is shared rather than copied.
pub(crate) fn is_large_collection(entry: Entry<'_>) -> bool {
    matches!(entry.value(), ValueRef::Object(object) if object.is_large())
}

/// Size in bytes above which a string is shared rather than encoded.
const LARGE_STRING: usize = 64 * 1024;

/// True if the entry is shared rather than encoded.
pub(crate) fn is_large(entry: Entry<'_>) -> bool {
    match entry.value() {
        ValueRef::Blob(blob) => blob.len() > LARGE_STRING,
        ValueRef::Bytes(_) | ValueRef::Integer(_) => false,
        ValueRef::Object(object) => object.is_large(),
    }
}
