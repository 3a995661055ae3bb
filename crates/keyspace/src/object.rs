// SPDX-License-Identifier: BSD-3-Clause
//! Collections as the keyspace, the files and the generic commands see them: a word with a type, and
//! a descriptor that says what can be done with any value of the type.
//!
//! Flow: a type implements [`ObjectType`] and states a [`Descriptor`] in its own folder (crate
//! `types`). [`register`] enters the descriptor under the type's number; making the first value of a
//! type does so, too, so that no entry has a type that the table does not know. Typed look-ups
//! (`Txn::read_as::<Hash>`) compare numbers and cast: no table and no virtual call. Everything else
//! goes from an [`ObjectRef`] over the table to a [`Collection`].
//!
//! The keyspace never looks into a collection, and knows no type but strings.

use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::OnceLock;

use braid_containers::listpack::Listpack;
use braid_rdb::{Limits, RdbType, SavedObject, ValueDecoder, ValueForm};

use crate::events::Event;
use crate::value_type::Type;

/// The names of members that were removed because they were past their expiry.
pub type ExpiredMembers = Vec<Box<[u8]>>;

/// A value other than a string.
pub trait Collection: SavedObject + Send + Sync + 'static {
    /// What OBJECT ENCODING answers.
    fn encoding(&self) -> &'static str;

    /// Bytes of its allocations, those of its head (the boxed value itself) not included.
    fn memory_bytes(&self) -> usize;

    /// How much work dropping it is, in allocations (roughly).
    fn release_effort(&self) -> usize;

    /// True when reading all of it takes so long that requests should not wait for it: a snapshot
    /// takes [`Collection::cow`] of it then.
    fn is_large(&self) -> bool;

    /// True if the key is to be removed.
    fn is_empty(&self) -> bool;

    /// A deep copy.
    fn duplicate(&self) -> Object;

    /// The collection as it is now, sharing memory with this one until either changes (see
    /// `braid_containers::cow`).
    fn cow(&mut self) -> Object;

    /// Writes the requests that make the key's value (not its expiry).
    fn rewrite(&self, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()>;

    /// Puts its elements into a digest of the data set, however they are kept. Members past their
    /// expiry count until they are removed.
    fn digest(&self, out: &mut dyn DigestSink);

    /// When the first of its members expires, ms since the Unix epoch.
    fn next_expiry(&self) -> Option<i64> {
        None
    }

    /// Removes up to `most` members past their expiry, earliest first.
    fn remove_expired(&mut self, _now: i64, _most: usize) -> ExpiredMembers {
        ExpiredMembers::new()
    }

    /// Gives a member that is there its expiry, or removes it when that is past.
    fn set_member_expiry(&mut self, _member: &[u8], _at: i64, _now: i64) {}

    /// The one packed list that it is, for DEBUG LISTPACK.
    fn as_packed_list(&self) -> Option<&Listpack> {
        None
    }

    /// Members by segment of its table, for DEBUG HTSTATS-KEY.
    fn table_segments(&self) -> Option<Vec<usize>> {
        None
    }

    /// True if a dump file with this value needs the version that knows fields that expire.
    fn needs_expiry_version(&self) -> bool {
        false
    }
}

/// A concrete collection type, for typed look-ups.
pub trait ObjectType: Collection + Sized {
    /// What the table of types knows of it.
    const DESCRIPTOR: &'static Descriptor;

    /// The type's number.
    const TYPE: Type;

    /// It is itself the word that an entry keeps, rather than what that points to: one pointer wide,
    /// never null.
    const INLINE: bool = false;
}

/// A collection type whose members may expire.
pub trait Expiring: ObjectType {}

/// Takes the requests of a rewrite.
pub trait RequestSink {
    /// What a request is added to.
    fn buffer(&mut self) -> &mut Vec<u8>;

    /// One or more requests are complete.
    fn complete(&mut self) -> io::Result<()>;
}

/// Keeps them all.
impl RequestSink for Vec<u8> {
    fn buffer(&mut self) -> &mut Vec<u8> {
        self
    }

    fn complete(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes the elements of a value for DEBUG DIGEST.
pub trait DigestSink {
    /// Puts bytes in, in no particular order with others.
    fn xor(&mut self, bytes: &[u8]);

    /// Puts bytes in after all that was put in before.
    fn mix(&mut self, bytes: &[u8]);

    /// Puts one element of several parts in, which has no particular order with others.
    fn part(&mut self, texts: &[&[u8]], expires: bool);
}

/// The words of commands on members that expire.
#[derive(Debug)]
pub struct MemberWords {
    /// What stands before the members' number (`FIELDS`, `MEMBERS`).
    pub count: &'static str,
    /// The command that clears a member's expiry.
    pub persist: &'static str,
    /// The command that removes members.
    pub remove: &'static str,
    /// The event of members that have expired.
    pub expired: Event,
}

/// Reads a value of one of a type's forms. Members that expire before `now_ms` are left out.
pub type DecodeFn = fn(&mut ValueDecoder<'_>, RdbType, &Limits, i64) -> Result<Object, braid_rdb::Error>;

/// What is known of a type.
pub struct Descriptor {
    /// Its number, by which entries name it.
    pub number: Type,
    /// The name that TYPE answers.
    pub name: &'static str,
    /// Its number in DEBUG DIGEST: Redis's object type.
    pub digest_number: u32,
    /// The forms under which dump files have it.
    pub forms: &'static [&'static ValueForm],
    /// Reads any of these forms.
    pub decode: DecodeFn,
    /// The words for members that expire, if members can.
    pub members: Option<MemberWords>,
    /// True once there may be a value for which [`Collection::needs_expiry_version`] holds.
    pub may_need_expiry_version: fn() -> bool,
    /// How values are reached.
    pub access: AccessFns,
}

/// How values of a type are reached from the word that an entry keeps.
pub struct AccessFns {
    view: unsafe fn(*mut u8) -> *mut dyn Collection,
    release: unsafe fn(NonNull<u8>),
    /// Bytes that the head of a value takes.
    head_bytes: fn() -> usize,
}

impl AccessFns {
    /// For a type.
    pub const fn of<T: ObjectType>() -> AccessFns {
        assert!(!T::INLINE || size_of::<T>() == size_of::<NonNull<u8>>());
        AccessFns { view: view::<T>, release: release::<T>, head_bytes: head_bytes::<T> }
    }
}

impl AccessFns {
    /// The collection that the word at `place` stands for.
    ///
    /// # Safety
    /// As for [`in_word`].
    pub(crate) unsafe fn view(&self, place: *mut u8) -> *mut dyn Collection {
        // SAFETY: the caller's.
        unsafe { (self.view)(place) }
    }
}

/// # Safety
/// As for [`in_word`].
unsafe fn view<T: ObjectType>(place: *mut u8) -> *mut dyn Collection {
    // SAFETY: the caller's.
    unsafe { in_word::<T>(place) }
}

/// # Safety
/// As for [`from_word`].
unsafe fn release<T: ObjectType>(word: NonNull<u8>) {
    // SAFETY: the caller's.
    drop(unsafe { from_word::<T>(word) });
}

fn head_bytes<T: ObjectType>() -> usize {
    if T::INLINE { 0 } else { braid_base::alloc::size_class(size_of::<T>()) }
}

static TYPES: [OnceLock<&'static Descriptor>; Type::NUMBERS] = [const { OnceLock::new() }; Type::NUMBERS];

/// The type that has a form, by the form's number.
static FORMS: [OnceLock<&'static Descriptor>; 256] = [const { OnceLock::new() }; 256];

/// Makes a type known, with the forms of its values; the same type may be registered any number of
/// times.
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

/// All types that are registered, by number.
pub fn types() -> impl Iterator<Item = &'static Descriptor> {
    TYPES.iter().filter_map(|slot| slot.get().copied())
}

impl Type {
    /// What is known of the type; nothing for strings.
    #[inline]
    pub fn descriptor(self) -> Option<&'static Descriptor> {
        TYPES[self.index()].get().copied()
    }

    /// The type of a name as TYPE answers it, in any case.
    pub fn named(name: &[u8]) -> Option<Type> {
        let all = std::iter::once(Type::STRING).chain(types().map(|known| known.number));
        all.into_iter().find(|kind| kind.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// The name that TYPE answers.
    pub fn name(self) -> &'static str {
        self.descriptor().map_or("string", |descriptor| descriptor.name)
    }
}

/// Reads a value other than a string, behind its form.
pub fn decode(
    decoder: &mut ValueDecoder<'_>,
    kind: RdbType,
    limits: &Limits,
    now_ms: i64,
) -> Result<Object, braid_rdb::Error> {
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

// SAFETY: it owns a collection, and those can be sent and shared (`Collection`).
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

impl Object {
    /// Owns a collection.
    pub fn new<T: ObjectType>(collection: T) -> Object {
        register(T::DESCRIPTOR);
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

    /// The collection by value, if it is of this type.
    pub fn into_inner<T: ObjectType>(self) -> Option<T> {
        // SAFETY: the word is of a value of this type, and given away here.
        (self.object_type() == T::TYPE).then(|| *unsafe { from_word::<T>(self.into_raw()) })
    }

    /// Turns the collection into the word that an entry keeps; [`Object::from_raw`] takes it back.
    pub fn into_raw(self) -> NonNull<u8> {
        ManuallyDrop::new(self).word
    }

    /// Takes back what [`Object::into_raw`] gave.
    ///
    /// # Safety
    /// `raw` came from `into_raw` of an object of this type and is taken back once.
    pub unsafe fn from_raw(kind: Type, raw: NonNull<u8>) -> Object {
        let descriptor = kind.descriptor().expect("a type that has values is registered");
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
    /// Where the word is.
    place: *const u8,
    life: PhantomData<&'a Object>,
}

// SAFETY: it stands for a shared reference to a collection (`Collection` is `Sync`).
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

    /// The type.
    pub fn object_type(self) -> Type {
        self.kind
    }

    /// What is known of its type.
    pub fn descriptor(self) -> &'static Descriptor {
        self.kind.descriptor().expect("a type that has values is registered")
    }

    /// What any collection can do.
    pub fn collection(self) -> &'a dyn Collection {
        // SAFETY: as in `get`, with the functions of the word's own type.
        unsafe { &*self.descriptor().access.view(self.place.cast_mut()) }
    }

    /// What OBJECT ENCODING answers.
    pub fn encoding_name(self) -> &'static str {
        self.collection().encoding()
    }

    /// Bytes of all its allocations, the boxed head included.
    pub fn memory_bytes(self) -> usize {
        self.collection().memory_bytes() + (self.descriptor().access.head_bytes)()
    }

    /// How much work dropping it is, in allocations (roughly).
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

    /// The members that are past their expiry and still there.
    pub fn expired_members(self, now: i64) -> ExpiredMembers {
        if self.next_member_expiry().is_none_or(|at| at >= now) {
            return ExpiredMembers::new();
        }
        // Only a copy can be asked for them; this is rare.
        let copy = self.duplicate();
        // SAFETY: the copy is owned here, and reached by this reference alone.
        let copied = unsafe { &mut *collection_at(copy.descriptor, std::ptr::from_ref(&copy.word)) };
        copied.remove_expired(now, usize::MAX)
    }

    /// When the first member of the collection expires, ms since the Unix epoch.
    pub fn next_member_expiry(self) -> Option<i64> {
        self.collection().next_expiry()
    }
}

/// # Safety
/// The word is of a value of this type.
unsafe fn collection_at(descriptor: &Descriptor, word: *const NonNull<u8>) -> *mut dyn Collection {
    // SAFETY: the caller's.
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
        // SAFETY: the word is the collection, which changes hands here.
        Box::new(unsafe { std::mem::transmute_copy::<NonNull<u8>, T>(&word) })
    } else {
        // SAFETY: the caller's.
        unsafe { Box::from_raw(word.cast().as_ptr()) }
    }
}

/// Where the collection is that a word in memory stands for.
///
/// # Safety
/// `place` holds a word made by [`into_word`] with the same type.
#[inline]
pub(crate) unsafe fn in_word<T: ObjectType>(place: *mut u8) -> *mut T {
    if T::INLINE {
        place.cast()
    } else {
        // SAFETY: the caller's: the word is a pointer.
        unsafe { place.cast::<*mut T>().read() }
    }
}
