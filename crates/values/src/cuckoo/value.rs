// SPDX-License-Identifier: BSD-3-Clause
//! A cuckoo filter: each item is a fingerprint of a byte in one of two buckets, of which each can
//! be computed from the other and the fingerprint, so that fingerprints can make room for others.
//! An item can be deleted, unlike from a Bloom filter.
//!
//! A full filter grows by another sub-filter, `expansion` times as large. Deletions leave room in
//! earlier ones: once a tenth of the items has been deleted, later ones are emptied into it.

use braid_base::relocation::Mover;

use crate::cells::Cells;
use crate::murmur::murmur64;

pub const CAPACITY_DEFAULT: u64 = 1024;
pub const BUCKET_DEFAULT: u16 = 2;
pub const ITERATIONS_DEFAULT: u16 = 20;
pub const EXPANSION_DEFAULT: u16 = 1;
pub const BUCKET_MAX: u16 = 255;
pub const EXPANSION_MAX: u16 = 32_768;

/// Upper limit for the fingerprints, in bytes: a dump must fit a request.
const BYTES_MAX: u64 = 511 << 20;
/// Number of sub-filters from which on no command adds anything ([`Cuckoo::has_ended`]), and that a
/// command which adds many items never exceeds.
const LAYERS_END: usize = 32;
const LAYERS_MAX: usize = u16::MAX as usize;

/// Reasons for not adding an item or not creating a filter, in the words of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It must not grow.
    #[error("Filter is full")]
    Full,
    #[error("Maximum expansions reached")]
    Expansions,
    #[error("ERR Insufficient memory to create filter")]
    TooLarge,
}

/// The parameters of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Buckets of the first sub-filter: a power of two.
    pub buckets: u64,
    /// Fingerprints in a bucket.
    pub bucket_size: u16,
    /// How many fingerprints may make room before the filter counts as full.
    pub iterations: u16,
    /// Size factor between two successive sub-filters; 0: the filter does not grow.
    pub expansion: u16,
}

impl Shape {
    /// The shape of a filter for this many items, at least twice the size of a bucket.
    pub fn for_capacity(capacity: u64, bucket_size: u16, iterations: u16, expansion: u16) -> Option<Shape> {
        let buckets = (capacity / u64::from(bucket_size)).checked_next_power_of_two()?;
        Some(Shape { buckets, bucket_size, iterations, expansion: expansion.next_power_of_two() })
            .map(|shape| Shape { expansion: if expansion == 0 { 0 } else { shape.expansion }, ..shape })
    }

    fn is_sound(self) -> bool {
        self.buckets.is_power_of_two()
            && (1..=BUCKET_MAX).contains(&self.bucket_size)
            && self.iterations > 0
            && self.expansion <= EXPANSION_MAX
            && (self.expansion == 0 || self.expansion.is_power_of_two())
    }
}

/// A sub-filter.
#[derive(Clone)]
struct Layer {
    buckets: u64,
    /// Fingerprints, bucket after bucket; 0 where there is none.
    slots: Cells,
}

/// An item's fingerprint and the hashes of its two buckets.
#[derive(Clone, Copy)]
pub struct ItemHash {
    fingerprint: u8,
    hashes: [u64; 2],
}

fn other_hash(fingerprint: u8, hash: u64) -> u64 {
    hash ^ u64::from(fingerprint).wrapping_mul(0x5bd1_e995)
}

impl ItemHash {
    pub fn of(item: &[u8]) -> ItemHash {
        let hash = murmur64(item, 0);
        let fingerprint = (hash % 255 + 1) as u8;
        ItemHash { fingerprint, hashes: [hash, other_hash(fingerprint, hash)] }
    }
}

/// A cuckoo filter.
#[derive(Clone)]
pub struct Cuckoo {
    shape: Shape,
    items: u64,
    /// Items deleted since the filter was last made compact.
    deleted: u64,
    /// At least one.
    layers: Vec<Layer>,
}

impl Cuckoo {
    /// An empty filter.
    ///
    /// # Errors
    /// If it would be too large.
    pub fn new(shape: Shape) -> Result<Cuckoo, Refusal> {
        let mut filter = Cuckoo::bare(shape, 0, 0);
        filter.push_layer(shape.buckets)?;
        Ok(filter)
    }

    fn bare(shape: Shape, items: u64, deleted: u64) -> Cuckoo {
        debug_assert!(shape.is_sound());
        Cuckoo { shape, items, deleted, layers: Vec::new() }
    }

    fn push_layer(&mut self, buckets: u64) -> Result<(), Refusal> {
        self.push_layer_after(self.bytes_len(), buckets).map(drop)
    }

    /// [`Cuckoo::push_layer`] if the other layers' size is known; returns the size with this one.
    fn push_layer_after(&mut self, before: u64, buckets: u64) -> Result<u64, Refusal> {
        let bytes = buckets.checked_mul(self.shape.bucket_size.into()).ok_or(Refusal::TooLarge)?;
        let all = bytes.checked_add(before).filter(|&all| all <= BYTES_MAX).ok_or(Refusal::TooLarge)?;
        self.layers.reserve_exact(1);
        self.layers.push(Layer { buckets, slots: Cells::new(bytes as usize) });
        Ok(all)
    }

    fn buckets_of_next(&self) -> Option<u64> {
        let last = self.layers.last().map(|layer| layer.buckets);
        last.map_or(Some(self.shape.buckets), |last| last.checked_mul(self.shape.expansion.into()))
    }

    /// A filter of empty sub-filters, whose fingerprints are loaded later; `None` if the parameters
    /// are invalid.
    pub fn empty_of(shape: Shape, items: u64, deleted: u64, layers: u64) -> Option<Cuckoo> {
        if !shape.is_sound() || layers == 0 || layers > LAYERS_MAX as u64 {
            return None;
        }
        let mut filter = Cuckoo::bare(shape, items, deleted);
        let mut bytes = 0;
        for _ in 0..layers {
            let buckets = filter.buckets_of_next()?;
            bytes = filter.push_layer_after(bytes, buckets).ok()?;
        }
        Some(filter)
    }

    /// Sets all fingerprints of a sub-filter; false if it has another size.
    pub fn load_layer(&mut self, index: usize, buckets: u64, slots: &[u8]) -> bool {
        let layer = self.layers.get_mut(index);
        let Some(layer) = layer.filter(|layer| layer.buckets == buckets && layer.slots.len() == slots.len())
        else {
            return false;
        };
        layer.slots = Cells::from_bytes(slots, 1);
        true
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    pub fn items(&self) -> u64 {
        self.items
    }

    /// Items deleted since the filter was last made compact.
    pub fn deleted(&self) -> u64 {
        self.deleted
    }

    /// True once the filter has grown as often as it may: as in Redis, commands add nothing any
    /// more, but one that has begun ends.
    pub fn has_ended(&self) -> bool {
        self.layers.len() >= LAYERS_END
    }

    pub fn layer_count(&self) -> usize {
        self.layers.len()
    }

    /// The buckets of a sub-filter, the number of its fingerprints, and these in pieces.
    pub fn layer(&self, index: usize) -> (u64, usize, impl Iterator<Item = Vec<u8>>) {
        let layer = &self.layers[index];
        (layer.buckets, layer.slots.len(), layer.slots.pieces(1))
    }

    /// Size of all fingerprints.
    pub fn bytes_len(&self) -> u64 {
        self.layers.iter().map(|layer| layer.slots.len() as u64).sum()
    }

    /// Up to `most` fingerprints from an offset over all sub-filters on, of one sub-filter; none at
    /// the end.
    pub fn read(&self, mut offset: u64, most: usize) -> Vec<u8> {
        for layer in &self.layers {
            let len = layer.slots.len() as u64;
            if offset < len {
                let end = len.min(offset + most as u64);
                return (offset..end).map(|at| layer.slots.get(at as usize) as u8).collect();
            }
            offset -= len;
        }
        Vec::new()
    }

    /// Overwrites fingerprints from an offset over all sub-filters on; false, with nothing changed,
    /// if they do not fit one sub-filter there.
    pub fn write(&mut self, mut offset: u64, bytes: &[u8]) -> bool {
        for layer in &mut self.layers {
            let len = layer.slots.len() as u64;
            if offset < len {
                let fits = bytes.len() as u64 <= len - offset;
                if fits {
                    let places = offset as usize..;
                    places.zip(bytes).for_each(|(at, byte)| layer.slots.set(at, (*byte).into()));
                }
                return fits;
            }
            offset -= len;
        }
        false
    }

    /// The places of a bucket in a sub-filter.
    fn places(&self, layer: &Layer, hash: u64) -> std::ops::Range<usize> {
        let size = usize::from(self.shape.bucket_size);
        let start = (hash & (layer.buckets - 1)) as usize * size;
        start..start + size
    }

    fn find_in(&self, layer: &Layer, hash: u64, fingerprint: u8) -> Option<usize> {
        self.places(layer, hash).find(|&place| layer.slots.get(place) == u64::from(fingerprint))
    }

    /// True if the item may have been added; false if it was definitely not.
    pub fn contains(&self, item: ItemHash) -> bool {
        self.layers.iter().any(|layer| {
            item.hashes.iter().any(|&hash| self.find_in(layer, hash, item.fingerprint).is_some())
        })
    }

    /// How often the item may have been added. As in Redis, an item whose two buckets are the same
    /// counts twice.
    pub fn count(&self, item: ItemHash) -> u64 {
        let in_bucket = |layer: &Layer, hash| {
            let slots = self.places(layer, hash).map(|place| layer.slots.get(place));
            slots.filter(|&slot| slot == u64::from(item.fingerprint)).count() as u64
        };
        let in_layer = |layer: &Layer| item.hashes.iter().map(|&hash| in_bucket(layer, hash)).sum::<u64>();
        self.layers.iter().map(in_layer).sum()
    }

    /// Adds an item, also if it is there already.
    ///
    /// # Errors
    /// If the filter is full and must not grow, or would grow too large.
    pub fn add(&mut self, item: ItemHash) -> Result<(), Refusal> {
        for index in (0..self.layers.len()).rev() {
            if self.put(index, item) {
                self.items = self.items.saturating_add(1);
                return Ok(());
            }
        }
        if !self.make_room(item) {
            if self.shape.expansion == 0 {
                return Err(Refusal::Full);
            }
            if self.layers.len() >= LAYERS_MAX {
                return Err(Refusal::Expansions);
            }
            let buckets = self.buckets_of_next().ok_or(Refusal::TooLarge)?;
            self.push_layer(buckets)?;
            let is_put = self.put(self.layers.len() - 1, item);
            debug_assert!(is_put, "a new sub-filter has room");
        }
        self.items = self.items.saturating_add(1);
        Ok(())
    }

    /// Puts an item into a free place of one of its buckets in a sub-filter.
    fn put(&mut self, index: usize, item: ItemHash) -> bool {
        let layer = &self.layers[index];
        let free = item.hashes.iter().find_map(|&hash| self.find_in(layer, hash, 0));
        if let Some(place) = free {
            self.layers[index].slots.set(place, item.fingerprint.into());
        }
        free.is_some()
    }

    /// Puts an item into the last sub-filter by moving others to their other buckets. False, with
    /// nothing changed, if that takes too many moves.
    fn make_room(&mut self, item: ItemHash) -> bool {
        let last = self.layers.len() - 1;
        let size = usize::from(self.shape.bucket_size);
        let (mut fingerprint, mut hash, mut victim) = (item.fingerprint, item.hashes[0], 0);
        let mut moved = Vec::new();
        for _ in 0..self.shape.iterations {
            let place = self.places(&self.layers[last], hash).start + victim;
            let slots = &mut self.layers[last].slots;
            let thrown_out = slots.get(place) as u8;
            slots.set(place, fingerprint.into());
            moved.push((place, thrown_out));
            fingerprint = thrown_out;
            hash = other_hash(fingerprint, hash & (self.layers[last].buckets - 1));
            if let Some(free) = self.find_in(&self.layers[last], hash, 0) {
                self.layers[last].slots.set(free, fingerprint.into());
                return true;
            }
            victim = (victim + 1) % size;
        }
        while let Some((place, before)) = moved.pop() {
            self.layers[last].slots.set(place, before.into());
        }
        false
    }

    /// Deletes an item once; false if it is not there.
    pub fn delete(&mut self, item: ItemHash) -> bool {
        for index in (0..self.layers.len()).rev() {
            let layer = &self.layers[index];
            let found = item.hashes.iter().find_map(|&hash| self.find_in(layer, hash, item.fingerprint));
            if let Some(place) = found {
                self.layers[index].slots.set(place, 0);
                self.items = self.items.saturating_sub(1);
                self.deleted = self.deleted.saturating_add(1);
                if self.layers.len() > 1 && self.deleted as f64 > self.items as f64 * 0.1 {
                    self.compact(false);
                }
                return true;
            }
        }
        false
    }

    /// Moves fingerprints of later sub-filters into free places of earlier ones, and removes
    /// sub-filters that have become empty. Unless `all` is set, it ends at the first sub-filter
    /// that keeps some.
    pub fn compact(&mut self, all: bool) {
        for index in (1..self.layers.len()).rev() {
            if !self.empty_layer(index) && !all {
                break;
            }
        }
        self.deleted = 0;
    }

    /// Moves the fingerprints of a sub-filter into earlier ones; removes it if none is left and it
    /// is the last one. True if none is left.
    fn empty_layer(&mut self, index: usize) -> bool {
        let size = u64::from(self.shape.bucket_size);
        let mut is_empty = true;
        for place in 0..self.layers[index].slots.len() {
            let fingerprint = self.layers[index].slots.get(place) as u8;
            if fingerprint == 0 {
                continue;
            }
            let bucket = place as u64 / size;
            let hashes = [bucket, other_hash(fingerprint, bucket)];
            // Earlier sub-filters are not larger: the bucket's number ends like the item's hash.
            if (0..index).any(|earlier| self.put(earlier, ItemHash { fingerprint, hashes })) {
                self.layers[index].slots.set(place, 0);
            } else {
                is_empty = false;
            }
        }
        if is_empty && index == self.layers.len() - 1 {
            self.layers.pop();
        }
        is_empty
    }

    /// Bytes allocated, without this struct itself.
    pub fn memory_bytes(&self) -> usize {
        let class = braid_base::alloc::size_class;
        self.layers.iter().map(|layer| layer.slots.memory_bytes()).sum::<usize>()
            + class(self.layers.capacity() * size_of::<Layer>())
    }

    pub fn block_count(&self) -> usize {
        self.layers.iter().map(|layer| layer.slots.block_count()).sum()
    }

    /// A second owner of the same filter, sharing the fingerprints until either side changes them.
    pub fn cow(&self) -> Cuckoo {
        let share = |layer: &Layer| Layer { buckets: layer.buckets, slots: layer.slots.cow() };
        Cuckoo { layers: self.layers.iter().map(share).collect(), ..*self }
    }

    pub(super) fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        let (mut first, mut at) = (0, from);
        for layer in &mut self.layers {
            let count = layer.slots.block_count() as u64;
            if at < count {
                if let Some(next) = layer.slots.relocate_blocks(at, mover) {
                    return Some(first + next);
                }
                at = 0;
            } else {
                at -= count;
            }
            first += count;
        }
        None
    }
}
