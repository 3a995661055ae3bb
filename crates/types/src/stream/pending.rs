// SPDX-License-Identifier: BSD-3-Clause
//! XPENDING, XCLAIM, XAUTOCLAIM: entries delivered but not yet acknowledged.

use braid_base::number;
use braid_executor::Call;
use braid_resp::reply::ReplyBuffer;
use braid_spec::{CommandError, CommandResult};
use braid_values::stream::{AutoClaimed, Claim, Claimed, Consumer, ConsumerId, Group, Log, Stream, StreamId};
use smallvec::SmallVec;

use super::{no_group, quoted, range_end, range_start, reply_entry, reply_id, strict_id};

/// The arguments of XPENDING's extended form.
struct Filter<'a> {
    min_idle: i64,
    start: StreamId,
    end: StreamId,
    most: usize,
    consumer: Option<&'a [u8]>,
}

impl<'a> Filter<'a> {
    fn parse(args: &[&'a [u8]]) -> Result<Filter<'a>, CommandError> {
        if !(3..=6).contains(&args.len()) {
            return Err(CommandError::Syntax);
        }
        let integer = |text: &[u8]| number::parse_i64(text).ok_or(CommandError::NotAnInteger);
        let (mut min_idle, mut range) = (0, args);
        if args[0].eq_ignore_ascii_case(b"IDLE") {
            min_idle = integer(args[1])?;
            range = &args[2..];
        }
        let [start, end, count, consumer @ ..] = range else { return Err(CommandError::Syntax) };
        let most = usize::try_from(integer(count)?).unwrap_or(0);
        let (start, end) = (range_start(start)?, range_end(end)?);
        Ok(Filter { min_idle, start, end, most, consumer: consumer.first().copied() })
    }
}

pub fn xpending(call: &mut Call) -> CommandResult {
    let args = call.args;
    let filter = if args.len() == 3 { None } else { Some(Filter::parse(&args[3..])?) };
    let now = call.clock_ms();
    let stream = call.keyspace.read_as::<Stream>(args[1])?;
    let Some(group) = stream.and_then(|stream| stream.groups().get(args[2])) else {
        return Err(no_group(args[1], args[2], ""));
    };
    match filter {
        None => summarize(call.reply, group),
        Some(filter) => list(call.reply, group, &filter, now),
    }
    Ok(())
}

fn summarize(reply: &mut ReplyBuffer, group: &Group) {
    reply.array(4);
    reply.integer(group.pending_len() as i64);
    let mut ids = group.pending_range(StreamId::MIN..=StreamId::MAX).map(|(id, _)| id);
    let Some(first) = ids.next() else {
        reply.null();
        reply.null();
        reply.null_array();
        return;
    };
    reply_id(reply, first);
    reply_id(reply, ids.next_back().unwrap_or(first));
    let (header, mut count) = (reply.begin_array(), 0);
    for (_, consumer) in group.consumers().filter(|(_, consumer)| consumer.pending_len() > 0) {
        reply.array(2);
        reply.bulk(consumer.name());
        reply.bulk_integer(consumer.pending_len() as i64);
        count += 1;
    }
    reply.end_array(header, count);
}

fn list(reply: &mut ReplyBuffer, group: &Group, filter: &Filter<'_>, now: i64) {
    let consumer = match filter.consumer {
        None => None,
        Some(name) => match group.find_consumer(name).and_then(|id| group.consumer(id)) {
            Some(consumer) => Some(consumer),
            None => return reply.array(0),
        },
    };
    let (header, mut count) = (reply.begin_array(), 0);
    let mut see = |id: StreamId| {
        let Some(pending) = group.pending(id) else { return true };
        let is_released = pending.is_released();
        let idle = if is_released { -1 } else { now.saturating_sub(pending.delivery_time).max(0) };
        if filter.min_idle != 0 && idle < filter.min_idle && !is_released {
            return true;
        }
        reply.array(4);
        reply_id(reply, id);
        reply.bulk(group.consumer(pending.consumer).map_or(b"", Consumer::name));
        reply.integer(idle);
        reply.integer(pending.delivery_count as i64);
        count += 1;
        count < filter.most
    };
    if filter.most > 0 {
        match consumer {
            Some(consumer) => {
                let mut ids = consumer.pending_from(filter.start).take_while(|id| *id <= filter.end);
                while ids.next().is_some_and(&mut see) {}
            }
            None => {
                let mut ids = group.pending_range(filter.start..=filter.end).map(|(id, _)| id);
                while ids.next().is_some_and(&mut see) {}
            }
        }
    }
    reply.end_array(header, count);
}

/// The claiming consumer, created if missing, with its seen time updated.
fn claimant(group: &mut Group, name: &[u8], now: i64) -> Option<ConsumerId> {
    let id = group.find_consumer(name).or_else(|| group.create_consumer(name, now))?;
    if let Some(consumer) = group.consumer_mut(id) {
        consumer.seen_time = now;
    }
    Some(id)
}

/// Replies with one claimed entry, as its ID or in full.
fn reply_claimed(reply: &mut ReplyBuffer, log: &Log, id: StreamId, just_id: bool) {
    match log.get(id) {
        Some(entry) if !just_id => reply_entry(reply, entry),
        _ => reply_id(reply, id),
    }
}

/// The arguments of XCLAIM after the group, the consumer and the idle time.
struct ClaimOptions {
    ids: SmallVec<[StreamId; 8]>,
    claim: Claim,
    last_id: StreamId,
}

impl ClaimOptions {
    fn parse(args: &[&[u8]], now: i64, is_replay: bool) -> Result<ClaimOptions, CommandError> {
        let integer =
            |text: &[u8], error: &'static str| number::parse_i64(text).ok_or(CommandError::text(error));
        let min_idle = integer(args[0], "ERR Invalid min-idle-time argument for XCLAIM")?;
        let ids: SmallVec<[StreamId; 8]> =
            args[1..].iter().map_while(|text| strict_id(text, 0).ok()).collect();
        let mut rest = &args[1 + ids.len()..];
        let (mut delivery_time, mut last_id) = (None, StreamId::MIN);
        let mut claim = Claim::new(now, min_idle);
        while let [option, after @ ..] = rest {
            let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
            rest = match after {
                _ if is("FORCE") => {
                    claim.force = true;
                    after
                }
                // Only among a peer's changes, and in streams and files that contain these.
                _ if is_replay && is("DELETED") => {
                    claim.deleted = true;
                    after
                }
                _ if is("JUSTID") => {
                    claim.just_id = true;
                    after
                }
                [value, after @ ..] if is("IDLE") => {
                    let idle = integer(value, "ERR Invalid IDLE option argument for XCLAIM")?;
                    delivery_time = Some(now.saturating_sub(idle));
                    after
                }
                [value, after @ ..] if is("TIME") => {
                    delivery_time = Some(integer(value, "ERR Invalid TIME option argument for XCLAIM")?);
                    after
                }
                [value, after @ ..] if is("RETRYCOUNT") => {
                    let count = integer(value, "ERR Invalid RETRYCOUNT option argument for XCLAIM")?;
                    claim.retry_count = u64::try_from(count).ok();
                    after
                }
                [value, after @ ..] if is("LASTID") => {
                    last_id = strict_id(value, 0)?;
                    after
                }
                _ => {
                    return Err(CommandError::text(format!(
                        "ERR Unrecognized XCLAIM option '{}'",
                        quoted(option)
                    )));
                }
            };
        }
        // A client's clock may be ahead: an invalid time becomes the current one.
        claim.delivery_time = delivery_time.filter(|at| (0..=now).contains(at)).unwrap_or(now);
        Ok(ClaimOptions { ids, claim, last_id })
    }
}

pub fn xclaim(call: &mut Call) -> CommandResult {
    let (args, now) = (call.args, call.clock_ms());
    let stream = super::stream_to_change(call.keyspace, args[1])?;
    let Some((log, group)) = stream.and_then(|stream| {
        let (log, groups) = stream.split_mut();
        Some((log, groups.get_mut(args[2])?))
    }) else {
        return Err(no_group(args[1], args[2], ""));
    };
    let options = ClaimOptions::parse(&args[4..], now, call.session.execution.is_replay)?;
    if call.session.execution.is_replay && args[3].is_empty() && options.claim.delivery_time == 0 {
        // A release, as the journal describes it.
        let count = options.claim.retry_count.unwrap_or(0);
        let keeps = |id: &StreamId| options.claim.deleted || log.contains(*id);
        let released: Vec<(StreamId, u64)> =
            options.ids.iter().filter(|id| keeps(id)).map(|id| (*id, count)).collect();
        released.iter().for_each(|(id, count)| group.release(*id, *count));
        super::release::tell(call, args[1], args[2], &released);
        call.reply.array(0);
        return Ok(());
    }
    let advanced = group.skip_to(log, options.last_id);
    let (header, mut count) = (call.reply.begin_array(), 0);
    let is_new = group.find_consumer(args[3]).is_none();
    let mut done = Given { is_new, advanced, ..Given::default() };
    if let Some(consumer) = claimant(group, args[3], now) {
        for id in options.ids {
            match group.claim(log, id, consumer, &options.claim) {
                Claimed::Yes => {
                    reply_claimed(call.reply, log, id, options.claim.just_id);
                    count += 1;
                    done.claimed.push(id);
                }
                _ if log.get(id).is_none() => done.gone.push(id),
                _ => {}
            }
        }
    }
    call.reply.end_array(header, count);
    if is_new {
        call.keyspace.notify(super::CONSUMER_CREATED, args[1]);
    }
    call.keyspace.count_changes(1);
    done.journal(call, args[1], args[2], args[3]);
    Ok(())
}

/// Deliveries to a consumer, for the journal: one by one, with their times and counts.
#[derive(Default)]
pub(super) struct Given {
    pub claimed: Vec<StreamId>,
    /// Deleted entries, which are no longer pending.
    pub gone: Vec<StreamId>,
    /// True if the consumer was created.
    pub is_new: bool,
    /// True if the group's last delivered ID has changed.
    pub advanced: bool,
}

impl Given {
    pub(super) fn journal(&self, call: &mut Call, key: &[u8], group_name: &[u8], consumer: &[u8]) {
        if !call.keyspace.journals() {
            return;
        }
        let mut requests: Vec<Vec<Vec<u8>>> = Vec::new();
        let number = |number: i64| number.to_string().into_bytes();
        let text = |id: StreamId| id.to_string().into_bytes();
        let words = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
        if self.is_new {
            requests.push(words(&[b"XGROUP", b"CREATECONSUMER", key, group_name, consumer]));
        }
        let stream = call.keyspace.peek_as::<Stream>(key).ok().flatten();
        if let Some(group) = stream.and_then(|stream| stream.groups().get(group_name)) {
            for id in &self.claimed {
                let Some(pending) = group.pending(*id) else { continue };
                let mut request = words(&[b"XCLAIM", key, group_name, consumer, b"0"]);
                request.extend([text(*id), b"TIME".to_vec(), number(pending.delivery_time)]);
                request.extend([b"RETRYCOUNT".to_vec(), number(pending.delivery_count as i64)]);
                request.extend(words(&[b"FORCE", b"JUSTID", b"LASTID"]));
                request.push(text(group.last_id));
                if stream.is_some_and(|stream| !stream.log().contains(*id)) {
                    request.push(b"DELETED".to_vec());
                }
                requests.push(request);
            }
            if self.advanced {
                let mut request = words(&[b"XGROUP", b"SETID", key, group_name]);
                request.push(text(group.last_id));
                if let Some(read) = group.entries_read {
                    request.extend([b"ENTRIESREAD".to_vec(), number(read as i64)]);
                }
                requests.push(request);
            }
        }
        if !self.gone.is_empty() {
            let mut request = words(&[b"XACK", key, group_name]);
            request.extend(self.gone.iter().map(|id| text(*id)));
            requests.push(request);
        }
        for request in requests {
            call.keyspace.journal_as(&request.iter().map(|arg| &arg[..]).collect::<Vec<_>>());
        }
        // The requests above reproduce everything.
        call.keyspace.journal_nothing();
    }
}

/// The largest COUNT of XAUTOCLAIM.
const AUTO_CLAIM_MAX: i64 = i64::MAX / 16;

pub fn xautoclaim(call: &mut Call) -> CommandResult {
    let (args, now) = (call.args, call.clock_ms());
    // Counts a hit or a miss even if the arguments are refused.
    let exists = call.keyspace.read(args[1]).is_some();
    let min_idle = number::parse_i64(args[4])
        .ok_or(CommandError::text("ERR Invalid min-idle-time argument for XAUTOCLAIM"))?;
    let start = range_start(args[5])?;
    let (mut most, mut just_id) = (100, false);
    let mut rest = &args[6..];
    while let [option, after @ ..] = rest {
        rest = match after {
            [count, after @ ..] if option.eq_ignore_ascii_case(b"COUNT") => {
                most = number::parse_i64(count)
                    .filter(|count| (1..=AUTO_CLAIM_MAX).contains(count))
                    .ok_or(CommandError::text("ERR COUNT must be > 0"))? as usize;
                after
            }
            _ if option.eq_ignore_ascii_case(b"JUSTID") => {
                just_id = true;
                after
            }
            _ => return Err(CommandError::Syntax),
        };
    }
    let stream = if exists { call.keyspace.write_as::<Stream>(args[1])? } else { None };
    let Some((log, group)) = stream.and_then(|stream| {
        let (log, groups) = stream.split_mut();
        Some((log, groups.get_mut(args[2])?))
    }) else {
        return Err(no_group(args[1], args[2], ""));
    };
    let claim = Claim { just_id, ..Claim::new(now, min_idle) };
    let is_new = group.find_consumer(args[3]).is_none();
    let done = match claimant(group, args[3], now) {
        Some(consumer) => group.auto_claim(log, consumer, start, most, &claim),
        None => AutoClaimed::default(),
    };
    call.reply.array(3);
    reply_id(call.reply, done.next);
    call.reply.array(done.claimed.len());
    done.claimed.iter().for_each(|id| reply_claimed(call.reply, log, *id, just_id));
    call.reply.array(done.gone.len());
    done.gone.iter().for_each(|(id, _)| reply_id(call.reply, *id));
    if is_new {
        call.keyspace.notify(super::CONSUMER_CREATED, args[1]);
    }
    call.keyspace.count_changes(1);
    let gone = done.gone.iter().map(|(id, _)| *id).collect();
    Given { claimed: done.claimed, gone, is_new, advanced: false }.journal(call, args[1], args[2], args[3]);
    Ok(())
}
