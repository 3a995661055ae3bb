// SPDX-License-Identifier: BSD-3-Clause
//! A filter in chunks, as CF.SCANDUMP returns and CF.LOADCHUNK accepts them, in Redis's own format.
//!
//! ```text
//! header:  items (8), buckets of the first sub-filter (8), deleted items (8), sub-filters (8),
//!          fingerprints in a bucket (2), iterations (2), expansion (2)
//! pieces:  the fingerprints of the sub-filters, one after the other
//! ```
//! All numbers are little endian. The header's iterator is 1, a piece's iterator is the offset of
//! its end plus one. Headers are untrusted: every field is checked.

use super::value::{Cuckoo, Shape};

/// The iterator of the header.
pub const HEADER: u64 = 1;
/// Maximum size of a piece, in bytes.
pub const PIECE_MAX: usize = 16 << 20;

const HEADER_BYTES: usize = 38;

/// Encodes a filter's header.
pub fn header(filter: &Cuckoo) -> Vec<u8> {
    let shape = filter.shape();
    let mut out = Vec::with_capacity(HEADER_BYTES);
    for number in [filter.items(), shape.buckets, filter.deleted(), filter.layer_count() as u64] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    for number in [shape.bucket_size, shape.iterations, shape.expansion] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out
}

/// Creates the empty filter that a header describes; `None` if the header is invalid.
pub fn from_header(bytes: &[u8]) -> Option<Cuckoo> {
    let header: &[u8; HEADER_BYTES] = bytes.try_into().ok()?;
    let (longs, words) = header.split_at(32);
    let (longs, words) = (longs.as_chunks::<8>().0, words.as_chunks::<2>().0);
    let long = |at: usize| u64::from_le_bytes(longs[at]);
    let word = |at: usize| u16::from_le_bytes(words[at]);
    let shape = Shape { buckets: long(1), bucket_size: word(0), iterations: word(1), expansion: word(2) };
    Cuckoo::empty_of(shape, long(0), long(2), long(3))
}

/// The piece after a non-zero iterator, with the piece's own iterator; `None` at the end.
pub fn piece_after(filter: &Cuckoo, iterator: u64, most: usize) -> Option<(u64, Vec<u8>)> {
    let piece = filter.read(iterator.checked_sub(HEADER)?, most);
    (!piece.is_empty()).then(|| (iterator + piece.len() as u64, piece))
}

/// Stores a piece at its iterator's position; false, with nothing changed, if it does not fit
/// there.
pub fn load_piece(filter: &mut Cuckoo, iterator: u64, piece: &[u8]) -> bool {
    let offset = iterator.checked_sub(HEADER).and_then(|end| end.checked_sub(piece.len() as u64));
    offset.is_some_and(|offset| !piece.is_empty() && filter.write(offset, piece))
}
