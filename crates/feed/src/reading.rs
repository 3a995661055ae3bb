// SPDX-License-Identifier: BSD-3-Clause
//! A reading of a feed: from an ID that a client names to the entries after it.
//!
//! The journal is read where it lies. A reading begins at a place that is known to be the beginning
//! of a unit: one that a reading has reached before, or a boundary of the journal, from which it
//! walks to the unit that the ID names. Never where a client says: bytes within a value could look
//! like requests.
//!
//! If the bytes after the ID are gone, or the ID is of another history, the reading has a [`Gap`].

use std::sync::atomic::Ordering::Relaxed;

use braid_journal::{Boundary, Journal, Reader};
use braid_replication::history::History;
use braid_replication::link::LinkError;
use braid_spec::CommandTable;

use crate::change::{Change, Content};
use crate::definition::Feed;
use crate::id::{EntryId, check_of};
use crate::scan::{Landed, Scanner};

/// Bytes read at a time, at first and at most.
const STEP_MIN: u64 = 4 << 10;
const STEP_MAX: u64 = 64 << 10;

/// What readers read.
#[derive(Clone, Copy)]
pub struct Source<'e> {
    pub journal: &'e Journal,
    pub history: &'e History,
    pub commands: &'e CommandTable,
    /// The offset in the journal up to which it may be read; a boundary of units.
    pub end: u64,
    /// This server's history is the one that counts: an ID that is ahead of it belongs to another.
    pub is_primary: bool,
}

/// Why a reader has missed changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missed {
    /// The journal no longer has them.
    Dropped,
    /// The ID is of a history that differs from this one: changes that the reader has seen may
    /// never have been made here.
    Diverged,
}

impl Missed {
    pub const fn name(self) -> &'static str {
        match self {
            Missed::Dropped => "dropped",
            Missed::Diverged => "diverged",
        }
    }
}

/// A reader has missed changes between the ID that it named and the next entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    pub missed: Missed,
    pub after: EntryId,
    /// Before the first entry that follows.
    pub next: EntryId,
}

/// There is nothing for the reader up to a place far behind the ID that it named: it should name
/// this one from now on. The server remembers how far it has looked, but another one, after a
/// failover, may no longer have the bytes between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    pub id: EntryId,
}

impl Mark {
    /// The fields of the entry that shows it.
    pub fn fields(&self) -> [(&'static str, String); 1] {
        [("event", "mark".to_owned())]
    }
}

/// An entry of a feed.
pub struct Entry<'f, 'r> {
    pub id: EntryId,
    pub change: &'f Change<'r>,
    /// In a transaction with several entries: how many follow.
    pub more: Option<usize>,
}

/// The value of an entry's field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldValue<'a> {
    Text(&'a [u8]),
    Number(i64),
}

impl Entry<'_, '_> {
    /// Passes the entry's fields to `visit`, in order.
    pub fn for_each_field<'a>(&'a self, mut visit: impl FnMut(&str, FieldValue<'a>)) {
        use FieldValue::{Number, Text};
        let Change { event, key, kind, db, command, other, content } = self.change;
        visit("event", Text(event.name().as_bytes()));
        if let Some(key) = key {
            visit("key", Text(key));
            visit("type", Text(kind.as_bytes()));
        }
        visit("command", Text(command));
        visit("db", Number(*db));
        if let Some((role, name)) = other {
            visit(role, Text(name));
        }
        match content {
            Content::Nothing => {}
            Content::Value(value) => visit("value", Text(value)),
            Content::Arguments(args) => {
                for (index, arg) in args.iter().enumerate() {
                    visit(&format!("arg{}", index + 1), Text(arg));
                }
            }
        }
        if let Some(more) = self.more {
            visit("more", Number(more as i64));
        }
    }

    /// The number of fields.
    pub fn field_count(&self) -> usize {
        let mut count = 0;
        self.for_each_field(|_, _| count += 1);
        count
    }
}

impl Gap {
    /// The ID of the entry that shows the gap: a reader that goes on from it gets what follows.
    pub fn id(&self) -> EntryId {
        self.next
    }

    /// The fields of that entry.
    pub fn fields(&self) -> [(&'static str, String); 4] {
        [
            ("event", "gap".to_owned()),
            ("reason", self.missed.name().to_owned()),
            ("after", self.after.to_string()),
            ("next", self.next.to_string()),
        ]
    }
}

/// Why a reading has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// There is nothing more.
    AtEnd,
    /// The bytes that it may look at are used up.
    Paused,
    /// The visitor wanted no more.
    Stopped,
}

/// A reading in progress.
pub struct Reading<'e> {
    source: Source<'e>,
    reader: Option<Reader>,
    scanner: Scanner,
    /// Entries up to this one are known to the reader.
    after: EntryId,
    pub gap: Option<Gap>,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        // The journal keeps nothing for it any longer.
        if let Some(reader) = self.reader.take() {
            reader.end(self.source.journal);
        }
    }
}

impl<'e> Reading<'e> {
    /// A reading of the entries after an ID. `None` if there is nothing to read here yet. `known`:
    /// the place where a reader with this ID continues, if it has been noted.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn after(
        source: Source<'e>,
        after: EntryId,
        known: Option<Boundary>,
    ) -> Result<Option<Reading<'e>>, LinkError> {
        let Some(first) = source.journal.first_boundary() else { return Ok(None) };
        if after.is_start() {
            return Ok(Reading::at(source, first, after, None));
        }
        if let Some(known) = known
            && let Some(reading) = Reading::at(source, known, after, None)
        {
            return Ok(Some(reading));
        }
        let target = source.history.journal_offset(after.place);
        let missed = match target {
            Some(target) if target > source.end => {
                if !source.is_primary || target <= source.journal.end() {
                    // The reader has been at a server that has more, or has read what is not on
                    // disk, or another thread is just writing before that place.
                    return Ok(None);
                }
                Missed::Diverged
            }
            // The unit's bytes are gone, but nothing after it.
            Some(target) if target == first.offset && after.completes_unit() => {
                return Ok(Reading::at(source, first, after, None));
            }
            Some(target) if target == first.offset => Missed::Dropped,
            Some(target) if target >= first.offset => {
                if let Some(place) = find_unit(source, target, after)? {
                    return Ok(Reading::at(source, place, after, None));
                }
                Missed::Diverged
            }
            _ => Missed::Dropped,
        };
        let mut place = first;
        if missed == Missed::Diverged
            && let Some((_, until)) = source.history.earlier()
            && until <= after.place
            && let Some(until) = source.history.journal_offset(until)
            && (first.offset..=source.end).contains(&until)
            && let Some(branch) = find_unit(source, until, EntryId::at(after.place))?
        {
            // All that the new history has of its own.
            place = branch;
        }
        let next = EntryId::at(source.history.offset(place.offset));
        let gap = Some(Gap { missed, after, next });
        Ok(Reading::at(source, place, next, gap))
    }

    /// A reading of the entries from an ID on, and of everything that is there if none is named.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn from(source: Source<'e>, start: EntryId) -> Result<Option<Reading<'e>>, LinkError> {
        let Some(first) = source.journal.first_boundary() else { return Ok(None) };
        let target = source.history.journal_offset(start.place);
        let mut reading = match target {
            Some(target) if target > source.end => return Ok(None),
            Some(target) if target >= first.offset => {
                let place = walk(source, target, |landed| Some(landed.begin))?;
                place.and_then(|place| Reading::at(source, place, EntryId::MIN, None))
            }
            _ => Reading::at(source, first, EntryId::MIN, None),
        };
        if let Some(reading) = &mut reading {
            let next = EntryId::at(source.history.offset(first.offset));
            if !start.is_start() && start < next {
                reading.gap = Some(Gap { missed: Missed::Dropped, after: start, next });
            }
        }
        Ok(reading)
    }

    fn at(source: Source<'e>, place: Boundary, after: EntryId, gap: Option<Gap>) -> Option<Reading<'e>> {
        let reader = Some(source.journal.reader_at(place.offset)?);
        let scanner = Scanner::new(place.offset, place.db);
        Some(Reading { source, reader, scanner, after, gap })
    }

    /// Passes the entries to `visit` until it returns false, or `bytes` have been looked at.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn read(
        &mut self,
        feed: &Feed,
        bytes: u64,
        mut visit: impl FnMut(&Entry<'_, '_>) -> bool,
    ) -> Result<Ended, LinkError> {
        let Reading { source, reader: Some(reader), scanner, after, .. } = self else {
            return Ok(Ended::AtEnd);
        };
        let Source { journal, history, commands, end, .. } = *source;
        let (mut step, limit) = (STEP_MIN, reader.position().saturating_add(bytes));
        let begin = scanner.place();
        let mut entries = 0;
        let ended = loop {
            let here = reader.position();
            if here >= end {
                break Ended::AtEnd;
            }
            // A unit that is larger than that is read to its end.
            if here >= limit && scanner.place() > begin {
                break Ended::Paused;
            }
            let mut pushed = Ok(());
            reader.read(journal, end.min(here + step), |piece| {
                if pushed.is_ok() {
                    pushed = scanner.push(piece);
                }
                piece.len()
            });
            pushed?;
            step = (step * 2).min(STEP_MAX);
            let goes_on = scanner.scan(feed, commands, |found| {
                let place = history.offset(found.place + found.bytes.len() as u64);
                let (check, count) = (check_of(found.bytes), found.changes.len());
                found.changes.iter().rev().enumerate().rev().all(|(more, change)| {
                    let id = EntryId::of(place, check, more);
                    let more = (count > 1).then_some(more);
                    let is_taken = id > *after && visit(&Entry { id, change, more });
                    entries += u64::from(is_taken);
                    is_taken || id <= *after
                })
            });
            if !goes_on {
                break Ended::Stopped;
            }
        };
        feed.figures.entries.fetch_add(entries, Relaxed);
        feed.figures.bytes.fetch_add(scanner.place() - begin, Relaxed);
        Ok(ended)
    }

    /// The offset in the journal of the ID that the reader has named, if it is of this history.
    pub fn asked_offset(&self, asked: EntryId) -> Option<u64> {
        self.source.history.journal_offset(asked.place)
    }

    /// A mark for a reader that has taken everything passed to it.
    pub fn mark(&self) -> Mark {
        Mark { id: EntryId::at(self.source.history.offset(self.scanner.place())) }
    }

    /// Where a reader continues that has taken everything passed to it.
    pub fn place(&self) -> Boundary {
        Boundary { offset: self.scanner.place(), db: self.scanner.db() }
    }
}

/// The place where a reader continues that has an entry of the unit that ends at an offset, or
/// everything before it. `None` if no unit ends there, or it has another checksum.
fn find_unit(source: Source<'_>, target: u64, after: EntryId) -> Result<Option<Boundary>, LinkError> {
    if let Some(first) = source.journal.first_boundary()
        && first.offset == target
    {
        return Ok(Some(first));
    }
    walk(source, target, |landed| {
        let is_same = after.check().is_none_or(|check| check_of(landed.unit) == check);
        let place = if after.completes_unit() { landed.end } else { landed.begin };
        (landed.end.offset == target && is_same).then_some(place)
    })
}

/// Walks from the last boundary before an offset to the first unit that does not end before it.
fn walk<T>(
    source: Source<'_>,
    target: u64,
    judge: impl FnOnce(Landed<'_>) -> Option<T>,
) -> Result<Option<T>, LinkError> {
    let Source { journal, end, .. } = source;
    let begin = target.checked_sub(1).and_then(|before| journal.boundary_until(before));
    // What is from the first boundary on.
    let Some(begin) = begin.or_else(|| journal.first_boundary()) else { return Ok(None) };
    let Some(mut reading) = Reading::at(source, begin, EntryId::MIN, None) else { return Ok(None) };
    let Reading { reader: Some(reader), scanner, .. } = &mut reading else { return Ok(None) };
    loop {
        let here = reader.position();
        if here >= end {
            return Ok(None);
        }
        let mut pushed = Ok(());
        reader.read(journal, end.min(here + STEP_MAX), |piece| {
            if pushed.is_ok() {
                pushed = scanner.push(piece);
            }
            piece.len()
        });
        pushed?;
        if let Some(landed) = scanner.skip_until(target) {
            return Ok(judge(landed));
        }
    }
}
