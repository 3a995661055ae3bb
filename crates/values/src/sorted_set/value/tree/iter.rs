// SPDX-License-Identifier: BSD-3-Clause
//! Walking the tree of a big sorted set in either direction from any rank.

use smallvec::SmallVec;

use super::node::{Branch, Leaf, Node};
use crate::sorted_set::value::member::Handle;

/// Prefetch distance of a walk, in members.
const AHEAD: usize = 6;

/// The path from the root to a leaf: each branch and the index of the child taken. Five levels
/// hold more than 10^8 entries.
type Path<'a> = SmallVec<[(&'a Branch, usize); 5]>;

/// Entries in ascending order.
pub struct Forward<'a> {
    path: Path<'a>,
    leaf: Option<&'a Leaf>,
    at: usize,
    remaining: usize,
}

impl<'a> Forward<'a> {
    /// Walks `remaining` entries from `rank` on, all of which must exist.
    pub fn new(root: &'a Node, rank: usize, remaining: usize) -> Forward<'a> {
        let mut path = Path::new();
        let (leaf, at) = if remaining == 0 { (None, 0) } else { seek(root, rank, &mut path) };
        if let Some(leaf) = leaf {
            leaf.members.iter().skip(at).take(AHEAD.min(remaining)).for_each(Handle::prefetch);
        }
        Forward { path, leaf, at, remaining }
    }

    fn next_leaf(&mut self) -> Option<&'a Leaf> {
        while let Some((branch, index)) = self.path.last_mut() {
            *index += 1;
            if let Some(child) = branch.children.get(*index) {
                return edge_leaf(child, &mut self.path, |_| 0);
            }
            self.path.pop();
        }
        None
    }
}

impl<'a> Iterator for Forward<'a> {
    type Item = (f64, &'a Handle);

    #[inline]
    fn next(&mut self) -> Option<(f64, &'a Handle)> {
        self.remaining = self.remaining.checked_sub(1)?;
        let mut leaf = self.leaf?;
        if self.at >= leaf.members.len() {
            leaf = self.next_leaf()?;
            self.leaf = Some(leaf);
            self.at = 0;
            leaf.members.iter().take(AHEAD.min(self.remaining)).for_each(Handle::prefetch);
        }
        let at = self.at;
        self.at += 1;
        if self.remaining > AHEAD
            && let Some(later) = leaf.members.get(at + AHEAD)
        {
            later.prefetch();
        }
        Some((*leaf.scores.get(at)?, leaf.members.get(at)?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining, Some(self.remaining))
    }
}

/// Entries in descending order.
pub struct Backward<'a> {
    path: Path<'a>,
    leaf: Option<&'a Leaf>,
    /// One more than the index of the next entry in the leaf.
    end: usize,
    remaining: usize,
}

impl<'a> Backward<'a> {
    /// Walks `remaining` entries from `rank` down, all of which must exist.
    pub fn new(root: &'a Node, rank: usize, remaining: usize) -> Backward<'a> {
        let mut path = Path::new();
        let (leaf, at) = if remaining == 0 { (None, 0) } else { seek(root, rank, &mut path) };
        Backward { path, leaf, end: at + 1, remaining }
    }

    fn previous_leaf(&mut self) -> Option<&'a Leaf> {
        while let Some((branch, index)) = self.path.last_mut() {
            if let Some(previous) = index.checked_sub(1) {
                *index = previous;
                let child = branch.children.get(previous)?;
                return edge_leaf(child, &mut self.path, |branch| branch.children.len().saturating_sub(1));
            }
            self.path.pop();
        }
        None
    }
}

impl<'a> Iterator for Backward<'a> {
    type Item = (f64, &'a Handle);

    #[inline]
    fn next(&mut self) -> Option<(f64, &'a Handle)> {
        self.remaining = self.remaining.checked_sub(1)?;
        let mut leaf = self.leaf?;
        if self.end == 0 {
            leaf = self.previous_leaf()?;
            self.leaf = Some(leaf);
            self.end = leaf.members.len();
        }
        self.end = self.end.checked_sub(1)?;
        if self.remaining > AHEAD
            && let Some(later) = self.end.checked_sub(AHEAD).and_then(|at| leaf.members.get(at))
        {
            later.prefetch();
        }
        Some((*leaf.scores.get(self.end)?, leaf.members.get(self.end)?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining, Some(self.remaining))
    }
}

/// Descends to the entry with this rank, recording the path in `path`.
fn seek<'a>(root: &'a Node, mut rank: usize, path: &mut Path<'a>) -> (Option<&'a Leaf>, usize) {
    let mut node = root;
    loop {
        match node {
            Node::Leaf(leaf) => return (Some(leaf), rank),
            Node::Branch(branch) => {
                let (index, below) = branch.child_at(rank);
                path.push((branch, index));
                rank = below;
                match branch.children.get(index) {
                    Some(child) => node = child,
                    None => return (None, 0),
                }
            }
        }
    }
}

/// Descends to the first or last leaf, as chosen by `side`.
fn edge_leaf<'a>(
    mut node: &'a Node,
    path: &mut Path<'a>,
    side: impl Fn(&Branch) -> usize,
) -> Option<&'a Leaf> {
    loop {
        match node {
            Node::Leaf(leaf) => return Some(leaf),
            Node::Branch(branch) => {
                let index = side(branch);
                path.push((branch, index));
                node = branch.children.get(index)?;
            }
        }
    }
}
