// SPDX-License-Identifier: BSD-3-Clause
//! XREAD and XREADGROUP.
//!
//! Both first check all streams, so that an error changes nothing, and then serve one after the
//! other.

use std::sync::Arc;

use braid_base::number;
use braid_executor::blocking::{self, TimeoutReply, Wait};
use braid_executor::{Call, feeds};
use braid_feed::Feed;
use braid_keyspace::object::ObjectType;
use braid_resp::reply::{Protocol, ReplyBuffer};
use braid_spec::{CommandError, CommandResult, KeyFlags};
use braid_values::stream::{Claim, ConsumerId, Group, Log, LogEntry, Stream, StreamId};
use smallvec::SmallVec;

use super::feed::FeedRead;
use super::pending::Given;
use super::{feed, no_group, reply_entry, reply_fields, reply_id, strict_id};

/// The key positions of XREAD and XREADGROUP. STREAMS can only be found by parsing the other
/// options, since a group may have that name.
pub fn find_keys(args: &[&[u8]]) -> Option<Vec<(usize, KeyFlags)>> {
    let first = find_streams(args, |_| ())? + 1;
    let given = args.len().checked_sub(first)?;
    if !given.is_multiple_of(2) {
        return None;
    }
    let flags = KeyFlags::RO.and(KeyFlags::ACCESS);
    Some((first..first + given / 2).map(|index| (index, flags)).collect())
}

/// True if a request has the BLOCK option.
pub fn may_wait(args: &[&[u8]]) -> bool {
    let mut found = false;
    find_streams(args, |option| found |= option == b"BLOCK").is_some() && found
}

/// The position of STREAMS; `visit` gets each preceding option in upper case.
fn find_streams(args: &[&[u8]], mut visit: impl FnMut(&[u8])) -> Option<usize> {
    let mut at = 1;
    loop {
        let option = args.get(at)?.to_ascii_uppercase();
        visit(&option);
        at += match option.as_slice() {
            b"BLOCK" | b"CLAIM" | b"COUNT" | b"MAXCOUNT" | b"MAXSIZE" => 2,
            b"GROUP" => 3,
            b"NOACK" => 1,
            b"STREAMS" => return Some(at),
            _ => return None,
        };
    }
}

/// The options before the streams.
struct Options<'a> {
    /// Maximum number of entries per stream; `usize::MAX`: all.
    most: usize,
    /// Of all streams together.
    limit: ReplyLimit,
    group: Option<(&'a [u8], &'a [u8])>,
    no_ack: bool,
    /// CLAIM: first come entries that have been pending for this long.
    min_idle: Option<i64>,
    /// Deadline of the wait if the command may block (0: no deadline).
    deadline_ms: Option<i64>,
    /// The index of BLOCK's argument.
    block_at: usize,
    /// Keys, followed by the same number of IDs.
    streams: &'a [&'a [u8]],
}

impl<'a> Options<'a> {
    fn parse(call: &Call<'a, '_>, is_group: bool) -> Result<Options<'a>, CommandError> {
        let args = call.args;
        let mut options = Options {
            most: usize::MAX,
            limit: ReplyLimit::UNLIMITED,
            group: None,
            no_ack: false,
            min_idle: None,
            deadline_ms: None,
            block_at: 0,
            streams: &[],
        };
        let mut found = false;
        let mut rest = &args[1..];
        while let [option, after @ ..] = rest {
            let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
            rest = match after {
                [timeout, after @ ..] if is("BLOCK") => {
                    if call.session.execution.in_script {
                        let name = &call.command.full_name;
                        return Err(CommandError::text(format!(
                            "ERR {name} command is not allowed with BLOCK option from scripts"
                        )));
                    }
                    let given = deadline_of(timeout, call.clock_ms())?;
                    options.deadline_ms = Some(call.session.waits_until().unwrap_or(given));
                    options.block_at = args.len() - after.len() - 1;
                    after
                }
                [count, after @ ..] if is("COUNT") => {
                    let count = number::parse_i64(count).ok_or(CommandError::NotAnInteger)?;
                    options.most = usize::try_from(count).ok().filter(|&most| most > 0).unwrap_or(usize::MAX);
                    after
                }
                [bound, after @ ..] if is("MAXCOUNT") => {
                    options.limit.entries = positive(bound, "MAXCOUNT")?;
                    after
                }
                [bound, after @ ..] if is("MAXSIZE") => {
                    options.limit.bytes = positive(bound, "MAXSIZE")?;
                    after
                }
                [_, ..] if is("STREAMS") => {
                    if !after.len().is_multiple_of(2) {
                        let ids = match (is_group, call.engine.process.follows_redis_8()) {
                            (true, _) => "ID or '>'",
                            (false, true) => "ID, '+', or '$'",
                            (false, false) => "ID or '$'",
                        };
                        return Err(CommandError::text(format!(
                            "ERR Unbalanced '{}' list of streams: for each stream key an {ids} must be \
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
                [min_idle, after @ ..] if is("CLAIM") => {
                    if !is_group {
                        return Err(group_only("CLAIM"));
                    }
                    let min_idle = number::parse_i64(min_idle)
                        .filter(|&min_idle| min_idle >= 0)
                        .ok_or(CommandError::text("ERR Invalid min-idle-time argument for XREADGROUP"))?;
                    options.min_idle = Some(min_idle);
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
        if options.most != usize::MAX && options.most > options.limit.entries {
            return Err(CommandError::text("ERR MAXCOUNT must be greater than or equal to COUNT"));
        }
        if is_group && options.group.is_none() {
            return Err(CommandError::text("ERR Missing GROUP option for XREADGROUP"));
        }
        Ok(options)
    }
}

/// The error of XREAD for an option of XREADGROUP.
fn group_only(option: &str) -> CommandError {
    CommandError::text(format!(
        "ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."
    ))
}

/// The value of MAXCOUNT or MAXSIZE.
fn positive(text: &[u8], option: &str) -> Result<usize, CommandError> {
    let bound = number::parse_i64(text).ok_or(CommandError::NotAnInteger)?;
    let bound = usize::try_from(bound).ok().filter(|&bound| bound > 0);
    bound.ok_or_else(|| CommandError::text(format!("ERR {option} must be a positive integer")))
}

/// What a reply may still take, of all its streams together (MAXCOUNT, MAXSIZE).
#[derive(Clone, Copy)]
struct ReplyLimit {
    entries: usize,
    /// The size of the whole reply at most.
    bytes: usize,
    /// The size of the client's output before this reply.
    start: usize,
    /// True once an entry is in the reply; the first one is sent whatever its size.
    begun: bool,
    /// Number of streams in the reply, and of entries of the last one.
    streams: usize,
    in_stream: usize,
}

impl ReplyLimit {
    const UNLIMITED: ReplyLimit = ReplyLimit {
        entries: usize::MAX,
        bytes: usize::MAX,
        start: 0,
        begun: false,
        streams: 0,
        in_stream: 0,
    };

    /// The size of the reply. The two headers not complete yet have space for one digit.
    fn taken(&self, reply: &ReplyBuffer) -> usize {
        let more_digits = |count: usize| count.checked_ilog10().unwrap_or(0) as usize;
        reply.len().saturating_sub(self.start) + more_digits(self.streams) + more_digits(self.in_stream)
    }

    /// True if no further entry can be sent.
    fn is_full(&self, reply: &ReplyBuffer) -> bool {
        self.entries == 0 || reply.is_full() || (self.begun && self.taken(reply) >= self.bytes)
    }

    /// Replies with an entry if it fits, and with nothing otherwise.
    fn add(&mut self, reply: &mut ReplyBuffer, write: impl FnOnce(&mut ReplyBuffer)) -> bool {
        if self.is_full(reply) {
            return false;
        }
        let mark = (self.begun && self.bytes != usize::MAX).then(|| reply.mark());
        write(reply);
        self.in_stream += 1;
        if let Some(mark) = mark
            && self.taken(reply) > self.bytes
        {
            reply.truncate(mark);
            // Smaller entries that follow must not overtake it.
            self.entries = 0;
            return false;
        }
        self.begun = true;
        self.entries -= usize::from(self.entries != usize::MAX);
        true
    }
}

fn deadline_of(text: &[u8], now_ms: i64) -> Result<i64, CommandError> {
    let timeout =
        number::parse_i64(text).ok_or(CommandError::text("ERR timeout is not an integer or out of range"))?;
    blocking::deadline(Some(timeout), now_ms)
}

/// The reply's array of streams with entries, begun with the first such stream.
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

    /// Adds a stream with the entries that `write` replies with and counts; nothing if there is no
    /// space left.
    fn add_stream(
        &mut self,
        reply: &mut ReplyBuffer,
        key: &[u8],
        limit: &mut ReplyLimit,
        write: impl FnOnce(&mut ReplyBuffer, &mut ReplyLimit) -> usize,
    ) {
        if self.header.is_some() && limit.is_full(reply) {
            return;
        }
        let before = (reply.mark(), self.count);
        self.begin_stream(reply, key);
        (limit.streams, limit.in_stream) = (self.count, 0);
        let header = reply.begin_array();
        match write(reply, limit) {
            // The stream's first entry is too large for what is left of it.
            0 if self.count > 1 && limit.is_full(reply) => {
                reply.truncate(before.0);
                self.count = before.1;
            }
            count => reply.end_array(header, count),
        }
    }

    /// Adds a feed's entries; nothing if there are none, or no room is left. Returns the offset in
    /// the journal up to which the reader has everything.
    fn add_feed(
        &mut self,
        call: &mut Call,
        stream: &StreamRead<'_>,
        feed: &Feed,
        limit: &mut ReplyLimit,
    ) -> Result<u64, CommandError> {
        let Call { engine, session, reply, .. } = call;
        let history = engine.replication.history();
        let source = feeds::source(engine, session, &history);
        let mut read = FeedRead::open(engine, source, feed, stream.behind)?;
        let (before, had_header) = ((reply.mark(), self.count), self.header.is_some());
        self.begin_stream(reply, stream.key);
        (limit.streams, limit.in_stream) = (self.count, 0);
        let header = reply.begin_array();
        let mut count = 0;
        let progress = read.read(engine, |item| {
            let fits = count < stream.most && limit.add(reply, |reply| item.reply(reply));
            count += usize::from(fits);
            fits
        })?;
        if count > 0 {
            reply.end_array(header, count);
        } else {
            reply.truncate(before.0);
            self.count = before.1;
            self.header = self.header.take().filter(|_| had_header);
        }
        Ok(progress.seen)
    }

    fn end(self, reply: &mut ReplyBuffer) {
        match self.header {
            None => {}
            Some(header) if reply.protocol == Protocol::Resp2 => reply.end_array(header, self.count),
            Some(header) => reply.end_map(header, self.count),
        }
    }
}

/// The ID with which XREAD asks only for a stream's last entry; in an empty stream it waits for
/// the next one.
const LAST_ENTRY: &[u8] = b"+";

/// A stream of XREAD: what to read after which ID.
struct StreamRead<'a> {
    key: &'a [u8],
    behind: StreamId,
    most: usize,
    feed: Option<Arc<Feed>>,
}

pub fn xread(call: &mut Call) -> CommandResult {
    let options = Options::parse(call, false)?;
    let (keys, ids) = options.streams.split_at(options.streams.len() / 2);
    let mut reads: SmallVec<[StreamRead<'_>; 4]> = SmallVec::new();
    for (&key, &id) in keys.iter().zip(ids) {
        reads.push(read_of(call, &options, key, id)?);
    }
    let behind: SmallVec<[StreamId; 8]> = reads.iter().map(|read| read.behind).collect();
    let has_new = |call: &Call, read: &StreamRead<'_>| -> Result<bool, CommandError> {
        // Feeds are read when nobody else's change is being told.
        if read.feed.is_some() {
            return Ok(!call.is_serving());
        }
        let stream = if call.reaches(read.key) { call.keyspace.peek_as::<Stream>(read.key)? } else { None };
        Ok(stream.and_then(|stream| stream.log().last_entry()).is_some_and(|last| last.id > read.behind))
    };
    let mut serving: SmallVec<[StreamRead<'_>; 4]> = SmallVec::new();
    for read in reads {
        if has_new(call, &read)? {
            serving.push(read);
        }
    }
    if serving.is_empty() {
        return nothing(call, &options, &behind, None);
    }
    if !call.claim() {
        return Ok(());
    }
    let mut served = Served { header: None, count: 0 };
    let mut limit = ReplyLimit { start: call.reply.len(), ..options.limit };
    let mut seen: Option<u64> = None;
    for read in serving {
        if let Some(feed) = &read.feed {
            let until = served.add_feed(call, &read, feed, &mut limit)?;
            seen = Some(seen.map_or(until, |seen| seen.min(until)));
            continue;
        }
        let Some(stream) = call.keyspace.peek_as::<Stream>(read.key)? else { continue };
        let Some(start) = read.behind.next() else { continue };
        served.add_stream(call.reply, read.key, &mut limit, |reply, limit| {
            let mut entries = stream.log().range(start, StreamId::MAX).take(read.most);
            let mut count = 0;
            while let Some(entry) = entries.next()
                && limit.add(reply, |reply| reply_entry(reply, entry))
            {
                count += 1;
            }
            count
        });
    }
    if served.count == 0 {
        // Only feeds, and none has an entry.
        return nothing(call, &options, &behind, seen);
    }
    served.end(call.reply);
    Ok(())
}

/// What XREAD reads of one key.
fn read_of<'a>(
    call: &Call,
    options: &Options<'_>,
    key: &'a [u8],
    id: &[u8],
) -> Result<StreamRead<'a>, CommandError> {
    let feed = feed::feed_of(call, key);
    let reads = feed.is_none() && call.reaches(key);
    let stream = if reads { call.keyspace.read_as::<Stream>(key)? } else { None };
    let behind = match id {
        b"$" if feed.is_some() => feed::last_id(call),
        b"$" => stream.map_or(StreamId::MIN, |stream| stream.log().last_id()),
        LAST_ENTRY if feed.is_some() => {
            return Err(CommandError::text(
                "ERR The + ID is not supported for change feeds: use XREVRANGE with COUNT 1",
            ));
        }
        LAST_ENTRY => stream
            .and_then(|stream| stream.log().last_entry())
            .and_then(|last| last.id.previous())
            .unwrap_or(StreamId::MIN),
        b">" => {
            return Err(CommandError::text(
                "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> \
                 <consumer> \
                 option.",
            ));
        }
        id => strict_id(id, 0)?,
    };
    let most = if id == LAST_ENTRY { 1 } else { options.most };
    Ok(StreamRead { key, behind, most, feed })
}

/// No entries: waits if the client wants to. `behind`: XREAD's IDs, with `$` replaced. `seen`: if
/// there are feeds, the offset in the journal up to which they have none.
fn nothing(call: &mut Call, options: &Options<'_>, behind: &[StreamId], seen: Option<u64>) -> CommandResult {
    let Some(deadline_ms) = options.deadline_ms else {
        call.reply.null_array();
        return Ok(());
    };
    let (keys, ids) = options.streams.split_at(options.streams.len() / 2);
    // Replace `$` now: if parsed again later, it would exclude every new entry.
    let args = ids.contains(&&b"$"[..]).then(|| {
        let given = call.args.len() - ids.len();
        let fixed = call.args[given..].iter().zip(behind).map(|(id, behind)| match *id {
            b"$" => behind.to_string().into_bytes().into(),
            id => id.into(),
        });
        call.args[..given].iter().map(|&arg| arg.into()).chain(fixed).collect()
    });
    let wakes_on_delete = options.group.is_some();
    let wait = Wait { wakes_on_delete, args, ..Wait::new(Stream::TYPE, keys, deadline_ms) };
    match seen {
        Some(seen) => call.wait_for_entries(wait, seen),
        None => call.wait(wait),
    }
}

/// The least time between two looks at entries that others leave pending, in milliseconds.
const LOOK_INTERVAL_MIN: i64 = 10;

/// No entries for XREADGROUP with CLAIM: waits as [`nothing`] does, but runs again when an entry
/// may have been pending for long enough: at `due_ms` one that is pending now, after the idle time
/// one that is delivered to another consumer meanwhile.
fn nothing_idle(call: &mut Call, options: &Options<'_>, min_idle: i64, due_ms: i64) -> CommandResult {
    let Some(deadline_ms) = options.deadline_ms else { return nothing(call, options, &[], None) };
    let now = call.clock_ms();
    let later = now.saturating_add(min_idle.max(LOOK_INTERVAL_MIN));
    let wake_ms = due_ms.max(now.saturating_add(1)).min(later);
    if deadline_ms != 0 && wake_ms >= deadline_ms {
        return nothing(call, options, &[], None);
    }
    let mut args: Vec<Box<[u8]>> = call.args.iter().map(|&arg| arg.into()).collect();
    if deadline_ms != 0
        && let Some(timeout) = args.get_mut(options.block_at)
    {
        *timeout = (deadline_ms - wake_ms).to_string().into_bytes().into();
    }
    let keys = &options.streams[..options.streams.len() / 2];
    call.wait(Wait {
        wakes_on_delete: true,
        args: Some(args),
        timeout: TimeoutReply::RunAgain,
        ..Wait::new(Stream::TYPE, keys, wake_ms)
    })
}

/// The entries that a consumer requests.
#[derive(Clone, Copy)]
enum Wanted {
    /// Entries not yet delivered to the consumer's group.
    New,
    /// The consumer's pending entries after this ID.
    Pending(StreamId),
}

impl Wanted {
    /// True if a reply is due now; a request for pending entries always gets one, even an empty
    /// one. New entries come after those that have been pending for long (CLAIM).
    fn is_there(self, log: &Log, group: &Group, now: i64, min_idle: Option<i64>) -> bool {
        match self {
            Wanted::Pending(_) => true,
            Wanted::New => {
                log.last_entry().is_some_and(|entry| entry.id > group.last_id)
                    || min_idle.is_some_and(|min_idle| group.has_idle(log, now, min_idle))
            }
        }
    }
}

/// What a consumer requests of each stream; all have its group.
fn wanted_of(
    call: &Call,
    keys: &[&[u8]],
    ids: &[&[u8]],
    group_name: &[u8],
) -> Result<SmallVec<[Wanted; 8]>, CommandError> {
    let mut wanted: SmallVec<[Wanted; 8]> = SmallVec::new();
    for (key, id) in keys.iter().zip(ids) {
        let reached = call.reaches(key);
        let stream = if reached { call.keyspace.read_as::<Stream>(key)? } else { None };
        if reached && stream.and_then(|stream| stream.groups().get(group_name)).is_none() {
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
            LAST_ENTRY => {
                return Err(CommandError::text(
                    "ERR The + ID is meaningless in the context of XREADGROUP: you want to read the \
                     history of this consumer by specifying a proper ID, or use the > ID to get new \
                     messages. The + ID would just return an empty result set.",
                ));
            }
            b">" => Wanted::New,
            id => match strict_id(id, 0)? {
                // After the greatest ID: stock servers represent `>` like this.
                StreamId::MAX => Wanted::New,
                id => Wanted::Pending(id),
            },
        });
    }
    Ok(wanted)
}

pub fn xreadgroup(call: &mut Call) -> CommandResult {
    let options = Options::parse(call, true)?;
    let Some((group_name, consumer_name)) = options.group else { return Err(CommandError::Syntax) };
    let (keys, ids) = options.streams.split_at(options.streams.len() / 2);
    if let Some(feed) = keys.iter().find_map(|key| feed::feed_of(call, key)) {
        return Err(feed::no_groups(&feed.name));
    }
    let wanted = wanted_of(call, keys, ids, group_name)?;
    let now = call.clock_ms();
    let mut serves = false;
    for (key, wanted) in keys.iter().zip(&wanted) {
        let stream = if call.reaches(key) { call.keyspace.peek_as::<Stream>(key)? } else { None };
        let group = stream.and_then(|stream| stream.groups().get(group_name));
        serves |= group
            .zip(stream)
            .is_some_and(|(group, stream)| wanted.is_there(stream.log(), group, now, options.min_idle));
    }
    if serves && !call.claim() {
        return Ok(());
    }
    let mut served = Served { header: None, count: 0 };
    let mut limit = ReplyLimit { start: call.reply.len(), ..options.limit };
    // When an entry may be claimed next.
    let mut due_ms = i64::MAX;
    for (key, wanted) in keys.iter().zip(wanted) {
        if !call.reaches(key) {
            continue;
        }
        if served.count > 0 && limit.is_full(call.reply) {
            break;
        }
        let Some(stream) = call.keyspace.write_as::<Stream>(key)? else { continue };
        let (log, groups) = stream.split_mut();
        let Some(group) = groups.get_mut(group_name) else { continue };
        let known = group.find_consumer(consumer_name);
        let is_new = known.is_none();
        let Some(consumer) = known.or_else(|| group.create_consumer(consumer_name, now)) else { continue };
        if let Some(consumer) = group.consumer_mut(consumer) {
            consumer.seen_time = now;
        }
        let serves = wanted.is_there(log, group, now, options.min_idle);
        let mut given = Given { is_new, ..Given::default() };
        match wanted {
            Wanted::New if serves => {
                let delivery = Delivery { consumer, now, no_ack: options.no_ack, min_idle: options.min_idle };
                served.add_stream(call.reply, key, &mut limit, |reply, limit| {
                    deliver(reply, log, group, &delivery, options.most, limit, &mut given)
                });
            }
            // Only deleted entries are dropped.
            Wanted::New => {
                let claim = options.min_idle.map(|min_idle| Claim::new(now, min_idle));
                let idle =
                    claim.map(|claim| group.claim_idle(log, consumer, options.most, &claim, |_, _| false));
                given.gone = idle.unwrap_or_default().gone;
            }
            Wanted::Pending(behind) => {
                let reader = Reader { consumer, behind, most: options.most, now };
                served.add_stream(call.reply, key, &mut limit, |reply, limit| {
                    redeliver(reply, log, group, &reader, limit, &mut given)
                });
            }
        }
        if matches!(wanted, Wanted::New) {
            due_ms = due_ms.min(group.next_idle(options.min_idle.unwrap_or(0)));
        }
        if is_new {
            call.keyspace.notify(super::CONSUMER_CREATED, key);
        }
        if serves || is_new || !given.gone.is_empty() {
            call.keyspace.count_changes(1);
            given.journal(call, key, group_name, consumer_name);
        }
    }
    if served.count == 0 {
        return match options.min_idle {
            Some(min_idle) => nothing_idle(call, &options, min_idle, due_ms),
            None => nothing(call, &options, &[], None),
        };
    }
    served.end(call.reply);
    Ok(())
}

struct Delivery {
    consumer: ConsumerId,
    now: i64,
    no_ack: bool,
    min_idle: Option<i64>,
}

/// Replies with entries that have been pending for long, if they are asked for, and then with
/// entries not yet delivered to the group, and makes all of them pending for the consumer. Returns
/// their number.
fn deliver(
    reply: &mut ReplyBuffer,
    log: &Log,
    group: &mut Group,
    delivery: &Delivery,
    most: usize,
    limit: &mut ReplyLimit,
    given: &mut Given,
) -> usize {
    let &Delivery { consumer, now, no_ack, min_idle } = delivery;
    let mut count = 0;
    if let Some(min_idle) = min_idle {
        let idle = group.claim_idle(log, consumer, most, &Claim::new(now, min_idle), |id, before| {
            let Some(entry) = log.get(id) else { return false };
            let idle_ms =
                if before.is_released() { -1 } else { now.saturating_sub(before.delivery_time).max(0) };
            let about = Some((idle_ms, before.delivery_count));
            let fits = limit.add(reply, |reply| reply_delivery(reply, entry, about));
            count += usize::from(fits);
            fits
        });
        given.gone = idle.gone;
        given.claimed = idle.claimed;
    }
    let mut is_active = false;
    if let Some(start) = group.last_id.next() {
        for entry in log.range(start, StreamId::MAX).take(most - count) {
            let id = entry.id;
            // As if last delivered just now, and never before.
            let about = min_idle.map(|_| (0, 0));
            if !limit.add(reply, |reply| reply_delivery(reply, entry, about)) {
                break;
            }
            group.advance(log, id);
            given.advanced = true;
            count += 1;
            if !no_ack {
                group.deliver(id, consumer, now);
                given.claimed.push(id);
                is_active = true;
            }
        }
    }
    if is_active && let Some(consumer) = group.consumer_mut(consumer) {
        consumer.active_time = now;
    }
    count
}

/// Replies with an entry; with CLAIM also with the time since its last delivery, and the number of
/// deliveries.
fn reply_delivery(reply: &mut ReplyBuffer, entry: LogEntry<'_>, delivery: Option<(i64, u64)>) {
    let Some((idle_ms, deliveries)) = delivery else { return reply_entry(reply, entry) };
    reply.array(4);
    reply_id(reply, entry.id);
    reply_fields(reply, entry.fields);
    reply.integer(idle_ms);
    reply.integer(deliveries as i64);
}

/// A consumer that reads its pending entries after an ID.
struct Reader {
    consumer: ConsumerId,
    behind: StreamId,
    most: usize,
    now: i64,
}

/// Replies with a consumer's pending entries; deleted ones have no fields. Returns their number.
/// The others have been delivered once more. A deleted one is neither changed nor claimed in the
/// journal: a claim would drop it wherever the journal is executed.
fn redeliver(
    reply: &mut ReplyBuffer,
    log: &Log,
    group: &mut Group,
    reader: &Reader,
    limit: &mut ReplyLimit,
    given: &mut Given,
) -> usize {
    let ids: Vec<StreamId> = match (reader.behind.next(), group.consumer(reader.consumer)) {
        (Some(start), Some(consumer)) => {
            consumer.pending_from(start).take(reader.most.min(limit.entries)).collect()
        }
        _ => Vec::new(),
    };
    let mut count = 0;
    for id in ids {
        let entry = log.get(id);
        let exists = entry.is_some();
        let fits = limit.add(reply, |reply| match entry {
            Some(entry) => reply_entry(reply, entry),
            None => {
                reply.array(2);
                reply_id(reply, id);
                reply.null_array();
            }
        });
        if !fits {
            break;
        }
        count += 1;
        if exists {
            group.redeliver(id, reader.now);
            given.claimed.push(id);
        }
    }
    count
}
