// SPDX-License-Identifier: BSD-3-Clause
//! JSON as etcd's gateway uses it: bytes are base64, 64-bit integers are strings, and fields that
//! are zero, false or empty are omitted. A value of another type is an error, never a default.

use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The description of an error in a reply.
pub type Wrong = String;

pub fn encode(bytes: &[u8]) -> Value {
    Value::String(STANDARD.encode(bytes))
}

/// 64-bit integers are strings in requests as well: a JSON number is not exact beyond 2^53.
pub fn integer(number: i64) -> Value {
    Value::String(number.to_string())
}

/// A field of an object, if present and not null.
pub fn field<'a>(value: &'a Value, name: &str) -> Result<Option<&'a Value>, Wrong> {
    let object = value.as_object().ok_or_else(|| format!("expected an object with '{name}'"))?;
    Ok(object.get(name).filter(|value| !value.is_null()))
}

pub fn bytes_of(value: &Value, name: &str) -> Result<Vec<u8>, Wrong> {
    match field(value, name)? {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => STANDARD.decode(text).map_err(|_| format!("'{name}' is not base64")),
        Some(_) => Err(format!("'{name}' is not a string")),
    }
}

pub fn integer_of(value: &Value, name: &str) -> Result<i64, Wrong> {
    number_of(value, name, Value::as_i64)
}

/// Member IDs are unsigned and use all 64 bits.
pub fn unsigned_of(value: &Value, name: &str) -> Result<u64, Wrong> {
    number_of(value, name, Value::as_u64)
}

fn number_of<T: Default + FromStr>(
    value: &Value,
    name: &str,
    exact: impl Fn(&Value) -> Option<T>,
) -> Result<T, Wrong> {
    let number = match field(value, name)? {
        None => return Ok(T::default()),
        Some(Value::String(text)) => text.parse().ok(),
        Some(value) => exact(value),
    };
    number.ok_or_else(|| format!("'{name}' is not an integer"))
}

pub fn text_of(value: &Value, name: &str) -> Result<String, Wrong> {
    match field(value, name)? {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(format!("'{name}' is not a string")),
    }
}

pub fn truth_of(value: &Value, name: &str) -> Result<bool, Wrong> {
    match field(value, name)? {
        None => Ok(false),
        Some(Value::Bool(truth)) => Ok(*truth),
        Some(_) => Err(format!("'{name}' is not a boolean")),
    }
}

pub fn list_of<'a>(value: &'a Value, name: &str) -> Result<&'a [Value], Wrong> {
    match field(value, name)? {
        None => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(format!("'{name}' is not a list")),
    }
}

/// A field that must be present in such a reply.
pub fn required<'a>(value: &'a Value, name: &str) -> Result<&'a Value, Wrong> {
    field(value, name)?.ok_or_else(|| format!("'{name}' is missing"))
}

/// The store's revision when etcd answered. A reply without a header is not from etcd.
pub fn revision_of(reply: &Value) -> Result<i64, Wrong> {
    integer_of(required(reply, "header")?, "revision")
}

/// A non-empty text.
pub fn required_text(value: &Value, name: &str) -> Result<String, Wrong> {
    Some(text_of(value, name)?).filter(|text| !text.is_empty()).ok_or_else(|| format!("'{name}' is missing"))
}
