// SPDX-License-Identifier: BSD-3-Clause
//! What an effect does to a key, as it travels.

use crate::Bytes;
use crate::cell::{CellChange, Time};
use crate::place::{Place, Side};
use crate::stream::StreamChange;
use crate::tally::SeenTally;

/// The types of values, in the order that decides when regions give one key different ones: the
/// last of them shows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    String,
    HyperLogLog,
    List,
    Set,
    Hash,
    SortedSet,
    Stream,
}

impl Kind {
    pub const ALL: [Kind; 7] =
        [Kind::String, Kind::HyperLogLog, Kind::List, Kind::Set, Kind::Hash, Kind::SortedSet, Kind::Stream];

    /// Its name, as TYPE gives it; HyperLogLogs have one of their own.
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::HyperLogLog => "hyperloglog",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::Hash => "hash",
            Kind::SortedSet => "zset",
            Kind::Stream => "stream",
        }
    }

    /// Its bit in a set of types.
    pub(crate) fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A tally that a removal saw, and where. The element is empty for a string.
#[derive(Clone, PartialEq, Debug)]
pub struct SeenAt {
    pub kind: Kind,
    pub element: Bytes,
    pub tally: SeenTally,
}

/// A change of one key. All of them remove only what their region had seen.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// Removes the key: DEL, and what overwrites it or creates it anew.
    Remove {
        seen: Vec<SeenAt>,
    },
    /// Removes the key's value of a type that does not show.
    Clear {
        kind: Kind,
        seen: Vec<SeenAt>,
    },
    Live(Time),
    String(CellChange<Bytes>),
    Hash(Bytes, CellChange<Bytes>),
    Set(Bytes, CellChange<()>),
    SortedSet(Bytes, CellChange<f64>),
    /// Each value takes a stamp.
    Push {
        side: Side,
        values: Vec<Bytes>,
    },
    Element(Place, CellChange<Bytes>),
    Stream(StreamChange),
    /// Registers and ranks.
    Count(Vec<(u16, u8)>),
}

impl Change {
    /// Stamps that it takes.
    pub fn stamps(&self) -> u64 {
        match self {
            Change::Push { values, .. } => (values.len() as u64).max(1),
            _ => 1,
        }
    }

    /// The type that it writes, if it is of one.
    pub fn kind(&self) -> Option<Kind> {
        match self {
            Change::Remove { .. } | Change::Clear { .. } | Change::Live(_) => None,
            Change::String(_) => Some(Kind::String),
            Change::Hash(..) => Some(Kind::Hash),
            Change::Set(..) => Some(Kind::Set),
            Change::SortedSet(..) => Some(Kind::SortedSet),
            Change::Push { .. } | Change::Element(..) => Some(Kind::List),
            Change::Stream(_) => Some(Kind::Stream),
            Change::Count(_) => Some(Kind::HyperLogLog),
        }
    }
}
