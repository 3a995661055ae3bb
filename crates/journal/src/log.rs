// SPDX-License-Identifier: BSD-3-Clause
//! The log: bytes at offsets, in chunks. Many threads append to it; readers follow behind.
//!
//! HOT PATH ([`Journal::append`]): no lock, no allocation and no system call, except when a chunk
//! is full.
//!
//! A thread reserves a range of offsets with one atomic update of the log's end, then copies its
//! bytes there in parallel with other threads. Before it reserves the range, it publishes an
//! offset that is not after the range's start; it clears that offset after copying. Everything
//! before the end and before all published offsets is complete.
//!
//! The word that holds the end also holds the database of the last request, so that the next
//! thread knows whether its unit needs a SELECT first.
//!
//! An appender and a reader that falls asleep must not miss each other: the appender advances the
//! end and then checks for sleepers; the reader marks itself as sleeping and then checks the end.
//! All four steps are sequentially consistent, so at least one side sees the other.
//! `tests/model.rs` explores the schedules.
//!
//! For consumers other than a thread sleeping in [`Reader::wait`], a bell is rung
//! ([`Journal::wants_bell`]), by the same protocol.
//!
//! `unsafe`: a chunk's bytes are shared without a lock. A range belongs to the thread that
//! reserved it until that thread clears its published offset; readers access only complete
//! ranges, which are never written again.

mod backlog;
mod boundaries;

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use braid_base::Padded;
use braid_base::prefetch::prefetch_to_write;
use braid_base::sharing::{Line, note};
use braid_base::slots::Slots;
use braid_base::sync::atomic::AtomicU64;
use braid_base::sync::atomic::Ordering::*;
use braid_base::sync::{Fault, Mutex, Thread, current, lock, park_timeout, planted};
use braid_resp::request;

pub use backlog::Kept;
use backlog::{Asides, Backlog};
use boundaries::Boundaries;
pub use boundaries::Boundary;

use crate::unit::{EXEC, MULTI, Unit, push_select};

/// Bytes per chunk. Small under the model checker, so that units span several chunks, and under
/// Miri, which checks every byte whenever a chunk is borrowed.
const CHUNK: usize = if cfg!(feature = "model") {
    64
} else if cfg!(miri) {
    256
} else {
    256 << 10
};
/// Bytes of a cache line.
const LINE: usize = 64;
/// The number of fully read chunks kept for reuse.
const SPARE_CHUNKS: usize = 8;
/// Bits of the end word used for the database.
const DB_BITS: u32 = 8;
/// No database is selected, or its number does not fit in the word.
pub const NO_DATABASE: u32 = (1 << DB_BITS) - 1;

struct Chunk(Box<[UnsafeCell<u8>]>);

// SAFETY: see the module documentation: each range has one writer, and is read only once
// complete.
unsafe impl Sync for Chunk {}

impl Chunk {
    fn new() -> Chunk {
        Chunk((0..CHUNK).map(|_| UnsafeCell::new(0)).collect())
    }

    /// # Safety
    /// The range belongs to the calling thread.
    unsafe fn write(&self, at: usize, bytes: &[u8]) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.room(at, bytes.len()) }.copy_from_slice(bytes);
    }

    /// Prefetches the cache lines of the next units, which a reader on another core accessed
    /// last.
    #[inline]
    fn prefetch(&self, at: usize) {
        for ahead in [LINE, 2 * LINE] {
            if let Some(byte) = self.0.get(at + ahead) {
                prefetch_to_write(byte);
            }
        }
    }

    /// # Safety
    /// The range belongs to the calling thread, which has no other view of it.
    #[expect(clippy::mut_from_ref, reason = "as with a cell: the range belongs to the caller alone")]
    unsafe fn room(&self, at: usize, len: usize) -> &mut [u8] {
        let room = &self.0[at..at + len];
        // SAFETY: in bounds (checked by the slice) and initialised; no other access to the range
        // (guaranteed by the caller).
        unsafe { std::slice::from_raw_parts_mut(UnsafeCell::raw_get(room.as_ptr()), len) }
    }

    /// # Safety
    /// The range is complete.
    unsafe fn read(&self, at: usize, len: usize) -> &[u8] {
        let range = &self.0[at..at + len];
        // SAFETY: in bounds, initialised, and no longer written (guaranteed by the caller).
        unsafe { std::slice::from_raw_parts(range.as_ptr().cast(), len) }
    }
}

#[derive(Default)]
struct Chunks {
    /// Number of the first chunk: its offset divided by [`CHUNK`].
    first: u64,
    list: VecDeque<Arc<Chunk>>,
    spare: Vec<Arc<Chunk>>,
    readers: Vec<Position>,
    /// Bytes kept after all readers have passed them.
    backlog: Option<Backlog>,
    asides: Asides,
    boundaries: Boundaries,
}

/// A reader's position.
#[derive(Clone)]
struct Position {
    offset: Arc<AtomicU64>,
    skips_asides: bool,
}

/// The log of all changes. One per server.
pub struct Journal {
    /// The end of the reserved ranges, and the database selected there.
    end: Padded<AtomicU64>,
    /// For each thread, an offset that is not after the range that it is writing; `u64::MAX`
    /// while it writes none.
    notes: Slots<Padded<AtomicU64>>,
    chunks: Mutex<Chunks>,
    /// Waiting consumers: [`SLEEPER`], [`BELL`].
    wanted_by: Padded<AtomicU64>,
    sleeper: Mutex<Option<Thread>>,
    bell: OnceLock<Bell>,
}

/// Called when there is something to read.
type Bell = Box<dyn Fn() + Send + Sync>;

/// A thread sleeps in [`Reader::wait`].
const SLEEPER: u64 = 1;
/// The bell must be rung.
const BELL: u64 = 2;

/// A thread's side of the journal: the unit being collected, and the end of its last append.
#[derive(Default)]
pub struct Writer {
    pub unit: Unit,
    /// A unit has been appended since this was last checked: once the locks are released, readers
    /// of the log must be woken.
    pub has_appended: bool,
    /// [`Journal::wake_after`] does not ring the bell, but sets `owes_bell`.
    pub defers_bell: bool,
    /// The bell was wanted when the thread appended: the thread must give the readers what they
    /// wait for, or ring it ([`Journal::wake`]).
    pub owes_bell: bool,
    /// End of the last append.
    pub end: u64,
    chunk: Option<(u64, Arc<Chunk>)>,
}

/// A range of offsets reserved by a thread. It begins with the SELECT for its database if needed.
struct Range {
    start: u64,
    end: u64,
    select: Vec<u8>,
    /// The database selected at its end.
    db: u32,
}

/// True if a range ends in another chunk than it begins in: its end is that chunk's first boundary.
#[inline]
fn enters_chunk(range: &std::ops::Range<u64>) -> bool {
    range.start / CHUNK as u64 != range.end / CHUNK as u64
}

fn unpack(word: u64) -> (u64, u32) {
    (word >> DB_BITS, word as u32 & NO_DATABASE)
}

fn pack(offset: u64, db: u32) -> u64 {
    offset << DB_BITS | u64::from(db.min(NO_DATABASE))
}

/// The database that a unit for `databases` must select, if the log's last request is for `db`.
#[inline]
fn to_select(databases: Option<(u32, u32)>, db: u32) -> Option<u32> {
    databases.map(|(first, _)| first).filter(|&first| db != first || db == NO_DATABASE)
}

impl Journal {
    /// An empty log for up to `threads_max` threads. No thread may append before
    /// [`Journal::make_room_for_threads`].
    pub fn new(threads_max: usize) -> Journal {
        Journal {
            end: Padded::new(AtomicU64::new(pack(0, NO_DATABASE))),
            notes: Slots::new(threads_max),
            chunks: Mutex::default(),
            wanted_by: Padded::default(),
            sleeper: Mutex::default(),
            bell: OnceLock::new(),
        }
    }

    /// Makes room for `threads` threads.
    pub fn make_room_for_threads(&self, threads: usize) {
        self.notes.grow(threads, |_| Padded::new(AtomicU64::new(u64::MAX)));
    }

    /// The offset at which the next unit begins.
    #[inline]
    pub fn end(&self) -> u64 {
        unpack(self.end.load(Acquire)).0
    }

    /// The database of the last request, if one is selected.
    pub fn database(&self) -> Option<u32> {
        let (_, db) = unpack(self.end.load(Acquire));
        (db != NO_DATABASE).then_some(db)
    }

    /// The end of the complete part of the log, which may be read; a unit boundary. It may be
    /// less than an earlier result, if a thread that saw an older end has just begun; complete
    /// ranges stay complete.
    pub fn complete(&self) -> u64 {
        // A thread that has reserved a range before this end published its offset earlier.
        let (end, _) = unpack(self.end.load(Acquire));
        self.notes.iter().map(|note| note.load(Acquire)).fold(end, u64::min)
    }

    /// Makes the next unit select its database, because a reader begins there. Returns the log's
    /// end. No thread may append meanwhile (the world is stopped).
    pub fn forget_database(&self) -> u64 {
        let (end, _) = unpack(self.end.load(Acquire));
        self.end.store(pack(end, NO_DATABASE), Release);
        end
    }

    /// Prefetches the log's end for an append that may follow soon.
    #[inline]
    pub fn prefetch(&self) {
        prefetch_to_write(&raw const *self.end);
    }

    /// Reserves a range of the log for the thread's unit and copies the unit there. The caller
    /// holds the locks of all keys involved. `slot` is the thread's.
    #[inline]
    pub fn append(&self, slot: usize, writer: &mut Writer) {
        let Writer { unit, chunk, has_appended, end: last, .. } = writer;
        let databases = unit.databases();
        let (multi, exec) = if unit.requests() > 1 { (MULTI, EXEC) } else { (&b""[..], &b""[..]) };
        let range = self.take(slot, Some(databases), multi.len() + unit.bytes().len() + exec.len());
        let Range { start, ref select, .. } = range;
        *last = range.end;
        if select.is_empty() && multi.is_empty() {
            self.copy(chunk, start, unit.bytes());
        } else {
            let mut at = start;
            // The database of a transaction is selected within it, as in Redis.
            for part in [multi, select, unit.bytes(), exec] {
                self.copy(chunk, at, part);
                at += part.len() as u64;
            }
        }
        if enters_chunk(&(range.start..range.end)) {
            self.note_boundary(range.end, range.db);
        }
        self.notes[slot].store(u64::MAX, Release);
        unit.clear();
        *has_appended = true;
        if !writer.unit.asides.is_empty() {
            let asides = std::mem::take(&mut writer.unit.asides);
            self.append_asides(slot, writer, None, &asides);
        }
    }

    /// [`Journal::append`] for a unit of one request, which need not be collected first.
    #[inline]
    pub fn append_request(&self, slot: usize, writer: &mut Writer, db: u32, args: &[&[u8]]) {
        let len = request::encoded_len(args);
        let range = self.take(slot, Some((db, db)), len);
        writer.end = range.end;
        let place = (range.start % CHUNK as u64) as usize;
        match &writer.chunk {
            // Up to the chunk's last byte but one: the end is in the same chunk.
            Some((number, chunk))
                if *number == range.start / CHUNK as u64
                    && place + len < CHUNK
                    && range.select.is_empty() =>
            {
                // SAFETY: this thread has reserved the range.
                request::write(unsafe { chunk.room(place, len) }, args);
                chunk.prefetch(place + len);
            }
            _ => self.append_parts(&mut writer.chunk, range, args),
        }
        self.notes[slot].store(u64::MAX, Release);
        writer.has_appended = true;
    }

    #[cold]
    fn append_parts(&self, chunk: &mut Option<(u64, Arc<Chunk>)>, mut range: Range, args: &[&[u8]]) {
        request::push(&mut range.select, args);
        self.copy(chunk, range.start, &range.select);
        if enters_chunk(&(range.start..range.end)) {
            self.note_boundary(range.end, range.db);
        }
    }

    /// Reserves a range of `len` bytes, plus a SELECT of the first database if the log's last
    /// request is for another one. `databases`: the first and the last one; `None` leaves the
    /// selection unchanged. The thread's note announces the range until the caller has written it
    /// and clears the note.
    #[inline]
    fn take(&self, slot: usize, databases: Option<(u32, u32)>, len: usize) -> Range {
        let word = self.end.load(Relaxed);
        // Ends only grow: wherever the range ends up, it does not begin before this.
        if !planted(Fault::NoteComesLate) {
            self.notes[slot].store(word >> DB_BITS, Release);
        }
        let (start, db) = unpack(word);
        if to_select(databases, db).is_none() {
            let end = start + len as u64;
            if self.advance(word, end, databases).is_ok() {
                self.have_taken(slot, start);
                let db = databases.map_or(db, |(_, last)| last);
                return Range { start, end, select: Vec::new(), db };
            }
        }
        self.take_selecting(slot, databases, len)
    }

    /// [`Journal::take`] if the unit's database must be selected, or another thread was faster. The
    /// thread's note is in place.
    #[cold]
    fn take_selecting(&self, slot: usize, databases: Option<(u32, u32)>, len: usize) -> Range {
        let mut select = Vec::new();
        let mut word = self.end.load(Relaxed);
        loop {
            let (start, db) = unpack(word);
            match to_select(databases, db) {
                Some(first_db) if select.is_empty() => push_select(&mut select, first_db),
                Some(_) => {}
                None => select.clear(),
            }
            let end = start + (select.len() + len) as u64;
            match self.advance(word, end, databases) {
                Ok(_) => {
                    self.have_taken(slot, start);
                    let db = databases.map_or(db, |(_, last)| last);
                    return Range { start, end, select, db };
                }
                Err(now) => word = now,
            }
        }
    }

    /// Moves the end to an offset, where the last of the databases is selected, unless another
    /// thread has moved it. Releases the thread's note to threads that see the new end; precedes
    /// the check in `wake` for those that do not.
    #[inline]
    fn advance(&self, word: u64, end: u64, databases: Option<(u32, u32)>) -> Result<u64, u64> {
        note(Line::JournalEnd, 1, 1);
        let db = databases.map_or(unpack(word).1, |(_, last)| last);
        self.end.compare_exchange_weak(word, pack(end, db), SeqCst, Relaxed)
    }

    /// Steps of the model checker after a range has been reserved.
    #[inline]
    fn have_taken(&self, slot: usize, start: u64) {
        if cfg!(feature = "model") {
            // To the checker, copying is not a step; this load is one, at which other threads may
            // be scheduled.
            self.end.load(Relaxed);
        }
        if planted(Fault::NoteComesLate) {
            self.notes[slot].store(start, Release);
        }
    }

    #[inline]
    fn copy(&self, cached: &mut Option<(u64, Arc<Chunk>)>, at: u64, bytes: &[u8]) {
        let place = (at % CHUNK as u64) as usize;
        match cached {
            Some((number, chunk)) if *number == at / CHUNK as u64 && place + bytes.len() <= CHUNK => {
                // SAFETY: this thread has reserved the range.
                unsafe { chunk.write(place, bytes) };
            }
            _ => self.copy_across(cached, at, bytes),
        }
    }

    #[cold]
    fn copy_across(&self, cached: &mut Option<(u64, Arc<Chunk>)>, mut at: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let number = at / CHUNK as u64;
            if cached.as_ref().is_none_or(|(cached, _)| *cached != number) {
                *cached = Some((number, self.chunk(number)));
            }
            let Some((_, chunk)) = cached else { return };
            let place = (at % CHUNK as u64) as usize;
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK - place));
            // SAFETY: this thread has reserved the range.
            unsafe { chunk.write(place, now) };
            at += now.len() as u64;
            bytes = later;
        }
    }

    /// A chunk by its number, allocated if needed.
    #[cold]
    fn chunk(&self, number: u64) -> Arc<Chunk> {
        let mut chunks = lock(&self.chunks);
        let at = (number - chunks.first) as usize;
        if let Some(chunk) = chunks.list.get(at) {
            return Arc::clone(chunk);
        }
        while chunks.list.len() <= at {
            let chunk = chunks.spare.pop().unwrap_or_else(|| Arc::new(Chunk::new()));
            chunks.list.push_back(chunk);
        }
        let chunk = Arc::clone(&chunks.list[at]);
        // A backlog may have no reader.
        self.trim_chunks(&mut chunks);
        chunk
    }

    /// The log's memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let chunks = lock(&self.chunks);
        (chunks.list.len() + chunks.spare.len()) * CHUNK
    }

    /// A reader of everything appended from now on, except asides ([`Journal::append_aside`]). No
    /// thread may append meanwhile (the world is stopped).
    pub fn reader(&self) -> Reader {
        self.add_reader(&mut lock(&self.chunks), self.end(), true)
    }

    fn add_reader(&self, chunks: &mut Chunks, offset: u64, skips_asides: bool) -> Reader {
        let position = Position { offset: Arc::new(AtomicU64::new(offset)), skips_asides };
        chunks.readers.push(position.clone());
        Reader { position }
    }

    /// Wakes the thread that sleeps in [`Reader::wait`]. Call it after the event that the thread
    /// must see: a [`Journal::append`], or a change of the condition that it checks before it
    /// sleeps.
    #[inline]
    pub fn wake(&self) {
        // A plain load on processors that order stores as strictly as x86; the preceding step on
        // the end was the barrier.
        if self.wanted_by.load(SeqCst) != 0 {
            self.wake_now();
        }
    }

    /// As [`Journal::wake`], after appends by a thread. If the thread defers the bell, it is not
    /// rung, and stays wanted.
    #[inline]
    pub fn wake_after(&self, writer: &mut Writer) {
        let wanted_by = self.wanted_by.load(SeqCst);
        if wanted_by != 0 {
            if writer.defers_bell {
                writer.owes_bell |= wanted_by & BELL != 0;
                if wanted_by & SLEEPER != 0 {
                    self.wake_for(SLEEPER);
                }
            } else {
                self.wake_now();
            }
        }
    }

    #[cold]
    fn wake_now(&self) {
        self.wake_for(SLEEPER | BELL);
    }

    fn wake_for(&self, consumers: u64) {
        note(Line::JournalWake, 1, 1);
        let wanted_by = self.wanted_by.fetch_and(!consumers, AcqRel) & consumers;
        if wanted_by & SLEEPER != 0
            && let Some(thread) = &*lock(&self.sleeper)
        {
            thread.unpark();
        }
        if wanted_by & BELL != 0
            && let Some(bell) = self.bell.get()
        {
            bell();
        }
    }

    /// Sets the bell. Only the first call has an effect.
    pub fn set_bell(&self, bell: impl Fn() + Send + Sync + 'static) {
        // Already set: ignore.
        let _ = self.bell.set(Box::new(bell));
    }

    /// Requests one ring of the bell, at the next [`Journal::wake`] after something is appended
    /// after `seen`. Returns true if that has already happened: the caller must check again
    /// instead of sleeping.
    pub fn wants_bell(&self, seen: u64) -> bool {
        let looked_before = planted(Fault::SleeperLooksBefore).then(|| self.end());
        self.wanted_by.fetch_or(BELL, SeqCst);
        let (end, _) = unpack(self.end.load(SeqCst));
        looked_before.unwrap_or(end) > seen
    }

    /// Frees the chunks that all readers have passed and no backlog keeps.
    fn trim(&self) {
        self.trim_chunks(&mut lock(&self.chunks));
    }

    fn trim_chunks(&self, chunks: &mut Chunks) {
        let positions =
            || chunks.readers.iter().map(|reader| (reader.offset.load(Acquire), reader.skips_asides));
        let least = positions().map(|(offset, _)| offset).min();
        let still_skips = positions().filter(|(_, skips)| *skips).map(|(offset, _)| offset).min();
        chunks.asides.forget_before(still_skips.unwrap_or(u64::MAX));
        // Without a reader no data is kept; ranges being written still have their chunks.
        let complete = self.complete();
        let kept = chunks.backlog.as_ref().map_or(u64::MAX, |backlog| backlog.first(complete));
        let least = least.unwrap_or(complete).min(kept);
        while (chunks.first + 1) * CHUNK as u64 <= least {
            let Some(mut chunk) = chunks.list.pop_front() else {
                chunks.first = least / CHUNK as u64;
                break;
            };
            chunks.first += 1;
            if chunks.spare.len() < SPARE_CHUNKS && Arc::get_mut(&mut chunk).is_some() {
                chunks.spare.push(chunk);
            }
        }
        chunks.boundaries.forget_before(chunks.first * CHUNK as u64);
    }
}

/// A reader's position in the log, which keeps everything after it.
pub struct Reader {
    position: Position,
}

impl Reader {
    /// The offset of the next byte to be read.
    pub fn position(&self) -> u64 {
        self.position.offset.load(Relaxed)
    }

    /// Passes the bytes from the reader's position to `end` to `visit`, piece by piece. `visit`
    /// returns the number of bytes it has consumed; reading stops when that is less than the
    /// piece. The position advances by the consumed bytes. `end` is at most
    /// [`Journal::complete`].
    pub fn read(&mut self, journal: &Journal, end: u64, mut visit: impl FnMut(&[u8]) -> usize) {
        self.read_placed(journal, end, |_, bytes| visit(bytes));
    }

    /// [`Reader::read`] with the offset of each piece.
    pub fn read_placed(&mut self, journal: &Journal, end: u64, mut visit: impl FnMut(u64, &[u8]) -> usize) {
        debug_assert!(end <= journal.end());
        let mut at = self.position();
        while at < end {
            let place = (at % CHUNK as u64) as usize;
            let mut len = (end - at).min((CHUNK - place) as u64) as usize;
            if self.position.skips_asides {
                match lock(&journal.chunks).asides.next(at) {
                    Some(aside) if aside.contains(&at) => {
                        at = aside.end;
                        continue;
                    }
                    Some(aside) => len = len.min((aside.start - at) as usize),
                    None => {}
                }
            }
            let chunk = journal.chunk(at / CHUNK as u64);
            // SAFETY: complete, as guaranteed by the caller.
            let taken = visit(at, unsafe { chunk.read(place, len) });
            at += taken as u64;
            if taken < len {
                break;
            }
        }
        self.position.offset.store(at, Release);
        journal.trim();
    }

    /// Sleeps until [`Journal::wake`] is called after an append after `seen`, until `is_called`
    /// returns true, or for at most `most`. Only one thread may sleep. The data that `is_called`
    /// reads is protected by a lock, which the waking thread has released before it calls.
    pub fn wait(
        &mut self,
        journal: &Journal,
        seen: u64,
        most: std::time::Duration,
        is_called: impl Fn() -> bool,
    ) {
        *lock(&journal.sleeper) = Some(current());
        let has_records = || unpack(journal.end.load(SeqCst)).0 > seen || is_called();
        let looked_before = planted(Fault::SleeperLooksBefore).then(has_records);
        journal.wanted_by.fetch_or(SLEEPER, SeqCst);
        if !looked_before.unwrap_or_else(has_records) {
            park_timeout(most);
        }
        journal.wanted_by.fetch_and(!SLEEPER, Relaxed);
    }

    /// Ends reading: the log no longer keeps data for this reader.
    pub fn end(self, journal: &Journal) {
        lock(&journal.chunks).readers.retain(|reader| !Arc::ptr_eq(&reader.offset, &self.position.offset));
        journal.trim();
    }
}

#[cfg(test)]
mod tests;
