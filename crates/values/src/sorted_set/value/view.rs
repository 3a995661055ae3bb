// SPDX-License-Identifier: BSD-3-Clause
//! Reads a sorted set as of a given time: expired members that are not yet removed are invisible.
//!
//! HOT PATH: no allocation while nothing has expired, no lock, no logging, no system call.
//!
//! Hiding works as follows: the ranks of the expired members in the whole set ("raw" ranks) are
//! found once and kept in order; every visible rank is a raw rank minus the number of hidden ones
//! before it.

use std::ops::Range;

use super::bounds::{LexRange, ScoreRange};
use super::packed::{Pairs, PairsBack};
use super::tree::{Backward, Forward};
use super::{Form, SortedSet};
use braid_containers::listpack::Element;

/// A member and its score. In the packed form a member whose text is a number is returned as that
/// number.
pub type Entry<'a> = (Element<'a>, f64);

/// See the module.
pub struct View<'a> {
    set: &'a SortedSet,
    now: i64,
    /// Raw ranks of expired members, ascending.
    hidden: Vec<usize>,
}

impl<'a> View<'a> {
    #[inline]
    pub(super) fn new(set: &'a SortedSet, now: i64) -> View<'a> {
        let hidden = match &set.form {
            Form::Big(big) if big.next_expiry().is_some_and(|at| at < now) => {
                let rank = |handle: super::member::Handle| big.rank(handle.bytes()).map(|(rank, _)| rank);
                let mut ranks: Vec<usize> = big.expired(now).filter_map(rank).collect();
                ranks.sort_unstable();
                ranks
            }
            _ => Vec::new(),
        };
        View { set, now, hidden }
    }

    /// Number of visible members.
    #[inline]
    pub fn len(&self) -> usize {
        self.set.len() - self.hidden.len()
    }

    /// True if there is no visible member.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The score of a member.
    #[inline]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        match &self.set.form {
            Form::Packed(packed) => packed.score(member),
            Form::Big(big) if self.hidden.is_empty() => big.score(member),
            Form::Big(big) => {
                let handle = big.find(member).1?;
                big.expiry_of(handle).is_none_or(|at| at >= self.now).then(|| handle.score())
            }
        }
    }

    /// A member's expiry, in ms since the Unix epoch: outer `None` if the member is missing, inner
    /// `None` if it never expires.
    pub fn expiry(&self, member: &[u8]) -> Option<Option<i64>> {
        self.score(member)?;
        match &self.set.form {
            Form::Packed(_) => Some(None),
            Form::Big(big) => Some(big.expiry_of(big.find(member).1?)),
        }
    }

    /// Number of members before this one, and its score. The rank from the other end is `len() - 1
    /// - rank`.
    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let (raw, score) = match &self.set.form {
            Form::Packed(packed) => packed.rank(member)?,
            Form::Big(big) => big.rank(member)?,
        };
        if self.hidden.binary_search(&raw).is_ok() {
            return None;
        }
        Some((self.visible(raw), score))
    }

    /// The member with this rank.
    pub fn get(&self, rank: usize) -> Option<Entry<'a>> {
        let raw = self.raw(rank);
        match &self.set.form {
            Form::Packed(packed) => packed.pairs(raw).next(),
            Form::Big(big) => big.get(raw).map(|(score, member)| (Element::Bytes(member.bytes()), score)),
        }
    }

    /// The ranks of the members with a score in this range; empty if there are none.
    pub fn ranks_by_score(&self, range: &ScoreRange) -> Range<usize> {
        self.ranks_between(range.edges())
    }

    /// The ranks of the members in this range, in a set whose members all have the same score; in
    /// other sets the result is meaningless, but nothing panics.
    pub fn ranks_by_member(&self, range: &LexRange<'_>) -> Range<usize> {
        self.ranks_between(range.edges())
    }

    fn ranks_between(&self, (low, high): (super::bounds::Edge<'_>, super::bounds::Edge<'_>)) -> Range<usize> {
        let place = |edge| match &self.set.form {
            Form::Packed(packed) => packed.rank_of(edge),
            Form::Big(big) => big.rank_of(edge),
        };
        let start = self.visible(place(&low));
        start..self.visible(place(&high)).max(start)
    }

    /// The members with these ranks, in ascending order.
    pub fn iter(&self, ranks: Range<usize>) -> Entries<'_> {
        let ranks = ranks.start..ranks.end.min(self.len());
        let (raw, remaining) = (self.raw(ranks.start), ranks.len());
        let walk = match &self.set.form {
            Form::Packed(packed) => Walk::Packed(packed.pairs(raw)),
            // The last wanted member may be further on, after hidden ones.
            Form::Big(big) => Walk::Big(big.forward(raw, remaining.saturating_add(self.hidden.len()))),
        };
        Entries { walk, hidden: &self.hidden, raw, remaining }
    }

    /// The members with these ranks, in descending order.
    pub fn iter_back(&self, ranks: Range<usize>) -> EntriesBack<'_> {
        let ranks = ranks.start..ranks.end.min(self.len());
        let remaining = ranks.len();
        let raw = self.raw(ranks.end.saturating_sub(1));
        let walk = match &self.set.form {
            Form::Packed(packed) => WalkBack::Packed(packed.pairs_back(raw)),
            Form::Big(big) => WalkBack::Big(big.backward(raw, remaining.saturating_add(self.hidden.len()))),
        };
        EntriesBack { walk, hidden: &self.hidden, raw, remaining }
    }

    /// A member chosen uniformly at random.
    pub fn random(&self, random: &mut fastrand::Rng) -> Option<Entry<'a>> {
        let len = self.len();
        if len == 0 { None } else { self.get(random.usize(..len)) }
    }

    /// `count` distinct members, or all of them, in ascending order; every selection is equally
    /// likely.
    pub fn random_distinct(&self, count: usize, random: &mut fastrand::Rng) -> Vec<Entry<'a>> {
        let len = self.len();
        // Floyd's algorithm: one draw for each of the last `count` ranks, taking the rank itself
        // if the drawn one was taken before.
        let mut ranks = std::collections::BTreeSet::new();
        for last in len.saturating_sub(count)..len {
            if !ranks.insert(random.usize(..=last)) {
                ranks.insert(last);
            }
        }
        ranks.into_iter().filter_map(|rank| self.get(rank)).collect()
    }

    /// True in the packed form.
    pub fn is_packed(&self) -> bool {
        matches!(self.set.form, Form::Packed(_))
    }

    /// Passes about `count` members to `seen` and returns the next cursor, 0 when the walk is
    /// complete. A walk starts with cursor 0. A member present during the whole walk is seen at
    /// least once, however the set changes meanwhile. Any cursor is safe.
    pub fn scan(&self, cursor: u64, count: usize, mut seen: impl FnMut(Entry<'a>)) -> u64 {
        match &self.set.form {
            Form::Packed(packed) => {
                packed.pairs(0).for_each(seen);
                0
            }
            Form::Big(big) => big.scan(cursor, count, &mut |handle| {
                if self.hidden.is_empty() || big.expiry_of(*handle).is_none_or(|at| at >= self.now) {
                    seen((Element::Bytes(handle.bytes()), handle.score()));
                }
            }),
        }
    }

    /// The visible rank of a raw one.
    fn visible(&self, raw: usize) -> usize {
        raw - self.hidden.partition_point(|&hidden| hidden < raw)
    }

    /// The raw rank of a visible one.
    fn raw(&self, rank: usize) -> usize {
        if self.hidden.is_empty() {
            return rank;
        }
        // The hidden member at index i has `hidden[i] - i` visible ones before it, which never
        // decreases with i.
        let (mut low, mut high) = (0, self.hidden.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.hidden.get(middle).is_some_and(|hidden| hidden - middle <= rank) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        rank.saturating_add(low)
    }
}

enum Walk<'a> {
    Packed(Pairs<'a>),
    Big(Forward<'a>),
}

/// Members in ascending order.
pub struct Entries<'a> {
    walk: Walk<'a>,
    hidden: &'a [usize],
    raw: usize,
    remaining: usize,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        if self.remaining == 0 {
            return None;
        }
        loop {
            let entry = match &mut self.walk {
                Walk::Packed(pairs) => pairs.next()?,
                Walk::Big(forward) => {
                    let (score, member) = forward.next()?;
                    (Element::Bytes(member.bytes()), score)
                }
            };
            let raw = self.raw;
            self.raw += 1;
            if self.hidden.is_empty() || self.hidden.binary_search(&raw).is_err() {
                self.remaining -= 1;
                return Some(entry);
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining, Some(self.remaining))
    }
}

impl ExactSizeIterator for Entries<'_> {}

enum WalkBack<'a> {
    Packed(PairsBack<'a>),
    Big(Backward<'a>),
}

/// Members in descending order.
pub struct EntriesBack<'a> {
    walk: WalkBack<'a>,
    hidden: &'a [usize],
    raw: usize,
    remaining: usize,
}

impl<'a> Iterator for EntriesBack<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        if self.remaining == 0 {
            return None;
        }
        loop {
            let entry = match &mut self.walk {
                WalkBack::Packed(pairs) => pairs.next()?,
                WalkBack::Big(backward) => {
                    let (score, member) = backward.next()?;
                    (Element::Bytes(member.bytes()), score)
                }
            };
            let raw = self.raw;
            self.raw = raw.saturating_sub(1);
            if self.hidden.is_empty() || self.hidden.binary_search(&raw).is_err() {
                self.remaining -= 1;
                return Some(entry);
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining, Some(self.remaining))
    }
}

impl ExactSizeIterator for EntriesBack<'_> {}
