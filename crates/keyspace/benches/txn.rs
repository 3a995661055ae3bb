// SPDX-License-Identifier: BSD-3-Clause
//! Transactions: the cost of a command beyond the table's cost, and the speedup of two threads
//! over one.
//!
//! `cargo bench -p braid-keyspace --bench txn`. The ratios at the end are commands per second of
//! two threads relative to one, best of several rounds each; keys are random, or all the same.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use braid_base::alloc::{CountingAllocator, register_thread};
use braid_base::hash::KeyHasher;
use braid_keyspace::context::Context;
use braid_keyspace::entry::Value;
use braid_keyspace::keyspace::{Keyspace, Shape};
use braid_keyspace::txn::{Expiry, KeyRef, Optimistic, Txn};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const KEYS: u64 = 100_000;
const NOW: i64 = 1_000_000;

fn name(n: u64) -> [u8; 16] {
    let mut name = *b"key:000000000000";
    let mut rest = n;
    for digit in name[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    name
}

fn keyspace(threads: usize) -> Keyspace {
    let shape = Shape { shards: 1024, databases: 16, threads, threads_max: threads };
    let keyspace = Keyspace::new(shape, KeyHasher::with_key(b"0123456789abcdef"));
    let mut context = Context::new(&keyspace, 0);
    (0..KEYS).for_each(|n| set(&keyspace, &mut context, n));
    keyspace
}

#[inline]
fn set(keyspace: &Keyspace, context: &mut Context, n: u64) {
    let name = name(n);
    let keys = [KeyRef { key: &name, hash: keyspace.hash(&name), write: true }];
    Txn::lock(keyspace, context, 0, NOW, &keys).set(&name, Value::string(&[b'v'; 32]), Expiry::Clear);
}

#[inline]
fn get(keyspace: &Keyspace, context: &mut Context, n: u64) -> usize {
    let name = name(n);
    let keys = [KeyRef { key: &name, hash: keyspace.hash(&name), write: false }];
    let txn = Txn::lock(keyspace, context, 0, NOW, &keys);
    txn.string(&name).ok().flatten().map_or(0, |text| text.len())
}

#[inline]
fn get_optimistic(keyspace: &Keyspace, context: &mut Context, n: u64) -> usize {
    let name = name(n);
    let key = KeyRef { key: &name, hash: keyspace.hash(&name), write: false };
    let mut out = [0; 1024];
    match keyspace.read_optimistic(context, 0, NOW, &key, |len| &mut out[..len]) {
        Optimistic::Copied => usize::from(black_box(&out)[0]),
        Optimistic::Failed | Optimistic::Large(_) => get(keyspace, context, n),
        _ => 0,
    }
}

#[divan::bench(sample_count = 30, sample_size = 20_000)]
fn get_random(bencher: divan::Bencher) {
    let (keyspace, mut random) = (keyspace(1), fastrand::Rng::with_seed(1));
    let mut context = Context::new(&keyspace, 0);
    bencher.bench_local(|| get(&keyspace, &mut context, random.u64(0..KEYS)));
}

#[divan::bench(sample_count = 30, sample_size = 20_000)]
fn get_random_optimistic(bencher: divan::Bencher) {
    let (keyspace, mut random) = (keyspace(1), fastrand::Rng::with_seed(1));
    let mut context = Context::new(&keyspace, 0);
    bencher.bench_local(|| get_optimistic(&keyspace, &mut context, random.u64(0..KEYS)));
}

#[divan::bench(sample_count = 30, sample_size = 20_000)]
fn set_random(bencher: divan::Bencher) {
    let (keyspace, mut random) = (keyspace(1), fastrand::Rng::with_seed(1));
    let mut context = Context::new(&keyspace, 0);
    bencher.bench_local(|| set(&keyspace, &mut context, random.u64(0..KEYS)));
}

fn pin(core: usize) {
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(core);
    // Without pinning the figures are noisier but still valid.
    let _ = rustix::thread::sched_setaffinity(None, &cores);
}

/// Seconds for `COMMANDS` commands on each of `threads` pinned threads, in batches of 16 inside the
/// gate.
fn seconds(
    threads: usize,
    keyspace: &Keyspace,
    work: impl Fn(&mut Context, &mut fastrand::Rng) + Sync,
) -> f64 {
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|slot| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    pin(slot);
                    register_thread(slot + 1);
                    let mut context = Context::new(keyspace, slot);
                    let mut random = fastrand::Rng::with_seed(slot as u64);
                    barrier.wait();
                    let start = Instant::now();
                    for _ in 0..COMMANDS / 16 {
                        keyspace.gate.enter(slot);
                        (0..16).for_each(|_| work(&mut context, &mut random));
                        keyspace.gate.leave(slot);
                        context.limbo.reclaim();
                    }
                    let took = start.elapsed().as_secs_f64();
                    register_thread(braid_base::alloc::COUNTERS - 1 - slot);
                    took
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().expect("no panic")).fold(0.0, f64::max)
    })
}

const COMMANDS: u64 = 400_000;

fn ratio(label: &str, work: impl Fn(&Keyspace, &mut Context, &mut fastrand::Rng) + Sync) {
    let keyspace = keyspace(2);
    let (mut one, mut two) = (f64::MAX, f64::MAX);
    for _ in 0..15 {
        one = one.min(seconds(1, &keyspace, |context, random| work(&keyspace, context, random)));
        two = two.min(seconds(2, &keyspace, |context, random| work(&keyspace, context, random)));
    }
    let nanos = |seconds: f64| seconds * 1e9 / COMMANDS as f64;
    let ratio = 2.0 * one / two;
    println!(
        "{label:32} {:6.1} ns alone, {:6.1} ns of two threads, ratio {ratio:.2}",
        nanos(one),
        nanos(two)
    );
}

fn main() {
    if std::env::args().any(|argument| argument == "--bench") {
        ratio("get, random keys, locked", |keyspace, context, random| {
            black_box(get(keyspace, context, random.u64(0..KEYS)));
        });
        ratio("get, random keys, optimistic", |keyspace, context, random| {
            black_box(get_optimistic(keyspace, context, random.u64(0..KEYS)));
        });
        ratio("set, random keys", |keyspace, context, random| set(keyspace, context, random.u64(0..KEYS)));
        ratio("get 9 : set 1, random keys", |keyspace, context, random| {
            let n = random.u64(0..KEYS);
            if random.u32(0..10) == 0 {
                set(keyspace, context, n);
            } else {
                black_box(get_optimistic(keyspace, context, n));
            }
        });
        ratio("get, one hot key, locked", |keyspace, context, _| {
            black_box(get(keyspace, context, 7));
        });
        ratio("get, one hot key, optimistic", |keyspace, context, _| {
            black_box(get_optimistic(keyspace, context, 7));
        });
        ratio("set, one hot key", |keyspace, context, _| set(keyspace, context, 7));
    }
    divan::main();
}
