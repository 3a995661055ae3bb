// SPDX-License-Identifier: BSD-3-Clause
//! Tests of series: chunks against a plain list of samples, and dump forms.

use std::collections::BTreeMap;

use braid_keyspace::object::Object;
use braid_rdb::{Format, Limits, ValueRef};
use proptest::prelude::*;

use super::Sample;
use super::buckets::{Buckets, Range, Stamp};
use super::fold::{Fold, Kind, bucket_end, bucket_of};
use super::labels::Labels;
use super::value::{Policy, Series, Settings};

const CASES: u32 = if cfg!(miri) { 2 } else { 128 };

fn range(from: u64, to: u64, is_reverse: bool) -> Range {
    Range { from, to, times: None, values: None, most: usize::MAX, is_reverse, buckets: None }
}

fn decoded(payload: &[u8], check: bool) -> Option<Series> {
    crate::register();
    let mut decoder = braid_rdb::open(payload, check).ok()?;
    let kind = decoder.kind().ok()?;
    let limits = Limits::default();
    let object: Object =
        decoder.erased(|decoder| braid_keyspace::object::decode(decoder, kind, &limits, i64::MIN)).ok()?;
    object.into_inner::<Series>()
}

fn restored(series: &Series) -> Series {
    let payload = braid_rdb::dump(ValueRef::Object(series), Format::default(), true);
    decoded(&payload, true).expect("a sound series")
}

fn times() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..200, 0u64..5_000, (0u64..1 << 40), Just(i64::MAX as u64)]
}

fn values() -> impl Strategy<Value = f64> {
    prop_oneof![
        (0i32..4).prop_map(f64::from),
        (0i32..1000).prop_map(|tenths| f64::from(tenths) / 10.0),
        any::<f64>().prop_filter("a number", |value| !value.is_nan()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]
    #[test]
    fn a_series_holds_what_a_map_holds(
        is_packed in any::<bool>(),
        steps in proptest::collection::vec((0u8..8, times(), values()), 1..120),
    ) {
        let settings = Settings { chunk_size: 48, is_packed, ..Settings::default() };
        let mut series = Series::new(settings, Labels::default());
        let mut model = BTreeMap::new();
        for (what, time, value) in steps {
            if what == 0 {
                let to = time.saturating_add(500);
                let gone = model.range(time..=to).count() as u64;
                model.retain(|known, _| !(time..=to).contains(known));
                prop_assert_eq!(series.remove(time, to), gone);
            } else {
                series.add(Sample { time, value }, Some(Policy::Last)).expect("without retention");
                model.insert(time, value);
            }
            series.check();
        }
        let expected: Vec<Sample> = model.iter().map(|(&time, &value)| Sample { time, value }).collect();
        for series in [&restored(&series), &series] {
            series.check();
            let all = range(0, u64::MAX, false).of(series, None).expect("no buckets");
            prop_assert_eq!(&all, &expected);
            let mut back = range(0, u64::MAX, true).of(series, None).expect("no buckets");
            back.reverse();
            prop_assert_eq!(&back, &expected);
            let some = range(100, 3_000, false).of(series, None).expect("no buckets");
            let within = expected.iter().filter(|sample| (100..=3_000).contains(&sample.time));
            prop_assert!(some.iter().eq(within));
            prop_assert_eq!(series.last(), expected.last().copied());
        }
    }

    #[test]
    fn a_time_is_in_its_bucket(time in 0u64..1 << 62, span in 1u64..1 << 62, align in 0u64..1 << 62) {
        let start = bucket_of(time, span, align);
        prop_assert!(start <= time && time < bucket_end(start, span, align));
        let is_aligned = (i128::from(start) - i128::from(align)).rem_euclid(i128::from(span)) == 0;
        prop_assert!(is_aligned || start == 0);
    }
}

/// Samples are put into buckets in runs, of which many end within a bucket and a chunk.
#[test]
fn buckets_have_the_values_of_their_samples() {
    const SPANS: [(u64, u64, u64, u64); 5] = [
        (0, u64::MAX, 1, 0),
        (0, u64::MAX, 250, 3),
        (95, 7_777, 64, 1000),
        (500, 505, 10, 0),
        (1, 1 << 40, 1 << 30, 0),
    ];
    for is_packed in [true, false] {
        let settings = Settings { chunk_size: 512, is_packed, ..Settings::default() };
        let mut series = Series::new(settings, Labels::default());
        for number in 0..1_000u64 {
            let time = number * 10 + number % 7 + number / 100 * 1_000;
            // Two neighbours at times of which the sum overflows.
            let value = if number % 250 >= 248 { f64::MAX } else { (number * number % 1009) as f64 / 8.0 };
            series.add(Sample { time, value }, None).expect("in order");
        }
        assert!(series.chunk_count() > 3);
        let kinds = Kind::ALL.into_iter().map(|(kind, _)| kind).filter(|kind| *kind != Kind::Twa);
        for (kind, (from, to, span, align)) in kinds.flat_map(|kind| SPANS.map(|span| (kind, span))) {
            for (values, most) in [(None, usize::MAX), (Some((10.0, 100.0)), usize::MAX), (None, 3)] {
                let mut expected: Vec<(u64, Fold)> = Vec::new();
                let is_taken = |value| values.is_none_or(|(least, most)| (least..=most).contains(&value));
                for sample in series.samples(from, to).filter(|sample| is_taken(sample.value)) {
                    let start = bucket_of(sample.time, span, align);
                    if expected.last().is_none_or(|(last, _)| *last != start) {
                        expected.push((start, Fold::new(kind)));
                    }
                    expected.last_mut().expect("just made").1.add(sample);
                }
                let buckets = Some(Buckets { kind, span, align, stamp: Stamp::Start, with_empty: false });
                let asked = Range { values, most, buckets, ..range(from, to, false) };
                let found = asked.of(&series, None).expect("no empty ones");
                let found: Vec<_> = found.iter().map(|found| (found.time, found.value.to_bits())).collect();
                let expected = expected.iter().map(|(start, fold)| (*start, fold.value().to_bits()));
                assert_eq!(found, expected.take(most).collect::<Vec<_>>(), "{asked:?}");
            }
        }
    }
}

/// Bits as Redis Stack has them in its DUMP.
#[test]
fn chunks_are_compressed_as_in_redis_stack() {
    let settings = Settings { chunk_size: 48, ..Settings::default() };
    let mut series = Series::new(settings, Labels::default());
    for (time, value) in [(1000, 1.0), (1010, 1.0), (1020, 2.0), (1031, 2.5), (1101, 2.5)] {
        series.add(Sample { time, value }, None).expect("in order");
    }
    let payload = braid_rdb::dump(ValueRef::Object(&series), Format::default(), false);
    let word = 0b01110110_11100000_00110111_00001011_11111111_11001010_00001110_00101001u64;
    let word = word.to_le_bytes();
    assert!(payload.windows(8).any(|bytes| bytes == word), "{}", payload.escape_ascii());
}

#[test]
fn damaged_payloads_are_refused_or_hold_a_series() {
    let settings = Settings { chunk_size: 48, ..Settings::default() };
    let labels = Labels::new([(&b"l"[..], &b"x"[..])].into_iter()).expect("short");
    let mut series = Series::new(settings, labels);
    for time in 0..40 {
        series.add(Sample { time: time * time, value: time as f64 / 3.0 }, None).expect("in order");
    }
    let payload = braid_rdb::dump(ValueRef::Object(&series), Format::default(), false);
    let body = payload.len() - 10;
    for at in 1..body {
        for bit in [1u8, 0x10, 0x80] {
            let mut damaged = payload.clone();
            damaged[at] ^= bit;
            if let Some(series) = decoded(&damaged, false) {
                series.check();
            }
        }
    }
}

#[test]
fn requests_make_an_equal_series() {
    let settings = Settings { chunk_size: 48, ignore_ms: 5, ..Settings::default() };
    let labels = Labels::new([(&b"l"[..], &b"RETENTION"[..])].into_iter()).expect("short");
    let mut series = Series::new(settings, labels);
    for time in 0..100 {
        series.add(Sample { time, value: time as f64 / 4.0 }, None).expect("in order");
    }
    let mut requests = Vec::new();
    super::rewrite::filled(&series, b"k", &mut requests).expect("memory takes all");
    let text = String::from_utf8_lossy(&requests);
    assert_eq!(text.matches("TS.MADD").count(), 2, "{text}");
    assert!(text.contains("$9\r\nTS.CREATE\r\n$1\r\nk\r\n$9\r\nRETENTION\r\n$1\r\n0\r\n"), "{text}");
    assert!(text.ends_with("$8\r\nTS.ALTER\r\n$1\r\nk\r\n$6\r\nIGNORE\r\n$1\r\n5\r\n$1\r\n0\r\n"), "{text}");
}
