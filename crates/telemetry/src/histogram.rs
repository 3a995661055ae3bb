// SPDX-License-Identifier: BSD-3-Clause
//! Latency histograms: log-linear cells, written by their owning thread and readable by all.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Cells per doubling; values are exact to 1/16.
const SUB_BITS: u32 = 4;
/// Doublings covered: values below 2^39 ns, about 550 seconds.
const DOUBLINGS: usize = 35;
const CELLS: usize = (DOUBLINGS + 1) << SUB_BITS;

/// A histogram of nanosecond values; about 4.6 KB.
pub struct Histogram {
    cells: [AtomicU64; CELLS],
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { cells: [const { AtomicU64::new(0) }; CELLS] }
    }
}

/// The cell of a value.
#[inline]
pub fn cell_of(nanos: u64) -> usize {
    if nanos < 1 << SUB_BITS {
        return nanos as usize;
    }
    let doubling = 63 - nanos.leading_zeros();
    let within = (nanos >> (doubling - SUB_BITS)) as usize & ((1 << SUB_BITS) - 1);
    ((((doubling - SUB_BITS + 1) as usize) << SUB_BITS) + within).min(CELLS - 1)
}

/// The largest value of a cell.
fn upper_bound(cell: usize) -> u64 {
    let (block, within) = (cell >> SUB_BITS, (cell & ((1 << SUB_BITS) - 1)) as u64);
    if block == 0 {
        return within;
    }
    let shift = block as u32 - 1;
    (((1 << SUB_BITS) + within + 1) << shift) - 1
}

impl Histogram {
    /// Counts a value. Only the owning thread may call this.
    #[inline]
    pub fn record(&self, nanos: u64) {
        let cell = &self.cells[cell_of(nanos)];
        cell.store(cell.load(Relaxed) + 1, Relaxed);
    }

    /// Subtracts counts from a cell, unless it has been reset meanwhile. Only the owning thread
    /// may call this.
    pub fn take_back(&self, cell: usize, count: u64) {
        let cell = &self.cells[cell];
        cell.store(cell.load(Relaxed).saturating_sub(count), Relaxed);
    }

    /// Adds this histogram's counts to a sum.
    pub fn add_to(&self, sum: &mut HistogramSum) {
        for (cell, total) in self.cells.iter().zip(&mut sum.cells) {
            *total += cell.load(Relaxed);
        }
    }

    /// Resets all counts.
    pub fn reset(&self) {
        self.cells.iter().for_each(|cell| cell.store(0, Relaxed));
    }
}

/// The sum of several threads' histograms.
pub struct HistogramSum {
    cells: Vec<u64>,
}

impl Default for HistogramSum {
    fn default() -> Self {
        HistogramSum { cells: vec![0; CELLS] }
    }
}

impl HistogramSum {
    /// Number of values counted.
    pub fn count(&self) -> u64 {
        self.cells.iter().sum()
    }

    /// The value (ns) at or below which `percent` of all values lie.
    pub fn percentile(&self, percent: f64) -> u64 {
        let wanted = ((percent / 100.0 * self.count() as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (cell, count) in self.cells.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper_bound(cell);
            }
        }
        0
    }

    /// Number of values up to `nanos` (to the cell's precision).
    pub fn count_at_most(&self, nanos: u64) -> u64 {
        self.cells[..=cell_of(nanos)].iter().sum()
    }

    /// The largest value counted (ns), as its cell's upper bound.
    pub fn max(&self) -> u64 {
        self.cells.iter().rposition(|&count| count > 0).map_or(0, upper_bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_contiguous_and_tight() {
        let mut last = 0;
        for nanos in (0..100_000u64).chain((17..38).map(|bits| 1 << bits)) {
            let cell = cell_of(nanos);
            assert!(cell >= last && upper_bound(cell) >= nanos);
            assert!(
                upper_bound(cell) - nanos <= nanos / 16 + 1,
                "{nanos} in a cell up to {}",
                upper_bound(cell)
            );
            last = cell;
        }
        assert!(cell_of(u64::MAX) < CELLS);
    }

    #[test]
    fn percentiles_of_a_known_series() {
        let histogram = Histogram::default();
        (1..=1000).for_each(|value| histogram.record(value * 1000));
        let mut sum = HistogramSum::default();
        histogram.add_to(&mut sum);
        assert_eq!(sum.count(), 1000);
        let median = sum.percentile(50.0);
        assert!((500_000..=532_000).contains(&median), "{median}");
        assert!(sum.percentile(100.0) >= 1_000_000 && sum.max() == sum.percentile(100.0));
        assert_eq!(sum.count_at_most(2_000_000), 1000);
    }
}
