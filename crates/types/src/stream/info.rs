// SPDX-License-Identifier: BSD-3-Clause
//! XINFO.

use braid_base::number;
use braid_executor::Call;
use braid_resp::reply::ReplyBuffer;
use braid_spec::{CommandError, CommandResult};
use braid_values::stream::{Consumer, Group, Log, Stream, StreamId};

use super::{feed, no_group_in, reply_entry, reply_id};

pub fn help(call: &mut Call) -> CommandResult {
    call.help(&[
        "CONSUMERS <key> <groupname>",
        "    Show consumers of <groupname>.",
        "GROUPS <key>",
        "    Show the stream consumer groups.",
        "STREAM <key> [FULL [COUNT <count>]",
        "    Show information about the stream.",
    ])
}

fn stream_of<'c>(call: &'c Call) -> Result<&'c Stream, CommandError> {
    call.keyspace.read_as::<Stream>(call.args[2])?.ok_or(CommandError::NoSuchKey)
}

fn field(reply: &mut ReplyBuffer, name: &str) {
    reply.bulk(name.as_bytes());
}

fn number_field(reply: &mut ReplyBuffer, name: &str, value: i64) {
    field(reply, name);
    reply.integer(value);
}

fn optional_field(reply: &mut ReplyBuffer, name: &str, value: Option<i64>) {
    field(reply, name);
    match value {
        Some(value) => reply.integer(value),
        None => reply.null(),
    }
}

fn id_field(reply: &mut ReplyBuffer, name: &str, id: StreamId) {
    field(reply, name);
    reply_id(reply, id);
}

fn name_field(reply: &mut ReplyBuffer, name: &[u8]) {
    field(reply, "name");
    reply.bulk(name);
}

pub fn consumers(call: &mut Call) -> CommandResult {
    let now = call.clock_ms();
    let (key, name) = (call.args[2], call.args[3]);
    if feed::feed_of(call, key).is_some() {
        return Err(no_group_in(key, name));
    }
    let stream = call.keyspace.read_as::<Stream>(key)?.ok_or(CommandError::NoSuchKey)?;
    let group = stream.groups().get(name).ok_or_else(|| no_group_in(key, name))?;
    let reply = &mut *call.reply;
    reply.array(group.consumers_len());
    for (_, consumer) in group.consumers() {
        reply.map(4);
        name_field(reply, consumer.name());
        number_field(reply, "pending", consumer.pending_len() as i64);
        number_field(reply, "idle", now.saturating_sub(consumer.seen_time).max(0));
        let inactive = if consumer.active_time == -1 { -1 } else { now.saturating_sub(consumer.active_time) };
        number_field(reply, "inactive", inactive);
    }
    Ok(())
}

/// Replies with a group's progress and lag.
fn progress(reply: &mut ReplyBuffer, log: &Log, group: &Group) {
    id_field(reply, "last-delivered-id", group.last_id);
    optional_field(reply, "entries-read", group.entries_read.map(|count| count as i64));
    optional_field(reply, "lag", group.lag(log));
}

pub fn groups(call: &mut Call) -> CommandResult {
    if feed::feed_of(call, call.args[2]).is_some() {
        call.reply.array(0);
        return Ok(());
    }
    let stream = call.keyspace.read_as::<Stream>(call.args[2])?.ok_or(CommandError::NoSuchKey)?;
    let reply = &mut *call.reply;
    reply.array(stream.groups().len());
    for (name, group) in stream.groups().iter() {
        reply.map(6);
        name_field(reply, name);
        number_field(reply, "consumers", group.consumers_len() as i64);
        number_field(reply, "pending", group.pending_len() as i64);
        progress(reply, stream.log(), group);
    }
    Ok(())
}

pub fn stream(call: &mut Call) -> CommandResult {
    if let Some(feed) = feed::feed_of(call, call.args[2]) {
        return feed::info(call, &feed);
    }
    // The key is checked before the options, as on stock servers.
    stream_of(call)?;
    let options = &call.args[3..];
    let full = match options {
        [] => None,
        [full] if full.eq_ignore_ascii_case(b"FULL") => Some(10),
        [full, name, count] if full.eq_ignore_ascii_case(b"FULL") && name.eq_ignore_ascii_case(b"COUNT") => {
            match number::parse_i64(count).ok_or(CommandError::NotAnInteger)? {
                0 => Some(usize::MAX),
                count => Some(usize::try_from(count).unwrap_or(10)),
            }
        }
        _ => return Err(call.unknown_subcommand()),
    };
    // Counted once, above.
    let Some(stream) = call.keyspace.peek_as::<Stream>(call.args[2])? else {
        return Err(CommandError::NoSuchKey);
    };
    let now = call.clock_ms().max(0) as u64;
    let (log, reply) = (stream.log(), &mut *call.reply);
    let of_names = if stream.idempotency().is_some() { 6 } else { 0 };
    reply.map(of_names + if full.is_some() { 9 } else { 10 });
    number_field(reply, "length", log.len() as i64);
    let blocks = log.block_count() as i64;
    number_field(reply, "radix-tree-keys", blocks);
    // There is no radix tree here; one with this many keys would have at least this many nodes.
    number_field(reply, "radix-tree-nodes", blocks + 1);
    id_field(reply, "last-generated-id", log.last_id());
    id_field(reply, "max-deleted-entry-id", log.max_deleted_id());
    number_field(reply, "entries-added", log.entries_added() as i64);
    id_field(reply, "recorded-first-entry-id", log.first_id());
    if let Some(names) = stream.idempotency() {
        let ((producers, count), (added, duplicates)) = (names.counts(now), names.totals());
        number_field(reply, "idmp-duration", names.duration_s().into());
        number_field(reply, "idmp-maxsize", names.names_max().into());
        number_field(reply, "pids-tracked", producers as i64);
        number_field(reply, "iids-tracked", count as i64);
        number_field(reply, "iids-added", added as i64);
        number_field(reply, "iids-duplicates", duplicates as i64);
    }
    match full {
        None => {
            number_field(reply, "groups", stream.groups().len() as i64);
            let first = log.range(StreamId::MIN, StreamId::MAX).next();
            for (name, entry) in [("first-entry", first), ("last-entry", log.last_entry())] {
                field(reply, name);
                match entry {
                    Some(entry) => reply_entry(reply, entry),
                    None => reply.null(),
                }
            }
        }
        Some(most) => {
            field(reply, "entries");
            let (header, mut count) = (reply.begin_array(), 0);
            for entry in log.range(StreamId::MIN, StreamId::MAX).take(most) {
                reply_entry(reply, entry);
                count += 1;
            }
            reply.end_array(header, count);
            field(reply, "groups");
            reply.array(stream.groups().len());
            stream.groups().iter().for_each(|(name, group)| full_group(reply, log, name, group, most));
        }
    }
    Ok(())
}

fn full_group(reply: &mut ReplyBuffer, log: &Log, name: &[u8], group: &Group, most: usize) {
    let released = group.released_len() as i64;
    reply.map(7 + usize::from(released > 0));
    name_field(reply, name);
    progress(reply, log, group);
    number_field(reply, "pel-count", group.pending_len() as i64);
    if released > 0 {
        number_field(reply, "nacked-count", released);
    }
    field(reply, "pending");
    reply.array(group.pending_len().min(most));
    for (id, pending) in group.pending_range(StreamId::MIN..=StreamId::MAX).take(most) {
        reply.array(4);
        reply_id(reply, id);
        reply.bulk(group.consumer(pending.consumer).map_or(b"", Consumer::name));
        reply.integer(pending.delivery_time);
        reply.integer(pending.delivery_count as i64);
    }
    field(reply, "consumers");
    reply.array(group.consumers_len());
    for (_, consumer) in group.consumers() {
        reply.map(5);
        name_field(reply, consumer.name());
        number_field(reply, "seen-time", consumer.seen_time);
        number_field(reply, "active-time", consumer.active_time);
        number_field(reply, "pel-count", consumer.pending_len() as i64);
        field(reply, "pending");
        reply.array(consumer.pending_len().min(most));
        for id in consumer.pending_from(StreamId::MIN).take(most) {
            reply.array(3);
            reply_id(reply, id);
            let pending = group.pending(id);
            reply.integer(pending.map_or(0, |pending| pending.delivery_time));
            reply.integer(pending.map_or(0, |pending| pending.delivery_count as i64));
        }
    }
}
