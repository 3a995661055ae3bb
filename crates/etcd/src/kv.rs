// SPDX-License-Identifier: BSD-3-Clause
//! Keys, transactions and their replies.

use serde_json::{Value, json};

use crate::json::{self, Wrong};

/// The number of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseId(pub i64);

/// A key as stored in etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    /// The revision at which the key was created.
    pub create_revision: i64,
    /// The revision of its last change.
    pub mod_revision: i64,
    /// The number of changes since its creation; 0 after its deletion.
    pub version: i64,
    pub lease: Option<LeaseId>,
}

impl KeyValue {
    pub(crate) fn decode(value: &Value) -> Result<KeyValue, Wrong> {
        let lease = json::integer_of(value, "lease")?;
        Ok(KeyValue {
            key: json::bytes_of(value, "key")?,
            value: json::bytes_of(value, "value")?,
            create_revision: json::integer_of(value, "create_revision")?,
            mod_revision: json::integer_of(value, "mod_revision")?,
            version: json::integer_of(value, "version")?,
            lease: (lease != 0).then_some(LeaseId(lease)),
        })
    }

    pub(crate) fn decode_all(reply: &Value) -> Result<Vec<KeyValue>, Wrong> {
        // Ranges are never limited, so "more" would mean that keys are missing.
        if json::truth_of(reply, "more")? {
            return Err("the reply is truncated".into());
        }
        json::list_of(reply, "kvs")?.iter().map(KeyValue::decode).collect()
    }
}

/// A precondition of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The revision of the key's last change; 0: the key does not exist.
    ModRevision { key: Vec<u8>, equals: i64 },
    /// The key's version; 0: the key does not exist.
    Version { key: Vec<u8>, equals: i64 },
    /// The key exists and has this value.
    Value { key: Vec<u8>, equals: Vec<u8> },
}

impl Compare {
    fn encode(&self) -> Value {
        let (target, name, key, operand) = match self {
            Compare::ModRevision { key, equals } => ("MOD", "mod_revision", key, json::integer(*equals)),
            Compare::Version { key, equals } => ("VERSION", "version", key, json::integer(*equals)),
            Compare::Value { key, equals } => ("VALUE", "value", key, json::encode(equals)),
        };
        json!({"key": json::encode(key), "target": target, "result": "EQUAL", name: operand})
    }
}

/// An operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Get { key: Vec<u8> },
    GetPrefix { prefix: Vec<u8> },
    Put { key: Vec<u8>, value: Vec<u8>, lease: Option<LeaseId> },
    Delete { key: Vec<u8> },
}

impl Operation {
    fn encode(&self) -> Value {
        match self {
            Operation::Get { key } => json!({"request_range": {"key": json::encode(key)}}),
            Operation::GetPrefix { prefix } => json!({"request_range": range(prefix)}),
            Operation::Put { key, value, lease } => json!({"request_put": put(key, value, *lease)}),
            Operation::Delete { key } => json!({"request_delete_range": {"key": json::encode(key)}}),
        }
    }

    /// The name of the reply's only field.
    fn reply_name(&self) -> &'static str {
        match self {
            Operation::Get { .. } | Operation::GetPrefix { .. } => "response_range",
            Operation::Put { .. } => "response_put",
            Operation::Delete { .. } => "response_delete_range",
        }
    }
}

/// Executed atomically: `then` if every comparison holds, else `otherwise`. etcd refuses a
/// transaction that changes a key twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    pub compares: Vec<Compare>,
    pub then: Vec<Operation>,
    pub otherwise: Vec<Operation>,
}

impl Transaction {
    pub(crate) fn encode(&self) -> Value {
        let all = |operations: &[Operation]| operations.iter().map(Operation::encode).collect::<Vec<_>>();
        json!({
            "compare": self.compares.iter().map(Compare::encode).collect::<Vec<_>>(),
            "success": all(&self.then),
            "failure": all(&self.otherwise),
        })
    }

    pub(crate) fn decode(&self, reply: &Value) -> Result<Outcome, Wrong> {
        let succeeded = json::truth_of(reply, "succeeded")?;
        let operations = if succeeded { &self.then } else { &self.otherwise };
        let replies = json::list_of(reply, "responses")?;
        if replies.len() != operations.len() {
            return Err(format!("{} replies to {} operations", replies.len(), operations.len()));
        }
        let mut read = Vec::new();
        for (operation, reply) in operations.iter().zip(replies) {
            let reply = json::required(reply, operation.reply_name())?;
            if matches!(operation, Operation::Get { .. } | Operation::GetPrefix { .. }) {
                read.push(KeyValue::decode_all(reply)?);
            }
        }
        Ok(Outcome { succeeded, revision: json::revision_of(reply)?, read })
    }
}

/// The result of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// True if all comparisons held, so that `then` was executed.
    pub succeeded: bool,
    /// The store's revision after the transaction: that of its own changes, if it made any.
    pub revision: i64,
    /// The result of each get, in the order of the gets on the executed side.
    pub read: Vec<Vec<KeyValue>>,
}

/// The range of all keys that begin with `prefix`.
pub(crate) fn range(prefix: &[u8]) -> Value {
    if prefix.is_empty() {
        // etcd's notation for "all keys".
        return json!({"key": json::encode(&[0]), "range_end": json::encode(&[0])});
    }
    json!({"key": json::encode(prefix), "range_end": json::encode(&range_end(prefix))})
}

/// The first key after those with the prefix; a single zero byte stands for the end of all keys.
fn range_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 255 {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

pub(crate) fn put(key: &[u8], value: &[u8], lease: Option<LeaseId>) -> Value {
    let mut request = json!({"key": json::encode(key), "value": json::encode(value)});
    if let Some(LeaseId(id)) = lease {
        request["lease"] = json::integer(id);
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_one() {
        assert_eq!(range_end(b"/a/"), b"/a0");
        assert_eq!(range_end(b"a\xff\xff"), b"b");
        assert_eq!(range_end(b"\xff"), [0]);
    }
}
