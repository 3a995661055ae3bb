// SPDX-License-Identifier: BSD-3-Clause
//! Lists, sets and hashes: time per operation (divan), and resident bytes per element (printed
//! first, as jemalloc counts them).
//!
//! `cargo bench -p braid-types --bench collections`

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicUsize, Ordering};

use braid_containers::listpack::Element;
use braid_containers::thin_block::size_class;
use braid_values::hash::{Expiry, Hash, HashLimits};
use braid_values::list::{End, List, ListLimits};
use braid_values::set::{Set, SetLimits, intersection};
use divan::{Bencher, black_box};
use tikv_jemallocator::Jemalloc;

/// The server's allocator, counting allocated bytes by its size classes.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded to jemalloc unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(size_class(layout.size()), Ordering::Relaxed);
        // SAFETY: the caller's guarantees are passed on.
        unsafe { Jemalloc.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(size_class(layout.size()), Ordering::Relaxed);
        // SAFETY: the caller's guarantees are passed on.
        unsafe { Jemalloc.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        LIVE.fetch_sub(size_class(layout.size()), Ordering::Relaxed);
        // SAFETY: the caller's guarantees are passed on.
        unsafe { Jemalloc.dealloc(place, layout) }
    }
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LIVE.fetch_add(size_class(size), Ordering::Relaxed);
        LIVE.fetch_sub(size_class(layout.size()), Ordering::Relaxed);
        // SAFETY: the caller's guarantees are passed on.
        unsafe { Jemalloc.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MANY: usize = 400_000;
const NOW: i64 = 1_000;

fn text16(number: usize) -> [u8; 16] {
    // Spread over the range, like keys in random order; in hexadecimal, which costs next to
    // nothing.
    let spread = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16;
    let mut text = *b"m:00000000000000";
    for (index, byte) in text.iter_mut().rev().take(12).enumerate() {
        *byte = b'a' + (spread >> (4 * index)) as u8 % 16;
    }
    text
}

fn value32(number: usize) -> [u8; 32] {
    let mut value = [b'v'; 32];
    value[..16].copy_from_slice(&text16(number));
    value
}

fn big_set(members: usize) -> Set {
    let (mut set, limits) = (Set::default(), SetLimits::default());
    (0..members).for_each(|number| {
        set.add(&text16(number), NOW, &limits);
    });
    set
}

fn big_hash(fields: usize) -> Hash {
    let (mut hash, limits) = (Hash::new(), HashLimits::default());
    (0..fields).for_each(|number| {
        hash.set(&text16(number), &value32(number), Expiry::Clear, NOW, &limits);
    });
    hash
}

fn big_list(elements: usize) -> List {
    let (mut list, limits) = (List::new(), ListLimits::default());
    (0..elements).for_each(|number| list.push(End::Back, &value32(number), &limits));
    list
}

fn small_hash(fields: usize) -> Hash {
    let (mut hash, limits) = (Hash::new(), HashLimits::default());
    for number in 0..fields {
        let (field, value) = (format!("field{number}"), format!("value:{number:04}"));
        hash.set(field.as_bytes(), value.as_bytes(), Expiry::Clear, NOW, &limits);
    }
    hash
}

fn bytes_of<T>(make: impl FnOnce() -> T) -> usize {
    let before = LIVE.load(Ordering::Relaxed);
    let kept = make();
    let after = LIVE.load(Ordering::Relaxed);
    drop(kept);
    after - before
}

fn main() {
    println!(
        "set, 400,000 x 16:            {:6.1} bytes a member",
        bytes_of(|| big_set(MANY)) as f64 / MANY as f64
    );
    println!(
        "hash, 400,000 x (16 + 32):    {:6.1} bytes a field",
        bytes_of(|| big_hash(MANY)) as f64 / MANY as f64
    );
    println!(
        "list, 400,000 x 32:           {:6.1} bytes an element",
        bytes_of(|| big_list(MANY)) as f64 / MANY as f64
    );
    println!("hash of 10 small fields:      {:6} bytes", bytes_of(|| small_hash(10)));
    let mut worst = std::time::Duration::ZERO;
    let (mut set, limits) = (Set::default(), SetLimits::default());
    for number in 0..MANY {
        let begin = std::time::Instant::now();
        set.add(&text16(number), NOW, &limits);
        worst = worst.max(begin.elapsed());
    }
    println!("set, slowest single SADD:     {worst:?}");
    divan::main();
}

/// Cycles through the numbers below `numbers`.
fn turning(numbers: usize) -> impl FnMut() -> usize {
    let mut number = 0;
    move || {
        number = (number + 1) % numbers;
        number
    }
}

mod list {
    use super::*;

    #[divan::bench(args = [10, 1_000, 400_000])]
    fn rpush_lpop(bencher: Bencher, elements: usize) {
        let (mut list, limits) = (big_list(elements), ListLimits::default());
        bencher.bench_local(|| {
            list.push(End::Back, black_box(&[b'v'; 32]), &limits);
            list.pop(End::Front, &limits, |element| element.text_len())
        });
    }

    #[divan::bench(args = [10, 400_000])]
    fn lpush_lpop(bencher: Bencher, elements: usize) {
        let (mut list, limits) = (big_list(elements), ListLimits::default());
        bencher.bench_local(|| {
            list.push(End::Front, black_box(&[b'v'; 32]), &limits);
            list.pop(End::Front, &limits, |element| element.text_len())
        });
    }

    #[divan::bench(counters = [divan::counter::ItemsCount::new(MANY)], sample_count = 10)]
    fn rpush_from_empty(bencher: Bencher) {
        bencher.bench_local(|| big_list(MANY));
    }

    #[divan::bench(counters = [divan::counter::ItemsCount::new(MANY)], sample_count = 10)]
    fn lpush_from_empty(bencher: Bencher) {
        bencher.bench_local(|| {
            let (mut list, limits) = (List::new(), ListLimits::default());
            (0..MANY).for_each(|number| list.push(End::Front, &value32(number), &limits));
            list
        });
    }

    #[divan::bench(counters = [divan::counter::ItemsCount::new(100usize)])]
    fn lrange_100(bencher: Bencher) {
        let (list, mut out) = (big_list(MANY), Vec::with_capacity(100_000));
        bencher.bench_local(|| {
            out.clear();
            list.range(100, 100, |element| element.write_to(&mut out));
            out.len()
        });
    }

    #[divan::bench]
    fn lindex_middle(bencher: Bencher) {
        let list = big_list(MANY);
        bencher.bench_local(|| list.get(black_box(200_000), |element| element.text_len()));
    }
}

mod set {
    use super::*;

    #[divan::bench(counters = [divan::counter::ItemsCount::new(MANY)], sample_count = 10)]
    fn sadd_from_empty(bencher: Bencher) {
        bencher.bench_local(|| big_set(MANY));
    }

    #[divan::bench(counters = [divan::counter::ItemsCount::new(MANY)], sample_count = 10)]
    fn spop_to_empty(bencher: Bencher) {
        bencher.with_inputs(|| (big_set(MANY), fastrand::Rng::with_seed(1))).bench_local_values(
            |(mut set, mut random)| {
                while set.pop_random(&mut random, |element| element.text_len()).is_some() {}
            },
        );
    }

    #[divan::bench(args = [100, 400_000])]
    fn sadd_present(bencher: Bencher, members: usize) {
        let (mut set, limits, mut next) = (big_set(members), SetLimits::default(), turning(members));
        bencher.bench_local(|| set.add(&text16(next()), NOW, &limits));
    }

    #[divan::bench(args = [100, 400_000])]
    fn sismember_absent(bencher: Bencher, members: usize) {
        let (set, mut next) = (big_set(members), turning(members));
        bencher.bench_local(|| set.contains(&text16(next() + MANY), NOW));
    }

    #[divan::bench(args = [100, 400_000])]
    fn srandmember(bencher: Bencher, members: usize) {
        let (set, mut random) = (big_set(members), fastrand::Rng::with_seed(1));
        bencher.bench_local(|| set.random(NOW, &mut random).map(|element| element.text_len()));
    }

    #[divan::bench(counters = [divan::counter::ItemsCount::new(1_000usize)])]
    fn sinter_1000_of_400000(bencher: Bencher) {
        let (small, large) = (big_set(1_000), big_set(MANY));
        bencher.bench_local(|| {
            let mut found = 0;
            intersection(&[&small, &large], NOW, |_| {
                found += 1;
                true
            });
            found
        });
    }

    #[divan::bench(counters = [divan::counter::ItemsCount::new(MANY)], sample_count = 10)]
    fn smembers(bencher: Bencher) {
        let set = big_set(MANY);
        bencher.bench_local(|| set.iter(NOW).map(|element: Element<'_>| element.text_len()).sum::<usize>());
    }
}

mod hash {
    use super::*;

    #[divan::bench(counters = [divan::counter::ItemsCount::new(MANY)], sample_count = 10)]
    fn hset_from_empty(bencher: Bencher) {
        bencher.bench_local(|| big_hash(MANY));
    }

    #[divan::bench(args = [10, 400_000])]
    fn hset_present(bencher: Bencher, fields: usize) {
        let (mut hash, limits, mut next) = (big_hash(fields), HashLimits::default(), turning(fields));
        bencher.bench_local(|| hash.set(&text16(next()), &[b'w'; 32], Expiry::Clear, NOW, &limits));
    }

    #[divan::bench(args = [10, 400_000])]
    fn hget(bencher: Bencher, fields: usize) {
        let (hash, mut next) = (big_hash(fields), turning(fields));
        bencher.bench_local(|| hash.get(&text16(next()), NOW).map(|element| element.text_len()));
    }

    #[divan::bench(counters = [divan::counter::ItemsCount::new(10usize)])]
    fn hset_10_small_fields(bencher: Bencher) {
        bencher.bench_local(|| small_hash(10));
    }

    #[divan::bench(args = [10, 1_000])]
    fn hgetall(bencher: Bencher, fields: usize) {
        let (hash, mut out) = (big_hash(fields), Vec::with_capacity(100_000));
        bencher.counter(divan::counter::ItemsCount::new(fields)).bench_local(|| {
            out.clear();
            for (field, value) in hash.iter(NOW) {
                field.write_to(&mut out);
                value.write_to(&mut out);
            }
            out.len()
        });
    }
}
