// SPDX-License-Identifier: BSD-3-Clause
//! Count-min sketches in dump files and DUMP: the form of Redis's module, found by comparing its
//! DUMPs.
//!
//! ```text
//! 7                 a module's value
//! module's ID       "CMSk-TYPE" in nine characters of 6 bits, then the version 0 of the form
//! width, depth, sum of all increments: numbers
//! the counters, row after row, 4 bytes each: a string
//! ```
//! Sketches with counters of another size have a form of Braid's own, since that of Redis 8.12 is
//! not known here: the same fields, with the size after the depth.

use std::io;

use braid_keyspace::object::Object;
use braid_rdb::{Error, Limits, Part, RdbType, SavedObject, Target, ValueDecoder, ValueEncoder, ValueForm};

use super::value::{CELL_DEFAULT, CountMin, Shape};
use crate::module_fields::{read_end, read_number, read_text, write_end, write_number, write_pieces};

/// The name as six bits a character, and the version of the form.
pub(super) const ID: u64 = 0x08c4_a4f9_360f_1000;

static OTHER_CELLS: ValueForm = ValueForm::new(
    236,
    "CountMin",
    &[
        Part::Number,
        Part::Number,
        Part::Number,
        Part::Number,
        Part::Number,
        Part::Number,
        Part::Number,
        Part::Number,
        Part::Number,
        Part::Text,
        Part::Number,
    ],
);

pub(super) static FORMS: &[&ValueForm] = &[&OTHER_CELLS];

impl SavedObject for CountMin {
    fn form(&self, _: Target) -> &'static ValueForm {
        if self.shape().cell == CELL_DEFAULT { &braid_rdb::MODULE } else { &OTHER_CELLS }
    }

    fn is_known_to(&self, target: Target) -> bool {
        target == Target::Own || target == Target::Redis8 && self.shape().cell == CELL_DEFAULT
    }

    fn encode(&self, form: &ValueForm, _: i64, out: &mut ValueEncoder<'_>) -> io::Result<()> {
        let shape = self.shape();
        if form.number == braid_rdb::MODULE.number {
            out.length(ID)?;
        }
        write_number(out, shape.width)?;
        write_number(out, shape.depth)?;
        if form.number == OTHER_CELLS.number {
            write_number(out, shape.cell.into())?;
        }
        write_number(out, self.total() as u64)?;
        write_pieces(out, self.bytes_len(), self.pieces())?;
        write_end(out)
    }
}

/// Reads a sketch of either form, after the module's ID.
pub(super) fn decode(
    decoder: &mut ValueDecoder<'_>,
    kind: RdbType,
    _: &Limits,
    _: i64,
) -> Result<Object, Error> {
    let (width, depth) = (read_number(decoder)?, read_number(decoder)?);
    let mut cell = CELL_DEFAULT;
    if kind.number() == OTHER_CELLS.number {
        cell = u8::try_from(read_number(decoder)?).unwrap_or(0);
    }
    let total = read_number(decoder)? as i64;
    let sketch = CountMin::from_bytes(Shape { width, depth, cell }, total, read_text(decoder)?);
    let sketch = sketch.ok_or_else(|| decoder.corrupt("a count-min sketch of another size than it says"))?;
    read_end(decoder)?;
    Ok(Object::new(sketch))
}
