// SPDX-License-Identifier: BSD-3-Clause
//! Nodes of the tree of a big sorted set: leaves and branches, and how they split and merge.
//!
//! HOT PATH: no lock, no logging, no system call; one allocation per split.

use arrayvec::ArrayVec;
use braid_base::prefetch::prefetch;
use braid_base::relocation::Mover;
use braid_containers::cow::CowBox;

use crate::sorted_set::value::bounds::Edge;
use crate::sorted_set::value::member::Handle;

/// Entries per leaf: two arrays of 62, their lengths and the owner count fit in 1024 bytes, a size
/// class of the allocator.
pub const LEAF_MAX: usize = 62;
/// Children per branch.
pub const BRANCH_MAX: usize = 64;

const _: () = assert!(LEAF_BYTES <= 1024 && LEAF_BYTES + 16 > 1024);
const LEAF_BYTES: usize = CowBox::<Leaf>::bytes();

#[derive(Clone, Default)]
pub struct Leaf {
    pub scores: ArrayVec<f64, LEAF_MAX>,
    pub members: ArrayVec<Handle, LEAF_MAX>,
}

#[derive(Default)]
pub struct Branch {
    /// First entry of each child: its score ...
    pub scores: ArrayVec<f64, BRANCH_MAX>,
    /// ... and its member.
    pub members: ArrayVec<Handle, BRANCH_MAX>,
    /// Entries below each child.
    pub counts: ArrayVec<usize, BRANCH_MAX>,
    pub children: ArrayVec<Node, BRANCH_MAX>,
}

#[derive(Clone)]
pub enum Node {
    Leaf(CowBox<Leaf>),
    Branch(CowBox<Branch>),
}

impl Clone for Branch {
    fn clone(&self) -> Branch {
        let Branch { scores, members, counts, children } = self;
        // The children are scattered over memory, and each one's count is incremented: prefetch
        // them all first instead of missing the cache on each in turn.
        children.iter().for_each(|child| match child {
            Node::Leaf(leaf) => prefetch(leaf.count_address()),
            Node::Branch(branch) => prefetch(branch.count_address()),
        });
        Branch {
            scores: scores.clone(),
            members: members.clone(),
            counts: counts.clone(),
            children: children.clone(),
        }
    }
}

impl Node {
    /// Adds an entry below this node. If the node had to split, returns its new right neighbour.
    pub fn insert(&mut self, score: f64, member: Handle) -> Option<Node> {
        match self {
            Node::Leaf(leaf) => leaf.insert(score, member).map(Node::Leaf),
            Node::Branch(branch) => branch.insert(score, member).map(Node::Branch),
        }
    }

    /// Removes an entry below this node: `Some(true)` if it was the node's first.
    pub fn remove(&mut self, score: f64, member: Handle) -> Option<bool> {
        let edge = Edge::BeforeEntry(score, member.bytes());
        match self {
            Node::Leaf(leaf) => {
                let at = edge.position(&leaf.scores, &leaf.members);
                if leaf.members.get(at) != Some(&member) {
                    return None;
                }
                let leaf = &mut **leaf;
                leaf.scores.remove(at);
                leaf.members.remove(at);
                Some(at == 0)
            }
            Node::Branch(branch) => {
                let branch = &mut **branch;
                let index = branch.child_of(&edge, member);
                let first = branch.children[index].remove(score, member)?;
                branch.after_removal(index, 1, first);
                Some(first && index == 0)
            }
        }
    }

    pub fn remove_run(&mut self, rank: usize, max: usize, removed: &mut dyn FnMut(f64, Handle)) -> usize {
        match self {
            Node::Leaf(leaf) => {
                let leaf = &mut **leaf;
                let end = leaf.members.len().min(rank.saturating_add(max));
                let rank = rank.min(end);
                leaf.scores
                    .drain(rank..end)
                    .zip(leaf.members.drain(rank..end))
                    .for_each(|(s, m)| removed(s, m));
                end - rank
            }
            Node::Branch(branch) => {
                let branch = &mut **branch;
                let (index, rank) = branch.child_at(rank);
                let count = branch.children[index].remove_run(rank, max, removed);
                branch.after_removal(index, count, rank == 0);
                count
            }
        }
    }

    /// See `Tree::relocate`; true if the time is over before leaf `number`. Shared nodes stay, with
    /// everything below them, and have no number.
    pub fn relocate(
        &mut self,
        from: u64,
        number: &mut u64,
        mover: &mut Mover,
        moved: &mut dyn FnMut(Handle, &mut Mover) -> Option<Handle>,
    ) -> bool {
        match self {
            Node::Leaf(leaf) => {
                let Some(own) = leaf.own_mut() else { return false };
                if *number >= from {
                    if mover.is_over() {
                        return true;
                    }
                    own.members.iter().for_each(Handle::prefetch);
                    for member in &mut own.members {
                        *member = moved(*member, mover).unwrap_or(*member);
                    }
                    leaf.relocate(mover);
                }
                *number += 1;
                false
            }
            Node::Branch(branch) => {
                let Some(own) = branch.own_mut() else { return false };
                for (child, first) in own.children.iter_mut().zip(&mut own.members) {
                    let is_over = child.relocate(from, number, mover, moved);
                    if *number > from
                        && let Some((_, member)) = child.first()
                    {
                        *first = member;
                    }
                    if is_over {
                        return true;
                    }
                }
                if *number > from {
                    branch.relocate(mover);
                }
                false
            }
        }
    }

    /// Changes the score of an entry if its new place is inside the same leaf, away from the
    /// leaf's ends.
    pub fn change_score_within_leaf(&mut self, old: f64, member: Handle, new: f64) -> bool {
        let edge = Edge::BeforeEntry(old, member.bytes());
        let mut node = self;
        loop {
            match node {
                Node::Branch(branch) => {
                    let index = branch.child_of(&edge, member);
                    node = &mut branch.children[index];
                }
                Node::Leaf(leaf) => {
                    let from = edge.position(&leaf.scores, &leaf.members);
                    let to = Edge::BeforeEntry(new, member.bytes()).position(&leaf.scores, &leaf.members);
                    let inside = 1..leaf.members.len();
                    if !inside.contains(&from) || !inside.contains(&to) || leaf.members[from] != member {
                        return false;
                    }
                    let leaf = &mut **leaf;
                    if to > from {
                        leaf.scores[from..to].rotate_left(1);
                        leaf.members[from..to].rotate_left(1);
                        leaf.scores[to - 1] = new;
                    } else {
                        leaf.scores[to..=from].rotate_right(1);
                        leaf.members[to..=from].rotate_right(1);
                        leaf.scores[to] = new;
                    }
                    return true;
                }
            }
        }
    }

    /// Prefetches the first memory that a search reads. For a leaf this is all of its scores:
    /// otherwise a search would wait for three cache lines in turn.
    #[inline]
    pub fn prefetch(&self) {
        if let Node::Leaf(leaf) = self {
            leaf.scores.as_slice().chunks(8).for_each(|line| prefetch(line.as_ptr()));
            prefetch(std::ptr::from_ref(&leaf.members));
        }
    }

    pub fn first(&self) -> Option<(f64, Handle)> {
        let (scores, members) = match self {
            Node::Leaf(leaf) => (&leaf.scores[..], &leaf.members[..]),
            Node::Branch(branch) => (&branch.scores[..], &branch.members[..]),
        };
        Some((*scores.first()?, *members.first()?))
    }

    fn count(&self) -> usize {
        match self {
            Node::Leaf(leaf) => leaf.members.len(),
            Node::Branch(branch) => branch.counts.iter().sum(),
        }
    }

    /// Number of used slots and of all slots.
    fn fill(&self) -> (usize, usize) {
        match self {
            Node::Leaf(leaf) => (leaf.members.len(), LEAF_MAX),
            Node::Branch(branch) => (branch.children.len(), BRANCH_MAX),
        }
    }

    /// Takes over the whole content of the right neighbour; there must be room for it.
    fn append(&mut self, right: Node) {
        match (self, right) {
            (Node::Leaf(left), Node::Leaf(right)) => {
                let left = &mut **left;
                left.scores.extend(right.scores.iter().copied());
                left.members.extend(right.members.iter().copied());
            }
            (Node::Branch(left), Node::Branch(right)) => {
                let (left, right) = (&mut **left, right.into_value());
                left.scores.extend(right.scores);
                left.members.extend(right.members);
                left.counts.extend(right.counts);
                left.children.extend(right.children);
            }
            _ => debug_assert!(false, "neighbours are at the same depth"),
        }
    }

    pub fn memory_bytes(&self) -> usize {
        let size_class = braid_base::alloc::size_class;
        match self {
            Node::Leaf(_) => size_class(LEAF_BYTES),
            Node::Branch(branch) => {
                size_class(CowBox::<Branch>::bytes())
                    + branch.children.iter().map(Node::memory_bytes).sum::<usize>()
            }
        }
    }
}

impl Leaf {
    fn insert(&mut self, score: f64, member: Handle) -> Option<CowBox<Leaf>> {
        let at = Edge::BeforeEntry(score, member.bytes()).position(&self.scores, &self.members);
        if self.members.len() < LEAF_MAX {
            self.scores.insert(at, score);
            self.members.insert(at, member);
            return None;
        }
        let middle = split_point(at, LEAF_MAX);
        let mut right = Leaf::default();
        right.scores.extend(self.scores.drain(middle..));
        right.members.extend(self.members.drain(middle..));
        // An entry exactly at the split goes left, unless it comes after everything.
        let (to, at) = if at > middle || (at == middle && at == LEAF_MAX) {
            (&mut right, at - middle)
        } else {
            (&mut *self, at)
        };
        to.scores.insert(at, score);
        to.members.insert(at, member);
        Some(CowBox::new(right))
    }
}

impl Branch {
    fn insert(&mut self, score: f64, member: Handle) -> Option<CowBox<Branch>> {
        let edge = Edge::BeforeEntry(score, member.bytes());
        let mut position = edge.position(&self.scores, &self.members);
        let mut index = position.saturating_sub(1);
        self.children[index].prefetch();
        if self.relieve(index, &edge) {
            position = edge.position(&self.scores, &self.members);
            index = position.saturating_sub(1);
        }
        let split = self.children[index].insert(score, member);
        self.counts[index] += 1;
        if position == 0 {
            self.scores[0] = score;
            self.members[0] = member;
        }
        let right = split?;
        let (count, at) = (right.count(), index + 1);
        self.counts[index] -= count;
        if self.children.len() < BRANCH_MAX {
            self.insert_child(at, right, count);
            return None;
        }
        let middle = split_point(at, BRANCH_MAX);
        let mut other = Branch::default();
        other.scores.extend(self.scores.drain(middle..));
        other.members.extend(self.members.drain(middle..));
        other.counts.extend(self.counts.drain(middle..));
        other.children.extend(self.children.drain(middle..));
        if at > middle || (at == middle && at == BRANCH_MAX) {
            other.insert_child(at - middle, right, count);
        } else {
            self.insert_child(at, right, count);
        }
        Some(CowBox::new(other))
    }

    /// If a child is a full leaf, gives entries of it to a neighbour that has room for many: leaves
    /// are then four fifths full on average, instead of two thirds. True if it has done so. Not if
    /// the new entry is at an end of the leaf, which may be the end of ascending or descending
    /// insertions.
    fn relieve(&mut self, index: usize, edge: &Edge<'_>) -> bool {
        match &self.children[index] {
            Node::Leaf(leaf) if leaf.members.len() == LEAF_MAX => {
                let at = edge.position(&leaf.scores, &leaf.members);
                if at == 0 || at == LEAF_MAX {
                    return false;
                }
            }
            _ => return false,
        }
        let room = |at: usize| self.children.get(at).map_or(0, |node| LEAF_MAX - node.fill().0);
        let (before, after) = (index.checked_sub(1).map_or(0, room), room(index + 1));
        let count = before.max(after) / 2;
        if count < LEAF_MAX / 8 {
            return false;
        }
        let left = if after >= before { index } else { index - 1 };
        let [Node::Leaf(one), Node::Leaf(other)] = &mut self.children[left..left + 2] else { return false };
        let (one, other) = (&mut **one, &mut **other);
        if left == index {
            let from = LEAF_MAX - count;
            other.scores.extend(one.scores.drain(from..));
            other.members.extend(one.members.drain(from..));
            other.scores.rotate_right(count);
            other.members.rotate_right(count);
        } else {
            one.scores.extend(other.scores.drain(..count));
            one.members.extend(other.members.drain(..count));
        }
        (self.counts[left], self.counts[left + 1]) = (one.members.len(), other.members.len());
        (self.scores[left + 1], self.members[left + 1]) = (other.scores[0], other.members[0]);
        true
    }

    pub fn push(&mut self, child: Node) {
        let count = child.count();
        self.insert_child(self.children.len(), child, count);
    }

    /// Inserts a child. Needs a free slot; `child` must not be empty.
    fn insert_child(&mut self, at: usize, child: Node, count: usize) {
        let Some((score, member)) = child.first() else { return };
        self.scores.insert(at, score);
        self.members.insert(at, member);
        self.counts.insert(at, count);
        self.children.insert(at, child);
    }

    fn remove_child(&mut self, at: usize) -> Node {
        self.scores.remove(at);
        self.members.remove(at);
        self.counts.remove(at);
        self.children.remove(at)
    }

    /// The child that contains this entry, if any child does.
    #[inline]
    fn child_of(&self, edge: &Edge<'_>, member: Handle) -> usize {
        let position = edge.position(&self.scores, &self.members);
        // If the entry is the first of a child, its position is after the edge before it.
        if self.members.get(position) == Some(&member) { position } else { position.saturating_sub(1) }
    }

    /// The child that contains the entry with this rank below this node, and the entry's rank
    /// within that child.
    #[inline]
    pub fn child_at(&self, mut rank: usize) -> (usize, usize) {
        for (index, &count) in self.counts.iter().enumerate() {
            if rank < count {
                return (index, rank);
            }
            rank -= count;
        }
        debug_assert!(false, "ranks are below the count");
        (self.children.len().saturating_sub(1), usize::MAX)
    }

    /// Updates this branch after `count` entries were removed from child `index`, possibly its
    /// first one.
    fn after_removal(&mut self, index: usize, count: usize, first: bool) {
        self.counts[index] -= count;
        if self.counts[index] == 0 {
            self.remove_child(index);
            return;
        }
        if first && let Some((score, member)) = self.children[index].first() {
            self.scores[index] = score;
            self.members[index] = member;
        }
        let (used, slots) = self.children[index].fill();
        if used <= slots / 4 {
            self.join_with_neighbour(index, used, slots / 4 * 3);
        }
    }

    fn join_with_neighbour(&mut self, index: usize, used: usize, most: usize) {
        let fits = |at: usize| self.children.get(at).is_some_and(|node| node.fill().0 + used <= most);
        let left = match index.checked_sub(1) {
            Some(left) if fits(left) => left,
            _ if fits(index + 1) => index,
            _ => return,
        };
        self.counts[left] += self.counts[left + 1];
        let right = self.remove_child(left + 1);
        self.children[left].append(right);
    }
}

/// The index at which a full node splits if the new item goes to `at`.
fn split_point(at: usize, slots: usize) -> usize {
    if at == slots || at == 0 { at } else { slots / 2 }
}
