// SPDX-License-Identifier: BSD-3-Clause
//! Sorted sets and streams: nanoseconds per operation, and bytes per element (printed first).
//!
//! `cargo bench -p braid-types --bench ranked`

use std::cell::RefCell;

use braid_base::alloc::{CountingAllocator, used_bytes};
use braid_values::sorted_set::{AddRule, PackedLimits, SortedSet};
use braid_values::stream::{BlockLimits, IdRequest, Stream, StreamId};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const MILLION: usize = 1_000_000;
const LIMITS: PackedLimits = PackedLimits { entries_max: 128, value_bytes_max: 64 };

fn main() {
    // Skipped when only some benchmarks are selected.
    if std::env::args().skip(1).all(|argument| argument.starts_with("--")) {
        bytes_per_element();
        longest_single_add();
    }
    divan::main();
}

fn member(number: usize) -> [u8; 16] {
    let mut member = *b"member0000000000";
    let mut rest = number;
    for digit in member[6..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    member
}

#[derive(Clone, Copy, Debug)]
enum Order {
    Random,
    Ascending,
    Equal,
}

fn score(order: Order, number: usize, random: &mut fastrand::Rng) -> f64 {
    match order {
        Order::Random => f64::from(random.u32(..1_000_000_000)),
        Order::Ascending => number as f64,
        Order::Equal => 0.0,
    }
}

fn filled(members: usize, order: Order) -> SortedSet {
    let mut random = fastrand::Rng::with_seed(1);
    let mut set = SortedSet::new();
    for number in 0..members {
        set.add(&member(number), score(order, number, &mut random), AddRule::default(), &LIMITS);
    }
    set
}

fn add_entry(stream: &mut Stream, number: usize, random: &mut fastrand::Rng) {
    let mut value = *b"value00000000";
    value[5..].copy_from_slice(&member(number)[8..]);
    let mut other = *b"other00000000";
    other[5..].copy_from_slice(&member(random.usize(..100_000_000))[8..]);
    let log = stream.log_mut();
    // About ten entries per millisecond.
    let id = StreamId::for_entry(IdRequest::Auto, log.last_id(), 1_700_000_000_000 + number as u64 / 10);
    let pairs: [(&[u8], &[u8]); 2] = [(b"field1", &value), (b"field2", &other)];
    if let Ok(id) = id {
        let _ = log.append(id, &pairs, &BlockLimits::default());
    }
}

fn bytes_per_element() {
    for members in [1_000, 100_000, 400_000, 600_000, MILLION] {
        for order in [Order::Random, Order::Ascending] {
            let before = used_bytes();
            let set = filled(members, order);
            let each = |bytes: usize| bytes as f64 / members as f64;
            let (used, told) = (each(used_bytes() - before), each(set.memory_bytes()));
            println!("zset of {members} {order:?}: {used:.1} bytes a member (memory_bytes says {told:.1})");
        }
    }
    let before = used_bytes();
    let (mut stream, mut random) = (Stream::new(), fastrand::Rng::with_seed(1));
    (0..400_000).for_each(|number| add_entry(&mut stream, number, &mut random));
    let each = |bytes: usize| bytes as f64 / 400_000.0;
    let (used, told) = (each(used_bytes() - before), each(stream.memory_bytes()));
    println!("stream of 400000: {used:.1} bytes an entry (memory_bytes says {told:.1})");
}

/// Growth must not cause a pause. The same million adds are run three times, and the shortest time
/// of each counts: other activity on the machine rarely hits the same add three times.
fn longest_single_add() {
    let mut times = vec![u128::MAX; MILLION];
    for _ in 0..3 {
        let mut random = fastrand::Rng::with_seed(2);
        let mut set = SortedSet::new();
        for (number, time) in times.iter_mut().enumerate() {
            let start = std::time::Instant::now();
            set.add(&member(number), score(Order::Random, number, &mut random), AddRule::default(), &LIMITS);
            *time = start.elapsed().as_nanos().min(*time);
        }
    }
    times.sort_unstable();
    let at = |part: f64| times[((MILLION - 1) as f64 * part) as usize];
    println!(
        "one zadd, ns: half {}, 99.9% {}, 99.99% {}, longest {}",
        at(0.5),
        at(0.999),
        at(0.9999),
        at(1.0)
    );
}

#[divan::bench(args = [Order::Random, Order::Ascending, Order::Equal], sample_count = 3, sample_size = 1)]
fn zadd_to_a_million(bencher: Bencher<'_, '_>, order: Order) {
    bencher.counter(ItemsCount::new(MILLION)).bench_local(|| filled(MILLION, order));
}

/// Runs `operation` on a set of a million members, a thousand times per sample.
fn on_a_million<R>(bencher: Bencher<'_, '_>, operation: impl Fn(&mut SortedSet, &mut fastrand::Rng) -> R) {
    let state = RefCell::new((filled(MILLION, Order::Random), fastrand::Rng::with_seed(5)));
    bencher.counter(ItemsCount::new(1000usize)).bench_local(|| {
        let (set, random) = &mut *state.borrow_mut();
        for _ in 0..1000 {
            black_box(operation(set, random));
        }
    });
}

#[divan::bench]
fn zadd_update_far(bencher: Bencher<'_, '_>) {
    on_a_million(bencher, |set, random| {
        let number = random.usize(..MILLION);
        set.add(&member(number), f64::from(random.u32(..1_000_000_000)), AddRule::default(), &LIMITS)
    });
}

#[divan::bench]
fn zincrby_near(bencher: Bencher<'_, '_>) {
    on_a_million(bencher, |set, random| {
        let rule = AddRule { increment: true, ..AddRule::default() };
        set.add(&member(random.usize(..MILLION)), 1.0, rule, &LIMITS)
    });
}

#[divan::bench]
fn zadd_new_to_a_million(bencher: Bencher<'_, '_>) {
    on_a_million(bencher, |set, random| {
        let number = random.usize(MILLION..9_999_999_999);
        set.add(&member(number), f64::from(random.u32(..1_000_000_000)), AddRule::default(), &LIMITS)
    });
}

#[divan::bench]
fn zscore(bencher: Bencher<'_, '_>) {
    on_a_million(bencher, |set, random| set.view(0).score(&member(random.usize(..MILLION))));
}

#[divan::bench]
fn zrank(bencher: Bencher<'_, '_>) {
    on_a_million(bencher, |set, random| set.view(0).rank(&member(random.usize(..MILLION))));
}

#[divan::bench]
fn zrange_100_at_random_ranks(bencher: Bencher<'_, '_>) {
    on_a_million(bencher, |set, random| {
        let start = random.usize(..MILLION - 100);
        let view = set.view(0);
        let mut out = [0u8; 16];
        for (member, score) in view.iter(start..start + 100) {
            // Reads every byte, as a reply would.
            if let braid_containers::listpack::Element::Bytes(bytes) = member {
                out.iter_mut().zip(bytes).for_each(|(to, from)| *to ^= from);
            }
            black_box(score);
        }
        out
    });
}

#[divan::bench]
fn zpopmin_then_zadd(bencher: Bencher<'_, '_>) {
    on_a_million(bencher, |set, random| {
        let mut popped = [0u8; 16];
        set.pop_min(1, |member, _| {
            if let braid_containers::listpack::Element::Bytes(bytes) = member {
                popped.copy_from_slice(bytes);
            }
        });
        set.add(&popped, f64::from(random.u32(..1_000_000_000)), AddRule::default(), &LIMITS)
    });
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn zpopmin_all_of_a_million(bencher: Bencher<'_, '_>) {
    bencher
        .counter(ItemsCount::new(MILLION))
        .with_inputs(|| filled(MILLION, Order::Random))
        .bench_local_refs(|set| while set.pop_min(1, |member, score| _ = black_box((member, score))) > 0 {});
}

#[divan::bench]
fn zadd_and_zrem_packed_50(bencher: Bencher<'_, '_>) {
    let mut random = fastrand::Rng::with_seed(5);
    let mut set = filled(50, Order::Random);
    bencher.counter(ItemsCount::new(1usize)).bench_local(|| {
        let member = member(1000 + random.usize(..50));
        set.add(&member, f64::from(random.u32(..1_000_000_000)), AddRule::default(), &LIMITS);
        set.remove(&member)
    });
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn xadd_400000(bencher: Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(400_000usize)).bench_local(|| {
        let (mut stream, mut random) = (Stream::new(), fastrand::Rng::with_seed(1));
        (0..400_000).for_each(|number| add_entry(&mut stream, number, &mut random));
        stream
    });
}

#[divan::bench]
fn xrange_100_at_random_ids(bencher: Bencher<'_, '_>) {
    let (mut stream, mut random) = (Stream::new(), fastrand::Rng::with_seed(1));
    (0..400_000).for_each(|number| add_entry(&mut stream, number, &mut random));
    bencher.counter(ItemsCount::new(100usize)).bench_local(|| {
        let start = StreamId::new(1_700_000_000_000 + random.u64(..39_000), 0);
        let mut bytes = 0;
        for entry in stream.log().range(start, StreamId::MAX).take(100) {
            for (field, value) in entry.fields {
                bytes += field.text_len() + value.text_len();
            }
        }
        bytes
    });
}
