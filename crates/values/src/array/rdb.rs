// SPDX-License-Identifier: BSD-3-Clause
//! Arrays in dump files and DUMP: a form of Braid's own, since that of Redis 8.8 is not known here.
//!
//! ```text
//! cursor, size of the ring: numbers
//! texts, each with the indexes left out before it: a number and a string
//! ```

use std::io;

use braid_keyspace::object::Object;
use braid_rdb::{
    Error, Limits, Part, RdbType, SavedObject, Target, Text as Stored, ValueDecoder, ValueEncoder, ValueForm,
};

use super::value::{Array, INDEX_MAX, Text};

static ARRAY: ValueForm =
    ValueForm::new(238, "Array", &[Part::Number, Part::Number, Part::Members(&[Part::Number, Part::Text])]);

pub(super) static FORMS: &[&ValueForm] = &[&ARRAY];

impl SavedObject for Array {
    fn form(&self, _: Target) -> &'static ValueForm {
        &ARRAY
    }

    fn is_known_to(&self, target: Target) -> bool {
        target == Target::Own
    }

    fn encode(&self, _: &ValueForm, _: i64, out: &mut ValueEncoder<'_>) -> io::Result<()> {
        out.length(self.cursor())?;
        out.length(self.ring())?;
        out.length(self.count())?;
        let mut next = 0;
        for (index, text) in self.iter() {
            out.length(index - next)?;
            out.string(text.bytes())?;
            next = index + 1;
        }
        Ok(())
    }
}

/// Reads an array.
pub(super) fn decode(
    decoder: &mut ValueDecoder<'_>,
    _: RdbType,
    _: &Limits,
    _: i64,
) -> Result<Object, Error> {
    let (cursor, ring) = (decoder.length()?, decoder.length()?);
    let count = decoder.count(2)?;
    decoder.ensure(count > 0, "an array without a text")?;
    let mut array = Array::default();
    let mut next = Some(0u64);
    for _ in 0..count {
        let gap = decoder.length()?;
        let index = next.and_then(|next| next.checked_add(gap)).filter(|index| *index <= INDEX_MAX);
        let index = index.ok_or_else(|| decoder.corrupt("an array with an index that is too large"))?;
        match decoder.text_or_blob()? {
            Ok(Stored::Bytes(bytes)) => array.set(index, Text::Bytes(bytes)),
            Ok(Stored::Integer(number)) => {
                array.set(index, Text::Bytes(itoa::Buffer::new().format(number).as_bytes()))
            }
            Err(blob) => array.set(index, Text::Blob(&blob)),
        };
        next = index.checked_add(1);
    }
    array.set_state(cursor, ring);
    Ok(Object::new(array))
}
