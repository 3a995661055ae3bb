// SPDX-License-Identifier: BSD-3-Clause
//! Past lengths of the stream with their times, which give the age of the bytes that a replica
//! lacks.

use std::collections::VecDeque;

/// Maximum number of notes. Beyond it, every second note of the older half is dropped: old times
/// need not be exact.
const NOTES_MAX: usize = 512;

/// Ends of the stream at past times.
#[derive(Default)]
pub struct StreamTimes {
    /// Milliseconds since the Unix epoch, and the journal's end at that time. Both ascend.
    notes: VecDeque<(i64, u64)>,
}

impl StreamTimes {
    /// Records the journal's current end.
    pub fn note(&mut self, now_ms: i64, end: u64) {
        // Reserve everything up front: memory that grew while a replica is slow would count
        // towards `maxmemory`, and evict keys.
        self.notes.reserve_exact(NOTES_MAX + 1 - self.notes.len());
        if self.notes.back().is_some_and(|&(_, last)| last == end) {
            // Nothing was added: keep the latest time at which this was the end.
            self.notes.pop_back();
        }
        self.notes.push_back((now_ms, end));
        if self.notes.len() > NOTES_MAX {
            let mut place = 0;
            self.notes.retain(|_| {
                place += 1;
                place > NOTES_MAX / 2 || place % 2 == 0
            });
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.notes.clear();
    }

    /// Upper bound of the age, in milliseconds, of the oldest byte after `offset` in a journal
    /// that now ends at `end`; 0 if there is none.
    pub fn lag_ms(&self, offset: u64, end: u64, now_ms: i64) -> i64 {
        if offset >= end {
            return 0;
        }
        let known = self.notes.partition_point(|&(_, noted)| noted <= offset);
        let since = self.notes.get(known.saturating_sub(1)).map_or(now_ms, |&(at, _)| at);
        (now_ms - since).max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replica_lag_is_the_age_of_its_first_missing_byte() {
        let mut times = StreamTimes::default();
        assert_eq!(times.lag_ms(0, 5, 1000), 0, "no time is known yet");
        for (at, end) in [(1000, 10), (1100, 10), (1200, 20), (1300, 30), (1400, 30)] {
            times.note(at, end);
        }
        assert_eq!(times.lag_ms(30, 30, 1500), 0);
        assert_eq!(times.lag_ms(30, 35, 1450), 50, "the bytes arrived after the last note");
        assert_eq!(times.lag_ms(20, 30, 1500), 300);
        assert_eq!(times.lag_ms(15, 30, 1500), 400, "the stream had ten bytes until 1100");
        assert_eq!(times.lag_ms(3, 30, 1500), 400, "the oldest note limits the lag");
    }

    #[test]
    fn old_time_notes_are_thinned_out() {
        let mut times = StreamTimes::default();
        times.note(0, 0);
        let room = times.notes.capacity();
        for second in 0..100_000 {
            times.note(second * 1000, second as u64 * 10);
            assert!(times.notes.len() <= NOTES_MAX);
            assert_eq!(times.notes.capacity(), room, "the notes take more and more memory");
        }
        let lag_s = |second: u64| times.lag_ms(second * 10, 1_000_000, 99_999_000) / 1000;
        assert_eq!(lag_s(99_990), 9, "recent times are exact");
        assert!((lag_s(99_000) - 999).abs() < 300, "{}", lag_s(99_000));
    }
}
