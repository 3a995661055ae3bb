// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the table against a plain map, with a checker that walks the whole table and verifies
//! every invariant stated in `table.rs`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use braid_base::gate::Gate;
use braid_base::hash::KeyHasher;
use proptest::prelude::*;

use super::segment::{BUCKETS_MAX, NO_EXPIRY};
use super::*;
use crate::entry::{Value, ValueRef};
use crate::lazy_free::LazyFree;

/// The tests' hash functions: a good one, and degenerate ones such as an attacker who knows the
/// seeds could cause.
#[derive(Clone, Copy, Debug)]
enum Hashing {
    Good,
    /// All positions at the end of the range: every home is the last bucket, and overflow wraps
    /// around.
    OneHome,
    /// The same tag for all keys.
    OneTag,
    /// Four different values of the bits that choose the directory word.
    FewPrefixes,
    /// The directory bits are nearly always zero: splits are lopsided.
    Lopsided,
}

const HASHINGS: [Hashing; 5] =
    [Hashing::Good, Hashing::OneHome, Hashing::OneTag, Hashing::FewPrefixes, Hashing::Lopsided];

impl Hashing {
    fn hash(self, key: &[u8]) -> u64 {
        let hash = KeyHasher::with_key(b"0123456789abcdef").hash(key);
        match self {
            Hashing::Good => hash,
            Hashing::OneHome => hash | 0xff_ff00,
            Hashing::OneTag => hash & !0xff | 0x42,
            Hashing::FewPrefixes => hash & !(0xff_ffff_ffffu64 << 24) | (hash >> 62 << 50),
            Hashing::Lopsided if hash.is_multiple_of(16) => hash,
            Hashing::Lopsided => hash & 0xffff_ffff_ffff | (hash >> 56 & 7) << 48,
        }
    }
}

/// A table together with the arguments of its operations.
struct Rig {
    table: Table,
    limbo: Limbo,
    hashing: Hashing,
    shard_bits: u32,
}

impl Rig {
    fn new(hashing: Hashing, shard_bits: u32) -> Rig {
        let limbo = Limbo::new(Arc::new(Gate::new(2)), LazyFree::start());
        Rig { table: Table::default(), limbo, hashing, shard_bits }
    }

    fn find(&self, key: &[u8]) -> Option<Entry<'static>> {
        // SAFETY: the only thread.
        unsafe { self.table.find(self.hashing.hash(key), self.shard_bits, key) }
    }

    fn put(&mut self, key: &[u8], value: i64, expiry: Option<i64>) {
        let (hash, hashing) = (self.hashing.hash(key), self.hashing);
        let entry = Entry::allocate(key, Value::Integer(value), expiry, 0);
        // SAFETY: the only thread; a replaced entry is retired once.
        unsafe {
            match self.find(key) {
                Some(old) => {
                    self.table.replace(hash, self.shard_bits, old, entry);
                    self.limbo.retire_entry(old);
                }
                None => {
                    let rehash = |key: &[u8]| hashing.hash(key);
                    self.table.insert(hash, self.shard_bits, entry, &mut self.limbo, &rehash);
                }
            }
        }
        self.limbo.reclaim();
    }

    fn remove(&mut self, key: &[u8]) -> bool {
        let Some(entry) = self.find(key) else { return false };
        // SAFETY: the only thread; the entry is linked, and retired once.
        unsafe {
            self.table.remove(self.hashing.hash(key), self.shard_bits, entry, &mut self.limbo);
            self.limbo.retire_entry(entry);
        }
        self.limbo.reclaim();
        true
    }

    fn scan(&self, cursor: TableCursor, count: usize, seen: &mut Vec<Vec<u8>>) -> Option<TableCursor> {
        // SAFETY: the only thread.
        unsafe { self.table.scan(cursor, count, |entry| seen.push(entry.key().to_vec())) }
    }

    fn expired(&self, now_ms: i64, budget: usize) -> (HashSet<Vec<u8>>, bool) {
        let mut due = Vec::new();
        // SAFETY: the only thread.
        let (_, complete) = unsafe { self.table.expired(now_ms, budget, &mut due) };
        (due.iter().map(|entry| entry.key().to_vec()).collect(), complete)
    }

    /// Walks the whole table and checks the invariants stated in `table.rs`.
    fn verify(&self) {
        let root = self.table.root.load(Relaxed);
        if root == 0 {
            assert_eq!((self.table.len(), self.table.expires()), (0, 0));
            return;
        }
        let words: Vec<u64> = if root & DIRECTORY == 0 {
            vec![root]
        } else {
            Table::directory(root).iter().map(|word| word.load(Relaxed)).collect()
        };
        let global = words.len().ilog2();
        let (mut index, mut len, mut expires, mut earliest) = (0, 0, 0, NO_EXPIRY);
        let mut deepest = 0;
        while index < words.len() {
            let segment = Segment(words[index]);
            assert!(!segment.is_null(), "directories have no empty words");
            let depth = segment.header().depth.load(Relaxed);
            deepest = deepest.max(depth);
            let span = 1 << (global - depth);
            assert!(index % span == 0 && words[index..index + span].iter().all(|&word| word == segment.0));
            let prefix = (index / span) as u64;
            let found = self.verify_segment(segment, depth, prefix);
            len += found.0;
            expires += found.1;
            earliest = earliest.min(found.2);
            index += span;
        }
        assert_eq!(deepest, global, "the directory is as deep as its deepest segment, after removals too");
        assert_eq!((self.table.len(), self.table.expires()), (len, expires));
        match self.table.next_expiry() {
            None => assert_eq!(expires, 0),
            Some(bound) => assert!(bound <= earliest.max(1), "a bound of {bound} above {earliest}"),
        }
    }

    fn verify_segment(&self, segment: Segment, depth: u32, prefix: u64) -> (usize, usize, i64) {
        let buckets = segment.buckets();
        let (mut len, mut expires, mut earliest) = (0, 0, NO_EXPIRY);
        let mut passed = vec![0usize; buckets];
        for at in 0..buckets {
            let bucket = segment.bucket(at);
            let tags = bucket.tags.load(Relaxed);
            for slot in 0..SLOTS {
                let (tag, word) = ((tags >> (8 * slot)) as u8, bucket.slots[slot].load(Relaxed));
                assert_eq!(tag == 0, word == 0, "a slot has a tag if and only if it has an entry");
                if word == 0 {
                    continue;
                }
                let entry = entry_of(word);
                let hash = self.hashing.hash(entry.key());
                assert_eq!((tag, word >> 48), (tag_of(hash), position_of(hash)));
                assert_eq!(word & EXPIRES != 0, entry.has_expiry());
                let below = below_shard(hash, self.shard_bits);
                assert_eq!(
                    below.checked_shr(64 - depth).unwrap_or(0),
                    prefix,
                    "an entry is in the wrong segment"
                );
                let mut on_the_way = home_of(position_of(hash), buckets);
                while on_the_way != at {
                    passed[on_the_way] += 1;
                    on_the_way = (on_the_way + 1) % buckets;
                }
                len += 1;
                expires += usize::from(entry.has_expiry());
                earliest = earliest.min(entry.expiry().unwrap_or(NO_EXPIRY));
            }
        }
        for (at, passed) in passed.into_iter().enumerate() {
            let counted = (segment.bucket(at).tags.load(Relaxed) >> 56) as usize;
            assert!(
                counted == 255 || counted == passed,
                "bucket {at} counts {counted} passing entries, there are {passed}"
            );
        }
        assert_eq!(segment.len(), len);
        assert!(len <= limit(buckets), "{len} entries in {buckets} buckets");
        assert!(segment.header().next_expiry.load(Relaxed) <= earliest);
        (len, expires, earliest)
    }
}

fn value_of(entry: Entry<'_>) -> (i64, Option<i64>) {
    let ValueRef::Integer(value) = entry.value() else { panic!("the value is not an integer") };
    (value, entry.expiry())
}

/// Key number `n`: short, long, or empty.
fn key(n: u32) -> Vec<u8> {
    match n {
        0 => Vec::new(),
        n if n.is_multiple_of(97) => format!("{n}{}", "long".repeat(100)).into_bytes(),
        n => format!("key:{n}").into_bytes(),
    }
}

/// `phases`: number of operations, and the percentage of insertions (the rest are removals).
fn run_against_map(hashing: Hashing, shard_bits: u32, seed: u64, keys: u32, phases: &[(u32, u32)]) {
    let (mut rig, mut model) = (Rig::new(hashing, shard_bits), HashMap::new());
    let mut random = fastrand::Rng::with_seed(seed);
    for &(operations, inserts) in phases {
        for _ in 0..operations {
            let name = key(random.u32(0..keys));
            if random.u32(0..100) < inserts {
                let (value, expiry) = (random.i64(..), random.bool().then(|| random.i64(-5..1000)));
                rig.put(&name, value, expiry);
                model.insert(name, (value, expiry));
            } else {
                assert_eq!(rig.remove(&name), model.remove(&name).is_some());
            }
        }
        rig.verify();
        for n in 0..keys {
            let name = key(n);
            assert_eq!(rig.find(&name).map(value_of), model.get(&name).copied(), "key {n}");
        }
        let mut walked = HashSet::new();
        // SAFETY: the only thread.
        unsafe { rig.table.for_each(|entry| assert!(walked.insert(entry.key().to_vec()))) };
        assert_eq!(walked.len(), model.len());
    }
    let names: Vec<_> = model.into_keys().collect();
    for name in names {
        assert!(rig.remove(&name));
    }
    rig.verify();
    assert_eq!(
        (rig.table.structure_bytes(), rig.table.root.load(Relaxed)),
        (0, 0),
        "an empty table has no memory"
    );
}

/// Divisor of the tests' sizes.
const SHORTENING: u32 = if cfg!(miri) { 20 } else { 1 };
const CASES: u32 = if cfg!(miri) { 2 } else { 40 };

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_table_is_a_map(
        seed in any::<u64>(),
        shard_bits in prop::sample::select(vec![0u32, 1, 10, 16]),
        hashing in prop::sample::select(HASHINGS.to_vec()),
        keys in prop::sample::select(vec![5u32, 60, 700, 6_000 / SHORTENING]),
        phases in prop::collection::vec((0u32..5_000 / SHORTENING, 0u32..=100), 1..5),
    ) {
        run_against_map(hashing, shard_bits, seed, keys, &phases);
    }

    #[test]
    fn a_scan_returns_every_key_that_stays(
        seed in any::<u64>(),
        hashing in prop::sample::select(HASHINGS.to_vec()),
        stay in 0u32..2_000 / SHORTENING,
        count in 1usize..60,
        churn in 0u32..40 / SHORTENING,
    ) {
        let mut rig = Rig::new(hashing, 3);
        let mut random = fastrand::Rng::with_seed(seed);
        (0..stay).for_each(|n| rig.put(&key(n), 0, None));
        let (mut cursor, mut seen, mut growing) = (TableCursor::default(), Vec::new(), true);
        loop {
            let before = seen.len();
            let next = rig.scan(cursor, count, &mut seen);
            let Some(next) = next else { break };
            prop_assert!(seen.len() - before >= count, "fewer keys than requested");
            let ((prefix, _, position), (old_prefix, _, old_position)) = (next.parts(), cursor.parts());
            prop_assert!((prefix, position) > (old_prefix, old_position), "the cursor did not advance");
            cursor = TableCursor::from_bits(next.bits());
            if random.u32(0..6) == 0 {
                growing = !growing;
            }
            for _ in 0..churn * count as u32 {
                let name = key(stay + random.u32(0..8_000 / SHORTENING));
                if growing {
                    rig.put(&name, 1, None);
                } else {
                    rig.remove(&name);
                }
            }
        }
        let seen: HashSet<_> = seen.into_iter().collect();
        for n in 0..stay {
            prop_assert!(seen.contains(&key(n)), "key {} was present throughout but not returned", n);
        }
    }

    #[test]
    fn cursors_keep_their_parts(depth in 0..=DEPTH_MAX, bits in any::<u64>(), position in 1u64..0x1_0000) {
        let prefix = (bits >> 40) & !((1 << (DEPTH_MAX - depth)) - 1);
        let cursor = TableCursor::new(prefix, depth, position);
        prop_assert_eq!(TableCursor::from_bits(cursor.bits()).parts(), (prefix, depth, position));
        prop_assert!(cursor.bits() >> TableCursor::BITS == 0);
    }

    #[test]
    fn expired_finds_exactly_the_due_keys(seed in any::<u64>(), keys in 0u32..3_000 / SHORTENING, share in 0u32..=100) {
        let mut rig = Rig::new(Hashing::Good, 0);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut model = HashMap::new();
        for n in 0..keys {
            let expiry = (random.u32(0..100) < share).then(|| random.i64(-100..10_000));
            rig.put(&key(n), 0, expiry);
            model.insert(key(n), expiry);
        }
        for now_ms in [-200, 0, 1, 5_000, 9_999, 20_000] {
            let want: HashSet<_> =
                model.iter().filter(|(_, at)| at.is_some_and(|at| at < now_ms)).map(|(name, _)| name.clone()).collect();
            let (due, complete) = rig.expired(now_ms, usize::MAX);
            prop_assert!(complete);
            prop_assert_eq!(&due, &want, "due at {}", now_ms);
            for name in &due {
                rig.remove(name);
                model.remove(name);
            }
            rig.verify();
            // All segments that might have due entries were walked: no entry is due any more, and
            // the bound says so.
            prop_assert!(rig.table.next_expiry().is_none_or(|at| at >= now_ms));
        }
        prop_assert_eq!(rig.table.expires(), 0);
    }
}

#[test]
fn growth_goes_through_all_classes_and_back() {
    let mut rig = Rig::new(Hashing::Good, 0);
    let (mut classes, mut deepest) = (HashSet::new(), 0);
    for n in 0..20_000 {
        rig.put(&key(n), i64::from(n), None);
        let root = rig.table.root.load(Relaxed);
        if root & DIRECTORY == 0 {
            classes.insert(Segment(root).buckets() as u16 + 1);
        } else {
            deepest = deepest.max(root >> 48);
        }
        if n % 1_000 == 0 {
            rig.verify();
        }
    }
    assert_eq!(classes, HashSet::from(CLASSES), "a lone segment did not go through every class");
    assert!(deepest >= 6, "20000 keys need about 64 segments: depth {deepest}");
    let (_, slots) = rig.table.shape();
    assert!(slots < 20_000 * 2, "segments are half full or more: {slots} slots");
    for n in 0..20_000 {
        assert!(rig.remove(&key(n)));
        if n % 1_000 == 0 {
            rig.verify();
        }
        // Memory falls with the number of keys: a bucket line holds 7, and a segment is at least a
        // quarter full, except for the directory and segments whose neighbours are still large.
        if n == 19_000 {
            assert!(rig.table.structure_bytes() < 1_000 * 64, "{} bytes", rig.table.structure_bytes());
        }
    }
    rig.verify();
    assert_eq!(rig.table.structure_bytes(), 0);
}

#[test]
fn thousands_of_equal_hashes_only_cost_time() {
    // A split cannot separate these keys: segments outgrow all classes at the greatest depth, and
    // shrink again.
    let mut rig = Rig::new(Hashing::Good, 0);
    let hash = 0x0123_4567_89ab_cdef;
    let names: Vec<_> = (0..2_000).map(|n| format!("same {n}")).collect();
    let put = |rig: &mut Rig, name: &str| {
        let entry = Entry::allocate(name.as_bytes(), Value::Integer(1), None, 0);
        // SAFETY: the only thread; the key is not there.
        unsafe { rig.table.insert(hash, 0, entry, &mut rig.limbo, &|_| hash) };
    };
    let find = |rig: &Rig, name: &str| {
        // SAFETY: the only thread.
        unsafe { rig.table.find(hash, 0, name.as_bytes()) }
    };
    names.iter().for_each(|name| put(&mut rig, name));
    assert!(names.iter().all(|name| find(&rig, name).is_some()));
    let mut seen = 0;
    // SAFETY: the only thread.
    unsafe { assert_eq!(rig.table.scan(TableCursor::default(), usize::MAX, |_| seen += 1), None) };
    assert_eq!(seen, names.len());
    for (done, name) in names.iter().enumerate() {
        let entry = find(&rig, name).expect("not yet removed");
        // SAFETY: the only thread; linked, and retired once.
        unsafe {
            rig.table.remove(hash, 0, entry, &mut rig.limbo);
            rig.limbo.retire_entry(entry);
        }
        if done % 100 == 0 {
            assert!(names[done + 1..].iter().all(|name| find(&rig, name).is_some()));
        }
    }
    assert_eq!(
        rig.table.structure_bytes(),
        0,
        "all memory is freed, though all but one segment never held a key"
    );
}

#[test]
fn expiry_stops_at_its_budget_and_resumes_later() {
    let mut rig = Rig::new(Hashing::Good, 0);
    (0..5_000).for_each(|n| rig.put(&key(n), 0, Some(10)));
    let (mut removed, mut passes) = (0, 0);
    loop {
        let (due, complete) = rig.expired(11, 100);
        // A segment is walked to its end: a budget overshoots by less than one segment.
        assert!(due.len() < 100 + BUCKETS_MAX * SLOTS);
        for name in &due {
            rig.remove(name);
        }
        removed += due.len();
        passes += 1;
        rig.verify();
        assert!(
            complete || rig.table.next_expiry().is_some_and(|at| at <= 10),
            "the remaining keys keep the bound down"
        );
        if complete {
            break;
        }
    }
    assert_eq!((removed, rig.table.len()), (5_000, 0));
    assert!(passes >= 5_000 / (100 + BUCKETS_MAX * SLOTS));
}

#[test]
fn walking_for_nothing_uses_the_budget_up() {
    // Keys that lost their expiry leave stale bounds behind: many segments are walked without a
    // result.
    let mut rig = Rig::new(Hashing::Good, 0);
    (0..20_000).for_each(|n| rig.put(&key(n), 0, Some(10)));
    (1..20_000).for_each(|n| rig.put(&key(n), 0, None));
    let mut due = Vec::new();
    // SAFETY: the only thread.
    let (looked, complete) = unsafe { rig.table.expired(11, 50, &mut due) };
    assert!(!complete && looked < 100, "{looked} of a budget of 50");
    rig.verify();
}

#[test]
fn an_expiry_changed_in_place_lowers_the_bounds() {
    let mut rig = Rig::new(Hashing::Good, 0);
    rig.put(b"a", 0, Some(1_000));
    rig.put(b"b", 0, Some(2_000));
    let entry = rig.find(b"b").expect("just put");
    entry.set_expiry(500);
    // SAFETY: the only thread; the entry is in the table.
    unsafe { rig.table.expiry_changed(rig.hashing.hash(b"b"), 0, entry) };
    rig.verify();
    assert_eq!(rig.table.next_expiry(), Some(500));
    assert_eq!(rig.expired(501, 100).0, HashSet::from([b"b".to_vec()]));
}

#[test]
fn sampling_finds_only_entries_and_every_one_of_them() {
    for keys in [0, 1, 5, 300 / SHORTENING, 3_000 / SHORTENING] {
        let mut rig = Rig::new(Hashing::Good, 4);
        (0..keys).for_each(|n| rig.put(&key(n), 0, None));
        let mut random = fastrand::Rng::with_seed(u64::from(keys));
        let mut seen = HashSet::new();
        for word in [0, u64::MAX].into_iter().chain((0..keys * 60 + 60).map(|_| random.u64(..))) {
            let mut found = 0;
            // SAFETY: the only thread.
            unsafe {
                rig.table.sample(word, 4, |entry| {
                    found += 1;
                    seen.insert(entry.key().to_vec());
                });
            }
            assert!(found <= SLOTS);
        }
        assert_eq!(seen, (0..keys).map(key).collect());
    }
}

#[test]
fn swapping_exchanges_everything() {
    let (mut one, mut other) = (Rig::new(Hashing::Good, 0), Rig::new(Hashing::Good, 0));
    (0..1_000).for_each(|n| one.put(&key(n), 1, Some(100)));
    other.put(b"lone", 2, None);
    // SAFETY: the only thread.
    unsafe { one.table.swap(&other.table) };
    one.verify();
    other.verify();
    assert_eq!((one.table.len(), one.table.expires(), one.table.next_expiry()), (1, 0, None));
    assert_eq!(
        (other.table.len(), other.table.expires(), other.table.next_expiry()),
        (1_000, 1_000, Some(100))
    );
    assert!(one.find(b"lone").is_some() && other.find(&key(7)).is_some());
}

#[test]
fn cursors_from_outside_are_harmless() {
    let mut rig = Rig::new(Hashing::Good, 0);
    (0..2_000).for_each(|n| rig.put(&key(n), 0, None));
    let mut random = fastrand::Rng::with_seed(1);
    for bits in
        [0, u64::MAX, 1 << TableCursor::BITS, 0xffff].into_iter().chain((0..500).map(|_| random.u64(..)))
    {
        let mut seen = Vec::new();
        rig.scan(TableCursor::from_bits(bits), 10, &mut seen);
        assert!(seen.len() <= 10 + 2_000);
    }
}

#[test]
fn weighed_scan_stops_at_its_weight_limit() {
    let mut rig = Rig::new(Hashing::Good, 0);
    (0..2000).for_each(|number| rig.put(format!("key:{number}").as_bytes(), number, None));
    let (mut cursor, mut seen, mut steps) = (Some(TableCursor::default()), 0, 0);
    while let Some(at) = cursor {
        let before = seen;
        // SAFETY: the only thread.
        cursor = unsafe {
            rig.table.scan_weighed(at, 100, |_| {
                seen += 1;
                50
            })
        };
        // Entries with the same home are visited together.
        assert!(seen - before < 20, "{}", seen - before);
        steps += 1;
    }
    assert!(seen == 2000 && steps > 200, "{seen} in {steps}");
}
