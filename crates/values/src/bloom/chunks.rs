// SPDX-License-Identifier: BSD-3-Clause
//! A filter in chunks, as BF.SCANDUMP returns and BF.LOADCHUNK accepts them, in Redis's own
//! format.
//!
//! ```text
//! header:  items (8), sub-filters (4), options (4), expansion (4), and for each sub-filter
//!          bytes (8), bits (8), items (8), error rate (8), bits per item (8), hashes (4),
//!          capacity (8), exponent of a power of two of bits, or 0 (1)
//! pieces:  the bits of the sub-filters, one after the other
//! ```
//! All numbers are little endian. The header's iterator is 1, a piece's iterator is the offset of
//! its end plus one. Headers are untrusted: every field is checked.

use super::value::{BYTES_MAX, Bloom, EXPANSION_DEFAULT, EXPANSION_MAX, LAYERS_MAX, Layer, Shape};

/// The iterator of the header.
pub const HEADER: u64 = 1;
/// Maximum size of a piece, in bytes.
pub const PIECE_MAX: usize = 16 << 20;

/// The number of bits is a multiple of 64 rather than a power of two, and hashes have 64 bits.
const OPTIONS: u32 = 1 | 4;
const NONSCALING: u32 = 8;
const HASHES_MAX: u32 = 4096;

/// The options of a filter.
pub(super) fn options(bloom: &Bloom) -> u32 {
    if bloom.expansion() == 0 { OPTIONS | NONSCALING } else { OPTIONS }
}

/// The size factor as Redis stores it: a filter that does not scale has the default one, and an
/// option that forbids it.
pub(super) fn expansion(bloom: &Bloom) -> u32 {
    if bloom.expansion() == 0 { EXPANSION_DEFAULT } else { bloom.expansion() }
}

/// Encodes a filter's header.
pub fn header(bloom: &Bloom) -> Vec<u8> {
    let mut out = Vec::with_capacity(20 + bloom.layers().len() * 53);
    out.extend_from_slice(&bloom.items().to_le_bytes());
    out.extend_from_slice(&(bloom.layers().len() as u32).to_le_bytes());
    out.extend_from_slice(&options(bloom).to_le_bytes());
    out.extend_from_slice(&expansion(bloom).to_le_bytes());
    for layer in bloom.layers() {
        let shape = layer.shape;
        for number in [shape.bytes(), shape.bits, layer.items] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&shape.error.to_le_bytes());
        out.extend_from_slice(&shape.bits_per_item.to_le_bytes());
        out.extend_from_slice(&shape.hashes.to_le_bytes());
        out.extend_from_slice(&shape.capacity.to_le_bytes());
        out.push(0);
    }
    out
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    fn long(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn word(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn float(&mut self) -> Option<f64> {
        self.bytes().map(f64::from_le_bytes)
    }
}

/// The fields of a sub-filter, unchecked.
pub(super) struct LayerFields {
    pub bytes: u64,
    pub bits: u64,
    pub items: u64,
    pub error: f64,
    pub bits_per_item: f64,
    pub hashes: u32,
    pub capacity: u64,
    /// Of a power of two of bits, or 0.
    pub exponent: u8,
}

impl LayerFields {
    fn read(fields: &mut Fields<'_>) -> Option<LayerFields> {
        let (bytes, bits, items) = (fields.long()?, fields.long()?, fields.long()?);
        let (error, bits_per_item) = (fields.float()?, fields.float()?);
        let (hashes, capacity) = (fields.word()?, fields.long()?);
        let [exponent] = fields.bytes()?;
        Some(LayerFields { bytes, bits, items, error, bits_per_item, hashes, capacity, exponent })
    }

    fn is_sound(&self) -> bool {
        let exponent = self.exponent;
        let fits = self.bits.div_ceil(8) == self.bytes
            && (exponent == 0 || self.bits.checked_shr(exponent.into()) == Some(1));
        self.bits > 0
            && fits
            && self.items <= self.capacity
            && self.error > 0.0
            && self.error < 1.0
            && self.bits_per_item.is_finite()
            && self.bits_per_item > 0.0
            && (1..=HASHES_MAX).contains(&self.hashes)
    }
}

/// Creates the empty filter that a header describes; `None` if the header is invalid.
pub fn from_header(bytes: &[u8]) -> Option<Bloom> {
    let mut fields = Fields(bytes);
    let items = fields.long()?;
    let (count, options, expansion) = (fields.word()? as usize, fields.word()?, fields.word()?);
    let mut layers = Vec::new();
    for _ in 0..count {
        layers.push(LayerFields::read(&mut fields)?);
    }
    if fields.0.is_empty() { from_fields(items, options, expansion, &layers) } else { None }
}

/// Creates the empty filter that these fields describe; `None` if they are invalid.
pub(super) fn from_fields(items: u64, options: u32, expansion: u32, layers: &[LayerFields]) -> Option<Bloom> {
    let scales = options & NONSCALING == 0 && expansion != 0;
    let is_known = options & !(OPTIONS | NONSCALING | 2) == 0 && options & 4 != 0;
    if !is_known || layers.is_empty() || layers.len() > LAYERS_MAX || expansion > EXPANSION_MAX {
        return None;
    }
    let (mut bytes_all, mut items_all) = (0u64, 0u64);
    for layer in layers {
        bytes_all = bytes_all.checked_add(layer.bytes)?;
        items_all = items_all.checked_add(layer.items)?;
        if !layer.is_sound() || bytes_all > BYTES_MAX {
            return None;
        }
    }
    if items_all != items {
        return None;
    }
    let empty = |fields: &LayerFields| {
        let &LayerFields { bits, hashes, capacity, error, bits_per_item, .. } = fields;
        Layer::new(Shape { bits, hashes, capacity, error, bits_per_item }, fields.items)
    };
    Some(Bloom::from_layers(layers.iter().map(empty).collect(), if scales { expansion } else { 0 }))
}

/// The piece after a non-zero iterator, with the piece's own iterator; `None` at the end.
pub fn piece_after(bloom: &Bloom, iterator: u64, most: usize) -> Option<(u64, Vec<u8>)> {
    let mut offset = iterator.checked_sub(HEADER)?;
    for layer in bloom.layers() {
        let len = layer.shape.bytes();
        if offset < len {
            let piece = layer.read(offset, most);
            return Some((iterator + piece.len() as u64, piece));
        }
        offset -= len;
    }
    None
}

/// Stores a piece at its iterator's position; false, with nothing changed, if it does not fit
/// there.
pub fn load_piece(bloom: &mut Bloom, iterator: u64, piece: &[u8]) -> bool {
    let offset = iterator.checked_sub(HEADER).and_then(|end| end.checked_sub(piece.len() as u64));
    let Some(mut offset) = offset.filter(|_| !piece.is_empty()) else { return false };
    for layer in bloom.layers_mut() {
        let len = layer.shape.bytes();
        if offset < len {
            return layer.write(offset, piece);
        }
        offset -= len;
    }
    false
}
