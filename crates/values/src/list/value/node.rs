// SPDX-License-Identifier: BSD-3-Clause
//! One node of a long list: a packed block of elements, possibly compressed, or one large element.

use std::borrow::Cow;
use std::sync::Arc;

use super::ListLimits;
use braid_base::relocation::Mover;
use braid_containers::cow::note_copy;
use braid_containers::listpack::{BLOCK_BYTES, Element, Listpack};
use braid_containers::lzf;

/// Blocks shorter than this are not compressed; a compression that saves less than [`GAIN_MIN`] is
/// discarded (both as in Redis).
const COMPRESS_MIN: usize = 48;
const GAIN_MIN: usize = 8;

/// A node and its number of elements (kept here, so that seeking an index does not touch the
/// blocks).
#[derive(Clone)]
pub struct Node {
    pub count: usize,
    body: Body,
}

/// The content of a node.
#[derive(Clone)]
pub enum Body {
    /// Elements in a packed block.
    Packed(Listpack),
    /// A compressed packed block, and its size before compression.
    Compressed(Box<[u8]>, u32),
    /// One element.
    Plain(Box<[u8]>),
    /// Any of the above, shared with copies of the list (see `List::cow`). [`Node::body`] never
    /// returns this.
    Shared(Arc<Body>),
}

impl Body {
    fn is_shared(&self) -> bool {
        matches!(self, Body::Shared(_))
    }
}

impl Node {
    /// Moves the node's block to a better place, unless it is shared.
    pub fn relocate(&mut self, mover: &mut Mover) {
        match &mut self.body {
            Body::Packed(list) => list.relocate(mover),
            Body::Compressed(bytes, _) | Body::Plain(bytes) => mover.relocate_slice(bytes),
            Body::Shared(_) => {}
        }
    }

    /// A node of one element.
    pub fn of(text: &[u8], limits: &ListLimits) -> Node {
        if limits.is_large(text.len()) {
            return Node { count: 1, body: Body::Plain(text.into()) };
        }
        let mut list = Listpack::with_capacity(text.len() + 256);
        list.push_back(text);
        Node { count: 1, body: Body::Packed(list) }
    }

    pub fn packed(list: Listpack) -> Node {
        Node { count: list.len(), body: Body::Packed(list) }
    }

    /// A node of one large element.
    pub fn plain(text: &[u8]) -> Node {
        Node { count: 1, body: Body::Plain(text.into()) }
    }

    /// The content.
    #[inline]
    pub fn body(&self) -> &Body {
        match &self.body {
            Body::Shared(shared) => shared,
            body => body,
        }
    }

    /// The content of a consumed node.
    pub fn into_body(self) -> Body {
        self.body
    }

    /// A second owner of the same node.
    pub fn cow(&mut self) -> Node {
        if !self.body.is_shared() {
            let body = std::mem::replace(&mut self.body, Body::Plain(Box::default()));
            self.body = Body::Shared(Arc::new(body));
        }
        self.clone()
    }

    /// The content, for changing: shared content is copied first.
    #[inline]
    fn own(&mut self) -> &mut Body {
        if self.body.is_shared() {
            self.part();
        }
        &mut self.body
    }

    #[cold]
    fn part(&mut self) {
        let bytes = self.memory_bytes();
        if let Body::Shared(shared) = std::mem::replace(&mut self.body, Body::Plain(Box::default())) {
            self.body = Arc::try_unwrap(shared).unwrap_or_else(|shared| {
                note_copy(bytes);
                Body::clone(&shared)
            });
        }
    }

    pub fn is_packed(&self) -> bool {
        !matches!(self.body(), Body::Plain(_))
    }

    /// Bytes of content before compression.
    pub fn byte_len(&self) -> usize {
        match self.body() {
            Body::Packed(list) => list.byte_len(),
            Body::Compressed(_, length) => *length as usize,
            Body::Plain(text) => text.len(),
            Body::Shared(_) => 0,
        }
    }

    pub fn memory_bytes(&self) -> usize {
        match self.body() {
            Body::Packed(list) => list.memory_bytes(),
            Body::Compressed(bytes, _) => bytes.len(),
            Body::Plain(text) => text.len(),
            Body::Shared(_) => 0,
        }
    }

    /// True if another element of `length` bytes fits.
    #[inline]
    pub fn accepts(&self, length: usize, limits: &ListLimits) -> bool {
        self.is_packed()
            && !limits.is_large(length)
            && limits.node_fits(self.byte_len() + length + 8, self.count + 1)
    }

    fn unpack(bytes: &[u8], length: u32) -> Listpack {
        // Only this file compresses, and only valid blocks; a failure would mean corrupt memory.
        lzf::decompress(bytes, length as usize)
            .and_then(|bytes| Listpack::from_bytes(&bytes))
            .unwrap_or_default()
    }

    /// The block, for reading; a compressed block is decompressed into a copy.
    pub fn view(&self) -> Option<Cow<'_, Listpack>> {
        match self.body() {
            Body::Packed(list) => Some(Cow::Borrowed(list)),
            Body::Compressed(bytes, length) => Some(Cow::Owned(Node::unpack(bytes, *length))),
            Body::Plain(_) | Body::Shared(_) => None,
        }
    }

    /// The block, for writing; a compressed block is decompressed in place.
    #[inline]
    pub fn open(&mut self) -> Option<&mut Listpack> {
        if let Body::Compressed(bytes, length) = self.body() {
            self.body = Body::Packed(Node::unpack(bytes, *length));
        }
        match self.own() {
            Body::Packed(list) => Some(list),
            _ => None,
        }
    }

    /// Frees spare room at the ends of the block.
    pub fn shrink(&mut self) {
        // A shared block has already been shrunk, or is about to be copied at its exact size.
        if let Body::Packed(list) = &mut self.body {
            list.shrink();
        }
    }

    /// Compresses a block if that is worthwhile.
    pub fn compress(&mut self) {
        let Body::Packed(list) = self.body() else { return };
        let bytes = list.bytes();
        if bytes.len() < COMPRESS_MIN {
            return;
        }
        if let Some(packed) = lzf::compress(bytes, bytes.len() - GAIN_MIN) {
            self.body = Body::Compressed(packed.into_boxed_slice(), bytes.len() as u32);
        }
    }

    /// Pushes an element at an end of a block that accepts it.
    #[inline]
    pub fn push(&mut self, text: &[u8], front: bool, limits: &ListLimits) {
        let Some(list) = self.open() else { return };
        let need = text.len() + 16;
        let (room_front, room_back) = list.room();
        if if front { room_front } else { room_back } < need {
            // A node at an end usually fills up: double it, up to the size of a full node.
            let total = list.byte_len();
            let full = limits.node_bytes().saturating_sub(BLOCK_BYTES + total);
            let double = (total.max(256) + need + BLOCK_BYTES).next_power_of_two();
            let more = double.saturating_sub(BLOCK_BYTES + total).min(full);
            list.reserve(more.max(need), front);
        }
        if front {
            list.push_front(text);
        } else {
            list.push_back(text);
        }
        self.count += 1;
    }

    /// Passes the first or last element to `see`, then removes it.
    #[inline]
    pub fn pop<R>(&mut self, front: bool, see: impl FnOnce(Element<'_>) -> R) -> Option<R> {
        if let Body::Plain(text) = self.body() {
            let seen = see(Element::Bytes(text));
            self.count = 0;
            return Some(seen);
        }
        let is_last = self.count == 1;
        let list = self.open()?;
        let at = if front { list.first()? } else { list.last()? };
        let seen = see(list.get(at)?);
        if is_last {
            // The block is dropped, or kept for the next node: shrinking it would be wasted work.
            list.clear_keeping_room();
        } else {
            list.remove(at);
        }
        self.count = self.count.saturating_sub(1);
        Some(seen)
    }
}
