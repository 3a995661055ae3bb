// SPDX-License-Identifier: BSD-3-Clause
//! The backlog on disk: the list of unit logs, and the position in them from which a peer can be
//! sent the units it lacks when the [backlog](crate::backlog) in memory has dropped some of them.
//!
//! A log has units in the order in which they were applied, like the backlog, and each log
//! continues where the one before it ends. Therefore a peer that has applied everything before a
//! log can be sent the units from there on. The effects of a full copy are in no log: only the logs
//! after it are usable.
//!
//! The caller owns the files; this module knows their numbers and lengths.

use std::collections::VecDeque;

use crate::vector::Vector;

/// A log of units.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Log {
    pub number: u64,
    /// Everything that was applied before the first unit.
    pub begin: Vector,
    pub bytes: u64,
}

/// A position between two units of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cursor {
    pub number: u64,
    pub offset: u64,
}

/// A cursor as one word, which peers send back: this bit, which tells it from a backlog position,
/// then the number, and the offset in the lowest bits.
const IS_CURSOR: u64 = 1 << 62;
const OFFSET_BITS: u32 = 38;
const NUMBER_BITS: u32 = 24;

impl Cursor {
    /// The cursor as a word; `None` if it does not fit.
    pub fn word(self) -> Option<u64> {
        let fits = self.number >> NUMBER_BITS == 0 && self.offset >> OFFSET_BITS == 0;
        fits.then_some(IS_CURSOR | self.number << OFFSET_BITS | self.offset)
    }

    /// The cursor in a word; `None` if the word is not a cursor.
    pub fn of_word(word: u64) -> Option<Cursor> {
        let is_cursor = word & IS_CURSOR != 0 && word >> 63 == 0;
        let number = word >> OFFSET_BITS & ((1 << NUMBER_BITS) - 1);
        is_cursor.then_some(Cursor { number, offset: word & ((1 << OFFSET_BITS) - 1) })
    }
}

/// Consecutive logs; the last one is still being written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Logs(VecDeque<Log>);

impl Logs {
    /// A log begins after the effects in `begin`. Logs before a gap are dropped.
    pub fn push(&mut self, number: u64, begin: Vector) {
        if self.0.back().is_some_and(|last| last.number + 1 != number) {
            self.clear();
        }
        self.0.push_back(Log { number, begin, bytes: 0 });
    }

    /// Sets the present length of the last log in bytes.
    pub fn set_len(&mut self, bytes: u64) {
        if let Some(last) = self.0.back_mut() {
            last.bytes = bytes;
        }
    }

    /// Sets the lengths of all logs in bytes.
    pub fn set_len_of(&mut self, bytes: impl Fn(u64) -> u64) {
        self.0.iter_mut().for_each(|log| log.bytes = bytes(log.number));
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Drops the logs before a number.
    pub fn drop_before(&mut self, number: u64) {
        let gone = self.0.partition_point(|log| log.number < number);
        self.0.drain(..gone);
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Log> {
        self.0.iter()
    }

    /// True if the log of a cursor exists.
    pub fn has(&self, cursor: Cursor) -> bool {
        self.0.iter().any(|log| log.number == cursor.number)
    }

    /// The latest position from which a peer that has applied `applied` can be sent the units it
    /// lacks.
    pub fn reach(&self, applied: &Vector) -> Option<Cursor> {
        let log = self.0.iter().rev().find(|log| applied.includes(&log.begin))?;
        Some(Cursor { number: log.number, offset: 0 })
    }

    /// The number of bytes after a cursor.
    pub fn bytes_from(&self, cursor: Cursor) -> u64 {
        let behind = self.0.iter().filter(|log| log.number >= cursor.number).map(|log| log.bytes);
        behind.sum::<u64>().saturating_sub(cursor.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::{Region, Stamp};
    use crate::vector::Run;

    fn applied(positions: &[(u8, u64)]) -> Vector {
        let mut vector = Vector::default();
        for (region, position) in positions {
            let stamp = |position| Stamp::of(Region::new(*region).unwrap(), position).unwrap();
            vector.add(Run { start: stamp(0), last: stamp(*position) });
        }
        vector
    }

    fn at(number: u64, offset: u64) -> Cursor {
        Cursor { number, offset }
    }

    #[test]
    fn reading_starts_at_the_last_log_before_the_missing_units() {
        let mut logs = Logs::default();
        assert_eq!(logs.reach(&applied(&[])), None);
        for (number, begin) in [(3, &[][..]), (4, &[(1, 10)]), (5, &[(1, 20), (2, 5)])] {
            logs.push(number, applied(begin));
            logs.set_len(100 * number);
        }
        assert_eq!(logs.reach(&applied(&[])), Some(at(3, 0)));
        assert_eq!(logs.reach(&applied(&[(1, 15), (2, 4)])), Some(at(4, 0)));
        assert_eq!(logs.reach(&applied(&[(1, 20), (2, 4)])), Some(at(4, 0)));
        assert_eq!(logs.reach(&applied(&[(1, 20), (2, 5), (7, 1)])), Some(at(5, 0)));
        assert_eq!((logs.bytes_from(at(4, 30)), logs.bytes_from(at(5, 500))), (870, 0));
        logs.drop_before(4);
        assert!(!logs.has(at(3, 0)) && logs.has(at(4, 17)));
        assert_eq!(logs.reach(&applied(&[(1, 9)])), None);
        // A gap.
        logs.push(7, applied(&[(1, 30)]));
        assert_eq!(logs.iter().map(|log| log.number).collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn cursors_are_words_that_no_position_is() {
        for cursor in [at(0, 0), at(7, 123_456), at((1 << 24) - 1, (1 << 38) - 1)] {
            let word = cursor.word().expect("the cursor fits in a word");
            assert_eq!(Cursor::of_word(word), Some(cursor));
            assert!(i64::try_from(word).is_ok(), "the word exceeds an integer of the protocol");
        }
        assert_eq!((at(1 << 24, 0).word(), at(0, 1 << 38).word()), (None, None));
        assert_eq!(
            (Cursor::of_word(0), Cursor::of_word(1 << 61), Cursor::of_word(u64::MAX)),
            (None, None, None)
        );
    }
}
