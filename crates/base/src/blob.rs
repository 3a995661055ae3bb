// SPDX-License-Identifier: BSD-3-Clause
//! A reference-counted byte buffer: large values, and the large arguments that they come from.
//!
//! A [`Blob`] is one pointer to one allocation (header, then bytes with spare capacity), so a
//! value of megabytes moves from the socket into the keyspace and from the keyspace into replies
//! without a copy. Sharing is by reference count; a shared blob never changes: [`Blob::make_mut`]
//! copies it first.
//!
//! ```text
//! short:  owners, 24 bits | number of the size class, 8 bits | length, 4 bytes | content
//! long:   owners, 24 bits | 0                                | -       4 bytes | length, 8 bytes
//!         | capacity, 8 bytes | content
//! ```
//! An allocation takes a whole size class of the allocator, so the class's number tells the
//! capacity: a header of 24 bytes would take a value that just fits a class to the next one, a
//! fifth more memory. Blobs of 2 GiB and more are long.
//!
//! Invariants (maintained only in this module): `len <= capacity`; bytes `0..len` are initialised;
//! no owner writes while the count is above one; the form and the capacity never change between
//! two allocations.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use crate::prefetch::prefetch;
use crate::relocation::Mover;

#[repr(C)]
struct Header {
    /// Number of owners, and of the size class.
    state: AtomicU32,
    len: u32,
}

/// Behind the header of a long blob.
#[repr(C)]
struct Long {
    len: usize,
    capacity: usize,
}

const HEADER: usize = size_of::<Header>();
const LONG_HEADER: usize = HEADER + size_of::<Long>();
/// Allocations from this size on are long.
const LONG_MIN: usize = 1 << 31;
const CLASS_SHIFT: u32 = 24;
const OWNERS: u32 = (1 << CLASS_SHIFT) - 1;
/// With so many owners another one gets a copy. The count does not overflow even if each of that
/// many threads adds itself at the same time.
const OWNERS_MAX: u32 = 1 << 23;
/// Size classes below the first group of four: every 8 bytes.
const FIRST_CLASSES: u32 = 8;

/// The number of the smallest size class that holds `size` bytes, and its size. Classes are 8 bytes
/// apart up to 64, then four per doubling.
#[inline]
fn class_of(size: usize) -> (u32, usize) {
    if size <= 64 {
        let number = size.div_ceil(8).max(1);
        return (number as u32, number * 8);
    }
    let doubling = usize::BITS - 1 - (size - 1).leading_zeros();
    let spacing_bits = doubling - 2;
    // From 1 to 4, in steps of the spacing behind the power of two.
    let step = ((size - 1) >> spacing_bits) as u32 - 3;
    (FIRST_CLASSES + (doubling - 6) * 4 + step, (step as usize + 4) << spacing_bits)
}

/// The size of a size class.
#[inline]
fn class_size(number: u32) -> usize {
    if number <= FIRST_CLASSES {
        return number as usize * 8;
    }
    let (group, step) = ((number - FIRST_CLASSES - 1) / 4, (number - FIRST_CLASSES - 1) % 4 + 1);
    (step as usize + 4) << (group + 4)
}

/// A shared buffer of bytes, one pointer wide. Cloning shares; it copies bytes only for the nine
/// millionth owner.
#[repr(transparent)]
pub struct Blob(NonNull<Header>);

// SAFETY: the count is atomic, and bytes are written only through a unique reference (see the
// module's invariants).
unsafe impl Send for Blob {}
// SAFETY: as above; shared access is read-only.
unsafe impl Sync for Blob {}

/// How a blob is allocated.
#[derive(Clone, Copy)]
struct Shape {
    /// Bytes of the allocation.
    size: usize,
    /// The number of its size class; 0 if it is long.
    class: u32,
}

impl Shape {
    /// For at least `capacity` bytes of content.
    fn of(capacity: usize) -> Shape {
        let size = capacity.checked_add(HEADER).expect("a capacity that fits the address space");
        if size >= LONG_MIN {
            let size = capacity.checked_add(LONG_HEADER).expect("a capacity that fits the address space");
            return Shape { size, class: 0 };
        }
        let (class, size) = class_of(size);
        Shape { size, class }
    }

    fn layout(self) -> Layout {
        Layout::from_size_align(self.size, align_of::<Long>())
            .expect("a capacity that fits the address space")
    }

    fn is_long(self) -> bool {
        self.class == 0
    }

    /// Writes the header of an empty blob.
    ///
    /// # Safety
    /// `raw` is a block of this shape that nobody else uses.
    unsafe fn begin(self, raw: NonNull<Header>) {
        // SAFETY: large and aligned enough for a header, and for that of a long blob if it is one.
        unsafe {
            raw.write(Header { state: AtomicU32::new(1 | self.class << CLASS_SHIFT), len: 0 });
            if self.is_long() {
                raw.add(1).cast::<Long>().write(Long { len: 0, capacity: self.size - LONG_HEADER });
            }
        }
    }
}

impl Blob {
    /// An empty blob with room for at least `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Blob {
        let shape = Shape::of(capacity);
        // SAFETY: the layout is not empty, it holds at least the header.
        let Some(raw) = NonNull::new(unsafe { alloc(shape.layout()) }.cast::<Header>()) else {
            handle_alloc_error(shape.layout())
        };
        // SAFETY: freshly allocated.
        unsafe { shape.begin(raw) };
        Blob(raw)
    }

    /// Bytes allocated for a blob with room for `capacity` bytes.
    pub fn bytes_for(capacity: usize) -> usize {
        Shape::of(capacity).size
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

    /// The number of the size class; 0 if the blob is long.
    #[inline]
    fn class(&self) -> u32 {
        // Relaxed: it does not change while the blob is reachable.
        self.header().state.load(Ordering::Relaxed) >> CLASS_SHIFT
    }

    /// The rest of a long blob's header.
    #[inline]
    fn long(&self) -> Option<NonNull<Long>> {
        // SAFETY: it lies behind the header.
        (self.class() == 0).then(|| unsafe { self.0.add(1).cast() })
    }

    fn shape(&self) -> Shape {
        match self.class() {
            0 => Shape { size: self.capacity() + LONG_HEADER, class: 0 },
            class => Shape { size: class_size(class), class },
        }
    }

    fn bytes_ptr(&self) -> *mut u8 {
        let header = if self.class() == 0 { LONG_HEADER } else { HEADER };
        // SAFETY: the allocation continues for `capacity` bytes after the header.
        unsafe { self.0.as_ptr().cast::<u8>().add(header) }
    }

    #[inline]
    fn length(&self) -> usize {
        match self.long() {
            // SAFETY: written when the blob was allocated.
            Some(long) => unsafe { long.as_ref().len },
            None => self.header().len as usize,
        }
    }

    /// Sets the length.
    ///
    /// # Safety
    /// This is the only owner, the capacity is at least `len`, and bytes `0..len` are initialised.
    #[inline]
    unsafe fn set_length(&mut self, len: usize) {
        // SAFETY: this is the only owner.
        unsafe {
            match self.long() {
                Some(mut long) => long.as_mut().len = len,
                None => self.0.as_mut().len = len as u32,
            }
        }
    }

    /// Prefetches the start of the allocation.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(self.0.as_ptr());
    }

    /// Bytes allocated for content.
    pub fn capacity(&self) -> usize {
        match self.long() {
            // SAFETY: written when the blob was allocated.
            Some(long) => unsafe { long.as_ref().capacity },
            None => class_size(self.class()) - HEADER,
        }
    }

    /// Size of the whole allocation in bytes.
    pub fn allocation_bytes(&self) -> usize {
        self.shape().size
    }

    /// True if there is no other owner.
    pub fn is_unique(&self) -> bool {
        self.header().state.load(Ordering::Acquire) & OWNERS == 1
    }

    /// The content, for writing; a shared blob is copied first.
    pub fn make_mut(&mut self) -> &mut [u8] {
        self.unshare(self.len());
        // SAFETY: unique now, and `0..len` is initialised.
        unsafe { std::slice::from_raw_parts_mut(self.bytes_ptr(), self.length()) }
    }

    /// Makes room for `additional` bytes after the content, and for no more than the allocator
    /// gives anyway (callers choose their growth).
    pub fn reserve_exact(&mut self, additional: usize) {
        let want = self.len().checked_add(additional).expect("a length that fits the address space");
        self.unshare(want);
        if want > self.capacity() {
            self.reallocate(want);
        }
    }

    /// Frees spare capacity.
    pub fn shrink_to_fit(&mut self) {
        if Shape::of(self.len()).size < self.shape().size && self.is_unique() {
            self.reallocate(self.len());
        }
    }

    /// Appends `bytes`; grows by the missing bytes.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.reserve_exact(bytes.len());
        let len = self.len();
        // SAFETY: unique and with enough room after reserve_exact; `bytes` cannot overlap a unique
        // buffer's spare room.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.bytes_ptr().add(len), bytes.len());
            self.set_length(len + bytes.len());
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
        unsafe { self.set_length(len) };
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
        unsafe { self.set_length(len + filled) };
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
        // SAFETY: allocated with the layout of its shape; unique, so no other thread reads it.
        if let Some(moved) = unsafe { mover.relocate(self.0.cast(), self.shape().layout()) } {
            self.0 = moved.cast();
        }
    }

    /// A copy at a better place, if there is one; other owners keep the old one.
    pub fn at_better_place(&self, mover: &mut Mover) -> Option<Blob> {
        let shape = self.shape();
        // SAFETY: allocated with the layout of its shape, as the new block is.
        let place = unsafe {
            let place = mover.place_for(self.0.cast(), shape.layout())?.cast::<Header>();
            shape.begin(place);
            place
        };
        let mut moved = Blob(place);
        moved.extend_from_slice(self);
        Some(moved)
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
        let (old, new) = (self.shape(), Shape::of(capacity));
        if old.is_long() || new.is_long() {
            let mut copy = Blob::with_capacity(capacity);
            copy.extend_from_slice(self);
            *self = copy;
            return;
        }
        let len = self.len();
        // SAFETY: unique, allocated with the layout of its shape, and the new size is not zero.
        let raw = unsafe { realloc(self.0.as_ptr().cast(), old.layout(), new.size) };
        let Some(raw) = NonNull::new(raw.cast::<Header>()) else { handle_alloc_error(new.layout()) };
        self.0 = raw;
        // SAFETY: unique and of the new shape; the content is where it was.
        unsafe {
            new.begin(raw);
            self.set_length(len);
        }
    }
}

impl std::ops::Deref for Blob {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `0..len` is initialised and is not written while this reference lives.
        unsafe { std::slice::from_raw_parts(self.bytes_ptr(), self.length()) }
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
        let before = self.header().state.fetch_add(1, Ordering::Relaxed);
        let other = Blob(self.0);
        if before & OWNERS < OWNERS_MAX { other } else { Blob::from_slice(&other) }
    }
}

/// Orders all accesses of former owners before those of the last owner.
#[inline]
fn acquire(count: &AtomicU32) {
    // ThreadSanitizer does not understand fences.
    if cfg!(braid_sanitize) {
        count.load(Ordering::Acquire);
    } else {
        fence(Ordering::Acquire);
    }
}

impl Drop for Blob {
    fn drop(&mut self) {
        if self.header().state.fetch_sub(1, Ordering::Release) & OWNERS == 1 {
            acquire(&self.header().state);
            let layout = self.shape().layout();
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
        assert_eq!((&*blob, blob.capacity()), (&b"a"[..], 8));
    }

    #[test]
    fn classes_are_the_allocators() {
        let mut expected = 0;
        for size in 1..=32_768 {
            let (number, class) = class_of(size);
            assert_eq!((class, class_size(number)), (crate::alloc::size_class(size), class), "{size}");
            expected += u32::from(size > 1 && class != class_of(size - 1).1);
            assert_eq!(number, expected + 1, "numbers follow each other");
        }
        for size in [1 << 20, (1 << 20) + 1, LONG_MIN - 1, LONG_MIN] {
            assert_eq!(class_size(class_of(size).0), class_of(size).1);
            assert!(class_of(size).0 < 255 && class_of(size).1 >= size);
        }
    }

    #[test]
    fn a_blob_takes_the_class_of_its_content_and_eight_bytes() {
        for (len, bytes) in [(0, 8), (1, 16), (56, 64), (57, 80), (504, 512), (505, 640), (65_528, 65_536)] {
            let content = vec![7; len];
            let mut blob = Blob::from_slice(&content);
            assert_eq!((blob.allocation_bytes(), Blob::bytes_for(len)), (bytes, bytes), "{len}");
            assert_eq!((blob.capacity(), &*blob), (bytes - 8, &content[..]));
            blob.reserve_exact(3000);
            assert!(blob.capacity() >= len + 3000 && *blob == *content);
            blob.shrink_to_fit();
            assert_eq!((blob.allocation_bytes(), &*blob), (bytes, &content[..]));
        }
    }

    /// Only addresses are needed for a capacity that nobody fills.
    #[test]
    #[cfg_attr(miri, ignore)]
    fn long_blobs_have_a_longer_header() {
        let mut blob = Blob::with_capacity(LONG_MIN);
        assert_eq!((blob.allocation_bytes(), blob.capacity()), (LONG_MIN + LONG_HEADER, LONG_MIN));
        blob.extend_from_slice(b"content");
        let mut shared = blob.clone();
        assert!(!blob.is_unique());
        shared.shrink_to_fit();
        drop(blob);
        shared.shrink_to_fit();
        assert_eq!((&*shared, shared.capacity()), (&b"content"[..], 8));
        shared.reserve_exact(LONG_MIN);
        assert_eq!((&*shared, shared.class()), (&b"content"[..], 0));
    }

    #[test]
    fn the_count_of_owners_does_not_reach_the_class() {
        let blob = Blob::from_slice(b"shared");
        blob.header().state.fetch_add(OWNERS_MAX - 1, Ordering::Relaxed);
        let copy = blob.clone();
        assert!(copy.is_unique() && copy == blob && copy.0 != blob.0);
        blob.header().state.fetch_sub(OWNERS_MAX - 1, Ordering::Relaxed);
        assert!(blob.is_unique());
    }

    #[test]
    fn raw_words_round_trip() {
        let raw = Blob::from_slice(b"x").into_raw();
        // SAFETY: just made by into_raw; taken back once.
        assert_eq!(&*unsafe { Blob::from_raw(raw) }, b"x");
    }
}
