// SPDX-License-Identifier: BSD-3-Clause
//! T-digests in dump files and DUMP: the form of Redis's module, found by comparing its DUMPs.
//!
//! ```text
//! 7                     a module's value
//! module's ID           "TDIS-TYPE" in nine characters of 6 bits, then the version 0 of the form
//! compression, min, max                   doubles
//! capacity, centroids, 0, merges          numbers
//! weight of the centroids, 0              doubles
//! means, then weights                     a double for each centroid
//! 0                     the end
//! ```
//! The form has no numbers that wait to be merged. Written for other servers, a digest is merged
//! first. For this server, which must continue exactly where it was, there is a form of its own:
//! the same fields, with the number of waiting numbers in place of the first 0, their weight in
//! that of the second, and them behind the centroids.

use std::io;

use braid_keyspace::object::Object;
use braid_rdb::{Error, Limits, Part, RdbType, SavedObject, Target, ValueDecoder, ValueEncoder, ValueForm};

use super::value::{Centroid, Head, TDigest};
use crate::module_fields::{
    read_double, read_end, read_number, read_text, write_double, write_end, write_number, write_text,
};

/// The name as six bits a character, and the version of the form.
pub(super) const ID: u64 = 0x4c32_12f9_360f_1000;

/// One string of fields, so that it can be skipped.
static WITH_WAITING: ValueForm = ValueForm::new(237, "TDigest", &[Part::Number, Part::Text, Part::Number]);

pub(super) static FORMS: &[&ValueForm] = &[&WITH_WAITING];

impl SavedObject for TDigest {
    fn form(&self, target: Target) -> &'static ValueForm {
        let is_own = target == Target::Own && self.waiting().len() > 0;
        if is_own { &WITH_WAITING } else { &braid_rdb::MODULE }
    }

    fn is_known_to(&self, target: Target) -> bool {
        matches!(target, Target::Own | Target::Redis8)
    }

    fn encode(&self, form: &ValueForm, _: i64, out: &mut ValueEncoder<'_>) -> io::Result<()> {
        if form.number == WITH_WAITING.number {
            write_text(out, &own_bytes(self))?;
            return write_end(out);
        }
        let digest = self.all_merged();
        let Head { compression, min, max, merges } = digest.head();
        out.length(ID)?;
        write_double(out, compression.into())?;
        write_double(out, min)?;
        write_double(out, max)?;
        write_number(out, digest.capacity() as u64)?;
        write_number(out, digest.merged().len() as u64)?;
        write_number(out, 0)?;
        write_number(out, merges)?;
        write_double(out, digest.merged_weight())?;
        write_double(out, 0.0)?;
        digest.merged().iter().try_for_each(|centroid| write_double(out, centroid.mean))?;
        digest.merged().iter().try_for_each(|centroid| write_double(out, centroid.weight))?;
        write_end(out)
    }
}

/// Number of centroids (8), merges (8), compression (8), min, max, and for each centroid and each
/// waiting number its mean and its weight.
pub(super) fn own_bytes(digest: &TDigest) -> Vec<u8> {
    let Head { compression, min, max, merges } = digest.head();
    let mut out = Vec::new();
    for number in [digest.merged().len() as u64, merges, compression.into(), min.to_bits(), max.to_bits()] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    for Centroid { mean, weight } in digest.merged().iter().copied().chain(digest.waiting()) {
        out.extend_from_slice(&mean.to_le_bytes());
        out.extend_from_slice(&weight.to_le_bytes());
    }
    out
}

fn from_own_bytes(bytes: &[u8]) -> Option<TDigest> {
    let (numbers, []) = bytes.as_chunks::<8>() else { return None };
    let (head, centroids) = numbers.split_at_checked(5)?;
    let [count, merges, compression, min, max] = *head else { return None };
    let (count, compression) = (u64::from_le_bytes(count), u64::from_le_bytes(compression));
    let head = Head {
        compression: compression.try_into().ok()?,
        min: f64::from_le_bytes(min),
        max: f64::from_le_bytes(max),
        merges: u64::from_le_bytes(merges),
    };
    let (centroids, []) = centroids.as_chunks::<2>() else { return None };
    let centroid = |[mean, weight]: &[[u8; 8]; 2]| Centroid {
        mean: f64::from_le_bytes(*mean),
        weight: f64::from_le_bytes(*weight),
    };
    let (merged, waiting) = centroids.split_at_checked(usize::try_from(count).ok()?)?;
    let (merged, waiting) = (merged.iter().map(centroid), waiting.iter().map(centroid));
    TDigest::from_parts(head, merged.collect(), waiting.collect())
}

/// Reads a digest of either form, after the module's ID.
pub(super) fn decode(
    decoder: &mut ValueDecoder<'_>,
    kind: RdbType,
    _: &Limits,
    _: i64,
) -> Result<Object, Error> {
    const INVALID: &str = "a t-digest with invalid parameters";
    if kind.number() == WITH_WAITING.number {
        let digest = from_own_bytes(read_text(decoder)?);
        let digest = digest.ok_or_else(|| decoder.corrupt(INVALID))?;
        read_end(decoder)?;
        return Ok(Object::new(digest));
    }
    let compression = read_double(decoder)?;
    let (min, max) = (read_double(decoder)?, read_double(decoder)?);
    let (_capacity, count) = (read_number(decoder)?, read_number(decoder)?);
    let (waiting, merges) = (read_number(decoder)?, read_number(decoder)?);
    let (_merged_weight, _waiting_weight) = (read_double(decoder)?, read_double(decoder)?);
    let is_known = compression.fract() == 0.0 && (1.0..=f64::from(u32::MAX)).contains(&compression);
    // Redis leaves a single number unmerged, and its form does not have it but as extremes.
    let is_single = (count, waiting) == (0, 1) && min == max && min.is_finite();
    decoder.ensure(is_known && (waiting == 0 || is_single), INVALID)?;
    // The room is made as doubles come: the count may be damaged.
    let mut merged = Vec::new();
    for _ in 0..count {
        merged.push(Centroid { mean: read_double(decoder)?, weight: 0.0 });
    }
    for centroid in &mut merged {
        centroid.weight = read_double(decoder)?;
    }
    read_end(decoder)?;
    merged.shrink_to_fit();
    let head = Head { compression: compression as u32, min, max, merges };
    let single = is_single.then_some(Centroid { mean: min, weight: 1.0 });
    let digest = TDigest::from_parts(head, merged, single.into_iter().collect());
    Ok(Object::new(digest.ok_or_else(|| decoder.corrupt(INVALID))?))
}
