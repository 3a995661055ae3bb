// SPDX-License-Identifier: BSD-3-Clause
//! Feeds arbitrary bytes to the reader of dump files: it must reach an error or the end of the file
//! without a panic. A file written from the keys read must read back with the same keys. Values
//! that are skipped first and decoded separately must be the same.

#![no_main]

use braid_keyspace::Value;
use braid_persistence::read_value;
use braid_rdb::{Bytes, Decoder, Fault, FileReader, FileWriter, Limits, Record, ValueRef};
use libfuzzer_sys::fuzz_target;

fn view<'a>(value: &'a Value<'_>) -> ValueRef<'a> {
    match value {
        Value::Bytes { bytes, .. } => ValueRef::Text(bytes),
        Value::Integer(number) => ValueRef::Integer(*number),
        Value::Blob(blob) => ValueRef::Text(blob),
        Value::Object(object) => ValueRef::Object(object.as_ref().collection()),
    }
}

/// Copies a file key by key. Returns the copy, its number of keys, and whether the end was reached.
fn copy(bytes: &[u8]) -> Option<(Vec<u8>, usize, bool)> {
    // The checksum is not verified: the fuzzer need not find it.
    let mut reader = FileReader::new(bytes, Some(bytes.len() as u64), false, false).ok()?;
    let mut writer = FileWriter::new(Vec::new(), 80, true, true).expect("cannot fail in memory");
    let (limits, mut keys) = (Limits::default(), 0);
    loop {
        match reader.record() {
            Ok(Record::Key { kind, expire_at, traits }) => {
                let (name, decoder) = reader.name_and_value();
                match read_value(decoder, kind, &limits, i64::MIN) {
                    Ok(value) => {
                        writer.key(name, view(&value), expire_at, traits).expect("cannot fail in memory");
                        keys += 1;
                    }
                    Err(error) if matches!(error.fault, Fault::Empty) => {}
                    Err(_) => return Some((writer.finish().expect("memory"), keys, false)),
                }
            }
            Ok(Record::End { .. }) => return Some((writer.finish().expect("memory"), keys, true)),
            Ok(_) => {}
            Err(error) => {
                assert!(error.position <= bytes.len() as u64);
                return Some((writer.finish().expect("memory"), keys, false));
            }
        }
    }
}

/// Counts the keys of a file with values skipped and decoded separately. Also returns whether the
/// end was reached.
fn count_apart(bytes: &[u8]) -> Option<(usize, bool)> {
    const VALUE_MAX: usize = 1 << 16;
    let mut reader = FileReader::new(bytes, Some(bytes.len() as u64), false, false).ok()?;
    let (limits, version, mut keys) = (Limits::default(), reader.version(), 0);
    loop {
        let Ok(record) = reader.record() else { return Some((keys, false)) };
        let Record::Key { kind, .. } = record else {
            if matches!(record, Record::End { .. }) {
                return Some((keys, true));
            }
            continue;
        };
        let apart = reader.raw_entry(kind, VALUE_MAX).map(|(_, value)| {
            let mut decoder = Decoder::new(Bytes::new(value), version);
            read_value(&mut decoder, kind, &limits, i64::MIN).map(drop)
        });
        match apart
            .unwrap_or_else(|| read_value(reader.name_and_value().1, kind, &limits, i64::MIN).map(drop))
        {
            Ok(()) => keys += 1,
            Err(error) if matches!(error.fault, Fault::Empty) => {}
            Err(_) => return Some((keys, false)),
        }
    }
}

fuzz_target!(|data: &[u8]| {
    braid_values::register();
    let Some((first, keys, ended)) = copy(data) else { return };
    assert_eq!(count_apart(data), Some((keys, ended)));
    let (second, again, ended) = copy(&first).expect("just written");
    assert!(ended && keys == again);
    assert_eq!(first.len(), copy(&second).expect("just written").0.len());
});
