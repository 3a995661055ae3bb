// SPDX-License-Identifier: BSD-3-Clause
//! Collections as seen by the keyspace, the files and the generic commands: a word with a type,
//! and a descriptor with the operations on any value of that type.
//!
//! Flow: a type implements [`ObjectType`] and has a [`Descriptor`] in its own folder (crate
//! `types`). [`register`] enters the descriptor under the type's number; so does making the first
//! value of a type, so no entry has an unregistered type. Typed look-ups (`Txn::read_as::<Hash>`)
//! compare numbers and cast, without a table or a virtual call. All other access goes from an
//! [`ObjectRef`] through the table to a [`Collection`].
//!
//! The keyspace never looks into a collection, and knows no type but strings.

use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use braid_base::relocation::Mover;
use braid_containers::listpack::Listpack;
use braid_rdb::{Limits, RdbType, SavedObject, ValueDecoder, ValueForm};

use crate::events::Event;
use crate::value_type::Type;

/// Names of members removed because they had expired.
pub type ExpiredMembers = Vec<Box<[u8]>>;

/// A value other than a string.
pub trait Collection: SavedObject + Send + Sync + 'static {
    /// The reply of OBJECT ENCODING.
    fn encoding(&self) -> &'static str;

    /// Bytes of all allocations, without the head (the boxed value itself).
    fn memory_bytes(&self) -> usize;

    /// Approximate cost of dropping the collection, in allocations.
    fn release_effort(&self) -> usize;

    /// True if a full read takes so long that requests should not wait for it; a snapshot then
    /// uses [`Collection::cow`].
    fn is_large(&self) -> bool;

    /// True if the collection has no members, so that its key must be removed.
    fn is_empty(&self) -> bool;

    /// A deep copy.
    fn duplicate(&self) -> Object;

    /// A copy of the current content that shares memory with this collection until either changes
    /// (see `braid_containers::cow`).
    fn cow(&mut self) -> Object;

    /// Writes the requests that recreate the key's value (without its expiry).
    ///
    /// # Errors
    /// If the sink fails.
    fn rewrite(&self, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()>;

    /// Adds the elements to a digest of the dataset, independent of their encoding. Expired
    /// members count until they are removed.
    fn digest(&self, out: &mut dyn DigestSink);

    /// Earliest expiry of a member, ms since the Unix epoch.
    fn next_expiry(&self) -> Option<i64> {
        None
    }

    /// Removes up to `most` expired members, earliest first.
    fn remove_expired(&mut self, _now: i64, _most: usize) -> ExpiredMembers {
        ExpiredMembers::new()
    }

    /// Sets the expiry of an existing member, or removes the member if that time has passed.
    fn set_member_expiry(&mut self, _member: &[u8], _at: i64, _now: i64) {}

    /// Moves blocks of the collection to better places, from position `from` on (0 = the start),
    /// until all have been examined or the mover's time is over. Returns the position from which
    /// to continue. Blocks that are shared stay; a collection without movable blocks, or of a type
    /// that does not support it, returns `None` at once. Content, order and encoding stay as they
    /// are. The collection may have changed since the call that returned `from`.
    fn relocate_blocks(&mut self, _from: u64, _mover: &mut Mover) -> Option<u64> {
        None
    }

    /// True if a catalogue of values by their contents must know of it (`links.rs`).
    fn is_catalogued(&self) -> bool {
        false
    }

    /// Calls `see` with the keys that the value refers to, and that change with it (`links.rs`).
    fn linked_keys(&self, _see: &mut dyn FnMut(&[u8])) {}

    /// A key that the value refers to, or its own key, has another name.
    fn relink(&mut self, _from: &[u8], _to: &[u8]) {}

    /// The packed list, if the collection consists of one, for DEBUG LISTPACK.
    fn as_packed_list(&self) -> Option<&Listpack> {
        None
    }

    /// Number of members in each segment of the collection's table, for DEBUG HTSTATS-KEY.
    fn table_segments(&self) -> Option<Vec<usize>> {
        None
    }

    /// True if a dump file with this value needs the RDB version that supports expiring fields.
    fn needs_expiry_version(&self) -> bool {
        false
    }
}

/// A concrete collection type, for typed look-ups.
pub trait ObjectType: Collection + Sized {
    /// The type's entry in the table of types.
    const DESCRIPTOR: &'static Descriptor;

    /// The type's number.
    const TYPE: Type;

    /// True if the value itself is the word kept in an entry, not the target of that word: one
    /// pointer wide, never null.
    const INLINE: bool = false;
}

/// A collection type whose members may expire.
pub trait Expiring: ObjectType {}

/// Receives the requests of a rewrite.
pub trait RequestSink {
    /// The buffer to which requests are appended.
    fn buffer(&mut self) -> &mut Vec<u8>;

    /// Reports that one or more requests are complete.
    ///
    /// # Errors
    /// If the requests cannot be written.
    fn complete(&mut self) -> io::Result<()>;
}

/// Collects all requests.
impl RequestSink for Vec<u8> {
    fn buffer(&mut self) -> &mut Vec<u8> {
        self
    }

    fn complete(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Receives the elements of a value for DEBUG DIGEST.
pub trait DigestSink {
    /// Adds bytes, regardless of order.
    fn xor(&mut self, bytes: &[u8]);

    /// Adds bytes in order, after all bytes added before.
    fn mix(&mut self, bytes: &[u8]);

    /// Adds one element that consists of several parts, regardless of the order of elements.
    fn part(&mut self, texts: &[&[u8]], expires: bool);
}

/// Words in journalled commands and events that concern expiring members.
#[derive(Debug)]
pub struct MemberWords {
    /// The keyword before the member count (`FIELDS`, `MEMBERS`).
    pub count: &'static str,
    /// The command that clears a member's expiry.
    pub persist: &'static str,
    /// The command that removes members.
    pub remove: &'static str,
    /// The event for an expired member.
    pub expired: Event,
}

/// Decodes a value of one of a type's forms. Members whose expiry is before `now_ms` are left out.
pub type DecodeFn = fn(&mut ValueDecoder<'_>, RdbType, &Limits, i64) -> Result<Object, braid_rdb::Error>;

/// The static description of a type.
pub struct Descriptor {
    /// The type's number, as stored in entries.
    pub number: Type,
    /// The reply of TYPE.
    pub name: &'static str,
    /// The type's number in DEBUG DIGEST: Redis's object type.
    pub digest_number: u32,
    /// The type's forms in dump files.
    pub forms: &'static [&'static ValueForm],
    /// The ID, with the version of its form, of the Redis module whose values the type reads too
    /// (`braid_rdb::MODULE`); `decode` then starts after the ID.
    pub module: Option<u64>,
    /// Decodes any of these forms.
    pub decode: DecodeFn,
    /// Words for members that expire, if the type has such members.
    pub members: Option<MemberWords>,
    /// True once a value may exist for which [`Collection::needs_expiry_version`] is true.
    pub may_need_expiry_version: fn() -> bool,
    /// True if replicas of other kinds may lack the type: they are refused once a value was made
    /// ([`Descriptor::refuses_others`]), since they would fail to execute its commands.
    pub is_refused_elsewhere: bool,
    /// Access to values.
    pub access: AccessFns,
}

/// The types, by number, of which this process has made a value that others may lack.
static MADE: [AtomicBool; Type::NUMBERS] = [const { AtomicBool::new(false) }; Type::NUMBERS];

impl Descriptor {
    /// True once a value may exist that replicas of other kinds cannot follow.
    pub fn refuses_others(&self) -> bool {
        MADE[self.number.index()].load(Relaxed)
    }
}

/// Access to the values of a type through the word kept in an entry.
pub struct AccessFns {
    view: unsafe fn(*mut u8) -> *mut dyn Collection,
    relocate: unsafe fn(*mut u8, &mut Mover),
    release: unsafe fn(NonNull<u8>),
    /// Size of a value's boxed head in bytes; 0 for an inline type.
    head_bytes: fn() -> usize,
}

impl AccessFns {
    pub const fn of<T: ObjectType>() -> AccessFns {
        assert!(!T::INLINE || size_of::<T>() == size_of::<NonNull<u8>>());
        AccessFns {
            view: view::<T>,
            relocate: relocate::<T>,
            release: release::<T>,
            head_bytes: head_bytes::<T>,
        }
    }
}

impl AccessFns {
    /// The collection that the word at `place` refers to.
    ///
    /// # Safety
    /// As for [`in_word`].
    pub(crate) unsafe fn view(&self, place: *mut u8) -> *mut dyn Collection {
        // SAFETY: guaranteed by the caller.
        unsafe { (self.view)(place) }
    }

    /// Moves the box that the word at `place` points to, if it is a box.
    ///
    /// # Safety
    /// As for [`in_word`]; the caller is the only one to use the collection and the word.
    pub(crate) unsafe fn relocate(&self, place: *mut u8, mover: &mut Mover) {
        // SAFETY: guaranteed by the caller.
        unsafe { (self.relocate)(place, mover) }
    }
}

/// # Safety
/// As for [`AccessFns::relocate`].
unsafe fn relocate<T: ObjectType>(place: *mut u8, mover: &mut Mover) {
    if !T::INLINE {
        // SAFETY: the word came from a leaked box, which has the same representation.
        mover.relocate_box(unsafe { &mut *place.cast::<Box<T>>() });
    }
}

/// # Safety
/// As for [`in_word`].
unsafe fn view<T: ObjectType>(place: *mut u8) -> *mut dyn Collection {
    // SAFETY: guaranteed by the caller.
    unsafe { in_word::<T>(place) }
}

/// # Safety
/// As for [`from_word`].
unsafe fn release<T: ObjectType>(word: NonNull<u8>) {
    // SAFETY: guaranteed by the caller.
    drop(unsafe { from_word::<T>(word) });
}

fn head_bytes<T: ObjectType>() -> usize {
    if T::INLINE { 0 } else { braid_base::alloc::size_class(size_of::<T>()) }
}

static TYPES: [OnceLock<&'static Descriptor>; Type::NUMBERS] = [const { OnceLock::new() }; Type::NUMBERS];

/// The type that owns each form, by the form's number.
static FORMS: [OnceLock<&'static Descriptor>; 256] = [const { OnceLock::new() }; 256];

/// Registers a type and its forms. Registering the same type again is allowed.
///
/// # Panics
/// If another type has its number or one of its forms.
pub fn register(descriptor: &'static Descriptor) {
    braid_rdb::register(descriptor.forms);
    for form in descriptor.forms {
        let owner = FORMS[usize::from(form.number)].get_or_init(|| descriptor);
        assert!(std::ptr::eq(*owner, descriptor), "two types have form {}", form.number);
    }
    let known = TYPES[descriptor.number.index()].get_or_init(|| descriptor);
    assert!(std::ptr::eq(*known, descriptor), "two types have number {:?}", descriptor.number);
}

/// All registered types, by number.
pub fn types() -> impl Iterator<Item = &'static Descriptor> {
    TYPES.iter().filter_map(|slot| slot.get().copied())
}

impl Type {
    /// The type's descriptor; `None` for strings.
    #[inline]
    pub fn descriptor(self) -> Option<&'static Descriptor> {
        TYPES[self.index()].get().copied()
    }

    /// The type with this name (the reply of TYPE), in any case.
    pub fn named(name: &[u8]) -> Option<Type> {
        let all = std::iter::once(Type::STRING).chain(types().map(|known| known.number));
        all.into_iter().find(|kind| kind.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// The reply of TYPE.
    pub fn name(self) -> &'static str {
        self.descriptor().map_or("string", |descriptor| descriptor.name)
    }
}

/// Decodes a value other than a string, which follows the number of its form.
///
/// # Errors
/// If the data ends early or is damaged, or no type decodes this form.
pub fn decode(
    decoder: &mut ValueDecoder<'_>,
    kind: RdbType,
    limits: &Limits,
    now_ms: i64,
) -> Result<Object, braid_rdb::Error> {
    if kind.number() == braid_rdb::MODULE.number {
        let id = decoder.length()?;
        return match types().find(|known| known.module == Some(id)) {
            Some(known) => (known.decode)(decoder, kind, limits, now_ms),
            None => Err(decoder.foreign_module(id)),
        };
    }
    match FORMS[usize::from(kind.number())].get() {
        Some(known) => (known.decode)(decoder, kind, limits, now_ms),
        None => Err(decoder.foreign_value(kind)),
    }
}

/// An owned collection of any type.
pub struct Object {
    descriptor: &'static Descriptor,
    word: NonNull<u8>,
}

// SAFETY: it owns a collection, and collections are `Send` and `Sync` (`Collection`).
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

impl Object {
    /// Takes ownership of a collection.
    pub fn new<T: ObjectType>(collection: T) -> Object {
        register(T::DESCRIPTOR);
        let made = &MADE[T::TYPE.index()];
        if T::DESCRIPTOR.is_refused_elsewhere && !made.load(Relaxed) {
            made.store(true, Relaxed);
        }
        Object { descriptor: T::DESCRIPTOR, word: into_word(collection) }
    }

    /// The type of the collection.
    pub fn object_type(&self) -> Type {
        self.descriptor.number
    }

    /// The collection, for reading.
    pub fn as_ref(&self) -> ObjectRef<'_> {
        let place = std::ptr::from_ref(&self.word).cast::<u8>();
        ObjectRef { kind: self.descriptor.number, place, life: PhantomData }
    }

    /// Unwraps the collection, if it is of this type.
    pub fn into_inner<T: ObjectType>(self) -> Option<T> {
        // SAFETY: the word is of a value of this type, and its ownership passes here.
        (self.object_type() == T::TYPE).then(|| *unsafe { from_word::<T>(self.into_raw()) })
    }

    /// Turns the collection into the word kept in an entry; [`Object::from_raw`] reverses this.
    pub fn into_raw(self) -> NonNull<u8> {
        ManuallyDrop::new(self).word
    }

    /// Restores an object from the word that [`Object::into_raw`] returned.
    ///
    /// # Safety
    /// `raw` came from `into_raw` of an object of this type and is taken back once.
    pub unsafe fn from_raw(kind: Type, raw: NonNull<u8>) -> Object {
        let descriptor = kind.descriptor().expect("a type with values is registered");
        Object { descriptor, word: raw }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: the word is of a value of this type, which is dropped once.
        unsafe { (self.descriptor.access.release)(self.word) };
    }
}

/// A collection of any type, for reading.
#[derive(Clone, Copy)]
pub struct ObjectRef<'a> {
    kind: Type,
    /// Address of the word.
    place: *const u8,
    life: PhantomData<&'a Object>,
}

// SAFETY: it is a shared reference to a collection (`Collection` is `Sync`).
unsafe impl Send for ObjectRef<'_> {}
// SAFETY: as above.
unsafe impl Sync for ObjectRef<'_> {}

impl<'a> ObjectRef<'a> {
    /// Reads the word kept in an entry.
    ///
    /// # Safety
    /// `place` is that of a word made by [`Object::into_raw`] of this type, alive for `'a` and not
    /// written meanwhile.
    #[inline]
    pub(crate) unsafe fn from_raw(kind: Type, place: *const u8) -> ObjectRef<'a> {
        ObjectRef { kind, place, life: PhantomData }
    }

    /// The collection, if it is of this type.
    #[inline]
    pub fn get<T: ObjectType>(self) -> Option<&'a T> {
        // SAFETY: a word of a value of this type, alive and not written (`from_raw`).
        (self.kind == T::TYPE).then(|| unsafe { &*in_word::<T>(self.place.cast_mut()) })
    }

    /// The type of the collection.
    pub fn object_type(self) -> Type {
        self.kind
    }

    /// The descriptor of the collection's type.
    pub fn descriptor(self) -> &'static Descriptor {
        self.kind.descriptor().expect("a type with values is registered")
    }

    /// The operations common to all collections.
    pub fn collection(self) -> &'a dyn Collection {
        // SAFETY: as in `get`, with the functions of the word's own type.
        unsafe { &*self.descriptor().access.view(self.place.cast_mut()) }
    }

    /// The collection, if it is of this type.
    pub fn downcast<T: ObjectType>(self) -> Option<&'a T> {
        // SAFETY: the word is of a value of this type, which lives as long as the result.
        (self.kind == T::TYPE).then(|| unsafe { &*in_word::<T>(self.place.cast_mut()) })
    }

    /// The reply of OBJECT ENCODING.
    pub fn encoding_name(self) -> &'static str {
        self.collection().encoding()
    }

    /// Bytes of all allocations, the boxed head included.
    pub fn memory_bytes(self) -> usize {
        self.collection().memory_bytes() + (self.descriptor().access.head_bytes)()
    }

    /// Approximate cost of dropping the collection, in allocations.
    pub fn release_effort(self) -> usize {
        self.collection().release_effort()
    }

    /// See [`Collection::is_large`].
    pub fn is_large(self) -> bool {
        self.collection().is_large()
    }

    /// A deep copy.
    pub fn duplicate(self) -> Object {
        self.collection().duplicate()
    }

    /// Expired members that are not yet removed.
    pub fn expired_members(self, now_ms: i64) -> ExpiredMembers {
        if self.next_member_expiry().is_none_or(|at| at >= now_ms) {
            return ExpiredMembers::new();
        }
        // Removal needs a mutable collection, so remove them from a copy; this is rare.
        let copy = self.duplicate();
        // SAFETY: the copy is owned here, and this is the only reference to it.
        let copied = unsafe { &mut *collection_at(copy.descriptor, std::ptr::from_ref(&copy.word)) };
        copied.remove_expired(now_ms, usize::MAX)
    }

    /// Earliest expiry of a member, ms since the Unix epoch.
    pub fn next_member_expiry(self) -> Option<i64> {
        self.collection().next_expiry()
    }
}

/// # Safety
/// The word is of a value of this type.
unsafe fn collection_at(descriptor: &Descriptor, word: *const NonNull<u8>) -> *mut dyn Collection {
    // SAFETY: guaranteed by the caller.
    unsafe { descriptor.access.view(word.cast_mut().cast()) }
}

fn into_word<T: ObjectType>(collection: T) -> NonNull<u8> {
    if !T::INLINE {
        return NonNull::from(Box::leak(Box::new(collection))).cast();
    }
    let collection = ManuallyDrop::new(collection);
    // SAFETY: it is one pointer that is never null (`INLINE`), and not dropped here.
    unsafe { std::mem::transmute_copy::<ManuallyDrop<T>, NonNull<u8>>(&collection) }
}

/// # Safety
/// The word came from [`into_word`] with the same type and is taken back once.
unsafe fn from_word<T: ObjectType>(word: NonNull<u8>) -> Box<T> {
    if T::INLINE {
        // SAFETY: the word is the collection, whose ownership passes here.
        Box::new(unsafe { std::mem::transmute_copy::<NonNull<u8>, T>(&word) })
    } else {
        // SAFETY: guaranteed by the caller.
        unsafe { Box::from_raw(word.cast().as_ptr()) }
    }
}

/// The address of the collection that a word in memory refers to.
///
/// # Safety
/// `place` holds a word made by [`into_word`] with the same type.
#[inline]
pub(crate) unsafe fn in_word<T: ObjectType>(place: *mut u8) -> *mut T {
    if T::INLINE {
        place.cast()
    } else {
        // SAFETY: guaranteed by the caller: the word is a pointer.
        unsafe { place.cast::<*mut T>().read() }
    }
}
