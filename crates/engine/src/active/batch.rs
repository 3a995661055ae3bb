// SPDX-License-Identifier: BSD-3-Clause
//! Units that came together from a peer, in one piece of memory.

use std::cell::OnceCell;
use std::ops::Range;

use braid_active::Stamp;
use braid_active::effect::{Effect, Unit};
use braid_active::wire::{DecodeError, decode};
use braid_active::write::Write;

/// See the module.
#[derive(Default)]
pub(crate) struct Batch {
    /// Those of all units, one after another.
    bytes: Vec<u8>,
    units: Vec<Received>,
}

/// Where a unit is in its batch, and what it is.
pub(crate) struct Received {
    range: Range<usize>,
    /// Of a plain write.
    write: Option<Write>,
    /// Of what is none, or turned out to need all of it.
    whole: OnceCell<Box<Unit>>,
}

/// A unit of a batch.
#[derive(Clone, Copy)]
pub(crate) struct BatchUnit<'b> {
    pub bytes: &'b [u8],
    received: &'b Received,
}

impl Batch {
    /// Adds a unit, and answers the last of the databases that it is about.
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

    /// Bytes of the units.
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
    /// What it is, if it is a plain write.
    pub fn write(&self) -> Option<&'b Write> {
        self.received.write.as_ref()
    }

    /// All of it.
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

    /// The first key that it is about, if it is one.
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
