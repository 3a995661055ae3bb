// SPDX-License-Identifier: BSD-3-Clause
//! Defragmentation: whatever moves, nothing observable changes, and no reader loses memory that it
//! may be using.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use braid_base::alloc::CountingAllocator;
use braid_base::blob::Blob;
use braid_base::hash::KeyHasher;
use braid_base::relocation::Occupancy;
use braid_keyspace::context::Context;
use braid_keyspace::defrag::{Limits, Walk, defragment};
use braid_keyspace::entry::{Value, ValueRef};
use braid_keyspace::keyspace::{Keyspace, Shape};
use braid_keyspace::object::Object;
use braid_keyspace::testing::Texts;
use braid_keyspace::txn::{Expiry, KeyRef, Optimistic, Txn, is_raised};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const NOW: i64 = 1_000_000;
const KEYS: u32 = if cfg!(miri) { 60 } else { 3000 };
const OFF: Limits = Limits {
    is_enabled: false,
    ignore_bytes: 1,
    percent: (10, 100),
    cycle: (1, 25),
    memory_bytes: 0,
    keys_make_room: false,
};

fn keyspace(threads: usize) -> Keyspace {
    let shape = Shape { shards: 4, databases: 2, threads, threads_max: 2 };
    Keyspace::new(shape, KeyHasher::random())
}

fn lock<R>(
    keyspace: &Keyspace,
    context: &mut Context,
    key: &[u8],
    body: impl FnOnce(&mut Txn<'_>) -> R,
) -> R {
    let keys = [KeyRef { key, hash: keyspace.hash(key), write: true }];
    keyspace.gate.enter(context.slot);
    let result = body(&mut Txn::lock(keyspace, context, 0, NOW, &keys));
    keyspace.gate.leave(context.slot);
    result
}

fn name(number: u32) -> Vec<u8> {
    format!("key:{number}").into_bytes()
}

/// A text whose bytes and length depend on a number.
fn text(number: u32) -> Vec<u8> {
    vec![number as u8 | 1; [3, 30, 900, 3000][number as usize / 8 % 4]]
}

fn value(number: u32) -> Value<'static> {
    match number % 4 {
        0 => Value::Integer(i64::from(number)),
        1 => Value::Object(Object::new(Texts(vec![text(number), text(number + 9)]))),
        _ => Value::Blob(Blob::from_slice(&[number as u8; 3000])),
    }
}

fn fill(keyspace: &Keyspace, context: &mut Context) {
    for number in 0..KEYS {
        let key = name(number);
        let expiry = if number % 3 == 0 { Expiry::At(NOW + i64::from(number)) } else { Expiry::Clear };
        lock(keyspace, context, &key, |txn| match number % 5 {
            0 | 1 => txn.set(&key, Value::plain(&text(number), false), expiry),
            _ => txn.set(&key, value(number), expiry),
        });
    }
}

/// Everything that a client can see of a key.
fn seen(
    keyspace: &Keyspace,
    context: &mut Context,
    key: &[u8],
) -> Option<(Vec<u8>, String, Option<i64>, u32)> {
    lock(keyspace, context, key, |txn| {
        let entry = txn.peek(key)?;
        let content = match entry.value() {
            ValueRef::Bytes(bytes) => bytes.to_vec(),
            ValueRef::Integer(number) => number.to_string().into_bytes(),
            ValueRef::Blob(blob) => blob.to_vec(),
            ValueRef::Object(object) => object.get::<Texts>().expect("texts").0.concat(),
        };
        Some((content, entry.encoding_name().to_owned(), entry.expiry(), entry.clock()))
    })
}

fn address(keyspace: &Keyspace, context: &mut Context, key: &[u8]) -> u64 {
    lock(keyspace, context, key, |txn| txn.peek(key).expect("a key").address())
}

/// Moves everything once.
fn move_all(keyspace: &Keyspace, context: &mut Context) {
    keyspace.defrag.set_moves_all(true);
    let mut walk = Walk::default();
    let goal = context.counters.defrag_key_hits.get() + keyspace.len(0).0 as u64;
    while context.counters.defrag_key_hits.get() < goal {
        keyspace.gate.enter(context.slot);
        assert!(defragment(keyspace, context, &mut walk, 200_000, &mut |_| true));
        keyspace.gate.leave(context.slot);
        context.limbo.reclaim();
    }
}

#[test]
fn nothing_observable_changes() {
    for threads in [1, 2] {
        let keyspace = keyspace(threads);
        let mut context = Context::new(&keyspace, 0);
        fill(&keyspace, &mut context);
        let watched = name(7);
        let flag = lock(&keyspace, &mut context, &watched, |txn| {
            let flag = braid_keyspace::txn::new_watch_flag();
            txn.watch(&watched, &flag);
            flag
        });
        let states: Vec<_> = (0..KEYS).map(|n| seen(&keyspace, &mut context, &name(n))).collect();
        let addresses = |context: &mut Context| {
            (0..KEYS).map(|n| address(&keyspace, context, &name(n))).collect::<Vec<_>>()
        };
        let before = addresses(&mut context);
        let dirty = context.counters.dirty.get();
        for round in 0..3 {
            move_all(&keyspace, &mut context);
            if round == 0 {
                // A few have moved twice, and may be back.
                let now = addresses(&mut context);
                let moved = now.iter().zip(&before).filter(|(now, before)| now != before).count();
                assert!(moved > KEYS as usize / 2, "{moved} entries have moved");
            }
            for (number, state) in (0..).zip(&states) {
                assert_eq!(seen(&keyspace, &mut context, &name(number)), *state, "{number}");
            }
        }
        assert!(!is_raised(&flag) && context.counters.dirty.get() == dirty);
        assert_eq!(
            keyspace.len(0),
            (
                KEYS as usize,
                (0..KEYS)
                    .filter(|n| n % 3 == 0 && seen(&keyspace, &mut context, &name(*n)).is_some())
                    .count()
            )
        );
    }
}

/// A reader inside the gate may still use the old entry: its memory must not be reused.
#[test]
fn old_memory_outlives_a_reader_inside_the_gate() {
    let keyspace = keyspace(2);
    let mut context = Context::new(&keyspace, 0);
    fill(&keyspace, &mut context);
    let key = name(0);
    let entry_at = address(&keyspace, &mut context, &key);
    keyspace.gate.enter(1);
    move_all(&keyspace, &mut context);
    context.limbo.reclaim_now();
    let mut others: Vec<Vec<u8>> = Vec::new();
    for len in [8, 16, 24, 32, 40] {
        others.extend((0..if cfg!(miri) { 20 } else { 2000 }).map(|_| vec![0xff; len]));
    }
    // SAFETY: a thread is inside the gate since before the entry was retired, so it is not freed.
    let old = unsafe { braid_keyspace::Entry::from_address(entry_at) };
    let (is_whole, waits) = (old.key() == key, !context.limbo.is_empty());
    // Before a failure, too: a limbo that is dropped waits for the reader.
    keyspace.gate.leave(1);
    assert!(is_whole && waits, "the old entry is freed once nobody is inside");
}

#[test]
fn values_with_two_owners_stay() {
    let keyspace = keyspace(2);
    let mut context = Context::new(&keyspace, 0);
    let shared = Blob::from_slice(&[b'v'; 3000]);
    lock(&keyspace, &mut context, b"long", |txn| {
        txn.set(b"long", Value::Blob(shared.clone()), Expiry::Clear)
    });
    lock(&keyspace, &mut context, b"short", |txn| {
        txn.set(b"short", Value::plain(b"text", false), Expiry::Clear)
    });
    let world = keyspace.gate.stop_world(None);
    let held = Txn::world(&keyspace, &mut context, world, 0, NOW).hold(b"short").expect("held");
    let (long_at, short_at) = (shared.as_ptr(), address(&keyspace, &mut context, b"short"));
    keyspace.defrag.set_moves_all(true);
    let mut walk = Walk::default();
    for _ in 0..3 {
        keyspace.gate.enter(0);
        defragment(&keyspace, &mut context, &mut walk, 200_000, &mut |_| true);
        keyspace.gate.leave(0);
    }
    lock(&keyspace, &mut context, b"long", |txn| match txn.peek(b"long").expect("a key").value() {
        ValueRef::Blob(blob) => assert_eq!(blob.as_ptr(), long_at),
        _ => panic!("a blob"),
    });
    assert_eq!(address(&keyspace, &mut context, b"short"), short_at);
    assert_eq!(held.value(), b"text");
}

/// Lock-free readers and a writer, while another thread moves everything.
#[test]
fn readers_see_whole_values_while_all_of_them_move() {
    let keyspace = keyspace(2);
    let mut context = Context::new(&keyspace, 0);
    fill(&keyspace, &mut context);
    let (stop, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut context = Context::new(&keyspace, 1);
            let mut random = fastrand::Rng::with_seed(7);
            while !stop.load(Relaxed) {
                let number = random.u32(0..KEYS);
                let key = name(number);
                keyspace.gate.enter(1);
                let read = KeyRef { key: &key, hash: keyspace.hash(&key), write: false };
                let (mut out, mut len) = ([0; 1024], 0);
                let outcome = keyspace.read_optimistic(&context, 0, NOW, &read, |room| {
                    len = room;
                    &mut out[..room]
                });
                if outcome == Optimistic::Copied {
                    assert_eq!(out[..len], text(number)[..], "torn");
                    reads.fetch_add(1, Relaxed);
                }
                keyspace.gate.leave(1);
                if random.u8(..) == 0 && number % 5 < 2 {
                    lock(&keyspace, &mut context, &key, |txn| {
                        txn.set(&key, Value::plain(&text(number), false), Expiry::Keep);
                    });
                }
                context.limbo.reclaim();
            }
        });
        for _ in 0..if cfg!(miri) { 2 } else { 40 } {
            move_all(&keyspace, &mut context);
        }
        stop.store(true, Relaxed);
    });
    assert!(reads.load(Relaxed) > 0);
}

#[test]
fn scarce_memory_is_worth_more_time() {
    let keyspace = keyspace(1);
    let mut context = Context::new(&keyspace, 0);
    fill(&keyspace, &mut context);
    let on = Limits { is_enabled: true, ignore_bytes: 1000, memory_bytes: 10_000, ..OFF };
    let found = |active| move || Occupancy { allocated: 9_000, active };
    let shares = || (keyspace.defrag.share(), keyspace.defrag.busy_share());
    keyspace.review_defrag(on, NOW, found(10_300));
    assert_eq!(shares(), (2, 2), "a waste of 14 percent");
    // During a pass, too, and back.
    keyspace.review_defrag(on, NOW, found(10_400));
    assert_eq!(shares(), (25, 25));
    keyspace.review_defrag(on, NOW, found(10_000));
    assert_eq!(shares(), (25, 4));
    keyspace.review_defrag(Limits { keys_make_room: true, ..on }, NOW, found(9_000));
    assert_eq!(shares(), (25, 25), "whatever the waste");
    keyspace.review_defrag(Limits { is_enabled: false, ..on }, NOW, found(20_000));
    assert_eq!(shares(), (0, 0));
}

#[test]
fn a_pass_starts_above_the_thresholds_and_ends() {
    let keyspace = keyspace(1);
    let mut context = Context::new(&keyspace, 0);
    fill(&keyspace, &mut context);
    let on = Limits { is_enabled: true, ignore_bytes: 1000, ..OFF };
    let used = |allocated, active| move || Occupancy { allocated, active };
    keyspace.review_defrag(OFF, NOW, used(1000, 9000));
    assert_eq!(keyspace.defrag.share(), 0);
    keyspace.review_defrag(on, NOW, used(10_000, 10_900));
    assert_eq!(keyspace.defrag.share(), 0, "too little waste");
    keyspace.review_defrag(on, NOW, used(10_000, 11_100));
    assert_eq!(keyspace.defrag.share(), 1);
    assert_eq!(keyspace.defrag.run_ms(NOW + 5), (5, 5));
    // Under way: nothing is decided anew.
    keyspace.review_defrag(on, NOW + 10, || panic!("a pass is under way"));
    let mut walk = Walk::default();
    while defragment(&keyspace, &mut context, &mut walk, 250_000, &mut |_| true) {}
    let total = context.counters.defrag_key_hits.get() + context.counters.defrag_key_misses.get();
    assert_eq!(total, u64::from(KEYS), "each key once");
    // A pass that was of no use is not repeated at once.
    if context.counters.defrag_hits.get() == 0 {
        keyspace.review_defrag(on, NOW + 20, used(10_000, 20_000));
        assert_eq!(keyspace.defrag.share(), 0);
        keyspace.review_defrag(on, NOW + 60_000, used(10_000, 20_000));
        assert_eq!(keyspace.defrag.share(), 25);
    }
    while defragment(&keyspace, &mut context, &mut walk, 250_000, &mut |_| true) {}
    keyspace.review_defrag(on, NOW + 90_000, used(10_000, 10_000));
    assert_eq!((keyspace.defrag.share(), keyspace.defrag.run_ms(NOW + 95_000).1), (0, 0));
    // A request needs no waste.
    keyspace.defrag.request();
    keyspace.review_defrag(OFF, NOW + 99_000, used(10_000, 10_000));
    assert_eq!(keyspace.defrag.share(), 25);
}

/// The number of threads may shrink while one of them has a shard.
#[test]
fn a_thread_that_ends_does_not_hold_up_the_pass() {
    let keyspace = keyspace(2);
    let mut context = Context::new(&keyspace, 0);
    fill(&keyspace, &mut context);
    keyspace.defrag.request();
    keyspace.review_defrag(OFF, NOW, Occupancy::default);
    let mut left = Walk::default();
    keyspace.gate.enter(0);
    assert!(defragment(&keyspace, &mut context, &mut left, 0, &mut |_| true) || keyspace.defrag.share() > 0);
    defragment(&keyspace, &mut context, &mut left, 1_000, &mut |_| true);
    drop(left);
    let mut walk = Walk::default();
    while defragment(&keyspace, &mut context, &mut walk, 250_000, &mut |_| true) {}
    keyspace.gate.leave(0);
    for second in 1..4 {
        keyspace.review_defrag(OFF, NOW + second * 1000, Occupancy::default);
    }
    assert_eq!(keyspace.defrag.share(), 0);
}
