// SPDX-License-Identifier: BSD-3-Clause
//! Changes of series: TS.CREATE, ALTER, ADD, MADD, INCRBY, DECRBY, DEL.
//!
//! A time that a command takes from the clock is journalled as the number that was used, so that
//! replicas and files have the same samples.

use braid_base::number::parse_f64;
use braid_executor::Call;
use braid_keyspace::object::Object;
use braid_keyspace::{Event, Expiry};
use braid_spec::{CommandError, CommandResult};
use braid_values::time_series::fold::bucket_of;
use braid_values::time_series::labels::Labels;
use braid_values::time_series::value::{Added, Policy, Refusal};
use braid_values::time_series::{Sample, Series};

use super::arguments::{
    NO_KEY, NOT_SERIES, Stated, configured, creation, find, policy, stated, text, time, times, value,
};
use super::rules::{self, Effects};

const CREATE: Event = Event::module("ts.create");
const ALTER: Event = Event::module("ts.alter");
const ADD: Event = Event::module("ts.add");
const INCRBY: Event = Event::module("ts.incrby");
const DECRBY: Event = Event::module("ts.decrby");
const DEL: Event = Event::module("ts.del");

const IS_NO_SERIES: &str = "ERR TSDB: the key is not a TSDB key";
const BEYOND_RETENTION: &str = "ERR TSDB: When a series has compactions, deleting samples or compaction \
     buckets beyond the series retention period is not possible";
const NO_DIFFERENCE: &str = "ERR TSDB: invalid increase/decrease value";

fn refused(refusal: Refusal) -> CommandError {
    CommandError::text(refusal.to_string())
}

fn reply_time(call: &mut Call, time: u64) {
    call.reply.integer(i64::try_from(time).unwrap_or(i64::MAX));
}

/// Adds a sample to the series at a key, which must exist. `None` if it was left out.
fn push(
    call: &mut Call,
    key: &[u8],
    sample: Sample,
    policy: Option<Policy>,
) -> Result<Result<Added, Refusal>, CommandError> {
    let series = call.keyspace.write_as::<Series>(key).map_err(|_| text(IS_NO_SERIES))?;
    let series = series.ok_or(text(IS_NO_SERIES))?;
    if series.rules().is_empty() {
        return Ok(series.add(sample, policy));
    }
    let before = series.last();
    let added = match series.add(sample, policy) {
        Ok(added) => added,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let mut effects = Effects::new();
    let report = |target: &[u8], effect| effects.push((target.into(), effect));
    match added {
        Added::Appended => series.appended(before, sample, report),
        Added::Upserted => series.upserted(sample.time, report),
        Added::Ignored(_) => {}
    }
    rules::apply(call, key, effects, added == Added::Appended);
    Ok(Ok(added))
}

/// Reports an added sample; the time to reply with.
fn finish(call: &mut Call, event: Event, key: &[u8], sample: Sample, added: Added) -> u64 {
    match added {
        Added::Ignored(last) => last,
        Added::Appended | Added::Upserted => {
            call.keyspace.finish_change(event, key, 1, false);
            sample.time
        }
    }
}

/// Creates a series with one sample at a missing key. True if the configuration gave it settings,
/// and the journal so has a request that creates it: the request itself must be journalled behind.
fn create_with(
    call: &mut Call,
    event: Event,
    key: &[u8],
    sample: Sample,
    options_at: usize,
) -> Result<bool, CommandError> {
    let mut stated = stated(call, options_at)?;
    let labels = stated.labels.take().unwrap_or_default();
    let created = creation_if_configured(call, &stated, &labels);
    let mut series = Series::new(stated.settings(call), labels);
    series.add(sample, None).map_err(refused)?;
    call.keyspace.set_object(event, key, Object::new(series), Expiry::Clear);
    if let Some(request) = &created {
        journal(call, request);
    }
    Ok(created.is_some())
}

/// The request that creates the series with settings of its own, if the configuration, which may
/// be another one on a replica or at the next start, has other settings than usual.
fn creation_if_configured(call: &Call, stated: &Stated, labels: &Labels) -> Option<Vec<Vec<u8>>> {
    configured(call)?;
    Some(creation(call.args[1], &stated.settings(call), labels))
}

fn journal(call: &mut Call, request: &[Vec<u8>]) {
    let words: Vec<&[u8]> = request.iter().map(|word| &word[..]).collect();
    call.keyspace.journal_as(&words);
}

/// Journals the request with another argument at `at`.
fn journal_with(call: &mut Call, at: usize, text: &[u8]) {
    let mut request = call.args.to_vec();
    request[at] = text;
    call.keyspace.journal_as(&request);
}

pub(super) fn create(call: &mut Call) -> CommandResult {
    let mut stated = stated(call, 2)?;
    let key = call.args[1];
    if call.keyspace.peek(key).is_some() {
        return Err(text("ERR TSDB: key already exists"));
    }
    let labels = stated.labels.take().unwrap_or_default();
    let created = creation_if_configured(call, &stated, &labels);
    let series = Series::new(stated.settings(call), labels);
    call.keyspace.set_object(CREATE, key, Object::new(series), Expiry::Clear);
    if let Some(request) = &created {
        journal(call, request);
    }
    call.reply.ok();
    Ok(())
}

pub(super) fn alter(call: &mut Call) -> CommandResult {
    let stated = stated(call, 2)?;
    let key = call.args[1];
    let series = call.keyspace.write_as::<Series>(key).map_err(|_| text(NOT_SERIES))?;
    let series = series.ok_or(text(NO_KEY))?;
    stated.change(&mut series.settings);
    if let Some(labels) = stated.labels {
        series.set_labels(labels);
        call.keyspace.catalogue_again(key);
    }
    call.keyspace.finish_change(ALTER, key, 1, false);
    call.reply.ok();
    Ok(())
}

pub(super) fn add(call: &mut Call) -> CommandResult {
    let (key, time_text) = (call.args[1], call.args[2]);
    let value = value(call.args[3]).ok_or(text("ERR TSDB: invalid value"))?;
    let sample = Sample { time: time(call, time_text)?, value };
    if call.keyspace.peek(key).is_none() {
        let is_journalled = create_with(call, ADD, key, sample, 4)?;
        reply_time(call, sample.time);
        if is_journalled {
            journal_with(call, 2, sample.time.to_string().as_bytes());
            return Ok(());
        }
    } else {
        let policy = policy(call.args, 4, "ON_DUPLICATE")?;
        let added = push(call, key, sample, policy)?.map_err(refused)?;
        let time = finish(call, ADD, key, sample, added);
        reply_time(call, time);
    }
    if time_text == b"*" {
        call.keyspace.journal_respelled(2, sample.time.to_string().into_bytes());
    }
    Ok(())
}

/// Adds one sample of TS.MADD.
fn add_one(
    call: &mut Call,
    key: &[u8],
    time_text: &[u8],
    value_text: &[u8],
) -> Result<(u64, Added), CommandError> {
    if call.keyspace.peek_as::<Series>(key).ok().flatten().is_none() {
        return Err(text(IS_NO_SERIES));
    }
    let value = value(value_text).ok_or(text("ERR TSDB: invalid value"))?;
    let sample = Sample { time: time(call, time_text)?, value };
    let added = push(call, key, sample, None)?.map_err(refused)?;
    Ok((finish(call, ADD, key, sample, added), added))
}

/// TS.MADD is journalled with the samples that were added, and their times.
pub(super) fn madd(call: &mut Call) -> CommandResult {
    let args = call.args;
    let (triples, rest) = args[1..].as_chunks::<3>();
    if !rest.is_empty() {
        return Err(call.wrong_arity());
    }
    let mut added: Vec<(usize, String)> = Vec::new();
    call.reply.array(triples.len());
    for (at, [key, time, value]) in triples.iter().enumerate() {
        match add_one(call, key, time, value) {
            Ok((time, how)) => {
                reply_time(call, time);
                if !matches!(how, Added::Ignored(_)) {
                    added.push((at, time.to_string()));
                }
            }
            Err(error) => call.reply.error_bytes(&error.line()),
        }
    }
    if !added.is_empty() && call.keyspace.journals() {
        let mut request: Vec<&[u8]> = vec![args[0]];
        for (at, time) in &added {
            let [key, _, value] = triples[*at];
            request.extend([key, time.as_bytes(), value]);
        }
        call.keyspace.journal_as(&request);
    }
    Ok(())
}

pub(super) fn incrby(call: &mut Call) -> CommandResult {
    change_by(call, INCRBY, 1.0)
}

pub(super) fn decrby(call: &mut Call) -> CommandResult {
    change_by(call, DECRBY, -1.0)
}

fn change_by(call: &mut Call, event: Event, sign: f64) -> CommandResult {
    let (key, args) = (call.args[1], call.args);
    let series = call.keyspace.peek_as::<Series>(key).map_err(|_| text(NOT_SERIES))?;
    let (exists, last) = (series.is_some(), series.and_then(Series::last));
    let difference = parse_f64(args[2]).filter(|by| !by.is_nan()).ok_or(text(NO_DIFFERENCE))?;
    let place = find(args, 3, "TIMESTAMP");
    let time = match place {
        Some(at) => time(call, args.get(at + 1).ok_or_else(|| call.wrong_arity())?)?,
        // The clock may be behind the last sample.
        None => time(call, b"*")?.max(last.map_or(0, |last| last.time)),
    };
    if last.is_some_and(|last| time < last.time) {
        return Err(text("TSDB: timestamp must be equal to or higher than the maximum existing timestamp"));
    }
    let value = last.map_or(0.0, |last| last.value) + sign * difference;
    if value.is_nan() {
        return Err(text(NO_DIFFERENCE));
    }
    let sample = Sample { time, value };
    let mut is_journalled = false;
    if exists {
        let added = push(call, key, sample, Some(Policy::Last))?.map_err(refused)?;
        let time = finish(call, event, key, sample, added);
        reply_time(call, time);
    } else {
        is_journalled = create_with(call, event, key, sample, 3)?;
        reply_time(call, time);
    }
    let time = sample.time.to_string();
    match place {
        Some(at) if is_journalled => journal_with(call, at + 1, time.as_bytes()),
        Some(at) if args[at + 1] == b"*" => call.keyspace.journal_respelled(at + 1, time.into_bytes()),
        Some(_) => {}
        None => {
            let mut request = args[..3].to_vec();
            request.extend([&b"TIMESTAMP"[..], time.as_bytes()]);
            request.extend_from_slice(&args[3..]);
            call.keyspace.journal_as(&request);
        }
    }
    Ok(())
}

pub(super) fn del(call: &mut Call) -> CommandResult {
    let (key, times) = (call.args[1], times(call.args[2], call.args[3])?);
    let (from, to) = (times.from.0, times.to.0);
    let series = call.keyspace.write_as::<Series>(key).map_err(|_| text(NOT_SERIES))?;
    let series = series.ok_or(text(NO_KEY))?;
    let kept_from = series.kept_from();
    let mut begins = series.rules().iter().map(|rule| bucket_of(from, rule.span, rule.align));
    if series.settings.retention_ms > 0 && begins.any(|begin| begin < kept_from) {
        return Err(text(BEYOND_RETENTION));
    }
    let removed = if from > to { 0 } else { series.remove(from, to) };
    if removed > 0 {
        let mut effects = Effects::new();
        series.removed(from, to, |target, effect| effects.push((target.into(), effect)));
        rules::apply(call, key, effects, false);
        call.keyspace.finish_change(DEL, key, removed, false);
    }
    call.reply.integer(i64::try_from(removed).unwrap_or(i64::MAX));
    Ok(())
}
