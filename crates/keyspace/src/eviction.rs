//! Eviction: access clocks (LRU and LFU), and choosing a key to give up when memory is short.
//!
//! Sampling as Redis documents it: a few keys from random places, and the best of them goes. Each call evicts at most one key and takes one
//! shard lock at a time, so the caller can do it in slices and never holds up others.

use std::sync::atomic::Ordering::Relaxed;

use crate::context::Context;
use crate::entry::Entry;
use crate::events::{Event, class};
use crate::keyspace::{Keyspace, Removal};
use crate::txn::{KeyRef, Txn};

const EVICTED: Event = Event { class: class::EVICTED, name: "evicted" };

/// What may be evicted, and in which order (`maxmemory-policy`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Policy {
    NoEviction = 0,
    AllKeysLru,
    AllKeysLfu,
    AllKeysRandom,
    VolatileLru,
    VolatileLfu,
    VolatileRandom,
    VolatileTtl,
}

impl Policy {
    pub(crate) fn from_number(number: u8) -> Policy {
        use Policy::*;
        [
            NoEviction,
            AllKeysLru,
            AllKeysLfu,
            AllKeysRandom,
            VolatileLru,
            VolatileLfu,
            VolatileRandom,
            VolatileTtl,
        ][usize::from(number)]
    }

    /// True if access clocks count frequency instead of recency.
    #[inline]
    pub fn is_lfu(self) -> bool {
        matches!(self, Policy::AllKeysLfu | Policy::VolatileLfu)
    }

    /// True if access clocks decide by recency.
    pub fn is_lru(self) -> bool {
        matches!(self, Policy::AllKeysLru | Policy::VolatileLru)
    }

    /// True if only keys with an expiry may go.
    pub fn is_volatile(self) -> bool {
        self as u8 >= Policy::VolatileLru as u8
    }
}

/// New keys start with this LFU counter, so that they are not evicted before they had a chance.
const LFU_START: u32 = 5;

/// The access clock of a new entry.
#[inline]
pub(crate) fn new_clock(keyspace: &Keyspace) -> u32 {
    if keyspace.settings.policy().is_lfu() { keyspace.minutes() << 8 | LFU_START } else { keyspace.clock() }
}

/// Notes an access in the entry's clock.
#[inline]
pub(crate) fn mark_used(keyspace: &Keyspace, entry: Entry<'_>) {
    if keyspace.settings.policy().is_lfu() {
        let counter = lfu_counter(keyspace, entry.clock());
        entry.set_clock(keyspace.minutes() << 8 | lfu_increment(keyspace, counter));
    } else {
        entry.set_clock(keyspace.clock());
    }
}

/// The LFU counter of a clock after the decay that is due by now.
pub fn lfu_counter(keyspace: &Keyspace, clock: u32) -> u32 {
    let decay = keyspace.settings.lfu_decay_minutes.load(Relaxed);
    let elapsed = keyspace.minutes().wrapping_sub(clock >> 8) & 0xffff;
    // A decay time of zero means that counters never decay.
    let periods = elapsed.checked_div(decay).unwrap_or(0);
    (clock & 0xff).saturating_sub(periods)
}

/// Counts an access with a probability that falls as the counter rises.
fn lfu_increment(keyspace: &Keyspace, counter: u32) -> u32 {
    if counter == 255 {
        return 255;
    }
    let base = f64::from(counter.saturating_sub(LFU_START));
    let factor = f64::from(keyspace.settings.lfu_log_factor.load(Relaxed));
    counter + u32::from(fastrand::f64() < 1.0 / (base * factor + 1.0))
}

/// Most seconds of idleness that an access clock can tell.
pub const IDLE_MAX: u32 = 0x00ff_ffff;

/// Seconds since the last access, by the LRU clock.
pub fn idle_seconds(keyspace: &Keyspace, clock: u32) -> u32 {
    keyspace.clock().wrapping_sub(clock) & 0x00ff_ffff
}

/// The access clock that makes a key look idle for so many seconds (RESTORE IDLETIME).
pub fn clock_for_idle(keyspace: &Keyspace, seconds: u32) -> u32 {
    keyspace.clock().wrapping_sub(seconds) & 0x00ff_ffff
}

/// The access clock that gives a key this LFU counter (RESTORE FREQ).
pub fn clock_for_frequency(keyspace: &Keyspace, counter: u8) -> u32 {
    keyspace.minutes() << 8 | u32::from(counter)
}

/// How much an entry deserves to be evicted; larger goes first.
fn score(keyspace: &Keyspace, policy: Policy, entry: Entry<'_>, random: u64) -> u64 {
    match policy {
        Policy::AllKeysLru | Policy::VolatileLru => u64::from(idle_seconds(keyspace, entry.clock())),
        Policy::AllKeysLfu | Policy::VolatileLfu => 255 - u64::from(lfu_counter(keyspace, entry.clock())),
        Policy::VolatileTtl => u64::MAX - entry.expiry().unwrap_or(i64::MAX).max(0) as u64,
        Policy::AllKeysRandom | Policy::VolatileRandom | Policy::NoEviction => random,
    }
}

/// A key that was evicted.
#[derive(Debug)]
pub struct Evicted {
    /// Its database.
    pub db: u32,
    /// Its name.
    pub key: Vec<u8>,
    /// What it took, in bytes. They are given back when no lock-free reader can see them any more, which is after the present batch:
    /// a caller that evicts until enough is free must count them itself or it evicts far too much.
    pub bytes: usize,
}

/// Evicts one key by the policy in force. Returns nothing if none may go.
pub fn evict_one(keyspace: &Keyspace, context: &mut Context, now: i64) -> Option<Evicted> {
    let policy = keyspace.settings.policy();
    if policy == Policy::NoEviction {
        return None;
    }
    let samples = keyspace.settings.eviction_samples.load(Relaxed).max(1) as usize;
    // A candidate may be gone by the time it is to be deleted: try again, not for ever.
    for _ in 0..16 {
        let (db, key) = choose(keyspace, context, policy, samples)?;
        let hash = keyspace.hash(&key);
        let keys = [KeyRef { key: &key, hash, write: true }];
        let mut txn = Txn::lock(keyspace, context, db, now, &keys);
        let Some(entry) = txn.peek(&key) else { continue };
        if policy.is_volatile() && !entry.has_expiry() {
            // It lost its expiry since it was chosen, or is another key of this name.
            continue;
        }
        let bytes = entry.memory_bytes();
        if keyspace.wants(EVICTED.class) {
            txn.notify_loss(EVICTED, entry);
        }
        txn.remove(&key);
        txn.journal_loss(&key, Removal::Evicted);
        drop(txn);
        context.counters.evicted.add(1);
        return Some(Evicted { db, key, bytes });
    }
    None
}

/// The best of at least `samples` candidates.
fn choose(
    keyspace: &Keyspace,
    context: &mut Context,
    policy: Policy,
    samples: usize,
) -> Option<(u32, Vec<u8>)> {
    let mut best: Option<(u64, u32, Vec<u8>)> = None;
    let mut seen = 0;
    let shards = keyspace.shard_count() as u32;
    let start = context.random.u32(0..shards);
    // Random places first; if the keyspace is nearly empty, every shard in turn so that the last key is found too.
    for attempt in 0..64 + shards {
        let index = if attempt < 64 { context.random.u32(0..shards) } else { (start + attempt) % shards };
        let shard = keyspace.shard(index);
        for db in 0..keyspace.databases() {
            let table = shard.table(db);
            let eligible = if policy.is_volatile() { table.expires() } else { table.len() };
            if eligible == 0 {
                continue;
            }
            let random = context.random.u64(..);
            let mut consider = |entry: Entry<'_>| {
                if policy.is_volatile() && !entry.has_expiry() {
                    return;
                }
                seen += 1;
                let score = score(keyspace, policy, entry, random.rotate_left(seen as u32));
                if best.as_ref().is_none_or(|(other, ..)| score > *other) {
                    best = Some((score, db, entry.key().to_vec()));
                }
            };
            shard.lock.lock_shared();
            // SAFETY: the shard is held.
            unsafe {
                if attempt < 64 { table.sample(random, &mut consider) } else { table.for_each(&mut consider) }
            }
            shard.lock.unlock_shared();
        }
        if seen >= samples {
            break;
        }
    }
    best.map(|(_, db, key)| (db, key))
}
