// SPDX-License-Identifier: BSD-3-Clause
//! Serialization of structures in a saved state: field by field, fixed-size numbers, lists with a
//! length prefix. Each structure lists its fields in its own file. Loading never allocates more
//! than the input can fill.

use std::collections::BTreeMap;

use smallvec::SmallVec;

/// A type with a serialized form in a saved state.
pub trait Stored: Sized {
    fn store(&self, out: &mut Vec<u8>);
    /// Takes a value from the front of `from`; `None` if the bytes are not valid.
    fn load(from: &mut &[u8]) -> Option<Self>;
}

/// Implements [`Stored`] for a structure: its fields in this order, then optionally a condition
/// that a loaded value must meet.
macro_rules! stored {
    (<V> $type:ident { $($field:ident),* $(,)? } $(, $can_be:expr)?) => {
        impl<V: $crate::stored::Stored> $crate::stored::Stored for $type<V> {
            $crate::stored::stored!(@ [$($field),*] $($can_be)?);
        }
    };
    (@ [$($field:ident),*] $($can_be:expr)?) => {
        fn store(&self, out: &mut Vec<u8>) {
            $($crate::stored::Stored::store(&self.$field, out);)*
        }

        fn load(from: &mut &[u8]) -> Option<Self> {
            let loaded = Self { $($field: $crate::stored::Stored::load(from)?),* };
            $(let loaded = Some(loaded).filter($can_be)?;)?
            Some(loaded)
        }
    };
    ($type:ident { $($field:ident),* $(,)? } $(, $can_be:expr)?) => {
        impl $crate::stored::Stored for $type {
            $crate::stored::stored!(@ [$($field),*] $($can_be)?);
        }
    };
}
pub(crate) use stored;

/// Implements [`Stored`] for numbers, little-endian.
macro_rules! number {
    ($($type:ty),*) => {
        $(impl Stored for $type {
            fn store(&self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }

            fn load(from: &mut &[u8]) -> Option<Self> {
                let (bytes, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(Self::from_le_bytes(*bytes))
            }
        })*
    };
}
number!(u8, u16, u32, u64, i128);

impl Stored for f64 {
    fn store(&self, out: &mut Vec<u8>) {
        self.to_bits().store(out);
    }

    /// Rejects NaN: no score is NaN.
    fn load(from: &mut &[u8]) -> Option<f64> {
        u64::load(from).map(f64::from_bits).filter(|number| !number.is_nan())
    }
}

impl Stored for () {
    fn store(&self, _: &mut Vec<u8>) {}

    fn load(_: &mut &[u8]) -> Option<()> {
        Some(())
    }
}

pub(crate) fn store_len(len: usize, out: &mut Vec<u8>) {
    (len as u64).store(out);
}

/// Loads a length. One beyond the remaining bytes is refused, as every element has at least one
/// byte.
pub(crate) fn load_len(from: &mut &[u8]) -> Option<usize> {
    usize::try_from(u64::load(from)?).ok().filter(|len| *len <= from.len())
}

impl Stored for crate::Text {
    fn store(&self, out: &mut Vec<u8>) {
        store_len(self.len(), out);
        out.extend_from_slice(self);
    }

    fn load(from: &mut &[u8]) -> Option<Self> {
        let len = load_len(from)?;
        let (text, rest) = from.split_at_checked(len)?;
        *from = rest;
        Some(Self::from_slice(text))
    }
}

impl Stored for crate::Name {
    fn store(&self, out: &mut Vec<u8>) {
        store_len(self.len(), out);
        out.extend_from_slice(self);
    }

    fn load(from: &mut &[u8]) -> Option<Self> {
        crate::Bytes::load(from).map(Self::from)
    }
}

impl<T: Stored> Stored for Option<T> {
    fn store(&self, out: &mut Vec<u8>) {
        u8::from(self.is_some()).store(out);
        self.iter().for_each(|one| one.store(out));
    }

    fn load(from: &mut &[u8]) -> Option<Self> {
        match u8::load(from)? {
            0 => Some(None),
            1 => T::load(from).map(Some),
            _ => None,
        }
    }
}

impl<T: Stored> Stored for Box<T> {
    fn store(&self, out: &mut Vec<u8>) {
        (**self).store(out);
    }

    fn load(from: &mut &[u8]) -> Option<Self> {
        T::load(from).map(Box::new)
    }
}

/// Implements [`Stored`] for sequences.
macro_rules! sequence {
    ($($type:ty),*) => {
        $(impl<T: Stored> Stored for $type {
            fn store(&self, out: &mut Vec<u8>) {
                store_len(self.len(), out);
                self.iter().for_each(|one| one.store(out));
            }

            fn load(from: &mut &[u8]) -> Option<Self> {
                let len = load_len(from)?;
                (0..len).map(|_| T::load(from)).collect()
            }
        })*
    };
}
sequence!(Vec<T>, Box<[T]>, SmallVec<[T; 4]>);

impl<A: Stored, B: Stored> Stored for (A, B) {
    fn store(&self, out: &mut Vec<u8>) {
        self.0.store(out);
        self.1.store(out);
    }

    fn load(from: &mut &[u8]) -> Option<Self> {
        Some((A::load(from)?, B::load(from)?))
    }
}

impl<K: Stored + Ord, V: Stored> Stored for BTreeMap<K, V> {
    fn store(&self, out: &mut Vec<u8>) {
        store_len(self.len(), out);
        for (key, value) in self {
            key.store(out);
            value.store(out);
        }
    }

    fn load(from: &mut &[u8]) -> Option<Self> {
        let len = load_len(from)?;
        (0..len).map(|_| <(K, V)>::load(from)).collect()
    }
}
