// SPDX-License-Identifier: BSD-3-Clause
//! The log's support for replicas: the backlog, from which a replica continues after a
//! disconnection, and asides, which only replicas see.
//!
//! The backlog is not a copy: it consists of the log's own chunks, kept until they are far enough
//! behind the end. A reader may start at any offset in it.
//!
//! An aside is a request that changes nothing (a PING that shows a replica that the link is
//! alive, a request for its offset). It counts in the offsets, so that all replicas agree on
//! them; readers that write files skip it.

use std::collections::VecDeque;
use std::ops::Range;

use braid_base::sync::atomic::Ordering::*;
use braid_base::sync::lock;
use braid_resp::request;

use super::{Boundary, Chunks, Journal, NO_DATABASE, Reader, Writer, enters_chunk};

/// The last bytes of the log, kept for replicas.
pub(super) struct Backlog {
    /// No data before this offset is kept.
    start: u64,
    size: u64,
}

impl Backlog {
    /// The first offset that is kept if the log ends at `end`.
    pub(super) fn first(&self, end: u64) -> u64 {
        self.start.max(end.saturating_sub(self.size))
    }

    /// The offset at which it began.
    pub(super) fn begin(&self) -> u64 {
        self.start
    }
}

impl Chunks {
    /// The first offset at which a new reader may begin: the start of the backlog, or earlier
    /// data kept for slower readers of the same kind.
    fn first_kept(&self, end: u64) -> Option<u64> {
        let backlog = self.backlog.as_ref()?;
        let readers = self.readers.iter().filter(|reader| !reader.skips_asides);
        let behind = readers.map(|reader| reader.offset.load(Acquire)).min();
        let first = backlog.first(end);
        Some(behind.map_or(first, |behind| first.min(behind.max(backlog.start))))
    }
}

/// The positions of asides, while there are readers that skip them.
#[derive(Default)]
pub(super) struct Asides(VecDeque<Range<u64>>);

impl Asides {
    /// The aside at an offset, or the next one after it.
    pub(super) fn next(&self, at: u64) -> Option<Range<u64>> {
        let index = self.0.partition_point(|aside| aside.end <= at);
        self.0.get(index).cloned()
    }

    /// Drops the asides that end before an offset, which all readers that skip asides have
    /// passed.
    pub(super) fn forget_before(&mut self, offset: u64) {
        while self.0.front().is_some_and(|aside| aside.end <= offset) {
            self.0.pop_front();
        }
    }

    fn add(&mut self, aside: Range<u64>) {
        // Threads that append concurrently may arrive here in a different order.
        let index = self.0.partition_point(|other| other.start < aside.start);
        self.0.insert(index, aside);
    }
}

/// The present range of a backlog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    /// The offset of its first byte.
    pub first: u64,
    /// Bytes from there to the log's end.
    pub len: u64,
}

impl Journal {
    /// Starts to keep the last `size` bytes of the log. `db`: the database selected there, if it
    /// is known. No thread may append meanwhile (the world is stopped).
    pub fn begin_backlog(&self, size: u64, db: Option<u32>) {
        let mut chunks = lock(&self.chunks);
        let offset = self.end();
        chunks.backlog = Some(Backlog { start: offset, size });
        chunks.boundaries.begin(Boundary { offset, db });
    }

    /// From now on, keeps only data that readers need.
    pub fn end_backlog(&self) {
        lock(&self.chunks).backlog = None;
        self.trim();
    }

    /// Changes the size of the backlog, if there is one.
    pub fn resize_backlog(&self, size: u64) {
        let mut chunks = lock(&self.chunks);
        let end = self.end();
        if let Some(backlog) = &mut chunks.backlog {
            // Dropped bytes do not come back.
            *backlog = Backlog { start: backlog.first(end), size };
        }
        self.trim_chunks(&mut chunks);
    }

    /// The current range of the backlog, if there is one.
    pub fn backlog(&self) -> Option<Kept> {
        let chunks = lock(&self.chunks);
        let end = self.end();
        let first = chunks.first_kept(end)?;
        Some(Kept { first, len: end - first })
    }

    /// A reader that starts at an offset, which must be in the backlog or the log's end;
    /// otherwise `None`.
    pub fn reader_from(&self, offset: u64) -> Option<Reader> {
        let mut chunks = lock(&self.chunks);
        let end = self.end();
        let is_kept = chunks.first_kept(end).is_some_and(|first| (first..=end).contains(&offset));
        is_kept.then(|| self.add_reader(&mut chunks, offset, false))
    }

    /// Appends a request that only readers from [`Journal::reader_from`] see. The thread is
    /// inside the gate.
    ///
    /// Returns the offsets of its start and end.
    pub fn append_aside(&self, slot: usize, writer: &mut Writer, args: &[&[u8]]) -> std::ops::Range<u64> {
        let mut bytes = Vec::new();
        request::push(&mut bytes, args);
        self.append_asides(slot, writer, None, &bytes)
    }

    /// [`Journal::append_aside`] for a client's request, which is journalled in the client's
    /// database, as in Redis. If the database must be selected first, all readers see the SELECT.
    pub fn append_aside_in(&self, slot: usize, writer: &mut Writer, db: u32, args: &[&[u8]]) {
        let mut bytes = Vec::new();
        request::push(&mut bytes, args);
        self.append_asides(slot, writer, Some(db), &bytes);
    }

    /// Appends data received from a primary, unchanged: whole units. `is_aside`: readers that write
    /// files skip it. `db`: the database selected at its end, if it is known. The caller adds a
    /// SELECT if one is missing. The world is stopped.
    pub fn append_received(
        &self,
        slot: usize,
        writer: &mut Writer,
        bytes: &[u8],
        is_aside: bool,
        db: Option<u32>,
    ) {
        if is_aside {
            let aside = self.append_asides(slot, writer, None, bytes);
            if enters_chunk(&aside) {
                // Not the database of the word: that is this server's own.
                self.note_boundary(aside.end, db.unwrap_or(NO_DATABASE));
            }
            return;
        }
        let range = self.take(slot, None, bytes.len());
        self.copy(&mut writer.chunk, range.start, bytes);
        if enters_chunk(&(range.start..range.end)) {
            self.note_boundary(range.end, db.unwrap_or(NO_DATABASE));
        }
        self.notes[slot].store(u64::MAX, Release);
        writer.end = range.end;
        writer.has_appended = true;
    }

    /// [`Journal::append_aside_in`] for encoded requests. `db`: `None` if the database does not
    /// matter.
    #[cold]
    pub(super) fn append_asides(
        &self,
        slot: usize,
        writer: &mut Writer,
        db: Option<u32>,
        bytes: &[u8],
    ) -> Range<u64> {
        let range = self.take(slot, db.map(|db| (db, db)), bytes.len());
        let from = range.start + range.select.len() as u64;
        {
            let mut chunks = lock(&self.chunks);
            if chunks.readers.iter().any(|reader| reader.skips_asides) {
                // Before the range is complete, so that no reader passes the aside without
                // knowing of it.
                chunks.asides.add(from..range.end);
            }
        }
        self.copy(&mut writer.chunk, range.start, &range.select);
        self.copy(&mut writer.chunk, from, bytes);
        if enters_chunk(&(range.start..range.end)) {
            self.note_boundary(range.end, range.db);
        }
        self.notes[slot].store(u64::MAX, Release);
        writer.has_appended = true;
        from..range.end
    }
}

impl Reader {
    /// Another reader at the same position.
    pub fn again(&self, journal: &Journal) -> Reader {
        let mut chunks = lock(&journal.chunks);
        journal.add_reader(&mut chunks, self.position(), self.position.skips_asides)
    }
}
