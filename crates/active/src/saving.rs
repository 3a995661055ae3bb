// SPDX-License-Identifier: BSD-3-Clause
//! Serializes or digests all keys in pieces, while they change between the pieces.
//!
//! The output is exactly the state at the start: before the first change to a key, its bucket is
//! written with everything in it. Therefore a log that follows the state is exactly the effects
//! applied since the start. A change costs the test of a bit, or writing a bucket. A digest is
//! computed the same way.
//!
//! A change of everything at once (FLUSH, a full copy) aborts the save: it must start again.

use std::collections::BTreeMap;

use crate::database::Database;
use crate::key::Key;
use crate::rules::Rules;
use crate::stored::{Stored, store_len};
use crate::view::digest;

/// The buckets of a table that have been written, out of those that existed at the start.
#[derive(Clone, Debug)]
struct Written {
    buckets: usize,
    /// One bit per bucket.
    bits: Vec<u64>,
    /// All buckets before this one have been written.
    next: usize,
}

impl Written {
    fn new(buckets: usize) -> Written {
        Written { buckets, bits: vec![0; buckets.div_ceil(64)], next: 0 }
    }

    /// Marks a bucket as written. Returns false if it already was.
    fn take(&mut self, bucket: usize) -> bool {
        let (word, bit) = (&mut self.bits[bucket / 64], 1 << (bucket % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Marks and returns the next unwritten bucket.
    fn take_next(&mut self) -> Option<usize> {
        while self.next < self.buckets {
            let bucket = self.next;
            self.next += 1;
            if self.take(bucket) {
                return Some(bucket);
            }
        }
        None
    }
}

/// Progress in one database.
#[derive(Clone, Debug)]
struct Progress {
    plain: Written,
    others: Written,
    evicted: Written,
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub(crate) struct Saving {
    /// Identifies this save; each has another number.
    pub number: u64,
    databases: BTreeMap<u32, Progress>,
    out: Out,
}

/// The output made of the keys.
#[derive(Clone, Debug)]
pub(crate) enum Out {
    /// Serialized keys not yet taken, and the bytes that follow the last key.
    State { bytes: Vec<u8>, end: Vec<u8> },
    /// The digest so far, and the number of bytes digested for the next piece.
    Digest { sum: u64, bytes: usize, rules: Rules },
}

impl Out {
    /// The number of bytes in the next piece so far.
    fn len(&self) -> usize {
        match self {
            Out::State { bytes, .. } => bytes.len(),
            Out::Digest { bytes, .. } => *bytes,
        }
    }

    fn key(&mut self, number: u32, name: &[u8], key: &Key) {
        match self {
            Out::State { bytes, .. } => {
                bytes.push(KEY);
                store_name(number, name, bytes);
                key.store(bytes);
            }
            Out::Digest { sum, bytes, rules } => {
                let (digest, len) = digest(number, name, key, rules);
                *sum = sum.wrapping_add(digest);
                *bytes += len;
            }
        }
    }

    fn plain_bucket(&mut self, number: u32, keys: &Database, bucket: usize, then: usize) {
        for (name, plain) in keys.plain.of_bucket(bucket, then) {
            match self {
                Out::State { bytes, .. } => {
                    bytes.push(KEY);
                    store_name(number, name, bytes);
                    Key::store_plain(plain, bytes);
                }
                Out::Digest { .. } => self.key(number, name, &Key::of_plain(plain)),
            }
        }
    }

    fn bucket(&mut self, number: u32, keys: &Database, bucket: usize, then: usize) {
        for (name, key) in keys.others.of_bucket(bucket, then) {
            self.key(number, name, key);
        }
    }

    fn marks(&mut self, number: u32, keys: &Database, bucket: usize, then: usize) {
        let Out::State { bytes, .. } = self else { return };
        for (name, mark) in keys.evicted.of_bucket(bucket, then) {
            bytes.push(MARK);
            store_name(number, name, bytes);
            mark.store(bytes);
        }
    }

    /// Takes the next piece.
    fn take(&mut self, is_last: bool) -> Vec<u8> {
        match self {
            Out::State { bytes, end } => {
                if is_last {
                    bytes.append(end);
                }
                std::mem::take(bytes)
            }
            Out::Digest { sum, bytes, .. } => {
                *bytes = 0;
                if is_last { sum.to_le_bytes().to_vec() } else { Vec::new() }
            }
        }
    }
}

/// Record types: a key, or the mark of an evicted key.
const KEY: u8 = 0;
pub(crate) const MARK: u8 = 1;

fn store_name(database: u32, name: &[u8], out: &mut Vec<u8>) {
    database.store(out);
    store_len(name.len(), out);
    out.extend_from_slice(name);
}

impl Saving {
    /// Starts a save. For a state, `out` has the bytes that precede the keys.
    pub fn new(number: u64, all: &BTreeMap<u32, Database>, mut out: Out) -> Saving {
        if let Out::State { bytes, .. } = &mut out {
            store_len(all.values().map(|keys| keys.len() + keys.evicted.len()).sum(), bytes);
        }
        let begin = |keys: &Database| Progress {
            plain: Written::new(keys.plain.buckets()),
            others: Written::new(keys.others.buckets()),
            evicted: Written::new(keys.evicted.buckets()),
        };
        let databases = all.iter().map(|(number, keys)| (*number, begin(keys))).collect();
        Saving { number, databases, out }
    }

    /// Must be called before a key changes: writes its buckets.
    pub fn before(&mut self, number: u32, keys: &Database, name: &[u8]) {
        let Some(Progress { plain, others, evicted }) = self.databases.get_mut(&number) else { return };
        if plain.buckets > 0 {
            let bucket = keys.plain.bucket_among(name, plain.buckets);
            if plain.take(bucket) {
                self.out.plain_bucket(number, keys, bucket, plain.buckets);
            }
        }
        if others.buckets > 0 {
            let bucket = keys.others.bucket_among(name, others.buckets);
            if others.take(bucket) {
                self.out.bucket(number, keys, bucket, others.buckets);
            }
        }
        if evicted.buckets > 0 {
            let bucket = keys.evicted.bucket_among(name, evicted.buckets);
            if evicted.take(bucket) {
                self.out.marks(number, keys, bucket, evicted.buckets);
            }
        }
    }

    /// Continues until `bytes` bytes are ready, and takes them. Returns true with the last piece.
    pub fn take_piece(&mut self, all: &BTreeMap<u32, Database>, bytes: usize) -> (Vec<u8>, bool) {
        let none = Database::default();
        while self.out.len() < bytes {
            let Some(mut entry) = self.databases.first_entry() else {
                return (self.out.take(true), true);
            };
            let (number, progress) = (*entry.key(), entry.get_mut());
            let keys = all.get(&number).unwrap_or(&none);
            if let Some(bucket) = progress.plain.take_next() {
                self.out.plain_bucket(number, keys, bucket, progress.plain.buckets);
            } else if let Some(bucket) = progress.others.take_next() {
                self.out.bucket(number, keys, bucket, progress.others.buckets);
            } else if let Some(bucket) = progress.evicted.take_next() {
                self.out.marks(number, keys, bucket, progress.evicted.buckets);
            } else {
                entry.remove();
            }
        }
        (self.out.take(false), false)
    }
}
