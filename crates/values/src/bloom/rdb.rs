// SPDX-License-Identifier: BSD-3-Clause
//! Bloom filters in dump files: the header of BF.SCANDUMP, then the blocks of bits.
//!
//! The form is Braid's own, under a number that stock servers refuse. A server without Redis 8's
//! Bloom module could not read that module's form either.

use std::io;

use braid_keyspace::object::Object;
use braid_rdb::{Error, Limits, Part, RdbType, SavedObject, Target, ValueDecoder, ValueEncoder, ValueForm};

use super::chunks::{from_header, header};
use super::value::{Bloom, SEGMENT};

static FORM: ValueForm = ValueForm::new(242, "Bloom", &[Part::Text, Part::Members(&[Part::Text])]);

pub(super) static FORMS: &[&ValueForm] = &[&FORM];

impl SavedObject for Bloom {
    fn form(&self, _: Target) -> &'static ValueForm {
        &FORM
    }

    fn is_known_to(&self, target: Target) -> bool {
        target == Target::Own
    }

    fn encode(&self, _: &ValueForm, _: i64, out: &mut ValueEncoder<'_>) -> io::Result<()> {
        out.string(&header(self))?;
        out.length(self.segment_count() as u64)?;
        self.layers().iter().flat_map(|layer| layer.segments()).try_for_each(|block| out.string(block))
    }

    fn member_count(&self) -> usize {
        // Unused: members do not expire.
        0
    }
}

/// Reads a filter.
pub(super) fn decode(
    decoder: &mut ValueDecoder<'_>,
    _: RdbType,
    _: &Limits,
    _: i64,
) -> Result<Object, Error> {
    let bloom = from_header(decoder.string()?);
    let mut bloom = bloom.ok_or_else(|| decoder.corrupt("an invalid Bloom filter header"))?;
    let count = decoder.count(1)?;
    decoder.ensure(count == bloom.segment_count(), "a Bloom filter whose blocks do not match its header")?;
    for layer in bloom.layers_mut() {
        let (mut at, end) = (0, layer.shape.bytes());
        while at < end {
            let len = (SEGMENT as u64).min(end - at);
            let block = decoder.string()?;
            let fits = block.len() as u64 == len && layer.write(at, block);
            decoder.ensure(fits, "a Bloom filter's block of a wrong length")?;
            at += len;
        }
    }
    Ok(Object::new(bloom))
}
