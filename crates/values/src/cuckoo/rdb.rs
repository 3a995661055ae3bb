// SPDX-License-Identifier: BSD-3-Clause
//! Cuckoo filters in dump files and DUMP: the form of Redis's module, found by comparing its DUMPs.
//!
//! ```text
//! 7                     a module's value
//! module's ID           "MBbloomCF" in nine characters of 6 bits, then the version 4 of the form
//! sub-filters, buckets of the first, items, deleted items, fingerprints in a bucket, iterations,
//! expansion             numbers
//! each sub-filter       its buckets, a number; its fingerprints, a string
//! 0                     the end
//! ```

use std::io;

use braid_keyspace::object::Object;
use braid_rdb::{Error, Limits, RdbType, SavedObject, Target, ValueDecoder, ValueEncoder, ValueForm};

use super::value::{Cuckoo, Shape};
use crate::module_fields::{read_end, read_number, read_text, write_end, write_number, write_pieces};

/// The name as six bits a character, and the version of the form.
pub(super) const ID: u64 = 0x3016_e5a2_8982_1404;

impl SavedObject for Cuckoo {
    fn form(&self, _: Target) -> &'static ValueForm {
        &braid_rdb::MODULE
    }

    fn is_known_to(&self, target: Target) -> bool {
        matches!(target, Target::Own | Target::Redis8)
    }

    fn encode(&self, _: &ValueForm, _: i64, out: &mut ValueEncoder<'_>) -> io::Result<()> {
        let shape = self.shape();
        out.length(ID)?;
        for number in [
            self.layer_count() as u64,
            shape.buckets,
            self.items(),
            self.deleted(),
            shape.bucket_size.into(),
            shape.iterations.into(),
            shape.expansion.into(),
        ] {
            write_number(out, number)?;
        }
        for index in 0..self.layer_count() {
            let (buckets, len, pieces) = self.layer(index);
            write_number(out, buckets)?;
            write_pieces(out, len, pieces)?;
        }
        write_end(out)
    }
}

/// Reads a filter, after the module's ID.
pub(super) fn decode(
    decoder: &mut ValueDecoder<'_>,
    _: RdbType,
    _: &Limits,
    _: i64,
) -> Result<Object, Error> {
    let layers = read_number(decoder)?;
    let buckets = read_number(decoder)?;
    let (items, deleted) = (read_number(decoder)?, read_number(decoder)?);
    let mut small = || Ok(u16::try_from(read_number(decoder)?).unwrap_or(0));
    let (bucket_size, iterations) = (small()?, small()?);
    let expansion = read_number(decoder)?;
    let expansion = u16::try_from(expansion).unwrap_or(u16::MAX);
    let shape = Shape { buckets, bucket_size, iterations, expansion };
    let filter = Cuckoo::empty_of(shape, items, deleted, layers);
    let mut filter = filter.ok_or_else(|| decoder.corrupt("a cuckoo filter with invalid parameters"))?;
    for index in 0..filter.layer_count() {
        let buckets = read_number(decoder)?;
        let fits = filter.load_layer(index, buckets, read_text(decoder)?);
        decoder.ensure(fits, "a cuckoo filter with a sub-filter of another size")?;
    }
    read_end(decoder)?;
    Ok(Object::new(filter))
}
