// SPDX-License-Identifier: BSD-3-Clause
//! Slot moves from a source whose clients write without a pause, faster than the target takes the
//! changes. The move may have 16 MB of unsent changes, and hands the slots over once 64 KB are
//! unsent. So it succeeds only if it makes the writers wait.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};

use braid_tests::process::processor_time;
use braid_tests::{RawClient, Value, request};

use crate::Cluster;
use crate::moves::{Stopped, begin, newest, ok, wait_for_keys};

const WRITERS: usize = 4;
/// Keys of a writer; each batch sets all of them to its number, padded.
const KEYS: usize = 100;
/// Batches that a writer sends before it reads replies.
const AHEAD: u64 = 4;

/// Writes to a tag's slot until `stop` is set. Returns the last number that was acknowledged for
/// each key.
fn write(mut client: RawClient, tag: &str, writer: usize, stop: &AtomicBool, began: &AtomicBool) -> Vec<u64> {
    let (mut acknowledged, pad, mut number) = (vec![0; KEYS], "x".repeat(1000), 0);
    let mut answered = 0;
    while answered < number || !stop.load(Relaxed) {
        while number < answered + AHEAD && !stop.load(Relaxed) {
            number += 1;
            let set = |key| request(&format!("SET {{{tag}}}:{writer}:{key} {number}:{pad}"));
            client.send(&(0..KEYS).map(set).collect::<Vec<_>>().concat());
        }
        if answered == number {
            break;
        }
        answered += 1;
        for last in &mut acknowledged {
            match client.read() {
                reply if reply == ok() => *last = answered,
                reply => assert!(reply.to_string().contains("MOVED"), "{reply}"),
            }
        }
        began.store(true, SeqCst);
    }
    acknowledged
}

/// Moves slot 866 (hello) to n1 while clients write to the slot of `tag`, which n0 has. The target
/// runs for a quarter of the time.
fn move_under_writers(tag: &'static str) {
    let limit = "replica 16mb 0 0";
    let more =
        ["--cluster-slot-migration-handoff-max-lag-bytes", "64kb", "--client-output-buffer-limit", limit];
    let Some(cluster) = Cluster::create(2, 2, &more) else { return };
    for number in 0..1000 {
        cluster.client(0).ok(&format!("SET {{hello}}:other:{number} x"));
    }
    let stop = AtomicBool::new(false);
    let began: Vec<AtomicBool> = (0..WRITERS).map(|_| AtomicBool::new(false)).collect();
    let acknowledged: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let writer = |writer: usize| {
            let (client, stop, began) = (cluster.client(0), &stop, &began[writer]);
            scope.spawn(move || write(client, tag, writer, stop, began))
        };
        let writers: Vec<_> = (0..WRITERS).map(writer).collect();
        let (slow, limped) = (&cluster, &stop);
        scope.spawn(move || {
            let process_id = slow.nodes[1].process_id();
            while !limped.load(Relaxed) {
                let stopped = Stopped::new(slow, 1);
                std::thread::sleep(Duration::from_millis(30));
                drop(stopped);
                // On a busy machine it may get no processor within the 10 ms of its own.
                let (before, since) = (processor_time(process_id), Instant::now());
                while processor_time(process_id) == before && since.elapsed() < Duration::from_millis(100) {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        });
        let started = Instant::now();
        let moved = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            cluster.wait_for("all clients write", || began.iter().all(|began| began.load(SeqCst)));
            assert_eq!(begin(&cluster, 0, 1, "866 866"), ok());
            cluster.wait_for("the move succeeds while clients write", || {
                let (state, message) = newest(&cluster, 0).unwrap_or_default();
                assert_ne!(state, "failed", "{message}");
                state == "success"
            });
        }));
        stop.store(true, Relaxed);
        println!("the move of slot 866 took {:?}, beside writes to {tag}", started.elapsed());
        let acknowledged = writers.into_iter().map(|writer| writer.join().expect("right replies")).collect();
        moved.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        acknowledged
    });
    let log = cluster.nodes[0].log();
    log.lines().filter(|line| line.contains("writes to its slots wait")).for_each(|line| println!("{line}"));
    let mut keys = 1000;
    for (writer, acknowledged) in acknowledged.iter().enumerate() {
        for (key, number) in acknowledged.iter().enumerate() {
            let Value::Bulk(value) = cluster.call(&format!("GET {{{tag}}}:{writer}:{key}")) else { panic!() };
            assert!(value.starts_with(format!("{number}:").as_bytes()), "{writer} {key} {number}");
            keys += 1;
        }
    }
    wait_for_keys(&cluster, &[0, 1], keys);
    // Nothing waits any longer.
    assert_eq!(cluster.call("SET {bar} x"), ok());
}

#[test]
fn a_move_ends_though_its_slot_is_written_to_without_a_pause() {
    move_under_writers("hello");
}

#[test]
fn a_move_ends_though_other_slots_are_written_to_without_a_pause() {
    move_under_writers("bar");
}
