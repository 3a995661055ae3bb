// SPDX-License-Identifier: BSD-3-Clause
//! A hash: fields and values in one packed list while few and short, otherwise in a table.
//!
//! The thresholds are Redis's, since `OBJECT ENCODING` shows the form; a hash never returns to the
//! packed form by itself.
//!
//! A field may carry an expiry time in ms and is expired when `now > time`. Setting one turns the
//! hash into a table (as in Valkey 9; a packed list cannot store it), where fields without a time
//! have no overhead. Reads hide expired fields; [`Hash::len`] counts them until
//! [`Hash::remove_expired`] removes them, like HLEN in Redis and Valkey; setting an expired field
//! creates it anew.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::relocation::Mover;
pub use braid_containers::limits::HashLimits;
use braid_containers::listpack::{self, Element, LARGE_PACKED, Listpack};
use braid_containers::member_table::{self, Member, Table};
use braid_containers::tagged::{Form, PackedOr};

pub use braid_containers::member_table::Expiry;

/// Fields and their values, one pointer wide.
#[derive(Clone)]
#[repr(transparent)]
pub struct Hash(PackedOr<Table<true>>);

impl Default for Hash {
    fn default() -> Self {
        Hash::new()
    }
}

/// See [`ever_expires`].
static EVER_EXPIRES: AtomicBool = AtomicBool::new(false);

/// True once any field of any hash in this process has been given an expiry time. A save checks
/// this before examining each hash.
pub fn ever_expires() -> bool {
    EVER_EXPIRES.load(Relaxed)
}

#[cold]
fn note_expiry() {
    if !ever_expires() {
        EVER_EXPIRES.store(true, Relaxed);
    }
}

#[inline]
fn live(member: Member<'_>, now_ms: i64) -> Option<Member<'_>> {
    (!member.is_expired(now_ms)).then_some(member)
}

impl Hash {
    /// An empty hash in the packed form.
    pub fn new() -> Hash {
        Hash(PackedOr::packed(Listpack::new()))
    }

    /// A hash loaded as a packed list of fields and values; `None` if a field has no value or is
    /// repeated. Becomes a table if there are more fields than the limits allow (as in Redis,
    /// their lengths do not matter here).
    pub fn from_listpack(list: Listpack, limits: &HashLimits) -> Option<Hash> {
        let entries = list.len();
        if !entries.is_multiple_of(2) || list.has_doubles(1) {
            return None;
        }
        let mut hash = Hash(PackedOr::packed(list));
        if entries / 2 > limits.max_listpack_entries {
            hash.make_table();
        }
        Some(hash)
    }

    /// Moves blocks to better places; see
    /// [`Collection::relocate_blocks`](braid_keyspace::object::Collection::relocate_blocks).
    pub fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        if from == 0 {
            self.0.relocate_box(mover);
        }
        match self.0.get_mut() {
            Form::Packed(list) => {
                list.relocate(mover);
                None
            }
            Form::Table(table) => table.relocate(from, mover),
        }
    }

    /// The form's name in `OBJECT ENCODING`.
    pub fn encoding(&self) -> &'static str {
        match self.0.get() {
            Form::Packed(_) => "listpack",
            Form::Table(_) => "hashtable",
        }
    }

    /// The packed list, if the hash has that form (for RDB).
    pub fn as_listpack(&self) -> Option<&Listpack> {
        if let Form::Packed(list) = self.0.get() { Some(list) } else { None }
    }

    /// Number of fields, including expired ones until they are removed.
    #[inline]
    pub fn len(&self) -> usize {
        match self.0.get() {
            Form::Packed(list) => list.len() / 2,
            Form::Table(table) => table.len(),
        }
    }

    /// True if there is no field, not even an expired one.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of unexpired fields; takes time proportional to the number of expired ones.
    pub fn live_len(&self, now_ms: i64) -> usize {
        match self.0.get() {
            Form::Packed(_) => self.len(),
            Form::Table(table) => table.len() - table.expired_len(now_ms),
        }
    }

    /// Number of fields in each segment of the table form.
    pub fn segment_lens(&self) -> Option<Vec<usize>> {
        if let Form::Table(table) = self.0.get() { Some(table.segment_lens()) } else { None }
    }

    /// Bytes allocated for the hash, without this struct itself.
    pub fn memory_bytes(&self) -> usize {
        match self.0.get() {
            Form::Packed(list) => list.memory_bytes(),
            Form::Table(table) => size_of::<Table<true>>() + table.memory_bytes(),
        }
    }

    /// True if writing the whole hash takes long: then it should be [shared](Hash::cow).
    pub fn is_large(&self) -> bool {
        match self.0.get() {
            Form::Packed(list) => list.byte_len() > LARGE_PACKED,
            Form::Table(table) => table.is_large(),
        }
    }

    /// A read-only copy that shares memory (see [`cow`](braid_containers::cow)); a packed list is
    /// copied.
    pub fn cow(&self) -> Hash {
        match self.0.get() {
            Form::Packed(_) => self.clone(),
            Form::Table(table) => Hash(PackedOr::table(Box::new(table.cow()))),
        }
    }

    /// The value of a field.
    #[inline]
    pub fn get(&self, field: &[u8], now_ms: i64) -> Option<Element<'_>> {
        match self.0.get() {
            Form::Packed(list) => {
                let at = list.find(field, 0, 1)?;
                list.get(list.next(at)?)
            }
            Form::Table(table) => table
                .get(field)
                .and_then(|member| live(member, now_ms))
                .map(|member| Element::Bytes(member.value)),
        }
    }

    /// True if the field exists and has not expired.
    #[inline]
    pub fn contains(&self, field: &[u8], now_ms: i64) -> bool {
        match self.0.get() {
            Form::Packed(list) => list.find(field, 0, 1).is_some(),
            Form::Table(table) => table.get(field).is_some_and(|member| !member.is_expired(now_ms)),
        }
    }

    /// Sets a field. True if it is new or had expired (it then has the given expiry, if any).
    #[inline]
    pub fn set(
        &mut self,
        field: &[u8],
        value: &[u8],
        expiry: Expiry,
        now_ms: i64,
        limits: &HashLimits,
    ) -> bool {
        if let Form::Packed(list) = self.0.get_mut() {
            let fits = field.len() <= limits.max_listpack_value
                && value.len() <= limits.max_listpack_value
                && !matches!(expiry, Expiry::At(_))
                && list.safe_to_add(field.len().saturating_add(value.len()).saturating_add(32));
            if fits {
                if let Some(at) = list.find(field, 0, 1) {
                    if let Some(value_at) = list.next(at) {
                        list.replace(value_at, value);
                    }
                    return false;
                }
                list.push_back_pair(field, value);
                if list.len() / 2 > limits.max_listpack_entries {
                    self.make_table();
                }
                return true;
            }
        }
        if matches!(expiry, Expiry::At(_)) {
            note_expiry();
        }
        let table = self.make_table();
        // Only a table with expiring fields needs a lookup before the set.
        if table.expiring_len() > 0 && table.get(field).is_some_and(|member| member.is_expired(now_ms)) {
            let expiry = if expiry == Expiry::Keep { Expiry::Clear } else { expiry };
            table.set(field, value, expiry);
            return true;
        }
        table.set(field, value, expiry)
    }

    /// Prepares for a command's arguments: becomes a table now if one of them is too long for the
    /// packed form (Redis converts before it executes, even if the command then changes nothing).
    pub fn expect<'a>(&mut self, texts: impl IntoIterator<Item = &'a [u8]>, limits: &HashLimits) {
        if matches!(self.0.get(), Form::Packed(_))
            && texts.into_iter().any(|text| text.len() > limits.max_listpack_value)
        {
            self.make_table();
        }
    }

    fn make_table(&mut self) -> &mut Table<true> {
        if let Form::Packed(list) = self.0.get() {
            let mut table = Box::<Table<true>>::default();
            let (mut field_text, mut value_text) = (itoa::Buffer::new(), itoa::Buffer::new());
            for (field, value) in list.pairs() {
                table.set(field.text(&mut field_text), value.text(&mut value_text), Expiry::Keep);
            }
            self.0 = PackedOr::table(table);
        }
        match self.0.get_mut() {
            Form::Table(table) => table,
            Form::Packed(_) => unreachable!("just made"),
        }
    }

    /// Removes a field. False if it was missing or expired (either way it is gone).
    #[inline]
    pub fn remove(&mut self, field: &[u8], now_ms: i64) -> bool {
        match self.0.get_mut() {
            Form::Packed(list) => list.find(field, 0, 1).is_some_and(|at| list.remove_run(at, 2) == 2),
            Form::Table(table) => table.remove_with(field, |old| !old.is_expired(now_ms)).unwrap_or(false),
        }
    }

    /// Iterates over the unexpired fields and values.
    #[inline]
    pub fn iter(&self, now_ms: i64) -> Iter<'_> {
        match self.0.get() {
            Form::Packed(list) => Iter(Walk::Packed(list.iter())),
            Form::Table(table) => Iter(Walk::Table(table.iter(), now_ms)),
        }
    }

    /// Continues a scan (0 starts one) and returns the next cursor (0: done). The packed form is
    /// visited as a whole. See [`Table::scan`].
    pub fn scan(
        &self,
        cursor: u64,
        count: usize,
        now_ms: i64,
        mut see: impl FnMut(Element<'_>, Element<'_>),
    ) -> u64 {
        if let Form::Table(table) = self.0.get() {
            return table.scan(cursor, count, |member| {
                if !member.is_expired(now_ms) {
                    see(Element::Bytes(member.key), Element::Bytes(member.value));
                }
            });
        }
        self.iter(now_ms).for_each(|(field, value)| see(field, value));
        0
    }

    /// An unexpired field and its value, chosen uniformly at random.
    pub fn random(&self, now_ms: i64, random: &mut fastrand::Rng) -> Option<(Element<'_>, Element<'_>)> {
        match self.0.get() {
            Form::Packed(list) => {
                let at = list.seek(2 * random.usize(..(list.len() / 2).max(1)) as i64)?;
                Some((list.get(at)?, list.get(list.next(at)?)?))
            }
            Form::Table(table) => member_table::random_live(table, now_ms, random)
                .map(|member| (Element::Bytes(member.key), Element::Bytes(member.value))),
        }
    }

    /// Passes `count` distinct fields (all if there are fewer) with their values to `see`; every
    /// selection is equally likely, the order is not random. Remove expired fields first.
    pub fn sample(
        &self,
        count: usize,
        random: &mut fastrand::Rng,
        mut see: impl FnMut(Element<'_>, Element<'_>),
    ) {
        if let Form::Table(table) = self.0.get() {
            return table.sample(count, random, |member| {
                see(Element::Bytes(member.key), Element::Bytes(member.value))
            });
        }
        let (mut left, mut wanted) = (self.len(), count.min(self.len()));
        for (field, value) in self.iter(i64::MIN) {
            if random.usize(..left.max(1)) < wanted {
                see(field, value);
                wanted -= 1;
            }
            left = left.saturating_sub(1);
        }
    }

    // Expiry.

    /// Sets or clears a field's expiry time; returns the old one, or `None` if the field is
    /// missing.
    pub fn set_expiry(&mut self, field: &[u8], expire_at: Option<i64>, now_ms: i64) -> Option<Option<i64>> {
        if !self.contains(field, now_ms) {
            return None;
        }
        if expire_at.is_none() && matches!(self.0.get(), Form::Packed(_)) {
            return Some(None);
        }
        if expire_at.is_some() {
            note_expiry();
        }
        self.make_table().set_expiry(field, expire_at)
    }

    /// A field's expiry time; outer `None` if there is no such field.
    pub fn expiry(&self, field: &[u8], now_ms: i64) -> Option<Option<i64>> {
        match self.0.get() {
            Form::Packed(list) => list.find(field, 0, 1).map(|_| None),
            Form::Table(table) => {
                table.get(field).and_then(|member| live(member, now_ms)).map(|member| member.expire_at)
            }
        }
    }

    /// The earliest expiry time of any field.
    #[inline]
    pub fn next_expiry(&self) -> Option<i64> {
        if let Form::Table(table) = self.0.get() { table.next_expiry() } else { None }
    }

    /// Number of fields with an expiry time.
    pub fn expiring_len(&self) -> usize {
        if let Form::Table(table) = self.0.get() { table.expiring_len() } else { 0 }
    }

    /// Removes up to `max` expired fields, earliest first, each after passing it to `see`; returns
    /// their number.
    pub fn remove_expired(&mut self, now_ms: i64, max: usize, mut see: impl FnMut(&[u8])) -> usize {
        match self.0.get_mut() {
            Form::Packed(_) => 0,
            Form::Table(table) => table.remove_expired(now_ms, max, |member| see(member.key)),
        }
    }

    /// Fields, values and times, including expired ones (for saving and copying).
    pub fn iter_with_expiry(&self) -> impl Iterator<Item = (Element<'_>, Element<'_>, Option<i64>)> {
        let (packed, table) = match self.0.get() {
            Form::Packed(list) => (Some(list.pairs()), None),
            Form::Table(table) => (None, Some(table.iter())),
        };
        let members = table.into_iter().flatten();
        packed.into_iter().flatten().map(|(field, value)| (field, value, None)).chain(
            members
                .map(|member| (Element::Bytes(member.key), Element::Bytes(member.value), member.expire_at)),
        )
    }
}

/// The unexpired fields and values of a hash.
#[derive(Clone)]
pub struct Iter<'a>(Walk<'a>);

#[derive(Clone)]
enum Walk<'a> {
    Packed(listpack::Iter<'a>),
    Table(member_table::Iter<'a, true>, i64),
}

impl<'a> Iterator for Iter<'a> {
    type Item = (Element<'a>, Element<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Walk::Packed(list) => Some((list.next()?, list.next()?)),
            Walk::Table(members, now_ms) => members
                .find(|member| !member.is_expired(*now_ms))
                .map(|member| (Element::Bytes(member.key), Element::Bytes(member.value))),
        }
    }
}

#[cfg(test)]
mod tests;
