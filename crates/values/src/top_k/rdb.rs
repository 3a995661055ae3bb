// SPDX-License-Identifier: BSD-3-Clause
//! Top-k values in dump files and DUMP: the form of Redis's module, found by comparing its DUMPs.
//!
//! ```text
//! 7                     a module's value
//! module's ID           "TopK-TYPE" in nine characters of 6 bits, then the version 0 of the form
//! k, width, depth       numbers
//! decay                 a double
//! cells                 a string: for each a fingerprint (4) and a count (4), row after row
//! heap                  a string: for each entry fingerprint (4), length of the item (4),
//!                       a pointer that means nothing (8), count (8)
//! for each entry        a string: the item and a NUL
//! 0                     the end
//! ```
//! The first entry's pointer is the state of the generator of chance; Redis ignores it.

use std::io;

use braid_keyspace::object::Object;
use braid_rdb::{Error, Limits, RdbType, SavedObject, Target, ValueDecoder, ValueEncoder, ValueForm};

use super::value::{ENTRY, Kept, Shape, TopK};
use crate::module_fields::{
    read_double, read_end, read_number, read_text, write_double, write_end, write_number, write_pieces,
    write_text,
};

/// The name as six bits a character, and the version of the form.
pub(super) const ID: u64 = 0x4e8a_4af9_360f_1000;

impl SavedObject for TopK {
    fn form(&self, _: Target) -> &'static ValueForm {
        &braid_rdb::MODULE
    }

    fn is_known_to(&self, target: Target) -> bool {
        matches!(target, Target::Own | Target::Redis8)
    }

    fn encode(&self, _: &ValueForm, _: i64, out: &mut ValueEncoder<'_>) -> io::Result<()> {
        let shape = self.shape();
        out.length(ID)?;
        write_number(out, shape.k)?;
        write_number(out, shape.width)?;
        write_number(out, shape.depth)?;
        write_double(out, shape.decay)?;
        write_pieces(out, self.bytes_len(), self.pieces())?;
        let entries = self.heap().iter().enumerate().map(|(at, kept)| {
            let mut entry = [0; ENTRY];
            entry[..4].copy_from_slice(&kept.fingerprint.to_le_bytes());
            let len = kept.item.as_ref().map_or(0, |item| item.len() as u32);
            entry[4..8].copy_from_slice(&len.to_le_bytes());
            if at == 0 {
                entry[8..16].copy_from_slice(&self.random().to_le_bytes());
            }
            entry[16..].copy_from_slice(&u64::from(kept.count).to_le_bytes());
            entry
        });
        write_pieces(out, self.heap().len() * ENTRY, entries)?;
        for kept in self.heap() {
            write_text(out, &[kept.item.as_deref().unwrap_or_default(), b"\0"].concat())?;
        }
        write_end(out)
    }
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

fn long(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

/// Reads a value, after the module's ID.
pub(super) fn decode(
    decoder: &mut ValueDecoder<'_>,
    _: RdbType,
    _: &Limits,
    _: i64,
) -> Result<Object, Error> {
    let (k, width, depth) = (read_number(decoder)?, read_number(decoder)?, read_number(decoder)?);
    let shape = Shape { k, width, depth, decay: read_double(decoder)? };
    let cells = read_text(decoder)?.to_vec();
    let entries = read_text(decoder)?.to_vec();
    let (entries, rest) = entries.as_chunks::<ENTRY>();
    let fits = rest.is_empty() && entries.len() as u64 == k;
    decoder.ensure(fits, "a top-k value whose heap has another size")?;
    let mut heap = Vec::with_capacity(entries.len());
    for entry in entries {
        let (len, count) = (word(&entry[4..8]) as usize, long(&entry[16..]));
        let item = read_text(decoder)?.split_last().filter(|(end, item)| **end == 0 && item.len() == len);
        let item: Option<Box<[u8]>> = item.map(|(_, item)| item.into());
        let item = item.ok_or_else(|| decoder.corrupt("a top-k value with an item of another length"))?;
        let fingerprint = word(&entry[..4]);
        // Where nothing has been, all is 0; the fingerprint tells an empty item from nothing.
        let is_there = !item.is_empty() || fingerprint != 0;
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        heap.push(Kept { item: is_there.then_some(item), fingerprint, count });
    }
    let random = entries.first().map_or(0, |entry| long(&entry[8..16]));
    let value = TopK::restored(shape, &cells, heap, random);
    let value = value.ok_or_else(|| decoder.corrupt("a top-k value of another size than it says"))?;
    read_end(decoder)?;
    Ok(Object::new(value))
}
