// SPDX-License-Identifier: BSD-3-Clause
//! Quality of eviction: evicts half of the keys, whose order is known, and compares the rest with
//! the ideal result.

use braid_base::alloc::CountingAllocator;
use braid_base::hash::KeyHasher;
use braid_keyspace::context::Context;
use braid_keyspace::entry::Value;
use braid_keyspace::eviction::{self, Policy};
use braid_keyspace::keyspace::{Keyspace, Shape};
use braid_keyspace::txn::{Expiry, KeyRef, Txn};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const KEYS: u32 = 20_000;
const NOW: i64 = 1_700_000_000_000;

/// A keyspace with keys `0..KEYS`, of which the lowest should be evicted first.
fn ranked(policy: Policy, shards: usize, seed: u64) -> (Keyspace, Context) {
    let shape = Shape { shards, databases: 16, threads: 1, threads_max: 1 };
    let mut hash_key = *b"0123456789abcdef";
    hash_key[..8].copy_from_slice(&seed.to_le_bytes());
    let keyspace = Keyspace::new(shape, KeyHasher::with_key(&hash_key));
    keyspace.settings.set_policy(policy);
    keyspace.tick(NOW);
    let mut context = Context::new(&keyspace, 0);
    context.random = fastrand::Rng::with_seed(seed);
    let clock_of = |n: u32| {
        if policy.is_lfu() {
            eviction::clock_for_frequency(&keyspace, (n * 250 / KEYS) as u8)
        } else {
            eviction::clock_for_idle(&keyspace, 10 + KEYS - n)
        }
    };
    for n in 0..KEYS {
        let name = n.to_string();
        in_txn(&keyspace, &mut context, &name, |txn| {
            let expiry = Expiry::At(NOW + 1_000_000 + i64::from(n));
            let expiry = if policy.is_volatile() { expiry } else { Expiry::Clear };
            txn.set(name.as_bytes(), Value::string(b"value"), expiry);
            txn.set_clock(name.as_bytes(), clock_of(n));
        });
    }
    (keyspace, context)
}

fn in_txn<R>(
    keyspace: &Keyspace,
    context: &mut Context,
    name: &str,
    body: impl FnOnce(&mut Txn<'_>) -> R,
) -> R {
    let keys = [KeyRef { key: name.as_bytes(), hash: keyspace.hash(name.as_bytes()), write: true }];
    body(&mut Txn::lock(keyspace, context, 0, NOW, &keys))
}

/// Evicts one key and returns its number.
fn evict(keyspace: &Keyspace, context: &mut Context) -> u32 {
    let evicted = eviction::evict_one(keyspace, context, NOW).expect("keys are left");
    String::from_utf8(evicted.key).expect("text").parse().expect("a number")
}

/// Percentage of kept keys that should have been evicted, and the number of keys lost from each of
/// the newest tenths.
fn quality(policy: Policy, shards: usize, seed: u64) -> (f64, [u32; 5]) {
    let (keyspace, mut context) = ranked(policy, shards, seed);
    let mut lost = [0; 5];
    for _ in 0..KEYS / 2 {
        let n = evict(&keyspace, &mut context);
        if n >= KEYS / 2 {
            lost[((KEYS - 1 - n) * 10 / KEYS) as usize] += 1;
        }
    }
    let wrong: u32 = lost.iter().sum();
    (f64::from(wrong) * 100.0 / f64::from(KEYS / 2), lost)
}

/// A protected key is passed over by every policy, and nothing is evicted if all are protected.
#[test]
fn protected_keys_stay() {
    for policy in [Policy::AllKeysLru, Policy::AllKeysRandom, Policy::VolatileTtl] {
        let (keyspace, mut context) = ranked(policy, 16, 8);
        for n in (0..KEYS).filter(|n| n % 100 != 99) {
            let name = n.to_string();
            let protected =
                in_txn(&keyspace, &mut context, &name, |txn| txn.set_protected(name.as_bytes(), true));
            assert_eq!(protected, Some(true));
        }
        for _ in 0..KEYS / 100 {
            assert_eq!(evict(&keyspace, &mut context) % 100, 99, "{policy:?}");
        }
        assert!(eviction::evict_one(&keyspace, &mut context, NOW).is_none(), "{policy:?}");
    }
}

#[test]
fn eviction_removes_old_keys_and_keeps_the_newest() {
    use Policy::*;
    for policy in [AllKeysLru, AllKeysLrm, AllKeysLfu, VolatileLru, VolatileLrm, VolatileLfu, VolatileTtl] {
        for (shards, seed) in [(1024, 1), (1024, 2), (16, 3), (1, 4)] {
            let (kept, lost) = quality(policy, shards, seed);
            println!("{policy:?}, {shards} shards: {kept:.1} % kept, lost from the newest on: {lost:?}");
            assert!(kept < 9.0, "{policy:?}, {shards} shards: {kept:.1} % of the keys to evict were kept");
            assert_eq!(lost[..3], [0; 3], "{policy:?}, {shards} shards: newest keys are lost");
        }
    }
}

#[test]
fn candidates_that_were_used_or_removed_since_they_were_sampled_are_passed_over() {
    let (keyspace, mut context) = ranked(Policy::AllKeysLru, 16, 5);
    // The pool has candidates now.
    let first = evict(&keyspace, &mut context);
    // All other candidates are used again or removed: every second key is used, and the older half
    // of the remaining keys is removed.
    for n in 0..KEYS {
        let name = n.to_string();
        in_txn(&keyspace, &mut context, &name, |txn| match n {
            _ if n == first => {}
            _ if n % 2 == 0 => assert!(txn.read(name.as_bytes()).is_some()),
            _ if n < KEYS / 2 => assert!(txn.remove(name.as_bytes())),
            _ => {}
        });
    }
    let (before, _) = keyspace.len(0);
    for n in 1..=500 {
        let victim = evict(&keyspace, &mut context);
        assert!(victim % 2 == 1 && victim >= KEYS / 2, "{victim} was used or removed");
        assert_eq!(keyspace.len(0).0, before - n, "each call evicts one key");
    }
    assert_eq!(keyspace.total(|counters| counters.evicted.get()), 501);
}

#[test]
fn reads_keep_no_key_if_only_changes_count() {
    for policy in [Policy::AllKeysLrm, Policy::VolatileLrm] {
        let (keyspace, mut context) = ranked(policy, 16, 7);
        // The older half is read, and the newer half is changed but for the very newest keys.
        for n in 0..KEYS - 100 {
            let name = n.to_string();
            in_txn(&keyspace, &mut context, &name, |txn| {
                if n < KEYS / 2 {
                    assert!(txn.read(name.as_bytes()).is_some());
                } else {
                    txn.set(name.as_bytes(), Value::string(b"other"), Expiry::Keep);
                }
            });
        }
        for _ in 0..KEYS / 4 {
            let victim = evict(&keyspace, &mut context);
            assert!(victim < KEYS / 2, "{policy:?}: {victim} was changed or is new");
        }
    }
}

#[test]
fn a_key_past_its_expiry_makes_room_as_an_expired_one() {
    let (keyspace, mut context) = ranked(Policy::VolatileTtl, 16, 6);
    let evicted = eviction::evict_one(&keyspace, &mut context, NOW + 2_000_000)
        .expect("all keys are past their expiry");
    assert!(evicted.bytes > 0);
    assert_eq!(keyspace.len(0).0 as u32, KEYS - 1);
    let counts = |counter: fn(&braid_keyspace::Counters) -> u64| keyspace.total(counter);
    assert_eq!((counts(|all| all.evicted.get()), counts(|all| all.expired.get())), (0, 1));
}
