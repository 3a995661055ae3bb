//! XREAD and XREADGROUP.
//!
//! Both first look at all streams, so that a refusal changes nothing, and then serve one after the other.

use braid_base::number;
use braid_containers::stream::{Group, Log, Stream, StreamId};
use braid_engine::{Call, CommandError, CommandResult, KeyFlags};
use braid_resp::reply::{Protocol, ReplyBuffer};
use smallvec::SmallVec;

use super::{no_group, reply_entry, reply_fields, reply_id, strict_id};

/// The key positions of XREAD. Where STREAMS stands only the other options tell: a group may have that name.
pub fn xread_keys(args: &[&[u8]]) -> Option<Vec<(usize, KeyFlags)>> {
    stream_keys(args, KeyFlags::RO.and(KeyFlags::ACCESS))
}

/// The key positions of XREADGROUP, which changes the groups of the streams it reads.
pub fn xreadgroup_keys(args: &[&[u8]]) -> Option<Vec<(usize, KeyFlags)>> {
    stream_keys(args, KeyFlags::RW.and(KeyFlags::ACCESS))
}

fn stream_keys(args: &[&[u8]], flags: KeyFlags) -> Option<Vec<(usize, KeyFlags)>> {
    let mut at = 1;
    loop {
        let option = args.get(at)?.to_ascii_uppercase();
        at += match option.as_slice() {
            b"BLOCK" | b"COUNT" => 2,
            b"GROUP" => 3,
            b"NOACK" => 1,
            b"STREAMS" => break,
            _ => return None,
        };
    }
    let first = at + 1;
    let given = args.len().checked_sub(first)?;
    if !given.is_multiple_of(2) {
        return None;
    }
    Some((first..first + given / 2).map(|index| (index, flags)).collect())
}

/// The options before the streams.
struct Options<'a> {
    /// Most entries of each stream; `usize::MAX`: all.
    most: usize,
    group: Option<(&'a [u8], &'a [u8])>,
    no_ack: bool,
    /// Keys, then as many IDs.
    streams: &'a [&'a [u8]],
}

impl<'a> Options<'a> {
    fn parse(call: &Call<'a, '_>, is_group: bool) -> Result<Options<'a>, CommandError> {
        let args = call.args;
        let mut options = Options { most: usize::MAX, group: None, no_ack: false, streams: &[] };
        let mut found = false;
        let mut rest = &args[1..];
        while let [option, after @ ..] = rest {
            let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
            let group_only = |option: &str| {
                CommandError::text(format!(
                    "ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."
                ))
            };
            rest = match after {
                [timeout, after @ ..] if is("BLOCK") => {
                    check_timeout(timeout)?;
                    after
                }
                [count, after @ ..] if is("COUNT") => {
                    let count = number::parse_i64(count).ok_or(CommandError::NotAnInteger)?;
                    options.most = usize::try_from(count).ok().filter(|&most| most > 0).unwrap_or(usize::MAX);
                    after
                }
                [_, ..] if is("STREAMS") => {
                    if !after.len().is_multiple_of(2) {
                        let symbol = if is_group { '>' } else { '$' };
                        return Err(CommandError::text(format!(
                            "ERR Unbalanced '{}' list of streams: for each stream key an ID or '{symbol}' \
                             must be \
                             specified.",
                            call.command.full_name
                        )));
                    }
                    options.streams = after;
                    found = true;
                    &[]
                }
                [group, consumer, after @ ..] if is("GROUP") => {
                    if !is_group {
                        return Err(group_only("GROUP"));
                    }
                    options.group = Some((group, consumer));
                    after
                }
                _ if is("NOACK") => {
                    if !is_group {
                        return Err(group_only("NOACK"));
                    }
                    options.no_ack = true;
                    after
                }
                _ => return Err(CommandError::Syntax),
            };
        }
        if !found {
            return Err(CommandError::Syntax);
        }
        if is_group && options.group.is_none() {
            return Err(CommandError::text("ERR Missing GROUP option for XREADGROUP"));
        }
        Ok(options)
    }
}

fn check_timeout(text: &[u8]) -> CommandResult {
    match number::parse_i64(text) {
        None => Err(CommandError::text("ERR timeout is not an integer or out of range")),
        Some(timeout) if timeout < 0 => Err(CommandError::text("ERR timeout is negative")),
        Some(_) => Ok(()),
    }
}

/// The arrays of streams that served something; begun with the first of them.
struct Served {
    header: Option<braid_resp::reply::Deferred>,
    count: usize,
}

impl Served {
    fn begin_stream(&mut self, reply: &mut ReplyBuffer, key: &[u8]) {
        if self.header.is_none() {
            self.header = Some(reply.begin_map());
        }
        self.count += 1;
        if reply.protocol == Protocol::Resp2 {
            reply.array(2);
        }
        reply.bulk(key);
    }

    fn end(self, reply: &mut ReplyBuffer) {
        match self.header {
            None => reply.null_array(),
            Some(header) if reply.protocol == Protocol::Resp2 => reply.end_array(header, self.count),
            Some(header) => reply.end_map(header, self.count),
        }
    }
}

pub fn xread(call: &mut Call) -> CommandResult {
    let options = Options::parse(call, false)?;
    let (keys, ids) = options.streams.split_at(options.streams.len() / 2);
    let mut behind: SmallVec<[StreamId; 8]> = SmallVec::new();
    for (key, id) in keys.iter().zip(ids) {
        let stream = call.keyspace.read_as::<Stream>(key)?;
        behind.push(match *id {
            b"$" => stream.map_or(StreamId::MIN, |stream| stream.log().last_id()),
            b">" => {
                return Err(CommandError::text(
                    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> \
                     <consumer> \
                     option.",
                ));
            }
            id => strict_id(id, 0)?,
        });
    }
    let mut served = Served { header: None, count: 0 };
    for (key, behind) in keys.iter().zip(behind) {
        let Some(stream) = call.keyspace.read_as::<Stream>(key)? else { continue };
        let Some(start) = behind.next() else { continue };
        let mut entries = stream.log().range(start, StreamId::MAX).take(options.most).peekable();
        if entries.peek().is_none() {
            continue;
        }
        served.begin_stream(call.reply, key);
        let (header, mut count) = (call.reply.begin_array(), 0);
        for entry in entries {
            reply_entry(call.reply, entry);
            count += 1;
        }
        call.reply.end_array(header, count);
    }
    served.end(call.reply);
    Ok(())
}

/// Which entries a consumer asks for.
#[derive(Clone, Copy)]
enum Wanted {
    /// Those that its group has not been given.
    New,
    /// Those that it has pending, behind this one.
    Pending(StreamId),
}

pub fn xreadgroup(call: &mut Call) -> CommandResult {
    let options = Options::parse(call, true)?;
    let Some((group_name, consumer_name)) = options.group else { return Err(CommandError::Syntax) };
    let (keys, ids) = options.streams.split_at(options.streams.len() / 2);
    let mut wanted: SmallVec<[Wanted; 8]> = SmallVec::new();
    for (key, id) in keys.iter().zip(ids) {
        let stream = call.keyspace.read_as::<Stream>(key)?;
        if stream.and_then(|stream| stream.groups().get(group_name)).is_none() {
            return Err(no_group(key, group_name, " in XREADGROUP with GROUP option"));
        }
        wanted.push(match *id {
            b"$" => {
                return Err(CommandError::text(
                    "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the \
                     history of this consumer by specifying a proper ID, or use the > ID to get new \
                     messages. The $ ID would just return an empty result set.",
                ));
            }
            b">" => Wanted::New,
            id => match strict_id(id, 0)? {
                // Behind the greatest ID: that is how stock servers write `>`.
                StreamId::MAX => Wanted::New,
                id => Wanted::Pending(id),
            },
        });
    }
    let now = call.now();
    let mut served = Served { header: None, count: 0 };
    for (key, wanted) in keys.iter().zip(wanted) {
        let Some(stream) = call.keyspace.write_as::<Stream>(key)? else { continue };
        let (log, groups) = stream.split_mut();
        let Some(group) = groups.get_mut(group_name) else { continue };
        let known = group.find_consumer(consumer_name);
        let is_new = known.is_none();
        let Some(consumer) = known.or_else(|| group.create_consumer(consumer_name, now)) else { continue };
        if let Some(consumer) = group.consumer_mut(consumer) {
            consumer.seen_time = now;
        }
        let serves = match wanted {
            Wanted::Pending(_) => true,
            Wanted::New => log.last_entry().is_some_and(|entry| entry.id > group.last_id),
        };
        if serves {
            served.begin_stream(call.reply, key);
            match wanted {
                Wanted::New => {
                    let delivery = Delivery { consumer, now, no_ack: options.no_ack };
                    deliver(call.reply, log, group, &delivery, options.most);
                }
                Wanted::Pending(behind) => {
                    redeliver(call.reply, log, group, consumer, behind, options.most, now);
                }
            }
        }
        if serves || is_new {
            call.keyspace.changed(key);
        }
    }
    served.end(call.reply);
    Ok(())
}

struct Delivery {
    consumer: braid_containers::stream::ConsumerId,
    now: i64,
    no_ack: bool,
}

/// Replies with entries that the group has not been given, and makes them pending.
fn deliver(reply: &mut ReplyBuffer, log: &Log, group: &mut Group, delivery: &Delivery, most: usize) {
    let (header, mut count) = (reply.begin_array(), 0);
    if let Some(start) = group.last_id.next() {
        for entry in log.range(start, StreamId::MAX).take(most) {
            let id = entry.id;
            group.advance(log, id);
            reply_entry(reply, entry);
            count += 1;
            if !delivery.no_ack {
                group.deliver(id, delivery.consumer, delivery.now);
            }
        }
    }
    if count > 0
        && !delivery.no_ack
        && let Some(consumer) = group.consumer_mut(delivery.consumer)
    {
        consumer.active_time = delivery.now;
    }
    reply.end_array(header, count);
}

/// Replies with entries that a consumer has pending; those that no longer exist come without fields.
fn redeliver(
    reply: &mut ReplyBuffer,
    log: &Log,
    group: &mut Group,
    consumer: braid_containers::stream::ConsumerId,
    behind: StreamId,
    most: usize,
    now: i64,
) {
    let ids: Vec<StreamId> = match (behind.next(), group.consumer(consumer)) {
        (Some(start), Some(consumer)) => consumer.pending_from(start).take(most).collect(),
        _ => Vec::new(),
    };
    reply.array(ids.len());
    for id in ids {
        reply.array(2);
        reply_id(reply, id);
        match log.get(id) {
            Some(entry) => {
                reply_fields(reply, entry.fields);
                group.redeliver(id, now);
            }
            None => reply.null_array(),
        }
    }
}
