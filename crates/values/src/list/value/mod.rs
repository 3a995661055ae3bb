// SPDX-License-Identifier: BSD-3-Clause
//! A list of byte strings: one packed block while small, a deque of packed blocks when larger.
//!
//! The limits and conversion points are Redis 7.2's (`listpack` and `quicklist` in `OBJECT
//! ENCODING`). Pushing and popping at either end moves no other element; an index is found by the
//! nodes' counts from the nearer end. Inner nodes can be kept compressed; reading one decompresses
//! a copy, changing one decompresses it and compresses it again.
//!
//! Elements are passed to closures rather than returned by iterators, because the elements of a
//! compressed node live only while it is open.

mod change;
mod node;

use std::borrow::Cow;
use std::collections::VecDeque;

use braid_base::relocation::Mover;
pub use braid_containers::limits::ListLimits;
use braid_containers::listpack::{Element, LARGE_PACKED, Listpack};
use node::{Body, Node};

/// A list with this many nodes is large ([`List::is_large`]).
const LARGE_NODES: usize = 16;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The head, index 0 (LPUSH, LPOP).
    Front,
    /// The tail, index -1 (RPUSH, RPOP).
    Back,
}

/// A node in its saved form (RDB's quicklist nodes).
pub enum SavedNode<'a> {
    /// A packed block.
    Packed(Cow<'a, Listpack>),
    /// One large element.
    Plain(&'a [u8]),
}

/// A list of byte strings.
#[derive(Clone)]
pub struct List(Form);

#[derive(Clone)]
enum Form {
    Packed(Listpack),
    Nodes(Box<Nodes>),
}

#[derive(Clone, Default)]
struct Nodes {
    nodes: VecDeque<Node>,
    len: usize,
    /// The small block of the most recently emptied end node: pushes and pops around a node
    /// boundary reuse it.
    spare: Option<Listpack>,
}

impl Default for List {
    fn default() -> Self {
        List::new()
    }
}

/// A text to compare elements with; a number is parsed only once.
struct Wanted<'a> {
    text: &'a [u8],
    number: Option<i64>,
}

impl<'a> Wanted<'a> {
    fn new(text: &'a [u8]) -> Wanted<'a> {
        Wanted { text, number: braid_base::number::parse_i64(text) }
    }

    #[inline]
    fn is(&self, element: Element<'_>) -> bool {
        match element {
            Element::Int(number) => self.number == Some(number),
            Element::Bytes(bytes) => bytes == self.text,
        }
    }
}

impl List {
    /// Moves blocks to better places; see
    /// [`Collection::relocate_blocks`](braid_keyspace::object::Collection::relocate_blocks).
    /// Nodes shared with a copy stay.
    pub fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        let all = match &mut self.0 {
            Form::Packed(list) => {
                list.relocate(mover);
                return None;
            }
            Form::Nodes(all) => all,
        };
        if from == 0 {
            mover.relocate_box(all);
        }
        let first = usize::try_from(from).unwrap_or(usize::MAX);
        for (number, node) in all.nodes.iter_mut().enumerate().skip(first) {
            if mover.is_over() {
                return Some(number as u64);
            }
            node.relocate(mover);
        }
        None
    }

    /// An empty list.
    pub fn new() -> List {
        List(Form::Packed(Listpack::new()))
    }

    /// The form's name in `OBJECT ENCODING`.
    pub fn encoding(&self) -> &'static str {
        match &self.0 {
            Form::Packed(_) => "listpack",
            Form::Nodes(_) => "quicklist",
        }
    }

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::Packed(list) => list.len(),
            Form::Nodes(all) => all.len,
        }
    }

    /// True if the list has no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes allocated for the list, without this struct itself.
    pub fn memory_bytes(&self) -> usize {
        match &self.0 {
            Form::Packed(list) => list.memory_bytes(),
            Form::Nodes(all) => {
                let content: usize = all.nodes.iter().map(Node::memory_bytes).sum();
                let spare = all.spare.as_ref().map_or(0, Listpack::memory_bytes);
                content + spare + all.nodes.capacity() * size_of::<Node>() + size_of::<Nodes>()
            }
        }
    }

    /// Number of nodes (1 in the packed form).
    pub fn node_count(&self) -> usize {
        match &self.0 {
            Form::Packed(_) => 1,
            Form::Nodes(all) => all.nodes.len(),
        }
    }

    /// True if writing the whole list takes long: then it should be [shared](List::cow).
    pub fn is_large(&self) -> bool {
        match &self.0 {
            Form::Packed(list) => list.byte_len() > LARGE_PACKED,
            Form::Nodes(all) => {
                let bytes = || all.nodes.iter().map(Node::byte_len).sum::<usize>();
                all.nodes.len() > LARGE_NODES || bytes() > LARGE_PACKED
            }
        }
    }

    /// A read-only copy that shares memory (see [`cow`](braid_containers::cow)); a packed list is
    /// copied.
    pub fn cow(&mut self) -> List {
        let Form::Nodes(all) = &mut self.0 else { return self.clone() };
        let nodes = all.nodes.iter_mut().map(Node::cow).collect();
        List(Form::Nodes(Box::new(Nodes { nodes, len: all.len, spare: None })))
    }

    /// The nodes in order, for saving.
    pub fn nodes(&self) -> impl Iterator<Item = SavedNode<'_>> {
        let (single, many) = match &self.0 {
            Form::Packed(list) => (Some(SavedNode::Packed(Cow::Borrowed(list))), None),
            Form::Nodes(all) => (None, Some(all.nodes.iter())),
        };
        let many = many.into_iter().flatten().map(|node| match node.body() {
            Body::Plain(text) => SavedNode::Plain(text),
            _ => SavedNode::Packed(node.view().unwrap_or_default()),
        });
        single.into_iter().chain(many)
    }

    /// Appends a saved node; [`List::loaded`] must follow the last one.
    pub fn load_node(&mut self, node: SavedNode<'_>) {
        let node = match node {
            SavedNode::Packed(list) => Node::packed(list.into_owned()),
            SavedNode::Plain(text) => Node::plain(text),
        };
        if node.count > 0 {
            let all = self.make_nodes();
            all.len += node.count;
            all.nodes.push_back(node);
        }
    }

    /// Converts a list of loaded nodes to the form that the limits require.
    pub fn loaded(&mut self, limits: &ListLimits) {
        if let Form::Packed(list) = &self.0
            && !limits.fits(list.byte_len(), list.len())
        {
            self.make_nodes();
        }
        self.apply_compress_depth(limits);
        self.try_pack(limits, false);
    }

    /// The packed block, if the list has that form.
    pub fn as_listpack(&self) -> Option<&Listpack> {
        if let Form::Packed(list) = &self.0 { Some(list) } else { None }
    }

    /// The position from the front of a signed index (negative: from the end); `None` if out of
    /// range.
    pub fn position(&self, index: i64) -> Option<usize> {
        let len = self.len();
        let position = match usize::try_from(index) {
            Ok(position) => position,
            Err(_) => len.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?,
        };
        (position < len).then_some(position)
    }

    /// Passes the element at `index` (negative: from the end) to `see`.
    pub fn get<R>(&self, index: i64, see: impl FnOnce(Element<'_>) -> R) -> Option<R> {
        let position = self.position(index)?;
        match &self.0 {
            Form::Packed(list) => list.get_index(position as i64).map(see),
            Form::Nodes(all) => {
                let (number, inner) = all.find(position)?;
                let node = all.nodes.get(number)?;
                match node.body() {
                    Body::Plain(text) => Some(see(Element::Bytes(text))),
                    _ => node.view()?.get_index(inner as i64).map(see),
                }
            }
        }
    }

    /// Passes `count` elements from position `start` on, in order, to `see` (LRANGE), or fewer if
    /// the list ends before.
    #[inline]
    pub fn range(&self, start: usize, count: usize, mut see: impl FnMut(Element<'_>)) {
        let mut left = count;
        if left == 0 {
            return;
        }
        self.walk(start, true, |_, element| {
            see(element);
            left -= 1;
            left > 0
        });
    }

    /// Passes positions and elements to `see`, forwards or backwards from position `start`, until
    /// it returns false.
    #[inline]
    pub fn walk(&self, start: usize, forwards: bool, mut see: impl FnMut(usize, Element<'_>) -> bool) {
        if start >= self.len() {
            return;
        }
        match &self.0 {
            Form::Packed(list) => {
                walk_block(list, start, start, forwards, &mut see);
            }
            Form::Nodes(all) => {
                let Some((mut number, mut inner)) = all.find(start) else { return };
                let mut position = start;
                while let Some(node) = all.nodes.get(number) {
                    let goes_on = match node.body() {
                        Body::Plain(text) => see(position, Element::Bytes(text)),
                        Body::Packed(list) => walk_block(list, inner, position, forwards, &mut see),
                        Body::Compressed(..) | Body::Shared(_) => node
                            .view()
                            .is_none_or(|list| walk_block(&list, inner, position, forwards, &mut see)),
                    };
                    if !goes_on {
                        return;
                    }
                    if forwards {
                        position += node.count - inner;
                        number += 1;
                        inner = 0;
                    } else {
                        let Some(before) = number.checked_sub(1) else { return };
                        position = position.saturating_sub(inner + 1);
                        number = before;
                        inner = all.nodes.get(number).map_or(0, |node| node.count.saturating_sub(1));
                    }
                }
            }
        }
    }

    /// Passes the position of each element that equals `text` to `see`, forwards or backwards,
    /// comparing at most `most` elements, until it returns false (LPOS).
    pub fn find(&self, text: &[u8], forwards: bool, most: usize, mut see: impl FnMut(usize) -> bool) {
        let (wanted, mut left) = (Wanted::new(text), most);
        let start = if forwards { 0 } else { self.len().saturating_sub(1) };
        if left == 0 {
            return;
        }
        self.walk(start, forwards, |position, element| {
            left -= 1;
            (!wanted.is(element) || see(position)) && left > 0
        });
    }
}

/// Walks one block from its element `inner`, whose position in the list is `position`; false if
/// `see` returned false.
#[inline]
fn walk_block(
    list: &Listpack,
    inner: usize,
    position: usize,
    forwards: bool,
    see: &mut impl FnMut(usize, Element<'_>) -> bool,
) -> bool {
    if forwards {
        let Some(at) = list.seek(inner as i64) else { return true };
        for (offset, element) in list.iter_from(at).enumerate() {
            if !see(position + offset, element) {
                return false;
            }
        }
    } else {
        let until = list.seek(inner as i64 + 1).unwrap_or(list.end());
        for (offset, element) in list.iter_until(until).rev().enumerate() {
            if !see(position.saturating_sub(offset), element) {
                return false;
            }
        }
    }
    true
}

impl Nodes {
    /// The index of the node with the element at `position`, and the element's index in that node.
    fn find(&self, position: usize) -> Option<(usize, usize)> {
        if position >= self.len {
            return None;
        }
        if position <= self.len / 2 {
            let mut before = 0;
            for (number, node) in self.nodes.iter().enumerate() {
                if position < before + node.count {
                    return Some((number, position - before));
                }
                before += node.count;
            }
        } else {
            let mut behind = self.len;
            for (number, node) in self.nodes.iter().enumerate().rev() {
                behind = behind.saturating_sub(node.count);
                if position >= behind {
                    return Some((number, position - behind));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
