// SPDX-License-Identifier: BSD-3-Clause
//! One member of a table as bytes: the layout of key, value and expiry inside a segment.
//!
//! HOT PATH: no allocation, no lock, no logging, no system call.
//!
//! Layout: a head byte (bit 7: an expiry follows, bit 6: the content is outside, low 6 bits: length
//! of the key, where 63 means that the next byte is added), the expiry if there is one (8 bytes,
//! ms, little endian), then either the index of the outside content (4 bytes), or the key and, in
//! tables with values, one length byte and the value. Therefore a member without an expiry has no
//! overhead for it, and a short set member costs one byte more than its text.

use std::sync::Arc;

use braid_base::blob::Blob;

use crate::cow::note_copy;

const EXPIRES: u8 = 0x80;
const OUTSIDE: u8 = 0x40;
const LONG: u8 = 0x3F;

/// Longer contents (key plus value, in bytes) are outside of the segment, each in its own
/// allocation.
pub const INLINE_MAX: usize = 192;

/// The content of a record, or its location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// Key and value.
    Inline(&'a [u8], &'a [u8]),
    /// Index of the content in the table's [`Outside`].
    Outside(u32),
}

/// A record, read or about to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a, const VALUES: bool> {
    /// Expiry in ms, if any.
    pub expire_at: Option<i64>,
    /// Key and value, or their location.
    pub content: Content<'a>,
}

/// Length of the key that begins right after this head byte; `None` unless the key is short and
/// inline and the record has no expiry.
#[inline]
pub fn short_key_len(head: u8) -> Option<usize> {
    (head < LONG).then_some(usize::from(head))
}

impl<'a, const VALUES: bool> Record<'a, VALUES> {
    /// Parses the record at the start of `bytes`; also returns its size in bytes.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Option<(Record<'a, VALUES>, usize)> {
        let (&head, rest) = bytes.split_first()?;
        if let Some(key_len) = short_key_len(head) {
            // The common case.
            let (key, rest) = rest.split_at_checked(key_len)?;
            let (value, _) = read_value::<VALUES>(rest)?;
            let size = 1 + key.len() + usize::from(VALUES) + value.len();
            return Some((Record { expire_at: None, content: Content::Inline(key, value) }, size));
        }
        let mut rest = rest;
        let mut key_len = usize::from(head & LONG);
        if key_len == usize::from(LONG) {
            let (&more, behind) = rest.split_first()?;
            key_len += usize::from(more);
            rest = behind;
        }
        let mut expire_at = None;
        if head & EXPIRES != 0 {
            let (time, behind) = rest.split_first_chunk::<8>()?;
            expire_at = Some(i64::from_le_bytes(*time));
            rest = behind;
        }
        let (content, rest) = if head & OUTSIDE != 0 {
            let (index, behind) = rest.split_first_chunk::<4>()?;
            (Content::Outside(u32::from_le_bytes(*index)), behind)
        } else {
            let (key, behind) = rest.split_at_checked(key_len)?;
            let (value, behind) = read_value::<VALUES>(behind)?;
            (Content::Inline(key, value), behind)
        };
        Some((Record { expire_at, content }, bytes.len() - rest.len()))
    }

    /// The index of the content if it is outside.
    #[inline]
    pub fn outside_index(&self) -> Option<u32> {
        match self.content {
            Content::Outside(index) => Some(index),
            Content::Inline(..) => None,
        }
    }

    /// Size of the record in bytes.
    #[inline]
    pub fn size(&self) -> usize {
        let expiry = if self.expire_at.is_some() { 8 } else { 0 };
        expiry
            + match self.content {
                Content::Outside(_) => 5,
                Content::Inline(key, value) => {
                    let head = 1 + usize::from(key.len() >= usize::from(LONG));
                    head + key.len() + if VALUES { 1 + value.len() } else { 0 }
                }
            }
    }

    /// Writes the record to `to`, which has exactly its size. The content is at most
    /// [`INLINE_MAX`] bytes or outside.
    #[inline]
    pub fn write(&self, to: &mut [u8]) {
        let (key, value, mut flags) = match self.content {
            Content::Inline(key, value) => (key, value, 0),
            Content::Outside(_) => (&[][..], &[][..], OUTSIDE),
        };
        debug_assert!(key.len() + value.len() <= INLINE_MAX && to.len() == self.size());
        if self.expire_at.is_some() {
            flags |= EXPIRES;
        }
        let long = usize::from(LONG);
        to[0] = flags | key.len().min(long) as u8;
        let mut at = 1;
        if key.len() >= long {
            to[at] = (key.len() - long) as u8;
            at += 1;
        }
        if let Some(time) = self.expire_at {
            to[at..at + 8].copy_from_slice(&time.to_le_bytes());
            at += 8;
        }
        if let Content::Outside(index) = self.content {
            to[at..at + 4].copy_from_slice(&index.to_le_bytes());
            return;
        }
        to[at..at + key.len()].copy_from_slice(key);
        at += key.len();
        if VALUES {
            to[at] = value.len() as u8;
            to[at + 1..at + 1 + value.len()].copy_from_slice(value);
        }
    }
}

#[inline]
fn read_value<const VALUES: bool>(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    if !VALUES {
        return Some((&[], bytes));
    }
    let (&length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(length))
}

/// Large contents, each in its own allocation, found by index. Kept in chunks, so that growing
/// never copies much. Clones share chunks and contents until one of them is changed.
#[derive(Clone, Default)]
pub struct Outside {
    chunks: Vec<Arc<Vec<Option<Blob>>>>,
    free: Vec<u32>,
    bytes: usize,
}

const CHUNK: usize = 256;
const KEY_LEN: usize = 4;

impl Outside {
    /// Stores a content; returns its index.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> u32 {
        let mut content = Blob::with_capacity(KEY_LEN + key.len() + value.len());
        content.extend_from_slice(&(key.len() as u32).to_le_bytes());
        content.extend_from_slice(key);
        content.extend_from_slice(value);
        self.bytes += content.len();
        if let Some(index) = self.free.pop() {
            if let Some(place) = self.place(index) {
                *place = Some(content);
            }
            return index;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Arc::default());
        }
        let number = self.chunks.len() - 1;
        let chunk = Arc::make_mut(&mut self.chunks[number]);
        chunk.push(Some(content));
        (number * CHUNK + chunk.len() - 1) as u32
    }

    fn place(&mut self, index: u32) -> Option<&mut Option<Blob>> {
        let chunk = self.chunks.get_mut(index as usize / CHUNK)?;
        Arc::make_mut(chunk).get_mut(index as usize % CHUNK)
    }

    /// Key and value of a content; empty for an index that was never assigned.
    pub fn get(&self, index: u32) -> (&[u8], &[u8]) {
        let place =
            self.chunks.get(index as usize / CHUNK).and_then(|chunk| chunk.get(index as usize % CHUNK));
        let split = place.and_then(|place| {
            let content: &[u8] = place.as_ref()?;
            let (length, rest) = content.split_first_chunk::<KEY_LEN>()?;
            rest.split_at_checked(u32::from_le_bytes(*length) as usize)
        });
        split.unwrap_or_default()
    }

    /// A second owner of the same contents, for reading only.
    pub fn cow(&self) -> Outside {
        Outside { chunks: self.chunks.clone(), free: Vec::new(), bytes: self.bytes }
    }

    /// Overwrites an old value of the same length with `value`; false if the lengths differ.
    pub fn overwrite(&mut self, index: u32, value: &[u8]) -> bool {
        let key_len = self.get(index).0.len();
        let Some(Some(content)) = self.place(index) else { return false };
        if content.len() != KEY_LEN + key_len + value.len() {
            return false;
        }
        if !content.is_unique() {
            note_copy(content.allocation_bytes());
        }
        content.make_mut()[KEY_LEN + key_len..].copy_from_slice(value);
        true
    }

    /// Drops a content; its index may be reused.
    pub fn remove(&mut self, index: u32) {
        if let Some(content) = self.place(index).and_then(Option::take) {
            if !content.is_unique() {
                note_copy(content.allocation_bytes());
            }
            self.bytes -= content.len();
            self.free.push(index);
            if self.free.len()
                == (self.chunks.len() - 1) * CHUNK + self.chunks.last().map_or(0, |chunk| chunk.len())
            {
                *self = Outside::default();
            }
        }
    }

    /// Total size of all contents in bytes.
    pub fn content_bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes allocated.
    pub fn memory_bytes(&self) -> usize {
        let slots: usize = self.chunks.iter().map(|chunk| chunk.capacity()).sum();
        self.bytes
            + slots * size_of::<Option<Blob>>()
            + self.free.capacity() * 4
            + self.chunks.capacity() * (size_of::<Arc<()>>() + size_of::<Vec<Option<Blob>>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip<const VALUES: bool>(record: Record<'_, VALUES>) {
        let mut bytes = vec![0; record.size()];
        record.write(&mut bytes);
        bytes.extend_from_slice(b"rest");
        assert_eq!(Record::<VALUES>::read(&bytes), Some((record, record.size())));
    }

    #[test]
    fn records_round_trip_at_the_limits() {
        let text = [b'x'; INLINE_MAX];
        for key_len in [0, 1, 62, 63, 64, 191, 192] {
            for expire_at in [None, Some(i64::MAX)] {
                round_trip::<false>(Record { expire_at, content: Content::Inline(&text[..key_len], b"") });
                round_trip::<true>(Record {
                    expire_at,
                    content: Content::Inline(&text[..key_len], &text[key_len..]),
                });
                round_trip::<true>(Record { expire_at, content: Content::Outside(u32::MAX) });
            }
        }
        assert_eq!(
            Record::<false> { expire_at: None, content: Content::Inline(&text[..16], b"") }.size(),
            17
        );
    }

    #[test]
    fn contents_outside_are_reused_and_overwritten() {
        let mut outside = Outside::default();
        let indices: Vec<u32> = (0..600u32).map(|n| outside.add(&n.to_le_bytes(), &[7; 300])).collect();
        assert_eq!(outside.get(indices[599]), (&599u32.to_le_bytes()[..], &[7u8; 300][..]));
        outside.remove(indices[5]);
        assert_eq!(outside.add(b"k", b"value"), indices[5]);
        assert!(outside.overwrite(indices[5], b"other") && !outside.overwrite(indices[5], b"longer"));
        assert_eq!(outside.get(indices[5]), (&b"k"[..], &b"other"[..]));
        assert_eq!(outside.get(99_999), (&b""[..], &b""[..]));
        indices.into_iter().for_each(|index| outside.remove(index));
        assert_eq!(outside.memory_bytes(), 0, "memory is kept after all contents were removed");
    }

    const CASES: u32 = if cfg!(miri) { 2 } else { 100 };

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(CASES) })]
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = (Record::<true>::read(&bytes), Record::<false>::read(&bytes));
        }
    }
}
