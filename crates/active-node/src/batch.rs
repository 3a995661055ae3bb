// SPDX-License-Identifier: BSD-3-Clause
//! Units received together from a peer, stored in one buffer.

use std::cell::OnceCell;
use std::ops::Range;

use braid_active::Stamp;
use braid_active::effect::{Effect, Unit};
use braid_active::wire::{DecodeError, decode};
use braid_active::write::Write;

/// Units received together, in order.
#[derive(Default)]
pub(crate) struct Batch {
    /// The encoded units, concatenated.
    bytes: Vec<u8>,
    units: Vec<Received>,
}

/// A unit's range in its batch, and its decoded form.
pub(crate) struct Received {
    range: Range<usize>,
    /// Set for a plain write.
    write: Option<Write>,
    /// Set for any other unit, and for a plain write once it has been decoded in full.
    whole: OnceCell<Box<Unit>>,
}

/// A unit of a batch.
#[derive(Clone, Copy)]
pub(crate) struct BatchUnit<'b> {
    pub bytes: &'b [u8],
    received: &'b Received,
}

/// Maximum number of units that memory is set aside for before they have come.
const EXPECTED_MAX: usize = 4096;

impl Batch {
    /// Creates an empty batch that is expected to get `count` units.
    pub fn with_capacity(count: usize) -> Batch {
        Batch { bytes: Vec::new(), units: Vec::with_capacity(count.min(EXPECTED_MAX)) }
    }

    /// Adds a unit and returns the highest database number it refers to.
    ///
    /// # Errors
    /// If the unit cannot be decoded; it is not added then.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<u32>, DecodeError> {
        let start = self.bytes.len();
        let (write, mut whole) = (Write::read(bytes), OnceCell::new());
        let database = match &write {
            Some(write) => Some(write.database()),
            None => {
                let unit = Box::new(decode(bytes)?);
                let database = unit.effects.iter().filter_map(Effect::database).max();
                whole = OnceCell::from(unit);
                database
            }
        };
        self.bytes.extend_from_slice(bytes);
        self.units.push(Received { range: start..self.bytes.len(), write, whole });
        Ok(database)
    }

    pub fn len(&self) -> usize {
        self.units.len()
    }

    /// Total bytes of the encoded units.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub fn last(&self) -> Option<Stamp> {
        let last = self.units.last()?;
        last.write.as_ref().map(Write::stamp).or_else(|| Some(last.whole.get()?.last()))
    }

    pub fn units(&self) -> impl Iterator<Item = BatchUnit<'_>> {
        self.units.iter().map(|received| BatchUnit { bytes: &self.bytes[received.range.clone()], received })
    }
}

impl<'b> BatchUnit<'b> {
    /// The plain write, if the unit is one.
    pub fn write(&self) -> Option<&'b Write> {
        self.received.write.as_ref()
    }

    /// The fully decoded unit.
    ///
    /// # Errors
    /// If the unit cannot be decoded.
    pub fn whole(&self) -> Result<&'b Unit, DecodeError> {
        if let Some(unit) = self.received.whole.get() {
            return Ok(unit);
        }
        let unit = Box::new(decode(self.bytes)?);
        Ok(self.received.whole.get_or_init(|| unit))
    }

    pub fn first(&self) -> Option<Stamp> {
        self.write().map(Write::stamp).or_else(|| Some(self.received.whole.get()?.first))
    }

    /// The key of the unit's first effect, if that effect has a key.
    pub fn key(&self) -> Option<(u32, &'b [u8])> {
        match self.write() {
            Some(write) => Some((write.database(), write.name(self.bytes))),
            None => self
                .received
                .whole
                .get()?
                .effects
                .first()?
                .key()
                .map(|(database, name)| (database, &name[..])),
        }
    }
}
