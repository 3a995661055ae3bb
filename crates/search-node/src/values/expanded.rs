// SPDX-License-Identifier: BSD-3-Clause
//! JSON as values of RESP3 (FORMAT EXPAND).

use braid_resp::reply::ReplyBuffer;
use braid_values::json::doc::Doc;
use braid_values::json::number::Num;
use braid_values::json::packed::{self, Slot, Value};
use braid_values::json::parse::parse;

/// Replies with a JSON text as values; `is_single`: the only element of an array stands for it.
/// What is no JSON is a string.
pub fn reply_json(text: &[u8], is_single: bool, reply: &mut ReplyBuffer) {
    let parsed = std::str::from_utf8(text).ok().and_then(|text| parse(text).ok());
    let Some(bytes) = parsed else { return reply.bulk(text) };
    let (doc, root) = (Doc::flat(&bytes), Slot::whole(0));
    let only =
        packed::items(doc, root).next().filter(|_| is_single && packed::array_len(doc, root) == Some(1));
    reply_value(doc, only.unwrap_or(root), reply);
}

/// Documents are as deep as the parser of JSON lets them be.
fn reply_value(doc: Doc<'_>, slot: Slot, reply: &mut ReplyBuffer) {
    match packed::value(doc, slot) {
        Value::Null => reply.null(),
        // As RediSearch, whose values have no booleans.
        Value::Bool(value) => reply.integer(i64::from(value)),
        Value::Num(Num::Int(number)) => reply.integer(number),
        Value::Num(number) => reply.double(number.as_f64()),
        Value::Str(text) => reply.bulk(text),
        Value::Object(object) => {
            reply.map(object.count);
            for (name, at) in packed::members(doc, object) {
                reply.bulk(name);
                reply_value(doc, Slot::whole(at), reply);
            }
        }
        Value::Array(_) | Value::Typed(_) => {
            reply.array(packed::array_len(doc, slot).unwrap_or_default());
            packed::items(doc, slot).for_each(|item| reply_value(doc, item, reply));
        }
    }
}
