// SPDX-License-Identifier: BSD-3-Clause
//! Series as requests: RESTORE of the whole, with its rules, which Redis Stack reads too. A series
//! that is too large for a request is created and filled; it has no rules then.

use std::io;

use braid_base::number::format_f64_shortest;
use braid_keyspace::object::RequestSink;
use braid_rdb::{Format, ValueRef};
use braid_resp::request;

use super::value::Series;

/// Largest series that is written as one request, in bytes of memory.
const WHOLE_MAX: usize = 256 << 20;
/// Samples of one request.
const SAMPLES_AT_ONCE: usize = 64;

pub(super) fn rewrite(series: &Series, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
    if series.memory_bytes() <= WHOLE_MAX {
        let payload = braid_rdb::dump(ValueRef::Object(series), Format::default(), true);
        request::push(out.buffer(), &[b"RESTORE", name, b"0", &payload]);
        return out.complete();
    }
    filled(series, name, out)
}

/// The series as TS.CREATE and TS.MADD.
pub(super) fn filled(series: &Series, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
    let settings = &series.settings;
    let numbers = [settings.retention_ms, settings.chunk_size.into(), settings.ignore_ms];
    let numbers = numbers.map(|number| number.to_string());
    let mut difference = Vec::new();
    format_f64_shortest(&mut difference, settings.ignore_difference);
    let mut words: Vec<&[u8]> = vec![b"TS.CREATE", name, b"RETENTION", numbers[0].as_bytes()];
    let encoding: &[u8] = if settings.is_packed { b"COMPRESSED" } else { b"UNCOMPRESSED" };
    words.extend([&b"ENCODING"[..], encoding]);
    words.extend([&b"CHUNK_SIZE"[..], numbers[1].as_bytes()]);
    words.extend(
        settings.policy.iter().flat_map(|policy| [&b"DUPLICATE_POLICY"[..], policy.name().as_bytes()]),
    );
    words.push(b"LABELS");
    words.extend(series.labels().iter().flat_map(|(name, value)| [name, value]));
    request::push(out.buffer(), &words);
    out.complete()?;
    let mut samples = series.samples(0, u64::MAX).peekable();
    while samples.peek().is_some() {
        let texts: Vec<(String, Vec<u8>)> = samples
            .by_ref()
            .take(SAMPLES_AT_ONCE)
            .map(|sample| {
                let mut value = Vec::new();
                format_f64_shortest(&mut value, sample.value);
                (sample.time.to_string(), value)
            })
            .collect();
        let mut words: Vec<&[u8]> = vec![b"TS.MADD"];
        words.extend(texts.iter().flat_map(|(time, value)| [name, time.as_bytes(), value]));
        request::push(out.buffer(), &words);
        out.complete()?;
    }
    // Afterwards, so that no sample is left out.
    request::push(out.buffer(), &[b"TS.ALTER", name, b"IGNORE", numbers[2].as_bytes(), &difference]);
    out.complete()
}
