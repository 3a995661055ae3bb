// SPDX-License-Identifier: BSD-3-Clause
//! A reference-counted byte buffer: large values, and the large arguments that they come from.
//!
//! A [`Blob`] is one pointer to one allocation (header, then bytes with spare capacity), so a
//! value of megabytes moves from the socket into the keyspace and from the keyspace into replies
//! without a copy. Sharing is by reference count; a shared blob never changes: [`Blob::make_mut`]
//! copies it first.
//!
//! Invariants (maintained only in this module): `len <= capacity`; bytes `0..len` are initialised;
//! no owner writes while the count is above one.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use crate::prefetch::prefetch;
use crate::relocation::Mover;

#[repr(C)]
struct Header {
    count: AtomicUsize,
    len: usize,
    capacity: usize,
}

const HEADER: usize = size_of::<Header>();

/// A shared buffer of bytes, one pointer wide. Cloning shares; it never copies bytes.
#[repr(transparent)]
pub struct Blob(NonNull<Header>);

// SAFETY: the count is atomic, and bytes are written only through a unique reference (see the
// module's invariants).
unsafe impl Send for Blob {}
// SAFETY: as above; shared access is read-only.
unsafe impl Sync for Blob {}

fn layout(capacity: usize) -> Layout {
    let size = capacity.checked_add(HEADER).expect("a capacity that fits the address space");
    Layout::from_size_align(size, align_of::<Header>()).expect("a capacity that fits the address space")
}

impl Blob {
    /// An empty blob with room for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Blob {
        let layout = layout(capacity);
        // SAFETY: the layout is not empty, it holds at least the header.
        let Some(raw) = NonNull::new(unsafe { alloc(layout) }.cast::<Header>()) else {
            handle_alloc_error(layout)
        };
        // SAFETY: freshly allocated, large and aligned enough for a header.
        unsafe { raw.write(Header { count: AtomicUsize::new(1), len: 0, capacity }) };
        Blob(raw)
    }

    /// A blob holding a copy of `bytes`, without spare room.
    pub fn from_slice(bytes: &[u8]) -> Blob {
        let mut blob = Blob::with_capacity(bytes.len());
        blob.extend_from_slice(bytes);
        blob
    }

    fn header(&self) -> &Header {
        // SAFETY: the pointer is valid while any reference exists.
        unsafe { self.0.as_ref() }
    }

    fn bytes_ptr(&self) -> *mut u8 {
        // SAFETY: the allocation continues for `capacity` bytes after the header.
        unsafe { self.0.as_ptr().cast::<u8>().add(HEADER) }
    }

    /// Prefetches the start of the allocation.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(self.0.as_ptr());
    }

    /// Bytes allocated for content.
    pub fn capacity(&self) -> usize {
        self.header().capacity
    }

    /// Size of the whole allocation in bytes.
    pub fn allocation_bytes(&self) -> usize {
        self.capacity() + HEADER
    }

    /// True if there is no other owner.
    pub fn is_unique(&self) -> bool {
        self.header().count.load(Ordering::Acquire) == 1
    }

    /// The content, for writing; a shared blob is copied first.
    pub fn make_mut(&mut self) -> &mut [u8] {
        self.unshare(self.len());
        // SAFETY: unique now, and `0..len` is initialised.
        unsafe { std::slice::from_raw_parts_mut(self.bytes_ptr(), self.header().len) }
    }

    /// Makes room for exactly `additional` bytes after the content (callers choose their growth).
    pub fn reserve_exact(&mut self, additional: usize) {
        let want = self.len().checked_add(additional).expect("a length that fits the address space");
        self.unshare(want);
        if want > self.capacity() {
            self.reallocate(want);
        }
    }

    /// Frees spare capacity.
    pub fn shrink_to_fit(&mut self) {
        if self.is_unique() && self.len() < self.capacity() {
            self.reallocate(self.len());
        }
    }

    /// Appends `bytes`; grows by exactly the missing bytes.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.reserve_exact(bytes.len());
        let len = self.len();
        // SAFETY: unique and with enough room after reserve_exact; `bytes` cannot overlap a unique
        // buffer's spare room.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.bytes_ptr().add(len), bytes.len());
            self.0.as_mut().len = len + bytes.len();
        }
    }

    /// Sets the length, filling new bytes with zeros.
    pub fn resize_zeroed(&mut self, len: usize) {
        let old = self.len();
        if len > old {
            self.reserve_exact(len - old);
            // SAFETY: unique, and the range lies within the capacity.
            unsafe { std::ptr::write_bytes(self.bytes_ptr().add(old), 0, len - old) };
        } else {
            self.unshare(len);
        }
        // SAFETY: unique; `0..len` is initialised.
        unsafe { self.0.as_mut().len = len };
    }

    /// Reads directly into the spare room: `read` gets at most `max` uninitialised bytes and
    /// returns the number of bytes that it filled.
    ///
    /// # Errors
    /// The error of `read`; the blob is unchanged then.
    pub fn fill_with<E>(
        &mut self,
        max: usize,
        read: impl FnOnce(&mut [std::mem::MaybeUninit<u8>]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        self.unshare(self.capacity());
        let (len, room) = (self.len(), self.capacity() - self.len());
        let max = max.min(room);
        // SAFETY: unique; the spare room is handed out as uninitialised memory.
        let spare = unsafe { std::slice::from_raw_parts_mut(self.bytes_ptr().add(len).cast(), max) };
        let filled = read(spare)?;
        assert!(filled <= max, "a reader cannot fill more than it was given");
        // SAFETY: the reader initialised `filled` bytes.
        unsafe { self.0.as_mut().len = len + filled };
        Ok(filled)
    }

    /// Turns the blob into a plain word; [`Blob::from_raw`] reverses this. Neither changes the
    /// count.
    pub fn into_raw(self) -> NonNull<u8> {
        let raw = self.0.cast();
        std::mem::forget(self);
        raw
    }

    /// Restores the blob from the word that [`Blob::into_raw`] returned.
    ///
    /// # Safety
    /// `raw` came from `into_raw` and each word is taken back once.
    pub unsafe fn from_raw(raw: NonNull<u8>) -> Blob {
        Blob(raw.cast())
    }

    /// Moves the blob to a better place, unless it has other owners.
    pub fn relocate(&mut self, mover: &mut Mover) {
        if !self.is_unique() {
            return;
        }
        // SAFETY: allocated with the layout of its capacity; unique, so no other thread reads it.
        if let Some(moved) = unsafe { mover.relocate(self.0.cast(), layout(self.capacity())) } {
            self.0 = moved.cast();
        }
    }

    fn unshare(&mut self, capacity: usize) {
        if !self.is_unique() {
            let mut copy = Blob::with_capacity(capacity.max(self.len()));
            copy.extend_from_slice(self);
            *self = copy;
        }
    }

    fn reallocate(&mut self, capacity: usize) {
        debug_assert!(self.is_unique() && capacity >= self.len());
        let new = layout(capacity);
        // SAFETY: unique, allocated with the layout of its capacity, and the new size is not zero.
        let raw = unsafe { realloc(self.0.as_ptr().cast(), layout(self.capacity()), new.size()) };
        let Some(raw) = NonNull::new(raw.cast::<Header>()) else { handle_alloc_error(new) };
        self.0 = raw;
        // SAFETY: unique and valid.
        unsafe { self.0.as_mut().capacity = capacity };
    }
}

impl std::ops::Deref for Blob {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `0..len` is initialised and is not written while this reference lives.
        unsafe { std::slice::from_raw_parts(self.bytes_ptr(), self.header().len) }
    }
}

impl AsRef<[u8]> for Blob {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Blob {
    fn eq(&self, other: &Blob) -> bool {
        self.0 == other.0 || **self == **other
    }
}

impl Clone for Blob {
    fn clone(&self) -> Blob {
        self.header().count.fetch_add(1, Ordering::Relaxed);
        Blob(self.0)
    }
}

/// Orders all accesses of former owners before those of the last owner.
#[inline]
fn acquire(count: &AtomicUsize) {
    // ThreadSanitizer does not understand fences.
    if cfg!(braid_sanitize) {
        count.load(Ordering::Acquire);
    } else {
        fence(Ordering::Acquire);
    }
}

impl Drop for Blob {
    fn drop(&mut self) {
        if self.header().count.fetch_sub(1, Ordering::Release) == 1 {
            acquire(&self.header().count);
            let layout = layout(self.capacity());
            // SAFETY: the last reference is dropped; the allocation is otherwise unreachable.
            unsafe { dealloc(self.0.as_ptr().cast(), layout) };
        }
    }
}

impl std::fmt::Debug for Blob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.len() {
            0..=64 => write!(f, "Blob(\"{}\")", self.escape_ascii()),
            len => write!(f, "Blob({len} of {} bytes)", self.capacity()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_to_a_shared_blob_leaves_the_other_holder_alone() {
        let mut one = Blob::from_slice(b"hello");
        let two = one.clone();
        one.make_mut()[0] = b'j';
        one.extend_from_slice(b"!");
        assert_eq!((&*one, &*two), (&b"jello!"[..], &b"hello"[..]));
        assert!(one.is_unique() && two.is_unique());
    }

    #[test]
    fn growing_zeroes_and_filling_keep_content() {
        let mut blob = Blob::with_capacity(4);
        blob.extend_from_slice(b"ab");
        let filled = blob.fill_with::<()>(10, |spare| {
            spare[0].write(b'c');
            Ok(1)
        });
        assert_eq!(filled, Ok(1));
        blob.resize_zeroed(6);
        assert_eq!(&*blob, b"abc\0\0\0");
        blob.resize_zeroed(1);
        blob.shrink_to_fit();
        assert_eq!((&*blob, blob.capacity()), (&b"a"[..], 1));
    }

    #[test]
    fn raw_words_round_trip() {
        let raw = Blob::from_slice(b"x").into_raw();
        // SAFETY: just made by into_raw; taken back once.
        assert_eq!(&*unsafe { Blob::from_raw(raw) }, b"x");
    }
}
