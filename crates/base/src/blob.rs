// SPDX-License-Identifier: BSD-3-Clause
//! A reference-counted byte buffer: large values, and the large arguments that they come from.
//!
//! A [`Blob`] is one pointer to one allocation (header, then bytes with spare capacity), so a
//! value of megabytes moves from the socket into the keyspace and from the keyspace into replies
//! without a copy. Sharing is by reference count; a shared blob never changes: [`Blob::make_mut`]
//! copies it first.
//!
//! ```text
//! short:  owners, 24 bits | number of the size class, 8 bits | length, 2 bytes | content
//! medium: owners, 24 bits | number of the size class, 8 bits | length, 4 bytes | content
//! long:   owners, 24 bits | 0                                | -       4 bytes | length, 8 bytes
//!         | capacity, 8 bytes | content
//! ```
//! An allocation takes a whole size class of the allocator, so the class's number tells the
//! capacity: a header of 24 bytes would take a value that just fits a class to the next one, a
//! fifth more memory. Allocations of up to 64 KiB are short; those of 2 GiB and more are long.
//!
//! Invariants (maintained only in this module): `len <= capacity`; bytes `0..len` are initialised;
//! no owner writes while the count is above one; the form and the capacity never change between
//! two allocations.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use crate::prefetch::prefetch;
use crate::relocation::Mover;

/// Number of owners, and of the size class. The length follows.
#[repr(C)]
struct Header {
    state: AtomicU32,
}

/// Behind the header of a long blob.
#[repr(C)]
struct Long {
    len: usize,
    capacity: usize,
}

/// Where the length of a short or medium blob is.
const LENGTH: usize = size_of::<AtomicU32>();
const SHORT_HEADER: usize = LENGTH + size_of::<u16>();
const HEADER: usize = LENGTH + size_of::<u32>();
const LONG_HEADER: usize = HEADER + size_of::<Long>();
/// The largest size class of short blobs.
const SHORT_CLASS: u32 = class_of(1 << 16).0;
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
const fn class_of(size: usize) -> (u32, usize) {
    if size <= 64 {
        let number = if size == 0 { 1 } else { size.div_ceil(8) };
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
        let with = |header| capacity.checked_add(header).expect("a capacity that fits the address space");
        if with(HEADER) >= LONG_MIN {
            return Shape { size: with(LONG_HEADER), class: 0 };
        }
        let (class, size) = class_of(with(SHORT_HEADER));
        // A capacity that is too large for the short form takes a larger class in either.
        let (class, size) = if class <= SHORT_CLASS { (class, size) } else { class_of(with(HEADER)) };
        Shape { size, class }
    }

    /// Bytes of the header.
    #[inline]
    fn header(self) -> usize {
        header_of(self.class)
    }

    fn layout(self) -> Layout {
        Layout::from_size_align(self.size, align_of::<Long>())
            .expect("a capacity that fits the address space")
    }

    /// Writes the header of an empty blob.
    ///
    /// # Safety
    /// `raw` is a block of this shape that nobody else uses.
    unsafe fn begin(self, raw: NonNull<Header>) {
        // SAFETY: large and aligned enough for a header, and for that of a long blob if it is one.
        unsafe {
            raw.write(Header { state: AtomicU32::new(1 | self.class << CLASS_SHIFT) });
            match self.header() {
                SHORT_HEADER => short_length(raw).write(0),
                HEADER => medium_length(raw).write(0),
                _ => long_header(raw).write(Long { len: 0, capacity: self.size - LONG_HEADER }),
            }
        }
    }
}

/// Bytes of the header of a blob of this size class.
#[inline]
fn header_of(class: u32) -> usize {
    match class {
        0 => LONG_HEADER,
        1..=SHORT_CLASS => SHORT_HEADER,
        _ => HEADER,
    }
}

/// The length of a short blob.
#[inline]
fn short_length(raw: NonNull<Header>) -> NonNull<u16> {
    // SAFETY: every block has eight bytes or more.
    unsafe { raw.cast::<u8>().add(LENGTH).cast() }
}

/// The length of a medium blob.
#[inline]
fn medium_length(raw: NonNull<Header>) -> NonNull<u32> {
    // SAFETY: as above.
    unsafe { raw.cast::<u8>().add(LENGTH).cast() }
}

/// The rest of a long blob's header.
///
/// # Safety
/// The block is that of a long blob.
#[inline]
unsafe fn long_header(raw: NonNull<Header>) -> NonNull<Long> {
    // SAFETY: such a block is longer than both parts of the header.
    unsafe { raw.cast::<u8>().add(HEADER).cast() }
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

    fn shape(&self) -> Shape {
        match self.class() {
            0 => Shape { size: self.capacity() + LONG_HEADER, class: 0 },
            class => Shape { size: class_size(class), class },
        }
    }

    fn bytes_ptr(&self) -> *mut u8 {
        // SAFETY: the allocation continues for `capacity` bytes after the header.
        unsafe { self.0.as_ptr().cast::<u8>().add(header_of(self.class())) }
    }

    #[inline]
    fn length(&self) -> usize {
        // SAFETY: written when the blob was allocated, in the place that its class tells.
        unsafe {
            match header_of(self.class()) {
                SHORT_HEADER => usize::from(short_length(self.0).read()),
                HEADER => medium_length(self.0).read() as usize,
                _ => long_header(self.0).as_ref().len,
            }
        }
    }

    /// Sets the length.
    ///
    /// # Safety
    /// This is the only owner, the capacity is at least `len`, and bytes `0..len` are initialised.
    #[inline]
    unsafe fn set_length(&mut self, len: usize) {
        // SAFETY: this is the only owner; the class tells the place.
        unsafe {
            match header_of(self.class()) {
                SHORT_HEADER => short_length(self.0).write(len as u16),
                HEADER => medium_length(self.0).write(len as u32),
                _ => long_header(self.0).as_mut().len = len,
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
        match self.class() {
            // SAFETY: a long blob; written when it was allocated.
            0 => unsafe { long_header(self.0).as_ref().capacity },
            class => class_size(class) - header_of(class),
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
        if old.header() != new.header() || old.class == 0 {
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
        assert_eq!((&*blob, blob.capacity()), (&b"a"[..], 2));
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
    fn a_blob_takes_the_class_of_its_content_and_six_or_eight_bytes() {
        for (len, bytes) in [(0, 8), (2, 8), (3, 16), (58, 64), (59, 80), (506, 512), (507, 640)]
            .into_iter()
            .chain([(65_530, 65_536), (65_531, 81_920), (81_912, 81_920), (81_913, 98_304)])
        {
            let content = vec![7; len];
            let mut blob = Blob::from_slice(&content);
            assert_eq!((blob.allocation_bytes(), Blob::bytes_for(len)), (bytes, bytes), "{len}");
            let header = if bytes <= 65_536 { 6 } else { 8 };
            assert_eq!((blob.capacity(), &*blob), (bytes - header, &content[..]));
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
        assert_eq!((&*shared, shared.capacity()), (&b"content"[..], 10));
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
