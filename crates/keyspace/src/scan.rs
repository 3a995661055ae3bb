// SPDX-License-Identifier: BSD-3-Clause
//! SCAN, RANDOMKEY: walking the keyspace a little at a time.
//!
//! A cursor is a place in hash order: shard, directory prefix, position. Splits and merges of segments
//! preserve that order, so keys that are there throughout are returned at least once.

use crate::context::Context;
use crate::entry::Entry;
use crate::keyspace::Keyspace;
use crate::table::{SLOTS as BUCKET_SLOTS, TableCursor};

/// Visits at least `count` entries of a database from `cursor` on (0 = start), or to the end. Returns the
/// next cursor, 0 at the end. Locks one shard at a time. Expired entries are visited too: the caller filters.
pub fn scan(
    keyspace: &Keyspace,
    db: u32,
    cursor: u64,
    count: usize,
    mut visit: impl FnMut(Entry<'_>),
) -> u64 {
    let (mut shard_index, mut place) = (cursor >> TableCursor::BITS, TableCursor::from_bits(cursor));
    let mut visited = 0;
    while shard_index < keyspace.shard_count() as u64 {
        let shard = keyspace.shard(shard_index as u32);
        if !shard.table(db).is_empty() {
            shard.lock.lock_shared();
            // SAFETY: the shard is held.
            let next = unsafe {
                shard.table(db).scan(place, count.saturating_sub(visited).max(1), |entry| {
                    visited += 1;
                    visit(entry);
                })
            };
            shard.lock.unlock_shared();
            if let Some(next) = next {
                return shard_index << TableCursor::BITS | next.bits();
            }
        }
        shard_index += 1;
        place = TableCursor::default();
        if visited >= count && shard_index < keyspace.shard_count() as u64 {
            return shard_index << TableCursor::BITS;
        }
    }
    0
}

/// At most so many keys that have expired are told of by [`random_key`].
const EXPIRED_MOST: usize = 64;

/// A random key of a database that is not expired; each about as likely as any other. Some of those
/// met that are expired are added to `expired`.
pub fn random_key(
    keyspace: &Keyspace,
    context: &mut Context,
    db: u32,
    now: i64,
    expired: &mut Vec<Vec<u8>>,
) -> Option<Vec<u8>> {
    let mut note = |entry: Entry<'_>| {
        if expired.len() < EXPIRED_MOST {
            expired.push(entry.key().to_vec());
        }
    };
    let shards = keyspace.shard_count() as u32;
    // A slot at random, until one holds a key: a bucket's keys are not more likely for being few.
    for _ in 0..512 {
        let shard = keyspace.shard(context.random.u32(0..shards));
        let (random, slot) = (context.random.u64(..), context.random.usize(0..BUCKET_SLOTS));
        if shard.table(db).is_empty() {
            continue;
        }
        let (mut found, mut seen) = (None, 0);
        shard.lock.lock_shared();
        // SAFETY: the shard is held.
        unsafe {
            shard.table(db).sample(random, |entry| {
                if entry.is_expired(now) {
                    note(entry);
                    return;
                }
                if seen == slot {
                    found = Some(entry.key().to_vec());
                }
                seen += 1;
            });
        }
        shard.lock.unlock_shared();
        if found.is_some() {
            return found;
        }
    }
    // Few keys in many shards: all of them take part, the n-th replacing those before it once in n times.
    let (mut chosen, mut seen) = (None, 0u64);
    for shard in keyspace.shards().iter().filter(|shard| !shard.table(db).is_empty()) {
        shard.lock.lock_shared();
        // SAFETY: the shard is held.
        unsafe {
            shard.table(db).for_each(|entry| {
                if entry.is_expired(now) {
                    note(entry);
                    return;
                }
                seen += 1;
                if context.random.u64(0..seen) == 0 {
                    chosen = Some(entry.key().to_vec());
                }
            });
        }
        shard.lock.unlock_shared();
    }
    chosen
}
