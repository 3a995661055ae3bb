// SPDX-License-Identifier: BSD-3-Clause
//! The cost of a unit where it is made (from a request of the journal to bytes for peers) and
//! where it is applied (from bytes to requests for the keyspace), without files, links and the
//! keyspace itself.
//!
//! `cargo bench -p braid-active`; the time is that of [`BATCH`] units on random keys among
//! [`KEYS`].

use std::hint::black_box;

use braid_active::difference::{Difference, apply_with_difference};
use braid_active::effect::Unit;
use braid_active::replica::{Settings, State, ceiling_after};
use braid_active::translate::{Request, Values, translate};
use braid_active::{Bytes, Name, Region, Replica, wire};
use braid_base::alloc::CountingAllocator;
use divan::counter::ItemsCount;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const KEYS: u64 = 100_000;
const BATCH: u64 = 64;
const NOW: u64 = 1_800_000_000_000;

struct NoValues;

impl Values for NoValues {
    fn register(&self, _: &[u8]) -> (u16, u8) {
        (0, 0)
    }

    fn library_name(&self, _: &[u8]) -> Option<Name> {
        None
    }

    fn libraries(&self, _: &[u8]) -> Option<Vec<Bytes>> {
        None
    }
}

/// The benchmarked commands.
const WRITES: [&str; 5] = ["SET", "INCRBY", "HSET", "SADD", "ZADD"];

/// Calls `run` with the request for a key number.
fn request<R>(write: &str, number: u64, run: impl FnOnce(&[&[u8]]) -> R) -> R {
    let name = format!("key:{number:09}");
    let member = format!("member:{}", number % 10);
    let (name, member) = (name.as_bytes(), member.as_bytes());
    let value = [b'v'; 32];
    match write {
        "SET" => run(&[b"SET", name, &value]),
        "INCRBY" => run(&[b"INCRBY", name, b"3"]),
        "HSET" => run(&[b"HSET", name, member, &value]),
        "SADD" => run(&[b"SADD", name, member]),
        _ => run(&[b"ZADD", name, b"1.5", member]),
    }
}

fn replica(number: u8) -> Replica {
    let region = Region::new(number).expect("a region");
    let settings = Settings { region, members: 0b110, ahead_ms_max: 60_000, rules: Default::default() };
    let mut replica = Replica::new(settings, State::default());
    replica.raise_ceiling(ceiling_after(replica.run(), region, NOW, 1_000_000));
    replica
}

/// The encoded unit of a request.
fn make(replica: &mut Replica, write: &str, number: u64) -> Vec<u8> {
    request(write, number, |args| {
        let unit = translate(replica, &NoValues, NOW, &[Request { database: 0, args }]);
        wire::encode(&unit.expect("the request is translated").expect("an effect"))
    })
}

fn take(replica: &mut Replica, units: &[Vec<u8>]) -> usize {
    let units: Vec<Unit> = units.iter().map(|bytes| wire::decode(bytes).expect("a unit")).collect();
    let mut difference = Difference::default();
    for unit in &units {
        apply_with_difference(replica, NOW, unit, &mut difference).expect("the unit is applied");
    }
    let mut words = 0;
    difference.finish(replica, |_, args| words += args.len());
    words
}

/// Two regions that both have all keys.
fn regions(write: &str) -> (Replica, Replica) {
    let (mut one, mut two) = (replica(1), replica(2));
    for number in 0..KEYS {
        let unit = make(&mut one, write, number);
        take(&mut two, &[unit]);
    }
    (one, two)
}

#[divan::bench(args = WRITES, sample_count = 300, sample_size = 10)]
fn made(bencher: divan::Bencher, write: &str) {
    let ((mut one, _), mut random) = (regions(write), fastrand::Rng::with_seed(1));
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        for _ in 0..BATCH {
            black_box(make(&mut one, write, random.u64(0..KEYS)));
        }
    });
}

#[divan::bench(args = WRITES, sample_count = 300, sample_size = 10)]
fn taken(bencher: divan::Bencher, write: &str) {
    let ((mut one, mut two), mut random) = (regions(write), fastrand::Rng::with_seed(1));
    bencher
        .counter(ItemsCount::new(BATCH))
        .with_inputs(|| {
            (0..BATCH).map(|_| make(&mut one, write, random.u64(0..KEYS))).collect::<Vec<Vec<u8>>>()
        })
        .bench_local_values(|units| black_box(take(&mut two, &units)));
}

fn main() {
    divan::main();
}
