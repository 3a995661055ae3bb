// SPDX-License-Identifier: BSD-3-Clause
//! Effects as sent between regions. A unit holds the effects of one command, transaction or
//! script, and is applied whole.
//!
//! A unit names the stamp of its first effect (the others follow consecutively), the last stamp
//! of the preceding unit in its run, and its causal context: everything its region had applied
//! from other regions. From the last two a receiver applies each unit once, in each region's
//! order, and never before a unit that its region had seen, whatever route units take.

use std::ops::Range;

use smallvec::SmallVec;

use crate::Name;
use crate::cell::{CellChange, Sum};
use crate::change::{Change, SeenAt, UnitWrite, Written};
use crate::hidden::{LIBRARIES, is_of_clients};
use crate::plain::fits_block;
use crate::stamp::{Region, Stamp};
use crate::vector::{Run, Vector};

/// Nearly always one effect.
pub type Effects = SmallVec<[Effect; 1]>;

#[derive(Clone, PartialEq, Debug)]
pub struct Unit {
    pub first: Stamp,
    /// The last stamp of the preceding unit, or the start of the run if there is none.
    pub previous: Stamp,
    pub starts_run: bool,
    /// Everything the region had applied, except from the run itself.
    pub seen: Vector,
    pub effects: Effects,
    /// Effects that had seen less, if there are any.
    pub seen_less: Option<Box<SeenLess>>,
}

/// Effects of a unit that had not seen all that the unit's others had: the region was
/// [merging](crate::merging) a full copy, and had not come to their keys.
#[derive(Clone, PartialEq, Debug)]
pub struct SeenLess {
    pub seen: Vector,
    /// The effects, by their numbers in the unit. Some, but not all.
    pub effects: Vec<u32>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    Key {
        /// A client's database, or a [hidden](crate::hidden) one.
        database: u32,
        name: Name,
        change: Change,
    },
    /// FLUSHDB, or FLUSHALL if `database` is `None`: removes all keys that it saw. Libraries are
    /// flushed only if `database` names them.
    Flush { database: Option<u32>, seen: Vec<FlushSeen> },
}

/// An increment that a flush saw.
#[derive(Clone, PartialEq, Debug)]
pub struct FlushSeen {
    pub database: u32,
    pub name: Name,
    pub at: SeenAt,
}

impl Effect {
    /// The client's key that the effect changes; `None` for a flush.
    pub fn key(&self) -> Option<(u32, &Name)> {
        match self {
            Effect::Key { database, name, .. } if is_of_clients(*database) => Some((*database, name)),
            _ => None,
        }
    }

    fn place(&self) -> Option<u32> {
        match self {
            Effect::Key { database, .. } => Some(*database),
            Effect::Flush { database, .. } => *database,
        }
    }

    /// The clients' database that the effect changes; `None` for FLUSHALL.
    pub fn database(&self) -> Option<u32> {
        self.place().filter(|database| is_of_clients(*database))
    }

    pub fn is_of_libraries(&self) -> bool {
        self.place() == Some(LIBRARIES)
    }

    /// The number of stamps that the effect takes.
    pub fn stamps(&self) -> u64 {
        match self {
            Effect::Key { change, .. } => change.stamps(),
            Effect::Flush { .. } => 1,
        }
    }
}

impl Unit {
    pub fn region(&self) -> Region {
        self.first.region()
    }

    /// The unit's last stamp. A unit without effects takes one stamp.
    pub fn last(&self) -> Stamp {
        let count: u64 = self.effects.iter().map(Effect::stamps).sum();
        self.first.plus(count.saturating_sub(1))
    }

    /// What an effect, given by its number in the unit, had seen of other regions.
    pub fn seen_by(&self, effect: usize) -> &Vector {
        match &self.seen_less {
            Some(less) if less.effects.binary_search(&(effect as u32)).is_ok() => &less.seen,
            _ => &self.seen,
        }
    }

    /// The effects with their stamps.
    pub fn stamped(&self) -> impl Iterator<Item = (Stamp, &Effect)> {
        self.effects.iter().scan(self.first, |next, effect| {
            let stamp = *next;
            *next = next.plus(effect.stamps());
            Some((stamp, effect))
        })
    }

    /// The keys of the strings too long for a block that the unit writes: database, name.
    pub fn long_strings(&self) -> impl Iterator<Item = (u32, &Name)> {
        let is_long = |effect: &&Effect| match effect {
            Effect::Key { change: Change::String(CellChange::Put { value, .. }), name, .. } => {
                !fits_block(name, value)
            }
            _ => false,
        };
        self.effects.iter().filter(is_long).filter_map(Effect::key)
    }

    pub fn head(&self) -> Head<'_> {
        Head {
            first: self.first,
            last: self.last(),
            previous: self.previous,
            starts_run: self.starts_run,
            seen: &self.seen,
        }
    }
}

/// The header of a unit, and its last stamp.
#[derive(Clone, Copy, Debug)]
pub struct Head<'u> {
    pub first: Stamp,
    pub last: Stamp,
    pub previous: Stamp,
    pub starts_run: bool,
    pub seen: &'u Vector,
}

impl Head<'_> {
    pub fn region(&self) -> Region {
        self.first.region()
    }

    /// The run that the unit starts or continues.
    pub fn run(&self, applied: &Vector) -> Option<Run> {
        if self.starts_run {
            return Some(Run { start: self.previous, last: self.previous });
        }
        let runs = applied.runs().iter().copied();
        runs.filter(|run| run.start.region() == self.region())
            .find(|run| run.start <= self.previous && self.previous <= run.last)
    }
}

/// The decoded form of a unit that is one plain write. Its texts stay in the unit's bytes.
#[derive(Clone, Debug)]
pub struct Write {
    pub(crate) first: Stamp,
    pub(crate) previous: Stamp,
    pub(crate) starts_run: bool,
    pub(crate) seen: Vector,
    pub(crate) database: u32,
    pub(crate) name: Range<usize>,
    pub(crate) written: Written<Range<usize>, Sum>,
}

impl Write {
    pub fn stamp(&self) -> Stamp {
        self.first
    }

    pub fn database(&self) -> u32 {
        self.database
    }

    /// The key's name, in the unit's bytes.
    pub fn name<'u>(&self, unit: &'u [u8]) -> &'u [u8] {
        &unit[self.name.clone()]
    }

    /// The change, with its texts in the unit's bytes.
    pub fn written<'u>(&self, unit: &'u [u8]) -> UnitWrite<'u> {
        self.written.of_unit(unit)
    }

    pub(crate) fn head(&self) -> Head<'_> {
        Head {
            first: self.first,
            last: self.first,
            previous: self.previous,
            starts_run: self.starts_run,
            seen: &self.seen,
        }
    }
}
