// SPDX-License-Identifier: BSD-3-Clause
//! Operations on a handful of keys, alone, in transactions and in scripts.
//!
//! A server that runs scripts in parallel with other commands must determine which keys a script
//! will touch: from its text, from its declaration, from its earlier runs. So the same operations
//! are sent in analyzable scripts, in opaque scripts, and in readers that declare all of their
//! keys, some, or none. Scripts with different numbers are different scripts to the server, which
//! may learn their behaviour.

use braid_tests::Value;
use fastrand::Rng;

/// A key: a small number, written `k0`, `k1` ...
pub type Key = u8;

/// The name of a key on the server.
pub fn key_name(key: Key) -> String {
    format!("k{key}")
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Get(Key),
    Set(Key, Vec<u8>),
    Incr(Key),
    Append(Key, Vec<u8>),
    Del(Vec<Key>),
    GetSet(Key, Vec<u8>),
    MSet(Vec<(Key, Vec<u8>)>),
    MSetNx(Vec<(Key, Vec<u8>)>),
    MGet(Vec<Key>),
    Exists(Vec<Key>),
    Rename(Key, Key),
    /// With REPLACE.
    Copy(Key, Key),
    Transaction(Vec<Operation>),
    /// Several operations on single keys or many, in a script; the reply is the list of theirs.
    Script(Script),
}

/// One operation as observed from outside.
#[derive(Clone, Debug)]
pub struct Event {
    pub client: usize,
    /// Its index among the operations of this client, which run in this order.
    pub place: usize,
    pub operation: Operation,
    pub reply: Value,
    /// When it was sent and answered, in nanoseconds of one clock: it took effect in between.
    pub sent_ns: u64,
    pub answered_ns: u64,
}

/// The form of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Each command is in the text, its keys are taken from KEYS, and all of them are declared.
    Plain,
    /// The commands are arguments, so the text reveals nothing.
    Opaque,
    /// Opaque, but called as read-only.
    Reader,
    /// Opaque, but declared read-only by a flag in its text.
    FlaggedReader,
    /// Opaque, but a read-only function of a library (`requests.rs`).
    FunctionReader,
}

/// A script and its operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    pub form: Form,
    pub number: u32,
    pub operations: Vec<Operation>,
    /// The declared keys.
    pub declared: Vec<Key>,
}

impl Operation {
    /// The keys that the operation reads or writes.
    pub fn keys(&self) -> Vec<Key> {
        match self {
            Operation::Get(key) | Operation::Set(key, _) | Operation::Incr(key) => vec![*key],
            Operation::Append(key, _) | Operation::GetSet(key, _) => vec![*key],
            Operation::Del(keys) | Operation::MGet(keys) | Operation::Exists(keys) => keys.clone(),
            Operation::MSet(pairs) | Operation::MSetNx(pairs) => pairs.iter().map(|(key, _)| *key).collect(),
            Operation::Rename(from, to) | Operation::Copy(from, to) => vec![*from, *to],
            Operation::Transaction(operations) => operations.iter().flat_map(Operation::keys).collect(),
            Operation::Script(script) => script.operations.iter().flat_map(Operation::keys).collect(),
        }
    }

    /// True if the operation never changes anything.
    pub fn only_reads(&self) -> bool {
        matches!(self, Operation::Get(_) | Operation::MGet(_) | Operation::Exists(_))
    }
}

impl Script {
    /// Draws a script that runs these operations; its form is read-only only if they all are.
    pub fn draw(operations: Vec<Operation>, random: &mut Rng) -> Script {
        let reads = operations.iter().all(Operation::only_reads);
        let form = match random.u8(0..6) {
            0..=1 => Form::Plain,
            2 if reads => Form::FlaggedReader,
            3 if reads => Form::FunctionReader,
            4..=5 if reads => Form::Reader,
            _ => Form::Opaque,
        };
        let mut declared: Vec<Key> = operations.iter().flat_map(Operation::keys).collect();
        declared.sort_unstable();
        declared.dedup();
        random.shuffle(&mut declared);
        if form != Form::Plain && random.bool() {
            declared.truncate(random.usize(0..=declared.len()));
        }
        Script {
            form,
            number: if random.bool() { random.u32(0..50) } else { random.u32(0..1_000_000) },
            operations,
            declared,
        }
    }
}
