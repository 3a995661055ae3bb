// SPDX-License-Identifier: BSD-3-Clause
//! Streams as requests: XADD, XSETID, XGROUP, XCLAIM.

use std::io;

use braid_keyspace::object::RequestSink;
use braid_resp::request;

use super::{Group, Stream, StreamId};

pub(super) fn rewrite(stream: &Stream, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
    let log = stream.log();
    let id_text = |id: StreamId| id.to_string();
    for entry in log.range(StreamId::MIN, StreamId::MAX) {
        let (fields, buffer) = (entry.fields.clone(), out.buffer());
        request::push_count(buffer, 3 + 2 * fields.count());
        request::push_bulk(buffer, b"XADD");
        request::push_bulk(buffer, name);
        request::push_bulk(buffer, id_text(entry.id).as_bytes());
        for (field, value) in entry.fields {
            request::push_bulk(buffer, field.text(&mut itoa::Buffer::new()));
            request::push_bulk(buffer, value.text(&mut itoa::Buffer::new()));
        }
        out.complete()?;
    }
    if log.is_empty() {
        // A stream without entries: a single request adds an entry and trims it away.
        request::push(out.buffer(), &[b"XADD", name, b"MAXLEN", b"0", b"0-1", b"x", b"y"]);
    }
    let (last, deleted) = (id_text(log.last_id()), id_text(log.max_deleted_id()));
    let added = log.entries_added().to_string();
    let words: [&[u8]; 7] = [
        b"XSETID",
        name,
        last.as_bytes(),
        b"ENTRIESADDED",
        added.as_bytes(),
        b"MAXDELETEDID",
        deleted.as_bytes(),
    ];
    request::push(out.buffer(), &words);
    for (group_name, group) in stream.groups().iter() {
        push_group(out, name, group_name, group)?;
    }
    Ok(())
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
    Ok(())
}
