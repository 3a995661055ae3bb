// SPDX-License-Identifier: BSD-3-Clause
//! A scalable Bloom filter: sub-filters, of which the last takes new items until it is full, when
//! a larger one with a smaller error rate is added.
//!
//! ```text
//! bits per item   -ln(error) / ln(2)^2        hashes   bits per item * ln(2), rounded up
//! error           half of the requested rate for the first sub-filter, then half of the previous
//!                 one, so that the total stays below it; without scaling the requested rate
//! ```
//! Bits are in blocks of [`SEGMENT`] bytes that are shared with a snapshot until they change
//! (`braid_containers::cow`), so setting a bit copies at most one block.

use braid_base::relocation::Mover;
use braid_containers::thin_block::ThinBlock;

use super::hash::ItemHash;

/// Bytes in a block of bits.
pub const SEGMENT: usize = 64 * 1024;
/// Upper limit for the bits of all sub-filters, in bytes.
pub const BYTES_MAX: u64 = 1 << 30;
/// A filter with this many bytes is large: a snapshot shares it.
const LARGE: u64 = 64 * 1024;
/// Capacity of a filter created without parameters.
pub const CAPACITY_DEFAULT: u64 = 100;
/// Error rate of a filter created without parameters.
pub const ERROR_DEFAULT: f64 = 0.01;
/// Default size factor between two successive sub-filters.
pub const EXPANSION_DEFAULT: u32 = 2;
/// The largest size factor.
pub const EXPANSION_MAX: u32 = 32_768;
/// Maximum number of sub-filters.
pub const LAYERS_MAX: usize = 1024;

const TIGHTENING: f64 = 0.5;
const LN_2: f64 = std::f64::consts::LN_2;
/// ln(2)^2 to as many digits as in Redis: the sizes of filters depend on it.
const LN_2_SQUARED: f64 = 0.480_453_013_918_201;

/// Reasons for not adding an item or not creating a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("ERR non scaling filter is full")]
    Full,
    #[error("ERR operation exceeds bloom object memory limit")]
    TooLarge,
}

/// The parameters of a sub-filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    pub bits: u64,
    pub hashes: u32,
    /// Number of items at which the sub-filter is full.
    pub capacity: u64,
    pub error: f64,
    pub bits_per_item: f64,
}

impl Shape {
    fn new(capacity: u64, error: f64) -> Result<Shape, Refusal> {
        let bits_per_item = -error.ln() / LN_2_SQUARED;
        // Above 2^53 the product is far beyond the limit, so rounding does not matter.
        let bits = (capacity as f64 * bits_per_item).ceil().max(1.0);
        if bits > (BYTES_MAX * 8) as f64 {
            return Err(Refusal::TooLarge);
        }
        let hashes = (bits_per_item * LN_2).ceil().max(1.0) as u32;
        Ok(Shape { bits: (bits as u64).next_multiple_of(64), hashes, capacity, error, bits_per_item })
    }

    /// Size of the bits, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bits.div_ceil(8)
    }
}

/// A sub-filter.
pub struct Layer {
    pub shape: Shape,
    pub items: u64,
    /// Blocks of [`SEGMENT`] bytes; the last one may be shorter.
    segments: Vec<ThinBlock>,
}

impl Layer {
    /// A sub-filter with no bits set.
    pub fn new(shape: Shape, items: u64) -> Layer {
        let bytes = shape.bytes() as usize;
        let segments =
            (0..bytes).step_by(SEGMENT).map(|at| ThinBlock::zeroed(SEGMENT.min(bytes - at))).collect();
        Layer { shape, items, segments }
    }

    fn has(&self, hash: ItemHash) -> bool {
        hash.bits(self.shape.hashes, self.shape.bits).all(|bit| {
            let byte = (bit / 8) as usize;
            self.segments[byte / SEGMENT].bytes()[byte % SEGMENT] >> (bit % 8) & 1 == 1
        })
    }

    fn set(&mut self, hash: ItemHash) {
        for bit in hash.bits(self.shape.hashes, self.shape.bits) {
            let byte = (bit / 8) as usize;
            let at = byte % SEGMENT;
            if self.segments[byte / SEGMENT].bytes()[at] >> (bit % 8) & 1 == 0 {
                self.segments[byte / SEGMENT].bytes_mut()[at] |= 1 << (bit % 8);
            }
        }
        self.items += 1;
    }

    /// The blocks of bits, in order.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        self.segments.iter().map(ThinBlock::bytes)
    }

    /// Up to `most` bytes of the bits, from an offset on.
    pub fn read(&self, offset: u64, most: usize) -> Vec<u8> {
        let end = self.shape.bytes().min(offset + most as u64);
        let mut out = Vec::with_capacity(end.saturating_sub(offset) as usize);
        let mut at = offset;
        while at < end {
            let from = (at % SEGMENT as u64) as usize;
            let block = self.segments[(at / SEGMENT as u64) as usize].bytes();
            let len = (block.len() - from).min((end - at) as usize);
            out.extend_from_slice(&block[from..from + len]);
            at += len as u64;
        }
        out
    }

    /// Overwrites bits from an offset on; false, with nothing changed, if they do not fit.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> bool {
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > self.shape.bytes()) {
            return false;
        }
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let from = (at % SEGMENT as u64) as usize;
            let block = &mut self.segments[(at / SEGMENT as u64) as usize].bytes_mut()[from..];
            let len = block.len().min(rest.len());
            block[..len].copy_from_slice(&rest[..len]);
            (at, rest) = (at + len as u64, &rest[len..]);
        }
        true
    }

    fn cow(&self) -> Layer {
        let segments = self.segments.iter().map(ThinBlock::cow).collect();
        Layer { shape: self.shape, items: self.items, segments }
    }
}

impl Clone for Layer {
    fn clone(&self) -> Layer {
        Layer { shape: self.shape, items: self.items, segments: self.segments.clone() }
    }
}

/// A Bloom filter.
#[derive(Clone)]
pub struct Bloom {
    /// At least one.
    layers: Vec<Layer>,
    /// Size factor between two successive sub-filters; 0: the filter does not scale.
    expansion: u32,
}

impl Bloom {
    /// A filter that scales once it has this many items. `error` is between 0 and 1; with an
    /// `expansion` of 0 the filter does not scale.
    ///
    /// # Errors
    /// If a filter of this capacity and error rate would be too large.
    pub fn new(capacity: u64, error: f64, expansion: u32) -> Result<Bloom, Refusal> {
        let error = if expansion == 0 { error } else { error * TIGHTENING };
        Ok(Bloom::from_layers(vec![Layer::new(Shape::new(capacity, error)?, 0)], expansion))
    }

    /// A filter of validated sub-filters (`chunks.rs`).
    pub(super) fn from_layers(layers: Vec<Layer>, expansion: u32) -> Bloom {
        debug_assert!(!layers.is_empty());
        Bloom { layers, expansion }
    }

    /// The sub-filters, oldest first.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    pub(super) fn layers_mut(&mut self) -> &mut [Layer] {
        &mut self.layers
    }

    /// Size factor between two successive sub-filters; 0 if the filter does not scale.
    pub fn expansion(&self) -> u32 {
        self.expansion
    }

    /// True if the item may have been added; false if it was definitely not.
    pub fn contains(&self, item: &[u8]) -> bool {
        self.has(ItemHash::of(item))
    }

    fn has(&self, hash: ItemHash) -> bool {
        // Most items are in the largest sub-filter.
        self.layers.iter().rev().any(|layer| layer.has(hash))
    }

    /// Adds an item; false if it may have been added before.
    ///
    /// # Errors
    /// If the filter is full and does not scale, or would grow too large.
    pub fn add(&mut self, item: &[u8]) -> Result<bool, Refusal> {
        let hash = ItemHash::of(item);
        if self.has(hash) {
            return Ok(false);
        }
        let last = self.layers.last().expect("at least one sub-filter");
        if last.items >= last.shape.capacity {
            self.grow()?;
        }
        self.layers.last_mut().expect("at least one sub-filter").set(hash);
        Ok(true)
    }

    fn grow(&mut self) -> Result<(), Refusal> {
        if self.expansion == 0 {
            return Err(Refusal::Full);
        }
        let last = self.layers.last().expect("at least one sub-filter").shape;
        let capacity = last.capacity.saturating_mul(u64::from(self.expansion));
        let shape = Shape::new(capacity, (last.error * TIGHTENING).max(f64::MIN_POSITIVE))?;
        if self.layers.len() >= LAYERS_MAX || self.bit_bytes() + shape.bytes() > BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        self.layers.push(Layer::new(shape, 0));
        Ok(())
    }

    /// Number of items that were new when added.
    pub fn items(&self) -> u64 {
        self.layers.iter().map(|layer| layer.items).fold(0, u64::saturating_add)
    }

    /// Total capacity of all sub-filters, in items.
    pub fn capacity(&self) -> u64 {
        self.layers.iter().map(|layer| layer.shape.capacity).fold(0, u64::saturating_add)
    }

    /// Size of all bits, in bytes.
    pub fn bit_bytes(&self) -> u64 {
        self.layers.iter().map(|layer| layer.shape.bytes()).sum()
    }

    /// Number of blocks of bits.
    pub fn segment_count(&self) -> usize {
        self.layers.iter().map(|layer| layer.segments.len()).sum()
    }

    /// Bytes allocated, without this struct itself.
    pub fn memory_bytes(&self) -> usize {
        let class = braid_base::alloc::size_class;
        let of_layer = |layer: &Layer| {
            let blocks = layer.segments.iter().map(|block| class(block.allocation_bytes())).sum::<usize>();
            blocks + class(layer.segments.capacity() * size_of::<ThinBlock>())
        };
        self.layers.iter().map(of_layer).sum::<usize>() + class(self.layers.capacity() * size_of::<Layer>())
    }

    /// True if a snapshot should share the filter rather than write it immediately.
    pub fn is_large(&self) -> bool {
        self.bit_bytes() >= LARGE
    }

    /// See `Collection::relocate_blocks`.
    pub fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        let blocks = self.layers.iter_mut().flat_map(|layer| &mut layer.segments);
        for (number, block) in (0..).zip(blocks).skip(usize::try_from(from).unwrap_or(usize::MAX)) {
            if mover.is_over() {
                return Some(number);
            }
            block.relocate(mover);
        }
        None
    }

    /// A second owner of the same filter, sharing the bits until either side changes them.
    pub fn cow(&self) -> Bloom {
        Bloom { layers: self.layers.iter().map(Layer::cow).collect(), expansion: self.expansion }
    }
}
