// SPDX-License-Identifier: BSD-3-Clause
//! A set of byte strings: integers sorted in one block, a packed list, or a table.
//!
//! The encoding follows Redis 7.2, because clients see it (`OBJECT ENCODING`): few members that
//! are all integers: `intset`; few and short: `listpack`; otherwise `hashtable`. A set changes its
//! encoding by itself only in that direction.
//!
//! A member may carry an expiry time in ms, like a hash field. Setting one turns the set into a
//! table, where members without a time have no overhead. A member is expired when `now > time`:
//! reads hide it, [`Set::len`] counts it until [`Set::remove_expired`] removes it, and adding it
//! again creates it anew.

mod combine;

pub use combine::{difference, intersection, union};

use braid_base::number::parse_i64;
use braid_base::relocation::Mover;

use braid_containers::int_set::{self, IntSet};
pub use braid_containers::limits::SetLimits;
use braid_containers::listpack::{self, Element, LARGE_PACKED, Listpack, decimal_len};
use braid_containers::member_table::{self, Expiry, Member, Table};

/// A set of byte strings.
#[derive(Clone)]
pub struct Set(Form);

#[derive(Clone)]
enum Form {
    Ints(IntSet),
    Packed(Listpack),
    Table(Box<Table<false>>),
}

impl Default for Set {
    fn default() -> Self {
        Set(Form::Ints(IntSet::new()))
    }
}

impl Set {
    /// Moves blocks to better places; see
    /// [`Collection::relocate_blocks`](braid_keyspace::object::Collection::relocate_blocks).
    pub fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        match &mut self.0 {
            Form::Ints(ints) => ints.relocate(mover),
            Form::Packed(list) => list.relocate(mover),
            Form::Table(table) => {
                if from == 0 {
                    mover.relocate_box(table);
                }
                return table.relocate(from, mover);
            }
        }
        None
    }

    /// An empty set in the form that suits its first member `first` and `expected` members in
    /// total.
    pub fn for_member(first: &[u8], expected: usize, limits: &SetLimits) -> Set {
        if expected <= limits.max_intset_entries && parse_i64(first).is_some() {
            Set(Form::Ints(IntSet::new()))
        } else if expected <= limits.max_listpack_entries {
            Set(Form::Packed(Listpack::new()))
        } else {
            Set(Form::Table(Box::default()))
        }
    }

    /// A set loaded as integers.
    pub fn from_ints(ints: IntSet, limits: &SetLimits) -> Set {
        let mut set = Set(Form::Ints(ints));
        if set.len() > limits.intset_entries() {
            set.make_table();
        }
        set
    }

    /// A set loaded as a packed list; `None` if a member is repeated. Becomes a table if there are
    /// more members than the limits allow (as in Redis, their lengths do not matter here).
    pub fn from_listpack(list: Listpack, limits: &SetLimits) -> Option<Set> {
        if list.has_doubles(0) {
            return None;
        }
        let count = list.len();
        let mut set = Set(Form::Packed(list));
        if count > limits.max_listpack_entries {
            set.make_table();
        }
        Some(set)
    }

    /// The form's name in `OBJECT ENCODING`.
    pub fn encoding(&self) -> &'static str {
        match &self.0 {
            Form::Ints(_) => "intset",
            Form::Packed(_) => "listpack",
            Form::Table(_) => "hashtable",
        }
    }

    /// The integers, if the set has that form (for RDB).
    pub fn as_ints(&self) -> Option<&IntSet> {
        if let Form::Ints(ints) = &self.0 { Some(ints) } else { None }
    }

    /// The packed list, if the set has that form (for RDB).
    pub fn as_listpack(&self) -> Option<&Listpack> {
        if let Form::Packed(list) = &self.0 { Some(list) } else { None }
    }

    /// True if writing the whole set takes long: then it should be [shared](Set::cow).
    pub fn is_large(&self) -> bool {
        match &self.0 {
            Form::Ints(ints) => ints.memory_bytes() > LARGE_PACKED,
            Form::Packed(list) => list.byte_len() > LARGE_PACKED,
            Form::Table(table) => table.is_large(),
        }
    }

    /// A read-only copy that shares memory (see [`cow`](braid_containers::cow)); a packed list is
    /// copied.
    pub fn cow(&self) -> Set {
        match &self.0 {
            Form::Table(table) => Set(Form::Table(Box::new(table.cow()))),
            Form::Ints(ints) => Set(Form::Ints(ints.cow())),
            Form::Packed(_) => self.clone(),
        }
    }

    /// Number of members, including expired ones until they are removed (SCARD, like HLEN for
    /// hashes).
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::Ints(ints) => ints.len(),
            Form::Packed(list) => list.len(),
            Form::Table(table) => table.len(),
        }
    }

    /// True if there is no member, not even an expired one.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of members in each segment of the table form.
    pub fn segment_lens(&self) -> Option<Vec<usize>> {
        if let Form::Table(table) = &self.0 { Some(table.segment_lens()) } else { None }
    }

    /// Bytes allocated for the set, without this struct itself.
    pub fn memory_bytes(&self) -> usize {
        match &self.0 {
            Form::Ints(ints) => ints.memory_bytes(),
            Form::Packed(list) => list.memory_bytes(),
            Form::Table(table) => size_of::<Table<false>>() + table.memory_bytes(),
        }
    }

    /// True if `member` is in the set and has not expired.
    #[inline]
    pub fn contains(&self, member: &[u8], now_ms: i64) -> bool {
        match &self.0 {
            Form::Ints(ints) => parse_i64(member).is_some_and(|number| ints.contains(number)),
            Form::Packed(list) => list.find(member, 0, 0).is_some(),
            Form::Table(table) if table.expiring_len() == 0 => table.contains(member),
            Form::Table(table) => table.get(member).is_some_and(|member| !member.is_expired(now_ms)),
        }
    }

    /// [`Set::contains`] for a member read from another set.
    #[inline]
    pub fn contains_element(&self, member: Element<'_>, now_ms: i64) -> bool {
        match (&self.0, member) {
            (Form::Ints(ints), Element::Int(number)) => ints.contains(number),
            _ => self.contains(member.text(&mut itoa::Buffer::new()), now_ms),
        }
    }

    /// Adds a member. False if it existed and had not expired.
    #[inline]
    pub fn add(&mut self, member: &[u8], now_ms: i64, limits: &SetLimits) -> bool {
        match &mut self.0 {
            Form::Table(table) => {
                if table.add(member) {
                    return true;
                }
                let expired =
                    table.expiring_len() > 0 && table.get(member).is_some_and(|old| old.is_expired(now_ms));
                if expired {
                    table.set_expiry(member, None);
                }
                expired
            }
            Form::Packed(list) => {
                if list.find(member, 0, 0).is_some() {
                    return false;
                }
                let fits = list.len() < limits.max_listpack_entries
                    && member.len() <= limits.max_listpack_value
                    && list.safe_to_add(member.len().saturating_add(16));
                if fits { list.push_back(member) } else { self.make_table().add(member) }
            }
            Form::Ints(ints) => match parse_i64(member) {
                Some(number) => {
                    let added = ints.add(number);
                    if added && ints.len() > limits.intset_entries() {
                        self.make_table();
                    }
                    added
                }
                None => self.leave_ints(member, limits),
            },
        }
    }

    /// Adds a member that is not an integer to a set of integers.
    #[cold]
    fn leave_ints(&mut self, member: &[u8], limits: &SetLimits) -> bool {
        let Form::Ints(ints) = &self.0 else { return false };
        let longest = ints.first().into_iter().chain(ints.last()).map(decimal_len).max().unwrap_or(0);
        let fits = ints.len() < limits.max_listpack_entries
            && longest.max(member.len()) <= limits.max_listpack_value
            && member.len() < listpack::MAX_BYTES / 2
            && ints.len() < listpack::MAX_BYTES / 32;
        if !fits {
            return self.make_table().add(member);
        }
        let mut list =
            Listpack::with_capacity(7 + ints.len() * (ints.width() + 2) + Listpack::entry_bytes(member));
        for number in ints.iter() {
            list.push_back_int(number);
        }
        list.push_back(member);
        list.shrink();
        self.0 = Form::Packed(list);
        true
    }

    /// Prepares for `more` members: becomes a table now if it would have to anyway.
    pub fn expect(&mut self, more: usize, limits: &SetLimits) {
        let wanted = more;
        let too_many = match &self.0 {
            Form::Ints(_) => wanted > limits.max_intset_entries,
            Form::Packed(_) => wanted > limits.max_listpack_entries,
            Form::Table(_) => false,
        };
        if too_many {
            self.make_table();
        }
    }

    fn make_table(&mut self) -> &mut Table<false> {
        if !matches!(self.0, Form::Table(_)) {
            let mut table = Box::<Table<false>>::default();
            let mut buffer = itoa::Buffer::new();
            for element in self.iter(i64::MIN) {
                table.add(element.text(&mut buffer));
            }
            self.0 = Form::Table(table);
        }
        match &mut self.0 {
            Form::Table(table) => table,
            _ => unreachable!("just made"),
        }
    }

    /// Returns to the integer form if all members are integers and the limit allows (for
    /// intersection results).
    pub fn try_make_ints(&mut self, limits: &SetLimits) {
        if matches!(self.0, Form::Ints(_))
            || self.len() > limits.intset_entries()
            || self.next_expiry().is_some()
        {
            return;
        }
        let mut ints = IntSet::new();
        for element in self.iter(i64::MIN) {
            let Some(number) = element.as_i64() else { return };
            ints.add(number);
        }
        self.0 = Form::Ints(ints);
    }

    /// Removes a member. False if it was missing or expired (either way it is gone).
    #[inline]
    pub fn remove(&mut self, member: &[u8], now_ms: i64) -> bool {
        match &mut self.0 {
            Form::Ints(ints) => parse_i64(member).is_some_and(|number| ints.remove(number)),
            Form::Packed(list) => list.find(member, 0, 0).is_some_and(|at| list.remove(at)),
            Form::Table(table) => table.remove_with(member, |old| !old.is_expired(now_ms)).unwrap_or(false),
        }
    }

    /// An unexpired member, chosen uniformly at random.
    pub fn random(&self, now_ms: i64, random: &mut fastrand::Rng) -> Option<Element<'_>> {
        match &self.0 {
            Form::Ints(ints) => ints.random(random).map(Element::Int),
            Form::Packed(list) => {
                let count = list.len();
                list.get_index(random.usize(..count.max(1)) as i64)
            }
            Form::Table(table) => {
                member_table::random_live(table, now_ms, random).map(|member| Element::Bytes(member.key))
            }
        }
    }

    /// Removes a member chosen uniformly at random, after passing it to `see`. Remove expired
    /// members first.
    pub fn pop_random<R>(
        &mut self,
        random: &mut fastrand::Rng,
        see: impl FnOnce(Element<'_>) -> R,
    ) -> Option<R> {
        match &mut self.0 {
            Form::Ints(ints) => {
                let index = random.usize(..ints.len().max(1));
                ints.remove_at(index).map(|number| see(Element::Int(number)))
            }
            Form::Packed(list) => {
                let at = list.seek(random.usize(..list.len().max(1)) as i64)?;
                let seen = list.get(at).map(see);
                list.remove(at);
                seen
            }
            Form::Table(table) => table.pop_random(random, |member| see(Element::Bytes(member.key))),
        }
    }

    /// Passes `count` distinct members (all if there are fewer) to `see`; every selection is
    /// equally likely, the order is not random. Remove expired members first.
    pub fn sample(&self, count: usize, random: &mut fastrand::Rng, mut see: impl FnMut(Element<'_>)) {
        if let Form::Table(table) = &self.0 {
            return table.sample(count, random, |member| see(Element::Bytes(member.key)));
        }
        let (mut left, mut wanted) = (self.len(), count.min(self.len()));
        for element in self.iter(i64::MIN) {
            if random.usize(..left.max(1)) < wanted {
                see(element);
                wanted -= 1;
            }
            left = left.saturating_sub(1);
        }
    }

    /// Iterates over the unexpired members.
    #[inline]
    pub fn iter(&self, now_ms: i64) -> Iter<'_> {
        match &self.0 {
            Form::Ints(ints) => Iter(Walk::Ints(ints.iter())),
            Form::Packed(list) => Iter(Walk::Packed(list.iter())),
            Form::Table(table) => Iter(Walk::Table(table.iter(), now_ms)),
        }
    }

    /// Continues a scan (0 starts one) and returns the next cursor (0: done). The small forms are
    /// visited as a whole. See [`Table::scan`].
    pub fn scan(&self, cursor: u64, count: usize, now_ms: i64, mut see: impl FnMut(Element<'_>)) -> u64 {
        if let Form::Table(table) = &self.0 {
            return table.scan(cursor, count, |member| {
                if !member.is_expired(now_ms) {
                    see(Element::Bytes(member.key));
                }
            });
        }
        self.iter(now_ms).for_each(see);
        0
    }

    // Expiry.

    /// Sets or clears a member's expiry time; returns the old one, or `None` if the member is
    /// missing.
    pub fn set_expiry(&mut self, member: &[u8], expire_at: Option<i64>, now_ms: i64) -> Option<Option<i64>> {
        if !self.contains(member, now_ms) {
            return None;
        }
        if expire_at.is_none() && !matches!(self.0, Form::Table(_)) {
            return Some(None);
        }
        self.make_table().set_expiry(member, expire_at)
    }

    /// A member's expiry time; outer `None` if there is no such member.
    pub fn expiry(&self, member: &[u8], now_ms: i64) -> Option<Option<i64>> {
        match &self.0 {
            Form::Table(table) => {
                table.get(member).filter(|member| !member.is_expired(now_ms)).map(|member| member.expire_at)
            }
            _ => self.contains(member, now_ms).then_some(None),
        }
    }

    /// The earliest expiry time of any member.
    #[inline]
    pub fn next_expiry(&self) -> Option<i64> {
        if let Form::Table(table) = &self.0 { table.next_expiry() } else { None }
    }

    /// Number of members with an expiry time.
    pub fn expiring_len(&self) -> usize {
        if let Form::Table(table) = &self.0 { table.expiring_len() } else { 0 }
    }

    /// Removes up to `max` expired members, earliest first, each after passing it to `see`; returns
    /// their number.
    pub fn remove_expired(&mut self, now_ms: i64, max: usize, mut see: impl FnMut(&[u8])) -> usize {
        match &mut self.0 {
            Form::Table(table) => table.remove_expired(now_ms, max, |member| see(member.key)),
            _ => 0,
        }
    }

    /// Adds a member together with its expiry time, as when loading.
    pub fn add_expiring(&mut self, member: &[u8], expire_at: i64) -> bool {
        self.make_table().set(member, &[], Expiry::At(expire_at))
    }

    /// Members with their times, including expired ones (for saving and copying).
    pub fn iter_with_expiry(&self) -> impl Iterator<Item = (Element<'_>, Option<i64>)> {
        let (plain, table) = match &self.0 {
            Form::Table(table) => (None, Some(table.iter())),
            _ => (Some(self.iter(i64::MIN)), None),
        };
        let members = table
            .into_iter()
            .flatten()
            .map(|member: Member<'_>| (Element::Bytes(member.key), member.expire_at));
        plain.into_iter().flatten().map(|element| (element, None)).chain(members)
    }
}

/// The unexpired members of a set.
#[derive(Clone)]
pub struct Iter<'a>(Walk<'a>);

#[derive(Clone)]
enum Walk<'a> {
    Ints(int_set::Iter<'a>),
    Packed(listpack::Iter<'a>),
    Table(member_table::Iter<'a, false>, i64),
}

impl<'a> Iterator for Iter<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        match &mut self.0 {
            Walk::Ints(ints) => ints.next().map(Element::Int),
            Walk::Packed(list) => list.next(),
            Walk::Table(members, now_ms) => {
                members.find(|member| !member.is_expired(*now_ms)).map(|member| Element::Bytes(member.key))
            }
        }
    }
}

#[cfg(test)]
mod tests;
