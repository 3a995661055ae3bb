// SPDX-License-Identifier: BSD-3-Clause
//! Workloads: the mix of operations of each, drawn at random.

use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;

use crate::operation::{Key, Operation, Script};

/// A mix of operations.
pub struct Workload {
    pub name: &'static str,
    /// Number of connections.
    pub clients: usize,
    /// Number of batches that a connection sends in a round.
    pub batches: usize,
    /// Number of operations sent before their replies are read.
    pub pipeline: usize,
    /// Number of keys, from `k0`.
    keys: Key,
    /// Maximum number of keys of MSET, MGET and DEL.
    span: usize,
    /// Weights: on one key, on many keys, transactions.
    weights: [u32; 3],
    /// Percentage of operations that are scripts.
    scripts: u32,
    /// Maximum length of a value in bytes: longer ones take longer to write, so that a torn one
    /// is more likely to be seen.
    value_len_max: usize,
}

pub const SINGLE_KEYS: Workload = Workload {
    name: "single keys",
    clients: 8,
    batches: 6,
    pipeline: 1,
    keys: 3,
    span: 1,
    weights: [1, 0, 0],
    scripts: 0,
    value_len_max: 8,
};

pub const PIPELINES: Workload = Workload {
    name: "single keys in pipelines",
    batches: 2,
    pipeline: 5,
    keys: 4,
    value_len_max: 200,
    ..SINGLE_KEYS
};

pub const MANY_KEYS: Workload = Workload {
    name: "many keys",
    clients: 8,
    batches: 2,
    pipeline: 2,
    keys: 8,
    span: 8,
    weights: [1, 5, 0],
    scripts: 0,
    value_len_max: 40,
};

pub const TRANSACTIONS: Workload =
    Workload { name: "transactions", keys: 5, span: 4, weights: [1, 1, 4], pipeline: 2, ..MANY_KEYS };

pub const EVERYTHING: Workload = Workload {
    name: "everything together",
    clients: 10,
    batches: 4,
    pipeline: 1,
    keys: 4,
    span: 3,
    weights: [4, 3, 2],
    scripts: 0,
    value_len_max: 12,
};

/// Scripts of all forms, mixed with commands and transactions on the same keys, and within
/// transactions.
pub const SCRIPTS: Workload =
    Workload { name: "scripts", clients: 8, batches: 3, span: 3, scripts: 60, ..EVERYTHING };

/// Only scripts.
pub const SCRIPTS_ALONE: Workload = Workload { name: "scripts alone", scripts: 100, ..SCRIPTS };

/// A round: the batches of each connection, and the operations of each batch.
pub type Round = Vec<Vec<Vec<Operation>>>;

impl Workload {
    /// Draws a round.
    pub fn draw(&self, random: &mut Rng) -> Round {
        let batch = |random: &mut Rng| (0..self.pipeline).map(|_| self.operation(random)).collect();
        let client = |random: &mut Rng| (0..self.batches).map(|_| batch(random)).collect();
        (0..self.clients).map(|_| client(random)).collect()
    }

    /// Draws one operation.
    pub fn operation(&self, random: &mut Rng) -> Operation {
        if self.draws_script(random) {
            return self.script(random);
        }
        let [one, many, transactions] = self.weights;
        let ticket = random.u32(0..one + many + transactions);
        if ticket < one {
            self.on_one_key(random)
        } else if ticket < one + many {
            self.on_many_keys(random)
        } else {
            let inner = |random: &mut Rng| {
                if self.draws_script(random) {
                    return self.script(random);
                }
                if many > 0 && random.bool() { self.on_many_keys(random) } else { self.on_one_key(random) }
            };
            Operation::Transaction((0..random.usize(1..4)).map(|_| inner(random)).collect())
        }
    }

    fn draws_script(&self, random: &mut Rng) -> bool {
        self.scripts > 0 && random.u32(0..100) < self.scripts
    }

    /// A few operations in a script, half of the time only reads.
    fn script(&self, random: &mut Rng) -> Operation {
        let reads = random.bool();
        let count = random.usize(1..5);
        let mut operations = Vec::new();
        while operations.len() < count {
            let drawn = if random.bool() { self.on_many_keys(random) } else { self.on_one_key(random) };
            if drawn.only_reads() || !reads {
                operations.push(drawn);
            }
        }
        Operation::Script(Script::draw(operations, random))
    }

    fn on_one_key(&self, random: &mut Rng) -> Operation {
        let key = random.u8(0..self.keys);
        match random.u8(0..12) {
            0..=2 => Operation::Get(key),
            3..=4 => Operation::Set(key, self.value(random)),
            5..=7 => Operation::Incr(key),
            8 => Operation::Append(key, vec![b'0' + random.u8(0..10)]),
            9 => Operation::Del(vec![key]),
            _ => Operation::GetSet(key, self.value(random)),
        }
    }

    fn on_many_keys(&self, random: &mut Rng) -> Operation {
        match random.u8(0..12) {
            0..=3 => {
                let value = self.value(random);
                Operation::MSet(self.some_keys(random).into_iter().map(|key| (key, value.clone())).collect())
            }
            4..=7 => Operation::MGet(self.some_keys(random)),
            8 => {
                let value = self.value(random);
                Operation::MSetNx(
                    self.some_keys(random).into_iter().map(|key| (key, value.clone())).collect(),
                )
            }
            9 => {
                if random.bool() {
                    Operation::Del(self.some_keys(random))
                } else {
                    Operation::Exists(self.some_keys(random))
                }
            }
            10 => Operation::Rename(random.u8(0..self.keys), random.u8(0..self.keys)),
            _ => {
                let from = random.u8(0..self.keys);
                // COPY of a key to itself is an error of its own.
                let to = (from + random.u8(1..self.keys)) % self.keys;
                Operation::Copy(from, to)
            }
        }
    }

    /// Distinct keys in random order: locks must not depend on the order in which keys are named.
    fn some_keys(&self, random: &mut Rng) -> Vec<Key> {
        let mut keys: Vec<Key> = (0..self.keys).collect();
        random.shuffle(&mut keys);
        keys.truncate(random.usize(1..=self.span.min(keys.len())));
        keys
    }

    /// Usually a unique number, so that a read identifies the write it saw.
    fn value(&self, random: &mut Rng) -> Vec<u8> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = (NEXT.fetch_add(1, Ordering::Relaxed) % 100_000_000).to_string();
        if self.value_len_max <= 12 || random.bool() {
            return number.into_bytes();
        }
        // The same few bytes repeated: a torn value shows up as one that no client wrote.
        let len = random.usize(number.len()..self.value_len_max);
        number.bytes().chain([b'.']).cycle().take(len.max(number.len())).collect()
    }
}
