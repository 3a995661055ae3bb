// SPDX-License-Identifier: BSD-3-Clause
//! Bloom filters in dump files and DUMP: the form of Redis's module, found by comparing its DUMPs.
//!
//! ```text
//! 7                     a module's value
//! module's ID           "MBbloom--" in nine characters of 6 bits, then the version 4 of the form
//! items, sub-filters, options, expansion     numbers
//! each sub-filter       capacity, a number; error rate, a double; hashes, a number; bits per item,
//!                       a double; bits, and the exponent of a power of two of bits, or 0, numbers;
//!                       the bits, a string; items, a number
//! 0                     the end
//! ```
//! Earlier versions of this server wrote a form of their own, which is still read: the header of
//! BF.SCANDUMP, then the blocks of bits.

use std::io;

use braid_keyspace::object::Object;
use braid_rdb::{Error, Limits, Part, RdbType, SavedObject, Target, ValueDecoder, ValueEncoder, ValueForm};

use super::chunks::{LayerFields, expansion, from_fields, from_header, options};
use super::value::{Bloom, SEGMENT};
use crate::module_fields::{
    read_double, read_end, read_number, read_text, write_double, write_end, write_number, write_pieces,
};

/// The name as six bits a character, and the version of the form.
pub(super) const ID: u64 = 0x3016_e5a2_89be_f804;

static BLOCKS: ValueForm = ValueForm::new(242, "Bloom", &[Part::Text, Part::Members(&[Part::Text])]);

pub(super) static FORMS: &[&ValueForm] = &[&BLOCKS];

impl SavedObject for Bloom {
    fn form(&self, _: Target) -> &'static ValueForm {
        &braid_rdb::MODULE
    }

    fn is_known_to(&self, target: Target) -> bool {
        matches!(target, Target::Own | Target::Redis8)
    }

    fn encode(&self, _: &ValueForm, _: i64, out: &mut ValueEncoder<'_>) -> io::Result<()> {
        out.length(ID)?;
        write_number(out, self.items())?;
        write_number(out, self.layers().len() as u64)?;
        write_number(out, options(self).into())?;
        write_number(out, expansion(self).into())?;
        for layer in self.layers() {
            let shape = layer.shape;
            write_number(out, shape.capacity)?;
            write_double(out, shape.error)?;
            write_number(out, shape.hashes.into())?;
            write_double(out, shape.bits_per_item)?;
            write_number(out, shape.bits)?;
            write_number(out, 0)?;
            write_pieces(out, shape.bytes() as usize, layer.segments())?;
            write_number(out, layer.items)?;
        }
        write_end(out)
    }
}

/// Reads a filter of either form, after the module's ID.
pub(super) fn decode(
    decoder: &mut ValueDecoder<'_>,
    kind: RdbType,
    _: &Limits,
    _: i64,
) -> Result<Object, Error> {
    let bloom =
        if kind.number() == BLOCKS.number { decode_blocks(decoder)? } else { decode_module(decoder)? };
    Ok(Object::new(bloom))
}

fn decode_module(decoder: &mut ValueDecoder<'_>) -> Result<Bloom, Error> {
    const INVALID: &str = "a Bloom filter with invalid parameters";
    let (items, count) = (read_number(decoder)?, read_number(decoder)?);
    let (options, expansion) = (read_number(decoder)?, read_number(decoder)?);
    let (mut layers, mut all_bits) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let capacity = read_number(decoder)?;
        let error = read_double(decoder)?;
        let hashes = read_number(decoder)?;
        let bits_per_item = read_double(decoder)?;
        let (bits, exponent) = (read_number(decoder)?, read_number(decoder)?);
        let bytes = read_text(decoder)?.to_vec();
        let fields = LayerFields {
            bytes: bytes.len() as u64,
            bits,
            items: read_number(decoder)?,
            error,
            bits_per_item,
            hashes: u32::try_from(hashes).unwrap_or(0),
            capacity,
            exponent: u8::try_from(exponent).unwrap_or(u8::MAX),
        };
        layers.push(fields);
        all_bits.push(bytes);
    }
    read_end(decoder)?;
    let word = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let bloom = from_fields(items, word(options), word(expansion), &layers);
    let mut bloom = bloom.ok_or_else(|| decoder.corrupt(INVALID))?;
    let fit = bloom.layers_mut().iter_mut().zip(&all_bits).all(|(layer, bits)| layer.write(0, bits));
    decoder.ensure(fit, INVALID)?;
    Ok(bloom)
}

fn decode_blocks(decoder: &mut ValueDecoder<'_>) -> Result<Bloom, Error> {
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
    Ok(bloom)
}
