// SPDX-License-Identifier: BSD-3-Clause
//! The entries of a stream: blocks in id order, and the counters that Redis keeps.
//!
//! The last block is separate, the others are in a map by their first id, so an append touches
//! only one block, and the map only about once per hundred entries. Blocks other than the last
//! have no spare memory. A clone shares them until either side changes them.
//!
//! Invariants: ids ascend through all blocks; there is a last block unless there are no blocks;
//! `len` is the sum of the blocks' live entries; every block passes `block::validate`, and has a
//! live entry: servers since 2026 refuse to load one without.

use std::ops::Bound;

use super::block::{self, Fields, Found, Header};
use super::id::StreamId;
use braid_base::alloc::size_class;
use braid_base::relocation::Mover;
use braid_containers::cow::{CowBox, note_copy};
use braid_containers::cow_map::{self, CowMap};
pub use braid_containers::limits::BlockLimits;
use braid_containers::listpack::{Listpack, MAX_BYTES};

/// Blocks per leaf: as many as fit in 1024 bytes.
const LEAF: usize = 42;

/// Reasons why an entry was not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendError {
    /// The entry's id is not greater than the last one.
    IdNotGreater,
    /// The entry is too large for a block.
    TooLarge,
}

/// An untrusted block that is invalid or does not follow the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidBlock;

/// The entries that [`Log::trim`] keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trim {
    /// This many entries.
    MaxLen(u64),
    /// Entries with this id or a greater one.
    MinId(StreamId),
}

/// A stream's entries; see the module.
#[derive(Clone, Default)]
pub struct Log {
    sealed: CowMap<StreamId, CowBox<Listpack>, LEAF>,
    tail: Option<(StreamId, Listpack)>,
    len: u64,
    last_id: StreamId,
    first_id: StreamId,
    max_deleted_id: StreamId,
    entries_added: u64,
}

/// An entry.
pub struct LogEntry<'a> {
    /// The entry's id.
    pub id: StreamId,
    /// The entry's fields and values.
    pub fields: Fields<'a>,
}

impl Log {
    /// Number of entries.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if there are no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The greatest id ever used, `0-0` in a new stream.
    #[inline]
    pub fn last_id(&self) -> StreamId {
        self.last_id
    }

    /// The id of the first entry, `0-0` if there is none.
    #[inline]
    pub fn first_id(&self) -> StreamId {
        self.first_id
    }

    /// The greatest id of an entry that was deleted rather than trimmed, `0-0` if there was none.
    #[inline]
    pub fn max_deleted_id(&self) -> StreamId {
        self.max_deleted_id
    }

    /// Number of entries ever added.
    #[inline]
    pub fn entries_added(&self) -> u64 {
        self.entries_added
    }

    /// Sets the greatest id ever used (XSETID, loading).
    pub fn set_last_id(&mut self, id: StreamId) {
        self.last_id = id;
    }

    /// Sets the number of entries ever added (XSETID, loading).
    pub fn set_entries_added(&mut self, count: u64) {
        self.entries_added = count;
    }

    /// Sets the greatest id of a deleted entry (XSETID, loading).
    pub fn set_max_deleted_id(&mut self, id: StreamId) {
        self.max_deleted_id = id;
    }

    /// Appends an entry with the given id (see [`StreamId::for_entry`]).
    ///
    /// # Errors
    /// If the ID is not greater than the last one, or the entry is too large.
    pub fn append(
        &mut self,
        id: StreamId,
        pairs: &[(&[u8], &[u8])],
        limits: &BlockLimits,
    ) -> Result<(), AppendError> {
        if id <= self.last_id {
            return Err(AppendError::IdNotGreater);
        }
        let texts = pairs.iter().fold(0, |sum: usize, (field, value)| {
            sum.saturating_add(field.len()).saturating_add(value.len())
        });
        // Only large or numerous texts need the exact bound of their size.
        if texts.saturating_add(pairs.len().saturating_mul(64)) > MAX_BYTES / 4
            && block::bytes_max(pairs) > MAX_BYTES
        {
            return Err(AppendError::TooLarge);
        }
        if self.tail.as_ref().is_some_and(|(_, list)| is_full(list, texts, pairs, limits)) {
            self.seal();
        }
        match &mut self.tail {
            Some((first, list)) => block::append(list, *first, id, pairs),
            tail @ None => *tail = Some((id, block::create(id, pairs))),
        }
        self.len += 1;
        self.entries_added = self.entries_added.saturating_add(1);
        self.last_id = id;
        if self.len == 1 {
            self.first_id = id;
        }
        Ok(())
    }

    /// Inserts an entry whose id may be below the last one. The whole block is rewritten.
    ///
    /// # Errors
    /// If the log has an entry with this ID, or the entry is too large.
    pub fn insert(
        &mut self,
        id: StreamId,
        pairs: &[(&[u8], &[u8])],
        limits: &BlockLimits,
    ) -> Result<(), AppendError> {
        if id > self.last_id {
            return self.append(id, pairs, limits);
        }
        if self.contains(id) {
            return Err(AppendError::IdNotGreater);
        }
        if block::bytes_max(pairs) > MAX_BYTES {
            return Err(AppendError::TooLarge);
        }
        match self.blocks_from(id).next().map(|(first, list)| (first, is_full(list, 0, pairs, limits))) {
            Some((first, is_full)) => self.insert_into(first, is_full, id, pairs),
            None => self.tail = Some((id, block::create(id, pairs))),
        }
        self.len += 1;
        self.entries_added = self.entries_added.saturating_add(1);
        if self.len == 1 || id < self.first_id {
            self.first_id = id;
        }
        Ok(())
    }

    /// Rewrites a block with one more entry, as two blocks if it was full.
    fn insert_into(&mut self, first: StreamId, was_full: bool, id: StreamId, pairs: &[(&[u8], &[u8])]) {
        let is_tail = self.tail.as_ref().is_some_and(|(tail, _)| *tail == first);
        let one = match is_tail {
            true => self.tail.take().map(|(_, list)| list),
            false => self.sealed.remove(&first).map(CowBox::into_value),
        };
        let Some(list) = one else { return };
        let mut blocks: Vec<(StreamId, Listpack)> = Vec::new();
        let half = Header::live(&list).div_ceil(2);
        let mut count = 0;
        let mut push = |id, pairs: &[(&[u8], &[u8])]| {
            let is_second_half = was_full && count == half;
            count += 1;
            match blocks.last_mut() {
                Some((first, list)) if !is_second_half && list.safe_to_add(block::bytes_max(pairs)) => {
                    block::append(list, *first, id, pairs);
                }
                _ => blocks.push((id, block::create(id, pairs))),
            }
        };
        let mut new = Some((id, pairs));
        for found in block::live_entries(&list, first) {
            if let Some((id, pairs)) = new.take_if(|(id, _)| *id < found.id) {
                push(id, pairs);
            }
            let texts: Vec<(Vec<u8>, Vec<u8>)> =
                found.fields.map(|(field, value)| (field.to_vec(), value.to_vec())).collect();
            let pairs: Vec<_> = texts.iter().map(|(field, value)| (&field[..], &value[..])).collect();
            push(found.id, &pairs);
        }
        if let Some((id, pairs)) = new {
            push(id, pairs);
        }
        if is_tail {
            self.tail = blocks.pop();
        }
        for (first, mut list) in blocks {
            list.shrink();
            self.sealed.insert(first, CowBox::new(list));
        }
    }

    fn seal(&mut self) {
        if let Some((first, mut list)) = self.tail.take() {
            list.shrink();
            self.sealed.insert(first, CowBox::new(list));
        }
    }

    /// Deletes an entry; false if no entry has this id.
    pub fn delete(&mut self, id: StreamId) -> bool {
        let deleted = self.remove(id);
        if deleted {
            self.max_deleted_id = self.max_deleted_id.max(id);
        }
        deleted
    }

    /// Removes an entry that every group has read, as a trim does: unlike after a deletion, what
    /// the groups have counted stays valid. False if no entry has this id.
    pub(super) fn remove(&mut self, id: StreamId) -> bool {
        let Some((first, at)) = self.find(id).map(|(first, found)| (first, found.at)) else { return false };
        let Some(list) = self.block_mut(first) else { return false };
        if Header::live(list) <= 1 {
            self.remove_block(first);
        } else {
            block::mark_deleted(list, at);
            block::change_counts(list, -1, 1);
        }
        self.len -= 1;
        if self.len == 0 || id == self.first_id {
            self.find_first_id();
        }
        true
    }

    /// Removes entries from the front; returns their number. With `whole_blocks` (the commands'
    /// `~`) only whole blocks are removed; `limit` stops before a block that would exceed that
    /// number (0 means no limit).
    pub fn trim(&mut self, keep: Trim, whole_blocks: bool, limit: u64) -> u64 {
        self.trim_into(keep, whole_blocks, limit, None)
    }

    /// As [`Log::trim`]; adds the ids of the removed entries to `ids`.
    pub fn trim_into(
        &mut self,
        keep: Trim,
        whole_blocks: bool,
        limit: u64,
        mut ids: Option<&mut Vec<StreamId>>,
    ) -> u64 {
        let mut removed = 0;
        while let Some((first, list)) = self.blocks().next() {
            if matches!(keep, Trim::MaxLen(most) if self.len <= most) {
                break;
            }
            let Some(header) = Header::read(list) else { break };
            if limit > 0 && removed + header.live > limit {
                break;
            }
            let whole = match keep {
                Trim::MaxLen(most) => self.len.saturating_sub(header.live) >= most,
                Trim::MinId(id) => block::last_id(list, first).is_none_or(|last| last < id),
            };
            if whole {
                if let Some(ids) = &mut ids {
                    ids.extend(block::live_entries(list, first).map(|entry| entry.id));
                }
                self.remove_block(first);
                self.len = self.len.saturating_sub(header.live);
                removed += header.live;
                continue;
            }
            if !whole_blocks {
                removed += self.trim_within(first, &header, keep, ids.take());
            }
            break;
        }
        if removed > 0 || self.len == 0 {
            self.find_first_id();
        }
        removed
    }

    /// Flags entries of one block as deleted, starting from its front. Removes the block if none
    /// is left: only entries that had been deleted before follow then.
    fn trim_within(
        &mut self,
        first: StreamId,
        header: &Header,
        keep: Trim,
        mut ids: Option<&mut Vec<StreamId>>,
    ) -> u64 {
        let mut len = self.len;
        let Some(list) = self.block_mut(first) else { return 0 };
        let (mut at, mut flagged) = (header.entries_at, 0);
        while at < list.end() {
            let Some(Found { id, deleted, end, .. }) = block::entry_at(list, first, header, at) else {
                break;
            };
            let enough = match keep {
                Trim::MaxLen(most) => len <= most,
                Trim::MinId(least) => id >= least,
            };
            if enough {
                break;
            }
            if !deleted {
                block::mark_deleted(list, at);
                if let Some(ids) = &mut ids {
                    ids.push(id);
                }
                flagged += 1;
                len = len.saturating_sub(1);
            }
            at = end;
        }
        block::change_counts(list, -(flagged as i64), flagged as i64);
        if flagged >= header.live {
            self.remove_block(first);
        }
        self.len = len;
        flagged
    }

    fn find_first_id(&mut self) {
        self.first_id =
            self.range(StreamId::MIN, StreamId::MAX).next().map_or(StreamId::MIN, |entry| entry.id);
    }

    fn block_mut(&mut self, first: StreamId) -> Option<&mut Listpack> {
        match &mut self.tail {
            Some((tail, list)) if *tail == first => Some(list),
            _ => self.sealed.get_mut(&first).map(|list| {
                if list.owners() > 1 {
                    note_copy(list.memory_bytes());
                }
                &mut **list
            }),
        }
    }

    fn remove_block(&mut self, first: StreamId) {
        if self.tail.as_ref().is_some_and(|(tail, _)| *tail == first) {
            self.tail = self.sealed.pop_last().map(|(first, list)| (first, list.into_value()));
        } else {
            self.sealed.remove(&first);
        }
    }

    // Reading.

    /// True if there is an entry with this id.
    pub fn contains(&self, id: StreamId) -> bool {
        self.find(id).is_some()
    }

    fn find(&self, id: StreamId) -> Option<(StreamId, Found<'_>)> {
        let mut range = self.range(id, id);
        let found = range.next_found()?;
        Some((range.current.as_ref()?.first, found))
    }

    /// The entry with this id.
    pub fn get(&self, id: StreamId) -> Option<LogEntry<'_>> {
        self.range(id, id).next()
    }

    /// The last live entry.
    pub fn last_entry(&self) -> Option<LogEntry<'_>> {
        self.range_back(StreamId::MIN, StreamId::MAX).next()
    }

    /// Entries from `start` to `end`, inclusive, in ascending order.
    pub fn range(&self, start: StreamId, end: StreamId) -> LogRange<'_> {
        LogRange { blocks: self.blocks_from(start), current: None, start, end, backward: false }
    }

    /// Entries from `start` to `end`, inclusive, in descending order.
    pub fn range_back(&self, start: StreamId, end: StreamId) -> LogRange<'_> {
        let tail = self.tail.as_ref().filter(|(first, _)| *first <= end);
        let blocks = Blocks {
            sealed: self.sealed.range(Bound::Unbounded, Bound::Included(end)),
            tail: tail.map(|(first, list)| (*first, list)),
        };
        LogRange { blocks, current: None, start, end, backward: true }
    }

    /// The blocks in order, each with its key (RDB, DUMP, DEBUG).
    pub fn blocks(&self) -> Blocks<'_> {
        Blocks { sealed: self.sealed.iter(), tail: self.tail.as_ref().map(|(first, list)| (*first, list)) }
    }

    /// Number of blocks (`radix-tree-keys` in XINFO).
    pub fn block_count(&self) -> usize {
        self.sealed.len() + usize::from(self.tail.is_some())
    }

    fn blocks_from(&self, start: StreamId) -> Blocks<'_> {
        let tail = self.tail.as_ref().map(|(first, list)| (*first, list));
        let from = |first| self.sealed.range(Bound::Included(first), Bound::Unbounded);
        let sealed = match tail {
            // All wanted entries are in the last block.
            Some((first, _)) if first <= start => from(first),
            _ if start == StreamId::MIN => self.sealed.iter(),
            _ => match self.sealed.range(Bound::Unbounded, Bound::Included(start)).next_back() {
                Some((first, _)) => from(*first),
                None => self.sealed.iter(),
            },
        };
        Blocks { sealed, tail }
    }

    // Untrusted input.

    /// Appends a block (loading). `bytes` is its packed list, untrusted. A block without live
    /// entries is left out: other servers write such blocks.
    ///
    /// # Errors
    /// If the block is damaged, or its IDs are not greater than those of the blocks before.
    pub fn push_block(&mut self, first: StreamId, bytes: &[u8]) -> Result<(), InvalidBlock> {
        let list = Listpack::from_bytes(bytes).ok_or(InvalidBlock)?;
        let last = block::validate(&list, first).ok_or(InvalidBlock)?;
        // While blocks are loaded, the last id is that of the previous block.
        if self.last_id != StreamId::MIN && self.last_id >= first {
            return Err(InvalidBlock);
        }
        let live = Header::live(&list);
        if live == 0 {
            self.last_id = last;
            return Ok(());
        }
        self.seal();
        self.tail = Some((first, list));
        if self.len == 0 {
            self.len = live;
            self.find_first_id();
        } else {
            self.len = self.len.checked_add(live).ok_or(InvalidBlock)?;
        }
        self.last_id = last;
        Ok(())
    }

    /// Bytes allocated, without this struct itself.
    pub fn memory_bytes(&self) -> usize {
        let lists: usize = self.blocks().map(|(_, list)| list.memory_bytes()).sum();
        let heads = self.sealed.len() * size_class(CowBox::<Listpack>::bytes());
        lists + self.sealed.memory_bytes() + heads
    }

    /// See `Collection::relocate_blocks`.
    pub(super) fn relocate(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        if let Some((_, list)) = self.tail.as_mut().filter(|_| from == 0) {
            list.relocate(mover);
        }
        self.sealed.relocate(from, mover, &mut |list, mover| {
            if let Some(list) = list.own_mut() {
                list.relocate(mover);
            }
            list.relocate(mover);
        })
    }
}

fn is_full(list: &Listpack, texts: usize, pairs: &[(&[u8], &[u8])], limits: &BlockLimits) -> bool {
    let most = if limits.bytes_max == 0 { MAX_BYTES } else { limits.bytes_max.min(MAX_BYTES) };
    if list.byte_len().saturating_add(texts) >= most {
        return true;
    }
    // Near the size limit of packed lists, the overhead of the texts counts, too.
    if list.byte_len() > MAX_BYTES / 2 && !list.safe_to_add(block::bytes_max(pairs)) {
        return true;
    }
    let mut counts = list.iter().map(|element| element.as_i64().unwrap_or(0).max(0) as u64);
    let entries = counts.next().unwrap_or(0).saturating_add(counts.next().unwrap_or(0));
    limits.entries_max > 0 && entries >= limits.entries_max as u64
}

/// Blocks in order, which can be taken from either end.
pub struct Blocks<'a> {
    sealed: cow_map::Range<'a, StreamId, CowBox<Listpack>, LEAF>,
    tail: Option<(StreamId, &'a Listpack)>,
}

impl<'a> Iterator for Blocks<'a> {
    type Item = (StreamId, &'a Listpack);

    fn next(&mut self) -> Option<Self::Item> {
        self.sealed.next().map(|(first, list)| (*first, &**list)).or_else(|| self.tail.take())
    }
}

impl DoubleEndedIterator for Blocks<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.tail.take().or_else(|| self.sealed.next_back().map(|(first, list)| (*first, &**list)))
    }
}

struct Cursor<'a> {
    first: StreamId,
    list: &'a Listpack,
    header: Header,
    /// Forwards the place of the next entry, backwards the place after it.
    at: usize,
}

/// Entries of a range of ids, in one direction.
pub struct LogRange<'a> {
    blocks: Blocks<'a>,
    current: Option<Cursor<'a>>,
    start: StreamId,
    end: StreamId,
    backward: bool,
}

impl<'a> LogRange<'a> {
    #[inline]
    fn next_found(&mut self) -> Option<Found<'a>> {
        if self.start > self.end {
            return None;
        }
        loop {
            let cursor = match &mut self.current {
                Some(cursor) => cursor,
                none => {
                    let block = if self.backward { self.blocks.next_back() } else { self.blocks.next() };
                    let (first, list) = block?;
                    let header = Header::read(list)?;
                    let at = if self.backward { list.end() } else { header.entries_at };
                    none.insert(Cursor { first, list, header, at })
                }
            };
            let at = if self.backward { entry_before(cursor) } else { Some(cursor.at) };
            let found = at.and_then(|at| block::entry_at(cursor.list, cursor.first, &cursor.header, at));
            let Some(found) = found else {
                self.current = None;
                continue;
            };
            cursor.at = if self.backward { found.at } else { found.end };
            let (too_early, too_late) = (found.id < self.start, found.id > self.end);
            if (self.backward && too_early) || (!self.backward && too_late) {
                // No more entries follow.
                (self.start, self.end) = (StreamId::MAX, StreamId::MIN);
                return None;
            }
            if !too_early && !too_late && !found.deleted {
                return Some(found);
            }
        }
    }
}

fn entry_before(cursor: &Cursor<'_>) -> Option<usize> {
    if cursor.at <= cursor.header.entries_at { None } else { block::entry_before(cursor.list, cursor.at) }
}

impl<'a> Iterator for LogRange<'a> {
    type Item = LogEntry<'a>;

    #[inline]
    fn next(&mut self) -> Option<LogEntry<'a>> {
        self.next_found().map(|found| LogEntry { id: found.id, fields: found.fields })
    }
}
