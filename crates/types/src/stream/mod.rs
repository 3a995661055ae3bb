// SPDX-License-Identifier: BSD-3-Clause
//! Commands on streams and their consumer groups.
//!
//! Flow: the dispatcher holds the locks of the keys. A stream consists of its entries (the log)
//! and its groups; a body changes them in place and then informs watchers with `Txn::changed`.
//! Unlike other collections an empty stream is kept: its last ID and its groups matter.

mod add;
mod feed;
mod group;
mod idempotent;
mod info;
mod pending;
mod range;
mod read;
mod references;
mod release;
mod rows;

use std::borrow::Cow;

use braid_base::number::{INTEGER_LEN_MAX, write_u64};
use braid_containers::listpack::Element;
use braid_keyspace::txn::WrongType;
use braid_keyspace::{Event, Txn};
use braid_resp::reply::ReplyBuffer;
use braid_spec::CommandError;
use braid_values::stream::{Fields, LogEntry, Stream, StreamId};

pub use rows::COMMANDS;

/// The event for a consumer created explicitly or by a read.
const CONSUMER_CREATED: Event = Event::stream("xgroup-createconsumer");

/// Maximum length of an ID argument.
const ID_LEN_MAX: usize = 127;

fn invalid_id() -> CommandError {
    CommandError::text("ERR Invalid stream ID specified as stream command argument")
}

/// Parses an ID as `ms-seq` or `ms`; `missing_seq` is the default of the second part.
fn strict_id(text: &[u8], missing_seq: u64) -> Result<StreamId, CommandError> {
    if text.len() > ID_LEN_MAX {
        return Err(invalid_id());
    }
    StreamId::parse(text, missing_seq).ok_or_else(invalid_id)
}

/// [`strict_id`], or `-` and `+` for the smallest and the greatest ID.
fn any_id(text: &[u8], missing_seq: u64) -> Result<StreamId, CommandError> {
    match text {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        _ => strict_id(text, missing_seq),
    }
}

/// The first ID of a range: [`any_id`], or the one after an ID excluded with `(`.
fn range_start(text: &[u8]) -> Result<StreamId, CommandError> {
    match text {
        [b'(', id @ ..] if !id.is_empty() => {
            strict_id(id, 0)?.next().ok_or(CommandError::text("ERR invalid start ID for the interval"))
        }
        _ => any_id(text, 0),
    }
}

/// The last ID of a range: [`any_id`], or the one before an ID excluded with `(`.
fn range_end(text: &[u8]) -> Result<StreamId, CommandError> {
    match text {
        [b'(', id @ ..] if !id.is_empty() => strict_id(id, u64::MAX)?
            .previous()
            .ok_or(CommandError::text("ERR invalid end ID for the interval")),
        _ => any_id(text, u64::MAX),
    }
}

/// Replies with an ID as a string.
fn reply_id(reply: &mut ReplyBuffer, id: StreamId) {
    let (mut ms, mut seq) = ([0; INTEGER_LEN_MAX], [0; INTEGER_LEN_MAX]);
    let (ms, seq) = (write_u64(&mut ms, id.ms), write_u64(&mut seq, id.seq));
    let room = reply.bulk_reserve(ms.len() + 1 + seq.len());
    let (first, rest) = room.split_at_mut(ms.len());
    first.copy_from_slice(ms);
    rest[0] = b'-';
    rest[1..].copy_from_slice(seq);
}

fn reply_element(reply: &mut ReplyBuffer, element: Element<'_>) {
    match element {
        Element::Bytes(bytes) => reply.bulk(bytes),
        Element::Int(number) => reply.bulk_integer(number),
    }
}

/// Replies with an entry: its ID, then its fields and values in one array.
fn reply_entry(reply: &mut ReplyBuffer, entry: LogEntry<'_>) {
    reply.array(2);
    reply_id(reply, entry.id);
    reply_fields(reply, entry.fields);
}

fn reply_fields(reply: &mut ReplyBuffer, fields: Fields<'_>) {
    reply.array(fields.len() * 2);
    for (field, value) in fields {
        reply_element(reply, field);
        reply_element(reply, value);
    }
}

/// The stream at a key, for changes of its groups' pending entries. These count a hit or a miss as
/// reads do, as on stock servers; changes of the entries do not.
fn stream_to_change<'s>(keyspace: &'s mut Txn<'_>, key: &[u8]) -> Result<Option<&'s mut Stream>, WrongType> {
    match keyspace.read(key) {
        Some(_) => keyspace.write_as::<Stream>(key),
        None => Ok(None),
    }
}

/// A client's bytes as quoted in errors: up to the first NUL byte.
fn quoted(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default())
}

/// The error of a command whose key or group is missing.
fn no_group(key: &[u8], group: &[u8], end: &str) -> CommandError {
    CommandError::text(format!(
        "NOGROUP No such key '{}' or consumer group '{}'{end}",
        quoted(key),
        quoted(group)
    ))
}

/// The error of a command whose key exists, but not its group.
fn no_group_in(key: &[u8], group: &[u8]) -> CommandError {
    CommandError::text(format!(
        "NOGROUP No such consumer group '{}' for key name '{}'",
        quoted(group),
        quoted(key)
    ))
}
