// SPDX-License-Identifier: BSD-3-Clause
//! Writes values: strings here, all others by their types ([`SavedObject`]).

use std::io::{self, Write};

use braid_containers::listpack::Element;

use crate::encode::Encoder;
use crate::object::SavedObject;
use crate::rdb_type::RdbType;
use crate::staged::Staged;
use crate::target::{Format, Target};

/// A value, for writing.
#[derive(Clone, Copy)]
pub enum ValueRef<'a> {
    Text(&'a [u8]),
    Integer(i64),
    Object(&'a dyn SavedObject),
}

/// Encoded time of a field or member without expiry.
pub const NO_TIME: i64 = -1;

impl ValueRef<'_> {
    /// The form for this server itself.
    pub fn kind(self) -> RdbType {
        self.kind_for(Target::Own)
    }

    pub(crate) fn kind_for(self, target: Target) -> RdbType {
        match self {
            ValueRef::Text(_) | ValueRef::Integer(_) => RdbType::STRING,
            ValueRef::Object(object) => RdbType(object.form(target)),
        }
    }

    /// Appends the packed form of a collection to `out`, if it is written as one, and returns
    /// that form. Copying is cheaper than encoding, which
    /// [`FileWriter::packed_key`](crate::FileWriter::packed_key) does later.
    pub fn take_packed(self, format: Format, out: &mut Vec<u8>) -> Option<RdbType> {
        let ValueRef::Object(object) = self else { return None };
        let kind = self.kind();
        (format.kind(self) == kind && object.take_packed(out)).then_some(kind)
    }
}

impl ValueRef<'_> {
    /// True if some of its members expire.
    pub(crate) fn has_times(self) -> bool {
        matches!(self, ValueRef::Object(object) if object.has_times())
    }

    /// Calls `see` with each expiring member and its time.
    pub(crate) fn for_each_time(self, mut see: impl FnMut(Element<'_>, i64)) {
        if let ValueRef::Object(object) = self {
            object.for_each_time(&mut see);
        }
    }

    /// Number of members that are unexpired at this time.
    pub(crate) fn members_at(self, now_ms: i64) -> usize {
        if let ValueRef::Object(object) = self { object.members_at(now_ms) } else { 0 }
    }
}

/// How values are represented in a format.
impl Format {
    /// The version of a single value.
    pub(crate) fn version_of(self, value: ValueRef<'_>) -> u16 {
        self.version(value.has_times())
    }

    /// The form in which a value is written.
    pub fn kind(self, value: ValueRef<'_>) -> RdbType {
        value.kind_for(self.target)
    }

    /// True if a value has times that its form cannot store.
    fn is_without_times(self, value: ValueRef<'_>) -> bool {
        match value {
            ValueRef::Object(object) => object.has_times() && !object.keeps_times(self.kind(value).0),
            _ => false,
        }
    }

    /// The time as of which expired members are left out: the current time, or one before all
    /// expiries.
    pub(crate) fn time_for(self, value: ValueRef<'_>) -> i64 {
        if self.is_without_times(value) { self.now_ms } else { i64::MIN }
    }

    /// True if the target does not have the type: the key is left out.
    pub fn is_foreign(self, value: ValueRef<'_>) -> bool {
        matches!(value, ValueRef::Object(object) if !object.is_known_to(self.target))
    }

    /// True if the key is left out, because it has no members left or because the target does not
    /// have the type.
    pub fn is_void(self, value: ValueRef<'_>) -> bool {
        self.is_foreign(value) || (self.is_without_times(value) && value.members_at(self.now_ms) == 0)
    }

    /// True if times are written as notes after the value, like KeyDB.
    pub(crate) fn has_notes(self, value: ValueRef<'_>) -> bool {
        self.target == Target::KeyDb && self.is_without_times(value)
    }

    /// Number of members that become permanent because their expiry cannot be stored. `in_file`:
    /// false for a single value.
    pub fn times_left_out(self, value: ValueRef<'_>, in_file: bool) -> u64 {
        let mut count = 0;
        if self.is_without_times(value) && !(in_file && self.has_notes(value)) {
            value.for_each_time(|_, time| count += u64::from(time >= self.now_ms));
        }
        count
    }
}

impl<W: Write> Encoder<W> {
    /// Writes the form of a value.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn kind(&mut self, kind: RdbType) -> io::Result<()> {
        self.byte(kind.number())
    }

    /// Writes a value, after its form ([`Format::kind`]).
    ///
    /// # Errors
    /// If the sink fails.
    pub fn value(&mut self, value: ValueRef<'_>) -> io::Result<()> {
        match value {
            ValueRef::Text(text) => self.string(text),
            ValueRef::Integer(number) => self.integer(number),
            ValueRef::Object(object) => {
                let (form, now_ms) = (self.format.kind(value).0, self.format.time_for(value));
                self.staged(|out| object.encode(form, now_ms, out))
            }
        }
    }

    /// Calls `write`, which is compiled for a single sink type.
    fn staged(&mut self, write: impl FnOnce(&mut Encoder<Staged<'_>>) -> io::Result<()>) -> io::Result<()> {
        let (format, compressor, stage) =
            (self.format, self.compressor.take(), std::mem::take(&mut self.stage));
        let out = Staged::new(&mut self.out, stage);
        let mut inner = Encoder { out, compressor, format, stage: Vec::new() };
        let written = write(&mut inner).and_then(|()| inner.out.flush_stage());
        let Encoder { out, compressor, .. } = inner;
        (self.compressor, self.stage) = (compressor, out.into_buffer());
        written
    }

    /// Writes a value copied by [`ValueRef::take_packed`], after its form.
    pub(crate) fn packed(&mut self, kind: RdbType, bytes: &[u8]) -> io::Result<()> {
        for &number in kind.0.packed_head {
            self.length(number)?;
        }
        self.string(bytes)
    }
}
