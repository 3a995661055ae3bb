// SPDX-License-Identifier: BSD-3-Clause
//! Eviction: access clocks (LRU, LRM and LFU), and the choice of a key to remove when memory is
//! short.
//!
//! Sampling as Redis documents it: a few keys from random places compete with the best of the
//! earlier samples (`pool.rs`), and the best of all is evicted. Each call evicts at most one key
//! and holds one shard lock at a time, so the caller can work in slices without delaying requests.

mod policy;
mod pool;

use std::sync::atomic::Ordering::Relaxed;

use braid_rdb::{Access, Traits};

use crate::context::Context;
use crate::entry::Entry;
use crate::events::{Event, class};
use crate::keyspace::{Keyspace, Removal};
use crate::txn::{KeyRef, Txn};
pub use policy::Policy;
use pool::Candidate;
pub use pool::Pool;

const EVICTED: Event = Event { class: class::EVICTED, name: "evicted" };

/// Time between two searches of the whole keyspace that find protected keys only.
const REST_MS: i64 = 100;

/// The LFU counter of a new key, high enough to give the key a chance to be used before eviction.
const LFU_START: u32 = 5;

/// The access clock of a new entry.
#[inline]
pub(crate) fn new_clock(keyspace: &Keyspace) -> u32 {
    if keyspace.settings.policy().is_lfu() { keyspace.minutes() << 8 | LFU_START } else { keyspace.clock() }
}

/// Records a read in the entry's clock, unless only changes count.
#[inline]
pub(crate) fn mark_read(keyspace: &Keyspace, entry: Entry<'_>) {
    let policy = keyspace.settings.policy();
    if !policy.is_lrm() {
        mark(keyspace, policy, entry);
    }
}

/// Records an access in the entry's clock.
#[inline]
pub(crate) fn mark_used(keyspace: &Keyspace, entry: Entry<'_>) {
    mark(keyspace, keyspace.settings.policy(), entry);
}

#[inline]
fn mark(keyspace: &Keyspace, policy: Policy, entry: Entry<'_>) {
    if policy.is_lfu() {
        let counter = lfu_counter(keyspace, entry.clock());
        entry.set_clock(keyspace.minutes() << 8 | lfu_increment(keyspace, counter));
    } else {
        entry.set_clock(keyspace.clock());
    }
}

/// The LFU counter of a clock, with the pending decay applied.
pub fn lfu_counter(keyspace: &Keyspace, clock: u32) -> u32 {
    let decay = keyspace.settings.lfu_decay_minutes.load(Relaxed);
    let elapsed = keyspace.minutes().wrapping_sub(clock >> 8) & 0xffff;
    // A decay time of zero means that counters never decay.
    let periods = elapsed.checked_div(decay).unwrap_or(0);
    (clock & 0xff).saturating_sub(periods)
}

/// Counts an access, with a probability that falls as the counter rises.
fn lfu_increment(keyspace: &Keyspace, counter: u32) -> u32 {
    if counter == 255 {
        return 255;
    }
    let base = f64::from(counter.saturating_sub(LFU_START));
    let factor = f64::from(keyspace.settings.lfu_log_factor.load(Relaxed));
    counter + u32::from(fastrand::f64() < 1.0 / (base * factor + 1.0))
}

/// The longest idle time that an access clock can express, in seconds.
pub const IDLE_MAX: u32 = 0x00ff_ffff;

/// Seconds since the last access, by the LRU clock.
pub fn idle_seconds(keyspace: &Keyspace, clock: u32) -> u32 {
    keyspace.clock().wrapping_sub(clock) & 0x00ff_ffff
}

/// What dump files say of a key besides its value: its idle time or access frequency, if the policy
/// tracks one, and whether it is protected.
pub fn traits(keyspace: &Keyspace, entry: Entry<'_>) -> Traits {
    let policy = keyspace.settings.policy();
    let access = if policy.is_lru() {
        Some(Access::Idle(u64::from(idle_seconds(keyspace, entry.clock()))))
    } else if policy.is_lfu() {
        Some(Access::Frequency(lfu_counter(keyspace, entry.clock()) as u8))
    } else {
        None
    };
    Traits { access, is_protected: entry.is_protected() }
}

/// The access clock of a key that has been idle for this many seconds (RESTORE IDLETIME).
pub fn clock_for_idle(keyspace: &Keyspace, seconds: u32) -> u32 {
    keyspace.clock().wrapping_sub(seconds) & 0x00ff_ffff
}

/// The access clock of a key with this LFU counter (RESTORE FREQ).
pub fn clock_for_frequency(keyspace: &Keyspace, counter: u8) -> u32 {
    keyspace.minutes() << 8 | u32::from(counter)
}

/// The input of an entry's score: its access clock, or its expiry.
fn stamp(policy: Policy, entry: Entry<'_>) -> u64 {
    match policy {
        Policy::VolatileTtl => entry.expiry().unwrap_or(i64::MAX).max(0) as u64,
        _ if policy.is_lru() || policy.is_lfu() => u64::from(entry.clock()),
        _ => 0,
    }
}

/// The eviction score of an entry with this stamp; the largest score is evicted first.
fn score(keyspace: &Keyspace, policy: Policy, stamp: u64, random: &mut fastrand::Rng) -> u64 {
    match policy {
        _ if policy.is_lru() => u64::from(idle_seconds(keyspace, stamp as u32)),
        Policy::AllKeysLfu | Policy::VolatileLfu => 255 - u64::from(lfu_counter(keyspace, stamp as u32)),
        Policy::VolatileTtl => u64::MAX - stamp,
        _ => random.u64(..),
    }
}

/// An evicted key.
#[derive(Debug)]
pub struct Evicted {
    pub db: u32,
    pub key: Vec<u8>,
    /// Memory of the entry, in bytes. It is freed once no lock-free reader can see it any more,
    /// that is after the current batch. A caller that evicts until enough memory is free must
    /// count these bytes itself; otherwise it evicts far too much.
    pub bytes: usize,
}

/// Evicts one key by the current policy. `None` if no key may be evicted.
pub fn evict_one(keyspace: &Keyspace, context: &mut Context, now_ms: i64) -> Option<Evicted> {
    let policy = keyspace.settings.policy();
    if policy == Policy::NoEviction {
        return None;
    }
    context.eviction.prepare(policy);
    if now_ms < context.eviction.rests_until_ms {
        return None;
    }
    // A candidate may be gone, or in use again, when it is to be evicted: retry, but a limited
    // number of times.
    for _ in 0..16 {
        let is_protected = sample(keyspace, context, policy);
        if context.eviction.is_empty() {
            // All keys have been looked at; the next request must not look at them again.
            context.eviction.rests_until_ms = if is_protected { now_ms + REST_MS } else { 0 };
            return None;
        }
        while let Some(candidate) = context.eviction.take_best() {
            if let Some(evicted) = evict(keyspace, context, policy, candidate, now_ms) {
                return Some(evicted);
            }
        }
    }
    None
}

/// Evicts a key if it is unchanged since it was sampled.
fn evict(
    keyspace: &Keyspace,
    context: &mut Context,
    policy: Policy,
    candidate: Candidate,
    now_ms: i64,
) -> Option<Evicted> {
    let Candidate { stamp: sampled, db, key, .. } = candidate;
    let keys = [KeyRef { key: &key, hash: keyspace.hash(&key), write: true }];
    let mut txn = Txn::lock(keyspace, context, db, now_ms, &keys);
    if let Some(expired) = txn.peek_expired(&key) {
        // The key is past its expiry: count it as expired, not as evicted.
        let bytes = expired.memory_bytes();
        txn.write(&key);
        drop(txn);
        return Some(Evicted { db, key, bytes });
    }
    let entry = txn.peek(&key)?;
    let is_exempt = policy.is_volatile() && !entry.has_expiry() || entry.is_protected();
    if stamp(policy, entry) != sampled || is_exempt {
        // Since it was sampled the key was used, replaced or protected, or its expiry changed. The
        // next samples compute its new score.
        return None;
    }
    let bytes = entry.memory_bytes();
    if keyspace.wants(EVICTED.class) {
        txn.notify_loss(EVICTED, entry);
    }
    txn.remove(&key);
    txn.journal_loss(&key, Removal::Evicted);
    drop(txn);
    context.counters.evicted.add(1);
    Some(Evicted { db, key, bytes })
}

/// The request that protects a key from eviction.
pub fn protection_request(key: &[u8]) -> [&[u8]; 4] {
    [b"BLESS", b"SET", key, b"NO-EVICT"]
}

/// Buckets to sample while the pool is not full.
const FILLING: u32 = 16;
/// Random places to sample before falling back to searching the shards in turn.
const PLACES: u32 = 64;

/// Offers keys from random places to the pool: at least `maxmemory-samples` of them, more while
/// the pool is not full. If the keyspace is nearly empty, all shards are searched in turn, so that
/// even the last key is found. True if there were protected ones, which are passed over.
fn sample(keyspace: &Keyspace, context: &mut Context, policy: Policy) -> bool {
    let samples = keyspace.settings.eviction_samples.load(Relaxed).max(1) as usize;
    let Context { eviction: pool, random, .. } = context;
    let is_random = matches!(policy, Policy::AllKeysRandom | Policy::VolatileRandom);
    let (mut seen, mut has_protected) = (0, false);
    let shards = keyspace.shard_count() as u32;
    let (start, bits) = (random.u32(0..shards), keyspace.shard_bits());
    for attempt in 0..PLACES + shards {
        let is_enough = if is_random || attempt >= PLACES {
            !pool.is_empty()
        } else {
            seen >= samples && (pool.is_full() || attempt >= FILLING)
        };
        if is_enough {
            break;
        }
        let is_search = attempt >= PLACES;
        let place = keyspace.random_hash(random.u64(..));
        let index = if is_search { (start + attempt) % shards } else { keyspace.shard_of(place) };
        if keyspace.is_hidden(index) {
            continue;
        }
        let shard = keyspace.shard(index);
        for (db, table) in shard.used_tables() {
            let eligible = if policy.is_volatile() { table.expires() } else { table.len() };
            if eligible == 0 {
                continue;
            }
            let mut consider = |entry: Entry<'_>| {
                if policy.is_volatile() && !entry.has_expiry() {
                    return;
                }
                if entry.is_protected() {
                    has_protected = true;
                    return;
                }
                seen += 1;
                let stamp = stamp(policy, entry);
                pool.offer(score(keyspace, policy, stamp, random), stamp, db, entry.key());
            };
            shard.lock.lock_shared();
            // SAFETY: the shard is held.
            unsafe {
                if is_search {
                    table.for_each(&mut consider)
                } else {
                    table.sample(place, bits, &mut consider)
                }
            }
            shard.lock.unlock_shared();
        }
    }
    has_protected
}
