// SPDX-License-Identifier: BSD-3-Clause
//! The form of a sorted set beyond a few small members: a tree for order, a table for lookups by
//! name, one block per member.
//!
//! ```text
//! table: hash of member -> handle --+
//!                                   +--> block: score, bytes
//! tree:  (score, handle) in order --+
//! ```
//! Invariants: tree and table hold the same handles, each exactly once; the score in the tree
//! equals the score in the block; no score is NaN (an entry with one could not be found again).
//! Handles are freed only here, after tree and table have dropped them; together with exclusive
//! access to the whole set (`&mut self`), this is the contract that `member.rs` requires.
//!
//! A set can be shared copy on write (see [`cow`](braid_containers::cow)): the tree is then
//! shared, and scores are read from it; the owner does not free blocks but buries them for the
//! copies, the last of which frees them. The table is not shared: a copy has no lookup by name.
//!
//! Expiry times are kept in two separate maps, which are also shared, so members without one have
//! no overhead.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrayvec::ArrayVec;
use braid_base::alloc::size_class;
use braid_base::relocation::{Mover, Parts};

use super::LARGE;
use super::bounds::Edge;
use super::member::Handle;
use super::table::{Hash, MemberTable};
use super::tree::{Backward, Forward, LEAF_MAX, Tree};
use braid_containers::cow::note_copy;
use braid_containers::cow_map::CowMap;

/// The expiry times of members, in ms since the Unix epoch.
#[derive(Clone, Default)]
struct Expiry {
    by_member: CowMap<Handle, i64, EXPIRY_LEAF>,
    by_time: CowMap<(i64, Handle), (), EXPIRY_LEAF>,
}

impl Expiry {
    /// A member has another handle.
    fn replace(&mut self, old: Handle, new: Handle) {
        if let Some(at) = self.by_member.remove(&old) {
            self.by_time.remove(&(at, old));
            self.by_member.insert(new, at);
            self.by_time.insert((at, new), ());
        }
    }
}

/// Entries per leaf of both maps: as many as fit in 1024 bytes.
const EXPIRY_LEAF: usize = 63;

/// A set with this many member bytes is large, whatever their number.
const LARGE_BYTES: usize = 256 * 1024;

/// Blocks that the owner of a shared set no longer needs; `None` once all copies are gone.
struct Buried(Mutex<Option<Graves>>);

struct Graves {
    handles: Vec<Handle>,
    /// Number of copies. A later copy may keep a block longer than needed, never shorter.
    copies: usize,
}

impl Buried {
    fn lock(&self) -> MutexGuard<'_, Option<Graves>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Buries handles whose blocks must not be freed yet; false if no copy is left.
    fn take(&self, handles: &mut dyn Iterator<Item = Handle>) -> bool {
        match &mut *self.lock() {
            Some(graves) => {
                handles.for_each(|handle| {
                    note_copy(size_class(handle.block_size()));
                    graves.handles.push(handle);
                });
                true
            }
            None => false,
        }
    }

    /// Adds a copy; false if no copy is left.
    fn join(&self) -> bool {
        let mut graves = self.lock();
        graves.iter_mut().for_each(|graves| graves.copies += 1);
        graves.is_some()
    }

    /// Removes a copy; the last one gets the handles to free.
    fn leave(&self) -> Vec<Handle> {
        let mut graves = self.lock();
        if let Some(graves) = &mut *graves {
            graves.copies -= 1;
            if graves.copies > 0 {
                return Vec::new();
            }
        }
        // From now on the owner frees blocks itself.
        graves.take().map_or_else(Vec::new, |graves| graves.handles)
    }
}

/// Copy-on-write state of a set.
#[derive(Default)]
enum Sharing {
    #[default]
    None,
    /// The owner: it buries removed blocks.
    Owner(Arc<Buried>),
    /// A copy: a tree only, whose blocks belong to the owner or are buried.
    Copy(Arc<Buried>),
}

/// See the module.
#[derive(Default)]
pub(super) struct BigSet {
    tree: Tree,
    table: MemberTable,
    expiry: Option<Box<Expiry>>,
    /// Allocated size of the members' blocks.
    block_bytes: usize,
    sharing: Sharing,
}

impl BigSet {
    /// True if reading the whole set takes long.
    pub fn is_large(&self) -> bool {
        self.len() > LARGE || self.block_bytes > LARGE_BYTES
    }

    /// A second owner of the same members in order, for walking only: it has no lookup by name.
    /// `None` if this set is itself a copy.
    pub fn cow(&mut self) -> Option<BigSet> {
        let buried = match &self.sharing {
            Sharing::Copy(_) => return None,
            Sharing::Owner(buried) if buried.join() => Arc::clone(buried),
            Sharing::None | Sharing::Owner(_) => {
                let graves = Graves { handles: Vec::new(), copies: 1 };
                Arc::new(Buried(Mutex::new(Some(graves))))
            }
        };
        self.sharing = Sharing::Owner(Arc::clone(&buried));
        let mut copy = BigSet::default();
        copy.tree = self.tree.cow();
        copy.expiry = self.expiry.clone();
        copy.sharing = Sharing::Copy(buried);
        Some(copy)
    }

    /// See `Collection::relocate_blocks`. Nothing moves while there are copies, which refer to the
    /// same blocks.
    pub fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        if let Sharing::Owner(buried) = &self.sharing {
            if buried.lock().is_some() {
                return None;
            }
            self.sharing = Sharing::None;
        }
        let (tree, table, expiry) = (&mut self.tree, &mut self.table, &mut self.expiry);
        let (mut parts, mut left) = (Parts::new(from, mover), Vec::new());
        let mut next = parts.part(|from, mover| {
            tree.relocate(from, mover, &mut |old, mover| {
                let new = old.at_better_place(mover)?;
                table.replace(old, new);
                if let Some(expiry) = expiry {
                    expiry.replace(old, new);
                }
                left.push(old);
                Some(new)
            })
        });
        if next.is_none() {
            next = parts.part(|from, mover| table.relocate(from, mover));
        }
        for handle in left {
            // SAFETY: expiry maps, tree and table have another handle of this member, `&mut self`
            // rules out borrows from it, and no copy exists.
            unsafe { handle.free() };
        }
        next
    }

    /// See [`SortedSet::finds_by_name`](super::SortedSet::finds_by_name).
    pub fn finds_by_name(&self) -> bool {
        !matches!(self.sharing, Sharing::Copy(_))
    }

    /// Frees the block of a handle that this set has dropped: now, or once the copies are gone.
    fn let_go(&mut self, handle: Handle) {
        if let Sharing::Owner(buried) = &self.sharing {
            if buried.take(&mut std::iter::once(handle)) {
                return;
            }
            self.sharing = Sharing::None;
        }
        // SAFETY: expiry maps, tree and table have dropped the handle, `&mut self` rules out
        // borrows from it, and no copy exists.
        unsafe { handle.free() };
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    /// The member with this name, and its hash for [`BigSet::insert`].
    #[inline]
    pub fn find(&self, member: &[u8]) -> (Hash, Option<Handle>) {
        let hash = Hash::of(member);
        (hash, self.table.find(hash, member).copied())
    }

    /// The score of a member.
    #[inline]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.table.find(Hash::of(member), member).map(|handle| handle.score())
    }

    /// Rank and score of a member.
    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let score = self.score(member)?;
        Some((self.tree.rank(&Edge::BeforeEntry(score, member)), score))
    }

    /// Number of entries before an edge.
    pub fn rank_of(&self, edge: &Edge<'_>) -> usize {
        self.tree.rank(edge)
    }

    /// Adds a missing member; NaN is ignored.
    pub fn insert(&mut self, hash: Hash, member: &[u8], score: f64) {
        debug_assert!(!score.is_nan());
        if score.is_nan() {
            return;
        }
        let handle = Handle::create(score, member, hash.tag());
        self.block_bytes += size_class(handle.block_size());
        self.table.insert(hash, handle);
        self.tree.insert(score, handle);
    }

    /// Changes the score of a member of this set; NaN is ignored.
    pub fn change_score(&mut self, handle: Handle, score: f64) {
        debug_assert!(!score.is_nan());
        if !score.is_nan() && self.tree.change_score(handle.score(), handle, score) {
            // SAFETY: with `&mut self`, no other thread uses a handle of this set.
            unsafe { handle.set_score(score) };
        }
    }

    /// Removes a member; returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let handle = self.find(member).1?;
        let score = handle.score();
        self.remove_handle(handle).then_some(score)
    }

    fn remove_handle(&mut self, handle: Handle) -> bool {
        let removed = self.tree.remove(handle.score(), handle);
        debug_assert!(removed, "tree and table hold the same");
        if removed {
            self.discard(handle);
        }
        removed
    }

    /// Drops a handle that the tree has already dropped, and frees it.
    fn discard(&mut self, handle: Handle) {
        self.clear_expiry(handle);
        let removed = self.table.remove(handle);
        debug_assert!(removed, "tree and table hold the same");
        if removed {
            self.block_bytes -= size_class(handle.block_size());
            self.let_go(handle);
        }
    }

    /// Removes the entries with these ranks, passing each to `removed` in order.
    pub fn remove_ranks(&mut self, ranks: Range<usize>, removed: &mut dyn FnMut(&[u8], f64)) -> usize {
        let mut left = ranks.end.min(self.len()).saturating_sub(ranks.start);
        let mut total = 0;
        while left > 0 {
            let mut run: ArrayVec<(f64, Handle), LEAF_MAX> = ArrayVec::new();
            let count = self.tree.remove_run(ranks.start, left.min(LEAF_MAX), &mut |score, handle| {
                run.push((score, handle));
            });
            if count == 0 {
                break;
            }
            run.iter().for_each(|(_, handle)| handle.prefetch());
            for (score, handle) in run {
                removed(handle.bytes(), score);
                self.discard(handle);
            }
            left -= count;
            total += count;
        }
        total
    }

    /// The entry with this rank.
    pub fn get(&self, rank: usize) -> Option<(f64, &Handle)> {
        self.tree.get(rank)
    }

    pub fn forward(&self, rank: usize, count: usize) -> Forward<'_> {
        self.tree.forward(rank, count)
    }

    pub fn backward(&self, rank: usize, count: usize) -> Backward<'_> {
        self.tree.backward(rank, count)
    }

    pub fn scan<'a>(&'a self, cursor: u64, count: usize, seen: &mut dyn FnMut(&'a Handle)) -> u64 {
        self.table.scan(cursor, count, seen)
    }

    /// Number of members in each segment of the member table.
    pub fn segment_lens(&self) -> Vec<usize> {
        self.table.segment_lens()
    }

    // Expiry.

    /// Sets or clears the expiry of a member.
    pub fn set_expiry(&mut self, handle: Handle, at: Option<i64>) {
        self.clear_expiry(handle);
        if let Some(at) = at {
            let expiry = self.expiry.get_or_insert_default();
            expiry.by_member.insert(handle, at);
            expiry.by_time.insert((at, handle), ());
        }
    }

    /// Clears a member's expiry; true if it had one.
    pub fn clear_expiry(&mut self, handle: Handle) -> bool {
        let Some(expiry) = &mut self.expiry else { return false };
        let removed = expiry.by_member.remove(&handle);
        if let Some(at) = removed {
            expiry.by_time.remove(&(at, handle));
        }
        if expiry.by_member.is_empty() {
            self.expiry = None;
        }
        removed.is_some()
    }

    pub fn expiry_of(&self, handle: Handle) -> Option<i64> {
        self.expiry.as_ref()?.by_member.get(&handle).copied()
    }

    /// The earliest expiry of a member.
    #[inline]
    pub fn next_expiry(&self) -> Option<i64> {
        Some(self.expiry.as_ref()?.by_time.first_key()?.0)
    }

    /// Members that expired before `now`, earliest first.
    pub fn expired(&self, now: i64) -> impl Iterator<Item = Handle> {
        let times = self.expiry.as_ref().map(|expiry| expiry.by_time.iter());
        times
            .into_iter()
            .flatten()
            .map(|(key, ())| *key)
            .take_while(move |(at, _)| *at < now)
            .map(|(_, handle)| handle)
    }

    /// Removes up to `max` expired members, passing each to `removed`.
    pub fn remove_expired(&mut self, now: i64, max: usize, removed: &mut dyn FnMut(&[u8], f64)) -> usize {
        let mut count = 0;
        while count < max {
            let Some(handle) = self.expired(now).next() else { break };
            removed(handle.bytes(), handle.score());
            if !self.remove_handle(handle) {
                break;
            }
            count += 1;
        }
        count
    }

    pub fn memory_bytes(&self) -> usize {
        let expiry = self.expiry.as_ref().map_or(0, |expiry| {
            size_class(size_of::<Expiry>()) + expiry.by_member.memory_bytes() + expiry.by_time.memory_bytes()
        });
        self.tree.memory_bytes() + self.table.memory_bytes() + self.block_bytes + expiry
    }
}

impl Drop for BigSet {
    fn drop(&mut self) {
        match std::mem::take(&mut self.sharing) {
            Sharing::Owner(buried) if buried.take(&mut self.table.iter().copied()) => {}
            Sharing::None | Sharing::Owner(_) => {
                for handle in self.table.iter() {
                    // SAFETY: the set is dropped with tree and table, each handle is in the table
                    // once, and no copy exists.
                    unsafe { handle.free() };
                }
            }
            Sharing::Copy(buried) => {
                for handle in buried.leave() {
                    // SAFETY: the owner has dropped it, each handle is buried once, and this tree,
                    // the last copy, is dropped.
                    unsafe { handle.free() };
                }
            }
        }
    }
}

impl Clone for BigSet {
    fn clone(&self) -> BigSet {
        let mut copy = BigSet::default();
        for (score, handle) in self.forward(0, usize::MAX) {
            copy.insert(Hash::of(handle.bytes()), handle.bytes(), score);
        }
        for ((at, handle), ()) in self.expiry.iter().flat_map(|expiry| expiry.by_time.iter()) {
            if let Some(member) = copy.find(handle.bytes()).1 {
                copy.set_expiry(member, Some(*at));
            }
        }
        copy
    }
}

#[cfg(test)]
impl BigSet {
    pub fn segments(&self) -> usize {
        self.table.segments()
    }

    /// Panics if an invariant does not hold.
    pub fn check(&self) {
        self.tree.check();
        self.table.check();
        assert_eq!(self.tree.len(), self.table.len());
        let mut bytes = 0;
        for (_, handle) in self.forward(0, usize::MAX) {
            assert_eq!(self.find(handle.bytes()).1, Some(*handle));
            bytes += size_class(handle.block_size());
        }
        assert_eq!(bytes, self.block_bytes);
        if let Some(expiry) = &self.expiry {
            assert_eq!(expiry.by_member.len(), expiry.by_time.len());
            assert!(!expiry.by_member.is_empty());
            expiry.by_member.check();
            expiry.by_time.check();
        }
    }
}
