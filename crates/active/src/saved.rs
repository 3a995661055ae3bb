// SPDX-License-Identifier: BSD-3-Clause
//! A replica's state as bytes, for a file and for a full copy.
//!
//! A mark and a version, the length and a checksum, then every structure field by field: numbers of
//! fixed size, texts and lists with their length. Nothing is allocated that the bytes cannot fill, and
//! what does not fill the bytes exactly is refused.

use std::collections::{BTreeMap, VecDeque};

use braid_base::crc::crc64;

use crate::replica::{Replica, State};

/// The version that is written and read.
pub const VERSION: u8 = 1;
const MAGIC: &[u8] = b"BRAIDAAS";
/// Mark, version, length, checksum.
const HEAD: usize = MAGIC.len() + 1 + 8 + 8;
/// Bytes of a piece.
const PIECE: usize = 64 << 10;

/// Why bytes are no saved state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SavedError {
    #[error("this is no state of active-active replication")]
    Magic,
    #[error("the state has version {0}, this server knows {VERSION}")]
    Version(u8),
    #[error("the state ends too early")]
    Short,
    #[error("{0} bytes follow the state")]
    Trailing(usize),
    #[error("the checksum is wrong")]
    Checksum,
    #[error("the state is damaged")]
    Damaged,
}

/// The bytes, in pieces of 64 KB.
pub fn save(replica: &Replica) -> impl Iterator<Item = Vec<u8>> {
    let mut content = Vec::new();
    replica.state().store(&mut content);
    let mut bytes = MAGIC.to_vec();
    bytes.push(VERSION);
    bytes.extend((content.len() as u64).to_le_bytes());
    bytes.extend(crc64(0, &content).to_le_bytes());
    bytes.extend(content);
    (0..bytes.len().div_ceil(PIECE))
        .map(move |piece| bytes[piece * PIECE..].iter().take(PIECE).copied().collect())
}

/// Reads what [`save`] wrote.
#[derive(Debug, Default)]
pub struct Loader {
    buffer: Vec<u8>,
}

impl Loader {
    pub fn new() -> Loader {
        Loader::default()
    }

    /// The length of all, once that has come.
    fn len(&self) -> Result<Option<usize>, SavedError> {
        let begin = &self.buffer[..self.buffer.len().min(MAGIC.len())];
        if !MAGIC.starts_with(begin) {
            return Err(SavedError::Magic);
        }
        match self.buffer.get(MAGIC.len()) {
            Some(&VERSION) | None => {}
            Some(&other) => return Err(SavedError::Version(other)),
        }
        let len = self.buffer.get(MAGIC.len() + 1..).and_then(|rest| rest.first_chunk::<8>());
        Ok(len
            .map(|len| usize::try_from(u64::from_le_bytes(*len)).unwrap_or(usize::MAX).saturating_add(HEAD)))
    }

    /// Takes the next bytes, however they are cut. True when the state is complete: what follows is
    /// not taken, and `bytes` is left behind it.
    pub fn feed(&mut self, bytes: &mut &[u8]) -> Result<bool, SavedError> {
        let before = self.buffer.len();
        self.buffer.extend_from_slice(bytes);
        let Some(len) = self.len()? else {
            *bytes = &[];
            return Ok(false);
        };
        let is_whole = self.buffer.len() >= len;
        if is_whole {
            self.buffer.truncate(len);
        }
        *bytes = &bytes[self.buffer.len() - before..];
        Ok(is_whole)
    }

    /// The state.
    pub fn finish(self) -> Result<State, SavedError> {
        if self.len()? != Some(self.buffer.len()) || self.buffer.len() < HEAD {
            return Err(SavedError::Short);
        }
        let (head, content) = self.buffer.split_at(HEAD);
        let sum = head.last_chunk::<8>().map(|sum| u64::from_le_bytes(*sum));
        if sum != Some(crc64(0, content)) {
            return Err(SavedError::Checksum);
        }
        let mut left = content;
        let state = State::load(&mut left).ok_or(SavedError::Damaged)?;
        match left.len() {
            0 => Ok(state),
            more => Err(SavedError::Trailing(more)),
        }
    }
}

/// What has a form in a saved state.
pub(crate) trait Stored: Sized {
    fn store(&self, out: &mut Vec<u8>);
    /// Takes it from the begin of some bytes.
    fn load(from: &mut &[u8]) -> Option<Self>;
}

/// The form of a structure: its fields in this order.
macro_rules! stored {
    (<V> $type:ident { $($field:ident),* $(,)? }) => {
        impl<V: $crate::saved::Stored> $crate::saved::Stored for $type<V> {
            $crate::saved::stored!(@ $($field),*);
        }
    };
    (@ $($field:ident),*) => {
        fn store(&self, out: &mut Vec<u8>) {
            $($crate::saved::Stored::store(&self.$field, out);)*
        }

        fn load(from: &mut &[u8]) -> Option<Self> {
            Some(Self { $($field: $crate::saved::Stored::load(from)?),* })
        }
    };
    ($type:ident { $($field:ident),* $(,)? }) => {
        impl $crate::saved::Stored for $type {
            $crate::saved::stored!(@ $($field),*);
        }
    };
}
pub(crate) use stored;

/// The form of a number.
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
number!(u8, u16, u32, u64, i128, f64);

impl Stored for () {
    fn store(&self, _: &mut Vec<u8>) {}

    fn load(_: &mut &[u8]) -> Option<()> {
        Some(())
    }
}

fn store_len(len: usize, out: &mut Vec<u8>) {
    (len as u64).store(out);
}

/// A length that the bytes can fill: everything has at least one byte.
fn load_len(from: &mut &[u8]) -> Option<usize> {
    usize::try_from(u64::load(from)?).ok().filter(|len| *len <= from.len())
}

impl Stored for crate::Bytes {
    fn store(&self, out: &mut Vec<u8>) {
        store_len(self.len(), out);
        out.extend_from_slice(self);
    }

    fn load(from: &mut &[u8]) -> Option<Self> {
        let len = load_len(from)?;
        let (bytes, rest) = from.split_at(len);
        *from = rest;
        Some(bytes.into())
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

/// The form of a list of some kind.
macro_rules! sequence {
    ($($type:ident),*) => {
        $(impl<T: Stored> Stored for $type<T> {
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
sequence!(Vec, VecDeque);

/// Fields of a stream's entry, steps of a place.
macro_rules! slice {
    ($($element:ty),*) => {
        $(impl Stored for Box<[$element]> {
            fn store(&self, out: &mut Vec<u8>) {
                store_len(self.len(), out);
                self.iter().for_each(|one| one.store(out));
            }

            fn load(from: &mut &[u8]) -> Option<Self> {
                Vec::load(from).map(Vec::into_boxed_slice)
            }
        })*
    };
}
slice!(crate::Bytes, crate::place::Step);

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
