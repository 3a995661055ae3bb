// SPDX-License-Identifier: BSD-3-Clause
//! All keys as bytes, in pieces between which they change.
//!
//! What is written is what there was at the begin, exactly: before the first change to a key its
//! bucket is written, with all that is in it. So what follows the state is just what was applied
//! since the begin. A change costs a look at a bit, or a bucket's writing.
//!
//! Changes of everything at once (FLUSH, a full copy) end it: it has to begin anew.

use std::collections::BTreeMap;

use crate::database::Database;
use crate::key::Key;
use crate::stored::{Stored, store_len};

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
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Saving {
    /// Another one has another number.
    pub number: u64,
    databases: BTreeMap<u32, Progress>,
    out: Vec<u8>,
    /// What follows the keys.
    end: Vec<u8>,
}

fn store_name(database: u32, name: &[u8], out: &mut Vec<u8>) {
    database.store(out);
    store_len(name.len(), out);
    out.extend_from_slice(name);
}

fn store_plain_block(number: u32, keys: &Database, block: usize, then: usize, out: &mut Vec<u8>) {
    for (name, plain) in keys.plain.of_block(block, then) {
        store_name(number, name, out);
        Key::store_plain(plain, out);
    }
}

fn store_bucket(number: u32, keys: &Database, bucket: usize, then: usize, out: &mut Vec<u8>) {
    for (name, key) in keys.others.of_bucket(bucket, then) {
        store_name(number, name, out);
        key.store(out);
    }
}

impl Saving {
    /// Begins: `out` has what comes before the keys, `end` is what follows them.
    pub fn new(number: u64, all: &BTreeMap<u32, Database>, mut out: Vec<u8>, end: Vec<u8>) -> Saving {
        store_len(all.values().map(Database::len).sum(), &mut out);
        let begin = |keys: &Database| Progress {
            plain: Written::new(keys.plain.blocks()),
            others: Written::new(keys.others.buckets()),
        };
        let databases = all.iter().map(|(number, keys)| (*number, begin(keys))).collect();
        Saving { number, databases, out, end }
    }

    /// A key is about to change.
    pub fn before(&mut self, number: u32, keys: &Database, name: &[u8]) {
        let Some(Progress { plain, others }) = self.databases.get_mut(&number) else { return };
        if plain.buckets > 0 {
            let block = keys.plain.block_among(name, plain.buckets);
            if plain.take(block) {
                store_plain_block(number, keys, block, plain.buckets, &mut self.out);
            }
        }
        if others.buckets > 0 {
            let bucket = keys.others.bucket_among(name, others.buckets);
            if others.take(bucket) {
                store_bucket(number, keys, bucket, others.buckets, &mut self.out);
            }
        }
    }

    /// Writes on until there are so many bytes, and gives them. True if these are the last.
    pub fn take_piece(&mut self, all: &BTreeMap<u32, Database>, bytes: usize) -> (Vec<u8>, bool) {
        let none = Database::default();
        while self.out.len() < bytes {
            let Some(mut entry) = self.databases.first_entry() else {
                self.out.append(&mut self.end);
                return (std::mem::take(&mut self.out), true);
            };
            let (number, progress) = (*entry.key(), entry.get_mut());
            let keys = all.get(&number).unwrap_or(&none);
            if let Some(block) = progress.plain.take_next() {
                store_plain_block(number, keys, block, progress.plain.buckets, &mut self.out);
            } else if let Some(bucket) = progress.others.take_next() {
                store_bucket(number, keys, bucket, progress.others.buckets, &mut self.out);
            } else {
                entry.remove();
            }
        }
        (std::mem::take(&mut self.out), false)
    }
}
