// SPDX-License-Identifier: BSD-3-Clause
//! Score and member ranges as commands state them, and the corresponding edges in the set's order.

use super::member::Handle;

/// One end of a range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScoreBound {
    /// The score itself is in the range.
    Inclusive(f64),
    /// The score itself is not in the range.
    Exclusive(f64),
}

/// A range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreRange {
    /// The lower end.
    pub min: ScoreBound,
    /// The upper end.
    pub max: ScoreBound,
}

/// One end of a range of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexBound<'a> {
    /// Before every member (`-`).
    Minimum,
    /// After every member (`+`).
    Maximum,
    /// The member itself is in the range.
    Inclusive(&'a [u8]),
    /// The member itself is not in the range.
    Exclusive(&'a [u8]),
}

/// A range of members in byte order. Meaningful only if all members have the same score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LexRange<'a> {
    /// The lower end.
    pub min: LexBound<'a>,
    /// The upper end.
    pub max: LexBound<'a>,
}

/// A position between two entries of the ordered sequence.
#[derive(Clone, Copy, Debug)]
pub(super) enum Edge<'a> {
    /// Before everything.
    Start,
    /// After everything.
    End,
    /// Before the first entry with this score or a greater one.
    BeforeScore(f64),
    /// After the last entry with this score or a smaller one.
    AfterScore(f64),
    /// Before this entry, or where it would be inserted.
    BeforeEntry(f64, &'a [u8]),
    /// Before this member, or the next greater one.
    BeforeMember(&'a [u8]),
    /// After this member, or the next smaller one.
    AfterMember(&'a [u8]),
}

impl Edge<'_> {
    /// True if this edge is after the entry.
    #[inline]
    pub fn is_after(&self, score: f64, member: &[u8]) -> bool {
        match *self {
            Edge::Start => false,
            Edge::End => true,
            Edge::BeforeScore(edge) => score < edge,
            Edge::AfterScore(edge) => score <= edge,
            Edge::BeforeEntry(edge, bytes) => score < edge || (score == edge && member < bytes),
            Edge::BeforeMember(bytes) => member < bytes,
            Edge::AfterMember(bytes) => member <= bytes,
        }
    }

    /// Number of these consecutive entries that are before this edge. Reads members only among
    /// equal scores.
    #[inline]
    pub fn position(&self, scores: &[f64], members: &[Handle]) -> usize {
        match *self {
            Edge::Start => 0,
            Edge::End => scores.len(),
            Edge::BeforeScore(edge) => scores.partition_point(|&score| score < edge),
            Edge::AfterScore(edge) => scores.partition_point(|&score| score <= edge),
            Edge::BeforeEntry(edge, bytes) => {
                let low = scores.partition_point(|&score| score < edge);
                if scores.get(low) != Some(&edge) {
                    return low;
                }
                let equal = scores.get(low..).unwrap_or_default().partition_point(|&score| score <= edge);
                let members = members.get(low..low + equal).unwrap_or_default();
                low + members.partition_point(|member| member.bytes() < bytes)
            }
            Edge::BeforeMember(bytes) => members.partition_point(|member| member.bytes() < bytes),
            Edge::AfterMember(bytes) => members.partition_point(|member| member.bytes() <= bytes),
        }
    }
}

impl ScoreRange {
    /// All scores.
    pub const ALL: ScoreRange = ScoreRange {
        min: ScoreBound::Inclusive(f64::NEG_INFINITY),
        max: ScoreBound::Inclusive(f64::INFINITY),
    };

    pub(super) fn edges(&self) -> (Edge<'static>, Edge<'static>) {
        let low = match self.min {
            ScoreBound::Inclusive(score) => Edge::BeforeScore(score),
            ScoreBound::Exclusive(score) => Edge::AfterScore(score),
        };
        let high = match self.max {
            ScoreBound::Inclusive(score) => Edge::AfterScore(score),
            ScoreBound::Exclusive(score) => Edge::BeforeScore(score),
        };
        (low, high)
    }
}

impl<'a> LexRange<'a> {
    /// All members.
    pub const ALL: LexRange<'static> = LexRange { min: LexBound::Minimum, max: LexBound::Maximum };

    pub(super) fn edges(&self) -> (Edge<'a>, Edge<'a>) {
        let low = match self.min {
            LexBound::Minimum => Edge::Start,
            LexBound::Maximum => Edge::End,
            LexBound::Inclusive(member) => Edge::BeforeMember(member),
            LexBound::Exclusive(member) => Edge::AfterMember(member),
        };
        let high = match self.max {
            LexBound::Minimum => Edge::Start,
            LexBound::Maximum => Edge::End,
            LexBound::Inclusive(member) => Edge::AfterMember(member),
            LexBound::Exclusive(member) => Edge::BeforeMember(member),
        };
        (low, high)
    }
}
