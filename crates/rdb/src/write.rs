// SPDX-License-Identifier: BSD-3-Clause
//! Writing values: strings here, all others by their types ([`SavedObject`]).

use std::io::{self, Write};

use crate::encode::Encoder;
use crate::kind::Kind;
use crate::object::{SavedObject, Staged};
use crate::target::{Format, Target};

/// A value to be written.
#[derive(Clone, Copy)]
pub enum ValueRef<'a> {
    Text(&'a [u8]),
    Integer(i64),
    Object(&'a dyn SavedObject),
}

/// What stands for the time of a field or member without one.
pub const NO_TIME: i64 = -1;

impl ValueRef<'_> {
    /// The form under which it is written for this server itself.
    pub fn kind(self) -> Kind {
        self.kind_for(Target::Own)
    }

    pub(crate) fn kind_for(self, target: Target) -> Kind {
        match self {
            ValueRef::Text(_) | ValueRef::Integer(_) => Kind::STRING,
            ValueRef::Object(object) => Kind(object.form(target)),
        }
    }

    /// Adds the packed form of a collection that has one, and is written in it, to `out`; the form
    /// under which it is written. Copying it takes less time than writing it:
    /// [`FileWriter::packed_key`](crate::FileWriter::packed_key) does that later.
    pub fn take_packed(self, format: Format, out: &mut Vec<u8>) -> Option<Kind> {
        let ValueRef::Object(object) = self else { return None };
        let kind = self.kind();
        (format.kind(self) == kind && object.take_packed(out)).then_some(kind)
    }
}

impl<W: Write> Encoder<W> {
    /// The form of a value.
    pub fn kind(&mut self, kind: Kind) -> io::Result<()> {
        self.byte(kind.number())
    }

    /// A value, behind its form ([`Format::kind`]).
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

    /// Has something written by code that is compiled for one sink only.
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

    /// A value of which [`ValueRef::take_packed`] has taken the form, behind its form.
    pub(crate) fn packed(&mut self, kind: Kind, bytes: &[u8]) -> io::Result<()> {
        for &number in kind.0.packed_head {
            self.length(number)?;
        }
        self.string(bytes)
    }
}
