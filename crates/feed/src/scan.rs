// SPDX-License-Identifier: BSD-3-Clause
//! Reads units from the bytes of the journal and finds the changes that a feed is about. It knows
//! bytes and offsets only: a test pushes any pieces.

use braid_journal::Boundary;
use braid_replication::link::LinkError;
use braid_replication::link::units::{StreamRequest, Units};
use braid_spec::CommandTable;
use smallvec::SmallVec;

use crate::change::{Change, changes_of, selected};
use crate::definition::Feed;

/// A unit with changes.
pub struct Found<'f, 'r> {
    /// The offset at which it begins.
    pub place: u64,
    pub bytes: &'r [u8],
    pub changes: &'f [Change<'r>],
}

/// Reads a journal from a unit's beginning on.
#[derive(Default)]
pub struct Scanner {
    units: Units,
    /// Bytes of units that have not been read, and of an incomplete one.
    buffer: Vec<u8>,
    /// The offset of its first byte.
    place: u64,
    /// The database that is selected there.
    db: Option<u32>,
}

impl Scanner {
    /// `db`: the database that is selected there, if it is known.
    pub fn new(place: u64, db: Option<u32>) -> Scanner {
        Scanner { place, db, ..Scanner::default() }
    }

    /// The offset of the first unit that has not been read.
    pub fn place(&self) -> u64 {
        self.place
    }

    /// The database that is selected at [`Scanner::place`].
    pub fn db(&self) -> Option<u32> {
        self.db
    }

    /// Adds bytes that follow those added before.
    ///
    /// # Errors
    /// If they are not requests.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        self.buffer.extend_from_slice(bytes);
        self.units.parse(&self.buffer)
    }

    /// Reads the complete units and passes those with changes to `visit`, until it returns false:
    /// then the unit counts as not read, and the scanner is used up. False if it did.
    pub fn scan(
        &mut self,
        feed: &Feed,
        commands: &CommandTable,
        visit: impl FnMut(&Found<'_, '_>) -> bool,
    ) -> bool {
        let goes_on = self.visit_units(feed, commands, visit);
        if goes_on {
            self.forget();
        }
        goes_on
    }

    fn visit_units(
        &mut self,
        feed: &Feed,
        commands: &CommandTable,
        mut visit: impl FnMut(&Found<'_, '_>) -> bool,
    ) -> bool {
        let Scanner { units, buffer, place, db } = self;
        let mut changes = Vec::new();
        let mut args: SmallVec<[&[u8]; 8]> = SmallVec::new();
        for unit in units.requests().split_inclusive(|request| request.ends_unit) {
            let bytes = bytes_of(unit);
            let before = *db;
            changes.clear();
            for request in unit {
                args.clear();
                args.extend(units.args(request, buffer));
                match selected(&args) {
                    Some(selected) => *db = selected,
                    None => changes_of(feed, commands, *db, &args, &mut changes),
                }
            }
            let start = *place + bytes.start as u64;
            let found = Found { place: start, bytes: &buffer[bytes], changes: &changes };
            if !changes.is_empty() && !visit(&found) {
                (*place, *db) = (start, before);
                return false;
            }
        }
        true
    }

    /// Passes over the complete units until one ends at an offset or after it, and returns that
    /// one; then the scanner is used up.
    pub fn skip_until(&mut self, offset: u64) -> Option<Landed<'_>> {
        let Scanner { units, buffer, place, db } = self;
        let mut landed = None;
        for unit in units.requests().split_inclusive(|request| request.ends_unit) {
            let (bytes, before) = (bytes_of(unit), *db);
            for request in unit {
                let mut args = units.args(request, buffer);
                if args.len() == 2
                    && let (Some(name), Some(given)) = (args.next(), args.next())
                    && let Some(selected) = selected(&[name, given])
                {
                    *db = selected;
                }
            }
            if *place + bytes.end as u64 >= offset {
                landed = Some((bytes, before));
                break;
            }
        }
        match landed {
            Some((bytes, before)) => {
                let (begin, end) = (self.place + bytes.start as u64, self.place + bytes.end as u64);
                Some(Landed {
                    begin: Boundary { offset: begin, db: before },
                    end: Boundary { offset: end, db: self.db },
                    unit: &self.buffer[bytes],
                })
            }
            None => {
                self.forget();
                None
            }
        }
    }

    /// Drops the units that have been read.
    fn forget(&mut self) {
        let used = self.units.forget();
        self.buffer.drain(..used);
        self.place += used as u64;
    }
}

/// The unit at which a walk has ended.
pub struct Landed<'s> {
    pub begin: Boundary,
    pub end: Boundary,
    pub unit: &'s [u8],
}

fn bytes_of(unit: &[StreamRequest]) -> std::ops::Range<usize> {
    let first = unit.first().map_or(0, |request| request.bytes.start);
    first..unit.last().map_or(first, |request| request.bytes.end)
}
