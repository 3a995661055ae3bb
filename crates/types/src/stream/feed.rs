// SPDX-License-Identifier: BSD-3-Clause
//! Change feeds as streams: what XREAD, XRANGE, XREVRANGE, XLEN and XINFO do with the name of a
//! feed (docs/design/028-change-feed.md). All of them read the journal; nothing is stored.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_executor::{Call, Engine, feeds};
use braid_feed::{Ended, Entry, EntryId, Feed, FieldValue, Gap, LinkError, Mark, ReadPoint, Reading, Source};
use braid_resp::reply::ReplyBuffer;
use braid_spec::{CommandError, CommandResult};
use braid_values::stream::StreamId;

use super::{range_end, range_start, reply_id};

/// The most bytes of the journal that one XREAD looks at: other clients wait meanwhile. A reader
/// with nothing for it in these bytes continues behind them.
const READ_BYTES: u64 = 1 << 20;

/// The feed with this name.
pub(super) fn feed_of(call: &Call, name: &[u8]) -> Option<Arc<Feed>> {
    call.engine.feeds.get(name)
}

/// The error for what feeds do not have.
pub(super) fn no_groups(name: &[u8]) -> CommandError {
    CommandError::quoting("ERR '", name, "' is a change feed, which has no consumer groups: use XREAD")
}

fn unreadable(error: &LinkError) -> CommandError {
    CommandError::text(format!("ERR the journal cannot be read: {error}"))
}

fn entry_id(id: StreamId) -> EntryId {
    EntryId { place: id.ms, second: id.seq }
}

fn stream_id(id: EntryId) -> StreamId {
    StreamId { ms: id.place, seq: id.second }
}

fn reply_change(reply: &mut ReplyBuffer, entry: &Entry<'_, '_>) {
    reply.array(2);
    reply_id(reply, stream_id(entry.id));
    reply.array(entry.field_count() * 2);
    entry.for_each_field(|name, value| {
        reply.bulk(name.as_bytes());
        match value {
            FieldValue::Text(text) => reply.bulk(text),
            FieldValue::Number(number) => reply.bulk_integer(number),
        }
    });
}

fn reply_note(reply: &mut ReplyBuffer, id: EntryId, fields: &[(&str, String)]) {
    reply.array(2);
    reply_id(reply, stream_id(id));
    reply.array(fields.len() * 2);
    for (name, value) in fields {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
}

/// The ID that `$` means: everything so far is before it.
pub(super) fn last_id(call: &Call) -> StreamId {
    let history = call.engine.replication.history();
    let end = feeds::source(call.engine, call.session, &history).end;
    stream_id(EntryId::at(history.offset(end)))
}

/// An entry to reply with.
pub(super) enum Item<'e, 'f, 'r> {
    Gap(&'e Gap),
    Mark(&'e Mark),
    Change(&'e Entry<'f, 'r>),
}

impl Item<'_, '_, '_> {
    pub(super) fn reply(&self, reply: &mut ReplyBuffer) {
        match self {
            Item::Gap(gap) => reply_note(reply, gap.id(), &gap.fields()),
            Item::Mark(mark) => reply_note(reply, mark.id, &mark.fields()),
            Item::Change(entry) => reply_change(reply, entry),
        }
    }
}

/// What XREAD has found in a feed.
pub(super) struct Progress {
    /// The offset in the journal up to which the reader has everything.
    pub seen: u64,
    /// The last entry.
    last: Option<EntryId>,
}

/// A feed that XREAD reads.
pub(super) struct FeedRead<'c> {
    feed: &'c Feed,
    source: Source<'c>,
    asked: ReadPoint,
    reading: Option<Reading<'c>>,
}

impl<'c> FeedRead<'c> {
    /// # Errors
    /// If the journal cannot be read.
    pub fn open(
        engine: &Engine,
        source: Source<'c>,
        feed: &'c Feed,
        behind: StreamId,
    ) -> Result<FeedRead<'c>, CommandError> {
        let after = entry_id(behind);
        let asked = ReadPoint { feed: feed.number, dataset: source.history.dataset(), after };
        let known = engine.feeds.place_of(&asked);
        let reading = Reading::after(source, after, known).map_err(|error| unreadable(&error))?;
        Ok(FeedRead { feed, source, asked, reading })
    }

    /// Passes a gap and the entries to `visit` until it returns false: then that entry counts as
    /// not read.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn read(
        &mut self,
        engine: &Engine,
        mut visit: impl FnMut(&Item<'_, '_, '_>) -> bool,
    ) -> Result<Progress, CommandError> {
        let mut progress = Progress { seen: self.source.end, last: None };
        let Some(reading) = &mut self.reading else { return Ok(progress) };
        if let Some(gap) = reading.gap.take() {
            if !visit(&Item::Gap(&gap)) {
                return Ok(progress);
            }
            progress.last = Some(gap.id());
            self.feed.figures.gaps.fetch_add(1, Relaxed);
        }
        let read = reading.read(self.feed, READ_BYTES, |entry| {
            let goes_on = visit(&Item::Change(entry));
            if goes_on {
                progress.last = Some(entry.id);
            }
            goes_on
        });
        read.map_err(|error| unreadable(&error))?;
        let place = reading.place();
        progress.seen = place.offset;
        let note = |after: EntryId| engine.feeds.note_place(ReadPoint { after, ..self.asked }, place);
        let asked = self.asked.after;
        if let Some(last) = progress.last {
            note(last);
        } else if !asked.is_start() {
            note(asked);
            // Halfway through what is kept, the reader gets an ID that other servers still know.
            let kept = engine.config.repl_backlog_size();
            let is_far = |offset: u64| place.offset.saturating_sub(offset) > kept / 2;
            let mark = reading.mark();
            if reading.asked_offset(asked).is_some_and(is_far) && visit(&Item::Mark(&mark)) {
                note(mark.id);
            }
        }
        Ok(progress)
    }
}

/// What a range of a feed is read from.
#[derive(Clone)]
struct Range {
    feed: Arc<Feed>,
    start: EntryId,
    end: EntryId,
    /// The offset in the journal up to which the client may read.
    until: u64,
}

impl Range {
    fn new(call: &Call, feed: &Arc<Feed>, (start, end): (StreamId, StreamId)) -> Range {
        let history = call.engine.replication.history();
        let until = feeds::source(call.engine, call.session, &history).end;
        Range { feed: Arc::clone(feed), start: entry_id(start), end: entry_id(end), until }
    }

    /// True if there is too much to look at while the lock of the feed's name is held.
    fn is_long(&self, engine: &Engine) -> bool {
        let history = engine.replication.history();
        let first = engine.keyspace.journal.first_boundary().map_or(self.until, |first| first.offset);
        let start = history.journal_offset(self.start.place).map_or(first, |start| start.max(first));
        self.until.saturating_sub(start) > READ_BYTES
    }

    /// Passes all entries to `visit`, until it returns false.
    fn read(
        &self,
        engine: &Engine,
        mut visit: impl FnMut(&Item<'_, '_, '_>) -> bool,
    ) -> Result<(), CommandError> {
        let Range { feed, start, end, until } = self;
        let history = engine.replication.history();
        let source = feeds::source_until(engine, &history, *until);
        let reading = Reading::from(source, *start).map_err(|error| unreadable(&error))?;
        let Some(mut reading) = reading else { return Ok(()) };
        if let Some(gap) = reading.gap.take()
            && gap.id() <= *end
            && !visit(&Item::Gap(&gap))
        {
            return Ok(());
        }
        loop {
            let ended = reading.read(feed, READ_BYTES, |entry| {
                entry.id <= *end && (entry.id < *start || visit(&Item::Change(entry)))
            });
            match ended.map_err(|error| unreadable(&error))? {
                Ended::Paused => {}
                Ended::AtEnd | Ended::Stopped => return Ok(()),
            }
        }
    }

    /// Replies with what `write` makes of the range: on a background thread if that takes long,
    /// since no key is concerned but the lock of the feed's name is held here.
    fn answer(
        self,
        call: &mut Call,
        write: impl FnOnce(&Engine, &Range, &mut ReplyBuffer) -> CommandResult + Send + 'static,
    ) -> CommandResult {
        if !self.is_long(call.engine) || !call.may_leave(false) {
            return write(call.engine, &self, call.reply);
        }
        call.work_in_background(move |engine, answer| {
            let mut reply = answer.buffer();
            match write(engine, &self, &mut reply) {
                Ok(()) => answer.give(reply),
                Err(error) => answer.give_error(&error),
            }
        })
    }
}

/// XRANGE and XREVRANGE.
pub(super) fn range(call: &mut Call, feed: &Arc<Feed>, reverse: bool, most: usize) -> CommandResult {
    let args = call.args;
    let (start, end) = if reverse { (args[3], args[2]) } else { (args[2], args[3]) };
    let ids = (range_start(start)?, range_end(end)?);
    Range::new(call, feed, ids).answer(call, move |engine, range, reply| {
        let protocol = reply.protocol;
        let mut kept: VecDeque<Vec<u8>> = VecDeque::new();
        // 0: no limit.
        let room = match reply.limit() {
            0 => usize::MAX,
            limit => limit.saturating_sub(reply.len()),
        };
        let mut bytes = 0;
        range.read(engine, |item| {
            let mut one = ReplyBuffer::new(protocol);
            item.reply(&mut one);
            let one = one.take_vec();
            bytes += one.len();
            kept.push_back(one);
            if reverse && kept.len() > most {
                bytes -= kept.pop_front().map_or(0, |gone| gone.len());
            }
            (reverse || kept.len() < most) && bytes <= room
        })?;
        reply.array(kept.len());
        if reverse {
            kept.iter().rev().for_each(|one| reply.raw(one));
        } else {
            kept.iter().for_each(|one| reply.raw(one));
        }
        Ok(())
    })
}

/// XLEN.
pub(super) fn len(call: &mut Call, feed: &Arc<Feed>) -> CommandResult {
    Range::new(call, feed, (StreamId::MIN, StreamId::MAX)).answer(call, |engine, range, reply| {
        let mut count = 0;
        range.read(engine, |_| {
            count += 1;
            true
        })?;
        reply.integer(count);
        Ok(())
    })
}

/// XINFO STREAM.
pub(super) fn info(call: &mut Call, feed: &Arc<Feed>) -> CommandResult {
    if call.args.len() > 3 {
        return Err(CommandError::quoting(
            "ERR '",
            &feed.name,
            "' is a change feed: XINFO STREAM has no options for it",
        ));
    }
    let last_id = last_id(call);
    Range::new(call, feed, (StreamId::MIN, StreamId::MAX)).answer(call, move |engine, range, reply| {
        let (mut count, mut first, mut last) = (0, None, None);
        let protocol = reply.protocol;
        range.read(engine, |item| {
            let mut one = ReplyBuffer::new(protocol);
            item.reply(&mut one);
            let one = one.take_vec();
            if first.is_none() {
                first = Some(one.clone());
            }
            last = Some(one);
            count += 1;
            true
        })?;
        reply.map(8);
        for (name, number) in [("length", count), ("radix-tree-keys", 0), ("radix-tree-nodes", 0)] {
            reply.bulk(name.as_bytes());
            reply.integer(number);
        }
        for (name, id) in [("last-generated-id", last_id), ("max-deleted-entry-id", StreamId::MIN)] {
            reply.bulk(name.as_bytes());
            reply_id(reply, id);
        }
        reply.bulk(b"groups");
        reply.integer(0);
        for (name, entry) in [("first-entry", first), ("last-entry", last)] {
            reply.bulk(name.as_bytes());
            match entry {
                Some(entry) => reply.raw(&entry),
                None => reply.null(),
            }
        }
        Ok(())
    })
}
