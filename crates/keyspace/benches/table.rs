// SPDX-License-Identifier: BSD-3-Clause
//! The table on its own: look-ups, insertions and removals at several sizes, the slowest single
//! insertion, and bytes per key.
//!
//! `cargo bench -p braid-keyspace --bench table`; with BRAID_BENCH_LARGE=1 also at 20 million keys
//! (2 GiB). With _RJEM_MALLOC_CONF=dirty_decay_ms:-1 the allocator keeps freed memory, so only the
//! first round includes the time that the kernel takes to provide pages.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use braid_base::alloc::{CountingAllocator, used_bytes};
use braid_base::gate::Gate;
use braid_base::hash::KeyHasher;
use braid_keyspace::entry::{Entry, Value};
use braid_keyspace::lazy_free::LazyFree;
use braid_keyspace::limbo::Limbo;
use braid_keyspace::table::Table;
use rustix::time::{ClockId, clock_gettime};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const SMALL: u64 = 1_000;
const MIDDLE: u64 = 1_000_000;
const LARGE: u64 = 20_000_000;
const SHARD_BITS: u32 = 10;
/// Upper limit for a single insertion.
const LONG: Duration = Duration::from_millis(2);

/// One table for each shard of a keyspace.
struct Tables {
    tables: Vec<Table>,
    limbo: Limbo,
    hasher: KeyHasher,
}

fn name(n: u64) -> [u8; 16] {
    let mut name = *b"key:000000000000";
    let mut rest = n;
    for digit in name[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    name
}

impl Tables {
    fn empty() -> Tables {
        let limbo = Limbo::new(Arc::new(Gate::new(1)), LazyFree::start());
        let tables = (0..1 << SHARD_BITS).map(|_| Table::default()).collect();
        Tables { tables, limbo, hasher: KeyHasher::with_key(b"0123456789abcdef") }
    }

    fn filled(keys: u64) -> Tables {
        let mut tables = Tables::empty();
        (0..keys).for_each(|n| tables.insert(n));
        tables
    }

    fn insert(&mut self, n: u64) {
        let name = name(n);
        let hash = self.hasher.hash(&name);
        let entry = Entry::allocate(&name, Value::Bytes { bytes: &[b'v'; 32], raw: false }, None, 0);
        let hasher = self.hasher;
        let table = &self.tables[(hash >> (64 - SHARD_BITS)) as usize];
        // SAFETY: the only thread; the key is not there.
        unsafe { table.insert(hash, SHARD_BITS, entry, &mut self.limbo, &|key| hasher.hash(key)) };
    }

    fn find(&self, n: u64) -> Option<Entry<'_>> {
        let name = name(n);
        let hash = self.hasher.hash(&name);
        // SAFETY: the only thread.
        unsafe { self.tables[(hash >> (64 - SHARD_BITS)) as usize].find(hash, SHARD_BITS, &name) }
    }

    fn remove(&mut self, n: u64) {
        let hash = self.hasher.hash(&name(n));
        let Some(entry) = self.find(n) else { return };
        // SAFETY: the only thread; the entry is linked and released once.
        unsafe {
            let entry = Entry::from_address(entry.address());
            self.tables[(hash >> (64 - SHARD_BITS)) as usize].remove(
                hash,
                SHARD_BITS,
                entry,
                &mut self.limbo,
            );
            self.limbo.retire_entry(entry);
        }
    }
}

fn sizes() -> Vec<u64> {
    let large = std::env::var_os("BRAID_BENCH_LARGE").is_some_and(|value| value == "1");
    [SMALL, MIDDLE].into_iter().chain(large.then_some(LARGE)).collect()
}

#[divan::bench(args = sizes(), sample_count = 20, sample_size = 20_000)]
fn find_hit(bencher: divan::Bencher, keys: u64) {
    let (tables, mut random) = (Tables::filled(keys), fastrand::Rng::with_seed(1));
    bencher.bench_local(|| black_box(tables.find(random.u64(0..keys))).is_some());
}

#[divan::bench(args = sizes(), sample_count = 20, sample_size = 20_000)]
fn find_miss(bencher: divan::Bencher, keys: u64) {
    let (tables, mut random) = (Tables::filled(keys), fastrand::Rng::with_seed(1));
    bencher.bench_local(|| black_box(tables.find(keys + random.u64(0..keys))).is_some());
}

/// A removal and an insertion, so that the number of keys stays the same.
#[divan::bench(args = sizes(), sample_count = 20, sample_size = 20_000)]
fn remove_and_insert(bencher: divan::Bencher, keys: u64) {
    let (mut tables, mut random) = (Tables::filled(keys), fastrand::Rng::with_seed(1));
    bencher.bench_local(|| {
        let n = random.u64(0..keys);
        tables.remove(n);
        tables.insert(n);
    });
}

#[divan::bench(args = [SMALL, MIDDLE], sample_count = 3, sample_size = 1)]
fn fill(bencher: divan::Bencher, keys: u64) {
    bencher.bench_local(|| Tables::filled(keys));
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

/// Processor time of this thread, excluding the time of other programs.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Prints the overhead of a key of 16 bytes with a value of 32 bytes, and the slowest insertion, in
/// wall time and in processor time.
fn report(keys: u64) {
    let (used, resident) = (used_bytes(), resident_bytes());
    let mut tables = Tables::empty();
    let (mut slowest, mut slowest_running, mut total) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let mut over = 0;
    for n in 0..keys {
        let running = processor_time();
        let start = Instant::now();
        tables.insert(n);
        let took = start.elapsed();
        slowest_running = slowest_running.max(processor_time() - running);
        slowest = slowest.max(took);
        over += u64::from(took > LONG);
        total += took;
    }
    let per_key = |bytes: usize| bytes as f64 / keys as f64 - 48.0;
    println!(
        "{keys} keys: {:.0} ns an insertion; the slowest {:.1} us by the clock ({over} over {LONG:?}), {:.1} us in processor time; \
         over 48 bytes of content {:.1} bytes a key allocated, {:.1} resident",
        total.as_nanos() as f64 / keys as f64,
        slowest.as_nanos() as f64 / 1000.0,
        slowest_running.as_nanos() as f64 / 1000.0,
        per_key(used_bytes() - used),
        per_key(resident_bytes() - resident),
    );
}

fn main() {
    // Only a full run reports; `cargo test` runs each bench only briefly, to see that it works.
    if std::env::args().any(|argument| argument == "--bench") {
        for keys in sizes().into_iter().filter(|&keys| keys >= MIDDLE) {
            report(keys);
            print!("in memory used before: ");
            report(keys);
        }
    }
    divan::main();
}
