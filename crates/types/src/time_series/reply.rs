// SPDX-License-Identifier: BSD-3-Clause
//! Samples and numbers in replies.

use std::io::Write;

use braid_resp::reply::{Protocol, ReplyBuffer};
use braid_values::time_series::Sample;
use braid_values::time_series::fold::Kind;
use braid_values::time_series::labels::Labels;
use smallvec::SmallVec;

/// Integers up to here are written as integers.
const INTEGER_MAX: f64 = (1u64 << 52) as f64;

/// A number as RESP2 shows it: the shortest digits that mean it, with an exponent if it is less
/// than one or ends in zeros beyond the precision of integers.
pub(super) fn number(value: f64) -> Vec<u8> {
    let mut text = Vec::with_capacity(24);
    if value.is_nan() {
        return b"NaN".to_vec();
    }
    if value.is_sign_negative() {
        text.push(b'-');
    }
    let value = value.abs();
    if value.is_infinite() {
        text.extend_from_slice(b"Infinity");
    } else if value <= INTEGER_MAX && value.trunc() == value {
        text.extend_from_slice(itoa::Buffer::new().format(value as u64).as_bytes());
    } else {
        let (digits, exponent) = digits(value);
        let whole = usize::try_from(exponent + 1).ok().filter(|whole| (1..=digits.len()).contains(whole));
        let (before, after) = digits.split_at(whole.unwrap_or(1));
        text.extend_from_slice(before);
        if !after.is_empty() {
            text.push(b'.');
            text.extend_from_slice(after);
        }
        if whole.is_none() {
            text.push(b'E');
            text.extend_from_slice(itoa::Buffer::new().format(exponent).as_bytes());
        }
    }
    text
}

/// The shortest digits of a number above zero, without zeros at the end, and the power of ten of
/// the first one.
fn digits(value: f64) -> (SmallVec<[u8; 24]>, i32) {
    // One digit before the point, and no more digits than mean the number.
    let mut text = [0; 32];
    let mut rest = &mut text[..];
    let _ = write!(rest, "{value:e}");
    let len = 32 - rest.len();
    let text = std::str::from_utf8(&text[..len]).unwrap_or_default();
    let (number, exponent) = text.split_once('e').unwrap_or((text, "0"));
    (number.bytes().filter(u8::is_ascii_digit).collect(), exponent.parse().unwrap_or(0))
}

/// What [`number`] makes of a number that has one to four decimals, as most measurements do,
/// without looking for the shortest digits: there are no others of at most 15 that mean it.
fn decimal(value: f64, buffer: &mut [u8; 24]) -> Option<&str> {
    let size = value.abs();
    if !(1.0..1e9).contains(&size) || size.trunc() == size {
        return None;
    }
    let (scaled, decimals) =
        [(1, 1e1), (2, 1e2), (3, 1e3), (4, 1e4)].into_iter().find_map(|(decimals, scale)| {
            // Both are exact, so the quotient is what the decimal number would be read as.
            let scaled = (size * scale).round();
            (scaled / scale == size).then_some((scaled as u64, decimals))
        })?;
    let (mut rest, mut at) = (scaled, buffer.len());
    for place in 0.. {
        if place > decimals && rest == 0 {
            break;
        }
        at -= 1;
        if place == decimals {
            buffer[at] = b'.';
            continue;
        }
        buffer[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    if value < 0.0 {
        at -= 1;
        buffer[at] = b'-';
    }
    std::str::from_utf8(&buffer[at..]).ok()
}

/// A value: a double, in RESP2 a line.
pub(super) fn value(reply: &mut ReplyBuffer, value: f64) {
    if reply.protocol == Protocol::Resp3 {
        return reply.double(value);
    }
    if value.abs() <= INTEGER_MAX && value.trunc() == value && !(value == 0.0 && value.is_sign_negative()) {
        let mut buffer = itoa::Buffer::new();
        return reply.simple(buffer.format(value as i64));
    }
    match decimal(value, &mut [0; 24]) {
        Some(text) => reply.simple(text),
        None => reply.simple(std::str::from_utf8(&number(value)).unwrap_or_default()),
    }
}

/// A time and a value.
pub(super) fn sample(reply: &mut ReplyBuffer, sample: Sample) {
    reply.array(2);
    reply.integer(i64::try_from(sample.time).unwrap_or(i64::MAX));
    value(reply, sample.value);
}

/// A list of samples.
pub(super) fn samples(reply: &mut ReplyBuffer, samples: &[Sample]) {
    reply.array(samples.len());
    samples.iter().for_each(|&each| sample(reply, each));
}

/// Begins a map, in RESP2 a list of pairs.
pub(super) fn begin_pairs(reply: &mut ReplyBuffer, count: usize) {
    if reply.protocol == Protocol::Resp3 { reply.map(count) } else { reply.array(count) }
}

/// A name and its value.
pub(super) fn pair(reply: &mut ReplyBuffer, name: &[u8], value: Option<&[u8]>) {
    if reply.protocol == Protocol::Resp2 {
        reply.array(2);
    }
    reply.bulk(name);
    match value {
        Some(value) => reply.bulk(value),
        None => reply.null(),
    }
}

/// The labels of a series.
pub(super) fn labels(reply: &mut ReplyBuffer, labels: &Labels) {
    begin_pairs(reply, labels.iter().count());
    labels.iter().for_each(|(name, value)| pair(reply, name, Some(value)));
}

/// Begins a list of series, a map by key in RESP3.
pub(super) fn begin_series(reply: &mut ReplyBuffer, count: usize) {
    begin_pairs(reply, count);
}

/// What was computed: a map with one list of aggregators.
pub(super) fn kinds(reply: &mut ReplyBuffer, name: &str, kind: Option<Kind>) {
    reply.map(1);
    reply.bulk(name.as_bytes());
    reply.array(usize::from(kind.is_some()));
    if let Some(kind) = kind {
        reply.bulk(kind.name().to_ascii_lowercase().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_redis_stack_writes_them() {
        let cases = [
            (0.1, "1E-1"),
            (1e300, "1E300"),
            (-0.0, "-0"),
            (123_456_789.123_456_79, "123456789.12345679"),
            (0.3 * 1.0 + 0.000_000_000_000_000_04, "3.0000000000000004E-1"),
            (1e15, "1000000000000000"),
            (7.776_500_655_400_48e15, "7.77650065540048E15"),
            (40_382_800_857_470_296.0, "40382800857470296"),
            (1e16, "1E16"),
            (-1.5e-10, "-1.5E-10"),
            (1_234_567_890_123_456_789.0, "1.2345678901234568E18"),
            (f64::NEG_INFINITY, "-Infinity"),
            (1.5, "1.5"),
        ];
        for (value, text) in cases {
            assert_eq!(String::from_utf8_lossy(&number(value)), text);
        }
    }

    #[test]
    fn decimals_are_the_shortest_digits() {
        let mut random = fastrand::Rng::with_seed(49);
        let mut found = 0;
        for round in 0..200_000 {
            let scale = 10f64.powi(random.i32(0..7));
            let number = random.i64(-1_000_000_000_000..1_000_000_000_000) as f64 / scale;
            let value = if round % 10 == 0 { random.f64() * scale } else { number };
            if let Some(text) = decimal(value, &mut [0; 24]) {
                assert_eq!(text.as_bytes(), super::number(value), "{value:?}");
                found += 1;
            }
        }
        assert!(found > 50_000, "{found}");
        for (value, text) in
            [(1.5, "1.5"), (-999_999_999.999_9, "-999999999.9999"), (10.01, "10.01"), (1.05, "1.05")]
        {
            assert_eq!(decimal(value, &mut [0; 24]), Some(text));
        }
        for value in [0.5, 1e9, f64::NAN, f64::INFINITY, 0.1 + 1.0 / 3.0, 1.000_01] {
            assert_eq!(decimal(value, &mut [0; 24]), None);
        }
    }
}
