// SPDX-License-Identifier: BSD-3-Clause
//! Places in the kept log at which a unit begins, one for nearly each chunk: a reader that knows
//! no other place begins at one of them, and finds the units after it by reading.
//!
//! Only the thread whose range enters a new chunk notes a place, so appending costs a comparison.

use std::collections::VecDeque;

use braid_base::sync::lock;

use super::{CHUNK, Chunks, Journal, NO_DATABASE, Reader};

/// A place at which a unit begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Boundary {
    pub offset: u64,
    /// The database that is selected there. `None`: a SELECT follows before the next change, or it
    /// is not known.
    pub db: Option<u32>,
}

/// The known places, in order.
#[derive(Default)]
pub(super) struct Boundaries(VecDeque<Boundary>);

impl Boundaries {
    /// Nothing before this place is kept.
    pub(super) fn begin(&mut self, first: Boundary) {
        self.0.clear();
        self.0.push_back(first);
    }

    fn note(&mut self, boundary: Boundary) {
        // Threads that append concurrently may arrive here in a different order.
        let index = self.0.partition_point(|other| other.offset < boundary.offset);
        match self.0.get_mut(index) {
            Some(same) if same.offset == boundary.offset => *same = boundary,
            _ => self.0.insert(index, boundary),
        }
    }

    /// Drops the places before an offset, whose bytes are freed.
    pub(super) fn forget_before(&mut self, offset: u64) {
        while self.0.front().is_some_and(|first| first.offset < offset) {
            self.0.pop_front();
        }
    }

    fn last_until(&self, offset: u64) -> Option<Boundary> {
        let index = self.0.partition_point(|boundary| boundary.offset <= offset);
        self.0.get(index.checked_sub(1)?).copied()
    }
}

impl Chunks {
    /// The first byte that is still there, if a backlog is kept.
    fn first_present(&self) -> Option<u64> {
        let backlog = self.backlog.as_ref()?;
        Some(backlog.begin().max(self.first * CHUNK as u64))
    }
}

impl Journal {
    #[cold]
    pub(super) fn note_boundary(&self, offset: u64, db: u32) {
        let mut chunks = lock(&self.chunks);
        if chunks.backlog.is_some() {
            let db = (db != NO_DATABASE).then_some(db);
            chunks.boundaries.note(Boundary { offset, db });
        }
    }

    /// The first place at which a reader of the backlog can begin; `None` without a backlog.
    pub fn first_boundary(&self) -> Option<Boundary> {
        let chunks = lock(&self.chunks);
        let first = chunks.first_present()?;
        chunks.boundaries.0.iter().find(|boundary| boundary.offset >= first).copied()
    }

    /// The last known place at an offset or before it, if it is still there.
    pub fn boundary_until(&self, offset: u64) -> Option<Boundary> {
        let chunks = lock(&self.chunks);
        let first = chunks.first_present()?;
        chunks.boundaries.last_until(offset).filter(|boundary| boundary.offset >= first)
    }

    /// A reader that begins at an offset whose bytes are still there, although the backlog may
    /// not promise them any longer; otherwise `None`.
    pub fn reader_at(&self, offset: u64) -> Option<Reader> {
        let mut chunks = lock(&self.chunks);
        let first = chunks.first_present()?;
        let is_there = (first..=self.end()).contains(&offset);
        is_there.then(|| self.add_reader(&mut chunks, offset, false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Writer;

    fn journal() -> Journal {
        let journal = Journal::new(1);
        journal.make_room_for_threads(1);
        journal
    }

    #[test]
    fn each_entered_chunk_has_a_boundary_with_its_database() {
        let journal = journal();
        let mut writer = Writer::default();
        journal.append_request(0, &mut writer, 0, &[b"EARLIER"]);
        assert_eq!((journal.first_boundary(), journal.boundary_until(99)), (None, None), "no backlog");
        journal.begin_backlog(1 << 30, Some(0));
        let begin = Boundary { offset: journal.end(), db: Some(0) };
        assert_eq!(journal.first_boundary(), Some(begin));
        let mut ends = vec![(begin.offset, 0)];
        let value = vec![b'x'; CHUNK / 3];
        for step in 0..20 {
            let db = step / 4;
            match step % 3 {
                0 => journal.append_request(0, &mut writer, db, &[b"SET", b"k", &value]),
                1 => {
                    writer.unit.push(db, &[b"SET", b"k", &value]);
                    writer.unit.push(db + 1, &[b"DEL", b"k"]);
                    journal.append(0, &mut writer);
                }
                _ => {
                    journal.append_aside(0, &mut writer, &[b"PING"]);
                }
            }
            let db = journal.database().expect("selected");
            ends.push((journal.end(), db));
        }
        let mut found = 0;
        for chunk in begin.offset / CHUNK as u64..journal.end() / CHUNK as u64 + 1 {
            let Some(boundary) = journal.boundary_until((chunk + 1) * CHUNK as u64 - 1) else {
                panic!("nothing until the end of chunk {chunk}")
            };
            let db = boundary.db.expect("known");
            assert!(ends.contains(&(boundary.offset, db)), "{boundary:?} is the end of a unit");
            found += usize::from(boundary.offset / CHUNK as u64 == chunk);
        }
        assert!(found > 3, "{found}");
    }

    #[test]
    fn a_chunk_filled_to_its_last_byte_has_its_boundary_in_the_next() {
        let journal = journal();
        let mut writer = Writer::default();
        journal.begin_backlog(1 << 30, None);
        // "*1\r\n$<len>\r\n<len bytes>\r\n", after the SELECT of the first one.
        journal.append_request(0, &mut writer, 0, &[b"A"]);
        let left = CHUNK - journal.end() as usize;
        let digits = (left - 20).to_string().len();
        let value = vec![b'x'; left - 9 - digits];
        journal.append_request(0, &mut writer, 0, &[&value]);
        assert_eq!(journal.end(), CHUNK as u64);
        let boundary = Boundary { offset: CHUNK as u64, db: Some(0) };
        assert_eq!(journal.boundary_until(CHUNK as u64), Some(boundary));
    }

    #[test]
    fn places_whose_bytes_are_gone_are_forgotten() {
        let journal = journal();
        let mut writer = Writer::default();
        journal.begin_backlog(CHUNK as u64, None);
        let begin = journal.end();
        let value = vec![b'x'; CHUNK / 2];
        for _ in 0..12 {
            journal.append_request(0, &mut writer, 0, &[b"SET", b"k", &value]);
        }
        let first = journal.first_boundary().expect("a backlog");
        assert!(first.offset > begin && journal.boundary_until(begin).is_none());
        assert!(journal.end() - first.offset <= 3 * CHUNK as u64);
        assert!(journal.reader_at(begin).is_none());
        let mut reader = journal.reader_at(first.offset).expect("its bytes are there");
        let mut start = Vec::new();
        reader.read(&journal, journal.complete(), |piece| {
            start.extend_from_slice(piece);
            piece.len()
        });
        assert!(start.starts_with(b"*3\r\n$3\r\nSET\r\n"));
        reader.end(&journal);
        journal.end_backlog();
        assert!(journal.first_boundary().is_none() && journal.reader_at(journal.end()).is_none());
    }

    #[test]
    fn a_replicas_boundaries_have_the_streams_database() {
        let journal = journal();
        let mut writer = Writer::default();
        journal.begin_backlog(1 << 30, Some(3));
        let bytes = vec![b'x'; CHUNK - 10];
        journal.append_received(0, &mut writer, &bytes, false, Some(3));
        journal.append_received(0, &mut writer, &bytes, false, Some(5));
        let end = journal.end();
        assert_eq!(journal.boundary_until(end), Some(Boundary { offset: end, db: Some(5) }));
        journal.append_received(0, &mut writer, &bytes, true, Some(7));
        let end = journal.end();
        assert_eq!(journal.boundary_until(end), Some(Boundary { offset: end, db: Some(7) }));
    }
}
