// SPDX-License-Identifier: BSD-3-Clause
//! An entry: one allocation that holds a key, its expiry, its access clock and, for short strings,
//! the value.
//!
//! HOT PATH: no allocation but the entry's own, no lock, no logging, no system call.
//!
//! ```text
//! offset 0   access clock (LRU seconds or LFU minutes and counter), 24 bits used
//!        4   kind: type (strings: encoding), mark of a snapshot, has-expiry, long-key
//!        5   key length (long keys: a u32 before the key bytes)
//!        6   value length of embedded strings; owners (`held.rs`); protection from eviction
//!        8   [expiry, ms since the Unix epoch]
//!   8 or 16  payload: embedded bytes | integer | pointer to a blob or an object
//!   behind   [u32 key length] key bytes
//! ```
//!
//! Sizes, lengths, the key and the kind (except the snapshot mark) never change during the entry's
//! life; changing any of them makes a new entry. The clock, the mark, the expiry and the payload
//! change in place. All of these are accessed atomically (relaxed), because an optimistic reader
//! may look while a writer changes them; the reader detects that afterwards by the shard's version
//! and drops its result.
//!
//! Invariants behind the `unsafe` here: an [`Entry`] is made only from a pointer that
//! [`Entry::allocate`] returned and that has not been released; `release` is called once, when no
//! thread can reach the entry through the keyspace any more (see `limbo.rs`).
//!
//! An embedded string can have a second owner (`held.rs`). While it has, its value and expiry do
//! not change either: a change makes a new entry.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64};

use braid_base::alloc::size_class;
use braid_base::blob::Blob;
use braid_base::relocation::Mover;

use crate::object::{Collection, Object, ObjectRef, ObjectType, in_word};
use crate::value_type::Type;

/// Longest string kept inside its entry, in bytes; longer ones live in a [`Blob`].
pub const EMBEDDED_MAX: usize = 1024;
/// Longest string whose OBJECT ENCODING is `embstr`, in bytes.
pub const EMBSTR_MAX: usize = 44;

const ENCODING_SHIFT: u8 = 4;
const EMBEDDED: u8 = 0 << ENCODING_SHIFT;
const EMBEDDED_RAW: u8 = 1 << ENCODING_SHIFT;
const INTEGER: u8 = 2 << ENCODING_SHIFT;
const BLOB: u8 = 3 << ENCODING_SHIFT;
const ENCODING: u8 = 3 << ENCODING_SHIFT;
/// The low bits of the type's number (0 = string). Other types keep the remaining bits of the
/// number where strings keep their encoding.
const TYPE: u8 = 0x07;
/// The snapshot mark; see `snapshot.rs`.
pub(crate) const MARK: u8 = 0x08;
const HAS_EXPIRY: u8 = 0x40;
const LONG_KEY: u8 = 0x80;

/// Bits beside the value's length: the entry has a second owner, and the keyspace has given it up.
/// Whichever owner leaves last frees the entry.
const HELD: u16 = 0x8000;
const GIVEN_UP: u16 = 0x4000;
/// The key is not to be evicted (BLESS). Belongs to the key: an entry that takes this one's place
/// inherits it. Changes only under the exclusive lock.
const PROTECTED: u16 = 0x2000;
const VALUE_LEN: u16 = 0x1fff;
const _: () = assert!(EMBEDDED_MAX <= VALUE_LEN as usize);

/// The bits of an entry's kind that hold a type's number.
const fn bits_of(kind: Type) -> u8 {
    kind.number() & TYPE | (kind.number() >> 3) << ENCODING_SHIFT
}

#[inline]
const fn type_of(bits: u8) -> Type {
    if bits & TYPE == 0 {
        return Type::STRING;
    }
    Type::from_entry(bits & TYPE | (bits & ENCODING) >> ENCODING_SHIFT << 3)
}

/// Shorter strings are always embedded.
const APART_MIN: usize = 384;

/// True if an embedded string of this length would take a sixteenth more memory than a blob: size
/// classes of the allocator are up to a quarter apart, and the key may take both of them together
/// to the next one.
fn is_better_apart(kind: u8, key_len: usize, value_len: usize) -> bool {
    if value_len < APART_MIN {
        return false;
    }
    let embedded = size_class(offsets(kind | EMBEDDED, key_len, value_len).2.size());
    let apart = size_class(offsets(kind | BLOB, key_len, 0).2.size()) + Blob::bytes_for(value_len);
    embedded - embedded / 16 >= apart
}

#[repr(C)]
struct Header {
    clock: AtomicU32,
    kind: AtomicU8,
    key_len: u8,
    /// With [`HELD`], [`GIVEN_UP`] and [`PROTECTED`].
    value_len: AtomicU16,
}

/// A value to be stored in an entry.
pub enum Value<'a> {
    /// A string kept as bytes. With `raw` it reports OBJECT ENCODING `raw` even when short,
    /// because it was modified in place.
    Bytes { bytes: &'a [u8], raw: bool },
    /// A string that is a canonical 64-bit integer.
    Integer(i64),
    /// A long string by reference.
    Blob(Blob),
    /// A collection.
    Object(Object),
}

impl<'a> Value<'a> {
    /// A string as SET stores it: an integer if the text is canonical, embedded when short, a blob
    /// when long.
    pub fn string(bytes: &'a [u8]) -> Value<'a> {
        if bytes.len() <= 20
            && let Some(number) = braid_base::number::parse_i64(bytes)
        {
            return Value::Integer(number);
        }
        Value::plain(bytes, false)
    }

    /// The type.
    pub fn value_type(&self) -> Type {
        match self {
            Value::Bytes { .. } | Value::Integer(_) | Value::Blob(_) => Type::STRING,
            Value::Object(object) => object.object_type(),
        }
    }

    /// A string kept as text; `raw` as in [`Value::Bytes`].
    pub fn plain(bytes: &'a [u8], raw: bool) -> Value<'a> {
        if bytes.len() <= EMBEDDED_MAX {
            Value::Bytes { bytes, raw }
        } else {
            Value::Blob(Blob::from_slice(bytes))
        }
    }
}

/// An entry's value, for reading.
#[derive(Clone, Copy)]
pub enum ValueRef<'a> {
    Bytes(&'a [u8]),
    Integer(i64),
    Blob(&'a Blob),
    Object(ObjectRef<'a>),
}

/// A reference to a live entry.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    header: NonNull<Header>,
    life: PhantomData<&'a Header>,
}

fn offsets(kind: u8, key_len: usize, value_len: usize) -> (usize, usize, Layout) {
    let payload = if kind & HAS_EXPIRY != 0 { 16 } else { 8 };
    let encoding = kind & ENCODING;
    let embedded = kind & TYPE == 0 && (encoding == EMBEDDED || encoding == EMBEDDED_RAW);
    let after = payload + if embedded { value_len } else { 8 };
    let key = after + if kind & LONG_KEY != 0 { 4 } else { 0 };
    let layout =
        Layout::from_size_align(key + key_len, 8).expect("an entry is smaller than the address space");
    (payload, key, layout)
}

impl<'a> Entry<'a> {
    /// Allocates an entry that belongs to no table yet: the caller inserts or releases it.
    pub fn allocate(key: &[u8], value: Value<'_>, expiry: Option<i64>, clock: u32) -> Entry<'a> {
        let mut kind = if expiry.is_some() { HAS_EXPIRY } else { 0 };
        if key.len() > 255 {
            kind |= LONG_KEY;
        }
        let value = match value {
            Value::Bytes { bytes, .. } if is_better_apart(kind, key.len(), bytes.len()) => {
                Value::Blob(Blob::from_slice(bytes))
            }
            value => value,
        };
        let (bits, value_len) = match &value {
            Value::Bytes { bytes, raw } => {
                assert!(bytes.len() <= EMBEDDED_MAX, "longer strings are blobs");
                (if *raw { EMBEDDED_RAW } else { EMBEDDED }, bytes.len())
            }
            Value::Integer(_) => (INTEGER, 0),
            Value::Blob(_) => (BLOB, 0),
            Value::Object(object) => (bits_of(object.object_type()), 0),
        };
        kind |= bits;
        let key_len = u32::try_from(key.len()).expect("a key is shorter than 4 GiB");
        let (payload_at, key_at, layout) = offsets(kind, key.len(), value_len);
        // SAFETY: the layout holds at least a header and a payload word or key.
        let Some(block) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        let base = block.as_ptr();
        // SAFETY: every offset lies within the allocation by `offsets`, and no other thread can see
        // it yet.
        unsafe {
            block.cast::<Header>().write(Header {
                clock: AtomicU32::new(clock),
                kind: AtomicU8::new(kind),
                key_len: if kind & LONG_KEY != 0 { 0 } else { key.len() as u8 },
                value_len: AtomicU16::new(value_len as u16),
            });
            if let Some(at) = expiry {
                base.add(8).cast::<i64>().write(at);
            }
            let payload = base.add(payload_at);
            match value {
                Value::Bytes { bytes, .. } => payload.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()),
                Value::Integer(number) => payload.cast::<i64>().write(number),
                Value::Blob(blob) => payload.cast::<*mut u8>().write(blob.into_raw().as_ptr()),
                Value::Object(object) => payload.cast::<*mut u8>().write(object.into_raw().as_ptr()),
            }
            if kind & LONG_KEY != 0 {
                base.add(key_at - 4).cast::<u32>().write_unaligned(key_len);
            }
            base.add(key_at).copy_from_nonoverlapping(key.as_ptr(), key.len());
        }
        Entry { header: block.cast(), life: PhantomData }
    }

    /// The entry at an address that [`Entry::address`] returned.
    ///
    /// # Safety
    /// The entry has not been released, and will not be while the result lives.
    #[inline]
    pub unsafe fn from_address(address: u64) -> Entry<'a> {
        Entry {
            // SAFETY: an entry's address is not null.
            header: unsafe { NonNull::new_unchecked(address as usize as *mut Header) },
            life: PhantomData,
        }
    }

    /// The entry's address; the low three bits are zero.
    #[inline]
    pub fn address(self) -> u64 {
        self.header.as_ptr() as usize as u64
    }

    /// Frees the entry and the value it owns, or leaves it to its second owner.
    ///
    /// # Safety
    /// No thread can reach the entry through the keyspace any more, and it has not been released
    /// before.
    pub unsafe fn release(self) {
        if self.is_held() && self.give_up() {
            return;
        }
        let layout = self.layout();
        // SAFETY: guaranteed by the caller; the payload is owned by the entry and dropped once.
        unsafe {
            drop(self.take_owned());
            dealloc(self.header.as_ptr().cast(), layout);
        }
    }

    /// Moves the blob or object out of the entry, which may then only be deallocated.
    ///
    /// # Safety
    /// As for `release`; at most once.
    unsafe fn take_owned(self) -> Option<Value<'static>> {
        let kind = self.kind();
        let raw = || {
            NonNull::new(self.payload().cast::<*mut u8>()).map(|at| {
                // SAFETY: blob and object payloads are pointers written by `allocate`, never null.
                unsafe { NonNull::new_unchecked(at.as_ptr().read()) }
            })
        };
        if kind & TYPE != 0 {
            // SAFETY: the pointer came from Object::into_raw with this type.
            raw().map(|raw| Value::Object(unsafe { Object::from_raw(self.value_type(), raw) }))
        } else if kind & ENCODING == BLOB {
            // SAFETY: the pointer came from Blob::into_raw.
            raw().map(|raw| Value::Blob(unsafe { Blob::from_raw(raw) }))
        } else {
            None
        }
    }

    #[inline]
    fn header(self) -> &'a Header {
        // SAFETY: a live entry (type invariant).
        unsafe { self.header.as_ref() }
    }

    /// Length of an embedded value in bytes; 0 for other values.
    #[inline]
    fn value_len(self) -> usize {
        usize::from(self.header().value_len.load(Relaxed) & VALUE_LEN)
    }

    /// True if the entry has a second owner: value and expiry must not change in place.
    #[inline]
    pub(crate) fn is_held(self) -> bool {
        // What the owner has read comes before what the caller does to an entry without one.
        self.header().value_len.load(Acquire) & HELD != 0
    }

    /// Gives the entry a second owner. The world is stopped, and the entry has none.
    pub(crate) fn hold(self) {
        let before = self.header().value_len.fetch_or(HELD, Relaxed);
        debug_assert!(before & (HELD | GIVEN_UP) == 0, "one second owner at a time");
    }

    /// The second owner leaves, and frees the entry if the keyspace has given it up.
    ///
    /// # Safety
    /// Called once by that owner, which does not use the entry afterwards.
    pub(crate) unsafe fn let_go(self) {
        if self.header().value_len.fetch_and(!HELD, AcqRel) & GIVEN_UP != 0 {
            // SAFETY: both owners have left; the value is embedded.
            unsafe { dealloc(self.header.as_ptr().cast(), self.layout()) };
        }
    }

    /// The keyspace leaves the entry. True if the second owner still has it, and will free it.
    #[cold]
    fn give_up(self) -> bool {
        self.header().value_len.fetch_or(GIVEN_UP, AcqRel) & HELD != 0
    }

    #[inline]
    fn kind(self) -> u8 {
        self.header().kind.load(Relaxed)
    }

    #[inline]
    fn byte_ptr(self, offset: usize) -> *mut u8 {
        // SAFETY: callers pass offsets within the allocation.
        unsafe { self.header.as_ptr().cast::<u8>().add(offset) }
    }

    #[inline]
    fn payload(self) -> *mut u8 {
        self.byte_ptr(if self.kind() & HAS_EXPIRY != 0 { 16 } else { 8 })
    }

    fn layout(self) -> Layout {
        offsets(self.kind(), self.key().len(), self.value_len()).2
    }

    /// Bytes of the entry's own allocation (not of a blob or object it points to), before
    /// size-class rounding.
    pub fn allocation_bytes(self) -> usize {
        self.layout().size()
    }

    /// The key.
    #[inline]
    pub fn key(self) -> &'a [u8] {
        let (header, kind) = (self.header(), self.kind());
        let payload = if kind & HAS_EXPIRY != 0 { 16 } else { 8 };
        let pointer_like = kind & TYPE != 0 || kind & ENCODING >= INTEGER;
        let after = payload + if pointer_like { 8 } else { self.value_len() };
        if kind & LONG_KEY == 0 {
            // SAFETY: written by `allocate` at this offset with this length, never changed.
            return unsafe { std::slice::from_raw_parts(self.byte_ptr(after), usize::from(header.key_len)) };
        }
        // SAFETY: as above, with the length in front of the bytes.
        unsafe {
            let len = self.byte_ptr(after).cast::<u32>().read_unaligned();
            std::slice::from_raw_parts(self.byte_ptr(after + 4), len as usize)
        }
    }

    /// The type of the value.
    #[inline]
    pub fn value_type(self) -> Type {
        type_of(self.kind())
    }

    /// True if the entry carries an expiry.
    #[inline]
    pub fn has_expiry(self) -> bool {
        self.kind() & HAS_EXPIRY != 0
    }

    #[inline]
    fn expiry_cell(self) -> Option<&'a AtomicI64> {
        // SAFETY: the expiry lies at offset 8, aligned, when the flag says so.
        self.has_expiry().then(|| unsafe { &*self.byte_ptr(8).cast::<AtomicI64>() })
    }

    /// Expiry in ms since the Unix epoch.
    #[inline]
    pub fn expiry(self) -> Option<i64> {
        self.expiry_cell().map(|cell| cell.load(Relaxed))
    }

    /// Changes the expiry in place. The entry must have one.
    pub fn set_expiry(self, at: i64) {
        debug_assert!(!self.is_held(), "a change of an entry with two owners makes a new entry");
        self.expiry_cell().expect("an entry with an expiry").store(at, Relaxed);
    }

    /// True if the key has expired at `now_ms`.
    #[inline]
    pub fn is_expired(self, now_ms: i64) -> bool {
        self.expiry().is_some_and(|at| now_ms > at)
    }

    /// The 24-bit access clock.
    #[inline]
    pub fn clock(self) -> u32 {
        self.header().clock.load(Relaxed) & 0x00ff_ffff
    }

    /// Sets the access clock. Does not write an unchanged value, so that readers of a hot key share
    /// its cache line.
    #[inline]
    pub fn set_clock(self, clock: u32) {
        if self.clock() != clock {
            self.header().clock.store(clock, Relaxed);
        }
    }

    /// True if the key is not to be evicted.
    #[inline]
    pub fn is_protected(self) -> bool {
        self.header().value_len.load(Relaxed) & PROTECTED != 0
    }

    /// Protects the key from eviction, or no longer.
    #[cold]
    pub(crate) fn set_protected(self, protect: bool) {
        let cell = &self.header().value_len;
        let _ = if protect { cell.fetch_or(PROTECTED, Relaxed) } else { cell.fetch_and(!PROTECTED, Relaxed) };
    }

    /// Protects the key as the entry is whose place this one takes.
    #[inline]
    pub(crate) fn inherit(self, old: Entry<'_>) -> Entry<'a> {
        if old.is_protected() {
            self.set_protected(true);
        }
        self
    }

    /// The snapshot mark: [`MARK`] or 0.
    #[inline]
    pub(crate) fn mark(self) -> u8 {
        self.kind() & MARK
    }

    /// Changes the mark. The caller holds the shard: exclusively, or shared if no other thread
    /// marks.
    #[inline]
    pub(crate) fn set_mark(self, mark: u8) {
        self.header().kind.store(self.kind() & !MARK | mark, Relaxed);
    }

    /// The value, for reading under the shard's lock.
    #[inline]
    pub fn value(self) -> ValueRef<'a> {
        let kind = self.kind();
        let payload = self.payload();
        // SAFETY: the payload has the representation that the kind has named since `allocate`.
        unsafe {
            if kind & TYPE != 0 {
                return ValueRef::Object(ObjectRef::from_raw(self.value_type(), payload.cast()));
            }
            match kind & ENCODING {
                INTEGER => ValueRef::Integer((*payload.cast::<AtomicI64>()).load(Relaxed)),
                BLOB => ValueRef::Blob(&*payload.cast::<Blob>()),
                _ => ValueRef::Bytes(std::slice::from_raw_parts(payload, self.value_len())),
            }
        }
    }

    /// The collection, for writing.
    ///
    /// # Safety
    /// The caller holds the shard exclusively and makes no second reference to the same object.
    pub unsafe fn object_mut<T: ObjectType>(self) -> &'a mut T {
        debug_assert!(self.kind() & TYPE != 0);
        // SAFETY: the payload is a word made from an object of the entry's type; exclusive by the
        // caller.
        unsafe { &mut *in_word::<T>(self.payload()) }
    }

    /// The collection, whatever its type, for writing; `None` for a string.
    ///
    /// # Safety
    /// The caller holds the shard exclusively and makes no second reference to the same object.
    pub unsafe fn collection_mut(self) -> Option<&'a mut dyn Collection> {
        let descriptor = self.value_type().descriptor()?;
        // SAFETY: the payload is a word of a value of that type; exclusive by the caller.
        Some(unsafe { &mut *descriptor.access.view(self.payload()) })
    }

    /// The blob, for writing; `None` for other values.
    ///
    /// # Safety
    /// The caller holds the shard exclusively and makes no second reference to the same blob.
    pub unsafe fn blob_mut(self) -> Option<&'a mut Blob> {
        // SAFETY: a blob payload is a Blob; exclusive by the caller.
        self.is_blob().then(|| unsafe { &mut *self.payload().cast::<Blob>() })
    }

    /// True for a string too long to be embedded.
    #[inline]
    pub fn is_blob(self) -> bool {
        self.kind() & TYPE == 0 && self.kind() & ENCODING == BLOB
    }

    /// Length of an embedded string, for hot paths that need no more of [`Entry::value`]; `None`
    /// for other values.
    #[inline]
    pub fn embedded_len(self) -> Option<usize> {
        let kind = self.kind();
        (kind & TYPE == 0 && kind & ENCODING <= EMBEDDED_RAW).then(|| self.value_len())
    }

    /// Copies an embedded string into `out` (exactly [`Entry::embedded_len`] bytes) while a writer
    /// may be changing it.
    #[inline]
    pub fn copy_embedded_racy(self, out: &mut [u8]) {
        assert_eq!(Some(out.len()), self.embedded_len());
        let payload = self.payload();
        let mut words = out.chunks_exact_mut(8);
        let mut at = 0;
        for word in &mut words {
            // SAFETY: within the payload, which is 8-byte aligned.
            let value = unsafe { (*payload.add(at).cast::<AtomicU64>()).load(Relaxed) };
            word.copy_from_slice(&value.to_ne_bytes());
            at += 8;
        }
        for byte in words.into_remainder() {
            // SAFETY: within the payload.
            *byte = unsafe { (*payload.add(at).cast::<AtomicU8>()).load(Relaxed) };
            at += 1;
        }
    }

    /// Overwrites an embedded string with another of the same length, or an integer with an
    /// integer. False, with nothing changed, if the shapes differ or the entry has a second owner.
    /// The encoding stays, so a `raw` string accepts only raw values.
    #[inline]
    pub fn overwrite(self, value: &Value<'_>) -> bool {
        let kind = self.kind();
        if kind & TYPE != 0 {
            return false;
        }
        let payload = self.payload();
        // Acquire as in `is_held`.
        let lens = self.header().value_len.load(Acquire);
        match (value, kind & ENCODING) {
            (Value::Integer(number), INTEGER) => {
                // SAFETY: an integer payload is one aligned word.
                unsafe { (*payload.cast::<AtomicI64>()).store(*number, Relaxed) };
                true
            }
            (Value::Bytes { bytes, raw: false }, EMBEDDED)
            | (Value::Bytes { bytes, raw: true }, EMBEDDED_RAW)
                // With a second owner a bit is set that no length has.
                if bytes.len() == usize::from(lens) =>
            {
                let mut words = bytes.chunks_exact(8);
                let mut at = 0;
                for word in &mut words {
                    let word = u64::from_ne_bytes(word.try_into().expect("eight bytes"));
                    // SAFETY: within the payload, which is 8-byte aligned.
                    unsafe { (*payload.add(at).cast::<AtomicU64>()).store(word, Relaxed) };
                    at += 8;
                }
                for &byte in words.remainder() {
                    // SAFETY: within the payload.
                    unsafe { (*payload.add(at).cast::<AtomicU8>()).store(byte, Relaxed) };
                    at += 1;
                }
                true
            }
            _ => false,
        }
    }

    /// The integer of an integer-encoded string.
    #[inline]
    pub fn integer(self) -> Option<i64> {
        match (self.kind() & TYPE, self.kind() & ENCODING) {
            // SAFETY: an integer payload is one aligned word.
            (0, INTEGER) => Some(unsafe { (*self.payload().cast::<AtomicI64>()).load(Relaxed) }),
            _ => None,
        }
    }

    /// The reply of OBJECT ENCODING.
    pub fn encoding_name(self) -> &'static str {
        let kind = self.kind();
        if kind & TYPE != 0 {
            let ValueRef::Object(object) = self.value() else { unreachable!("not a string") };
            return object.encoding_name();
        }
        match kind & ENCODING {
            INTEGER => "int",
            EMBEDDED if self.value_len() <= EMBSTR_MAX => "embstr",
            _ => "raw",
        }
    }

    /// True for a string that was modified in place and therefore stays `raw`, and for a blob.
    pub fn is_raw(self) -> bool {
        self.kind() & TYPE == 0 && matches!(self.kind() & ENCODING, EMBEDDED_RAW | BLOB)
    }

    /// Makes an entry with the same value under another key or expiry. A blob or object is moved
    /// out of this entry, which must then be deallocated by [`Entry::release_shell`].
    ///
    /// # Safety
    /// The caller holds the shard exclusively; afterwards only `release_shell` may be called on
    /// `self` (lock-free readers may still read its key, expiry and embedded bytes).
    pub unsafe fn move_to(self, key: &[u8], expiry: Option<i64>) -> Entry<'a> {
        let value = if let Some(number) = self.integer() {
            Value::Integer(number)
        } else if let ValueRef::Bytes(bytes) = self.value() {
            Value::Bytes { bytes, raw: self.is_raw() }
        } else {
            // SAFETY: guaranteed by the caller: the payload leaves this entry once.
            unsafe { self.take_owned() }.expect("a blob or an object")
        };
        Entry::allocate(key, value, expiry, self.clock()).inherit(self)
    }

    /// A copy at a better place, if there is one. It refers to the same blob or object: the caller
    /// publishes it in place of this entry, which is then deallocated by
    /// [`Entry::release_shell`]. An entry with a second owner stays.
    ///
    /// # Safety
    /// The caller holds the shard exclusively, and does one or the other.
    pub(crate) unsafe fn at_better_place(self, mover: &mut Mover) -> Option<Entry<'a>> {
        if self.is_held() {
            return None;
        }
        let (layout, header) = (self.layout(), self.header());
        // SAFETY: allocated with this layout. Everything behind the header changes only under the
        // exclusive lock; a lock-free reader may store the clock meanwhile.
        unsafe {
            let block = mover.place_for(self.header.cast(), layout)?;
            block.cast::<Header>().write(Header {
                clock: AtomicU32::new(header.clock.load(Relaxed)),
                kind: AtomicU8::new(self.kind()),
                key_len: header.key_len,
                value_len: AtomicU16::new(header.value_len.load(Relaxed)),
            });
            let behind = layout.size() - size_of::<Header>();
            block
                .add(size_of::<Header>())
                .copy_from_nonoverlapping(self.header.cast::<u8>().add(size_of::<Header>()), behind);
            Some(Entry { header: block.cast(), life: PhantomData })
        }
    }

    /// Moves the collection's own box, if the type has one.
    ///
    /// # Safety
    /// The caller holds the shard exclusively, and no reference to the collection exists.
    pub(crate) unsafe fn relocate_head(self, mover: &mut Mover) {
        if let Some(descriptor) = self.value_type().descriptor() {
            // SAFETY: the payload is a word of a value of that type; exclusive by the caller.
            unsafe { descriptor.access.relocate(self.payload(), mover) };
        }
    }

    /// Deallocates an entry whose value was moved out, or leaves it to its second owner.
    ///
    /// # Safety
    /// As for `release`, after `move_to`.
    pub unsafe fn release_shell(self) {
        if self.is_held() && self.give_up() {
            return;
        }
        // SAFETY: guaranteed by the caller.
        unsafe { dealloc(self.header.as_ptr().cast(), self.layout()) };
    }

    /// Bytes of the key and the value, over all allocations.
    pub fn memory_bytes(self) -> usize {
        let own = size_class(self.allocation_bytes());
        match self.value() {
            ValueRef::Blob(blob) => own + size_class(blob.allocation_bytes()),
            ValueRef::Object(object) => own + object.memory_bytes(),
            _ => own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(key: &[u8], value: Value<'_>, expiry: Option<i64>, text: &[u8], encoding: &str) {
        let entry = Entry::allocate(key, value, expiry, 7);
        assert_eq!((entry.key(), entry.expiry(), entry.clock()), (key, expiry, 7));
        let found = match entry.value() {
            ValueRef::Bytes(bytes) => bytes.to_vec(),
            ValueRef::Integer(number) => number.to_string().into_bytes(),
            ValueRef::Blob(blob) => blob.to_vec(),
            ValueRef::Object(_) => unreachable!(),
        };
        assert_eq!((&found[..], entry.encoding_name()), (text, encoding));
        // SAFETY: only this test holds the entry.
        unsafe { entry.release() };
    }

    #[test]
    fn every_entry_shape_round_trips() {
        let (long_key, long_value) = (vec![b'k'; 300], vec![b'v'; 2000]);
        for key in [&b""[..], b"k", &long_key[..255], &long_key] {
            for expiry in [None, Some(1_234_567)] {
                check(key, Value::string(b"42"), expiry, b"42", "int");
                check(key, Value::string(b"hello"), expiry, b"hello", "embstr");
                check(key, Value::string(b""), expiry, b"", "embstr");
                check(key, Value::plain(b"12", true), expiry, b"12", "raw");
                check(key, Value::string(&long_value[..45]), expiry, &long_value[..45], "raw");
                check(key, Value::string(&long_value), expiry, &long_value, "raw");
            }
        }
    }

    #[test]
    fn a_short_string_costs_eight_bytes_over_its_content() {
        let entry = Entry::allocate(&[b'k'; 16], Value::string(&[b'v'; 32]), None, 0);
        assert_eq!(entry.allocation_bytes(), 56);
        // SAFETY: only this test holds the entry.
        unsafe { entry.release() };
    }

    #[test]
    fn overwriting_in_place_needs_the_same_shape() {
        let entry = Entry::allocate(b"k", Value::string(b"hello world"), None, 0);
        assert!(entry.overwrite(&Value::string(b"HELLO_WORLD")));
        let mut copy = [0; 11];
        entry.copy_embedded_racy(&mut copy);
        assert_eq!(&copy, b"HELLO_WORLD");
        assert!(!entry.overwrite(&Value::string(b"short")));
        assert!(!entry.overwrite(&Value::Integer(1)));
        assert!(!entry.overwrite(&Value::Bytes { bytes: b"hello world", raw: true }));
        // SAFETY: only this test holds the entry.
        unsafe { entry.release() };
    }

    #[test]
    fn moving_keeps_the_value_and_changes_key_and_expiry() {
        for value in [vec![b'v'; 2000], b"77".to_vec(), b"text".to_vec()] {
            let entry = Entry::allocate(b"old", Value::string(&value), None, 3);
            // SAFETY: only this test holds the entries; the shell is released once.
            let moved = unsafe { entry.move_to(b"new name", Some(5)) };
            assert_eq!((moved.key(), moved.expiry(), moved.clock()), (&b"new name"[..], Some(5), 3));
            let bytes = match moved.value() {
                ValueRef::Blob(blob) => blob.to_vec(),
                ValueRef::Integer(number) => number.to_string().into_bytes(),
                ValueRef::Bytes(bytes) => bytes.to_vec(),
                ValueRef::Object(_) => unreachable!(),
            };
            assert_eq!(bytes, value);
            // SAFETY: as above.
            unsafe {
                entry.release_shell();
                moved.release();
            }
        }
    }
}
