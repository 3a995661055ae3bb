// SPDX-License-Identifier: BSD-3-Clause
//! A count-min sketch: `depth` rows of `width` counters. An item has one counter in each row, and
//! the least of them is its count; it is never too low.

use braid_base::relocation::Mover;

use crate::cells::Cells;
use crate::murmur::with_places;

/// Upper limit for the counters, in bytes of their nominal size: a dump of the sketch must fit a
/// request.
pub const BYTES_MAX: u64 = 511 << 20;
/// The largest number of rows: one item's counters take that many steps.
pub const DEPTH_MAX: u64 = 1024;
/// Bytes of a counter unless another size is asked for.
pub const CELL_DEFAULT: u8 = 4;

/// Reasons for not making or changing a sketch, in the words of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("CMS: invalid init arguments")]
    TooLarge,
    #[error("CMS: INCRBY overflow")]
    Overflow,
    #[error("CMS: INCRBY underflow")]
    Underflow,
    #[error("CMS: MERGE overflow")]
    MergeOverflow,
    #[error("CMS: width/depth is not equal")]
    OtherShape,
    #[error("CMS: cell size is not equal")]
    OtherCells,
}

/// Dimensions of a sketch, and the bytes that limit its counters: 1, 2, 4 or 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub width: u64,
    pub depth: u64,
    pub cell: u8,
}

impl Shape {
    /// Number of counters, if there is at least one and a sketch may have so many.
    fn cells(self) -> Option<usize> {
        let cells = self.width.checked_mul(self.depth).filter(|&cells| cells > 0)?;
        let bytes = cells.checked_mul(u64::from(self.cell))?;
        (bytes <= BYTES_MAX && self.depth <= DEPTH_MAX).then_some(cells as usize)
    }

    /// The largest count of a counter.
    pub fn count_max(self) -> u64 {
        match self.cell {
            8 => i64::MAX as u64,
            bytes => (1 << (8 * u32::from(bytes))) - 1,
        }
    }
}

/// A count-min sketch.
#[derive(Clone)]
pub struct CountMin {
    shape: Shape,
    /// Sum of all increments.
    total: i64,
    /// Row after row.
    cells: Cells,
}

impl CountMin {
    /// A sketch whose counters are 0.
    ///
    /// # Errors
    /// If it would be too large.
    pub fn new(shape: Shape) -> Result<CountMin, Refusal> {
        let cells = shape.cells().ok_or(Refusal::TooLarge)?;
        Ok(CountMin::from_parts(shape, 0, Cells::new(cells)))
    }

    fn from_parts(shape: Shape, total: i64, cells: Cells) -> CountMin {
        CountMin { shape, total, cells }
    }

    /// A sketch from its counters as little-endian numbers of the shape's size; `None` if they do
    /// not match the shape.
    pub fn from_bytes(shape: Shape, total: i64, bytes: &[u8]) -> Option<CountMin> {
        let is_sound =
            matches!(shape.cell, 1 | 2 | 4 | 8) && shape.cells()? * usize::from(shape.cell) == bytes.len();
        is_sound.then(|| CountMin::from_parts(shape, total, Cells::from_bytes(bytes, shape.cell.into())))
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Sum of all increments.
    pub fn total(&self) -> i64 {
        self.total
    }

    /// The item's count.
    pub fn count(&self, item: &[u8]) -> u64 {
        let Shape { width, depth, .. } = self.shape;
        with_places(item, 0, depth, width, |_, places| {
            places.iter().map(|&place| self.cells.get(place)).min().unwrap_or(0)
        })
    }

    /// Adds to the item's count, which it returns; on an error nothing is changed.
    ///
    /// # Errors
    /// If a counter or the sum of all would leave its range.
    pub fn add(&mut self, item: &[u8], by: i64) -> Result<u64, Refusal> {
        let range = if by < 0 { Refusal::Underflow } else { Refusal::Overflow };
        let total = self.total.checked_add(by).ok_or(range)?;
        let most = self.shape.count_max();
        let Shape { width, depth, .. } = self.shape;
        let least = with_places(item, 0, depth, width, |_, places| {
            let changed = |count: u64| count.checked_add_signed(by).filter(|&count| count <= most);
            let mut least = u64::MAX;
            for &place in places {
                least = least.min(changed(self.cells.get(place)).ok_or(range)?);
            }
            for &place in places {
                self.cells.set(place, changed(self.cells.get(place)).unwrap_or(most));
            }
            Ok(least)
        })?;
        self.total = total;
        Ok(least)
    }

    /// The weighted sum of sketches.
    ///
    /// # Errors
    /// If they are of different shapes, or a sum is negative or too large.
    pub fn merged(shape: Shape, sources: &[(&CountMin, i64)]) -> Result<CountMin, Refusal> {
        for (source, _) in sources {
            let other = source.shape;
            if (other.width, other.depth) != (shape.width, shape.depth) {
                return Err(Refusal::OtherShape);
            }
            if other.cell != shape.cell {
                return Err(Refusal::OtherCells);
            }
        }
        let sum = |of: &dyn Fn(&CountMin) -> i128| {
            let mut sum = 0i128;
            for (source, weight) in sources {
                sum = sum.checked_add(of(source).checked_mul(i128::from(*weight))?)?;
            }
            Some(sum)
        };
        let most = i128::from(shape.count_max());
        let fits = |count: Option<i128>, most: i128| {
            count.filter(|count| (0..=most).contains(count)).ok_or(Refusal::MergeOverflow)
        };
        let total = fits(sum(&|source| i128::from(source.total)), i64::MAX.into())?;
        let mut merged = CountMin::new(shape)?;
        for at in 0..merged.cells.len() {
            let count = fits(sum(&|source| i128::from(source.cells.get(at))), most)?;
            merged.cells.set(at, count as u64);
        }
        merged.total = total as i64;
        Ok(merged)
    }

    /// All counters as little-endian numbers of the shape's size, in pieces.
    pub fn pieces(&self) -> impl Iterator<Item = Vec<u8>> {
        self.cells.pieces(self.shape.cell.into())
    }

    /// Length of all these pieces.
    pub fn bytes_len(&self) -> usize {
        self.cells.len() * usize::from(self.shape.cell)
    }

    /// Bytes allocated, without this struct itself.
    pub fn memory_bytes(&self) -> usize {
        self.cells.memory_bytes()
    }

    pub fn block_count(&self) -> usize {
        self.cells.block_count()
    }

    /// A second owner of the same sketch, sharing the counters until either side changes them.
    pub fn cow(&self) -> CountMin {
        CountMin { shape: self.shape, total: self.total, cells: self.cells.cow() }
    }

    pub(super) fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        self.cells.relocate_blocks(from, mover)
    }
}
