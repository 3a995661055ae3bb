// SPDX-License-Identifier: BSD-3-Clause
//! Requests and replies in the gateway's JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::Error;

/// A key and what etcd knows about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyValue {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    /// The revision of its last change.
    pub mod_revision: u64,
    /// The lease that it lives as long as; 0: none.
    pub lease: i64,
}

/// Keys as they were at a revision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Range {
    pub revision: u64,
    pub keys: Vec<KeyValue>,
}

/// A condition of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Compare {
    /// There is no such key.
    Absent(String),
    /// The key was last changed by this revision.
    ModRevision(String, u64),
}

/// A change that a transaction makes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Lease 0: none.
    Put {
        key: String,
        value: String,
        lease: i64,
    },
    Delete {
        key: String,
    },
}

/// What came of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Its conditions held, and its changes were made.
    pub succeeded: bool,
    /// etcd's revision behind it: that of its changes, if it made some.
    pub revision: u64,
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

fn decode(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::Null => Some(Vec::new()),
        value => STANDARD.decode(value.as_str()?).ok(),
    }
}

/// A 64-bit integer: a string, or left out if it is 0.
pub(crate) fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Null => Some(0),
        Value::String(text) => text.parse().ok(),
        value => value.as_i64(),
    }
}

fn unsigned(value: &Value) -> Option<u64> {
    u64::try_from(integer(value)?).ok()
}

fn not_understood(what: &str, reply: &Value) -> Error {
    let text: String = reply.to_string().chars().take(200).collect();
    Error::Invalid(format!("{what} is not understood: {text}"))
}

/// The revision in a reply's header. Everything that etcd answers has one.
pub(crate) fn revision(reply: &Value) -> Result<u64, Error> {
    let revision = reply["header"].as_object().and_then(|_| unsigned(&reply["header"]["revision"]));
    revision.ok_or_else(|| not_understood("a header", reply))
}

/// The end of the range of keys that begin with `prefix`.
pub(crate) fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

pub(crate) fn range_request(key: &str, is_prefix: bool) -> Value {
    let mut request = json!({ "key": encode(key.as_bytes()) });
    if is_prefix {
        request["range_end"] = json!(encode(&prefix_end(key.as_bytes())));
    }
    request
}

pub(crate) fn range(reply: &Value) -> Result<Range, Error> {
    let read = || {
        let none = Vec::new();
        let listed = match &reply["kvs"] {
            Value::Null => &none,
            value => value.as_array()?,
        };
        let key = |value: &Value| {
            Some(KeyValue {
                key: decode(&value["key"]).filter(|key| !key.is_empty())?,
                value: decode(&value["value"])?,
                mod_revision: unsigned(&value["mod_revision"])?,
                lease: integer(&value["lease"])?,
            })
        };
        listed.iter().map(key).collect::<Option<Vec<_>>>()
    };
    let revision = revision(reply)?;
    let keys = read().ok_or_else(|| not_understood("a range of keys", reply))?;
    Ok(Range { revision, keys })
}

fn put(key: &str, value: &str, lease: i64) -> Value {
    json!({ "key": encode(key.as_bytes()), "value": encode(value.as_bytes()), "lease": lease.to_string() })
}

pub(crate) fn put_request(key: &str, value: &str, lease: i64) -> Value {
    put(key, value, lease)
}

pub(crate) fn transaction_request(compares: &[Compare], operations: &[Operation]) -> Value {
    let compare = |compare: &Compare| match compare {
        Compare::Absent(key) => {
            json!({ "key": encode(key.as_bytes()), "target": "VERSION", "result": "EQUAL", "version": "0" })
        }
        Compare::ModRevision(key, revision) => json!({
            "key": encode(key.as_bytes()), "target": "MOD", "result": "EQUAL",
            "mod_revision": revision.to_string(),
        }),
    };
    let operation = |operation: &Operation| match operation {
        Operation::Put { key, value, lease } => json!({ "request_put": put(key, value, *lease) }),
        Operation::Delete { key } => {
            json!({ "request_delete_range": { "key": encode(key.as_bytes()) } })
        }
    };
    json!({
        "compare": compares.iter().map(compare).collect::<Vec<_>>(),
        "success": operations.iter().map(operation).collect::<Vec<_>>(),
    })
}

pub(crate) fn transaction(reply: &Value) -> Result<Outcome, Error> {
    let revision = revision(reply)?;
    let succeeded = match &reply["succeeded"] {
        Value::Null => Some(false),
        value => value.as_bool(),
    };
    let succeeded = succeeded.ok_or_else(|| not_understood("the outcome of a transaction", reply))?;
    Ok(Outcome { succeeded, revision })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn zeroes_are_left_out() {
        let reply = json!({ "header": { "revision": "7" } });
        assert_eq!(range(&reply), Ok(Range { revision: 7, keys: Vec::new() }));
        assert_eq!(transaction(&reply), Ok(Outcome { succeeded: false, revision: 7 }));
        let reply = json!({ "header": { "revision": "7" }, "kvs": [{ "key": "YQ==", "mod_revision": "3" }] });
        let expected = KeyValue { key: b"a".into(), value: Vec::new(), mod_revision: 3, lease: 0 };
        assert_eq!(range(&reply).map(|range| range.keys), Ok(vec![expected]));
    }

    #[test]
    fn a_prefix_ends_before_the_next_key() {
        assert_eq!(prefix_end(b"/a/"), b"/a0");
        assert_eq!(prefix_end(b"a\xff\xff"), b"b");
        assert_eq!(prefix_end(b"\xff"), b"\0");
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for reply in [json!(null), json!({}), json!({ "header": {"revision": "-1"} }), json!({ "header": 3 })]
        {
            assert!(range(&reply).is_err() && transaction(&reply).is_err(), "{reply}");
        }
        for kvs in [
            json!(3),
            json!([3]),
            json!([{}]),
            json!([{ "key": "?" }]),
            json!([{ "key": "YQ==", "lease": "x" }]),
        ] {
            assert!(range(&json!({ "header": { "revision": "1" }, "kvs": kvs })).is_err(), "{kvs}");
        }
    }

    proptest! {
        #[test]
        fn no_reply_panics(text in r#"\{("(header|kvs|succeeded|revision)":("[0-9a-zA-Z=]*"|\[\]|\{\}|[0-9]+),?)*\}"#) {
            if let Ok(reply) = serde_json::from_str(&text) {
                let _ = (range(&reply), transaction(&reply));
            }
        }
    }
}
