// SPDX-License-Identifier: BSD-3-Clause
//! TS.GET, TS.RANGE, TS.REVRANGE, TS.READ and TS.INFO.

use braid_base::number::parse_i64;
use braid_executor::Call;
use braid_executor::blocking::{self, TimeoutReply, Wait};
use braid_keyspace::object::ObjectType;
use braid_resp::reply::{Protocol, ReplyBuffer};
use braid_spec::{CommandError, CommandResult};
use braid_values::time_series::links::Rule;
use braid_values::time_series::{Sample, Series};

use super::arguments::{self, NO_KEY, NOT_SERIES, text};
use super::{reply, rules};

/// The series at the command's key.
fn series<'c>(call: &'c Call) -> Result<&'c Series, CommandError> {
    let series = call.keyspace.read_as::<Series>(call.args[1]).map_err(|_| text(NOT_SERIES))?;
    series.ok_or(text(NO_KEY))
}

pub(super) fn get(call: &mut Call) -> CommandResult {
    if call.args.len() > 3 {
        return Err(call.wrong_arity());
    }
    let last = series(call)?.last();
    if call.args.len() == 3 && !call.arg_is(2, "LATEST") {
        return Err(text("ERR TSDB: wrong 3rd argument"));
    }
    let latest = if call.args.len() == 3 { rules::latest(call.keyspace, call.args[1]) } else { None };
    match latest.or(last) {
        Some(last) => reply::sample(call.reply, last),
        None => call.reply.array(0),
    }
    Ok(())
}

pub(super) fn range(call: &mut Call) -> CommandResult {
    reply_range(call, false)
}

pub(super) fn revrange(call: &mut Call) -> CommandResult {
    reply_range(call, true)
}

fn reply_range(call: &mut Call, is_reverse: bool) -> CommandResult {
    let series = series(call)?;
    let range = arguments::range(call, 2, is_reverse)?;
    let with_latest = arguments::find(call.args, 4, "LATEST").is_some();
    let latest = if with_latest { rules::latest(call.keyspace, call.args[1]) } else { None };
    let found = range.of(series, latest).map_err(|error| CommandError::text(error.to_string()))?;
    reply::samples(call.reply, &found);
    Ok(())
}

/// BLOCK of TS.READ.
struct Block {
    /// When to give up, ms since the Unix epoch; 0 = never.
    until_ms: i64,
    /// The samples that end the wait.
    count_min: usize,
}

/// The options of TS.READ.
struct ReadOptions {
    block: Option<Block>,
    count_max: usize,
}

/// True if a TS.READ may wait.
pub(super) fn may_wait(args: &[&[u8]]) -> bool {
    arguments::find(args, 3, "BLOCK").is_some()
}

impl ReadOptions {
    /// Unlike other time series commands, this one has no words that belong to no option.
    fn parse(call: &Call) -> Result<ReadOptions, CommandError> {
        let mut options = ReadOptions { block: None, count_max: usize::MAX };
        let (mut has_max, mut rest) = (false, &call.args[3..]);
        let count = |number: &[u8], refusal| {
            let count = parse_i64(number).and_then(|count| usize::try_from(count).ok());
            count.filter(|count| *count > 0).ok_or(text(refusal))
        };
        loop {
            rest = match rest {
                [] => break,
                [word, timeout, min, rest @ ..]
                    if word.eq_ignore_ascii_case(b"BLOCK") && options.block.is_none() =>
                {
                    let timeout =
                        parse_i64(timeout).ok_or(text("ERR timeout is not an integer or out of range"))?;
                    let given = blocking::deadline(Some(timeout), call.clock_ms())?;
                    let until_ms = call.session.waits_until().unwrap_or(given);
                    let count_min = count(min, "ERR TSDB: min_count must be a positive integer")?;
                    options.block = Some(Block { until_ms, count_min });
                    rest
                }
                [word, max, rest @ ..] if word.eq_ignore_ascii_case(b"MAX_COUNT") && !has_max => {
                    options.count_max = count(max, "ERR TSDB: max_count must be a positive integer")?;
                    has_max = true;
                    rest
                }
                _ => return Err(call.wrong_arity()),
            };
        }
        if options.block.as_ref().is_some_and(|block| block.count_min > options.count_max) {
            return Err(text("ERR TSDB: max_count must not be less than min_count"));
        }
        Ok(options)
    }
}

/// TS.READ. The time from which a waiting client reads is found once; the command runs again
/// whenever the series changes, and after the client's time, with what there is.
pub(super) fn read(call: &mut Call) -> CommandResult {
    let options = ReadOptions::parse(call)?;
    let (key, start) = (call.args[1], call.args[2]);
    let number = parse_i64(start).and_then(|time| u64::try_from(time).ok());
    let is_sign = matches!(start, b"-" | b"+" | b"$");
    if number.is_none() && !is_sign {
        return Err(text("ERR TSDB: invalid timestamp"));
    }
    if call.is_serving() && !call.reaches(key) {
        return Ok(());
    }
    let series = match call.keyspace.read_as::<Series>(key) {
        Ok(series) => series,
        // The key that was waited for is gone: another value took its place.
        Err(_) if call.is_serving() => None,
        Err(_) => return Err(text(NOT_SERIES)),
    };
    let kept = series.map_or(0, Series::kept_from);
    let last = series.and_then(Series::last).map(|last| last.time);
    let from = number.unwrap_or_else(|| match start {
        b"-" => series.and_then(|series| series.samples(kept, u64::MAX).next()).map_or(0, |first| first.time),
        b"+" => last.unwrap_or(0),
        _ => last.map_or(0, |last| last.saturating_add(1)),
    });
    let found =
        |most| series.into_iter().flat_map(|series| series.samples(from.max(kept), u64::MAX)).take(most);
    if let Some(block) = &options.block {
        let is_over =
            block.until_ms != 0 && call.session.waits_until().is_some() && call.clock_ms() >= block.until_ms;
        let is_gone = series.is_none() && call.is_serving();
        let may_wait = !call.session.execution.deny_blocking && !call.session.execution.in_script;
        if may_wait && !is_over && !is_gone && found(block.count_min).count() < block.count_min {
            let mut args: Vec<Box<[u8]>> = call.args.iter().map(|arg| (*arg).into()).collect();
            args[2] = from.to_string().into_bytes().into();
            return call.wait(Wait {
                wakes_on_delete: true,
                may_be_overtaken: true,
                args: Some(args),
                timeout: TimeoutReply::RunAgain,
                until_ms: Some(block.until_ms),
                ..Wait::new(Series::TYPE, &[key], block.until_ms)
            });
        }
    }
    let found: Vec<Sample> = found(options.count_max).collect();
    if call.claim() {
        reply::samples(call.reply, &found);
    }
    Ok(())
}

/// Number of fields of TS.INFO, and of those that DEBUG adds.
const FIELDS: usize = 14;
const DEBUG_FIELDS: usize = 2;

/// Bytes per sample of a chunk, rounded as in Redis Stack.
fn bytes_per_sample(size: u32, count: u32) -> f64 {
    if count == 0 { 0.0 } else { f64::from(size as f32 / count as f32) }
}

fn reply_rules(reply: &mut ReplyBuffer, rules: &[&Rule]) {
    reply::begin_pairs(reply, rules.len());
    let is_resp3 = reply.protocol == Protocol::Resp3;
    for rule in rules {
        if is_resp3 {
            reply.bulk(&rule.target);
            reply.array(3);
        } else {
            reply.array(4);
            reply.bulk(&rule.target);
        }
        reply.integer(i64::try_from(rule.span).unwrap_or(i64::MAX));
        reply.simple(rule.kind.name());
        reply.integer(i64::try_from(rule.align).unwrap_or(i64::MAX));
    }
}

pub(super) fn info(call: &mut Call) -> CommandResult {
    if call.args.len() > 3 {
        return Err(call.wrong_arity());
    }
    let is_debug = call.args.len() == 3 && call.arg_is(2, "DEBUG");
    let key = call.args[1];
    let series = call.keyspace.read_as::<Series>(key).map_err(|_| text(NOT_SERIES))?;
    let series = series.ok_or(text(NO_KEY))?;
    let source = rules::source_of(call.keyspace, key);
    let rules = series.rules().iter();
    let held: Vec<&Rule> = rules.filter(|rule| rules::holds(call.keyspace, key, rule)).collect();
    let reply = &mut *call.reply;
    let settings = &series.settings;
    let integer = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    reply.map(FIELDS + if is_debug { DEBUG_FIELDS } else { 0 });
    let mut number = |name: &str, value: u64| {
        reply.simple(name);
        reply.integer(integer(value));
    };
    let from = series.kept_from();
    let first = series.samples(from, u64::MAX).next();
    number("totalSamples", series.count_from(from));
    number("memoryUsage", (series.memory_bytes() + size_of::<Series>()) as u64);
    number("firstTimestamp", first.map_or(0, |first| first.time));
    number("lastTimestamp", series.last().map_or(0, |last| last.time));
    number("retentionTime", settings.retention_ms);
    number("chunkCount", series.chunk_count() as u64);
    number("chunkSize", settings.chunk_size.into());
    reply.simple("chunkType");
    reply.simple(if settings.is_packed { "compressed" } else { "uncompressed" });
    reply.simple("duplicatePolicy");
    match settings.policy {
        Some(policy) => reply.simple(policy.name()),
        None => reply.null(),
    }
    reply.simple("labels");
    reply::labels(reply, series.labels());
    reply.simple("sourceKey");
    match &source {
        Some(source) => reply.bulk(source),
        None => reply.null(),
    }
    reply.simple("rules");
    reply_rules(reply, &held);
    reply.simple("ignoreMaxTimeDiff");
    reply.integer(integer(settings.ignore_ms));
    reply.simple("ignoreMaxValDiff");
    reply.double(settings.ignore_difference);
    if is_debug {
        reply.simple("keySelfName");
        reply.bulk(key);
        reply.simple("Chunks");
        reply.array(series.chunk_count());
        for (ends, count, size) in series.chunk_facts() {
            let ends = ends.map_or((-1, -1), |(first, last)| (integer(first.time), integer(last.time)));
            reply.map(5);
            reply.simple("startTimestamp");
            reply.integer(ends.0);
            reply.simple("endTimestamp");
            reply.integer(ends.1);
            reply.simple("samples");
            reply.integer(count.into());
            reply.simple("size");
            reply.integer(size.into());
            reply.simple("bytesPerSample");
            reply.double(bytes_per_sample(size, count));
        }
    }
    Ok(())
}
