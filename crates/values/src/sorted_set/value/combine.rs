// SPDX-License-Identifier: BSD-3-Clause
//! Union, intersection and difference of sorted sets (and of plain sets, whose members have score
//! 1).
//!
//! Inputs are any values that can be walked and queried for a member ([`MemberSource`]). Redis's
//! rules: a weighted score that is not a number (0 times infinity) is 0, and so is the sum of
//! opposite infinities. In an intersection the first rule holds for the smallest input only: in
//! the others a NaN score makes a sum 0, and is neither smaller nor greater than any other.

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

use super::View;

/// A collection of members with scores.
pub trait MemberSource {
    /// Number of members.
    fn member_count(&self) -> usize;
    /// The score of a member (1 in a plain set).
    fn score_of(&self, member: &[u8]) -> Option<f64>;
    /// Passes every member and its score to `each` until that returns false.
    fn walk(&self, each: &mut dyn FnMut(&[u8], f64) -> bool);
}

impl MemberSource for View<'_> {
    fn member_count(&self) -> usize {
        self.len()
    }

    fn score_of(&self, member: &[u8]) -> Option<f64> {
        self.score(member)
    }

    fn walk(&self, each: &mut dyn FnMut(&[u8], f64) -> bool) {
        let mut buffer = itoa::Buffer::new();
        for (member, score) in self.iter(0..self.len()) {
            if !each(member.text(&mut buffer), score) {
                return;
            }
        }
    }
}

/// An input and its score factor.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The members and scores.
    pub source: &'a dyn MemberSource,
    /// The score factor; 1 by default.
    pub weight: f64,
}

impl Input<'_> {
    /// What a member's score counts for.
    fn weigh(&self, score: f64, aggregate: Aggregate) -> f64 {
        number(self.weigh_on(score, aggregate))
    }

    /// As [`Input::weigh`]; may be NaN.
    fn weigh_on(&self, score: f64, aggregate: Aggregate) -> f64 {
        if aggregate == Aggregate::Count { self.weight } else { self.weight * score }
    }
}

/// How a member's scores from several inputs are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aggregate {
    /// Their sum.
    #[default]
    Sum,
    /// The smallest.
    Min,
    /// The greatest.
    Max,
    /// The sum of the weights of the inputs that have the member, whatever its scores.
    Count,
}

impl Aggregate {
    /// Combines two scores. `other` may be NaN: see the module.
    pub fn apply(self, one: f64, other: f64) -> f64 {
        match self {
            Aggregate::Sum | Aggregate::Count => number(one + other),
            Aggregate::Min => {
                if other < one {
                    other
                } else {
                    one
                }
            }
            Aggregate::Max => {
                if other > one {
                    other
                } else {
                    one
                }
            }
        }
    }
}

fn number(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// Members with their scores, each member once, unordered.
pub type Combined = Vec<(Box<[u8]>, f64)>;

/// The members of any input.
pub fn union(inputs: &[Input<'_>], aggregate: Aggregate) -> Combined {
    let hasher = RandomState::default();
    let mut result: Combined = Vec::new();
    // Indexes in `result` by member.
    let mut places: HashTable<usize> = HashTable::new();
    let mut order: Vec<&Input<'_>> = inputs.iter().collect();
    // From smallest to largest, as in Redis: floating-point sums depend on the order.
    order.sort_by_key(|input| input.source.member_count());
    for input in order {
        input.source.walk(&mut |member, score| {
            let score = input.weigh(score, aggregate);
            let hash = hasher.hash_one(member);
            let is_it = |&place: &usize| result.get(place).is_some_and(|(other, _)| **other == *member);
            match places.find(hash, is_it).copied() {
                Some(place) => {
                    if let Some((_, present)) = result.get_mut(place) {
                        *present = aggregate.apply(*present, score);
                    }
                }
                None => {
                    let hash_at =
                        |&place: &usize| result.get(place).map_or(0, |(other, _)| hasher.hash_one(&**other));
                    places.insert_unique(hash, result.len(), hash_at);
                    result.push((member.into(), score));
                }
            }
            true
        });
    }
    result
}

/// The members common to all inputs.
pub fn intersection(inputs: &[Input<'_>], aggregate: Aggregate) -> Combined {
    let mut result = Combined::new();
    intersect(inputs, aggregate, &mut |member, score| {
        result.push((member.into(), score));
        true
    });
    result
}

/// Number of members common to all inputs, counted up to `limit` (0 means no limit).
pub fn intersection_count(inputs: &[Input<'_>], limit: usize) -> usize {
    let mut count = 0;
    intersect(inputs, Aggregate::Sum, &mut |_, _| {
        count += 1;
        count != limit
    });
    count
}

fn intersect(inputs: &[Input<'_>], aggregate: Aggregate, each: &mut dyn FnMut(&[u8], f64) -> bool) {
    let mut order: Vec<&Input<'_>> = inputs.iter().collect();
    order.sort_by_key(|input| input.source.member_count());
    let Some((smallest, others)) = order.split_first() else { return };
    smallest.source.walk(&mut |member, score| {
        let mut total = smallest.weigh(score, aggregate);
        for other in others {
            match other.source.score_of(member) {
                Some(score) => total = aggregate.apply(total, other.weigh_on(score, aggregate)),
                None => return true,
            }
        }
        each(member, total)
    });
}

/// The members found only in the first input, with their scores there (weights do not matter).
pub fn difference(inputs: &[Input<'_>]) -> Combined {
    let mut result = Combined::new();
    let Some((first, others)) = inputs.split_first() else { return result };
    first.source.walk(&mut |member, score| {
        if others.iter().all(|other| other.source.score_of(member).is_none()) {
            result.push((member.into(), score));
        }
        true
    });
    result
}
