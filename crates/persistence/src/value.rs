// SPDX-License-Identifier: BSD-3-Clause
//! Values of the keyspace as values of the format, and back.

use braid_keyspace::object::{Object, ObjectRef};
use braid_keyspace::{Entry, Value, ValueRef};

/// What an entry holds, to be written.
pub fn to_rdb(entry: Entry<'_>) -> braid_rdb::ValueRef<'_> {
    use braid_rdb::ValueRef as Rdb;
    match entry.value() {
        ValueRef::Bytes(bytes) => Rdb::Text(bytes),
        ValueRef::Blob(blob) => Rdb::Text(blob),
        ValueRef::Integer(number) => Rdb::Integer(number),
        ValueRef::Object(ObjectRef::List(list)) => Rdb::List(list),
        ValueRef::Object(ObjectRef::Set(set)) => Rdb::Set(set),
        ValueRef::Object(ObjectRef::SortedSet(set)) => Rdb::SortedSet(set),
        ValueRef::Object(ObjectRef::Hash(hash)) => Rdb::Hash(hash),
        ValueRef::Object(ObjectRef::Stream(stream)) => Rdb::Stream(stream),
    }
}

/// A value that was read, to be put at a key.
pub fn from_rdb(value: braid_rdb::Value<'_>) -> Value<'_> {
    use braid_rdb::Value as Rdb;
    match value {
        Rdb::Text(bytes) => Value::string(bytes),
        Rdb::Integer(number) => Value::Integer(number),
        Rdb::Blob(blob) => Value::Blob(blob),
        Rdb::List(list) => Value::Object(Object::List(Box::new(list))),
        Rdb::Set(set) => Value::Object(Object::Set(Box::new(set))),
        Rdb::SortedSet(set) => Value::Object(Object::SortedSet(Box::new(set))),
        Rdb::Hash(hash) => Value::Object(Object::Hash(Box::new(hash))),
        Rdb::Stream(stream) => Value::Object(Object::Stream(Box::new(stream))),
    }
}
