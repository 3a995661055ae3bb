// SPDX-License-Identifier: BSD-3-Clause
//! The member index of a big sorted set: extendible hashing over small tables.
//!
//! HOT PATH: no lock, no logging, no system call.
//!
//! The first bits of a member's hash lead through a directory to a segment, a table of at most
//! [`SEGMENT_MAX`] handles. A full segment splits in two by the next bit, so growth never costs
//! more than one segment's rehash (some 10 us), at any size. Sparse neighbours are merged again.
//!
//! ```text
//! hash: | directory bits, from the top | ... | 7 bits of control bytes | ... | 8 bits of handles |
//! ```
//! SCAN walks segments in the order of their prefixes and, within a segment, members by the 8 hash
//! bits in their handles. Its cursor holds prefix, depth and the next value of those 8 bits:
//! - a segment split in the meantime is finished as its parts, the second one from its start;
//! - a segment merged with its neighbour in the meantime (its depth is no longer the cursor's) is
//!   walked again as a whole.
//!
//! Members may thus be seen twice, but a member present throughout is always seen.
//!
//! The table copies handles and never frees them; the owning set does.

use std::sync::LazyLock;

use braid_base::alloc::size_class;
use braid_base::hash::KeyHasher;
use hashbrown::HashTable;

use super::member::Handle;

/// Handles in a full segment: seven eighths of 512 slots, the table's maximum load.
pub(super) const SEGMENT_MAX: usize = 448;
/// A segment with at most this many looks for a neighbour to merge with ...
const SEGMENT_LOW: usize = SEGMENT_MAX / 6;
/// ... if both together have at most this many.
const JOINED_MAX: usize = SEGMENT_MAX / 2;
/// Longest prefix, in bits. Reached only with 10^11 members or crafted hashes; segments then exceed
/// their normal size.
const DEPTH_MAX: u32 = 28;
/// Bits of a cursor's prefix.
const CURSOR_PREFIX_BITS: u32 = 32;

/// Prefetch distance of a split, in members.
const AHEAD: usize = 16;

/// One key per process, so that a client can target neither a segment nor a control byte.
static HASHER: LazyLock<KeyHasher> = LazyLock::new(KeyHasher::random);

/// A member's hash.
#[derive(Clone, Copy)]
pub(super) struct Hash(u64);

impl Hash {
    #[inline]
    pub fn of(member: &[u8]) -> Hash {
        Hash(HASHER.hash(member))
    }

    /// The bits stored in a handle.
    #[inline]
    pub fn tag(self) -> u8 {
        self.0 as u8
    }

    /// The first `bits` bits.
    #[inline]
    fn prefix(self, bits: u32) -> usize {
        self.0.checked_shr(u64::BITS - bits).unwrap_or(0) as usize
    }

    /// The hash for the segment's table, which takes slots from the low end and control bytes from
    /// the high end; both must differ among members with the same prefix.
    #[inline]
    fn within(self) -> u64 {
        self.0.rotate_left(32)
    }
}

struct Segment {
    /// Number of leading bits that all members' hashes share ...
    depth: u32,
    /// ... and their value.
    prefix: usize,
    slots: HashTable<Handle>,
}

/// The handles, indexed by member.
pub(super) struct MemberTable {
    /// Hash bits that index the directory.
    depth: u32,
    /// The segment for each prefix; a segment of smaller depth occurs several times.
    directory: Vec<u32>,
    segments: Vec<Segment>,
    len: usize,
}

impl Default for MemberTable {
    fn default() -> MemberTable {
        let only = Segment { depth: 0, prefix: 0, slots: HashTable::new() };
        MemberTable { depth: 0, directory: vec![0], segments: vec![only], len: 0 }
    }
}

impl MemberTable {
    /// The member `bytes` with hash `hash`.
    #[inline]
    pub fn find(&self, hash: Hash, bytes: &[u8]) -> Option<&Handle> {
        let segment = &self.segments[self.segment_at(hash.prefix(self.depth))];
        segment.slots.find(hash.within(), |handle| handle.is(hash.tag(), bytes))
    }

    /// Adds a missing member.
    pub fn insert(&mut self, hash: Hash, handle: Handle) {
        let mut index = self.segment_at(hash.prefix(self.depth));
        while self.segments[index].slots.len() >= SEGMENT_MAX && self.may_split(index) {
            self.split(index);
            index = self.segment_at(hash.prefix(self.depth));
        }
        self.segments[index].slots.insert_unique(hash.within(), handle, hash_of);
        self.len += 1;
    }

    /// Removes exactly this handle; false if it is not in the table.
    pub fn remove(&mut self, handle: Handle) -> bool {
        let hash = Hash::of(handle.bytes());
        let index = self.segment_at(hash.prefix(self.depth));
        let slots = &mut self.segments[index].slots;
        let Ok(entry) = slots.find_entry(hash.within(), |other| *other == handle) else { return false };
        entry.remove();
        self.len -= 1;
        if slots.len() <= SEGMENT_LOW {
            self.join(index);
        }
        true
    }

    /// Takes another handle of the same member in the place of one that is in the table.
    pub fn replace(&mut self, old: Handle, new: Handle) {
        let hash = Hash::of(old.bytes());
        let index = self.segment_at(hash.prefix(self.depth));
        let place = self.segments[index].slots.find_mut(hash.within(), |other| *other == old);
        *place.expect("tree and table hold the same") = new;
    }

    /// Passes about `count` members to `seen` and returns the next cursor, 0 when the walk is
    /// complete. A walk starts with cursor 0; any other number is also safe.
    pub fn scan<'a>(&'a self, cursor: u64, count: usize, seen: &mut dyn FnMut(&'a Handle)) -> u64 {
        let (mut prefix, mut low, depth) = match cursor {
            0 => (0, 0, 0),
            cursor => ((cursor >> 16) as u32, (cursor >> 8) as u32 & 0xFF, (cursor >> 1) as u32 & 0x3F),
        };
        let first = self.segment_at(self.directory_index(prefix));
        if self.segments[first].depth < depth {
            low = 0;
        }
        let (mut found, mut visited) = (0, 0);
        loop {
            let segment = &self.segments[self.segment_at(self.directory_index(prefix))];
            let wanted = count.max(1) - found;
            // As many values of the 8 bits as should yield the wanted number of members.
            let values = (wanted.saturating_mul(256) / segment.slots.len().max(1)).clamp(1, 256) as u32;
            let high = (low + values).min(256);
            for handle in segment.slots.iter() {
                if (low..high).contains(&u32::from(handle.hash_tag())) {
                    seen(handle);
                    found += 1;
                }
            }
            visited += 1;
            low = high;
            if low == 256 {
                let start = (segment.prefix as u64) << (CURSOR_PREFIX_BITS - segment.depth);
                let next = start + (1 << (CURSOR_PREFIX_BITS - segment.depth));
                match u32::try_from(next) {
                    Ok(next) => (prefix, low) = (next, 0),
                    Err(_) => return 0,
                }
            }
            if found >= count.max(1) || visited > count {
                let depth = self.segments[self.segment_at(self.directory_index(prefix))].depth;
                return u64::from(prefix) << 16 | u64::from(low) << 8 | u64::from(depth) << 1 | 1;
            }
        }
    }

    /// All handles, unordered.
    pub fn iter(&self) -> impl Iterator<Item = &Handle> {
        self.segments.iter().flat_map(|segment| segment.slots.iter())
    }

    /// Number of members in each segment.
    pub fn segment_lens(&self) -> Vec<usize> {
        self.segments.iter().map(|segment| segment.slots.len()).collect()
    }

    /// Allocated bytes of directory and segments.
    pub fn memory_bytes(&self) -> usize {
        let slots = |segment: &Segment| match segment.slots.allocation_size() {
            0 => 0,
            size => size_class(size),
        };
        size_class(self.directory.capacity() * size_of::<u32>())
            + size_class(self.segments.capacity() * size_of::<Segment>())
            + self.segments.iter().map(slots).sum::<usize>()
    }

    #[inline]
    fn segment_at(&self, directory_index: usize) -> usize {
        self.directory[directory_index] as usize
    }

    fn directory_index(&self, cursor_prefix: u32) -> usize {
        cursor_prefix.checked_shr(CURSOR_PREFIX_BITS - self.depth).unwrap_or(0) as usize
    }

    /// True if splitting helps: not if the prefix is already far longer than the number of members
    /// calls for, as with crafted hashes.
    fn may_split(&self, index: usize) -> bool {
        let expected = (self.len / SEGMENT_MAX).max(1).ilog2();
        self.segments[index].depth < (expected + 6).min(DEPTH_MAX)
    }

    fn split(&mut self, index: usize) {
        if self.segments[index].depth == self.depth {
            self.directory = self.directory.iter().flat_map(|&segment| [segment, segment]).collect();
            self.depth += 1;
        }
        let segment = &mut self.segments[index];
        segment.depth += 1;
        segment.prefix <<= 1;
        let (depth, prefix) = (segment.depth, segment.prefix | 1);
        let all = std::mem::replace(&mut segment.slots, HashTable::with_capacity(SEGMENT_MAX));
        let mut other = HashTable::with_capacity(SEGMENT_MAX);
        // The members are scattered over memory: prefetch ahead instead of missing the cache on
        // each in turn.
        let all: Vec<Handle> = all.into_iter().collect();
        all.iter().take(AHEAD).for_each(Handle::prefetch);
        for (index, handle) in all.iter().enumerate() {
            if let Some(later) = all.get(index + AHEAD) {
                later.prefetch();
            }
            let hash = Hash::of(handle.bytes());
            let to = if hash.prefix(depth) == prefix { &mut other } else { &mut segment.slots };
            to.insert_unique(hash.within(), *handle, hash_of);
        }
        let other_index = self.segments.len() as u32;
        self.segments.push(Segment { depth, prefix, slots: other });
        self.point(depth, prefix, other_index);
    }

    /// Merges a segment with the one that differs in the last bit of its prefix, if both are small
    /// enough.
    fn join(&mut self, index: usize) {
        let Segment { depth, prefix, .. } = self.segments[index];
        if depth == 0 {
            return self.shrink_only();
        }
        let neighbour = self.segment_at((prefix ^ 1) << (self.depth - depth));
        let together = self.segments[index].slots.len() + self.segments[neighbour].slots.len();
        if self.segments[neighbour].depth != depth || together > JOINED_MAX {
            return;
        }
        let mut slots = HashTable::with_capacity(JOINED_MAX);
        for from in [index, neighbour] {
            for handle in std::mem::take(&mut self.segments[from].slots) {
                slots.insert_unique(hash_of(&handle), handle, hash_of);
            }
        }
        self.segments[index] = Segment { depth: depth - 1, prefix: prefix >> 1, slots };
        self.point(depth - 1, prefix >> 1, index as u32);
        self.segments.swap_remove(neighbour);
        if let Some(moved) = self.segments.get(neighbour) {
            let (depth, prefix) = (moved.depth, moved.prefix);
            self.point(depth, prefix, neighbour as u32);
        }
        self.shrink_directory();
    }

    /// Shrinks the table of the only segment to suit its content.
    fn shrink_only(&mut self) {
        let slots = &mut self.segments[0].slots;
        if slots.capacity() > 4 * slots.len().max(8) {
            slots.shrink_to(2 * slots.len(), hash_of);
        }
    }

    /// Halves the directory while no segment needs its last bit.
    fn shrink_directory(&mut self) {
        // Checked rarely: when the number of segments is at most a quarter of the directory.
        while self.depth > 0
            && self.segments.len() <= self.directory.len() / 4 + 1
            && self.segments.iter().all(|segment| segment.depth < self.depth)
        {
            self.directory = self.directory.iter().copied().step_by(2).collect();
            self.depth -= 1;
        }
        if self.segments.len() < self.segments.capacity() / 4 {
            self.segments.shrink_to(self.segments.len() * 2);
        }
    }

    /// Points all directory entries of a prefix at a segment.
    fn point(&mut self, depth: u32, prefix: usize, segment: u32) {
        let width = self.depth - depth;
        self.directory[prefix << width..(prefix + 1) << width].fill(segment);
    }
}

fn hash_of(handle: &Handle) -> u64 {
    Hash::of(handle.bytes()).within()
}

#[cfg(test)]
impl MemberTable {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Panics if an invariant does not hold.
    pub fn check(&self) {
        assert_eq!(self.directory.len(), 1 << self.depth);
        let mut total = 0;
        for (index, segment) in self.segments.iter().enumerate() {
            let width = self.depth - segment.depth;
            let places = self.directory.iter().enumerate().filter(|(_, to)| **to == index as u32);
            let places: Vec<usize> = places.map(|(place, _)| place).collect();
            let expected: Vec<usize> = (segment.prefix << width..(segment.prefix + 1) << width).collect();
            assert_eq!(places, expected);
            total += segment.slots.len();
            for handle in &segment.slots {
                let hash = Hash::of(handle.bytes());
                assert_eq!(hash.prefix(segment.depth), segment.prefix);
                assert_eq!(hash.tag(), handle.hash_tag());
                assert_eq!(self.find(hash, handle.bytes()), Some(handle));
            }
        }
        assert_eq!(total, self.len);
    }
}
