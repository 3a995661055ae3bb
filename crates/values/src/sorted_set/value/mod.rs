// SPDX-License-Identifier: BSD-3-Clause
//! Sorted sets: members with scores, in order of score, then of member bytes.
//!
//! A small set is one packed list (`packed.rs`), a larger one a counted B+ tree over one block per
//! member plus a table of the members (`big.rs`, on top of `tree.rs`, `table.rs`, `member.rs`).
//! The conversion follows [`PackedLimits`].
//!
//! Changes are methods of [`SortedSet`]; reads go through [`SortedSet::view`], which takes the
//! time and hides expired members that are not yet removed. All order operations use ranks: a
//! range by score or by member is first turned into a range of ranks, which is then counted,
//! walked in either direction or removed.
//!
//! This module must not use clocks, locks or commands. Scores are never NaN.

mod big;
mod bounds;
mod combine;
mod member;
mod packed;
mod table;
mod tree;
mod view;

#[cfg(test)]
mod tests;

use std::ops::Range;

pub use bounds::{LexBound, LexRange, ScoreBound, ScoreRange};
pub use combine::{Aggregate, Input, MemberSource, difference, intersection, intersection_count, union};
pub use view::{Entries, EntriesBack, Entry, View};

use big::BigSet;
use braid_base::relocation::Mover;
pub use braid_containers::limits::PackedLimits;
use braid_containers::listpack::{Element, LARGE_PACKED, Listpack};
use packed::Packed;

/// The options of ZADD that decide whether a member changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddRule {
    /// Only add, never update (NX).
    pub only_new: bool,
    /// Only update, never add (XX).
    pub only_existing: bool,
    /// Update only to a greater score (GT).
    pub only_greater: bool,
    /// Update only to a smaller score (LT).
    pub only_less: bool,
    /// Add the given score to the current one (INCR).
    pub increment: bool,
}

/// The result of [`SortedSet::add`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Added {
    /// The member is new and has this score.
    Added(f64),
    /// The member existed and has this new score.
    Updated(f64),
    /// The member existed and keeps this score.
    Same(f64),
    /// The member existed, keeps this score, and no longer expires.
    Persisted(f64),
    /// The rule forbids the change.
    Refused,
    /// The score is NaN, or the sum would be; nothing changed.
    NotANumber,
}

/// A set with this many members is large ([`SortedSet::is_large`]).
const LARGE: usize = 2048;

enum Form {
    Packed(Packed),
    Big(Box<BigSet>),
}

/// A sorted set; see the module.
pub struct SortedSet {
    form: Form,
}

impl Default for SortedSet {
    fn default() -> SortedSet {
        SortedSet::new()
    }
}

/// The planned change to a member.
enum Plan {
    Insert(f64),
    Update(f64),
    Nothing(Added),
}

impl AddRule {
    fn plan(&self, present: Option<f64>, given: f64) -> Plan {
        if given.is_nan() {
            return Plan::Nothing(Added::NotANumber);
        }
        let Some(present) = present else {
            return if self.only_existing { Plan::Nothing(Added::Refused) } else { Plan::Insert(given) };
        };
        if self.only_new {
            return Plan::Nothing(Added::Refused);
        }
        let score = if self.increment { present + given } else { given };
        if score.is_nan() {
            Plan::Nothing(Added::NotANumber)
        } else if (self.only_less && score >= present) || (self.only_greater && score <= present) {
            Plan::Nothing(Added::Refused)
        } else if score == present {
            Plan::Nothing(Added::Same(score))
        } else {
            Plan::Update(score)
        }
    }
}

impl SortedSet {
    /// See `Collection::relocate_blocks`.
    pub fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        match &mut self.form {
            Form::Packed(packed) => {
                packed.relocate(mover);
                None
            }
            Form::Big(big) => {
                if from == 0 {
                    mover.relocate_box(big);
                }
                big.relocate_blocks(from, mover)
            }
        }
    }

    /// An empty set in packed form.
    pub fn new() -> SortedSet {
        SortedSet { form: Form::Packed(Packed::default()) }
    }

    /// An empty set in the form that suits `members` members, the longest of `value_bytes` bytes,
    /// as far as is known.
    pub fn with_hints(members: usize, value_bytes: usize, limits: &PackedLimits) -> SortedSet {
        if members <= limits.entries_max && value_bytes <= limits.value_bytes_max {
            return SortedSet::new();
        }
        SortedSet { form: Form::Big(Box::default()) }
    }

    /// A set from a packed list of member and score pairs (RDB, DUMP). `None` if the list is
    /// invalid: odd length, a score that is not a number, or a repeated member. Becomes a big set
    /// if there are more members than the limits allow (as in Redis, their lengths do not matter
    /// here).
    pub fn from_listpack(list: Listpack, limits: &PackedLimits) -> Option<SortedSet> {
        let mut set = SortedSet { form: Form::Packed(Packed::from_list(list)?) };
        if set.len() > limits.entries_max {
            set.make_big();
        }
        Some(set)
    }

    /// A set of members with scores in any order; a later pair overrides an earlier one, and NaN
    /// is skipped.
    pub fn from_pairs<'a>(
        pairs: impl IntoIterator<Item = (&'a [u8], f64)>,
        limits: &PackedLimits,
    ) -> SortedSet {
        let mut set = SortedSet::new();
        for (member, score) in pairs {
            set.add(member, score, AddRule::default(), limits);
        }
        set
    }

    /// The packed list, if the set has that form.
    pub fn as_listpack(&self) -> Option<&Listpack> {
        match &self.form {
            Form::Packed(packed) => Some(packed.list()),
            Form::Big(_) => None,
        }
    }

    /// True if reading the whole set takes long: then [`SortedSet::cow`] is better than a copy.
    pub fn is_large(&self) -> bool {
        match &self.form {
            Form::Packed(packed) => packed.list().byte_len() > LARGE_PACKED,
            Form::Big(big) => big.is_large(),
        }
    }

    /// All members, including expired ones, in descending order, each with its score and expiry,
    /// for saving.
    pub fn iter_back_with_expiry(&self) -> impl Iterator<Item = (Element<'_>, f64, Option<i64>)> {
        let (packed, big) = match &self.form {
            Form::Packed(packed) => (Some(packed), None),
            Form::Big(big) => (None, Some(big)),
        };
        let packed = packed.into_iter().flat_map(|packed| packed.pairs_back(packed.len().saturating_sub(1)));
        let big = big.into_iter().flat_map(|big| {
            let all = big.backward(big.len().saturating_sub(1), usize::MAX);
            all.map(|(score, member)| (Element::Bytes(member.bytes()), score, big.expiry_of(*member)))
        });
        packed.map(|(member, score)| (member, score, None)).chain(big)
    }

    /// A copy for ordered walks that shares memory (see [`cow`](braid_containers::cow)); a deep
    /// copy where sharing is not possible.
    pub fn cow(&mut self) -> SortedSet {
        if let Form::Big(big) = &mut self.form
            && let Some(shared) = big.cow()
        {
            return SortedSet { form: Form::Big(Box::new(shared)) };
        }
        self.clone()
    }

    /// False for a shared copy, which has no index by member.
    pub fn finds_by_name(&self) -> bool {
        match &self.form {
            Form::Packed(_) => true,
            Form::Big(big) => big.finds_by_name(),
        }
    }

    /// Number of members, including expired ones that are not yet removed.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Packed(packed) => packed.len(),
            Form::Big(big) => big.len(),
        }
    }

    /// True if the set has no members.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The form's name in `OBJECT ENCODING`.
    pub fn encoding(&self) -> &'static str {
        match &self.form {
            Form::Packed(_) => "listpack",
            Form::Big(_) => "skiplist",
        }
    }

    /// Number of members in each segment of the member table, in the big form.
    pub fn segment_lens(&self) -> Option<Vec<usize>> {
        if let Form::Big(big) = &self.form { Some(big.segment_lens()) } else { None }
    }

    /// Bytes allocated, without this struct itself.
    pub fn memory_bytes(&self) -> usize {
        match &self.form {
            Form::Packed(packed) => packed.memory_bytes(),
            Form::Big(big) => braid_base::alloc::size_class(size_of::<BigSet>()) + big.memory_bytes(),
        }
    }

    /// Reads the set as of `now`, in ms since the Unix epoch. Free while no member has expired;
    /// otherwise O(log n) for each expired member that is not yet removed, so remove those first
    /// where the set may be changed.
    #[inline]
    pub fn view(&self, now: i64) -> View<'_> {
        View::new(self, now)
    }

    // Changing.

    /// Adds a member or changes its score. Setting a score (not incrementing it) also clears the
    /// member's expiry, like HSET for a field. Remove expired members first: they count as present
    /// here.
    pub fn add(&mut self, member: &[u8], score: f64, rule: AddRule, limits: &PackedLimits) -> Added {
        if let Form::Packed(packed) = &mut self.form {
            match rule.plan(packed.score(member), score) {
                Plan::Nothing(added) => return added,
                Plan::Update(score) => {
                    packed.remove(member);
                    if packed.insert(member, score) {
                        return Added::Updated(score);
                    }
                }
                Plan::Insert(score) => {
                    let fits = packed.len() < limits.entries_max && member.len() <= limits.value_bytes_max;
                    if fits && packed.insert(member, score) {
                        return Added::Added(score);
                    }
                }
            }
        }
        let big = self.make_big();
        let (hash, handle) = big.find(member);
        let plan = rule.plan(handle.map(|handle| handle.score()), score);
        // A refusal leaves the member as it is.
        let persisted = match (&plan, handle) {
            (Plan::Nothing(Added::Refused | Added::NotANumber), _) | (_, None) => false,
            (_, Some(handle)) => !rule.increment && big.clear_expiry(handle),
        };
        match (plan, handle) {
            (Plan::Nothing(Added::Same(score)), _) if persisted => Added::Persisted(score),
            (Plan::Nothing(added), _) => added,
            (Plan::Update(score), Some(handle)) => {
                big.change_score(handle, score);
                Added::Updated(score)
            }
            (Plan::Insert(score) | Plan::Update(score), _) => {
                big.insert(hash, member, score);
                Added::Added(score)
            }
        }
    }

    /// Removes a member; returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        match &mut self.form {
            Form::Packed(packed) => packed.remove(member),
            Form::Big(big) => big.remove(member),
        }
    }

    /// Removes the members with these ranks, passing each to `removed` in ascending order; returns
    /// their number. Ranks include expired members that are not yet removed: remove those first.
    pub fn remove_ranks(&mut self, ranks: Range<usize>, mut removed: impl FnMut(Element<'_>, f64)) -> usize {
        match &mut self.form {
            Form::Packed(packed) => packed.remove_ranks(ranks, &mut removed),
            Form::Big(big) => {
                big.remove_ranks(ranks, &mut |member, score| removed(Element::Bytes(member), score))
            }
        }
    }

    /// Removes up to `count` members with the lowest scores, lowest first (ZPOPMIN).
    pub fn pop_min(&mut self, count: usize, removed: impl FnMut(Element<'_>, f64)) -> usize {
        self.remove_ranks(0..count, removed)
    }

    /// Removes up to `count` members with the highest scores, highest first (ZPOPMAX).
    pub fn pop_max(&mut self, count: usize, mut removed: impl FnMut(Element<'_>, f64)) -> usize {
        // Runs are removed in ascending order, so take them from the end, one leaf at a time, and
        // reverse each.
        let mut total = 0;
        while total < count && !self.is_empty() {
            let len = self.len();
            let run = (count - total).min(len).min(64);
            if run == 1 {
                total += self.remove_ranks(len - 1..len, &mut removed);
                continue;
            }
            let mut entries: Vec<(Vec<u8>, f64)> = Vec::with_capacity(run);
            let taken =
                self.remove_ranks(len - run..len, |member, score| entries.push((member.to_vec(), score)));
            if taken == 0 {
                break;
            }
            entries.iter().rev().for_each(|(member, score)| removed(Element::Bytes(member), *score));
            total += taken;
        }
        total
    }

    /// Converts the set to one packed list if its members allow it (after ZUNIONSTORE, GEORADIUS
    /// STORE, on loading). Sets with expiring members stay as they are.
    pub fn pack_if_small(&mut self, limits: &PackedLimits) {
        let Form::Big(big) = &self.form else { return };
        if big.len() > limits.entries_max || big.next_expiry().is_some() {
            return;
        }
        let fits = |len: usize| len <= limits.value_bytes_max;
        if !big.forward(0, usize::MAX).all(|(_, member)| fits(member.len())) {
            return;
        }
        let mut packed = Packed::default();
        let all = big.forward(0, usize::MAX);
        if all
            .into_iter()
            .all(|(score, member)| packed.has_room(member.len()) && packed.push(member.bytes(), score))
        {
            self.form = Form::Packed(packed);
        }
    }

    /// Leaves the packed form before more members are added than it can hold (many members in one
    /// ZADD).
    pub fn expect(&mut self, members: usize, limits: &PackedLimits) {
        if members > limits.entries_max {
            self.make_big();
        }
    }

    fn make_big(&mut self) -> &mut BigSet {
        if let Form::Packed(packed) = &self.form {
            let mut big = Box::<BigSet>::default();
            let mut buffer = itoa::Buffer::new();
            for (member, score) in packed.pairs(0) {
                let member = member.text(&mut buffer);
                big.insert(big.find(member).0, member, score);
            }
            self.form = Form::Big(big);
        }
        match &mut self.form {
            Form::Big(big) => big,
            Form::Packed(_) => unreachable!("replaced above"),
        }
    }

    // Expiry of members.

    /// Sets a member's expiry in ms since the Unix epoch, or clears it; false if the member is
    /// missing. A packed set becomes a big one: packed lists cannot store the time.
    pub fn set_expiry(&mut self, member: &[u8], at: Option<i64>) -> bool {
        if let Form::Packed(packed) = &self.form
            && (at.is_none() || packed.score(member).is_none())
        {
            return packed.score(member).is_some();
        }
        let big = self.make_big();
        let Some(handle) = big.find(member).1 else { return false };
        big.set_expiry(handle, at);
        true
    }

    /// The earliest expiry of any member, in ms since the Unix epoch.
    #[inline]
    pub fn next_expiry(&self) -> Option<i64> {
        match &self.form {
            Form::Packed(_) => None,
            Form::Big(big) => big.next_expiry(),
        }
    }

    /// Removes up to `max` members that have expired at `now`, earliest first; returns their
    /// number.
    pub fn remove_expired(
        &mut self,
        now: i64,
        max: usize,
        mut removed: impl FnMut(Element<'_>, f64),
    ) -> usize {
        match &mut self.form {
            Form::Packed(_) => 0,
            Form::Big(big) => {
                big.remove_expired(now, max, &mut |member, score| removed(Element::Bytes(member), score))
            }
        }
    }
}

impl Clone for SortedSet {
    fn clone(&self) -> SortedSet {
        let form = match &self.form {
            Form::Packed(packed) => Form::Packed(packed.clone()),
            Form::Big(big) => Form::Big(big.clone()),
        };
        SortedSet { form }
    }
}

impl std::fmt::Debug for SortedSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SortedSet").field("encoding", &self.encoding()).field("len", &self.len()).finish()
    }
}
