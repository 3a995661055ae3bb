// SPDX-License-Identifier: BSD-3-Clause
//! The lock, the optimistic version, the gate and the epochs under the model checker, which
//! explores interleavings of their real code:
//! `cargo test -p braid-base --features model --test model`.
//!
//! Each model runs twice: with the unmodified code, where every explored schedule must pass and
//! finish, and with a planted fault, where some schedule must fail. A model that passes with its
//! fault proves nothing.
//!
//! The checker explores schedules, not weak memory: execution is sequentially consistent. Where
//! hardware may change an order that matters, the model makes that change itself (see `retire`).

#![cfg(feature = "model")]

use std::panic::catch_unwind;

use braid_base::gate::{EPOCHS, Gate};
use braid_base::lock::ShardLock;
use braid_base::sync::{Fault, explore, holds_unless};
use shuttle::sync::Arc;
use shuttle::sync::atomic::Ordering::SeqCst;
use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use shuttle::thread;

const SCHEDULES: usize = 3_000;

fn run(threads: Vec<Box<dyn FnOnce() + Send>>) {
    let handles: Vec<_> = threads.into_iter().map(thread::spawn).collect();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
}

/// Two writers and two readers, each twice; `inside` counts writers in the upper half and readers
/// in the lower.
fn readers_and_writers() {
    let lock = Arc::new(ShardLock::default());
    let inside = Arc::new(AtomicU32::new(0));
    let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for writes in [true, true, false, false] {
        let (lock, inside) = (Arc::clone(&lock), Arc::clone(&inside));
        threads.push(Box::new(move || {
            for _ in 0..2 {
                if writes {
                    lock.lock_exclusive();
                    assert_eq!(
                        inside.fetch_add(1 << 16, SeqCst),
                        0,
                        "a writer entered beside another thread"
                    );
                    thread::yield_now();
                    assert_eq!(
                        inside.fetch_sub(1 << 16, SeqCst),
                        1 << 16,
                        "another thread entered beside a writer"
                    );
                    lock.unlock_exclusive();
                } else {
                    lock.lock_shared();
                    assert!(inside.fetch_add(1, SeqCst) < 1 << 16, "a reader entered beside a writer");
                    thread::yield_now();
                    assert!(inside.fetch_sub(1, SeqCst) < 1 << 16, "a writer entered beside a reader");
                    lock.unlock_shared();
                }
            }
        }));
    }
    run(threads);
    assert!(!lock.is_locked());
    assert!(lock.begin().is_some());
}

#[test]
fn writers_are_alone() {
    holds_unless(Fault::WriterIgnoresReaders, SCHEDULES, readers_and_writers);
}

#[test]
fn every_waiting_thread_eventually_enters() {
    // Finishing is the assertion: the checker reports a deadlock when all threads sleep.
    holds_unless(Fault::NobodyIsWoken, SCHEDULES, readers_and_writers);
}

/// A writer changes two words under the lock; a reader without it must never accept a mixed pair.
fn optimistic_reading() {
    let lock = Arc::new(ShardLock::default());
    let pair = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for writer in 0..2u64 {
        let (lock, pair) = (Arc::clone(&lock), Arc::clone(&pair));
        threads.push(Box::new(move || {
            for round in 0..2 {
                lock.lock_exclusive();
                pair.iter().for_each(|half| half.store(10 * (writer + 1) + round, SeqCst));
                lock.unlock_exclusive();
            }
        }));
    }
    let (reader_lock, reader_pair) = (Arc::clone(&lock), Arc::clone(&pair));
    threads.push(Box::new(move || {
        for round in 0..4 {
            // A shared holder must not make optimistic readers fail or succeed wrongly.
            if round == 2 {
                reader_lock.lock_shared();
            }
            if let Some(version) = reader_lock.begin() {
                let seen = [reader_pair[0].load(SeqCst), reader_pair[1].load(SeqCst)];
                if reader_lock.unchanged(version) {
                    assert_eq!(seen[0], seen[1], "a torn pair was accepted");
                }
            }
            if round == 2 {
                reader_lock.unlock_shared();
            }
        }
    }));
    run(threads);
}

#[test]
fn an_accepted_optimistic_read_is_of_one_version() {
    holds_unless(Fault::VersionStays, SCHEDULES, optimistic_reading);
}

/// Three executing threads, two of which stop the world from inside, and one outsider that stops it
/// too.
fn stopping_the_world() {
    let gate = Arc::new(Gate::new(3));
    let inside = Arc::new(AtomicU32::new(0));
    let closers = Arc::new(AtomicU32::new(0));
    let stop = |gate: &Gate, slot, inside: &AtomicU32, closers: &AtomicU32| {
        let world = gate.stop_world(slot);
        assert_eq!(closers.fetch_add(1, SeqCst), 0, "two threads hold the world stopped");
        assert_eq!(inside.load(SeqCst), 0, "a thread is inside a stopped world");
        thread::yield_now();
        assert_eq!(inside.load(SeqCst), 0, "a thread entered a stopped world");
        closers.fetch_sub(1, SeqCst);
        drop(world);
    };
    let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for slot in 0..3 {
        let (gate, inside, closers) = (Arc::clone(&gate), Arc::clone(&inside), Arc::clone(&closers));
        threads.push(Box::new(move || {
            for _ in 0..2 {
                gate.enter(slot);
                inside.fetch_add(1, SeqCst);
                thread::yield_now();
                inside.fetch_sub(1, SeqCst);
                if slot > 0 {
                    stop(&gate, Some(slot), &inside, &closers);
                    assert!(gate.is_inside(slot), "a closer that was inside is not inside again");
                    inside.fetch_add(1, SeqCst);
                    thread::yield_now();
                    inside.fetch_sub(1, SeqCst);
                }
                gate.leave(slot);
            }
        }));
    }
    let (outer_gate, outer_inside, outer_closers) =
        (Arc::clone(&gate), Arc::clone(&inside), Arc::clone(&closers));
    threads.push(Box::new(move || stop(&outer_gate, None, &outer_inside, &outer_closers)));
    run(threads);
}

#[test]
fn no_thread_is_inside_a_stopped_world() {
    holds_unless(Fault::EnterUnchecked, SCHEDULES, stopping_the_world);
}

#[test]
fn closers_from_inside_do_not_wait_for_each_other() {
    holds_unless(Fault::CloserStaysInside, SCHEDULES, stopping_the_world);
}

const NODES: usize = 4;

/// A word that names the current node, and the set of freed nodes.
struct Memory {
    gate: Gate,
    current: AtomicUsize,
    freed: [AtomicBool; NODES],
}

/// A writer replaces the node twice, retires the old ones and frees them `wait` epochs later; two
/// readers follow the word.
fn reclamation(wait: u64) {
    let memory = Arc::new(Memory {
        gate: Gate::new(3),
        current: AtomicUsize::new(0),
        freed: [const { AtomicBool::new(false) }; NODES],
    });
    let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for slot in 1..3 {
        let memory = Arc::clone(&memory);
        threads.push(Box::new(move || {
            for _ in 0..2 {
                memory.gate.enter(slot);
                let node = memory.current.load(SeqCst);
                thread::yield_now();
                assert!(!memory.freed[node].load(SeqCst), "freed while a reader uses it");
                memory.gate.leave(slot);
                memory.gate.try_advance();
            }
        }));
    }
    let writer = Arc::clone(&memory);
    threads.push(Box::new(move || {
        let mut waiting = Vec::new();
        for node in 1..NODES {
            writer.gate.enter(0);
            waiting.push(retire(&writer, node));
            writer.gate.leave(0);
            free(&writer, &mut waiting, wait);
        }
        while !waiting.is_empty() {
            free(&writer, &mut waiting, wait);
            thread::yield_now();
        }
    }));
    run(threads);
    assert!(
        (0..NODES).all(|node| memory.freed[node].load(SeqCst) == (node != NODES - 1)),
        "a replaced node is not freed, or the current one is"
    );
}

/// Unlinks the current node. The epoch is read first: hardware may do so, since nothing orders a
/// store before a later load.
fn retire(memory: &Memory, next: usize) -> (u64, usize) {
    let since = memory.gate.epoch();
    (since, memory.current.swap(next, SeqCst))
}

fn free(memory: &Memory, waiting: &mut Vec<(u64, usize)>, wait: u64) {
    let epoch = memory.gate.try_advance();
    waiting.retain(|&(since, node)| {
        let ripe = since + wait <= epoch;
        if ripe {
            memory.freed[node].store(true, SeqCst);
        }
        !ripe
    });
}

#[test]
fn nothing_is_freed_while_a_reader_may_see_it() {
    holds_unless(Fault::EpochIgnoresReaders, SCHEDULES, || reclamation(EPOCHS));
}

#[test]
fn one_epoch_less_would_not_do() {
    let outcome = catch_unwind(|| explore(SCHEDULES, || reclamation(EPOCHS - 1)));
    assert!(outcome.is_err(), "the model does not notice a missing epoch");
}
