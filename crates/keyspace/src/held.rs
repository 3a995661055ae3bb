// SPDX-License-Identifier: BSD-3-Clause
//! Short strings with a second owner besides the keyspace: active-active replication holds the
//! keys and values of the keyspace's entries instead of copies.
//!
//! An owner only reads. The keyspace changes an entry with a second owner by making a new one, and
//! either owner may leave first: the last one frees the entry. [`HeldString`] keeps to that, so it
//! can be used on any thread, without a lock, for as long as it lives.

#[cfg(any(test, feature = "testing"))]
use crate::entry::Value;
use crate::entry::{Entry, ValueRef};
use crate::txn::Txn;

/// Bits of an address.
const ADDRESS: u64 = (1 << 48) - 1;

/// The entry of an embedded string. One word: the address, with 16 bits for the owner's use in
/// front.
#[derive(Debug)]
pub struct HeldString(u64);

// SAFETY: key, value and expiry do not change while the entry is held, and its owners are counted
// atomically.
unsafe impl Send for HeldString {}
// SAFETY: as above.
unsafe impl Sync for HeldString {}

impl HeldString {
    fn entry(&self) -> Entry<'_> {
        // SAFETY: the entry lives until its second owner, this one, has left.
        unsafe { Entry::from_address(self.0 & ADDRESS) }
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        self.entry().key()
    }

    /// The value.
    pub fn value(&self) -> &[u8] {
        match self.entry().value() {
            ValueRef::Bytes(bytes) => bytes,
            _ => unreachable!("only embedded strings are held"),
        }
    }

    /// Expiry in ms since the Unix epoch.
    pub fn expiry(&self) -> Option<i64> {
        self.entry().expiry()
    }

    /// The bits for the owner's use; 0 at first.
    #[inline]
    pub fn tag(&self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// Sets the bits for the owner's use.
    #[must_use]
    pub fn with_tag(mut self, tag: u16) -> HeldString {
        self.0 = self.0 & ADDRESS | u64::from(tag) << 48;
        self
    }

    /// Address of the entry, for prefetching.
    #[inline]
    pub fn address(&self) -> *const u8 {
        (self.0 & ADDRESS) as usize as *const u8
    }
}

#[cfg(any(test, feature = "testing"))]
impl HeldString {
    /// A string that no keyspace has. `None` if it is too long to be embedded.
    pub fn alone(key: &[u8], value: &[u8], expiry: Option<i64>) -> Option<HeldString> {
        let entry = Entry::allocate(key, Value::plain(value, false), expiry, 0);
        let held = entry.embedded_len().map(|_| {
            entry.hold();
            HeldString(entry.address())
        });
        // SAFETY: the entry is in no table.
        unsafe { entry.release() };
        held
    }
}

impl Drop for HeldString {
    fn drop(&mut self) {
        // SAFETY: this owner leaves, once.
        unsafe { self.entry().let_go() };
    }
}

impl Txn<'_> {
    /// Becomes a second owner of a key's string. `None` if the key is absent, its value is not an
    /// embedded string, it already has a second owner, or the world is not stopped.
    pub fn hold(&self, key: &[u8]) -> Option<HeldString> {
        self.stopped_world()?;
        let entry = self.peek(key).filter(|entry| entry.embedded_len().is_some() && !entry.is_held())?;
        entry.hold();
        Some(HeldString(entry.address()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neither owner frees what the other still has. (Under Miri and the address sanitizer this
    /// also shows that the last one frees it.)
    #[test]
    fn last_owner_frees_the_entry() {
        for keyspace_leaves_first in [true, false] {
            let entry = Entry::allocate(b"key", Value::plain(b"a value", false), Some(77), 5);
            entry.hold();
            let held = HeldString(entry.address()).with_tag(0xabcd);
            // SAFETY: the entry is in no table, and is released once.
            let release = || unsafe { entry.release() };
            if keyspace_leaves_first {
                release();
            }
            assert_eq!((held.key(), held.value(), held.expiry()), (&b"key"[..], &b"a value"[..], Some(77)));
            assert_eq!(held.tag(), 0xabcd);
            drop(held);
            if !keyspace_leaves_first {
                assert_eq!(entry.key(), b"key");
                release();
            }
        }
    }

    #[test]
    fn held_string_is_not_overwritten() {
        let entry = Entry::allocate(b"key", Value::plain(b"a value", false), None, 5);
        entry.hold();
        let held = HeldString(entry.address());
        assert!(!entry.overwrite(&Value::plain(b"another", false)));
        assert_eq!((held.value(), entry.embedded_len()), (&b"a value"[..], Some(7)));
        drop(held);
        assert!(entry.overwrite(&Value::plain(b"another", false)));
        // SAFETY: the entry is in no table, and is released once.
        unsafe { entry.release() };
    }
}
