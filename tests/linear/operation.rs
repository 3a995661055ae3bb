// SPDX-License-Identifier: BSD-3-Clause
//! Operations on a handful of keys, alone, in transactions and in scripts.
//!
//! A server that runs scripts beside other commands has to find out which keys a script will touch:
//! from its text, from what it declares, from what it did before. So the same operations come in
//! scripts that can be seen through, in scripts that cannot, and in readers that declare all of
//! their keys, some, or none. Scripts of different number are different scripts to the server,
//! which may learn their ways.

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

/// One operation as it was seen from outside.
#[derive(Clone, Debug)]
pub struct Event {
    pub client: usize,
    /// Its place among the operations of this client, which run in this order.
    pub place: usize,
    pub operation: Operation,
    pub reply: Value,
    /// When it was sent and answered, in nanoseconds of one clock: it took effect in between.
    pub sent_ns: u64,
    pub answered_ns: u64,
}

/// How a script is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Each command stands in the text, its keys are taken from KEYS, and all of them are declared.
    Plain,
    /// The commands are arguments: nothing can be told from the text.
    Opaque,
    /// The same, called as one that only reads.
    Reader,
    /// The same, by its own declaration.
    FlaggedReader,
    /// The same, as a function of a library (`requests.rs`).
    FunctionReader,
}

/// A script and what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    pub form: Form,
    pub number: u32,
    pub operations: Vec<Operation>,
    /// The keys that it declares.
    pub declared: Vec<Key>,
}

impl Operation {
    /// The keys it reads or writes.
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

    /// Whether it changes nothing, whatever it finds.
    pub fn only_reads(&self) -> bool {
        matches!(self, Operation::Get(_) | Operation::MGet(_) | Operation::Exists(_))
    }
}

impl Script {
    /// Draws a script that carries these operations out; one that reads only if they do.
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
