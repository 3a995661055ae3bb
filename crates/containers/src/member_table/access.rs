// SPDX-License-Identifier: BSD-3-Clause
//! Walking, sampling and expiring the members of a table.
//!
//! HOT PATH: no allocation (except for large samples), no lock, no logging, no system call.

use std::collections::HashSet;

use smallvec::SmallVec;

use super::{Expiry, Member, Table};
use crate::spiral;

/// The members of a table.
#[derive(Clone)]
pub struct Iter<'a, const VALUES: bool> {
    table: &'a Table<VALUES>,
    segment: usize,
    slot: usize,
}

impl<'a, const VALUES: bool> Iterator for Iter<'a, VALUES> {
    type Item = Member<'a>;

    #[inline]
    fn next(&mut self) -> Option<Member<'a>> {
        loop {
            let segment = self.table.segments.get(self.segment)?;
            if self.slot < segment.count() {
                let slot = self.slot;
                self.slot += 1;
                if let Some((record, _)) = segment.record::<VALUES>(slot) {
                    return Some(self.table.member(&record));
                }
            } else {
                self.segment += 1;
                self.slot = 0;
            }
        }
    }
}

impl<const VALUES: bool> Table<VALUES> {
    /// All members, including expired ones, in no meaningful order.
    pub fn iter(&self) -> Iter<'_, VALUES> {
        Iter { table: self, segment: 0, slot: 0 }
    }

    /// Continues a scan at `cursor` (0 = start), passes `count` members (fewer at the end, more
    /// only where hashes are equal) to `see`, and returns the next cursor (0 = done). Every member
    /// present throughout the scan is seen once, regardless of additions and removals meanwhile.
    pub fn scan(&self, cursor: u64, count: usize, mut see: impl FnMut(Member<'_>)) -> u64 {
        // Each segment is an interval of points that later splits only halve. A cursor is the first
        // point not yet visited, with its bits reversed, so that most cursors have few digits.
        let mut point = cursor.reverse_bits();
        let mut wanted = count.max(1);
        loop {
            let name = spiral::name(point, self.segments.len());
            let (number, depth) = (spiral::place(name), name.ilog2());
            let segment = &self.segments[number];
            let width = 1u64.checked_shl(64 - depth);
            // The end of the segment's interval; `None` for the last one.
            let end = width.and_then(|width| (point & !(width - 1)).checked_add(width));
            let is_start = width.map_or(point == 0, |width| point & (width - 1) == 0);
            if is_start && segment.count() <= wanted {
                (0..segment.count()).filter_map(|slot| self.member_at(number, slot)).for_each(&mut see);
                wanted -= segment.count();
            } else {
                let mut left = self.members_from(number, point);
                if left.len() > wanted {
                    left.sort_unstable();
                    let last = left[wanted - 1].0;
                    let next = wanted + left[wanted..].partition_point(|&(place, _)| place == last);
                    if let Some(&(beyond, _)) = left.get(next) {
                        left.truncate(next);
                        left.iter().filter_map(|&(_, slot)| self.member_at(number, slot)).for_each(see);
                        return between(last, beyond).reverse_bits();
                    }
                }
                left.iter().filter_map(|&(_, slot)| self.member_at(number, slot)).for_each(&mut see);
                wanted = wanted.saturating_sub(left.len());
            }
            match end {
                None => return 0,
                Some(end) if wanted == 0 => return end.reverse_bits(),
                Some(end) => point = end,
            }
        }
    }

    /// The members of a segment at `point` or beyond it: their points and slots.
    fn members_from(&self, number: usize, point: u64) -> SmallVec<[(u64, usize); 64]> {
        let slots = 0..self.segments[number].count();
        let place = |slot| Some((spiral::point(self.hash(self.member_at(number, slot)?.key)), slot));
        slots.filter_map(place).filter(|&(place, _)| place >= point).collect()
    }

    /// The segment and slot of a random member, all equally likely.
    fn random_place(&self, random: &mut fastrand::Rng) -> Option<(usize, usize)> {
        if self.len == 0 {
            return None;
        }
        // Pick a random segment, and a random slot of the fullest possible segment; retry if that
        // slot has no member. Therefore each attempt hits every member with equal probability.
        loop {
            let number = random.usize(..self.segments.len());
            let slot = random.usize(..self.count_bound.max(1));
            if slot < self.segments[number].count() {
                return Some((number, slot));
            }
        }
    }

    /// A random member, all equally likely.
    pub fn random(&self, random: &mut fastrand::Rng) -> Option<Member<'_>> {
        let (segment, slot) = self.random_place(random)?;
        self.member_at(segment, slot)
    }

    /// Removes a random member, all equally likely, after passing it to `see`.
    pub fn pop_random<R>(
        &mut self,
        random: &mut fastrand::Rng,
        see: impl FnOnce(Member<'_>) -> R,
    ) -> Option<R> {
        let (segment, slot) = self.random_place(random)?;
        let seen = see(self.member_at(segment, slot)?);
        self.remove_at(segment, slot, None);
        Some(seen)
    }

    /// Passes `count` distinct members (all if there are fewer) to `see`; every selection is
    /// equally likely, but the order is not random.
    pub fn sample(&self, count: usize, random: &mut fastrand::Rng, mut see: impl FnMut(Member<'_>)) {
        if count >= self.len {
            self.iter().for_each(see);
        } else if count < self.len / 4 {
            let mut taken = HashSet::with_capacity(count);
            while taken.len() < count {
                let Some(place) = self.random_place(random) else { return };
                if taken.insert(place)
                    && let Some(member) = self.member_at(place.0, place.1)
                {
                    see(member);
                }
            }
        } else {
            // Selection sampling: take each member with the probability of (still wanted) / (still
            // left).
            let (mut wanted, mut left) = (count, self.len);
            for member in self.iter() {
                if random.usize(..left.max(1)) < wanted {
                    see(member);
                    wanted -= 1;
                }
                left -= 1;
            }
        }
    }

    /// Keeps the members for which `keep` is true.
    pub fn retain(&mut self, mut keep: impl FnMut(Member<'_>) -> bool) {
        let mut gone: Vec<Box<[u8]>> = Vec::new();
        for member in self.iter() {
            if !keep(member) {
                gone.push(member.key.into());
            }
        }
        for key in gone {
            self.remove(&key);
        }
    }

    // Expiry.

    /// Sets or clears a member's expiry; returns the old one, or `None` if the member is absent.
    pub fn set_expiry(&mut self, key: &[u8], expire_at: Option<i64>) -> Option<Option<i64>> {
        let member = self.get(key)?;
        let old = member.expire_at;
        if old != expire_at {
            // Copy the content, because the record that holds it is about to move.
            let value = member.value.to_vec();
            self.set(key, &value, expire_at.map_or(Expiry::Clear, Expiry::At));
        }
        Some(old)
    }

    /// The earliest expiry of any member.
    pub fn next_expiry(&self) -> Option<i64> {
        Some(self.extra.as_ref()?.expiring.first()?.0)
    }

    /// Number of members with an expiry.
    pub fn expiring_len(&self) -> usize {
        self.extra.as_ref().map_or(0, |extra| extra.expiring.len())
    }

    /// Number of expired members; takes time proportional to the result.
    pub fn expired_len(&self, now_ms: i64) -> usize {
        match &self.extra {
            Some(extra) => extra.expiring.range(..(now_ms, 0)).count(),
            None => 0,
        }
    }

    /// Removes up to `max` expired members, earliest first, each after passing it to `see`;
    /// returns their number.
    pub fn remove_expired(&mut self, now_ms: i64, max: usize, mut see: impl FnMut(Member<'_>)) -> usize {
        let mut removed = 0;
        while removed < max {
            let Some(&(time, hash)) = self.extra.as_ref().and_then(|extra| extra.expiring.first()) else {
                break;
            };
            if time >= now_ms {
                break;
            }
            let number = self.segment_of(hash);
            let found = (0..self.segments[number].count()).find(|&slot| {
                self.member_at(number, slot)
                    .is_some_and(|member| member.expire_at == Some(time) && self.hash(member.key) == hash)
            });
            if let Some(slot) = found {
                if let Some(member) = self.member_at(number, slot) {
                    see(member);
                }
                self.remove_at(number, slot, Some(hash));
                removed += 1;
            } else {
                // Two members with equal hashes and times share one index item, which the removal
                // of the other member has deleted.
                self.extra_mut().expiring.remove(&(time, hash));
            }
        }
        removed
    }

    /// Asserts all invariants between the parts.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut len = 0;
        for (number, segment) in self.segments.iter().enumerate() {
            assert!(segment.count() <= self.count_bound, "a segment exceeds the count bound");
            len += segment.count();
            for slot in 0..segment.count() {
                let member = self.member_at(number, slot).unwrap();
                let hash = self.hash(member.key);
                assert_eq!(self.segment_of(hash), number);
                assert_eq!(Self::tag(hash), segment.tags()[slot]);
                if let Some(time) = member.expire_at {
                    assert!(self.extra.as_ref().unwrap().expiring.contains(&(time, hash)));
                }
            }
        }
        assert_eq!(len, self.len);
        let expiring = self.iter().filter(|member| member.expire_at.is_some()).count();
        assert_eq!(expiring, self.expiring_len());
    }
}

/// The point with the fewest digits after `low`, up to `high`, which is greater.
fn between(low: u64, high: u64) -> u64 {
    let common = (low ^ high).leading_zeros();
    high & !(u64::MAX >> 1 >> common)
}

/// A random unexpired member, all equally likely.
pub fn random_live<'a, const VALUES: bool>(
    table: &'a Table<VALUES>,
    now_ms: i64,
    random: &mut fastrand::Rng,
) -> Option<Member<'a>> {
    for _ in 0..32 {
        let member = table.random(random)?;
        if !member.is_expired(now_ms) {
            return Some(member);
        }
    }
    // Nearly all members are expired: count the others and take one of them.
    let live = table.len() - table.expired_len(now_ms);
    let chosen = random.usize(..live.max(1));
    table.iter().filter(|member| !member.is_expired(now_ms)).nth(chosen)
}
