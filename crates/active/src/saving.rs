// SPDX-License-Identifier: BSD-3-Clause
//! All keys as bytes, or as a digest, in pieces between which they change.
//!
//! What is written is what there was at the begin, exactly: before the first change to a key its
//! bucket is written, with all that is in it. So what follows the state is just what was applied
//! since the begin. A change costs a look at a bit, or a bucket's writing. A digest is made in the
//! same way, and is all that is written of it.
//!
//! Changes of everything at once (FLUSH, a full copy) end it: it has to begin anew.

use std::collections::BTreeMap;

use crate::database::Database;
use crate::key::Key;
use crate::rules::Rules;
use crate::stored::{Stored, store_len};
use crate::view::digest;

/// Which buckets of a table have been written, of those that there were at the begin.
#[derive(Clone, Debug)]
struct Written {
    buckets: usize,
    /// A bit for each.
    bits: Vec<u64>,
    /// All before this one have been.
    next: usize,
}

impl Written {
    fn new(buckets: usize) -> Written {
        Written { buckets, bits: vec![0; buckets.div_ceil(64)], next: 0 }
    }

    /// A bucket is about to be written; false if it has been already.
    fn take(&mut self, bucket: usize) -> bool {
        let (word, bit) = (&mut self.bits[bucket / 64], 1 << (bucket % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// The next that has to be written.
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

/// Of a database.
#[derive(Clone, Debug)]
struct Progress {
    plain: Written,
    others: Written,
    evicted: Written,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Saving {
    /// Another one has another number.
    pub number: u64,
    databases: BTreeMap<u32, Progress>,
    out: Out,
}

/// What becomes of the keys.
#[derive(Clone, Debug)]
pub(crate) enum Out {
    /// Their bytes that wait to be taken, and what follows the keys.
    State { bytes: Vec<u8>, end: Vec<u8> },
    /// The digest of those so far, and how many bytes have been looked at for the next piece.
    Digest { sum: u64, bytes: usize, rules: Rules },
}

impl Out {
    /// Bytes for the next piece.
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

    fn plain_block(&mut self, number: u32, keys: &Database, block: usize, then: usize) {
        for (name, plain) in keys.plain.of_block(block, then) {
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

    fn marks(&mut self, number: u32, keys: &Database, block: usize, then: usize) {
        let Out::State { bytes, .. } = self else { return };
        for (name, mark) in keys.evicted.of_block(block, then) {
            bytes.push(MARK);
            store_name(number, name, bytes);
            mark.store(bytes);
        }
    }

    /// The next piece.
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

/// What comes next: a key, or the mark of an evicted one.
const KEY: u8 = 0;
pub(crate) const MARK: u8 = 1;

fn store_name(database: u32, name: &[u8], out: &mut Vec<u8>) {
    database.store(out);
    store_len(name.len(), out);
    out.extend_from_slice(name);
}

impl Saving {
    /// Begins; of a state `out` has what comes before the keys.
    pub fn new(number: u64, all: &BTreeMap<u32, Database>, mut out: Out) -> Saving {
        if let Out::State { bytes, .. } = &mut out {
            store_len(all.values().map(|keys| keys.len() + keys.evicted.len()).sum(), bytes);
        }
        let begin = |keys: &Database| Progress {
            plain: Written::new(keys.plain.blocks()),
            others: Written::new(keys.others.buckets()),
            evicted: Written::new(keys.evicted.blocks()),
        };
        let databases = all.iter().map(|(number, keys)| (*number, begin(keys))).collect();
        Saving { number, databases, out }
    }

    /// A key is about to change.
    pub fn before(&mut self, number: u32, keys: &Database, name: &[u8]) {
        let Some(Progress { plain, others, evicted }) = self.databases.get_mut(&number) else { return };
        if plain.buckets > 0 {
            let block = keys.plain.block_among(name, plain.buckets);
            if plain.take(block) {
                self.out.plain_block(number, keys, block, plain.buckets);
            }
        }
        if others.buckets > 0 {
            let bucket = keys.others.bucket_among(name, others.buckets);
            if others.take(bucket) {
                self.out.bucket(number, keys, bucket, others.buckets);
            }
        }
        if evicted.buckets > 0 {
            let block = keys.evicted.block_among(name, evicted.buckets);
            if evicted.take(block) {
                self.out.marks(number, keys, block, evicted.buckets);
            }
        }
    }

    /// Writes on until there are so many bytes, and gives them. True if these are the last.
    pub fn take_piece(&mut self, all: &BTreeMap<u32, Database>, bytes: usize) -> (Vec<u8>, bool) {
        let none = Database::default();
        while self.out.len() < bytes {
            let Some(mut entry) = self.databases.first_entry() else {
                return (self.out.take(true), true);
            };
            let (number, progress) = (*entry.key(), entry.get_mut());
            let keys = all.get(&number).unwrap_or(&none);
            if let Some(block) = progress.plain.take_next() {
                self.out.plain_block(number, keys, block, progress.plain.buckets);
            } else if let Some(bucket) = progress.others.take_next() {
                self.out.bucket(number, keys, bucket, progress.others.buckets);
            } else if let Some(block) = progress.evicted.take_next() {
                self.out.marks(number, keys, block, progress.evicted.buckets);
            } else {
                entry.remove();
            }
        }
        (self.out.take(false), false)
    }
}
