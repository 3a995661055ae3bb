// SPDX-License-Identifier: BSD-3-Clause
//! Commands that change the entries of a stream: XADD, XTRIM, XDEL, XSETID.

use braid_base::number;
use braid_executor::{Call, Engine};
use braid_keyspace::{Event, Txn};
use braid_spec::{CommandError, CommandResult};
use braid_values::stream::rewrite::Numbers;
use braid_values::stream::{AppendError, BlockLimits, IdError, IdRequest, Log, Stream, StreamId, Trim};
use smallvec::SmallVec;

use super::idempotent::{self, Name};
use super::references::{Policy, Removal};
use super::{ID_LEN_MAX, invalid_id, reply_id, strict_id};

/// The options shared by XADD and XTRIM.
#[derive(Default)]
struct Options<'a> {
    keep: Option<Trim>,
    policy: Option<Policy>,
    /// `~`: trim only as far as is cheap.
    approximate: bool,
    /// Maximum number of entries to remove; 0: no limit.
    limit: u64,
    no_stream: bool,
    /// The name that the producer gives the entry.
    name: Option<Name<'a>>,
    /// XADD's ID.
    id: Option<IdRequest>,
    /// The index of the argument after the options and the ID.
    next: usize,
}

impl<'a> Options<'a> {
    fn parse(call: &Call<'a, '_>, adds: bool) -> Result<Options<'a>, CommandError> {
        let (engine, args) = (call.engine, call.args);
        let mut options = Options::default();
        let mut limit = None;
        let mut at = 2;
        while let Some(option) = args.get(at).copied() {
            let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
            let more = args.len() - 1 - at;
            if adds && option == b"*" {
                options.id = Some(IdRequest::Auto);
                at += 1;
                break;
            } else if (is("MAXLEN") || is("MINID")) && more > 0 {
                if options.keep.is_some() {
                    return Err(CommandError::text(
                        "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
                    ));
                }
                options.approximate = more >= 2 && args[at + 1] == b"~";
                at += if more >= 2 && matches!(args[at + 1], b"~" | b"=") { 2 } else { 1 };
                options.keep = Some(if is("MAXLEN") {
                    let len = number::parse_i64(args[at]).ok_or(CommandError::NotAnInteger)?;
                    let len = u64::try_from(len);
                    Trim::MaxLen(
                        len.map_err(|_| CommandError::text("ERR The MAXLEN argument must be >= 0."))?,
                    )
                } else {
                    Trim::MinId(strict_id(args[at], 0)?)
                });
            } else if is("LIMIT") && more > 0 {
                at += 1;
                let given = number::parse_i64(args[at]).ok_or(CommandError::NotAnInteger)?;
                let given = u64::try_from(given);
                limit = Some(given.map_err(|_| CommandError::text("ERR The LIMIT argument must be >= 0."))?);
            } else if adds && is("NOMKSTREAM") {
                options.no_stream = true;
            } else if let Some((name, values)) = Name::parse(&args[at..]).filter(|_| adds) {
                if options.name.replace(name).is_some() {
                    return Err(CommandError::Syntax);
                }
                at += values;
            } else if let Some(policy) = Policy::parse(option).filter(|_| options.policy.is_none()) {
                options.policy = Some(policy);
            } else if adds {
                let id = Some(option).filter(|id| id.len() <= ID_LEN_MAX).and_then(IdRequest::parse);
                options.id = Some(id.ok_or_else(invalid_id)?);
                at += 1;
                break;
            } else {
                return Err(CommandError::Syntax);
            }
            at += 1;
        }
        options.next = at;
        if limit.is_some_and(|limit| limit > 0) && options.keep.is_none() {
            return Err(CommandError::text(
                "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
            ));
        }
        if !adds && options.keep.is_none() {
            return Err(CommandError::text(
                "ERR syntax error, XTRIM must be called with a trimming strategy",
            ));
        }
        options.limit = match (limit, options.approximate) {
            // The primary journals an exact length, together with the client's LIMIT.
            _ if call.session.execution.is_replay => 0,
            (Some(limit), true) => limit,
            (Some(_), false) => {
                return Err(CommandError::text(
                    "ERR syntax error, LIMIT cannot be used without the special ~ option",
                ));
            }
            // A hundred blocks, so that a single trim does not take long.
            (None, true) => match engine.config.stream_node_max_entries() as u64 {
                0 => 10_000,
                entries => entries.saturating_mul(100).min(1_000_000),
            },
            (None, false) => 0,
        };
        Ok(options)
    }

    /// Trims the stream.
    fn trim(&self, stream: &mut Stream) -> Trimmed {
        let Some(keep) = self.keep else { return Trimmed::default() };
        match self.policy.filter(|_| !stream.groups().is_empty()) {
            None | Some(Policy::Keep) => {
                let removed = stream.log_mut().trim(keep, self.approximate, self.limit);
                Trimmed { removed, kept: Some(Kept::of(stream.log())), ..Trimmed::default() }
            }
            Some(Policy::Drop) => {
                let mut ids = Vec::new();
                let removed = stream.log_mut().trim_into(keep, self.approximate, self.limit, Some(&mut ids));
                let references = stream.drop_references(&ids);
                let removal = Removal { references, ..Removal::default() };
                Trimmed { removed, kept: Some(Kept::of(stream.log())), removal }
            }
            Some(Policy::Acknowledged) => {
                let entries = stream.trim_acknowledged(keep, self.limit);
                let (removed, log) = (entries.len() as u64, stream.log());
                if log.is_empty() || entries.iter().all(|id| *id < log.first_id()) {
                    return Trimmed { removed, kept: Some(Kept::of(log)), ..Trimmed::default() };
                }
                let removal = Removal { entries, numbers: Some(Numbers::of(log)), ..Removal::default() };
                Trimmed { removed, kept: None, removal }
            }
        }
    }
}

/// The result of a trim.
#[derive(Default)]
struct Trimmed {
    /// Number of entries removed.
    removed: u64,
    /// The equivalent exact trim, if there is one.
    kept: Option<Kept>,
    /// Changes beyond that.
    removal: Removal,
}

fn block_limits(engine: &Engine) -> BlockLimits {
    BlockLimits {
        bytes_max: engine.config.stream_node_max_bytes(),
        entries_max: engine.config.stream_node_max_entries(),
    }
}

pub fn xadd(call: &mut Call) -> CommandResult {
    let args = call.args;
    let options = Options::parse(call, true)?;
    let fields = args.get(options.next..).unwrap_or_default();
    let Some(request) = options.id.filter(|_| fields.len() >= 2 && fields.len().is_multiple_of(2)) else {
        return Err(call.wrong_arity());
    };
    if request == IdRequest::Explicit(StreamId::MIN) {
        return Err(CommandError::text("ERR The ID specified in XADD must be greater than 0-0"));
    }
    let pairs: SmallVec<[(&[u8], &[u8]); 8]> =
        fields.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let name = match options.name {
        Some(_) if request != IdRequest::Auto => {
            return Err(CommandError::text("ERR IDMP and IDMPAUTO can be used only with the ID *"));
        }
        Some(name) => {
            idempotent::check_mode(call)?;
            Some(name.resolve(&pairs)?)
        }
        None => None,
    };
    let bounds = idempotent::Bounds::of(call);
    let region = call
        .engine
        .active
        .as_ref()
        .map(|active| active.region_number())
        .filter(|_| request == IdRequest::Auto);
    let (limits, now) = (block_limits(call.engine), call.clock_ms().max(0) as u64);
    let mut is_new = false;
    let stream = if options.no_stream {
        match call.keyspace.write_as::<Stream>(args[1])? {
            Some(stream) => stream,
            None => {
                call.reply.null();
                return Ok(());
            }
        }
    } else {
        call.keyspace.write_or_create(args[1], || {
            is_new = true;
            Stream::new()
        })?
    };
    if let Some(id) = name.as_ref().and_then(|name| name.find(stream, now)) {
        reply_id(call.reply, id);
        return Ok(());
    }
    let request = region
        .and_then(|region| StreamId::next_of_region(stream.log().last_id(), now, region))
        .map_or(request, IdRequest::Explicit);
    let added = match request {
        // A late entry from a peer.
        IdRequest::Explicit(id) if call.session.execution.is_replay && id <= stream.log().last_id() => {
            stream.insert(id, &pairs, &limits).map(|()| id).map_err(refusal)
        }
        _ => append(stream, request, now, &pairs, &limits),
    };
    match added {
        Ok(id) => {
            if let Some(name) = &name {
                name.record(stream, bounds, id, now);
            }
            let trimmed = options.trim(stream);
            call.keyspace.changed(Event::stream("xadd"), args[1]);
            if call.keyspace.journals() {
                journal_add(call, id, trimmed.kept.filter(|_| trimmed.removed > 0), fields);
                trimmed.removal.journal(call, args[1]);
                if let Some(name) = &name {
                    name.journal(call, id);
                }
            }
            if trimmed.removed > 0 {
                call.keyspace.notify(Event::stream("xtrim"), args[1]);
            }
            reply_id(call.reply, id);
            Ok(())
        }
        Err(error) => {
            // The new stream is not needed.
            if is_new {
                call.keyspace.remove(args[1]);
            }
            Err(error)
        }
    }
}

/// The state that a trim left behind.
#[derive(Clone, Copy)]
struct Kept {
    len: u64,
    /// All remaining entries have this ID or a greater one, all removed ones a lower one.
    from: Option<StreamId>,
}

impl Kept {
    fn of(log: &Log) -> Kept {
        let from = if log.is_empty() { log.last_id().next() } else { Some(log.first_id()) };
        Kept { len: log.len(), from }
    }

    /// The equivalent exact trim. Active-active peers may have other entries, so for them it is by
    /// ID rather than by length.
    fn words(self, keyspace: &Txn<'_>) -> [Vec<u8>; 3] {
        let (word, bound) = match self.from.filter(|_| keyspace.journals_for_peers()) {
            Some(from) => ("MINID", from.to_string()),
            None => ("MAXLEN", self.len.to_string()),
        };
        [word.into(), b"=".into(), bound.into()]
    }
}

/// Journals an entry with its generated ID, and an approximate trim as an exact one.
fn journal_add(call: &mut Call, id: StreamId, kept: Option<Kept>, fields: &[&[u8]]) {
    let id = id.to_string();
    let trim = kept.map(|kept| kept.words(call.keyspace));
    let mut args: Vec<&[u8]> = vec![b"XADD", call.args[1]];
    args.extend(trim.iter().flatten().map(Vec::as_slice));
    args.push(id.as_bytes());
    args.extend(fields);
    call.keyspace.journal_as(&args);
}

fn append(
    stream: &mut Stream,
    request: IdRequest,
    now: u64,
    pairs: &[(&[u8], &[u8])],
    limits: &BlockLimits,
) -> Result<StreamId, CommandError> {
    let exhausted = "ERR The stream has exhausted the last possible ID, unable to add more items";
    let last = stream.log().last_id();
    if last == StreamId::MAX {
        return Err(CommandError::text(exhausted));
    }
    let id = StreamId::for_entry(request, last, now).map_err(|error| match error {
        IdError::NotGreater => refusal(AppendError::IdNotGreater),
        IdError::Exhausted => CommandError::text(exhausted),
    })?;
    stream.log_mut().append(id, pairs, limits).map_err(refusal)?;
    Ok(id)
}

fn refusal(error: AppendError) -> CommandError {
    CommandError::text(match error {
        AppendError::IdNotGreater => {
            "ERR The ID specified in XADD is equal or smaller than the target stream top item"
        }
        AppendError::TooLarge => "ERR Elements are too large to be stored",
    })
}

pub fn xtrim(call: &mut Call) -> CommandResult {
    let args = call.args;
    let options = Options::parse(call, false)?;
    let mut removed = 0;
    if let Some(stream) = call.keyspace.write_as::<Stream>(args[1])? {
        let trimmed = options.trim(stream);
        removed = trimmed.removed;
        if removed > 0 {
            call.keyspace.changed(Event::stream("xtrim"), args[1]);
            if let Some(kept) = trimmed.kept {
                let [word, exactly, bound] = kept.words(call.keyspace);
                call.keyspace.journal_as(&[b"XTRIM", args[1], &word, &exactly, &bound]);
            }
            trimmed.removal.journal(call, args[1]);
        }
    }
    call.reply.integer(removed as i64);
    Ok(())
}

pub fn xdel(call: &mut Call) -> CommandResult {
    let args = call.args;
    let mut deleted = 0;
    if let Some(stream) = call.keyspace.write_as::<Stream>(args[1])? {
        // Parses all IDs before deleting any entry.
        let ids: Result<SmallVec<[StreamId; 8]>, _> = args[2..].iter().map(|id| strict_id(id, 0)).collect();
        deleted = ids?.into_iter().filter(|id| stream.log_mut().delete(*id)).count();
    }
    if deleted > 0 {
        call.keyspace.changed(Event::stream("xdel"), args[1]);
    }
    call.reply.integer(deleted as i64);
    Ok(())
}

pub fn xsetid(call: &mut Call) -> CommandResult {
    let args = call.args;
    let id = strict_id(args[2], 0)?;
    let (mut entries_added, mut max_deleted) = (None, None);
    let mut rest = &args[3..];
    while let [option, value, after @ ..] = rest {
        if option.eq_ignore_ascii_case(b"ENTRIESADDED") {
            let count = number::parse_i64(value).ok_or(CommandError::NotAnInteger)?;
            let count = u64::try_from(count);
            entries_added =
                Some(count.map_err(|_| CommandError::text("ERR entries_added must be positive"))?);
        } else if option.eq_ignore_ascii_case(b"MAXDELETEDID") {
            let given = strict_id(value, 0)?;
            max_deleted = Some(given);
            if id < given {
                return Err(CommandError::text(
                    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                ));
            }
        } else {
            return Err(CommandError::Syntax);
        }
        rest = after;
    }
    if !rest.is_empty() {
        return Err(CommandError::Syntax);
    }
    let Some(stream) = call.keyspace.write_as::<Stream>(args[1])? else {
        return Err(CommandError::NoSuchKey);
    };
    let log = stream.log_mut();
    if id < log.max_deleted_id() {
        return Err(CommandError::text(
            "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id",
        ));
    }
    if let Some(last) = log.last_entry().map(|entry| entry.id) {
        if id < last {
            return Err(CommandError::text(
                "ERR The ID specified in XSETID is smaller than the target stream top item",
            ));
        }
        if entries_added.is_some_and(|count| count < log.len()) {
            return Err(CommandError::text(
                "ERR The entries_added specified in XSETID is smaller than the target stream length",
            ));
        }
    }
    log.set_last_id(id);
    if let Some(count) = entries_added {
        log.set_entries_added(count);
    }
    if let Some(max_deleted) = max_deleted
        && (max_deleted != StreamId::MIN || log.max_deleted_id() == StreamId::LEAST)
    {
        log.set_max_deleted_id(max_deleted);
    }
    call.keyspace.changed(Event::stream("xsetid"), args[1]);
    call.reply.ok();
    Ok(())
}
