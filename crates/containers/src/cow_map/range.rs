// SPDX-License-Identifier: BSD-3-Clause
//! Iteration over a map in either direction, between two bounds.
//!
//! An iterator keeps the current leaf at each end and looks up the next leaf from the root: nodes
//! have no links to neighbours, since they may be shared with a map in which their neighbours
//! differ.

use std::ops::Bound;

use super::{CowMap, Form, Node};

/// Position of an iterator: a leaf's entries, and an index into them.
type At<'a, K, V> = (&'a [(K, V)], usize);

/// The entries of a map in a range of keys.
pub struct Range<'a, K, V, const LEAF: usize> {
    map: &'a CowMap<K, V, LEAF>,
    low: Bound<K>,
    high: Bound<K>,
    /// Position of the next entry.
    front: Option<At<'a, K, V>>,
    /// Position after the next entry from the back.
    back: Option<At<'a, K, V>>,
}

impl<'a, K: Ord + Copy, V: Clone, const LEAF: usize> Range<'a, K, V, LEAF> {
    pub(super) fn new(map: &'a CowMap<K, V, LEAF>, low: Bound<K>, high: Bound<K>) -> Self {
        Range { map, low, high, front: None, back: None }
    }

    fn is_below(&self, key: &K) -> bool {
        match &self.low {
            Bound::Included(low) => key < low,
            Bound::Excluded(low) => key <= low,
            Bound::Unbounded => false,
        }
    }

    fn is_above(&self, key: &K) -> bool {
        match &self.high {
            Bound::Included(high) => key > high,
            Bound::Excluded(high) => key >= high,
            Bound::Unbounded => false,
        }
    }

    /// The position of the first entry not below the range.
    fn seek(&self) -> Option<At<'a, K, V>> {
        let mut node = match &self.map.0 {
            Form::Few(entries) => return self.first_in(entries),
            Form::Tree { root, .. } => root,
        };
        // If all entries of the leaf are below the range, the range begins at the next leaf.
        let mut beyond: Option<&'a Node<K, V, LEAF>> = None;
        loop {
            match node {
                Node::Leaf(leaf) => {
                    return self.first_in(leaf).or_else(|| Some((beyond?.first_leaf(), 0)));
                }
                Node::Branch(branch) => {
                    let index = match &self.low {
                        Bound::Included(key) | Bound::Excluded(key) => branch.child_of(key),
                        Bound::Unbounded => 0,
                    };
                    beyond = branch.children.get(index + 1).or(beyond);
                    node = branch.children.get(index)?;
                }
            }
        }
    }

    fn first_in(&self, entries: &'a [(K, V)]) -> Option<At<'a, K, V>> {
        let at = entries.partition_point(|(key, _)| self.is_below(key));
        (at < entries.len()).then_some((entries, at))
    }

    /// The position after the last entry not above the range.
    fn seek_back(&self) -> Option<At<'a, K, V>> {
        let mut node = match &self.map.0 {
            Form::Few(entries) => return self.last_in(entries),
            Form::Tree { root, .. } => root,
        };
        let mut before: Option<&'a Node<K, V, LEAF>> = None;
        loop {
            match node {
                Node::Leaf(leaf) => {
                    let last = || before.map(|node| node.last_leaf());
                    return self.last_in(leaf).or_else(|| last().map(|entries| (entries, entries.len())));
                }
                Node::Branch(branch) => {
                    let index = match &self.high {
                        Bound::Included(key) | Bound::Excluded(key) => branch.child_of(key),
                        Bound::Unbounded => branch.children.len() - 1,
                    };
                    before = index.checked_sub(1).and_then(|left| branch.children.get(left)).or(before);
                    node = branch.children.get(index)?;
                }
            }
        }
    }

    fn last_in(&self, entries: &'a [(K, V)]) -> Option<At<'a, K, V>> {
        let end = entries.partition_point(|(key, _)| !self.is_above(key));
        (end > 0).then_some((entries, end))
    }
}

impl<'a, K: Ord + Copy, V: Clone, const LEAF: usize> Iterator for Range<'a, K, V, LEAF> {
    type Item = (&'a K, &'a V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (entries, at) = match self.front {
            Some((entries, at)) if at < entries.len() => (entries, at),
            _ => self.seek()?,
        };
        let (key, value) = entries.get(at)?;
        if self.is_above(key) {
            return None;
        }
        self.front = Some((entries, at + 1));
        self.low = Bound::Excluded(*key);
        Some((key, value))
    }
}

impl<K: Ord + Copy, V: Clone, const LEAF: usize> DoubleEndedIterator for Range<'_, K, V, LEAF> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let (entries, end) = match self.back {
            Some((entries, end)) if end > 0 => (entries, end),
            _ => self.seek_back()?,
        };
        let (key, value) = entries.get(end - 1)?;
        if self.is_below(key) {
            return None;
        }
        self.back = Some((entries, end - 1));
        self.high = Bound::Excluded(*key);
        Some((key, value))
    }
}
