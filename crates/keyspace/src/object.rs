// SPDX-License-Identifier: BSD-3-Clause
//! Collections as the keyspace sees them: a pointer with a type, and the few things it needs to do with any of them.
//!
//! A new type is one variant here. The keyspace never looks into a collection.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use braid_containers::hash::Hash;
use braid_containers::list::List;
use braid_containers::listpack::Element;
use braid_containers::set::Set;
use braid_containers::sorted_set::SortedSet;
use braid_containers::stream::Stream;

use crate::entry::{Entry, Type, Value, ValueRef};

macro_rules! objects {
    ($($name:ident: $kind:ty, inline $inline:literal, encoding $encoding:expr, effort $effort:expr;)*) => {
        /// An owned collection.
        pub enum Object { $($name(Box<$kind>)),* }

        /// A collection for reading.
        #[derive(Clone, Copy)]
        pub enum ObjectRef<'a> { $($name(&'a $kind)),* }

        impl Object {
            /// The value type this collection is.
            pub fn object_type(&self) -> Type {
                match self { $(Object::$name(_) => Type::$name),* }
            }

            /// Turns the collection into the word that an entry keeps; [`Object::from_raw`] takes it back.
            pub fn into_raw(self) -> NonNull<u8> {
                match self { $(Object::$name(object) => into_word::<$kind>(object)),* }
            }

            /// Takes back what [`Object::into_raw`] gave.
            ///
            /// # Safety
            /// `raw` came from `into_raw` of an object of this type and is taken back once.
            pub unsafe fn from_raw(kind: Type, raw: NonNull<u8>) -> Object {
                match kind {
                    // SAFETY: the caller's.
                    $(Type::$name => Object::$name(unsafe { from_word::<$kind>(raw) }),)*
                    Type::String => unreachable!("strings are not objects"),
                }
            }
        }

        impl<'a> ObjectRef<'a> {
            /// Reads the word kept in an entry.
            ///
            /// # Safety
            /// `word` points to a word made by [`Object::into_raw`] of this type, alive for `'a` and not written meanwhile.
            pub unsafe fn from_raw(kind: Type, word: *const *const u8) -> ObjectRef<'a> {
                match kind {
                    // SAFETY: the caller's.
                    $(Type::$name => ObjectRef::$name(unsafe { &*in_word::<$kind>(word.cast_mut().cast()) }),)*
                    Type::String => unreachable!("strings are not objects"),
                }
            }

            /// What OBJECT ENCODING answers.
            pub fn encoding_name(self) -> &'static str {
                match self { $(ObjectRef::$name(object) => $encoding(object)),* }
            }

            /// Bytes of all its allocations, the boxed head included.
            pub fn memory_bytes(self) -> usize {
                match self {
                    $(ObjectRef::$name(object) => object.memory_bytes()
                        + if $inline { 0 } else { braid_base::alloc::size_class(size_of::<$kind>()) }),*
                }
            }

            /// How much work dropping it is, in allocations (roughly).
            pub fn release_effort(self) -> usize {
                match self { $(ObjectRef::$name(object) => $effort(object)),* }
            }

            /// True when to read all of it takes so long that nobody should have to wait for it.
            pub fn is_large(self) -> bool {
                match self { $(ObjectRef::$name(object) => object.is_large()),* }
            }

            /// A deep copy.
            pub fn duplicate(self) -> Object {
                match self { $(ObjectRef::$name(object) => Object::$name(Box::new(object.clone()))),* }
            }
        }

        /// The collection of an entry as it is now, sharing memory with it (see `braid_containers::lend`).
        ///
        /// # Safety
        /// The caller holds the entry's shard exclusively and has no reference to the object.
        unsafe fn lend_object(entry: Entry<'_>) -> Option<Object> {
            match entry.value_type() {
                Type::String => None,
                // SAFETY: the caller's.
                $(Type::$name => Some(unsafe { entry.object_mut::<$kind>() }.lend().into_object()),)*
            }
        }

        $(impl<'a> Typed<'a> for $kind {
            const TYPE: Type = Type::$name;
            const INLINE: bool = {
                assert!(!$inline || size_of::<$kind>() == size_of::<NonNull<u8>>());
                $inline
            };
            fn from_ref(object: ObjectRef<'a>) -> Option<&'a Self> {
                match object { ObjectRef::$name(object) => Some(object), _ => None }
            }
            fn into_object(self) -> Object { Object::$name(Box::new(self)) }
        })*
    };
}

/// A concrete collection type, for typed look-ups.
pub trait Typed<'a>: Sized + 'a {
    /// The value type.
    const TYPE: Type;
    /// It is itself the word that an entry keeps, rather than what that points to: one pointer wide, never null.
    const INLINE: bool;
    /// The collection, if it is of this type.
    fn from_ref(object: ObjectRef<'a>) -> Option<&'a Self>;
    /// Boxes it.
    fn into_object(self) -> Object;
}

fn into_word<'a, T: Typed<'a>>(object: Box<T>) -> NonNull<u8> {
    if !T::INLINE {
        return NonNull::from(Box::leak(object)).cast();
    }
    let object = ManuallyDrop::new(*object);
    // SAFETY: it is one pointer that is never null (`INLINE`), and not dropped here.
    unsafe { std::mem::transmute_copy::<ManuallyDrop<T>, NonNull<u8>>(&object) }
}

/// # Safety
/// The word came from [`into_word`] with the same type and is taken back once.
unsafe fn from_word<'a, T: Typed<'a>>(word: NonNull<u8>) -> Box<T> {
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
pub(crate) unsafe fn in_word<'a, T: Typed<'a>>(place: *mut u8) -> *mut T {
    if T::INLINE {
        place.cast()
    } else {
        // SAFETY: the caller's: the word is a pointer.
        unsafe { place.cast::<*mut T>().read() }
    }
}

/// An entry with a large collection or string as it was when it was lent: of nobody's tables, sharing memory with the one that it was made of.
pub struct LentEntry(Entry<'static>);

// SAFETY: it owns the entry, which nobody else can reach; what its collection shares with another one is neither's to change.
unsafe impl Send for LentEntry {}

impl LentEntry {
    /// Lends the collection of an entry, or its long string; nothing if it has neither.
    ///
    /// # Safety
    /// The caller holds the entry's shard exclusively and has no reference to the collection.
    pub(crate) unsafe fn of(entry: Entry<'_>) -> Option<LentEntry> {
        let value = match entry.value() {
            ValueRef::Blob(blob) => Value::Blob(blob.clone()),
            // SAFETY: the caller's.
            _ => Value::Object(unsafe { lend_object(entry) }?),
        };
        Some(LentEntry(Entry::allocate(entry.key(), value, entry.expiry(), entry.clock())))
    }

    /// Bytes of memory that it keeps once the entry that it was made of has changed, whatever was changed: those of a string.
    pub fn kept_bytes(&self) -> usize {
        if let ValueRef::Blob(blob) = self.0.value() { blob.allocation_bytes() } else { 0 }
    }

    /// The entry.
    pub fn entry(&self) -> Entry<'_> {
        self.0
    }
}

impl Drop for LentEntry {
    fn drop(&mut self) {
        // SAFETY: made here, in no table, and not used any more.
        unsafe { self.0.release() };
    }
}

/// True for an entry with a collection that is better lent than copied.
pub(crate) fn is_large_collection(entry: Entry<'_>) -> bool {
    matches!(entry.value(), ValueRef::Object(object) if object.is_large())
}

/// A string of more bytes is better lent than encoded.
const LARGE_STRING: usize = 64 * 1024;

/// True for an entry that is better lent than encoded.
pub(crate) fn is_large(entry: Entry<'_>) -> bool {
    match entry.value() {
        ValueRef::Blob(blob) => blob.len() > LARGE_STRING,
        ValueRef::Bytes(_) | ValueRef::Integer(_) => false,
        ValueRef::Object(object) => object.is_large(),
    }
}

/// The names of members that were removed because they were past their expiry.
pub type ExpiredMembers = Vec<Box<[u8]>>;

/// A collection whose members may expire.
pub trait Expiring<'a>: Typed<'a> {
    /// When the first of its members expires, ms since the Unix epoch.
    fn next_expiry(&self) -> Option<i64>;
    /// Removes up to `most` members past their expiry, earliest first.
    fn remove_expired(&mut self, now: i64, most: usize) -> ExpiredMembers;
    /// True when no member is left.
    fn is_empty(&self) -> bool;
}

macro_rules! expiring {
    ($($kind:ty, |$gone:ident| $note:expr;)*) => {
        $(impl<'a> Expiring<'a> for $kind {
            #[inline]
            fn next_expiry(&self) -> Option<i64> { <$kind>::next_expiry(self) }
            fn remove_expired(&mut self, now: i64, most: usize) -> ExpiredMembers {
                let mut $gone = ExpiredMembers::new();
                <$kind>::remove_expired(self, now, most, $note);
                $gone
            }
            fn is_empty(&self) -> bool { <$kind>::is_empty(self) }
        })*
    };
}

expiring! {
    Hash, |gone| |field: &[u8]| gone.push(field.into());
    Set, |gone| |member: &[u8]| gone.push(member.into());
    SortedSet, |gone| |member: Element<'_>, _| gone.push(member.to_vec().into());
}

impl ObjectRef<'_> {
    /// The members that are past their expiry and still there.
    pub fn expired_members(self, now: i64) -> ExpiredMembers {
        if self.next_member_expiry().is_none_or(|at| at >= now) {
            return ExpiredMembers::new();
        }
        // Only a copy can be asked for them; this is rare.
        match self {
            ObjectRef::Hash(hash) => Expiring::remove_expired(&mut hash.clone(), now, usize::MAX),
            ObjectRef::Set(set) => Expiring::remove_expired(&mut set.clone(), now, usize::MAX),
            ObjectRef::SortedSet(set) => Expiring::remove_expired(&mut set.clone(), now, usize::MAX),
            ObjectRef::List(_) | ObjectRef::Stream(_) => ExpiredMembers::new(),
        }
    }

    /// When the first member of the collection expires, ms since the Unix epoch.
    pub fn next_member_expiry(self) -> Option<i64> {
        match self {
            ObjectRef::Hash(hash) => hash.next_expiry(),
            ObjectRef::Set(set) => set.next_expiry(),
            ObjectRef::SortedSet(set) => set.next_expiry(),
            ObjectRef::List(_) | ObjectRef::Stream(_) => None,
        }
    }
}

objects! {
    List: List, inline false, encoding List::encoding, effort |list: &List| list.len() / 64;
    Set: Set, inline false, encoding Set::encoding, effort |set: &Set| set.len() / 16;
    SortedSet: SortedSet, inline false, encoding SortedSet::encoding, effort SortedSet::len;
    Hash: Hash, inline true, encoding Hash::encoding, effort |hash: &Hash| hash.len() / 16;
    Stream: Stream, inline false, encoding |_: &Stream| "stream", effort stream_effort;
}

/// Allocations of a stream, about: its blocks, and what its groups have not had acknowledged (several of those share a tree node).
fn stream_effort(stream: &Stream) -> usize {
    let pending: usize = stream.groups().iter().map(|(_, group)| group.pending_len()).sum();
    stream.log().block_count() + pending / 8
}
