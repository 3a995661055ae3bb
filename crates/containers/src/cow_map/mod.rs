// SPDX-License-Identifier: BSD-3-Clause
//! An ordered copy-on-write map: a clone shares all nodes and takes nanoseconds at any size; a
//! change of either map copies only the nodes on the path to the changed entry.
//!
//! A B+ tree whose nodes count their owners ([`cow`](crate::cow)). An unshared map costs no more
//! than an ordinary tree.
//!
//! ```text
//! branch: | first key or less, for each child | children |
//! leaf:   | key, value | key, value | ...
//! ```
//! A map with few entries is one allocation of exactly their size, which a clone copies.
//!
//! Invariants (verified by [`CowMap::check`] in tests): keys ascend; a branch's key is at most the
//! first key of its child, and greater than the last key of the previous child; no node is empty,
//! except a leaf that is the root; all leaves are at the same depth. The map never interprets keys
//! or values.
//!
//! If the new entry is at an end, a split leaves all old entries on one side, so ascending
//! insertions, the usual case for ids, leave full leaves behind. After removals a small node joins
//! a neighbour if the two together leave a quarter free.

mod range;

#[cfg(test)]
mod tests;

use std::ops::Bound;

use arrayvec::ArrayVec;
use braid_base::alloc::size_class;
use braid_base::relocation::Mover;

use crate::cow::CowBox;

pub use range::Range;

/// Children per branch: with keys of 16 bytes a branch takes 2 KiB, an allocator size class.
const BRANCH: usize = 63;

/// Minimum capacity of a map with few entries.
const FEW_MIN: usize = 4;

pub type Leaf<K, V, const LEAF: usize> = ArrayVec<(K, V), LEAF>;

#[derive(Clone)]
pub struct Branch<K, V, const LEAF: usize> {
    keys: ArrayVec<K, BRANCH>,
    children: ArrayVec<Node<K, V, LEAF>, BRANCH>,
}

pub enum Node<K, V, const LEAF: usize> {
    Leaf(CowBox<Leaf<K, V, LEAF>>),
    Branch(CowBox<Branch<K, V, LEAF>>),
}

enum Form<K, V, const LEAF: usize> {
    /// At most as many entries as fit one leaf, in order.
    Few(Vec<(K, V)>),
    Tree {
        root: Node<K, V, LEAF>,
        len: usize,
    },
}

/// See the module. `LEAF` is the capacity of a leaf: as many entries as fit an allocator size
/// class.
pub struct CowMap<K, V, const LEAF: usize>(Form<K, V, LEAF>);

/// The result of inserting into a node.
enum Put<K, V, const LEAF: usize> {
    /// The key existed, with this value.
    Replaced(V),
    Added,
    /// The node has a new neighbour to its right.
    Split(Node<K, V, LEAF>),
}

impl<K, V, const LEAF: usize> Default for CowMap<K, V, LEAF> {
    fn default() -> Self {
        CowMap(Form::Few(Vec::new()))
    }
}

impl<K: Clone, V: Clone, const LEAF: usize> Clone for CowMap<K, V, LEAF> {
    fn clone(&self) -> Self {
        CowMap(match &self.0 {
            Form::Few(entries) => Form::Few(entries.clone()),
            Form::Tree { root, len } => Form::Tree { root: root.clone(), len: *len },
        })
    }
}

impl<K, V, const LEAF: usize> Clone for Node<K, V, LEAF> {
    fn clone(&self) -> Self {
        match self {
            Node::Leaf(leaf) => Node::Leaf(leaf.clone()),
            Node::Branch(branch) => Node::Branch(branch.clone()),
        }
    }
}

impl<K: std::fmt::Debug + Ord + Copy, V: std::fmt::Debug + Clone, const LEAF: usize> std::fmt::Debug
    for CowMap<K, V, LEAF>
{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// The index of a key, or the index at which it would be inserted.
#[inline]
fn place<K: Ord, V>(entries: &[(K, V)], key: &K) -> Result<usize, usize> {
    // Acknowledged ids are usually the oldest, delivered ids the newest.
    match (entries.first(), entries.last()) {
        (Some((first, _)), _) if first == key => Ok(0),
        (_, Some((last, _))) if last < key => Err(entries.len()),
        _ => entries.binary_search_by(|(other, _)| other.cmp(key)),
    }
}

impl<K: Ord + Copy, V: Clone, const LEAF: usize> CowMap<K, V, LEAF> {
    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::Few(entries) => entries.len(),
            Form::Tree { len, .. } => *len,
        }
    }

    /// True if the map has no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: &K) -> Option<&V> {
        let entries = match &self.0 {
            Form::Few(entries) => entries,
            Form::Tree { root, .. } => root.leaf_of(key),
        };
        Some(&entries.get(place(entries, key).ok()?)?.1)
    }

    /// The value of a key, for changing.
    #[inline]
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let entries = match &mut self.0 {
            Form::Few(entries) => &mut entries[..],
            Form::Tree { root, .. } => root.leaf_of_mut(key),
        };
        let at = place(entries, key).ok()?;
        Some(&mut entries.get_mut(at)?.1)
    }

    /// Sets the value of a key; returns the old value.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Form::Few(entries) = &mut self.0 {
            let at = match place(entries, &key) {
                Ok(at) => return Some(std::mem::replace(&mut entries[at].1, value)),
                Err(at) => at,
            };
            if entries.len() < LEAF {
                if entries.len() == entries.capacity() {
                    entries.reserve_exact(entries.len().max(FEW_MIN).min(LEAF - entries.len()));
                }
                entries.insert(at, (key, value));
                return None;
            }
            let (leaf, len) = (entries.drain(..).collect(), LEAF);
            self.0 = Form::Tree { root: Node::Leaf(CowBox::new(leaf)), len };
        }
        let Form::Tree { root, len } = &mut self.0 else { return None };
        match root.insert(key, value) {
            Put::Replaced(before) => return Some(before),
            Put::Added => {}
            Put::Split(right) => {
                let left = root.clone();
                let keys = [&left, &right].into_iter().filter_map(Node::first_key).collect();
                *root =
                    Node::Branch(CowBox::new(Branch { keys, children: [left, right].into_iter().collect() }));
            }
        }
        *len += 1;
        None
    }

    /// Removes a key; returns its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        match &mut self.0 {
            Form::Few(entries) => {
                let at = place(entries, key).ok()?;
                let (_, value) = entries.remove(at);
                if entries.is_empty() {
                    *entries = Vec::new();
                }
                Some(value)
            }
            Form::Tree { root, len } => {
                let value = root.remove(key)?;
                *len -= 1;
                self.lower_root();
                Some(value)
            }
        }
    }

    /// Removes the last entry.
    pub fn pop_last(&mut self) -> Option<(K, V)> {
        let key = *self.iter().next_back()?.0;
        Some((key, self.remove(&key)?))
    }

    /// The entries in a range of keys; iterates from either end.
    pub fn range(&self, low: Bound<K>, high: Bound<K>) -> Range<'_, K, V, LEAF> {
        Range::new(self, low, high)
    }

    /// All entries.
    pub fn iter(&self) -> Range<'_, K, V, LEAF> {
        self.range(Bound::Unbounded, Bound::Unbounded)
    }

    /// The first key.
    pub fn first_key(&self) -> Option<&K> {
        match &self.0 {
            Form::Few(entries) => Some(&entries.first()?.0),
            Form::Tree { root, .. } => Some(&root.first_leaf().first()?.0),
        }
    }

    /// Bytes allocated, excluding memory that values point to.
    pub fn memory_bytes(&self) -> usize {
        match &self.0 {
            Form::Few(entries) if entries.capacity() == 0 => 0,
            Form::Few(entries) => size_class(entries.capacity() * size_of::<(K, V)>()),
            Form::Tree { root, .. } => root.memory_bytes(),
        }
    }

    /// Moves leaves from number `from` on to better places, and what the values point to by
    /// `of_value`, until the mover's time is over; returns the number to continue with. Nodes that
    /// are shared stay, with everything below them, and have no number.
    pub fn relocate(
        &mut self,
        from: u64,
        mover: &mut Mover,
        of_value: &mut dyn FnMut(&mut V, &mut Mover),
    ) -> Option<u64> {
        match &mut self.0 {
            Form::Few(entries) => {
                entries.iter_mut().for_each(|(_, value)| of_value(value, mover));
                mover.relocate_vec(entries);
                None
            }
            Form::Tree { root, .. } => {
                let mut number = 0;
                root.relocate(from, &mut number, mover, of_value).then_some(number)
            }
        }
    }

    fn lower_root(&mut self) {
        let Form::Tree { root, .. } = &mut self.0 else { return };
        while let Node::Branch(branch) = root
            && let [only] = &branch.children[..]
        {
            *root = only.clone();
        }
        if let Node::Leaf(leaf) = root
            && leaf.len() <= LEAF / 2
        {
            self.0 = Form::Few(leaf.to_vec());
        }
    }
}

impl<K: Ord + Copy, V: Clone, const LEAF: usize> Node<K, V, LEAF> {
    #[inline]
    fn leaf_of(&self, key: &K) -> &[(K, V)] {
        let mut node = self;
        loop {
            match node {
                Node::Leaf(leaf) => return leaf,
                Node::Branch(branch) => node = &branch.children[branch.child_of(key)],
            }
        }
    }

    #[inline]
    fn leaf_of_mut(&mut self, key: &K) -> &mut [(K, V)] {
        let mut node = self;
        loop {
            match node {
                Node::Leaf(leaf) => return leaf,
                Node::Branch(branch) => {
                    let index = branch.child_of(key);
                    node = &mut branch.children[index];
                }
            }
        }
    }

    fn first_leaf(&self) -> &[(K, V)] {
        let mut node = self;
        loop {
            match node {
                Node::Leaf(leaf) => return leaf,
                Node::Branch(branch) => node = &branch.children[0],
            }
        }
    }

    fn last_leaf(&self) -> &[(K, V)] {
        let mut node = self;
        loop {
            match node {
                Node::Leaf(leaf) => return leaf,
                Node::Branch(branch) => node = &branch.children[branch.children.len() - 1],
            }
        }
    }

    /// A key that is at most the node's first key and greater than all keys before the node;
    /// `None` for an empty leaf.
    fn first_key(&self) -> Option<K> {
        match self {
            Node::Leaf(leaf) => leaf.first().map(|(key, _)| *key),
            Node::Branch(branch) => branch.keys.first().copied(),
        }
    }

    /// See [`CowMap::relocate`]; true if the time is over before leaf `number`.
    fn relocate(
        &mut self,
        from: u64,
        number: &mut u64,
        mover: &mut Mover,
        of_value: &mut dyn FnMut(&mut V, &mut Mover),
    ) -> bool {
        match self {
            Node::Leaf(leaf) => {
                let Some(entries) = leaf.own_mut() else { return false };
                if *number >= from {
                    if mover.is_over() {
                        return true;
                    }
                    entries.iter_mut().for_each(|(_, value)| of_value(value, mover));
                    leaf.relocate(mover);
                }
                *number += 1;
                false
            }
            Node::Branch(branch) => {
                let Some(own) = branch.own_mut() else { return false };
                if own.children.iter_mut().any(|child| child.relocate(from, number, mover, of_value)) {
                    return true;
                }
                if *number > from {
                    branch.relocate(mover);
                }
                false
            }
        }
    }

    fn insert(&mut self, key: K, value: V) -> Put<K, V, LEAF> {
        match self {
            Node::Leaf(leaf) => insert_in_leaf(leaf, key, value),
            Node::Branch(branch) => branch.insert(key, value),
        }
    }

    fn remove(&mut self, key: &K) -> Option<V> {
        match self {
            Node::Leaf(leaf) => {
                let at = place(leaf, key).ok()?;
                Some(leaf.remove(at).1)
            }
            Node::Branch(branch) => {
                let index = branch.child_of(key);
                let branch = &mut **branch;
                let value = branch.children[index].remove(key)?;
                branch.after_removal(index);
                Some(value)
            }
        }
    }

    /// Number of used slots, and of all slots.
    fn fill(&self) -> (usize, usize) {
        match self {
            Node::Leaf(leaf) => (leaf.len(), LEAF),
            Node::Branch(branch) => (branch.children.len(), BRANCH),
        }
    }

    /// Appends the whole content of the right neighbour, for which there must be room.
    fn append(&mut self, right: Self) {
        match (self, right) {
            (Node::Leaf(left), Node::Leaf(right)) => left.extend(right.into_value()),
            (Node::Branch(left), Node::Branch(right)) => {
                let (left, right) = (&mut **left, right.into_value());
                left.keys.extend(right.keys);
                left.children.extend(right.children);
            }
            _ => debug_assert!(false, "neighbours are at the same depth"),
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Node::Leaf(_) => size_class(CowBox::<Leaf<K, V, LEAF>>::bytes()),
            Node::Branch(branch) => {
                let children: usize = branch.children.iter().map(Node::memory_bytes).sum();
                size_class(CowBox::<Branch<K, V, LEAF>>::bytes()) + children
            }
        }
    }
}

fn insert_in_leaf<K: Ord + Copy, V: Clone, const LEAF: usize>(
    leaf: &mut CowBox<Leaf<K, V, LEAF>>,
    key: K,
    value: V,
) -> Put<K, V, LEAF> {
    let leaf = &mut **leaf;
    let at = match place(leaf, &key) {
        Ok(at) => return Put::Replaced(std::mem::replace(&mut leaf[at].1, value)),
        Err(at) => at,
    };
    if leaf.len() < LEAF {
        leaf.insert(at, (key, value));
        return Put::Added;
    }
    let middle = split_point(at, LEAF);
    let mut right: Leaf<K, V, LEAF> = leaf.drain(middle..).collect();
    let (to, at) = if goes_right(at, middle, LEAF) { (&mut right, at - middle) } else { (leaf, at) };
    to.insert(at, (key, value));
    Put::Split(Node::Leaf(CowBox::new(right)))
}

impl<K: Ord + Copy, V: Clone, const LEAF: usize> Branch<K, V, LEAF> {
    /// The index of the child that contains a key, if any child does.
    #[inline]
    fn child_of(&self, key: &K) -> usize {
        self.keys.partition_point(|first| first <= key).saturating_sub(1)
    }

    fn insert(&mut self, key: K, value: V) -> Put<K, V, LEAF> {
        let branch = self;
        let index = branch.child_of(&key);
        if key < branch.keys[0] {
            branch.keys[0] = key;
        }
        let right = match branch.children[index].insert(key, value) {
            Put::Split(right) => right,
            other => return other,
        };
        let Some(first) = right.first_key() else { return Put::Added };
        let at = index + 1;
        if branch.children.len() < BRANCH {
            branch.keys.insert(at, first);
            branch.children.insert(at, right);
            return Put::Added;
        }
        let middle = split_point(at, BRANCH);
        let mut other = Branch {
            keys: branch.keys.drain(middle..).collect(),
            children: branch.children.drain(middle..).collect(),
        };
        let (to, at) = if goes_right(at, middle, BRANCH) { (&mut other, at - middle) } else { (branch, at) };
        to.keys.insert(at, first);
        to.children.insert(at, right);
        Put::Split(Node::Branch(CowBox::new(other)))
    }

    /// Updates this branch after an entry was removed from child `index`.
    fn after_removal(&mut self, index: usize) {
        let (used, slots) = self.children[index].fill();
        if used == 0 {
            self.keys.remove(index);
            self.children.remove(index);
            return;
        }
        if used > slots / 4 {
            return;
        }
        let fits =
            |at: usize| self.children.get(at).is_some_and(|node| node.fill().0 + used <= slots / 4 * 3);
        let left = match index.checked_sub(1) {
            Some(left) if fits(left) => left,
            _ if fits(index + 1) => index,
            _ => return,
        };
        self.keys.remove(left + 1);
        let right = self.children.remove(left + 1);
        self.children[left].append(right);
    }
}

/// The index at which a full node splits if the new entry goes to `at`.
fn split_point(at: usize, slots: usize) -> usize {
    if at == slots || at == 0 { at } else { slots / 2 }
}

/// An entry exactly at the split goes left, unless it comes after all others.
fn goes_right(at: usize, middle: usize, slots: usize) -> bool {
    at > middle || (at == middle && at == slots)
}

impl<K: Ord + Copy + std::fmt::Debug, V: Clone, const LEAF: usize> CowMap<K, V, LEAF> {
    /// Panics if an invariant is violated. For tests, including other crates' tests: it reads the
    /// whole map.
    pub fn check(&self) {
        fn walk<K: Ord + Copy + std::fmt::Debug, V: Clone, const LEAF: usize>(
            node: &Node<K, V, LEAF>,
            (low, high): (Option<K>, Option<K>),
            is_root: bool,
        ) -> (usize, usize) {
            match node {
                Node::Leaf(leaf) => {
                    assert!(!leaf.is_empty() || is_root);
                    for (key, _) in leaf.iter() {
                        assert!(low.is_none_or(|low| low <= *key) && high.is_none_or(|high| *key < high));
                    }
                    assert!(leaf.is_sorted_by(|one, next| one.0 < next.0));
                    (leaf.len(), 0)
                }
                Node::Branch(branch) => {
                    assert!(
                        branch.children.len() > usize::from(is_root)
                            && branch.keys.len() == branch.children.len()
                    );
                    assert!(branch.keys.is_sorted_by(|one, next| one < next));
                    let (mut len, mut depths) = (0, Vec::new());
                    for (index, child) in branch.children.iter().enumerate() {
                        let next = branch.keys.get(index + 1).copied().or(high);
                        let (below, depth) = walk(child, (Some(branch.keys[index]), next), false);
                        len += below;
                        depths.push(depth);
                    }
                    assert!(depths.iter().all(|depth| *depth == depths[0]));
                    (len, depths[0] + 1)
                }
            }
        }
        match &self.0 {
            Form::Few(entries) => {
                assert!(entries.len() <= LEAF && entries.is_sorted_by(|one, next| one.0 < next.0));
            }
            Form::Tree { root, len } => assert_eq!(walk(root, (None, None), true).0, *len),
        }
    }
}
