// SPDX-License-Identifier: BSD-3-Clause
//! SCAN and RANDOMKEY: iteration over the keyspace in small steps.
//!
//! A cursor is a position in hash order: shard, directory prefix, position. Splits and merges of
//! segments preserve that order, so every key present throughout is returned at least once.

use crate::context::Context;
use crate::entry::Entry;
use crate::keyspace::{Keyspace, Shard};
use crate::table::{SLOTS as BUCKET_SLOTS, TableCursor};

/// Depth bits left out of a cursor in cluster mode, which has more shard bits: clients that keep
/// cursors in floating-point numbers have 53 bits.
const SPARED: u32 = 2;
/// Marks a cluster-mode cursor that needs the spared bits: one slot has more than 1.5 billion keys.
const WHOLE: u64 = 1 << 63;

/// The cursor number of a position in a shard.
pub fn cursor_of(keyspace: &Keyspace, shard: u64, place: TableCursor) -> u64 {
    let (depth, position) = (place.bits() >> 16, place.bits() & 0xffff);
    if !keyspace.is_by_slot() {
        shard << TableCursor::BITS | place.bits()
    } else if depth.trailing_zeros() >= SPARED {
        shard << (TableCursor::BITS - SPARED) | depth >> SPARED << 16 | position
    } else {
        WHOLE | shard << TableCursor::BITS | place.bits()
    }
}

/// The shard of a cursor, and the position there. The shard may not exist.
pub fn place_of(keyspace: &Keyspace, cursor: u64) -> (u64, TableCursor) {
    if !keyspace.is_by_slot() || cursor & WHOLE != 0 {
        let cursor = if keyspace.is_by_slot() { cursor & !WHOLE } else { cursor };
        return (cursor >> TableCursor::BITS, TableCursor::from_bits(cursor));
    }
    const BITS: u32 = TableCursor::BITS - SPARED;
    let within = cursor & ((1 << BITS) - 1);
    (cursor >> BITS, TableCursor::from_bits(within >> 16 << SPARED << 16 | within & 0xffff))
}

/// Visits at most `count` keys of a slot in a database, expired ones included. Takes the slot's
/// lock, so the caller must not hold any.
pub fn visit_slot(keyspace: &Keyspace, slot: u16, db: u32, count: usize, mut visit: impl FnMut(Entry<'_>)) {
    debug_assert!(keyspace.is_by_slot());
    let shard = keyspace.shard(u32::from(slot));
    let mut left = count.min(shard.table(db).len());
    if left == 0 {
        return;
    }
    shard.lock.lock_shared();
    // SAFETY: the shard is held.
    unsafe {
        shard.table(db).scan(Default::default(), left, |entry| {
            // Entries of one bucket are visited together, so there may be more than requested.
            if left > 0 {
                left -= 1;
                visit(entry);
            }
        });
    }
    shard.lock.unlock_shared();
}

/// Visits at least `count` entries of a database from `cursor` on (0 = start), or up to the end.
/// Returns the next cursor, 0 at the end. Locks one shard at a time. Expired entries are visited
/// too; the caller filters them out.
pub fn scan(
    keyspace: &Keyspace,
    db: u32,
    cursor: u64,
    count: usize,
    mut visit: impl FnMut(Entry<'_>),
) -> u64 {
    let (mut shard_index, mut place) = place_of(keyspace, cursor);
    let mut visited = 0;
    while shard_index < keyspace.shard_count() as u64 {
        let shard = keyspace.shard(shard_index as u32);
        if !shard.table(db).is_empty() && !keyspace.is_hidden(shard_index as u32) {
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
                return cursor_of(keyspace, shard_index, next);
            }
        }
        shard_index += 1;
        place = TableCursor::default();
        if visited >= count && shard_index < keyspace.shard_count() as u64 {
            return cursor_of(keyspace, shard_index, place);
        }
    }
    0
}

/// Visits at least `count` entries of a slot in a database from `cursor` on (0 = start), or up to
/// the slot's end. Returns the next cursor, 0 at the end. Otherwise like [`scan`].
pub fn scan_slot(
    keyspace: &Keyspace,
    slot: u16,
    db: u32,
    cursor: u64,
    count: usize,
    visit: impl FnMut(Entry<'_>),
) -> u64 {
    debug_assert!(keyspace.is_by_slot());
    let (slot, (of, place)) = (u64::from(slot), place_of(keyspace, cursor));
    let shard = keyspace.shard(slot as u32);
    if shard.table(db).is_empty() || keyspace.is_hidden(slot as u32) {
        return 0;
    }
    let place = if cursor != 0 && of == slot { place } else { TableCursor::default() };
    shard.lock.lock_shared();
    // SAFETY: the shard is held.
    let next = unsafe { shard.table(db).scan(place, count.max(1), visit) };
    shard.lock.unlock_shared();
    next.map_or(0, |next| cursor_of(keyspace, slot, next))
}

/// Maximum number of expired keys reported by [`random_key`].
const EXPIRED_MOST: usize = 64;

/// A random unexpired key of a database; all keys are about equally likely. Adds some of the
/// expired keys found on the way to `expired`.
pub fn random_key(
    keyspace: &Keyspace,
    context: &mut Context,
    db: u32,
    now_ms: i64,
    expired: &mut Vec<Vec<u8>>,
) -> Option<Vec<u8>> {
    let mut note = |entry: Entry<'_>| {
        if expired.len() < EXPIRED_MOST {
            expired.push(entry.key().to_vec());
        }
    };
    // Try random slots until one holds a key, so that keys in sparse buckets are no more likely
    // than others.
    for _ in 0..512 {
        let place = keyspace.random_hash(context.random.u64(..));
        let index = keyspace.shard_of(place);
        let (shard, slot) = (keyspace.shard(index), context.random.usize(0..BUCKET_SLOTS));
        if shard.table(db).is_empty() || keyspace.is_hidden(index) {
            continue;
        }
        let (mut found, mut seen) = (None, 0);
        shard.lock.lock_shared();
        // SAFETY: the shard is held.
        unsafe {
            shard.table(db).sample(place, keyspace.shard_bits(), |entry| {
                if entry.is_expired(now_ms) {
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
    // Few keys in many shards: reservoir sampling over all keys. The n-th key replaces the choice
    // with probability 1/n.
    let (mut chosen, mut seen) = (None, 0u64);
    let is_seen = |(index, shard): &(u32, &Shard)| !shard.table(db).is_empty() && !keyspace.is_hidden(*index);
    for (_, shard) in (0..).zip(keyspace.shards()).filter(is_seen) {
        shard.lock.lock_shared();
        // SAFETY: the shard is held.
        unsafe {
            shard.table(db).for_each(|entry| {
                if entry.is_expired(now_ms) {
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
