// SPDX-License-Identifier: BSD-3-Clause
//! Values of documents as replies in the protocol's own types.

use braid_resp::reply::ReplyBuffer;
use braid_values::json::doc::Doc;
use braid_values::json::number::Num;
use braid_values::json::packed::{self, Slot, Value};

/// The type of a value, as JSON.TYPE and messages name it.
pub(super) fn type_name(bytes: Doc<'_>, slot: Slot) -> &'static str {
    match packed::value(bytes, slot) {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Num(Num::Float(_)) => "number",
        Value::Num(_) => "integer",
        Value::Str(_) => "string",
        Value::Object(_) => "object",
        Value::Array(_) | Value::Typed(_) => "array",
    }
}

/// Replies with a number: an integer if it is one that fits, else a double.
pub(super) fn number(reply: &mut ReplyBuffer, value: Num) {
    match value {
        Num::Int(value) => reply.integer(value),
        other => reply.double(other.as_f64()),
    }
}

/// JSON.RESP's form: an object and an array begin with their bracket.
pub(super) fn resp(reply: &mut ReplyBuffer, bytes: Doc<'_>, slot: Slot) {
    match packed::value(bytes, slot) {
        Value::Null => reply.null(),
        Value::Bool(value) => reply.simple(if value { "true" } else { "false" }),
        Value::Num(value) => number(reply, value),
        Value::Str(text) => reply.bulk(text),
        Value::Object(object) => {
            reply.array(1 + 2 * object.count);
            reply.simple("{");
            for (name, at) in packed::members(bytes, object) {
                reply.bulk(name);
                resp(reply, bytes, Slot::whole(at));
            }
        }
        Value::Array(_) | Value::Typed(_) => {
            reply.array(1 + packed::array_len(bytes, slot).unwrap_or(0));
            reply.simple("[");
            packed::items(bytes, slot).for_each(|item| resp(reply, bytes, item));
        }
    }
}

/// FORMAT EXPAND's form, for RESP3: maps and arrays.
pub(super) fn expand(reply: &mut ReplyBuffer, bytes: Doc<'_>, slot: Slot) {
    match packed::value(bytes, slot) {
        Value::Null => reply.null(),
        Value::Bool(value) => reply.boolean(value),
        Value::Num(value) => number(reply, value),
        Value::Str(text) => reply.bulk(text),
        Value::Object(object) => {
            reply.map(object.count);
            for (name, at) in packed::members(bytes, object) {
                reply.bulk(name);
                expand(reply, bytes, Slot::whole(at));
            }
        }
        Value::Array(_) | Value::Typed(_) => {
            reply.array(packed::array_len(bytes, slot).unwrap_or(0));
            packed::items(bytes, slot).for_each(|item| expand(reply, bytes, item));
        }
    }
}
