// SPDX-License-Identifier: BSD-3-Clause
//! A packed list: many small values in one block of bytes, in the exact format of Redis's listpack.
//!
//! A small hash, set, sorted set or list is one packed list, a long list is many of them, and RDB
//! files and DUMP payloads contain the bytes verbatim. Format: total size (u32, little endian),
//! number of entries (u16, 65535 if unknown), entries (see [`entry`]), the byte 255. In memory
//! there may be spare room before and after those bytes, so pushing and popping at either end
//! moves nothing; the capacity is always a size class of the allocator.
//!
//! Places are byte offsets from the start of the list; a change invalidates earlier places
//! (reading at a wrong place gives a wrong value or `None`, never a panic). Values are always
//! stored in their shortest encoding, even those of a foreign list ([`Listpack::from_bytes`]
//! rewrites longer encodings), so equal values have equal bytes. Invariant: `bytes()` always
//! passes a deep [`validate`].

mod block;
mod entry;
mod iter;

pub use entry::{Element, Encoded, decimal_len};
pub use iter::{Entries, Iter};

use braid_base::relocation::Mover;
use smallvec::SmallVec;

use block::Block;

const HEADER: usize = 6;
const COUNT_UNKNOWN: u16 = u16::MAX;
/// A list without entries.
const EMPTY: [u8; HEADER + 1] = [HEADER as u8 + 1, 0, 0, 0, 0, 0, entry::END];

/// Overhead of a list's block, in bytes.
pub const BLOCK_BYTES: usize = block::OWN;

/// Maximum size of a packed list in bytes; Redis stops at the same size.
pub const MAX_BYTES: usize = 1 << 30;

/// Size in bytes from which on a packed collection is large: copying it is quick, compressing it
/// is not.
pub const LARGE_PACKED: usize = 64 * 1024;

/// Checks untrusted bytes. Shallow: sizes and end mark agree. Deep: every entry is in bounds with
/// a correct back length, and the number of entries equals the header's. Only deeply valid bytes
/// may become a [`Listpack`].
pub fn validate(bytes: &[u8], deep: bool) -> bool {
    let Some(header) = bytes.first_chunk::<HEADER>() else { return false };
    let total = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
    let count = u16::from_le_bytes([header[4], header[5]]);
    if total != bytes.len() || !(HEADER + 1..=MAX_BYTES).contains(&total) || bytes.last() != Some(&entry::END)
    {
        return false;
    }
    if !deep {
        return true;
    }
    let (mut at, end, mut entries) = (HEADER, total - 1, 0usize);
    while at < end {
        let Some(content) = entry::content_size(bytes, at) else { return false };
        let Some(next) = at.checked_add(content + entry::back_len_size(content)) else { return false };
        if next > end || entry::read_back_len(bytes, next) != Some((content, next - at - content)) {
            return false;
        }
        at = next;
        entries += 1;
    }
    count == COUNT_UNKNOWN || usize::from(count) == entries
}

/// A packed list, one pointer wide (`tagged.rs` relies on this representation).
#[derive(Clone)]
#[repr(transparent)]
pub struct Listpack {
    block: Block,
}

/// A list's layout, known without reading its entries.
struct Head {
    /// Offset of the list in its block.
    start: usize,
    /// Size of the wire format.
    total: usize,
    count: u16,
    /// Room in the block after the list.
    behind: usize,
}

impl Default for Listpack {
    fn default() -> Self {
        Listpack::new()
    }
}

impl std::fmt::Debug for Listpack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for Listpack {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Listpack {}

impl Listpack {
    /// An empty list.
    pub fn new() -> Listpack {
        Listpack::with_capacity(HEADER + 1)
    }

    /// Moves the list's block to a better place.
    pub fn relocate(&mut self, mover: &mut Mover) {
        self.block.relocate(mover);
    }

    /// An empty list with room for `bytes` in total (including the 6-byte header and the end mark).
    pub fn with_capacity(bytes: usize) -> Listpack {
        let mut block = Block::with_room(bytes.clamp(HEADER + 1, MAX_BYTES));
        block.bytes_mut()[..=HEADER].copy_from_slice(&EMPTY);
        Listpack { block }
    }

    /// A list of the given bytes, if they are deeply valid. Entries in needlessly long encodings
    /// are rewritten.
    pub fn from_bytes(bytes: &[u8]) -> Option<Listpack> {
        if !validate(bytes, true) {
            return None;
        }
        let mut block = Block::with_room(bytes.len());
        block.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        let list = Listpack { block };
        let is_shortest = |(at, element): (usize, Element<'_>)| {
            Encoded::of(element)
                .is_some_and(|encoded| list.bytes().get(at..).is_some_and(|rest| encoded.matches(rest)))
        };
        if list.entries().all(is_shortest) {
            return Some(list);
        }
        let mut rewritten = Listpack::with_capacity(bytes.len());
        list.iter().all(|element| rewritten.push_back_element(element)).then_some(rewritten)
    }

    #[inline]
    fn start(&self) -> usize {
        self.block.start()
    }

    /// The list in its wire format.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let bytes = self.block.bytes().get(self.start()..).unwrap_or_default();
        let total = match bytes.first_chunk::<4>() {
            Some(size) => u32::from_le_bytes(*size) as usize,
            None => 0,
        };
        bytes.get(..total).unwrap_or_default()
    }

    /// Reads the whole layout.
    #[inline]
    fn head(&self) -> Head {
        let (start, content) = (self.start(), self.block.bytes());
        match content.get(start..).and_then(|bytes| bytes.first_chunk::<HEADER>()) {
            Some(head) => {
                let total = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
                let count = u16::from_le_bytes([head[4], head[5]]);
                Head { start, total, count, behind: content.len().saturating_sub(start + total) }
            }
            None => Head { start, total: 0, count: 0, behind: 0 },
        }
    }

    /// Size of the wire format in bytes.
    #[inline]
    pub fn byte_len(&self) -> usize {
        self.head().total
    }

    /// Bytes allocated.
    pub fn memory_bytes(&self) -> usize {
        self.block.allocation_bytes()
    }

    /// Number of entries. Walks the list if the header does not have it (65535 entries or more).
    #[inline]
    pub fn len(&self) -> usize {
        match self.header_count() {
            COUNT_UNKNOWN => self.iter().count(),
            known => usize::from(known),
        }
    }

    /// True if the list has no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.byte_len() <= HEADER + 1
    }

    #[inline]
    fn header_count(&self) -> u16 {
        self.head().count
    }

    #[inline]
    fn adjust_count(&mut self, removed: usize, added: usize) {
        let old = self.header_count();
        if old != COUNT_UNKNOWN {
            let new =
                (usize::from(old) + added).saturating_sub(removed).min(usize::from(COUNT_UNKNOWN)) as u16;
            let start = self.start();
            self.block.bytes_mut()[start + 4..start + 6].copy_from_slice(&new.to_le_bytes());
        }
    }

    /// True if `more` bytes can be added without exceeding [`MAX_BYTES`].
    #[inline]
    pub fn safe_to_add(&self, more: usize) -> bool {
        self.byte_len().saturating_add(more) <= MAX_BYTES
    }

    /// Size in bytes of an entry that holds `text`.
    pub fn entry_bytes(text: &[u8]) -> usize {
        Encoded::new(text).map_or(usize::MAX, |encoded| encoded.len())
    }

    /// Size in bytes of a list of `count` entries that each hold `number`.
    pub fn bytes_of_repeated_int(number: i64, count: usize) -> usize {
        count.saturating_mul(Encoded::of_int(number).len()).saturating_add(HEADER + 1)
    }

    // Changing.

    /// Replaces `remove` bytes at `at` with `insert` bytes, which the caller writes into the
    /// returned slice. `None`, with nothing changed, if the list would exceed [`MAX_BYTES`]. Moves
    /// the shorter side.
    #[inline]
    fn splice(&mut self, at: usize, remove: usize, insert: usize) -> Option<&mut [u8]> {
        let (start, total) = (self.start(), self.byte_len());
        let behind = total.checked_sub(at.checked_add(remove)?)?;
        let new_total = (total - remove).checked_add(insert).filter(|&bytes| bytes <= MAX_BYTES)?;
        let from = start + at;
        let mut new_start = start;
        if insert != remove {
            let front_is_shorter = at < behind;
            let room = self.block.room() - total + remove;
            if insert < remove {
                if front_is_shorter {
                    new_start = start + remove - insert;
                }
            } else if insert > room {
                new_start = self.grow(new_total, front_is_shorter);
            } else {
                let more = insert - remove;
                let room_behind = self.block.room() - start - total;
                if front_is_shorter && more <= start {
                    new_start = start - more;
                } else if front_is_shorter || more > room_behind {
                    // The spare room is on the other side: leave half of the remaining room on
                    // each side, or the next push would move all entries again.
                    new_start = (self.block.room() - new_total) / 2;
                }
            }
            let bytes = self.block.bytes_mut();
            let (to, tail, tail_to) = (new_start + at, from + remove, new_start + at + insert);
            // The side that moves towards the other goes last; otherwise it would overwrite bytes
            // not yet moved.
            if new_start <= start {
                bytes.copy_within(start..start + at, new_start);
                bytes.copy_within(tail..tail + behind, tail_to);
            } else {
                bytes.copy_within(tail..tail + behind, tail_to);
                bytes.copy_within(start..start + at, new_start);
            }
            debug_assert!(to >= new_start);
            bytes[new_start..new_start + 4].copy_from_slice(&(new_total as u32).to_le_bytes());
            self.block.set_start(new_start);
        }
        let to = new_start + at;
        Some(&mut self.block.bytes_mut()[to..to + insert])
    }

    /// Grows the block for a list of `new_total` bytes; returns the list's new offset.
    #[cold]
    fn grow(&mut self, new_total: usize, room_in_front: bool) -> usize {
        self.block.resize(new_total);
        if room_in_front { self.block.room() - new_total } else { 0 }
    }

    #[inline]
    fn insert_encoded(&mut self, at: usize, encoded: &Encoded<'_>) -> bool {
        let Some(room) = self.splice(at, 0, encoded.len()) else { return false };
        encoded.write(room);
        self.adjust_count(0, 1);
        true
    }

    /// Appends one or two entries: in place if there is room after the list, the usual case.
    #[inline]
    fn append_encoded(&mut self, one: &Encoded<'_>, two: Option<&Encoded<'_>>) -> bool {
        let Head { start, total, count, behind } = self.head();
        let added = 1 + u16::from(two.is_some());
        let more = one.len() + two.map_or(0, Encoded::len);
        let new_total = total + more;
        if count >= COUNT_UNKNOWN - 2 || behind < more || new_total > MAX_BYTES {
            let end = self.end();
            let Some(room) = self.splice(end, 0, more) else { return false };
            one.write(room);
            if let Some(two) = two {
                two.write(&mut room[one.len()..]);
            }
            self.adjust_count(0, usize::from(added));
            return true;
        }
        let bytes = &mut self.block.bytes_mut()[start..start + new_total];
        bytes[..4].copy_from_slice(&(new_total as u32).to_le_bytes());
        bytes[4..6].copy_from_slice(&(count + added).to_le_bytes());
        let room = &mut bytes[total - 1..];
        one.write(room);
        if let Some(two) = two {
            two.write(&mut room[one.len()..]);
        }
        room[more] = entry::END;
        true
    }

    /// The place just after the last entry.
    #[inline]
    pub fn end(&self) -> usize {
        self.byte_len().saturating_sub(1)
    }

    /// Appends a value. False, with nothing changed, if the list would exceed [`MAX_BYTES`].
    #[inline]
    pub fn push_back(&mut self, text: &[u8]) -> bool {
        Encoded::new(text).is_some_and(|encoded| self.append_encoded(&encoded, None))
    }

    /// Appends a field and its value together. False, with nothing changed, if there is no room
    /// for both.
    #[inline]
    pub fn push_back_pair(&mut self, field: &[u8], value: &[u8]) -> bool {
        match (Encoded::new(field), Encoded::new(value)) {
            (Some(field), Some(value)) => self.append_encoded(&field, Some(&value)),
            _ => false,
        }
    }

    /// Prepends a value. False if there is no room.
    #[inline]
    pub fn push_front(&mut self, text: &[u8]) -> bool {
        Encoded::new(text).is_some_and(|encoded| self.insert_encoded(HEADER, &encoded))
    }

    /// Appends a number. False if there is no room.
    pub fn push_back_int(&mut self, number: i64) -> bool {
        self.append_encoded(&Encoded::of_int(number), None)
    }

    /// Prepends a number. False if there is no room.
    pub fn push_front_int(&mut self, number: i64) -> bool {
        self.insert_encoded(HEADER, &Encoded::of_int(number))
    }

    /// Appends a value read from another list. False if there is no room.
    pub fn push_back_element(&mut self, element: Element<'_>) -> bool {
        Encoded::of(element).is_some_and(|encoded| self.append_encoded(&encoded, None))
    }

    /// Inserts a value before the entry at `at`, or at the end if `at` is [`Listpack::end`]; the
    /// new entry is then at `at`. False if there is no room or `at` is not a place.
    pub fn insert(&mut self, at: usize, text: &[u8]) -> bool {
        let is_place = at >= HEADER && at <= self.end();
        is_place && Encoded::new(text).is_some_and(|encoded| self.insert_encoded(at, &encoded))
    }

    /// Like [`Listpack::insert`], for a number.
    pub fn insert_int(&mut self, at: usize, number: i64) -> bool {
        at >= HEADER && at <= self.end() && self.insert_encoded(at, &Encoded::of_int(number))
    }

    /// Replaces the entry at `at` with `text`. False if there is no such entry or no room.
    pub fn replace(&mut self, at: usize, text: &[u8]) -> bool {
        Encoded::new(text).is_some_and(|encoded| self.replace_encoded(at, &encoded))
    }

    /// Replaces the entry at `at` with a number. False if there is no such entry or no room.
    pub fn replace_int(&mut self, at: usize, number: i64) -> bool {
        self.replace_encoded(at, &Encoded::of_int(number))
    }

    fn replace_encoded(&mut self, at: usize, encoded: &Encoded<'_>) -> bool {
        let Some(old) = self.entry_len(at) else { return false };
        let Some(room) = self.splice(at, old, encoded.len()) else { return false };
        encoded.write(room);
        true
    }

    /// Size of the entry at `at`, if there is one.
    #[inline]
    fn entry_len(&self, at: usize) -> Option<usize> {
        if at < HEADER {
            return None;
        }
        let size = entry::entry_size(self.bytes(), at)?;
        (at.checked_add(size)? <= self.end()).then_some(size)
    }

    /// Removes the entry at `at`; the next entry is then at `at`. False if there is no such entry.
    #[inline]
    pub fn remove(&mut self, at: usize) -> bool {
        let Some(size) = self.entry_len(at) else { return false };
        self.splice(at, size, 0);
        self.adjust_count(1, 0);
        self.give_back();
        true
    }

    /// Removes up to `count` entries from `at` on; returns their number.
    pub fn remove_run(&mut self, at: usize, count: usize) -> usize {
        let (mut until, mut removed) = (at, 0);
        while removed < count {
            let Some(size) = self.entry_len(until) else { break };
            until += size;
            removed += 1;
        }
        if removed > 0 {
            self.splice(at, until - at, 0);
            self.adjust_count(removed, 0);
            self.give_back();
        }
        removed
    }

    /// Removes up to `count` entries from position `index` on (negative: from the end); returns
    /// their number.
    pub fn remove_range(&mut self, index: i64, count: usize) -> usize {
        self.seek(index).map_or(0, |at| self.remove_run(at, count))
    }

    /// Removes every entry.
    pub fn clear(&mut self) {
        *self = Listpack::new();
    }

    /// Removes every entry but keeps the block, with all its room after the list.
    pub fn clear_keeping_room(&mut self) {
        self.block.set_start(0);
        self.block.bytes_mut()[..=HEADER].copy_from_slice(&EMPTY);
    }

    /// Appends all entries of `other`. False, with nothing changed, if there is no room.
    pub fn merge(&mut self, other: &Listpack) -> bool {
        let count = other.len();
        let Some(entries) = other.bytes().get(HEADER..other.end()) else { return true };
        let Some(room) = self.splice(self.end(), 0, entries.len()) else { return false };
        room.copy_from_slice(entries);
        self.adjust_count(0, count);
        true
    }

    /// Moves the entries from `at` on into a new list.
    pub fn split_off(&mut self, at: usize) -> Listpack {
        let at = at.clamp(HEADER, self.end().max(HEADER));
        let moved = self.bytes().get(at..self.end()).unwrap_or_default();
        let mut other = Listpack::with_capacity(moved.len() + HEADER + 1);
        if let Some(room) = other.splice(HEADER, 0, moved.len()) {
            room.copy_from_slice(moved);
        }
        let count = other.iter().count();
        other.adjust_count(0, count);
        self.splice(at, self.end() - at, 0);
        self.adjust_count(count, 0);
        self.give_back();
        other
    }

    // Memory.

    /// Frees memory if the list has become far smaller than its block.
    #[inline]
    fn give_back(&mut self) {
        if self.block.room() > 2 * self.byte_len() + 64 {
            self.shrink();
        }
    }

    /// Shrinks the block as far as the list allows.
    pub fn shrink(&mut self) {
        let (start, total) = (self.start(), self.byte_len());
        if Block::room_for(total) < self.block.room() {
            self.block.bytes_mut().copy_within(start..start + total, 0);
            self.block.set_start(0);
            self.block.resize(total);
        }
    }

    /// Makes room for `more` bytes of entries before or after the list, in one step.
    pub fn reserve(&mut self, more: usize, in_front: bool) {
        let (start, total, capacity) = (self.start(), self.byte_len(), self.block.room());
        let room = if in_front { start } else { capacity - start - total };
        let want = total.saturating_add(more);
        if room >= more || want > MAX_BYTES {
            return;
        }
        if want > capacity {
            self.block.resize(want);
        }
        let capacity = self.block.room();
        let new_start = if in_front { capacity - total } else { 0 };
        self.block.bytes_mut().copy_within(start..start + total, new_start);
        self.block.set_start(new_start);
    }

    /// Bytes that can be pushed before the block grows or its content moves: `(in front, behind)`.
    #[inline]
    pub fn room(&self) -> (usize, usize) {
        let head = self.head();
        (head.start, head.behind)
    }

    // Reading.

    /// The value at `at`.
    #[inline]
    pub fn get(&self, at: usize) -> Option<Element<'_>> {
        if at < HEADER {
            return None;
        }
        entry::decode(self.bytes(), at).map(|(element, _)| element)
    }

    /// The value at position `index` (negative: from the end).
    pub fn get_index(&self, index: i64) -> Option<Element<'_>> {
        self.get(self.seek(index)?)
    }

    /// Place of the first entry.
    #[inline]
    pub fn first(&self) -> Option<usize> {
        (!self.is_empty()).then_some(HEADER)
    }

    /// Place of the last entry.
    #[inline]
    pub fn last(&self) -> Option<usize> {
        self.prev(self.end())
    }

    /// Place of the entry after the one at `at`.
    #[inline]
    pub fn next(&self, at: usize) -> Option<usize> {
        let next = at + self.entry_len(at)?;
        (next < self.end()).then_some(next)
    }

    /// Place of the entry before `at`, which may be [`Listpack::end`].
    #[inline]
    pub fn prev(&self, at: usize) -> Option<usize> {
        if at <= HEADER {
            return None;
        }
        let (content, taken) = entry::read_back_len(self.bytes(), at)?;
        at.checked_sub(content)?.checked_sub(taken).filter(|&place| place >= HEADER)
    }

    /// Place of the entry at position `index` (negative: from the end). Walks from the nearer end.
    pub fn seek(&self, index: i64) -> Option<usize> {
        let known = self.header_count();
        let mut index = index;
        if known != COUNT_UNKNOWN {
            let count = i64::from(known);
            if index >= count || index < -count {
                return None;
            }
            let from_front = if index < 0 { index + count } else { index };
            index = if from_front > count / 2 { from_front - count } else { from_front };
        }
        if index >= 0 {
            let mut at = self.first()?;
            for _ in 0..index {
                at = self.next(at)?;
            }
            Some(at)
        } else {
            let mut at = self.last()?;
            for _ in 1..index.unsigned_abs() {
                at = self.prev(at)?;
            }
            Some(at)
        }
    }

    /// Place of the first entry from `from` on that holds `text`. `skip`: number of entries to
    /// skip after each compared entry (1 finds the fields in a list of field and value pairs).
    #[inline]
    pub fn find(&self, text: &[u8], from: usize, skip: usize) -> Option<usize> {
        let wanted = Encoded::new(text)?;
        let bytes = self.bytes();
        let (first_wanted, last_wanted, content_wanted) =
            (wanted.first_byte(), wanted.last_bytes(), wanted.content_len());
        let mut at = from.max(HEADER);
        let mut skipping = 0;
        // Equal values have equal bytes, so one byte comparison serves strings and numbers.
        loop {
            let first = *bytes.get(at)?;
            if skipping == 0 {
                if first == first_wanted {
                    let entry = bytes.get(at..)?;
                    // Texts of the same length often begin alike: compare their ends first,
                    // without a call.
                    let maybe = match last_wanted {
                        Some(last) => entry.get(content_wanted - 8..content_wanted) == Some(&last),
                        None => true,
                    };
                    if maybe && wanted.matches(entry) {
                        return Some(at);
                    }
                }
                skipping = skip;
            } else {
                skipping -= 1;
            }
            at += match first {
                0..=0x7F => 2,
                // At most 64 bytes of content, so one byte of back length.
                0x80..=0xBF => 2 + usize::from(first & 0x3F),
                _ => entry::entry_size(bytes, at)?,
            };
        }
    }

    /// The values in order; a double-ended iterator.
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        Iter::new(self.bytes(), HEADER, self.end())
    }

    /// The values from the place `at` on.
    pub fn iter_from(&self, at: usize) -> Iter<'_> {
        Iter::new(self.bytes(), at.max(HEADER), self.end())
    }

    /// The values before the place `at` (taken from the back: nearest first).
    pub fn iter_until(&self, at: usize) -> Iter<'_> {
        Iter::new(self.bytes(), HEADER, at.clamp(HEADER, self.end().max(HEADER)))
    }

    /// Places and values in order.
    pub fn entries(&self) -> Entries<'_> {
        Entries(self.iter())
    }

    /// True if two entries are equal, considering only every `skip + 1`th entry.
    pub fn has_doubles(&self, skip: usize) -> bool {
        // Equal values are equal elements, since each value has only one encoding.
        let mut values: SmallVec<[Element<'_>; 64]> = self.iter().step_by(skip + 1).collect();
        values.sort_unstable();
        values.windows(2).any(|pair| pair[0] == pair[1])
    }

    /// The field and value pairs of a list in which they alternate.
    pub fn pairs(&self) -> impl Iterator<Item = (Element<'_>, Element<'_>)> {
        let mut values = self.iter();
        std::iter::from_fn(move || Some((values.next()?, values.next()?)))
    }
}

impl<'a> IntoIterator for &'a Listpack {
    type Item = Element<'a>;
    type IntoIter = Iter<'a>;
    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

#[cfg(test)]
mod tests;
