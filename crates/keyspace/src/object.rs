//! Collections as the keyspace sees them: a pointer with a type, and the few things it needs to do with any of them.
//!
//! A new type is one variant here. The keyspace never looks into a collection.

use std::ptr::NonNull;

use braid_containers::hash::Hash;
use braid_containers::list::List;
use braid_containers::set::Set;
use braid_containers::sorted_set::SortedSet;
use braid_containers::stream::Stream;

use crate::entry::Type;

macro_rules! objects {
    ($($name:ident: $kind:ty, encoding $encoding:expr, effort $effort:expr;)*) => {
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

            /// Turns the collection into a pointer; [`Object::from_raw`] takes it back.
            pub fn into_raw(self) -> NonNull<u8> {
                match self { $(Object::$name(object) => NonNull::from(Box::leak(object)).cast()),* }
            }

            /// Takes back what [`Object::into_raw`] gave.
            ///
            /// # Safety
            /// `raw` came from `into_raw` of an object of this type and is taken back once.
            pub unsafe fn from_raw(kind: Type, raw: NonNull<u8>) -> Object {
                match kind {
                    // SAFETY: the caller's.
                    $(Type::$name => Object::$name(unsafe { Box::from_raw(raw.cast().as_ptr()) }),)*
                    Type::String => unreachable!("strings are not objects"),
                }
            }
        }

        impl<'a> ObjectRef<'a> {
            /// Reads the pointer kept in an entry.
            ///
            /// # Safety
            /// `word` points to a pointer made by [`Object::into_raw`] of this type, alive for `'a` and not written meanwhile.
            pub unsafe fn from_raw(kind: Type, word: *const *const u8) -> ObjectRef<'a> {
                match kind {
                    // SAFETY: the caller's.
                    $(Type::$name => ObjectRef::$name(unsafe { &*(*word).cast() }),)*
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
                    $(ObjectRef::$name(object) =>
                        braid_base::alloc::size_class(size_of::<$kind>()) + object.memory_bytes()),*
                }
            }

            /// How much work dropping it is, in allocations (roughly).
            pub fn release_effort(self) -> usize {
                match self { $(ObjectRef::$name(object) => $effort(object)),* }
            }

            /// A deep copy.
            pub fn duplicate(self) -> Object {
                match self { $(ObjectRef::$name(object) => Object::$name(Box::new(object.clone()))),* }
            }
        }

        $(impl<'a> Typed<'a> for $kind {
            const TYPE: Type = Type::$name;
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
    /// The collection, if it is of this type.
    fn from_ref(object: ObjectRef<'a>) -> Option<&'a Self>;
    /// Boxes it.
    fn into_object(self) -> Object;
}

/// A collection whose members may expire.
pub trait Expiring<'a>: Typed<'a> {
    /// When the first of its members expires, ms since the Unix epoch.
    fn next_expiry(&self) -> Option<i64>;
    /// Removes up to `most` members past their expiry, earliest first; how many there were.
    fn remove_expired(&mut self, now: i64, most: usize) -> usize;
    /// True when no member is left.
    fn is_empty(&self) -> bool;
}

macro_rules! expiring {
    ($($kind:ty, $ignore:expr;)*) => {
        $(impl<'a> Expiring<'a> for $kind {
            #[inline]
            fn next_expiry(&self) -> Option<i64> { <$kind>::next_expiry(self) }
            fn remove_expired(&mut self, now: i64, most: usize) -> usize {
                <$kind>::remove_expired(self, now, most, $ignore)
            }
            fn is_empty(&self) -> bool { <$kind>::is_empty(self) }
        })*
    };
}

expiring! {
    Hash, |_| ();
    Set, |_| ();
    SortedSet, |_, _| ();
}

impl ObjectRef<'_> {
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
    List: List, encoding List::encoding, effort |list: &List| list.len() / 64;
    Set: Set, encoding Set::encoding, effort |set: &Set| set.len() / 16;
    SortedSet: SortedSet, encoding SortedSet::encoding, effort SortedSet::len;
    Hash: Hash, encoding Hash::encoding, effort |hash: &Hash| hash.len() / 16;
    Stream: Stream, encoding |_: &Stream| "stream", effort stream_effort;
}

/// Allocations of a stream, about: its blocks, and what its groups have not had acknowledged (several of those share a tree node).
fn stream_effort(stream: &Stream) -> usize {
    let pending: usize = stream.groups().iter().map(|(_, group)| group.pending_len()).sum();
    stream.log().block_count() + pending / 8
}
