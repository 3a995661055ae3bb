// SPDX-License-Identifier: BSD-3-Clause
//! The order of a big sorted set: a B+ tree of (score, member) that counts the entries under every
//! branch.
//!
//! HOT PATH: no lock, no logging, no system call; one allocation per split.
//!
//! A leaf keeps scores and handles in two arrays, so a search runs over plain numbers and touches
//! members only among equal scores. A branch stores, for each child, its first entry and the
//! number of entries below it: rank, selection by rank and the bounds of any range cost one
//! descent.
//!
//! Invariants (`Tree::check` verifies them in tests):
//! - the key of a child is exactly its first entry, so no branch keeps a handle that is in no
//!   leaf;
//! - no child is empty, and all leaves are at the same depth;
//! - entries ascend by score, then by member bytes; `-0` and `+0` are the same score.
//!
//! Nodes count their owners ([`cow`](braid_containers::cow)): copying a tree shares its root, and a
//! change of an entry copies the nodes on the path to it.
//!
//! A full leaf first gives entries to a neighbour that has room for many. Otherwise it splits, and
//! leaves all entries on one side if the new entry is at an end of the leaf: ascending and
//! descending insertions leave full leaves behind. After removals a small node joins a neighbour if
//! both together leave a quarter free.

mod iter;
mod node;

use braid_base::relocation::Mover;
use braid_containers::cow::CowBox;

use super::bounds::Edge;
use super::member::Handle;
pub(super) use iter::{Backward, Forward};
pub(super) use node::LEAF_MAX;
use node::Node;

/// Entries in order, found by rank or by value.
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

    /// Adds a missing entry. The score must not be NaN.
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

    /// Removes an entry; false if it is missing.
    pub fn remove(&mut self, score: f64, member: Handle) -> bool {
        let removed = self.root.remove(score, member);
        if removed.is_some() {
            self.len -= 1;
            self.lower_root();
        }
        removed.is_some()
    }

    /// Moves an entry to the position of its new score; false if it is missing.
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

    /// Removes up to `max` consecutive entries of one leaf from `rank` on, passing each to
    /// `removed`; returns their number, 0 only if `rank` is out of range or `max` is 0.
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
                    // In the last child that begins before the edge, any entry may be before it;
                    // in the children further left, all are.
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

    /// The entry with this rank.
    pub fn get(&self, rank: usize) -> Option<(f64, &Handle)> {
        self.forward(rank, 1).next()
    }

    /// Up to `count` entries in ascending order from `rank`.
    pub fn forward(&self, rank: usize, count: usize) -> Forward<'_> {
        Forward::new(&self.root, rank, count.min(self.len.saturating_sub(rank)))
    }

    /// Up to `count` entries in descending order from `rank`; none if `rank` is out of range.
    pub fn backward(&self, rank: usize, count: usize) -> Backward<'_> {
        let count = if rank < self.len { count.min(rank + 1) } else { 0 };
        Backward::new(&self.root, rank, count)
    }

    /// A second owner of the same entries, which are all shared.
    pub fn cow(&self) -> Tree {
        Tree { root: self.root.clone(), len: self.len }
    }

    /// Moves leaves from number `from` on to better places until the mover's time is over; returns
    /// the number to continue with. `moved` returns the new handle of a member that has one.
    pub fn relocate(
        &mut self,
        from: u64,
        mover: &mut Mover,
        moved: &mut dyn FnMut(Handle, &mut Mover) -> Option<Handle>,
    ) -> Option<u64> {
        let mut number = 0;
        self.root.relocate(from, &mut number, mover, moved).then_some(number)
    }

    /// Allocated bytes of leaves and branches.
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
    /// Panics if an invariant does not hold.
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
                    assert!(children > usize::from(is_root), "a root with one child is replaced by it");
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
