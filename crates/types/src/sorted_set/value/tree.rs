// SPDX-License-Identifier: BSD-3-Clause
//! The order of a big sorted set: a B+ tree of (score, member) with the number of entries under every branch.
//!
//! HOT PATH: no lock, no logging, no syscalls; one allocation per split.
//!
//! A leaf keeps scores and handles in two arrays, so that a search runs over plain numbers and touches
//! members only among equal scores. A branch knows, for each child, its first entry and how many entries lie
//! below it: rank, selection by rank and the bounds of any range cost one descent.
//!
//! Invariants ([`Tree::check`] verifies them in tests):
//! - the key of a child is exactly its first entry, so no branch ever keeps a handle that is in no leaf;
//! - no child is empty, and all leaves are at the same depth;
//! - entries ascend by score, then by member bytes; `-0` and `+0` are the same score.
//!
//! Nodes count their owners ([`cow`](braid_containers::cow)): to copy a tree is to share its root,
//! and whoever changes an entry copies the nodes on the way to it.
//!
//! Splits put nothing on one side when the new entry comes at an end of its leaf: ascending and descending
//! insertions leave full leaves behind. After removals a small node joins a neighbour when both together
//! leave a quarter free.

mod iter;
mod node;

use braid_containers::cow::CowBox;

use super::bounds::Edge;
use super::member::Handle;
pub(super) use iter::{Backward, Forward};
pub(super) use node::LEAF_MAX;
use node::Node;

/// Entries in order, found by place or by value.
pub(super) struct Tree {
    root: Node,
    len: usize,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree { root: Node::Leaf(CowBox::default()), len: 0 }
    }
}

impl Tree {
    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds an entry that is not there yet. The score is not NaN.
    pub fn insert(&mut self, score: f64, member: Handle) {
        debug_assert!(!score.is_nan());
        if let Some(right) = self.root.insert(score, member) {
            let left = std::mem::replace(&mut self.root, Node::Branch(CowBox::default()));
            if let Node::Branch(root) = &mut self.root {
                root.push(left);
                root.push(right);
            }
        }
        self.len += 1;
    }

    /// Removes an entry; false when it is not there.
    pub fn remove(&mut self, score: f64, member: Handle) -> bool {
        let removed = self.root.remove(score, member);
        if removed.is_some() {
            self.len -= 1;
            self.lower_root();
        }
        removed.is_some()
    }

    /// Moves an entry to where its new score belongs; false when it is not there.
    pub fn change_score(&mut self, old: f64, member: Handle, new: f64) -> bool {
        if self.root.change_score_within_leaf(old, member, new) {
            return true;
        }
        let removed = self.remove(old, member);
        if removed {
            self.insert(new, member);
        }
        removed
    }

    /// Removes up to `max` entries that follow each other from `rank` on in one leaf, giving each to
    /// `removed`; returns their number, 0 only when `rank` is not below the length or `max` is 0.
    pub fn remove_run(&mut self, rank: usize, max: usize, removed: &mut dyn FnMut(f64, Handle)) -> usize {
        if rank >= self.len || max == 0 {
            return 0;
        }
        let count = self.root.remove_run(rank, max, removed);
        self.len -= count;
        self.lower_root();
        count
    }

    /// Number of entries before `edge`.
    #[inline]
    pub fn rank(&self, edge: &Edge<'_>) -> usize {
        let mut before = 0;
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(leaf) => return before + edge.position(&leaf.scores, &leaf.members),
                Node::Branch(branch) => {
                    // Every entry of a child that begins before the edge may be before it; those further left
                    // surely are.
                    let Some(index) = edge.position(&branch.scores, &branch.members).checked_sub(1) else {
                        return before;
                    };
                    node = &branch.children[index];
                    node.prefetch();
                    before += branch.counts.iter().take(index).sum::<usize>();
                }
            }
        }
    }

    /// The entry with `rank` others before it.
    pub fn get(&self, rank: usize) -> Option<(f64, &Handle)> {
        self.forward(rank, 1).next()
    }

    /// Up to `count` entries upwards from `rank`.
    pub fn forward(&self, rank: usize, count: usize) -> Forward<'_> {
        Forward::new(&self.root, rank, count.min(self.len.saturating_sub(rank)))
    }

    /// Up to `count` entries downwards from `rank`; none when `rank` is not below the length.
    pub fn backward(&self, rank: usize, count: usize) -> Backward<'_> {
        let count = if rank < self.len { count.min(rank + 1) } else { 0 };
        Backward::new(&self.root, rank, count)
    }

    /// The same entries for a second owner, all shared.
    pub fn cow(&self) -> Tree {
        Tree { root: self.root.clone(), len: self.len }
    }

    /// Bytes that leaves and branches take from the allocator.
    pub fn memory_bytes(&self) -> usize {
        self.root.memory_bytes()
    }

    fn lower_root(&mut self) {
        while let Node::Branch(branch) = &mut self.root {
            if branch.children.len() > 1 {
                return;
            }
            self.root = branch.children.pop().unwrap_or(Node::Leaf(CowBox::default()));
        }
    }
}

#[cfg(test)]
impl Tree {
    /// Panics when an invariant does not hold.
    pub fn check(&self) {
        fn walk(node: &Node, is_root: bool) -> (usize, usize) {
            match node {
                Node::Leaf(leaf) => {
                    assert_eq!(leaf.scores.len(), leaf.members.len());
                    assert!(is_root || !leaf.members.is_empty());
                    for (score, member) in leaf.scores.iter().zip(&leaf.members) {
                        assert_eq!(*score, member.score());
                    }
                    (leaf.members.len(), 0)
                }
                Node::Branch(branch) => {
                    let children = branch.children.len();
                    assert!(children > usize::from(is_root), "a root with one child is that child");
                    assert_eq!(
                        [branch.scores.len(), branch.members.len(), branch.counts.len()],
                        [children; 3]
                    );
                    let mut depths = Vec::new();
                    for (index, child) in branch.children.iter().enumerate() {
                        assert_eq!(child.first(), Some((branch.scores[index], branch.members[index])));
                        let (count, depth) = walk(child, false);
                        assert_eq!(count, branch.counts[index]);
                        depths.push(depth);
                    }
                    assert!(depths.iter().all(|depth| *depth == depths[0]));
                    (branch.counts.iter().sum(), depths[0] + 1)
                }
            }
        }
        assert_eq!(walk(&self.root, true).0, self.len);
        let entries: Vec<_> =
            self.forward(0, usize::MAX).map(|(score, member)| (score, member.bytes())).collect();
        assert_eq!(entries.len(), self.len);
        for pair in entries.windows(2) {
            assert!(pair[0].0 < pair[1].0 || (pair[0].0 == pair[1].0 && pair[0].1 < pair[1].1), "{pair:?}");
        }
    }
}
