// SPDX-License-Identifier: BSD-3-Clause
//! A segment: some dozens of members in one block of memory.
//!
//! HOT PATH: no allocation except for growth, no lock, no logging, no system call.
//!
//! Layout of the block: number of slots (u16), dead bytes (u16), one tag byte per slot, one offset
//! (u16) per slot, then the records in insertion order. The block's word holds the number of
//! members and the used bytes of the record room. A tag is 8 bits of the member's hash, so a
//! search scans all tags and then reads about one record. A removal only marks bytes dead; they
//! are squeezed out when room is needed or when there are too many.

use super::record::{Record, short_key_len};
use braid_base::prefetch::prefetch;
use smallvec::SmallVec;

use braid_base::relocation::Mover;

use crate::thin_block::{ThinBlock, round_capacity};

const CACHE_LINE: usize = 64;
const HEADER: usize = 4;
/// Bytes per slot: tag and offset.
const SLOT: usize = 3;
const ROOM_MAX: usize = u16::MAX as usize;

/// A block of members; the table, not the segment, knows their hashes.
#[derive(Clone)]
pub struct Segment(ThinBlock);

impl Segment {
    /// Moves the segment's block to a better place, unless it is shared.
    pub fn relocate(&mut self, mover: &mut Mover) {
        self.0.relocate(mover);
    }
}

impl Default for Segment {
    fn default() -> Self {
        Segment::with_room(0, 0)
    }
}

impl Segment {
    /// An empty segment for `members` members of `bytes` bytes in total; the rest of the
    /// allocation is spare room.
    pub fn with_room(members: usize, bytes: usize) -> Segment {
        let (members, bytes) = (members.min(ROOM_MAX), bytes.min(ROOM_MAX));
        let need = HEADER + SLOT * members + bytes;
        let capacity = round_capacity(need);
        let spare = capacity - need;
        let each = bytes.checked_div(members).unwrap_or(16);
        let slots = (members + spare / (each + SLOT)).min(ROOM_MAX);
        let mut segment = Segment(ThinBlock::zeroed(capacity));
        segment.0.bytes_mut()[..2].copy_from_slice(&(slots as u16).to_le_bytes());
        segment
    }

    /// A second owner of the same segment.
    pub fn cow(&self) -> Segment {
        Segment(self.0.cow())
    }

    /// Number of members.
    #[inline]
    pub fn count(&self) -> usize {
        (self.0.word() & 0xFFFF) as usize
    }

    #[inline]
    fn used(&self) -> usize {
        (self.0.word() >> 16) as usize
    }

    #[inline]
    fn set_word(&mut self, count: usize, used: usize) {
        debug_assert!(count <= ROOM_MAX && used <= ROOM_MAX);
        self.0.set_word(count as u32 | (used as u32) << 16);
    }

    #[inline]
    fn number(&self, at: usize) -> usize {
        match self.0.bytes().get(at..).and_then(|bytes| bytes.first_chunk::<2>()) {
            Some(bytes) => usize::from(u16::from_le_bytes(*bytes)),
            None => 0,
        }
    }

    #[inline]
    fn set_number(&mut self, at: usize, value: usize) {
        self.0.bytes_mut()[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
    }

    #[inline]
    fn slots(&self) -> usize {
        self.number(0)
    }

    #[inline]
    fn dead(&self) -> usize {
        self.number(2)
    }

    fn add_dead(&mut self, bytes: usize) {
        let dead = self.dead() + bytes;
        self.set_number(2, dead);
    }

    /// Offset of the first record.
    #[inline]
    fn base(&self) -> usize {
        HEADER + SLOT * self.slots()
    }

    fn room(&self) -> usize {
        (self.0.capacity() - self.base()).min(ROOM_MAX)
    }

    /// Total size of the live records in bytes.
    pub fn live_bytes(&self) -> usize {
        self.used() - self.dead()
    }

    /// Bytes allocated.
    pub fn memory_bytes(&self) -> usize {
        self.0.allocation_bytes()
    }

    /// The members' tags, in slot order.
    #[inline]
    pub fn tags(&self) -> &[u8] {
        self.0.bytes().get(HEADER..HEADER + self.count()).unwrap_or_default()
    }

    #[inline]
    fn offset(&self, slot: usize) -> usize {
        self.number(HEADER + self.slots() + 2 * slot)
    }

    /// Prefetches the memory that a search reads first: the tags, and most of the offsets.
    #[inline]
    pub fn prefetch(&self) {
        let start = self.0.address();
        prefetch(start);
        prefetch(start.wrapping_add(CACHE_LINE));
    }

    /// The record in a slot, and its size in bytes.
    #[inline]
    pub fn record<const VALUES: bool>(&self, slot: usize) -> Option<(Record<'_, VALUES>, usize)> {
        Record::read(self.0.bytes().get(self.base() + self.offset(slot)..)?)
    }

    /// True or false if the first bytes show whether the record in a slot has `key`: for a short
    /// inline key of a record without an expiry. Otherwise `None`.
    #[inline]
    pub fn has_short_key(&self, slot: usize, key: &[u8]) -> Option<bool> {
        let (&head, rest) = self.0.bytes().get(self.base() + self.offset(slot)..)?.split_first()?;
        let there = short_key_len(head)?;
        Some(there == key.len() && rest.get(..there)? == key)
    }

    /// Adds a record. False if the segment cannot hold it.
    #[inline]
    pub fn push<const VALUES: bool>(&mut self, tag: u8, record: &Record<'_, VALUES>) -> bool {
        let size = record.size();
        let (count, used) = (self.count(), self.used());
        if (count >= self.slots() || used + size > self.room()) && !self.make_room::<VALUES>(1, size) {
            return false;
        }
        let (count, used, slots) = (count, self.used(), self.slots());
        let at = self.base() + used;
        let bytes = self.0.bytes_mut();
        bytes[HEADER + count] = tag;
        let offset_at = HEADER + slots + 2 * count;
        bytes[offset_at..offset_at + 2].copy_from_slice(&(used as u16).to_le_bytes());
        record.write(&mut bytes[at..at + size]);
        self.set_word(count + 1, used + size);
        true
    }

    /// Moves all records to a block with room for `members` more members of `bytes` bytes in
    /// total, without dead bytes.
    #[cold]
    #[inline(never)]
    fn make_room<const VALUES: bool>(&mut self, members: usize, bytes: usize) -> bool {
        if self.live_bytes() + bytes > ROOM_MAX || self.count() + members > ROOM_MAX {
            return false;
        }
        let mut new = Segment::with_room(self.count() + members, self.live_bytes() + bytes);
        new.append::<VALUES>(self);
        *self = new;
        true
    }

    /// Copies all members of `other`; there must be room for them.
    fn append<const VALUES: bool>(&mut self, other: &Segment) {
        if self.count() == 0 && other.dead() == 0 {
            let (count, used) = (other.count(), other.used());
            let (slots, other_slots, base, other_base) =
                (self.slots(), other.slots(), self.base(), other.base());
            let (to, from) = (self.0.bytes_mut(), other.0.bytes());
            to[HEADER..HEADER + count].copy_from_slice(&from[HEADER..HEADER + count]);
            let (offsets, from_offsets) = (HEADER + slots, HEADER + other_slots);
            to[offsets..offsets + 2 * count].copy_from_slice(&from[from_offsets..from_offsets + 2 * count]);
            to[base..base + used].copy_from_slice(&from[other_base..other_base + used]);
            self.set_word(count, used);
            return;
        }
        let (base, from) = (other.base(), other.0.bytes());
        for slot in 0..other.count() {
            let at = base + other.offset(slot);
            if let (Some((_, size)), Some(&tag)) = (other.record::<VALUES>(slot), other.tags().get(slot)) {
                self.push_bytes(tag, &from[at..at + size]);
            }
        }
    }

    /// Adds all members of `other`. False, with nothing changed, if they do not fit.
    pub fn merge<const VALUES: bool>(&mut self, other: &Segment) -> bool {
        if !self.make_room::<VALUES>(other.count(), other.live_bytes()) {
            return false;
        }
        self.append::<VALUES>(other);
        true
    }

    /// Distributes the members over two new segments: those for which `goes` is true go to the
    /// second.
    pub fn split<const VALUES: bool>(
        &self,
        mut goes: impl FnMut(&Record<'_, VALUES>) -> bool,
    ) -> (Segment, Segment) {
        let mut going = SmallVec::<[u8; 128]>::new();
        let mut bytes = [0; 2];
        for slot in 0..self.count() {
            let Some((record, size)) = self.record::<VALUES>(slot) else { continue };
            let to = u8::from(goes(&record));
            bytes[usize::from(to)] += size;
            going.push(to);
        }
        let second = going.iter().filter(|&&to| to == 1).count();
        let mut halves =
            [Segment::with_room(going.len() - second, bytes[0]), Segment::with_room(second, bytes[1])];
        let (base, from) = (self.base(), self.0.bytes());
        for (slot, to) in going.into_iter().enumerate() {
            let at = base + self.offset(slot);
            if let (Some((_, size)), Some(&tag)) = (self.record::<VALUES>(slot), self.tags().get(slot)) {
                halves[usize::from(to)].push_bytes(tag, &from[at..at + size]);
            }
        }
        let [first, second] = halves;
        (first, second)
    }

    /// Copies a record verbatim from another segment; there must be room for it.
    #[inline]
    fn push_bytes(&mut self, tag: u8, record: &[u8]) {
        let (count, used, slots) = (self.count(), self.used(), self.slots());
        let at = self.base() + used;
        let bytes = self.0.bytes_mut();
        bytes[HEADER + count] = tag;
        let offset_at = HEADER + slots + 2 * count;
        bytes[offset_at..offset_at + 2].copy_from_slice(&(used as u16).to_le_bytes());
        bytes[at..at + record.len()].copy_from_slice(record);
        self.set_word(count + 1, used + record.len());
    }

    /// Removes the record in a slot; the last record takes over its slot.
    pub fn remove<const VALUES: bool>(&mut self, slot: usize) {
        let (count, slots) = (self.count(), self.slots());
        let Some((_, size)) = self.record::<VALUES>(slot).filter(|_| slot < count) else { return };
        let (offset, last_offset, used) = (self.offset(slot), self.offset(count - 1), self.used());
        let last = count - 1;
        let bytes = self.0.bytes_mut();
        bytes[HEADER + slot] = bytes[HEADER + last];
        let offset_at = HEADER + slots + 2 * slot;
        bytes[offset_at..offset_at + 2].copy_from_slice(&(last_offset as u16).to_le_bytes());
        if last == 0 {
            self.set_word(0, 0);
            self.set_number(2, 0);
        } else if offset + size == used {
            self.set_word(last, used - size);
        } else {
            self.set_word(last, used);
            self.add_dead(size);
        }
        self.squeeze::<VALUES>();
    }

    /// Replaces the record in a slot. False, with nothing changed, if there is no room.
    pub fn replace<const VALUES: bool>(&mut self, slot: usize, record: &Record<'_, VALUES>) -> bool {
        let Some((_, old)) = self.record::<VALUES>(slot).filter(|_| slot < self.count()) else {
            return false;
        };
        let size = record.size();
        if size > old {
            if self.used() + size > self.room() && !self.make_room::<VALUES>(0, size) {
                return false;
            }
            let (at, offset_at) = (self.used(), HEADER + self.slots() + 2 * slot);
            let from = self.base() + at;
            record.write(&mut self.0.bytes_mut()[from..from + size]);
            self.set_number(offset_at, at);
            self.set_word(self.count(), at + size);
            self.add_dead(old);
        } else {
            let from = self.base() + self.offset(slot);
            record.write(&mut self.0.bytes_mut()[from..from + size]);
            self.add_dead(old - size);
        }
        self.squeeze::<VALUES>();
        true
    }

    /// Moves to a smaller block if a large part of this one is dead or empty.
    #[inline]
    fn squeeze<const VALUES: bool>(&mut self) {
        let dead = self.dead();
        if (dead > 64 && dead * 3 > self.used())
            || self.0.capacity() > 128 + 4 * (self.used() + SLOT * self.count())
        {
            self.make_room::<VALUES>(0, 0);
        }
    }
}
