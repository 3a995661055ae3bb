// SPDX-License-Identifier: BSD-3-Clause
//! Several threads on overlapping keys: no torn values, no memory freed too early, none leaked.
//!
//! A single test function, because it counts the live bytes of the whole process.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use braid_base::alloc::{CountingAllocator, used_bytes};
use braid_base::hash::KeyHasher;
use braid_keyspace::context::Context;
use braid_keyspace::entry::{Entry, Value, ValueRef};
use braid_keyspace::keyspace::{Keyspace, Shape};
use braid_keyspace::txn::{Expiry, KeyRef, Optimistic, Txn};
use braid_keyspace::{Event, expiry, scan};

const EVENT: Event = Event::string("edited");

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const KEYS: u64 = 60;
const NOW: i64 = 1_000_000;
/// Divisor of the number of rounds.
const SHORTENING: u32 = if cfg!(miri) { 100 } else { 1 };

/// A text of `len` bytes that proves its integrity: each byte depends on the first byte and the
/// length.
fn whole(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| if at == 0 { seed } else { byte_at(seed, len, at) }).collect()
}

fn byte_at(seed: u8, len: usize, at: usize) -> u8 {
    (u32::from(seed).wrapping_mul(31) + (len as u32).wrapping_mul(7) + at as u32) as u8 | 0x80
}

fn assert_not_torn(text: &[u8]) {
    let Some(&seed) = text.first() else { return };
    for (at, &byte) in text.iter().enumerate().skip(1) {
        assert_eq!(byte, byte_at(seed, text.len(), at), "torn at {at} of {}", text.len());
    }
}

fn assert_entry_not_torn(entry: Entry<'_>) {
    match entry.value() {
        ValueRef::Bytes(bytes) => assert_not_torn(bytes),
        ValueRef::Blob(blob) => assert_not_torn(blob),
        ValueRef::Integer(number) => assert_eq!(number % 1_000_003, 0, "an integer that was never written"),
        ValueRef::Object(_) => panic!("no thread creates collections"),
    }
}

/// Lengths of all shapes: embedded, at its limit, blobs.
const LENGTHS: [usize; 8] = [1, 8, 11, 11, 40, 500, 1024, 3000];

struct Worker<'a> {
    keyspace: &'a Keyspace,
    context: Context,
    random: fastrand::Rng,
    names: &'a [String],
}

impl Worker<'_> {
    fn batch(&mut self, writes: bool) -> u64 {
        let slot = self.context.slot;
        self.keyspace.gate.enter(slot);
        let mut confirmed = 0;
        for _ in 0..self.random.u32(1..20) {
            if writes {
                self.write();
            } else {
                confirmed += u64::from(self.look());
            }
        }
        self.keyspace.gate.leave(slot);
        self.context.limbo.reclaim();
        confirmed
    }

    fn write(&mut self) {
        let keyspace = self.keyspace;
        let (one, other) = (self.name(), self.name());
        let keys: Vec<_> = [one, other]
            .map(|key| KeyRef { key, hash: keyspace.hash(key), write: true })
            .into_iter()
            .collect();
        let (seed, len) = (self.random.u8(..) | 0x80, LENGTHS[self.random.usize(0..LENGTHS.len())]);
        let choice = self.random.u32(0..1000);
        let expiry = match self.random.u32(0..4) {
            0 => Expiry::At(NOW + self.random.i64(-2..100)),
            1 => Expiry::Keep,
            _ => Expiry::Clear,
        };
        if choice == 0 {
            // FLUSHALL, SWAPDB: this thread may hold no lock.
            let world = keyspace.gate.stop_world(Some(self.context.slot));
            if self.random.bool() {
                let flushed = keyspace.flush(&world, None);
                if self.random.bool() {
                    flushed.free_in_background(&keyspace.lazy_free, None);
                }
            } else {
                Txn::world(keyspace, &mut self.context, world, 0, NOW).swap_databases(0, 1);
            }
            return;
        }
        if choice < 10 {
            expiry::expire_due(keyspace, &mut self.context, (0, 1), NOW, 100);
            return;
        }
        let mut txn = Txn::lock(keyspace, &mut self.context, 0, NOW, &keys);
        match choice {
            10..400 => txn.set(one, Value::string(&whole(seed, len)), expiry),
            400..500 => txn.set(one, Value::Integer(i64::from(seed) * 1_000_003), expiry),
            500..650 => drop(txn.delete(one)),
            650..800 => drop(txn.rename(one, 0, other)),
            800..850 => drop(txn.copy(one, 0, other)),
            850..900 => drop(txn.set_expiry(one, choice.is_multiple_of(2).then_some(NOW + 50))),
            _ => {
                // APPEND: rewrite the whole text, so that its integrity can still be checked.
                let grown = txn.edit_string(EVENT, one, len, |bytes, _| {
                    bytes.copy_from_slice(&whole(seed, bytes.len()));
                    ((), 1)
                });
                grown.expect("a string");
            }
        }
    }

    fn look(&mut self) -> bool {
        let (keyspace, name) = (self.keyspace, self.name());
        let key = KeyRef { key: name, hash: keyspace.hash(name), write: false };
        let mut out = [0; 1024];
        let mut len = 0;
        keyspace.prefetch_bucket(0, key.hash);
        keyspace.prefetch_entry(0, key.hash);
        let outcome = keyspace.read_optimistic(&self.context, 0, NOW, &key, |room| {
            len = room;
            &mut out[..room]
        });
        match outcome {
            Optimistic::Copied => assert_not_torn(&out[..len]),
            Optimistic::Integer(number) => assert_eq!(number % 1_000_003, 0),
            Optimistic::Missing => {}
            Optimistic::Failed | Optimistic::Large(_) => {
                let keys = [key];
                let txn = Txn::lock(keyspace, &mut self.context, 0, NOW, &keys);
                if let Some(entry) = txn.read(name) {
                    assert_entry_not_torn(entry);
                }
            }
        }
        match self.random.u32(0..200) {
            0 => {
                let cursor = scan::scan(keyspace, 0, 0, 20, assert_entry_not_torn);
                scan::scan(keyspace, 0, cursor, 20, assert_entry_not_torn);
            }
            1 => drop(scan::random_key(keyspace, &mut self.context, 0, NOW, &mut Vec::new())),
            2 => Txn::lock_all_shared(keyspace, &mut self.context, 0, NOW).for_each(assert_entry_not_torn),
            _ => {}
        }
        outcome == Optimistic::Copied
    }

    fn name<'n>(&mut self) -> &'n [u8]
    where
        Self: 'n,
    {
        // Half of all operations fall on three keys.
        let at =
            if self.random.bool() { self.random.usize(0..3) } else { self.random.usize(0..self.names.len()) };
        let name: *const [u8] = self.names[at].as_bytes();
        // SAFETY: the names outlive every worker.
        unsafe { &*name }
    }
}

/// Runs `threads` threads, of which all but the first (if there are several) write as well as
/// read; returns the number of confirmed optimistic reads.
fn hammer(threads: usize, shards: usize, rounds: u32) -> (u64, u64) {
    let shape = Shape { shards, databases: 2, threads, threads_max: threads };
    let keyspace = Keyspace::new(shape, KeyHasher::with_key(b"0123456789abcdef"));
    let names: Vec<String> = (0..KEYS).map(|n| format!("key:{n}")).collect();
    let (confirmed, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let contexts: Vec<_> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|slot| {
                let (keyspace, names, confirmed, stop) = (&keyspace, &names[..], &confirmed, &stop);
                scope.spawn(move || {
                    let context = Context::new(keyspace, slot);
                    let random = fastrand::Rng::with_seed(slot as u64 + 1);
                    let mut worker = Worker { keyspace, context, random, names };
                    let mut round = 0;
                    let reader = slot == 0 && threads > 1;
                    while if reader { !stop.load(Relaxed) } else { round < rounds } {
                        confirmed.fetch_add(worker.batch(!reader && round % 2 == 0), Relaxed);
                        round += 1;
                    }
                    stop.store(true, Relaxed);
                    worker.context
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().expect("no assertion failed")).collect()
    });
    let failures = keyspace.total(|counters| counters.optimistic_failures.get());
    // All memory in limbo can be freed now that no thread is inside.
    drop(contexts);
    let world = keyspace.gate.stop_world(None);
    drop(keyspace.flush(&world, None));
    drop(world);
    let patience = Instant::now();
    while keyspace.lazy_free.pending() > 0 {
        assert!(patience.elapsed() < Duration::from_secs(20), "the background thread does not finish");
        std::thread::yield_now();
    }
    (confirmed.load(Relaxed), failures)
}

#[test]
fn values_are_never_torn_and_memory_is_neither_lost_nor_freed_early() {
    // A first run for allocations made only once and then kept: thread-locals, standard streams.
    hammer(2, 1, 100 / SHORTENING);
    let mut before = used_at_rest();
    for (threads, shards, rounds) in [(1, 4, 2_000), (2, 1, 8_000), (2, 64, 8_000), (4, 4, 4_000)] {
        let (confirmed, failures) = hammer(threads, shards, rounds / SHORTENING);
        let after = used_at_rest();
        if threads > 1 {
            let least = 1_000 / u64::from(SHORTENING);
            assert!(confirmed > least, "too few optimistic reads: {confirmed}");
        }
        println!("{threads} threads, {shards} shards: {confirmed} optimistic reads, {failures} repeated");
        assert!(after <= before + 4096, "{} bytes leaked by {threads} threads", after - before);
        before = before.max(after);
    }
}

/// Live bytes after all ending threads have ended.
fn used_at_rest() -> usize {
    std::thread::sleep(Duration::from_millis(50));
    used_bytes()
}
