// SPDX-License-Identifier: BSD-3-Clause
//! The most frequent items of a stream: HeavyKeeper, a sketch whose cells each belong to one item,
//! and a heap of the items with the highest counts.
//!
//! An item has one cell in each row. If the cell is another item's, its count decays: each time the
//! item comes, with the probability `decay` to the power of the count, by 1; at 0 the cell is the
//! new item's. So rare items hardly harm frequent ones.
//!
//! Chance is drawn from a generator whose state is part of the value, and is saved with it: the
//! same requests have the same effects on replicas and after a restart.

use braid_base::relocation::Mover;

use crate::cells::Cells;
use crate::murmur::{murmur32, with_places};

/// Rows and cells per row unless others are asked for, and the decay.
pub const WIDTH_DEFAULT: u64 = 8;
pub const DEPTH_DEFAULT: u64 = 7;
pub const DECAY_DEFAULT: f64 = 0.9;
/// The largest increment.
pub const INCREMENT_MAX: i64 = 100_000;

/// Upper limit for the cells and the heap, in bytes of the dump form: a dump must fit a request.
const BYTES_MAX: u64 = 255 << 20;
/// Bytes of a cell and of a heap's entry in the dump form.
pub const CELL: usize = 8;
pub const ENTRY: usize = 24;

/// The largest numbers of rows and of items kept: an item's cells, and the heap, take that many
/// steps.
const DEPTH_MAX: u64 = 1024;
const K_MAX: u64 = 1 << 20;

const FINGERPRINT_SEED: u32 = 1919;

/// Number of items kept, rows, cells per row, decay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    pub k: u64,
    pub width: u64,
    pub depth: u64,
    pub decay: f64,
}

impl Shape {
    /// Number of cells, if the shape is valid and not too large.
    fn cells(self) -> Option<usize> {
        let cells = self.width.checked_mul(self.depth).filter(|&cells| cells > 0)?;
        let bytes = cells.checked_mul(CELL as u64)?.checked_add(self.k.checked_mul(ENTRY as u64)?)?;
        let is_sound = (1..=K_MAX).contains(&self.k)
            && self.depth <= DEPTH_MAX
            && self.decay > 0.0
            && self.decay <= 1.0
            && bytes <= BYTES_MAX;
        is_sound.then_some(cells as usize)
    }
}

/// An entry of the heap; `None` where no item has been yet.
#[derive(Clone, Default)]
pub struct Kept {
    pub item: Option<Box<[u8]>>,
    pub fingerprint: u32,
    pub count: u32,
}

/// The most frequent items of a stream.
#[derive(Clone)]
pub struct TopK {
    shape: Shape,
    /// Fingerprints of the cells' items, and their counts, row after row.
    fingerprints: Cells,
    counts: Cells,
    /// A heap of `k` entries with the lowest count in front.
    heap: Vec<Kept>,
    /// The fingerprints of the heap's entries, side by side: they are searched with each item.
    kept_fingerprints: Box<[u32]>,
    /// State of the generator of chance.
    random: u64,
    /// The chances of the lowest counts to decay.
    chances: [u64; 64],
}

/// An item's fingerprint.
pub fn fingerprint(item: &[u8]) -> u32 {
    murmur32(item, FINGERPRINT_SEED)
}

/// The next state of a generator of random numbers, and a number (SplitMix64).
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut number = *state;
    number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// The chance of a count to decay, in 2^64ths.
fn chance(decay: f64, count: u32) -> u64 {
    const SCALE: f64 = 18_446_744_073_709_551_616.0;
    // Conversion saturates: certainty is the largest number.
    (decay.powi(count.min(i32::MAX as u32) as i32) * SCALE) as u64
}

impl TopK {
    /// An empty value; `None` if it would be too large.
    pub fn new(shape: Shape) -> Option<TopK> {
        let cells = shape.cells()?;
        let heap = vec![Kept::default(); shape.k as usize];
        Some(TopK::from_parts(shape, Cells::new(cells), Cells::new(cells), heap, 0))
    }

    fn from_parts(shape: Shape, fingerprints: Cells, counts: Cells, heap: Vec<Kept>, random: u64) -> TopK {
        let chances = std::array::from_fn(|count| chance(shape.decay, count as u32));
        let kept_fingerprints = heap.iter().map(|kept| kept.fingerprint).collect();
        TopK { shape, fingerprints, counts, heap, kept_fingerprints, random, chances }
    }

    /// A value from the cells in the dump form, and a heap; `None` if they do not match the shape.
    pub fn restored(shape: Shape, cells: &[u8], heap: Vec<Kept>, random: u64) -> Option<TopK> {
        let (cells, rest) = cells.as_chunks::<CELL>();
        if shape.cells() != Some(cells.len()) || !rest.is_empty() || heap.len() as u64 != shape.k {
            return None;
        }
        let (mut fingerprints, mut counts) = (Cells::new(cells.len()), Cells::new(cells.len()));
        for (at, cell) in cells.iter().enumerate() {
            let cell = u64::from_le_bytes(*cell);
            fingerprints.set(at, cell & 0xffff_ffff);
            counts.set(at, cell >> 32);
        }
        Some(TopK::from_parts(shape, fingerprints, counts, heap, random))
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    pub fn random(&self) -> u64 {
        self.random
    }

    /// The heap's entries, in its order.
    pub fn heap(&self) -> &[Kept] {
        &self.heap
    }

    /// All cells in the dump form, in pieces.
    pub fn pieces(&self) -> impl Iterator<Item = Vec<u8>> {
        self.fingerprints.pieces(4).zip(self.counts.pieces(4)).map(|(fingerprints, counts)| {
            let (fingerprints, _) = fingerprints.as_chunks::<4>();
            let (counts, _) = counts.as_chunks::<4>();
            fingerprints.iter().zip(counts).flat_map(|(left, right)| [*left, *right]).flatten().collect()
        })
    }

    /// Length of all these pieces.
    pub fn bytes_len(&self) -> usize {
        self.counts.len() * CELL
    }

    fn find(&self, fingerprint: u32, item: &[u8]) -> Option<usize> {
        const AT_ONCE: usize = 16;
        for (part, some) in self.kept_fingerprints.chunks(AT_ONCE).enumerate() {
            // Without a branch for each, so several are compared in one step.
            if !some.iter().fold(false, |found, one| found | (*one == fingerprint)) {
                continue;
            }
            let is_it = |at: &usize| {
                let kept = &self.heap[*at];
                kept.fingerprint == fingerprint && kept.item.as_deref() == Some(item)
            };
            let first = part * AT_ONCE;
            if let Some(at) = (first..first + some.len()).find(is_it) {
                return Some(at);
            }
        }
        None
    }

    /// True if the item is among the most frequent.
    pub fn contains(&self, item: &[u8]) -> bool {
        self.find(fingerprint(item), item).is_some()
    }

    /// The item's count in the sketch. An item of the heap whose cells were lost to others counts
    /// 0.
    pub fn count(&self, item: &[u8]) -> u64 {
        let Shape { width, depth, .. } = self.shape;
        with_places(item, FINGERPRINT_SEED, depth, width, |own, places| {
            let is_kept = self.find(own, item).is_some();
            let least = if is_kept { u64::from(self.heap[0].count) } else { 0 };
            let owned = places.iter().filter(|&&place| self.fingerprints.get(place) == u64::from(own));
            owned.map(|&place| self.counts.get(place)).filter(|&count| count >= least).max().unwrap_or(0)
        })
    }

    /// Counts an item `by` times; returns the item that it drives out of the heap.
    pub fn add(&mut self, item: &[u8], by: u32) -> Option<Box<[u8]>> {
        let Shape { width, depth, .. } = self.shape;
        let (own, most) = with_places(item, FINGERPRINT_SEED, depth, width, |own, places| {
            let most = match by {
                1 => places.iter().map(|&place| self.add_once(place, own)).max(),
                _ => places.iter().map(|&place| self.add_several(place, own, by)).max(),
            };
            (own, most.unwrap_or(0))
        });
        if most < self.heap[0].count {
            return None;
        }
        if let Some(at) = self.find(own, item) {
            self.heap[at].count = most;
            self.sift_down(at);
            return None;
        }
        let kept = Kept { item: Some(item.into()), fingerprint: own, count: most };
        let expelled = std::mem::replace(&mut self.heap[0], kept);
        self.kept_fingerprints[0] = own;
        self.sift_down(0);
        expelled.item
    }

    /// Counts an item `by` times in one of its cells; its count there, 0 if the cell is another's.
    fn add_several(&mut self, place: usize, own: u32, by: u32) -> u32 {
        let count = self.counts.get(place) as u32;
        let count = if count == 0 {
            self.fingerprints.set(place, own.into());
            Some(by)
        } else if self.fingerprints.get(place) == u64::from(own) {
            Some(count.saturating_add(by))
        } else {
            self.decay(place, count, own, by)
        };
        if let Some(count) = count {
            self.counts.set(place, count.into());
        }
        count.unwrap_or(0)
    }

    /// Counts an item once in one of its cells; its count there, 0 if the cell is another's.
    ///
    /// The same as [`TopK::add_several`] with few branches: chance decides, so a processor guesses
    /// wrong.
    #[inline]
    fn add_once(&mut self, place: usize, own: u32) -> u32 {
        let (count, fingerprint) = (self.counts.get(place) as u32, self.fingerprints.get(place) as u32);
        let is_free = count == 0;
        let is_own = !is_free & (fingerprint == own);
        let chance = self.chance(count);
        let (mut random, draws) = (self.random, !is_free & !is_own & (chance > 0));
        let decays = draws & (draw(&mut random) <= chance);
        self.random = if draws { random } else { self.random };
        let left = count - u32::from(decays);
        let takes = is_free | (decays & (left == 0));
        let now = if takes { 1 } else { left.saturating_add(u32::from(is_own)) };
        if takes | (now != count) {
            self.counts.set(place, now.into());
            self.fingerprints.set(place, u64::from(if takes { own } else { fingerprint }));
        }
        if takes | is_own { now } else { 0 }
    }

    /// The chance of a count to decay, in 2^64ths.
    #[inline]
    fn chance(&self, count: u32) -> u64 {
        match self.chances.get(count as usize) {
            Some(chance) => *chance,
            None => chance(self.shape.decay, count),
        }
    }

    /// Lets the count of another item's cell decay `by` times. The new item's count if the cell has
    /// become its own.
    fn decay(&mut self, place: usize, count: u32, own: u32, by: u32) -> Option<u32> {
        let (mut left, mut now) = (by, count);
        while left > 0 {
            let chance = self.chance(now);
            if chance == 0 {
                break;
            }
            let mut decayed = false;
            while left > 0 && !decayed {
                decayed = draw(&mut self.random) <= chance;
                left -= u32::from(!decayed);
            }
            if decayed {
                now -= 1;
                if now == 0 {
                    self.fingerprints.set(place, own.into());
                    return Some(left);
                }
                left -= 1;
            }
        }
        if now != count {
            self.counts.set(place, now.into());
        }
        None
    }

    /// Lets an entry sink below those with lower counts. It goes one step on equal counts, but no
    /// further: Redis does so, and the order decides which of several items leaves.
    fn sift_down(&mut self, start: usize) {
        let len = self.heap.len();
        let lower_child = |heap: &[Kept], at: usize| {
            let child = 2 * at + 1;
            let is_right = child + 1 < len && heap[child].count > heap[child + 1].count;
            (child < len).then_some(child + usize::from(is_right))
        };
        let mut at = start;
        let Some(mut child) = lower_child(&self.heap, at) else { return };
        if self.heap[child].count > self.heap[at].count {
            return;
        }
        loop {
            self.heap.swap(at, child);
            self.kept_fingerprints.swap(at, child);
            at = child;
            match lower_child(&self.heap, at) {
                Some(next) if self.heap[next].count < self.heap[at].count => child = next,
                _ => return,
            }
        }
    }

    /// Bytes allocated, without this struct itself.
    pub fn memory_bytes(&self) -> usize {
        let class = braid_base::alloc::size_class;
        let items = self.heap.iter().filter_map(|kept| kept.item.as_deref());
        self.fingerprints.memory_bytes()
            + self.counts.memory_bytes()
            + class(self.heap.capacity() * size_of::<Kept>())
            + class(self.kept_fingerprints.len() * size_of::<u32>())
            + items.filter(|item| !item.is_empty()).map(|item| class(item.len())).sum::<usize>()
    }

    pub fn block_count(&self) -> usize {
        self.fingerprints.block_count() + self.counts.block_count() + self.heap.len() / 64
    }

    /// A second owner of the same cells, sharing them until either side changes them.
    pub fn cow(&self) -> TopK {
        TopK {
            shape: self.shape,
            fingerprints: self.fingerprints.cow(),
            counts: self.counts.cow(),
            heap: self.heap.clone(),
            kept_fingerprints: self.kept_fingerprints.clone(),
            random: self.random,
            chances: self.chances,
        }
    }

    pub(super) fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        let split = self.fingerprints.block_count() as u64;
        if from < split
            && let Some(next) = self.fingerprints.relocate_blocks(from, mover)
        {
            return Some(next);
        }
        self.counts.relocate_blocks(from.saturating_sub(split), mover).map(|next| next + split)
    }
}
