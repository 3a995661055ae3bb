// SPDX-License-Identifier: BSD-3-Clause
//! The member index of a big sorted set: handles in segments, found by hash.
//!
//! HOT PATH: no lock, no logging, no system call; an insertion or removal reallocates one segment.
//!
//! Each segment is a slice of exactly its handles, ordered by the 8 hash bits in them, so a
//! look-up estimates the place in it and reads one or two cache lines. The other bits choose the
//! segment ([`spiral`]): whenever the average exceeds [`LOAD`] handles per segment, one segment,
//! the next in turn, is split in two; when it is far lower, the last one is merged back. So there
//! is no pause at any size, and there are segments of all sizes at any time: memory that some leave
//! as they grow is reused by others.
//!
//! SCAN walks segments in the order of their points and, within a segment, members by their 8 hash
//! bits. Its cursor holds a point, the number of digits of its segment's name, and the next value
//! of those 8 bits:
//! - a segment split in the meantime is finished as its parts, the second one from its start;
//! - a segment merged with its neighbour in the meantime (its name is no longer that long) is
//!   walked again as a whole.
//!
//! Members may thus be seen twice, but a member present throughout is always seen.
//!
//! The table copies handles and never frees them; the owning set does.

use std::sync::LazyLock;

use braid_base::alloc::size_class;
use braid_base::hash::KeyHasher;
use braid_base::relocation::Mover;
use braid_containers::spiral;

use super::member::Handle;

/// Average handles per segment at which another segment is added.
const LOAD: usize = 64;
/// Average handles per segment below which a segment is merged away.
const LOAD_LOW: usize = 24;
/// Bits of a cursor's point.
const POINT_BITS: u32 = 32;

/// Prefetch distance of a split, in members.
const AHEAD: usize = 16;

/// One key per process, so that a client cannot choose a member's segment.
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

    /// The name of the segment among so many.
    #[inline]
    fn segment_name(self, segments: usize) -> u64 {
        spiral::name(spiral::point(self.0), segments)
    }
}

/// Handles in the order of their hash bits.
type Segment = Box<[Handle]>;

/// The number of handles of a segment with smaller hash bits than `tag`.
#[inline]
fn lower_bound(segment: &[Handle], tag: u8) -> usize {
    // The bits of different members are independent, so the estimate is off by a few places.
    let mut at = (usize::from(tag) * segment.len()) >> 8;
    while at > 0 && segment[at - 1].hash_tag() >= tag {
        at -= 1;
    }
    while segment.get(at).is_some_and(|handle| handle.hash_tag() < tag) {
        at += 1;
    }
    at
}

/// Changes a segment as a vector.
#[inline]
fn change<R>(segment: &mut Segment, change: impl FnOnce(&mut Vec<Handle>) -> R) -> R {
    let mut handles = std::mem::take(segment).into_vec();
    let result = change(&mut handles);
    *segment = handles.into_boxed_slice();
    result
}

/// The handles, indexed by member.
pub(super) struct MemberTable {
    segments: Vec<Segment>,
    len: usize,
}

impl Default for MemberTable {
    fn default() -> MemberTable {
        MemberTable { segments: vec![Segment::default()], len: 0 }
    }
}

impl MemberTable {
    #[inline]
    fn segment_of(&self, hash: Hash) -> usize {
        spiral::place(hash.segment_name(self.segments.len()))
    }

    /// The member `bytes` with hash `hash`.
    #[inline]
    pub fn find(&self, hash: Hash, bytes: &[u8]) -> Option<&Handle> {
        let (segment, tag) = (&self.segments[self.segment_of(hash)], hash.tag());
        let like = segment[lower_bound(segment, tag)..].iter();
        like.take_while(|handle| handle.hash_tag() == tag).find(|handle| handle.is(tag, bytes))
    }

    /// Adds a missing member.
    pub fn insert(&mut self, hash: Hash, handle: Handle) {
        let at = self.segment_of(hash);
        change(&mut self.segments[at], |handles| {
            handles.reserve_exact(1);
            handles.insert(lower_bound(handles, hash.tag()), handle);
        });
        self.len += 1;
        if self.len > LOAD * self.segments.len() {
            self.split_one();
        }
    }

    /// The segment and place of exactly this handle.
    fn place_of(&self, handle: Handle) -> Option<(usize, usize)> {
        let number = self.segment_of(Hash::of(handle.bytes()));
        let segment = &self.segments[number];
        let from = lower_bound(segment, handle.hash_tag());
        Some((number, from + segment[from..].iter().position(|other| *other == handle)?))
    }

    /// Removes exactly this handle; false if it is not in the table.
    pub fn remove(&mut self, handle: Handle) -> bool {
        let Some((number, at)) = self.place_of(handle) else { return false };
        change(&mut self.segments[number], |handles| handles.remove(at));
        self.len -= 1;
        if self.len < LOAD_LOW * self.segments.len() && self.segments.len() > 1 {
            self.merge_one();
        }
        true
    }

    /// Takes another handle of the same member in the place of one that is in the table.
    pub fn replace(&mut self, old: Handle, new: Handle) {
        let (number, at) = self.place_of(old).expect("tree and table hold the same");
        self.segments[number][at] = new;
    }

    /// Adds a segment: the next segment in turn gives it a part of its handles.
    fn split_one(&mut self) {
        let segments = self.segments.len();
        let from = &mut self.segments[spiral::place(segments as u64)];
        // The members are scattered over memory: prefetch ahead instead of missing the cache on
        // each in turn.
        from.iter().take(AHEAD).for_each(Handle::prefetch);
        let (mut stay, mut go) = (Vec::with_capacity(from.len()), Vec::with_capacity(from.len()));
        for (at, handle) in from.iter().enumerate() {
            if let Some(later) = from.get(at + AHEAD) {
                later.prefetch();
            }
            let name = Hash::of(handle.bytes()).segment_name(segments + 1);
            if name > 2 * segments as u64 { go.push(*handle) } else { stay.push(*handle) }
        }
        *from = stay.into_boxed_slice();
        if segments == self.segments.capacity() {
            self.segments.reserve_exact(segments / 8 + 1);
        }
        self.segments.push(go.into_boxed_slice());
    }

    /// Merges the last segment back into the segment that it was split from.
    fn merge_one(&mut self) {
        let Some(last) = self.segments.pop() else { return };
        let into = spiral::place(self.segments.len() as u64);
        change(&mut self.segments[into], |handles| {
            handles.extend_from_slice(&last);
            handles.sort_by_key(|handle| handle.hash_tag());
        });
        if self.segments.len() < self.segments.capacity() / 2 {
            self.segments.shrink_to(self.segments.len() * 5 / 4);
        }
    }

    /// Moves segments from number `from` on to better places until the mover's time is over;
    /// returns the number to continue with.
    pub fn relocate(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        if from == 0 {
            mover.relocate_vec(&mut self.segments);
        }
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        for (number, segment) in self.segments.iter_mut().enumerate().skip(from) {
            if number > from && mover.is_over() {
                return Some(number as u64);
            }
            mover.relocate_slice(segment);
        }
        None
    }

    /// Passes about `count` members to `seen` and returns the next cursor, 0 when the walk is
    /// complete. A walk starts with cursor 0; any other number is also safe.
    pub fn scan<'a>(&'a self, cursor: u64, count: usize, seen: &mut dyn FnMut(&'a Handle)) -> u64 {
        let (mut point, mut low, depth) = match cursor {
            0 => (0, 0, 0),
            cursor => ((cursor >> 16) as u32, (cursor >> 8) as u32 & 0xFF, (cursor >> 1) as u32 & 0x3F),
        };
        let name_of =
            |point: u32| spiral::name(u64::from(point) << (u64::BITS - POINT_BITS), self.segments.len());
        if name_of(point).ilog2() < depth {
            low = 0;
        }
        let (mut found, mut visited) = (0, 0);
        loop {
            let name = name_of(point);
            let segment = &self.segments[spiral::place(name)];
            let wanted = count.max(1) - found;
            // As many values of the 8 bits as should yield the wanted number of members.
            let values = (wanted.saturating_mul(256) / segment.len().max(1)).clamp(1, 256) as u32;
            let high = (low + values).min(256);
            for handle in segment {
                if (low..high).contains(&u32::from(handle.hash_tag())) {
                    seen(handle);
                    found += 1;
                }
            }
            visited += 1;
            low = high;
            if low == 256 {
                // The end of the interval of points that begin with the digits of the name.
                let width = POINT_BITS.saturating_sub(name.ilog2());
                let next = ((u64::from(point) >> width) + 1) << width;
                match u32::try_from(next) {
                    Ok(next) => (point, low) = (next, 0),
                    Err(_) => return 0,
                }
            }
            if found >= count.max(1) || visited > count {
                let depth = name_of(point).ilog2();
                return u64::from(point) << 16 | u64::from(low) << 8 | u64::from(depth) << 1 | 1;
            }
        }
    }

    /// All handles, unordered.
    pub fn iter(&self) -> impl Iterator<Item = &Handle> {
        self.segments.iter().flat_map(|segment| segment.iter())
    }

    /// Number of members in each segment.
    pub fn segment_lens(&self) -> Vec<usize> {
        self.segments.iter().map(|segment| segment.len()).collect()
    }

    /// Allocated bytes of the segments and of their list.
    pub fn memory_bytes(&self) -> usize {
        let bytes = |segment: &Segment| match segment.len() {
            0 => 0,
            len => size_class(len * size_of::<Handle>()),
        };
        let list = size_class(self.segments.capacity() * size_of::<Segment>());
        list + self.segments.iter().map(bytes).sum::<usize>()
    }
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
        let mut total = 0;
        for (number, segment) in self.segments.iter().enumerate() {
            total += segment.len();
            assert!(segment.is_sorted_by_key(|handle| handle.hash_tag()));
            for handle in segment {
                let hash = Hash::of(handle.bytes());
                assert_eq!(self.segment_of(hash), number);
                assert_eq!(hash.tag(), handle.hash_tag());
                assert_eq!(self.find(hash, handle.bytes()), Some(handle));
            }
        }
        assert_eq!(total, self.len);
    }
}
