// SPDX-License-Identifier: BSD-3-Clause
//! TS.NRANGE and TS.NREVRANGE of Redis 8.10: several series side by side, a row for each time.

use braid_base::number::parse_i64;
use braid_executor::Call;
use braid_spec::{CommandError, CommandResult};
use braid_values::time_series::buckets::{Buckets, Range};
use braid_values::time_series::{Sample, Series};

use super::arguments::{self, NO_KEY, NOT_SERIES, find, text};
use super::{reply, rules};

pub(super) fn nrange(call: &mut Call) -> CommandResult {
    reply_rows(call, false)
}

pub(super) fn nrevrange(call: &mut Call) -> CommandResult {
    reply_rows(call, true)
}

fn reply_rows(call: &mut Call, is_reverse: bool) -> CommandResult {
    let args = call.args;
    let keys = parse_i64(args[1]).and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0);
    let keys = keys.ok_or(text("ERR TSDB: numkeys must be a positive integer"))?;
    // The two times follow the keys.
    let times = keys.checked_add(2).filter(|times| args.len() - 2 >= *times);
    let times = times.ok_or_else(|| call.wrong_arity())?;
    for key in &args[2..times] {
        call.keyspace.read_as::<Series>(key).map_err(|_| text(NOT_SERIES))?.ok_or(text(NO_KEY))?;
    }
    let (range, aggregators) = arguments::range_of_keys(call, times, is_reverse, keys)?;
    let with_latest = find(args, times + 2, "LATEST").is_some();
    let mut columns: Vec<Vec<Sample>> = Vec::with_capacity(keys);
    for (at, key) in args[2..times].iter().enumerate() {
        let latest = if with_latest { rules::latest(call.keyspace, key) } else { None };
        let Ok(Some(series)) = call.keyspace.peek_as::<Series>(key) else { return Err(text(NO_KEY)) };
        let names = aggregators.get(at).map_or(&[][..], |names| names);
        for name in names.split(|byte| *byte == b',') {
            let buckets = match range.buckets {
                Some(buckets) => Some(Buckets { kind: arguments::kind(name)?, ..buckets }),
                None => None,
            };
            let range = Range { buckets, ..range.clone() };
            let column = range.of(series, latest);
            columns.push(column.map_err(|error| CommandError::text(error.to_string()))?);
        }
    }
    reply_columns(call, &columns, &range);
    Ok(())
}

/// The columns' samples by time; NaN where a column has none.
fn reply_columns(call: &mut Call, columns: &[Vec<Sample>], range: &Range) {
    let mut times: Vec<u64> = columns.iter().flatten().map(|sample| sample.time).collect();
    times.sort_unstable();
    times.dedup();
    if range.is_reverse {
        times.reverse();
    }
    times.truncate(range.most);
    let mut rest: Vec<_> = columns.iter().map(|column| column.iter().peekable()).collect();
    call.reply.array(times.len());
    for time in times {
        call.reply.array(2);
        call.reply.integer(i64::try_from(time).unwrap_or(i64::MAX));
        call.reply.array(rest.len());
        for column in &mut rest {
            let sample = column.next_if(|sample| sample.time == time);
            reply::value(call.reply, sample.map_or(f64::NAN, |sample| sample.value));
        }
    }
}
