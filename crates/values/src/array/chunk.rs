// SPDX-License-Identifier: BSD-3-Clause
//! The texts at 64 indexes that follow each other, in one block.
//!
//! ```text
//! packed: | where each text ends, 2 bytes | the texts |
//! apart:  texts of more than INLINE_MAX bytes, by reference
//! ```
//! A text apart has an end as well, and no bytes before it. A chunk knows neither its place in the
//! array nor what the texts mean.

use braid_base::alloc::size_class;
use braid_base::blob::Blob;
use braid_base::relocation::Mover;

/// Indexes in a chunk.
pub const WIDTH: u64 = 64;
/// Longest text in the block, in bytes: with 64 of them the ends fit into two bytes.
pub const INLINE_MAX: usize = 128;
const END: usize = size_of::<u16>();

/// A text, or where it is.
#[derive(Clone, Copy, Debug)]
pub enum Text<'a> {
    Bytes(&'a [u8]),
    Blob(&'a Blob),
}

impl<'a> Text<'a> {
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Text::Bytes(bytes) => bytes,
            Text::Blob(blob) => blob,
        }
    }
}

#[derive(Clone, Default)]
pub(super) struct Chunk {
    /// The indexes that are set, one bit each.
    present: u64,
    /// Those whose text is apart.
    apart: u64,
    packed: Vec<u8>,
    blobs: Vec<Blob>,
}

/// The bits below the one at `offset`.
fn below(offset: u32) -> u64 {
    (1 << offset) - 1
}

impl Chunk {
    pub(super) fn len(&self) -> u32 {
        self.present.count_ones()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// The set indexes, one bit each.
    pub(super) fn present(&self) -> u64 {
        self.present
    }

    fn is_set(&self, offset: u32) -> bool {
        self.present >> offset & 1 == 1
    }

    fn rank(&self, offset: u32) -> usize {
        (self.present & below(offset)).count_ones() as usize
    }

    fn rank_apart(&self, offset: u32) -> usize {
        (self.apart & below(offset)).count_ones() as usize
    }

    /// Where the text with this number ends, from the first text on.
    fn end(&self, rank: usize) -> usize {
        let at = rank * END;
        usize::from(u16::from_le_bytes([self.packed[at], self.packed[at + 1]]))
    }

    fn start(&self, rank: usize) -> usize {
        if rank == 0 { 0 } else { self.end(rank - 1) }
    }

    /// The text at an index, counted from the chunk's first one.
    #[inline]
    pub(super) fn get(&self, offset: u32) -> Option<Text<'_>> {
        if !self.is_set(offset) {
            return None;
        }
        if self.apart >> offset & 1 == 1 {
            return self.blobs.get(self.rank_apart(offset)).map(Text::Blob);
        }
        let rank = self.rank(offset);
        let texts = self.len() as usize * END;
        Some(Text::Bytes(&self.packed[texts + self.start(rank)..texts + self.end(rank)]))
    }

    /// Sets the text at an index. Returns true if there was none.
    pub(super) fn set(&mut self, offset: u32, text: Text<'_>) -> bool {
        let is_new = !self.is_set(offset);
        let rank = self.rank(offset);
        if is_new {
            let start = self.start(rank) as u16;
            self.packed.reserve_exact(END + inline_len(text));
            self.packed.splice(rank * END..rank * END, start.to_le_bytes());
            self.present |= 1 << offset;
        } else {
            self.drop_blob(offset);
        }
        match text {
            Text::Bytes(bytes) if bytes.len() <= INLINE_MAX => self.put(rank, bytes),
            _ => {
                self.put(rank, &[]);
                let blob = match text {
                    Text::Blob(blob) => blob.clone(),
                    Text::Bytes(bytes) => Blob::from_slice(bytes),
                };
                let at = self.rank_apart(offset);
                self.blobs.reserve_exact(1);
                self.blobs.insert(at, blob);
                self.apart |= 1 << offset;
            }
        }
        is_new
    }

    /// Replaces the bytes of the text with this number.
    fn put(&mut self, rank: usize, bytes: &[u8]) {
        let len = self.len() as usize;
        let (start, end) = (self.start(rank), self.end(rank));
        let texts = len * END;
        if bytes.len() == end - start {
            self.packed[texts + start..texts + end].copy_from_slice(bytes);
            return;
        }
        let more = bytes.len().saturating_sub(end - start);
        self.packed.reserve_exact(more);
        self.packed.splice(texts + start..texts + end, bytes.iter().copied());
        for later in rank..len {
            let moved = self.end(later) + bytes.len() - (end - start);
            self.packed[later * END..(later + 1) * END].copy_from_slice(&(moved as u16).to_le_bytes());
        }
        if more == 0 {
            self.packed.shrink_to_fit();
        }
    }

    fn drop_blob(&mut self, offset: u32) {
        if self.apart >> offset & 1 == 1 {
            let at = self.rank_apart(offset);
            self.blobs.remove(at);
            self.blobs.shrink_to_fit();
            self.apart &= !(1 << offset);
        }
    }

    /// Removes the text at an index. Returns true if there was one.
    pub(super) fn remove(&mut self, offset: u32) -> bool {
        if !self.is_set(offset) {
            return false;
        }
        self.drop_blob(offset);
        let rank = self.rank(offset);
        self.put(rank, &[]);
        self.packed.drain(rank * END..(rank + 1) * END);
        self.packed.shrink_to_fit();
        self.present &= !(1 << offset);
        true
    }

    /// Removes the texts at these indexes, one bit each. Returns how many there were.
    pub(super) fn remove_all(&mut self, offsets: u64) -> u64 {
        let mut gone = self.present & offsets;
        let count = gone.count_ones();
        if gone == self.present {
            *self = Chunk::default();
            return count.into();
        }
        while gone != 0 {
            self.remove(gone.trailing_zeros());
            gone &= gone - 1;
        }
        count.into()
    }

    /// Bytes of all allocations.
    pub(super) fn memory_bytes(&self) -> usize {
        let of = |bytes: usize| if bytes == 0 { 0 } else { size_class(bytes) };
        let blobs: usize = self.blobs.iter().map(Blob::allocation_bytes).sum();
        of(self.packed.capacity()) + of(self.blobs.capacity() * size_of::<Blob>()) + blobs
    }

    pub(super) fn relocate(&mut self, mover: &mut Mover) {
        mover.relocate_vec(&mut self.packed);
        self.blobs.iter_mut().for_each(|blob| blob.relocate(mover));
        mover.relocate_vec(&mut self.blobs);
    }
}

fn inline_len(text: Text<'_>) -> usize {
    match text {
        Text::Bytes(bytes) if bytes.len() <= INLINE_MAX => bytes.len(),
        _ => 0,
    }
}
