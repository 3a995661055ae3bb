// SPDX-License-Identifier: BSD-3-Clause
//! Any RESTORE payload is either refused or a value that can be dumped, and the dump is accepted
//! and keeps its size when dumped again.
//!
//! The first byte of the input chooses the version and the thresholds; the rest is the type and
//! body without the checksum trailer, so that the fuzzer need not find checksums.

#![no_main]

use braid_keyspace::Value;
use braid_persistence::read_value;
use braid_rdb::{Bytes, Decoder, Error, Format, Limits, Stream, Target, ValueRef};
use braid_values::hash::HashLimits;
use braid_values::list::ListLimits;
use braid_values::set::SetLimits;
use braid_values::sorted_set::PackedLimits;
use libfuzzer_sys::fuzz_target;

fn limits(small: bool) -> Limits {
    if !small {
        return Limits::default();
    }
    Limits {
        hash: HashLimits { max_listpack_entries: 2, max_listpack_value: 3 },
        list: ListLimits { max_listpack_size: 2, compress_depth: 1, ..ListLimits::default() },
        set: SetLimits { max_intset_entries: 2, max_listpack_entries: 2, max_listpack_value: 3 },
        sorted_set: PackedLimits { entries_max: 2, value_bytes_max: 3 },
    }
}

fn dump(value: &Value<'_>) -> Vec<u8> {
    let value = match value {
        Value::Bytes { bytes, .. } => ValueRef::Text(bytes),
        Value::Integer(number) => ValueRef::Integer(*number),
        Value::Blob(blob) => ValueRef::Text(blob),
        Value::Object(object) => ValueRef::Object(object.as_ref().collection()),
    };
    braid_rdb::dump(value, Format { target: Target::Own, now_ms: i64::MIN }, true)
}

/// Reads a value with its type, and dumps it.
fn again<S: braid_rdb::Source>(mut decoder: Decoder<S>, limits: &Limits) -> Result<Vec<u8>, Error> {
    let kind = decoder.kind()?;
    read_value(&mut decoder, kind, limits, i64::MIN).map(|value| dump(&value))
}

fuzz_target!(|data: &[u8]| {
    braid_values::register();
    let Some((&choice, body)) = data.split_first() else { return };
    let version = [11, 12, 80, 6][usize::from(choice & 3)];
    let limits = limits(choice & 4 != 0);
    let read = again(Decoder::new(Bytes::new(body), version), &limits);
    // The same from a stream of unknown length.
    let streamed = again(Decoder::new(Stream::new(body, None, true), version), &limits);
    assert_eq!(read.is_ok(), streamed.is_ok());
    let Ok(first) = read else { return };
    let reopened = |payload: &[u8]| {
        again(braid_rdb::open(payload, true).expect("just sealed"), &limits).expect("just dumped")
    };
    // Sets in hash tables are unordered, so only the length is compared, after the first round.
    let second = reopened(&first);
    let third = reopened(&second);
    assert_eq!(second.len(), third.len());
});
