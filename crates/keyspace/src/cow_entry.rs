// SPDX-License-Identifier: BSD-3-Clause
//! Entries as they were at one moment, for a snapshot: large collections and strings share memory with
//! the living entry until it changes (copy on write).

use crate::entry::{Entry, Value, ValueRef};

/// An entry with a large collection or string as it was at one moment: in no table, sharing memory
/// with the entry that it was made of (copy on write).
pub struct CowEntry(Entry<'static>);

// SAFETY: it owns the entry, which nobody else can reach; what its collection shares with another
// one is neither's to change.
unsafe impl Send for CowEntry {}

impl CowEntry {
    /// Shares the collection of an entry, or its long string; nothing if it has neither.
    ///
    /// # Safety
    /// The caller holds the entry's shard exclusively and has no reference to the collection.
    pub(crate) unsafe fn of(entry: Entry<'_>) -> Option<CowEntry> {
        let value = match entry.value() {
            ValueRef::Blob(blob) => Value::Blob(blob.clone()),
            // SAFETY: the caller's.
            _ => Value::Object(unsafe { entry.collection_mut() }?.cow()),
        };
        Some(CowEntry(Entry::allocate(entry.key(), value, entry.expiry(), entry.clock())))
    }

    /// Bytes of memory that it keeps once the entry that it was made of has changed, whatever was
    /// changed: those of a string.
    pub fn kept_bytes(&self) -> usize {
        if let ValueRef::Blob(blob) = self.0.value() { blob.allocation_bytes() } else { 0 }
    }

    /// The entry.
    pub fn entry(&self) -> Entry<'_> {
        self.0
    }
}

impl Drop for CowEntry {
    fn drop(&mut self) {
        // SAFETY: made here, in no table, and not used any more.
        unsafe { self.0.release() };
    }
}

/// True for an entry with a collection that is better shared than copied.
pub(crate) fn is_large_collection(entry: Entry<'_>) -> bool {
    matches!(entry.value(), ValueRef::Object(object) if object.is_large())
}

/// A string of more bytes is better shared than encoded.
const LARGE_STRING: usize = 64 * 1024;

/// True for an entry that is better shared than encoded.
pub(crate) fn is_large(entry: Entry<'_>) -> bool {
    match entry.value() {
        ValueRef::Blob(blob) => blob.len() > LARGE_STRING,
        ValueRef::Bytes(_) | ValueRef::Integer(_) => false,
        ValueRef::Object(object) => object.is_large(),
    }
}
