// SPDX-License-Identifier: BSD-3-Clause
//! Streams as requests: XADD, XGROUP, XCLAIM, XSETID.
//!
//! XCLAIM drops a pending entry that is no longer in the stream. So that those stay pending, they
//! are added for as long as the claims take.

use std::collections::BTreeSet;
use std::io;

use braid_keyspace::object::RequestSink;
use braid_resp::request;

use super::{Group, Idempotency, Log, Stream, StreamId};

/// What XSETID sets.
#[derive(Clone, Copy)]
pub struct Numbers {
    last_id: StreamId,
    entries_added: u64,
    max_deleted_id: StreamId,
}

impl Numbers {
    /// Those of a log.
    pub fn of(log: &Log) -> Numbers {
        Numbers {
            last_id: log.last_id(),
            entries_added: log.entries_added(),
            max_deleted_id: log.max_deleted_id(),
        }
    }

    /// The requests that set these numbers in a copy of the stream. If an XDEL came before
    /// (`after_deletion`), and there must be no greatest deleted ID: stock servers take no 0-0 for
    /// one, but with 0-1 their lags are the same; and after that Braid takes 0-0.
    pub fn for_each_request(self, key: &[u8], after_deletion: bool, mut each: impl FnMut(&[&[u8]])) {
        let (last, added) = (self.last_id.to_string(), self.entries_added.to_string());
        let mut set = |max_deleted: StreamId| {
            each(&[
                b"XSETID",
                key,
                last.as_bytes(),
                b"ENTRIESADDED",
                added.as_bytes(),
                b"MAXDELETEDID",
                max_deleted.to_string().as_bytes(),
            ]);
        };
        if after_deletion && self.max_deleted_id == StreamId::MIN {
            set(StreamId::LEAST);
        }
        set(self.max_deleted_id);
    }
}

pub(super) fn rewrite(stream: &Stream, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
    let log = stream.log();
    let missing = pending_without_entry(stream);
    let mut later = missing.iter().copied().peekable();
    for entry in log.range(StreamId::MIN, StreamId::MAX) {
        while let Some(id) = later.next_if(|id| *id < entry.id) {
            push_missing(out, name, id)?;
        }
        let (fields, buffer) = (entry.fields.clone(), out.buffer());
        request::push_count(buffer, 3 + 2 * fields.count());
        request::push_bulk(buffer, b"XADD");
        request::push_bulk(buffer, name);
        request::push_bulk(buffer, entry.id.to_string().as_bytes());
        for (field, value) in entry.fields {
            request::push_bulk(buffer, field.text(&mut itoa::Buffer::new()));
            request::push_bulk(buffer, value.text(&mut itoa::Buffer::new()));
        }
        out.complete()?;
    }
    for id in later {
        push_missing(out, name, id)?;
    }
    if log.is_empty() && missing.is_empty() {
        // A stream without entries: a single request adds an entry and trims it away.
        request::push(out.buffer(), &[b"XADD", name, b"MAXLEN", b"0", b"0-1", b"x", b"y"]);
    }
    if missing.is_empty() {
        Numbers::of(log).for_each_request(name, false, |words| request::push(out.buffer(), words));
    }
    for (group_name, group) in stream.groups().iter() {
        push_group(out, name, group_name, group)?;
    }
    for id in &missing {
        request::push(out.buffer(), &[b"XDEL", name, id.to_string().as_bytes()]);
        out.complete()?;
    }
    if !missing.is_empty() {
        Numbers::of(log).for_each_request(name, true, |words| request::push(out.buffer(), words));
    }
    if let Some(names) = stream.idempotency() {
        push_names(out, name, names)?;
    }
    Ok(())
}

/// The names that producers gave their entries.
fn push_names(out: &mut dyn RequestSink, key: &[u8], names: &Idempotency) -> io::Result<()> {
    let bounds = Journalled::Bounds { duration_s: names.duration_s(), names_max: names.names_max() };
    let words = bounds.words(key, StreamId::LEAST);
    request::push(out.buffer(), &words.each_ref().map(|word| &word[..]));
    for (producer, name, id) in names.records() {
        let words = Journalled::Name { producer, name }.words(key, id);
        request::push(out.buffer(), &words.each_ref().map(|word| &word[..]));
        out.complete()?;
    }
    // After the names, each of which counts as added.
    let (added, duplicates) = names.totals();
    let words = Journalled::Totals { added, duplicates }.words(key, StreamId::LEAST);
    request::push(out.buffer(), &words.each_ref().map(|word| &word[..]));
    Ok(())
}

/// What a stream knows of its producers, as an XACK for a group that does not exist: the group's
/// name says what is meant. Stock servers do nothing then, in transactions and files as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Journalled<'a> {
    /// The name of the entry that is acknowledged.
    Name { producer: &'a [u8], name: &'a [u8] },
    /// XCFGSET.
    Bounds { duration_s: u32, names_max: u32 },
    /// Numbers of names ever added, and of duplicates; only in files.
    Totals { added: u64, duplicates: u64 },
}

const NAME: &[u8] = b"__idmp__";
const BOUNDS: &[u8] = b"__idmp-bounds__";
const TOTALS: &[u8] = b"__idmp-totals__";

impl<'a> Journalled<'a> {
    /// The request.
    pub fn words(self, key: &[u8], id: StreamId) -> [Vec<u8>; 4] {
        let group = match self {
            Journalled::Name { producer, name } => {
                [NAME, producer.len().to_string().as_bytes(), b":", producer, name].concat()
            }
            Journalled::Bounds { duration_s, names_max } => {
                [BOUNDS, format!("{duration_s}:{names_max}").as_bytes()].concat()
            }
            Journalled::Totals { added, duplicates } => {
                [TOTALS, format!("{added}:{duplicates}").as_bytes()].concat()
            }
        };
        [b"XACK".to_vec(), key.to_vec(), group, id.to_string().into_bytes()]
    }

    /// What a group's name means, if it is such a request.
    pub fn parse(group: &'a [u8]) -> Option<Journalled<'a>> {
        let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u32>().ok();
        if let Some(totals) = group.strip_prefix(TOTALS) {
            let (added, duplicates) = std::str::from_utf8(totals).ok()?.split_once(':')?;
            let (added, duplicates) = (added.parse().ok()?, duplicates.parse().ok()?);
            return Some(Journalled::Totals { added, duplicates });
        }
        let split = |text: &'a [u8]| {
            let at = text.iter().position(|byte| *byte == b':')?;
            Some((number(&text[..at])?, &text[at + 1..]))
        };
        if let Some(bounds) = group.strip_prefix(BOUNDS) {
            let (duration_s, names_max) = split(bounds)?;
            let names_max = number(names_max).filter(|most| (1..=Idempotency::NAMES_MAX).contains(most))?;
            let duration_s =
                Some(duration_s).filter(|most| (1..=Idempotency::DURATION_MAX_S).contains(most))?;
            return Some(Journalled::Bounds { duration_s, names_max });
        }
        let (len, rest) = split(group.strip_prefix(NAME)?)?;
        let (producer, name) = rest.split_at_checked(len as usize)?;
        (!producer.is_empty() && !name.is_empty()).then_some(Journalled::Name { producer, name })
    }
}

/// The ids of pending entries that are no longer in the stream, as far as it can have had them.
fn pending_without_entry(stream: &Stream) -> BTreeSet<StreamId> {
    let log = stream.log();
    let possible = StreamId::LEAST..=log.last_id();
    let pending = stream.groups().iter().flat_map(|(_, group)| group.pending_range(possible.clone()));
    pending.map(|(id, _)| id).filter(|id| !log.contains(*id)).collect()
}

fn push_missing(out: &mut dyn RequestSink, name: &[u8], id: StreamId) -> io::Result<()> {
    request::push(out.buffer(), &[b"XADD", name, id.to_string().as_bytes(), b"x", b"y"]);
    out.complete()
}

fn push_group(out: &mut dyn RequestSink, name: &[u8], group_name: &[u8], group: &Group) -> io::Result<()> {
    let last = group.last_id.to_string();
    let read = group.entries_read.map_or_else(|| "-1".to_owned(), |read| read.to_string());
    let words: [&[u8]; 7] =
        [b"XGROUP", b"CREATE", name, group_name, last.as_bytes(), b"ENTRIESREAD", read.as_bytes()];
    request::push(out.buffer(), &words);
    for (_, consumer) in group.consumers() {
        if consumer.pending_len() == 0 {
            request::push(out.buffer(), &[b"XGROUP", b"CREATECONSUMER", name, group_name, consumer.name()]);
        }
        for id in consumer.pending_from(StreamId::MIN) {
            let Some(pending) = group.pending(id) else { continue };
            let (id, time) = (id.to_string(), pending.delivery_time.to_string());
            let count = pending.delivery_count.to_string();
            let words: [&[u8]; 12] = [
                b"XCLAIM",
                name,
                group_name,
                consumer.name(),
                b"0",
                id.as_bytes(),
                b"TIME",
                time.as_bytes(),
                b"RETRYCOUNT",
                count.as_bytes(),
                b"JUSTID",
                b"FORCE",
            ];
            request::push(out.buffer(), &words);
            out.complete()?;
        }
    }
    // Stock servers give released entries to a consumer without a name.
    for (id, pending) in group.released() {
        let words = released_words(name, group_name, id, pending.delivery_count);
        request::push(out.buffer(), &words.iter().map(|word| &word[..]).collect::<Vec<_>>());
        out.complete()?;
    }
    Ok(())
}

/// The request that releases an entry where it is executed.
pub fn released_words(key: &[u8], group: &[u8], id: StreamId, delivery_count: u64) -> [Vec<u8>; 12] {
    // Stock servers read a signed number.
    let count = i64::try_from(delivery_count).unwrap_or(i64::MAX).to_string();
    [
        b"XCLAIM".to_vec(),
        key.to_vec(),
        group.to_vec(),
        Vec::new(),
        b"0".to_vec(),
        id.to_string().into_bytes(),
        b"TIME".to_vec(),
        b"0".to_vec(),
        b"RETRYCOUNT".to_vec(),
        count.into_bytes(),
        b"FORCE".to_vec(),
        b"JUSTID".to_vec(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_bounds_are_read_back() {
        for request in [
            Journalled::Name { producer: b"p", name: b"one" },
            Journalled::Name { producer: b"7:\0 q", name: b"\xff:8" },
            Journalled::Bounds { duration_s: 1, names_max: 10_000 },
            Journalled::Bounds { duration_s: 86_400, names_max: 1 },
            Journalled::Totals { added: u64::MAX, duplicates: 0 },
        ] {
            let words = request.words(b"key", StreamId::new(5, 6));
            assert_eq!(
                (&words[0][..], &words[1][..], &words[3][..]),
                (&b"XACK"[..], &b"key"[..], &b"5-6"[..])
            );
            assert_eq!(Journalled::parse(&words[2]), Some(request));
        }
        for other in [
            &b"g"[..],
            b"__idmp__",
            b"__idmp__:a",
            b"__idmp__9:ab",
            b"__idmp__1:a",
            b"__idmp__0:a",
            b"__idmp-bounds__0:1",
            b"__idmp-bounds__1:10001",
            b"__idmp-bounds__1",
            b"__idmp-totals__1",
            b"__idmp-totals__1:-1",
        ] {
            assert_eq!(Journalled::parse(other), None, "{}", String::from_utf8_lossy(other));
        }
    }
}
