// SPDX-License-Identifier: BSD-3-Clause
//! The longest common subsequence of two strings, as reported by the LCS command.
//!
//! Redis fills a table of lengths, four bytes per cell, and walks it back from the far corner.
//! Neighbouring cells of a row differ by 0 or 1, so here a row is one bit per cell, computed 64
//! cells at a time (Hyyro's form of the bit-parallel recurrence): a zero bit means "one longer
//! than the previous cell". The walk back needs no more than these bits. At a cell with different
//! bytes the walk goes up if the cell above is greater than the previous cell. The cell itself is
//! the greater of these two, so that is the case exactly if it is greater than the previous cell:
//! if its bit is zero. The result is the same subsequence, with the same ranges, as from the full
//! table, in a thirty-second of the memory.

use std::ops::RangeInclusive;

/// Reasons for refusing a pair of strings. The texts are Redis's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LcsError {
    TooLong,
    TooMuchMemory,
}

impl std::fmt::Display for LcsError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            LcsError::TooLong => "String too long for LCS",
            LcsError::TooMuchMemory => {
                "Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"
            }
        })
    }
}

impl std::error::Error for LcsError {}

/// A common run of bytes, with its position in the first and in the second string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    pub first: RangeInclusive<usize>,
    pub second: RangeInclusive<usize>,
}

impl Match {
    /// Length in bytes, at least one.
    pub fn bytes(&self) -> usize {
        self.first.end() - self.first.start() + 1
    }
}

/// Checks Redis's limits before any computation: `bulk_len_max` is `proto-max-bulk-len`, which the
/// table that Redis would need must not exceed. The check thereby bounds the time, and the memory
/// needed here to a thirty-second of the limit.
///
/// # Errors
/// If one text is too long, or the table would exceed `bulk_len_max`.
pub fn check_limits(first_len: usize, second_len: usize, bulk_len_max: u64) -> Result<(), LcsError> {
    const LEN_MAX: usize = u32::MAX as usize - 1;
    if first_len >= LEN_MAX || second_len >= LEN_MAX {
        return Err(LcsError::TooLong);
    }
    let cells = (first_len as u128 + 1) * (second_len as u128 + 1);
    if cells * 4 > u128::from(bulk_len_max) { Err(LcsError::TooMuchMemory) } else { Ok(()) }
}

/// Length of the longest common subsequence; memory is linear in the shorter string.
pub fn length(first: &[u8], second: &[u8]) -> usize {
    let (rows, columns) = if first.len() >= second.len() { (first, second) } else { (second, first) };
    let masks = Masks::new(columns);
    let mut row = vec![u64::MAX; masks.words];
    for &byte in rows {
        advance(&mut row, masks.of(byte));
    }
    masks.zeros(&row)
}

/// The subsequence that Redis reports (several may have the same length).
pub fn subsequence(first: &[u8], second: &[u8]) -> Vec<u8> {
    let mut reversed = Vec::new();
    Table::new(first, second).walk_back(|row, _| reversed.push(first[row]));
    reversed.reverse();
    reversed
}

/// The runs of the subsequence, from the end of the strings to their start as Redis lists them,
/// without runs shorter than `bytes_min`; and the length of the whole subsequence, short runs
/// included.
pub fn matches(first: &[u8], second: &[u8], bytes_min: usize) -> (Vec<Match>, usize) {
    let mut found: Vec<Match> = Vec::new();
    let mut total = 0;
    Table::new(first, second).walk_back(|row, column| {
        total += 1;
        match found.last_mut() {
            Some(last) if *last.first.start() == row + 1 && *last.second.start() == column + 1 => {
                last.first = row..=*last.first.end();
                last.second = column..=*last.second.end();
            }
            last => {
                // The new run replaces the previous run, which is complete and too short.
                if last.is_some_and(|last| last.bytes() < bytes_min) {
                    found.pop();
                }
                found.push(Match { first: row..=row, second: column..=column });
            }
        }
    });
    if found.last().is_some_and(|last| last.bytes() < bytes_min) {
        found.pop();
    }
    (found, total)
}

/// For each byte value, the columns in which it occurs, as bits.
struct Masks {
    words: usize,
    columns: usize,
    /// Byte values that occur get consecutive rows of `words`; row 0 is empty, for all other
    /// values.
    row_of: [u16; 256],
    bits: Vec<u64>,
}

impl Masks {
    fn new(text: &[u8]) -> Masks {
        let words = text.len().div_ceil(64);
        let mut masks = Masks { words, columns: text.len(), row_of: [0; 256], bits: vec![0; words] };
        for (column, &byte) in text.iter().enumerate() {
            let row = &mut masks.row_of[usize::from(byte)];
            if *row == 0 {
                *row = (masks.bits.len() / words) as u16;
                masks.bits.resize(masks.bits.len() + words, 0);
            }
            masks.bits[usize::from(*row) * words + column / 64] |= 1 << (column % 64);
        }
        masks
    }

    fn of(&self, byte: u8) -> &[u64] {
        let start = usize::from(self.row_of[usize::from(byte)]) * self.words;
        &self.bits[start..start + self.words]
    }

    /// Number of zero bits in a row, not counting those past the last column.
    fn zeros(&self, row: &[u64]) -> usize {
        let Some((last, whole)) = row.split_last() else { return 0 };
        let unused = (self.words * 64 - self.columns) as u32;
        let last = (last << unused | ((1u64 << unused) - 1)).count_zeros();
        whole.iter().map(|word| word.count_zeros() as usize).sum::<usize>() + last as usize
    }
}

/// Advances one row: `row + (row & mask) | row & !mask` over the whole width, with carries.
fn advance(row: &mut [u64], mask: &[u64]) {
    let mut carry = false;
    for (word, &mask) in row.iter_mut().zip(mask) {
        let (sum, overflow) = word.overflowing_add(*word & mask);
        let (sum, overflow_by_carry) = sum.overflowing_add(u64::from(carry));
        carry = overflow || overflow_by_carry;
        *word = sum | (*word & !mask);
    }
}

struct Table<'a> {
    first: &'a [u8],
    second: &'a [u8],
    words: usize,
    /// One row of bits per byte of `first`.
    rows: Vec<u64>,
}

impl<'a> Table<'a> {
    fn new(first: &'a [u8], second: &'a [u8]) -> Table<'a> {
        let masks = Masks::new(second);
        let mut row = vec![u64::MAX; masks.words];
        let mut rows = Vec::with_capacity(masks.words * first.len());
        for &byte in first {
            advance(&mut row, masks.of(byte));
            rows.extend_from_slice(&row);
        }
        Table { first, second, words: masks.words, rows }
    }

    /// Calls `on_match` with the positions of each byte of the subsequence, last to first.
    fn walk_back(&self, mut on_match: impl FnMut(usize, usize)) {
        let (mut row, mut column) = (self.first.len(), self.second.len());
        while row > 0 && column > 0 {
            if self.first[row - 1] == self.second[column - 1] {
                row -= 1;
                column -= 1;
                on_match(row, column);
            } else {
                let word = self.rows[(row - 1) * self.words + (column - 1) / 64];
                if word >> ((column - 1) % 64) & 1 == 0 {
                    row -= 1;
                } else {
                    column -= 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn example_of_the_manual() {
        let (first, second) = (b"ohmytext", b"mynewtext");
        assert_eq!(subsequence(first, second), b"mytext");
        assert_eq!(length(first, second), 6);
        let (runs, total) = matches(first, second, 0);
        assert_eq!(runs, [Match { first: 4..=7, second: 5..=8 }, Match { first: 2..=3, second: 0..=1 }]);
        assert_eq!(runs[0].bytes(), 4);
        assert_eq!(total, 6);
        assert_eq!(matches(first, second, 4), (runs[..1].to_vec(), 6));
        assert_eq!(matches(first, second, 5), (Vec::new(), 6));
    }

    #[test]
    fn nothing_in_common() {
        assert_eq!(length(b"", b"abc"), 0);
        assert_eq!(subsequence(b"abc", b""), b"");
        assert_eq!(matches(b"abc", b"xyz", 0), (Vec::new(), 0));
    }

    #[test]
    fn limits() {
        assert_eq!(check_limits(99, 99, 40_000), Ok(()));
        assert_eq!(check_limits(99, 99, 39_999), Err(LcsError::TooMuchMemory));
        assert_eq!(check_limits(u32::MAX as usize, 0, u64::MAX), Err(LcsError::TooLong));
    }

    /// The textbook table and walk; ties go to the column side, as in Redis.
    fn model(first: &[u8], second: &[u8]) -> (Vec<u8>, usize) {
        let mut table = vec![vec![0usize; second.len() + 1]; first.len() + 1];
        for (row, left) in first.iter().enumerate() {
            for (column, right) in second.iter().enumerate() {
                table[row + 1][column + 1] = if left == right {
                    table[row][column] + 1
                } else {
                    table[row][column + 1].max(table[row + 1][column])
                };
            }
        }
        let (mut row, mut column) = (first.len(), second.len());
        let mut text = Vec::new();
        while row > 0 && column > 0 {
            if first[row - 1] == second[column - 1] {
                text.push(first[row - 1]);
                (row, column) = (row - 1, column - 1);
            } else if table[row - 1][column] > table[row][column - 1] {
                row -= 1;
            } else {
                column -= 1;
            }
        }
        text.reverse();
        (text, table[first.len()][second.len()])
    }

    proptest! {
        #[test]
        fn equals_the_table(
            first in vec(b'a'..b'e', 0..200), second in vec(b'a'..b'e', 0..200), bytes_min in 0usize..4,
        ) {
            let (text, len) = model(&first, &second);
            prop_assert_eq!(length(&first, &second), len);
            prop_assert_eq!(subsequence(&first, &second), text.as_slice());
            let (runs, total) = matches(&first, &second, 0);
            prop_assert_eq!(total, len);
            let mut joined = Vec::new();
            for run in runs.iter().rev() {
                prop_assert_eq!(&first[run.first.clone()], &second[run.second.clone()]);
                joined.extend_from_slice(&first[run.first.clone()]);
            }
            prop_assert_eq!(joined, text);
            let long: Vec<_> = runs.into_iter().filter(|run| run.bytes() >= bytes_min).collect();
            prop_assert_eq!(matches(&first, &second, bytes_min).0, long);
        }
    }
}
