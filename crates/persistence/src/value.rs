// SPDX-License-Identifier: BSD-3-Clause
//! Conversion between values of the keyspace and of the RDB format.

use braid_keyspace::object::decode;
use braid_keyspace::{Entry, Value, ValueRef};
use braid_rdb::{Decoder, Error, Limits, RdbType, Source, Text};

/// An entry's value, for writing.
pub fn to_rdb(entry: Entry<'_>) -> braid_rdb::ValueRef<'_> {
    value_to_rdb(entry.value())
}

/// A value, for writing.
pub(crate) fn value_to_rdb(value: ValueRef<'_>) -> braid_rdb::ValueRef<'_> {
    use braid_rdb::ValueRef as Rdb;
    match value {
        ValueRef::Bytes(bytes) => Rdb::Text(bytes),
        ValueRef::Blob(blob) => Rdb::Text(blob),
        ValueRef::Integer(number) => Rdb::Integer(number),
        ValueRef::Object(object) => Rdb::Object(object.collection()),
    }
}

/// Decodes a value of the given type. Members that expired before `now_ms` are left out. Short
/// strings are borrowed from the decoder.
///
/// # Errors
/// If the data ends early, is damaged or of a type that this server does not support;
/// [`Fault::Empty`](braid_rdb::Fault::Empty), after which decoding can continue, if no member is
/// left.
pub fn read_value<'d, S: Source>(
    decoder: &'d mut Decoder<S>,
    kind: RdbType,
    limits: &Limits,
    now_ms: i64,
) -> Result<Value<'d>, Error> {
    if kind == RdbType::STRING {
        return Ok(match decoder.text_or_blob()? {
            Ok(Text::Bytes(bytes)) => Value::string(bytes),
            Ok(Text::Integer(number)) => Value::Integer(number),
            Err(blob) => Value::Blob(blob),
        });
    }
    decoder.erased(|decoder| decode(decoder, kind, limits, now_ms)).map(Value::Object)
}
