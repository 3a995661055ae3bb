// SPDX-License-Identifier: BSD-3-Clause
//! The sequential specification: the effect of each operation on a handful of keys, and its
//! reply.

use std::collections::BTreeMap;

use braid_tests::Value;

use crate::operation::{Key, Operation, Script};

/// The values of all existing keys.
pub type State = BTreeMap<Key, Vec<u8>>;

fn bulk(value: Option<&Vec<u8>>) -> Value {
    value.map_or(Value::NullBulk, |value| Value::Bulk(value.clone()))
}

impl Operation {
    /// True if an operation with this reply changed nothing, whatever the state.
    pub fn changes_nothing(&self, reply: &Value) -> bool {
        match self {
            Operation::Get(_) | Operation::MGet(_) | Operation::Exists(_) => true,
            Operation::Del(_) | Operation::MSetNx(_) | Operation::Copy(..) => *reply == Value::Integer(0),
            Operation::Incr(_) | Operation::Rename(..) => reply.is_error(),
            Operation::Set(..) | Operation::Append(..) | Operation::GetSet(..) | Operation::MSet(_) => false,
            Operation::Transaction(operations) | Operation::Script(Script { operations, .. }) => {
                reply.elements().is_some_and(|replies| {
                    replies.len() == operations.len()
                        && operations
                            .iter()
                            .zip(replies)
                            .all(|(operation, reply)| operation.changes_nothing(reply))
                })
            }
        }
    }

    /// Applies the operation to the state, and returns its reply.
    pub fn apply(&self, state: &mut State) -> Value {
        match self {
            Operation::Get(key) => bulk(state.get(key)),
            Operation::Set(key, value) => {
                state.insert(*key, value.clone());
                Value::ok()
            }
            Operation::GetSet(key, value) => {
                let old = state.insert(*key, value.clone());
                bulk(old.as_ref())
            }
            Operation::Incr(key) => {
                let number = match state.get(key) {
                    None => Some(0),
                    // Only the canonical notation counts as a number: not "02".
                    Some(value) => std::str::from_utf8(value).ok().and_then(|text| {
                        text.parse::<i64>().ok().filter(|number| number.to_string() == text)
                    }),
                };
                match number.and_then(|number| number.checked_add(1)) {
                    Some(number) => {
                        state.insert(*key, number.to_string().into_bytes());
                        Value::Integer(number)
                    }
                    None => Value::Error(b"ERR value is not an integer or out of range".to_vec()),
                }
            }
            Operation::Append(key, more) => {
                let value = state.entry(*key).or_default();
                value.extend_from_slice(more);
                Value::Integer(value.len() as i64)
            }
            Operation::Del(keys) => {
                Value::Integer(keys.iter().filter(|key| state.remove(*key).is_some()).count() as i64)
            }
            Operation::MSet(pairs) => {
                state.extend(pairs.iter().cloned());
                Value::ok()
            }
            Operation::MSetNx(pairs) => {
                if pairs.iter().any(|(key, _)| state.contains_key(key)) {
                    return Value::Integer(0);
                }
                state.extend(pairs.iter().cloned());
                Value::Integer(1)
            }
            Operation::MGet(keys) => Value::Array(keys.iter().map(|key| bulk(state.get(key))).collect()),
            Operation::Exists(keys) => {
                Value::Integer(keys.iter().filter(|key| state.contains_key(*key)).count() as i64)
            }
            Operation::Rename(from, to) => match state.remove(from) {
                Some(value) => {
                    state.insert(*to, value);
                    Value::ok()
                }
                None => Value::Error(b"ERR no such key".to_vec()),
            },
            Operation::Copy(from, to) => match state.get(from).cloned() {
                Some(value) => {
                    state.insert(*to, value);
                    Value::Integer(1)
                }
                None => Value::Integer(0),
            },
            Operation::Transaction(operations) | Operation::Script(Script { operations, .. }) => {
                Value::Array(operations.iter().map(|operation| operation.apply(state)).collect())
            }
        }
    }
}
