// SPDX-License-Identifier: BSD-3-Clause
//! The change that an effect makes to a key, in the form that is sent.

use std::ops::Range;

use crate::amount::Amount;
use crate::cell::{CellChange, Sum, Time};
use crate::position::{Position, Side};
use crate::stream::StreamChange;
use crate::tally::SeenTally;
use crate::{Bytes, Text};

/// The types of values, in the order that resolves type conflicts: of concurrent values of one
/// key, the last type shows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    String,
    HyperLogLog,
    List,
    Set,
    Hash,
    SortedSet,
    Stream,
    Json,
    VectorSet,
}

impl Kind {
    pub const ALL: [Kind; 9] = [
        Kind::String,
        Kind::HyperLogLog,
        Kind::List,
        Kind::Set,
        Kind::Hash,
        Kind::SortedSet,
        Kind::Stream,
        Kind::Json,
        Kind::VectorSet,
    ];

    /// The name that TYPE returns; HyperLogLogs and JSON documents have their own.
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::HyperLogLog => "hyperloglog",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::Hash => "hash",
            Kind::SortedSet => "zset",
            Kind::Stream => "stream",
            Kind::Json => "json",
            Kind::VectorSet => "vectorset",
        }
    }

    /// True if values of the type consist of [parts](crate::parts).
    pub(crate) fn has_parts(self) -> bool {
        matches!(self, Kind::Json | Kind::VectorSet)
    }

    /// The type's bit in a set of types.
    pub(crate) fn bit(self) -> u16 {
        1 << self as u8
    }
}

/// A tally that a removal saw, and its location. The element is empty for a string.
#[derive(Clone, PartialEq, Debug)]
pub struct SeenAt {
    pub kind: Kind,
    pub element: Bytes,
    pub tally: SeenTally,
}

/// A change of one key. Every change removes only values that its region had seen.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// Removes the key: DEL, and before a command that overwrites or recreates it.
    Remove {
        seen: Vec<SeenAt>,
    },
    /// Removes the key's hidden value of a type.
    Clear {
        kind: Kind,
        seen: Vec<SeenAt>,
    },
    Live(Time),
    String(CellChange<Text>),
    Hash(Bytes, CellChange<Bytes>),
    /// A part of a value that consists of [parts](crate::parts).
    Part(Kind, Bytes, CellChange<Bytes>),
    Set(Bytes, CellChange<()>),
    SortedSet(Bytes, CellChange<f64>),
    /// Each value takes a stamp.
    Push {
        side: Side,
        values: Vec<Bytes>,
    },
    Element(Position, CellChange<Bytes>),
    Stream(StreamChange),
    /// HyperLogLog registers and their ranks.
    Count(Vec<(u16, u8)>),
}

/// The change of a [plain write](crate::write), without allocations of its own. `T` is a text, `S`
/// an increment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Written<T, S> {
    /// Writes a whole string, without a time.
    Text(T),
    /// Increments a string.
    Sum(S),
    Field(T, T),
    Member(T),
    Score(T, f64),
}

/// The change of a plain write in a request: an increment is an amount.
pub type RequestWrite<'a> = Written<&'a [u8], Amount>;
/// The change of a plain write in a unit.
pub type UnitWrite<'u> = Written<&'u [u8], Sum>;

impl<T, S> Written<T, S> {
    /// The written element, and its type.
    pub(crate) fn element(self) -> Option<(Kind, T)> {
        match self {
            Written::Field(field, _) => Some((Kind::Hash, field)),
            Written::Member(member) => Some((Kind::Set, member)),
            Written::Score(member, _) => Some((Kind::SortedSet, member)),
            Written::Text(_) | Written::Sum(_) => None,
        }
    }

    /// The same change with another form of increment; `None` if there is none.
    pub(crate) fn with_sum<R>(self, sum: impl FnOnce(S) -> Option<R>) -> Option<Written<T, R>> {
        Some(match self {
            Written::Text(text) => Written::Text(text),
            Written::Sum(one) => Written::Sum(sum(one)?),
            Written::Field(field, value) => Written::Field(field, value),
            Written::Member(member) => Written::Member(member),
            Written::Score(member, score) => Written::Score(member, score),
        })
    }
}

impl<S: Copy> Written<Range<usize>, S> {
    /// The same change with its texts, which are in `unit`.
    pub(crate) fn of_unit<'u>(&self, unit: &'u [u8]) -> Written<&'u [u8], S> {
        let text = |range: &Range<usize>| &unit[range.clone()];
        match self {
            Written::Text(value) => Written::Text(text(value)),
            Written::Sum(sum) => Written::Sum(*sum),
            Written::Field(field, value) => Written::Field(text(field), text(value)),
            Written::Member(member) => Written::Member(text(member)),
            Written::Score(member, score) => Written::Score(text(member), *score),
        }
    }
}

impl Change {
    /// The number of stamps that the change takes.
    pub fn stamps(&self) -> u64 {
        match self {
            Change::Push { values, .. } => (values.len() as u64).max(1),
            _ => 1,
        }
    }

    /// The type that the change writes, if it writes one.
    pub fn kind(&self) -> Option<Kind> {
        match self {
            Change::Remove { .. } | Change::Clear { .. } | Change::Live(_) => None,
            Change::String(_) => Some(Kind::String),
            Change::Hash(..) => Some(Kind::Hash),
            Change::Part(kind, ..) => Some(*kind),
            Change::Set(..) => Some(Kind::Set),
            Change::SortedSet(..) => Some(Kind::SortedSet),
            Change::Push { .. } | Change::Element(..) => Some(Kind::List),
            Change::Stream(_) => Some(Kind::Stream),
            Change::Count(_) => Some(Kind::HyperLogLog),
        }
    }
}
