// SPDX-License-Identifier: BSD-3-Clause
//! Times, numbers and options in requests. As in Redis Stack an option is found by its word,
//! wherever it is; what belongs to no option is passed over.

use braid_base::number::{parse_f64, parse_i64};
use braid_executor::Call;
use braid_spec::CommandError;
use braid_values::time_series::buckets::{Buckets, Range, Stamp};
use braid_values::time_series::fold::Kind;
use braid_values::time_series::labels::Labels;
use braid_values::time_series::value::{CHUNK_SIZE_MAX, CHUNK_SIZE_MIN, Policy, Settings};

pub(super) const NO_KEY: &str = "ERR TSDB: the key does not exist";
pub(super) const NOT_SERIES: &str = "ERR WRONGTYPE Operation against a key holding the wrong kind of value";

pub(super) fn text(text: &'static str) -> CommandError {
    CommandError::text(text)
}

/// The place of an option's word.
pub(super) fn find(args: &[&[u8]], from: usize, word: &str) -> Option<usize> {
    (from..args.len()).find(|at| args[*at].eq_ignore_ascii_case(word.as_bytes()))
}

/// A number in the grammar of JSON, which has no infinities.
pub(super) fn value(text: &[u8]) -> Option<f64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_number = match digits {
        [b'0', ..] => whole == 1,
        _ => whole > 0,
    };
    let mut rest = &digits[whole..];
    if let [b'.', decimals @ ..] = rest {
        let len = decimals.iter().take_while(|byte| byte.is_ascii_digit()).count();
        rest = if len > 0 { &decimals[len..] } else { rest };
    }
    let is_end = rest.is_empty() || matches!(rest[0], b'e' | b'E');
    if !is_number || !is_end {
        return None;
    }
    parse_f64(text).filter(|value| value.is_finite())
}

/// A time in a command that adds samples; `*` is now.
pub(super) fn time(call: &Call, text: &[u8]) -> Result<u64, CommandError> {
    if text == b"*" {
        return Ok(u64::try_from(call.clock_ms()).unwrap_or(0));
    }
    let time = parse_i64(text).ok_or(self::text("ERR TSDB: invalid timestamp"))?;
    let nonnegative = "ERR TSDB: invalid timestamp, must be a nonnegative integer";
    u64::try_from(time).map_err(|_| self::text(nonnegative))
}

/// The ends of a range of times, and whether each is a number.
pub(super) struct Times {
    pub from: (u64, bool),
    pub to: (u64, bool),
}

/// Parses the ends of a range: times, `-` for the first and `+` for the last.
pub(super) fn times(from: &[u8], to: &[u8]) -> Result<Times, CommandError> {
    let number = |text: &[u8]| parse_i64(text).and_then(|time| u64::try_from(time).ok());
    let from = match from {
        b"-" => (0, false),
        _ => (number(from).ok_or(text("ERR TSDB: wrong fromTimestamp"))?, true),
    };
    let to = match to {
        b"+" => (u64::MAX, false),
        _ => (number(to).ok_or(text("ERR TSDB: wrong toTimestamp"))?, true),
    };
    Ok(Times { from, to })
}

/// A policy after its word.
pub(super) fn policy(args: &[&[u8]], from: usize, word: &str) -> Result<Option<Policy>, CommandError> {
    let Some(at) = find(args, from, word) else { return Ok(None) };
    let name = args.get(at + 1).ok_or(text("ERR TSDB: Couldn't parse DUPLICATE_POLICY"))?;
    let policy = Policy::named(name).ok_or(text("ERR TSDB: Unknown DUPLICATE_POLICY"))?;
    Ok(Some(policy))
}

/// Settings that a request states.
#[derive(Default)]
pub(super) struct Stated {
    retention_ms: Option<u64>,
    chunk_size: Option<u32>,
    is_packed: Option<bool>,
    policy: Option<Policy>,
    ignore: Option<(u64, f64)>,
    pub labels: Option<Labels>,
}

impl Stated {
    /// Changes the settings that may change later.
    pub fn change(&self, settings: &mut Settings) {
        if let Some(retention_ms) = self.retention_ms {
            settings.retention_ms = retention_ms;
        }
        if let Some(chunk_size) = self.chunk_size {
            settings.chunk_size = chunk_size;
        }
        if let Some(policy) = self.policy {
            settings.policy = Some(policy);
        }
        if let Some(ignore) = self.ignore {
            (settings.ignore_ms, settings.ignore_difference) = ignore;
        }
    }

    /// The settings of a new series: those that the request does not state are as configured.
    pub fn settings(&self, call: &Call) -> Settings {
        let is_packed = self.is_packed.unwrap_or(true);
        let mut settings = Settings { is_packed, ..configured(call).unwrap_or_default() };
        self.change(&mut settings);
        settings
    }
}

/// The settings of new series that the configuration has, if they are not the usual ones.
pub(super) fn configured(call: &Call) -> Option<Settings> {
    let config = &call.engine.config;
    let usual = Settings::default();
    let policy = Policy::named(config.ts_duplicate_policy().to_string().as_bytes());
    let difference = config.ts_ignore_max_val_diff();
    let settings = Settings {
        retention_ms: config.ts_retention_policy(),
        chunk_size: config.ts_chunk_size_bytes(),
        policy: policy.filter(|policy| *policy != Policy::Block),
        ignore_ms: config.ts_ignore_max_time_diff(),
        ignore_difference: difference.parse().unwrap_or(usual.ignore_difference),
        ..usual
    };
    // A replica may have another policy, so the series has its own.
    (settings != usual).then_some(Settings { policy, ..settings })
}

/// The request that creates a series with these settings, whatever the configuration.
pub(super) fn creation(key: &[u8], settings: &Settings, labels: &Labels) -> Vec<Vec<u8>> {
    let word = |text: &str| text.as_bytes().to_vec();
    let mut request = vec![word("TS.CREATE"), key.to_vec()];
    request.extend([word("RETENTION"), word(&settings.retention_ms.to_string())]);
    request.extend([word("CHUNK_SIZE"), word(&settings.chunk_size.to_string())]);
    request.extend([word("ENCODING"), word(if settings.is_packed { "COMPRESSED" } else { "UNCOMPRESSED" })]);
    if let Some(policy) = settings.policy {
        request.extend([word("DUPLICATE_POLICY"), word(policy.name())]);
    }
    request.push(word("IGNORE"));
    request.extend([word(&settings.ignore_ms.to_string()), word(&settings.ignore_difference.to_string())]);
    request.push(word("LABELS"));
    request.extend(labels.iter().flat_map(|(name, value)| [name.to_vec(), value.to_vec()]));
    request
}

/// Parses the settings in the arguments from `from` on.
pub(super) fn stated(call: &Call, from: usize) -> Result<Stated, CommandError> {
    let args = call.args;
    let mut stated = Stated { labels: labels(args, from)?, ..Stated::default() };
    if let Some(at) = find(args, from, "RETENTION") {
        let retention = args.get(at + 1).and_then(|text| parse_i64(text));
        let retention = retention.ok_or(text("ERR TSDB: Couldn't parse RETENTION"))?;
        let negative = text("TSDB: Couldn't parse RETENTION");
        stated.retention_ms = Some(u64::try_from(retention).map_err(|_| negative)?);
    }
    if let Some(at) = find(args, from, "CHUNK_SIZE") {
        let size = args.get(at + 1).and_then(|text| parse_i64(text));
        let size = size.ok_or(text("ERR TSDB: Couldn't parse CHUNK_SIZE"))?;
        let valid = u64::try_from(size)
            .ok()
            .filter(|size| (CHUNK_SIZE_MIN..=CHUNK_SIZE_MAX).contains(size) && size.is_multiple_of(8));
        stated.chunk_size =
            Some(valid.ok_or(text(
                "ERR TSDB: CHUNK_SIZE value must be a multiple of 8 in the range [48 .. 1048576]",
            ))? as u32);
    }
    if find(args, from, "UNCOMPRESSED").is_some() {
        stated.is_packed = Some(false);
    }
    if let Some(at) = find(args, from, "ENCODING") {
        let name = args.get(at + 1).ok_or_else(|| call.wrong_arity())?;
        stated.is_packed = Some(match name.to_ascii_uppercase().as_slice() {
            b"COMPRESSED" => true,
            b"UNCOMPRESSED" => false,
            _ => return Err(text("ERR TSDB: unknown ENCODING parameter")),
        });
    }
    stated.policy = policy(args, from, "DUPLICATE_POLICY")?;
    if let Some(at) = find(args, from, "IGNORE") {
        let invalid = text("ERR TSDB: Couldn't parse IGNORE");
        let time = args.get(at + 1).and_then(|text| parse_i64(text));
        let value = args.get(at + 2).and_then(|text| parse_f64(text)).filter(|value| !value.is_nan());
        let (time, value) = time.zip(value).ok_or(invalid)?;
        let time = u64::try_from(time).ok().filter(|_| value >= 0.0);
        let time = time.ok_or(text("ERR TSDB: IGNORE arguments cannot be negative"))?;
        stated.ignore = Some((time, value));
    }
    Ok(stated)
}

/// Labels are all that follows their word.
fn labels(args: &[&[u8]], from: usize) -> Result<Option<Labels>, CommandError> {
    let Some(at) = find(args, from, "LABELS") else { return Ok(None) };
    let (pairs, _) = args[at + 1..].as_chunks::<2>();
    let invalid = |text: &[u8]| text.iter().any(|byte| matches!(byte, b'(' | b')' | b','));
    if pairs.iter().any(|[name, value]| name.is_empty() || value.is_empty() || invalid(value)) {
        return Err(text("ERR TSDB: Couldn't parse LABELS"));
    }
    let labels = Labels::new(pairs.iter().map(|[name, value]| (*name, *value)));
    labels.map(Some).ok_or(text("ERR TSDB: Couldn't parse LABELS"))
}

/// Parses what TS.RANGE and its relatives ask for, from the two times at `at` on.
pub(super) fn range(call: &Call, at: usize, is_reverse: bool) -> Result<Range, CommandError> {
    range_within(call, at, is_reverse, call.args.len())
}

/// Like [`range`], from the arguments before `end`.
pub(super) fn range_within(
    call: &Call,
    at: usize,
    is_reverse: bool,
    end: usize,
) -> Result<Range, CommandError> {
    let args = &call.args[..end];
    range_of(call, args, at, is_reverse, None)
}

/// Like [`range`] for several series, each with an argument for its aggregators, of which the range
/// then has none. They are returned.
pub(super) fn range_of_keys<'a>(
    call: &Call<'a, '_>,
    at: usize,
    is_reverse: bool,
    keys: usize,
) -> Result<(Range, &'a [&'a [u8]]), CommandError> {
    let args = call.args;
    let range = range_of(call, args, at, is_reverse, Some(keys))?;
    let aggregators = find(args, at + 2, "AGGREGATION").filter(|_| range.buckets.is_some());
    Ok((range, aggregators.map_or(&[], |at| &args[at + 1..at + 1 + keys])))
}

fn range_of(
    call: &Call,
    args: &[&[u8]],
    at: usize,
    is_reverse: bool,
    keys: Option<usize>,
) -> Result<Range, CommandError> {
    let ends = times(args[at], args[at + 1])?;
    let from = at + 2;
    let most = count(args, from, keys.unwrap_or(1))?;
    let buckets = buckets(call, args, from, &ends, keys)?;
    let values = values(args, from)?;
    let times = listed(args, from)?;
    Ok(Range { from: ends.from.0, to: ends.to.0, times, values, most, is_reverse, buckets })
}

fn count(args: &[&[u8]], from: usize, aggregators: usize) -> Result<usize, CommandError> {
    // COUNT is an aggregator, too.
    let is_aggregator = |at: usize| {
        args[at.saturating_sub(aggregators)..at].iter().any(|word| word.eq_ignore_ascii_case(b"AGGREGATION"))
    };
    let is_option = |at: &usize| args[*at].eq_ignore_ascii_case(b"COUNT") && !is_aggregator(*at);
    let Some(at) = (from..args.len()).find(is_option) else { return Ok(usize::MAX) };
    let text = args.get(at + 1).ok_or(text("ERR TSDB: COUNT argument is missing"))?;
    let count = parse_i64(text).ok_or(self::text("ERR TSDB: Couldn't parse COUNT"))?;
    let count = usize::try_from(count).ok().filter(|count| *count > 0);
    count.ok_or(self::text("ERR TSDB: Invalid COUNT value"))
}

/// An aggregator and the length of its buckets, after AGGREGATION at `at`.
pub(super) fn aggregator(args: &[&[u8]], at: usize) -> Result<(Kind, u64), CommandError> {
    let invalid = text("ERR TSDB: Couldn't parse AGGREGATION");
    let (Some(name), Some(span)) = (args.get(at + 1), args.get(at + 2)) else { return Err(invalid) };
    let Some(span) = parse_i64(span) else { return Err(invalid) };
    Ok((kind(name)?, positive_span(span)?))
}

pub(super) fn kind(name: &[u8]) -> Result<Kind, CommandError> {
    Kind::named(name).ok_or(text("ERR TSDB: Unknown aggregation type"))
}

fn positive_span(span: i64) -> Result<u64, CommandError> {
    let span = u64::try_from(span).ok().filter(|span| *span > 0);
    span.ok_or(text("ERR TSDB: bucketDuration must be greater than zero"))
}

fn buckets(
    call: &Call,
    args: &[&[u8]],
    from: usize,
    ends: &Times,
    keys: Option<usize>,
) -> Result<Option<Buckets>, CommandError> {
    let align = find(args, from, "ALIGN");
    let Some(at) = find(args, from, "AGGREGATION") else {
        return match align {
            Some(_) => Err(text("ERR TSDB: ALIGN parameter can only be used with AGGREGATION")),
            None => Ok(None),
        };
    };
    let behind = at + 1 + keys.unwrap_or(1);
    let (kind, span) = match keys {
        None => aggregator(args, at)?,
        Some(_) => {
            let span = args.get(behind).and_then(|span| parse_i64(span));
            (Kind::Avg, positive_span(span.ok_or(text("ERR TSDB: Couldn't parse AGGREGATION"))?)?)
        }
    };
    let misplaced = |place: usize| place != behind + 1 && place != behind + 2;
    let mut stamp = Stamp::Start;
    if let Some(place) = find(args, from, "BUCKETTIMESTAMP") {
        if misplaced(place) {
            return Err(text(
                "ERR TSDB: BUCKETTIMESTAMP flag should be the 3rd or 4th flag after AGGREGATION flag",
            ));
        }
        let name = args.get(place + 1).ok_or_else(|| call.wrong_arity())?;
        stamp = match name.to_ascii_lowercase().as_slice() {
            b"-" | b"start" => Stamp::Start,
            b"~" | b"mid" => Stamp::Middle,
            b"+" | b"end" => Stamp::End,
            _ => return Err(text("ERR TSDB: unknown BUCKETTIMESTAMP parameter")),
        };
    }
    let with_empty = find(args, from, "EMPTY").is_some();
    let align = match align {
        Some(place) => self::align(call, args.get(place + 1), ends)?,
        None => 0,
    };
    Ok(Some(Buckets { kind, span, align, stamp, with_empty }))
}

fn align(call: &Call, given: Option<&&[u8]>, ends: &Times) -> Result<u64, CommandError> {
    let given = given.ok_or_else(|| call.wrong_arity())?;
    match given.to_ascii_lowercase().as_slice() {
        b"-" | b"start" if !ends.from.1 => {
            Err(text("ERR TSDB: start alignment can only be used with explicit start timestamp"))
        }
        b"-" | b"start" => Ok(ends.from.0),
        b"+" | b"end" if !ends.to.1 => {
            Err(text("ERR TSDB: end alignment can only be used with explicit end timestamp"))
        }
        b"+" | b"end" => Ok(ends.to.0),
        number => parse_i64(number)
            .and_then(|number| u64::try_from(number).ok())
            .ok_or(text("ERR TSDB: unknown ALIGN parameter")),
    }
}

fn values(args: &[&[u8]], from: usize) -> Result<Option<(f64, f64)>, CommandError> {
    let Some(at) = find(args, from, "FILTER_BY_VALUE") else { return Ok(None) };
    let (Some(least), Some(most)) = (args.get(at + 1), args.get(at + 2)) else {
        return Err(text("ERR TSDB: FILTER_BY_VALUE one or more arguments are missing"));
    };
    let least = parse_f64(least).ok_or(text("ERR TSDB: Couldn't parse MIN"))?;
    Ok(Some((least, parse_f64(most).ok_or(text("ERR TSDB: Couldn't parse MAX"))?)))
}

fn listed(args: &[&[u8]], from: usize) -> Result<Option<Vec<u64>>, CommandError> {
    let Some(at) = find(args, from, "FILTER_BY_TS") else { return Ok(None) };
    let number = |text: &&[u8]| parse_i64(text).and_then(|time| u64::try_from(time).ok());
    let mut times: Vec<u64> = args[at + 1..].iter().map_while(number).collect();
    if times.is_empty() {
        return Err(text("ERR TSDB: FILTER_BY_TS one or more arguments are missing"));
    }
    times.sort_unstable();
    times.dedup();
    Ok(Some(times))
}
