// SPDX-License-Identifier: BSD-3-Clause
//! One block of a stream: up to about a hundred entries in one packed list, in Redis's own format.
//!
//! ```text
//! block:  live, deleted, number of fields, field 1 ... field N, 0, then entries
//! entry with the block's fields:
//!         flags, ms - first.ms, seq - first.seq, value 1 ... value N, length
//! entry with other fields:
//!         flags, ms, seq, number of fields, field 1, value 1, ..., length
//! ```
//! `first` is the block's key (the id of the first entry ever put in it), `length` the number of
//! list elements of the previous entry, so that entries can be walked backwards; the 0 ends that
//! walk. Deleting an entry sets a flag and moves one from `live` to `deleted`.
//!
//! Readers here never panic, and end early on a list that is not a block; [`validate`]
//! distinguishes blocks from other lists.

use super::id::StreamId;
use braid_containers::listpack::{Element, Iter, Listpack};

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

/// The size up to which a growing block's memory is doubled: the content then fills a size class
/// of 4096.
const ROOM_MAX: usize = 4095;
/// Maximum overhead of one text in a list, in bytes: encoding byte, length, and back length.
const AROUND: usize = 10;

/// The header of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub live: u64,
    pub deleted: u64,
    /// Number of the block's own fields ...
    fields: usize,
    /// ... and the place of the first one.
    fields_at: usize,
    /// Place of the first entry, or the end of the list.
    pub entries_at: usize,
}

/// An entry in a block.
pub(super) struct Found<'a> {
    pub id: StreamId,
    pub deleted: bool,
    /// Place of its first element.
    pub at: usize,
    /// Place after its last element.
    pub end: usize,
    pub fields: Fields<'a>,
}

/// The fields of an entry with their values.
#[derive(Clone)]
pub struct Fields<'a> {
    /// The block's own fields, if the entry has exactly these.
    names: Option<Iter<'a>>,
    rest: Iter<'a>,
    left: usize,
}

impl<'a> Iterator for Fields<'a> {
    type Item = (Element<'a>, Element<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let name = match &mut self.names {
            Some(names) => names.next()?,
            None => self.rest.next()?,
        };
        Some((name, self.rest.next()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Fields<'_> {}

fn count(element: Option<Element<'_>>) -> Option<u64> {
    u64::try_from(element?.as_i64()?).ok()
}

impl Header {
    #[inline]
    pub fn read(list: &Listpack) -> Option<Header> {
        let mut elements = list.iter();
        let (live, deleted) = (count(elements.next())?, count(elements.next())?);
        let fields = usize::try_from(count(elements.next())?).ok()?;
        let fields_at = elements.place();
        for _ in 0..fields {
            elements.next()?;
        }
        elements.next()?;
        Some(Header { live, deleted, fields, fields_at, entries_at: elements.place() })
    }

    /// Number of live entries; reads only the first element.
    pub fn live(list: &Listpack) -> u64 {
        count(list.iter().next()).unwrap_or(0)
    }
}

/// Reads the entry at a place in a block with the key `first`.
#[inline]
pub(super) fn entry_at<'a>(
    list: &'a Listpack,
    first: StreamId,
    header: &Header,
    at: usize,
) -> Option<Found<'a>> {
    let mut elements = list.iter_from(at);
    let flags = elements.next()?.as_i64()?;
    let delta = (elements.next()?.as_i64()?, elements.next()?.as_i64()?);
    let same = flags & SAME_FIELDS != 0;
    let left = if same { header.fields } else { usize::try_from(count(elements.next())?).ok()? };
    let names = same.then(|| list.iter_from(header.fields_at));
    let fields = Fields { names, rest: elements.clone(), left };
    for _ in 0..if same { left } else { left.checked_mul(2)? } {
        elements.next()?;
    }
    elements.next()?;
    Some(Found { id: first.plus(delta), deleted: flags & DELETED != 0, at, end: elements.place(), fields })
}

/// The live entries of a block with the key `first`.
pub(super) fn live_entries(list: &Listpack, first: StreamId) -> impl Iterator<Item = Found<'_>> {
    let header = Header::read(list);
    let mut at = header.as_ref().map_or(list.end(), |header| header.entries_at);
    let all = std::iter::from_fn(move || {
        let found = entry_at(list, first, header.as_ref()?, at).filter(|_| at < list.end())?;
        at = found.end;
        Some(found)
    });
    all.filter(|found| !found.deleted)
}

/// The place of the entry that ends before `end`; `None` if there is none.
#[inline]
pub(super) fn entry_before(list: &Listpack, end: usize) -> Option<usize> {
    let mut at = list.prev(end)?;
    let length = count(list.get(at))?;
    for _ in 0..length {
        at = list.prev(at)?;
    }
    // The master entry ends with length 0.
    (length > 0).then_some(at)
}

/// The last entry's id, even if that entry is deleted.
pub(super) fn last_id(list: &Listpack, first: StreamId) -> Option<StreamId> {
    let header = Header::read(list)?;
    Some(entry_at(list, first, &header, entry_before(list, list.end())?)?.id)
}

/// Upper bound of the bytes that an entry takes in a block of its own.
pub(super) fn bytes_max(pairs: &[(&[u8], &[u8])]) -> usize {
    let texts = pairs.iter().map(|(field, value)| 2 * (field.len() + AROUND) + value.len() + AROUND);
    texts.fold(8 * (AROUND + 2), usize::saturating_add)
}

/// A new block with one entry, whose id is `first`.
pub(super) fn create(first: StreamId, pairs: &[(&[u8], &[u8])]) -> Listpack {
    let mut list = Listpack::with_capacity(bytes_max(pairs).min(ROOM_MAX));
    list.push_back_int(0);
    list.push_back_int(0);
    list.push_back_int(pairs.len() as i64);
    pairs.iter().for_each(|(field, _)| _ = list.push_back(field));
    list.push_back_int(0);
    append(&mut list, first, first, pairs);
    list
}

/// Appends an entry. The caller ensures that the list stays below the size limit of packed lists.
#[inline]
pub(super) fn append(list: &mut Listpack, first: StreamId, id: StreamId, pairs: &[(&[u8], &[u8])]) {
    let room = list.room().1;
    if room < 512 {
        let need = bytes_max(pairs);
        if room < need {
            let doubled = list.byte_len().min(ROOM_MAX.saturating_sub(list.byte_len()));
            list.reserve(need.max(doubled), false);
        }
    }
    let same = has_fields(list, pairs);
    let (ms, seq) = id.delta_from(first);
    list.push_back_int(if same { SAME_FIELDS } else { 0 });
    list.push_back_int(ms);
    list.push_back_int(seq);
    if same {
        for two in pairs.chunks(2) {
            match two {
                [(_, one), (_, other)] => _ = list.push_back_pair(one, other),
                one => one.iter().for_each(|(_, value)| _ = list.push_back(value)),
            }
        }
        list.push_back_int(pairs.len() as i64 + 3);
    } else {
        list.push_back_int(pairs.len() as i64);
        for (field, value) in pairs {
            list.push_back_pair(field, value);
        }
        list.push_back_int(2 * pairs.len() as i64 + 4);
    }
    change_counts(list, 1, 0);
}

/// True if the block's own fields are these, in this order.
#[inline]
fn has_fields(list: &Listpack, pairs: &[(&[u8], &[u8])]) -> bool {
    let mut elements = list.iter();
    let (_, _, fields) = (elements.next(), elements.next(), count(elements.next()));
    if fields != Some(pairs.len() as u64) {
        return false;
    }
    pairs.iter().all(|(field, _)| match elements.next() {
        Some(Element::Bytes(bytes)) => bytes == *field,
        Some(number) => number.is_text(field),
        None => false,
    })
}

/// Flags the entry at a place as deleted.
pub(super) fn mark_deleted(list: &mut Listpack, at: usize) {
    // Flags stay below 128, so the element keeps its size and later places stay valid.
    if let Some(flags) = list.get(at).and_then(|element| element.as_i64()) {
        list.replace_int(at, flags | DELETED);
    }
}

/// Adjusts the counts of live and deleted entries.
#[inline]
pub(super) fn change_counts(list: &mut Listpack, live: i64, deleted: i64) {
    let Some(live_at) = list.first() else { return };
    if let Some(now) = list.get(live_at).and_then(|element| element.as_i64()) {
        list.replace_int(live_at, now.saturating_add(live).max(0));
    }
    if deleted == 0 {
        return;
    }
    let Some(deleted_at) = list.next(live_at) else { return };
    if let Some(now) = list.get(deleted_at).and_then(|element| element.as_i64()) {
        list.replace_int(deleted_at, now.saturating_add(deleted).max(0));
    }
}

/// Validates a list as a block with the key `first`: numbers where required, entries that fill the
/// list with ascending ids, none before `first`, and matching counts. Returns the last entry's id.
pub(super) fn validate(list: &Listpack, first: StreamId) -> Option<StreamId> {
    let header = Header::read(list)?;
    if count(list.get(list.prev(header.entries_at)?)) != Some(0) {
        return None;
    }
    let (mut at, mut last) = (header.entries_at, None);
    let (mut live, mut deleted) = (0, 0);
    while at < list.end() {
        let entry = entry_at(list, first, &header, at)?;
        if entry.id < first
            || last.is_some_and(|last| entry.id <= last)
            || entry_before(list, entry.end) != Some(at)
        {
            return None;
        }
        *(if entry.deleted { &mut deleted } else { &mut live }) += 1;
        (at, last) = (entry.end, Some(entry.id));
    }
    if live != header.live || deleted != header.deleted {
        return None;
    }
    last
}
